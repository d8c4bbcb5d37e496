//! Records: what a stream consists of after the handshake. `docs/records.md`, section 5.
//!
//! ```text
//!  0       1       2               4                               8
//! +-------+-------+---------------+-------------------------------+
//! | type  | flags | reserved = 0  | body_len, bytes of plaintext  |
//! +-------+-------+---------------+-------------------------------+
//! | index: 0-based count of records in this direction             |
//! +---------------------------------------------------------------+
//! | ciphertext: body_len bytes, padded with zeros to the cipher's |
//! | block before encryption                                       |
//! +---------------------------------------------------------------+
//! | tag: 16 bytes, or none                                        |
//! +---------------------------------------------------------------+
//! ```
//! The 16 header bytes are the associated data. The nonce is the epoch's IV xor the record's stream
//! offset. An offset is sealed once: [`RecordSender::seal`] takes only the offset where the last record
//! ended. [`RecordReceiver::open`] takes records in any order and as often as they come: that a byte
//! range is accepted once is the transport's to see to.

mod epochs;
mod header;
mod receiver;
mod sender;

pub use header::{HEADER_LEN, RecordHeader, RecordType};
pub use receiver::{OpenError, Opened, RecordReceiver};
pub use sender::RecordSender;

use crate::cipher::Cipher;
use crate::config::Kernel;
use crate::error::Misuse;
use crate::kernel::Swap;

/// Bytes that one key is used for, as a power of two.
pub const EPOCH_EXPONENT: u32 = 36;

/// What the two ends of one direction must agree on, and how this one runs.
#[derive(Clone, Copy, Debug)]
pub struct RecordParams {
    /// The cipher.
    pub cipher: Cipher,
    /// Elements of a body.
    pub element: Swap,
    /// Longest body of this direction, bytes.
    pub body_len_max: u32,
    /// log2 of the bytes of stream that one key is used for.
    pub epoch_exponent: u32,
    /// Records that may fail authentication before the connection must end.
    pub integrity_limit: u64,
    /// Code of the data pass.
    pub kernel: Kernel,
}

impl RecordParams {
    /// The protocol's own values for `cipher`.
    pub fn new(cipher: Cipher, element: Swap, body_len_max: u32, kernel: Kernel) -> RecordParams {
        RecordParams {
            cipher,
            element,
            body_len_max,
            epoch_exponent: EPOCH_EXPONENT,
            integrity_limit: cipher.integrity_limit(),
            kernel,
        }
    }

    /// A record must begin in each epoch, so that both ends turn the ratchet through all of them.
    fn check(&self) -> Result<(), Misuse> {
        let record_len_max = self.record_len(self.body_len_max as usize) as u64;
        if self.epoch_exponent > EPOCH_EXPONENT || record_len_max > 1 << self.epoch_exponent {
            return Err(Misuse::Config(
                "a key epoch must hold the longest record and at most 2^36 bytes",
            ));
        }
        Ok(())
    }

    /// Bytes of a record with a body of `body_len` bytes.
    pub const fn record_len(&self, body_len: usize) -> usize {
        HEADER_LEN + self.ciphertext_len(body_len) + self.cipher.tag_len()
    }

    const fn ciphertext_len(&self, body_len: usize) -> usize {
        body_len.next_multiple_of(self.cipher.block_len())
    }
}
