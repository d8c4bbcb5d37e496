//! Bytes that come by the rings of a lease.
//!
//! ```text
//!  something lay in the placeholder when the lease began? ─yes─▶ that, and no more
//!    │no
//!  ring has something? ─yes─▶ copy, commit
//!    │no
//!    └─▶ look for a while ─▶ arm the doorbell ─▶ look once more ─▶ sleep in the placeholder
//! ```

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recv, recvmsg};

use super::leased::{Done, PATIENCE, PIECES, Part, lock};
use super::rings::{Entered, Rings, UNKNOWN};
use super::way::Way;
use super::{Client, Result};
use crate::region::{self, places};
use crate::ring::{self, After, Lost, Ring, Word};
use crate::words::Words;

/// Lays a part of the room into `rest`; how many pieces of it there are.
fn room_of<'a>(
    pieces: &'a mut [IoSliceMut<'_>],
    mut part: Part,
    rest: &mut [IoSliceMut<'a>; PIECES],
) -> usize {
    let room = pieces.iter_mut().map(|piece| {
        let part = part.of(piece.len());
        &mut piece[part]
    });
    let mut count = 0;
    for (place, room) in rest.iter_mut().zip(room.filter(|room| !room.is_empty())) {
        *place = IoSliceMut::new(room);
        count += 1;
    }
    count
}

impl Rings {
    /// Looks for a while whether something comes to a socket that has a lease, as a call does that waits for it. Afterwards no
    /// bell rings for what comes, until a call has found nothing.
    pub fn look(&self, p: BorrowedFd<'_>, way: &Way) {
        if let Some(lease) = self.enter(way)
            && lease.spins(p, false)
        {
            lease.looks();
        }
    }
}

