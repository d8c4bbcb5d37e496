//! The data path's pipeline for one direction of a connection: swap ▸ cipher ▸ Internet sum ▸ store on
//! send, load ▸ sum ▸ decipher ▸ swap on receive.
//!
//! A [`Transform`] owns expanded keys and scratch memory. Level, execution, swap and cipher are
//! matched when it is made where the cipher has no tag (`tagless`), otherwise once a message; the loop
//! behind each match is compiled for exactly that combination.
//!
//! To plug a cipher's stage in: a variant of `Cipher` with the expanded key, made in
//! `Transform::new`. Without a tag: an `impl Tagless` of the key and an arm in `Loops::bind`. With one:
//! an arm each in `seal` and `open` that hands the message's stage to `Path`; the stage's `Output`, the
//! tag, comes back beside the sum. `Cipher::Library` remains for what a level cannot fuse and for the
//! sequential execution.
#![forbid(unsafe_code)]

use crate::Level;
use crate::execution::{Apart, Execution, InPlace, Integrated};
use crate::gcm::GcmKey;
use crate::library::Library;
use crate::scratch::Scratch;
use crate::stage::{AnyStage, then};
use crate::stages::{
    AnySwap, ChaChaKey, InternetSum, Nothing, PesKey, SaferKey, SaferSimplifiedKey,
};
use crate::tagless::Loops;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use fusewire_base::Sum;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Which words a pipeline byte-swaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swap {
    /// None.
    None,
    /// 16-bit words.
    Bytes16,
    /// 32-bit words.
    Bytes32,
    /// 64-bit words.
    Bytes64,
}

impl Swap {
    /// Bytes of a word; 1 for none.
    pub const fn bytes(self) -> usize {
        match self {
            Swap::None => 1,
            Swap::Bytes16 => 2,
            Swap::Bytes32 => 4,
            Swap::Bytes64 => 8,
        }
    }

    /// Of words of `bytes` bytes.
    ///
    /// # Panics
    /// Unless they are 1, 2, 4 or 8.
    pub const fn of(bytes: usize) -> Swap {
        match bytes {
            1 => Swap::None,
            2 => Swap::Bytes16,
            4 => Swap::Bytes32,
            8 => Swap::Bytes64,
            _ => panic!("words of 1, 2, 4 or 8 bytes"),
        }
    }

    /// The stage; one that swaps, whichever.
    #[inline(always)]
    pub(crate) fn stage(self) -> &'static AnySwap {
        static STAGES: [AnySwap; 4] =
            [AnySwap::new(2), AnySwap::new(2), AnySwap::new(4), AnySwap::new(8)];
        &STAGES[self as usize]
    }
}

/// A cipher and its key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub enum CipherKey {
    /// No cipher.
    None,
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm([u8; 32]),
    /// AES-128-GCM (NIST SP 800-38D).
    Aes128Gcm([u8; 16]),
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305([u8; 32]),
    /// The papers' pseudo-encryption. Insecure.
    Pes([u8; 8]),
    /// One round of SAFER, as `docs/safer.md` has it. Insecure.
    SaferSimplified([u8; 8]),
    /// SAFER K-64. Insecure.
    SaferK64 {
        /// The key.
        key: [u8; 8],
        /// 1 to 13; 6 is usual.
        rounds: u8,
    },
    /// SAFER SK-64: K-64 with the strengthened key schedule. Insecure.
    SaferSk64 {
        /// The key.
        key: [u8; 8],
        /// 1 to 13; 8 is usual.
        rounds: u8,
    },
    /// SAFER SK-128: two user keys, the strengthened key schedule. Insecure.
    SaferSk128 {
        /// The key.
        key: [u8; 16],
        /// 1 to 13; 10 is usual.
        rounds: u8,
    },
}

/// What a receive found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The sum of the ciphertext.
    pub sum: Sum,
    /// The tag was right, or there is none. When false, the destination has been wiped.
    pub authentic: bool,
}

