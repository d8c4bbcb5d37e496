//! Datagrams: records in the rings of a lease where there is one, messages behind an address through the placeholder
//! otherwise.
//!
//! ```text
//!  send   ring has room? ─yes─▶ as many records as fit, one commit ─▶ tell   no system call, when the outboard is awake
//!            │no, or somebody else writes, or something of ours is still in the placeholder
//!            └─▶ look for a while, unless told not to ─▶ one through the placeholder, in which the kernel makes it wait
//!  recv   as `arriving` says, a record at a time
//! ```
//! The placeholder takes what the ring has no room for, a few whole messages, so that it shows what is true: who finds it
//! writable is not refused, and who waits sleeps there. The ring is used again when the outboard has taken them, so that they
//! keep their order.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags};

use super::arriving::Woken;
use super::bytes::{self, Found, Removed};
use super::leased::{Done, SPIN_MAX, SPIN_MIN, lock};
use super::rings::{Entered, Rings, UNKNOWN};
use super::way::Way;
use super::{Client, Datagram, Result, send_to};
use crate::placeholder;
use crate::protocol::{HEADING_LEN, Handle, Heading};
use crate::record::{Head, MESSAGE_MAX, UNIT};
use crate::region::{self, places};
use crate::ring::{self, After, Lost, Ring, Word};
use crate::words::Words;

/// Records that are committed at once, so that the outboard begins with the first while the last are laid down.
const COMMIT: usize = 32;

/// Datagrams that one call sends.
pub trait Leaving {
    /// How many.
    fn count(&self) -> usize;

    /// Their socket is connected, and whoever sends is told what became of what was sent before. Otherwise nothing is asked for.
    fn has_peer(&self) -> bool {
        true
    }

