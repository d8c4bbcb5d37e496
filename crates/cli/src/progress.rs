//! What is being done, on standard error.

use std::io::{IsTerminal, Write};

/// In place on a terminal, elsewhere line by line.
pub struct Progress {
    /// Standard error is a terminal.
    pub terminal: bool,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { terminal: std::io::stderr().is_terminal() }
    }

    /// What has begun; on a terminal the next takes its place.
    pub fn report(&self, what: &str) {
        match self.terminal {
            true => self.write(what),
            false => eprintln!("{what}"),
        }
    }

    /// The same of a round; what is no round stays.
    #[cfg(feature = "full")]
    pub fn round(&self, what: &str) {
        self.report(what);
        if self.terminal && !what.starts_with("round ") {
            eprintln!();
        }
    }

    /// Makes room for other lines.
    pub fn clear(&self) {
        if self.terminal {
            self.write("");
        }
    }

    fn write(&self, what: &str) {
        eprint!("\r\x1b[K{what}");
        let _ = std::io::stderr().flush();
    }
}
