//! Opening: one pass from the received frame into the application's memory, in any order.

use super::RecordParams;
use super::epochs::{self, Epoch};
use super::header::{CLOSE_BODY_LEN, HEADER_LEN, RecordHeader, RecordType, of_record};
use super::protection::Protector;
use crate::error::{Error, Misuse, Violation};
use crate::keys::TrafficSecret;
use core::fmt;
use fusewire_kernels::message::Unmarshal;
use fusewire_kernels::suites::TAG_LEN_MAX;
use fusewire_kernels::{Check, Cipher, Found};
use std::collections::VecDeque;

/// The widest TCP receive window is below this many bytes (RFC 7323, section 2.3): when an authentic
/// record begins this far into an epoch, nothing of the epoch before is still under way.
const WINDOW_MAX: u64 = 1 << 30;

/// An opened record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its header.
    pub header: RecordHeader,
    /// What the check function found of the whole record.
    pub sum: Found,
}

/// A record that was not opened, with what the check function found of its bytes: so that a corrupted segment can be told
/// from a forged one. The destination holds nothing of it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct OpenError {
    /// What the check function found of the whole record.
    pub sum: Found,
    /// What is wrong.
    #[source]
    pub error: Error,
}

impl From<OpenError> for Error {
    fn from(e: OpenError) -> Error {
        e.error
    }
}

/// A whole record by its fields.
#[derive(Clone, Copy)]
struct Fields<'a> {
    head: &'a [u8; HEADER_LEN],
    ciphertext: &'a [u8],
    tag: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Of a record of the right length: its header, and what comes behind it.
    #[inline(always)]
    fn of(cipher: Cipher, head: &'a [u8; HEADER_LEN], rest: &'a [u8]) -> Fields<'a> {
        let (ciphertext, tag) = rest.split_at(rest.len() - cipher.tag_len);
        Fields { head, ciphertext, tag }
    }
}

/// Opens the records of one direction, in any order.
///
/// It does not know which were opened before: the transport accepts each range of offsets once and drops
/// replays. Keys are held for the newest epoch in which an authentic record began, for the one before it
/// while records of it can be under way, and, once asked for, the one after it (of numbered records several).
pub struct RecordReceiver {
    params: RecordParams,
    current: u64,
    current_keys: Epoch,
    protector: Protector,
    previous_keys: Option<Epoch>,
    /// Of the epochs behind the current one, those that were asked for, from the first on; and the secret of the one behind them.
    next_keys: VecDeque<Epoch>,
    next_secret: TrafficSecret,
    /// So many epochs behind the current one may be asked for.
    reach: u64,
    start_offset: u64,
    /// End of the farthest authentic record.
    farthest: u64,
    end: Option<u64>,
    failed: u64,
    check: Check,
}

impl RecordReceiver {
    /// For a direction whose first record begins at stream offset `offset`.
    ///
    /// # Errors
    /// [`Misuse::Config`] if an epoch cannot hold the longest record.
    pub fn new(
        params: RecordParams,
        secret: TrafficSecret,
        offset: u64,
    ) -> Result<RecordReceiver, Error> {
        params.check()?;
        let current = offset >> params.epoch_exponent;
        let protector = Protector::new(&params, &secret);
        let (current_keys, next_secret) = epochs::at(&params, secret, current);
        Ok(RecordReceiver {
            params,
            current,
            current_keys,
            protector,
            previous_keys: None,
            next_keys: VecDeque::new(),
            next_secret,
            reach: 1,
            start_offset: offset,
            farthest: offset,
            end: None,
            failed: 0,
            check: Check::default(),
        })
    }

    /// Records up to so many epochs behind the newest are opened, where those between may be lost: 1 of a stream, of which nothing is.
    pub(super) fn set_reach(&mut self, epochs: u64) {
        self.reach = epochs;
    }

    /// What is found of the records to come, besides their tags: beside one, no CXOR.
    #[inline]
    pub fn set_check(&mut self, check: Check) {
        self.check = check.beside(self.params.cipher);
    }

