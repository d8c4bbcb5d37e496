//! From a plan to a crate: its files, as bytes that depend on nothing else, and what of them differs from a crate that is
//! there.
//!
//! Generated code has types and codecs, constants, and for each role an end with a call for each type of ADU. Whatever has
//! states or works on bytes is in `fusewire_service`, generic over those constants.

mod ends;
mod manifest;
mod supported;
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fusewire_asn1::parser::File;
use fusewire_asn1::rust::{self as asn1, Encoding, Generated};

use crate::choice::Choice;
use crate::explain::explain;
use crate::language::Checked;
use crate::plan::{AduPlan, Codec, Plan};

pub use manifest::Against;
pub(crate) use supported::not_applied;

/// What a crate is made of.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    /// What was chosen.
    pub plan: &'a Plan,
    /// The modules that the plan names, read without an error.
    pub modules: Vec<File>,
    /// The specification's name as comments say it: its file's, without a folder.
    pub specification: String,
}

impl<'a> Input<'a> {
    /// Of a specification without errors, and what was chosen for it.
    pub fn new(checked: &Checked, choice: &'a Choice) -> Input<'a> {
        let modules = checked.sources.iter().skip(1).enumerate();
        let modules = modules.map(|(place, source)| File::parse(place, source.clone()));
        let path = Path::new(checked.sources[0].name());
        let name = path.file_name().unwrap_or(path.as_os_str());
        let specification = name.to_string_lossy().into_owned();
        Input { plan: &choice.plan, modules: modules.collect(), specification }
    }
}

/// A file of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrateFile {
    /// From the crate's folder.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// Why there is no crate.
#[derive(Debug)]
pub enum Error {
    /// No module has the type.
    NoType {
        /// Of which ADU.
        adu: String,
        /// `Module.Type`.
        ty: String,
    },
    /// What was chosen cannot be generated yet.
    Unsupported(String),
    /// An end would not keep these clauses: a line for each, with its place and why.
    NotApplied(Vec<String>),
    /// A file could not be read or written.
    File(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoType { adu, ty } => write!(f, "{adu}: no module has a type `{ty}`"),
            Error::Unsupported(what) => write!(f, "{what} cannot be generated yet"),
            Error::NotApplied(lines) => f.write_str(&lines.join("\n")),
            Error::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

/// How a crate that is there differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// A file is missing.
    Missing(PathBuf),
    /// It is another from this line on, counted from 1.
    Differs {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
    },
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Drift::Missing(path) => write!(f, "{} is missing", path.display()),
            Drift::Differs { path, line } => {
                write!(f, "{}:{line} is not what the specification gives", path.display())
            }
        }
    }
}

/// The files of the crate of a specification without errors, and of what was chosen for it. The same gives the same bytes.
///
/// # Errors
/// [`Error::NoType`], [`Error::Unsupported`], [`Error::NotApplied`].
pub fn crate_of(
    checked: &Checked,
    choice: &Choice,
    against: &Against,
) -> Result<Vec<CrateFile>, Error> {
    let input = Input::new(checked, choice);
    supported::check(checked, input.plan)?;
    let generated = types(input.plan, &input.modules)?;
    let file = |path: &str, text: String| CrateFile { path: path.into(), text };
    Ok(vec![
        file("Cargo.toml", manifest::text(&input, against)),
        file("EXPLAIN.md", explain(checked, choice).markdown()),
        file("src/lib.rs", ends::text(&input, &generated)?),
        file("src/types.rs", asn1::joined(&generated)),
        file("tests/contract.rs", tests::text(&input)),
    ])
}

/// The ends and types as one module, and the contract tests as another, for a crate to include.
///
/// # Errors
/// As [`crate_of`].
pub(crate) fn modules_of(checked: &Checked, choice: &Choice) -> Result<[String; 2], Error> {
    let input = Input::new(checked, choice);
    supported::check(checked, input.plan)?;
    let generated = types(input.plan, &input.modules)?;
    // What begins a crate does not begin a module within one.
    let is_of_crate = |line: &&str| line.starts_with("//!") || line.starts_with("#![");
    let ends = ends::text(&input, &generated)?.replacen(
        "pub mod types;\n",
        &format!("pub mod types {{\n{}}}\n", asn1::joined(&generated)),
        1,
    );
    let is_head = |line: &&str| is_of_crate(line) || line.starts_with("use ");
    Ok([without(&ends, is_of_crate), without(&tests::text(&input), is_head)])
}

/// A text without some of its first lines.
fn without(text: &str, which: impl Fn(&&str) -> bool) -> String {
    let lines = text.lines().skip_while(|line| which(line) || line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Writes files, and makes the folders that they need. What is there and the same is not touched, so that nothing is built
/// again for it.
///
/// # Errors
/// [`Error::File`].
pub fn write_files(files: &[CrateFile], folder: &Path) -> Result<(), Error> {
    for file in files {
        let path = folder.join(&file.path);
        if std::fs::read(&path).is_ok_and(|bytes| bytes == file.text.as_bytes()) {
            continue;
        }
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, &file.text))
            .map_err(|error| Error::File(path, error))?;
    }
    Ok(())
}

/// How the crate in a folder differs from these files; what else is there is the user's.
///
/// # Errors
/// [`Error::File`] for one that is there and cannot be read.
pub fn drift(files: &[CrateFile], folder: &Path) -> Result<Vec<Drift>, Error> {
    let mut drifts = Vec::new();
    for file in files {
        let path = folder.join(&file.path);
        match std::fs::read(&path) {
            Ok(bytes) if bytes == file.text.as_bytes() => {}
            Ok(bytes) => {
                let same = bytes.iter().zip(file.text.as_bytes()).take_while(|(a, b)| a == b);
                let line = 1 + same.filter(|(a, _)| **a == b'\n').count();
                drifts.push(Drift::Differs { path: file.path.clone(), line });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                drifts.push(Drift::Missing(file.path.clone()));
            }
            Err(error) => return Err(Error::File(path, error)),
        }
    }
    Ok(drifts)
}

/// The Rust of the modules.
fn types(plan: &Plan, modules: &[File]) -> Result<Vec<Generated>, Error> {
    let mut encodings: Vec<Encoding> = plan.adus.iter().map(|adu| encoding(adu.codec)).collect();
    encodings.sort();
    encodings.dedup();
    // Struct or not, a type that is sent checks its constraints itself.
    let name = |adu: &AduPlan| format!("{}.{}", adu.asn1.0, adu.asn1.1);
    let messages = plan.adus.iter().map(name).collect();
    let options = asn1::Options { encodings, messages, ..asn1::Options::default() };
    if let Some(unknown) = options.unknown_message(modules) {
        let adu = plan.adus.iter().find(|adu| name(adu) == unknown);
        let adu = adu.map_or_else(String::new, |adu| adu.name.clone());
        return Err(Error::NoType { adu, ty: unknown.to_owned() });
    }
    Ok(asn1::generate(modules, &options))
}

fn encoding(codec: Codec) -> Encoding {
    match codec {
        Codec::Lws => Encoding::Lws,
        Codec::Xdr => Encoding::Xdr,
        Codec::Oer => Encoding::Oer,
        Codec::Ber => Encoding::Ber,
        Codec::Der => Encoding::Der,
    }
}

/// A string of TOML or of Rust: what the two escape alike.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out + "\""
}
