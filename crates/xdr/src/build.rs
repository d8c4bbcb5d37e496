//! For build scripts: a file of the XDR language in, a file of Rust out, for the crate to include.
//!
//! ```no_run
//! // build.rs
//! fusewire_xdr::build::compile("x/ledger.x", "ledger.rs", &Default::default()).unwrap();
//! // lib.rs: include!(concat!(env!("OUT_DIR"), "/ledger.rs"));
//! ```

use std::path::Path;

pub use fusewire_asn1::build::Error;

use crate::rust::{Options, generate};
use crate::{Checked, Source, check};

/// Compiles a file into one of that name in Cargo's output folder. Tells Cargo to run the script again when
/// the file changes.
///
/// # Errors
/// The file cannot be read or written, or is wrong.
pub fn compile(file: impl AsRef<Path>, name: &str, options: &Options) -> Result<(), Error> {
    fusewire_asn1::build::write(&[&file], name, || text_of(&file, options))
}

/// The Rust of a file.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub fn text_of(file: impl AsRef<Path>, options: &Options) -> Result<String, Error> {
    let path = file.as_ref();
    let bytes = std::fs::read(path).map_err(|e| Error::File(path.to_owned(), e))?;
    let checked = check(Source::new(path.display().to_string(), &bytes));
    generate(&checked, options).ok_or_else(|| Error::Wrong(wrong(&checked)))
}

fn wrong(checked: &Checked) -> String {
    let errors = checked.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| d.display(&checked.source).to_string()).collect()
}
