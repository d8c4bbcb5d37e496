//! A context and what belongs to it: the machine, the memory of both directions, the messages that wait.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;

use fusewire_base::Instant;
use fusewire_device::Region;
use fusewire_kernels::{Check, Level};
use fusewire_transport::machine::{Cut, Event as Told, ResetCause};
use fusewire_transport::xtp::{Connection, Name, State};

use super::block::ControlBlock;
use super::event::{Ended, Event, Message};
use super::place::{Buffer, Scatter, gather};
use super::sorted::{Sorted, Turn};
use super::standing::Standing;
use crate::path::Path;
use crate::path::question::Keys;
use crate::pieces::Pieces;
use crate::send_ring::{Place, SendRing};
use crate::trace::Trace;
use crate::{Error, Result};

/// Gaps that a context keeps until what lies behind them is told.
const GAPS_MAX: usize = 4096;

/// A message that has no offset yet.
struct Waiting {
    bytes: Vec<u8>,
    tag: Option<u64>,
    sort: u16,
}

/// See the module's text.
pub(super) struct Association {
    pub standing: Standing,
    pub machine: Box<Connection>,
    pub ring: SendRing,
    pub block: ControlBlock,
    /// How large packets may be, where that is not known from the start.
    pub path: Path,
    /// The second name, once it is known.
    pub also: Option<Name>,
    /// What it did last.
    pub trace: Trace,
    level: Level,
    /// The receive buffer; the byte at stream offset `o` lies at `o % len`. The application's, or made with the first byte.
    memory: Vec<u8>,
    memory_len: usize,
    /// Everything below needs no memory any more.
    released: u64,
    /// What lies above and needs none either, in order.
    done: Vec<Range<u64>>,
    /// Where the last message in order ended.
    told_upto: u64,
    /// The peer sends nothing again.
    passes_gaps: bool,
    /// What never came, above `told_upto`.
    gaps: VecDeque<Range<u64>>,
    /// Messages that have no offset yet, with SORT, and their bytes.
    queue: Sorted<Waiting>,
    queued_bytes: usize,
    /// The sort of the message that is leaving.
    leaving: u16,
    /// Packets from this offset on have a trailer, and no sum.
    trailers_from: u64,
    finishing: bool,
    wants_room: bool,
}

impl Association {
    pub fn new(
        remote: SocketAddr,
        machine: Box<Connection>,
        ring: Region,
        block: ControlBlock,
        level: Level,
        path: Path,
    ) -> Association {
        let info = machine.info();
        let records = block.send_bytes as usize / 64 + 64;
        Association {
            standing: Standing::new(remote),
            also: None,
            trace: Trace::default(),
            ring: SendRing::new(ring, records.min(1 << 16), machine.trailer_room()),
            level,
            memory: Vec::new(),
            memory_len: info.recv_window as usize,
            released: 0,
            done: Vec::new(),
            told_upto: 0,
            passes_gaps: false,
            gaps: VecDeque::new(),
            queue: Sorted::default(),
            queued_bytes: 0,
            leaving: block.sort.unwrap_or(0),
            trailers_from: u64::MAX,
            finishing: false,
            wants_room: false,
            machine,
            block,
            path,
        }
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = Name> + use<> {
        std::iter::once(self.machine.name()).chain(self.also)
    }

    // ---- receiving

    /// The application lends its own memory.
    pub fn lend(&mut self, memory: Vec<u8>) -> Result<()> {
        if !self.memory.is_empty() || memory.len() < self.memory_len {
            return Err(Error::Misuse(
                "the receive buffer is lent once, before data come, and whole",
            ));
        }
        self.memory_len = memory.len();
        self.memory = memory;
        Ok(())
    }

    /// Takes the lent memory back, when the context is over.
    pub fn take_memory(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.memory)
    }

    /// Where a message lies in the receive buffer: in one piece, or two.
    pub fn pieces(&self, range: &Range<u64>) -> [&[u8]; 2] {
        let len = (range.end - range.start) as usize;
        if self.memory.len() < len || range.start < self.released {
            return [&[], &[]];
        }
        let at = (range.start % self.memory.len() as u64) as usize;
        let first = len.min(self.memory.len() - at);
        [&self.memory[at..at + first], &self.memory[..len - first]]
    }

    /// The memory of a message may be used for others.
    pub fn release(&mut self, range: Range<u64>) {
        if range.start >= self.released && range.end > range.start {
            self.standing.outstanding = self.standing.outstanding.saturating_sub(1);
            self.let_go(range);
        }
    }

