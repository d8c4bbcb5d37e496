//! What is known of the way to a peer: how large a datagram may be, and whether its address is still right.
//!
//! Both are found out by questions that only the peer can answer, where it is asked ([`question`],
//! `docs/encapsulation.md`, section 4). A peer that seems to have moved is asked at both addresses; it is
//! followed when it answers at the new one and no longer at the old.

pub mod question;

use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{Connection as _, Header as _};
use fusewire_transport::plpmtud::{self, Search};

use crate::connection::Connection;
use crate::machine::Header;
use question::{ANSWER_LEN, Keys, Kind, Nonces, QUESTION_TPDU_LEN};

/// An answer is late after this; nobody is asked where he is more often.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the old address may take to answer, beyond two round trips, when the new one has.
const OLD_ADDRESS_TIME: Duration = Duration::from_millis(100);
/// So many times the bytes that came from an address go there before it is proven (RFC 9000, section 8.1).
const UNPROVEN_FACTOR: usize = 3;

/// A question to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    pub kind: Kind,
    pub to: SocketAddr,
    pub nonce: u64,
    /// Bytes of the whole datagram, at least.
    pub size: usize,
}

/// The way to one peer.
#[derive(Debug)]
pub struct Path {
    /// `None` where the largest datagram is known.
    search: Option<Search>,
    /// Nonce and size of the last question of size, until it is answered.
    probed: Option<(u64, usize)>,
    /// An address that the peer may have now.
    candidate: Option<Candidate>,
    /// When the peer was last asked where it is.
    asked: Option<Instant>,
    /// Once the session is open.
    keys: Option<Keys>,
}

/// Where the peer may be. Invariant: `sent ≤ 3 · received`.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: SocketAddr,
    /// Nonces of the questions there, and where the peer was.
    new: u64,
    old: u64,
    /// Bytes that came from there, and that went there.
    received: usize,
    sent: usize,
    /// It has answered, and is the peer's address if the old one has not answered by then.
    follow_at: Option<Instant>,
}

/// What an answer has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Larger datagrams may be sent now, or the old size is confirmed.
    Size { is_larger: bool },
    /// The peer answers where it was, and stays there.
    Stays,
    /// The peer answers at the new address: where it was it is asked once more.
    Moved(Probe),
}

impl Path {
    /// A way that carries at most `max` bytes in a datagram, to be found out; without it the largest
    /// datagram is known.
    pub fn new(max: Option<usize>) -> Self {
        Path { search: max.map(search), probed: None, candidate: None, asked: None, keys: None }
    }

    /// The session is open: the peer can be asked, and answered.
    pub fn open(&mut self, keys: Keys) {
        self.keys = Some(keys);
    }

    /// The keys of what is said of the path, once the session is open.
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// The peer is reached over another path: nothing is known of its size.
    pub fn begin_anew(&mut self, max: Option<usize>) {
        (self.search, self.probed, self.candidate) = (max.map(search), None, None);
    }

    /// The largest datagram that may be sent, where that is not known from the start.
    pub fn size(&self) -> Option<usize> {
        self.search.as_ref().map(|s| s.size() as usize)
    }

    /// The next question of size.
    pub fn poll_probe(
        &mut self,
        now: Instant,
        to: SocketAddr,
        nonces: &mut Nonces,
    ) -> Option<Probe> {
        let search = self.search.as_mut().filter(|_| self.keys.is_some())?;
        search.handle_timeout(now);
        let size = search.poll_probe(now)?;
        search.on_probe_sent(now, size);
        let (nonce, size) = (nonces.draw(Kind::Size), size as usize);
        self.probed = Some((nonce, size));
        Some(Probe { kind: Kind::Size, to, nonce, size })
    }

