//! Values of ASN.1 types without generated code.
//!
//! [`dump`] shows any BER without its module; [`input`] takes it out of PEM or hexadecimal text.
#![forbid(unsafe_code)]

pub mod characters;
pub mod dump;
pub mod input;
pub mod number;
