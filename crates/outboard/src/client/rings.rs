//! The leases of a process: memory that it shares with the outboard, who of its threads is in it, and how a lease begins and
//! ends. What goes through it: [`super::leased`].
//!
//! All state lies in words that a forked child finds zero, and the mappings are not inherited: a child knows of no lease, and
//! attaches before it uses a socket, which ends it.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_device::{Shared, Unforked, View, known};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::sockopt::socket_cookie;

use super::leased::{PATIENCE, TRIES};
use super::way::{Token, Way};
use super::{Client, Result};
use crate::placeholder;
use crate::protocol::{Handle, KEY_LEN, Request};
use crate::region::{BLOCKS_LEN, RINGS_LEN, SLOTS, Slot, WAITERS, WIDE_FROM};
use crate::ring::{self, After, GONE, Lost, Word};
use crate::words::Words;

/// Regions of a process at most: 1,024 of its sockets and more have rings, besides the wide ones.
pub(super) const REGIONS: usize = 22;
const _: () = assert!(REGIONS * WIDE_FROM >= 1024);
/// Words before those of regions: who asks, how many regions there are, whether there was a waiter, how many leases were asked for,
/// whether none is any more.
const HEAD_WORDS: usize = 8;
const ASKING: usize = 0;
const COUNT: usize = 1;
const HAS_WAITER: usize = 2;
const ASKED: usize = 3;
const REFUSED: usize = 4;
/// Words of a region: its connection and the cookie of that, its key, whether it is dead.
const REGION_WORDS: usize = 8;
/// Words of a lease.
const LOCAL_WORDS: usize = 16;
/// Words of a waiter.
pub(super) const WAITER_WORDS: usize = 8;
const LOCAL_AT: usize = HEAD_WORDS + REGIONS * REGION_WORDS;
const WAITERS_AT: usize = LOCAL_AT + REGIONS * SLOTS * LOCAL_WORDS;

/// How far a lease is, as this process knows, below its generation.
const FREE: u64 = 0;
const LIVE: u64 = 1;
const LOST: u64 = 2;
const LIFE: u64 = 3;

/// The part of [`Local::users`] that counts; one of them writes; nobody does any more.
const COUNT_OF_USERS: u64 = (1 << 32) - 1;
pub(super) const WRITES: u64 = 1 << 32;
pub(super) const FINISHED: u64 = 1 << 33;

/// A process's leases. It is made once; every thread may use it, signal handlers too.
#[derive(Debug)]
pub struct Rings {
    pub(super) all: Unforked,
    is_allowed: fn() -> bool,
}

/// What only this process knows of a lease.
#[derive(Clone, Copy)]
pub(super) struct Local<'a>(&'a [AtomicU64; LOCAL_WORDS]);

impl<'a> Local<'a> {
    /// Generation, and how far it is.
    pub fn life(self) -> &'a AtomicU64 {
        &self.0[0]
    }
    /// Threads that are in it, whether one of them [writes](WRITES), and whether [nobody will](FINISHED).
    pub fn users(self) -> &'a AtomicU64 {
        &self.0[1]
    }
    /// [`Word::Taken`], as known.
    pub fn taken(self) -> &'a AtomicU64 {
        &self.0[2]
    }
    /// Bytes that were sent by the placeholder since the lease began.
    pub fn spilled(self) -> &'a AtomicU64 {
        &self.0[3]
    }
    /// How long a reader looks before it sleeps, in nanoseconds.
    pub fn spin(self) -> &'a AtomicU64 {
        &self.0[4]
    }
    /// Looks in a row that have found nothing, below [`Local::BLOCKS`].
    pub fn empties(self) -> &'a AtomicU64 {
        &self.0[5]
    }
    /// Other descriptors of the socket's in this process.
    pub fn copies(self) -> &'a AtomicU64 {
        &self.0[6]
    }
    /// Bytes of the peer's that lie in the placeholder, before what the ring has; [`UNKNOWN`] while the lease begins.
    pub fn before(self) -> &'a AtomicU64 {
        &self.0[7]
    }
    /// Not 0: somebody reads those.
    pub fn reads(self) -> &'a AtomicU64 {
        &self.0[8]
    }
    /// [`Local::spilled`], when all of it was known to have been taken.
    pub fn settled(self) -> &'a AtomicU64 {
        &self.0[9]
    }
    /// Who waits for it and others, with what he calls it above; 0: nobody.
    pub fn watch(self) -> &'a AtomicU64 {
        &self.0[10]
    }
    /// Bytes that were committed in place since the outboard was told.
    pub fn untold(self) -> &'a AtomicU64 {
        &self.0[11]
    }

    /// Of so many more users one writes from now on; false: somebody does, or nobody may.
    fn begin_to_write(self, users: u64) -> bool {
        let more = |word: u64| (word & (WRITES | FINISHED) == 0).then_some(word + WRITES + users);
        self.users().fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    }
}

