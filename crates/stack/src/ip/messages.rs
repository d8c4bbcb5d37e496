//! Messages that are marshalled in the loop that sums and stores them, and unmarshalled in the one that sums them (the INCA
//! paper, sections 2 and 3.3.2). What a value looks like in bytes is the application's: `codec::pipeline::Message` and
//! `Placed` have XDR, OER and LWS, as on links that carry records.
//!
//! ```text
//!  frame ──load ▸ sum ▸ unmarshal──▶ the application's value ──checksum right?──▶ told
//!                                                            └─wrong──▶ wiped, counted, not told
//! ```
//! Until the call returns the application cannot reach its value, and then hears of what was verified alone (Law 3). What
//! waits in a socket's queue was verified on its way there: it is unmarshalled in a pass of its own.

use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use fusewire_base::{Instant, Sum};
use fusewire_kernels::message::{Marshal, Unmarshal, unmarshal_at};
use fusewire_kernels::{Cipher, Level, Swap, Transform};

use super::config::{Config, Error, Result, SocketId};
use super::input::Direct;
use super::mover::Mover;
use super::options::SendFlags;
use super::reader::Reader;
use super::stack::{Core, Stack};
use super::tcp::Stream;
use super::udp::{Incoming, Received, Taken, Taker};

/// The bit of a record mark that says that no fragment of the record follows.
const LAST: u32 = 1 << 31;
/// Bytes of a record mark.
const MARK: usize = 4;
/// Fragments that one record may come in.
const FRAGMENTS_MAX: usize = 1024;

/// Where a message ends in a stream, which has no ends of its own. Both sides know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A record mark is in front of each (RFC 5531, section 11), as ONC RPC has it over TCP. What comes in several fragments
    /// is put together first.
    Marked,
    /// Each has so many bytes, as values of fixed shape do, and nothing is between them.
    Each(usize),
}

impl Framing {
    /// The mark of a message of `len` bytes, in the first of four.
    fn mark(self, len: usize) -> Result<([u8; MARK], usize)> {
        match self {
            Framing::Marked if len < LAST as usize => Ok(((LAST | len as u32).to_be_bytes(), MARK)),
            Framing::Marked => Err(Error::TooLong { len, max: LAST as usize - 1 }),
            Framing::Each(each) if each == len => Ok(([0; MARK], 0)),
            Framing::Each(_) => Err(Error::Misuse("the message has not the length of each")),
        }
    }

    /// Where the message lies that `bytes` begin with: how many are in front of it, and in it. `None` when it is not there
    /// whole, or not in one piece.
    fn first(self, bytes: &[u8]) -> Option<(usize, usize)> {
        let (front, len) = match self {
            Framing::Each(len) => (0, len),
            Framing::Marked => {
                let mark = u32::from_be_bytes(*bytes.first_chunk()?);
                (MARK, (mark & LAST != 0).then_some((mark & !LAST) as usize)?)
            }
        };
        (bytes.len() - front >= len).then_some((front, len))
    }
}

/// The passes of messages at the level, and by the execution, of a stack.
fn passes(config: &Config) -> Transform {
    Transform::new(config.level, config.execution, Swap::None, Cipher::NONE, &[])
}

impl Core {
    /// The passes of messages, which the caller gives back.
    pub(super) fn take_passes(&mut self) -> Transform {
        self.passes.take().unwrap_or_else(|| passes(&self.config))
    }
}

/// Unmarshals a message; its sum, if somebody wants to know.
#[inline]
fn open<U: Unmarshal + ?Sized>(
    passes: &mut Transform,
    level: Level,
    message: &[u8],
    sums: bool,
    into: &mut U,
) -> Sum {
    match sums {
        true => {
            let opened = passes.receive_message(&[], &[], (message, message.len()), &[], into);
            opened.sum.sum().unwrap_or_default()
        }
        false => unmarshal_at(level, message, false, into),
    }
}

// ---- datagrams

/// A [`Taker`] that unmarshals each message, and shows it once it is verified.
struct Each<'a, U: ?Sized, F> {
    passes: Transform,
    into: &'a mut U,
    /// Whether it wants more.
    told: F,
    is_done: bool,
}

impl<U: Unmarshal + ?Sized, F: FnMut(Received, &mut U) -> bool> Taker for Each<'_, U, F> {
    fn take(&mut self, level: Level, incoming: &Incoming<'_>) -> Taken {
        if self.is_done {
            return Taken::NoRoom;
        }
        let messages = &incoming.messages;
        let (mut head, mut at) = (incoming.head, 0);
        for message in messages.iter() {
            let sum = open(&mut self.passes, level, message, head.is_some(), self.into);
            at += message.len();
            if let Some(head) = head.take() {
                let mut sum = head + sum;
                // Others that came with it have their checksum together.
                if at < messages.bytes.len() {
                    sum = sum.then(at, fusewire_kernels::sum(level, &messages.bytes[at..]));
                }
                if !sum.verifies() {
                    self.into.wipe();
                    return Taken::Wrong;
                }
            }
            self.is_done = !(self.told)(messages.received(message.len()), self.into);
            if self.is_done && at < messages.bytes.len() {
                return Taken::Part(at);
            }
        }
        Taken::Verified
    }

    fn is_full_for(&self, _: usize) -> bool {
        self.is_done
    }
}

