//! What a side sees of the call: a line a second.

use std::time::Duration;

use fusewire_service::datagram::Counters;

use crate::coder::Target;

const BAR: usize = 24;

/// What came and what was made in a second.
#[derive(Default)]
pub struct Second {
    pub audio: u64,
    pub video: u64,
    pub gone: u64,
    pub bytes: u64,
    /// From when each picture was taken to when it was shown, beyond the fastest.
    pub behind: Vec<Duration>,
}

pub fn head() {
    println!(
        "{:>4} {:>8}  {:>8} {:>4}  {:BAR$} {:>9} {:>7} {:>7} {:>6} {:>6}",
        "s", "path", "video", "fps", "quality", "received", "queue", "behind", "sound", "gone"
    );
}

/// A line: the path as it is (where that is known), what is made for it, and what came of the peer's.
pub fn line(
    second: u64,
    path: Option<u64>,
    target: Option<Target>,
    queue: Duration,
    came: &mut Second,
) {
    let made = target.unwrap_or(Target { bits: 0, hz: 0.0 });
    let video = made.bits as f64 * made.hz;
    let most = 2_500_000.0;
    let filled = ((video / most).sqrt() * BAR as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(filled.min(BAR)), "·".repeat(BAR - filled.min(BAR)));
    came.behind.sort();
    let behind = came.behind.get(came.behind.len() * 95 / 100).copied().unwrap_or_default();
    let path = path.map_or("?".to_owned(), |bits| format!("{:.2} M", bits as f64 / 1e6));
    println!(
        "{second:4} {path:>8}  {:>6.2} M {:4.0}  {bar} {:>7.2} M {:4} ms {:4} ms {:6} {:6}",
        video / 1e6,
        made.hz,
        came.bytes as f64 * 8.0 / 1e6,
        queue.as_millis(),
        behind.as_millis(),
        came.audio,
        came.gone,
    );
    *came = Second::default();
}

/// What it was all in all: what share of each was in time.
pub fn sum(name: &str, pushed: [u64; 2], shares: [f64; 2], counters: &Counters) {
    println!(
        "{name}: in time {:.1} % of {} sounds, {:.1} % of {} pictures; {} of {} packets came back from others",
        100.0 * shares[0],
        pushed[0],
        100.0 * shares[1],
        pushed[1],
        counters.restored,
        counters.opened,
    );
}
