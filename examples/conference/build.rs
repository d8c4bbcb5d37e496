//! Compiles `Conf.asn1`.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    let options = Options { encodings: vec![Encoding::Lws], ..Options::default() };
    build::compile(&["Conf.asn1"], "conf.rs", &options)
}
