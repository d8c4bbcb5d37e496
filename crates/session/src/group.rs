//! Records that one sends and a group opens: what is cast. `docs/cast.md`, section 2.
//!
//! ```text
//!  0               4               8                              16
//! +---------------+---------------+-------------------------------+----------
//! | epoch         | 0             | offset                        | record …
//! +---------------+---------------+-------------------------------+----------
//! ```
//! The secret of an epoch is drawn by the sender and told to each member over the session that the two have. From it
//!
//! ```text
//! secret[0] = Expand-Label(secret, "group", epoch, 32)
//! ```
//! is what the records of a direction are keyed from ([`crate::keys`]); `offset` is a record's place among those of its
//! epoch, and the first lies at 0. Epochs have nothing to do with one another: who was not told the next one's secret, as
//! he is no member any more, opens nothing of it.
//!
//! What carries messages keeps their order. So a receiver takes each only behind the last: nothing twice, and nothing of
//! an epoch that has ended. All members have the same keys, and each could seal what the others would open: what must be
//! the sender's is told, or its hash, over a session.

use crate::config::DataPass;
use crate::error::{Error, Misuse, Violation};
use crate::keys::{TrafficSecret, expand_label_with};
use crate::record::{RecordHeader, RecordParams, RecordReceiver, RecordSender, RecordType};
use core::cmp::Ordering;
use core::fmt;
use fusewire_kernels::message::{Marshal, Unmarshal};
use fusewire_kernels::{Cipher, Swap};
use std::collections::VecDeque;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes before a message's record.
pub const HEAD_LEN: usize = 16;
/// One offset more than an epoch has: with it the ratchet turns no more than 4096 times for bytes that are not genuine.
const OFFSET_END: u64 = 1 << 48;
/// Epochs that a receiver may have been told of and not heard yet; or heard, and not been told of.
const EPOCHS_MAX: usize = 1024;

/// What opens one epoch's messages: told to members, over their sessions and in no other way.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct GroupKey {
    /// Its number; each is higher than the last.
    #[zeroize(skip)]
    pub epoch: u32,
    /// The cipher of its records.
    #[zeroize(skip)]
    pub cipher: Cipher,
    secret: [u8; 32],
}

fusewire_base::hidden!(GroupKey);

impl GroupKey {
    /// From 32 bytes that are random and only the members know.
    pub const fn new(epoch: u32, cipher: Cipher, secret: [u8; 32]) -> GroupKey {
        GroupKey { epoch, cipher, secret }
    }

    /// What a member is told.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    fn traffic_secret(&self) -> TrafficSecret {
        let mut secret = [0; 32];
        expand_label_with(&self.secret, b"group", &self.epoch.to_be_bytes(), &mut secret);
        let traffic = TrafficSecret::from_bytes(secret);
        secret.zeroize();
        traffic
    }
}

fn params(cipher: Cipher, body_len_max: u32, data_pass: DataPass) -> RecordParams {
    RecordParams::new(cipher, Swap::None, body_len_max, data_pass)
}

/// Seals what a group is sent.
#[derive(Debug)]
pub struct GroupSender {
    epoch: u32,
    body_len_max: u32,
    data_pass: DataPass,
    records: RecordSender,
}

impl GroupSender {
    /// Of bodies up to `body_len_max` bytes.
    ///
    /// # Errors
    /// [`Misuse::Config`] for a cipher without tags, or a body that is too long.
    pub fn new(
        key: &GroupKey,
        body_len_max: u32,
        data_pass: DataPass,
    ) -> Result<GroupSender, Error> {
        if key.cipher.is_insecure() {
            return Err(Misuse::Config("a group needs a cipher with tags").into());
        }
        let params = params(key.cipher, body_len_max, data_pass);
        let records = RecordSender::new(params, key.traffic_secret(), 0)?;
        Ok(GroupSender { epoch: key.epoch, body_len_max, data_pass, records })
    }

    /// Goes on in another epoch.
    ///
    /// # Errors
    /// As [`GroupSender::new`]; an epoch that is not later than this one.
    pub fn renew(&mut self, key: &GroupKey) -> Result<(), Error> {
        if key.epoch <= self.epoch {
            return Err(Misuse::Config("each epoch of a group is later than the last").into());
        }
        *self = GroupSender::new(key, self.body_len_max, self.data_pass)?;
        Ok(())
    }

    /// Of which epoch its messages are.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Bytes of the message that a body of `len` bytes becomes.
    pub fn message_len(&self, len: usize) -> usize {
        HEAD_LEN + self.records.record_len(len)
    }

    /// The longest body whose message has at most `len` bytes; `None` where not even an empty one's has.
    pub fn body_len_fitting(&self, len: usize) -> Option<usize> {
        self.records.body_len_fitting(len.checked_sub(HEAD_LEN)?)
    }

    /// Seals `body`, marshalled in the same pass, into `into`, which has [`GroupSender::message_len`] bytes.
    ///
    /// # Errors
    /// As [`RecordSender::seal_message`]. The epoch has no offset left: [`GroupSender::renew`].
    pub fn seal<M: Marshal + ?Sized>(&mut self, body: &M, into: &mut [u8]) -> Result<(), Error> {
        let offset = self.records.next_offset();
        let expected = self.message_len(body.marshalled_len());
        if into.len() != expected {
            return Err(Misuse::BufferLen { expected, found: into.len() }.into());
        }
        if offset >= OFFSET_END {
            return Err(Misuse::Config("an epoch of a group has 2^48 bytes").into());
        }
        let (head, record) = into.split_at_mut(HEAD_LEN);
        self.records.seal_message(offset, body, record)?;
        let head_bytes = u128::from(self.epoch) << 96 | u128::from(offset);
        head.copy_from_slice(&head_bytes.to_be_bytes());
        Ok(())
    }
}

