//! `fusewire generate`: a communication subsystem of what an application requires.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use fusewire_generate::choice::{Choice, choose};
use fusewire_generate::explain::explain;
use fusewire_generate::language::{Checked, Specification};
use fusewire_generate::make::{beside, read};
use fusewire_generate::report::{refused, report};
use fusewire_generate::rust::{self, Against, crate_of, drift, write_files};

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
    let checked = read(&options.specification)
        .map_err(|error| Failure::new(Code::Failed, error.to_string()))?;
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
    let machine = machine(options, &checked.specification)?;
    let chosen = choose(&checked.specification, machine.as_ref());
    if options.json {
        json(&report(&checked, Some(&chosen)))?;
    }
    let choice = match &chosen {
        Ok(choice) => choice,
        Err(refusal) => {
            let text = match options.json {
                true => format!("{file}: refused: {}", refusal.why),
                false => refused(&checked, refusal).text(&file),
            };
            return Err(Failure::new(Code::Refused, text).into());
        }
    };
    if !options.json {
        let explanation = explain(&checked, choice);
        let text = match options.explain {
            true => explanation.markdown(),
            false => explanation.summary(),
        };
        text.lines().try_for_each(|line| output::text(printable(line)))?;
    }
    match &options.output {
        Some(folder) => made(options, &checked, choice, folder),
        None => Ok(()),
    }
}

/// Writes the crate, or compares it.
fn made(options: &Generate, checked: &Checked, choice: &Choice, folder: &Path) -> Result {
    let failed = |why: String| Failure::new(Code::Failed, why);
    let against = match &options.against {
        Some(path) if path.as_os_str() == "workspace" => Some(Against::Workspace),
        Some(path) => Some(Against::Path(path.clone())),
        None if options.check => Against::of_crate(folder).or_else(Against::own),
        None => Against::own(),
    };
    let nowhere = "where are Fusewire's crates? Say it by --against FOLDER";
    let against = against.ok_or_else(|| Failure::new(Code::Usage, nowhere))?;
    let files = crate_of(checked, choice, &against).map_err(|error| {
        let code = match error {
            rust::Error::Unsupported(_) | rust::Error::NotApplied(_) => Code::Refused,
            _ => Code::Failed,
        };
        Failure::new(code, error.to_string())
    })?;
    let shown = printable(&folder.display().to_string());
    if !options.check {
        write_files(&files, folder).map_err(|error| failed(error.to_string()))?;
        let count = output::count(files.len() as u64, "file");
        return if options.json { Ok(()) } else { output::text(format!("{shown}: {count}")) };
    }
    let drifts = drift(&files, folder).map_err(|error| failed(error.to_string()))?;
    if drifts.is_empty() {
        let same = format!("{shown}: what the specification gives");
        return if options.json { Ok(()) } else { output::text(same) };
    }
    let lines: Vec<_> = drifts.iter().map(|drift| format!("{shown}: {drift}")).collect();
    Err(failed(lines.join("\n")).into())
}

/// The machine of the option, or of the specification. That of this host is not asked: the same specification gives the same
/// bytes on every one.
fn machine(options: &Generate, of: &Specification) -> Result<Option<fusewire_model::Machine>> {
    let named = of.platform.machine.value.as_ref();
    let named = named.map(|file| beside(&options.specification, file));
    let file = options.machine.clone().or(named);
    file.map(|file| crate::machine::machine(Some(&file))).transpose()
}
