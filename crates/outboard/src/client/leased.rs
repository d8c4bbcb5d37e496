//! Bytes of streams: through the rings of a lease where there is one, through the placeholder otherwise.
//!
//! ```text
//!  send   ring has room? ─yes─▶ copy, commit ─▶ tell            no system call, when the outboard is awake
//!            │                   (a file: read there)
//!            │no, or somebody else writes, or something of ours is still in the placeholder
//!            └─▶ up to 1 KiB through the placeholder, which the kernel shows as full, and in which it sleeps;
//!                a writer that must not sleep sends a third of a ring so, if the placeholder shows room (`EPOLLOUT`)
//!  recv   as `arriving` says
//! ```
//! What its writer writes there himself ([`Rings::send_in_place`]) has no copy, unless the end of the ring cuts it.
//! A lease that was taken back meanwhile is noticed by the commit, which then does nothing: the placeholder has what is left.
//! What lay there when the lease began goes before what the ring has, each way: nothing is laid into the ring before the
//! outboard has taken it, nothing is taken from the ring, and no bell rings, before it was read.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::Shared;
use fusewire_stack::byte_stream::InPlace;
use rustix::event::PollFlags;
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recvmsg, sendmsg,
};

use super::rings::{Entered, FINISHED, Rings, UNKNOWN, WRITES};
use super::shown::shown;
use super::source::{File, Source, copy_in};
use super::way::{Inside, Way};
use super::{Client, Result};
use crate::placeholder;
use crate::protocol::Handle;
use crate::region::{self, places};
use crate::ring::{self, Lost, Ring, Word};
use crate::words::Words;

/// Bytes that go through the placeholder at a time while there is a lease.
const SPILL: usize = 1024;
/// Pieces of a message that a call hands over at once, whichever way.
pub(super) const PIECES_MAX: usize = 64;
/// Pieces that are received through the placeholder at a time while there is a lease.
pub(super) const PIECES: usize = 16;
/// What a reader or a writer looks at most before it sleeps: a little more than a sleep and a wake cost.
pub(super) const SPIN_MAX: u64 = 50_000;
/// And where that would have spared it a sleep.
pub(super) const SPIN_LONG: u64 = 200_000;
/// And at least: what a turn of the outboard's takes.
pub(super) const SPIN_MIN: u64 = 20_000;
/// How often a writer lets the outboard have their common processor before it sleeps.
const YIELDS: usize = 4;
/// How often a writer tries to be the one that writes.
pub(super) const TRIES: usize = 200;
/// How often somebody looks whether a lease that is asked for is there.
pub(super) const PATIENCE: usize = 100_000;

/// How far a call has come by a lease, in bytes.
pub(super) enum Done {
    /// All the way.
    Yes(usize),
    /// So far; the placeholder has the rest.
    Lost(usize),
}

/// What became of bytes that were to be sent.
#[derive(Clone, Copy)]
struct Sent {
    /// So many were.
    len: usize,
    /// There was no room for those that come next, or there are none.
    is_cut: bool,
}

/// What was laid into a ring.
pub(super) enum Filled {
    /// So many bytes, which are committed.
    Bytes(usize),
    /// Nothing: there is no room.
    NoRoom,
    /// Nothing: there is nothing to lay down.
    Nothing,
}

/// Why nothing was.
pub(super) enum Unfilled {
    /// The lease was taken back.
    Lost,
    /// Who was to lay it down has failed.
    Failed(Errno),
}

impl From<Lost> for Unfilled {
    fn from(Lost: Lost) -> Unfilled {
        Unfilled::Lost
    }
}

