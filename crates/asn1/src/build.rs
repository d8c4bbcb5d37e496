//! For build scripts: modules in, one file of Rust out, for the crate to include.
//!
//! ```no_run
//! // build.rs
//! fusewire_asn1::build::compile(&["asn1/Telemetry.asn1"], "asn1.rs", &Default::default()).unwrap();
//! // lib.rs: include!(concat!(env!("OUT_DIR"), "/asn1.rs"));
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use crate::parser::File;
use crate::rust::{Options, generate, joined};
use crate::source::Source;

/// Why nothing was written.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    File(PathBuf, std::io::Error),
    /// Modules are wrong: what is wrong with them, as it is shown.
    Wrong(String),
    /// This is no build script: there is no `OUT_DIR`.
    NoOutput,
    /// No module has a type that [`Options::messages`] names.
    NoMessage(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Wrong(text) => f.write_str(text),
            Error::NoMessage(name) => write!(f, "no module has a type `{name}`"),
            Error::NoOutput => f.write_str("OUT_DIR is not set: is this a build script?"),
        }
    }
}

impl std::error::Error for Error {}

/// Compiles files, which may import from each other, into one file of that name in Cargo's output folder. Each
/// ASN.1 module is a Rust module there.
///
/// # Errors
/// As [`write()`], or a file cannot be read, or a module is wrong.
pub fn compile(files: &[impl AsRef<Path>], name: &str, options: &Options) -> Result<(), Error> {
    write(files, name, || text_of(files, options))
}

/// Writes what a compiler makes of files into one of that name in Cargo's output folder. Tells Cargo to run the script
/// again when one of the files changes.
///
/// # Errors
/// There is no such folder, the file cannot be written, or as `text`'s own.
pub fn write(
    files: &[impl AsRef<Path>],
    name: &str,
    text: impl FnOnce() -> Result<String, Error>,
) -> Result<(), Error> {
    let folder = std::env::var_os("OUT_DIR").ok_or(Error::NoOutput)?;
    for file in files {
        println!("cargo::rerun-if-changed={}", file.as_ref().display());
    }
    let path = Path::new(&folder).join(name);
    std::fs::write(&path, text()?).map_err(|e| Error::File(path, e))
}

/// The Rust of files, as one text.
///
/// # Errors
/// A file cannot be read, or a module is wrong.
pub fn text_of(files: &[impl AsRef<Path>], options: &Options) -> Result<String, Error> {
    let mut read = Vec::with_capacity(files.len());
    for (id, path) in files.iter().enumerate() {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| Error::File(path.to_owned(), e))?;
        read.push(File::parse(id, Source::new(path.display().to_string(), &bytes)));
    }
    let wrong: String = crate::diagnose(&read)
        .iter()
        .filter(|d| d.is_error())
        .map(|d| d.display(&read[d.file].source).to_string())
        .collect();
    if !wrong.is_empty() {
        return Err(Error::Wrong(wrong));
    }
    match options.unknown_message(&read) {
        Some(name) => Err(Error::NoMessage(name.to_owned())),
        None => Ok(joined(&generate(&read, options))),
    }
}
