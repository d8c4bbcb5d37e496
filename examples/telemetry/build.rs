//! Compiles `Plant.asn1`.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    let options = Options { encodings: vec![Encoding::Lws], ..Options::default() };
    build::compile(&["Plant.asn1"], "plant.rs", &options)
}
