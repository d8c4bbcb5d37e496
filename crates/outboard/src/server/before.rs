//! Datagrams that were sent before a request which changes whom they are for, or what their packets say.

use std::collections::VecDeque;
use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use rustix::io::Errno;

use super::engine::Engine;
use super::lease;
use super::table::State;
use crate::protocol::{Handle, Kind};

type Result<T, E = Errno> = std::result::Result<T, E>;

/// Turns of a socket whose datagrams go before a request.
const TURNS_BEFORE: usize = 64;

/// Peers before the present one for which something waits to be taken, at most.
const EARLIER_MAX: usize = 16;

/// Peers that a socket for datagrams was connected to before, and how many bytes the application sent meanwhile that are not taken
/// yet: of what is taken next the first so many are the first peer's, unless they name somebody.
#[derive(Debug, Default)]
pub struct Earlier(VecDeque<(Option<SocketAddr>, u64)>);

impl Earlier {
    /// Whose the next is that is taken: some earlier peer's, or nobody's.
    pub fn first(&self) -> Option<Option<SocketAddr>> {
        self.0.front().map(|(peer, _)| *peer)
    }

    /// So many bytes were taken.
    pub fn note_taken(&mut self, mut len: u64) {
        while let Some((_, left)) = self.0.front_mut() {
            let part = len.min(*left);
            (*left, len) = (*left - part, len - part);
            if *left > 0 {
                return;
            }
            self.0.pop_front();
        }
    }

    /// All were taken.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Of so many bytes that are not taken, those of the present peer.
    fn of_present(&self, left: u64) -> u64 {
        left.saturating_sub(self.0.iter().map(|(_, len)| len).sum())
    }

    /// The socket may have another peer, where so many bytes are not taken.
    pub fn has_room(&self, left: u64) -> bool {
        self.of_present(left) == 0 || self.0.len() < EARLIER_MAX
    }

    /// `peer` is one of them, and so many bytes are not taken.
    pub fn add(&mut self, peer: Option<SocketAddr>, left: u64) {
        let own = self.of_present(left);
        if own > 0 {
            self.0.push_back((peer, own));
        }
    }
}

/// What a socket for datagrams has taken from its application, in bytes as they lie there.
struct Sent {
    taken: u64,
    /// Not yet.
    left: u64,
    is_fresh: bool,
    /// The interface had no room for one that was taken.
    is_pending: bool,
}

impl Engine {
    /// Datagrams that were sent before a request leave before it, as far as they can: it may change whom they are for, or what
    /// their packets say. How many bytes of them could not, which were not taken yet.
    ///
    /// # Errors
    /// `EBADF`: there is no such socket; `ENETDOWN`: the interface is broken.
    pub fn send_before(&mut self, stack: &mut Stack, now: Instant, handle: &Handle) -> Result<u64> {
        let Some(mut seen) = self.sent(handle)? else { return Ok(0) };
        // Who goes on sending meanwhile does not hold it up.
        let end = seen.taken + seen.left;
        for _ in 0..TURNS_BEFORE {
            if seen.taken >= end && !seen.is_pending {
                break;
            }
            let index = self.table.commanded(handle).ok_or(Errno::BADF)?;
            self.turn(stack, now, index).map_err(|_| Errno::NETDOWN)?;
            let Some(after) = self.sent(handle)? else { return Ok(0) };
            // One is bound by its first turn, and sends in the next.
            let goes = (after.taken, after.is_fresh, after.is_pending)
                != (seen.taken, seen.is_fresh, seen.is_pending);
            seen = after;
            if !goes {
                break;
            }
        }
        Ok(end.saturating_sub(seen.taken))
    }

    /// How far a socket for datagrams has come with what its application has sent. `None`: it is another.
    fn sent(&mut self, handle: &Handle) -> Result<Option<Sent>> {
        let index = self.table.commanded(handle).ok_or(Errno::BADF)?;
        let Engine { table, regions, .. } = self;
        let socket = table.at(index).ok_or(Errno::BADF)?;
        if socket.of.kind != Kind::Datagram {
            return Ok(None);
        }
        // Nothing may have told us of it yet.
        let piped = rustix::io::ioctl_fionread(&socket.q).unwrap_or(0);
        socket.shown.readable |= piped > 0;
        let in_ring = match &mut socket.lease {
            Some(lease) => lease::untaken(lease, regions),
            None => 0,
        };
        Ok(Some(Sent {
            taken: socket.taken,
            left: piped + in_ring,
            is_fresh: matches!(socket.state, State::Fresh),
            is_pending: matches!(socket.state, State::Datagrams { pending: Some(_), .. }),
        }))
    }
}
