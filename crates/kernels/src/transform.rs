//! The data path's pipeline for one direction of a connection: swap ▸ cipher ▸ check ▸ store on
//! send, load ▸ check ▸ decipher ▸ swap on receive. What the check is, the Internet sum, CXOR or none, is said from
//! message to message.
//!
//! A [`Transform`] owns a [`Pipeline`]: what the cipher's suite ([`crate::suites`]) bound, with expanded keys and
//! scratch memory. A message is one call of it. Where the cipher has no tag (`tagless`) level, execution, swap and
//! cipher were matched when it was made, otherwise the rest is matched once a message; the loop behind each match
//! is compiled for exactly that combination.
#![forbid(unsafe_code)]

use crate::check::{Check, Found};
use crate::execution::{Execution, InPlace, Integrated};
use crate::library::LibraryLoops;
use crate::message::Pieces;
use crate::scratch::Scratch;
use crate::suites::Cipher;
use crate::{Level, Swap};
use fusewire_base::Sum;

/// What a receive found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What the check function found of the ciphertext.
    pub sum: Found,
    /// The tag was right, or there is none. When false, the destination has been wiped.
    pub authentic: bool,
}

/// What a pipeline is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) level: Level,
    pub(crate) execution: Execution,
    pub(crate) swap: Swap,
    /// Of the suite.
    pub(crate) parameter: u8,
}

/// A message's public inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Public<'a> {
    pub(crate) nonce: &'a [u8],
    /// The additional data.
    pub(crate) aad: &'a [u8],
    /// What is to be found of the ciphertext.
    pub(crate) check: Check,
}

impl<'a> Public<'a> {
    /// The nonce.
    ///
    /// # Panics
    /// When it has not the suite's length.
    #[inline(always)]
    pub(crate) fn nonce<const N: usize>(&self) -> &'a [u8; N] {
        self.nonce.try_into().expect("a nonce of the suite's length")
    }

    /// What was found, of a cipher that knows the Internet sum alone.
    #[inline(always)]
    pub(crate) fn found(&self, sum: Sum) -> Found {
        Found::Sum(sum).if_asked(self.check)
    }
}

/// One direction's loops with the expanded key: what a suite binds. Lengths of nonce and tag are the suite's.
pub(crate) trait Pipeline: Send + Sync {
    /// [`Transform::send`].
    fn send(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &mut [u8]) -> Found;

    /// [`Transform::receive`].
    fn receive(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &[u8]) -> Opened;

    /// Each byte is loaded once and stored once.
    fn is_one_pass(&self) -> bool;

    /// Makes room for messages up to `len` bytes, where more than source and destination is needed.
    fn reserve(&mut self, len: usize);

    /// For a message that passes piece by piece; `None` if the cipher cannot stop and go on.
    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        None
    }
}

/// One direction's pipeline with its keys and scratch memory.
pub struct Transform {
    pub(crate) pipeline: Box<dyn Pipeline>,
    pub(crate) cipher: Cipher,
    pub(crate) swap: Swap,
    pub(crate) level: Level,
    pub(crate) check: Check,
    /// What is received is only summed: it is unmarshalled from where it lies.
    pub(crate) lends: bool,
    /// Memory of messages that are marshalled on their way (`message`).
    pub(crate) gather: Scratch,
}

impl Transform {
    /// Expands the key.
    ///
    /// # Panics
    /// Unless `key` has the length that the cipher's suite says.
    pub fn new(
        level: Level,
        execution: Execution,
        swap: Swap,
        cipher: Cipher,
        key: &[u8],
    ) -> Transform {
        let plan = Plan { level, execution, swap, parameter: cipher.code()[1] };
        assert_eq!(key.len(), cipher.key_len, "bytes of a key for {cipher}");
        let (pipeline, gather) = ((cipher.bind)(plan, key), Scratch::default());
        let is_plain = cipher == Cipher::NONE && swap == Swap::None;
        let lends = is_plain && execution == Execution::Integrated;
        Transform { pipeline, cipher, swap, level, check: Check::default(), lends, gather }
    }

    /// With the cipher of the library (aws-lc-rs), whatever the execution: a reference. `None` if it has none.
    ///
    /// # Panics
    /// As [`Transform::new`].
    pub fn with_library(
        level: Level,
        execution: Execution,
        swap: Swap,
        cipher: Cipher,
        key: &[u8],
    ) -> Option<Transform> {
        let plan = Plan { level, execution, swap, parameter: 0 };
        let pipeline = Box::new(LibraryLoops::new(plan, cipher.library?, key));
        let (lends, gather) = (false, Scratch::default());
        Some(Transform { pipeline, cipher, swap, level, check: Check::default(), lends, gather })
    }

    /// What is found of the ciphertext of the messages to come. Beside a tag, CXOR is not.
    #[inline]
    pub fn set_check(&mut self, check: Check) {
        self.check = check.beside(self.cipher);
    }

    /// Bytes of nonce.
    pub fn nonce_len(&self) -> usize {
        self.cipher.nonce_len
    }

    /// Bytes of tag; 0 if there is none.
    pub fn tag_len(&self) -> usize {
        self.cipher.tag_len
    }

    /// Messages must be a multiple of this length: 1 for stream ciphers.
    pub fn block_len(&self) -> usize {
        self.cipher.block_len
    }

    /// [`Transform::receive`] loads each byte of `src` once: also memory that another process writes to
    /// meanwhile is deciphered as it was authenticated.
    pub fn loads_once(&self) -> bool {
        self.pipeline.is_one_pass()
    }

    /// [`Transform::send`] writes each byte of `dst` once, enciphered, and reads none: tag and sum are of what was written, also
    /// in memory that another process writes to meanwhile. The other executions and the library's cipher go over it again: in
    /// between it holds what is only swapped.
    pub fn stores_once(&self) -> bool {
        self.pipeline.is_one_pass()
    }

    /// Makes room for messages up to `len` bytes, so that none of them allocates.
    pub fn reserve(&mut self, len: usize) {
        self.pipeline.reserve(len);
    }

    /// From `src` to `dst`, which has the same length: swapped, enciphered and checked. What is found
    /// is of `dst`. `tag` is written when there is one.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of [`Transform::block_len`]; when `nonce` or `tag` is not as long
    /// as [`Transform::nonce_len`] and [`Transform::tag_len`] say, unless there is none.
    #[inline]
    pub fn send(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8],
    ) -> Found {
        self.pipeline.send(src, dst, &Public { nonce, aad, check: self.check }, tag)
    }

    /// From `src` to `dst`, which has the same length: checked, deciphered and swapped. What is found is
    /// of `src`. When the tag is wrong, `dst` is wiped.
    ///
    /// # Panics
    /// As [`Transform::send`].
    #[inline]
    pub fn receive(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        src: &[u8],
        tag: &[u8],
        dst: &mut [u8],
    ) -> Opened {
        self.pipeline.receive(src, dst, &Public { nonce, aad, check: self.check }, tag)
    }
}

/// A swap as a pass of its own.
pub(crate) fn swap_pass(level: Level, swap: Swap, src: &[u8], dst: &mut [u8]) {
    match swap {
        Swap::None => dst.copy_from_slice(src),
        swap => level.run(Integrated { stage: swap.stage(), src, dst }),
    }
}

/// The same where the bytes are.
pub(crate) fn swap_pass_in_place(level: Level, swap: Swap, bytes: &mut [u8]) {
    if swap != Swap::None {
        level.run(InPlace { stage: swap.stage(), bytes });
    }
}
