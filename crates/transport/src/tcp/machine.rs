//! TCP as one of the machines ([`crate::machine`]), where a TPDU is a datagram's payload (`docs/encapsulation.md`).
//!
//! Both ends say what they know of the path in TPDUs that no TCP sends (section 4 there): neither ACK, SYN nor RST is
//! set, so a transport that does not know them drops them (RFC 9293, section 3.10.7.4). Sequence and acknowledgement
//! number carry the nonce.

use fusewire_base::{Instant, Seq};
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN, MIN_HEADER_LEN, TIMESTAMP_HEADER_LEN};

use super::{Config, Connection, Listener, State, reset_for};
use crate::isn::{Generator, Key};
use crate::machine::{
    self, Again, Counters, Cut, Ends, Event, Info, Initial, KeepAlive, Note, Probe, Reservation,
    Says, Secrets, Sizes, Stage, Transmit, Verdict, of_connection, own,
};

/// The ports of a connection, as one of its ends sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// Ours.
    pub local: u16,
    /// The peer's.
    pub remote: u16,
}

/// What a TPDU of so many bytes carries besides a header without options: payload and options.
fn mss(tpdu_len: usize) -> u16 {
    u16::try_from(tpdu_len.saturating_sub(MIN_HEADER_LEN)).unwrap_or(u16::MAX)
}

impl machine::Protocol for Config {
    type Header = Header;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> &'static str {
        "tcp"
    }

    #[inline]
    fn number(&self) -> u8 {
        fusewire_wire::tcp::NUMBER
    }

    fn letters(&self) -> &'static str {
        "FSRPAUEW"
    }

    #[inline]
    fn sums_pseudo_header(&self) -> bool {
        true
    }

    #[inline]
    fn parse(&self, bytes: &[u8]) -> Result<Header, fusewire_wire::Error> {
        Header::parse(bytes)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            tpdu_len: usize::from(self.mss) + MIN_HEADER_LEN,
            send_tpdu_len: usize::from(self.send_mss) + MIN_HEADER_LEN,
            recv_window: self.recv_window,
            initial_recv_window: self.initial_recv_window,
            send_buffer: self.send_buffer,
            segments: self.max_segments_in_flight,
            ranges: self.max_ranges,
        }
    }

    fn set_sizes(&mut self, sizes: &Sizes) {
        (self.mss, self.send_mss) = (mss(sizes.tpdu_len), mss(sizes.send_tpdu_len));
        (self.recv_window, self.initial_recv_window) =
            (sizes.recv_window, sizes.initial_recv_window);
        self.send_buffer = sizes.send_buffer;
        (self.max_segments_in_flight, self.max_ranges) = (sizes.segments, sizes.ranges);
    }

    fn flow_to(&self, service: u16, nth: u16, _: &Key, _: Instant) -> Ports {
        Ports { local: nth | 0x8000, remote: service }
    }

    fn connect(&self, ends: &Ends<Ports>, _: u16, key: &Key, now: Instant) -> Connection {
        let start = Generator::new(key).start(now, ends);
        Connection::connect(self, ends.flow.local, ends.flow.remote, start, now)
    }

    fn listen(&self, backlog: usize, secrets: &Secrets) -> Listener {
        Listener::new(self, backlog, secrets)
    }
}

impl machine::Header for Header {
    type Flow = Ports;

    const LEN_MIN: usize = MIN_HEADER_LEN;
    const LEN_MAX: usize = MAX_HEADER_LEN;
    /// Of an established connection with timestamps.
    const HEADROOM: usize = TIMESTAMP_HEADER_LEN;
    const CHECKSUM_AT: usize = 16;

    #[inline]
    fn header_len(&self) -> usize {
        usize::from(self.header_len)
    }

    own! { Header:
        fn emit_len(self: &Header) -> usize;
        fn emit(self: &Header, out: &mut [u8]) -> usize;
    }

