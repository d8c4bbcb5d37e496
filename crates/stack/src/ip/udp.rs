//! UDP (RFC 768): what a socket holds, and the queue between the network and its reader.
//!
//! A super-frame of many messages goes through the queue as one piece; the reader takes it apart.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::Region;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::stage::{AnyStage, then};
use fusewire_kernels::stages::InternetSum;
use fusewire_kernels::{Level, SHORT};
use fusewire_net::Via;

use super::config::{Ancillary, Error, Marking};
use super::sharing::{Claim, Sharing};
use super::table::Protocol;
use super::xtp::Keys;

/// Messages of one sender that came together, all of one length but the last, which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'a> {
    /// Who sent them.
    pub from: SocketAddr,
    /// The address that they were sent to: ours, or a group's.
    pub to: IpAddr,
    /// It is a group's or all's on a network, so that nobody answers from there.
    pub is_shared: bool,
    /// Differentiated services of the IP header in the upper six bits, ECN's in the lower two.
    pub traffic_class: u8,
    /// Hops that its packet could still have gone.
    pub hop_limit: u8,
    /// All of them, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each but the last; at least 1.
    pub message_len: usize,
}

impl<'a> Messages<'a> {
    /// How many there are; an empty message is one.
    #[inline]
    pub fn count(&self) -> usize {
        match self.bytes.len() {
            // A division takes as long as all else that is done to a short message.
            len if len <= self.message_len => 1,
            len => len.div_ceil(self.message_len),
        }
    }

    /// What is said of one of them that is so long.
    pub fn received(&self, len: usize) -> Received {
        let Messages { from, to, is_shared, traffic_class, hop_limit, .. } = *self;
        Received { len, from, to, is_shared, traffic_class, hop_limit }
    }

    /// What is told beside each of them, that came by the interface of this number.
    pub fn beside(&self, interface: u32) -> Ancillary {
        self.received(0).beside(interface)
    }

    /// Each message.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (mut rest, each) = (Some(self.bytes), self.message_len);
        std::iter::from_fn(move || {
            let bytes = rest?;
            let (message, after) = bytes.split_at(bytes.len().min(each));
            rest = (!after.is_empty()).then_some(after);
            Some(message)
        })
    }
}

/// Where one message was taken to, and who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the message; more than the caller's memory holds means that the rest is lost.
    pub len: usize,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: IpAddr,
    /// As in [`Messages`].
    pub is_shared: bool,
    /// As in [`Messages`].
    pub traffic_class: u8,
    /// As in [`Messages`].
    pub hop_limit: u8,
}

impl Received {
    /// What is told beside it, that came by the interface of this number.
    pub fn beside(&self, interface: u32) -> Ancillary {
        let Received { to, is_shared, traffic_class, hop_limit, .. } = *self;
        let (traffic_class, hop_limit) = (Some(traffic_class), Some(hop_limit));
        let local = Some(to);
        let none = Ancillary::default();
        Ancillary { local, interface, traffic_class, hop_limit, is_shared, ..none }
    }
}

/// A datagram as it lies in the device's memory.
pub struct Incoming<'a> {
    pub messages: Messages<'a>,
    /// The sum of pseudo-header and header, when the checksum is still to be verified.
    pub head: Option<Sum>,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was delivered.
    Verified,
    /// It is right, and its first messages were delivered, of so many bytes. The others wait in the queue.
    Part(usize),
    /// Its checksum is wrong: as though it had never come.
    Wrong,
    /// There is no room for it here.
    NoRoom,
}

/// Who takes datagrams of one socket as they come, in place of its queue.
pub trait Taker {
    /// Takes them in one pass.
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken;

    /// There is no room for a packet of `len` bytes: it comes first the next time.
    fn is_full_for(&self, len: usize) -> bool {
        let _ = len;
        false
    }
}

/// A [`Taker`] from a closure that sees messages once they are verified.
pub struct Viewer<F>(pub F);

impl<F: FnMut(Messages<'_>)> Taker for Viewer<F> {
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken {
        let sum = |head: Sum| head + fusewire_kernels::sum(level, incoming.messages.bytes);
        if !incoming.head.is_none_or(|head| sum(head).verifies()) {
            return Taken::Wrong;
        }
        (self.0)(incoming.messages);
        Taken::Verified
    }
}

