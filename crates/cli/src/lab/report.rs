//! `fusewire lab report`.

use std::path::PathBuf;

use clap::Args;
use fusewire_lab::report::{entries, write};

use super::records;
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, count, printable};

/// The page.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Report {
    /// The folder that index.html goes to.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Where records are [default: fusewire/lab in the XDG data folder].
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
}

/// Writes it. Records that cannot be read are named and left out.
pub fn run(options: &Report) -> Result {
    if let Some(folder) = options.records.as_ref().filter(|folder| !folder.is_dir()) {
        let why =
            format!("--records: expected a folder of records, found none at {}", folder.display());
        return Err(Failure::new(Code::Usage, printable(&why)).into());
    }
    let records = records(options.records.as_ref())?;
    let (entries, errors) = entries(&records);
    let found = entries.iter().filter(|entry| entry.record.is_some()).count() as u64;
    let path = write(&entries, &options.output)?;
    println!("{}: {} of {} experiments", path.display(), found, entries.len());
    if errors.is_empty() {
        return Ok(());
    }
    let mut text: String = errors.iter().map(|error| format!("{error}\n")).collect();
    text += &format!("{} left out of the report", count(errors.len() as u64, "record"));
    Err(Failure::new(Code::Failed, text).into())
}
