//! NewReno's congestion avoidance: one segment a round trip, half on loss (RFC 5681, sections 3.1
//! and 3.2), counted in bytes (RFC 3465, section 2.1).

use super::{Acked, Law, Window};

/// State of congestion avoidance.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewReno {
    /// Bytes delivered since the window last grew (`bytes_acked` of RFC 3465).
    bytes_acked: u64,
}

impl Law for NewReno {
    fn on_ack(&mut self, window: &mut Window, acked: &Acked) {
        self.bytes_acked += acked.bytes;
        if self.bytes_acked >= window.cwnd {
            self.bytes_acked -= window.cwnd;
            // A stretch acknowledgement of several windows still opens by one segment.
            self.bytes_acked = self.bytes_acked.min(window.cwnd);
            window.grow(window.mss);
        }
    }

    /// Equation 4 of RFC 5681: half the data in flight.
    fn reduced(&mut self, _window: &Window, in_flight: u64) -> u64 {
        self.bytes_acked = 0;
        in_flight / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use fusewire_base::Instant;

    #[test]
    fn opens_by_one_segment_a_window_and_halves() {
        let mut law = NewReno::default();
        let mut window = Window { cwnd: 10_000, ssthresh: 0, mss: 1000, cwnd_max: 1 << 40 };
        let mut acked = Acked {
            now: Instant::ZERO,
            bytes: 1000,
            in_flight_before: 10_000,
            in_flight: 9000,
            snd_una: 0,
            snd_nxt: 0,
            rtt: None,
            srtt: Duration::ZERO,
            window_limited: true,
            newest: None,
        };
        for expected in 10..30 {
            assert_eq!(window.cwnd, expected * 1000);
            for _ in 0..expected {
                assert_eq!(window.cwnd, expected * 1000);
                law.on_ack(&mut window, &acked);
            }
        }
        // Bytes count, not acknowledgements (RFC 3465).
        acked.bytes = 1;
        for _ in 0..29_000 {
            law.on_ack(&mut window, &acked);
        }
        assert_eq!(window.cwnd, 30_000);
        acked.bytes = 1_000_000;
        law.on_ack(&mut window, &acked);
        assert_eq!(window.cwnd, 31_000, "a stretch acknowledgement opens by one segment");
        assert_eq!(law.reduced(&window, 20_000), 10_000);
    }
}
