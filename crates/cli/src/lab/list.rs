//! `fusewire lab list`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use fusewire_lab::report::entries;
use serde_json::json;

use super::records;
use crate::output::{LOCAL_EXIT_CODES, Result, json};

/// The experiments.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct List {
    /// Print JSON lines.
    #[arg(long)]
    json: bool,
    /// Where records are [default: fusewire/lab in the XDG data folder].
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
}

/// Prints them.
pub fn run(options: &List) -> Result {
    let (entries, errors) = entries(&records(options.records.as_ref())?);
    for error in &errors {
        eprintln!("{}", crate::output::printable(&error.to_string()));
    }
    let mut out = std::io::stdout().lock();
    for entry in &entries {
        let experiment = entry.experiment;
        let taken = entry.record.as_ref().map(|record| record.taken.as_str());
        let obstacle = experiment.obstacle();
        if options.json {
            json(&json!({
                "experiment": experiment.name,
                "paper": experiment.paper.authors(),
                "shows": experiment.shows,
                "question": experiment.question,
                "obstacle": obstacle,
                "record_taken": taken,
            }))?;
            continue;
        }
        let state = match (&obstacle, taken) {
            (Some(why), _) => why.clone(),
            (None, Some(taken)) => format!("record of {taken}"),
            (None, None) => "not run yet".to_owned(),
        };
        writeln!(out, "{:<22} {}: {}", experiment.name, experiment.shows, experiment.title)?;
        writeln!(out, "{:<22} {state}", "")?;
    }
    Ok(())
}
