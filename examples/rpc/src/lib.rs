//! The ends of `rpc.toml`.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/rpc.rs"));
