//! A message whose length field lies inside the encrypted part, as Braun and Diot have it (section 3.2.2),
//! beside a message whose length is known first.
//!
//! ```text
//!       0        4                8                    γ
//!       ┌────────┬────────────────┬────────────────────┬───────────────────────┐
//!       │ length │ first 4 bytes  │                    │ last bytes, alignment │
//!       └────────┴────────────────┴────────────────────┴───────────────────────┘
//!                α                β
//!       │           A             │          B         │           C           │
//! ```
//! The length is that of the marshalled data after it. It is known when marshalling is through, and it
//! shares its cipher block with the data's first word. So B goes first, as it comes, from β on; then C,
//! with its alignment bytes; then A. Every part passes the same pipeline: swap ▸ cipher ▸ sum ▸ store.
//! [`Message`] does that, and [`PartsSender::seal_in_order`] makes the same bytes with the length known
//! first, A, B, C.
//!
//! The ciphers that it can have are those with a block of 8 bytes and no tag, all insecure; records have their length
//! outside.

use fusewire_base::Sum;
use fusewire_kernels::{Cipher, Execution, Level, Swap, Transform};

/// Why a message cannot be put together or taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What the caller wants cannot be had.
    #[error("{0}")]
    Misuse(&'static str),
    /// A buffer is too short.
    #[error("a buffer of {found} bytes where {expected} are needed")]
    BufferLen {
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
    /// What came is no message.
    #[error("message in parts: expected {expected}, found {found}")]
    Malformed {
        /// What would have been right.
        expected: &'static str,
        /// What was there.
        found: u64,
    },
}

/// Bytes of the cipher's block, and of part A.
const BLOCK: usize = 8;
/// Bytes of the length field, where marshalled data begins (α).
const LENGTH_LEN: usize = 4;
/// Bytes that small pieces are collected to. A pass over a few bytes costs as much as one over hundreds, and
/// data begins in the middle of a block, so that no piece ends with one. What is collected is still in the
/// first-level cache when it passes; a larger piece passes from where it is.
const COLLECTED: usize = 1024;

/// Bytes of a message with `data_len` bytes of data.
pub const fn message_len(data_len: usize) -> usize {
    (LENGTH_LEN + data_len).next_multiple_of(BLOCK)
}

/// Puts messages together.
pub struct PartsSender {
    transform: Transform,
    element: Swap,
    /// Of part B, what waits for more ([`Message::waiting`] bytes).
    collected: Box<[u8; COLLECTED]>,
}

/// Takes messages apart.
pub struct PartsReceiver {
    transform: Transform,
    element: Swap,
}

fn transform(
    level: Level,
    element: Swap,
    cipher: Cipher,
    key: [u8; 8],
) -> Result<Transform, Error> {
    if cipher.block_len != BLOCK {
        return Err(Error::Misuse("parts need a cipher with a block of 8 bytes"));
    }
    if element == Swap::Bytes64 {
        return Err(Error::Misuse("parts shift data by 4 bytes: elements have 2 or 4"));
    }
    Ok(Transform::new(level, Execution::Integrated, element, cipher, &key))
}

/// The length as it must lie in memory so that the pipeline's swap makes it big-endian.
fn before_swap(element: Swap, length: u32) -> [u8; LENGTH_LEN] {
    let [a, b, c, d] = length.to_be_bytes();
    match element {
        Swap::None | Swap::Bytes64 => [a, b, c, d],
        Swap::Bytes16 => [b, a, d, c],
        Swap::Bytes32 => [d, c, b, a],
    }
}

/// The inverse, which is the same exchange.
fn after_swap(element: Swap, bytes: [u8; LENGTH_LEN]) -> u32 {
    u32::from_be_bytes(before_swap(element, u32::from_be_bytes(bytes)))
}

impl PartsSender {
    /// Both sides need the same cipher, element and key.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a cipher without blocks of 8 bytes, or elements of 8.
    pub fn new(
        level: Level,
        element: Swap,
        cipher: Cipher,
        key: [u8; 8],
    ) -> Result<PartsSender, Error> {
        let transform = transform(level, element, cipher, key)?;
        Ok(PartsSender { transform, element, collected: Box::new([0; COLLECTED]) })
    }

    /// Begins a message in `dst`, whose length is not known yet.
    pub fn begin<'a>(&'a mut self, dst: &'a mut [u8]) -> Message<'a> {
        Message {
            sender: self,
            dst,
            head: [0; BLOCK - LENGTH_LEN],
            head_len: 0,
            waiting: 0,
            at: BLOCK,
            data_len: 0,
            sum: Sum::ZERO,
        }
    }

    /// Puts a whole message into `dst`: parts B, C, A. Gives its length and sum.
    ///
    /// # Errors
    /// [`Error::BufferLen`] if `dst` is shorter than [`message_len`].
    pub fn seal(&mut self, data: &[u8], dst: &mut [u8]) -> Result<(usize, Sum), Error> {
        let mut message = self.begin(dst);
        message.push(data)?;
        message.finish()
    }

    /// The same bytes with the length known first: parts A, B, C.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_in_order(&mut self, data: &[u8], dst: &mut [u8]) -> Result<(usize, Sum), Error> {
        let len = message_len(data.len());
        let Some(dst) = dst.get_mut(..len) else {
            return Err(Error::BufferLen { expected: len, found: dst.len() });
        };
        let length =
            u32::try_from(data.len()).map_err(|_| Error::Misuse("a message below 4 GiB"))?;
        let (first, rest) = data.split_at(data.len().min(BLOCK - LENGTH_LEN));
        let mut part_a = [0; BLOCK];
        part_a[..LENGTH_LEN].copy_from_slice(&before_swap(self.element, length));
        part_a[LENGTH_LEN..][..first.len()].copy_from_slice(first);
        let whole = rest.len() / BLOCK * BLOCK;
        let mut sum = self.pass(&part_a, &mut dst[..BLOCK]);
        sum += self.pass(&rest[..whole], &mut dst[BLOCK..BLOCK + whole]);
        if whole < rest.len() {
            let mut part_c = [0; BLOCK];
            part_c[..rest.len() - whole].copy_from_slice(&rest[whole..]);
            sum += self.pass(&part_c, &mut dst[BLOCK + whole..]);
        }
        Ok((len, sum))
    }

    #[inline]
    fn pass(&mut self, src: &[u8], dst: &mut [u8]) -> Sum {
        pass(&mut self.transform, src, dst)
    }
}

