//! What `get` and `put` do alike: several connections on one plan, the bar, the end.

use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use clap::Args;
use fusewire_base::Instant;
use fusewire_files::client::{Filter, Journal, Totals, get, put};
use fusewire_files::message::Code as Cause;
use fusewire_files::net::{Client, Control};
use fusewire_files::{Channel, Element, Error, Hashing, Scratch, Turn};
use fusewire_session::{Cipher, HeaderProtection, paths as paths_of_user};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::connect::{Connect, Connector};
use crate::options;
use crate::output::{Code, Failure, Result, count, json};
use crate::report::{End, Reporter, Voice, Watch};
use crate::url::Url;

/// How often the bar moves.
const DRAW_EVERY: Duration = Duration::from_millis(50);

/// What `get` and `put` both take.
#[derive(Args, Clone, Debug)]
pub struct Moving {
    /// Connections at once.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub jobs: u32,
    /// Only files that match: `*.rs` by name, `docs/*.md` by path below the folder.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Not what matches; a folder is left out with all that is in it.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Most bytes a second, over all connections, for example 20M.
    #[arg(long, value_name = "BYTES/S", value_parser = options::rate)]
    pub rate: Option<u64>,
    /// Most bytes of contents in one message; 0 is what a datagram carries.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub reply_bytes: u32,
    /// Who hashes contents (BLAKE3): both sides, and compare; the receiver alone, for its report and to go on where
    /// a transfer is broken off; or nobody. Without both, the cipher's tags alone say that what came is what was sent.
    #[arg(long, value_name = "WHO", default_value = "both", value_parser = options::hashing)]
    pub hash: Hashing,
    /// Print nothing but errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a line of JSON for each file, and a last one for all.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connect: Connect,
}

impl Moving {
    /// Which files.
    ///
    /// # Errors
    /// A pattern is none.
    pub fn filter(&self) -> Result<Filter> {
        let wrong =
            |e: fusewire_files::client::FilterError| Failure::new(Code::Usage, e.to_string());
        Ok(Filter::new(&self.include, &self.exclude).map_err(wrong)?)
    }

    /// Standard error is a terminal, and there is something to be seen on it.
    pub fn shows(&self) -> bool {
        !self.quiet && !self.json && std::io::stderr().is_terminal()
    }

    /// Where words go.
    pub fn voice(&self) -> Voice {
        let verbose = self.connect.carrying.is_verbose();
        Voice { quiet: self.quiet, json: self.json, verbose }
    }
}

/// One of the two plans.
pub trait Plan: Sync {
    /// What one connection does.
    type Worker: Send;
    /// A new one, for a connection whose contents are marshalled as `element`.
    fn worker(&self, element: Element) -> Self::Worker;
    /// Turns a worker until it is finished.
    fn work(
        worker: &mut Self::Worker,
        link: &mut Client,
        stop: &AtomicBool,
    ) -> std::result::Result<bool, Error>;
    /// Sums so far.
    fn totals(&self) -> Totals;
    /// All was done that there was to do.
    fn is_done(&self) -> bool;
    /// The first failure.
    fn take_error(&self) -> Option<Error>;
    /// What has come of what is broken off is kept.
    fn keeps(&self) -> bool;
}

type Step<'a> =
    &'a mut dyn FnMut(&mut dyn Channel, &mut Scratch, Instant) -> std::result::Result<Turn, Error>;

macro_rules! plan {
    ($Plan:ty, $Worker:ty, |$plan:ident| $is_done:expr) => {
        impl Plan for Arc<$Plan> {
            type Worker = $Worker;
            fn worker(&self, element: Element) -> $Worker {
                <$Plan>::worker(self, element)
            }
            fn work(
                worker: &mut $Worker,
                link: &mut Client,
                stop: &AtomicBool,
            ) -> std::result::Result<bool, Error> {
                let step: Step<'_> =
                    &mut |channel, scratch, now| worker.turn(channel, scratch, now);
                link.run(stop, step)
            }
            fn totals(&self) -> Totals {
                <$Plan>::totals(self)
            }
            fn is_done(&self) -> bool {
                let $plan: &$Plan = self;
                $is_done
            }
            fn take_error(&self) -> Option<Error> {
                <$Plan>::take_error(self)
            }
            fn keeps(&self) -> bool {
                <$Plan>::keeps(self)
            }
        }
    };
}