    #[inline]
    fn flow(&self) -> Ports {
        Ports { local: self.dst_port, remote: self.src_port }
    }

    fn service(&self) -> Option<u16> {
        Some(self.dst_port)
    }

    fn is_refusal(&self) -> bool {
        self.flags.has(Flags::RST)
    }

    fn refusal(&self, payload_len: u32) -> Option<Header> {
        reset_for(self, payload_len)
    }

    #[inline]
    fn note(&self) -> Note {
        Note { seq: self.seq.0, ack: self.ack.0, window: self.window, flags: self.flags.0 }
    }

    #[inline]
    fn probe(&self) -> Option<Probe> {
        let says = match self.flags {
            Flags(0) => Says::Question,
            Flags::PSH => Says::Answer,
            _ => return None,
        };
        Some(Probe { says, nonce: u64::from(self.seq.0) << 32 | u64::from(self.ack.0) })
    }
}

impl machine::Connection for Connection {
    type Header = Header;

    of_connection!(own);
    own! { Connection:
        fn handle_initial(self: &mut Connection, now: Instant, h: &Header, len: u32) -> Initial;
        fn handle_final(
            self: &mut Connection, now: Instant, h: &Header, initial: &Initial, verdict: Verdict, marked: bool
        );
        fn could_be_the_peers(self: &Connection, now: Instant, h: &Header, len: u32) -> bool;
        fn owes_ack(self: &Connection) -> bool;
        fn acknowledge(self: &mut Connection);
        fn poll_transmit(self: &mut Connection, now: Instant) -> Option<Transmit<Header>>;
    }

    fn probe(&self, probe: Probe, _: u32) -> Option<Header> {
        let flags = match probe.says {
            Says::Question => Flags(0),
            Says::Answer => Flags::PSH,
        };
        let (src_port, dst_port) = self.ports();
        Some(Header {
            src_port,
            dst_port,
            seq: Seq((probe.nonce >> 32) as u32),
            ack: Seq(probe.nonce as u32),
            flags,
            ..Header::default()
        })
    }

    fn set_tpdu_len(&mut self, bytes: usize) {
        self.set_send_mss(mss(bytes));
    }

    #[inline]
    fn stage(&self) -> Stage {
        match self.state {
            State::SynSent => Stage::Calling,
            State::TimeWait => Stage::Lingering,
            State::Closed => Stage::Closed,
            _ => Stage::Open,
        }
    }

    fn state_name(&self) -> &'static str {
        self.state.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Header as _, Protocol as _};

    #[test]
    fn questions_and_answers_about_the_path_are_no_segments() {
        let flow = Ports { local: 1, remote: 2 };
        let at = ([127, 0, 0, 1], 1).into();
        let ends = Ends { local: at, remote: at, flow };
        let connection = Config::default().connect(&ends, 2, &[7; 16], Instant::ZERO);
        for says in [Says::Question, Says::Answer] {
            let probe = Probe { says, nonce: 0x0123_4567_89ab_cdef };
            let header = machine::Connection::probe(&connection, probe, 9).unwrap();
            assert_eq!(header.probe(), Some(probe));
            assert_eq!(header.emit_len(), Header::LEN_MIN);
            assert_eq!(header.flow(), Ports { local: 2, remote: 1 });
        }
        let ack = Header { flags: Flags::ACK | Flags::PSH, ..Header::default() };
        assert_eq!(ack.probe(), None);
    }

    #[test]
    fn sizes_are_what_was_set() {
        let mut config = Config::default();
        let own = config.sizes();
        assert_eq!(own.tpdu_len, 1472);
        let sizes = Sizes { tpdu_len: 9000, send_tpdu_len: 1200, recv_window: 1 << 20, ..own };
        config.set_sizes(&sizes);
        assert_eq!(config.sizes(), sizes);
        config.set_sizes(&Sizes { tpdu_len: 1 << 20, ..sizes });
        assert_eq!(config.mss, u16::MAX);
    }
}
