//! What `bulk.toml` promises, observed between its two ends.

use bulk_example::{Sink, Source};

include!(concat!(env!("OUT_DIR"), "/bulk_contract.rs"));
