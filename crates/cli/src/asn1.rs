//! `fusewire asn1`: the ASN.1 compiler.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use fusewire_asn1::{Checked, Source};
use serde_json::json;

use crate::output::{self, Code, EXIT_CODES, Failure, Result};

/// What to do with modules.
#[derive(Subcommand)]
pub enum Asn1 {
    /// Says what is wrong with modules.
    Check(Check),
}

/// Which modules.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Check {
    /// Files of modules, which may import from each other.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a line of JSON for each file.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn run(asn1: &Asn1) -> Result {
    match asn1 {
        Asn1::Check(check) => self::check(check),
    }
}

fn check(check: &Check) -> Result {
    let checked = fusewire_asn1::check(sources(&check.files)?);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in 0..checked.files.len() {
        if check.json {
            writeln!(out, "{}", report(&checked, file))?;
        } else {
            for diagnostic in checked.of(file) {
                write!(out, "{}", diagnostic.display(&checked.files[file].source))?;
            }
        }
    }
    let wrong = (0..checked.files.len()).filter(|&f| !checked.is_ok(f)).count();
    if !check.json {
        let (files, definitions) = (
            checked.files.len(),
            (0..checked.files.len()).map(|f| checked.definitions(f)).sum::<usize>(),
        );
        let right = files - wrong;
        writeln!(
            out,
            "{} of {} right, {}",
            right,
            output::count(files as u64, "file"),
            output::count(definitions as u64, "definition")
        )?;
    }
    out.flush()?;
    if wrong > 0 {
        let message = format!("{} wrong", output::count(wrong as u64, "file"));
        return Err(Failure::new(Code::Failed, message).into());
    }
    Ok(())
}

/// Reads the files.
fn sources(files: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::with_capacity(files.len());
    for path in files {
        let name = path.display().to_string();
        let bytes =
            std::fs::read(path).map_err(|e| Failure::new(Code::Failed, format!("{name}: {e}")))?;
        sources.push(Source::new(name, &bytes));
    }
    Ok(sources)
}

/// A file's line of JSON.
fn report(checked: &Checked, file: usize) -> serde_json::Value {
    let source = &checked.files[file].source;
    let diagnostics: Vec<_> = checked
        .of(file)
        .map(|d| {
            let at = d.position(source);
            json!({
                "severity": d.severity.as_str(),
                "line": at.line,
                "column": at.column,
                "token": d.token,
                "message": d.message,
                "help": d.help,
            })
        })
        .collect();
    json!({
        "file": source.name(),
        "ok": checked.is_ok(file),
        "definitions": checked.definitions(file),
        "diagnostics": diagnostics,
    })
}
