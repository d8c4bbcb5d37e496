//! The ends of `telemetry.toml`.
#![forbid(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/telemetry.rs"));
