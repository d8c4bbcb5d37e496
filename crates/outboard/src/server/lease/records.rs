//! The turn of a socket for datagrams that has a lease: its rings hold records ([`crate::record`]).
//!
//! ```text
//!  application ──▶ ring out ──▶ those of one length to one peer together ──▶ frames
//!  application ◀── ring in ◀── the socket's queue, which drops what comes when it is full
//! ```
//! Only whole records are committed, and only whole ones are taken. What found no room in the ring out comes through the
//! placeholder, behind what is in the ring.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_stack::ip::{Messages, Recipient, SocketId, Stack};
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::{End, Lease, Piped, Regions, Settled, is_all_taken, lay, piped, ring_bell, violated};
use crate::placeholder::is_left;
use crate::protocol::emit_address;
use crate::record::{HEAD_LEN, Head, UNIT, len_in_ring};
use crate::region::{Slot, Way, places};
use crate::ring::Progress;
use crate::server::pipe::{self, DATAGRAM_MAX, Turn, number_of};
use crate::server::table::{Socket, State};

/// Records that a socket moves in its turn, each way.
const RECORDS: usize = 512;
/// Records that are taken before their room is given back.
const TAKEN: usize = 64;

/// The most that the records of a super-frame take beyond its bytes: of 128 messages head and alignment.
const RECORDS_MORE: u64 = 128 * (HEAD_LEN + UNIT) as u64;
/// Room for any packet's.
const PACKET_ROOM: u64 = (64 << 10) + RECORDS_MORE;
/// Bytes of records that are shown together.
const SHOWN: u64 = 4 << 10;
/// How long a reader that is behind is waited for.
const PATIENCE: Duration = Duration::from_micros(100);

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
    lease.came /= 2;
    while count < RECORDS && !wants {
        let Some(messages) = stack.udp_peek(id)? else {
            if let Some(error) = stack.take_error(id)? {
                socket.error = Some(number_of(error));
            }
            break;
        };
        let (position, room) = lease.progress.room(slot)?;
        let mut laid = lay_records(slot, position, room, &messages);
        if laid.count < messages.count() {
            lease.wants_room = true;
            lease.progress.want_room(slot, true);
            let room = lease.progress.room(slot)?.1;
            let bytes = &messages.bytes[laid.bytes..];
            let more = lay_records(
                slot,
                position + laid.len,
                room.saturating_sub(laid.len),
                &Messages { bytes, ..messages },
            );
            wants = laid.count + more.count < messages.count();
            laid.add(&more);
        }
        if laid.len > 0 {
            lease.progress.show(slot, laid.len);
            stack.udp_skip(id, laid.bytes)?;
            (count, lease.came) = (count + laid.count, lease.came + laid.len);
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

/// Messages that were laid down as records.
#[derive(Clone, Copy, Debug, Default)]
struct Laid {
    count: usize,
    /// Bytes of them.
    bytes: usize,
    /// Bytes of the ring.
    len: u64,
}

impl Laid {
    fn add(&mut self, more: &Laid) {
        self.count += more.count;
        self.bytes += more.bytes;
        self.len += more.len;
    }
}

/// Lays the first messages down from `position` on, as many as have room.
fn lay_records(slot: &Slot<'_>, position: u64, room: u64, messages: &Messages<'_>) -> Laid {
    let mut laid = Laid::default();
    let mut head = Head { len: 0, address: Some(messages.from) }.emit();
    for message in messages.iter() {
        let (at, len) = (position + laid.len, len_in_ring(message.len()));
        if laid.len + len > room {
            break;
        }
        head[..4].copy_from_slice(&(message.len() as u32).to_le_bytes());
        lay(slot, at, &head);
        lay(slot, at + HEAD_LEN as u64, message);
        laid.add(&Laid { count: 1, bytes: message.len(), len });
    }
    laid
}

/// The ring in, into which messages go from where the interface has them.
struct RingIn<'a> {
    slot: &'a Slot<'a>,
    progress: &'a mut Progress,
    position: u64,
    room: u64,
    /// Not shown yet.
    unseen: u64,
    laid: Laid,
}

impl RingIn<'_> {
    fn show(&mut self) {
        if self.unseen > 0 {
            self.progress.show(self.slot, std::mem::take(&mut self.unseen));
        }
    }
}

impl Recipient for RingIn<'_> {
    fn has_room_for(&self, packet_bytes: usize) -> bool {
        packet_bytes as u64 + RECORDS_MORE <= self.room
    }

    fn take(&mut self, messages: &Messages<'_>) -> usize {
        let laid = lay_records(self.slot, self.position, self.room, messages);
        (self.position, self.room) = (self.position + laid.len, self.room - laid.len);
        self.unseen += laid.len;
        self.laid.add(&laid);
        if self.unseen >= SHOWN {
            self.show();
        }
        laid.count
    }
}

/// Takes a batch of packets, of which the messages for this socket go straight into its ring, verified before they are shown;
/// how many they were. `None`: this is not the way, for now.
///
/// A reader that is behind and reads on is waited for, a little, once for each time that he has made room: what is left with
/// the interface meanwhile costs nothing, and what his queue has no room for was work in vain.
///
/// # Errors
/// The interface's.
pub fn place(
    lease: &mut Lease,
    slot: &Slot<'_>,
    q: &OwnedFd,
    stack: &mut Stack,
    (id, now): (SocketId, Instant),
) -> io::Result<Option<usize>> {
    let Ok((position, room)) = lease.progress.room(slot) else { return Ok(None) };
    if room < PACKET_ROOM {
        let since = *lease.full_since.get_or_insert(now);
        let is_queued = !stack.udp_peek(id).is_ok_and(|queued| queued.is_none());
        let waits = !is_queued && now.saturating_since(since) < PATIENCE;
        return Ok(waits.then_some(0));
    }
    lease.full_since = None;
    let progress = &mut lease.progress;
    let mut ring = RingIn { slot, progress, position, room, unseen: 0, laid: Laid::default() };
    let came = stack.udp_recv_into(now, id, &mut ring)?;
    ring.show();
    let laid = ring.laid;
    lease.came += laid.len;
    if laid.count > 0
        && let Ok(true) = lease.progress.must_ring(slot)
    {
        ring_bell(q);
    }
    Ok(came.ok().flatten().map(|_| laid.count))
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
