//! Leases: the rings of connections that one process uses alone ([`crate::ring`]). Here is a stream's turn by its rings; the
//! regions that they lie in, and who gets one, are beside it.
//!
//! ```text
//!  application ──▶ ring out ──summed where they lie, until they are acknowledged──▶ frames      ([`held`])
//!                          └──what is short, or one pass, summed──▶ the connection's memory ──▶ frames
//!  application ◀── ring in ◀──one pass── the connection's memory, or the frame
//!      P ⇄ Q: what found no room in the ring, the end of the stream, doorbells
//! ```
//! What is in the ring goes before what is in the placeholder: an application that has sent something through the
//! placeholder writes to its ring again when that has been taken.

mod gather;
mod held;
mod records;
mod regions;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::{self, Bytes, Error, SocketId, Stack};
use rustix::io::{Errno, IoSlice};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown};

use super::pipe::{self, QUANTUM, Turn, number_of, pour};
use super::table::Socket;
use crate::placeholder;
use crate::region::{PEER_FINISHED, Slot, WIDE_FROM, Way, places};
use crate::ring::{Progress, Violation, WIDE_BYTES};
use crate::waiter;
use gather::Gather;
use held::Held;
pub use records::{datagrams, untaken};
pub use regions::{Asked, Regions};

/// Writes to the stack that a turn takes: the application may have cut what it has written as small as it likes.
const WRITES: usize = 64;
/// Bytes that went through the placeholder, in the few messages before a lease, from which on its rings are wide.
pub const MUCH: u64 = 128 << 10;
/// Memory of the rings that are wide.
pub const WIDE: u64 = 2 * WIDE_BYTES;

/// How old what an application reads of its connection may be.
pub const INFO_EVERY: Duration = Duration::from_millis(1);

/// A socket's lease.
#[derive(Debug)]
pub struct Lease {
    region: usize,
    slot: usize,
    progress: Progress,
    held: Held,
    gather: Gather,
    /// Bytes that came through the placeholder.
    piped: u64,
    /// It was taken back; what is unread goes through the placeholder.
    is_over: bool,
    /// The placeholder tells of room again, as its lease is over.
    hears_of_room: bool,
    /// No doorbell lies there any more.
    is_quiet: bool,
    /// When `TCP_INFO` was written last.
    told_at: Option<Instant>,
    /// It is not what was written.
    is_stale: bool,
    /// More comes at once, and the bell is for that.
    defers: bool,
    /// It was said that there is more than room.
    wants_room: bool,
    /// The interface had no room for the next datagram.
    is_blocked: bool,
    /// Who waits for it and others slept when something was laid down.
    owes_bell: bool,
}

impl Lease {
    /// It is over, and from now on the placeholder is to tell of room again: true once.
    pub fn begins_to_hear(&mut self) -> bool {
        self.is_over && !std::mem::replace(&mut self.hears_of_room, true)
    }

    /// The interface had no room for what is next: it is to be tried again.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// What was written waits for more of it, and nothing else was to be done.
    pub fn gathers(&self) -> bool {
        self.gather.is_waiting()
    }

    /// And its next turn is without a look.
    pub fn rests(&self) -> bool {
        self.gather.is_resting()
    }

    /// What was written is to leave at once.
    pub fn push(&mut self) {
        self.gather.push();
    }

    /// What was written of `TCP_INFO` is not true any more; true if nobody has heard of that yet.
    pub fn note_stale(&mut self) -> bool {
        !std::mem::replace(&mut self.is_stale, true)
    }

    /// Memory of its rings that its socket's user is charged for: of those that are wide.
    pub fn charged(&self) -> u64 {
        if self.slot < WIDE_FROM { 0 } else { WIDE }
    }

    /// Who waits for it and others may have to be woken.
    pub fn owes_bell(&self) -> bool {
        self.owes_bell
    }

