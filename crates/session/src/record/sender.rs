//! Sealing: one pass from the application's memory into the retransmission buffer.

use super::RecordParams;
use super::epochs::{self, Epoch, Nonce};
use super::header::{HEADER_LEN, RecordHeader, RecordType, of_record};
use super::protection::Protector;
use crate::error::{Error, Misuse};
use crate::keys::TrafficSecret;
use core::fmt;
use fusewire_kernels::message::Marshal;
use fusewire_kernels::{Check, Execution, Found};

/// Seals the records of one direction.
///
/// Invariant: every byte of stream below `next_offset` was sealed or belonged to the handshake, and is
/// never sealed again.
pub struct RecordSender {
    params: RecordParams,
    epoch: Epoch,
    protector: Protector,
    next_secret: TrafficSecret,
    /// First offset of the next epoch; `u64::MAX` when there is none.
    epoch_end: u64,
    next_offset: u64,
    next_index: u64,
    first_index: u64,
    begun: bool,
    ended: bool,
    check: Check,
}

impl RecordSender {
    /// For a direction whose first record begins at stream offset `offset`.
    ///
    /// # Errors
    /// [`Misuse::Config`] if an epoch cannot hold the longest record.
    pub fn new(
        params: RecordParams,
        secret: TrafficSecret,
        offset: u64,
    ) -> Result<RecordSender, Error> {
        params.check()?;
        let protector = Protector::new(&params, &secret);
        let (epoch, next_secret) = epochs::at(&params, secret, offset >> params.epoch_exponent);
        Ok(RecordSender {
            params,
            epoch,
            protector,
            next_secret,
            epoch_end: epoch_end(offset, params.epoch_exponent),
            next_offset: offset,
            next_index: 0,
            first_index: 0,
            begun: false,
            ended: false,
            check: Check::default(),
        })
    }

    /// Counts on from `count` ADUs that went before its records.
    pub(crate) fn after(mut self, count: u64) -> RecordSender {
        (self.first_index, self.next_index) = (count, count);
        self
    }

    /// What is found of the records to come, besides their tags: beside one, no CXOR.
    #[inline]
    pub fn set_check(&mut self, check: Check) {
        self.check = check.beside(self.params.cipher);
        self.epoch.transform.set_check(self.check);
    }

    /// How its data pass runs.
    pub fn execution(&self) -> Execution {
        self.params.data_pass.execution
    }

    /// The data pass writes each byte of a record once, as it leaves, and its tag is of what it wrote. If not, there is
    /// plaintext in its memory on the way there, and what others write there meanwhile is authenticated.
    pub fn stores_once(&self) -> bool {
        self.epoch.transform.stores_once()
    }

    /// What was agreed on, and how this end runs.
    pub fn params(&self) -> RecordParams {
        self.params
    }

    /// Bytes that a record adds to a body that needs no padding.
    #[inline]
    pub fn overhead(&self) -> usize {
        self.params.overhead()
    }

    /// Bytes of a record with a body of `body_len` bytes.
    #[inline]
    pub fn record_len(&self, body_len: usize) -> usize {
        self.params.record_len(body_len)
    }

    /// The longest body whose record fits into `record_len` bytes; `None` when not even an empty one does.
    #[inline]
    pub fn body_len_fitting(&self, record_len: usize) -> Option<usize> {
        self.params.body_len_fitting(record_len)
    }

    /// The longest body that the peer takes, bytes.
    pub fn body_len_max(&self) -> usize {
        self.params.body_len_max as usize
    }

    /// Where the next record begins.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// True once a record was sealed.
    pub fn has_sealed(&self) -> bool {
        self.next_index > self.first_index
    }

    /// The index that the next record has.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// True once the last record, of whichever type, was sealed.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Seals one whole record into `dst`: header, ciphertext, tag. Gives what the check function
    /// ([`set_check`](Self::set_check)) finds of all of `dst`.
    ///
    /// `offset` must be [`next_offset`](Self::next_offset), `dst` must have
    /// [`record_len`](Self::record_len) bytes. Allocates only where a key epoch begins.
    ///
    /// # Errors
    /// [`Error::Misuse`], and nothing was written: another offset, a body that is too long, a buffer of
    /// another length, a record after the end of the stream, or a sender whose earlier `seal` unwound.
    #[inline]
    pub fn seal(
        &mut self,
        offset: u64,
        kind: RecordType,
        body: &[u8],
        dst: &mut [u8],
    ) -> Result<Found, Error> {
        if self.params.fills(body.len()) {
            return self.seal_pieces(offset, kind, body, dst);
        }
        let (header, nonce) = self.begin(offset, kind, body.len(), dst.len())?;
        let ciphertext_len = self.params.ciphertext_len(body.len());
        let (head, rest) = dst.split_at_mut(HEADER_LEN);
        let (ciphertext, tag) = rest.split_at_mut(ciphertext_len);
        let found = if tag.is_empty() {
            self.seal_without_tag(body, ciphertext)
        } else {
            self.epoch.transform.send(nonce.as_bytes(), &header, body, ciphertext, tag)
        };
        let header = self.put_header(offset, &header, head);
        let found = of_record(self.check, &header, (found, ciphertext_len), tag);
        self.end(kind, dst.len());
        Ok(found)
    }

