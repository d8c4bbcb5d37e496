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
            // Proportional part: ceil(prr_delivered * ssthresh / RecoverFS) - prr_out.
            let out = (u128::from(self.prr_delivered) * u128::from(self.ssthresh))
                .div_ceil(u128::from(self.recover_fs));
            u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.prr_out)
        } else {
            let conserved = self.prr_delivered.saturating_sub(self.prr_out);
            let limit =
                if advanced && lost == 0 { conserved.max(delivered) + self.mss } else { conserved };
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
