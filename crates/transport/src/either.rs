//! TCP or XTP, as it is chosen when a program runs: one machine ([`crate::machine`]) that is either of the two.
//!
//! What a machine of one protocol gives out is handed to that machine alone: who mixes them up gets a dropped segment.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use fusewire_base::Instant;
use fusewire_wire::tcp::Flags;
use fusewire_wire::xtp::Body;

use crate::congestion::Algorithm;
use crate::isn::Key;
use crate::machine::{
    self, Again, Answer, Counters, Cut, DropCause, Ends, Event, Info, Initial, KeepAlive, Note,
    Probe, Reservation, Sizes, Stage, Transmit, Verdict, of_connection,
};
use crate::{tcp, xtp};

pub use crate::machine::Secrets;
pub use xtp::Retransmission;

/// Runs a line with whichever it is.
macro_rules! either {
    ($type:ident, $this:expr, $it:ident => $does:expr) => {
        match $this {
            $type::Tcp($it) => $does,
            $type::Xtp($it) => $does,
        }
    };
}

/// Hands functions on to whichever it is.
macro_rules! forward {
    ($type:ident:
        $(fn $name:ident($this:ident: $of:ty $(, $argument:ident: $is:ty)*) $(-> $gives:ty)?;)*
    ) => {$(
        #[inline]
        fn $name($this: $of, $($argument: $is),*) $(-> $gives)? {
            either!($type, $this, it => it.$name($($argument),*))
        }
    )*};
}

/// Settings of the protocol that is chosen.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the protocols' names")]
pub enum Config {
    Tcp(tcp::Config),
    Xtp(xtp::Config),
}

/// A header of either.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the protocols' names")]
pub enum Header {
    Tcp(fusewire_wire::tcp::Header),
    Xtp(xtp::Header),
}

/// What names a connection: ports, or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the protocols' names")]
pub enum Flow {
    Tcp(tcp::Ports),
    Xtp(xtp::Name),
}

/// A connection of either.
#[derive(Debug)]
#[expect(missing_docs, reason = "the protocols' names")]
#[expect(clippy::large_enum_variant, reason = "a quarter larger; a box would be a miss a packet")]
pub enum Connection {
    Tcp(tcp::Connection),
    Xtp(xtp::Connection),
}

/// Passive opens of either.
#[derive(Debug)]
#[expect(missing_docs, reason = "the protocols' names")]
pub enum Listener {
    Tcp(tcp::Listener),
    Xtp(xtp::Listener),
}

/// The larger of two.
const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// The same ends, named by a flow of the protocol's own, or the other way round.
fn named<F, G>(ends: &Ends<F>, flow: G) -> Ends<G> {
    Ends { local: ends.local, remote: ends.remote, flow }
}