#[inline]
fn pass(transform: &mut Transform, src: &[u8], dst: &mut [u8]) -> Sum {
    if src.is_empty() {
        return Sum::ZERO;
    }
    // No cipher here has a nonce, associated data or a tag.
    transform.send(&[], &[], src, dst, &mut []).sum().unwrap_or_default()
}

/// A message that is being marshalled.
///
/// Invariant: `dst[8..at]` is part B so far, and `data_len = head_len + (at - 8) + waiting`; when anything
/// waits, the head is full.
pub struct Message<'a> {
    sender: &'a mut PartsSender,
    dst: &'a mut [u8],
    head: [u8; BLOCK - LENGTH_LEN],
    head_len: usize,
    /// Bytes in the sender's `collected`, less than [`COLLECTED`].
    waiting: usize,
    at: usize,
    data_len: usize,
    sum: Sum,
}

impl Message<'_> {
    /// Adds marshalled bytes: what makes whole blocks passes the pipeline, in runs that are worth a pass,
    /// and the rest waits.
    ///
    /// # Errors
    /// [`Error::BufferLen`] if the message no longer fits; nothing of `piece` was taken.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Error> {
        let expected = message_len(self.data_len + piece.len());
        if expected > self.dst.len() {
            return Err(Error::BufferLen { expected, found: self.dst.len() });
        }
        self.data_len += piece.len();
        let (first, mut piece) = piece.split_at(piece.len().min(self.head.len() - self.head_len));
        self.head[self.head_len..][..first.len()].copy_from_slice(first);
        self.head_len += first.len();
        while !piece.is_empty() {
            if self.waiting == 0 && piece.len() >= COLLECTED {
                let (blocks, rest) = piece.split_at(piece.len() / BLOCK * BLOCK);
                let end = self.at + blocks.len();
                self.sum += self.sender.pass(blocks, &mut self.dst[self.at..end]);
                self.at = end;
                piece = rest;
            } else {
                let (more, rest) = piece.split_at(piece.len().min(COLLECTED - self.waiting));
                self.sender.collected[self.waiting..][..more.len()].copy_from_slice(more);
                self.waiting += more.len();
                piece = rest;
                if self.waiting == COLLECTED {
                    self.pass_collected();
                }
            }
        }
        Ok(())
    }

    /// Passes what waits, filled up with zeros to a whole block.
    fn pass_collected(&mut self) {
        let len = self.waiting.next_multiple_of(BLOCK);
        let PartsSender { transform, collected, .. } = &mut *self.sender;
        collected[self.waiting..len].fill(0);
        self.sum += pass(transform, &collected[..len], &mut self.dst[self.at..self.at + len]);
        self.at += len;
        self.waiting = 0;
    }

    /// Parts C and A: the length is known now. Gives the message's length and its sum.
    ///
    /// # Errors
    /// [`Error::BufferLen`] if not even an empty message fits.
    pub fn finish(mut self) -> Result<(usize, Sum), Error> {
        let expected = message_len(self.data_len);
        if expected > self.dst.len() {
            return Err(Error::BufferLen { expected, found: self.dst.len() });
        }
        self.pass_collected();
        let length =
            u32::try_from(self.data_len).map_err(|_| Error::Misuse("a message below 4 GiB"))?;
        let mut part_a = [0; BLOCK];
        part_a[..LENGTH_LEN].copy_from_slice(&before_swap(self.sender.element, length));
        part_a[LENGTH_LEN..].copy_from_slice(&self.head);
        self.sum += self.sender.pass(&part_a, &mut self.dst[..BLOCK]);
        Ok((self.at, self.sum))
    }
}