/// Opens what a group is sent.
pub struct GroupReceiver {
    body_len_max: u32,
    data_pass: DataPass,
    /// What was told, oldest first; the first is the one that was heard last. Each stays where it is until it is wiped.
    keys: VecDeque<Box<GroupKey>>,
    /// Of the first of `keys`, once something of it was genuine.
    records: Option<RecordReceiver>,
    /// The least offset that the next message of that epoch may have.
    next_offset: u64,
    /// Messages that were not genuine, since the last of another epoch was.
    failed: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOpened {
    /// It is genuine, and was unmarshalled.
    Genuine,
    /// It says that it is of an epoch that is not known yet. Once it is told, it may be opened.
    Later,
}

impl GroupReceiver {
    /// For bodies up to `body_len_max` bytes. It knows no epoch yet.
    pub fn new(body_len_max: u32, data_pass: DataPass) -> GroupReceiver {
        let (keys, records) = (VecDeque::new(), None);
        GroupReceiver { body_len_max, data_pass, keys, records, next_offset: 0, failed: 0 }
    }

    /// The sender has told of an epoch.
    ///
    /// # Errors
    /// It is not later than the last, has a cipher without tags, or too many were told of.
    pub fn learn(&mut self, key: GroupKey) -> Result<(), Error> {
        let is_later = self.keys.back().is_none_or(|last| last.epoch < key.epoch);
        if !is_later || key.cipher.is_insecure() || self.is_full() {
            return Err(Violation::GroupKey { epoch: key.epoch }.into());
        }
        self.keys.push_back(Box::new(key));
        Ok(())
    }

    /// As many epochs were told as can be kept: the next is to be told once something of one behind the first was opened.
    pub fn is_full(&self) -> bool {
        self.keys.len() >= EPOCHS_MAX
    }

    /// The last epoch that it was told of.
    pub fn epoch(&self) -> Option<u32> {
        self.keys.back().map(|key| key.epoch)
    }

    /// Opens `message` into `into`, which has been wiped unless the message is genuine.
    ///
    /// # Errors
    /// Forged, damaged, or of an epoch or offset that lies behind what was opened: drop it. [`Error::IntegrityLimit`]:
    /// nothing more is opened in this epoch.
    pub fn open<U: Unmarshal + ?Sized>(
        &mut self,
        message: &[u8],
        into: &mut U,
    ) -> Result<GroupOpened, Error> {
        let Some((head, record)) = message.split_first_chunk::<HEAD_LEN>() else {
            return Err(malformed("16 bytes of head", message.len() as u64, message.len()));
        };
        let head = u128::from_be_bytes(*head);
        let (epoch, zero, offset) = ((head >> 96) as u32, (head >> 64) as u32, head as u64);
        if zero != 0 {
            return Err(malformed("zero", zero.into(), 4));
        }
        let at = self.keys.partition_point(|key| key.epoch < epoch);
        let Some(key) = self.keys.get(at) else {
            // So many have not begun since the last that was told: somebody has made it up.
            let is_far = self.epoch().is_some_and(|told| epoch - told > EPOCHS_MAX as u32);
            let far = Violation::GroupReplay { epoch, offset };
            return if is_far { Err(far.into()) } else { Ok(GroupOpened::Later) };
        };
        let is_behind = match key.epoch.cmp(&epoch) {
            Ordering::Equal => at == 0 && offset < self.next_offset,
            _ => true,
        };
        if is_behind || offset >= OFFSET_END {
            return Err(Violation::GroupReplay { epoch, offset }.into());
        }
        if !matches!(RecordHeader::parse(record)?.kind, RecordType::Adu) {
            return Err(malformed("an ADU", 0, HEAD_LEN));
        }
        let (cipher, limit) = (key.cipher, key.cipher.integrity_limit);
        if self.failed > limit {
            return Err(Error::IntegrityLimit { failed: self.failed, limit, cipher });
        }
        let params = params(cipher, self.body_len_max, self.data_pass);
        // Until something of an epoch is genuine nothing is kept of it.
        let mut first = match (at, &mut self.records) {
            (0, Some(_)) => None,
            _ => Some(RecordReceiver::new(params, key.traffic_secret(), offset)?),
        };
        let Some(records) = first.as_mut().or(self.records.as_mut()) else {
            return Err(malformed("a key", 0, 0));
        };
        let opened = records.open_message(offset, record, into, |_| true).map_err(Error::from);
        self.failed += u64::from(opened.is_err());
        opened?;
        self.next_offset = offset + record.len() as u64;
        if first.is_some() {
            (self.records, self.failed) = (first, 0);
            self.keys.drain(..at);
        }
        Ok(GroupOpened::Genuine)
    }
}

fn malformed(expected: &'static str, found: u64, offset: usize) -> Error {
    Error::Malformed { what: "message of a group", expected, found, offset }
}

impl fmt::Debug for GroupReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupReceiver")
            .field("epochs", &self.keys.iter().map(|key| key.epoch).collect::<Vec<_>>())
            .field("next_offset", &self.next_offset)
            .finish_non_exhaustive()
    }
}
