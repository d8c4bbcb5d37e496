//! The stages, one a file.
#![forbid(unsafe_code)]

mod chacha;
mod copy;
mod crc32c;
mod cxor;
mod internet;
mod pes;
mod poly1305;
mod poly1305_wide;
mod safer;
mod swap;

pub use chacha::{ChaCha, ChaChaKey};
pub use copy::{Copy, Nothing};
pub use crc32c::{Crc32c, crc32c_of};
pub use cxor::{Cxor, CxorSum};
pub use internet::InternetSum;
pub use pes::{PesDecrypt, PesEncrypt, PesKey};
pub use poly1305::Poly1305;
pub(crate) use poly1305::product;
pub(crate) use poly1305_wide::{Powers, gather, splat};
pub use safer::{
    EXP as SAFER_EXP, LOG as SAFER_LOG, MAX_ROUNDS as SAFER_MAX_ROUNDS, SaferDecrypt, SaferEncrypt,
    SaferKey, SaferSimplifiedDecrypt, SaferSimplifiedEncrypt, SaferSimplifiedKey,
};
pub use swap::{AnySwap, Swap};
