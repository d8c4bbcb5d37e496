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
//! | tag: 16 or 32 bytes, or none                                  |
//! +---------------------------------------------------------------+
//! ```
//! With header protection ([`HeaderProtection`]) the header is enciphered too, and the body filled up.
//!
//! The 16 header bytes, as they stand above, are the associated data. The nonce is the epoch's IV xor the record's stream
//! offset. An offset is sealed once: [`RecordSender::seal`] takes only the offset where the last record
//! ended. [`RecordReceiver::open`] takes records in any order and as often as they come: that a byte
//! range is accepted once is the transport's to see to.
//!
//! A body can be a value that is marshalled in the pass that seals it, and be unmarshalled in the pass that opens
//! it ([`RecordSender::seal_message`], [`RecordReceiver::open_message`]). The record is the same as that of the
//! marshalled bytes:
//! ```
//! use fusewire_codec::lws;
//! use fusewire_codec::pipeline::{Message, Placed};
//! use fusewire_session::keys::TrafficSecret;
//! use fusewire_session::record::RecordParams;
//! use fusewire_session::{Cipher, DataPass, RecordReceiver, RecordSender, RecordType, Swap};
//!
//! let params = RecordParams::new(Cipher::AES_256_GCM, Swap::None, 1 << 16, DataPass::detect());
//! let secret = || TrafficSecret::from_bytes([7; 32]);
//! let mut sender = RecordSender::new(params, secret(), 0)?;
//!
//! // SEQUENCE OF INTEGER (-2147483648..2147483647), as generated code has it.
//! let samples: Vec<i32> = (0..4096).map(|i| 3 * i - 5).collect();
//! let message = Message::lws::<u32>(&samples)?;
//! let mut record = vec![0; sender.record_len(message.len())];
//! sender.seal_message(0, &message, &mut record)?;
//!
//! let mut receiver = RecordReceiver::new(params, secret(), 0)?;
//! let mut received = vec![0i32; 4096];
//! let mut placed = Placed::lws::<u32>(&mut received[..]);
//! receiver.open_message(0, &record, &mut placed, |_sum| true)?;
//! placed.finish()?;
//! assert_eq!(received, samples);
//!
//! // A message of any other shape is opened first, and decoded from there.
//! let mut receiver = RecordReceiver::new(params, secret(), 0)?;
//! let mut body = vec![0; message.len()];
//! receiver.open(0, &record, &mut body)?;
//! assert_eq!(lws::from_bytes::<u32, Vec<i32>>(&body)?, samples);
//!
//! let mut forged = record.clone();
//! forged[100] ^= 1;
//! let mut receiver = RecordReceiver::new(params, secret(), 0)?;
//! let mut placed = Placed::lws::<u32>(&mut received[..]);
//! assert!(receiver.open_message(0, &forged, &mut placed, |_sum| true).is_err());
//! assert!(received.iter().all(|sample| *sample == 0), "nothing of it stays");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod epochs;
mod header;
mod numbered;
mod protection;
mod receiver;
mod sender;

pub use header::{CLOSE_BODY_LEN, HEADER_LEN, RecordHeader, RecordType};
pub use numbered::{NumberedReceiver, NumberedSender, WINDOW as NUMBERS_WINDOW};
pub use protection::HeaderProtection;
pub use receiver::{OpenError, Opened, RecordReceiver};
pub use sender::RecordSender;

use crate::config::DataPass;
use crate::error::Misuse;
use fusewire_kernels::{Cipher, Swap};

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
    /// Headers are enciphered, and bodies filled up.
    pub protection: Option<HeaderProtection>,
    /// log2 of the bytes of stream that one key is used for.
    pub epoch_exponent: u32,
    /// Records that may fail authentication before the connection must end.
    pub integrity_limit: u64,
    /// Code of the data pass.
    pub data_pass: DataPass,
}

impl RecordParams {
    /// The protocol's own values for `cipher`, without header protection.
    pub fn new(
        cipher: Cipher,
        element: Swap,
        body_len_max: u32,
        data_pass: DataPass,
    ) -> RecordParams {
        RecordParams {
            cipher,
            element,
            body_len_max,
            protection: None,
            epoch_exponent: EPOCH_EXPONENT,
            integrity_limit: cipher.integrity_limit,
            data_pass,
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
        if self.protection.is_some() && self.cipher.mask.is_none() {
            return Err(Misuse::Config(
                "header protection needs a cipher that authenticates what it enciphers",
            ));
        }
        Ok(())
    }

    /// Bytes that a record adds to a body that needs no padding.
    #[inline]
    fn overhead(&self) -> usize {
        HEADER_LEN + self.cipher.tag_len
    }

    /// The longest body whose record fits into `record_len` bytes.
    #[inline]
    fn body_len_fitting(&self, record_len: usize) -> Option<usize> {
        let room = record_len.checked_sub(self.overhead())?;
        let longest = self.body_len_max as usize;
        if room >= self.ciphertext_len(longest) {
            return Some(longest);
        }
        let multiple = match self.padding() {
            Some(padding) if room < padding => return None,
            Some(padding) => padding,
            None => self.cipher.block_len,
        };
        Some((room / multiple * multiple).min(longest))
    }

    /// Bytes of which bodies are filled up to a multiple, if they are.
    #[inline]
    fn padding(&self) -> Option<usize> {
        self.protection.map(HeaderProtection::padding).filter(|bytes| *bytes > 1)
    }

    /// A body of `len` bytes is filled up, by header protection.
    #[inline]
    fn fills(&self, len: usize) -> bool {
        self.protection.is_some() && self.ciphertext_len(len) != len
    }

    /// Bytes of a record with a body of `body_len` bytes.
    #[inline]
    pub fn record_len(&self, body_len: usize) -> usize {
        self.overhead() + self.ciphertext_len(body_len)
    }

    #[inline]
    fn ciphertext_len(&self, body_len: usize) -> usize {
        let len = match self.protection {
            Some(protection) => protection.padded(body_len, self.body_len_max as usize),
            None => body_len,
        };
        // Most ciphers fill nothing up, and a division takes as long as much else that is done for a short record.
        if self.cipher.block_len == 1 { len } else { len.next_multiple_of(self.cipher.block_len) }
    }
}
