//! `fusewire asn1 decode` and `encode`: values by the modules alone.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use data_encoding::HEXLOWER;
use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::{Encoding, Limits, Schema, jer, notation};

use super::dump::{Input, encodings, read};
use crate::output::{self, Code, Failure, LOCAL_EXIT_CODES, Result};

fn encoding() -> impl TypedValueParser<Value = Encoding> {
    let known = Encoding::ALL.map(|(name, help, _)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(known)
        .try_map(|name| Encoding::from_name(&name).ok_or("no encoding is called so"))
}

/// Which type, in which modules.
#[derive(Args)]
pub struct Of {
    /// A file of modules, or a folder of such files (*.asn, *.asn1); once for each.
    #[arg(short, long = "module", value_name = "FILE", required = true)]
    modules: Vec<PathBuf>,
    /// The type: Module.Type, or Type where but one module has it.
    #[arg(short, long = "type", value_name = "TYPE")]
    ty: String,
    /// The transfer syntax.
    #[arg(short, long, value_parser = encoding(), default_value = "ber")]
    encoding: Encoding,
}

/// Which value to show.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Decode {
    #[command(flatten)]
    of: Of,
    /// How the bytes stand in the file.
    #[arg(long, value_enum, default_value_t)]
    input: Input,
    /// Print JSON, by X.697.
    #[arg(long)]
    json: bool,
    /// Values that lie deeper within others are an error.
    #[arg(long, value_name = "LEVELS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=200))]
    depth: u32,
    /// The file that holds the encoding; standard input where it is missing or `-`.
    file: Option<PathBuf>,
}

/// Which value to write.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Encode {
    #[command(flatten)]
    of: Of,
    /// The value is JSON, by X.697.
    #[arg(long)]
    json: bool,
    /// Write hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// Write to a file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The file that holds `name Type ::= value`, or the value alone; standard input where it is missing or `-`.
    file: Option<PathBuf>,
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Code::Failed, message)
}

/// Reads the modules. What is wrong with one is said, and only its notation must be readable: published modules
/// come with mistakes in parts that a value has nothing to do with.
fn modules(paths: &[PathBuf]) -> Result<Vec<File>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
                .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
                .map_err(|e| failed(format!("{}: {e}", path.display())))?;
            inside.retain(|p| p.extension().is_some_and(|e| e == "asn" || e == "asn1"));
            inside.sort();
            found.extend(inside);
        } else {
            found.push(path.clone());
        }
    }
    let mut files = Vec::with_capacity(found.len());
    for (id, path) in found.iter().enumerate() {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| failed(format!("{name}: {e}")))?;
        files.push(File::parse(id, Source::new(name, &bytes)));
    }
    let mut messages = std::io::BufWriter::new(std::io::stderr().lock());
    for file in &files {
        for diagnostic in file.diagnostics.iter().filter(|d| d.is_error()) {
            write!(messages, "{}", diagnostic.display(&file.source))?;
        }
    }
    messages.flush()?;
    match files.iter().filter(|f| !f.is_readable()).count() {
        0 => Ok(files),
        wrong => Err(failed(format!("{} wrong", output::count(wrong as u64, "file"))).into()),
    }
}

fn wrong(error: fusewire_asn1_values::Error, files: &[File]) -> Failure {
    match error.place {
        Some((file, span)) if file < files.len() => {
            let source = &files[file].source;
            let at = source.position(span.start);
            failed(format!("{}:{}:{}: {error}", source.name(), at.line, at.column))
        }
        _ => failed(error.to_string()),
    }
}

/// Shows a value.
pub fn decode(decode: &Decode) -> Result {
    let files = modules(&decode.of.modules)?;
    let world = World::new(&files);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named(&decode.of.ty).map_err(|e| wrong(e, &files))?;
    let bytes = read(decode.file.as_deref())?;
    let limits = Limits { depth: decode.depth, ..Limits::default() };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for encoded in encodings(&bytes, decode.input)? {
        let value = decode.of.encoding.decode(&schema, ty, &encoded.bytes, limits);
        let value = value.map_err(|e| wrong(e, &files))?;
        let text = match decode.json {
            true => jer::to_json(&schema, &value, ty),
            false => format!(
                "value {} ::= {}",
                schema.get(ty).name,
                notation::to_text(&schema, &value, ty)
            ),
        };
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}

/// Writes a value.
pub fn encode(encode: &Encode) -> Result {
    let files = modules(&encode.of.modules)?;
    let text = read(encode.file.as_deref())?;
    let text = String::from_utf8(text).map_err(|_| failed("the value is not UTF-8"))?;
    let name = match &encode.file {
        Some(path) if path != Path::new("-") => path.display().to_string(),
        _ => "standard input".to_owned(),
    };
    let bytes = match encode.json {
        true => {
            let world = World::new(&files);
            let mut schema = Schema::new(&world);
            let ty = schema.type_named(&encode.of.ty).map_err(|e| wrong(e, &files))?;
            let value = jer::from_json(&schema, &text, ty).map_err(|e| wrong(e, &files))?;
            encode.of.encoding.encode(&schema, ty, &value).map_err(|e| wrong(e, &files))?
        }
        false => {
            let input = notation::Text::new(files.len(), &name, &text, &files, &encode.of.ty);
            let input = input.map_err(|e| wrong(e, &files))?;
            let world = World::new(files.iter().chain([input.file()]));
            let mut schema = Schema::new(&world);
            let ty = schema.type_named(&encode.of.ty).map_err(|e| wrong(e, &files))?;
            let value =
                notation::from_text(&mut schema, &input, ty).map_err(|e| wrong(e, &files))?;
            encode.of.encoding.encode(&schema, ty, &value).map_err(|e| wrong(e, &files))?
        }
    };
    write(encode, &bytes)
}

fn write(encode: &Encode, bytes: &[u8]) -> Result {
    let digits = encode.hex.then(|| HEXLOWER.encode(bytes) + "\n");
    let bytes = digits.as_ref().map_or(bytes, String::as_bytes);
    if let Some(path) = &encode.output {
        return std::fs::write(path, bytes)
            .map_err(|e| failed(format!("{}: {e}", path.display())).into());
    }
    let mut out = std::io::stdout().lock();
    if out.is_terminal() && !encode.hex {
        return Err(failed("bytes are not for a terminal: --hex, or -o FILE").into());
    }
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}
