//! Records that have a number in place of an offset: each is sealed and opened by itself, in any order, and once.
//! `docs/records.md`, section 11.
//!
//! Number n lies at the offset n · 2^20, with which the rules of a stream's records hold for it: no two have one nonce, and
//! an epoch of 2^36 bytes holds 65,536 of them. Its index is n.

use super::epochs::{self, Epoch};
use super::header::{HEADER_LEN, RecordHeader, RecordType};
use super::protection::Protector;
use super::{RecordParams, RecordReceiver};
use crate::error::{Error, Misuse};
use crate::keys::TrafficSecret;
use core::fmt;
use fusewire_kernels::message::Marshal;

/// log2 of the bytes from one number's offset to the next.
const STRIDE: u32 = 20;
/// Numbers below the highest that may still come.
pub const WINDOW: u32 = 1024;
const WORDS: usize = WINDOW as usize / 64;
/// Epochs behind the newest whose records are opened: so many times 65,536 numbers in a row may be lost.
pub const REACH: u64 = 16;

/// The longest body of such a record, in bytes, of what was agreed on for streams.
fn body_len_max(params: &RecordParams) -> u32 {
    params.body_len_max.min(1 << 18)
}

fn params(params: RecordParams) -> RecordParams {
    RecordParams { body_len_max: body_len_max(&params), ..params }
}

fn offset(number: u32) -> u64 {
    u64::from(number) << STRIDE
}

/// Which numbers were used, of those that may be: the highest so far and the [`WINDOW`] below it.
#[derive(Clone, Debug, Default)]
struct Window {
    /// One past the highest.
    end: u64,
    /// Bit n modulo [`WINDOW`].
    used: [u64; WORDS],
}

impl Window {
    fn is_new(&self, number: u32) -> bool {
        let n = u64::from(number);
        n >= self.end || n + u64::from(WINDOW) >= self.end && !self.has(n)
    }

    fn has(&self, n: u64) -> bool {
        self.used[n as usize / 64 % WORDS] >> (n % 64) & 1 == 1
    }

    fn take(&mut self, number: u32) {
        let n = u64::from(number);
        // What moves out of the window makes room for what moves in.
        for new in self.end.max((n + 1).saturating_sub(WINDOW.into()))..=n {
            self.used[new as usize / 64 % WORDS] &= !(1 << (new % 64));
        }
        self.end = self.end.max(n + 1);
        self.used[n as usize / 64 % WORDS] |= 1 << (n % 64);
    }
}

/// Seals the numbered records of one direction, each number once.
pub struct NumberedSender {
    params: RecordParams,
    protector: Protector,
    current: u64,
    current_keys: Epoch,
    previous_keys: Option<Epoch>,
    next_secret: TrafficSecret,
    used: Window,
}

impl NumberedSender {
    /// Of a direction whose stream has records like `like`.
    ///
    /// # Errors
    /// [`Misuse::Config`] where records have no tag, or for what [`super::RecordSender::new`] says.
    pub fn new(like: RecordParams, secret: TrafficSecret) -> Result<NumberedSender, Error> {
        let params = params(like);
        check(&params)?;
        let protector = Protector::new(&params, &secret);
        let (current_keys, next_secret) = epochs::at(&params, secret, 0);
        Ok(NumberedSender {
            params,
            protector,
            current: 0,
            current_keys,
            previous_keys: None,
            next_secret,
            used: Window::default(),
        })
    }

    /// The longest body, in bytes.
    pub fn body_len_max(&self) -> usize {
        self.params.body_len_max as usize
    }

    /// Bytes of a record with a body of `body_len` bytes.
    pub fn record_len(&self, body_len: usize) -> usize {
        self.params.record_len(body_len)
    }

    /// The longest body whose record fits into `record_len` bytes; `None` when not even an empty one does.
    pub fn body_len_fitting(&self, record_len: usize) -> Option<usize> {
        self.params.body_len_fitting(record_len)
    }