/// In place of [`Local::before`]: who begins the lease has not looked yet.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// A thread is in a lease as long as this lives.
pub(super) struct Entered<'a> {
    rings: &'a Rings,
    pub local: Local<'a>,
    views: [View<'a>; 2],
    token: Token,
    /// It is the one that writes.
    writes: Cell<bool>,
}

impl<'a> Entered<'a> {
    /// Which of all a process's leases.
    pub fn number(&self) -> usize {
        self.token.slot()
    }
}

impl Rings {
    /// Without a lease.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new() -> std::io::Result<Rings> {
        Rings::checked(|| true)
    }

    /// The same with a check whether the process may have leases: before its first, its second, its fourth, and so on.
    ///
    /// # Errors
    /// No memory is left.
    pub fn checked(is_allowed: fn() -> bool) -> std::io::Result<Rings> {
        let words = WAITERS_AT + WAITERS * WAITER_WORDS;
        Ok(Rings { all: Unforked::new(REGIONS, words)?, is_allowed })
    }

    /// No lease is asked for in this process from now on. Those that there are stay, until each is
    /// [given up](Rings::give_up).
    pub fn refuse(&self) {
        self.all.words()[REFUSED].store(1, Ordering::Release);
    }

    /// Returns `true` if a lease may be asked for.
    fn admits(&self) -> bool {
        let words = self.all.words();
        if words[REFUSED].load(Ordering::Acquire) != 0 {
            return false;
        }
        let asked = words[ASKED].fetch_add(1, Ordering::Relaxed) + 1;
        if asked.is_power_of_two() && !(self.is_allowed)() {
            self.refuse();
            return false;
        }
        true
    }

    fn region_words(&self, region: usize) -> &[AtomicU64] {
        &self.all.words()[HEAD_WORDS + region * REGION_WORDS..][..REGION_WORDS]
    }

    pub(super) fn has_waiter_word(&self) -> &AtomicU64 {
        &self.all.words()[HAS_WAITER]
    }

    pub(super) fn waiter_words(&self, number: usize) -> &[AtomicU64] {
        &self.all.words()[WAITERS_AT + number * WAITER_WORDS..][..WAITER_WORDS]
    }

    pub(super) fn local(&self, slot: usize) -> Local<'_> {
        let words = &self.all.words()[LOCAL_AT + slot * LOCAL_WORDS..];
        Local(words.first_chunk().expect("room for all leases"))
    }

    /// Enters the lease of a socket, if it has one.
    pub(super) fn enter(&self, way: &Way) -> Option<Entered<'_>> {
        self.enter_to(way, false)
    }

    /// The same for who is about to write, and is the one that does if nobody else is: one change of a word for both.
    pub(super) fn enter_to(&self, way: &Way, write: bool) -> Option<Entered<'_>> {
        let token = way.token()?;
        let slot = token.slot();
        if slot >= REGIONS * SLOTS {
            return None;
        }
        let local = self.local(slot);
        let writes = write && local.begin_to_write(1);
        if !writes {
            local.users().fetch_add(1, Ordering::AcqRel);
        }
        let life = local.life().load(Ordering::Acquire);
        if life & LIFE == LIVE
            && token.is_of(life >> 2)
            && let Some(views) = self.all.get(slot / SLOTS)
        {
            return Some(Entered { rings: self, local, views, token, writes: Cell::new(writes) });
        }
        self.leave(slot, local, writes);
        way.forget(token, false);
        None
    }

    /// A thread leaves a lease, in which it was the one that wrote, or not; the last tells the outboard when it is over.
    fn leave(&self, slot: usize, local: Local<'_>, wrote: bool) {
        let one = if wrote { WRITES + 1 } else { 1 };
        match local.users().fetch_sub(one, Ordering::AcqRel) & COUNT_OF_USERS {
            1 => {}
            0 => {
                // A child that was forked meanwhile, and has entered nothing.
                local.users().fetch_add(one, Ordering::AcqRel);
                return;
            }
            _ => return,
        }
        let life = local.life().load(Ordering::Acquire);
        let is_last = life & LIFE == LOST
            && local
                .life()
                .compare_exchange(life, life & !LIFE | FREE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if is_last && let Some([rings, blocks]) = self.all.get(slot / SLOTS) {
            let shared = Slot { rings: &rings, blocks: &blocks, index: slot % SLOTS };
            shared.fetch_or(Word::Read, GONE);
            shared.fence();
            if shared.tell() {
                self.wake(slot / SLOTS);
            }
        }
    }

    /// Wakes the outboard, which sleeps.
    fn wake(&self, region: usize) {
        let words = self.region_words(region);
        let number = words[0].load(Ordering::Acquire) as i32 - 1;
        if let Some(connection) = known(number, words[1].load(Ordering::Relaxed)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // A full queue will wake it as well.
            let _ = rustix::net::send(&*connection, &Request::Wake.emit(), flags);
        }
    }

    /// Asks for a lease: rings in place of the placeholder's way, for this process alone. Otherwise it is asked for when
    /// some messages have gone.
    ///
    /// # Errors
    /// `EAGAIN`: not now; others: never.
    pub fn lease(
        &self,
        client: &Client,
        p: BorrowedFd<'_>,
        handle: Handle,
        way: &Way,
    ) -> Result<()> {
        if !self.admits() {
            way.refuse();
            return Err(Errno::PERM);
        }
        let asking = &self.all.words()[ASKING];
        if asking.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(Errno::AGAIN);
        }
        let done = match way.ask() {
            true => self.ask(client, p, handle, way),
            false => Err(Errno::AGAIN),
        };
        asking.store(0, Ordering::Release);
        done
    }

    fn ask(&self, client: &Client, p: BorrowedFd<'_>, handle: Handle, way: &Way) -> Result<()> {
        let slot = match self.slot(client, handle) {
            Ok(slot) => slot,
            Err(error) => {
                way.asked(None, error != Errno::AGAIN);
                return Err(error);
            }
        };
        // What finds no room in the ring is to show soon.
        let _ = placeholder::narrow(p);
        let local = self.local(slot);
        let generation = (local.life().load(Ordering::Acquire) >> 2).wrapping_add(1);
        for word in [local.taken(), local.spin(), local.empties(), local.copies(), local.reads()] {
            word.store(0, Ordering::Relaxed);
        }
        local.users().fetch_and(!FINISHED, Ordering::AcqRel);
        local.before().store(UNKNOWN, Ordering::Relaxed);
        local.watch().store(0, Ordering::Relaxed);
        local.settled().store(0, Ordering::Relaxed);
        local.untold().store(0, Ordering::Relaxed);
        local.spilled().store(self.before(slot), Ordering::Relaxed);
        local.life().store(generation << 2 | LIVE, Ordering::Release);
        way.asked(Some(Token::new(slot, generation)), false);
        let Some(entered) = self.enter(way) else { return Err(Errno::AGAIN) };
        // Calls that began meanwhile do not wait in the placeholder, and will be gone: one that were there when a doorbell
        // rings would take it for the peer's.
        for _ in 0..100_000 {
            if !way.is_entered() {
                entered.begin(p);
                return Ok(());
            }
            std::hint::spin_loop();
        }
        entered.give_up(p, way);
        Err(Errno::AGAIN)
    }

    /// What of this process's bytes lay in the placeholder when the outboard gave the lease.
    fn before(&self, slot: usize) -> u64 {
        let views = self.all.get(slot / SLOTS);
        views.map_or(0, |[rings, blocks]| {
            Slot { rings: &rings, blocks: &blocks, index: slot % SLOTS }.before()
        })
    }

    /// A slot of a region that is there, or of a new one.
    fn slot(&self, client: &Client, handle: Handle) -> Result<usize> {
        let count = &self.all.words()[COUNT];
        let known = count.load(Ordering::Acquire) as usize;
        for region in (0..known).rev() {
            let words = self.region_words(region);
            if words[4].load(Ordering::Relaxed) != 0 {
                continue;
            }
            let mut key = [0; KEY_LEN];
            key[..8].copy_from_slice(&words[2].load(Ordering::Relaxed).to_le_bytes());
            key[8..].copy_from_slice(&words[3].load(Ordering::Relaxed).to_le_bytes());
            match client.lease(handle, key) {
                Ok(slot) => return Ok(region * SLOTS + slot),
                Err(Errno::NOBUFS) => {}
                // Its outboard is gone.
                Err(Errno::NOENT) => words[4].store(1, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        if known == REGIONS {
            return Err(Errno::NOBUFS);
        }
        let (connection, key, [rings, blocks]) = client.region()?;
        let gone = |_| Errno::NOMEM;
        let pair = [
            Shared::adopt(rings.as_fd(), RINGS_LEN, true).map_err(gone)?,
            Shared::adopt(blocks.as_fd(), BLOCKS_LEN, false).map_err(gone)?,
        ];
        let cookie = socket_cookie(&connection)?;
        if !self.all.put(known, pair) {
            return Err(Errno::AGAIN);
        }
        let words = self.region_words(known);
        let [front, rest] = [&key[..8], &key[8..]]
            .map(|half| u64::from_le_bytes(half.try_into().unwrap_or_default()));
        words[2].store(front, Ordering::Relaxed);
        words[3].store(rest, Ordering::Relaxed);
        words[1].store(cookie, Ordering::Relaxed);
        words[0].store(connection.as_raw_fd() as u64 + 1, Ordering::Release);
        // It stays open as long as the process lives, and is not its child's.
        let _ = connection.into_raw_fd();
        count.store(known as u64 + 1, Ordering::Release);
        client.lease(handle, key).map(|slot| known * SLOTS + slot)
    }

    /// Gives a lease up: the placeholder alone is the socket from now on, and anybody may use it.
    pub fn give_up(&self, p: BorrowedFd<'_>, way: &Way) {
        if let Some(entered) = self.enter(way) {
            entered.give_up(p, way);
        }
    }

    /// The socket has another descriptor in this process: what is kept beside that one.
    pub fn copy(&self, way: &Way) -> Way {
        if let Some(entered) = self.enter(way) {
            entered.local.copies().fetch_add(1, Ordering::AcqRel);
        }
        way.copy()
    }

    /// A descriptor of the socket's is about to be closed in this process.
    pub fn close(&self, p: BorrowedFd<'_>, way: &Way) {
        let Some(entered) = self.enter(way) else { return };
        let fewer = |copies: u64| copies.checked_sub(1);
        let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        if entered.local.copies().fetch_update(acquire, relaxed, fewer).is_err() {
            entered.give_up(p, way);
        }
    }

    /// The descriptor of a lease is another's already: nobody here uses the rings any more, and who has the socket attaches.
    pub fn abandon(&self, way: &Way) {
        if let Some(entered) = self.enter(way) {
            entered.lost(way);
        }
    }

    /// From now on what does not fill a segment waits, or no longer (`TCP_CORK`), without asking. False: there is no lease, say
    /// so by [`Client::set_option`].
    pub fn cork(&self, way: &Way, on: bool) -> bool {
        let Some(lease) = self.enter(way) else { return false };
        let slot = lease.slot();
        slot.set_cork(on);
        slot.fence();
        if !on {
            lease.tell();
        }
        // Of one that was taken back meanwhile nobody may have looked.
        slot.load(Word::Sent) & ring::REVOKED == 0
    }

    /// Whether it does; `None`: there is no lease, ask by [`Client::option`].
    pub fn is_corked(&self, way: &Way) -> Option<bool> {
        Some(self.enter(way)?.slot().is_corked())
    }

    /// `TCP_INFO` as the outboard wrote it last, without asking: fills the front of `out`, and gives how long it was. `None`:
    /// there is no lease, ask by [`Client::option`].
    pub fn tcp_info(&self, way: &Way, out: &mut [u8]) -> Option<usize> {
        self.enter(way)?.slot().info(out)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        for words in (0..REGIONS).map(|region| self.region_words(region)) {
            let number = words[0].load(Ordering::Acquire) as i32 - 1;
            drop(known(number, words[1].load(Ordering::Relaxed)).map(ManuallyDrop::into_inner));
        }
    }
}

impl Entered<'_> {
    /// The lease.
    pub fn slot(&self) -> Slot<'_> {
        let [rings, blocks] = &self.views;
        Slot { rings, blocks, index: self.token.slot() % SLOTS }
    }

    /// To be the one that writes, until this [rests](Entered::rest) or is gone: it does not wait long for another, for a signal
    /// handler may wait for whom it has interrupted.
    pub fn write(&self) -> bool {
        if self.writes.get() {
            return true;
        }
        let writes = (0..TRIES).any(|_| {
            let begins = self.local.begin_to_write(0);
            if !begins {
                std::hint::spin_loop();
            }
            begins
        });
        self.writes.set(writes);
        writes
    }

    /// Others may write.
    pub fn rest(&self) {
        if self.writes.replace(false) {
            // Nobody does in a child that a handler has forked meanwhile.
            self.local.users().fetch_and(!WRITES, Ordering::AcqRel);
        }
    }

    /// The lease begins: what the outboard had put into the placeholder is read first, and no bell rings before that.
    fn begin(&self, p: BorrowedFd<'_>) {
        let before = rustix::io::ioctl_fionread(p).unwrap_or(0);
        self.local.before().store(before, Ordering::Release);
        if before == 0 {
            self.arm(p);
        }
    }

    /// Tells the outboard that there is something. Others may write while it is woken, which takes long: a handler may interrupt
    /// that.
    pub fn tell(&self) {
        if self.slot().tell() {
            self.rest();
            self.rings.wake(self.token.slot() / SLOTS);
        }
    }

    /// The lease was taken back.
    pub fn lost(&self, way: &Way) {
        self.local.watch().store(0, Ordering::Relaxed);
        let live = self.local.life().load(Ordering::Acquire);
        if live & LIFE == LIVE {
            let lost = live & !LIFE | LOST;
            let (acquire, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = self.local.life().compare_exchange(live, lost, acquire, relaxed);
        }
        // Who took it back knows somebody else who uses the socket: there will be no other.
        way.forget(self.token, true);
    }

    /// See [`Rings::give_up`].
    pub fn give_up(&self, p: BorrowedFd<'_>, way: &Way) {
        let is_over = (0..PATIENCE).any(|_| {
            std::hint::spin_loop();
            ring::give_up(&self.slot()) || self.drain(p).is_err()
        });
        if !is_over {
            // Who is taking a doorbell out was interrupted by the caller, and sees it when he goes on.
            ring::Progress::revoke(&self.slot());
        }
        self.slot().fence();
        self.tell();
        let _ = placeholder::widen(p);
        self.lost(way);
    }

    /// Takes the doorbell's byte out of the placeholder.
    pub fn drain(&self, p: BorrowedFd<'_>) -> std::result::Result<(), Lost> {
        if !ring::drain(&self.slot())? {
            return Ok(());
        }
        let taken = rustix::net::recv(p, &mut [0], rustix::net::RecvFlags::DONTWAIT);
        // Where nothing will come any more, nothing is to come.
        let was_there = taken != Err(Errno::AGAIN) && taken != Err(Errno::INTR);
        let is_unheard = ring::drained(&self.slot(), was_there);
        let is_lost = self.slot().load(Word::Read) & ring::REVOKED != 0;
        if is_unheard || is_lost {
            self.tell();
        }
        if is_lost { Err(Lost) } else { Ok(()) }
    }

    /// The bell is to ring for what comes; what there is already, the outboard looks at once more.
    pub fn arm(&self, p: BorrowedFd<'_>) {
        let slot = self.slot();
        match ring::arm(&slot) {
            Ok(After::Drain) => drop(self.drain(p)),
            Ok(_) if ring::unread(&slot).is_ok_and(|(_, len)| len > 0) => self.tell(),
            _ => {}
        }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.rings.leave(self.token.slot(), self.local, self.writes.get());
    }
}

#[cfg(test)]
mod tests {
    use fusewire_device::Writers;

    use super::*;
    use crate::news::{self, News};

    #[test]
    fn one_at_a_time_writes_until_nobody_does_any_more() {
        let rings = Rings::new().unwrap();
        let local = rings.local(SLOTS + 3);
        let users = || local.users().load(Ordering::Relaxed);
        assert!(local.begin_to_write(1) && !local.begin_to_write(1));
        local.users().fetch_add(1, Ordering::Relaxed);
        assert_eq!(users(), WRITES + 2);
        rings.leave(SLOTS + 3, local, true);
        assert_eq!(users(), 1, "another is there yet");
        assert!(local.begin_to_write(0));
        rings.leave(SLOTS + 3, local, false);
        assert_eq!(users(), WRITES);
        local.users().store(FINISHED, Ordering::Relaxed);
        assert!(!local.begin_to_write(1));
        // A child that was forked in a call leaves what it has not entered.
        for wrote in [false, true] {
            rings.leave(SLOTS + 3, local, wrote);
            assert_eq!(users(), FINISHED);
        }
    }

    #[test]
    fn who_wakes_the_outboard_or_is_a_child_does_not_write_meanwhile() {
        let rings = Rings::new().unwrap();
        let (_, written) = Shared::create(RINGS_LEN, Writers::All).unwrap();
        let (file, blocks) = Shared::create(BLOCKS_LEN, Writers::Maker).unwrap();
        let read = Shared::adopt(file.as_fd(), BLOCKS_LEN, false).unwrap();
        assert!(rings.all.put(0, [written, read]));
        let views = rings.all.get(0).unwrap();
        let (local, writes) = (rings.local(3), Cell::new(false));
        local.users().store(1, Ordering::Relaxed);
        let token = Token::new(3, 0);
        let entered = Entered { rings: &rings, local, views, token, writes };
        let slot = entered.slot();
        let outboard = News { told: slot.rings, asleep: &blocks };
        for is_asleep in [false, true] {
            news::hear(&outboard);
            news::sleeps(&outboard, is_asleep, 0);
            assert!(entered.write());
            entered.tell();
            assert_eq!(entered.writes.get(), !is_asleep);
            assert_eq!(local.users().load(Ordering::Relaxed) & WRITES != 0, !is_asleep);
        }
        assert!(entered.write());
        // What a child finds.
        local.users().store(0, Ordering::Relaxed);
        entered.rest();
        drop(entered);
        assert_eq!(local.users().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_last_to_leave_what_was_lost_ends_it() {
        let rings = Rings::new().unwrap();
        let local = rings.local(7);
        local.life().store(5 << 2 | LOST, Ordering::Relaxed);
        local.users().store(1, Ordering::Relaxed);
        assert!(local.begin_to_write(1));
        rings.leave(7, local, true);
        assert_eq!(local.life().load(Ordering::Relaxed), 5 << 2 | LOST, "another is there yet");
        rings.leave(7, local, false);
        assert_eq!(local.life().load(Ordering::Relaxed), 5 << 2 | FREE);
    }
}
