//! `fusewire model calibrate`.

use std::path::PathBuf;

use clap::Args;
use fusewire_calibration::{Effort, calibrate};
use fusewire_model::Machine;
use fusewire_model::machine::{Level, Place, Transform, Words};

use super::Bar;
use crate::machine::kept;
use crate::output::{Columns, LOCAL_EXIT_CODES, Result, head, json, row, text};

/// Measures this machine.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Calibrate {
    /// Where to keep it [default: fusewire/machine-PROCESSOR.json in the XDG cache folder].
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Print the machine as a line of JSON in place of a table.
    #[arg(long)]
    json: bool,
    /// A second, for tests: the figures mean little.
    #[arg(long)]
    quick: bool,
}

/// Does it.
pub fn run(options: &Calibrate) -> Result {
    let path = options.machine.clone().map_or_else(kept, Ok)?;
    let effort = if options.quick { Effort::SMOKE } else { Effort::FULL };
    let bar = Bar::new()?;
    let machine = calibrate(effort, &mut |part| bar.says(part))?;
    bar.clear();
    keep(&path, &machine)?;
    if options.json {
        return json(&machine);
    }
    print(&machine)?;
    text(format_args!("\nkept in {}", path.display()))
}

/// Whole or not at all.
fn keep(path: &std::path::Path, machine: &Machine) -> Result {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let part = path.with_extension("json.part");
    std::fs::write(&part, serde_json::to_string_pretty(machine)? + "\n")?;
    std::fs::rename(&part, path)?;
    Ok(())
}

fn print(machine: &Machine) -> Result {
    let ghz = 1.0 / machine.ns_per_cycle;
    text(format_args!("{}, {ghz:.2} GHz when measured", machine.processor))?;
    if machine.disturbed > 0.1 {
        let part = machine.disturbed * 100.0;
        text(format_args!(
            "the core was shared during {part:.0} % of the measurements: they may be off"
        ))?;
    }
    text("")?;
    head(WORDS)?;
    text(UNITS)?;
    machine.words.iter().try_for_each(|words| row(WORDS, words))?;
    text("")?;
    head(PLACES)?;
    machine.places.iter().try_for_each(|place| row(PLACES, place))?;
    machine.levels.iter().try_for_each(stages)?;
    text("")?;
    head(TRANSFORMS)?;
    machine.transforms.iter().try_for_each(|one| row(TRANSFORMS, one))
}

const WORDS: &Columns<Words> = &[
    ("words", -10, |w| w.name.clone()),
    ("registers", 9, |w| w.registers.to_string()),
    ("issue", 9, |w| format!("{:.2}", w.issue_per_cycle)),
    ("compute", 9, |w| format!("{:.2}", w.compute_per_cycle)),
    ("copied", 9, |w| format!("{:.2}", w.copied_per_cycle)),
    ("spill 1", 9, |w| spill(w, 1)),
    ("spill 32", 9, |w| spill(w, 32)),
    ("window", 9, |w| format!("{:.0}", w.window)),
    ("pass", 9, |w| start(w, 1)),
    ("of 3", 9, |w| start(w, 3)),
];
/// Under the heads of [`WORDS`].
const UNITS: &str = "                       a cycle   a cycle   a cycle    cycles    cycles              cycles    cycles";

/// Of a pass of 16 turns, in a run of so many.
fn start(words: &Words, passes: u32) -> String {
    let run = words.runs.iter().find(|run| run.passes == passes);
    let at = run.and_then(|run| run.starts.iter().find(|at| at.0 >= 16.0));
    format!("{:.0}", at.map_or(f64::NAN, |at| at.1))
}

fn spill(words: &Words, count: u32) -> String {
    let found = words.spills.iter().find(|at| at.0 == count);
    format!("{:.1}", found.map_or(f64::NAN, |at| at.1))
}

const PLACES: &Columns<Place> = &[
    ("place", -10, |p| p.name.clone()),
    ("KiB", 10, |p| match p.bytes / 1024.0 {
        kib if kib < 1e9 => format!("{kib:.0}"),
        _ => String::new(),
    }),
    ("read", 9, |p| format!("{:.3}", p.read_cycles_per_byte)),
    ("write", 9, |p| format!("{:.3}", p.write_cycles_per_byte)),
    ("copy", 9, |p| format!("{:.3}", p.copy_cycles_per_byte)),
    ("update", 9, |p| format!("{:.3}", p.update_cycles_per_byte)),
    ("latency", 9, |p| format!("{:.0}", p.latency_cycles)),
    // Bytes a cycle that are copied, as a bar.
    ("  cycles a byte, latency in cycles", 0, |p| {
        format!("  {}", "▇".repeat((1.0 / p.copy_cycles_per_byte.max(0.02)).round() as usize))
    }),
];

/// Each in a loop of its own.
fn stages(level: &Level) -> Result {
    let cells = |cells: &[f64]| cells.iter().map(|cell| format!(" {cell:>8.0}")).collect();
    let heads: String = cells(&level.lengths);
    text(format_args!("\n{:24}{heads}   bytes: cycles of the message", level.name))?;
    level.stages.iter().try_for_each(|stage| {
        let cells: String = cells(&stage.alone_cycles);
        text(format_args!("{:24}{cells}", stage.name))
    })
}

fn per_byte(point: Option<&(f64, f64)>) -> String {
    point.map_or(String::new(), |(bytes, cycles)| format!("{:.3}", cycles / bytes))
}

const TRANSFORMS: &Columns<Transform> = &[
    ("data pass", -18, |t| t.cipher.clone()),
    ("swap", 4, |t| t.swap_bytes.to_string()),
    ("way", -7, |t| if t.receives { "receive" } else { "send" }.into()),
    ("", -12, |t| t.implementation.name().into()),
    ("shortest", 9, |t| per_byte(t.near.first())),
    ("longest", 9, |t| per_byte(t.near.last())),
    ("memory", 9, |t| format!("{:.3}", t.cold_cycles_per_byte)),
    ("  cycles per byte", 0, |_| String::new()),
];
