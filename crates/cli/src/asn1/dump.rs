//! `fusewire asn1 dump`: any BER, without its module.

use std::io::{BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fusewire_asn1_values::dump::text::{Style, error_line, line};
use fusewire_asn1_values::dump::{Options, json, walk};
use fusewire_asn1_values::input::{self, Encoded, Form};

use crate::output::{self, Code, Failure, LOCAL_EXIT_CODES, Result};

/// What to show, and how.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Dump {
    /// A file; standard input where it is missing or `-`.
    file: Option<PathBuf>,
    /// How the bytes stand in the file.
    #[arg(long, value_enum, default_value_t)]
    input: Input,
    /// Look into OCTET STRINGs and BIT STRINGs that hold an encoding.
    #[arg(long)]
    nested: bool,
    /// Encodings that are nested deeper are an error.
    #[arg(long, value_name = "LEVELS", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    depth: u16,
    /// Bytes that are shown of a string.
    #[arg(long, value_name = "BYTES", default_value_t = 48)]
    octets: usize,
    /// Print a line of JSON for each encoding.
    #[arg(long)]
    json: bool,
    /// Colours.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Color,
}

/// How bytes stand in a file.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Input {
    /// As it looks.
    #[default]
    Auto,
    /// As they are.
    Ber,
    /// In base 64 between BEGIN and END lines; all of several are shown.
    Pem,
    /// As hexadecimal digits.
    Hex,
}

impl Input {
    /// For the library.
    pub fn form(self) -> Form {
        match self {
            Input::Auto => Form::Auto,
            Input::Ber => Form::Ber,
            Input::Pem => Form::Pem,
            Input::Hex => Form::Hex,
        }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment has NO_COLOR.
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Whether standard output has them.
    pub fn is_on(self) -> bool {
        match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
                !refused && std::io::stdout().is_terminal()
            }
        }
    }
}

/// More than this is not read.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The bytes of a file, or of standard input where it is missing or `-`.
pub fn read(file: Option<&Path>) -> Result<Vec<u8>> {
    let failed = |name: &str, e: std::io::Error| Failure::new(Code::Failed, format!("{name}: {e}"));
    let mut bytes = Vec::new();
    let name = match file {
        Some(path) if path != "-" => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).map_err(|e| failed(&name, e))?;
            file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| failed(&name, e))?;
            name
        }
        _ => {
            let name = "standard input".to_owned();
            let input = std::io::stdin().lock().take(FILE_BYTES_MAX + 1);
            { input }.read_to_end(&mut bytes).map_err(|e| failed(&name, e))?;
            name
        }
    };
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("{name}: longer than {}", output::size(FILE_BYTES_MAX));
        return Err(Failure::new(Code::Failed, message).into());
    }
    Ok(bytes)
}

/// The encodings in a file.
pub fn encodings(bytes: &[u8], input: Input) -> Result<Vec<Encoded<'_>>> {
    input::encodings(bytes, input.form())
        .map_err(|e| Failure::new(Code::Failed, e.to_string()).into())
}

/// Does it.
pub fn run(dump: &Dump) -> Result {
    let bytes = read(dump.file.as_deref())?;
    let options = Options { nested: dump.nested, depth: usize::from(dump.depth) };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut wrong = Vec::new();
    for encoded in encodings(&bytes, dump.input)? {
        if let Some(label) = encoded.label.as_deref().filter(|_| !dump.json) {
            writeln!(out, "{}:", output::printable(label))?;
        }
        if let Err(error) = one(&encoded, dump, options, &mut out)? {
            wrong.push(error);
        }
    }
    out.flush()?;
    match wrong.first() {
        None => Ok(()),
        Some(error) => Err(Failure::new(Code::Failed, format!("no BER: {error}")).into()),
    }
}

type Walked = std::result::Result<(), fusewire_asn1_values::dump::Error>;

fn one(
    encoded: &Encoded<'_>,
    dump: &Dump,
    options: Options,
    out: &mut impl Write,
) -> Result<Walked> {
    let mut style = Style::for_bytes(encoded.bytes.len(), dump.color.is_on());
    style.octets = dump.octets;
    let mut written = Ok(());
    let result = walk(&encoded.bytes, options, |event| {
        if written.is_ok() {
            written = match dump.json {
                true => writeln!(out, "{}", json::object(&event)),
                false => writeln!(out, "{}", line(&event, style)),
            };
        }
    });
    written?;
    if let Err(error) = &result {
        match dump.json {
            true => writeln!(out, "{}", json::error(error))?,
            false => writeln!(out, "{}", error_line(error, style))?,
        }
    }
    Ok(result)
}