/// A cipher with its expanded key.
pub(crate) enum Cipher {
    None,
    Pes(PesKey),
    SaferSimplified(SaferSimplifiedKey),
    Safer(SaferKey),
    ChaCha(ChaChaKey),
    Gcm(GcmKey),
    Library(Library),
}

/// What a message needs of its transform.
pub(crate) struct Parts {
    pub(crate) execution: Execution,
    pub(crate) swap: Swap,
    /// The stage of `swap`, here so that a message need not look it up.
    pub(crate) swapper: AnySwap,
    pub(crate) cipher: Cipher,
    pub(crate) work: Scratch,
}

/// One direction's pipeline with its keys and scratch memory.
pub struct Transform {
    pub(crate) parts: Parts,
    /// Where the cipher makes no tag.
    pub(crate) tagless: Option<Loops>,
    /// Memory of messages that are marshalled on their way (`message`).
    pub(crate) gather: Scratch,
    pub(crate) level: Level,
}

impl Transform {
    /// Expands the key.
    pub fn new(level: Level, execution: Execution, swap: Swap, key: &CipherKey) -> Transform {
        let cipher = match key {
            CipherKey::None => Cipher::None,
            CipherKey::Pes(key) => Cipher::Pes(PesKey::new(*key)),
            CipherKey::SaferSimplified(key) => {
                Cipher::SaferSimplified(SaferSimplifiedKey::new(*key))
            }
            CipherKey::SaferK64 { key, rounds } => Cipher::Safer(SaferKey::k64(*key, *rounds)),
            CipherKey::SaferSk64 { key, rounds } => Cipher::Safer(SaferKey::sk64(*key, *rounds)),
            CipherKey::SaferSk128 { key, rounds } => Cipher::Safer(SaferKey::sk128(*key, *rounds)),
            CipherKey::Aes256Gcm(key) => {
                aes_gcm(level, execution, key, || Library::aes_256_gcm(key))
            }
            CipherKey::Aes128Gcm(key) => {
                aes_gcm(level, execution, key, || Library::aes_128_gcm(key))
            }
            CipherKey::ChaCha20Poly1305(key) if execution == Execution::Sequential => {
                Cipher::Library(Library::chacha20_poly1305(key))
            }
            CipherKey::ChaCha20Poly1305(key) => Cipher::ChaCha(ChaChaKey::new(key)),
        };
        Transform::with(level, execution, swap, cipher)
    }

    fn with(level: Level, execution: Execution, swap: Swap, cipher: Cipher) -> Transform {
        let swapper = *swap.stage();
        let parts = Parts { execution, swap, swapper, cipher, work: Scratch::default() };
        let gather = Scratch::default();
        Transform { tagless: Loops::bind(level, &parts), parts, gather, level }
    }

    /// An AEAD with the library's cipher, whatever the execution.
    pub(crate) fn library(
        level: Level,
        execution: Execution,
        swap: Swap,
        key: &CipherKey,
    ) -> Transform {
        let cipher = match key {
            CipherKey::Aes256Gcm(key) => Cipher::Library(Library::aes_256_gcm(key)),
            CipherKey::Aes128Gcm(key) => Cipher::Library(Library::aes_128_gcm(key)),
            CipherKey::ChaCha20Poly1305(key) => Cipher::Library(Library::chacha20_poly1305(key)),
            _ => return Transform::new(level, execution, swap, key),
        };
        Transform::with(level, execution, swap, cipher)
    }

    /// Bytes of tag: 16 with an AEAD, otherwise 0.
    pub fn tag_len(&self) -> usize {
        match self.parts.cipher {
            Cipher::None | Cipher::Pes(_) | Cipher::SaferSimplified(_) | Cipher::Safer(_) => 0,
            Cipher::ChaCha(_) | Cipher::Gcm(_) | Cipher::Library(_) => 16,
        }
    }

    /// Messages must be a multiple of this length: 1 for stream ciphers.
    pub fn block_len(&self) -> usize {
        match self.parts.cipher {
            Cipher::Pes(_) | Cipher::SaferSimplified(_) | Cipher::Safer(_) => 8,
            Cipher::None | Cipher::ChaCha(_) | Cipher::Gcm(_) | Cipher::Library(_) => 1,
        }
    }

