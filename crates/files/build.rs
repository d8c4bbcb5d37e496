//! The types of the messages, and their marshalling, from the module that says what they are.

use fusewire_asn1::build::{self, Error};
use fusewire_asn1::rust::{Encoding, Options};
use std::path::{Path, PathBuf};

fn main() -> Result<(), Error> {
    let options = Options { encodings: vec![Encoding::Xdr], ..Options::default() };
    build::compile(&["messages.asn1"], "messages.rs", &options)?;
    // For tests of what becomes of each side when the other has a field, a message and an item more.
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").ok_or(Error::NoOutput)?);
    let (module, code) = (folder.join("later.asn1"), folder.join("later.rs"));
    let now = Path::new("messages.asn1");
    let text = std::fs::read_to_string(now).map_err(|e| Error::File(now.into(), e))?;
    std::fs::write(&module, later(&text)).map_err(|e| Error::File(module.clone(), e))?;
    let text = build::text_of(&[module], &options)?;
    std::fs::write(&code, text).map_err(|e| Error::File(code, e))
}

/// The module with something more at the end of each type that has `...`.
fn later(module: &str) -> String {
    let assignments = module.split("::= ").map(|assignment| {
        let more = match assignment.split_whitespace().next() {
            Some("SEQUENCE") => ", later Word OPTIONAL ",
            Some("CHOICE") => ", later [64] Look ",
            Some("ENUMERATED") => ", later(99) ",
            _ => "",
        };
        match assignment.rsplit_once('}') {
            Some((type_, rest)) if assignment.contains("...") => format!("{type_}{more}}}{rest}"),
            _ => assignment.to_owned(),
        }
    });
    assignments.collect::<Vec<_>>().join("::= ")
}
