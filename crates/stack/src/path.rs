//! What is known of the way to a peer: how large a datagram may be, and whether its address is still right.
//!
//! A probe is a TPDU that no TCP would send: neither ACK, SYN nor RST is set, so a transport that does
//! not know probes drops it (RFC 9293, section 3.10.7.4). Sequence and acknowledgement number carry a nonce,
//! zeros fill it up to the size that is tried. The answer has PSH set, the same nonce, and no payload:
//! whoever answers is at that address and got the whole datagram. `docs/encapsulation.md`, section 4.

use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::{Instant, Seq};
use fusewire_transport::plpmtud::{self, Search};
use fusewire_wire::tcp::{Flags, Header};

/// An answer is late after this.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A probe to send.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub to: SocketAddr,
    pub nonce: u64,
    /// Bytes of the whole datagram.
    pub size: usize,
}

/// The way to one peer.
#[derive(Debug)]
pub struct Path {
    /// `None` where the largest datagram is known.
    search: Option<Search>,
    nonce: u64,
    /// Bytes of the datagram that the last probe tried.
    probed: usize,
    /// Bytes of stream that were acknowledged when the size was last known to get through.
    confirmed: u64,
    /// An address that the peer may have now, asked with this nonce.
    candidate: Option<(SocketAddr, u64, Instant)>,
}

/// What a frame without ACK, SYN and RST is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Probe,
    Answer,
}

/// Tells probes and answers from segments.
pub fn kind(header: &Header) -> Option<Kind> {
    match header.flags {
        Flags(0) => Some(Kind::Probe),
        Flags::PSH => Some(Kind::Answer),
        _ => None,
    }
}

/// The nonce of a probe or an answer.
pub fn nonce(header: &Header) -> u64 {
    u64::from(header.seq.0) << 32 | u64::from(header.ack.0)
}

/// The header of a probe or an answer.
pub fn header(ports: (u16, u16), nonce: u64, kind: Kind) -> Header {
    let flags = match kind {
        Kind::Probe => Flags(0),
        Kind::Answer => Flags::PSH,
    };
    Header {
        src_port: ports.0,
        dst_port: ports.1,
        seq: Seq((nonce >> 32) as u32),
        ack: Seq(nonce as u32),
        flags,
        ..Header::default()
    }
}

impl Path {
    /// A way whose largest datagram is known.
    pub fn known(nonce: u64) -> Self {
        Path { search: None, nonce, probed: 0, confirmed: 0, candidate: None }
    }

    /// A way that carries at most `max` bytes in a datagram, to be found out.
    pub fn unknown(nonce: u64, max: usize) -> Self {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let config =
            plpmtud::Config { max, probe_timeout: PROBE_TIMEOUT, ..plpmtud::Config::default() };
        Path { search: Some(Search::new(&config, false)), ..Path::known(nonce) }
    }

    /// The largest datagram that may be sent, where that is not known from the start.
    pub fn size(&self) -> Option<usize> {
        self.search.as_ref().map(|s| s.size() as usize)
    }

    /// The next probe of a size.
    pub fn poll_probe(&mut self, now: Instant, to: SocketAddr) -> Option<Probe> {
        let search = self.search.as_mut()?;
        search.handle_timeout(now);
        let size = search.poll_probe(now)?;
        search.on_probe_sent(now, size);
        self.nonce = next(self.nonce);
        self.probed = size as usize;
        Some(Probe { to, nonce: self.nonce, size: size as usize })
    }

