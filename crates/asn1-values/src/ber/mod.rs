//! BER and DER (X.690) of any type.

mod decode;
mod encode;

pub use decode::decode;
pub use encode::encode;
