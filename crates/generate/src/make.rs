//! From a specification's file to a crate's: for the program, and for build scripts.
//!
//! ```no_run
//! // build.rs, in `main`:
//! fusewire_generate::build("bulk.toml");
//! // lib.rs or main.rs:   mod bulk { include!(concat!(env!("OUT_DIR"), "/bulk.rs")); }
//! // tests/contract.rs:   use …::bulk::{Sink, Source};
//! //                      include!(concat!(env!("OUT_DIR"), "/bulk_contract.rs"));
//! ```
//! The crate depends on `fusewire-codec` and `fusewire-service`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fusewire_asn1::Source;

use crate::choice::{Choice, Refusal, choose};
use crate::language::{self, Checked};
use crate::report::refused;
use crate::rust::{self, Against, CrateFile, Drift};

/// Why there is no crate.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The specification is wrong: [`Checked::wrong`] says how.
    Wrong(Box<Checked>),
    /// What it asks for cannot be had.
    Refused(Box<Checked>, Box<Refusal>),
    /// What was chosen has no code.
    Crate(rust::Error),
    /// Nobody says where Fusewire's crates are.
    Nowhere,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Wrong(checked) => f.write_str(&checked.wrong()),
            Error::Refused(checked, refusal) => {
                f.write_str(&refused(checked, refusal).text(checked.sources[0].name()))
            }
            Error::Crate(error) => write!(f, "{error}"),
            Error::Nowhere => {
                f.write_str("where are Fusewire's crates? Say it by --against FOLDER")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Reads a specification, and the files of ASN.1 beside it that it names. What is wrong in them is in what is returned.
///
/// # Errors
/// The specification's file cannot be read.
pub fn read(specification: &Path) -> Result<Checked, Error> {
    let file = |path: &Path| {
        std::fs::read(path)
            .map(|bytes| Source::new(path.display().to_string(), &bytes))
            .map_err(|error| Error::File(path.to_owned(), error))
    };
    let source = file(specification)?;
    let modules =
        language::files(&source).into_iter().map(|name| file(&beside(specification, &name)));
    let modules = modules.collect::<Result<_, _>>()?;
    Ok(language::check(source, modules))
}

/// A file that a specification names.
pub fn beside(specification: &Path, name: &str) -> PathBuf {
    specification.parent().unwrap_or(Path::new("")).join(name)
}

/// What is chosen for a specification.
fn chosen(checked: Checked) -> Result<(Checked, Choice), Error> {
    if !checked.is_ok() {
        return Err(Error::Wrong(Box::new(checked)));
    }
    match choose(&checked.specification, None) {
        Ok(choice) => Ok((checked, choice)),
        Err(refusal) => Err(Error::Refused(Box::new(checked), refusal)),
    }
}

/// Writes the crate of a specification into a folder; `None`: against the crates that this was built of.
///
/// # Errors
/// See [`Error`].
pub fn write(
    specification: &Path,
    folder: &Path,
    against: Option<&Against>,
) -> Result<Vec<CrateFile>, Error> {
    let (checked, choice) = chosen(read(specification)?)?;
    let own = Against::own();
    let against = against.or(own.as_ref()).ok_or(Error::Nowhere)?;
    let files = rust::crate_of(&checked, &choice, against).map_err(Error::Crate)?;
    rust::write_files(&files, folder).map_err(Error::Crate)?;
    Ok(files)
}

/// How the crate in a folder differs from the one that a specification gives, against the same crates; empty where it does
/// not.
///
/// # Errors
/// See [`Error`].
pub fn check(specification: &Path, folder: &Path) -> Result<Vec<Drift>, Error> {
    let (checked, choice) = chosen(read(specification)?)?;
    // Without a manifest that is what differs.
    let against = Against::of_crate(folder).or_else(Against::own).unwrap_or(Against::Workspace);
    let files = rust::crate_of(&checked, &choice, &against).map_err(Error::Crate)?;
    rust::drift(&files, folder).map_err(Error::Crate)
}

/// For build scripts: `NAME.rs` (types and ends) and `NAME_contract.rs` (tests of what they promise) in Cargo's output
/// folder, by the name of the specification's file.
///
/// # Panics
/// Where there is no crate: Cargo shows why.
pub fn build(specification: impl AsRef<Path>) {
    if let Err(error) = try_build(specification.as_ref()) {
        panic!("{error}");
    }
}

fn try_build(specification: &Path) -> Result<(), Error> {
    println!("cargo::rerun-if-changed={}", specification.display());
    let checked = read(specification)?;
    for module in checked.sources.iter().skip(1) {
        println!("cargo::rerun-if-changed={}", module.name());
    }
    let (checked, choice) = chosen(checked)?;
    let [ends, contract] = rust::modules_of(&checked, &choice).map_err(Error::Crate)?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for (name, text) in [("", ends), ("_contract", contract)] {
        let path = folder.join(format!("{}{name}.rs", choice.plan.name));
        std::fs::write(&path, text).map_err(|error| Error::File(path, error))?;
    }
    Ok(())
}
