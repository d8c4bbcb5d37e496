//! What a transfer says while it goes on, and at its end.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use fusewire_files::client::{Event, Observer, Totals};
use fusewire_files::message::Code as Cause;
use fusewire_files::{Hashing, Lost};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
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

/// Bytes, speed and time left, in 43 columns.
fn how_far(done: u64, all: Option<u64>, bytes_per_s: f64, left: Duration) -> String {
    let left = format!("{:#}", HumanDuration(left));
    let (done, all, speed) = (size(done), size(all.unwrap_or(0)), rate(bytes_per_s));
    format!("{done:>8} of {all:<8} {speed:>9} {left:>4} left")
}

/// Files, in as few columns as there are left.
fn how_many(totals: &Totals) -> String {
    format!("  {}/{} files", totals.files_done, totals.files)
}

/// Hears of every file, and draws the bar.
#[derive(Clone)]
pub struct Reporter {
    voice: Voice,
    /// What is transferred as a whole.
    subject: String,
    is_put: bool,
    bar: ProgressBar,
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
        if let Ok(style) = ProgressStyle::with_template("{bar:10} {how_far}{msg}") {
            let how_far = |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                let _ = write!(w, "{}", how_far(s.pos(), s.len(), s.per_sec(), s.eta()));
            };
            bar.set_style(style.with_key("how_far", how_far));
        }
        let (subject, is_put) = (subject.to_string(), false);
        Reporter { voice, subject, is_put, bar, broken: Arc::default() }
    }

    /// What it hears of goes to a server.
    pub fn for_put(self) -> Reporter {
        Reporter { is_put: true, ..self }
    }

    /// Moves the bar.
    pub fn progress(&self, totals: &Totals) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(totals.bytes);
        self.bar.set_position(totals.bytes_done.min(totals.bytes));
        if totals.files > 1 {
            self.bar.set_message(how_many(totals));
        }
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
        let moved = totals.bytes_done.saturating_sub(totals.bytes_here + totals.bytes_holes);
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

    #[test]
    fn progress_fits_eighty_columns() {
        let many = [0, 999, 999_999, 999_949_999, 999_999_999_999, 1 << 50];
        let mut widest = 0;
        for bytes in many {
            for per_s in [0.0, 999_900.0, 999.4e6, 99.9e9] {
                for left in [0, 59, 3599, 86_399, 1 << 30] {
                    let totals =
                        Totals { files: 1_000_000, files_done: 999_999, ..Totals::default() };
                    let text = how_far(bytes, Some(bytes), per_s, Duration::from_secs(left));
                    let text = format!("{:10} {text}{}", "", how_many(&totals));
                    widest = widest.max(text.chars().count());
                    assert!(text.chars().count() < 80, "{text}");
                }
            }
        }
        assert!(widest > 70, "{widest}");
        // One unit for what is done and how fast.
        let text = how_far(6_300_000, Some(12_600_000), 5.0e6, Duration::from_secs(2));
        assert_eq!(text, "  6.3 MB of 12.6 MB     5 MB/s   2s left");
    }
}
