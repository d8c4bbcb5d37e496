//! What every command prints alike: errors, exit codes, rates.

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use data_encoding::HEXLOWER;
use fusewire_files::is_deceptive;

/// What a command returns.
pub type Result<T = ()> = std::result::Result<T, Box<dyn StdError>>;

/// What `--help` says of exit codes.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    everything was done
  1    something failed; what else could be done was done
  2    the command line is wrong
  3    refused: a key that is not trusted or not allowed, or no cipher in common
  4    no connection, or it broke: run the same command again to go on
  130  interrupted: run the same command again to go on";

/// The same of commands that connect to nobody.
pub const LOCAL_EXIT_CODES: &str = "\
Exit codes:
  0    everything was done
  1    something failed; what else could be done was done
  2    the command line is wrong";

/// Why a command failed, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Something failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A key is not trusted or not allowed, nothing could be agreed on, or what is asked for cannot be had.
    Refused = 3,
    /// No connection, or it broke.
    Connection = 4,
    /// Ctrl-C.
    Interrupted = 130,
}

/// A failure with an exit code of its own.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    message: String,
}

impl Failure {
    /// With words for a user; none if they were said already.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    /// Whether an error is one of this code.
    pub fn is(error: &(dyn StdError + 'static), code: Code) -> bool {
        error.downcast_ref::<Failure>().is_some_and(|failure| failure.code as u8 == code as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failure {}

/// Success, or what went wrong on standard error and its exit code. A reader that went away is no error.
pub fn finish(result: Result) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(io) = error.downcast_ref::<io::Error>()
        && io.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    let mut text = String::new();
    for line in error.to_string().lines() {
        text += if text.is_empty() { "fusewire: " } else { "\n" };
        text += &printable(line);
    }
    if !text.is_empty() {
        let _ = writeln!(io::stderr(), "{text}");
    }
    let code = error.downcast_ref::<Failure>().map_or(Code::Failed, |f| f.code);
    ExitCode::from(code as u8)
}

/// Text that may come from the network or a file: no control character reaches the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the command line of this process with `options`, already quoted, added to it.
pub fn command_line_with(options: &str) -> String {
    let arguments = std::env::args_os().skip(1);
    let mut words: Vec<String> = arguments.map(|word| quoted(&word.to_string_lossy())).collect();
    // Options must stand in front of a `--`.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(end, options.to_string());
    format!("fusewire {}", words.join(" "))
}

/// Bytes a second, for people.
pub fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        r if r >= 1e9 => format!("{:.2} GB/s", r / 1e9),
        r if r >= 1e6 => format!("{:.0} MB/s", r / 1e6),
        r => format!("{:.0} kB/s", r / 1e3),
    }
}

/// Bytes, for people.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e12 => format!("{:.2} TB", b / 1e12),
        b if b >= 1e9 => format!("{:.2} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        _ => format!("{bytes} B"),
    }
}

/// A count with its noun.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// Prints one line of JSON.
///
/// # Errors
/// When standard output is closed.
pub fn json(value: &impl serde::Serialize) -> Result {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json_line(value)?)?;
    out.flush()?;
    Ok(())
}

/// Prints a line.
///
/// # Errors
/// When standard output is closed.
pub fn text(line: impl fmt::Display) -> Result {
    Ok(writeln!(io::stdout().lock(), "{line}")?)
}

/// Columns of fixed width, so that lines can be printed as they come: head, width (negative: on the left), and what
/// stands there.
pub type Columns<T> = [(&'static str, isize, fn(&T) -> String)];

/// The heads of columns.
pub fn head<T>(columns: &Columns<T>) -> Result {
    cells(columns.iter().map(|(head, width, _)| ((*head).to_owned(), *width)))
}

/// A line of columns.
pub fn row<T>(columns: &Columns<T>, of: &T) -> Result {
    cells(columns.iter().map(|(_, width, cell)| (cell(of), *width)))
}

fn cells(cells: impl Iterator<Item = (String, isize)>) -> Result {
    let padded = cells.map(|(cell, width)| match (width < 0, width.unsigned_abs()) {
        (true, width) => format!("{cell:<width$}"),
        (false, width) => format!("{cell:>width$}"),
    });
    text(padded.collect::<Vec<_>>().join(" ").trim_end())
}

/// Prints lines of JSON, or a table.
#[cfg(feature = "full")]
pub fn lines<T: serde::Serialize>(lines: &[T], columns: &Columns<T>, as_json: bool) -> Result {
    if as_json {
        return lines.iter().try_for_each(json);
    }
    head(columns)?;
    lines.iter().try_for_each(|line| row(columns, line))
}

/// A figure, or a dash where there is none.
pub fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".into(), |value| format!("{value:.decimals$}"))
}

/// For callbacks that cannot fail: prints, unless that has failed before.
#[cfg(feature = "full")]
pub fn then(written: &mut Result, print: impl FnOnce() -> Result) {
    if written.is_ok() {
        *written = print();
    }
}

/// A line of JSON that any terminal shows as it is: what would act on one, or turn the direction of text, is
/// written as `\uXXXX`, which a parser turns back.
///
/// # Errors
/// The value is none of JSON's.
pub fn json_line(value: &impl serde::Serialize) -> Result<String> {
    let text = serde_json::to_string(value)?;
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            units.iter().for_each(|unit| line += &format!("\\u{unit:04x}"));
        } else {
            line.push(c);
        }
    }
    Ok(line)
}

/// The members of `value` and a path as `key`: as it is, which JSON escapes; where it is not UTF-8, with
/// U+FFFD in it, and all of its bytes in hexadecimal as `KEY_hex`.
pub fn with_path(mut value: serde_json::Value, key: &str, path: &[u8]) -> serde_json::Value {
    value[key] = String::from_utf8_lossy(path).into();
    if std::str::from_utf8(path).is_err() {
        value[&format!("{key}_hex")] = HEXLOWER.encode(path).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("fusewire://a:1/b%20c"), "fusewire://a:1/b%20c");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("[::1]:7"), "'[::1]:7'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn no_control_character_passes() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }

    #[test]
    fn rates() {
        assert_eq!(rate(3.456e9), "3.46 GB/s");
        assert_eq!(rate(12.3e6), "12 MB/s");
        assert_eq!((size(999), size(1500)), ("999 B".into(), "1.5 kB".into()));
    }

    #[test]
    fn a_path_comes_back_out_of_its_json() {
        let odd = "a\"b\\c\n\u{1b}[2J\u{9b}\u{202e}\u{e0041}é";
        let line = json_line(&with_path(serde_json::json!({}), "path", odd.as_bytes())).unwrap();
        assert!(!line.chars().any(is_deceptive), "{line:?}");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value, serde_json::json!({ "path": odd }));
        let value = with_path(serde_json::json!({}), "path", b"x\xff");
        assert_eq!(value, serde_json::json!({ "path": "x\u{fffd}", "path_hex": "78ff" }));
    }
}
