//! The report: one file of HTML that needs nothing else, made of the newest records.
//!
//! Text is written here, escaped; charts are drawn by `charts.js` from JSON that stands beside them. What a
//! record says is data and nothing else.

mod answer;
mod finding;
mod page;

use std::path::{Path, PathBuf};

use crate::change::Change;
use crate::experiment::Experiment;
use crate::experiments::ALL;
use crate::record::{Record, Records};
use crate::{Error, Result};

pub use finding::findings;

/// An experiment and its record, if there is one.
pub struct Entry {
    /// What it asks.
    pub experiment: &'static Experiment,
    /// What was found.
    pub record: Option<Record>,
    /// How that differs from what was found before.
    pub change: Option<Change>,
}

/// Every experiment with its newest record, and what is wrong with records that cannot be read.
pub fn entries(records: &Records) -> (Vec<Entry>, Vec<Error>) {
    let mut errors = Vec::new();
    let entry = |experiment: &'static Experiment| {
        let (found, wrong) = records.newest(experiment.name);
        errors.extend(wrong);
        let (record, change) =
            found.map_or((None, None), |(record, change)| (Some(record), change));
        Entry { experiment, record, change }
    };
    (ALL.iter().map(entry).collect(), errors)
}

/// The whole page.
pub fn html(entries: &[Entry]) -> String {
    page::html(entries)
}

/// Writes it to `index.html` in a folder; gives the file.
///
/// # Errors
/// When the operating system refuses.
pub fn write(entries: &[Entry], folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).map_err(Error::os("making the report's folder"))?;
    let path = folder.join("index.html");
    let part = folder.join("index.html.part");
    std::fs::write(&part, html(entries)).map_err(Error::os("writing the report"))?;
    std::fs::rename(&part, &path).map_err(Error::os("writing the report"))?;
    Ok(path)
}
