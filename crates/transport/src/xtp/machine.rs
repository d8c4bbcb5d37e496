//! XTP as one of the machines ([`crate::machine`]).

use fusewire_base::Instant;
use fusewire_wire::xtp::{
    self, Address, Body, Code, Diag, Format, Options, Packet, Reason, Service,
};

use super::cookies::Keys;
use super::listener::{diag_for, refused};
use super::{Config, Connection, Header, Listener, Name, SPANS, Spans, State};
use crate::isn::Key;
use crate::machine::{
    self, Again, Counters, Cut, Ends, Event, Info, Initial, KeepAlive, Note, Probe, Reservation,
    Says, Secrets, Sizes, Stage, Transmit, Verdict, of_connection, own,
};

/// As views spell it.
fn service_name(service: Service) -> &'static str {
    match service {
        Service::Unspecified => "any",
        Service::UnacknowledgedDatagram => "datagram",
        Service::AcknowledgedDatagram => "acknowledged-datagram",
        Service::Transaction => "transaction",
        Service::Stream => "stream",
        Service::UnacknowledgedMulticast => "unacknowledged-multicast",
        Service::Multicast => "multicast",
    }
}

/// Bytes of a DIAG without text: no packet that is shorter is answered with one.
const DIAG_LEN: usize = 40;

impl machine::Protocol for Config {
    type Header = Header;
    type Connection = Connection;
    type Listener = Listener;

    fn name(&self) -> &'static str {
        "xtp"
    }

    #[inline]
    fn number(&self) -> u8 {
        xtp::NUMBER
    }

    fn letters(&self) -> &'static str {
        "SDRWMEBN"
    }

    #[inline]
    fn sums_pseudo_header(&self) -> bool {
        false
    }

    fn parse(&self, bytes: &[u8]) -> Result<Header, fusewire_wire::Error> {
        Ok(Packet::parse(bytes)?.header.keep::<SPANS>())
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            tpdu_len: self.tpdu_len,
            send_tpdu_len: self.send_tpdu_len,
            recv_window: self.recv_window,
            initial_recv_window: self.initial_recv_window,
            send_buffer: self.send_buffer,
            segments: self.max_packets_in_flight,
            ranges: self.max_ranges,
        }
    }

    fn set_sizes(&mut self, sizes: &Sizes) {
        (self.tpdu_len, self.send_tpdu_len) = (sizes.tpdu_len, sizes.send_tpdu_len);
        (self.recv_window, self.initial_recv_window) =
            (sizes.recv_window, sizes.initial_recv_window);
        self.send_buffer = sizes.send_buffer;
        (self.max_packets_in_flight, self.max_ranges) = (sizes.segments, sizes.ranges);
    }

    fn flow_to(&self, service: u16, nth: u16, key: &Key, now: Instant) -> Name {
        Name { key: Keys::new(key).key(now, &(service, nth)), returned: true }
    }

    fn connect(&self, ends: &Ends<Name>, service: u16, _: &Key, now: Instant) -> Connection {
        Connection::connect_to(self, ends.flow.key, Address::towards(ends.remote, service), now)
    }

    fn listen(&self, backlog: usize, secrets: &Secrets) -> Listener {
        Listener::new(self, backlog, secrets)
    }
}

impl machine::Header for Header {
    type Flow = Name;

    const LEN_MIN: usize = xtp::HEADER_LEN;
    /// ECNTL with all spans that are kept.
    const LEN_MAX: usize = xtp::HEADER_LEN + 24 + 16 * SPANS;
    /// Of DATA.
    const HEADROOM: usize = xtp::HEADER_LEN;
    const CHECKSUM_AT: usize = xtp::CHECK_AT;

    #[inline]
    fn header_len(&self) -> usize {
        self.emit_len()
    }

    own! { Header:
        fn emit_len(self: &Header) -> usize;
        fn emit(self: &Header, out: &mut [u8]) -> usize;
        fn trailer_len(self: &Header) -> usize;
    }

    #[inline]
    fn sums_payload(&self) -> bool {
        self.checks_all()
    }

