//! Explicit congestion notification (RFC 3168): which segments ask, echo and answer. No I/O.
//!
//! ```text
//! data sender                              data receiver
//!   ECT segment ───────▶ router marks CE ─────▶ sees CE: sets ECE on every ACK …
//!   reduces once ◀──────────────────── ECE        │
//!   CWR on next new data ─────────────────────▶ … until CWR comes (and no CE with it)
//! ```

/// Both halves of one connection's ECN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ecn {
    enabled: bool,
    /// Receiver: echo until CWR (section 6.1.3).
    echo: bool,
    /// Sender: CWR is due on the next new data (section 6.1.2).
    cwr: bool,
    /// Sender: marks are news only when SND.UNA has passed this offset.
    reduced_until: u64,
}

impl Ecn {
    /// After the handshake: `enabled` when both sides agreed (ECE and CWR on the SYN, ECE alone on the
    /// SYN,ACK; section 6.1.1).
    pub fn new(enabled: bool) -> Self {
        Ecn { enabled, ..Ecn::default() }
    }

    /// Both sides agreed.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// A data segment inside the window carried a mark. Returns true when an acknowledgement should leave at once,
    /// because that is news.
    pub fn on_mark(&mut self) -> bool {
        self.enabled && !core::mem::replace(&mut self.echo, true)
    }

    /// A data segment inside the window carried CWR.
    pub fn on_cwr(&mut self) {
        self.echo = false;
    }

    /// ECE is set on what leaves.
    pub fn ece(&self) -> bool {
        self.enabled && self.echo
    }

    /// An acceptable acknowledgement came. Returns true when the window must be reduced: at most once
    /// for each window of data. `snd_una` is after it.
    pub fn on_ack(&mut self, ece: bool, snd_una: u64, snd_nxt: u64) -> bool {
        if !self.enabled || !ece || snd_una < self.reduced_until {
            return false;
        }
        self.on_reduced(snd_nxt);
        true
    }

    /// The window was reduced for a mark or a loss, and what was under way then is not yet acknowledged.
    pub fn is_reduced(&self, snd_una: u64) -> bool {
        self.enabled && snd_una < self.reduced_until
    }

    /// The window was reduced, by a mark or a loss: marks of data below `snd_nxt` are no news.
    pub fn on_reduced(&mut self, snd_nxt: u64) {
        if self.enabled {
            // One past: the acknowledgement of exactly this window is still about it.
            self.reduced_until = snd_nxt + 1;
            self.cwr = true;
        }
    }

    /// Takes the CWR flag for a segment with new data that leaves now.
    pub fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.cwr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_until_the_sender_has_reduced() {
        let mut receiver = Ecn::new(true);
        assert!(!receiver.ece());
        assert!(receiver.on_mark(), "a first mark is news");
        assert!(!receiver.on_mark() && receiver.ece(), "a second is not");
        receiver.on_cwr();
        assert!(!receiver.ece());
        assert!(receiver.on_mark() && receiver.ece(), "a new mark after CWR");
    }

    #[test]
    fn reduces_once_a_window_and_says_so_once() {
        let mut sender = Ecn::new(true);
        assert!(sender.on_ack(true, 100, 1000));
        assert!(sender.take_cwr() && !sender.take_cwr());
        assert!(!sender.on_ack(true, 500, 1500) && !sender.on_ack(true, 1000, 2000));
        assert!(!sender.on_ack(false, 1500, 2500));
        assert!(sender.on_ack(true, 1600, 2600) && sender.take_cwr());
    }

    #[test]
    fn is_silent_when_not_agreed() {
        let mut ecn = Ecn::new(false);
        assert!(!ecn.on_mark() && !ecn.ece() && !ecn.on_ack(true, 1, 2));
        ecn.on_reduced(9);
        assert!(!ecn.take_cwr());
    }
}
