//! Leases: the rings of connections that one process uses alone ([`crate::ring`]). Here are the regions that they lie in,
//! who gets one, and a stream's turn by its rings.
//!
//! ```text
//!  application ──▶ ring out ──one pass, summed──▶ the connection's memory ──▶ frames
//!  application ◀── ring in ◀──one pass── the connection's memory, or the frame
//!      P ⇄ Q: what found no room in the ring, the end of the stream, doorbells
//! ```
//! What is in the ring goes before what is in the placeholder: an application that has sent something through the
//! placeholder writes to its ring again when that has been taken.

mod records;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Shared, Writers};
use fusewire_stack::ip::{self, Error, SocketId, Stack};
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};

use super::pipe::{QUANTUM, Turn, number_of, pour};
use super::table::{Socket, State, is_same};
use crate::placeholder;
use crate::protocol::KEY_LEN;
use crate::region::{
    BLOCKS_LEN, ENDED, PEER_FINISHED, RINGS_LEN, SLOTS, Slot, WIDE_FROM, Way, is_on, news, places,
    processor, sleeps,
};
use crate::ring::{Progress, Violation, WIDE_BYTES};
pub use records::datagrams;

/// Bytes that came lately, from which on the next ones are placed.
const WORTH_PLACING: u64 = 16 << 10;
/// Writes to the stack that a turn takes: the application may have cut what it has written as small as it likes.
const WRITES: usize = 64;
/// Room in the ring, in one piece, for which that is done.
const ROOM_MIN: usize = 16 << 10;

/// Bytes that went through the placeholder, in the few messages before a lease, from which on its rings are wide.
pub const MUCH: u64 = 128 << 10;
/// Memory of the rings that are wide.
pub const WIDE: u64 = 2 * WIDE_BYTES;

/// How old what an application reads of its connection may be.
pub const INFO_EVERY: Duration = Duration::from_millis(1);

/// The memory that a process shares with the outboard.
struct Region {
    key: [u8; KEY_LEN],
    uid: u32,
    /// Whose control connection it came by; `None`: it has ended.
    guest: Option<u32>,
    rings: Shared,
    blocks: Shared,
    slots: [Use; SLOTS],
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

/// All regions.
#[derive(Default)]
pub struct Regions {
    all: Vec<Option<Region>>,
    /// The processor that all of them say we are on.
    processor: u64,
}

/// A socket's lease.
#[derive(Debug)]
pub struct Lease {
    region: usize,
    slot: usize,
    progress: Progress,
    /// Bytes that came through the placeholder.
    piped: u64,
    /// It was taken back; what is unread goes through the placeholder.
    is_over: bool,
    /// No doorbell lies there any more.
    is_quiet: bool,
    /// When `TCP_INFO` was written last.
    told_at: Option<Instant>,
    /// It is not what was written.
    is_stale: bool,
    /// Bytes that came in the last turn.
    came: u64,
    /// It was said that there is more than room.
    wants_room: bool,
    /// The interface had no room for the next datagram.
    is_blocked: bool,
}

impl Lease {
    /// It was taken back.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The interface had no room for what is next: it is to be tried again.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// What was written of `TCP_INFO` is not true any more; true if nobody has heard of that yet.
    pub fn note_stale(&mut self) -> bool {
        !std::mem::replace(&mut self.is_stale, true)
    }

    /// Memory of its rings that its socket's user is charged for: of those that are wide.
    pub fn charged(&self) -> u64 {
        if self.slot < WIDE_FROM { 0 } else { WIDE }
    }

    /// Much came of it lately.
    pub fn is_hot(&self) -> bool {
        self.came >= WORTH_PLACING
    }
}

impl Regions {
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
        is_on(&blocks, self.processor);
        let slots = [Use::Free; SLOTS];
        let region = Region { key, uid, guest: Some(guest), rings, blocks, slots };
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
        let lease = Lease {
            region: number,
            slot,
            progress: Progress::default(),
            piped: 0,
            is_over: false,
            is_quiet: false,
            told_at: None,
            came: 0,
            is_stale: false,
            wants_room: false,
            is_blocked: false,
        };
        Ok((lease, slot))
    }

    /// The application has said by a request whether what does not fill a segment waits.
    pub fn cork(&self, lease: &Lease, on: bool) {
        self.of(lease).set_cork(on);
    }

