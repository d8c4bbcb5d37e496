//! Generated ends beside the same ends by hand on the general `Endpoint`: the programs of `examples/bulk` and `examples/rpc`,
//! each over both, in turns. Programs check what arrives themselves, and fail where it is not what was sent. And a conference beside
//! the same over a stream of TCP, by a clock that nobody waits for.

mod between;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::cpu::children_cpu_seconds;
use crate::instructions::Counted;
pub use crate::instructions::are_counted;
use crate::process::Process;
use crate::stats::{median, range};
use crate::subsystem::{Call, Makes, Way, course};
use crate::transfer::Impairment;
use crate::{Error, Result};
use between::Between;

/// Generated ends cost no more than those by hand, but for what runs differ by.
const LIKE: Wanted = Wanted::AtMost(1.0 / 0.98);

/// What is compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the programs lie: Cargo's folder of a profile.
    pub folder: PathBuf,
    /// Seconds that a program works.
    pub seconds: u64,
    /// Bytes of a value that is asked for: those that the program has.
    pub sizes: Vec<usize>,
    /// Rounds; figures are medians.
    pub rounds: usize,
    /// Instructions are counted, too ([`are_counted`]).
    pub counts: bool,
    /// What lies between both ends of a program, each way alike. Of the conference, its share of losses alone.
    pub path: Impairment,
    /// How long the conference is, by its own clock.
    pub course: Duration,
}

/// What is wanted of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
}

impl Wanted {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Wanted::AtLeast(least) => ratio >= least,
            Wanted::AtMost(most) => ratio <= most,
        }
    }
}

/// One figure of both; `None` of what this machine does not count.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Which program.
    pub program: &'static str,
    /// Which figure, with its unit.
    pub figure: String,
    /// Of generated ends; the median.
    pub generated: Option<f64>,
    /// Of ends by hand; the median.
    pub by_hand: Option<f64>,
    /// The first by the second; the median of rounds.
    pub ratio: Option<f64>,
    /// The least and the largest of rounds.
    pub ratio_range: Option<[f64; 2]>,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// Whether the ratio is so.
    pub holds: Option<bool>,
}

/// A program, over which ends.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    /// What it is called with before its address, at either end.
    server: &'static str,
    client: &'static str,
    /// Lines that its author writes, in both cases, and for each alone.
    both: &'static [&'static str],
    specification: &'static str,
    by_hand: &'static str,
}

const BULK: Program = Program {
    name: "bulk",
    server: "sink",
    client: "source",
    both: &[
        include_str!("../../../../examples/bulk/src/app.rs"),
        include_str!("../../../../examples/bulk/Bulk.asn1"),
    ],
    specification: include_str!("../../../../examples/bulk/bulk.toml"),
    by_hand: include_str!("../../../../examples/bulk/by_hand/ends.rs"),
};

const RPC: Program = Program {
    name: "rpc",
    server: "server",
    client: "client",
    both: &[
        include_str!("../../../../examples/rpc/src/app.rs"),
        include_str!("../../../../examples/rpc/Kv.asn1"),
    ],
    specification: include_str!("../../../../examples/rpc/rpc.toml"),
    by_hand: include_str!("../../../../examples/rpc/by_hand/ends.rs"),
};

/// Measures, and hands on what is worked at.
///
/// # Errors
/// A program is not there, or fails.
pub fn run(plan: &Plan, working: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let mut lines = transfers(plan, working)?;
    for size in &plan.sizes {
        lines.extend(calls(plan, *size, working)?);
    }
    lines.extend(conferences(plan, working)?);
    for program in [BULK, RPC] {
        lines.push(sizes(plan, program)?);
        lines.push(user_lines(program)?);
    }
    Ok(lines)
}