    /// Seals one record, whose body is marshalled in the same pass.
    ///
    /// # Errors
    /// [`Error::Misuse`]: a number that was sealed, or lies [`WINDOW`] below one that was; a body that is too long, or not as
    /// long as it says, after which the number is used up.
    pub fn seal<M: Marshal + ?Sized>(&mut self, number: u32, body: &M) -> Result<Vec<u8>, Error> {
        let len = body.marshalled_len().min(self.body_len_max());
        let mut record = vec![0; self.record_len(len)];
        self.seal_into(number, body, &mut record)?;
        Ok(record)
    }

    /// As [`seal`](Self::seal), into memory of [`record_len`](Self::record_len) bytes. Allocates only where a key epoch begins.
    ///
    /// # Errors
    /// As `seal`; [`Misuse::BufferLen`] for memory of another length.
    pub fn seal_into<M: Marshal + ?Sized>(
        &mut self,
        number: u32,
        body: &M,
        record: &mut [u8],
    ) -> Result<(), Error> {
        self.seal_since_into(number, number, body, record)
    }

    /// As [`seal_into`](Self::seal_into), and says that numbers below `since` are done with: at most `number`, and less than
    /// [`WINDOW`] below it.
    ///
    /// # Errors
    /// As `seal_into`; [`Error::Misuse`] for another `since`.
    pub fn seal_since_into<M: Marshal + ?Sized>(
        &mut self,
        number: u32,
        since: u32,
        body: &M,
        record: &mut [u8],
    ) -> Result<(), Error> {
        let Some(behind) = number.checked_sub(since).filter(|behind| *behind < WINDOW) else {
            return Err(Misuse::Config("what is waited for lies within the window").into());
        };
        let len = body.marshalled_len();
        let max = self.body_len_max();
        if len > max {
            return Err(Misuse::BodyTooLong { len, max }.into());
        }
        let (expected, found) = (self.record_len(len), record.len());
        if expected != found {
            return Err(Misuse::BufferLen { expected, found }.into());
        }
        let offset = offset(number);
        if !self.used.is_new(number) {
            let expected = self.used.end << STRIDE;
            return Err(Misuse::Offset { expected, found: offset }.into());
        }
        self.used.take(number);
        let begin = (self.current << self.params.epoch_exponent) >> STRIDE;
        if self.used.end >= begin + u64::from(WINDOW) {
            // No number of the epoch before may be sealed any more.
            self.previous_keys = None;
        }
        let index = u64::from(behind) << 32 | u64::from(number);
        let header = RecordHeader { kind: RecordType::Adu, body_len: len as u32, index };
        let header = header.to_bytes();
        let (head, rest) = record.split_at_mut(HEADER_LEN);
        let (ciphertext, tag) = rest.split_at_mut(rest.len() - self.params.cipher.tag_len);
        let keys = self.keys(offset >> self.params.epoch_exponent)?;
        let nonce = keys.nonce(offset);
        let sent = keys.transform.send_message(nonce.as_bytes(), &header, body, ciphertext, tag);
        sent.ok_or(Misuse::Unfinished)?;
        head.copy_from_slice(&self.protector.apply(offset, &header));
        Ok(())
    }

    /// The keys of an epoch: the latest, a later one, or the one before.
    fn keys(&mut self, epoch: u64) -> Result<&mut Epoch, Misuse> {
        while epoch > self.current {
            let next = Epoch::new(&self.params, &self.next_secret);
            self.previous_keys = Some(core::mem::replace(&mut self.current_keys, next));
            self.next_secret = self.next_secret.next();
            self.current += 1;
        }
        if epoch == self.current {
            return Ok(&mut self.current_keys);
        }
        let current = self.current;
        let offset = epoch << self.params.epoch_exponent;
        self.previous_keys.as_mut().filter(|_| epoch + 1 == current).ok_or(Misuse::Epoch {
            offset,
            epoch,
            current,
        })
    }
}

/// Opens the numbered records of one direction, each number once, also where up to [`REACH`] epochs before it were lost.
pub struct NumberedReceiver {
    receiver: RecordReceiver,
    seen: Window,
}

