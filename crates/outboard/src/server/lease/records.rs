//! The turn of a socket for datagrams that has a lease: its rings hold records ([`crate::record`]).
//!
//! ```text
//!  application ──▶ ring out ──▶ those of one length to one peer together ──▶ frames
//!  application ◀── ring in ◀── the socket's queue, which drops what comes when it is full
//! ```
//! Only whole records are committed, and only whole ones are taken. What found no room in the ring out comes through the
//! placeholder, behind what is in the ring.

use std::io;
use std::os::fd::AsFd;

use fusewire_base::Instant;
use fusewire_stack::ip::{SocketId, Stack, posix};
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::{End, Lease, Piped, Regions, Settled, is_all_taken, lay, piped, violated};
use crate::placeholder::is_left;
use crate::protocol::Heading;
use crate::record::{HEAD_LEN, Head, UNIT};
use crate::region::{Slot, Way, places};
use crate::ring::{Progress, Violation};
use crate::server::pipe::{self, DATAGRAM_MAX, Leaving, Turn, number_of};
use crate::server::policy::Policy;
use crate::server::table::{Socket, State};

/// Records that a socket moves in its turn, each way.
const RECORDS: usize = 512;
/// Records that are taken before their room is given back.
const TAKEN: usize = 64;

/// The turn of such a socket.
///
/// # Errors
/// The interface's.
pub fn datagrams(
    socket: &mut Socket,
    stack: &mut Stack,
    now: Instant,
    (regions, policy): (&mut Regions, &Policy),
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Turn> {
    let Some(mut lease) = socket.lease.take() else { return Ok(Turn::Goes) };
    if !lease.is_over && (socket.shown.hangup || Progress::is_revoked(&regions.of(&lease))) {
        let _ = regions.revoke(&mut lease, None, socket.q.as_fd());
    }
    let turn = by_records(socket, &mut lease, stack, now, (regions, policy), scratch)?;
    let turn = turn.unwrap_or_else(|ends| ends);
    match turn {
        Turn::Unleased => regions.end(&lease, false),
        _ => socket.lease = Some(lease),
    }
    Ok(turn)
}

fn by_records(
    socket: &mut Socket,
    lease: &mut Lease,
    stack: &mut Stack,
    now: Instant,
    (regions, policy): (&Regions, &Policy),
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Result<Turn, Turn>> {
    let State::Datagrams { id, .. } = socket.state else { return Ok(Ok(Turn::Waits)) };
    let slot = regions.of(lease);
    let mut way = Leaving { stack: &mut *stack, id, now, policy };
    let goes = match leave(socket, lease, &mut way, &slot, scratch)? {
        Ok(goes) => goes,
        Err(ends) => return Ok(Err(ends)),
    };
    // What finds no room waits in the stack.
    stack.flush_udp(now, id)?;
    let waits = if goes { Turn::Goes } else { Turn::Waits };
    if socket.has_finished {
        return Ok(Ok(Turn::Left));
    }
    if socket.shown.hangup {
        // What was sent before leaves.
        return Ok(is_all_taken(lease, &slot).map(|all| if all { Turn::Left } else { waits }));
    }
    if !lease.is_over {
        return Ok(match arrive(socket, lease, stack, id, &slot) {
            Ok(comes) => Ok(if comes { Turn::Goes } else { waits }),
            Err(End::Of(error)) => Err(Turn::Failed(number_of(error))),
            Err(End::Violation(violation)) => Err(violated(violation)),
        });
    }
    if regions.revoke(lease, None, socket.q.as_fd()).is_err() {
        return Ok(Ok(waits));
    }
    Ok(match settle(socket, lease, &slot) {
        Settled::Left => Ok(Turn::Left),
        Settled::No => Ok(waits),
        Settled::Yes => is_all_taken(lease, &slot).map(|all| match all {
            true => Turn::Unleased,
            false => waits,
        }),
    })
}

/// What the application sends goes to the stack; true when there may be more at once.
fn leave(
    socket: &mut Socket,
    lease: &mut Lease,
    way: &mut Leaving<'_>,
    slot: &Slot<'_>,
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Result<bool, Turn>> {
    lease.is_blocked = false;
    if matches!(socket.state, State::Datagrams { pending: Some(_), .. }) {
        let left = pipe::leave_datagrams(socket, way, scratch, 0)?;
        if left.is_err() || matches!(socket.state, State::Datagrams { pending: Some(_), .. }) {
            return Ok(left);
        }
    }
    // Looked at before the ring: what lies there now was sent after what the ring had no room for.
    let piped = match socket.shown.readable && !socket.has_finished {
        true => match piped(socket) {
            Ok(piped) => piped,
            Err(ends) => return Ok(Err(ends)),
        },
        false => Piped::Nothing,
    };
    let (mut position, mut left) = match lease.progress.written(slot) {
        Ok(written) => written,
        Err(violation) => return Ok(Err(violated(violation))),
    };
    let (mut count, mut taken) = (0, 0);
    while left > 0 && count < RECORDS && socket.may_send {
        let Some((heading, message, len)) = record(slot, position, left, scratch) else {
            return Ok(Err(Turn::Failed(Errno::PROTO)));
        };
        if !way.leave(socket, message, &heading)? {
            lease.is_blocked = true;
            break;
        }
        (position, left, taken, count) = (position + len, left - len, taken + len, count + 1);
        socket.note_taken(len);
        if count % TAKEN == 0 {
            lease.progress.take(slot, std::mem::take(&mut taken));
        }
    }
    if taken > 0 {
        lease.progress.take(slot, taken);
    }
    if left > 0 {
        return Ok(Ok(count == RECORDS));
    }
    match piped {
        Piped::Nothing => {
            if !socket.shown.readable {
                socket.note_all_taken();
            }
            Ok(Ok(false))
        }
        Piped::Bytes(most) => {
            let before = socket.taken;
            let left = pipe::leave_datagrams(socket, way, scratch, most)?;
            if socket.taken != before {
                lease.piped += socket.taken - before;
                slot.set_piped(lease.piped);
            }
            Ok(left.map(|_| socket.shown.readable))
        }
        Piped::End => {
            socket.has_finished = true;
            Ok(Ok(false))
        }
    }
}

/// What such a socket has sent that was not taken, in bytes of its ring.
pub fn untaken(lease: &mut Lease, regions: &Regions) -> u64 {
    // One whose index cannot be is ended in its turn.
    lease.progress.written(&regions.of(lease)).map_or(0, |(_, left)| left)
}

/// The record at `position`, of `left` bytes that are committed: whom it is for and what goes beside it, its message, and how long it is. `None`: it
/// is none.
fn record<'a>(
    slot: &'a Slot<'_>,
    position: u64,
    left: u64,
    scratch: &'a mut [u8; DATAGRAM_MAX],
) -> Option<(Heading, &'a [u8], u64)> {
    if left < HEAD_LEN as u64 {
        return None;
    }
    let head = Head::read(slot, Way::Out, position).ok()?;
    let len = head.len_in_ring();
    if len > left {
        return None;
    }
    let [(first, front), (second, rest)] =
        places(slot.index, Way::Out, position + head.head_len() as u64, head.len);
    if rest == 0 {
        return Some((head.heading, slot.rings.slice(first, front), len));
    }
    let whole = &mut scratch[..head.len];
    slot.rings.read(first, &mut whole[..front]);
    slot.rings.read(second, &mut whole[front..]);
    Some((head.heading, whole, len))
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
    let (mut count, mut wants) = (0, false);
    let interface = stack.interface().index().unwrap_or(0);
    while count < RECORDS && !wants {
        let Some(messages) = stack.udp_peek(id)? else {
            pipe::note_error(socket, stack, id)?;
            if socket.owes_word() {
                socket.has_word = lay_word(lease, slot)?;
                wants = !socket.has_word;
            }
            break;
        };
        let (position, mut room) = lease.progress.room(slot)?;
        let (mut laid, mut taken) = (0, 0);
        let beside = socket.options.tells.told(messages.beside(interface));
        let from = posix::with_zone(messages.from, interface);
        let heading = Heading { address: Some(from), beside };
        let mut head = Head { len: 0, heading };
        let mut begin = head.emit();
        for message in messages.iter() {
            head.len = message.len();
            let len = head.len_in_ring();
            if laid + len > room && !wants {
                (wants, lease.wants_room) = (true, true);
                lease.progress.want_room(slot, true);
                room = lease.progress.room(slot)?.1;
            }
            if laid + len > room {
                break;
            }
            begin.set_len(message.len());
            lay(slot, position + laid, &begin);
            lay(slot, position + laid + begin.len() as u64, message);
            (laid, taken, count) = (laid + len, taken + message.len(), count + 1);
            wants = false;
        }
        if laid > 0 {
            lease.progress.show(slot, laid);
            stack.udp_skip(id, taken)?;
        }
    }
    if lease.wants_room && !wants {
        lease.wants_room = false;
        lease.progress.want_room(slot, false);
    }
    lease.announce(slot, &socket.q)?;
    Ok(count >= RECORDS && !wants)
}

/// Lays word of an error down; false: there is no room yet.
fn lay_word(lease: &mut Lease, slot: &Slot<'_>) -> Result<bool, Violation> {
    let word = Head { len: 0, heading: Heading::default() };
    let (position, mut room) = lease.progress.room(slot)?;
    if room < word.len_in_ring() {
        lease.wants_room = true;
        lease.progress.want_room(slot, true);
        room = lease.progress.room(slot)?.1;
    }
    let has_room = room >= word.len_in_ring();
    if has_room {
        lay(slot, position, &word.emit());
        lease.progress.show(slot, word.len_in_ring());
    }
    Ok(has_room)
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
        let at = |from, len| places(slot.index, Way::In, from, len);
        // We laid it there; who has written over it since has lost what he had.
        let is_record = position.is_multiple_of(UNIT as u64);
        let whole = is_record.then(|| Head::read(slot, Way::In, position).ok()).flatten();
        let whole = whole.filter(|head| head.len_in_ring() <= owed);
        let Some(head) = whole else {
            lease.progress.skip(owed);
            continue;
        };
        let heading = head.heading.emit();
        let [a, b] = at(position + head.head_len() as u64, head.len)
            .map(|(at, len)| IoSlice::new(slot.rings.slice(at, len)));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let pieces = [IoSlice::new(&heading), a, b];
        match sendmsg(&socket.q, &pieces, &mut SendAncillaryBuffer::default(), flags) {
            Ok(_) => lease.progress.skip(head.len_in_ring()),
            Err(Errno::AGAIN | Errno::NOBUFS) => socket.shown.writable = false,
            Err(Errno::INTR) => {}
            Err(_) if is_left(socket.q.as_fd()) => return Settled::Left,
            // Nobody will read any more.
            Err(_) => lease.progress.skip(owed),
        }
    }
}
