//! Proportional rate reduction (RFC 6937, with the slow start reduction bound): in recovery, how
//! many bytes each acknowledgement lets out, so that the window falls smoothly to the threshold.

/// One recovery episode.
#[derive(Clone, Copy, Debug)]
pub struct Prr {
    mss: u64,
    ssthresh: u64,
    /// `RecoverFS`: data outstanding when recovery began.
    recover_fs: u64,
    prr_delivered: u64,
    prr_out: u64,
    /// `sndcnt` less what was sent since the acknowledgement.
    allowance: u64,
}

impl Prr {
    /// Recovery begins with `recover_fs` bytes outstanding (SND.NXT - SND.UNA) and shall end with
    /// `ssthresh`, the controller's. One segment may be sent at once: the fast retransmit.
    pub fn new(recover_fs: u64, ssthresh: u64, mss: u64) -> Self {
        Prr {
            mss,
            ssthresh,
            recover_fs: recover_fs.max(1),
            prr_delivered: 0,
            prr_out: 0,
            allowance: mss,
        }
    }

    /// An acknowledgement delivered `delivered` bytes for the first time (by SND.UNA's advance or by
    /// SACK) and left `pipe` bytes in flight (RFC 6675). `advanced`: SND.UNA moved forward and no
    /// further loss was found; only then may the pipe refill as in slow start.
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, advanced: bool) {
        self.prr_delivered += delivered;
        let sndcnt = if pipe > self.ssthresh {
            // Proportional part: ceil(prr_delivered * ssthresh / RecoverFS) - prr_out.
            let out = (u128::from(self.prr_delivered) * u128::from(self.ssthresh))
                .div_ceil(u128::from(self.recover_fs));
            u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.prr_out)
        } else {
            let conserved = self.prr_delivered.saturating_sub(self.prr_out);
            let limit = if advanced { conserved.max(delivered) + self.mss } else { conserved };
            limit.min(self.ssthresh - pipe)
        };
        // The fast retransmit leaves whatever the sum says.
        self.allowance = if self.prr_out == 0 { sndcnt.max(self.mss) } else { sndcnt };
    }

    /// Data of `bytes` was sent, new or again.
    pub fn on_sent(&mut self, bytes: u64) {
        self.prr_out += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }

    /// Bytes that may be sent before the next acknowledgement. A segment may leave when this is not
    /// zero, so that odd sizes do not stall.
    pub fn allowance(&self) -> u64 {
        self.allowance
    }
}
