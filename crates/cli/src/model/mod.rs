//! `fusewire model …`.

mod calibrate;
mod check;
mod paper;
mod predict;

use std::path::PathBuf;

use clap::Subcommand;
use fusewire_model::Machine;

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

/// Larger files are no machine.
const FILE_MAX: u64 = 1 << 20;

/// Where this machine is kept when nothing else is said.
fn kept() -> Result<PathBuf> {
    let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = from("XDG_CACHE_HOME").or_else(|| Some(from("HOME")?.join(".cache")));
    let Some(cache) = cache else {
        let why = "neither XDG_CACHE_HOME nor HOME says where: use --machine FILE";
        return Err(Failure::new(Code::Usage, why).into());
    };
    let name: String = fusewire_calibration::processor()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    Ok(cache.join("fusewire").join(format!("machine-{name}.json")))
}

/// The machine in a file, or the one that is kept.
fn machine(file: Option<&PathBuf>) -> Result<Machine> {
    let path = match file {
        Some(path) => path.clone(),
        None => kept()?,
    };
    let wrong = |why: String| Failure::new(Code::Failed, format!("{}: {why}", path.display()));
    let len = std::fs::metadata(&path).map(|meta| meta.len()).map_err(|error| {
        wrong(format!("{error}; `fusewire model calibrate` measures this machine"))
    })?;
    if len > FILE_MAX {
        return Err(wrong(format!("{len} bytes are no machine")).into());
    }
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    let machine: Machine = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("{error}; `fusewire model calibrate` writes it anew")))?;
    machine.check().map_err(|error| wrong(error.to_string()))?;
    Ok(machine)
}