/// A [`Taker`] that runs a pipeline over each message on its way into the application's memory: sum ▸
/// pipeline ▸ store in one loop, as in section 3.3.2 of the INCA paper. A few bytes are summed before they pass.
pub struct Through<'a, S, F> {
    pub pipeline: &'a S,
    /// The application's memory; messages lie in it one after the other.
    pub memory: &'a mut [u8],
    /// Bytes of it that are in use.
    pub filled: usize,
    /// Is told of each message and where it lies.
    pub told: F,
}

impl<S: AnyStage, F: FnMut(SocketAddr, Range<usize>)> Through<'_, S, F> {
    /// Runs the pipeline over verified messages.
    pub fn take_verified(&mut self, level: Level, messages: &Messages<'_>) -> bool {
        let Some(memory) = self.memory.get_mut(self.filled..self.filled + messages.bytes.len())
        else {
            return false;
        };
        let mut at = self.filled;
        let mut rest = memory;
        for message in messages.iter() {
            let (dst, after) = rest.split_at_mut(message.len());
            level.run(Integrated { stage: self.pipeline, src: message, dst });
            (self.told)(messages.from, at..at + message.len());
            (at, rest) = (at + message.len(), after);
        }
        self.filled = at;
        true
    }
}

impl<S: AnyStage, F: FnMut(SocketAddr, Range<usize>)> Taker for Through<'_, S, F> {
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken {
        let messages = &incoming.messages;
        let Some(head) = incoming.head else {
            let room = self.take_verified(level, messages);
            return if room { Taken::Verified } else { Taken::NoRoom };
        };
        if messages.bytes.len() < SHORT {
            return match (head + Sum::of_few(messages.bytes)).verifies() {
                true if self.take_verified(level, messages) => Taken::Verified,
                true => Taken::NoRoom,
                false => Taken::Wrong,
            };
        }
        let end = self.filled + messages.bytes.len();
        let Some(memory) = self.memory.get_mut(self.filled..end) else { return Taken::NoRoom };
        let stage = then(InternetSum, self.pipeline);
        let (mut sum, mut summed) = (head, 0);
        let mut rest = &mut *memory;
        for src in messages.iter() {
            let (dst, after) = rest.split_at_mut(src.len());
            let (next, _) = level.run(Integrated { stage: &stage, src, dst });
            (sum, summed) = (sum.then(summed, next), summed + src.len());
            rest = after;
        }
        if !sum.verifies() {
            memory.fill(0);
            return Taken::Wrong;
        }
        for message in messages.iter() {
            (self.told)(messages.from, self.filled..self.filled + message.len());
            self.filled += message.len();
        }
        Taken::Verified
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    from: SocketAddr,
    to: IpAddr,
    is_shared: bool,
    traffic_class: u8,
    hop_limit: u8,
    start: u32,
    len: u32,
    message_len: u32,
    /// Bytes that were read already.
    read: u32,
}

/// Datagrams in the order of arrival; each lies in one piece.
#[derive(Debug)]
pub struct Queue {
    memory: Region,
    entries: VecDeque<Entry>,
    entries_max: usize,
    /// Bytes of the memory that the entries may have, and that they have.
    bytes_max: usize,
    used: usize,
    head: usize,
    /// One waits at a time, whatever room there is.
    pub is_held_back: bool,
}

impl Queue {
    /// Bytes that it has room for at least: the longest datagram.
    pub const LEAST: usize = 64 << 10;

    pub fn new(bytes: usize, entries: usize) -> Queue {
        let bytes = bytes.max(Queue::LEAST);
        Queue {
            memory: Region::private(bytes),
            entries: VecDeque::new(),
            entries_max: entries.max(1),
            bytes_max: bytes,
            used: 0,
            head: 0,
            is_held_back: false,
        }
    }

    /// From now on so many bytes and entries may wait, in `memory` bytes or as many as it has. What waits goes on waiting.
    pub fn set_bounds(&mut self, bytes: usize, entries: usize, memory: usize) {
        if memory > self.memory.len() {
            self.grow(memory);
        }
        self.bytes_max = bytes.clamp(Queue::LEAST, self.memory.len());
        self.entries_max = entries.max(1);
    }

