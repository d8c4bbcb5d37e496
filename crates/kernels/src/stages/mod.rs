//! The stages, one a file.
#![forbid(unsafe_code)]

mod copy;
mod internet;
mod pes;
mod swap;

pub use copy::{Copy, Nothing};
pub use internet::InternetSum;
pub use pes::{PesDecrypt, PesEncrypt, PesKey};
pub use swap::Swap;