    /// Says that something was laid down: the doorbell is rung if somebody wants to hear it, and who waits for several leases
    /// looks at this one.
    fn announce(&mut self, slot: &Slot<'_>, q: &OwnedFd) -> Result<(), Violation> {
        if self.progress.must_ring(slot)? {
            ring_bell(q);
        }
        if self.progress.has_unread()
            && let Some(waiter) = slot.waiter()?
        {
            self.owes_bell |= waiter::mark(&waiter, slot.bit());
        }
        Ok(())
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
pub fn stream(
    socket: &mut Socket,
    stack: &mut Stack,
    (now, id): (Instant, SocketId),
    regions: &mut Regions,
) -> Turn {
    let Some(mut lease) = socket.lease.take() else { return Turn::Goes };
    // A hangup is shown too when both sides have finished; who has the placeholder may still read then.
    let has_left = socket.shown.hangup && !socket.peer_is_told;
    if !lease.is_over && (has_left || Progress::is_revoked(&regions.of(&lease))) {
        let _ = regions.revoke(&mut lease, None, socket.q.as_fd());
    }
    // Whoever had it left bytes unread that came before the lease did; a doorbell is nothing that the peer has sent.
    let left_some =
        has_left && socket.shown.error && !Progress::left(&regions.of(&lease)).is_noisy();
    let turn = by_rings(socket, &mut lease, stack, (now, id), regions, left_some);
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
    (now, id): (Instant, SocketId),
    regions: &mut Regions,
    left_some: bool,
) -> Result<Turn, Turn> {
    let failed = |error| Turn::Failed(number_of(error));
    refuse_more(socket, lease, stack, id, &regions.of(lease)).map_err(failed)?;
    // What the ring has is as if it lay unread in the placeholder.
    let owes = socket.shown.hangup && lease.is_over && lease.progress.owed().1 > 0;
    let is_dropped = left_some || owes;
    let ring = (&regions.of(lease), regions.out(lease));
    let goes = leave(socket, lease, stack, (now, id), ring, is_dropped)?;
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

/// As [`pipe::refuse_more`], of who writes by the ring too.
fn refuse_more(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    id: SocketId,
    slot: &Slot<'_>,
) -> Result<(), Error> {
    // An index that cannot be is told elsewhere.
    let has_unread = match lease.is_over {
        true => lease.progress.owed().1 > 0,
        false => lease.progress.unread(slot).is_ok_and(|(_, unread)| unread > 0),
    };
    if let Some(taken) = pipe::refuse_more(socket, stack, id, has_unread)? {
        slot.refuse();
        lease.piped += taken as u64;
        slot.set_piped(lease.piped);
    }
    Ok(())
}

/// What the application has written goes to the stack; true when there may be more at once. There is no end of a stream that is
/// to be reset (`is_dropped`).
fn leave(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    (now, id): (Instant, SocketId),
    (slot, out): (&Slot<'_>, &Bytes),
    is_dropped: bool,
) -> Result<bool, Turn> {
    lease.give_back(slot, stack, id);
    if lease.gathers_on(socket, now, slot).map_err(violated)? {
        return Ok(true);
    }
    // Looked at before the ring: what lies there now was sent after what the ring had no room for.
    let had_error = socket.shown.error;
    let piped =
        if socket.shown.readable && !socket.has_finished { piped(socket)? } else { Piped::Nothing };
    let failed = |error| Turn::Failed(number_of(error));
    let (mut left, mut writes) = (QUANTUM, 0);
    loop {
        let (position, len) = lease.progress.written(slot).map_err(violated)?;
        if len == 0 {
            break;
        }
        if socket.has_finished {
            // Nobody sends behind the end, and nobody holds that back.
            lease.note_taken(slot, stack, id, (len, false));
            break;
        }
        if !socket.may_send {
            return Ok(false);
        }
        if left == 0 || writes == WRITES {
            return Ok(true);
        }
        writes += 1;
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
        let is_lent = !lease.is_over && lease.held.lends(len);
        for (at, piece) in places(slot.index, Way::Out, position, len) {
            if piece > 0 {
                let written = match is_lent {
                    true => stack.tcp_send_shared(id, &out.slice(at..at + piece), how),
                    false => stack.tcp_send(id, slot.rings.slice(at, piece), how),
                };
                let written = written.map_err(failed)?;
                taken += written;
                if written < piece {
                    break;
                }
            }
        }
        if taken > 0 {
            lease.note_taken(slot, stack, id, (taken as u64, is_lent));
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
            if let Some(looks) = lease.waits_for_room(slot, stack, id) {
                return Ok(looks);
            }
            let before = lease.piped;
            let poured = pour(socket, stack, id, most, &mut |len| lease.piped += len as u64);
            if lease.piped != before {
                slot.set_piped(lease.piped);
            }
            return poured.map(|_| socket.shown.readable);
        }
        Piped::End if is_dropped => {}
        // The next turn knows what was left behind.
        Piped::End if socket.is_newly_left() || socket.shown.error != had_error => return Ok(true),
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
        // Something was left unread, which was of which this is told, and epoll no more.
        Err(_) => {
            socket.shown.error = true;
            Ok(Piped::End)
        }
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
    let (mut left, mut goes, mut wants) = (QUANTUM, false, false);
    match lay_down(lease, stack, id, slot, &mut left)? {
        // Another process may come to have what lies in the ring: until that is read the connection goes on, and who has read it says so.
        Laid::All if socket.is_refused && has_unread_after_all(lease, slot)? => wants = true,
        Laid::All => {
            if let Some(error) = pipe::failure(stack, id)? {
                return Err(error.into());
            }
            let at_end = stack.tcp_read(id, &mut [])?.is_some();
            if at_end && !std::mem::replace(&mut socket.peer_is_told, true) {
                slot.set_over(PEER_FINISHED);
                let _ = shutdown(&socket.q, Shutdown::Write);
            }
        }
        Laid::Some => goes = true,
        Laid::Full => wants = true,
    }
    if lease.wants_room && !wants {
        lease.wants_room = false;
        lease.progress.want_room(slot, false);
    }
    if std::mem::take(&mut lease.defers) {
        // The next turn finds it rung, or rings it.
        goes = true;
    } else {
        lease.announce(slot, &socket.q)?;
    }
    Ok(goes)
}

impl Lease {
    /// What was written waits, as more of it comes, and there is nothing else to be seen to.
    fn gathers_on(
        &mut self,
        socket: &Socket,
        now: Instant,
        slot: &Slot<'_>,
    ) -> Result<bool, Violation> {
        let is_calm = socket.may_send && !self.is_over && !socket.has_finished;
        // To uncork says that what waits is to leave.
        let is_uncorked = socket.options.cork && !slot.is_corked();
        if !is_calm || socket.shown.readable || socket.shown.hangup || is_uncorked {
            self.gather.rest();
            return Ok(false);
        }
        if self.gather.skips(now) {
            return Ok(true);
        }
        let (position, len) = self.progress.written(slot)?;
        if len == 0 {
            return Ok(false);
        }
        Ok(self.gather.waits((position + len, len), self.progress.shown(), now))
    }
}

/// Whether something in the ring has not been read, of which the application says when it is.
fn has_unread_after_all(lease: &mut Lease, slot: &Slot<'_>) -> Result<bool, Violation> {
    if lease.progress.unread(slot)?.1 == 0 {
        return Ok(false);
    }
    lease.wants_room = true;
    lease.progress.want_room(slot, true);
    Ok(lease.progress.unread(slot)?.1 > 0)
}

/// What of what has come is in the ring.
enum Laid {
    /// All.
    All,
    /// As much as it is the turn for.
    Some,
    /// As much as there is room for: it was said that there is more.
    Full,
}

/// Lays what has come into the ring, up to `left` bytes, and shows it.
fn lay_down(
    lease: &mut Lease,
    stack: &mut Stack,
    id: SocketId,
    slot: &Slot<'_>,
    left: &mut usize,
) -> Result<Laid, End> {
    let mut wants = false;
    loop {
        let (a, b) = stack.tcp_peek(id)?;
        if a.is_empty() {
            return Ok(Laid::All);
        }
        if *left == 0 {
            return Ok(Laid::Some);
        }
        let (position, mut room) = lease.progress.room(slot)?;
        if room == 0 && !wants {
            wants = true;
            lease.wants_room = true;
            lease.progress.want_room(slot, true);
            room = lease.progress.room(slot)?.1;
        }
        if room == 0 {
            return Ok(Laid::Full);
        }
        let a = &a[..a.len().min(*left).min(room as usize)];
        let b = &b[..b.len().min(*left - a.len()).min(room as usize - a.len())];
        lay(slot, position, a);
        lay(slot, position + a.len() as u64, b);
        let len = a.len() + b.len();
        lease.progress.show(slot, len as u64);
        stack.tcp_consume(id, len)?;
        *left -= len;
    }
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
