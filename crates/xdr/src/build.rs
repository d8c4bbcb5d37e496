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
use crate::{Checked, Source, check_after};

/// Compiles a file into one of that name in Cargo's output folder. Tells Cargo to run the script again when
/// the file changes.
///
/// # Errors
/// The file cannot be read or written, or is wrong.
pub fn compile(file: impl AsRef<Path>, name: &str, options: &Options) -> Result<(), Error> {
    compile_after(&[] as &[&Path], &[], file, name, options)
}

/// Compiles a file as [`compile`] does, after others whose declarations it uses, and with definitions of the
/// form `NAME=VALUE`. The output holds the declarations of all of them.
///
/// ```no_run
/// # use fusewire_xdr::build;
/// build::compile_after(&["x/common.x"], &["RPCSEC_GSS=6"], "x/nfs4.x", "nfs4.rs", &Default::default()).unwrap();
/// ```
///
/// # Errors
/// A file cannot be read or written, or is wrong, or a definition has another form.
pub fn compile_after(
    before: &[impl AsRef<Path>],
    definitions: &[&str],
    file: impl AsRef<Path>,
    name: &str,
    options: &Options,
) -> Result<(), Error> {
    let mut files: Vec<&Path> = before.iter().map(AsRef::as_ref).collect();
    files.push(file.as_ref());
    fusewire_asn1::build::write(&files, name, || text_of_all(&files, definitions, options))
}

/// The Rust of a file.
///
/// # Errors
/// The file cannot be read, or is wrong.
pub fn text_of(file: impl AsRef<Path>, options: &Options) -> Result<String, Error> {
    text_of_all(&[file.as_ref()], &[], options)
}

fn text_of_all(files: &[&Path], definitions: &[&str], options: &Options) -> Result<String, Error> {
    let mut sources = Vec::with_capacity(definitions.len() + files.len());
    for &text in definitions {
        let wrong = || Error::Wrong(format!("expected NAME or NAME=VALUE, found `{text}`"));
        sources.push(crate::definition(text).ok_or_else(wrong)?);
    }
    for &path in files {
        let bytes = std::fs::read(path).map_err(|e| Error::File(path.to_owned(), e))?;
        sources.push(Source::new(path.display().to_string(), &bytes));
    }
    let checked = match sources.pop() {
        Some(file) => check_after(sources, file),
        None => return Ok(String::new()),
    };
    generate(&checked, options).ok_or_else(|| Error::Wrong(wrong(&checked)))
}

fn wrong(checked: &Checked) -> String {
    let errors = checked.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| checked.display(d).to_string()).collect()
}