    /// When [`Path::poll_probe`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.search.as_ref().and_then(Search::poll_timeout)
    }

    /// An answer came from the peer's address. True when larger datagrams may be sent now.
    pub fn handle_answer(&mut self, now: Instant, answered: u64) -> bool {
        let Some(search) = self.search.as_mut().filter(|_| answered == self.nonce) else {
            return false;
        };
        let before = search.size();
        search.on_delivered(now, self.probed as u32);
        search.size() > before
    }

    /// The device could not send a datagram of `size` bytes. True when smaller ones must be sent now.
    pub fn too_big(&mut self, now: Instant, size: usize) -> bool {
        let Some(search) = &mut self.search else { return false };
        let before = search.size();
        search.on_too_big(now, (size as u32).saturating_sub(1));
        search.size() < before
    }

    /// A datagram of `size` bytes is sent again. True when smaller ones must be sent now: a black hole.
    pub fn lost(&mut self, size: usize) -> bool {
        self.search.as_mut().is_some_and(|s| s.on_loss(size as u32))
    }

    /// The peer has acknowledged the stream up to `offset`: datagrams of full size get through.
    pub fn acknowledged(&mut self, now: Instant, offset: u64) {
        let Some(search) = &mut self.search else { return };
        let size = search.size();
        if offset - self.confirmed >= u64::from(size) {
            self.confirmed = offset;
            search.on_delivered(now, size);
        }
    }

    /// A segment that fits came from another address: asks there. At most one question a second.
    pub fn suspect(&mut self, now: Instant, at: SocketAddr) -> Option<Probe> {
        if self.candidate.is_some_and(|(_, _, asked)| now < asked + PROBE_TIMEOUT) {
            return None;
        }
        self.nonce = next(self.nonce);
        self.candidate = Some((at, self.nonce, now));
        Some(Probe { to: at, nonce: self.nonce, size: 0 })
    }

    /// An answer came from another address. True when it is the peer's new one.
    pub fn moved(&mut self, from: SocketAddr, answered: u64) -> bool {
        let right = self.candidate.is_some_and(|(at, nonce, _)| (at, nonce) == (from, answered));
        if right {
            self.candidate = None;
        }
        right
    }
}

/// The next nonce: a keyed start makes it unpredictable, the step only has to make it new.
fn next(nonce: u64) -> u64 {
    nonce.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7);

    #[test]
    fn finds_the_largest_datagram() {
        for limit in [1200usize, 1280, 1452, 1472, 8972, 65_507] {
            let mut path = Path::unknown(1, 65_507);
            let mut now = Instant::ZERO;
            for _ in 0..200 {
                if let Some(probe) = path.poll_probe(now, PEER)
                    && probe.size <= limit
                {
                    path.handle_answer(now, probe.nonce);
                }
                now += Duration::from_millis(500);
            }
            let size = path.size().unwrap();
            assert!(size <= limit && size + 64 > limit, "{size} of {limit}");
        }
    }

    #[test]
    fn answers_to_other_questions_do_nothing() {
        let mut path = Path::unknown(1, 9000);
        let probe = path.poll_probe(Instant::ZERO, PEER).unwrap();
        assert!(!path.handle_answer(Instant::ZERO, probe.nonce ^ 1));
        assert_eq!(path.size(), Some(1200));
        assert!(!Path::known(3).handle_answer(Instant::ZERO, 3));
    }

    #[test]
    fn a_new_address_has_to_answer_itself() {
        let mut path = Path::known(9);
        let probe = path.suspect(Instant::ZERO, PEER).unwrap();
        assert!(path.suspect(Instant::ZERO, PEER).is_none(), "one question a second");
        let other = SocketAddr::new(PEER.ip(), 8);
        assert!(!path.moved(other, probe.nonce));
        assert!(!path.moved(PEER, probe.nonce ^ 1));
        assert!(path.moved(PEER, probe.nonce));
        assert!(!path.moved(PEER, probe.nonce), "once");
    }

    #[test]
    fn probes_are_no_segments() {
        for k in [Kind::Probe, Kind::Answer] {
            let header = header((1, 2), 0x0123_4567_89ab_cdef, k);
            assert_eq!((kind(&header), nonce(&header)), (Some(k), 0x0123_4567_89ab_cdef));
        }
        let ack = Header { flags: Flags::ACK | Flags::PSH, ..Header::default() };
        assert_eq!(kind(&ack), None);
    }
}
