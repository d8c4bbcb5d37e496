//! What a transport machine is: connections that do no I/O, read no clock and see no payload byte.
//!
//! A machine is what implements these four traits. `stack` is written against them, and says at one place which
//! machine it drives; TCP's implementation is `tcp::machine`.
//!
//! | trait | who implements it for TCP | what |
//! |---|---|---|
//! | [`Protocol`] | `tcp::Config` | settings, from which connections and listeners are made |
//! | [`Header`] | `wire::tcp::Header` | what lies before the payload |
//! | [`Connection`] | `tcp::Connection` | one connection |
//! | [`Listener`] | `tcp::Listener` | those that are not open yet |
//!
//! A received TPDU takes three steps. [`Connection::handle_initial`] looks at the header and plans where the payload
//! goes; the caller runs the integrated step over the bytes; [`Connection::handle_final`] takes its verdict. To send,
//! a range of the stream is reserved, written and committed; [`Connection::poll_transmit`] then gives headers, and
//! ranges of offsets that were committed. After any of these there may be events, transmissions, and another timeout.

mod drops;
mod info;
mod segments;
mod settings;

/// Methods of a trait that are the type's own.
macro_rules! own {
    ($type:ident:
        $(fn $name:ident($this:ident: $of:ty $(, $argument:ident: $is:ty)*) $(-> $gives:ty)?;)*
    ) => {$(
        #[inline]
        fn $name($this: $of, $($argument: $is),*) $(-> $gives)? {
            $type::$name($this, $($argument),*)
        }
    )*};
}
pub(crate) use own;

/// What all connections do, by one of the macros that hand functions on.
macro_rules! of_connection {
    ($by:ident) => {
        $by! { Connection:
            fn send_room(self: &Connection) -> u32;
            fn has_room(self: &Connection, len: u32) -> bool;
            fn send_buffer(self: &Connection) -> u32;
            fn max_payload(self: &Connection) -> u32;
            fn reserve(self: &mut Connection, len: u32) -> Option<Reservation>;
            fn joins(self: &Connection, len: u32) -> bool;
            fn joins_whole(self: &Connection) -> u32;
            fn commit(self: &mut Connection, reservation: Reservation, cut: Cut);
            fn finish(self: &mut Connection);
            fn abort(self: &mut Connection);
            fn consumed(self: &mut Connection, upto: u64);
            fn widen_window(self: &mut Connection, bytes: u32);
            fn wants_ack(self: &Connection) -> bool;
            fn again(self: &Connection) -> Again;
            fn poll_event(self: &mut Connection) -> Option<Event>;
            fn poll_timeout(self: &Connection) -> Option<Instant>;
            fn handle_timeout(self: &mut Connection, now: Instant);
            fn path_changed(self: &mut Connection);
            fn resend_all(self: &mut Connection, now: Instant);
            fn take_delivered_len(self: &mut Connection) -> u32;
            fn keep_alive(self: &Connection) -> Option<KeepAlive>;
            fn set_keep_alive(self: &mut Connection, now: Instant, keep_alive: Option<KeepAlive>);
            fn outlast(self: &mut Connection, outage: core::time::Duration);
            fn heard_at(self: &Connection) -> Instant;
            fn info(self: &Connection) -> Info;
            fn counters(self: &Connection) -> &Counters;
        }
    };
}
pub(crate) use of_connection;

use core::fmt::Debug;
use core::hash::Hash;

use fusewire_base::Instant;

pub use drops::{DropCause, Drops};
pub use info::{CongestionPhase, Counters, Info};
pub use segments::{
    Again, Cut, Event, Initial, ListenerAction, Note, PayloadPlan, Probe, Reservation, ResetCause,
    Says, Stage, Transmit, TransmitKind, Verdict,
};
pub use settings::{Ends, KeepAlive, Secrets, Sizes};

use crate::isn::Key;

/// What names a connection of the protocol `P` between two addresses.
pub type Flow<P> = <<P as Protocol>::Header as Header>::Flow;

/// An answer of a listener's, and whom it is for.
pub type Answer<P> = (Ends<Flow<P>>, <P as Protocol>::Header);

/// A protocol's settings, from which its connections are made.
pub trait Protocol: Clone + Debug {
    /// Its header.
    type Header: Header;
    /// One connection.
    type Connection: Connection<Header = Self::Header>;
    /// Connections that are not open yet.
    type Listener: Listener<Protocol = Self>;

    /// Its name in views, in small letters.
    fn name(&self) -> &'static str;
    /// Its number in the headers of IP.
    fn number(&self) -> u8;
    /// Letters of the bits of [`Note::flags`], the lowest first.
    fn letters(&self) -> &'static str;
    /// Whether the checksum covers a pseudo-header besides header and payload.
    fn sums_pseudo_header(&self) -> bool;

    /// Reads the header that `bytes` begin with.
    ///
    /// # Errors
    /// Bytes that are no header.
    fn parse(&self, bytes: &[u8]) -> Result<Self::Header, fusewire_wire::Error>;