/// A figure of rounds, of generated ends and by hand.
fn line(
    program: &'static str,
    figure: String,
    rounds: &[[f64; 2]],
    wanted: Wanted,
) -> Result<Line> {
    let none = || Error::Record("there are no rounds".into());
    let of = |which: usize| median(rounds.iter().map(|round| round[which])).ok_or_else(none);
    let ratios = || rounds.iter().map(|[generated, by_hand]| generated / by_hand);
    let ratio = median(ratios()).ok_or_else(none)?;
    Ok(Line {
        program,
        figure,
        generated: Some(of(0)?),
        by_hand: Some(of(1)?),
        ratio: Some(ratio),
        ratio_range: range(ratios()),
        wanted,
        holds: Some(wanted.holds(ratio)),
    })
}

/// The same of what may not be counted here.
fn counted(
    program: &'static str,
    figure: String,
    rounds: &[[Option<f64>; 2]],
    wanted: Wanted,
) -> Result<Line> {
    let both = |[generated, by_hand]: &[Option<f64>; 2]| Some([(*generated)?, (*by_hand)?]);
    match rounds.iter().map(both).collect::<Option<Vec<_>>>() {
        Some(rounds) => line(program, figure, &rounds, wanted),
        None => Ok(Line {
            program,
            figure,
            generated: None,
            by_hand: None,
            ratio: None,
            ratio_range: None,
            wanted,
            holds: None,
        }),
    }
}

fn path(plan: &Plan, program: Program, by_hand: bool) -> PathBuf {
    match by_hand {
        false => plan.folder.join(format!("{}-example", program.name)),
        true => plan.folder.join(format!("examples/{}-by-hand", program.name)),
    }
}

/// What both ends of a program have come to.
struct Ran {
    /// What the one that asks says in the end, and the other.
    said: [String; 2],
    cpu_seconds: f64,
    /// Of both, if they are counted.
    instructions: Option<f64>,
}

/// Which way of which round.
#[derive(Clone, Copy)]
struct Turn {
    by_hand: bool,
    /// Both ways of it lose the same packets.
    round: usize,
}

/// Runs both ends of a program, the one that asks with more words.
fn both_ends(plan: &Plan, program: Program, turn: Turn, words: &[String]) -> Result<Ran> {
    let path = path(plan, program, turn.by_hand);
    let start = |role, words: &[String]| {
        let mut command = Command::new(&path);
        command.args(words);
        Process::spawn(program.name, role, command)
    };
    let before = children_cpu_seconds();
    let mut server = start("server", &[program.server.into(), "127.0.0.1:0".into()])?;
    let invitation = server.line()?;
    let mut asks: Vec<String> = invitation.split_whitespace().map(Into::into).collect();
    let wrong = || Error::Wrong { method: program.name.into(), what: invitation.clone() };
    if asks.len() != 3 || asks[0] != program.client {
        return Err(wrong());
    }
    let at = asks[1].parse().map_err(|_| wrong())?;
    let between = match plan.path.is_clear() {
        true => None,
        false => Some(Between::new(at, &plan.path, turn.round as u64)?),
    };
    if let Some(between) = &between {
        asks[1] = between.at.to_string();
    }
    asks.push(plan.seconds.to_string());
    asks.extend_from_slice(words);
    let client = start("client", &asks)?;
    let counted = plan.counts.then(|| [&client, &server].map(|one| Counted::from_now(one.id())));
    let said = [client.last_line()?, server.last_line()?];
    let cpu_seconds = children_cpu_seconds() - before;
    let instructions = counted.and_then(|counted| {
        counted.into_iter().map(|one| one?.instructions()).sum::<Option<f64>>()
    });
    Ok(Ran { said, cpu_seconds, instructions })
}

/// The numbers that a line has, those of words that end in a comma too.
fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|word| word.trim_end_matches(',').parse().ok()).collect()
}