impl Entered<'_> {
    pub(super) fn recv(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<Done> {
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let peeks = flags.contains(RecvFlags::PEEK);
        let takes_all = flags.contains(RecvFlags::WAITALL) && !peeks;
        let mut received = 0;
        loop {
            if self.local.before().load(Ordering::Acquire) > 0 && all > 0 {
                match self.take_before(p, pieces, received, peeks) {
                    Ok(len) => received += len,
                    Err(_) if received > 0 => return Ok(Done::Yes(received)),
                    Err(Errno::INTR) if flags.contains(RecvFlags::DONTWAIT) => {
                        return Err(Errno::AGAIN);
                    }
                    Err(error) => return Err(error),
                }
                if received > 0 && (received == all || !takes_all) {
                    if peeks
                        && received < all
                        && received as u64 == self.local.before().load(Ordering::Acquire)
                        && let Ok(Some(behind)) = self.take(p, pieces, received, true)
                    {
                        received += behind;
                    }
                    return Ok(Done::Yes(received));
                }
                continue;
            }
            match self.take(p, pieces, received, peeks) {
                Err(Lost) => return Ok(Done::Lost(received)),
                Ok(Some(len)) => {
                    received += len;
                    if received == all || !takes_all {
                        return Ok(Done::Yes(received));
                    }
                }
                Ok(None) => {}
            }
            match self.wait(p, flags.contains(RecvFlags::DONTWAIT)) {
                Ok(Woken::Look) => {}
                Ok(Woken::Over) => return Ok(Done::Lost(received)),
                Err(_) if received > 0 => return Ok(Done::Yes(received)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Until who has begun the lease has looked what lay in the placeholder, or for a while.
    pub(super) fn await_begin(&self) {
        for _ in 0..PATIENCE {
            if self.local.before().load(Ordering::Acquire) != UNKNOWN {
                break;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes what lay in the placeholder when the lease began, before anything of the ring, and no bell; 0: look again.
    fn take_before(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        skip: usize,
        peeks: bool,
    ) -> Result<usize> {
        let before = self.local.before();
        self.await_begin();
        // A handler cannot wait for whom it has interrupted.
        let _lock = lock(self.local.reads()).ok_or(Errno::INTR)?;
        let most = match before.load(Ordering::Acquire) {
            UNKNOWN => return Err(Errno::INTR),
            0 => return Ok(0),
            most => most,
        };
        let mut rest: [_; PIECES] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let count = room_of(pieces, Part { skip, most: most as usize }, &mut rest);
        let flags = if peeks { RecvFlags::PEEK } else { RecvFlags::empty() } | RecvFlags::DONTWAIT;
        let control = &mut RecvAncillaryBuffer::default();
        let (len, left) = match recvmsg(p, &mut rest[..count], control, flags) {
            Ok(message) if message.bytes > 0 => (message.bytes, most - message.bytes as u64),
            Err(Errno::INTR) => return Ok(0),
            // Somebody has taken it who did not ask.
            _ => (0, 0),
        };
        if !peeks || len == 0 {
            before.store(left, Ordering::Release);
            if left == 0 {
                self.arm(p);
            }
        }
        Ok(len)
    }

    /// Copies what there is out of the ring; `None`: nothing.
    fn take(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        skip: usize,
        peeks: bool,
    ) -> std::result::Result<Option<usize>, Lost> {
        let slot = self.slot();
        loop {
            let (read, unread) = ring::unread(&slot)?;
            if unread == 0 {
                return Ok(None);
            }
            let position = read & ring::POSITION;
            let len = self.copy_out(position, unread as usize, pieces, skip);
            if peeks {
                // What was there is there, unless somebody has read it or the lease was taken back.
                match slot.load(Word::Read) {
                    now if now & ring::REVOKED != 0 => return Err(Lost),
                    now if (now ^ read) & ring::POSITION == 0 => return Ok(Some(len)),
                    _ => continue,
                }
            }
            slot.expect_behind(region::Way::In, position, len, unread - len as u64);
            match ring::consume(&slot, read, unread, len as u64)? {
                None => continue,
                Some(After::Rest) => {}
                Some(After::Tell) => self.tell(),
                Some(After::Drain) => drop(self.drain(p)),
            }
            return Ok(Some(len));
        }
    }

    pub(super) fn copy_out(
        &self,
        position: u64,
        unread: usize,
        pieces: &mut [IoSliceMut<'_>],
        skip: usize,
    ) -> usize {
        let slot = self.slot();
        let (mut at, mut part) = (position, Part { skip, most: unread });
        for piece in pieces {
            let part = part.of(piece.len());
            let room = &mut piece[part];
            let [(first, front), (second, _)] = places(slot.index, region::Way::In, at, room.len());
            let (a, b) = room.split_at_mut(front);
            slot.rings.read(first, a);
            slot.rings.read(second, b);
            at += room.len() as u64;
        }
        (at - position) as usize
    }

    /// Nothing was there: looks for a while, then sleeps, or says that it would have to.
    pub(super) fn wait(&self, p: BorrowedFd<'_>, is_told_not_to_wait: bool) -> Result<Woken> {
        const EMPTIES: u64 = (1 << 32) - 1;
        let slot = self.slot();
        let waits = self.spins(p, is_told_not_to_wait);
        let since = waits.then(Instant::now);
        if waits && self.looks() {
            return Ok(Woken::Look);
        }
        // The bell, from now on, unless somebody waits for this lease and others, who looks by himself; and one that has rung for
        // what was read is taken out.
        let is_watched = !waits && slot.is_watched();
        while let Ok(After::Drain) = if is_watched { ring::rest(&slot) } else { ring::arm(&slot) } {
            if self.drain(p).is_err() || slot.load(Word::Read) & ring::RUNG != 0 {
                break;
            }
        }
        let over = slot.over();
        if has_news(&slot) {
            return Ok(Woken::Look);
        }
        if over != 0 {
            return Ok(Woken::Over);
        }
        if waits {
            // Signals, time-outs and a placeholder that does not wait are the kernel's.
            return match recv(p, &mut [0], RecvFlags::PEEK) {
                Ok((_, 1..)) => {
                    since.inspect(|since| self.has_slept(since.elapsed()));
                    Ok(Woken::Look)
                }
                Ok(_) => self.over_after_all(),
                Err(Errno::AGAIN) => {
                    self.does_not_wait();
                    Err(Errno::AGAIN)
                }
                Err(Errno::INTR) => Err(Errno::INTR),
                Err(_) => self.over_after_all(),
            };
        }
        // Who looks again and again is told of an outboard that is gone.
        if self.local.empties().fetch_add(1, Ordering::Relaxed) & EMPTIES & 7 == 1 {
            match recv(p, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, 1..)) | Err(Errno::AGAIN | Errno::INTR) => {}
                _ => return self.over_after_all(),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Looks for as long as it has paid lately, without a bell; returns `true` if there is something.
    fn looks(&self) -> bool {
        let slot = self.slot();
        ring::disarm(&slot);
        self.spin(|| slot.over() != 0 || has_news(&slot)) && slot.over() == 0
    }

    /// Notices that the lease was taken back, if it was: from then on the placeholder alone is used.
    pub(super) fn lose_if_revoked(&self, client: &Client, p: BorrowedFd<'_>, way: &Way) {
        if self.slot().load(Word::Read) & ring::REVOKED == 0 {
            return;
        }
        if !self.is_quiet() {
            // Who took it back could not see to the doorbell: he is shown where it lies.
            let _ = client.attach(p);
        }
        self.lost(way);
    }

    /// After the lease was taken back: no doorbell lies in the placeholder, where it would be taken for the peer's byte.
    fn is_quiet(&self) -> bool {
        let slot = self.slot();
        for _ in 0..20_000 {
            if !ring::is_noisy(&slot) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// The placeholder is at its end: so is the connection, unless there is something yet.
    fn over_after_all(&self) -> Result<Woken> {
        Ok(match ring::unread(&self.slot()) {
            Ok((_, 1..)) => Woken::Look,
            _ => Woken::Over,
        })
    }
}

/// Why a wait has ended.
pub(super) enum Woken {
    /// There is something, or the lease was taken back.
    Look,
    /// The ring is empty, and the placeholder tells what has become of the connection.
    Over,
}

/// There is something to read, or the lease was taken back: either way to be looked at.
fn has_news(slot: &region::Slot<'_>) -> bool {
    ring::unread(slot).map_or(true, |(_, len)| len > 0)
}
