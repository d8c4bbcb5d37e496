//! The data path's pipeline for one direction of a connection: swap ▸ cipher ▸ Internet sum ▸ store on
//! send, load ▸ sum ▸ decipher ▸ swap on receive.
//!
//! A [`Transform`] owns expanded keys and scratch memory. Level, execution, swap and cipher are
//! matched once a message; the loop behind each match is compiled for exactly that combination.
//!
//! To plug a cipher's stages in: a variant of `Cipher` with the expanded key, made in
//! `Transform::new`, and an arm each in `send` and `receive` that hands the message's stage to
//! `Send` and `Receive` (`level.run(..)`, or `level.run_aes(..)` for stages that need AES). The
//! stage's `Output` comes back beside the sum: `()` or the tag. The arms for `Cipher::Library`, which
//! remain for what a level cannot fuse and for the sequential execution, show the rest.
#![forbid(unsafe_code)]

use crate::Level;
use crate::arch::{Kernel, Lanes};
use crate::execution::{Blocked, Execution, Integrated, Sequential};
use crate::gcm::GcmKey;
use crate::library::Library;
use crate::stage::{Run, then};
use crate::stages::{InternetSum, Nothing, PesDecrypt, PesEncrypt, PesKey, Swap as SwapStage};
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
}

/// What a receive found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The sum of the ciphertext.
    pub sum: Sum,
    /// The tag was right, or there is none. When false, the destination has been wiped.
    pub authentic: bool,
}

enum Cipher {
    None,
    Pes(PesKey),
    Gcm(GcmKey),
    Library(Library),
}

/// One direction's pipeline with its keys and scratch memory.
pub struct Transform {
    level: Level,
    execution: Execution,
    swap: Swap,
    cipher: Cipher,
    work: Vec<u8>,
}

/// Runs `$job { swap: .. }` with the stage for a [`Swap`].
macro_rules! with_swap {
    ($swap:expr, $level:ident.$run:ident($job:ident { $($field:ident: $value:expr),* })) => {
        match $swap {
            Swap::None => $level.$run($job { swap: Nothing, $($field: $value),* }),
            Swap::Bytes16 => $level.$run($job { swap: SwapStage::<2>, $($field: $value),* }),
            Swap::Bytes32 => $level.$run($job { swap: SwapStage::<4>, $($field: $value),* }),
            Swap::Bytes64 => $level.$run($job { swap: SwapStage::<8>, $($field: $value),* }),
        }
    };
}

impl Transform {
    /// Expands the key.
    pub fn new(level: Level, execution: Execution, swap: Swap, key: &CipherKey) -> Transform {
        let cipher = match key {
            CipherKey::None => Cipher::None,
            CipherKey::Pes(key) => Cipher::Pes(PesKey::new(*key)),
            CipherKey::Aes256Gcm(key) => {
                aes_gcm(level, execution, key, || Library::aes_256_gcm(key))
            }
            CipherKey::Aes128Gcm(key) => {
                aes_gcm(level, execution, key, || Library::aes_128_gcm(key))
            }
            CipherKey::ChaCha20Poly1305(key) => Cipher::Library(Library::chacha20_poly1305(key)),
        };
        Transform { level, execution, swap, cipher, work: Vec::new() }
    }

    /// Bytes of tag: 16 with an AEAD, otherwise 0.
    pub fn tag_len(&self) -> usize {
        match self.cipher {
            Cipher::None | Cipher::Pes(_) => 0,
            Cipher::Gcm(_) | Cipher::Library(_) => 16,
        }
    }

    /// Messages must be a multiple of this length: 1 for stream ciphers.
    pub fn block_len(&self) -> usize {
        match self.cipher {
            Cipher::Pes(_) => 8,
            Cipher::None | Cipher::Gcm(_) | Cipher::Library(_) => 1,
        }
    }

    /// Makes room for messages up to `len` bytes, so that none of them allocates.
    pub fn reserve(&mut self, len: usize) {
        if self.execution == Execution::Sequential && self.work.len() < len {
            self.work.resize(len, 0);
        }
    }