impl NumberedReceiver {
    /// Of a direction whose stream has records like `like`.
    ///
    /// # Errors
    /// Those of [`NumberedSender::new`].
    pub fn new(like: RecordParams, secret: TrafficSecret) -> Result<NumberedReceiver, Error> {
        let params = params(like);
        check(&params)?;
        let mut receiver = RecordReceiver::new(params, secret, 0)?;
        receiver.set_reach(REACH);
        Ok(NumberedReceiver { receiver, seen: Window::default() })
    }

    /// Bytes of the longest record.
    pub fn record_len_max(&self) -> usize {
        self.receiver.record_len_max()
    }

    /// Bytes of a record with a body of `body_len` bytes.
    pub fn record_len(&self, body_len: usize) -> usize {
        self.receiver.params().record_len(body_len)
    }

    /// This number has not been opened, and is not too old to be.
    pub fn is_new(&self, number: u32) -> bool {
        self.seen.is_new(number)
    }

    /// Opens a record and gives its body.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`] and [`Error::Malformed`], also for a number that was opened before, or that is too old: it is
    /// as if the record had never come. The others of [`RecordReceiver::open`].
    pub fn open(&mut self, number: u32, record: &[u8]) -> Result<Vec<u8>, Error> {
        self.check_new(number)?;
        let mut body = vec![0; self.body_len(number, record)?];
        self.open_into(number, record, &mut body)?;
        Ok(body)
    }

    /// As [`open`](Self::open), of a record that says since which number its sender still waits: that number, and the body.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_since(&mut self, number: u32, record: &[u8]) -> Result<(u32, Vec<u8>), Error> {
        self.check_new(number)?;
        let (len, behind) = self.announced(number, record)?;
        let mut body = vec![0; len];
        self.receiver.open(offset(number), record, &mut body)?;
        self.seen.take(number);
        Ok((number - behind, body))
    }

    /// As [`open_into`](Self::open_into), of a number that was opened already: whether what came again is genuine, and what it says,
    /// of which nothing is news.
    ///
    /// # Errors
    /// As `open_into`; [`Error::NotAuthentic`] for a number that was not opened, or is no longer remembered.
    pub fn reopen_into(
        &mut self,
        number: u32,
        record: &[u8],
        body: &mut [u8],
    ) -> Result<usize, Error> {
        if self.seen.is_new(number) || u64::from(number) + u64::from(WINDOW) < self.seen.end {
            return Err(Error::NotAuthentic { offset: offset(number) });
        }
        self.open_body(number, record, body)
    }

    /// As [`open`](Self::open), into memory of at least the body's length, which is given. Allocates only where a key epoch
    /// begins.
    ///
    /// # Errors
    /// As `open`; [`Misuse::BufferLen`] for memory that is too short.
    pub fn open_into(
        &mut self,
        number: u32,
        record: &[u8],
        body: &mut [u8],
    ) -> Result<usize, Error> {
        self.check_new(number)?;
        let len = self.open_body(number, record, body)?;
        self.seen.take(number);
        Ok(len)
    }

    fn open_body(&mut self, number: u32, record: &[u8], body: &mut [u8]) -> Result<usize, Error> {
        let (expected, found) = (self.body_len(number, record)?, body.len());
        let body = body.get_mut(..expected).ok_or(Misuse::BufferLen { expected, found })?;
        self.receiver.open(offset(number), record, body)?;
        Ok(expected)
    }

    fn check_new(&self, number: u32) -> Result<(), Error> {
        let is_new = self.seen.is_new(number);
        is_new.then_some(()).ok_or(Error::NotAuthentic { offset: offset(number) })
    }

    /// The length of its body, which nothing proves yet. It says nothing but its number.
    fn body_len(&self, number: u32, record: &[u8]) -> Result<usize, Error> {
        match self.announced(number, record)? {
            (len, 0) => Ok(len),
            (_, behind) => Err(malformed("an ADU that waits for none before it", behind.into())),
        }
    }

    /// The length of its body, and how many numbers before its own are waited for, which nothing proves yet.
    fn announced(&self, number: u32, record: &[u8]) -> Result<(usize, u32), Error> {
        let header = self.receiver.header(offset(number), record)?;
        let (behind, own) = ((header.index >> 32) as u32, header.index as u32);
        if header.kind != RecordType::Adu || own != number {
            return Err(malformed("an ADU of this number", header.index));
        }
        if behind > number || behind >= WINDOW {
            return Err(malformed("numbers within the window before it", behind.into()));
        }
        Ok((header.body_len as usize, behind))
    }
}