impl Stack {
    /// Sends one message, which is marshalled in the loop that sums and stores it. False: the interface is full. What is
    /// longer than a packet goes in fragments.
    ///
    /// # Errors
    /// As [`Stack::udp_send`]; [`Error::Misuse`] when the message gives more or fewer bytes than it says.
    pub fn udp_send_message<M: Marshal + ?Sized>(
        &mut self,
        now: Instant,
        id: SocketId,
        message: &M,
        to: Option<SocketAddr>,
    ) -> io::Result<Result<bool, Error>> {
        let mut passes = self.core.take_passes();
        let len = message.marshalled_len();
        let sent = self.udp_send_made(now, id, len, to, |_, _, bytes| {
            passes.send_message(&[], &[], message, bytes, &mut [])?.sum()
        });
        self.core.passes = Some(passes);
        sent
    }

    /// As [`Stack::udp_recv_batch`], but each message is unmarshalled into `into` in the loop that verifies it, and `told` is
    /// told of it then, and may take what it is out of there. Once it answers that it wants no more, what else came waits in
    /// the queue. Returns how many messages it was told of.
    ///
    /// # Errors
    /// As [`Stack::udp_recv_batch`].
    pub fn udp_recv_messages<U: Unmarshal + ?Sized>(
        &mut self,
        now: Instant,
        id: SocketId,
        into: &mut U,
        told: impl FnMut(Received, &mut U) -> bool,
    ) -> io::Result<Result<usize, Error>> {
        let passes = self.core.take_passes();
        let mut each = Each { passes, into, told, is_done: false };
        let taken = self.udp_take(now, id, &mut each);
        self.core.passes = Some(each.passes);
        taken
    }

    /// As [`Stack::udp_recv_messages`] of what waits in the queue alone.
    ///
    /// # Errors
    /// What ICMP said, once.
    pub fn udp_read_messages<U: Unmarshal + ?Sized>(
        &mut self,
        id: SocketId,
        into: &mut U,
        told: impl FnMut(Received, &mut U) -> bool,
    ) -> Result<usize> {
        let passes = self.core.take_passes();
        let mut each = Each { passes, into, told, is_done: false };
        let taken = self.udp_take_queue(id, &mut each);
        self.core.passes = Some(each.passes);
        taken
    }
}

// ---- streams

/// A [`Reader`] of the next message, when a segment brings all of it.
struct Next<'a> {
    passes: Transform,
    framing: Framing,
    into: &'a mut dyn Unmarshal,
    /// Its length, not judged yet.
    taken: Option<usize>,
    got: Option<usize>,
}

impl Reader for Next<'_> {
    fn take(&mut self, _: &[u8], bytes: &[u8], mover: &mut Mover) -> usize {
        let Some((front, len)) = self.framing.first(bytes).filter(|_| self.got.is_none()) else {
            return 0;
        };
        let (mark, message) = bytes[..front + len].split_at(front);
        mover.pass(mark);
        let (passes, into) = (&mut self.passes, &mut *self.into);
        let sums = len > 0 && mover.add(len, |level| open(passes, level, message, true, into));
        if !sums {
            open(passes, mover.level, message, false, into);
        }
        self.taken = Some(len);
        front + len
    }

    fn judge(&mut self, is_right: bool) {
        let Some(len) = self.taken.take() else { return };
        match is_right {
            true => self.got = Some(len),
            false => self.into.wipe(),
        }
    }

    fn is_full_for(&self, _: usize) -> bool {
        self.got.is_some()
    }
}

/// Where a message lies in what was received.
struct Found {
    /// Bytes of it, marks included.
    whole: usize,
    /// Bytes in front of it, and in it; it comes in fragments where the rest of the whole is not nothing.
    front: usize,
    len: usize,
}

impl Stream {
    /// The next message, if it is there whole; otherwise there is room for it.
    fn find(&mut self, framing: Framing) -> Result<Option<Found>> {
        let (mut whole, mut len) = (0, 0);
        let readable = self.readable();
        match framing {
            Framing::Each(each) => (whole, len) = (each, each),
            Framing::Marked => {
                for fragment in 0.. {
                    let at = whole;
                    whole += MARK;
                    if whole > readable {
                        break;
                    }
                    let mut mark = [0; MARK];
                    self.recv.copy_to(self.read_offset + at as u64, &mut mark);
                    let mark = u32::from_be_bytes(mark);
                    len += (mark & !LAST) as usize;
                    whole += (mark & !LAST) as usize;
                    let max = self.message_max();
                    if whole > max || fragment == FRAGMENTS_MAX {
                        return Err(Error::TooLong { len, max });
                    }
                    if mark & LAST != 0 || whole > readable {
                        break;
                    }
                }
            }
        }
        if whole > self.message_max() {
            return Err(Error::TooLong { len, max: self.message_max() });
        }
        if whole <= readable {
            let front = if framing == Framing::Marked { MARK } else { 0 };
            return Ok(Some(Found { whole, front, len }));
        }
        if readable > 0 {
            self.tcp.widen_window(whole as u32);
        }
        Ok(None)
    }