    /// Where the first record begins.
    pub fn start_offset(&self) -> u64 {
        self.start_offset
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

    /// The longest body that this side takes, bytes.
    pub fn body_len_max(&self) -> usize {
        self.params.body_len_max as usize
    }

    /// Bytes of the longest record.
    pub fn record_len_max(&self) -> usize {
        self.params.record_len(self.body_len_max().max(CLOSE_BODY_LEN))
    }

    /// The whole length of the record with this header.
    #[inline]
    pub fn record_len(&self, header: &RecordHeader) -> usize {
        self.params.record_len(header.body_len as usize)
    }

    /// Records that failed authentication so far.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Reads and checks the header at the start of `bytes`, which lie at stream offset `offset`: of a whole record, or
    /// of a piece of one. Not yet authentic: good for finding where the record ends, and for nothing else.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    #[inline]
    pub fn header(&self, offset: u64, bytes: &[u8]) -> Result<RecordHeader, Error> {
        let header = match bytes.first_chunk() {
            Some(head) => RecordHeader::parse(&self.protector.apply(offset, head))?,
            None => RecordHeader::parse(bytes)?,
        };
        let fits = header.body_len <= self.params.body_len_max || header.kind == RecordType::Close;
        if !fits || !header.kind.has_body_len(header.body_len as usize) {
            return Err(too_long(&header));
        }
        Ok(header)
    }

    /// Opens the whole record in `record`, whose first byte lies at stream offset `offset`, and puts its
    /// body into the first `body_len` bytes of `dst`. Unless it is authentic, `dst` holds nothing of it.
    ///
    /// # Errors
    /// With [`OpenError::sum`] over `record` in each case:
    /// [`Error::NotAuthentic`] and [`Error::Malformed`]: drop it as if it had never come, unless its
    /// bytes were acknowledged already, which ends the connection (Law 3);
    /// [`Error::IntegrityLimit`] and [`Error::Violation`]: the connection must end;
    /// [`Error::Misuse`]: `record` is not whole, `dst` too short, or `offset` out of reach.
    #[inline]
    pub fn open(
        &mut self,
        offset: u64,
        record: &[u8],
        dst: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let header = match self.check(offset, record, record.len(), dst.len()) {
            Ok(header) => header,
            Err(error) => return Err(self.not_opened(record, error)),
        };
        let (head, rest) = record.split_first_chunk::<HEADER_LEN>().expect("checked");
        self.open_fields(offset, header, &Fields::of(self.params.cipher, head, rest), dst)
    }

    /// Opens a record that lies where its sender can still change it: `head` is the caller's copy of its
    /// first 16 bytes, and no byte is loaded twice if [`loads_once`](Self::loads_once).
    ///
    /// # Errors
    /// As [`open`](Self::open). `record` is not summed when it is not even looked at.
    #[inline]
    pub fn open_in_place(
        &mut self,
        offset: u64,
        head: &[u8; HEADER_LEN],
        record: &[u8],
        dst: &mut [u8],
    ) -> Result<Opened, Error> {
        let header = self.check(offset, head, record.len(), dst.len())?;
        self.with_tag_copied(head, record, |receiver, fields| {
            receiver.open_fields(offset, header, fields, dst)
        })
    }

    /// What `open` makes of the fields of a record whose sender can still change it: the tag is a copy, so that what
    /// is compared is what is summed.
    #[inline(always)]
    fn with_tag_copied(
        &mut self,
        head: &[u8; HEADER_LEN],
        record: &[u8],
        open: impl FnOnce(&mut Self, &Fields<'_>) -> Result<Opened, OpenError>,
    ) -> Result<Opened, Error> {
        let fields = Fields::of(self.params.cipher, head, &record[HEADER_LEN..]);
        let mut copied = [0; TAG_LEN_MAX];
        let tag = &mut copied[..fields.tag.len()];
        tag.copy_from_slice(fields.tag);
        open(self, &Fields { tag, ..fields }).map_err(Error::from)
    }

    /// The data pass loads each byte of ciphertext once. If not, a record must be copied before it is
    /// opened from memory that its sender can change.
    pub fn loads_once(&self) -> bool {
        self.current_keys.transform.loads_once()
    }

    #[inline]
    fn open_fields(
        &mut self,
        offset: u64,
        header: RecordHeader,
        fields: &Fields<'_>,
        dst: &mut [u8],
    ) -> Result<Opened, OpenError> {
        let body = &mut dst[..header.body_len as usize];
        if self.params.fills(body.len()) {
            return self.open_message_fields(offset, header, fields, body, |_| true);
        }
        let Fields { head, ciphertext, tag } = *fields;
        let keys = self.keys(offset);
        let nonce = keys.nonce(offset);
        let (found, authentic) = if tag.is_empty() {
            (open_without_tag(keys, ciphertext, body), true)
        } else {
            let aad = header.to_bytes();
            let opened = keys.transform.receive(nonce.as_bytes(), &aad, ciphertext, tag, body);
            (opened.sum, opened.authentic)
        };
        let sum = of_record(self.check, head, (found, ciphertext.len()), tag);
        if !authentic {
            return Err(OpenError { sum, error: self.count_failed(offset) });
        }
        let record_len = HEADER_LEN + ciphertext.len() + tag.len();
        match self.accept(offset, record_len as u64, header.kind) {
            Ok(()) => Ok(Opened { header, sum }),
            Err(violation) => {
                zeroize::Zeroize::zeroize(body);
                Err(OpenError { sum, error: violation.into() })
            }
        }
    }

    /// As [`open`](Self::open), of an ADU whose body is unmarshalled in the same pass, into memory that nobody can
    /// reach before it is known to be genuine: what `into` took is shown only by its caller, and only after `Ok`.
    /// `sum_is_right` judges what the check function found of `record`, which a transport knows too.
    ///
    /// # Errors
    /// As `open`. `into` has been wiped.
    pub fn open_message<U: Unmarshal + ?Sized>(
        &mut self,
        offset: u64,
        record: &[u8],
        into: &mut U,
        sum_is_right: impl FnOnce(Found) -> bool,
    ) -> Result<Opened, OpenError> {
        let header = match self.check(offset, record, record.len(), usize::MAX) {
            Ok(header) => header,
            Err(error) => return Err(self.not_opened(record, error)),
        };
        let (head, rest) = record.split_first_chunk::<HEADER_LEN>().expect("checked");
        let fields = Fields::of(self.params.cipher, head, rest);
        self.open_message_fields(offset, header, &fields, into, sum_is_right)
    }

    /// [`open_message`](Self::open_message) where its sender can still change it, as
    /// [`open_in_place`](Self::open_in_place).
    ///
    /// # Errors
    /// The errors of [`open_message`](Self::open_message).
    pub fn open_message_in_place<U: Unmarshal + ?Sized>(
        &mut self,
        offset: u64,
        head: &[u8; HEADER_LEN],
        record: &[u8],
        into: &mut U,
    ) -> Result<Opened, Error> {
        let header = self.check(offset, head, record.len(), usize::MAX)?;
        self.with_tag_copied(head, record, |receiver, fields| {
            receiver.open_message_fields(offset, header, fields, into, |_| true)
        })
    }

    fn open_message_fields<U: Unmarshal + ?Sized>(
        &mut self,
        offset: u64,
        header: RecordHeader,
        fields: &Fields<'_>,
        into: &mut U,
        sum_is_right: impl FnOnce(Found) -> bool,
    ) -> Result<Opened, OpenError> {
        let Fields { head, ciphertext, tag } = *fields;
        let keys = self.keys(offset);
        let nonce = keys.nonce(offset);
        let src = (ciphertext, header.body_len as usize);
        let aad = header.to_bytes();
        let opened = keys.transform.receive_message(nonce.as_bytes(), &aad, src, tag, into);
        let sum = of_record(self.check, head, (opened.sum, ciphertext.len()), tag);
        if !opened.authentic {
            return Err(OpenError { sum, error: self.count_failed(offset) });
        }
        // Authentic, but the sum is not: what lies around the record was corrupted on its way.
        if !sum_is_right(sum) {
            into.wipe();
            return Err(OpenError { sum, error: Error::NotAuthentic { offset } });
        }
        let record_len = HEADER_LEN + ciphertext.len() + tag.len();
        if let Err(violation) = self.accept(offset, record_len as u64, header.kind) {
            into.wipe();
            return Err(OpenError { sum, error: violation.into() });
        }
        Ok(Opened { header, sum })
    }

    /// The keys of the epoch that `offset` lies in, which is one that is held.
    #[inline]
    fn keys(&mut self, offset: u64) -> &mut Epoch {
        let keys = match (offset >> self.params.epoch_exponent).wrapping_sub(self.current) {
            0 => &mut self.current_keys,
            u64::MAX => self.previous_keys.as_mut().expect("checked"),
            ahead => {
                while (self.next_keys.len() as u64) < ahead {
                    self.next_keys.push_back(Epoch::new(&self.params, &self.next_secret));
                    self.next_secret = self.next_secret.next();
                }
                &mut self.next_keys[ahead as usize - 1]
            }
        };
        keys.transform.set_check(self.check);
        keys
    }

    /// Where the end-of-stream record ends, once it has come.
    pub fn end(&self) -> Option<u64> {
        self.end
    }

    /// To be called when the transport says that the stream ends at offset `at`.
    ///
    /// # Errors
    /// [`Error::Truncated`] unless the end-of-stream record was opened and ends just there.
    pub fn finish(&self, at: u64) -> Result<(), Error> {
        if self.end == Some(at) { Ok(()) } else { Err(Error::Truncated { at }) }
    }

    #[inline]
    fn check(
        &self,
        offset: u64,
        head: &[u8],
        len: usize,
        dst_len: usize,
    ) -> Result<RecordHeader, Error> {
        let header = self.header(offset, head)?;
        let record_len = self.params.record_len(header.body_len as usize);
        let epoch = offset >> self.params.epoch_exponent;
        let epoch_held = match epoch.wrapping_sub(self.current) {
            u64::MAX => self.previous_keys.is_some(),
            ahead => ahead <= self.reach,
        };
        let fits = len == record_len && dst_len >= header.body_len as usize;
        let in_stream = offset >= self.start_offset && offset < 1 << 63;
        if fits && in_stream && epoch_held && self.failed <= self.params.integrity_limit {
            Ok(header)
        } else {
            Err(self.refusal(offset, &header, len, dst_len))
        }
    }

    #[cold]
    fn refusal(&self, offset: u64, header: &RecordHeader, len: usize, dst_len: usize) -> Error {
        let record_len = self.record_len(header);
        let body_len = header.body_len as usize;
        if self.failed > self.params.integrity_limit {
            self.over_limit()
        } else if len != record_len {
            Misuse::BufferLen { expected: record_len, found: len }.into()
        } else if dst_len < body_len {
            Misuse::BufferLen { expected: body_len, found: dst_len }.into()
        } else {
            let epoch = offset >> self.params.epoch_exponent;
            Misuse::Epoch { offset, epoch, current: self.current }.into()
        }
    }

    #[cold]
    fn not_opened(&self, record: &[u8], error: Error) -> OpenError {
        OpenError { sum: self.check.of(self.params.data_pass.level, record), error }
    }

    #[cold]
    fn count_failed(&mut self, offset: u64) -> Error {
        self.failed += 1;
        if self.failed > self.params.integrity_limit {
            return self.over_limit();
        }
        Error::NotAuthentic { offset }
    }

    fn over_limit(&self) -> Error {
        let RecordParams { integrity_limit: limit, cipher, .. } = self.params;
        Error::IntegrityLimit { failed: self.failed, limit, cipher }
    }

    /// What an authentic record changes.
    #[inline]
    fn accept(&mut self, offset: u64, len: u64, kind: RecordType) -> Result<(), Violation> {
        let record_end = offset + len;
        if kind.is_last() || self.end.is_some() {
            self.accept_around_end(offset, record_end, kind)?;
        }
        self.farthest = self.farthest.max(record_end);
        let epoch = offset >> self.params.epoch_exponent;
        if epoch > self.current {
            self.advance(epoch);
        } else if self.previous_keys.is_some() && epoch == self.current {
            let begin = self.current << self.params.epoch_exponent;
            let reach = WINDOW_MAX.min(1 << (self.params.epoch_exponent - 1));
            if offset - begin >= reach {
                self.previous_keys = None;
            }
        }
        Ok(())
    }

    #[cold]
    fn accept_around_end(
        &mut self,
        offset: u64,
        record_end: u64,
        kind: RecordType,
    ) -> Result<(), Violation> {
        match self.end {
            Some(end) if kind.is_last() && end != record_end => {
                Err(Violation::TwoEnds { first: end, second: record_end })
            }
            Some(end) if record_end > end => Err(Violation::AfterEnd { offset, end }),
            Some(_) => Ok(()),
            None if self.farthest > record_end => {
                Err(Violation::AfterEnd { offset: self.farthest, end: record_end })
            }
            None => {
                self.end = Some(record_end);
                Ok(())
            }
        }
    }

    /// Only an authentic record turns the ratchet; dropping what falls out wipes it.
    #[cold]
    fn advance(&mut self, epoch: u64) {
        while self.current < epoch {
            let next = self.next_keys.pop_front().expect("it has opened a record");
            self.previous_keys = Some(core::mem::replace(&mut self.current_keys, next));
            self.current += 1;
        }
    }
}

/// The inverse of the sender's: whole blocks in one pass, then a last one that is partly padding.
fn open_without_tag(keys: &mut Epoch, src: &[u8], body: &mut [u8]) -> Found {
    let whole = if src.len() == body.len() { body.len() } else { body.len() / 8 * 8 };
    let opened = keys.transform.receive(&[], &[], &src[..whole], &[], &mut body[..whole]);
    let mut found = opened.sum;
    if whole < body.len() {
        let mut last = [0; 8];
        let rest = keys.transform.receive(&[], &[], &src[whole..], &[], &mut last);
        found = found.then(whole, rest.sum);
        let left = body.len() - whole;
        body[whole..].copy_from_slice(&last[..left]);
        zeroize::Zeroize::zeroize(&mut last);
    }
    found
}

#[cold]
fn too_long(header: &RecordHeader) -> Error {
    let expected = match header.kind {
        RecordType::EndOfStream => "an empty body at the end of the stream",
        RecordType::Close => "a code of 8 bytes",
        _ => "a body no longer than agreed",
    };
    Error::Malformed {
        what: "record header",
        expected,
        found: u64::from(header.body_len),
        offset: 4,
    }
}

impl fmt::Debug for RecordReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReceiver")
            .field("params", &self.params)
            .field("epoch", &self.current)
            .field("farthest", &self.farthest)
            .field("end", &self.end)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