fn malformed(expected: &'static str, found: u64) -> Error {
    Error::Malformed { what: "record header", expected, found, offset: 0 }
}

/// What is not bound to a place in a stream must prove itself.
fn check(params: &RecordParams) -> Result<(), Error> {
    if params.cipher.tag_len == 0 {
        return Err(Misuse::Config("numbered records need a cipher with a tag").into());
    }
    params.check()?;
    Ok(())
}

impl fmt::Debug for NumberedSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumberedSender").field("end", &self.used.end).finish_non_exhaustive()
    }
}

impl fmt::Debug for NumberedReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumberedReceiver").field("end", &self.seen.end).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cipher, DataPass, Swap};

    fn like() -> RecordParams {
        RecordParams::new(Cipher::AES_256_GCM, Swap::None, 1 << 16, DataPass::detect())
    }

    fn ends() -> (NumberedSender, NumberedReceiver) {
        let secret = || TrafficSecret::from_bytes([7; 32]);
        (
            NumberedSender::new(like(), secret()).unwrap(),
            NumberedReceiver::new(like(), secret()).unwrap(),
        )
    }

    #[test]
    fn each_number_is_sealed_and_opened_once_in_any_order() {
        let (mut sender, mut receiver) = ends();
        let order = [3, 0, 2, 1, 900, 4, 1500, 600];
        for number in order {
            let body = number.to_string().into_bytes();
            let record = sender.seal(number, &body[..]).unwrap();
            assert!(sender.seal(number, &body[..]).is_err(), "a nonce is used once");
            assert!(receiver.open(number ^ 1, &record).is_err(), "the number is bound");
            assert_eq!(receiver.open(number, &record).unwrap(), body);
            assert!(receiver.open(number, &record).is_err(), "a replay");
            let mut again = [0; 8];
            assert_eq!(receiver.reopen_into(number, &record, &mut again).unwrap(), body.len());
            assert_eq!(again[..body.len()], body);
            let mut forged = record.clone();
            forged[record.len() - 1] ^= 1;
            assert!(receiver.reopen_into(number, &forged, &mut again).is_err());
            assert!(receiver.reopen_into(number + 1, &record, &mut again).is_err());
        }
        // 1500 has moved the window.
        assert!(sender.seal(400, &b""[..]).is_err() && !receiver.is_new(400));
        assert!(sender.seal(477, &b""[..]).is_ok() && receiver.is_new(477));
    }

    #[test]
    fn a_record_says_since_when_answers_are_waited_for_if_it_may() {
        let (mut sender, mut receiver) = ends();
        let mut record = vec![0; sender.record_len(4)];
        let mut sealed = |number, since| {
            let done = sender.seal_since_into(number, since, &b"body"[..], &mut record);
            done.map(|()| record.clone())
        };
        let since = |since| (since, b"body".to_vec());
        for (number, oldest) in [(0, 0), (7, 3), (2000, 2000 + 1 - WINDOW), (1999, 1999)] {
            let record = sealed(number, oldest).unwrap();
            assert_eq!(receiver.open(number, &record).is_ok(), number == oldest, "{number}");
            let opened = receiver.open_since(number, &record);
            assert!(number == oldest || opened.unwrap() == since(oldest), "{number}");
        }
        for (number, oldest) in [(2001, 2002), (2002, 2002 - WINDOW)] {
            assert!(sealed(number, oldest).is_err(), "{number} {oldest}");
        }
        let mut forged = sealed(2003, 2001).unwrap();
        assert!(receiver.open_since(2002, &forged).is_err(), "the number is bound");
        assert_eq!(receiver.open_since(2003, &forged.clone()).unwrap(), since(2001));
        assert!(receiver.open_since(2003, &forged).is_err(), "a replay");
        forged = sealed(2004, 2004).unwrap();
        // Where headers are in the clear: what is said before the tag proves it.
        forged[11] ^= 1;
        assert!(receiver.open_since(2004, &forged).is_err());
    }

    #[test]
    fn a_forged_record_is_as_if_it_had_never_come() {
        let (mut sender, mut receiver) = ends();
        let record = sender.seal(5, &b"body"[..]).unwrap();
        for bit in 0..8 * record.len() {
            let mut forged = record.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert!(receiver.open(5, &forged).is_err(), "bit {bit}");
        }
        assert_eq!(receiver.open(5, &record).unwrap(), b"body");
    }

    #[test]
    fn epochs_turn_and_the_one_before_is_still_there() {
        let (mut sender, mut receiver) = ends();
        let epoch = 1 << 16;
        for number in [epoch - 2, epoch, epoch - 1, epoch + 1, 2 * epoch - 1, 2 * epoch] {
            let record = sender.seal(number, &b"body"[..]).unwrap();
            assert_eq!(receiver.open(number, &record).unwrap(), b"body", "{number}");
        }
        assert!(sender.seal(epoch - 3, &b""[..]).is_err());
    }

    /// After an outage the receiver goes on with whatever comes, within its reach; and forged numbers make it no poorer.
    #[test]
    fn epochs_may_be_lost() {
        let epoch = 1u64 << 16;
        for lost in [1, 2, 15, 16] {
            let (mut sender, mut receiver) = ends();
            let begin = |n: u64| (n * epoch) as u32;
            let before = sender.seal(begin(1) - 1, &b"before"[..]).unwrap();
            let far = sender.seal(begin(lost + 1), &b"too far"[..]).unwrap();
            let record = sender.seal(begin(lost + 1) - 1, &b"behind"[..]).unwrap();
            for ahead in 1..=REACH + 2 {
                assert!(receiver.open(begin(ahead), &record).is_err());
            }
            if lost == REACH {
                let out_of_reach = receiver.open(begin(lost + 1), &far);
                assert!(matches!(out_of_reach, Err(Error::Misuse(Misuse::Epoch { .. }))));
            }
            assert_eq!(receiver.open(begin(lost + 1) - 1, &record).unwrap(), b"behind");
            assert_eq!(receiver.open(begin(lost + 1), &far).unwrap(), b"too far");
            assert!(receiver.open(begin(1) - 1, &before).is_err());
        }
    }

    #[test]
    fn a_key_goes_when_no_number_of_its_epoch_may_be_sealed() {
        let (mut sender, _) = ends();
        let epoch = 1 << 16;
        for number in [epoch - 1, epoch, epoch + WINDOW - 2] {
            sender.seal(number, &b""[..]).unwrap();
        }
        assert!(sender.previous_keys.is_some());
        sender.seal(epoch + WINDOW - 1, &b""[..]).unwrap();
        assert!(sender.previous_keys.is_none());
        assert!(sender.seal(epoch - 1, &b""[..]).is_err());
    }

    #[test]
    fn window_is_a_set_of_what_was_taken() {
        use std::collections::HashSet;
        let (mut window, mut set, mut end) = (Window::default(), HashSet::new(), 0u32);
        let mut x = 1u64;
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let number = (end + 40).saturating_sub((x >> 33) as u32 % 1200);
            let is_new = number + WINDOW >= end && !set.contains(&number);
            assert_eq!(window.is_new(number), is_new, "{number} {end}");
            if is_new {
                window.take(number);
                set.insert(number);
                end = end.max(number + 1);
            }
        }
    }
}
