//! Two machines of one protocol on simulated links in virtual time: what they have in common whatever the protocol is. It
//! brings frames, and accounts of the numbers in its headers ([`Account`]).

use core::fmt::{Debug, Display};

use fusewire_base::Instant;
use fusewire_testkit::{Content, Packet, Random};
use fusewire_transport::machine::{self, PayloadPlan, Protocol, Secrets};

mod app;
mod side;
mod world;

pub use app::{App, any_link};
pub use side::Side;
pub use world::{Scenario, World};

pub type Connection<A> = <<A as Account>::Config as Protocol>::Connection;
pub type Listener<A> = <<A as Account>::Config as Protocol>::Listener;
pub type Header<A> = <<A as Account>::Config as Protocol>::Header;
pub type Ends<A> = machine::Ends<machine::Flow<<A as Account>::Config>>;
pub type Transmit<A> = machine::Transmit<Header<A>>;

/// The first `len` bytes that the plan takes of a payload are those of the stream.
pub fn assert_bytes(payload: &[u8], plan: &PayloadPlan, len: u32, stream: &Content) {
    let front = plan.trim_front as usize;
    assert_eq!(front + plan.len as usize + plan.trim_back as usize, payload.len());
    let bytes = &payload[front..front + len as usize];
    assert!(stream.matches(plan.offset, bytes), "wrong bytes at {}", plan.offset);
}

/// What the simulated links carry.
pub trait Frame: Packet + Display {
    type Header;

    /// The frame of a transmission whose payload is cut from `content`, as bytes or as a range.
    fn of(transmit: &machine::Transmit<Self::Header>, content: &Content, with_bytes: bool) -> Self;
    /// One without payload, with a right checksum.
    fn control(header: &Self::Header, with_bytes: bool) -> Self;
    /// The header, when it can be read.
    fn header(&self) -> Option<Self::Header>;
    fn payload_len(&self) -> u32;
    /// The first `len` bytes that the plan takes of the payload are those of the stream.
    fn assert_carries(&self, plan: &PayloadPlan, len: u32, stream: &Content);
    /// The checksum is right.
    fn verifies(&self) -> bool;
    /// What cannot be read was changed on its way.
    fn assert_changed(&self) {
        assert!(!self.verifies(), "what we sent parses");
    }
    /// Congestion was marked.
    fn is_marked(&self) -> bool {
        false
    }
}

/// What only who knows a protocol's numbers can keep of one end, and do.
pub trait Account: Clone + Debug {
    type Config: Protocol;
    type Frame: Frame<Header = Header<Self>>;
    /// What else a scenario says.
    type Told: Clone + Debug + Default;
    /// What else there is in a world.
    type Around;

    /// The accounts of an end with these settings, and the edges below which its peer and it may send at first.
    fn new(config: &Self::Config, told: &Self::Told) -> (Self, [u64; 2]);
    /// An active open.
    fn connect(
        scenario: &Scenario<Self>,
        random: &mut Random,
        now: Instant,
    ) -> (Connection<Self>, Self::Around);
    /// A listener.
    fn listen(scenario: &Scenario<Self>, secrets: &Secrets) -> Listener<Self>;

    // ---- what every connection has, and the machine does not ask for ----------------------------

    /// All below has come.
    fn rcv_nxt(conn: &Connection<Self>) -> u64;
    /// All below is acknowledged.
    fn snd_una(conn: &Connection<Self>) -> u64;
    /// Counts anew what the machine keeps.
    fn assert_invariants(conn: &Connection<Self>);

    // ---- one end --------------------------------------------------------------------------------

    /// The application may write.
    fn may_write(side: &Side<Self>) -> bool;
    /// It may finish, when it has written all.
    fn may_finish(side: &Side<Self>) -> bool;
    /// This was reserved, and is committed next.
    fn before_commit(_: &mut Side<Self>, _: core::ops::Range<u64>) {}
    /// The application reads.
    fn before_consumed(_: &mut Side<Self>) {}
    /// A frame was found to be right.
    fn heard(side: &mut Side<Self>, header: &Header<Self>, frame: &Self::Frame);
    /// A frame was taken, or not.
    fn after_final(_: &mut Side<Self>) {}
    /// What the machine wants to send.
    fn check_transmit(side: &mut Side<Self>, transmit: &Transmit<Self>);
    /// That as a frame.
    fn check_frame(_: &mut Side<Self>, _: &Self::Frame) {}
    /// Whether what is in flight is bounded by the window now.
    fn knows_in_flight(_: &Side<Self>) -> bool {
        true
    }
    /// Inequalities that hold after every step.
    fn check(side: &Side<Self>);

    // ---- both -----------------------------------------------------------------------------------

    /// An answer of the listener's is the client's.
    fn is_the_clients(_: &Ends<Self>) -> bool {
        true
    }
    /// A run has ended.
    fn is_over(world: &World<Self>) -> bool;
    /// A frame arrives at the client's address.
    fn arrive_at_client(world: &mut World<Self>, frame: &Self::Frame);
    /// A frame arrives at the server's address.
    fn arrive_at_server(world: &mut World<Self>, frame: &Self::Frame);
}
