//! What every command prints alike: errors, exit codes, rates.

use std::error::Error as StdError;
use std::io::{self, Write};
use std::process::ExitCode;

/// What a command returns.
pub type Result<T = ()> = std::result::Result<T, Box<dyn StdError>>;

/// Success, or one line on standard error and exit code 1. A reader that went away is no error.
pub fn finish(result: Result) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(io) = error.downcast_ref::<io::Error>()
        && io.kind() == io::ErrorKind::BrokenPipe
    {
        return ExitCode::SUCCESS;
    }
    eprintln!("fusewire: {}", printable(&error.to_string()));
    ExitCode::FAILURE
}

/// Text that may come from the network or a file: no control character reaches the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Bytes a second, for people.
pub fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        r if r >= 1e9 => format!("{:.2} GB/s", r / 1e9),
        r if r >= 1e6 => format!("{:.0} MB/s", r / 1e6),
        r => format!("{:.0} kB/s", r / 1e3),
    }
}

/// Prints one line of JSON.
///
/// # Errors
/// When standard output is closed.
pub fn json(value: &impl serde::Serialize) -> Result {
    writeln!(io::stdout().lock(), "{}", serde_json::to_string(value)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_character_passes() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }

    #[test]
    fn rates() {
        assert_eq!(rate(3.456e9), "3.46 GB/s");
        assert_eq!(rate(12.3e6), "12 MB/s");
    }
}
