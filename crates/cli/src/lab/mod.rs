//! `fusewire lab …`.

mod list;
mod report;
mod run;

use std::path::PathBuf;

use clap::Subcommand;
use fusewire_lab::record::Records;

use crate::output::Result;

/// What to do in the lab.
#[derive(Subcommand)]
pub enum Lab {
    /// Lists the experiments of the papers, and what there is of each.
    List(list::List),
    /// Runs experiments and keeps what they found.
    Run(run::Run),
    /// Makes a page of all that was found, theirs beside ours.
    Report(report::Report),
}

/// Does it.
pub fn run(lab: Lab) -> Result {
    match lab {
        Lab::List(list) => list::run(&list),
        Lab::Run(run) => run::run(&run),
        Lab::Report(report) => report::run(&report),
    }
}

/// Where records are.
fn records(folder: Option<&PathBuf>) -> Result<Records> {
    match folder {
        Some(folder) => Ok(Records::at(folder.clone())),
        None => Ok(Records::usual()?),
    }
}