    /// How much memory these settings ask for.
    fn sizes(&self) -> Sizes;
    /// Other sizes: what path, device and memory carry.
    fn set_sizes(&mut self, sizes: &Sizes);

    /// What names the `nth` connection that one end opens to a service of the other's; not two of `2^15` in a row are
    /// alike. `key` makes what nobody else shall guess.
    fn flow_to(&self, service: u16, nth: u16, key: &Key, now: Instant) -> Flow<Self>;
    /// An active open, to a service. `key` makes the numbers that nobody else shall guess.
    fn connect(
        &self,
        ends: &Ends<Flow<Self>>,
        service: u16,
        key: &Key,
        now: Instant,
    ) -> Self::Connection;
    /// Passive opens, of at most `backlog` connections at once that are not taken.
    fn listen(&self, backlog: usize, secrets: &Secrets) -> Self::Listener;
}

/// A protocol's header.
pub trait Header: Copy + Debug {
    /// What names a connection between two addresses: the ports, or a key.
    type Flow: Copy + Eq + Hash + Debug;

    /// Bytes of the shortest and of the longest header.
    const LEN_MIN: usize;
    /// See `LEN_MIN`.
    const LEN_MAX: usize;
    /// Bytes of the header of most segments with payload: so much room lies before a record, for it to be written to.
    const HEADROOM: usize;
    /// Where the Internet checksum lies in it, of two bytes.
    const CHECKSUM_AT: usize;

    /// Bytes before the payload, of a header that was parsed.
    fn header_len(&self) -> usize;
    /// Bytes that [`Header::emit`] writes.
    fn emit_len(&self) -> usize;
    /// Writes it and returns its length. The checksum is zero in what a machine gives out.
    ///
    /// # Panics
    /// When `out` is shorter than [`Header::emit_len`].
    fn emit(&self, out: &mut [u8]) -> usize;

    /// The connection that it is for, as who receives it names it.
    fn flow(&self) -> Self::Flow;
    /// The service that it asks for, if a listener is to see it.
    fn service(&self) -> Option<u16>;
    /// It says that something is refused, or unknown; no answer is due to it, and there is a limit to such.
    fn is_refusal(&self) -> bool;
    /// What is said to a segment for which there is neither connection nor listener, if anything.
    fn refusal(&self, payload_len: u32) -> Option<Self>;
    /// What a trace shows.
    fn note(&self) -> Note;

    /// What it says of the path, if it is no segment of a stream.
    fn probe(&self) -> Option<Probe>;
    /// The checksum covers the payload, too; otherwise [`Header::summed_len`] bytes alone.
    #[inline]
    fn sums_payload(&self) -> bool {
        true
    }
    /// Bytes of the header that the checksum covers.
    #[inline]
    fn summed_len(&self) -> usize {
        self.header_len()
    }
    /// Bytes behind the payload that prove it, in place of the checksum.
    #[inline]
    fn trailer_len(&self) -> usize {
        0
    }
}

/// A connection without I/O.
pub trait Connection: Debug {
    /// Its protocol's header.
    type Header: Header;

    /// The initial step: where the payload goes. Changes nothing but counters.
    fn handle_initial(&mut self, now: Instant, h: &Self::Header, payload_len: u32) -> Initial;
    /// The final step: takes the segment with what the integrated step found, or forgets it. It was `marked` when the
    /// layer below says that there was congestion on its way.
    fn handle_final(
        &mut self,
        now: Instant,
        h: &Self::Header,
        initial: &Initial,
        verdict: Verdict,
        marked: bool,
    );
    /// Whether a segment that came another way could be the peer's: who does not see the connection's segments does
    /// not guess one. Changes nothing.
    fn could_be_the_peers(&self, now: Instant, h: &Self::Header, payload_len: u32) -> bool;
    /// What else names it, besides what it was opened under: TPDUs of the peer's have the one or the other. It is known with
    /// [`Event::Established`] at the latest.
    fn also(&self) -> Option<<Self::Header as Header>::Flow> {
        None
    }
    /// A header that says this of the path to the peer, before a payload of so many bytes; `None` while the peer cannot be
    /// asked.
    fn probe(&self, probe: Probe, payload_len: u32) -> Option<Self::Header>;

    /// What is queued before the peer has answered leaves with the first TPDU.
    fn opens_with_data(&self) -> bool {
        false
    }

