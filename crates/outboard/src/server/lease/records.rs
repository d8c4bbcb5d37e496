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
use fusewire_stack::ip::{SocketId, Stack};
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::{End, Lease, Piped, Regions, Settled, is_all_taken, lay, piped, ring_bell, violated};
use crate::placeholder::is_left;
use crate::protocol::emit_address;
use crate::record::{HEAD_LEN, Head, len_in_ring};
use crate::region::{Slot, Way, places};
use crate::ring::Progress;
use crate::server::pipe::{self, DATAGRAM_MAX, Turn, number_of};
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
    regions: &mut Regions,
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Turn> {
    let Some(mut lease) = socket.lease.take() else { return Ok(Turn::Goes) };
    if !lease.is_over && (socket.shown.hangup || Progress::is_revoked(&regions.of(&lease))) {
        let _ = regions.revoke(&mut lease, None, socket.q.as_fd());
    }
    let turn = by_records(socket, &mut lease, stack, now, regions, scratch)?;
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
    regions: &Regions,
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Result<Turn, Turn>> {
    let State::Datagrams { id, .. } = socket.state else { return Ok(Ok(Turn::Waits)) };
    let slot = regions.of(lease);
    let goes = match leave(socket, lease, (stack, id, now), &slot, scratch)? {
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
    (stack, id, now): (&mut Stack, SocketId, Instant),
    slot: &Slot<'_>,
    scratch: &mut [u8; DATAGRAM_MAX],
) -> io::Result<Result<bool, Turn>> {
    lease.is_blocked = false;
    if matches!(socket.state, State::Datagrams { pending: Some(_), .. }) {
        let left = pipe::leave_datagrams(socket, (&mut *stack, id, now), scratch, 0, &mut |_| {})?;
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
        let Some((to, message, len)) = record(slot, position, left, scratch) else {
            return Ok(Err(Turn::Failed(Errno::PROTO)));
        };
        // Those of one length to one peer leave together.
        match stack.udp_stage(now, id, message, to)? {
            Ok(true) => {}
            Ok(false) => {
                lease.is_blocked = true;
                break;
            }
            Err(error) => socket.error = Some(number_of(error)),
        }
        (position, left, taken, count) = (position + len, left - len, taken + len, count + 1);
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
        Piped::Nothing => Ok(Ok(false)),
        Piped::Bytes(most) => {
            let (before, piped) = (lease.piped, &mut lease.piped);
            let mut count = |len| *piped += len as u64;
            let left = pipe::leave_datagrams(socket, (stack, id, now), scratch, most, &mut count)?;
            if lease.piped != before {
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

/// The record at `position`, of `left` bytes that are committed: whom it is for, its message, and how long it is. `None`: it
/// is none.
fn record<'a>(
    slot: &'a Slot<'_>,
    position: u64,
    left: u64,
    scratch: &'a mut [u8; DATAGRAM_MAX],
) -> Option<(Option<std::net::SocketAddr>, &'a [u8], u64)> {
    if left < HEAD_LEN as u64 {
        return None;
    }
    let mut head = [0; HEAD_LEN];
    let [(at, _), _] = places(slot.index, Way::Out, position, HEAD_LEN);
    slot.rings.read(at, &mut head);
    let head = Head::parse(&head).ok()?;
    let len = len_in_ring(head.len);
    if len > left {
        return None;
    }
    let [(first, front), (second, rest)] =
        places(slot.index, Way::Out, position + HEAD_LEN as u64, head.len);
    if rest == 0 {
        return Some((head.address, slot.rings.slice(first, front), len));
    }
    let whole = &mut scratch[..head.len];
    slot.rings.read(first, &mut whole[..front]);
    slot.rings.read(second, &mut whole[front..]);
    Some((head.address, whole, len))
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
    while count < RECORDS && !wants {
        let Some(messages) = stack.udp_peek(id)? else {
            if let Some(error) = stack.take_error(id)? {
                socket.error = Some(number_of(error));
            }
            break;
        };
        let (position, mut room) = lease.progress.room(slot)?;
        let (mut laid, mut taken) = (0, 0);
        let mut head = Head { len: 0, address: Some(messages.from) }.emit();
        for message in messages.iter() {
            let len = len_in_ring(message.len());
            if laid + len > room && !wants {
                (wants, lease.wants_room) = (true, true);
                lease.progress.want_room(slot, true);
                room = lease.progress.room(slot)?.1;
            }
            if laid + len > room {
                break;
            }
            head[..4].copy_from_slice(&(message.len() as u32).to_le_bytes());
            lay(slot, position + laid, &head);
            lay(slot, position + laid + HEAD_LEN as u64, message);
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
    if lease.progress.must_ring(slot)? {
        ring_bell(&socket.q);
    }
    Ok(count >= RECORDS && !wants)
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
        let mut head = [0; HEAD_LEN];
        let [(first, front), (second, _)] = at(position, HEAD_LEN);
        slot.rings.read(first, &mut head[..front]);
        slot.rings.read(second, &mut head[front..]);
        // We laid it there; who has written over it since has lost what he had.
        let whole = Head::parse(&head).ok().filter(|head| len_in_ring(head.len) <= owed);
        let Some(head) = whole else {
            lease.progress.skip(owed);
            continue;
        };
        let address = emit_address(head.address);
        let [a, b] = at(position + HEAD_LEN as u64, head.len)
            .map(|(at, len)| IoSlice::new(slot.rings.slice(at, len)));
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let pieces = [IoSlice::new(&address), a, b];
        match sendmsg(&socket.q, &pieces, &mut SendAncillaryBuffer::default(), flags) {
            Ok(_) => lease.progress.skip(len_in_ring(head.len)),
            Err(Errno::AGAIN | Errno::NOBUFS) => socket.shown.writable = false,
            Err(Errno::INTR) => {}
            Err(_) if is_left(socket.q.as_fd()) => return Settled::Left,
            // Nobody will read any more.
            Err(_) => lease.progress.skip(owed),
        }
    }
}
