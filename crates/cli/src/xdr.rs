//! `fusewire xdr`: the XDR compiler.

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Checked, Source, check_after};

use crate::asn1::{self, verdict};
use crate::output::{self, LOCAL_EXIT_CODES, Result};

/// What to do with files.
#[derive(Subcommand)]
pub enum Xdr {
    /// Says what is wrong with files of the XDR language.
    Check(Check),
    /// Writes Rust of files: types that call the crate fusewire-codec, and for each program stubs for clients
    /// and servers that call fusewire-rpc.
    Compile(Compile),
}

/// Which files.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Check {
    /// Files of the XDR language (RFC 4506), with or without programs (RFC 5531); each is read separately.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    supply: Supply,
    /// Print a line of JSON for each file.
    #[arg(long)]
    json: bool,
}

/// Which files, and what to write.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Compile {
    /// Files of the XDR language (RFC 4506), with or without programs (RFC 5531); each is compiled separately.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    supply: Supply,
    /// The folder to write into: FILE.rs for each FILE.x.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// A string is a String of UTF-8, and not bytes, which is all that RFC 4506 says of it.
    #[arg(long)]
    utf8_strings: bool,
    /// Types and numbers alone, without stubs for clients and servers.
    #[arg(long)]
    no_stubs: bool,
    /// Print a line of JSON for each file.
    #[arg(long)]
    json: bool,
}

/// Names that files use and do not declare.
#[derive(Args)]
struct Supply {
    /// Read this file before each FILE, which then can use its declarations. The output holds them, too.
    /// Repeat for several files.
    #[arg(long = "with", value_name = "FILE")]
    before: Vec<PathBuf>,
    /// Define a constant before each FILE is read, for example RPCSEC_GSS=6; without a value, define a name
    /// for `#ifdef` only. Repeat for several names.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = definition)]
    definitions: Vec<Source>,
}

fn definition(text: &str) -> std::result::Result<Source, &'static str> {
    fusewire_xdr::definition(text).ok_or("expected NAME or NAME=VALUE")
}

/// Does it.
pub fn run(xdr: &Xdr) -> Result {
    match xdr {
        Xdr::Check(check) => {
            let checked = read(&check.files, &check.supply)?;
            let wrong = say(&checked, check.json, &mut std::io::stdout().lock())?;
            if !check.json {
                let files = output::count(checked.len() as u64, "file");
                writeln!(std::io::stdout(), "{} of {files} right", checked.len() - wrong)?;
            }
            verdict(wrong, "")
        }
        Xdr::Compile(compile) => self::compile(compile),
    }
}

fn compile(compile: &Compile) -> Result {
    let checked = read(&compile.files, &compile.supply)?;
    let wrong = match compile.json {
        true => say(&checked, true, &mut std::io::stdout().lock())?,
        false => say(&checked, false, &mut std::io::stderr().lock())?,
    };
    verdict(wrong, ": nothing was written")?;
    let options = Options { utf8_strings: compile.utf8_strings, no_stubs: compile.no_stubs };
    let file = |(path, checked): (&PathBuf, &Checked)| {
        let name = Path::new(path.file_stem().unwrap_or(path.as_os_str())).with_extension("rs");
        (name, generate(checked, &options).unwrap_or_default())
    };
    asn1::write(&compile.output, compile.files.iter().zip(&checked).map(file).collect())
}

fn read(files: &[PathBuf], supply: &Supply) -> Result<Vec<Checked>> {
    let mut before = supply.definitions.clone();
    before.extend(asn1::sources(&supply.before)?);
    let check = |file| check_after(before.clone(), file);
    Ok(asn1::sources(files)?.into_iter().map(check).collect())
}

/// Reports all diagnostics, and returns the number of files that are wrong.
fn say(checked: &[Checked], json: bool, out: &mut dyn Write) -> Result<usize> {
    let mut text = String::new();
    // A file that was read before several others is reported once.
    let mut seen = HashSet::new();
    for file in checked {
        let sources = file.sources();
        let last = sources.len() - 1;
        if json {
            let model = &file.model;
            let definitions = model.constants.len() + model.defs.len() + model.programs.len();
            for (id, source) in sources.iter().enumerate() {
                let of = || file.diagnostics.iter().filter(|d| d.file == id);
                let is_wrong = of().any(|d| d.is_error());
                let report = if id == last {
                    asn1::report(source, file.is_ok(), definitions, of())
                } else {
                    asn1::report(source, !is_wrong, 0, of())
                };
                let line = format!("{report}\n");
                if id == last || (of().next().is_some() && seen.insert(line.clone())) {
                    text += &line;
                }
            }
        } else {
            for diagnostic in &file.diagnostics {
                let shown = file.display(diagnostic).to_string();
                if diagnostic.file == last || seen.insert(shown.clone()) {
                    text += &shown;
                }
            }
        }
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(checked.iter().filter(|file| !file.is_ok()).count())
}
