//! For build scripts: a file of the XDR language in, a file of Rust out, for the crate to include.
//!
//! ```no_run
//! // build.rs
//! fusewire_xdr::build::compile("x/ledger.x", "ledger.rs", &Default::default()).unwrap();
//! // lib.rs: include!(concat!(env!("OUT_DIR"), "/ledger.rs"));
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use crate::rust::{Options, generate};
use crate::{Checked, Source, check};

/// Why nothing was written.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// The file is wrong: what is wrong with it, as it is shown.
    Wrong(String),
    /// This is no build script: there is no `OUT_DIR`.
    NoOutput,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Wrong(text) => f.write_str(text),
            Error::NoOutput => f.write_str("OUT_DIR is not set: is this a build script?"),
        }
    }
}

impl std::error::Error for Error {}

/// Compiles a file into one of that name in Cargo's output folder. Tells Cargo to run the script again when
/// the file changes.
///
/// # Errors
/// The file cannot be read or written, or is wrong.
pub fn compile(file: impl AsRef<Path>, name: &str, options: &Options) -> Result<(), Error> {
    let folder = std::env::var_os("OUT_DIR").ok_or(Error::NoOutput)?;
    println!("cargo::rerun-if-changed={}", file.as_ref().display());
    let path = Path::new(&folder).join(name);
    let text = text_of(file, options)?;
    std::fs::write(&path, text).map_err(|e| Error::File(path, e))
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