    /// Bytes that may be reserved now.
    fn send_room(&self) -> u32;
    /// Whether `len` bytes may be reserved now; they may be more than [`send_room`](Self::send_room) where that counts what
    /// can leave at once, and these may begin to.
    fn has_room(&self, len: u32) -> bool {
        len <= self.send_room()
    }
    /// Bytes that may be reserved, queued and in flight together.
    fn send_buffer(&self) -> u32;
    /// Most payload bytes in one segment now.
    fn max_payload(&self) -> u32;
    /// Reserves the next `len` bytes of the stream; `None` when there is no room, or one is open already.
    fn reserve(&mut self, len: u32) -> Option<Reservation>;
    /// A record of `len` bytes that is committed next may begin in the segment in which the one before ends
    /// ([`Cut::Joined`]), which waits still to be sent. What fits a segment goes there whole, beside whole records; of what
    /// is longer its first bytes go there, beside the last of one that is longer too.
    fn joins(&self, _len: u32) -> bool {
        false
    }
    /// Bytes of records that [`joins`](Self::joins) lets into the segment in which the one before ends, all of them
    /// whole.
    fn joins_whole(&self) -> u32 {
        0
    }
    /// The reserved bytes are written: queues them.
    fn commit(&mut self, reservation: Reservation, cut: Cut);
    /// The checksum covers the payload of what is committed now, when it leaves for the first time as a segment of its own
    /// or among whole records.
    fn checks_payload(&self) -> bool {
        true
    }
    /// Bytes that may have to follow the payload of a segment, now or later.
    fn trailer_room(&self) -> usize {
        0
    }
    /// They follow the payload of every segment from now on.
    fn sends_trailers(&self) -> bool {
        false
    }
    /// Whole records prove themselves from now on, to both ends: those that are sent from the stream offset `sent` on, and
    /// those that are received from `received` on. A protocol whose header can say so leaves them out of its checksum.
    fn proves_from(&mut self, _sent: u64, _received: u64) {}
    /// No more will be sent. Receiving goes on.
    fn finish(&mut self);
    /// Ends the connection at once. An open reservation is void.
    fn abort(&mut self);

    /// The application has consumed everything below the stream offset `upto`.
    fn consumed(&mut self, upto: u64);
    /// The receiver holds more than it did: the window is at least `bytes`, as far as the settings let it.
    fn widen_window(&mut self, bytes: u32);
    /// An acknowledgement should leave now.
    fn wants_ack(&self) -> bool;
    /// One of two segments or more waits for what comes with them ([`Connection::acknowledge`]).
    fn owes_ack(&self) -> bool {
        false
    }
    /// Nothing else has come: what is owed leaves now.
    fn acknowledge(&mut self) {}

    /// The next segment to put on the wire; `None` until something happens or `poll_timeout` comes.
    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<Self::Header>>;
    /// Why what is sent again now is sent again.
    fn again(&self) -> Again;
    /// What happened; `None` when there is nothing new.
    fn poll_event(&mut self) -> Option<Event>;
    /// When to call [`Connection::handle_timeout`] at the latest.
    fn poll_timeout(&self) -> Option<Instant>;
    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// The path carries so many bytes of header and payload together.
    fn set_tpdu_len(&mut self, bytes: usize);
    /// The peer is reached over another path now: estimates and windows begin anew.
    fn path_changed(&mut self);
    /// What is in flight did not arrive, which is no sign of congestion: it is sent again.
    fn resend_all(&mut self, now: Instant);
    /// Returns the payload length of the longest segment that the peer reported as received since the last call, 0 if it
    /// reported none. Where only a run of segments is known, the result is a lower bound.
    fn take_delivered_len(&mut self) -> u32;

    /// How an idle connection is probed.
    fn keep_alive(&self) -> Option<KeepAlive>;
    /// Probes on an idle connection, or none, from `now` on.
    fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>);
    /// The connection is to continue after an outage of up to about `outage`: timeouts do not double beyond a tenth of it,
    /// or a second, so that the end of the outage is noticed soon.
    fn outlast(&mut self, outage: core::time::Duration);
    /// When something acceptable last came from the peer.
    fn heard_at(&self) -> Instant;

    /// How far it has come.
    fn stage(&self) -> Stage;
    /// Its state as `ss` spells it.
    fn state_name(&self) -> &'static str;
    /// What names it besides addresses, each with what it is.
    fn names(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    /// Estimates and counters.
    fn info(&self) -> Info;
    /// The counters alone: cheap.
    fn counters(&self) -> &Counters;
}

/// Passive opens.
pub trait Listener: Debug {
    /// What its connections are made with.
    type Protocol: Protocol;

    /// A segment came that belongs to no connection, and is for this service. Its checksum was verified.
    fn handle_stray(
        &mut self,
        now: Instant,
        ends: &Ends<Flow<Self::Protocol>>,
        h: &<Self::Protocol as Protocol>::Header,
        payload_len: u32,
    ) -> ListenerAction<Self::Protocol>;

    // ---- for a listener that keeps something of those that are not open -------------------------

    /// An answer that is due again, and whom it is for. Call until `None`.
    fn poll_reply(&mut self, _now: Instant) -> Option<Answer<Self::Protocol>> {
        None
    }
    /// When to call `poll_reply` at the latest.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    /// The application took an accepted connection, or it died before.
    fn taken(&mut self) {}
    /// Half-open connections.
    fn half_open(&self) -> usize {
        0
    }
    /// Answers for which nothing was kept, because too many connections were half open.
    fn cookies_given(&self) -> u64 {
        0
    }
}
