//! The stages, one a file.
#![forbid(unsafe_code)]

mod copy;
mod crc32c;
pub mod cxor;
mod fletcher;
mod internet;
mod pes;
mod swap;

pub use copy::{Copy, Nothing};
pub use crc32c::{Crc32c, crc32c_of};
pub use cxor::{Cxor, CxorSum};
pub use fletcher::{Fletcher, FletcherSum};
pub use internet::InternetSum;
pub use pes::{PesDecrypt, PesEncrypt, PesKey};
pub use swap::Swap;