/// The same, with another header.
fn around<H, G>(transmit: Transmit<H>, header: impl FnOnce(H) -> G) -> Transmit<G> {
    Transmit {
        header: header(transmit.header),
        payload: transmit.payload,
        retransmission: transmit.retransmission,
        kind: transmit.kind,
        ecn_capable: transmit.ecn_capable,
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names")]
pub enum Protocol {
    #[default]
    Tcp,
    Xtp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 2] = [Protocol::Tcp, Protocol::Xtp];

    /// As settings spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Xtp => "xtp",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Protocol, String> {
        Protocol::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            format!("the transport is one of {}", Protocol::ALL.map(Protocol::name).join(", "))
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Config {
    /// For connections that carry records: nothing is manipulated until it can leave, so that what was sealed is still in
    /// the cache then; and what waits is acknowledged together.
    pub fn of_records(protocol: Protocol) -> Config {
        match protocol {
            Protocol::Tcp => Config::Tcp(tcp::Config {
                pacing: false,
                reserve_within_window: true,
                stretch_acks: true,
                ..tcp::Config::default()
            }),
            Protocol::Xtp => Config::Xtp(xtp::Config {
                pacing: false,
                first_flight_bytes: HANDSHAKE_FLIGHT,
                ..xtp::Config::default()
            }),
        }
    }

    /// Defaults of the other protocol, to read and answer what its users send.
    #[must_use]
    pub fn other(&self) -> Config {
        match self {
            Config::Tcp(_) => Config::Xtp(xtp::Config::default()),
            Config::Xtp(_) => Config::Tcp(tcp::Config::default()),
        }
    }

    /// Congestion control.
    pub fn set_congestion(&mut self, algorithm: Algorithm) {
        match self {
            Config::Tcp(tcp) => tcp.congestion = algorithm,
            Config::Xtp(xtp) => xtp.congestion = Some(algorithm),
        }
    }

    /// What is sent again. TCP sends what SACK does not name.
    pub fn set_retransmission(&mut self, retransmission: Retransmission) {
        if let Config::Xtp(xtp) = self {
            xtp.retransmission = retransmission;
        }
    }

    /// Probes on an idle connection.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        either!(Config, self, it => it.keep_alive = keep_alive);
    }

    /// Whether room is given only for what can leave at once. XTP gives it always.
    pub fn set_reserve_within_window(&mut self, within: bool) {
        if let Config::Tcp(tcp) = self {
            tcp.reserve_within_window = within;
        }
    }

    /// How long an open connection waits for an acknowledgement before it is given up.
    pub fn set_user_timeout(&mut self, timeout: Duration) {
        match self {
            Config::Tcp(tcp) => tcp.user_timeout = Some(timeout),
            Config::Xtp(xtp) => xtp.ctimeout = timeout,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::Tcp(tcp::Config::default())
    }
}

impl machine::Protocol for Config {
    type Header = Header;
    type Connection = Connection;
    type Listener = Listener;

    forward! { Config:
        fn name(self: &Config) -> &'static str;
        fn number(self: &Config) -> u8;
        fn letters(self: &Config) -> &'static str;
        fn sums_pseudo_header(self: &Config) -> bool;
        fn sizes(self: &Config) -> Sizes;
        fn set_sizes(self: &mut Config, sizes: &Sizes);
    }

    #[inline]
    fn parse(&self, bytes: &[u8]) -> Result<Header, fusewire_wire::Error> {
        match self {
            Config::Tcp(tcp) => tcp.parse(bytes).map(Header::Tcp),
            Config::Xtp(xtp) => xtp.parse(bytes).map(Header::Xtp),
        }
    }

    fn flow_to(&self, service: u16, nth: u16, key: &Key, now: Instant) -> Flow {
        match self {
            Config::Tcp(tcp) => Flow::Tcp(tcp.flow_to(service, nth, key, now)),
            Config::Xtp(xtp) => Flow::Xtp(xtp.flow_to(service, nth, key, now)),
        }
    }

    /// # Panics
    /// When `ends` are named by the other protocol.
    fn connect(&self, ends: &Ends<Flow>, service: u16, key: &Key, now: Instant) -> Connection {
        match (self, ends.flow) {
            (Config::Tcp(tcp), Flow::Tcp(flow)) => {
                Connection::Tcp(tcp.connect(&named(ends, flow), service, key, now))
            }
            (Config::Xtp(xtp), Flow::Xtp(flow)) => Connection::Xtp(machine::Protocol::connect(
                xtp,
                &named(ends, flow),
                service,
                key,
                now,
            )),
            _ => panic!("a flow of the other protocol"),
        }
    }

    fn listen(&self, backlog: usize, secrets: &Secrets) -> Listener {
        match self {
            Config::Tcp(tcp) => Listener::Tcp(tcp.listen(backlog, secrets)),
            Config::Xtp(xtp) => Listener::Xtp(xtp.listen(backlog, secrets)),
        }
    }
}

/// Bytes of the packets with which a session's server answers the first of a client's, and more than those have.
const HANDSHAKE_FLIGHT: u32 = 2400;

type TcpHeader = <tcp::Config as machine::Protocol>::Header;

impl Header {
    /// Returns `true` if the packet opens a connection.
    pub fn opens(&self) -> bool {
        match self {
            Header::Tcp(tcp) => {
                tcp.flags.has(Flags::SYN) && !tcp.flags.any(Flags::ACK | Flags::RST | Flags::FIN)
            }
            Header::Xtp(xtp) => matches!(xtp.body, Body::First(_)) && !xtp.returned,
        }
    }

    /// The same header before `len` bytes of text. For refusals: RST may carry text (RFC 9293, section 3.5.3), and so may
    /// DIAG.
    #[must_use]
    pub fn with_text(self, len: u32) -> Header {
        match self {
            Header::Tcp(_) => self,
            Header::Xtp(xtp) => Header::Xtp(xtp::Header { data_len: len, ..xtp }),
        }
    }
}

impl machine::Header for Header {
    type Flow = Flow;

    /// Of the shorter: so much of each is there.
    const LEN_MIN: usize = TcpHeader::LEN_MIN;
    const LEN_MAX: usize = max(TcpHeader::LEN_MAX, xtp::Header::LEN_MAX);
    const HEADROOM: usize = max(TcpHeader::HEADROOM, xtp::Header::HEADROOM);
    const CHECKSUM_AT: usize = {
        assert!(TcpHeader::CHECKSUM_AT == xtp::Header::CHECKSUM_AT, "it lies at one place in both");
        TcpHeader::CHECKSUM_AT
    };

    forward! { Header:
        fn header_len(self: &Header) -> usize;
        fn emit_len(self: &Header) -> usize;
        fn service(self: &Header) -> Option<u16>;
        fn is_refusal(self: &Header) -> bool;
        fn note(self: &Header) -> Note;
        fn probe(self: &Header) -> Option<Probe>;
        fn sums_payload(self: &Header) -> bool;
        fn summed_len(self: &Header) -> usize;
        fn trailer_len(self: &Header) -> usize;
    }

    #[inline]
    fn emit(&self, out: &mut [u8]) -> usize {
        either!(Header, self, it => machine::Header::emit(it, out))
    }

    #[inline]
    fn flow(&self) -> Flow {
        match self {
            Header::Tcp(tcp) => Flow::Tcp(tcp.flow()),
            Header::Xtp(xtp) => Flow::Xtp(xtp.flow()),
        }
    }

    fn refusal(&self, payload_len: u32) -> Option<Header> {
        match self {
            Header::Tcp(tcp) => tcp.refusal(payload_len).map(Header::Tcp),
            Header::Xtp(xtp) => xtp.refusal(payload_len).map(Header::Xtp),
        }
    }
}

impl machine::Connection for Connection {
    type Header = Header;

    #[inline]
    fn handle_initial(&mut self, now: Instant, h: &Header, payload_len: u32) -> Initial {
        match (self, h) {
            (Connection::Tcp(tcp), Header::Tcp(h)) => tcp.handle_initial(now, h, payload_len),
            (Connection::Xtp(xtp), Header::Xtp(h)) => xtp.handle_initial(now, h, payload_len),
            _ => Initial::Drop(DropCause::Protocol),
        }
    }

    #[inline]
    fn handle_final(
        &mut self,
        now: Instant,
        h: &Header,
        initial: &Initial,
        verdict: Verdict,
        marked: bool,
    ) {
        match (self, h) {
            (Connection::Tcp(tcp), Header::Tcp(h)) => {
                tcp.handle_final(now, h, initial, verdict, marked);
            }
            (Connection::Xtp(xtp), Header::Xtp(h)) => {
                xtp.handle_final(now, h, initial, verdict, marked);
            }
            _ => {}
        }
    }

    fn could_be_the_peers(&self, now: Instant, h: &Header, payload_len: u32) -> bool {
        match (self, h) {
            (Connection::Tcp(tcp), Header::Tcp(h)) => tcp.could_be_the_peers(now, h, payload_len),
            (Connection::Xtp(xtp), Header::Xtp(h)) => {
                machine::Connection::could_be_the_peers(xtp, now, h, payload_len)
            }
            _ => false,
        }
    }

    fn also(&self) -> Option<Flow> {
        match self {
            Connection::Tcp(tcp) => tcp.also().map(Flow::Tcp),
            Connection::Xtp(xtp) => xtp.also().map(Flow::Xtp),
        }
    }

    fn probe(&self, probe: Probe, payload_len: u32) -> Option<Header> {
        match self {
            Connection::Tcp(it) => {
                machine::Connection::probe(it, probe, payload_len).map(Header::Tcp)
            }
            Connection::Xtp(it) => {
                machine::Connection::probe(it, probe, payload_len).map(Header::Xtp)
            }
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<Header>> {
        match self {
            Connection::Tcp(tcp) => tcp.poll_transmit(now).map(|it| around(it, Header::Tcp)),
            Connection::Xtp(xtp) => xtp.poll_transmit(now).map(|it| around(it, Header::Xtp)),
        }
    }

    of_connection!(forward);
    forward! { Connection:
        fn opens_with_data(self: &Connection) -> bool;
        fn checks_payload(self: &Connection) -> bool;
        fn trailer_room(self: &Connection) -> usize;
        fn sends_trailers(self: &Connection) -> bool;
        fn proves_from(self: &mut Connection, sent: u64, received: u64);
        fn owes_ack(self: &Connection) -> bool;
        fn acknowledge(self: &mut Connection);
        fn set_tpdu_len(self: &mut Connection, bytes: usize);
        fn stage(self: &Connection) -> Stage;
        fn state_name(self: &Connection) -> &'static str;
        fn names(self: &Connection) -> Vec<(&'static str, String)>;
    }
}

/// What a listener of one protocol does, as a listener of either.
fn action<P: machine::Protocol>(
    action: machine::ListenerAction<P>,
    header: impl FnOnce(P::Header) -> Header,
    connection: impl FnOnce(P::Connection) -> Connection,
) -> machine::ListenerAction<Config> {
    match action {
        machine::ListenerAction::Reply(it) => machine::ListenerAction::Reply(header(it)),
        machine::ListenerAction::Accept(it) => {
            machine::ListenerAction::Accept(Box::new(connection(*it)))
        }
        machine::ListenerAction::Drop(cause) => machine::ListenerAction::Drop(cause),
    }
}

impl machine::Listener for Listener {
    type Protocol = Config;

    fn handle_stray(
        &mut self,
        now: Instant,
        ends: &Ends<Flow>,
        h: &Header,
        payload_len: u32,
    ) -> machine::ListenerAction<Config> {
        match (self, h, ends.flow) {
            (Listener::Tcp(it), Header::Tcp(h), Flow::Tcp(flow)) => {
                let done =
                    machine::Listener::handle_stray(it, now, &named(ends, flow), h, payload_len);
                action(done, Header::Tcp, Connection::Tcp)
            }
            (Listener::Xtp(it), Header::Xtp(h), Flow::Xtp(flow)) => {
                let done =
                    machine::Listener::handle_stray(it, now, &named(ends, flow), h, payload_len);
                action(done, Header::Xtp, Connection::Xtp)
            }
            _ => machine::ListenerAction::Drop(DropCause::Protocol),
        }
    }

    fn poll_reply(&mut self, now: Instant) -> Option<Answer<Config>> {
        match self {
            Listener::Tcp(it) => machine::Listener::poll_reply(it, now)
                .map(|(ends, h)| (named(&ends, Flow::Tcp(ends.flow)), Header::Tcp(h))),
            Listener::Xtp(it) => machine::Listener::poll_reply(it, now)
                .map(|(ends, h)| (named(&ends, Flow::Xtp(ends.flow)), Header::Xtp(h))),
        }
    }

    forward! { Listener:
        fn poll_timeout(self: &Listener) -> Option<Instant>;
        fn taken(self: &mut Listener);
        fn half_open(self: &Listener) -> usize;
        fn cookies_given(self: &Listener) -> u64;
    }
}
