//! Data messages: contents behind a header of fixed shape.
//!
//! ```text
//!  0      4      8      12     16              24      28       32
//! | xid  | kind | copy | flags | position       | 0     | length | contents … fill | hash, if flagged |
//! ```
//! In the XDR language: a structure whose last members are `opaque contents<>` and, with the flag, `opaque
//! hash[32]`; the length word is that of the variable-length opaque. With 64-bit elements the fill is to
//! eight bytes instead of four.

use crate::Element;
use crate::blocks::BlockHash;
use crate::error::Violation;
use fusewire_codec::{Error as CodecError, Problem};

/// Bytes of the header of a data message.
pub const DATA_HEADER_LEN: usize = 32;
/// The kind of a data message.
pub const DATA: u32 = 16;
/// The kind of a message that stands for zeros.
pub const HOLE: u32 = 17;

const FLAG_HASH: u32 = 1;
const HASH_LEN: usize = 32;

/// The header of a data message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The request it belongs to.
    pub xid: u32,
    /// Which copy, from 0.
    pub copy: u32,
    /// Where in the file the contents belong.
    pub position: u64,
    /// Bytes of contents.
    pub len: u32,
    /// The contents end a block, and the hash of the block follows.
    pub hash: bool,
}

/// Bytes of the file from `position` on are zero, `len` of them: nothing is sent for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The request it belongs to.
    pub xid: u32,
    /// Which copy, from 0.
    pub copy: u32,
    /// Where the hole begins.
    pub position: u64,
    /// Bytes of it.
    pub len: u64,
}

fn put(to: &mut [u8; DATA_HEADER_LEN], at: usize, word: u32) {
    to[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

fn word(from: &[u8; DATA_HEADER_LEN], at: usize) -> u32 {
    u32::from_be_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]])
}

fn hyper(from: &[u8; DATA_HEADER_LEN], at: usize) -> u64 {
    u64::from(word(from, at)) << 32 | u64::from(word(from, at + 4))
}

impl DataHeader {
    /// The header, ready for the pipeline.
    pub fn emit(&self, element: Element) -> [u8; DATA_HEADER_LEN] {
        let mut to = [0; DATA_HEADER_LEN];
        put(&mut to, 0, self.xid);
        put(&mut to, 4, DATA);
        put(&mut to, 8, self.copy);
        put(&mut to, 12, if self.hash { FLAG_HASH } else { 0 });
        to[16..24].copy_from_slice(&self.position.to_be_bytes());
        put(&mut to, 28, self.len);
        element.swap(&mut to);
        to
    }

    /// Reads a header as it came through the pipeline; nothing when it is another kind's.
    ///
    /// # Errors
    /// An unknown flag, or a word that must be zero.
    pub fn parse(
        header: &[u8; DATA_HEADER_LEN],
        element: Element,
    ) -> Result<Option<DataHeader>, CodecError> {
        let mut from = *header;
        element.swap(&mut from);
        if word(&from, 4) != DATA {
            return Ok(None);
        }
        let flags = word(&from, 12);
        if flags & !FLAG_HASH != 0 {
            return Err(Problem::Value { value: flags.into(), field: "flags" }.at(12));
        }
        let zero = word(&from, 24);
        if zero != 0 {
            return Err(Problem::Value { value: zero.into(), field: "a reserved word" }.at(24));
        }
        Ok(Some(DataHeader {
            xid: word(&from, 0),
            copy: word(&from, 8),
            position: hyper(&from, 16),
            len: word(&from, 28),
            hash: flags & FLAG_HASH != 0,
        }))
    }

    /// Bytes of the whole message.
    pub fn message_len(&self, element: Element) -> u64 {
        let len = self.len as usize;
        let hash = if self.hash { HASH_LEN } else { 0 };
        (DATA_HEADER_LEN + element.fill_len(len) + hash) as u64 + u64::from(self.len)
    }

    /// What follows the contents, `tail` being the message from their end: checks the fill and gives the hash.
    ///
    /// # Errors
    /// The message is not as long as the header says, or a fill byte is not zero.
    pub(crate) fn tail(
        &self,
        tail: &[u8],
        element: Element,
    ) -> Result<Option<BlockHash>, crate::Error> {
        let fill = element.fill_len(self.len as usize);
        let expected = self.message_len(element);
        let found = (DATA_HEADER_LEN + tail.len()) as u64 + u64::from(self.len);
        if expected != found {
            return Err(Violation::DataLength { expected, found }.into());
        }
        if let Some(&byte) = tail[..fill].iter().find(|&&byte| byte != 0) {
            return Err(Problem::Fill { found: byte }
                .at(DATA_HEADER_LEN + self.len as usize)
                .into());
        }
        Ok(tail[fill..].first_chunk().copied())
    }
}

impl Hole {
    /// The message, ready for the pipeline.
    pub fn emit(&self, element: Element) -> [u8; DATA_HEADER_LEN] {
        let mut to = [0; DATA_HEADER_LEN];
        put(&mut to, 0, self.xid);
        put(&mut to, 4, HOLE);
        put(&mut to, 8, self.copy);
        to[16..24].copy_from_slice(&self.position.to_be_bytes());
        to[24..32].copy_from_slice(&self.len.to_be_bytes());
        element.swap(&mut to);
        to
    }

    /// Reads a message of kind [`HOLE`] as it came through the pipeline.
    ///
    /// # Errors
    /// Wrong length, or an unknown flag.
    pub fn parse(message: &[u8], element: Element) -> Result<Hole, CodecError> {
        let Some(from) = message.first_chunk::<DATA_HEADER_LEN>() else {
            return Err(Problem::Truncated { needed: DATA_HEADER_LEN, left: message.len() }.at(0));
        };
        if message.len() > DATA_HEADER_LEN {
            let left = message.len() - DATA_HEADER_LEN;
            return Err(Problem::LeftOver { left }.at(DATA_HEADER_LEN));
        }
        let mut from = *from;
        element.swap(&mut from);
        let flags = word(&from, 12);
        if flags != 0 {
            return Err(Problem::Value { value: flags.into(), field: "flags" }.at(12));
        }
        Ok(Hole {
            xid: word(&from, 0),
            copy: word(&from, 8),
            position: hyper(&from, 16),
            len: hyper(&from, 24),
        })
    }
}
