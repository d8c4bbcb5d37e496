//! Explicit congestion notification (RFC 3168): which segments ask, echo and answer. No I/O.
//!
//! ```text
//! data sender                              data receiver
//!   ECT segment ───────▶ router marks CE ─────▶ sees CE: sets ECE on every ACK …
//!   reduces once ◀──────────────────── ECE        │
//!   CWR on next new data ─────────────────────▶ … until CWR comes (and no CE with it)
//! ```

/// The ECN field of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codepoint {
    /// Not ECN-capable (00).
    #[default]
    NotEct,
    /// ECT(1) (01).
    Ect1,
    /// ECT(0) (10).
    Ect0,
    /// Congestion experienced (11).
    Ce,
}

impl Codepoint {
    /// From the two low bits of the traffic class.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Codepoint::NotEct,
            1 => Codepoint::Ect1,
            2 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }

    /// The two low bits of the traffic class.
    pub const fn bits(self) -> u8 {
        match self {
            Codepoint::NotEct => 0,
            Codepoint::Ect1 => 1,
            Codepoint::Ect0 => 2,
            Codepoint::Ce => 3,
        }
    }
}

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

    /// What a segment carries in its IP header: new data only, never retransmissions, pure
    /// acknowledgements or window probes (sections 6.1.4 to 6.1.6).
    pub fn codepoint(&self, is_new_data: bool) -> Codepoint {
        if self.enabled && is_new_data { Codepoint::Ect0 } else { Codepoint::NotEct }
    }

    /// A data segment inside the window was received; `cwr` is its CWR flag. Returns true when an
    /// acknowledgement should leave at once, because a mark is news.
    pub fn on_data(&mut self, codepoint: Codepoint, cwr: bool) -> bool {
        if !self.enabled {
            return false;
        }
        if cwr {
            self.echo = false;
        }
        let is_news = codepoint == Codepoint::Ce && !self.echo;
        self.echo |= codepoint == Codepoint::Ce;
        is_news
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
        assert!(!receiver.on_data(Codepoint::Ect0, false) && !receiver.ece());
        assert!(receiver.on_data(Codepoint::Ce, false), "a first mark is news");
        assert!(!receiver.on_data(Codepoint::Ce, false), "a second is not");
        assert!(!receiver.on_data(Codepoint::Ect0, false) && receiver.ece());
        assert!(!receiver.on_data(Codepoint::Ect0, true) && !receiver.ece());
        assert!(receiver.on_data(Codepoint::Ce, true) && receiver.ece(), "CWR and a new mark");
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
        assert_eq!(ecn.codepoint(true), Codepoint::NotEct);
        assert!(!ecn.on_data(Codepoint::Ce, false) && !ecn.ece() && !ecn.on_ack(true, 1, 2));
        ecn.on_reduced(9);
        assert!(!ecn.take_cwr());
        assert_eq!(Ecn::new(true).codepoint(false), Codepoint::NotEct);
    }

    #[test]
    fn codepoints_are_the_ip_header_bits() {
        for bits in 0..4 {
            assert_eq!(Codepoint::from_bits(bits).bits(), bits);
        }
        assert_eq!((Codepoint::Ect0.bits(), Codepoint::Ce.bits()), (0b10, 0b11));
    }
}