    fn grow(&mut self, bytes: usize) {
        let mut memory = Region::private(bytes);
        self.head = 0;
        for entry in &mut self.entries {
            let from = (entry.start + entry.read) as usize..(entry.start + entry.len) as usize;
            let to = self.head..self.head + from.len();
            self.head = to.end;
            (entry.start, entry.len, entry.read) = (to.start as u32, to.len() as u32, 0);
            memory[to].copy_from_slice(&self.memory[from]);
        }
        (self.memory, self.used) = (memory, self.head);
    }

    /// Bytes of its memory.
    pub fn memory_len(&self) -> usize {
        self.memory.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Datagrams or super-frames that wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| (entry.len - entry.read) as usize).sum()
    }

    /// Where `len` bytes have room.
    fn slot(&self, len: usize) -> Option<usize> {
        let most = if self.is_held_back { 1 } else { self.entries_max };
        if self.entries.len() >= most {
            return None;
        }
        let Some(front) = self.entries.front() else {
            return (len <= self.memory.len()).then_some(0);
        };
        if self.used + len > self.bytes_max {
            return None;
        }
        let tail = front.start as usize;
        if self.head > tail || (self.head == tail && front.len == 0) {
            if self.head + len <= self.memory.len() {
                return Some(self.head);
            }
            return (len < tail).then_some(0);
        }
        (self.head + len < tail).then_some(self.head)
    }

    /// Copies what came into the queue, verifying it in the same pass. `None`: no room. False: wrong.
    pub fn push(&mut self, level: Level, incoming: &Incoming<'_>) -> Option<bool> {
        let Messages { from, to, is_shared, traffic_class, hop_limit, bytes, message_len } =
            incoming.messages;
        let start = self.slot(bytes.len())?;
        let place = &mut self.memory[start..start + bytes.len()];
        match incoming.head {
            None => place.copy_from_slice(bytes),
            Some(head) => {
                let sum = fusewire_kernels::copy_sum(level, bytes, place);
                if !(head + sum).verifies() {
                    return Some(false);
                }
            }
        }
        self.entries.push_back(Entry {
            from,
            to,
            is_shared,
            traffic_class,
            hop_limit,
            start: start as u32,
            len: bytes.len() as u32,
            message_len: message_len as u32,
            read: 0,
        });
        self.head = start + bytes.len();
        self.used += bytes.len();
        Some(true)
    }

    /// The next message, copied out.
    #[inline]
    pub fn pop(&mut self, out: &mut [u8]) -> Option<Received> {
        let entry = self.entries.front_mut()?;
        let start = (entry.start + entry.read) as usize;
        let len = (entry.len - entry.read).min(entry.message_len);
        let Entry { from, to, is_shared, traffic_class, hop_limit, .. } = *entry;
        let len = len as usize;
        let received = Received { len, from, to, is_shared, traffic_class, hop_limit };
        entry.read += len as u32;
        let over = entry.read >= entry.len;
        let taken = received.len.min(out.len());
        out[..taken].copy_from_slice(&self.memory[start..start + taken]);
        if over {
            self.drop_front();
        }
        Some(received)
    }

    /// What is left of the front entry.
    pub fn front(&self) -> Option<Messages<'_>> {
        let entry = self.entries.front()?;
        let start = (entry.start + entry.read) as usize;
        Some(Messages {
            from: entry.from,
            to: entry.to,
            is_shared: entry.is_shared,
            traffic_class: entry.traffic_class,
            hop_limit: entry.hop_limit,
            bytes: &self.memory[start..(entry.start + entry.len) as usize],
            message_len: entry.message_len as usize,
        })
    }

    /// Forgets the first `len` bytes, whole messages, of what [`Queue::front`] shows; the entry when they are all.
    pub fn skip(&mut self, len: usize) {
        if let Some(entry) = self.entries.front_mut() {
            entry.read += len as u32;
            if entry.read >= entry.len {
                self.drop_front();
            }
        }
    }

    /// Forgets the front entry.
    pub fn drop_front(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.used -= entry.len as usize;
        }
    }
}

