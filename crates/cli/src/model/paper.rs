//! `fusewire model paper`.

use std::io::Write;

use clap::{Args, ValueEnum};
use fusewire_model::paper::{
    BSWAP_PES_CKSUM, Cache, Figure, Implementation, MACHINES, Machine, TABLE_2, time,
};
use serde_json::{Value, json};

use crate::output::{LOCAL_EXIT_CODES, Result, json};

/// The published model.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Paper {
    /// The points of a figure in place of Table 2: clocks a byte over state size and a second parameter.
    #[arg(long, value_name = "NUMBER")]
    figure: Option<Number>,
    /// Print a line of JSON for each value.
    #[arg(long)]
    json: bool,
}

/// A figure's number.
#[derive(Clone, Copy, ValueEnum)]
enum Number {
    /// State on the HP 9000-735/99.
    #[value(name = "3")]
    Three,
    /// State and number of functions.
    #[value(name = "5")]
    Five,
    /// State and block size.
    #[value(name = "6")]
    Six,
    /// State and memory access time.
    #[value(name = "7")]
    Seven,
}

impl Number {
    fn figure(self) -> Figure {
        match self {
            Number::Three => Figure::Three,
            Number::Five => Figure::Five,
            Number::Six => Figure::Six,
            Number::Seven => Figure::Seven,
        }
    }
}

/// Prints it.
pub fn run(paper: &Paper) -> Result {
    match (paper.figure, paper.json) {
        (Some(number), true) => points(number.figure())?.iter().try_for_each(json),
        (Some(number), false) => print_figure(number.figure()),
        (None, true) => table_2()?.iter().try_for_each(json),
        (None, false) => print_table_2(),
    }
}

fn cache_name(cache: Cache) -> &'static str {
    match cache {
        Cache::Cold => "cold",
        Cache::Warm => "warm",
    }
}

fn implementation_name(implementation: Implementation) -> &'static str {
    match implementation {
        Implementation::Integrated => "integrated",
        Implementation::Sequential => "sequential",
    }
}

fn table_2() -> Result<Vec<Value>> {
    let line = |row: &fusewire_model::paper::Published| {
        let ns = time(row.machine, &BSWAP_PES_CKSUM, row.cache, row.implementation)?;
        Ok(json!({
            "machine": row.machine.name,
            "cache": cache_name(row.cache),
            "implementation": implementation_name(row.implementation),
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
            "cache": cache_name(point.cache),
            "implementation": implementation_name(point.implementation),
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
            let (cache, implementation) =
                (cache_name(point.cache), implementation_name(point.implementation));
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
