//! What a transfer says while it goes on, and at its end.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use fusewire_files::client::{Event, Observer, Totals};
use fusewire_files::message::Code as Cause;
use fusewire_files::{Hashing, Lost};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::options::hashing_name;
use crate::output::{Result, count, json, printable, rate, size, with_path};
use crate::transfer::is_broken_pipe;

/// Where a transfer's words go.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// Nothing but errors.
    pub quiet: bool,
    /// A line of JSON a file, and a last one.
    pub json: bool,
    /// A line for each file.
    pub verbose: bool,
}

/// Columns of the bar itself.
const BAR: usize = 10;
/// Columns where the terminal does not say how many it has.
const COLUMNS: usize = 80;
/// The speed is that of about so long.
const PACE: Duration = Duration::from_secs(3);
/// The speed is measured this often.
const SAMPLE: Duration = Duration::from_millis(200);

/// How fast bytes are transferred. What was there already does not count.
#[derive(Debug)]
struct Pace {
    /// When the speed was measured, and the bytes transferred by then; `None` before the first time.
    last: Option<(Instant, u64)>,
    bytes_per_s: f64,
}

impl Pace {
    /// Takes note of the bytes transferred until `now`.
    fn update(&mut self, totals: &Totals, now: Instant) {
        let moved = moved(totals);
        let Some((at, before)) = self.last else {
            self.last = Some((now, moved));
            return;
        };
        let took = now.saturating_duration_since(at);
        if took < SAMPLE {
            return;
        }
        let bytes_per_s = moved.saturating_sub(before) as f64 / took.as_secs_f64();
        let weight = match self.bytes_per_s {
            0.0 => 1.0,
            _ => 1.0 - (-took.as_secs_f64() / PACE.as_secs_f64()).exp(),
        };
        self.bytes_per_s += weight * (bytes_per_s - self.bytes_per_s);
        self.last = Some((now, moved));
    }
}

/// Bytes that were transferred, without those that were there or lie in holes.
fn moved(totals: &Totals) -> u64 {
    totals.bytes_done.saturating_sub(totals.bytes_here.saturating_add(totals.bytes_holes))
}

/// The line that shows how far a transfer is: as much of it as fits into `columns`. The sum is followed by a plus, and
/// the time left is not known, until everything was found.
fn progress_line(totals: &Totals, bytes_per_s: f64, columns: usize) -> String {
    let done = totals.bytes_done.min(totals.bytes);
    let plus = if totals.all_found { "" } else { "+" };
    let bytes = format!("{:>8} of {:<8}", size(done), size(totals.bytes) + plus);
    let speed = format!(" {:>9}", rate(bytes_per_s));
    let left = match totals.all_found && bytes_per_s > 0.0 {
        true => {
            let seconds = (totals.bytes - done) as f64 / bytes_per_s;
            let left = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or(Duration::MAX);
            format!(" {:>4} left", format!("{:#}", HumanDuration(left)))
        }
        false => " ".repeat(10),
    };
    let cells = (u128::from(done) * BAR as u128 / u128::from(totals.bytes.max(1))) as usize;
    let bar = format!("{}{} ", "█".repeat(cells), "░".repeat(BAR - cells));
    let files = match totals.files {
        0 | 1 => String::new(),
        _ => format!("  {}/{}{plus} files", totals.files_done, totals.files),
    };
    let choices = [
        format!("{bar}{bytes}{speed}{left}{files}"),
        format!("{bar}{bytes}{speed}{left}"),
        format!("{bytes}{speed}{left}"),
        format!("{} of {}{speed}", size(done), size(totals.bytes) + plus),
        format!("{} of {}", size(done), size(totals.bytes) + plus),
    ];
    let shortest = choices.last().cloned().unwrap_or_default();
    // Blanks at the end count, so that the line keeps its form when the time left is known.
    let fits = |line: &String| line.chars().count() < columns;
    match choices.into_iter().find(fits) {
        Some(line) => line.trim_end().to_owned(),
        None => shortest.chars().take(columns.saturating_sub(1)).collect(),
    }
}

/// Returns the columns of the terminal.
fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.map_or(COLUMNS, |size| if size.ws_col == 0 { COLUMNS } else { size.ws_col.into() })
}

/// Hears of every file, and draws the bar.
#[derive(Clone)]
pub struct Reporter {
    voice: Voice,
    /// What is transferred as a whole.
    subject: String,
    is_put: bool,
    bar: ProgressBar,
    pace: Arc<Mutex<Pace>>,
    /// The first failure of writing to standard output.
    broken: Arc<Mutex<Option<String>>>,
}

impl Reporter {
    /// A bar appears only on a terminal, and neither with `-q` nor with `--json`.
    pub fn new(voice: Voice, subject: impl ToString) -> Reporter {
        let shown = !voice.quiet && !voice.json && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        let (subject, is_put) = (subject.to_string(), false);
        let pace = Arc::new(Mutex::new(Pace { last: None, bytes_per_s: 0.0 }));
        Reporter { voice, subject, is_put, bar, pace, broken: Arc::default() }
    }