/// A UDP socket, or one of XTP, whose packets are as datagrams without ports.
#[derive(Debug)]
pub struct UdpState {
    pub protocol: Protocol,
    /// What it is bound to; the address may be unspecified.
    pub local: SocketAddr,
    /// That is a group's address or all's on a network, which nothing is sent from, also when it is no more.
    pub is_of_many: bool,
    /// Who else may be bound there.
    pub sharing: Sharing,
    /// The only peer, when connected.
    pub remote: Option<SocketAddr>,
    pub queue: Queue,
    /// What ICMP said.
    pub error: Option<Error>,
    /// Messages that found the queue full.
    pub overflow: u64,
    pub staged: Staged,
    pub marking: Marking,
    /// Peers that were sent to lately.
    pub recent: Recent,
    /// The way to whom was last sent to.
    pub via: Option<(SocketAddr, Via)>,
    /// What failed, where the socket carries a transport ([`Stack::udp_carry`](super::Stack::udp_carry)).
    pub carried: Option<VecDeque<Failure>>,
    /// Keys of packets that left, where the packets have keys.
    pub keys: Option<Box<Keys>>,
    /// The application has closed it: what it has sent goes yet, and then it is gone.
    pub closed: bool,
}

/// Peers of a socket that are remembered for ICMP errors.
const RECENT_MAX: usize = 16;

/// How long an ICMP error may take.
const RECENT_TIME: Duration = Duration::from_secs(10);

/// Peers that a socket has sent to lately, the latest first. An ICMP "too big" that quotes a datagram to any other peer is
/// forged.
#[derive(Debug, Default)]
pub struct Recent(Vec<(SocketAddr, Instant)>);

impl Recent {
    /// A datagram leaves for `peer`.
    #[inline]
    pub fn note(&mut self, now: Instant, peer: SocketAddr) {
        match self.0.first_mut() {
            Some(first) if first.0 == peer => first.1 = now,
            _ => self.note_other(now, peer),
        }
    }

    #[cold]
    fn note_other(&mut self, now: Instant, peer: SocketAddr) {
        match self.0.iter().position(|(known, _)| *known == peer) {
            Some(at) => self.0[..=at].rotate_right(1),
            None => {
                self.0.truncate(RECENT_MAX - 1);
                self.0.insert(0, (peer, now));
            }
        }
        self.0[0].1 = now;
    }

    /// Returns `true` if a datagram left for `peer` within the last ten seconds, and few other peers have been sent to since.
    pub fn has(&self, now: Instant, peer: SocketAddr) -> bool {
        self.0.iter().any(|(known, at)| *known == peer && now.saturating_since(*at) < RECENT_TIME)
    }
}

/// What failed with one peer of a socket that carries a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// With whom.
    pub peer: SocketAddr,
    /// What; [`Error::TooLong`] of a datagram that did not leave.
    pub error: Error,
}

/// Failures that wait to be asked for; the oldest makes room.
const FAILURES_MAX: usize = 64;

/// Messages of one length to one peer that leave together.
#[derive(Debug, Default)]
pub struct Staged {
    pub to: Option<SocketAddr>,
    pub message_len: usize,
    pub bytes: Vec<u8>,
}

impl Staged {
    /// Bytes that are staged at most.
    pub const MAX: usize = 60 << 10;
}

impl UdpState {
    /// What failed of what was sent to `peer` before is told: not of who is silent, where the socket has another peer by now. (What
    /// is wrong with a call itself is told whomever it names.)
    pub fn hears_of(&self, peer: SocketAddr, error: Error) -> bool {
        let is_silent = error == Error::Unreachable && self.carried.is_none();
        !is_silent || self.remote.is_none_or(|remote| remote == peer)
    }

    /// Sending to `peer` failed, or what was sent there.
    pub fn fail(&mut self, peer: SocketAddr, error: Error) {
        let Some(failures) = &mut self.carried else {
            self.error = Some(error);
            return;
        };
        if failures.len() == FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back(Failure { peer, error });
    }

