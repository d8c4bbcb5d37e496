//! `fusewire lab worker`: what `fusewire lab run braun-memory` has valgrind watch.

use clap::Args;
use fusewire_lab::memory::{Task, work};

use crate::bench::kernels::level;
use crate::output::Result;

/// One side of one measurement.
#[derive(Args)]
pub struct Worker {
    #[arg(long)]
    level: String,
    #[arg(long)]
    messages: u32,
    #[arg(long)]
    integrated: bool,
    #[arg(long)]
    send: bool,
    #[arg(long)]
    safer: bool,
}

/// Does it.
pub fn run(worker: &Worker) -> Result {
    work(&Task {
        level: level(Some(&worker.level))?,
        integrated: worker.integrated,
        send: worker.send,
        safer: worker.safer,
        messages: worker.messages,
    });
    Ok(())
}
