//! Code that is generated from a module and lies in the repository is what would be generated now.
//! `FUSEWIRE_UPDATE=1` writes it anew.

use std::fs;
use std::path::Path;

use fusewire_asn1::build::text_of;
use fusewire_asn1::rust::{Encoding, Options};

#[test]
fn messages_of_the_file_transfer() {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../files");
    let options = Options { encodings: vec![Encoding::Xdr], ..Options::default() };
    let text = text_of(&[files.join("messages.asn1")], &options).expect("a module that is right");
    let path = files.join("src/message/messages.rs.in");
    if std::env::var_os("FUSEWIRE_UPDATE").is_some() {
        return fs::write(&path, text).expect("a file that can be written");
    }
    let found = fs::read_to_string(&path).expect("the generated file");
    assert!(found == text, "{} is not up to date: FUSEWIRE_UPDATE=1 writes it", path.display());
}