    fn let_go(&mut self, range: Range<u64>) {
        if range.start > self.released {
            let at = self.done.partition_point(|done| done.start < range.start);
            return self.done.insert(at, range);
        }
        self.released = self.released.max(range.end);
        let mut joined = 0;
        while let Some(done) = self.done.get(joined).filter(|done| done.start <= self.released) {
            self.released = self.released.max(done.end);
            joined += 1;
        }
        self.done.drain(..joined);
        self.machine.consumed(self.released);
    }

    /// Takes over what the machine has to tell after a packet was accepted, or time has passed.
    pub fn poll_machine(&mut self, now: Instant) {
        self.note_delivered(now);
        while let Some(gap) = self.machine.poll_gap() {
            self.passes_gaps = true;
            note_gap(&mut self.gaps, gap.clone());
            self.standing.push(Event::Gap(gap));
        }
        while let Some(message) = self.machine.poll_message(self.block.overtaking) {
            self.tell(message.range, message.tag);
        }
        while let Some(event) = self.machine.poll_event() {
            match event {
                Told::Established => self.established(),
                Told::Acked { upto_offset } => {
                    self.ring.acknowledge(upto_offset);
                    if std::mem::take(&mut self.wants_room) {
                        self.standing.push(Event::Writable);
                    }
                }
                Told::PeerFinished { .. } => self.standing.push(Event::Finished),
                Told::Urgent { .. } => {}
                Told::Reset(cause) => self.standing.close(match (self.machine.ended_by(), cause) {
                    (Some(diag), ResetCause::Refused) => Ended::Refused(diag),
                    (Some(diag), _) => Ended::Abandoned(diag),
                    (None, ResetCause::Local) => Ended::Ours,
                    (None, _) => Ended::Aborted,
                }),
                Told::TimedOut => self.standing.close(Ended::TimedOut),
                Told::Closed => self.standing.close(Ended::InOrder),
            }
        }
        if self.machine.state() == State::Inactive {
            self.standing.close(Ended::InOrder);
        }
        if self.standing.outstanding == 0
            && self.machine.rcv_nxt_offset() >= self.released + self.memory_len as u64
        {
            // Its message would never be whole.
            self.standing.close(Ended::TooLong);
            self.machine.abort();
        }
    }

    fn established(&mut self) {
        if let Some((own, peer)) = self.machine.both_keys() {
            self.path.open(Keys::of_context(own.bits(), peer.bits()));
        }
        if self.machine.sends_trailers() {
            self.trailers_from = self.machine.send_end_offset();
        }
        self.standing.push(Event::Open);
    }

    /// What is known of the path has changed: packets are cut to fit.
    pub fn use_path(&mut self) {
        if let Some(size) = self.path.size() {
            self.machine.set_tpdu_len(size);
        }
    }

    /// A packet of `len` bytes is sent again.
    pub fn lost(&mut self, now: Instant, len: usize) {
        self.note_delivered(now);
        let machine = &self.machine;
        if self.path.lost(now, len, || machine.info().srtt) {
            self.use_path();
            self.machine.resend_all(now);
        }
    }

    /// Reports to the path which packets the peer has received since the last call.
    fn note_delivered(&mut self, now: Instant) {
        if let len @ 1.. = self.machine.take_delivered_len() {
            self.path.delivered(now, self.machine.max_payload().saturating_sub(len));
        }
    }

    /// A message whose end has come, with all before it that is to come.
    fn tell(&mut self, range: Range<u64>, tag: Option<u64>) {
        if self.passes_gaps && range.start > self.told_upto {
            // A message that lost its end, or its beginning.
            self.let_go(self.told_upto..range.start);
        }
        self.told_upto = self.told_upto.max(range.end);
        while self.gaps.front().is_some_and(|gap| gap.end <= range.start) {
            self.gaps.pop_front();
        }
        let is_whole = self.gaps.front().is_none_or(|gap| gap.start >= range.end);
        self.standing.outstanding += 1;
        self.standing.events.push_back(Event::Message(Message { range, tag, is_whole }));
    }

    // ---- sending

    /// What it is worth to the other contexts of its host.
    pub fn sort(&self) -> u16 {
        self.queue.sort().unwrap_or(0).max(self.leaving)
    }

    /// Its packets, or its messages, have a priority.
    pub fn set_sort(&mut self, sort: Option<u16>) {
        self.block.sort = sort;
        self.leaving = sort.unwrap_or(0);
        self.machine.set_sort(sort);
    }

    fn may_send(&self, len: usize) -> Result<()> {
        let max = self.block.send_bytes as usize;
        match () {
            () if self.standing.closed => Err(Error::Closed),
            () if self.finishing => Err(Error::Misuse("a message after the last")),
            () if len == 0 => Err(Error::Misuse("a message has a byte")),
            () if len > max => Err(Error::TooLong { len, max }),
            () => Ok(()),
        }
    }