    /// Gives `f` the pieces of one, to whom it goes, and what beside it.
    ///
    /// # Errors
    /// Those of `f`; it is not to be sent.
    fn with<T>(&self, at: usize, f: impl FnOnce(&[IoSlice<'_>], Heading) -> Result<T>)
    -> Result<T>;
}

/// One datagram, of a socket that has a peer or not.
struct One<'a>(&'a [IoSlice<'a>], Heading, bool);

impl Leaving for One<'_> {
    fn count(&self) -> usize {
        1
    }
    fn has_peer(&self) -> bool {
        self.2
    }
    fn with<T>(&self, _: usize, f: impl FnOnce(&[IoSlice<'_>], Heading) -> Result<T>) -> Result<T> {
        f(self.0, self.1)
    }
}

fn len_of(pieces: &[IoSlice<'_>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

impl Rings {
    /// Sends a datagram to `to`, or to whom the socket is connected (`has_peer`: it is, to whomever this goes).
    ///
    /// # Errors
    /// As [`send_to`].
    pub fn send_to(
        &self,
        client: &Client,
        with: (BorrowedFd<'_>, Handle, &Way),
        pieces: &[IoSlice<'_>],
        (to, has_peer): (impl Into<Heading>, bool),
        flags: SendFlags,
    ) -> Result<usize> {
        let one = One(pieces, to.into(), has_peer);
        self.send_datagrams(client, with, &one, flags).map(|_| len_of(pieces))
    }

    /// Sends several; how many were sent, which is at least the first.
    ///
    /// # Errors
    /// As [`send_to`], of the first.
    pub fn send_datagrams(
        &self,
        client: &Client,
        (p, handle, way): (BorrowedFd<'_>, Handle, &Way),
        all: &impl Leaving,
        flags: SendFlags,
    ) -> Result<usize> {
        let (lease, inside) = self.enter_either(way, true)?;
        let mut sent = 0;
        if let Some(lease) = lease {
            if all.has_peer() && lease.takes_word(p) {
                client.failure(handle)?.map_or(Ok(()), Err)?;
            }
            match lease.send_datagrams(p, all, flags)? {
                Done::Yes(count) => return Ok(count),
                Done::Lost(count) => {
                    sent = count;
                    lease.lose_if_revoked(client, p, way);
                }
            }
        }
        // Once, of all of them.
        let mut failed =
            if sent == 0 && all.has_peer() { client.told((p, handle)).err() } else { None };
        while sent < all.count() && failed.is_none() {
            match all.with(sent, |pieces, to| send_to(p, pieces, to, flags)) {
                Ok(_) => sent += 1,
                Err(error) => failed = Some(error),
            }
        }
        drop(inside);
        if sent > 0 && way.moved() {
            let _ = self.lease(client, p, handle, way);
        }
        match failed {
            Some(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    /// Receives a datagram into `pieces`, of which the first is room for a heading that goes by the placeholder; `None`: the
    /// socket was shut down, or the outboard is gone.
    ///
    /// # Errors
    /// As [`Client::recv_from`].
    pub fn recv_from(
        &self,
        client: &Client,
        (p, handle, way): (BorrowedFd<'_>, Handle, &Way),
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<Option<Datagram>> {
        let (lease, inside) = self.enter_either(way, false)?;
        if let Some(lease) = lease {
            loop {
                match lease.recv_datagram(p, pieces, flags)? {
                    Some(Found::Datagram(datagram)) => return Ok(Some(datagram)),
                    Some(Found::Word) => client.failure(handle)?.map_or(Ok(()), Err)?,
                    None => break lease.lose_if_revoked(client, p, way),
                }
            }
        }
        let came = client.recv_from((p, handle), pieces, flags)?;
        drop(inside);
        if came.is_some() && way.moved() {
            let _ = self.lease(client, p, handle, way);
        }
        Ok(came)
    }

    /// How long the next datagram is that a lease has; `None`: the placeholder may know.
    pub fn next_len(&self, way: &Way) -> Option<usize> {
        self.enter(way)?.first().map(|head| head.len)
    }

    /// An error waits to be told where datagrams come.
    pub fn has_failed(&self, p: BorrowedFd<'_>, way: &Way) -> bool {
        match self.enter(way) {
            Some(lease) if lease.local.before().load(Ordering::Acquire) == 0 => {
                lease.first().is_some_and(|head| head.heading.address.is_none())
            }
            _ => bytes::has_word(p),
        }
    }

    /// The error of a socket for datagrams that was not told yet (`SO_ERROR`), which waits no longer where they come.
    ///
    /// # Errors
    /// As [`Client::error`].
    pub fn take_error(
        &self,
        client: &Client,
        (p, handle, way): (BorrowedFd<'_>, Handle, &Way),
    ) -> Result<Option<Errno>> {
        match self.enter(way) {
            Some(lease) if lease.takes_word(p) => client.failure(handle),
            Some(_) => client.error(handle),
            None => client.take_error((p, handle)),
        }
    }
}

/// What laying down records came to.
enum Laid {
    /// So many.
    Some(usize),
    /// There is no room for the first, of so many bytes.
    NoRoom(u64),
}

impl Entered<'_> {
    fn send_datagrams(
        &self,
        p: BorrowedFd<'_>,
        all: &impl Leaving,
        flags: SendFlags,
    ) -> Result<Done> {
        let mut sent = 0;
        while sent < all.count() {
            if self.slot().is_shut() {
                return Ok(Done::Lost(sent));
            }
            let laid = self.write().then(|| self.lay_records(all, sent));
            let need = match laid {
                Some(Ok(Ok(Laid::Some(count)))) => {
                    sent += count;
                    self.tell();
                    continue;
                }
                Some(Ok(Ok(Laid::NoRoom(need)))) => Some(need),
                Some(Ok(Err(Lost))) => return Ok(Done::Lost(sent)),
                Some(Err(error)) if sent == 0 => return Err(error),
                Some(Err(_)) => break,
                None => None,
            };
            self.rest();
            let waits = self.spins(p, flags.contains(SendFlags::DONTWAIT));
            // Who is not the one that writes does not wait to be: a handler would wait for whom it has interrupted.
            if let Some(need) = need
                && (waits && self.spin_for_record(need) || self.is_about_to_return(p))
            {
                continue;
            }
            if sent > 0 && !waits {
                break;
            }
            match self.spill_datagram(p, all, sent, flags) {
                Ok(()) => sent += 1,
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
            if waits {
                // One that has slept is woken by the outboard, which has taken all that is in the ring.
                self.look(SPIN_MAX, || !self.is_spilled());
            }
        }
        Ok(Done::Yes(sent))
    }

    /// Lays down what there is room for of a few, and commits it.
    fn lay_records(
        &self,
        all: &impl Leaving,
        from: usize,
    ) -> Result<std::result::Result<Laid, Lost>> {
        let slot = self.slot();
        if self.is_spilled() {
            return Ok(Ok(Laid::NoRoom(0)));
        }
        let mut taken = self.local.taken().load(Ordering::Relaxed);
        let (mut begin, mut room, mut used, mut need) = (0, 0, 0, 0);
        let (mut count, mut failed) = (0, None);
        while count < COMMIT && from + count < all.count() {
            let lay = |pieces: &[IoSlice<'_>], heading| {
                let len = len_of(pieces);
                if len > MESSAGE_MAX {
                    return Err(Errno::MSGSIZE);
                }
                let head = Head { len, heading };
                need = head.len_in_ring();
                if used + need > room {
                    // What is known of it may be old.
                    let Ok(now) = ring::room(&slot, &mut taken, used + need) else {
                        return Ok(Err(Lost));
                    };
                    (begin, room) = now;
                }
                if used + need > room {
                    return Ok(Ok(false));
                }
                lay_record(self, begin + used, head, pieces);
                used += need;
                Ok(Ok(true))
            };
            match all.with(from + count, lay) {
                Ok(Ok(true)) => count += 1,
                Ok(Ok(false)) => break,
                Ok(Err(Lost)) => return Ok(Err(Lost)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        self.local.taken().store(taken, Ordering::Relaxed);
        match (count, failed) {
            (0, Some(error)) => Err(error),
            (0, None) => Ok(Ok(Laid::NoRoom(need))),
            _ => Ok(ring::commit(&slot, begin, used).map(|()| Laid::Some(count))),
        }
    }

    /// One through the placeholder, which may sleep.
    fn spill_datagram(
        &self,
        p: BorrowedFd<'_>,
        all: &impl Leaving,
        at: usize,
        flags: SendFlags,
    ) -> Result<()> {
        all.with(at, |pieces, to| {
            let len = HEADING_LEN + len_of(pieces);
            // There is room for little, so that the descriptor shows soon that there is none.
            let is_long = len > placeholder::NARROW_MAX;
            if is_long {
                placeholder::widen(p)?;
            }
            self.local.spilled().fetch_add(len as u64, Ordering::AcqRel);
            let sent = send_to(p, pieces, to, flags);
            if is_long {
                placeholder::narrow(p)?;
            }
            sent.map(|_| ()).inspect_err(|_| {
                self.local.spilled().fetch_sub(len as u64, Ordering::AcqRel);
            })
        })
    }

    /// Looks for a good part of the ring to become free, and for so much.
    fn spin_for_record(&self, need: u64) -> bool {
        let slot = self.slot();
        let all = slot.ring_bytes();
        let need = need.max(all / 4);
        self.look(SPIN_MIN, || {
            let mut taken = 0;
            let room = ring::room(&slot, &mut taken, all);
            let has_room = room.is_ok_and(|(_, room)| room >= need) && !self.is_spilled();
            room.is_err() || has_room || slot.is_shut()
        })
    }

    /// `None`: the placeholder has what comes, or tells what has become of the socket.
    fn recv_datagram(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<Option<Found>> {
        loop {
            if self.local.before().load(Ordering::Acquire) > 0 {
                match self.take_datagram_before(p, pieces, flags) {
                    Ok(None) => {}
                    done => return done,
                }
                continue;
            }
            match self.take_datagram(p, pieces, flags.contains(RecvFlags::PEEK)) {
                Err(Lost) => return Ok(None),
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
            }
            match self.wait(p, flags.contains(RecvFlags::DONTWAIT))? {
                Woken::Look => {}
                Woken::Over => return Ok(None),
            }
        }
    }

    /// Takes one of those that lay in the placeholder when the lease began; `None`: look again.
    fn take_datagram_before(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<Option<Found>> {
        let before = self.local.before();
        self.await_begin();
        let interrupted =
            if flags.contains(RecvFlags::DONTWAIT) { Errno::AGAIN } else { Errno::INTR };
        // A handler cannot wait for whom it has interrupted.
        let _lock = lock(self.local.reads()).ok_or(interrupted)?;
        let most = match before.load(Ordering::Acquire) {
            UNKNOWN => return Err(interrupted),
            0 => return Ok(None),
            most => most,
        };
        let peeks = flags & RecvFlags::PEEK;
        let came = match bytes::take(p, pieces, peeks | RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => return Ok(None),
            Ok(Some(came)) => Some(came),
            // Somebody has taken it who did not ask.
            _ => None,
        };
        let len = match came {
            Some(Found::Datagram(_)) if !peeks.is_empty() => None,
            Some(Found::Datagram(came)) => Some((HEADING_LEN + came.len) as u64),
            Some(Found::Word) => Some(HEADING_LEN as u64),
            None => Some(most),
        };
        if let Some(len) = len {
            self.lower_before(p, most, len);
        }
        Ok(came)
    }

    /// Of so much that lay in the placeholder when the lease began, so much was taken, by the one who reads there.
    fn lower_before(&self, p: BorrowedFd<'_>, most: u64, len: u64) {
        self.local.before().store(most.saturating_sub(len), Ordering::Release);
        if len >= most {
            self.arm(p);
        }
    }

    /// Takes word of an error out of what lay in the placeholder when the lease began, if that comes first.
    fn takes_word_before(&self, p: BorrowedFd<'_>) -> bool {
        let Some(_lock) = lock(self.local.reads()) else { return false };
        let most = match self.local.before().load(Ordering::Acquire) {
            0 | UNKNOWN => return false,
            most => most,
        };
        let removed = bytes::remove_word(p);
        match removed {
            Removed::Nothing => {}
            Removed::Word => self.lower_before(p, most, HEADING_LEN as u64),
            Removed::Other(len) => self.lower_before(p, most, len as u64),
        }
        removed == Removed::Word
    }

    /// The first record of the ring, if there is one: [`Word::Read`], how much there is, what is said of it.
    fn next(&self) -> std::result::Result<Option<(u64, u64, Head)>, Lost> {
        let slot = self.slot();
        loop {
            let (read, unread) = ring::unread(&slot)?;
            if unread == 0 {
                return Ok(None);
            }
            match Head::read(&slot, region::Way::In, read & ring::POSITION) {
                Ok(head) if head.len_in_ring() <= unread => {
                    return Ok(Some((read, unread, head)));
                }
                // Somebody else has taken it meanwhile.
                _ if slot.load(Word::Read) != read => {}
                // Nobody but this program has written there.
                _ => return Err(Lost),
            }
        }
    }

    /// What is said of the first record of the ring, where that comes before anything in the placeholder.
    fn first(&self) -> Option<Head> {
        match self.local.before().load(Ordering::Acquire) {
            0 => self.next().ok()?.map(|(_, _, head)| head),
            _ => None,
        }
    }

    /// Takes word of an error out, if that comes first.
    fn takes_word(&self, p: BorrowedFd<'_>) -> bool {
        if self.local.before().load(Ordering::Acquire) > 0 && self.takes_word_before(p) {
            return true;
        }
        while self.local.before().load(Ordering::Acquire) == 0
            && let Ok(Some((read, unread, head))) = self.next()
            && head.heading.address.is_none()
        {
            match self.take_out(p, (read, unread), &head) {
                Ok(false) => {}
                taken => return taken.is_ok(),
            }
        }
        false
    }

    /// Takes the first record out, as [`Entered::next`] has found it; false: look again.
    fn take_out(
        &self,
        p: BorrowedFd<'_>,
        (read, unread): (u64, u64),
        head: &Head,
    ) -> std::result::Result<bool, Lost> {
        match ring::consume(&self.slot(), read, unread, head.len_in_ring())? {
            None => return Ok(false),
            Some(After::Rest) => {}
            Some(After::Tell) => self.tell(),
            Some(After::Drain) => drop(self.drain(p)),
        }
        Ok(true)
    }

    /// Copies the first record out of the ring; `None`: there is none.
    fn take_datagram(
        &self,
        p: BorrowedFd<'_>,
        pieces: &mut [IoSliceMut<'_>],
        peeks: bool,
    ) -> std::result::Result<Option<Found>, Lost> {
        let slot = self.slot();
        loop {
            let Some((read, unread, head)) = self.next()? else { return Ok(None) };
            let message = (read & ring::POSITION) + head.head_len() as u64;
            let copied = self.copy_out(message, head.len, &mut pieces[1..], 0);
            let (len, Heading { address, beside }) = (head.len, head.heading);
            let found = match address {
                Some(from) => Found::Datagram(Datagram { len, from, beside, is_cut: copied < len }),
                None if len == 0 => Found::Word,
                // Somebody else has taken it meanwhile.
                None if slot.load(Word::Read) != read => continue,
                None => return Err(Lost),
            };
            if peeks && found != Found::Word {
                // What was there is there, unless somebody has read it or the lease was taken back.
                match slot.load(Word::Read) {
                    now if now & ring::REVOKED != 0 => return Err(Lost),
                    now if (now ^ read) & ring::POSITION == 0 => return Ok(Some(found)),
                    _ => continue,
                }
            }
            if self.take_out(p, (read, unread), &head)? {
                return Ok(Some(found));
            }
        }
    }
}

/// Lays a record down at `position`, where there is room for it.
fn lay_record(lease: &Entered<'_>, position: u64, head: Head, pieces: &[IoSlice<'_>]) {
    let slot = lease.slot();
    let laid = head.emit();
    for (unit, bytes) in laid.chunks(UNIT).enumerate() {
        let position = position + (unit * UNIT) as u64;
        let [(at, _), _] = places(slot.index, region::Way::Out, position, UNIT);
        slot.rings.write(at, bytes);
    }
    lease.copy_in(position + laid.len() as u64, pieces, head.len);
}
