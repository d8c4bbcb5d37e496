//! What a context tells of itself.

use super::connection::Connection;
use crate::congestion::Controller;
use crate::machine::{Again, CongestionPhase, Info};
use crate::rack::Phase;

/// As many as a field of 32 bits holds.
fn word(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl Connection {
    /// Estimates and counters.
    pub fn info(&self) -> Info {
        let queue = &self.send.queue;
        let recovering = !matches!(self.phase, Phase::Open);
        let maxdata = self.limits().maxdata;
        Info {
            srtt: self.rtt.srtt().unwrap_or_default(),
            rttvar: self.rtt.rttvar(),
            min_rtt: self.rtt.min().unwrap_or_default(),
            rto: self.rtt.rto(),
            congestion: self.cc.algorithm(),
            cwnd: self.window(),
            ssthresh: self.cc.slow_start_threshold(),
            in_flight: queue.in_flight(),
            unacked: self.send.end - self.send.una,
            send_window: word(self.send.alloc.saturating_sub(self.send.una)),
            recv_window: word(self.recv.adv - self.recv.nxt),
            max_payload: self.send.max_payload,
            send_window_max: word(self.send.alloc.saturating_sub(self.send.una)),
            advertised_mss: u16::try_from(maxdata).unwrap_or(u16::MAX),
            recv_segment: self.recv.segment_len_max,
            sack: true,
            phase: match self.phase {
                Phase::Recovery { .. } => CongestionPhase::Recovery,
                Phase::Loss { .. } => CongestionPhase::Loss,
                Phase::Open if queue.sacked() > 0 => CongestionPhase::Disorder,
                Phase::Open => CongestionPhase::Open,
            },
            segments_out: queue.sent() as u32,
            segments_sacked: queue.sacked(),
            segments_lost: queue.lost() + if recovering { queue.resent() } else { 0 },
            segments_resent: queue.resent(),
            timeouts_in_a_row: self.sync.retries,
            probes_in_a_row: self.send.persists,
            back_off: self.rtt.doublings(),
            reordering: self.rack.reordering().max(3),
            reorderings: self.rack.reorderings(),
            data_sent_at: self.send.sent_at,
            data_received_at: self.recv.data_at,
            heard_at: self.recv.heard_at,
            pacing_rate: self.rate.rate().or(self.pacer.rate()),
            counters: self.counters,
            ..Info::default()
        }
    }

    /// Why what is sent again now is sent again.
    pub fn again(&self) -> Again {
        match self.phase {
            _ if self.is_opening() => Again::Timeout,
            Phase::Recovery { .. } => Again::Rack,
            Phase::Loss { .. } => Again::Timeout,
            Phase::Open => Again::Path,
        }
    }
}
