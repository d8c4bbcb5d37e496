//! `fusewire generate`: a communication subsystem of what an application requires.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use fusewire_generate::choice::choose;
use fusewire_generate::explain::explain;
use fusewire_generate::make::{self, Chosen, read};
use fusewire_generate::report::{refused, report};
use fusewire_generate::rust::{self, Against, without_code};

use crate::output::{self, Code, Failure, Result, json, printable};

const EXIT_CODES: &str = "\
docs/generate.md has the language.

Exit codes:
  0    everything was done
  1    something is wrong in the specification, or in a file of ASN.1; it says where and what was expected. With
       --check: the crate is not what the specification gives
  2    the command line is wrong
  3    refused: what is asked for cannot be had; it says which clauses do not go together. With -o, also: it can be had,
       and no code can be made of it yet; it says of which clauses";

/// Makes a communication subsystem of what an application requires: chooses its parts, or says which requirements do not
/// go together.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Generate {
    /// The specification; files of ASN.1 that it names lie beside it.
    #[arg(value_name = "SPEC.toml")]
    specification: PathBuf,
    /// Write the crate of it into a folder: types, an end for each role, contract tests, EXPLAIN.md.
    #[arg(short, long, value_name = "CRATE")]
    output: Option<PathBuf>,
    /// Write nothing, and say how the crate differs from what the specification gives.
    #[arg(long, requires = "output")]
    check: bool,
    /// The folder of Fusewire's crates, or `workspace` for a crate that is a member of a workspace which has them
    /// [default: the crates that this program was built of].
    #[arg(long, value_name = "FOLDER", requires = "output")]
    against: Option<PathBuf>,
    /// Say of each part why it was chosen, by which clauses, and what each other one would break or cost.
    #[arg(long)]
    explain: bool,
    /// Print a line of JSON: what is wrong or refused, the plan, and why it is so.
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    /// A machine that was calibrated says how data passes run [default: the specification's `platform.machine`, or
    /// none].
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
}

/// Chooses, says what, and writes it.
pub fn run(options: &Generate) -> Result {
    let against = against(options)?;
    let checked = read(&options.specification).map_err(failure)?;
    let file = printable(checked.sources[0].name());
    if !checked.is_ok() {
        if options.json {
            json(&report(&checked, None))?;
        } else {
            std::io::stderr().lock().write_all(checked.wrong().as_bytes())?;
        }
        let wrong = checked.diagnostics.iter().filter(|d| d.is_error()).count() as u64;
        let message = format!("{file}: {}", output::count(wrong, "error"));
        return Err(Failure::new(Code::Failed, message).into());
    }
    if !options.json {
        std::io::stderr().lock().write_all(checked.warnings().as_bytes())?;
    }
    let machine = match &options.machine {
        Some(file) => Some(crate::machine::machine(Some(file))?),
        None => make::machine(&options.specification, &checked.specification).map_err(failure)?,
    };
    let chosen = choose(&checked.specification, machine.as_ref());
    if options.json {
        json(&report(&checked, Some(&chosen)))?;
    }
    let choice = match chosen {
        Ok(choice) => choice,
        Err(refusal) => {
            let text = match options.json {
                true => format!("{file}: refused: {}", refusal.why),
                false => refused(&checked, &refusal).text(&file),
            };
            return Err(Failure::new(Code::Refused, text).into());
        }
    };
    let chosen = Chosen { checked, choice };
    if !options.json {
        let explanation = explain(&chosen.checked, &chosen.choice);
        let mut text = match options.explain {
            true => explanation.markdown(),
            false => explanation.summary(),
        };
        // What is to be written says itself why it is not.
        let is_shown = !options.explain && options.output.is_none();
        if let Some(why) = without_code(&chosen.checked, &chosen.choice).filter(|_| is_shown) {
            text += &format!("  no code is made of it: {why}\n");
        }
        text.lines().try_for_each(|line| output::text(printable(line)))?;
    }
    match &options.output {
        Some(folder) => made(options, &chosen, folder, against.as_ref()),
        None => Ok(()),
    }
}

/// The crates that are named, by a path that holds wherever the crate lies.
fn against(options: &Generate) -> Result<Option<Against>> {
    match &options.against {
        None => Ok(None),
        Some(path) if path.as_os_str() == "workspace" => Ok(Some(Against::Workspace)),
        Some(path) => match Against::folder(path) {
            Some(against) => Ok(Some(against)),
            None => {
                let shown = printable(&path.display().to_string());
                let why = format!("{shown}: Fusewire's crates are not there: it has no `service`");
                Err(Failure::new(Code::Usage, why).into())
            }
        },
    }
}

/// Writes the crate, or compares it.
fn made(options: &Generate, chosen: &Chosen, folder: &Path, against: Option<&Against>) -> Result {
    let shown = printable(&folder.display().to_string());
    if !options.check {
        let files = chosen.write(folder, against).map_err(failure)?;
        let count = output::count(files.len() as u64, "file");
        return if options.json { Ok(()) } else { output::text(format!("{shown}: {count}")) };
    }
    let drifts = chosen.drift(folder, against).map_err(failure)?;
    if drifts.is_empty() {
        let same = format!("{shown}: what the specification gives");
        return if options.json { Ok(()) } else { output::text(same) };
    }
    let lines: Vec<_> = drifts.iter().map(|drift| format!("{shown}: {drift}")).collect();
    Err(Failure::new(Code::Failed, lines.join("\n")).into())
}

/// With the exit code of whose fault it is.
fn failure(error: make::Error) -> Failure {
    let code = match &error {
        make::Error::Refused(..)
        | make::Error::Crate(rust::Error::Unsupported(_) | rust::Error::NotApplied(_)) => {
            Code::Refused
        }
        make::Error::Nowhere => Code::Usage,
        _ => Code::Failed,
    };
    Failure::new(code, error.to_string())
}
