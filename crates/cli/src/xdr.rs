//! `fusewire xdr`: the XDR compiler.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Checked, check};

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
    /// Files of the XDR language (RFC 4506), with or without programs (RFC 5531).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a line of JSON for each file.
    #[arg(long)]
    json: bool,
}

/// Which files, and what to write.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Compile {
    /// Files of the XDR language (RFC 4506), with or without programs (RFC 5531); each stands for itself.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
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

/// Does it.
pub fn run(xdr: &Xdr) -> Result {
    match xdr {
        Xdr::Check(check) => {
            let checked = read(&check.files)?;
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
    let checked = read(&compile.files)?;
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

fn read(files: &[PathBuf]) -> Result<Vec<Checked>> {
    Ok(asn1::sources(files)?.into_iter().map(check).collect())
}

/// Says what there is to say, and counts the files that are wrong.
fn say(checked: &[Checked], json: bool, out: &mut dyn Write) -> Result<usize> {
    let mut text = String::new();
    for file in checked {
        if json {
            let model = &file.model;
            let definitions = model.constants.len() + model.defs.len() + model.programs.len();
            let diagnostics = file.diagnostics.iter();
            let report = asn1::report(&file.source, file.is_ok(), definitions, diagnostics);
            text += &format!("{report}\n");
        } else {
            for diagnostic in &file.diagnostics {
                text += &diagnostic.display(&file.source).to_string();
            }
        }
    }
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(checked.iter().filter(|file| !file.is_ok()).count())
}
