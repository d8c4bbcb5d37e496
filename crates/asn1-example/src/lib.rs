//! What a crate does that speaks a protocol of ASN.1: `build.rs` compiles the modules, and this includes
//! what came of them. `tests/` sends readings of instruments there and back.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/asn1.rs"));