/// Both ways in turns.
fn rounds<T>(
    plan: &Plan,
    mut one: impl FnMut(Turn) -> Result<T>,
    mut take: impl FnMut([T; 2]),
) -> Result<()> {
    for round in 0..plan.rounds {
        let mut one = |by_hand| one(Turn { by_hand, round });
        // Who is first may find the machine otherwise than who is second.
        match round % 2 {
            0 => {
                let generated = one(false)?;
                take([generated, one(true)?]);
            }
            _ => {
                let by_hand = one(true)?;
                take([one(false)?, by_hand]);
            }
        }
    }
    Ok(())
}

fn transfers(plan: &Plan, working: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let (mut rates, mut costs, mut instructions) = (Vec::new(), Vec::new(), Vec::new());
    let one = |turn: Turn| {
        working(if turn.by_hand { "bulk by hand" } else { "bulk, generated" });
        let Ran { said: [_, sink], cpu_seconds, instructions } = both_ends(plan, BULK, turn, &[])?;
        match numbers(&sink)[..] {
            [bytes, rate] if bytes > 0.0 => {
                let each = instructions.map(|count| count * 1024.0 / bytes);
                Ok((rate, cpu_seconds * f64::from(1 << 30) / bytes, each))
            }
            _ => Err(Error::Wrong { method: "bulk".into(), what: sink }),
        }
    };
    rounds(plan, one, |[generated, by_hand]| {
        rates.push([generated.0, by_hand.0]);
        costs.push([generated.1, by_hand.1]);
        instructions.push([generated.2, by_hand.2]);
    })?;
    Ok(vec![
        line("bulk", "MB/s".into(), &rates, Wanted::AtLeast(0.98))?,
        line("bulk", "CPU s/GiB".into(), &costs, LIKE)?,
        counted("bulk", "instructions a KiB".into(), &instructions, LIKE)?,
    ])
}

fn calls(plan: &Plan, size: usize, working: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let (mut half, mut most, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    let mut instructions = Vec::new();
    let one = |turn: Turn| {
        let how = if turn.by_hand { "by hand" } else { "generated" };
        working(&format!("rpc of {size} bytes, {how}"));
        let ran = both_ends(plan, RPC, turn, &[size.to_string()])?;
        let [client, _] = ran.said;
        // "N answers, half within P50 us, 99 of 100 within P99 us, N late"
        match numbers(&client)[..] {
            [answers, p50, _, _, p99, _] if answers > 0.0 => {
                let each = ran.instructions.map(|count| count / answers);
                Ok(([p50, p99, ran.cpu_seconds * 1e6 / answers], each))
            }
            _ => Err(Error::Wrong { method: "rpc".into(), what: client }),
        }
    };
    rounds(plan, one, |[(generated, counted), (by_hand, counted_by_hand)]| {
        half.push([generated[0], by_hand[0]]);
        most.push([generated[1], by_hand[1]]);
        costs.push([generated[2], by_hand[2]]);
        instructions.push([counted, counted_by_hand]);
    })?;
    let figure = |name: &str| format!("{name} of {size} B, µs");
    Ok(vec![
        line("rpc", figure("p50"), &half, LIKE)?,
        line("rpc", figure("p99"), &most, Wanted::AtMost(0.8))?,
        line("rpc", figure("CPU time"), &costs, LIKE)?,
        counted("rpc", format!("instructions, {size} B"), &instructions, LIKE)?,
    ])
}

/// The course of RFC 8867, section 5.1: the generated conference, and over one stream of TCP an application that makes all that the
/// clauses allow, or as much as the least capacity has room for. Figures are the network's: the same everywhere.
fn conferences(plan: &Plan, working: &mut dyn FnMut(&str)) -> Result<Vec<Line>> {
    let (mut adus, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let mut one = |way, makes| {
            working(&format!("conference, {way:?}, {makes:?}"));
            course(way, makes, plan.path.loss, plan.course, round as u64)
        };
        let chosen = one(Way::Chosen, Makes::AsTold)?;
        let most = one(Way::One, Makes::Most)?;
        let least = one(Way::One, Makes::Least)?;
        let in_time = |call: &Call| call.in_time.iter().sum::<u64>() as f64;
        adus.push([in_time(&chosen), in_time(&most)]);
        bytes.push([chosen.bytes_in_time as f64 / 1e6, least.bytes_in_time as f64 / 1e6]);
    }
    Ok(vec![
        line("conference", "ADUs in time".into(), &adus, Wanted::AtLeast(2.0))?,
        line("conference", "MB in time, TCP tuned".into(), &bytes, Wanted::AtLeast(1.0))?,
    ])
}

fn sizes(plan: &Plan, program: Program) -> Result<Line> {
    let of = |by_hand| {
        let path = path(plan, program, by_hand);
        let bytes = fs::read(&path).map_err(Error::os("reading a program"))?;
        let what = format!("{} is no ELF file of 64 bits with .text", path.display());
        let wrong = Error::Wrong { method: program.name.into(), what };
        text_len(&bytes).ok_or(wrong).map(|len| len as f64 / 1024.0)
    };
    line(program.name, ".text, KiB".into(), &[[of(false)?, of(true)?]], Wanted::AtMost(0.7))
}

/// Bytes of `.text` of an ELF file of 64 bits in little-endian order (System V ABI, chapter 4).
fn text_len(elf: &[u8]) -> Option<u64> {
    let word = |at: usize, len: usize| {
        let bytes = elf.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |all: u64, byte| all << 8 | u64::from(*byte)))
    };
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, each) = (word(0x28, 8)? as usize, word(0x3a, 2)? as usize);
    let (count, names) = (word(0x3c, 2)? as usize, word(0x3e, 2)? as usize);
    let section = |n: usize| table.checked_add(n.checked_mul(each)?);
    let names = word(section(names)?.checked_add(0x18)?, 8)? as usize;
    (0..count).find_map(|n| {
        let at = section(n)?;
        let name = elf.get(names.checked_add(word(at, 4)? as usize)?..)?;
        name.starts_with(b".text\0").then(|| word(at.checked_add(0x20)?, 8))?
    })
}

