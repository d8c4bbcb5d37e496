//! `fusewire get`.

use std::fs::{File, metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use fusewire_files::Error;
use fusewire_files::client::get::{Destination, Existing, Options, Outlet, Plan};
use fusewire_files::net::said_first;

use crate::output::{Code, EXIT_CODES, Failure, Result};
use crate::report::Reporter;
use crate::transfer::{self, Moving};
use crate::url::Url;

/// What to get, and where to.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Get {
    /// fusewire://host[:port]/path of a file or a folder.
    url: Url,
    /// The name to give it, or with a slash at its end a folder to put it into; a file goes into a folder that
    /// is there. A pipe or a device is written to, - is standard output, /dev/null to check everything and
    /// keep nothing.
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    output: PathBuf,
    /// Replace a link that has the name given.
    #[arg(long, conflicts_with = "no_clobber")]
    force: bool,
    /// Leave files alone that have the same size and time here, or are newer.
    #[arg(long, conflicts_with = "no_clobber")]
    update: bool,
    /// Never replace a file.
    #[arg(long)]
    no_clobber: bool,
    /// Have the contents sent N times; all but one are only checked.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    copies: u32,
    /// Take files that grow while they are read, as they were at first.
    #[arg(long)]
    growing: bool,
    /// Begin anew instead of going on where an earlier transfer was broken off.
    #[arg(long)]
    no_resume: bool,
    /// Files are on the disk before they have their name.
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    pub moving: Moving,
}

/// Gets it.
pub fn run(get: &Get) -> Result {
    let moving = &get.moving;
    let options = Options {
        filter: moving.filter()?,
        existing: match (get.update, get.no_clobber) {
            (true, _) => Existing::KeepSame,
            (_, true) => Existing::Refuse,
            _ => Existing::Replace,
        },
        sync: get.sync,
        copies: get.copies,
        reply_bytes: moving.reply_bytes,
        bytes_per_s: moving.rate.unwrap_or(0),
        connections: moving.jobs,
        growing: get.growing,
        anew: get.no_resume,
        hashing: moving.hash,
        journal: None,
        here: Default::default(),
        forget: get.output.as_os_str() == "/dev/null",
    };
    let destination = get.destination()?;
    let paths = std::slice::from_ref(&get.output);
    let journal = transfer::journal("get", &get.url, paths, get.no_resume);
    let options = Options { journal, ..options };
    let stop = transfer::stop_flag()?;
    let reporter = Reporter::new(moving.voice(), &get.url);
    let plan = Plan::new(get.url.path.clone(), destination, options, Box::new(reporter.clone()));
    let mut worker = None;
    let (mut connector, link) = transfer::connect_saying(moving, &get.url, |element| {
        let worker = worker.insert(plan.worker(element));
        said_first(&mut |channel, scratch, now| worker.turn(channel, scratch, now))
    })?;
    transfer::run(&plan, (link, worker), &mut connector, moving, &reporter, "got", &stop)
}

impl Get {
    fn destination(&self) -> Result<Destination> {
        let path = &self.output;
        if path.as_os_str() == "-" || is_standard_output(path) {
            if self.moving.json {
                let text = "--json and the file both want standard output";
                return Err(Failure::new(Code::Usage, text).into());
            }
            return Ok(Destination::to_outlet(Outlet::new("standard output", || {
                let out = io::stdout().as_fd().try_clone_to_owned()?;
                Ok(Box::new(File::from(out)) as Box<dyn Write>)
            }))?);
        }
        let understand = match self.force {
            true => Destination::replacing_links,
            false => Destination::from_path,
        };
        understand(path, &self.url.path).map_err(|error| match error {
            Error::Link { .. } => {
                Failure::new(Code::Failed, format!("{error}; --force does that")).into()
            }
            error => Box::<dyn std::error::Error>::from(error),
        })
    }
}

/// One of the system's links to it, wherever it leads now: to a terminal, a pipe or a file.
fn is_standard_output(path: &Path) -> bool {
    let ours = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let (Ok(ours), Ok(there)) = (ours.and_then(|file| file.metadata()), metadata(path)) else {
        return false;
    };
    path.is_symlink() && (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}
