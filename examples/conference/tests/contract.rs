//! What `conference.toml` promises, observed between its two ends.

use conference_example::{A, B};

include!(concat!(env!("OUT_DIR"), "/conference_contract.rs"));
