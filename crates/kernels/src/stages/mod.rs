//! The stages, one a file.
#![forbid(unsafe_code)]

mod copy;
mod internet;
mod swap;

pub use copy::Copy;
pub use internet::InternetSum;
pub use swap::Swap;