    fn of(&self, lease: &Lease) -> Slot<'_> {
        // A region lives as long as one of its slots is a socket's.
        let region = self.all[lease.region].as_ref().expect("the region of a lease");
        region.slot(lease.slot)
    }

    /// The process that has the lease may live.
    fn is_held(&self, lease: &Lease) -> bool {
        self.all[lease.region].as_ref().is_some_and(|region| region.guest.is_some())
    }

    /// Sockets of which applications have told news.
    pub fn news(&self, mut each: impl FnMut(u32)) {
        for region in self.all.iter().flatten() {
            let mut bits = news(&region.rings);
            while bits != 0 {
                // The application may have set any.
                if let Some(Use::Socket(index)) = region.slots.get(bits.trailing_zeros() as usize) {
                    each(*index);
                }
                bits &= bits - 1;
            }
        }
    }

    /// Says which processor the outboard is on: its readers there had better sleep.
    pub fn note_processor(&mut self) {
        let now = processor();
        if std::mem::replace(&mut self.processor, now) != now {
            self.all.iter().flatten().for_each(|region| is_on(&region.blocks, now));
        }
    }

    /// Says whether the outboard is about to sleep; false when it had better not.
    pub fn sleep(&self, is_asleep: bool) -> bool {
        let each =
            |region: &Region| sleeps(&region.rings, &region.blocks, is_asleep, region.used());
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
    /// `EAGAIN`: the process that has the lease is taking a doorbell out, and nobody else may read yet.
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
            Some(p) => drop(recv(p, &mut [0], RecvFlags::DONTWAIT)),
            // Whoever has the placeholder will attach.
            None if fusewire_device::unread_by_peer(q).unwrap_or(0) > 0 => {
                return Err(Errno::AGAIN);
            }
            None => {}
        }
        lease.is_quiet = true;
        Progress::quiet(&slot);
        Ok(())
    }

    /// Takes a batch of packets, of which the next bytes of this stream go straight into its ring, verified on the way; how
    /// many they were. `None`: this is not the way, for now.
    ///
    /// # Errors
    /// The interface's.
    pub fn place(
        &mut self,
        socket: &mut Socket,
        stack: &mut Stack,
        now: Instant,
    ) -> io::Result<Option<usize>> {
        let (Some(lease), State::Stream(id)) = (&mut socket.lease, &socket.state) else {
            return Ok(None);
        };
        let is_empty = stack.tcp_peek(*id).is_ok_and(|(a, _)| a.is_empty());
        if lease.is_over || lease.came < WORTH_PLACING || socket.peer_is_told || !is_empty {
            return Ok(None);
        }
        let slot = self.of(lease);
        let Ok((position, room)) = lease.progress.room(&slot) else { return Ok(None) };
        let room = QUANTUM.min(room as usize);
        let [(at, len), _] = places(lease.slot, Way::In, position, room);
        if len < ROOM_MIN {
            return Ok(None);
        }
        let Some(region) = self.all[lease.region].as_mut() else { return Ok(None) };
        let out = region.rings.slice_mut(at, len);
        let Ok(Some(len)) = stack.tcp_read_into_shared(now, *id, out)? else {
            return Ok(Some(0));
        };
        let slot = self.of(lease);
        lease.progress.show(&slot, len as u64);
        lease.came += len as u64;
        if let Ok(true) = lease.progress.must_ring(&slot) {
            ring_bell(&socket.q);
        }
        Ok(Some(len))
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

    /// A socket needs its lease no more; `has_ended`: nor does it live on.
    pub fn end(&mut self, lease: &Lease, has_ended: bool) {
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

    /// Slots that are a socket's, a bit each.
    fn used(&self) -> u64 {
        let bit = |(slot, used): (usize, &Use)| u64::from(matches!(used, Use::Socket(_))) << slot;
        self.slots.iter().enumerate().map(bit).fold(0, |all, bit| all | bit)
    }

    fn is_unused(&self) -> bool {
        !self.slots.iter().any(|used| matches!(used, Use::Socket(_)))
    }
}

/// What waits in the placeholder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piped {
    Nothing,
    Bytes(usize),
    End,
}

/// The turn of a stream that has a lease.
pub fn stream(socket: &mut Socket, stack: &mut Stack, id: SocketId, regions: &mut Regions) -> Turn {
    let Some(mut lease) = socket.lease.take() else { return Turn::Goes };
    // A hangup is shown too when both sides have finished; who has the placeholder may still read then.
    let has_left = socket.shown.hangup && !socket.peer_is_told;
    if !lease.is_over && (has_left || Progress::is_revoked(&regions.of(&lease))) {
        let _ = regions.revoke(&mut lease, None, socket.q.as_fd());
    }
    // Whoever had it left bytes unread that came before the lease did; a doorbell is nothing that the peer has sent.
    let left_some =
        has_left && socket.shown.error && !Progress::left(&regions.of(&lease)).is_noisy();
    let turn = by_rings(socket, &mut lease, stack, id, regions, left_some);
    let turn = turn.unwrap_or_else(|failed| failed);
    if turn != Turn::Unleased {
        socket.lease = Some(lease);
    }
    turn
}

fn violated(violation: Violation) -> Turn {
    tracing::debug!(%violation, "a lease");
    Turn::Failed(Errno::PROTO)
}

