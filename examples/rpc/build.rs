//! Generates the two ends of `rpc.toml`, and the types alone for those by hand.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    fusewire_generate::build("rpc.toml");
    let options = Options { encodings: vec![Encoding::Lws], ..Options::default() };
    build::compile(&["Kv.asn1"], "by_hand.rs", &options)
}
