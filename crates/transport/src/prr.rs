//! Proportional rate reduction (RFC 6937, with the slow start reduction bound): in recovery, how
//! many bytes each acknowledgement lets out, so that the window falls smoothly to the threshold.

/// One recovery episode.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    mss: u64,
    ssthresh: u64,
    /// `RecoverFS`: data outstanding when recovery began.
    recover_fs: u64,
    prr_delivered: u64,
    prr_out: u64,
    /// `sndcnt` less what was sent since the acknowledgement.
    room: u64,
}

impl Recovery {
    /// Recovery begins with `in_flight` bytes outstanding (SND.NXT - SND.UNA) and shall end with
    /// `ssthresh`, the controller's. One segment may be sent at once: the fast retransmit.
    pub fn new(in_flight: u64, ssthresh: u64, mss: u64) -> Self {
        Recovery {
            mss,
            ssthresh,
            recover_fs: in_flight.max(1),
            prr_delivered: 0,
            prr_out: 0,
            room: mss,
        }
    }

    /// An acknowledgement delivered `delivered` bytes for the first time (by SND.UNA's advance or by
    /// SACK), showed `lost` further bytes to be lost, and left `pipe` bytes in flight (RFC 6675).
    /// Only when SND.UNA `advanced` and no further loss was found may the pipe refill as in slow start.
    pub fn on_ack(&mut self, delivered: u64, lost: u64, pipe: u64, advanced: bool) {
        self.prr_delivered += delivered;
        let sndcnt = if pipe > self.ssthresh {
            // Proportional part: ceil(prr_delivered * ssthresh / RecoverFS) - prr_out. The threshold
            // has a floor and may exceed what was outstanding; more than is delivered never goes out.
            let share = self.ssthresh.min(self.recover_fs);
            let out = (u128::from(self.prr_delivered) * u128::from(share))
                .div_ceil(u128::from(self.recover_fs));
            u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.prr_out)
        } else {
            // RFC 9937: what is delivered may always leave, also when the fast retransmit came early.
            let conserved = self.prr_delivered.saturating_sub(self.prr_out).max(delivered);
            let limit = if advanced && lost == 0 { conserved + self.mss } else { conserved };
            limit.min(self.ssthresh - pipe)
        };
        // The fast retransmit leaves whatever the sum says.
        self.room = if self.prr_out == 0 { sndcnt.max(self.mss) } else { sndcnt };
    }

    /// Data of `bytes` was sent, new or again.
    pub fn on_sent(&mut self, bytes: u64) {
        self.prr_out += bytes;
        self.room = self.room.saturating_sub(bytes);
    }

    /// Bytes that may be sent before the next acknowledgement. A segment may leave when this is not
    /// zero, so that odd sizes do not stall.
    pub fn room(&self) -> u64 {
        self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// RFC 6937, section 3.1's first example: pipe 100 segments, one lost, ssthresh half.
    #[test]
    fn sends_one_for_two_delivered_while_the_pipe_is_full() {
        let (in_flight, ssthresh) = (100 * MSS, 50 * MSS);
        let mut recovery = Recovery::new(in_flight, ssthresh, MSS);
        let mut pipe = in_flight - MSS;
        let mut out = 0;
        for ack in 1..=99u64 {
            pipe -= MSS;
            recovery.on_ack(MSS, 0, pipe, false);
            while recovery.room() > 0 {
                recovery.on_sent(MSS);
                pipe += MSS;
                out += 1;
            }
            assert!(out <= ack.div_ceil(2) + 1, "{out} sent after {ack} acknowledgements");
        }
        assert!((49..=51).contains(&out), "{out} sent");
        assert!((49..=51).contains(&(pipe / MSS)), "the pipe ends at the threshold: {pipe}");
    }

    #[test]
    fn the_fast_retransmit_leaves_at_once() {
        let recovery = Recovery::new(10 * MSS, 5 * MSS, MSS);
        assert_eq!(recovery.room(), MSS);
        let mut recovery = Recovery::new(100 * MSS, MSS, MSS);
        recovery.on_ack(MSS, 0, 98 * MSS, false);
        assert_eq!(recovery.room(), MSS, "forced until something was sent");
        recovery.on_sent(MSS);
        recovery.on_ack(MSS, 0, 97 * MSS, false);
        assert_eq!(recovery.room(), 0);
    }

    #[test]
    fn a_pipe_below_the_threshold_refills_by_the_reduction_bound() {
        // Heavy loss: of 100 segments 80 are gone.
        let mut recovery = Recovery::new(100 * MSS, 50 * MSS, MSS);
        recovery.on_sent(MSS);
        recovery.on_ack(MSS, 0, 19 * MSS, true);
        assert_eq!(recovery.room(), 2 * MSS, "slow start: delivered and one more");
        recovery.on_sent(2 * MSS);
        recovery.on_ack(MSS, 5 * MSS, 15 * MSS, true);
        assert_eq!(
            recovery.room(),
            MSS,
            "further loss: packet conservation, as much as was delivered"
        );
        recovery.on_ack(4 * MSS, 0, 15 * MSS, false);
        assert_eq!(recovery.room(), 4 * MSS, "4 delivered");
        recovery.on_ack(100 * MSS, 0, 48 * MSS, true);
        assert_eq!(recovery.room(), 2 * MSS, "never beyond the threshold");
    }

    #[test]
    fn a_threshold_above_what_was_outstanding_does_not_speed_up() {
        let mut recovery = Recovery::new(MSS, 2 * MSS, MSS);
        recovery.on_sent(MSS);
        for _ in 0..100 {
            recovery.on_ack(MSS, 0, 3 * MSS, true);
            assert!(recovery.room() <= MSS, "conservation");
            recovery.on_sent(recovery.room());
        }
    }

    #[test]
    fn an_odd_size_does_not_go_below_zero() {
        let mut recovery = Recovery::new(0, 5 * MSS, MSS);
        recovery.on_ack(1, 0, 0, true);
        assert!(recovery.room() > 0);
        recovery.on_sent(9 * MSS);
        assert_eq!(recovery.room(), 0);
        recovery.on_ack(u64::MAX / 2, 0, u64::MAX / 2, true);
        assert!(recovery.room() > 0, "large numbers do not overflow");
    }
}