    /// When [`Path::poll_probe`] or [`Path::poll_move`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let search = self.search.as_ref().and_then(Search::poll_timeout);
        let follow_at = self.candidate.and_then(|c| c.follow_at);
        search.into_iter().chain(follow_at).min()
    }

    /// What of ours `from` may answer with this nonce, when the peer's address is `here`.
    fn question(&self, from: SocketAddr, here: SocketAddr, nonce: u64) -> Option<Kind> {
        let is = |asked: Option<u64>| asked == Some(nonce);
        if from != here {
            let new = self.candidate.filter(|c| c.at == from && c.follow_at.is_none());
            return is(new.map(|c| c.new)).then_some(Kind::New);
        }
        if is(self.probed.map(|p| p.0)) {
            return Some(Kind::Size);
        }
        is(self.candidate.map(|c| c.old)).then_some(Kind::Old)
    }

    /// An answer came from `from`; the peer's address is `here`, and a round trip to it takes about
    /// `round_trip`. `None` when it answers no question, or is not the peer's.
    pub fn handle_answer(
        &mut self,
        now: Instant,
        (from, here): (SocketAddr, SocketAddr),
        nonce: u64,
        answer: &[u8],
        round_trip: Duration,
    ) -> Option<Answered> {
        let kind = self.question(from, here, nonce)?;
        if !self.keys.as_ref()?.verify(kind, nonce, from, answer) {
            return None;
        }
        match kind {
            Kind::Size => {
                let (_, size) = self.probed.take()?;
                let search = self.search.as_mut()?;
                let before = search.size();
                search.on_delivered(now, size as u32);
                Some(Answered::Size { is_larger: search.size() > before })
            }
            Kind::Old => {
                self.candidate = None;
                Some(Answered::Stays)
            }
            Kind::New => {
                let candidate = self.candidate.as_mut()?;
                candidate.received += Header::LEN_MIN + ANSWER_LEN;
                let patience = (2 * round_trip + OLD_ADDRESS_TIME).min(PROBE_TIMEOUT);
                candidate.follow_at = Some(now + patience);
                let nonce = candidate.old;
                Some(Answered::Moved(Probe { kind: Kind::Old, to: here, nonce, size: 0 }))
            }
        }
    }

    /// The address to follow the peer to, once: it answered there, and did not where it was.
    pub fn poll_move(&mut self, now: Instant) -> Option<SocketAddr> {
        let candidate = self.candidate.filter(|c| c.follow_at.is_some_and(|at| at <= now))?;
        self.candidate = None;
        Some(candidate.at)
    }

    /// The device could not send a datagram of `size` bytes. True when smaller ones must be sent now.
    pub fn too_big(&mut self, now: Instant, size: usize) -> bool {
        let Some(search) = &mut self.search else { return false };
        let before = search.size();
        search.on_too_big(now, (size as u32).saturating_sub(1));
        search.size() < before
    }

    /// A datagram of `size` bytes is sent again. Returns `true` if smaller ones must be sent now, because the path has a
    /// black hole.
    pub fn lost(
        &mut self,
        now: Instant,
        size: usize,
        round_trip: impl FnOnce() -> Duration,
    ) -> bool {
        self.search.as_mut().is_some_and(|s| s.on_loss(now, size as u32, round_trip))
    }

    /// The peer has received a datagram whose payload is `spare` bytes shorter than the longest that may be sent.
    pub fn delivered(&mut self, now: Instant, spare: u32) {
        let Some(search) = &mut self.search else { return };
        search.on_data_delivered(now, search.size().saturating_sub(spare));
    }

    /// A segment of `len` bytes that fits came from another address than the peer's, which is `here`. What
    /// to ask, both there and here: at most once a second, and no more bytes go there than three times what
    /// came.
    pub fn suspect(
        &mut self,
        now: Instant,
        (at, here): (SocketAddr, SocketAddr),
        len: usize,
        nonces: &mut Nonces,
    ) -> Option<[Probe; 2]> {
        let known = self.candidate.as_mut().filter(|c| c.at == at);
        let mut before = (0, 0);
        if let Some(candidate) = known {
            candidate.received = candidate.received.saturating_add(len);
            before = (candidate.received - len, candidate.sent);
        }
        // Who has answered is not forgotten for the next that comes.
        let waits = self.candidate.is_some_and(|c| c.follow_at.is_some())
            || self.asked.is_some_and(|asked| now < asked + PROBE_TIMEOUT);
        let (received, sent) = (before.0 + len, before.1 + QUESTION_TPDU_LEN);
        if waits || self.keys.is_none() || sent > UNPROVEN_FACTOR * received {
            return None;
        }
        let [new, old] = [Kind::New, Kind::Old].map(|kind| nonces.draw(kind));
        self.candidate = Some(Candidate { at, new, old, received, sent, follow_at: None });
        self.asked = Some(now);
        Some([
            Probe { kind: Kind::New, to: at, nonce: new, size: 0 },
            Probe { kind: Kind::Old, to: here, nonce: old, size: 0 },
        ])
    }
}

fn search(max: usize) -> Search {
    let max = u32::try_from(max).unwrap_or(u32::MAX);
    let config =
        plpmtud::Config { max, probe_timeout: PROBE_TIMEOUT, ..plpmtud::Config::default() };
    Search::new(&config, false)
}

impl Connection {
    /// A datagram of `size` bytes is sent again.
    pub fn lost(&mut self, now: Instant, size: usize) {
        self.note_delivered(now);
        let machine = &self.machine;
        if self.path.lost(now, size, || machine.info().srtt) {
            self.use_path();
            self.machine.resend_all(now);
        }
    }

    /// Reports to the path which datagrams the peer has received since the last call.
    pub fn note_delivered(&mut self, now: Instant) {
        if let len @ 1.. = self.machine.take_delivered_len() {
            self.path.delivered(now, self.machine.max_payload().saturating_sub(len));
        }
    }

    /// What is known of the path has changed: segments are cut to fit.
    pub fn use_path(&mut self) {
        if let Some(size) = self.path.size() {
            self.machine.set_tpdu_len(size);
        }
    }

    /// The peer is at another address, over a path of which nothing is known but, without `max`, its size:
    /// what is under way went where nobody is, and leaves again as fast as a new connection's.
    pub fn follow(&mut self, now: Instant, to: SocketAddr, max: Option<usize>) {
        tracing::info!(from = %self.ends.remote, to = %to, "the peer's address has changed");
        self.ends.remote = to;
        self.path.begin_anew(max);
        self.machine.path_changed();
        if let Some(beside) = &mut self.calls {
            beside.took = Default::default();
        }
        self.use_path();
        self.machine.resend_all(now);
    }
}

#[cfg(test)]
mod tests;