    /// Half of the send buffer is free, and a message may be sent.
    pub fn takes_message(&self) -> bool {
        self.may_send(1).is_ok() && self.unsent() <= self.block.send_bytes as usize / 2
    }

    /// Takes a message of these pieces: copied in the pass that checks it, or if others wait to be sent, to wait with
    /// them. False: no room now. The time is asked for with SORT alone.
    pub fn send(
        &mut self,
        now: impl FnOnce() -> Instant,
        slices: &[IoSlice<'_>],
        tag: Option<u64>,
        sort: Option<u16>,
    ) -> Result<bool> {
        let len = slices.iter().map(|slice| slice.len()).sum();
        self.may_send(len)?;
        let is_next = self.queue.is_empty()
            && (self.block.sort.is_none() || self.machine.leaves_next(now(), len as u32));
        let sort = sort.or(self.block.sort).unwrap_or(0);
        if is_next {
            self.wants_room = !self.has_room(len);
            if !self.wants_room {
                self.begin(sort);
                self.commit(slices, len, tag);
            }
            return Ok(!self.wants_room);
        }
        if !self.has_room_in_queue(len) {
            return Ok(false);
        }
        let mut bytes = Vec::with_capacity(len);
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        self.enqueue(Waiting { bytes, tag, sort });
        Ok(true)
    }

    /// As `send`, of memory that is lent until it leaves: no pass before that.
    pub fn send_lent(
        &mut self,
        message: Vec<u8>,
        tag: Option<u64>,
        sort: Option<u16>,
    ) -> Result<std::result::Result<(), Vec<u8>>> {
        self.may_send(message.len())?;
        if !self.has_room_in_queue(message.len()) {
            return Ok(Err(message));
        }
        let sort = sort.or(self.block.sort).unwrap_or(0);
        self.enqueue(Waiting { bytes: message, tag, sort });
        Ok(Ok(()))
    }

    fn has_room_in_queue(&mut self, len: usize) -> bool {
        let has_room = self.queued_bytes + len <= self.block.send_bytes as usize;
        self.wants_room |= !has_room;
        has_room
    }

    fn enqueue(&mut self, message: Waiting) {
        self.queued_bytes += message.bytes.len();
        self.queue.push(message.sort, message);
    }

    /// A message of this sort is what leaves from now on.
    fn begin(&mut self, sort: u16) {
        self.leaving = sort;
        if self.block.sort.is_some() {
            self.machine.set_sort(Some(sort));
        }
    }

    /// Gives the next message that waits an offset, if it is what leaves next. True if it did.
    pub fn next_message(&mut self, now: Instant) -> bool {
        if self.queue.is_empty() || self.standing.closed {
            return false;
        }
        let Some(next) = self.queue.peek() else { return false };
        let len = next.bytes.len();
        if !self.machine.leaves_next(now, len as u32) || !self.has_room(len) {
            return false;
        }
        let Some(Turn { item: message, .. }) = self.queue.pick() else { return false };
        self.commit(&[IoSlice::new(&message.bytes)], len, message.tag);
        self.queue.used(1);
        self.queued_bytes -= len;
        self.begin(message.sort);
        if std::mem::take(&mut self.wants_room) {
            self.standing.push(Event::Writable);
        }
        if self.queue.is_empty() && self.finishing {
            self.machine.finish();
        }
        true
    }

    /// A message of `len` bytes has room where it is sent from.
    fn has_room(&self, len: usize) -> bool {
        let each = (self.machine.piece_len(len as u32) as usize).min(len);
        u32::try_from(len).is_ok_and(|len| self.machine.has_room(len))
            && self.ring.has_room_for(len, each)
    }

    /// Brings a message to where it is sent from, packet by packet, and queues it. There is room.
    fn commit(&mut self, slices: &[IoSlice<'_>], len: usize, tag: Option<u64>) {
        let each = (self.machine.piece_len(len as u32) as usize).min(len);
        let tag = tag.filter(|_| self.block.tags);
        let Some(reservation) = self.machine.reserve(len as u32) else { return };
        let offset = reservation.offset();
        let makes_trailer = offset >= self.trailers_from;
        let level = self.level;
        for at in (0..len).step_by(each) {
            let piece = each.min(len - at);
            let pushed = self.ring.push(offset + at as u64, piece, Place::default(), |data| {
                let begin = match makes_trailer {
                    true => Pieces::behind_tag(tag.filter(|_| at == 0)),
                    false => Pieces::new(Check::Internet),
                };
                Ok::<_, ()>(gather(level, begin, slices, at, data).found())
            });
            debug_assert!(pushed.is_ok());
        }
        if let Some(tag) = tag {
            self.machine.set_tag(tag);
        }
        self.machine.commit(reservation, Cut::Record);
    }

    /// Bytes of messages that were told and not released, and of parts of others.
    pub fn unread(&self) -> u64 {
        self.machine.rcv_nxt_offset().saturating_sub(self.released)
    }

    /// No more will be sent.
    pub fn finish(&mut self) {
        self.finishing = true;
        if self.queue.is_empty() {
            self.machine.finish();
        }
    }

    /// Bytes of messages that wait, or are not acknowledged.
    pub fn unsent(&self) -> usize {
        self.queued_bytes + self.machine.info().unacked as usize
    }
}

impl Buffer for Association {
    /// Memory of the receive buffer for this range, which lies within the window.
    fn buffer<'a>(&'a mut self, range: &Range<u64>, into: &mut Scatter<'a>) {
        if self.memory.is_empty() {
            self.memory = vec![0; self.memory_len];
        }
        let len = (range.end - range.start) as usize;
        let at = (range.start % self.memory_len as u64) as usize;
        let (before, behind) = self.memory.split_at_mut(at);
        let first = len.min(behind.len());
        into.push(&mut behind[..first]);
        if first < len {
            into.push(&mut before[..len - first]);
        }
    }
}

/// What was told of before `gap` lies before it. Where there are too many, the last grows over what has come between: a message
/// there counts as one that lacks something.
fn note_gap(gaps: &mut VecDeque<Range<u64>>, gap: Range<u64>) {
    let is_full = gaps.len() >= GAPS_MAX;
    match gaps.back_mut() {
        Some(last) if is_full => last.end = gap.end,
        _ => gaps.push_back(gap),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use fusewire_device::memory::{self, Network};
    use fusewire_device::{Device, TxFrame};

    use super::super::{About, Config, Contexts, Kept, Secrets, table};
    use super::*;
    use crate::Clock;

    /// A device that loses every second packet with data.
    struct Sieve<D> {
        inner: D,
        packets: usize,
    }

    impl<D: Device> Device for Sieve<D> {
        fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

        fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
            for frame in frames {
                self.packets += usize::from(!frame.payload.is_empty());
                if frame.payload.is_empty() || self.packets % 2 == 1 {
                    self.inner.transmit(&[*frame])?;
                }
            }
            Ok(frames.len())
        }
    }

    #[test]
    fn a_peer_that_leaves_a_gap_before_each_packet_fills_no_memory() {
        const SERVICE: u16 = 7;
        let network =
            Network::new(memory::Config { mailbox_bytes: 16 << 20, ..Default::default() });
        let ticks = Arc::new(AtomicU64::new(1_000_000));
        let addrs = [1, 2].map(|n| SocketAddr::from(([192, 0, 2, n], u16::from(n))));
        let mut ends = addrs.map(|addr| {
            let device = Sieve { inner: network.attach(addr).unwrap(), packets: 0 };
            let clock = Clock::virtual_ns(ticks.clone());
            let config = Config { clock, spin: Duration::ZERO, ..Config::default() };
            Contexts::new(Box::new(device), config, &[addr.port() as u8; 32])
        });
        let theirs = ControlBlock { receive_bytes: 32 << 20, ..ControlBlock::default() };
        ends[1].listen(SERVICE, theirs, &Secrets { isn: [3; 16], cookie: [4; 16] });
        let ours = ControlBlock {
            noerr: true,
            congestion: None,
            packet_bytes: Some(512),
            send_bytes: 32 << 20,
            ..ControlBlock::default()
        };
        let context = ends[0].context(ours).unwrap();
        ends[0].connect(context, addrs[1], SERVICE).unwrap();
        // One message, so that no gap is behind one that was told.
        let message = vec![1; 24 << 20];
        let sent = ends[0].send(context, &[IoSlice::new(&message)], About::default());
        assert!(sent.unwrap());
        ends[0].flush();
        let (mut told, mut last) = (0, 0..0);
        while told < GAPS_MAX + 200 {
            assert!(ticks.fetch_add(250_000, Ordering::Relaxed) < 60_000_000_000, "{told} gaps");
            for end in &mut ends {
                end.poll(&mut Kept).unwrap();
            }
            while let Some((_, event)) = ends[1].poll_event() {
                if let Event::Gap(gap) = event {
                    assert!(last.end < gap.start && gap.start < gap.end, "{last:?}, {gap:?}");
                    (told, last) = (told + 1, gap);
                }
            }
        }
        let open = ends[1].places.iter().flatten().find_map(|place| match place {
            table::Place::Open(association) => Some(association),
            _ => None,
        });
        let gaps = &open.unwrap().gaps;
        assert_eq!((gaps.len(), gaps.back().map(|gap| gap.end)), (GAPS_MAX, Some(last.end)));
        assert!(gaps.iter().is_sorted_by(|before, behind| before.end < behind.start));
    }
}
