//! Peers that are programs of their own, as those in C are, and speak as this one does.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The programs that could be built here.
const PROGRAMS: [Option<&str>; 2] = [option_env!("ASN1C_PEER"), option_env!("TIRPC_PEER")];

/// One that runs, and ends with us.
pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its cases, as it says them.
    pub cases: Vec<String>,
}

impl Program {
    /// Starts it, and hears what it has.
    fn start(path: &str, folder: &Path) -> Result<Program> {
        let mut command = Command::new(path);
        command.arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::other("a program without pipes"));
        };
        let mut program = Program { child, input, output: BufReader::new(output), cases: Vec::new() };
        loop {
            match program.line()? {
                line if line.is_empty() => return Ok(program),
                line => program.cases.push(line),
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(Error::other("a peer in C has ended")),
            _ => Ok(line.trim_end().to_string()),
        }
    }

    /// The nanoseconds that rounds of one of its cases take; for none, what it makes.
    pub fn time(&mut self, case: usize, rounds: u64) -> Result<String> {
        writeln!(self.input, "{case} {rounds}")?;
        self.input.flush()?;
        self.line()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts all.
pub fn all(folder: &Path) -> Result<Vec<Program>> {
    PROGRAMS.into_iter().flatten().map(|path| Program::start(path, folder)).collect()
}
