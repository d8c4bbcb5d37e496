//! What a connection tells of itself: estimates and counters.

use core::time::Duration;
use fusewire_base::Instant;

use super::{DropCause, Drops, Verdict};
use crate::congestion::Algorithm;

/// Counters and estimates, in the manner of `TCP_INFO`.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Smallest round-trip time seen lately.
    pub min_rtt: Duration,
    /// Retransmission timeout, with back-off.
    pub rto: Duration,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes.
    pub ssthresh: u64,
    /// Bytes in the network by the sender's reckoning.
    pub in_flight: u64,
    /// Bytes committed and not acknowledged.
    pub unacked: u64,
    /// The peer's window in bytes.
    pub send_window: u32,
    /// The window that we advertise, in bytes.
    pub recv_window: u32,
    /// Effective send payload in bytes.
    pub max_payload: u32,
    /// Largest window that the peer ever offered, in bytes.
    pub send_window_max: u32,
    /// What goes into our MSS option.
    pub advertised_mss: u16,
    /// Most payload in one received segment.
    pub recv_segment: u32,
    /// Shifts of the peer's window and of ours.
    pub send_shift: u8,
    /// See `send_shift`.
    pub recv_shift: u8,
    /// Windows are scaled both ways.
    pub window_scaling: bool,
    /// Timestamps were agreed.
    pub timestamps: bool,
    /// Selective acknowledgements were agreed.
    pub sack: bool,
    /// Explicit congestion notification was agreed.
    pub ecn: bool,
    /// What the sender does about congestion.
    pub phase: CongestionPhase,
    /// Segments that were sent and are not acknowledged.
    pub segments_out: u32,
    /// Those of them that the receiver reported.
    pub segments_sacked: u32,
    /// Those that are taken for lost, sent again or not.
    pub segments_lost: u32,
    /// Those that were sent again and may be in the network.
    pub segments_resent: u32,
    /// Retransmission timeouts in a row.
    pub timeouts_in_a_row: u8,
    /// Unanswered probes.
    pub probes_in_a_row: u8,
    /// How often the retransmission timeout was doubled.
    pub back_off: u32,
    /// How far reordering went, in segments; 3 before there was any.
    pub reordering: u32,
    /// Acknowledgements that showed reordering.
    pub reorderings: u32,
    /// When data last left.
    pub data_sent_at: Instant,
    /// When data was last accepted.
    pub data_received_at: Instant,
    /// When a segment was last accepted: what is spoofed does not count.
    pub heard_at: Instant,
    /// Bytes a second, when paced.
    pub pacing_rate: Option<u64>,
    /// Counters.
    pub counters: Counters,
}

/// What the sender does about congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionPhase {
    /// Nothing to do.
    #[default]
    Open,
    /// Reports of something missing that may only be late.
    Disorder,
    /// The window was reduced for a congestion mark, less than a round trip ago.
    Reduced,
    /// Fast recovery.
    Recovery,
    /// Slow start after a timeout.
    Loss,
}

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident: $of:ty,)*) => {
        /// Counters of a connection. They wrap never in practice.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $(#[doc = $doc] pub $name: $of,)*
            /// Dropped segments, by cause.
            pub drops: Drops,
        }

        impl Counters {
            /// Counts what another connection has counted too.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
                self.drops.merge(&other.drops);
            }
        }
    };
}

counters! {
    /// Segments given out by `poll_transmit`.
    segments_sent: u64,
    /// Segments that came to `handle_final` and were not rejected.
    segments_received: u64,
    /// Payload bytes accepted.
    bytes_received: u64,
    /// Payload bytes acknowledged by the peer.
    bytes_acked: u64,
    /// Segments sent again.
    retransmissions: u64,
    /// Retransmission timeouts.
    timeouts: u32,
    /// Fast recoveries.
    recoveries: u32,
    /// Tail loss probes.
    tail_loss_probes: u32,
    /// Recoveries or timeouts that were undone as spurious.
    spurious: u32,
    /// DSACKs received.
    dsacks: u32,
    /// ECN echoes obeyed.
    ecn_echoes: u32,
    /// Received segments that carried a congestion mark.
    ecn_marks: u32,
    /// Challenge ACKs sent.
    challenge_acks: u32,
    /// Zero-window and keep-alive probes sent.
    probes: u32,
    /// Payload segments accepted out of order.
    out_of_order: u64,
    /// Segments with payload that came and were not rejected.
    data_segments_received: u64,
    /// Segments with payload that left, retransmissions included.
    data_segments_sent: u64,
    /// Packets that asked for an answer (XTP's SREQ) and left.
    asks_sent: u64,
    /// Accepted packets that asked for one.
    asks_received: u64,
    /// Spans in accepted controls (XTP's ECNTL).
    spans_received: u64,
}

impl Counters {
    /// Dropped segments for one cause.
    pub fn dropped(&self, cause: DropCause) -> u64 {
        self.drops.of(cause)
    }

    /// How much of a segment is taken; `None` if it is forgotten. What is not taken is counted.
    pub(crate) fn take(&mut self, verdict: Verdict) -> Option<u32> {
        match verdict {
            Verdict::Reject(cause) => {
                self.drop(cause);
                None
            }
            Verdict::Part { len, rest } => {
                self.drop(rest);
                Some(len)
            }
            Verdict::Accept { len } => Some(len),
            Verdict::Control => Some(0),
        }
    }

    /// Counts a dropped segment.
    pub fn drop(&mut self, cause: DropCause) {
        self.drops.count(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up() {
        let mut one = Counters { retransmissions: 2, timeouts: 1, ..Counters::default() };
        one.drop(DropCause::Paws);
        let mut sum = one;
        sum.add(&one);
        assert_eq!((sum.retransmissions, sum.timeouts, sum.dropped(DropCause::Paws)), (4, 2, 2));
    }
}
