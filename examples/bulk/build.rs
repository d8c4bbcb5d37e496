//! Generates the two ends of `bulk.toml`, and the types alone for those by hand.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    fusewire_generate::build("bulk.toml");
    let options = Options { encodings: vec![Encoding::Lws], ..Options::default() };
    build::compile(&["Bulk.asn1"], "by_hand.rs", &options)
}