fn by_rings(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    id: SocketId,
    regions: &mut Regions,
    left_some: bool,
) -> Result<Turn, Turn> {
    // What the ring has is as if it lay unread in the placeholder.
    let owes = socket.shown.hangup && lease.is_over && lease.progress.owed().1 > 0;
    let is_dropped = left_some || owes;
    let goes = leave(socket, lease, stack, id, &regions.of(lease), is_dropped)?;
    if is_dropped {
        // What was written goes before the reset.
        return Ok(if goes { Turn::Goes } else { Turn::Dropped });
    }
    if socket.shown.hangup {
        return Ok(match socket.has_finished {
            true => Turn::Left,
            false if goes => Turn::Goes,
            false => Turn::Waits,
        });
    }
    let failed = |error| Turn::Failed(number_of(error));
    let came = if lease.is_over {
        if regions.revoke(lease, None, socket.q.as_fd()).is_err() {
            return Ok(if goes { Turn::Goes } else { Turn::Waits });
        }
        return match settle(socket, lease, &regions.of(lease)) {
            // There was something to read, and there is nobody. What he has written meanwhile goes before the reset.
            Settled::Left => {
                (socket.shown.hangup, socket.shown.readable) = (true, true);
                Ok(Turn::Goes)
            }
            Settled::No => Ok(if goes { Turn::Goes } else { Turn::Waits }),
            // There will be room, and an event.
            Settled::Yes if !is_all_taken(lease, &regions.of(lease))? => {
                Ok(if goes { Turn::Goes } else { Turn::Waits })
            }
            Settled::Yes => {
                regions.end(lease, false);
                Ok(Turn::Unleased)
            }
        };
    } else {
        arrive(socket, lease, stack, id, &regions.of(lease))
    };
    let goes = came.map_err(|end| match end {
        End::Of(error) => failed(error),
        End::Violation(violation) => violated(violation),
    })? | goes;
    Ok(if goes { Turn::Goes } else { Turn::Waits })
}

fn is_all_taken(lease: &mut Lease, slot: &Slot<'_>) -> Result<bool, Turn> {
    Ok(lease.progress.written(slot).map_err(violated)?.1 == 0)
}

/// What the application has written goes to the stack; true when there may be more at once. There is no end of a stream that is
/// to be reset (`is_dropped`).
fn leave(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    id: SocketId,
    slot: &Slot<'_>,
    is_dropped: bool,
) -> Result<bool, Turn> {
    // Looked at before the ring: what lies there now was sent after what the ring had no room for.
    let piped =
        if socket.shown.readable && !socket.has_finished { piped(socket)? } else { Piped::Nothing };
    let failed = |error| Turn::Failed(number_of(error));
    let (mut left, mut writes) = (QUANTUM, 0);
    loop {
        let (position, len) = lease.progress.written(slot).map_err(violated)?;
        if len == 0 {
            break;
        }
        if !socket.may_send {
            return Ok(false);
        }
        if left == 0 || writes == WRITES {
            return Ok(true);
        }
        writes += 1;
        if socket.has_finished {
            // Nobody sends behind the end.
            lease.progress.take(slot, len);
            break;
        }
        if slot.is_corked() {
            cork(socket, stack, id, true).map_err(failed)?;
        }
        let mut len = left.min(len as usize);
        let pushed = slot.pushed().saturating_sub(position).min(len as u64) as usize;
        let more = pushed == 0;
        if !more {
            len = pushed;
        }
        let mut taken = 0;
        let how = ip::SendFlags { more, end_of_record: false };
        for (at, piece) in places(slot.index, Way::Out, position, len) {
            if piece > 0 {
                let bytes = slot.rings.slice(at, piece);
                let written = stack.tcp_send(id, bytes, how).map_err(failed)?;
                taken += written;
                if written < piece {
                    break;
                }
            }
        }
        if taken > 0 {
            lease.progress.take(slot, taken as u64);
            left -= taken;
        }
        if taken < len {
            // There will be room, and an event.
            return Ok(false);
        }
    }
    // Whoever ends it tells of it, when all before it is in the ring.
    if !slot.is_corked() {
        cork(socket, stack, id, false).map_err(failed)?;
    }
    match piped {
        Piped::Nothing => {}
        Piped::Bytes(most) => {
            let before = lease.piped;
            let poured = pour(socket, stack, id, most, &mut |len| lease.piped += len as u64);
            if lease.piped != before {
                slot.set_piped(lease.piped);
            }
            return poured.map(|_| socket.shown.readable);
        }
        Piped::End if is_dropped => {}
        Piped::End => {
            socket.has_finished = true;
            // One that is over has nothing to finish.
            let _ = stack.tcp_finish(id);
        }
    }
    Ok(false)
}