    #[inline]
    fn summed_len(&self) -> usize {
        if self.checks_all() { self.emit_len() } else { xtp::HEADER_LEN }
    }

    #[inline]
    fn flow(&self) -> Name {
        Name { key: self.key, returned: self.returned }
    }

    fn service(&self) -> Option<u16> {
        let Body::First(first) = &self.body else { return None };
        first.address.dstport()
    }

    fn is_refusal(&self) -> bool {
        matches!(self.body, Body::Diag(_))
    }

    fn refusal(&self, payload_len: u32) -> Option<Header> {
        if self.emit_len() + (payload_len as usize) < DIAG_LEN || self.options.has(Options::MULTI) {
            return None;
        }
        let invalid = Diag { code: Code::InvalidContext, reason: Reason::Unspecified };
        match self.body {
            Body::First(_) => refused(self, Reason::NoListener),
            Body::Unfit(unfit) => Some(diag_for(unfit.key, true, unfit.diag)),
            Body::Diag(_) | Body::Path => None,
            _ => self.returned.then(|| diag_for(self.key, false, invalid)),
        }
    }

    fn note(&self) -> Note {
        let letters = [
            Options::SREQ,
            Options::DREQ,
            Options::RCLOSE,
            Options::WCLOSE,
            Options::EOM,
            Options::END,
        ];
        let mut flags = 0;
        for (bit, option) in letters.into_iter().enumerate() {
            flags |= u8::from(self.options.has(option)) << bit;
        }
        let btag = match &self.body {
            Body::Data { btag } => *btag,
            Body::First(first) => first.btag,
            _ => None,
        };
        flags |= u8::from(btag.is_some()) << 6 | u8::from(self.options.has(Options::FASTNAK)) << 7;
        let (ack, window) = self.body.control().map_or((0, 0), |control| {
            let window = u16::try_from((control.alloc - control.rseq) >> 10).unwrap_or(u16::MAX);
            (control.rseq as u32, window)
        });
        Note { seq: self.seq as u32, ack, window, flags }
    }

    fn probe(&self) -> Option<Probe> {
        let says = match (self.body.format(), self.sync) {
            (Format::Path, 1) => Says::Question,
            (Format::Path, 2) => Says::Answer,
            _ => return None,
        };
        Some(Probe { says, nonce: self.seq })
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
        fn also(self: &Connection) -> Option<Name>;
        fn checks_payload(self: &Connection) -> bool;
        fn trailer_room(self: &Connection) -> usize;
        fn sends_trailers(self: &Connection) -> bool;
        fn proves_from(self: &mut Connection, sent: u64, received: u64);
        fn poll_transmit(self: &mut Connection, now: Instant) -> Option<Transmit<Header>>;
        fn set_tpdu_len(self: &mut Connection, bytes: usize);
    }

    fn could_be_the_peers(&self, _: Instant, h: &Header, payload_len: u32) -> bool {
        Connection::could_be_the_peers(self, h, payload_len)
    }

    fn probe(&self, probe: Probe, payload_len: u32) -> Option<Header> {
        let sync = match probe.says {
            Says::Question => 1,
            Says::Answer => 2,
        };
        Some(Header {
            key: self.keys.peer?,
            returned: true,
            options: Options::NONE,
            check: 0,
            sort: 0,
            sync,
            seq: probe.nonce,
            data_len: payload_len,
            body: Body::<Spans>::Path,
        })
    }

    fn opens_with_data(&self) -> bool {
        true
    }

    fn stage(&self) -> Stage {
        match self.state() {
            State::Opening | State::Cookie => Stage::Calling,
            State::HalfOpen | State::Open => Stage::Open,
            State::Inactive => Stage::Lingering,
            State::Quiescent => Stage::Closed,
        }
    }

    fn state_name(&self) -> &'static str {
        self.state().name()
    }

    fn names(&self) -> Vec<(&'static str, String)> {
        let key = |key: xtp::Key| format!("{:016x}", key.bits());
        let peer = self.keys.peer.map(|peer| ("peer_key", key(peer)));
        let service = ("service", service_name(self.service()).to_string());
        [("key", key(self.keys.own))].into_iter().chain(peer).chain([service]).collect()
    }
}
