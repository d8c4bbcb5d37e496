//! The memory that processes share with the outboard, a region each time, and who has a lease in it: leases are given, taken
//! back and ended here.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_base::Instant;
use fusewire_device::{Shared, Writers};
use fusewire_stack::ip::{Bytes, SocketId, Stack};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::gather::{PAUSE, SKIPS};
use super::{Gather, Held, INFO_EVERY, Lease, ring_bell};
use crate::news::{self, News};
use crate::placeholder::is_left;
use crate::protocol::KEY_LEN;
use crate::region::{
    BLOCKS_LEN, ENDED, PEER_FINISHED, RINGS_LEN, SLOTS, Slot, WIDE_FROM, Way, is_on, places,
    processor,
};
use crate::ring::{Progress, Ring};
use crate::server::table::is_same;
use crate::waiter;

/// The memory that a process shares with the outboard.
struct Region {
    key: [u8; KEY_LEN],
    uid: u32,
    /// Whose control connection it came by; `None`: it has ended.
    guest: Option<u32>,
    rings: Shared,
    /// The same once more, which cannot be written by: what streams refer to in rings out until it is acknowledged.
    out: Bytes,
    blocks: Shared,
    slots: [Use; SLOTS],
    /// One of its leases gathers: the word that its application tells news by is left alone in the next round, if that was not so
    /// for long.
    rests: bool,
    /// For how many rounds it was, and since when.
    rested: u32,
    heard_at: Instant,
}

/// A mapping of rings, of which only rings out are looked at.
struct Out(Shared);

impl AsRef<[u8]> for Out {
    fn as_ref(&self) -> &[u8] {
        self.0.slice(0, RINGS_LEN)
    }
}

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// The socket at this place of the table.
    Socket(u32),
    /// Its socket has no lease any more, which its application has not noticed yet.
    Ended,
}

/// What a lease begins with.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Bytes of the application's that lie in the placeholder yet.
    pub before: u64,
    /// The peer has finished, and the application was told.
    pub peer_has_finished: bool,
    /// What does not fill a segment waits.
    pub is_corked: bool,
    /// Much moves at a time, and the user may have the memory: wide rings, if there are some.
    pub is_wide: bool,
}

