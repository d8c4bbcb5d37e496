//! One that sends to many, over XTP's multicast: what must arrive goes again until every receiver has it, what may be lost does
//! not, and each ADU is marshalled in the pass that seals it (`docs/xtp.md`, section 16; `fusewire_session::group`).
//!
//! ```text
//!  Sender ── stream of what is sent again (service 6) ──▶ group, port      ──▶ Receiver ─▶ all, in order
//!         └─ stream of what is not (service 5) ─────────▶ group, port + 1  ──▶          ─▶ or the newest
//!         ◀──────────── a session with each receiver: its key, keys of the streams ───▶
//! ```
//! Each receiver opens a session with the sender, which knows it by its key there, tells it where the group is and the secrets of
//! an epoch. When somebody leaves, or is let go, an epoch of each stream begins, with the next that is sent there, whose secrets
//! only those are told who are still there, all in order; nothing is sealed in the old one any more. All receivers have the same secrets, so each could seal what the others open: what comes
//! that is none of the specification's is passed over and counted, and ends nobody.
//!
//! A [`Sender`] has a thread of its own, so that nobody waits for its application. A [`Receiver`] does something only
//! while [`Receiver::recv`] is called: an application that stays away for longer than [`SILENCE`] is let go.
//!
//! Memory is allocated when an end is made; at a sender also where an epoch begins or a receiver comes, at a receiver where
//! keys come.

mod door;
mod ear;
mod opener;
mod receiver;
mod sender;
mod wait;
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use crate::profile::{Adu, Profile};

pub use fusewire_stack::group::Leaving;
pub use receiver::{Counters, Receiver, key_of};
pub(crate) use receiver::{visit, visit_from, visitors};
pub use sender::{Event, Sender};

/// What the crate of a group's ends names as its own.
pub mod ends {
    pub use super::{Counters, Event, Leaving, Place};
}

/// The stream of what is sent again.
const RESENT: usize = 0;
/// That of what is not.
const ONCE: usize = 1;
/// What is kept for one that is frozen, at most.
const BUFFER_MAX: usize = 32 << 20;
/// Who says nothing for so long, though asked, is let go.
pub const SILENCE: Duration = Duration::from_secs(2);

/// How long one may wait for its turn where many come.
const TURN: Duration = Duration::from_secs(180);

/// Where a group is.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where receivers find their sessions; port 0: any. What goes to the group comes from this address, too: receivers take it
    /// from no other, so of a host that has several one is named.
    pub sessions: SocketAddr,
    /// Where what is sent again goes; the rest goes to the next port.
    pub group: SocketAddr,
    /// The network interface that leads there, by name; `None`: the kernel's choice.
    pub interface: Option<String>,
    /// Routers that packets to the group may pass, and one more.
    pub hops: u8,
}

impl Place {
    /// On the links of this host.
    pub fn new(sessions: SocketAddr, group: SocketAddr) -> Place {
        Place { sessions, group, interface: None, hops: 1 }
    }

    /// Of another stream.
    pub(crate) fn of(group: SocketAddr, stream: usize) -> SocketAddr {
        SocketAddr::new(group.ip(), group.port().wrapping_add(stream as u16))
    }
}

/// Why a session was ended by the sender's side, as a session says it.
mod code {
    pub const FULL: u64 = 1;
    pub const LET_GO: u64 = 2;
    pub const WRONG: u64 = 3;
}

/// The stream of a type.
fn stream_of(adu: &Adu) -> usize {
    if adu.is_resent { RESENT } else { ONCE }
}

/// Bytes of the longest body of a stream; `None`: nothing goes there.
fn body_max(adus: &[Adu], stream: usize) -> Option<usize> {
    let its = adus.iter().filter(|adu| stream_of(adu) == stream);
    its.map(|adu| wire::HEAD_LEN + adu.len_max).max()
}

/// Bytes of memory of a stream: a message has a quarter at most, and what is sent has room while one is waited for that is
/// frozen, until it is let go.
fn buffer<P: Profile>(stream: usize, body_max: usize) -> usize {
    let meanwhile = P::CAST_RATES[stream] as usize / 2 * 7;
    let meanwhile = if stream == RESENT { meanwhile.min(BUFFER_MAX) } else { 0 };
    P::CAST_BUFFERS[stream].max(4 * (body_max + 256)).max(meanwhile)
}

/// Bytes of memory of the stream of what is sent again, at the end that sends and at each that receives; 0: there is none.
pub fn memory_of_resent<P: Profile>() -> usize {
    let longest = body_max(P::SENDS, RESENT).max(body_max(P::TAKES, RESENT));
    longest.map_or(0, |longest| buffer::<P>(RESENT, longest))
}

fn body_len_max(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
