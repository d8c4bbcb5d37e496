//! What `rpc.toml` promises, observed between its two ends.

use rpc_example::{Client, Server};

include!(concat!(env!("OUT_DIR"), "/rpc_contract.rs"));