impl PartsReceiver {
    /// Both sides need the same cipher, element and key.
    ///
    /// # Errors
    /// As [`PartsSender::new`].
    pub fn new(
        level: Level,
        element: Swap,
        cipher: Cipher,
        key: [u8; 8],
    ) -> Result<PartsReceiver, Error> {
        Ok(PartsReceiver { transform: transform(level, element, cipher, key)?, element })
    }

    /// Takes the message `src` apart: A first, which says how long the data is, then B straight into
    /// `dst`, then C. Gives the data's length and the sum over `src`.
    ///
    /// There is no tag: whether the bytes are right, only the sum says.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the length does not fit `src`, [`Error::BufferLen`] if `dst` is too short.
    pub fn open(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(usize, Sum), Error> {
        let found = src.len() as u64;
        if src.len() < BLOCK || !src.len().is_multiple_of(BLOCK) {
            return Err(Error::Malformed { expected: "whole blocks of 8 bytes", found });
        }
        let mut part_a = [0; BLOCK];
        let mut sum = self.pass(&src[..BLOCK], &mut part_a);
        let (length, first) = part_a.split_first_chunk::<LENGTH_LEN>().expect("8 bytes");
        let length = after_swap(self.element, *length);
        let len = length as usize;
        if message_len(len) != src.len() {
            let expected = "a length that fits the message";
            return Err(Error::Malformed { expected, found: u64::from(length) });
        }
        let found = dst.len();
        let Some(dst) = dst.get_mut(..len) else {
            return Err(Error::BufferLen { expected: len, found });
        };
        let (head, rest) = dst.split_at_mut(len.min(first.len()));
        head.copy_from_slice(&first[..head.len()]);
        let whole = rest.len() / BLOCK * BLOCK;
        sum += self.pass(&src[BLOCK..BLOCK + whole], &mut rest[..whole]);
        if whole < rest.len() {
            let mut part_c = [0; BLOCK];
            sum += self.pass(&src[BLOCK + whole..], &mut part_c);
            let left = rest.len() - whole;
            rest[whole..].copy_from_slice(&part_c[..left]);
        }
        Ok((len, sum))
    }

    #[inline]
    fn pass(&mut self, src: &[u8], dst: &mut [u8]) -> Sum {
        if src.is_empty() {
            return Sum::ZERO;
        }
        self.transform.receive(&[], &[], src, &[], dst).sum.sum().unwrap_or_default()
    }
}
