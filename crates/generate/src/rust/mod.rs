//! From a plan to a crate: its files, as bytes that depend on nothing else, and what of them differs from a crate that is
//! there.
//!
//! Generated code has types and codecs, constants, and for each role an end with a call for each type of ADU. Whatever has
//! states or works on bytes is in `fusewire_service`, generic over those constants.

mod ends;
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use fusewire_asn1::parser::File;
use fusewire_asn1::rust::{self as asn1, Encoding, Generated};

use crate::plan::{Codec, Machine, Plan, Suite};

/// What a crate is made of besides its plan.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What was chosen.
    pub plan: &'a Plan,
    /// The modules that the plan names, read without an error.
    pub modules: &'a [File],
    /// The specification's name as comments say it: its file's, without a folder.
    pub specification: &'a str,
    /// What `EXPLAIN.md` says.
    pub explained: &'a str,
    /// Where Fusewire's crates are.
    pub fusewire: Fusewire,
}

/// Where the generated crate finds ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fusewire {
    /// In this folder of crates, absolute or from the crate's own folder.
    Path(PathBuf),
    /// Where the workspace that the crate is a member of says.
    Workspace,
}

/// A file of the crate.
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
    Unsupported(&'static str),
    /// A file could not be read or written.
    File(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoType { adu, ty } => write!(f, "{adu}: no module has a type `{ty}`"),
            Error::Unsupported(what) => write!(f, "{what} cannot be generated yet"),
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

/// The files of the crate.
///
/// # Errors
/// [`Error::NoType`], [`Error::Unsupported`].
pub fn files(input: &Input<'_>) -> Result<Vec<CrateFile>, Error> {
    let plan = input.plan;
    if plan.suite == Suite::Plain {
        return Err(Error::Unsupported("a session without encryption"));
    }
    if matches!(plan.machine, Machine::Datagram | Machine::Group) {
        return Err(Error::Unsupported("an end over datagrams or for a group"));
    }
    let generated = types(plan, input.modules)?;
    let file = |path: &str, text: String| CrateFile { path: path.into(), text };
    Ok(vec![
        file("Cargo.toml", manifest(input)),
        file("EXPLAIN.md", input.explained.to_owned()),
        file("src/lib.rs", ends::text(input, &generated)?),
        file("src/types.rs", types_text(&generated)),
        file("tests/contract.rs", tests::text(input)),
    ])
}

/// Writes them, and makes the folders that they need.
///
/// # Errors
/// [`Error::File`].
pub fn write(files: &[CrateFile], folder: &Path) -> Result<(), Error> {
    for file in files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        let written = std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, &file.text));
        written.map_err(|error| Error::File(path, error))?;
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

/// For build scripts: the ends and types as one file of that name in Cargo's output folder, for the crate to include.
/// `Input::fusewire` and `Input::explained` are not asked for.
///
/// # Errors
/// As [`files`]; there is no such folder, or it cannot be written to.
pub fn write_out(input: &Input<'_>, name: &str) -> Result<(), Error> {
    let folder = std::env::var_os("OUT_DIR").unwrap_or_default();
    let generated = types(input.plan, input.modules)?;
    let ends = ends::text(input, &generated)?;
    // What begins a crate does not begin a module within one.
    let mut lines: Vec<_> = ends.lines().filter(|l| !l.starts_with("//!") && !l.starts_with("#![")).collect();
    lines.retain(|line| *line != "pub mod types;");
    let text = format!("{}\npub mod types {{\n{}}}\n", lines.join("\n"), types_text(&generated));
    let path = Path::new(&folder).join(name);
    std::fs::write(&path, text).map_err(|error| Error::File(path, error))
}

/// The Rust of the modules.
fn types(plan: &Plan, modules: &[File]) -> Result<Vec<Generated>, Error> {
    let mut encodings: Vec<Encoding> = plan.adus.iter().map(|adu| encoding(adu.codec)).collect();
    encodings.sort();
    encodings.dedup();
    // Struct or not, a type that is sent checks its constraints itself.
    let name = |adu: &crate::plan::AduPlan| format!("{}.{}", adu.asn1.0, adu.asn1.1);
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

fn types_text(generated: &[Generated]) -> String {
    format!("//! The types of the ASN.1 modules, and their codecs.\n\n{}", asn1::joined(generated))
}

fn manifest(input: &Input<'_>) -> String {
    let Input { plan, specification, .. } = input;
    let dependency = |name: &str| match &input.fusewire {
        Fusewire::Path(path) => {
            let path = path.join(name);
            format!("fusewire-{name} = {{ path = {} }}\n", quoted(&path.display().to_string()))
        }
        Fusewire::Workspace => format!("fusewire-{name}.workspace = true\n"),
    };
    let alone = match input.fusewire {
        Fusewire::Path(_) => "\n# A workspace of its own, wherever it lies.\n[workspace]\n",
        Fusewire::Workspace => "",
    };
    format!(
        "# Generated by `fusewire generate` from {specification}. Changes here are lost.\n\
         [package]\nname = {}\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{}{}{alone}",
        quoted(&plan.name),
        dependency("codec"),
        dependency("service"),
    )
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
