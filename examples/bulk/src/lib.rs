//! The ends of `bulk.toml`.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/bulk.rs"));