impl Rings {
    /// Sends, as `sendmsg` does.
    ///
    /// # Errors
    /// As `sendmsg(2)`; `ECONNRESET` and `EPIPE`: [`Client::error`] says why.
    pub fn send(
        &self,
        client: &Client,
        with: (BorrowedFd<'_>, Handle, &Way),
        pieces: &[IoSlice<'_>],
        flags: SendFlags,
    ) -> Result<usize> {
        self.send_of(client, with, pieces, flags).map(|sent| sent.len)
    }

    /// Sends `count` bytes at most of a file that has offsets, from `begin` on, as `sendfile` does: they are read to where frames are
    /// gathered from.
    ///
    /// # Errors
    /// As [`Rings::send`], and as `pread(2)`.
    pub fn send_file(
        &self,
        client: &Client,
        with: (BorrowedFd<'_>, Handle, &Way),
        (file, begin, count): (BorrowedFd<'_>, u64, usize),
        flags: SendFlags,
    ) -> Result<usize> {
        let mut sent = 0;
        while sent < count {
            let rest = File { file, begin: begin + sent as u64, count: count - sent };
            match self.send_of(client, with, &rest, flags) {
                Ok(Sent { len, is_cut }) => {
                    sent += len;
                    if is_cut || len == 0 {
                        break;
                    }
                }
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// Sends what there is room for, or what waits for room as the placeholder does.
    fn send_of(
        &self,
        client: &Client,
        (p, handle, way): (BorrowedFd<'_>, Handle, &Way),
        source: &(impl Source + ?Sized),
        flags: SendFlags,
    ) -> Result<Sent> {
        // Most calls find a lease at once, and use it where it lies: to hand it on takes as long as to enter it.
        let entered = self.enter_to(way, true);
        let (lease, inside) = match entered {
            Some(_) => (None, None),
            None => self.enter_either(way, true)?,
        };
        let mut sent = 0;
        if let Some(lease) = entered.as_ref().or(lease.as_ref()) {
            let plain = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::MORE;
            match plain.contains(flags) {
                true => match lease.send(p, source, flags)? {
                    Done::Yes(len) => return Ok(Sent { len, is_cut: len < source.len() }),
                    Done::Lost(len) => {
                        sent = len;
                        lease.lose_if_revoked(client, p, way);
                    }
                },
                // Urgent bytes are the placeholder's to carry.
                false => lease.give_up(p, way),
            }
        }
        drop((entered, lease));
        let done = self.send_by_placeholder((p, way), source, sent, flags);
        drop(inside);
        match done {
            Err(error) if sent == 0 => Err(error),
            more => {
                if way.moved() {
                    let _ = self.lease(client, p, handle, way);
                }
                let more = more.unwrap_or(Sent { len: 0, is_cut: true });
                Ok(Sent { len: sent + more.len, ..more })
            }
        }
    }

    /// Sends `back.len()` bytes that `fill` writes straight into the ring out, if they have room there
    /// ([`ByteStream::send_in_place`](fusewire_stack::byte_stream::ByteStream::send_in_place)). The outboard is told of them when
    /// they are half of a ring, or by [`Rings::push`].
    pub fn send_in_place(
        &self,
        client: &Client,
        (p, way): (BorrowedFd<'_>, &Way),
        back: &mut [u8],
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> InPlace {
        let Some(lease) = self.enter(way) else {
            return if way.is_refused() { InPlace::Never } else { InPlace::NoRoom };
        };
        lease.look_for_room(back.len() as u64);
        let done = lease.send_in_place(back, fill);
        match done {
            InPlace::Sent | InPlace::Copied => {
                let len = back.len() as u64;
                let untold = lease.local.untold().fetch_add(len, Ordering::Relaxed) + len;
                if untold >= lease.slot().ring_bytes() / 2 {
                    lease.tell_all();
                }
            }
            // Room comes of what it has been told of.
            InPlace::NoRoom => lease.tell_all(),
            InPlace::Back => lease.lose_if_revoked(client, p, way),
            _ => {}
        }
        done
    }

    /// What was sent in place leaves at once.
    pub fn push(&self, way: &Way) {
        if let Some(lease) = self.enter(way) {
            lease.tell_all();
        }
    }

    /// Enters the lease of a socket, to write there or not, or its placeholder, in which no lease begins then.
    ///
    /// # Errors
    /// `EINTR`: who asks for a lease was interrupted by the caller, who cannot wait for him.
    pub(super) fn enter_either<'a>(
        &'a self,
        way: &'a Way,
        write: bool,
    ) -> Result<(Option<Entered<'a>>, Option<Inside<'a>>)> {
        for _ in 0..PATIENCE {
            if let Some(lease) = self.enter_to(way, write) {
                return Ok((Some(lease), None));
            }
            if let Some(inside) = way.enter() {
                return Ok((None, Some(inside)));
            }
            std::hint::spin_loop();
        }
        Err(Errno::INTR)
    }

    fn send_by_placeholder(
        &self,
        (p, way): (BorrowedFd<'_>, &Way),
        source: &(impl Source + ?Sized),
        skip: usize,
        flags: SendFlags,
    ) -> Result<Sent> {
        let mut given = 0;
        let len = source.give(Part { skip, most: usize::MAX }, &mut |pieces| {
            given = len_of(pieces);
            sendmsg(p, pieces, &mut SendAncillaryBuffer::default(), flags)
        })?;
        // A lease whose connection has ended may be there yet.
        if let Some(lease) = self.enter(way) {
            lease.local.spilled().fetch_add(len as u64, Ordering::AcqRel);
        }
        Ok(Sent { len, is_cut: len < given })
    }

    /// Receives, as `recvmsg` does: `PEEK`, `DONTWAIT` and `WAITALL` among its flags.
    ///
    /// # Errors
    /// As `recvmsg(2)`; `ECONNRESET`: [`Client::error`] says why.
    pub fn recv(
        &self,
        client: &Client,
        (p, handle, way): (BorrowedFd<'_>, Handle, &Way),
        pieces: &mut [IoSliceMut<'_>],
        flags: RecvFlags,
    ) -> Result<usize> {
        // As in `send_of`.
        let entered = self.enter_to(way, false);
        let (lease, inside) = match entered {
            Some(_) => (None, None),
            None => self.enter_either(way, false)?,
        };
        if let Some(lease) = entered.as_ref().or(lease.as_ref()) {
            let done = lease.recv(p, pieces, flags)?;
            if let Done::Yes(len) | Done::Lost(len @ 1..) = done {
                return Ok(len);
            }
            lease.lose_if_revoked(client, p, way);
        }
        drop((entered, lease));
        let len = recvmsg(p, pieces, &mut RecvAncillaryBuffer::default(), flags)?.bytes;
        drop(inside);
        if len > 0 && way.moved() {
            let _ = self.lease(client, p, handle, way);
        }
        Ok(len)
    }

    /// Finishes a stream, as `shutdown` does.
    ///
    /// # Errors
    /// As `shutdown(2)`.
    pub fn shutdown(&self, p: BorrowedFd<'_>, way: &Way, how: Shutdown) -> Result<()> {
        if how != Shutdown::Read
            && let Some(lease) = self.enter(way)
        {
            // What is sent from now on is the placeholder's to refuse; what is being written is before the end.
            let finished = |users: u64| (users & WRITES == 0).then_some(users | FINISHED);
            let users = lease.local.users();
            let is_finished = (0..PATIENCE).any(|_| {
                std::hint::spin_loop();
                users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, finished).is_ok()
            });
            if !is_finished {
                // Who writes was interrupted by the caller: what he has not written yet goes by the placeholder.
                lease.give_up(p, way);
            }
        }
        rustix::net::shutdown(p, how)
    }

    /// Bytes that were sent and that the outboard has not taken yet.
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn untaken(&self, p: BorrowedFd<'_>, way: &Way) -> Result<usize> {
        let in_ring = self.enter(way).map_or(0, |lease| {
            let slot = lease.slot();
            let sent = slot.load(Word::Sent) & ring::POSITION;
            sent.saturating_sub(slot.given()).min(slot.ring_bytes())
        });
        Ok(placeholder::untaken(p)? + in_ring as usize)
    }

    /// Bytes that may be received at once (`FIONREAD`).
    ///
    /// # Errors
    /// As `ioctl(2)`.
    pub fn unread(&self, p: BorrowedFd<'_>, way: &Way) -> Result<usize> {
        if let Some(lease) = self.enter(way)
            && let Ok((_, in_ring)) = ring::unread(&lease.slot())
            && let before = lease.local.before().load(Ordering::Acquire)
            && before != UNKNOWN
            && let len @ 1.. = before + in_ring
        {
            return Ok(len as usize);
        }
        let waiting = rustix::io::ioctl_fionread(p)? as usize;
        // A doorbell is nothing to read.
        Ok(if self.enter(way).is_some() { 0 } else { waiting })
    }
}

/// What of a message's pieces, one after the other, a call has to do with yet.
pub(super) struct Part {
    /// Bytes before it.
    pub skip: usize,
    /// Bytes of it, at most.
    pub most: usize,
}

impl Part {
    /// What of the next piece, which is so long, belongs to it.
    pub(super) fn of(&mut self, len: usize) -> Range<usize> {
        let begin = self.skip.min(len);
        self.skip -= begin;
        let end = begin + self.most.min(len - begin);
        self.most -= end - begin;
        begin..end
    }
}

/// How long all of these are.
pub(super) fn len_of(pieces: &[IoSlice<'_>]) -> usize {
    pieces.iter().map(|piece| piece.len()).sum()
}

/// Lays a part of the pieces into `rest`; how many pieces of it there are.
pub(super) fn rest_of<'a>(
    pieces: &'a [IoSlice<'_>],
    mut part: Part,
    rest: &mut [IoSlice<'a>],
) -> usize {
    let bytes = pieces.iter().map(|piece| &piece[part.of(piece.len())]);
    let mut count = 0;
    for (place, bytes) in rest.iter_mut().zip(bytes.filter(|bytes| !bytes.is_empty())) {
        *place = IoSlice::new(bytes);
        count += 1;
    }
    count
}

/// Looks for so many nanoseconds whether it is there.
pub(super) fn look(limit: u64, mut is_there: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_there() {
            return true;
        }
        if begun.elapsed() >= Duration::from_nanos(limit) {
            return false;
        }
        for _ in 0..16 {
            std::hint::spin_loop();
        }
    }
}

/// Who holds this reads what lay in the placeholder when the lease began.
pub(super) struct Lock<'a>(&'a AtomicU64);

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// To be the one that does: not for long, for a signal handler may wait for whom it has interrupted.
pub(super) fn lock(word: &AtomicU64) -> Option<Lock<'_>> {
    for _ in 0..TRIES {
        if word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(Lock(word));
        }
        std::hint::spin_loop();
    }
    None
}

impl Entered<'_> {
    fn send(
        &self,
        p: BorrowedFd<'_>,
        source: &(impl Source + ?Sized),
        flags: SendFlags,
    ) -> Result<Done> {
        let all = source.len();
        let mut sent = 0;
        while sent < all {
            if self.slot().is_shut() {
                break;
            }
            let has_more = flags.contains(SendFlags::MORE);
            let lay = self.write().then(|| {
                self.fill(all - sent, has_more, |memory, places| source.lay(sent, memory, places))
            });
            // Who is not the one that writes does not wait to be: a handler would wait for whom it has interrupted, and
            // what is behind the end is the placeholder's to refuse.
            let may_look = lay.is_some();
            match lay {
                Some(Ok(Filled::Bytes(len))) => {
                    sent += len;
                    self.tell();
                    continue;
                }
                Some(Ok(Filled::Nothing)) => return Ok(Done::Yes(sent)),
                Some(Err(Unfilled::Lost)) => return Ok(Done::Lost(sent)),
                Some(Err(Unfilled::Failed(_))) if sent > 0 => return Ok(Done::Yes(sent)),
                Some(Err(Unfilled::Failed(error))) => return Err(error),
                Some(Ok(Filled::NoRoom)) | None => {}
            }
            self.rest();
            let waits = self.spins(p, flags.contains(SendFlags::DONTWAIT));
            if may_look && (waits && self.spin_for_room() || self.is_about_to_return(p)) {
                continue;
            }
            let third = self.slot().ring_bytes() as usize / 3;
            let spilled = match third.checked_sub(sent).filter(|_| !waits) {
                Some(most @ 1..) => self.spill_much(p, source, Part { skip: sent, most }, flags),
                _ => self.spill(p, source, Part { skip: sent, most: SPILL }, flags),
            };
            match spilled {
                // There is no more of it.
                Ok(0) => return Ok(Done::Yes(sent)),
                Ok(len) => {
                    sent += len;
                    if waits {
                        // One that has slept is woken by the outboard, which has taken all that is in the ring.
                        self.look(SPIN_MAX, || !self.is_spilled());
                    }
                }
                Err(_) if sent > 0 => return Ok(Done::Yes(sent)),
                Err(error) => return Err(error),
            }
        }
        // The kernel says what has become of the connection.
        Ok(if sent < all || all == 0 { Done::Lost(sent) } else { Done::Yes(sent) })
    }

    /// Something of ours is in the placeholder, behind which the ring has to wait.
    pub(super) fn is_spilled(&self) -> bool {
        let spilled = self.local.spilled().load(Ordering::Acquire);
        if self.local.settled().load(Ordering::Relaxed) == spilled {
            return false;
        }
        let is_taken = self.slot().piped() == spilled;
        if is_taken {
            self.local.settled().store(spilled, Ordering::Relaxed);
        }
        !is_taken
    }

    /// Has `lay` lay down what there is room for of so many bytes, and commits as many as it says; `has_more`: they are followed by
    /// more at once. It is given the region's memory, and the places in that which are to be filled from the begin on, which nobody
    /// else writes to meanwhile. Who calls this is the one that [writes](Entered::write).
    pub(super) fn fill(
        &self,
        wanted: usize,
        has_more: bool,
        lay: impl FnOnce(&Shared, [(usize, usize); 2]) -> Result<usize>,
    ) -> std::result::Result<Filled, Unfilled> {
        let slot = self.slot();
        let mut taken = self.local.taken().load(Ordering::Relaxed);
        let (position, room) = ring::room(&slot, &mut taken, wanted as u64)?;
        self.local.taken().store(taken, Ordering::Relaxed);
        if room == 0 || self.is_spilled() {
            return Ok(Filled::NoRoom);
        }
        let most = room.min(wanted as u64) as usize;
        let places = places(slot.index, region::Way::Out, position, most);
        let len = lay(slot.rings, places).map_err(Unfilled::Failed)?.min(most);
        if len == 0 {
            return Ok(Filled::Nothing);
        }
        if !has_more {
            slot.set_pushed(position + len as u64);
        }
        ring::commit(&slot, position, len as u64)?;
        slot.expect_behind(region::Way::Out, position, len, room - len as u64);
        Ok(Filled::Bytes(len))
    }

    /// Looks for a moment whether so many bytes come to have room: to write them elsewhere takes longer.
    fn look_for_room(&self, len: u64) {
        let slot = self.slot();
        // One that was taken back is found out.
        let has_room =
            |mut taken| ring::room(&slot, &mut taken, len).map_or(true, |(_, room)| room >= len);
        if len <= slot.ring_bytes() && !has_room(self.local.taken().load(Ordering::Relaxed)) {
            self.tell_all();
            self.look(SPIN_MIN, || slot.is_shut() || has_room(0));
        }
    }

    /// Tells the outboard of what it was not told of yet.
    fn tell_all(&self) {
        if self.local.untold().swap(0, Ordering::Relaxed) > 0 {
            self.tell();
        }
    }

    /// The ring has the bytes once, and is not read but where the lease was taken back meanwhile: then nobody else has it before
    /// this thread has left it, and what is read is what the outboard would have sent.
    fn send_in_place(&self, back: &mut [u8], fill: &mut dyn FnMut(&mut [u8]) -> bool) -> InPlace {
        let (slot, len) = (self.slot(), back.len());
        if slot.is_shut() {
            return InPlace::NoRoom;
        }
        if !self.write() {
            return InPlace::NoRoom;
        }
        let (mut done, mut place) = (InPlace::NoRoom, 0);
        let filled = self.fill(len, false, |memory, [(at, front), (begin, rest)]| {
            if front + rest < len {
                return Ok(0);
            }
            place = at;
            let is_whole = rest == 0;
            let written = if is_whole { memory.write_by(at, len, fill) } else { fill(back) };
            if !written {
                done = InPlace::NotWritten;
                return Ok(0);
            }
            if !is_whole {
                memory.write(at, &back[..front]);
                memory.write(begin, &back[front..]);
            }
            done = if is_whole { InPlace::Sent } else { InPlace::Copied };
            Ok(len)
        });
        match (filled, done) {
            (Err(Unfilled::Lost), InPlace::Sent) => slot.rings.read(place, back),
            (Err(Unfilled::Lost), InPlace::Copied) => {}
            (_, done) => return done,
        }
        InPlace::Back
    }

    /// Copies the front of the pieces, of so many bytes, to `position` of the ring, which has room for it.
    pub(super) fn copy_in(&self, position: u64, pieces: &[IoSlice<'_>], len: usize) {
        let slot = self.slot();
        copy_in(slot.rings, places(slot.index, region::Way::Out, position, len), pieces, 0);
    }

    /// A part through the placeholder, of a writer that must not sleep. If the placeholder shows that it is writable, it takes all
    /// of the part: who waits for room has been told that there is so much, although the ring may be full again.
    fn spill_much(
        &self,
        p: BorrowedFd<'_>,
        source: &(impl Source + ?Sized),
        part: Part,
        flags: SendFlags,
    ) -> Result<usize> {
        let is_writable = shown(p, PollFlags::OUT, Some(Duration::ZERO))? == PollFlags::OUT;
        let is_wide = is_writable && placeholder::widen(p).is_ok();
        let most = if is_wide { part.most } else { SPILL };
        let sent = self.spill(p, source, Part { most, ..part }, flags);
        if is_wide {
            placeholder::narrow(p)?;
        }
        sent
    }

    /// A part through the placeholder, which may sleep; 0: there was nothing of it.
    fn spill(
        &self,
        p: BorrowedFd<'_>,
        source: &(impl Source + ?Sized),
        part: Part,
        flags: SendFlags,
    ) -> Result<usize> {
        source.give(part, &mut |pieces| {
            let len = len_of(pieces);
            self.local.spilled().fetch_add(len as u64, Ordering::AcqRel);
            let sent = sendmsg(p, pieces, &mut SendAncillaryBuffer::default(), flags);
            let not_sent = len - sent.unwrap_or(0);
            self.local.spilled().fetch_sub(not_sent as u64, Ordering::AcqRel);
            sent
        })
    }

    /// As [`look`] for what the outboard is about to do; where it needs this processor for that, it is let have it.
    pub(super) fn look(&self, limit: u64, mut is_there: impl FnMut() -> bool) -> bool {
        if !self.slot().shares_processor() {
            return look(limit, is_there);
        }
        is_there()
            || (0..YIELDS).any(|_| {
                rustix::thread::sched_yield();
                is_there()
            })
    }

    /// The caller may look for a while before it sleeps.
    pub(super) fn spins(&self, p: BorrowedFd<'_>, is_told_not_to_wait: bool) -> bool {
        const BLOCKS: u64 = 1 << 32;
        if is_told_not_to_wait {
            return false;
        }
        if self.local.empties().load(Ordering::Relaxed) & BLOCKS != 0 {
            return true;
        }
        let flags = rustix::fs::fcntl_getfl(p);
        let blocks = flags.is_ok_and(|flags| !flags.contains(rustix::fs::OFlags::NONBLOCK));
        if blocks {
            self.local.empties().fetch_or(BLOCKS, Ordering::Relaxed);
        }
        blocks
    }

    /// The placeholder does not wait, whatever was known of it.
    pub(super) fn does_not_wait(&self) {
        self.local.empties().store(0, Ordering::Relaxed);
    }

    /// Looks for a good part of the ring to become free.
    fn spin_for_room(&self) -> bool {
        let slot = self.slot();
        let all = slot.ring_bytes();
        self.look(SPIN_MIN, || {
            let mut taken = 0;
            let room = ring::room(&slot, &mut taken, all);
            let has_room = room.is_ok_and(|(_, room)| room >= all / 4) && !self.is_spilled();
            room.is_err() || has_room || slot.is_shut()
        })
    }

    /// The outboard has read what is in the placeholder: it is about to say so, and the ring may be used again. Without
    /// this, whoever once had to sleep would go on through the placeholder.
    pub(super) fn is_about_to_return(&self, p: BorrowedFd<'_>) -> bool {
        self.is_spilled()
            && fusewire_device::unread_by_peer(p).is_ok_and(|len| len == 0)
            && self.look(SPIN_MAX, || !self.is_spilled())
    }

    /// Looks for as long as it has paid lately.
    pub(super) fn spin(&self, is_there: impl FnMut() -> bool) -> bool {
        let known = self.local.spin().load(Ordering::Relaxed);
        let limit = if known == 0 { SPIN_MAX } else { known };
        // On the outboard's processor the reader sleeps at once: when it is woken, there is much.
        let was_there = look(if self.slot().shares_processor() { 0 } else { limit }, is_there);
        let next = match was_there {
            true => (limit * 2).min(SPIN_MAX).max(limit),
            false => (limit / 2).max(SPIN_MIN),
        };
        self.local.spin().store(next, Ordering::Relaxed);
        was_there
    }

    /// What it has looked for in vain, and slept for, came after so long: of a stream of which much comes it looks as long the
    /// next time, if that is not too long. Who sleeps is woken at the expense of the outboard, which has much to do then.
    pub(super) fn has_slept(&self, waited: Duration) {
        let waited = waited.as_nanos() as u64;
        if waited < SPIN_LONG && self.slot().ring_bytes() > ring::RING_BYTES {
            self.local.spin().store((waited * 2).clamp(SPIN_MIN, SPIN_LONG), Ordering::Relaxed);
        }
    }
}
