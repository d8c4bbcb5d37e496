//! Compiles the modules in `asn1/`.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    let options = Options {
        encodings: vec![Encoding::Ber, Encoding::Der, Encoding::Oer, Encoding::Xdr, Encoding::Lws],
        ..Options::default()
    };
    build::compile(
        &["asn1/Telemetry.asn1", "asn1/Geography.asn1", "asn1/Mapping.asn1"],
        "asn1.rs",
        &options,
    )
}