plan!(get::Plan, get::Worker, |plan| plan.is_done());
plan!(put::Plan, put::Worker, |plan| plan.is_finished());

/// Nobody reads any more what is written.
pub fn is_broken_pipe(error: &Error) -> bool {
    matches!(error, Error::Os { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Becomes true at the first Ctrl-C or SIGTERM; the second ends the process at once.
///
/// # Errors
/// The system refuses.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag down.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// How long who gives up waits until those whom it serves are told.
const TELLING: Duration = Duration::from_secs(1);

/// Ends the process by a signal, once those whom it serves have been told that it goes: connections are reset. `wake` lets the
/// stack look at `control`.
pub fn give_up(control: &Control, wake: impl Fn(), signal: i32) -> ! {
    control.give_up();
    wake();
    let begun = std::time::Instant::now();
    while !control.has_ended() && begun.elapsed() < TELLING {
        thread::sleep(Duration::from_millis(5));
    }
    std::process::exit(128 + signal)
}

/// Where [`give_up`] ends the process, nothing else does.
pub fn leave_it_to_the_signal(control: &Control) {
    while control.is_given_up() {
        thread::park();
    }
}

/// Says that a worker is at its end. When it says so its thread has not ended yet: who looked at that instead would
/// sleep once more.
struct AtEnd<'a> {
    running: &'a AtomicUsize,
    main: Thread,
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::Release);
        self.main.unpark();
    }
}

/// Finds the server and opens the first connection; with `--json` the last line is there also when there is none.
///
/// # Errors
/// As [`check_jobs`](crate::device::Carrying::check_jobs), [`Connector::new`] and [`Connector::open`].
pub fn connect<'a>(moving: &'a Moving, url: &Url) -> Result<(Connector<'a>, Client)> {
    connect_saying(moving, url, |_| Ok(Vec::new()))
}

/// [`connect`], and tells the server first what `first` makes of how contents are marshalled.
///
/// # Errors
/// As [`connect`], and those of `first`.
pub fn connect_saying<'a>(
    moving: &'a Moving,
    url: &Url,
    first: impl FnOnce(Element) -> std::result::Result<Vec<Vec<u8>>, Error>,
) -> Result<(Connector<'a>, Client)> {
    let carrying = &moving.connect.carrying;
    let connector =
        carrying.check_jobs(moving.jobs).and_then(|()| Connector::new(&moving.connect, url));
    let connector = connector.map(|connector| connector.quiet(moving.quiet));
    let connected = connector.and_then(|mut connector| {
        let link = connector.open_saying(&first(connector.element())?)?;
        Ok((connector, link))
    });
    if let Err(error) = &connected {
        not_connected(moving, &**error)?;
    }
    connected
}

/// Says in JSON that there is no connection.
pub fn not_connected(moving: &Moving, error: &dyn std::error::Error) -> Result {
    if !moving.json {
        return Ok(());
    }
    let (event, none) = ("summary", 0);
    json(&json!({
        "event": event,
        "files": none,
        "files_done": none,
        "bytes": none,
        "bytes_done": none,
        "failed": none,
        "interrupted": false,
        "error": error.to_string(),
    }))
}

/// Who does without the sender's hash needs tags that say the same.
fn vouched_for(hashing: Hashing, cipher: Cipher) -> Result {
    if hashing != Hashing::Both && cipher.is_insecure() {
        let text = format!("--hash: {cipher} has no tags that could stand in for the hash");
        return Err(Failure::new(Code::Usage, text).into());
    }
    Ok(())
}

/// Opens the journal of complete files of a transfer between `url` and `paths`, by which the same command goes on after
/// it was interrupted. Without one, because no file can be kept for it or the same command runs already, it begins anew.
pub fn journal(verb: &str, url: &Url, paths: &[PathBuf], anew: bool) -> Option<Arc<Journal>> {
    let mut command = format!("{verb}\0{url}").into_bytes();
    for path in paths {
        command.push(0);
        command.extend(std::path::absolute(path).ok()?.as_os_str().as_bytes());
    }
    let dir = paths_of_user().ok()?.identity.with_file_name("unfinished");
    let journal = Journal::open(&dir, &command, anew);
    let journal = journal.inspect_err(|error| tracing::debug!(%error, "there is no journal"));
    journal.ok().map(Arc::new)
}