    /// From `src` to `dst`, which has the same length: swapped, enciphered and summed. The sum is that
    /// of `dst`. `tag` is written when there is one.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of [`Transform::block_len`].
    pub fn send(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        self.reserve(src.len());
        let Transform { level, execution, swap, ref cipher, ref mut work } = *self;
        match cipher {
            Cipher::None => {
                let ((), sum) = with_swap!(
                    swap,
                    level.run(Send {
                        execution: execution,
                        cipher: Nothing,
                        src: src,
                        dst: dst,
                        work: work
                    })
                );
                sum
            }
            Cipher::Pes(key) => {
                let ((), sum) = with_swap!(
                    swap,
                    level.run(Send {
                        execution: execution,
                        cipher: PesEncrypt(*key),
                        src: src,
                        dst: dst,
                        work: work
                    })
                );
                sum
            }
            Cipher::Gcm(key) if execution == Execution::Blocked => {
                key.seal_blocked(swap, nonce, aad, src, dst, tag)
            }
            Cipher::Gcm(key) => key.seal(swap, nonce, aad, src, dst, tag),
            Cipher::Library(aead) => {
                if execution == Execution::Sequential {
                    let work = &mut work[..src.len()];
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
        }
    }

    /// From `src` to `dst`, which has the same length: summed, deciphered and swapped. The sum is that
    /// of `src`. When the tag is wrong, `dst` is wiped.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of [`Transform::block_len`].
    pub fn receive(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> Opened {
        self.reserve(src.len());
        let Transform { level, execution, swap, ref cipher, ref mut work } = *self;
        match cipher {
            Cipher::None => {
                let (sum, ()) = with_swap!(
                    swap,
                    level.run(Receive {
                        execution: execution,
                        cipher: Nothing,
                        src: src,
                        dst: dst,
                        work: work
                    })
                );
                Opened { sum, authentic: true }
            }
            Cipher::Pes(key) => {
                let (sum, ()) = with_swap!(
                    swap,
                    level.run(Receive {
                        execution: execution,
                        cipher: PesDecrypt(*key),
                        src: src,
                        dst: dst,
                        work: work
                    })
                );
                Opened { sum, authentic: true }
            }
            Cipher::Gcm(key) if execution == Execution::Blocked => {
                key.open_blocked(swap, nonce, aad, src, tag, dst)
            }
            Cipher::Gcm(key) => key.open(swap, nonce, aad, src, tag, dst),
            Cipher::Library(aead) => {
                let sum = crate::sum(level, src);
                let sequential = execution == Execution::Sequential;
                let place = if sequential { &mut work[..src.len()] } else { &mut *dst };
                let authentic = aead.open(nonce, aad, src, tag, place);
                if authentic {
                    swap_pass_in_place(level, swap, place);
                    if sequential {
                        dst.copy_from_slice(&work[..src.len()]);
                    }
                } else {
                    dst.fill(0);
                }
                Opened { sum, authentic }
            }
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

impl Drop for Transform {
    fn drop(&mut self) {
        self.work.zeroize();
    }
}

/// swap ▸ cipher ▸ sum ▸ store.
struct Send<'a, W, C> {
    execution: Execution,
    swap: W,
    cipher: C,
    src: &'a [u8],
    dst: &'a mut [u8],
    work: &'a mut [u8],
}

impl<L: Lanes, W: Run<L, Output = ()>, C: Run<L>> Kernel<L> for Send<'_, W, C> {
    type Output = (C::Output, Sum);
    #[inline(always)]
    fn run(self, lanes: L) -> Self::Output {
        let Send { execution, swap, cipher, src, dst, work } = self;
        let stage = &then(swap, then(cipher, InternetSum));
        let ((), found) = match execution {
            Execution::Integrated => Integrated { stage, src, dst }.run(lanes),
            Execution::Blocked => Blocked { stage, src, dst }.run(lanes),
            Execution::Sequential => Sequential { stage, src, work, dst }.run(lanes),
        };
        found
    }
}

/// load ▸ sum ▸ decipher ▸ swap ▸ store.
struct Receive<'a, W, C> {
    execution: Execution,
    swap: W,
    cipher: C,
    src: &'a [u8],
    dst: &'a mut [u8],
    work: &'a mut [u8],
}

impl<L: Lanes, W: Run<L, Output = ()>, C: Run<L>> Kernel<L> for Receive<'_, W, C> {
    type Output = (Sum, C::Output);
    #[inline(always)]
    fn run(self, lanes: L) -> Self::Output {
        let Receive { execution, swap, cipher, src, dst, work } = self;
        let stage = &then(InternetSum, then(cipher, swap));
        let (sum, (found, ())) = match execution {
            Execution::Integrated => Integrated { stage, src, dst }.run(lanes),
            Execution::Blocked => Blocked { stage, src, dst }.run(lanes),
            Execution::Sequential => Sequential { stage, src, work, dst }.run(lanes),
        };
        (sum, found)
    }
}

/// A swap as a pass of its own.
pub(crate) fn swap_pass(level: Level, swap: Swap, src: &[u8], dst: &mut [u8]) {
    match swap {
        Swap::None => dst.copy_from_slice(src),
        Swap::Bytes16 => level.run(Integrated { stage: &SwapStage::<2>, src, dst }),
        Swap::Bytes32 => level.run(Integrated { stage: &SwapStage::<4>, src, dst }),
        Swap::Bytes64 => level.run(Integrated { stage: &SwapStage::<8>, src, dst }),
    }
}

/// The same where the bytes are.
pub(crate) fn swap_pass_in_place(level: Level, swap: Swap, bytes: &mut [u8]) {
    use crate::execution::InPlace;
    match swap {
        Swap::None => {}
        Swap::Bytes16 => level.run(InPlace { stage: &SwapStage::<2>, bytes }),
        Swap::Bytes32 => level.run(InPlace { stage: &SwapStage::<4>, bytes }),
        Swap::Bytes64 => level.run(InPlace { stage: &SwapStage::<8>, bytes }),
    }
}