    /// How well it fits a datagram; 0 for not at all. The best fit takes it.
    pub fn fit(&self, from: SocketAddr, to: IpAddr) -> u8 {
        let fit = Claim { local: self.local, sharing: self.sharing }.fit(to);
        match self.remote {
            _ if fit == 0 => 0,
            Some(remote) if remote != from => 0,
            Some(_) => fit + 4,
            None => fit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incoming(bytes: &[u8], message_len: usize) -> Incoming<'_> {
        let from = ([192, 0, 2, 7], 7).into();
        let to = [192, 0, 2, 1].into();
        let (is_shared, traffic_class, hop_limit) = (false, 0, 64);
        let messages =
            Messages { from, to, is_shared, traffic_class, hop_limit, bytes, message_len };
        Incoming { messages, head: None }
    }

    #[test]
    fn messages_come_out_as_they_went_in_over_many_turns() {
        let mut queue = Queue::new(64 << 10, 64);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let mut state = 1u64;
        for turn in 0..20_000u32 {
            if turn % 1999 == 1998 {
                let waits = (queue.len(), queue.bytes());
                let bytes = if turn % 2 == 0 { 256 << 10 } else { turn as usize * 64 };
                queue.set_bounds(bytes, 64, bytes);
                assert_eq!((queue.len(), queue.bytes()), waits);
            }
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let len = (state >> 33) as usize % 3000;
            let message_len = 1 + (state >> 20) as usize % 700;
            let bytes: Vec<u8> = (0..len).map(|i| (i as u32 ^ turn) as u8).collect();
            if turn % 3 != 0 {
                if queue.push(Level::PORTABLE, &incoming(&bytes, message_len)) == Some(true) {
                    let one = incoming(&bytes, message_len);
                    model.extend(one.messages.iter().map(<[u8]>::to_vec));
                    assert_eq!(one.messages.count(), one.messages.iter().count());
                }
            } else {
                for _ in 0..=(state >> 50) % 40 {
                    let mut out = [0; 3000];
                    let got = queue.pop(&mut out).map(|r| out[..r.len].to_vec());
                    assert_eq!(got, model.pop_front());
                }
            }
        }
        while let Some(expected) = model.pop_front() {
            let front = queue.front().unwrap();
            assert_eq!(front.iter().next(), Some(&expected[..]));
            let mut out = [0; 3000];
            assert_eq!(queue.pop(&mut out).unwrap().len, expected.len());
        }
        assert!(queue.is_empty() && queue.pop(&mut []).is_none());
    }

    #[test]
    fn a_queue_that_becomes_smaller_keeps_all_and_takes_no_more() {
        let mut queue = Queue::new(256 << 10, 64);
        let push = |queue: &mut Queue, n: u8| {
            queue.push(Level::PORTABLE, &incoming(&[n; 30_000], 10_000)) == Some(true)
        };
        let queued = (0..64).take_while(|n| push(&mut queue, *n)).count();
        assert_eq!(queued, (256 << 10) / 30_000);
        queue.pop(&mut []);
        queue.is_held_back = true;
        queue.set_bounds(0, 64, 0);
        assert!(std::mem::take(&mut queue.is_held_back), "room is no way out");
        assert_eq!((queue.len(), queue.bytes(), queue.memory_len()), (8, 230_000, 256 << 10));
        let mut firsts = Vec::new();
        while queue.len() > 2 {
            assert!(!push(&mut queue, 9));
            let messages = queue.front().unwrap();
            firsts.extend(messages.iter().map(|message| (message[0], message.len())));
            queue.drop_front();
        }
        assert_eq!(firsts[..5], [0, 0, 1, 1, 1].map(|n| (n, 10_000)));
        assert!(!push(&mut queue, 9), "64 KiB have no room for three");
        queue.drop_front();
        assert!(push(&mut queue, 9) && !push(&mut queue, 9));
        // One as long as there can be is taken where there is nothing else.
        while !queue.is_empty() {
            queue.drop_front();
        }
        assert_eq!(queue.push(Level::PORTABLE, &incoming(&[3; 65_507], 65_507)), Some(true));
        assert!(!push(&mut queue, 9));
    }

    #[test]
    fn what_does_not_verify_was_never_there() {
        let mut queue = Queue::new(0, 2);
        let bytes = [1, 2, 3];
        let good = Incoming {
            head: Some(Sum::from_folded(!Sum::of(&bytes).folded())),
            ..incoming(&bytes, 3)
        };
        let bad = Incoming { head: Some(Sum::ZERO), ..incoming(&bytes, 3) };
        assert_eq!(queue.push(Level::PORTABLE, &bad), Some(false));
        assert!(queue.is_empty());
        assert_eq!(queue.push(Level::PORTABLE, &good), Some(true));
        assert_eq!(queue.push(Level::PORTABLE, &incoming(&[], 1)), Some(true));
        assert_eq!(queue.push(Level::PORTABLE, &good), None, "two entries are all");
        assert_eq!(queue.pop(&mut [0; 8]).unwrap().len, 3);
        assert_eq!(queue.pop(&mut [0; 8]).unwrap().len, 0);
    }
}