    /// What it hears of goes to a server.
    pub fn for_put(self) -> Reporter {
        Reporter { is_put: true, ..self }
    }

    /// Moves the bar.
    pub fn progress(&self, totals: &Totals) {
        // Before the first file is found there is nothing to show.
        if self.bar.is_hidden() || totals.files == 0 {
            return;
        }
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.update(totals, Instant::now());
        self.bar.set_message(progress_line(totals, pace.bytes_per_s, columns()));
    }

    /// Failures were told on standard error as they happened.
    pub fn told_failures(&self) -> bool {
        !self.voice.json
    }

    /// The bar goes; what follows is written below.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// A line for who is not content with errors.
    pub fn note(&self, line: &str) {
        if !self.voice.quiet && !self.voice.json {
            self.say(line);
        }
    }

    fn say(&self, line: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr(), "fusewire: {}", printable(line));
        });
    }

    fn print(&self, value: &serde_json::Value) {
        if let Err(error) = json(value) {
            self.broken
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error.to_string());
        }
    }
}

impl Observer for Reporter {
    fn event(&mut self, event: Event<'_>) {
        if self.voice.json {
            let (value, path) = match event {
                Event::Done { path, size, hash } => (
                    json!({ "event": "done", "bytes": size, "blake3": hash.map(|hash| HEXLOWER.encode(&hash)) }),
                    path,
                ),
                Event::Kept { path, size, hash } => (
                    json!({ "event": "done", "bytes": size, "blake3": hash.map(|hash| HEXLOWER.encode(&hash)), "resumed": size }),
                    path,
                ),
                Event::Resumed { path, bytes } => {
                    (json!({ "event": "resumed", "bytes": bytes }), path)
                }
                Event::Grew { path } => (json!({ "event": "grew" }), path),
                Event::Skipped { path, why } => {
                    (json!({ "event": "skipped", "why": why.to_string() }), path)
                }
                Event::Failed { path, error } => {
                    (json!({ "event": "failed", "error": error.to_string() }), path)
                }
                _ => return,
            };
            let value = with_path(value, "path", path.as_bytes());
            self.print(&value);
            return;
        }
        match event {
            Event::Failed { error, .. } if is_broken_pipe(error) => {}
            Event::Failed { path, error } => {
                use fusewire_files::Error as E;
                let path = path.to_string();
                let path = if path.is_empty() { &self.subject } else { &path };
                let line = match error {
                    // These name the file themselves.
                    E::Path { .. } | E::Os { .. } | E::Local { .. } | E::WrongHash { .. } => {
                        error.to_string()
                    }
                    E::Refused { code: Cause::NotAFile, .. } if self.is_put => format!(
                        "{path}: the server has a folder of that name; with a slash at its end the URL is a \
                         folder to put it into"
                    ),
                    _ => format!("{path}: {error}"),
                };
                self.say(&line);
            }
            _ if self.voice.quiet => {}
            Event::Done { path, size: bytes, .. } if self.voice.verbose => {
                self.say(&format!("{path}: {}", size(bytes)));
            }
            Event::Kept { path, size: bytes, .. } if self.voice.verbose => {
                self.say(&format!("{path}: {}, there already", size(bytes)));
            }
            // The last line has their number.
            Event::Skipped { why, .. } if why.is_there() && !self.voice.verbose => {}
            Event::Resumed { path, bytes } => {
                self.say(&format!("{path}: {} are here already", size(bytes)));
            }
            Event::Grew { path } => {
                self.say(&format!("{path}: has grown meanwhile; the rest was left"))
            }
            Event::Skipped { path, why } => self.say(&format!("{path}: left out: {why}")),
            _ => {}
        }
    }
}

/// Returns the line about what the copies do not have of what the files had; `None` if that is nothing.
fn not_kept(lost: &Lost) -> Option<String> {
    let parts = [
        (lost.acls, "access control list"),
        (lost.attributes, "set of extended attributes"),
        (lost.owners, "owner"),
        (lost.links, "hard link"),
    ];
    let plural = |(n, noun): (u64, &str)| match noun.strip_prefix("set of ") {
        Some(rest) if n != 1 => format!("{n} sets of {rest}"),
        _ => count(n, noun),
    };
    let parts: Vec<_> = parts.into_iter().filter(|(n, _)| *n > 0).map(plural).collect();
    (!parts.is_empty()).then(|| format!("not kept: {}", parts.join(", ")))
}

/// How a transfer ended, besides its sums.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// `got` or `put`.
    pub verb: &'a str,
    /// From the first connection to the end.
    pub took: Duration,
    /// Ctrl-C.
    pub interrupted: bool,
    /// Why it ended early, if a connection broke.
    pub broken: Option<&'a str>,
    /// Cipher of the connections.
    pub cipher: &'a str,
    /// Bytes of which bodies are filled up to a multiple; `None` where headers are in the clear.
    pub record_padding: Option<usize>,
    /// Who hashed the contents.
    pub hashing: Hashing,
}