/// What does not fill a segment waits from now on, or no longer.
fn cork(
    socket: &mut Socket,
    stack: &mut Stack,
    id: SocketId,
    on: bool,
) -> fusewire_stack::ip::Result<()> {
    match std::mem::replace(&mut socket.options.cork, on) {
        is_corked if is_corked == on => Ok(()),
        _ => stack.tcp_set_cork(id, on),
    }
}

/// What there is to read in the placeholder now.
fn piped(socket: &mut Socket) -> Result<Piped, Turn> {
    let waiting = rustix::io::ioctl_fionread(&socket.q).map_err(|_| Turn::Dropped)?;
    if waiting > 0 {
        return Ok(Piped::Bytes(waiting as usize));
    }
    match recv(&socket.q, &mut [0], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
        Ok((_, 0)) => Ok(Piped::End),
        Ok(_) => Ok(Piped::Bytes(1)),
        Err(Errno::AGAIN) => {
            socket.shown.readable = false;
            Ok(Piped::Nothing)
        }
        Err(Errno::INTR) => Ok(Piped::Nothing),
        // A doorbell was left unread, which is nothing that the peer has sent.
        Err(_) => Ok(Piped::End),
    }
}

/// Why nothing comes any more.
enum End {
    Of(Error),
    Violation(Violation),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Of(error)
    }
}

impl From<Violation> for End {
    fn from(violation: Violation) -> End {
        End::Violation(violation)
    }
}

/// What has come goes into the ring, and the doorbell is rung if somebody wants to hear it; true when there may be more at
/// once.
fn arrive(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    id: SocketId,
    slot: &Slot<'_>,
) -> Result<bool, End> {
    let (mut left, mut goes) = (QUANTUM, false);
    let mut wants = false;
    lease.came /= 2;
    loop {
        let (a, b) = stack.tcp_peek(id)?;
        if a.is_empty() {
            let at_end = stack.tcp_read(id, &mut [])?.is_some();
            if at_end && !std::mem::replace(&mut socket.peer_is_told, true) {
                slot.set_over(PEER_FINISHED);
                let _ = shutdown(&socket.q, Shutdown::Write);
            }
            break;
        }
        if left == 0 {
            goes = true;
            break;
        }
        let (position, mut room) = lease.progress.room(slot)?;
        if room == 0 && !wants {
            wants = true;
            lease.wants_room = true;
            lease.progress.want_room(slot, true);
            room = lease.progress.room(slot)?.1;
        }
        if room == 0 {
            break;
        }
        let a = &a[..a.len().min(left).min(room as usize)];
        let b = &b[..b.len().min(left - a.len()).min(room as usize - a.len())];
        lay(slot, position, a);
        lay(slot, position + a.len() as u64, b);
        let len = a.len() + b.len();
        lease.progress.show(slot, len as u64);
        stack.tcp_consume(id, len)?;
        lease.came += len as u64;
        left -= len;
    }
    if lease.wants_room && !wants {
        lease.wants_room = false;
        lease.progress.want_room(slot, false);
    }
    if lease.progress.must_ring(slot)? {
        ring_bell(&socket.q);
    }
    Ok(goes)
}

fn ring_bell(q: &OwnedFd) {
    // A placeholder that has no room for one has something to read.
    let _ = rustix::net::send(q, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

fn lay(slot: &Slot<'_>, position: u64, bytes: &[u8]) {
    let [(first, len), (second, _)] = places(slot.index, Way::In, position, bytes.len());
    let (front, rest) = bytes.split_at(len);
    slot.rings.write(first, front);
    slot.rings.write(second, rest);
}

/// Whether a lease that was taken back has nothing left.
enum Settled {
    Yes,
    /// There will be an event, or news.
    No,
    /// The last who had the placeholder is gone.
    Left,
}

/// What was not read goes through the placeholder.
fn settle(socket: &mut Socket, lease: &mut Lease, slot: &Slot<'_>) -> Settled {
    loop {
        let (position, owed) = lease.progress.owed();
        if owed == 0 {
            return Settled::Yes;
        }
        if !socket.shown.writable {
            return Settled::No;
        }
        let pieces = places(slot.index, Way::In, position, owed as usize)
            .map(|(at, len)| IoSlice::new(slot.rings.slice(at, len)));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&socket.q, &pieces, &mut SendAncillaryBuffer::default(), flags) {
            Ok(len) => {
                socket.has_piped = true;
                lease.progress.skip(len as u64);
            }
            Err(Errno::AGAIN) => socket.shown.writable = false,
            Err(Errno::INTR) => {}
            Err(_) if placeholder::is_left(socket.q.as_fd()) => return Settled::Left,
            // Nobody will read any more.
            Err(_) => lease.progress.skip(owed),
        }
    }
}
