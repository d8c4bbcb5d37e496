//! Datagrams that were sent before a request which changes whom they are for, or what their packets say.

use fusewire_base::Instant;
use fusewire_stack::ip::Stack;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::engine::Engine;
use super::lease;
use super::table::State;
use crate::protocol::{Handle, Kind};

type Result<T, E = Errno> = std::result::Result<T, E>;

/// Turns of a socket whose datagrams go before a request.
const TURNS_BEFORE: usize = 64;

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
    /// their packets say. How many bytes of them could not.
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
        Ok(end.saturating_sub(seen.taken) + u64::from(seen.is_pending))
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

    /// Throws away what was sent to an earlier peer and could not leave: it may be lost, but is not for the next.
    ///
    /// # Errors
    /// `EBADF`: there is no such socket.
    pub fn forget_before(&mut self, handle: &Handle, most: u64) -> Result<()> {
        let index = self.table.commanded(handle).ok_or(Errno::BADF)?;
        let Engine { table, regions, .. } = self;
        let socket = table.at(index).ok_or(Errno::BADF)?;
        let mut left = most;
        if let State::Datagrams { pending, .. } = &mut socket.state
            && pending.take().is_some()
        {
            left -= 1;
        }
        if let Some(lease) = &mut socket.lease {
            left -= lease::forget(lease, regions, left);
        }
        while left > 0 {
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            let len = match recv(&socket.q, &mut [0], flags) {
                Ok((_, len @ 1..)) => len as u64,
                Err(Errno::INTR) => continue,
                _ => break,
            };
            left = left.saturating_sub(len);
            if let Some(lease) = &mut socket.lease {
                lease::note_piped(lease, regions, len);
            }
        }
        Ok(())
    }
}
