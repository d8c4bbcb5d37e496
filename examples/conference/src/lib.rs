//! The ends of `conference.toml`.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/conference.rs"));
