//! `fusewire model …`.

mod calibrate;
mod check;
mod paper;
mod predict;

use clap::Subcommand;

use crate::output::Result;

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
