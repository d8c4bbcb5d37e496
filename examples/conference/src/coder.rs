//! Frames as a coder of video makes them, by their sizes: one in ten seconds is whole and six times as long as the others, which
//! change from one to the next and hit the target on the mean.

use std::time::{Duration, Instant};

/// Frames between two that are whole.
const WHOLE_EVERY: u32 = 300;
/// How much longer these are.
const WHOLE: f64 = 6.0;

/// What a coder is to make: bits of a frame, and frames a second.
#[derive(Clone, Copy)]
pub struct Target {
    pub bits: u64,
    pub hz: f64,
}

/// A coder's clock and luck.
pub struct Coder {
    frame: u32,
    next: Instant,
    state: u64,
}

/// What a frame is.
pub struct Picture {
    pub is_whole: bool,
    pub bytes: usize,
}

impl Coder {
    pub fn new(now: Instant) -> Coder {
        Coder { frame: 0, next: now, state: 0x9e37_79b9_7f4a_7c15 }
    }

    /// When the next frame is.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// The frame that is due.
    pub fn frame(&mut self, now: Instant, target: Target) -> Option<Picture> {
        if now < self.next {
            return None;
        }
        self.next = self.next.max(now) + Duration::from_secs_f64(1.0 / target.hz);
        let is_whole = self.frame.is_multiple_of(WHOLE_EVERY);
        self.frame += 1;
        let share = f64::from(WHOLE_EVERY) / (f64::from(WHOLE_EVERY) - 1.0 + WHOLE);
        // 0.75 to 1.25, by xorshift.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let luck = 0.75 + (self.state >> 11) as f64 / (1u64 << 54) as f64;
        let size = target.bits as f64 / 8.0 * share * if is_whole { WHOLE } else { luck };
        Some(Picture { is_whole, bytes: (size as usize).clamp(1, 65_536) })
    }
}
