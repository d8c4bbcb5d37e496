//! What a build without the feature `full` leaves out, and how to have it.

use clap::Subcommand;

use crate::output::{Code, Failure, Result};

/// Commands of a whole build, with their arguments.
#[derive(Subcommand)]
#[command(disable_help_flag = true)]
pub enum Absent {
    #[command(hide = true)]
    Asn1(Arguments),
    #[command(hide = true)]
    Model(Arguments),
    #[command(hide = true)]
    Advise(Arguments),
    #[command(hide = true)]
    Xdr(Arguments),
    #[command(hide = true)]
    Lab(Arguments),
    #[command(hide = true)]
    Bench(Arguments),
}

/// Whatever they are.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<std::ffi::OsString>,
}

/// Says how to have it.
pub fn run(absent: &Absent) -> Result {
    let name = match absent {
        Absent::Asn1(_) => "asn1",
        Absent::Model(_) => "model",
        Absent::Advise(_) => "advise",
        Absent::Xdr(_) => "xdr",
        Absent::Lab(_) => "lab",
        Absent::Bench(_) => "bench",
    };
    let why = format!(
        "`fusewire {name}` is left out of this build: cargo run --release --features full -- {name}"
    );
    Err(Failure::new(Code::Usage, why).into())
}