    /// As [`seal`](Self::seal), of a body that is marshalled in the same pass: an ADU.
    ///
    /// # Errors
    /// As `seal`; and [`Misuse::Unfinished`] when the body gave more or fewer bytes than it had said: `dst` has been
    /// wiped, and the sender seals nothing any more.
    pub fn seal_message<M: Marshal + ?Sized>(
        &mut self,
        offset: u64,
        body: &M,
        dst: &mut [u8],
    ) -> Result<Found, Error> {
        self.seal_pieces(offset, RecordType::Adu, body, dst)
    }

    /// The body passes in pieces: what is marshalled, and what is filled up.
    fn seal_pieces<M: Marshal + ?Sized>(
        &mut self,
        offset: u64,
        kind: RecordType,
        body: &M,
        dst: &mut [u8],
    ) -> Result<Found, Error> {
        let len = body.marshalled_len();
        let (header, nonce) = self.begin(offset, kind, len, dst.len())?;
        let ciphertext_len = self.params.ciphertext_len(len);
        let (head, rest) = dst.split_at_mut(HEADER_LEN);
        let (ciphertext, tag) = rest.split_at_mut(ciphertext_len);
        let transform = &mut self.epoch.transform;
        let sent = transform.send_message(nonce.as_bytes(), &header, body, ciphertext, tag);
        let Some(found) = sent else { return Err(Misuse::Unfinished.into()) };
        let header = self.put_header(offset, &header, head);
        let found = of_record(self.check, &header, (found, ciphertext_len), tag);
        self.end(kind, dst.len());
        Ok(found)
    }

    /// Part A: the header goes last, behind B and C of the body. Gives it as it lies there.
    #[inline]
    fn put_header(
        &self,
        offset: u64,
        header: &[u8; HEADER_LEN],
        to: &mut [u8],
    ) -> [u8; HEADER_LEN] {
        let header = self.protector.apply(offset, header);
        to.copy_from_slice(&header);
        header
    }

    /// Header and nonce of the next record. Until [`end`](Self::end) no other can begin.
    #[inline]
    fn begin(
        &mut self,
        offset: u64,
        kind: RecordType,
        body_len: usize,
        dst_len: usize,
    ) -> Result<([u8; HEADER_LEN], Nonce), Misuse> {
        self.check(offset, kind, body_len, dst_len)?;
        if offset >= self.epoch_end {
            self.advance(offset);
        }
        self.begun = true;
        let header = RecordHeader { kind, body_len: body_len as u32, index: self.next_index };
        Ok((header.to_bytes(), self.epoch.nonce(offset)))
    }

    #[inline]
    fn end(&mut self, kind: RecordType, record_len: usize) {
        self.next_offset += record_len as u64;
        self.next_index += 1;
        self.ended = kind.is_last();
        self.begun = false;
    }

    /// Whole blocks in one pass; what is left of the body is a block of its own, filled up with zeros.
    fn seal_without_tag(&mut self, body: &[u8], dst: &mut [u8]) -> Found {
        let block = self.params.cipher.block_len;
        let whole = body.len() / block * block;
        let transform = &mut self.epoch.transform;
        let mut found = transform.send(&[], &[], &body[..whole], &mut dst[..whole], &mut []);
        if whole < body.len() {
            let mut last = [0; 8];
            last[..body.len() - whole].copy_from_slice(&body[whole..]);
            let rest = transform.send(&[], &[], &last, &mut dst[whole..], &mut []);
            found = found.then(whole, rest);
            zeroize::Zeroize::zeroize(&mut last);
        }
        found
    }

    #[inline]
    fn check(
        &self,
        offset: u64,
        kind: RecordType,
        body_len: usize,
        dst_len: usize,
    ) -> Result<(), Misuse> {
        let good = offset == self.next_offset
            && !self.begun
            && !self.ended
            && (body_len <= self.params.body_len_max as usize || kind == RecordType::Close)
            && kind.has_body_len(body_len)
            && dst_len == self.params.record_len(body_len);
        // The top half of the offsets is 2^63 bytes away and closed, so no sum below can wrap.
        if good && offset < 1 << 63 {
            Ok(())
        } else {
            Err(self.refusal(offset, kind, body_len, dst_len))
        }
    }

    #[cold]
    fn refusal(&self, offset: u64, kind: RecordType, body_len: usize, dst_len: usize) -> Misuse {
        let max = self.params.body_len_max as usize;
        if self.begun {
            Misuse::Unfinished
        } else if self.ended {
            Misuse::AfterEnd
        } else if offset != self.next_offset || offset >= 1 << 63 {
            Misuse::Offset { expected: self.next_offset, found: offset }
        } else if body_len > max {
            Misuse::BodyTooLong { len: body_len, max }
        } else if !kind.has_body_len(body_len) {
            Misuse::EndWithBody
        } else {
            Misuse::BufferLen { expected: self.params.record_len(body_len), found: dst_len }
        }
    }

    #[cold]
    fn advance(&mut self, offset: u64) {
        while offset >= self.epoch_end {
            self.epoch = Epoch::new(&self.params, &self.next_secret);
            self.epoch.transform.set_check(self.check);
            self.next_secret = self.next_secret.next();
            self.epoch_end = epoch_end(self.epoch_end, self.params.epoch_exponent);
        }
    }
}

/// The first offset after the epoch of `offset`.
fn epoch_end(offset: u64, exponent: u32) -> u64 {
    ((offset >> exponent) + 1).saturating_mul(1 << exponent)
}

impl fmt::Debug for RecordSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordSender")
            .field("params", &self.params)
            .field("next_offset", &self.next_offset)
            .field("next_index", &self.next_index)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
