//! `fusewire get`.

use std::path::PathBuf;

use clap::Args;
use fusewire_files::client::get::{Destination, Existing, Options, Plan};

use crate::connect::Connector;
use crate::output::{EXIT_CODES, Result};
use crate::report::Reporter;
use crate::transfer::{self, Moving};
use crate::url::Url;

/// What to get, and where to.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Get {
    /// fusewire://host[:port]/path of a file or a folder.
    url: Url,
    /// A folder to put it into, or the name to give it; /dev/null to check everything and keep nothing.
    #[arg(short, long, value_name = "PATH", default_value = ".")]
    output: PathBuf,
    /// Leave files alone that have the same size and time here.
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
    moving: Moving,
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
        forget: get.output.as_os_str() == "/dev/null",
    };
    let destination = Destination::from_path(&get.output, &get.url.path)?;
    let stop = transfer::stop_flag()?;
    let mut connector = Connector::new(&moving.connect, &get.url)?;
    let link = connector.open()?;
    let reporter = Reporter::new(moving.voice(), &get.url);
    let plan = Plan::new(get.url.path.clone(), destination, options, Box::new(reporter.clone()));
    transfer::run(&plan, link, &mut connector, moving, &reporter, "got", &stop)
}
