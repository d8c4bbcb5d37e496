//! `fusewire model paper`.

use std::io::Write;

use clap::Args;
use fusewire_model::paper::{BSWAP_PES_CKSUM, Figure, MACHINES, Machine, TABLE_2, time};
use serde_json::{Value, json};

use crate::output::{LOCAL_EXIT_CODES, Result, json};

/// The published model.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Paper {
    /// The points of a figure (3, 5, 6 or 7) in place of Table 2: clocks a byte over state size and a second parameter.
    #[arg(long, value_name = "NUMBER", value_parser = figure)]
    figure: Option<Figure>,
    /// Print a line of JSON for each value.
    #[arg(long)]
    json: bool,
}

/// A figure of the paper by its number.
fn figure(number: &str) -> std::result::Result<Figure, String> {
    let known = Figure::ALL.into_iter().find(|figure| figure.number().to_string() == number);
    known.ok_or_else(|| "expected 3, 5, 6 or 7".to_owned())
}

/// Prints it.
pub fn run(paper: &Paper) -> Result {
    match (paper.figure, paper.json) {
        (Some(figure), true) => points(figure)?.iter().try_for_each(json),
        (Some(figure), false) => print_figure(figure),
        (None, true) => table_2()?.iter().try_for_each(json),
        (None, false) => print_table_2(),
    }
}

fn table_2() -> Result<Vec<Value>> {
    let line = |row: &fusewire_model::paper::Published| {
        let ns = time(row.machine, &BSWAP_PES_CKSUM, row.cache, row.implementation)?;
        Ok(json!({
            "machine": row.machine.name,
            "cache": row.cache.name(),
            "implementation": row.implementation.name(),
            "ns_per_byte": ns.0,
            "published_ns_per_byte": row.modelled,
            "measured_real_ns_per_byte": row.real,
            "measured_synthetic_ns_per_byte": row.synthetic,
        }))
    };
    TABLE_2.iter().map(line).collect()
}

fn points(figure: Figure) -> Result<Vec<Value>> {
    let line = |point: &fusewire_model::paper::Point| {
        let mut line = json!({
            "figure": figure.number(),
            "cache": point.cache.name(),
            "implementation": point.implementation.name(),
            "state_words": point.state_words,
            "clocks_per_byte": point.clocks.0,
        });
        line[figure.axis().name()] = point.other.into();
        line
    };
    Ok(figure.points()?.iter().map(line).collect())
}

fn print_table_2() -> Result {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "BSWAP/PES/CKSUM, ns a byte: computed here (modelled, measured in the paper's Table 2)\n"
    )?;
    writeln!(
        out,
        "{:20} {:>20} {:>20} {:>20} {:>20}",
        "", "cold, sequential", "cold, integrated", "warm, sequential", "warm, integrated"
    )?;
    for machine in &MACHINES {
        write!(out, "{:20}", machine.name)?;
        for row in TABLE_2.iter().filter(|row| is(row.machine, machine)) {
            let ns = time(row.machine, &BSWAP_PES_CKSUM, row.cache, row.implementation)?;
            write!(out, " {:>20}", format!("{ns:.0} ({:.0}, {:.0})", row.modelled, row.real))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn is(one: &Machine, other: &Machine) -> bool {
    one.name == other.name
}

fn print_figure(figure: Figure) -> Result {
    let points = figure.points()?;
    let mut out = std::io::stdout().lock();
    let mut title = None;
    for point in &points {
        if title != Some((point.cache, point.implementation)) {
            title = Some((point.cache, point.implementation));
            let (cache, implementation) = (point.cache.name(), point.implementation.name());
            let axis = figure.axis().name();
            let number = figure.number();
            writeln!(out, "\n\nFigure {number}, {implementation}, {cache}: clocks a byte")?;
            write!(out, "{axis:>24}   state of each function from 0 to 16 words")?;
        }
        if point.state_words == 0 {
            write!(out, "\n{:>24}", point.other)?;
        }
        write!(out, " {:6.2}", point.clocks)?;
    }
    writeln!(out)?;
    Ok(())
}