    /// [`Transform::receive`] loads each byte of `src` once: also memory that another process writes to
    /// meanwhile is deciphered as it was authenticated.
    pub fn loads_once(&self) -> bool {
        self.parts.execution == Execution::Integrated
            && !matches!(self.parts.cipher, Cipher::Library(_))
    }

    /// [`Transform::send`] writes each byte of `dst` once, enciphered. The other executions and the library's
    /// cipher go over it again: in between it holds what is only swapped.
    pub fn stores_once(&self) -> bool {
        self.loads_once()
    }

    /// Makes room for messages up to `len` bytes, so that none of them allocates.
    pub fn reserve(&mut self, len: usize) {
        if self.parts.execution == Execution::Sequential {
            self.parts.work.reserve(len);
        }
    }

    /// From `src` to `dst`, which has the same length: swapped, enciphered and summed. The sum is that
    /// of `dst`. `tag` is written when there is one.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of [`Transform::block_len`].
    #[inline]
    pub fn send(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        if let Some(loops) = self.tagless {
            return loops.send.run(&mut self.parts, src, dst);
        }
        self.seal(nonce, aad, src, dst, tag)
    }

    #[inline(never)]
    fn seal(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        let level = self.level;
        let Parts { execution, swap, ref mut cipher, ref mut work, .. } = self.parts;
        let work = if execution == Execution::Sequential { work.room(src.len()) } else { &mut [] };
        let path = Path { level, execution, swap, src, dst, work };
        match cipher {
            Cipher::ChaCha(key) => {
                let (found, sum) = path.send(key.seal(nonce, aad, src.len()));
                *tag = found;
                sum
            }
            Cipher::Gcm(key) if execution == Execution::Blocked => {
                key.seal_blocked(swap, nonce, aad, src, path.dst, tag)
            }
            Cipher::Gcm(key) => key.seal(swap, nonce, aad, src, path.dst, tag),
            Cipher::None | Cipher::Pes(_) | Cipher::SaferSimplified(_) | Cipher::Safer(_) => {
                unreachable!("a cipher without a tag has loops of its own")
            }
            Cipher::Library(aead) => path.moved().seal_by_library(aead, nonce, aad, tag),
        }
    }

    /// From `src` to `dst`, which has the same length: summed, deciphered and swapped. The sum is that
    /// of `src`. When the tag is wrong, `dst` is wiped.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of [`Transform::block_len`].
    #[inline]
    pub fn receive(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        if let Some(loops) = self.tagless {
            let sum = loops.receive.run(&mut self.parts, src, dst);
            return Opened { sum, authentic: true };
        }
        self.open(nonce, aad, src, tag, dst)
    }

    #[inline(never)]
    fn open(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        let level = self.level;
        let Parts { execution, swap, ref mut cipher, ref mut work, .. } = self.parts;
        let work = if execution == Execution::Sequential { work.room(src.len()) } else { &mut [] };
        let path = Path { level, execution, swap, src, dst, work };
        match cipher {
            Cipher::ChaCha(key) => {
                let (sum, found) = path.receive(key.open(nonce, aad, src.len()));
                let authentic = verify_slices_are_equal(&found, tag).is_ok();
                if !authentic {
                    dst.fill(0);
                }
                Opened { sum, authentic }
            }
            Cipher::Gcm(key) if execution == Execution::Blocked => {
                key.open_blocked(swap, nonce, aad, src, tag, path.dst)
            }
            Cipher::Gcm(key) => key.open(swap, nonce, aad, src, tag, path.dst),
            Cipher::None | Cipher::Pes(_) | Cipher::SaferSimplified(_) | Cipher::Safer(_) => {
                unreachable!("a cipher without a tag has loops of its own")
            }
            Cipher::Library(aead) => path.moved().open_by_library(aead, nonce, aad, tag),
        }
    }
}

