//! NewReno's congestion avoidance: one segment a round trip, half on loss (RFC 5681, sections 3.1
//! and 3.2), counted in bytes (RFC 3465, section 2.1).

use super::{Acked, Window};

/// State of congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewReno {
    /// Bytes delivered since the window last grew (`bytes_acked` of RFC 3465).
    bytes_acked: u64,
}

impl NewReno {
    pub(super) fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        self.bytes_acked += acked.bytes;
        if self.bytes_acked >= window.cwnd {
            self.bytes_acked -= window.cwnd;
            // A stretch acknowledgement of several windows still opens by one segment.
            self.bytes_acked = self.bytes_acked.min(window.cwnd);
            window.grow(window.mss);
        }
    }

    /// Equation 4 of RFC 5681: half the data in flight.
    pub(super) fn reduced(&mut self, _window: &Window, in_flight: u64) -> u64 {
        self.bytes_acked = 0;
        in_flight / 2
    }
}
