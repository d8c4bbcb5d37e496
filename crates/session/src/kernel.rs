//! The one place that names what this crate uses of `kernels`.

pub(crate) use shim::{CipherKey, Transform, sum};
pub use shim::{Execution, Level, Swap};

/// Stands in for `kernels::Transform` with aws-lc-rs and plain loops.
mod shim {
    use aws_lc_rs::aead::{
        AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
    };
    use fusewire_base::Sum;

    /// A set of CPU instructions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Level;

    impl Level {
        /// The level that every machine has.
        pub const PORTABLE: Level = Level;
        /// The best level of this machine.
        pub fn detect() -> Level {
            Level
        }
    }

    /// How a pipeline runs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Execution {
        /// One loop.
        Integrated,
        /// Stages in turn over a strip.
        Blocked,
        /// Stages in turn over the message.
        Sequential,
    }

    /// Byte swap of the elements of an ADU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Swap {
        /// Opaque octets.
        None,
        /// 16-bit elements.
        Bytes16,
        /// 32-bit elements.
        Bytes32,
        /// 64-bit elements.
        Bytes64,
    }

    pub enum CipherKey {
        None,
        Aes256Gcm([u8; 32]),
        Aes128Gcm([u8; 16]),
        ChaCha20Poly1305([u8; 32]),
        Pes([u8; 8]),
        SaferSimplified([u8; 8]),
        SaferK64 { key: [u8; 8], rounds: u8 },
    }

    pub struct Opened {
        pub sum: Sum,
        pub authentic: bool,
    }

    enum Key {
        None,
        Aead(Box<LessSafeKey>),
        Xor([u8; 8]),
    }

    pub struct Transform {
        swap: Swap,
        key: Key,
    }

    fn aead(algorithm: &'static Algorithm, key: &[u8]) -> Key {
        Key::Aead(Box::new(LessSafeKey::new(UnboundKey::new(algorithm, key).expect("key length"))))
    }

    fn swap_in_place(swap: Swap, bytes: &mut [u8]) {
        let n = match swap {
            Swap::None => return,
            Swap::Bytes16 => 2,
            Swap::Bytes32 => 4,
            Swap::Bytes64 => 8,
        };
        bytes.chunks_exact_mut(n).for_each(<[u8]>::reverse);
    }

    impl Transform {
        pub fn new(_level: Level, _execution: Execution, swap: Swap, key: &CipherKey) -> Transform {
            let key = match key {
                CipherKey::None => Key::None,
                CipherKey::Aes256Gcm(k) => aead(&AES_256_GCM, k),
                CipherKey::Aes128Gcm(k) => aead(&AES_128_GCM, k),
                CipherKey::ChaCha20Poly1305(k) => aead(&CHACHA20_POLY1305, k),
                CipherKey::Pes(k)
                | CipherKey::SaferSimplified(k)
                | CipherKey::SaferK64 { key: k, .. } => Key::Xor(*k),
            };
            Transform { swap, key }
        }

        pub fn send(
            &mut self,
            nonce: &[u8; 12],
            aad: &[u8],
            src: &[u8],
            dst: &mut [u8],
            tag: &mut [u8; 16],
        ) -> Sum {
            dst.copy_from_slice(src);
            swap_in_place(self.swap, dst);
            match &self.key {
                Key::None => {}
                Key::Aead(key) => {
                    let nonce = Nonce::assume_unique_for_key(*nonce);
                    let out =
                        key.seal_in_place_separate_tag(nonce, Aad::from(aad), dst).expect("short");
                    tag.copy_from_slice(out.as_ref());
                }
                Key::Xor(key) => dst.iter_mut().zip(key.iter().cycle()).for_each(|(b, k)| *b ^= k),
            }
            Sum::of(dst)
        }

        pub fn receive(
            &mut self,
            nonce: &[u8; 12],
            aad: &[u8],
            src: &[u8],
            tag: &[u8; 16],
            dst: &mut [u8],
        ) -> Opened {
            let sum = Sum::of(src);
            let authentic = match &self.key {
                Key::None => {
                    dst.copy_from_slice(src);
                    true
                }
                Key::Aead(key) => {
                    let nonce = Nonce::assume_unique_for_key(*nonce);
                    key.open_separate_gather(nonce, Aad::from(aad), src, tag, dst).is_ok()
                }
                Key::Xor(key) => {
                    dst.copy_from_slice(src);
                    dst.iter_mut().zip(key.iter().cycle()).for_each(|(b, k)| *b ^= k);
                    true
                }
            };
            if authentic {
                swap_in_place(self.swap, dst);
            } else {
                dst.fill(0);
            }
            Opened { sum, authentic }
        }
    }

    /// The Internet sum.
    pub fn sum(_level: Level, bytes: &[u8]) -> Sum {
        Sum::of(bytes)
    }
}
