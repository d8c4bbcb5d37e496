//! What a transport machine tells of itself, in the words of the live view.

use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::machine::{CongestionPhase, Counters, Drops, Info};
use fusewire_view::{Counts, Page, Segment, Socket, Stack as StackView, Transport};

use crate::trace::{Entry, Kind};

/// What is asked, in numbers; the words are made where nobody waits.
pub struct Head {
    /// The transport's name.
    pub protocol: &'static str,
    pub device: &'static str,
    pub address: SocketAddr,
    pub mtu: usize,
    /// What was dropped that is no socket's.
    pub dropped: Vec<(&'static str, u64)>,
    /// What is counted besides, by name.
    pub counted: Vec<(&'static str, u64)>,
    /// Counters of connections that are gone.
    pub past: Counters,
}

/// A socket in numbers.
pub struct Numbers {
    pub protocol: &'static str,
    pub id: String,
    pub state: &'static str,
    pub local: SocketAddr,
    pub remote: Option<SocketAddr>,
    pub recv_queue: u64,
    pub send_queue: u64,
    pub names: Vec<(&'static str, String)>,
    /// What it dropped that its counters do not say.
    pub drops: Drops,
    pub info: Option<Info>,
    /// Its counters are none of another socket's, and so its stack's.
    pub counts: bool,
}

impl Numbers {
    /// Of which nothing is known yet.
    pub fn new(protocol: &'static str, id: String, local: SocketAddr) -> Numbers {
        Numbers {
            protocol,
            id,
            state: "QUIESCENT",
            local,
            remote: None,
            recv_queue: 0,
            send_queue: 0,
            names: Vec::new(),
            drops: Drops::default(),
            info: None,
            counts: true,
        }
    }

    fn socket(&self) -> Socket {
        let mut drops = self.drops;
        self.info.iter().for_each(|info| drops.merge(&info.counters.drops));
        Socket {
            id: self.id.clone(),
            protocol: self.protocol.into(),
            state: self.state.into(),
            recv_queue: self.recv_queue,
            send_queue: self.send_queue,
            local: self.local,
            remote: self.remote,
            drops: nonzero(self.protocol, &drops),
            names: self.names.iter().map(|(what, name)| ((*what).into(), name.clone())).collect(),
            transport: self.info.as_ref().map(|info| Box::new(transport(info))),
        }
    }
}

/// In words.
pub fn page(head: Option<&Head>, sockets: &[Numbers], next: Option<usize>) -> Page {
    let mut stack = head.map_or_else(StackView::default, words);
    for one in sockets {
        if let Some(info) = one.info.as_ref().filter(|_| one.counts) {
            count(&mut stack, one.protocol, &info.counters);
        }
        stack.sockets.push(one.socket());
    }
    Page { stack, next }
}

fn words(head: &Head) -> StackView {
    let mut view = StackView {
        kind: "udp".into(),
        device: head.device.into(),
        addresses: vec![head.address.to_string()],
        mtu: head.mtu as u64,
        ..StackView::default()
    };
    head.counted.iter().for_each(|(name, n)| view.count(name, *n));
    view.dropped(head.dropped.iter().copied());
    count(&mut view, head.protocol, &head.past);
    view
}

/// Estimates and counters of a connection.
pub fn transport(info: &Info) -> Transport {
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let counters = &info.counters;
    Transport {
        rtt_us: us(info.srtt),
        rttvar_us: us(info.rttvar),
        min_rtt_us: us(info.min_rtt),
        rto_us: us(info.rto),
        // Of what has no window, a group's member, nothing controls one.
        congestion_control: if info.cwnd > 0 { info.congestion.name() } else { "" }.into(),
        cwnd_bytes: info.cwnd,
        // Larger than any window: none was needed yet.
        ssthresh_bytes: (1..1 << 40).contains(&info.ssthresh).then_some(info.ssthresh),
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
        asks_sent: counters.asks_sent,
        asks_received: counters.asks_received,
        spans_received: counters.spans_received,
    }
}

/// What a transport of this protocol dropped, as far as it did, under its name.
pub fn nonzero(protocol: &str, drops: &Drops) -> Counts {
    let drops = drops.named().filter(|(_, n)| *n > 0);
    drops.map(|(name, n)| (format!("{protocol}-{name}"), n)).collect()
}

/// Adds a connection's counters, or those of all that are gone, to its stack's, under the name of their protocol.
pub fn count(stack: &mut StackView, protocol: &str, counters: &Counters) {
    let asking = [
        ("asks_sent", counters.asks_sent),
        ("asks_received", counters.asks_received),
        ("spans_received", counters.spans_received),
    ];
    let own = if protocol == "xtp" { &asking[..] } else { &[] };
    for (name, n) in [
        ("bytes_acked", counters.bytes_acked),
        ("bytes_received", counters.bytes_received),
        ("segments_sent", counters.segments_sent),
        ("segments_received", counters.segments_received),
        ("retransmissions", counters.retransmissions),
        ("timeouts", counters.timeouts.into()),
        ("recoveries", counters.recoveries.into()),
        ("tail_loss_probes", counters.tail_loss_probes.into()),
        ("spurious", counters.spurious.into()),
        ("out_of_order", counters.out_of_order),
        ("ecn_marks", counters.ecn_marks.into()),
        ("ecn_echoes", counters.ecn_echoes.into()),
        ("challenge_acks", counters.challenge_acks.into()),
    ]
    .iter()
    .chain(own)
    {
        stack.count(&format!("{protocol}_{name}"), *n);
    }
    for (name, n) in nonzero(protocol, &counters.drops) {
        stack.dropped([(&*name, n)]);
    }
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

#[cfg(test)]
mod tests {
    use fusewire_transport::machine::DropCause;

    use super::*;

    #[test]
    fn a_drop_has_the_name_of_its_protocol() {
        let mut drops = Drops::default();
        drops.add(DropCause::BlindOpen, 2);
        assert!(nonzero("xtp", &drops).into_iter().eq([("xtp-blind-open".to_string(), 2)]));
        assert!(nonzero("tcp", &drops).contains_key("tcp-blind-open"));
    }
}
