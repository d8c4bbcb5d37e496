//! `fusewire model …`.

mod calibrate;
mod check;
mod paper;
mod predict;

use std::io::IsTerminal;
use std::str::FromStr;

use clap::Subcommand;
use fusewire_kernels::Cipher;
use fusewire_model::{Pipeline, parse};
use indicatif::{ProgressBar, ProgressStyle};

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

/// On a terminal, how much of the measuring is done.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Result<Bar> {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(1000),
            false => ProgressBar::hidden(),
        };
        bar.set_style(ProgressStyle::with_template("{wide_bar} {elapsed}, {eta} left")?);
        Ok(Bar(bar))
    }

    /// A part of all, 0 to 1.
    fn says(&self, part: f64) {
        self.0.set_position((part * 1000.0) as u64);
    }

    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Reads a pipeline as users write it. A cipher may be named with its usual parameter or without one.
///
/// # Errors
/// When a part cannot be read.
pub fn pipeline(text: &str, level: &str) -> Result<Pipeline> {
    let mut pipeline =
        parse(text, level).map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
    if let Pipeline::DataPass { cipher, .. } = &mut pipeline
        && let Ok(known) = Cipher::from_str(cipher)
    {
        *cipher = known.to_string();
    }
    Ok(pipeline)
}