/// Ours where the level has AES and the execution is not sequential, otherwise the library's.
fn aes_gcm(
    level: Level,
    execution: Execution,
    key: &[u8],
    library: impl FnOnce() -> Library,
) -> Cipher {
    let ours = match execution {
        Execution::Sequential => None,
        Execution::Integrated | Execution::Blocked => GcmKey::new(level, key),
    };
    ours.map_or_else(|| Cipher::Library(library()), Cipher::Gcm)
}

/// One message's way, but for the cipher.
struct Path<'a> {
    level: Level,
    execution: Execution,
    swap: Swap,
    src: &'a [u8],
    dst: &'a mut [u8],
    work: &'a mut [u8],
}

impl<'a> Path<'a> {
    /// The same somewhere else: what takes it by reference then does not keep this one from registers.
    #[inline(always)]
    fn moved(self) -> Path<'a> {
        let Path { level, execution, swap, src, dst, work } = self;
        Path { level, execution, swap, src, dst, work }
    }

    /// swap ▸ cipher ▸ sum ▸ store.
    fn send<C: AnyStage>(self, cipher: C) -> (C::Output, Sum) {
        let Path { level, execution, swap, src, dst, work } = self;
        let ((), found) = match (execution, swap) {
            (Execution::Integrated, Swap::None) => {
                let stage = &then(Nothing, then(cipher, InternetSum));
                level.run(Integrated { stage, src, dst })
            }
            (Execution::Integrated, swap) => {
                let stage = &then(swap.stage(), then(cipher, InternetSum));
                level.run(Integrated { stage, src, dst })
            }
            (apart, Swap::None) => {
                let stage = &then(Nothing, then(cipher, InternetSum));
                level.run(Apart::new(apart, stage, src, work, dst))
            }
            (apart, swap) => {
                let stage = &then(swap.stage(), then(cipher, InternetSum));
                level.run(Apart::new(apart, stage, src, work, dst))
            }
        };
        found
    }

    /// load ▸ sum ▸ decipher ▸ swap ▸ store.
    fn receive<C: AnyStage>(self, cipher: C) -> (Sum, C::Output) {
        let Path { level, execution, swap, src, dst, work } = self;
        let (sum, (found, ())) = match (execution, swap) {
            (Execution::Integrated, Swap::None) => {
                let stage = &then(InternetSum, then(cipher, Nothing));
                level.run(Integrated { stage, src, dst })
            }
            (Execution::Integrated, swap) => {
                let stage = &then(InternetSum, then(cipher, swap.stage()));
                level.run(Integrated { stage, src, dst })
            }
            (apart, Swap::None) => {
                let stage = &then(InternetSum, then(cipher, Nothing));
                level.run(Apart::new(apart, stage, src, work, dst))
            }
            (apart, swap) => {
                let stage = &then(InternetSum, then(cipher, swap.stage()));
                level.run(Apart::new(apart, stage, src, work, dst))
            }
        };
        (sum, found)
    }

    /// The same passes with the library's cipher in place; sequential or, without the last pass, the
    /// best that is to be had where nothing is fused.
    #[inline(never)]
    fn seal_by_library(
        self,
        aead: &Library,
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        let Path { level, execution, swap, src, dst, work } = self;
        if execution == Execution::Sequential {
            swap_pass(level, swap, src, work);
            *tag = aead.seal(nonce, aad, work);
            let sum = crate::sum(level, work);
            dst.copy_from_slice(work);
            return sum;
        }
        swap_pass(level, swap, src, dst);
        *tag = aead.seal(nonce, aad, dst);
        crate::sum(level, dst)
    }

    /// The way back.
    #[inline(never)]
    fn open_by_library(
        self,
        aead: &Library,
        nonce: &[u8; 12],
        aad: &[u8],
        tag: &[u8; 16],
    ) -> Opened {
        let Path { level, execution, swap, src, dst, work } = self;
        let sum = crate::sum(level, src);
        let sequential = execution == Execution::Sequential;
        let place = if sequential { &mut *work } else { &mut *dst };
        let authentic = aead.open(nonce, aad, src, tag, place);
        if authentic {
            swap_pass_in_place(level, swap, place);
            if sequential {
                dst.copy_from_slice(work);
            }
        } else {
            dst.fill(0);
        }
        Opened { sum, authentic }
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
