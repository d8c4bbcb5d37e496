//! Compiles the module whose generated decoder is a target.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    let options = Options {
        encodings: vec![
            Encoding::Ber,
            Encoding::Der,
            Encoding::Lws,
            Encoding::Oer,
            Encoding::Xdr,
            Encoding::Jer,
        ],
        ..Options::default()
    };
    build::compile(&["mpdu.asn1"], "mpdu.rs", &options)
}
