//! `fusewire put`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use fusewire_files::RemotePath;
use fusewire_files::client::put::{Options, Plan, Source};

use crate::connect::Connector;
use crate::output::{Code, EXIT_CODES, Failure, Result};
use crate::report::Reporter;
use crate::transfer::{self, Moving};
use crate::url::Url;

/// What to put, and where to.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Put {
    /// Files and folders.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// fusewire://host[:port]/path: a name for what is put, or a folder if it ends in a slash or several
    /// things are put.
    url: Url,
    /// Never replace a file.
    #[arg(long)]
    no_clobber: bool,
    #[command(flatten)]
    moving: Moving,
}

/// Puts one thing after the other.
pub fn run(put: &Put) -> Result {
    let stop = transfer::stop_flag()?;
    let into_folder = put.url.is_folder || put.paths.len() > 1;
    let mut connector = Connector::new(&put.moving.connect, &put.url)?;
    let mut failed: Result = Ok(());
    for path in &put.paths {
        let result = one(put, path, into_folder, &mut connector, &stop);
        if result.is_err() && (put.paths.len() == 1 || stop.load(Ordering::Relaxed)) {
            return result;
        }
        if let Err(error) = result {
            let text = error.to_string();
            if !text.is_empty() {
                eprintln!("fusewire: {}", crate::output::printable(&text));
            }
            failed = Err(Failure::new(Code::Failed, "not everything was put").into());
        }
    }
    failed
}

fn one(
    put: &Put,
    path: &Path,
    into_folder: bool,
    connector: &mut Connector<'_>,
    stop: &std::sync::atomic::AtomicBool,
) -> Result {
    let moving = &put.moving;
    let options = Options {
        filter: moving.filter()?,
        replace: !put.no_clobber,
        reply_bytes: moving.reply_bytes,
        bytes_per_s: moving.rate.unwrap_or(0),
        connections: moving.jobs,
    };
    let source = Source::from_path(path)?;
    let remote = if into_folder { below(&put.url.path, path)? } else { put.url.path.clone() };
    let link = connector.open()?;
    let reporter = Reporter::new(moving.voice(), path.display());
    let plan = Plan::new(source, remote, options, Box::new(reporter.clone()));
    transfer::run(&plan, link, connector, moving, &reporter, "put", stop)
}

/// `path` under its own name in the folder. A folder named with a slash at its end, or as `.`, is its contents.
fn below(folder: &RemotePath, path: &Path) -> Result<RemotePath> {
    let is_contents = path.as_os_str().as_bytes().ends_with(b"/") || path.ends_with(".");
    match path.file_name() {
        Some(name) if !is_contents => Ok(folder.join(name.as_bytes())?),
        _ => Ok(folder.clone()),
    }
}
