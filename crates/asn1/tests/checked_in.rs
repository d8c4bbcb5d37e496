//! Code that is generated from a module and lies in the repository is what would be generated now.
//! `FUSEWIRE_UPDATE=1` writes it anew.

use std::fs;
use std::path::Path;

use fusewire_asn1::build::text_of;
use fusewire_asn1::rust::{Encoding, Options};

/// The file `generated` is what comes of the module `module`; both are paths from the folder of all crates.
fn is_up_to_date(module: &str, generated: &str, options: &Options) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = text_of(&[crates.join(module)], options).expect("a module that is right");
    let path = crates.join(generated);
    if std::env::var_os("FUSEWIRE_UPDATE").is_some() {
        return fs::write(&path, text).expect("a file that can be written");
    }
    let found = fs::read_to_string(&path).expect("the generated file");
    assert!(found == text, "{} is not up to date: FUSEWIRE_UPDATE=1 writes it", path.display());
}

#[test]
fn mpdus_of_the_benchmark() {
    let options = Options {
        encodings: vec![Encoding::Ber, Encoding::Der, Encoding::Oer, Encoding::Lws, Encoding::Xdr],
        narrow_integers: true,
        ..Options::default()
    };
    is_up_to_date("../fuzz/mpdu.asn1", "lab/src/codec/p1.rs.in", &options);
}
