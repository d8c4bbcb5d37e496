//! What `telemetry.toml` promises, observed between a plant and eight viewers.

use telemetry_example::{Plant, Viewer};

include!(concat!(env!("OUT_DIR"), "/telemetry_contract.rs"));