    /// Unmarshals what was found; from `work` where it does not lie in one piece.
    fn open(&mut self, found: &Found, work: &mut Vec<u8>, into: &mut dyn Unmarshal) {
        let Found { whole, front, len } = *found;
        let start = self.read_offset + front as u64;
        let (a, b) = self.recv.slices(start..start + len as u64);
        if b.is_empty() && whole == front + len {
            unmarshal_at(self.level, a, false, into);
        } else {
            work.clear();
            let (mut at, end) = (self.read_offset, self.read_offset + whole as u64);
            while at < end {
                let mut mark = [0; MARK];
                self.recv.copy_to(at, &mut mark[..front]);
                at += front as u64;
                let here = match front {
                    0 => len,
                    _ => (u32::from_be_bytes(mark) & !LAST) as usize,
                };
                let (a, b) = self.recv.slices(at..at + here as u64);
                work.extend_from_slice(a);
                work.extend_from_slice(b);
                at += here as u64;
            }
            unmarshal_at(self.level, work, false, into);
        }
        self.consume(whole);
    }
}

impl Stack {
    /// Writes all of a message, which is marshalled in the loop that stores it in the retransmission memory and sums its
    /// segments where the interface does not; or nothing, and `false`, when there is no room for it: `Event::Writable` follows.
    /// What lies across the end of that memory is copied there.
    ///
    /// # Errors
    /// As [`Stack::tcp_write`]; [`Error::TooLong`] for what `send_buffer` never has room for; [`Error::Misuse`] when the
    /// message gives more or fewer bytes than it says, or has not the length of [`Framing::Each`].
    pub fn tcp_send_message<M: Marshal + ?Sized>(
        &mut self,
        id: SocketId,
        framing: Framing,
        message: &M,
        flags: SendFlags,
    ) -> Result<bool> {
        let (mark, front) = framing.mark(message.marshalled_len())?;
        let mut passes = self.core.take_passes();
        let mut work = std::mem::take(&mut self.core.message);
        let written = self.core.table.stream(id).and_then(|stream| {
            stream.tcp.set_more(flags.more);
            stream.write_message(&mut passes, &mut work, (&mark[..front], message), flags.cut())
        });
        (self.core.passes, self.core.message) = (Some(passes), work);
        if written == Ok(true) {
            self.core.mark(id.index);
        }
        written
    }

    /// The next message, unmarshalled from what was received before, and its length in bytes; ready with `None` at the end of
    /// the stream.
    ///
    /// # Errors
    /// What ended the connection; [`Error::TooLong`] for what `recv_window` never has room for, or that comes in more than
    /// 1024 fragments; [`Error::CutShort`] when the stream ended within it.
    pub fn tcp_read_message(
        &mut self,
        id: SocketId,
        framing: Framing,
        into: &mut dyn Unmarshal,
    ) -> Result<Poll<Option<usize>>> {
        let stream = self.core.table.stream(id)?;
        let found = stream.find(framing)?.filter(|_| !stream.at_end());
        if let Some(found) = &found {
            stream.open(found, &mut self.core.message, into);
        }
        // The window was read from, or has widened for what is longer: the peer is told at once.
        if self.core.table.stream(id)?.tcp.wants_ack() {
            self.core.mark(id.index);
        }
        if let Some(found) = found {
            return Ok(Poll::Ready(Some(found.len)));
        }
        let stream = self.core.table.stream(id)?;
        if stream.peer_has_finished() && stream.readable() > 0 {
            return Err(stream.error.unwrap_or(Error::CutShort));
        }
        let ended = Self::end_of(stream)?;
        Ok(if ended.is_some() { Poll::Ready(None) } else { Poll::Pending })
    }

    /// As [`Stack::tcp_read_message`], and when nothing is there receives a batch of packets: a message that is the next of
    /// the stream, and all of which one segment (or super-frame) brings, is unmarshalled in the loop that verifies it. One that
    /// goes on in another segment is verified and copied first, as is what lies behind the message in its segment.
    ///
    /// # Errors
    /// As [`Stack::tcp_read_message`]; the interface's.
    pub fn tcp_recv_message(
        &mut self,
        now: Instant,
        id: SocketId,
        framing: Framing,
        into: &mut dyn Unmarshal,
    ) -> io::Result<Result<Poll<Option<usize>>, Error>> {
        match self.tcp_read_message(id, framing, into) {
            Ok(Poll::Pending) => {}
            done => return Ok(done),
        }
        let passes = self.core.take_passes();
        let mut next = Next { passes, framing, into: &mut *into, taken: None, got: None };
        let received =
            self.receive(now, &mut Direct::Stream { index: id.index, reader: &mut next });
        let got = next.got;
        self.core.passes = Some(next.passes);
        received?;
        if let Some(len) = got {
            return Ok(Ok(Poll::Ready(self.was_read(id, len))));
        }
        Ok(self.tcp_read_message(id, framing, into))
    }
}