/// Leases of all time.
#[derive(Debug, Default)]
pub struct Leases {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Leases {
    /// As views name them.
    pub fn named(&self) -> [(&'static str, u64); 2] {
        [("outboard_leases_begun", &self.begun), ("outboard_leases_ended", &self.ended)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// All regions.
#[derive(Default)]
pub struct Regions {
    all: Vec<Option<Region>>,
    leases: Arc<Leases>,
    /// The processor that all of them say we are on.
    processor: u64,
}

impl Regions {
    /// How many leases there were.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Makes a region for a process that speaks by the control connection `guest`: its key, and its files.
    ///
    /// # Errors
    /// `ENFILE`: the user has `most` already; no memory is left.
    pub fn make(
        &mut self,
        guest: u32,
        uid: u32,
        most: usize,
    ) -> Result<([u8; KEY_LEN], [OwnedFd; 2]), Errno> {
        let of_user = |region: &&Region| region.uid == uid;
        if self.all.iter().flatten().filter(of_user).count() >= most {
            return Err(Errno::NFILE);
        }
        let no_memory = |_| Errno::NOMEM;
        let key = fusewire_device::random().map_err(no_memory)?;
        let (rings_file, rings) = Shared::create(RINGS_LEN, Writers::All).map_err(no_memory)?;
        let (blocks_file, blocks) =
            Shared::create(BLOCKS_LEN, Writers::Maker).map_err(no_memory)?;
        let out = Shared::adopt(rings_file.as_fd(), RINGS_LEN, false).map_err(no_memory)?;
        let out = Bytes::from_owner(Out(out));
        is_on(&blocks, self.processor);
        let slots = [Use::Free; SLOTS];
        let (rests, rested, heard_at) = (false, 0, Instant::ZERO);
        let guest = Some(guest);
        let region = Region { key, uid, guest, rings, out, blocks, slots, rests, rested, heard_at };
        match self.all.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(region),
            None => self.all.push(Some(region)),
        }
        Ok((key, [rings_file, blocks_file]))
    }

    /// A lease in the region with that key, for the socket at `index`: what the socket keeps, and its slot.
    ///
    /// # Errors
    /// `ENOENT`: no such region; `ENOBUFS`: all its slots are used.
    pub fn lease(
        &mut self,
        key: &[u8; KEY_LEN],
        index: u32,
        asked: Asked,
    ) -> Result<(Lease, usize), Errno> {
        let is_it = |region: &Region| region.guest.is_some() && is_same(&region.key, key);
        let found = self.all.iter().position(|region| region.as_ref().is_some_and(is_it));
        let number = found.ok_or(Errno::NOENT)?;
        let region = self.all[number].as_mut().ok_or(Errno::NOENT)?;
        for slot in 0..SLOTS {
            if region.slots[slot] == Use::Ended && Progress::is_gone(&region.slot(slot)) {
                region.slots[slot] = Use::Free;
            }
        }
        let is_free = |slot: &usize| region.slots[*slot] == Use::Free;
        let (mut narrow, mut wide) = (0..WIDE_FROM, WIDE_FROM..SLOTS);
        let slot = match asked.is_wide {
            true => wide.find(is_free).or_else(|| narrow.find(is_free)),
            false => narrow.find(is_free),
        };
        let slot = slot.ok_or(Errno::NOBUFS)?;
        region.slots[slot] = Use::Socket(index);
        region.slot(slot).begin(asked.before, asked.is_corked);
        if asked.peer_has_finished {
            region.slot(slot).set_over(PEER_FINISHED);
        }
        self.leases.begun.fetch_add(1, Ordering::Relaxed);
        let lease = Lease {
            region: number,
            slot,
            progress: Progress::default(),
            held: Held::default(),
            gather: Gather::default(),
            piped: 0,
            is_over: false,
            hears_of_room: false,
            is_quiet: false,
            told_at: None,
            defers: false,
            is_stale: false,
            wants_room: false,
            is_blocked: false,
            owes_bell: false,
        };
        Ok((lease, slot))
    }

    /// The application has said by a request whether what does not fill a segment waits.
    pub fn cork(&self, lease: &Lease, on: bool) {
        self.of(lease).set_cork(on);
    }

    /// Where it lies.
    pub(super) fn of(&self, lease: &Lease) -> Slot<'_> {
        // A region lives as long as one of its slots is a socket's.
        let region = self.all[lease.region].as_ref().expect("the region of a lease");
        region.slot(lease.slot)
    }

    /// Memory of which its ring out is a part, to be referred to.
    pub(super) fn out(&self, lease: &Lease) -> &Bytes {
        let region = self.all[lease.region].as_ref().expect("the region of a lease");
        &region.out
    }

    /// The process that has the lease may live.
    fn is_held(&self, lease: &Lease) -> bool {
        self.all[lease.region].as_ref().is_some_and(|region| region.guest.is_some())
    }

    /// A lease gathers, and its next turn is without a look.
    pub fn rest(&mut self, lease: &Lease) {
        if let Some(region) = &mut self.all[lease.region] {
            region.rests = true;
        }
    }

    /// Sockets of which applications have told news.
    pub fn news(&mut self, now: Instant, mut each: impl FnMut(u32)) {
        for region in self.all.iter_mut().flatten() {
            if region.is_left_alone(now) {
                continue;
            }
            let mut bits = news::hear(&region.news());
            while bits != 0 {
                // The application may have set any.
                if let Some(Use::Socket(index)) = region.slots.get(bits.trailing_zeros() as usize) {
                    each(*index);
                }
                bits &= bits - 1;
            }
        }
    }

    /// Says which processor the outboard is on, and gives it: its readers there had better sleep.
    pub fn note_processor(&mut self) -> u64 {
        let now = processor();
        if std::mem::replace(&mut self.processor, now) != now {
            self.all.iter().flatten().for_each(|region| is_on(&region.blocks, now));
        }
        now
    }

    /// Says whether the outboard is about to sleep; false when it had better not.
    pub fn sleep(&self, is_asleep: bool) -> bool {
        let each = |region: &Region| news::sleeps(&region.news(), is_asleep, region.used());
        // Each is told.
        self.all.iter().flatten().fold(true, |all, region| each(region) & all)
    }

    /// The process of a region is gone, or wants no lease any more: sockets that had one, for each to be taken it back.
    pub fn left(&mut self, guest: u32) -> Vec<u32> {
        let mut sockets = Vec::new();
        for place in &mut self.all {
            let Some(region) = place.as_mut().filter(|region| region.guest == Some(guest)) else {
                continue;
            };
            region.guest = None;
            let used = region.slots.iter().filter_map(|used| match used {
                Use::Socket(index) => Some(*index),
                _ => None,
            });
            sockets.extend(used);
            if region.is_unused() {
                *place = None;
            }
        }
        sockets
    }

    /// Takes a lease back. What the process has written will be sent; what it has not read goes through the placeholder,
    /// when no doorbell lies there any more. `p`: the application's end, of whoever uses it from now on; `q`: ours.
    ///
    /// # Errors
    /// `EAGAIN`: the process that has the lease is taking a doorbell out, and nobody else may read yet; or it lies in a placeholder that
    /// nobody has any more.
    pub fn revoke(
        &self,
        lease: &mut Lease,
        p: Option<BorrowedFd<'_>>,
        q: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let slot = self.of(lease);
        if !std::mem::replace(&mut lease.is_over, true) {
            Progress::revoke(&slot);
            if lease.progress.unread(&slot).is_err() {
                tracing::debug!("a lease with an impossible index has ended");
            }
        }
        let left = Progress::left(&slot);
        if lease.is_quiet || !left.is_noisy() {
            return Ok(());
        }
        if left.is_busy && self.is_held(lease) {
            return Err(Errno::AGAIN);
        }
        match p {
            Some(p) => {
                let _ = recv(p, &mut [0], RecvFlags::DONTWAIT);
                if let Ok(Some(waiter)) = slot.waiter() {
                    waiter.tell_again();
                }
            }
            // Whoever has the placeholder will attach; or nobody has, and what was left there is to be known.
            None if fusewire_device::unread_by_peer(q).unwrap_or(0) > 0 || is_left(q) => {
                return Err(Errno::AGAIN);
            }
            None => {}
        }
        lease.is_quiet = true;
        Progress::quiet(&slot);
        Ok(())
    }

    /// Where the next `len` bytes of a stream go in its ring; `None`: there is no room for all of them.
    pub fn room(&mut self, lease: &mut Lease, len: usize) -> Option<[&mut [u8]; 2]> {
        if lease.is_over {
            return None;
        }
        let (position, room) = lease.progress.room(&self.of(lease)).ok()?;
        if (len as u64) > room {
            return None;
        }
        let region = self.all[lease.region].as_mut()?;
        Some(region.rings.slices_mut(places(lease.slot, Way::In, position, len)))
    }

    /// They lie there: the reader is shown them.
    pub fn landed(&self, lease: &mut Lease, len: usize) {
        lease.progress.show(&self.of(lease), len as u64);
    }

    /// The bell for what lies there waits, if more comes at once and the reader has less than half of the ring: to wake him costs
    /// as much as many of these.
    pub fn defer(&self, lease: &mut Lease, more_comes: bool) {
        let slot = self.of(lease);
        let half = slot.ring_bytes() / 2;
        let is_little = |(_, unread): (u64, u64)| unread < half;
        lease.defers = more_comes && lease.progress.unread(&slot).is_ok_and(is_little);
    }

    /// Wakes who waits for this lease and others, if he still sleeps: once for all that came for him meanwhile.
    pub fn ring(&self, lease: &mut Lease, q: &OwnedFd) {
        if !std::mem::take(&mut lease.owes_bell) || lease.is_over {
            return;
        }
        let slot = self.of(lease);
        if let Ok(Some(waiter)) = slot.waiter()
            && waiter::is_asleep(&waiter)
            && lease.progress.may_ring(&slot) == Ok(true)
        {
            waiter::wakes(&waiter);
            ring_bell(q);
        }
    }

    /// Writes `TCP_INFO` to where the application reads it, now and then; true when it has to be written later, of which the
    /// caller has not heard yet.
    pub fn tell(&self, lease: &mut Lease, stack: &mut Stack, now: Instant, id: SocketId) -> bool {
        if lease.told_at.is_some_and(|at| now.saturating_since(at) < INFO_EVERY) {
            return lease.note_stale();
        }
        if let Ok(info) = stack.linux_tcp_info(now, id) {
            self.of(lease).set_info(&info);
        }
        (lease.told_at, lease.is_stale) = (Some(now), false);
        false
    }

    /// The same for one that is known to be behind: true when it still is.
    pub fn refresh(
        &self,
        lease: &mut Lease,
        stack: &mut Stack,
        now: Instant,
        id: SocketId,
    ) -> bool {
        let was_stale = std::mem::replace(&mut lease.is_stale, false);
        was_stale && self.tell(lease, stack, now, id)
    }

    /// Its connection refers to nothing in its rings any more: they are about to be another's.
    pub fn keep(&self, lease: &mut Lease, stack: &mut Stack, id: SocketId) {
        lease.keep(&self.of(lease), stack, id);
    }

    /// A socket needs its lease no more; `has_ended`: nor does it live on.
    pub fn end(&mut self, lease: &Lease, has_ended: bool) {
        self.leases.ended.fetch_add(1, Ordering::Relaxed);
        let slot = self.of(lease);
        match has_ended {
            // What has come may be read as long as somebody likes.
            true => slot.set_over(PEER_FINISHED | ENDED),
            false => drop(Progress::revoke(&slot)),
        }
        let Some(region) = self.all[lease.region].as_mut() else { return };
        region.slots[lease.slot] = Use::Ended;
        if region.guest.is_none() && region.is_unused() {
            self.all[lease.region] = None;
        }
    }
}

impl Region {
    fn slot(&self, index: usize) -> Slot<'_> {
        Slot { rings: &self.rings, blocks: &self.blocks, index }
    }

    /// Whether its news is for a later round: its leases rest at different times, and each has to wait for no more than one does.
    fn is_left_alone(&mut self, now: Instant) -> bool {
        let rests = std::mem::take(&mut self.rests);
        let is_soon = now.saturating_since(self.heard_at) < PAUSE;
        if rests && is_soon && self.rested < SKIPS {
            self.rested += 1;
            return true;
        }
        (self.rested, self.heard_at) = (0, now);
        false
    }

    fn news(&self) -> News<'_> {
        News { told: &self.rings, asleep: &self.blocks }
    }

    /// Slots that are a socket's, a bit each.
    fn used(&self) -> u64 {
        let bit = |(slot, used): (usize, &Use)| u64::from(matches!(used, Use::Socket(_))) << slot;
        self.slots.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    }

    fn is_unused(&self) -> bool {
        !self.slots.iter().any(|used| matches!(used, Use::Socket(_)))
    }
}
