//! `fusewire asn1`: the ASN.1 compiler.

mod dump;
mod values;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use fusewire_asn1::rust::{Encoding, Options};
use fusewire_asn1::{Diagnostic, Source};
use serde_json::json;

use crate::output::{self, Code, Failure, LOCAL_EXIT_CODES, Result};

/// What to do with modules.
#[derive(Subcommand)]
pub enum Asn1 {
    /// Says what is wrong with modules.
    Check(Check),
    /// Writes Rust of modules: types, and codecs that call the crate fusewire-codec.
    Compile(Compile),
    /// Reads a value by its module, and prints it in value notation or JSON.
    Decode(values::Decode),
    /// Writes a value that stands in value notation or JSON.
    Encode(values::Encode),
    /// Shows any BER without its module: offsets, tags, lengths and values.
    Dump(dump::Dump),
}

/// Which modules, and what to write.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Compile {
    /// Files of modules, which may import from each other.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The folder to write into: a file for each module, and mod.rs.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Transfer syntaxes, with commas between them.
    #[arg(long, value_delimiter = ',', default_value = "ber,der", value_parser = encoding())]
    encodings: Vec<Encoding>,
    /// For crates without the standard library.
    #[arg(long)]
    no_std: bool,
    /// An INTEGER without bounds has 64 bits, not any width, and decoding refuses wider numbers.
    #[arg(long)]
    narrow_integers: bool,
    /// A type that is a message by itself though others are made of it: it keeps its constraints, as a struct. Once
    /// for each.
    #[arg(long = "message", value_name = "MODULE.TYPE")]
    messages: Vec<String>,
}

fn encoding() -> impl TypedValueParser<Value = Encoding> {
    PossibleValuesParser::new(Encoding::names())
        .try_map(|name| Encoding::from_name(&name).ok_or("no encoding is called so"))
}

/// Which modules.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
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
        Asn1::Compile(compile) => self::compile(compile),
        Asn1::Decode(decode) => values::decode(decode),
        Asn1::Encode(encode) => values::encode(encode),
        Asn1::Dump(dump) => dump::run(dump),
    }
}

fn check(check: &Check) -> Result {
    let checked = fusewire_asn1::check(sources(&check.files)?);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in 0..checked.files.len() {
        if check.json {
            let (source, is_ok) = (&checked.files[file].source, checked.is_ok(file));
            let definitions = checked.definitions(file);
            writeln!(out, "{}", report(source, is_ok, definitions, checked.of(file)))?;
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
    verdict(wrong, "")
}

/// A failure if files are wrong.
pub(crate) fn verdict(wrong: usize, consequence: &str) -> Result {
    if wrong == 0 {
        return Ok(());
    }
    let message = format!("{} wrong{consequence}", output::count(wrong as u64, "file"));
    Err(Failure::new(Code::Failed, message).into())
}

fn compile(compile: &Compile) -> Result {
    let checked = fusewire_asn1::check(sources(&compile.files)?);
    let mut messages = std::io::BufWriter::new(std::io::stderr().lock());
    for diagnostic in checked.diagnostics.iter().filter(|d| d.is_error()) {
        write!(messages, "{}", diagnostic.display(&checked.files[diagnostic.file].source))?;
    }
    messages.flush()?;
    drop(messages);
    let wrong = (0..checked.files.len()).filter(|&f| !checked.is_ok(f)).count();
    verdict(wrong, ": nothing was written")?;
    let options = Options {
        encodings: compile.encodings.clone(),
        no_std: compile.no_std,
        narrow_integers: compile.narrow_integers,
        messages: compile.messages.clone(),
    };
    if let Some(name) = options.unknown_message(&checked.files) {
        let message = format!("--message: no module has a type `{name}`");
        return Err(Failure::new(Code::Usage, message).into());
    }
    let modules = fusewire_asn1::rust::generate(&checked.files, &options);
    let mut list = String::from("//! Generated by Fusewire's ASN.1 compiler.\n\n");
    modules.iter().for_each(|module| list += &format!("pub mod {};\n", module.name));
    let file = |name: &str| PathBuf::from(format!("{}.rs", name.trim_start_matches("r#")));
    let mut files: Vec<_> = modules.into_iter().map(|m| (file(&m.name), m.text)).collect();
    files.push((PathBuf::from("mod.rs"), list));
    write(&compile.output, files)
}

/// Writes files of text into a folder, which is made.
pub(crate) fn write(folder: &Path, files: Vec<(PathBuf, String)>) -> Result {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(Code::Failed, format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| failed(&path, e))?;
    }
    Ok(())
}

/// Reads the files.
pub(crate) fn sources(files: &[PathBuf]) -> Result<Vec<Source>> {
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
pub(crate) fn report<'d>(
    source: &Source,
    is_ok: bool,
    definitions: usize,
    diagnostics: impl Iterator<Item = &'d Diagnostic>,
) -> serde_json::Value {
    let diagnostics: Vec<_> = diagnostics
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
        "ok": is_ok,
        "definitions": definitions,
        "diagnostics": diagnostics,
    })
}
