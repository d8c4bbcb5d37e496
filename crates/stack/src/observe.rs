//! What a transport machine tells of itself, in the words of the live view.

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{CongestionPhase, Counters, Info};
use fusewire_view::{Counts, Segment, Stack as StackView, Tcp};

use crate::trace::{Entry, Kind};

/// Estimates and counters of a connection.
pub fn tcp(info: &Info) -> Tcp {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let counters = &info.counters;
    Tcp {
        rtt_us: us(info.srtt),
        rttvar_us: us(info.rttvar),
        min_rtt_us: us(info.min_rtt),
        rto_us: us(info.rto),
        congestion_control: info.congestion.name().into(),
        cwnd_bytes: info.cwnd,
        // Larger than any window: none was needed yet.
        ssthresh_bytes: (info.ssthresh < 1 << 40).then_some(info.ssthresh),
        in_flight_bytes: info.in_flight,
        unacked_bytes: info.unacked,
        send_window_bytes: info.send_window.into(),
        recv_window_bytes: info.recv_window.into(),
        max_payload_bytes: info.max_payload.into(),
        send_shift: info.send_shift,
        recv_shift: info.recv_shift,
        timestamps: info.timestamps,
        sack: info.sack,
        ecn: info.ecn,
        congestion: match info.phase {
            CongestionPhase::Open => "open",
            CongestionPhase::Disorder => "disorder",
            CongestionPhase::Reduced => "reduced",
            CongestionPhase::Recovery => "recovery",
            CongestionPhase::Loss => "loss",
        }
        .into(),
        pacing_bytes_per_s: info.pacing_rate,
        bytes_acked: counters.bytes_acked,
        bytes_received: counters.bytes_received,
        segments_sent: counters.segments_sent,
        segments_received: counters.segments_received,
        retransmissions: counters.retransmissions,
        lost_segments: info.segments_lost.into(),
        timeouts: counters.timeouts.into(),
        recoveries: counters.recoveries.into(),
        tail_loss_probes: counters.tail_loss_probes.into(),
        spurious: counters.spurious.into(),
        dsacks: counters.dsacks.into(),
        out_of_order: counters.out_of_order,
        reordering: info.reordering.into(),
        ecn_marks: counters.ecn_marks.into(),
        ecn_echoes: counters.ecn_echoes.into(),
        challenge_acks: counters.challenge_acks.into(),
        probes: counters.probes.into(),
    }
}

/// What a socket dropped, as far as it did.
pub fn nonzero(drops: impl IntoIterator<Item = (&'static str, u64)>) -> Counts {
    let drops = drops.into_iter().filter(|(_, n)| *n > 0);
    drops.map(|(cause, n)| (cause.into(), n)).collect()
}

/// Adds a connection's counters, or those of all that are gone, to its stack's.
pub fn count(stack: &mut StackView, counters: &Counters) {
    for (name, n) in [
        ("tcp_bytes_acked", counters.bytes_acked),
        ("tcp_bytes_received", counters.bytes_received),
        ("tcp_segments_sent", counters.segments_sent),
        ("tcp_segments_received", counters.segments_received),
        ("tcp_retransmissions", counters.retransmissions),
        ("tcp_timeouts", counters.timeouts.into()),
        ("tcp_recoveries", counters.recoveries.into()),
        ("tcp_tail_loss_probes", counters.tail_loss_probes.into()),
        ("tcp_spurious", counters.spurious.into()),
        ("tcp_out_of_order", counters.out_of_order),
        ("tcp_ecn_marks", counters.ecn_marks.into()),
        ("tcp_ecn_echoes", counters.ecn_echoes.into()),
        ("tcp_challenge_acks", counters.challenge_acks.into()),
    ] {
        stack.count(name, n);
    }
    stack.dropped(counters.drops.named());
}

/// An entry of the trace of a connection of a protocol whose flags have these letters.
pub fn segment(letters: &str, entry: &Entry, now: Instant) -> Segment {
    let flags = letters.chars().enumerate();
    let flags = flags.filter(|(at, _)| entry.flags >> at & 1 == 1).map(|(_, c)| c).collect();
    let ago = now.saturating_since(entry.at).as_micros();
    let way = match entry.kind {
        Kind::Received => ["received", ""],
        Kind::Sent => ["sent", ""],
        kind => kind.words(),
    };
    let what = if way[1].is_empty() { way[0].to_string() } else { way.join(": ") };
    Segment {
        ago_us: u64::try_from(ago).unwrap_or(u64::MAX),
        what,
        flags,
        seq: entry.seq,
        ack: entry.ack,
        len: entry.len,
        window: entry.window,
    }
}
