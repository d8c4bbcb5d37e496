//! `fusewire model …`.

mod calibrate;
mod check;
mod paper;
mod predict;

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use fusewire_model::Machine;
use fusewire_model::machine::{Error, VERSION};

use crate::output::{Code, Failure, Result};

/// What to ask the model.
#[derive(Subcommand)]
pub enum Model {
    /// Measures this machine for the model, and keeps what it found.
    Calibrate(calibrate::Calibrate),
    /// Says what a pipeline costs in one loop, in strips and in separate passes, and what bounds it.
    Predict(predict::Predict),
    /// Puts the model's answers beside measurements.
    Check(check::Check),
    /// Ahlgren's model as published: what it says for its machines, beside what the paper prints.
    Paper(paper::Paper),
}

/// Runs it.
pub fn run(model: &Model) -> Result {
    match model {
        Model::Calibrate(calibrate) => calibrate::run(calibrate),
        Model::Predict(predict) => predict::run(predict),
        Model::Check(check) => check::run(check),
        Model::Paper(paper) => paper::run(paper),
    }
}

/// Larger files hold something else.
const FILE_MAX: u64 = 1 << 20;

/// Where this machine is kept when nothing else is said.
fn kept() -> Result<PathBuf> {
    fusewire_calibration::kept().ok_or_else(|| {
        let why = "neither XDG_CACHE_HOME nor HOME says where: use --machine FILE";
        Failure::new(Code::Usage, why).into()
    })
}

/// What every version of the form has.
#[derive(serde::Deserialize)]
struct Head {
    version: u32,
}

/// The machine in a file, or the one that is kept.
///
/// # Errors
/// When there is none, or what is there is none.
pub fn machine(file: Option<&PathBuf>) -> Result<Machine> {
    let path = match file {
        Some(path) => path.clone(),
        None => kept()?,
    };
    let wrong = |why: String| Failure::new(Code::Failed, format!("{}: {why}", path.display()));
    let text = text(&path)
        .map_err(|why| wrong(format!("{why}; `fusewire model calibrate` measures this machine")))?;
    let unread = |error: serde_json::Error| {
        wrong(format!("{error}; `fusewire model calibrate` writes it anew"))
    };
    // The version first: another one has other fields.
    let Head { version } = serde_json::from_str(&text).map_err(unread)?;
    if version != VERSION {
        return Err(wrong(Error::Version(version).to_string()).into());
    }
    let machine: Machine = serde_json::from_str(&text).map_err(unread)?;
    machine.check().map_err(|error| wrong(error.to_string()))?;
    Ok(machine)
}

/// The machine that is kept, if one is.
///
/// # Errors
/// When what is kept is none.
pub fn kept_machine() -> Result<Option<Machine>> {
    match kept() {
        Ok(path) if path.exists() => machine(Some(&path)).map(Some),
        _ => Ok(None),
    }
}

/// A file of JSON, as far as anybody writes one.
pub fn text(path: &Path) -> std::result::Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let len =
        file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if len as u64 > FILE_MAX {
        return Err(format!("more than {FILE_MAX} bytes"));
    }
    Ok(text)
}
