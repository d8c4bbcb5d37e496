//! The codecs that `fusewire bench codec` compares with.
//!
//! One argument: a folder with the values (`ints`, big-endian 64-bit numbers; `reals`, big-endian binary64;
//! `strings`, a line each; `mpdus.ber`). It says which codecs it has (`codec type direction elements bytes`
//! a line, then an empty one), and then for each line `N ROUNDS` on standard input how many nanoseconds
//! that many rounds of the Nth took. Those in C are programs of their own that speak the same way.
#![forbid(unsafe_code)]

mod mpdu;
mod program;
mod prosts;
mod rasns;
mod rkyvs;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

/// The performance object's values.
pub struct Values {
    pub ints: Vec<i64>,
    pub reals: Vec<f64>,
    pub strings: Vec<String>,
    pub mpdus: Vec<u8>,
}

/// One codec, of one type, in one direction.
pub struct Case {
    pub codec: &'static str,
    pub of: &'static str,
    pub direction: &'static str,
    pub elements: usize,
    pub bytes: usize,
    pub round: Box<dyn FnMut()>,
}

fn read(folder: &Path) -> std::io::Result<Values> {
    let numbers = |name: &str| -> std::io::Result<Vec<[u8; 8]>> {
        Ok(std::fs::read(folder.join(name))?.as_chunks().0.to_vec())
    };
    Ok(Values {
        ints: numbers("ints")?.into_iter().map(i64::from_be_bytes).collect(),
        reals: numbers("reals")?.into_iter().map(f64::from_be_bytes).collect(),
        strings: std::fs::read_to_string(folder.join("strings"))?
            .lines()
            .map(String::from)
            .collect(),
        mpdus: std::fs::read(folder.join("mpdus.ber"))?,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder has the values?")?;
    let values = read(Path::new(&folder))?;
    let mut cases = Vec::new();
    rasns::cases(&values, &mut cases);
    mpdu::cases(&values, &mut cases);
    prosts::cases(&values, &mut cases);
    rkyvs::cases(&values, &mut cases);
    let mut programs = program::all(Path::new(&folder))?;
    let mut out = std::io::stdout().lock();
    for case in &cases {
        writeln!(
            out,
            "{} {} {} {} {}",
            case.codec, case.of, case.direction, case.elements, case.bytes
        )?;
    }
    for case in programs.iter().flat_map(|program| &program.cases) {
        writeln!(out, "{case}")?;
    }
    writeln!(out)?;
    out.flush()?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (which, rounds) = line.split_once(' ').ok_or("a number and rounds")?;
        let (mut which, rounds): (usize, u64) = (which.parse()?, rounds.parse()?);
        if let Some(case) = cases.get_mut(which) {
            let begin = Instant::now();
            (0..rounds).for_each(|_| (case.round)());
            writeln!(out, "{}", begin.elapsed().as_nanos())?;
        } else {
            which -= cases.len();
            let mut programs = programs.iter_mut();
            let program = programs.find(|program| {
                let has = which < program.cases.len();
                which -= if has { 0 } else { program.cases.len() };
                has
            });
            writeln!(out, "{}", program.ok_or("no such case")?.time(which, rounds)?)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Both directions of a codec.
pub fn pair(
    cases: &mut Vec<Case>,
    (codec, of): (&'static str, &'static str),
    (elements, bytes): (usize, usize),
    encode: impl FnMut() + 'static,
    decode: impl FnMut() + 'static,
) {
    cases.push(Case { codec, of, direction: "encode", elements, bytes, round: Box::new(encode) });
    cases.push(Case { codec, of, direction: "decode", elements, bytes, round: Box::new(decode) });
}
