//! The codecs of others, in a process that times a case when it is told to (`peers/codec`).

use super::Case;
use super::ours::Typed;
use super::values::Values;
use crate::scratch::Scratch;
use crate::{Error, Result};
use data_encoding::HEXLOWER_PERMISSIVE;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The process, its cases, and the folder with its values.
pub(super) struct Peers {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Codec, type, direction, elements, bytes.
    pub(super) cases: Vec<(String, String, &'static str, usize, usize)>,
    folder: Scratch,
}

impl Peers {
    /// Starts `program` with the values.
    pub(super) fn start(program: &Path, values: &Values, typed: &Typed<'_>) -> Result<Peers> {
        let folder = Scratch::new()?;
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).map_err(Error::os("write values"))
        };
        let words = |bits: &mut dyn Iterator<Item = u64>| -> Vec<u8> {
            bits.flat_map(u64::to_be_bytes).collect()
        };
        write("ints", &words(&mut values.ints.iter().map(|int| *int as u64)))?;
        write("reals", &words(&mut values.reals.iter().map(|real| real.to_bits())))?;
        write("strings", typed.lines().as_bytes())?;
        write("mpdus.ber", &values.mpdus)?;
        let mut child = Command::new(program)
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::os("start the peers"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| failed("it has no output"))?;
        let output = BufReader::new(output);
        let mut peers = Peers { child, input, output, cases: Vec::new(), folder };
        loop {
            let line = peers.line()?;
            if line.is_empty() {
                return Ok(peers);
            }
            peers.cases.push(case(&line).ok_or_else(|| failed(&line))?);
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line).map_err(Error::os("hear the peers"))? {
            0 => Err(failed("it ended")),
            _ => Ok(line.trim_end().into()),
        }
    }

    /// Nanoseconds of `rounds` rounds of case `which`.
    pub(super) fn time(&mut self, which: usize, rounds: u64) -> Result<u64> {
        let input = self.input.as_mut().ok_or_else(|| failed("it has no input"))?;
        writeln!(input, "{which} {rounds}").map_err(Error::os("tell the peers"))?;
        let line = self.line()?;
        line.parse().map_err(|_| failed(&line))
    }

    /// What case `which` makes of the values, or why it does not.
    pub(super) fn made(&mut self, which: usize) -> Result<std::result::Result<Vec<u8>, String>> {
        let input = self.input.as_mut().ok_or_else(|| failed("it has no input"))?;
        writeln!(input, "{which} 0").map_err(Error::os("tell the peers"))?;
        let line = self.line()?;
        match line.strip_prefix("error ") {
            Some(why) => Ok(Err(why.into())),
            None => HEXLOWER_PERMISSIVE
                .decode(line.as_bytes())
                .map(Ok)
                .map_err(|_| failed("it answers with no bytes")),
        }
    }

    /// What case `which` makes again of what it reads in `bytes`.
    pub(super) fn made_of(
        &mut self,
        which: usize,
        bytes: &[u8],
    ) -> Result<std::result::Result<Vec<u8>, String>> {
        let given = self.folder.path().join("given");
        std::fs::write(given, bytes).map_err(Error::os("write bytes for the peers"))?;
        self.made(which)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // The end of its input is the end of the process.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn failed(what: &str) -> Error {
    Error::Wrong { method: "peers".into(), what: what.into() }
}

/// `codec type direction elements bytes`, of which the codec's name may have spaces.
fn case(line: &str) -> Option<(String, String, &'static str, usize, usize)> {
    let mut words = line.rsplitn(5, ' ');
    let bytes = words.next()?.parse().ok()?;
    let elements = words.next()?.parse().ok()?;
    let direction = match words.next()? {
        "encode" => "encode",
        "decode" => "decode",
        _ => return None,
    };
    let of = words.next()?.into();
    Some((words.next()?.into(), of, direction, elements, bytes))
}

impl<'v> From<&(String, String, &'static str, usize, usize)> for Case<'v> {
    fn from(
        (codec, of, direction, elements, bytes): &(String, String, &'static str, usize, usize),
    ) -> Self {
        let (codec, of) = (codec.clone(), of.clone());
        Case { codec, of, direction, elements: *elements, bytes: *bytes, round: Box::new(|| {}) }
    }
}
