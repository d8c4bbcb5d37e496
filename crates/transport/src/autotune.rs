//! How a receive window grows: while the application keeps up with a full one a round, it doubles.

/// A window's length of data.
#[derive(Debug, Default)]
pub(super) struct Round {
    end: u64,
    /// What was consumed at its start.
    consumed: u64,
}

impl Round {
    /// One that begins where all below `nxt` has come and all below `consumed` was taken.
    pub fn begin(consumed: u64, nxt: u64, window: u32) -> Round {
        Round { end: consumed.max(nxt) + u64::from(window), consumed }
    }

    /// The window from now on, at most `most`.
    pub fn window(&mut self, window: u32, most: u32, nxt: u64, consumed: u64) -> u32 {
        if nxt < self.end {
            return window;
        }
        let keeps_up = consumed - self.consumed >= u64::from(window / 4 * 3);
        let window = if keeps_up { window.saturating_mul(2).min(most) } else { window };
        *self = Round::begin(consumed, nxt, window);
        window
    }
}
