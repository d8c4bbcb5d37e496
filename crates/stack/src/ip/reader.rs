//! Who reads a stream as it comes, in place of its ring: the payload of a segment goes where it belongs in the loop that
//! sums it, and is shown once the sum is judged (Law 3).

use fusewire_kernels::stage::AnyStage;

use super::mover::Mover;
use super::pieces::BLOCK_MAX;

/// See the module's text.
pub trait Reader {
    /// Bytes that it takes together, 64 at most: fewer wait in the ring for those that follow.
    fn block(&self) -> usize {
        1
    }

    /// Takes what it wants from the front of `bytes`, which follow in the stream on the `kept` ones, less than a block; in
    /// the loop in which `mover` sums them. Returns how many of `bytes`; those that were kept go with the first of them.
    fn take(&mut self, kept: &[u8], bytes: &[u8], mover: &mut Mover) -> usize;

    /// Whether what was taken last is what was sent: it is read then, and wiped otherwise.
    fn judge(&mut self, is_right: bool);

    /// It has something, and no room for a packet of `len` bytes: that comes first the next time, without a stop in the
    /// ring.
    fn is_full_for(&self, len: usize) -> bool;
}

/// The reader's memory, while it waits.
pub struct Place<'a> {
    pub memory: &'a mut [u8],
    /// Bytes that are there, verified and in order.
    pub filled: usize,
    /// Bytes behind them that are not judged.
    taken: usize,
}

impl<'a> Place<'a> {
    pub fn new(memory: &'a mut [u8]) -> Place<'a> {
        Place { memory, filled: 0, taken: 0 }
    }
}

impl Reader for Place<'_> {
    fn take(&mut self, _: &[u8], bytes: &[u8], mover: &mut Mover) -> usize {
        let room = &mut self.memory[self.filled..];
        self.taken = bytes.len().min(room.len());
        mover.copy(&bytes[..self.taken], &mut room[..self.taken]);
        self.taken
    }

    fn judge(&mut self, is_right: bool) {
        let taken = std::mem::take(&mut self.taken);
        match is_right {
            true => self.filled += taken,
            false => self.memory[self.filled..][..taken].fill(0),
        }
    }

    fn is_full_for(&self, len: usize) -> bool {
        self.filled > 0 && len > self.memory.len() - self.filled
    }
}

/// Both parts of the place that [`Places`](super::placed::Places) gives.
pub struct Parts<'a> {
    memory: [&'a mut [u8]; 2],
    /// Bytes that are there, verified and in order.
    pub filled: usize,
    /// Bytes that are not judged.
    taken: usize,
}

impl<'a> Parts<'a> {
    pub fn new(memory: [&'a mut [u8]; 2]) -> Parts<'a> {
        Parts { memory, filled: 0, taken: 0 }
    }
}

impl Reader for Parts<'_> {
    fn take(&mut self, _: &[u8], bytes: &[u8], mover: &mut Mover) -> usize {
        let [first, second] = &mut self.memory;
        let (front, rest) = bytes.split_at(bytes.len().min(first.len()));
        let rest = &rest[..rest.len().min(second.len())];
        mover.copy(front, &mut first[..front.len()]);
        mover.copy(rest, &mut second[..rest.len()]);
        self.taken = front.len() + rest.len();
        self.taken
    }

    fn judge(&mut self, is_right: bool) {
        let mut taken = std::mem::take(&mut self.taken);
        if is_right {
            self.filled = taken;
            return;
        }
        for part in &mut self.memory {
            let len = taken.min(part.len());
            part[..len].fill(0);
            taken -= len;
        }
    }

    fn is_full_for(&self, _: usize) -> bool {
        false
    }
}

/// The same, when a pipeline runs over the bytes on their way there.
pub struct Piped<'a, S> {
    pub pipeline: &'a S,
    pub place: Place<'a>,
}

impl<S: AnyStage> Reader for Piped<'_, S> {
    fn block(&self) -> usize {
        S::BLOCK
    }

    fn take(&mut self, kept: &[u8], bytes: &[u8], mover: &mut Mover) -> usize {
        let room = &mut self.place.memory[self.place.filled..];
        let across = if kept.is_empty() { 0 } else { S::BLOCK - kept.len() };
        if bytes.len() < across || room.len() < S::BLOCK {
            return 0;
        }
        let (first, rest) = bytes.split_at(across);
        let (block_to, to) = room.split_at_mut(kept.len() + across);
        if across > 0 {
            let mut block = [0; BLOCK_MAX];
            block[..kept.len()].copy_from_slice(kept);
            block[kept.len()..S::BLOCK].copy_from_slice(first);
            mover.pass(first);
            Mover::new(mover.level, None).through(self.pipeline, &block[..S::BLOCK], block_to);
        }
        let len = rest.len().min(to.len());
        let len = len - len % S::BLOCK;
        mover.through(self.pipeline, &rest[..len], &mut to[..len]);
        self.place.taken = block_to.len() + len;
        across + len
    }

    fn judge(&mut self, is_right: bool) {
        self.place.judge(is_right);
    }

    fn is_full_for(&self, len: usize) -> bool {
        self.place.is_full_for(len)
    }
}