/// Runs a plan over `jobs` connections, the first of which is open, perhaps with a worker that has begun, and prints how it
/// ended.
///
/// # Errors
/// What failed first, with its exit code.
pub fn run<P: Plan>(
    plan: &P,
    first: (Client, Option<P::Worker>),
    connector: &mut Connector<'_>,
    moving: &Moving,
    reporter: &Reporter,
    verb: &str,
    stop: &AtomicBool,
) -> Result {
    run_since(Watch::start(), plan, first, connector, moving, (reporter, verb), stop)
}

/// The same of what began before, by other means.
///
/// # Errors
/// As [`run`].
pub fn run_since<P: Plan>(
    watch: Watch,
    plan: &P,
    (first, begun): (Client, Option<P::Worker>),
    connector: &mut Connector<'_>,
    moving: &Moving,
    (reporter, verb): (&Reporter, &str),
    stop: &AtomicBool,
) -> Result {
    let options = first.options();
    vouched_for(moving.hash, options.cipher)?;
    let cipher = options.cipher.to_string();
    let record_padding = options.protection.map(HeaderProtection::padding);
    let mut links = vec![first];
    for _ in 1..moving.jobs {
        links.push(connector.open()?);
    }
    let noted: Vec<_> = links.iter().map(Client::notes).collect();
    let broken = work(plan, &mut links, begun, reporter, stop);
    let took = watch.took();
    for (link, noted) in links.iter().zip(noted) {
        // What has become of the device since it was told of.
        let new: Vec<_> = link.notes().into_iter().filter(|note| !noted.contains(note)).collect();
        if !new.is_empty() {
            moving.connect.carrying.say(link.carrier(), &new);
        }
    }
    let (done, failed) = (plan.is_done(), plan.take_error());
    let interrupted = stop.load(Ordering::Relaxed) && !done;
    let broken = broken.filter(|_| !done);
    let totals = plan.totals();
    let (broken_by, hashing) = (broken.as_deref(), moving.hash);
    let cipher = &cipher;
    let end = End { verb, took, interrupted, broken: broken_by, cipher, record_padding, hashing };
    reporter.summary(&totals, &end)?;
    if interrupted {
        let text = match plan.keeps() {
            true => "interrupted; what has come is kept: run the same command again to go on",
            false => "interrupted; not everything has come",
        };
        return Err(Failure::new(Code::Interrupted, text).into());
    }
    verdict(plan, (broken, failed), reporter)
}

/// Has each connection work in a thread of its own until all are at their end, and shows how far they are; why the first
/// that broke has broken.
fn work<P: Plan>(
    plan: &P,
    links: &mut [Client],
    mut begun: Option<P::Worker>,
    reporter: &Reporter,
    stop: &AtomicBool,
) -> Option<String> {
    let broken: Mutex<Option<String>> = Mutex::new(None);
    let (main, running) = (thread::current(), AtomicUsize::new(links.len()));
    thread::scope(|scope| {
        for link in links {
            let (broken, at_end) = (&broken, AtEnd { running: &running, main: main.clone() });
            let mut worker = begun.take().unwrap_or_else(|| plan.worker(link.element()));
            scope.spawn(move || {
                let _at_end = at_end;
                if let Err(error) = P::work(&mut worker, link, stop) {
                    let mut first = broken.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error.to_string());
                }
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            reporter.progress(&plan.totals());
            thread::park_timeout(DRAW_EVERY);
        }
    });
    broken.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How a plan that nobody interrupted has ended, `broken` being why not all of it was done, and `failed` what of it failed.
fn verdict(
    plan: &impl Plan,
    (broken, failed): (Option<String>, Option<Error>),
    reporter: &Reporter,
) -> Result {
    if let Some(why) = broken {
        let text = match plan.keeps() {
            true => format!("{why}\nWhat has come is kept: run the same command again to go on"),
            false => format!("{why}\nNot everything has come"),
        };
        return Err(Failure::new(Code::Connection, text).into());
    }
    // Whoever read it had enough.
    let Some(error) = failed.filter(|error| !is_broken_pipe(error)) else {
        return Ok(());
    };
    let code = if error.code() == Cause::Broken { Code::Connection } else { Code::Failed };
    let message = match reporter.told_failures() {
        true if error.is_no_space() => {
            "the transfer has ended; what is complete is kept: run the same command again when there is room".into()
        }
        true => String::new(),
        false => format!("{}: {error}", count(plan.totals().failed, "failure")),
    };
    Err(Failure::new(code, message).into())
}
