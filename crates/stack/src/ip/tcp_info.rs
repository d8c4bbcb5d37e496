//! `struct tcp_info`, as Linux lays it out.

use fusewire_base::Instant;
use fusewire_transport::machine::CongestionPhase;
use fusewire_transport::tcp::State;

use super::config::{Result, SocketId};
use super::stack::Stack;

/// Its length in `linux/tcp.h`.
const LEN: usize = 288;

/// Linux's numbers of the states.
fn state(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

fn phase(phase: CongestionPhase) -> u8 {
    match phase {
        CongestionPhase::Open => 0,
        CongestionPhase::Disorder => 1,
        CongestionPhase::Reduced => 2,
        CongestionPhase::Recovery => 3,
        CongestionPhase::Loss => 4,
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, n: u64) {
        self.0.extend(u32::try_from(n).unwrap_or(u32::MAX).to_ne_bytes());
    }

    fn u64(&mut self, n: u64) {
        self.0.extend(n.to_ne_bytes());
    }
}

/// `struct tcp_info` of a socket without a connection, which listens or is closed.
pub fn unconnected_tcp_info(listens: bool) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    bytes[0] = if listens { 10 } else { state(State::Closed) };
    bytes
}

impl Stack {
    /// `struct tcp_info` of a connection; what the stack does not know is 0. Counts of segments are bytes divided by
    /// the segment size, as the kernel's congestion control counts in segments.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn linux_tcp_info(&mut self, now: Instant, id: SocketId) -> Result<Vec<u8>> {
        let stream = self.core.table.stream(id)?;
        let i = stream.tcp.info();
        let c = &i.counters;
        let mss = u64::from(i.max_payload.max(1));
        let since = |at: Instant| (now - at).as_millis() as u64;
        let (busy, limited_by_receiver) = stream.tcp.busy_times(now);
        let mut w = Writer(Vec::with_capacity(LEN));
        w.0.extend([
            state(stream.tcp.state()),
            phase(i.phase),
            i.timeouts_in_a_row,
            i.probes_in_a_row,
            i.back_off as u8,
            u8::from(i.timestamps)
                | u8::from(i.sack) << 1
                | u8::from(i.window_scaling) << 2
                | u8::from(i.ecn) << 3,
            i.send_shift | i.recv_shift << 4,
            0,
        ]);
        w.u32(i.rto.as_micros() as u64);
        w.u32(40_000);
        w.u32(mss);
        w.u32(i.recv_segment.into());
        w.u32(i.segments_out.into());
        w.u32(i.segments_sacked.into());
        w.u32(i.segments_lost.into());
        w.u32(i.segments_resent.into());
        w.u32(0);
        w.u32(since(i.data_sent_at));
        w.u32(0);
        w.u32(since(i.data_received_at));
        w.u32(since(i.heard_at));
        w.u32(mss + 40);
        w.u32(i.recv_window.into());
        w.u32(i.srtt.as_micros() as u64);
        w.u32(i.rttvar.as_micros() as u64);
        w.u32(if i.ssthresh == u64::MAX { 0x7fff_ffff } else { i.ssthresh / mss });
        w.u32(i.cwnd / mss);
        w.u32(i.advertised_mss.into());
        w.u32(i.reordering.into());
        w.u32(0);
        w.u32(i.recv_window.into());
        w.u32(c.retransmissions);
        w.u64(i.pacing_rate.unwrap_or(u64::MAX));
        w.u64(u64::MAX);
        w.u64(c.bytes_acked);
        w.u64(c.bytes_received);
        w.u32(c.segments_sent);
        w.u32(c.segments_received);
        w.u32(stream.unsent());
        w.u32(i.min_rtt.as_micros() as u64);
        w.u32(c.data_segments_received);
        w.u32(c.data_segments_sent);
        w.u64(0);
        w.u64(busy.as_micros() as u64);
        w.u64(limited_by_receiver.as_micros() as u64);
        w.u64(stream.backlog.starved(now).as_micros() as u64);
        w.u32(c.bytes_acked.div_ceil(mss));
        w.u32(0);
        w.u64(c.bytes_acked + i.unacked);
        w.u64(c.retransmissions * mss);
        w.u32(c.dsacks.into());
        w.u32(i.reorderings.into());
        w.u32(c.out_of_order);
        w.u32(i.send_window.into());
        w.u32(i.recv_window.into());
        w.0.resize(LEN, 0);
        Ok(w.0)
    }
}
