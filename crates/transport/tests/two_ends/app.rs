//! What an application does, and what a link does to it.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random};
use fusewire_transport::machine::Cut;

/// An application.
#[derive(Clone, Debug)]
pub struct App {
    /// Bytes that it sends, and then finishes.
    pub total: u64,
    /// Lengths of what it sends at once.
    pub adu: core::ops::Range<u64>,
    /// Whether these may be joined.
    pub cut: Cut,
    /// Pauses between two, up to this long, with the probability `pause_chance`.
    pub pause: Duration,
    pub pause_chance: f64,
    /// Stops reading for up to this long, with the probability `stall_chance` for each segment.
    pub stall: Duration,
    pub stall_chance: f64,
    /// A good payload is refused (no memory, wrong tag): it must come again.
    pub reject_chance: f64,
    /// Only a part of a good payload is taken.
    pub partial_chance: f64,
    /// Finishes when all is sent; otherwise the connection stays open.
    pub finishes: bool,
    /// Finishes only when the peer has.
    pub finishes_last: bool,
}

impl Default for App {
    fn default() -> Self {
        App {
            total: 0,
            adu: 1..4000,
            cut: Cut::Record,
            pause: Duration::ZERO,
            pause_chance: 0.0,
            stall: Duration::ZERO,
            stall_chance: 0.0,
            reject_chance: 0.0,
            partial_chance: 0.0,
            finishes: true,
            finishes_last: false,
        }
    }
}

impl App {
    /// Any application that sends so much.
    pub fn any(random: &mut Random, total: u64) -> App {
        let tiny = random.chance(0.1);
        App {
            total,
            adu: if tiny { 1..20 } else { 1..1 << random.range(4..14) },
            cut: *random.pick(&[Cut::Record, Cut::Stream, Cut::StreamEnd]),
            pause: random.duration_below(Duration::from_secs(3)),
            pause_chance: *random.pick(&[0.0, 0.0, 0.05]),
            stall: random.duration_below(Duration::from_secs(10)),
            stall_chance: *random.pick(&[0.0, 0.0, 0.01]),
            reject_chance: *random.pick(&[0.0, 0.0, 0.02]),
            partial_chance: *random.pick(&[0.0, 0.0, 0.05]),
            ..App::default()
        }
    }
}

/// Any link that is bad.
pub fn any_link(random: &mut Random) -> Impairments {
    let delay = random.duration_below(Duration::from_millis(100));
    Impairments {
        rate: random.chance(0.5).then(|| 20_000 << random.below(13)),
        delay,
        jitter: delay / random.range(1..20) as u32,
        queue_bytes: 20_000 << random.below(6),
        loss: *random.pick(&[0.0, 0.001, 0.01, 0.05, 0.1, 0.3]),
        loss_burst: *random.pick(&[1.0, 1.0, 3.0]),
        reorder: *random.pick(&[0.0, 0.01, 0.1, 0.3]),
        reorder_delay: random.duration_below(Duration::from_millis(100)),
        duplicate: *random.pick(&[0.0, 0.01, 0.1, 0.2]),
        corrupt: *random.pick(&[0.0, 0.001, 0.02, 0.1]),
        mark: *random.pick(&[0.0, 0.05]),
        ..Impairments::default()
    }
}