/// Lines that a program's author writes: neither empty nor comments.
fn user_lines(program: Program) -> Result<Line> {
    let of = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with("//") && !line.starts_with("--")).count() as f64
    };
    let both: f64 = program.both.iter().map(|text| of(text)).sum();
    let (generated, by_hand) = (both + of(program.specification), both + of(program.by_hand));
    let figure = "lines of the user".into();
    line(program.name, figure, &[[generated, by_hand]], Wanted::AtMost(0.5))
}

/// The programs are in a folder.
pub fn are_in(folder: &Path) -> bool {
    let plan = |folder: &Path| Plan {
        folder: folder.into(),
        seconds: 1,
        sizes: vec![],
        rounds: 1,
        counts: false,
        path: Impairment::default(),
        course: Duration::ZERO,
    };
    let paths = [BULK, RPC].map(|of| [false, true].map(|by_hand| path(&plan(folder), of, by_hand)));
    paths.iter().flatten().all(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_code_is_read_from_our_own_and_nothing_of_what_is_no_program() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let len = text_len(&own).unwrap();
        assert!(len > 10_000 && len < own.len() as u64, "{len} of {}", own.len());
        for end in (0..own.len().min(4096)).step_by(7) {
            assert_eq!(text_len(&own[..end]), None);
        }
        assert_eq!(text_len(b"no program"), None);
    }

    #[test]
    fn what_programs_say_has_its_numbers() {
        let said = "12 answers, half within 3.5 us, 99 of 100 within 7.0 us, 0 late";
        assert_eq!(numbers(said), [12.0, 3.5, 99.0, 100.0, 7.0, 0.0]);
        assert_eq!(numbers("all 65536 bytes are here, at 12 MB/s"), [65536.0, 12.0]);
    }
}
