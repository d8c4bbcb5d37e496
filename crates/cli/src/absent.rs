//! What a build without the feature `full` leaves out, and how to have it.

use clap::Subcommand;

use crate::output::{Code, Failure, Result};

/// Said below the list of commands.
pub const HELP: &str = "Left out of this build: asn1, model, advise, xdr, generate, lab, bench. With them: \
                        cargo build --release --features full";

/// Commands of a whole build, with their arguments.
#[derive(Subcommand)]
pub enum Absent {
    #[command(hide = true, disable_help_flag = true)]
    Asn1(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Model(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Advise(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Xdr(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Generate(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Lab(Arguments),
    #[command(hide = true, disable_help_flag = true)]
    Bench(Arguments),
}

/// Whatever they are.
#[derive(clap::Args)]
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
        Absent::Generate(_) => "generate",
        Absent::Lab(_) => "lab",
        Absent::Bench(_) => "bench",
    };
    let why = format!(
        "`fusewire {name}` is left out of this build: cargo run --release --features full -- {name}"
    );
    Err(Failure::new(Code::Usage, why).into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use crate::{Args, Command};

    #[test]
    fn what_is_left_out_says_so_and_helps_nobody_less() {
        let kind = |args: &[&str]| Args::try_parse_from(args).err().map(|error| error.kind());
        for help in [&["fusewire", "--help"][..], &["fusewire", "get", "--help"]] {
            assert_eq!(kind(help), Some(ErrorKind::DisplayHelp), "{help:?}");
        }
        assert_eq!(kind(&["fusewire", "bnech"]), Some(ErrorKind::InvalidSubcommand));
        for args in [&["bench", "transfer", "--json"][..], &["lab", "--help"], &["asn1"]] {
            let parsed = Args::try_parse_from([&["fusewire"], args].concat()).expect("it is known");
            let Command::Absent(absent) = parsed.command else { panic!("{args:?}") };
            let error = super::run(&absent).expect_err("it is not there").to_string();
            assert!(error.contains(args[0]) && error.contains("--features full"), "{error}");
        }
    }
}