impl Reporter {
    /// The last line.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn summary(&self, totals: &Totals, end: &End<'_>) -> Result {
        self.clear();
        let seconds = end.took.as_secs_f64().max(1e-9);
        let moved = moved(totals);
        let bytes_per_s = moved as f64 / seconds;
        if self.voice.json {
            json(&json!({
                "event": "summary",
                "files": totals.files,
                "files_done": totals.files_done,
                "files_resumed": totals.files_here,
                "bytes": totals.bytes,
                "bytes_done": totals.bytes_done,
                "bytes_resumed": totals.bytes_here,
                "bytes_holes": totals.bytes_holes,
                "skipped": totals.skipped,
                "unchanged": totals.unchanged,
                "failed": totals.failed,
                "lost": {
                    "acls": totals.lost.acls,
                    "attributes": totals.lost.attributes,
                    "owners": totals.lost.owners,
                    "hard_links": totals.lost.links,
                },
                "seconds": seconds,
                "bytes_per_s": bytes_per_s,
                "cipher": end.cipher,
                "record_padding": end.record_padding,
                "hash": hashing_name(end.hashing),
                "interrupted": end.interrupted,
                "error": end.broken,
            }))?;
        } else if !self.voice.quiet && (totals.files_done > 0 || totals.failed == 0) {
            let mut line = format!(
                "{} {}, {} in {:.2} s, {}",
                end.verb,
                count(totals.files_done - totals.files_here, "file"),
                size(moved),
                seconds,
                rate(bytes_per_s)
            );
            if totals.bytes_here > 0 || totals.files_here > 0 {
                let files = count(totals.files_here, "file") + ", ";
                let files = if totals.files_here > 0 { &files } else { "" };
                line += &format!("; {files}{} were there already", size(totals.bytes_here));
            }
            if totals.bytes_holes > 0 {
                line += &format!("; {} are holes", size(totals.bytes_holes));
            }
            line += match end.hashing {
                Hashing::Receiver => "; hashed by the receiver alone",
                Hashing::Nobody => "; not hashed",
                _ => "",
            };
            if totals.unchanged > 0 {
                line += &format!("; {} left as they are", totals.unchanged);
            }
            if totals.skipped > totals.unchanged {
                line += &format!("; {} left out", totals.skipped - totals.unchanged);
            }
            if totals.failed > 0 {
                line += &format!("; {} failed", totals.failed);
            }
            writeln!(std::io::stderr(), "{line}")?;
        }
        if let Some(line) = not_kept(&totals.lost) {
            self.note(&line);
        }
        match self.broken.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

/// Time since the first connection.
#[derive(Clone, Copy, Debug)]
pub struct Watch(Instant);

impl Watch {
    /// Begins.
    pub fn start() -> Watch {
        Watch(Instant::now())
    }

    /// So far.
    pub fn took(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(bytes_done: u64, bytes: u64, bytes_here: u64) -> Totals {
        Totals { bytes_done, bytes, bytes_here, files: 1, all_found: true, ..Totals::default() }
    }

    #[test]
    fn the_progress_line_fits_every_terminal() {
        let many = [0, 999, 999_999, 999_949_999, 999_999_999_999, 1 << 50];
        let mut widest = 0;
        for bytes in many {
            for per_s in [0.0, 999_900.0, 999.4e6, 99.9e9, 1e-9] {
                for (files, columns) in
                    [(1, 80), (1_000_000, 80), (1, 49), (9, 30), (1, 20), (1, 5)]
                {
                    let all =
                        Totals { files, files_done: files - 1, ..totals(bytes / 3, bytes, 0) };
                    for all_found in [true, false] {
                        let line = progress_line(&Totals { all_found, ..all }, per_s, columns);
                        widest = widest.max(line.chars().count());
                        assert!(line.chars().count() < columns, "{line}");
                    }
                }
            }
        }
        assert!(widest > 70, "{widest}");
        // One unit for what is done and how fast.
        let line = |columns| progress_line(&totals(6_300_000, 12_600_000, 0), 5.0e6, columns);
        assert_eq!(line(80), "█████░░░░░   6.3 MB of 12.6 MB     5 MB/s   2s left");
        assert_eq!(line(49), "  6.3 MB of 12.6 MB     5 MB/s   2s left");
        assert_eq!(line(30), "6.3 MB of 12.6 MB    5 MB/s");
        assert_eq!(line(20), "6.3 MB of 12.6 MB");
        let growing = Totals { all_found: false, ..totals(6_300_000, 12_600_000, 0) };
        assert_eq!(progress_line(&growing, 5.0e6, 49), "  6.3 MB of 12.6 MB+    5 MB/s");
    }

    #[test]
    fn what_was_there_already_does_not_count_for_the_speed() {
        let start = Instant::now();
        let mut pace = Pace { last: None, bytes_per_s: 0.0 };
        for tenths in 0..100u64 {
            // 800 MB are found to be there after two seconds, and 60 MB come per second.
            let here = if tenths >= 20 { 800_000_000 } else { 0 };
            let done = here + tenths * 6_000_000;
            pace.update(
                &totals(done, 2_000_000_000, here),
                start + Duration::from_millis(100 * tenths),
            );
            if tenths > 3 {
                assert!((59e6..61e6).contains(&pace.bytes_per_s), "{tenths}: {}", pace.bytes_per_s);
            }
        }
    }
}
