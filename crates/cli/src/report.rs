//! What a transfer says while it goes on, and at its end.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fusewire_files::client::{Event, Observer, Totals};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use serde_json::json;

use crate::output::{Result, count, json, printable, rate, size};

/// Where a transfer's words go.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// Nothing but errors.
    pub quiet: bool,
    /// A line of JSON a file, and a last one.
    pub json: bool,
}

/// Hears of every file, and draws the bar.
#[derive(Clone)]
pub struct Reporter {
    voice: Voice,
    /// What is transferred as a whole.
    subject: String,
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
        let template = "{bar:30} {done:>10} of {all:<10} {speed:>12}  {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            let bytes = |n: u64| HumanBytes(n).to_string();
            bar.set_style(
                style
                    .with_key("done", move |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                        let _ = write!(w, "{}", bytes(s.pos()));
                    })
                    .with_key("all", move |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                        let _ = write!(w, "{}", bytes(s.len().unwrap_or(0)));
                    })
                    .with_key("speed", |s: &ProgressState, w: &mut dyn std::fmt::Write| {
                        let _ = write!(w, "{}", rate(s.per_sec()));
                    }),
            );
        }
        Reporter { voice, subject: subject.to_string(), bar, broken: Arc::default() }
    }

    /// Moves the bar.
    pub fn progress(&self, totals: &Totals) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_length(totals.bytes);
        self.bar.set_position(totals.bytes_done.min(totals.bytes));
        if totals.files > 1 {
            self.bar.set_message(format!("{} of {} files", totals.files_done, totals.files));
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

    fn say(&self, line: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr(), "fusewire: {}", printable(line));
        });
    }

    fn tell(&self, value: &serde_json::Value) {
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
            let value = match event {
                Event::Done { path, size, hash } => json!({
                    "event": "done",
                    "path": path.to_string(),
                    "bytes": size,
                    "blake3": hash.map(hex),
                }),
                Event::Resumed { path, bytes } => {
                    json!({ "event": "resumed", "path": path.to_string(), "bytes": bytes })
                }
                Event::Grew { path } => json!({ "event": "grew", "path": path.to_string() }),
                Event::Skipped { path, why } => {
                    json!({ "event": "skipped", "path": path.to_string(), "why": why.to_string() })
                }
                Event::Failed { path, error } => json!({
                    "event": "failed",
                    "path": path.to_string(),
                    "error": error.to_string(),
                }),
                _ => return,
            };
            self.tell(&value);
            return;
        }
        match event {
            Event::Failed { path, error } => {
                use fusewire_files::Error as E;
                let path = path.to_string();
                let path = if path.is_empty() { &self.subject } else { &path };
                let line = match error {
                    // These name the file themselves.
                    E::Path { .. } | E::Os { .. } | E::Local { .. } | E::WrongHash { .. } => {
                        error.to_string()
                    }
                    _ => format!("{path}: {error}"),
                };
                self.say(&line);
            }
            _ if self.voice.quiet => {}
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

fn hex(hash: [u8; 32]) -> String {
    hash.iter().map(|b| format!("{b:02x}")).collect()
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
}

impl Reporter {
    /// The last line.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn summary(&self, totals: &Totals, end: &End<'_>) -> Result {
        self.clear();
        let seconds = end.took.as_secs_f64().max(1e-9);
        let moved = totals.bytes_done.saturating_sub(totals.bytes_here);
        let bytes_per_s = moved as f64 / seconds;
        if self.voice.json {
            json(&json!({
                "event": "summary",
                "files": totals.files,
                "files_done": totals.files_done,
                "bytes": totals.bytes,
                "bytes_done": totals.bytes_done,
                "bytes_resumed": totals.bytes_here,
                "skipped": totals.skipped,
                "failed": totals.failed,
                "seconds": seconds,
                "bytes_per_s": bytes_per_s,
                "cipher": end.cipher,
                "interrupted": end.interrupted,
                "error": end.broken,
            }))?;
        } else if !self.voice.quiet && (totals.files_done > 0 || totals.failed == 0) {
            let mut line = format!(
                "{} {}, {} in {:.2} s, {}",
                end.verb,
                count(totals.files_done, "file"),
                size(moved),
                seconds,
                rate(bytes_per_s)
            );
            if totals.bytes_here > 0 {
                line += &format!("; {} were there already", size(totals.bytes_here));
            }
            if totals.skipped > 0 {
                line += &format!("; {} left out", totals.skipped);
            }
            if totals.failed > 0 {
                line += &format!("; {} failed", totals.failed);
            }
            writeln!(std::io::stderr(), "{line}")?;
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
