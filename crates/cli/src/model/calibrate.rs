//! `fusewire model calibrate`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use fusewire_calibration::{Effort, calibrate};
use fusewire_model::Machine;
use indicatif::{ProgressBar, ProgressStyle};

use crate::machine::kept;
use crate::output::{LOCAL_EXIT_CODES, Result, json};

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
    let path = match &options.machine {
        Some(path) => path.clone(),
        None => kept()?,
    };
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(1000)
    } else {
        ProgressBar::hidden()
    };
    let style = ProgressStyle::with_template("{wide_bar} {elapsed}, {eta} left")?;
    bar.set_style(style);
    let effort = if options.quick { Effort::SMOKE } else { Effort::FULL };
    let machine = calibrate(effort, &mut |part| bar.set_position((part * 1000.0) as u64))?;
    bar.finish_and_clear();
    keep(&path, &machine)?;
    if options.json {
        return json(&machine);
    }
    print(&machine)?;
    println!("\nkept in {}", path.display());
    Ok(())
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
    let mut out = std::io::stdout().lock();
    let ghz = 1.0 / machine.ns_per_cycle;
    writeln!(out, "{}, {ghz:.2} GHz when measured", machine.processor)?;
    if machine.disturbed > 0.1 {
        let part = machine.disturbed * 100.0;
        writeln!(
            out,
            "the core was shared during {part:.0} % of the measurements: they may be off"
        )?;
    }
    writeln!(
        out,
        "\n{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "words", "registers", "issue", "compute", "copied", "spill 1", "spill 32", "window", "pass"
    )?;
    writeln!(
        out,
        "{:10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "", "", "a cycle", "a cycle", "a cycle", "cycles", "cycles", "", "cycles"
    )?;
    for words in &machine.words {
        let spill =
            |count| words.spills.iter().find(|at| at.0 == count).map_or(f64::NAN, |at| at.1);
        writeln!(
            out,
            "{:10} {:>9} {:>9.2} {:>9.2} {:>9.2} {:>9.1} {:>9.1} {:>9.0} {:>9.0}",
            words.name,
            words.registers,
            words.issue_per_cycle,
            words.compute_per_cycle,
            words.copied_per_cycle,
            spill(1),
            spill(32),
            words.window,
            words.pass_cycles
        )?;
    }
    writeln!(
        out,
        "\n{:10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}   cycles a byte, latency in cycles",
        "place", "KiB", "read", "write", "copy", "update", "latency"
    )?;
    for place in &machine.places {
        let kib = place.bytes / 1024.0;
        let kib = if kib < 1e9 { format!("{kib:.0}") } else { String::new() };
        writeln!(
            out,
            "{:10} {kib:>10} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.0}   {}",
            place.name,
            place.read_cycles_per_byte,
            place.write_cycles_per_byte,
            place.copy_cycles_per_byte,
            place.update_cycles_per_byte,
            place.latency_cycles,
            // Bytes a cycle that are copied, as a bar.
            "▇".repeat((1.0 / place.copy_cycles_per_byte.max(0.02)).round() as usize)
        )?;
    }
    stages(machine, &mut out)?;
    transforms(machine, &mut out)
}

/// Each in a loop of its own.
fn stages(machine: &Machine, out: &mut impl Write) -> Result {
    for level in &machine.levels {
        let row = |cells: &[f64]| cells.iter().map(|cell| format!(" {cell:>8.0}")).collect();
        let heads: String = row(&level.lengths);
        writeln!(out, "\n{:24}{heads}   bytes: cycles of the message", level.name)?;
        for stage in &level.stages {
            let cells: String = row(&stage.alone_cycles);
            writeln!(out, "{:24}{cells}", stage.name)?;
        }
    }
    Ok(())
}

fn transforms(machine: &Machine, out: &mut impl Write) -> Result {
    writeln!(
        out,
        "\n{:18} {:>4} {:12} {:>9} {:>9} {:>9}   cycles a byte, a message",
        "data pass", "swap", "", "near", "memory", "start"
    )?;
    for one in &machine.transforms {
        writeln!(
            out,
            "{:18} {:>4} {:12} {:>9.3} {:>9.3} {:>9.0}",
            one.cipher,
            one.swap_bytes,
            one.implementation.name(),
            one.cycles_per_byte,
            one.cold_cycles_per_byte,
            one.start_cycles
        )?;
    }
    Ok(())
}
