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
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use fusewire_asn1::Source;
use fusewire_model::Machine;

use crate::choice::{Choice, Refusal, choose};
use crate::language::{self, Absent, Checked, Specification};
use crate::report::refused;
use crate::rust::{self, Against, CrateFile, Drift};

/// Larger files hold something else.
const FILE_MAX: u64 = 16 << 20;

/// Why there is no crate.
#[derive(Debug)]
pub enum Error {
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// The specification is wrong: [`Checked::wrong`] says how.
    Wrong(Box<Checked>),
    /// What it asks for cannot be had.
    Refused(Box<Checked>, Box<Refusal>),
    /// The file is no calibrated machine.
    Machine(PathBuf, fusewire_model::machine::Error),
    /// What was chosen has no code.
    Crate(rust::Error),
    /// Nobody says where Fusewire's crates are.
    Nowhere,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Machine(path, error) => write!(f, "{}: {error}", path.display()),
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

/// Reads a specification, and the files of ASN.1 beside it that it names. What is wrong in them, or that one of them cannot be
/// read, is in what is returned.
///
/// # Errors
/// The specification's file cannot be read.
pub fn read(specification: &Path) -> Result<Checked, Error> {
    let text = contents(specification).map_err(|e| Error::File(specification.to_owned(), e))?;
    let source = Source::new(specification.display().to_string(), &text);
    let modules = language::files(&source).into_iter().map(|name| {
        let read = beside(specification, &name).and_then(|path| Ok((contents(&path)?, path)));
        match read {
            Ok((bytes, path)) => Ok(Source::new(path.display().to_string(), &bytes)),
            Err(why) => {
                Err(Absent { why: why.to_string(), beside: modules_beside(specification), name })
            }
        }
    });
    let modules = modules.collect();
    Ok(language::check_files(source, modules))
}

/// A file that a specification names: of its own folder, or of one in that.
fn beside(specification: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = specification.parent().unwrap_or(Path::new(""));
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    match Path::new(name).components().all(is_plain) {
        true => Ok(folder.join(name)),
        false => Err(io::Error::other("it does not lie beside the specification")),
    }
}

/// All of a file, if anybody would write one so.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= FILE_MAX {
        true => Ok(bytes),
        false => Err(io::Error::other(format!("it has more than {FILE_MAX} bytes"))),
    }
}

/// The files of ASN.1 in a specification's folder.
fn modules_beside(specification: &Path) -> Vec<String> {
    let folder = specification.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Ok(entries) = fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".asn1")).collect();
    names.sort();
    names
}

/// The calibrated machine that a specification names. That of this host is not asked: the same specification gives the same
/// bytes on every one.
///
/// # Errors
/// [`Error::File`], [`Error::Machine`].
pub fn machine(specification: &Path, of: &Specification) -> Result<Option<Machine>, Error> {
    let Some(name) = &of.platform.machine.value else { return Ok(None) };
    let named = specification.with_file_name(name);
    let bytes = beside(specification, name).and_then(|path| contents(&path));
    let bytes = bytes.map_err(|error| Error::File(named.clone(), error))?;
    let machine = Machine::of_json(&String::from_utf8_lossy(&bytes));
    machine.map(Some).map_err(|error| Error::Machine(named, error))
}

/// A specification without errors, and what was chosen for it.
#[derive(Debug)]
pub struct Chosen {
    /// What it says.
    pub checked: Checked,
    /// What was chosen.
    pub choice: Choice,
}

impl Chosen {
    /// Reads a specification and chooses.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn of(specification: &Path) -> Result<Chosen, Error> {
        Chosen::of_checked(specification, read(specification)?)
    }

    fn of_checked(specification: &Path, checked: Checked) -> Result<Chosen, Error> {
        if !checked.is_ok() {
            return Err(Error::Wrong(Box::new(checked)));
        }
        let machine = machine(specification, &checked.specification)?;
        match choose(&checked.specification, machine.as_ref()) {
            Ok(choice) => Ok(Chosen { checked, choice }),
            Err(refusal) => Err(Error::Refused(Box::new(checked), refusal)),
        }
    }

    /// Writes the crate into a folder; `None`: against the crates that this was built of.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn write(&self, folder: &Path, against: Option<&Against>) -> Result<Vec<CrateFile>, Error> {
        let own = Against::own();
        let against = against.or(own.as_ref()).ok_or(Error::Nowhere)?;
        let files = rust::crate_of(&self.checked, &self.choice, against).map_err(Error::Crate)?;
        rust::write_files(&files, folder).map_err(Error::Crate)?;
        Ok(files)
    }

    /// How the crate in a folder differs from the one that is written; `None`: against the same crates as that. Empty where it
    /// does not.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn drift(&self, folder: &Path, against: Option<&Against>) -> Result<Vec<Drift>, Error> {
        // Without a manifest that is what differs.
        let of_crate = || Against::of_crate(folder).or_else(Against::own);
        let against = against.cloned().or_else(of_crate).unwrap_or(Against::Workspace);
        let files = rust::crate_of(&self.checked, &self.choice, &against).map_err(Error::Crate)?;
        rust::drift(&files, folder).map_err(Error::Crate)
    }
}

/// [`Chosen::write`] of a specification's file.
///
/// # Errors
/// See [`Error`].
pub fn write(
    specification: &Path,
    folder: &Path,
    against: Option<&Against>,
) -> Result<Vec<CrateFile>, Error> {
    Chosen::of(specification)?.write(folder, against)
}

/// [`Chosen::drift`] of a specification's file.
///
/// # Errors
/// See [`Error`].
pub fn check(specification: &Path, folder: &Path) -> Result<Vec<Drift>, Error> {
    Chosen::of(specification)?.drift(folder, None)
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
    for module in language::files(&checked.sources[0]) {
        println!("cargo::rerun-if-changed={}", specification.with_file_name(module).display());
    }
    if let Some(machine) = &checked.specification.platform.machine.value {
        println!("cargo::rerun-if-changed={}", specification.with_file_name(machine).display());
    }
    let Chosen { checked, choice } = Chosen::of_checked(specification, checked)?;
    let [ends, contract] = rust::modules_of(&checked, &choice).map_err(Error::Crate)?;
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for (name, text) in [("", ends), ("_contract", contract)] {
        let path = folder.join(format!("{}{name}.rs", choice.plan.name));
        std::fs::write(&path, text).map_err(|error| Error::File(path, error))?;
    }
    Ok(())
}
