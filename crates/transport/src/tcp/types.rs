//! What goes into a connection and comes out of it, apart from headers.

use core::ops::Range;
use core::time::Duration;
use fusewire_base::Instant;
use fusewire_wire::tcp::Header;

/// State of a connection (RFC 9293, section 3.3.2). LISTEN is a [`Listener`](super::Listener).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection, or one that is over.
    Closed,
    /// SYN sent.
    SynSent,
    /// SYN received and sent.
    SynReceived,
    /// Open both ways.
    Established,
    /// We finished; our FIN is not acknowledged.
    FinWait1,
    /// We finished; the peer has not.
    FinWait2,
    /// The peer finished; we have not.
    CloseWait,
    /// Both finished at once; our FIN is not acknowledged.
    Closing,
    /// The peer finished first; our FIN is not acknowledged.
    LastAck,
    /// Over; what may still be in the network dies out.
    TimeWait,
}

/// A range of the send stream that will be written and then committed. A reservation that was begun is
/// committed, or the connection is aborted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that was begun must be committed"]
pub struct Reservation {
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl Reservation {
    /// Stream offset of the first byte; 0 is the first byte after SYN.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a reservation is never empty")]
    pub fn len(&self) -> u32 {
        self.len
    }
}

/// How a committed range may be cut into segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// One ADU record: one segment when it fits, never joined with its neighbours.
    #[default]
    Record,
    /// Bytes without boundaries: may be joined with what was committed before.
    Stream,
    /// The same, but what is committed next begins a segment of its own.
    StreamEnd,
}

/// Why a segment is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitKind {
    /// SYN or SYN-ACK.
    Syn,
    /// Payload.
    Data,
    /// FIN.
    Fin,
    /// Acknowledgement without payload.
    Ack,
    /// Reset.
    Reset,
    /// Keep-alive or zero-window probe, without payload.
    Probe,
}

/// A segment to put on the wire.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The header; its checksum field is 0.
    pub header: Header,
    /// Stream offsets of the payload: one queued piece.
    pub payload: Option<Range<u64>>,
    /// The payload, SYN or FIN was sent before.
    pub retransmission: bool,
    /// Why it is sent.
    pub kind: TransmitKind,
    /// Send it as ECN-capable, ECT(0) (RFC 3168, section 6.1.1).
    pub ecn_capable: bool,
}

/// Where the payload of a received segment goes. The range `offset .. offset + len` is new: no byte of it
/// was accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadPlan {
    /// Stream offset of the first byte to take, after `trim_front`.
    pub offset: u64,
    /// Bytes to take.
    pub len: u32,
    /// Bytes at the payload's front that were received before.
    pub trim_front: u32,
    /// Bytes at the payload's back that are outside the window or were received before.
    pub trim_back: u32,
    /// `offset` is the next byte that the receiver waits for.
    pub in_order: bool,
    /// There is nothing to take (`len` is 0). Verify the checksum and call `handle_final` with
    /// [`Verdict::Control`]: the peer is told what we have.
    pub duplicate: bool,
}

impl PayloadPlan {
    /// The whole payload is taken as it came.
    pub fn is_whole(&self) -> bool {
        self.trim_front == 0 && self.trim_back == 0
    }
}

/// Result of the initial step of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// There is a payload; run the integrated step as planned, then `handle_final`.
    Payload(PayloadPlan),
    /// No payload to manipulate. Verify the checksum, then `handle_final` with [`Verdict::Control`].
    Control,
    /// Nothing to do with this segment; it was counted. Do not call `handle_final`.
    Drop(DropCause),
}

/// What the integrated step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Checksum right, no payload taken.
    Control,
    /// Checksum (and tag, where there is one) right; the first `len` bytes of the plan were taken.
    Accept {
        /// Bytes taken, at most the plan's `len`.
        len: u32,
    },
    /// As though the segment had never come.
    Reject(DropCause),
}

/// Why a segment was dropped. Indexes [`Counters::drops`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropCause {
    /// Wrong Internet checksum.
    Checksum,
    /// Wrong authentication tag.
    Tag,
    /// Malformed header or record.
    Malformed,
    /// No connection, or a closed one.
    Closed,
    /// Sequence numbers outside the window.
    OutOfWindow,
    /// Acknowledges what was not sent, or is too old (RFC 5961, section 5).
    BadAck,
    /// Timestamp older than one seen (PAWS, RFC 7323, section 5).
    Paws,
    /// Neither ACK nor RST nor SYN.
    NoAck,
    /// RST that is not exactly the next (RFC 5961, section 3).
    BlindReset,
    /// SYN on an open connection (RFC 5961, section 4).
    BlindSyn,
    /// Payload after the peer's FIN, or after we stopped reading.
    AfterFin,
    /// The table of received ranges is full.
    TooManyRanges,
    /// The caller had no memory for it.
    NoMemory,
    /// The backlog or the half-open table is full.
    Backlog,
    /// Peer violates the protocol otherwise.
    Protocol,
}

impl DropCause {
    /// All of them, in the order of their numbers.
    pub const ALL: [DropCause; DROP_CAUSES] = [
        DropCause::Checksum,
        DropCause::Tag,
        DropCause::Malformed,
        DropCause::Closed,
        DropCause::OutOfWindow,
        DropCause::BadAck,
        DropCause::Paws,
        DropCause::NoAck,
        DropCause::BlindReset,
        DropCause::BlindSyn,
        DropCause::AfterFin,
        DropCause::TooManyRanges,
        DropCause::NoMemory,
        DropCause::Backlog,
        DropCause::Protocol,
    ];

    /// Its name as users and metrics see it.
    pub const fn name(self) -> &'static str {
        match self {
            DropCause::Checksum => "tcp-checksum",
            DropCause::Tag => "tcp-tag",
            DropCause::Malformed => "tcp-malformed",
            DropCause::Closed => "tcp-closed",
            DropCause::OutOfWindow => "tcp-out-of-window",
            DropCause::BadAck => "tcp-bad-ack",
            DropCause::Paws => "tcp-paws",
            DropCause::NoAck => "tcp-no-ack",
            DropCause::BlindReset => "tcp-blind-reset",
            DropCause::BlindSyn => "tcp-blind-syn",
            DropCause::AfterFin => "tcp-after-fin",
            DropCause::TooManyRanges => "tcp-too-many-ranges",
            DropCause::NoMemory => "tcp-no-memory",
            DropCause::Backlog => "tcp-backlog",
            DropCause::Protocol => "tcp-protocol",
        }
    }
}

/// Why a segment is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// Acknowledgements show that it was lost (RFC 8985).
    Rack,
    /// The retransmission timeout (RFC 6298).
    Timeout,
    /// A tail loss probe (RFC 8985, section 7).
    TailLoss,
    /// It was too long for the path.
    Path,
}

/// Number of [`DropCause`]s.
pub const DROP_CAUSES: usize = DropCause::Protocol as usize + 1;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetCause {
    /// The peer reset it.
    Peer,
    /// The peer answered SYN with RST.
    Refused,
    /// We aborted it.
    Local,
}

/// What happened, for the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Established,
    /// Everything below this stream offset is acknowledged; its memory may be freed. Cumulative.
    Acked {
        /// Stream offset.
        upto_offset: u64,
    },
    /// The peer's stream ends here; everything before was accepted.
    PeerFinished {
        /// Length of the peer's stream in bytes.
        offset: u64,
    },
    /// The peer has urgent data up to this stream offset; it comes inline (RFC 6093).
    Urgent {
        /// Stream offset of the byte that follows the urgent data.
        upto_offset: u64,
    },
    /// The connection was reset.
    Reset(ResetCause),
    /// Retransmissions, the user timeout or keep-alive gave up.
    TimedOut,
    /// Both directions finished in order, or an error event came before; the machine may be dropped.
    Closed,
}

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

/// Counters of a connection. They wrap never in practice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments given out by `poll_transmit`.
    pub segments_sent: u64,
    /// Segments that came to `handle_final` and were not rejected.
    pub segments_received: u64,
    /// Payload bytes accepted.
    pub bytes_received: u64,
    /// Payload bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Fast recoveries.
    pub recoveries: u32,
    /// Tail loss probes.
    pub tail_loss_probes: u32,
    /// Recoveries or timeouts that were undone as spurious.
    pub spurious: u32,
    /// DSACKs received.
    pub dsacks: u32,
    /// ECN echoes obeyed.
    pub ecn_echoes: u32,
    /// Received segments that carried a congestion mark.
    pub ecn_marks: u32,
    /// Challenge ACKs sent.
    pub challenge_acks: u32,
    /// Zero-window and keep-alive probes sent.
    pub probes: u32,
    /// Payload segments accepted out of order.
    pub out_of_order: u64,
    /// Segments with payload that came and were not rejected.
    pub data_segments_received: u64,
    /// Segments with payload that left, retransmissions included.
    pub data_segments_sent: u64,
    /// Dropped segments by [`DropCause`].
    pub drops: [u32; DROP_CAUSES],
}

impl Counters {
    /// Counts what another connection has counted too.
    pub fn add(&mut self, other: &Counters) {
        let more = |n: &mut u32, m: u32| *n = n.saturating_add(m);
        self.segments_sent += other.segments_sent;
        self.segments_received += other.segments_received;
        self.bytes_received += other.bytes_received;
        self.bytes_acked += other.bytes_acked;
        self.retransmissions += other.retransmissions;
        more(&mut self.timeouts, other.timeouts);
        more(&mut self.recoveries, other.recoveries);
        more(&mut self.tail_loss_probes, other.tail_loss_probes);
        more(&mut self.spurious, other.spurious);
        more(&mut self.dsacks, other.dsacks);
        more(&mut self.ecn_echoes, other.ecn_echoes);
        more(&mut self.ecn_marks, other.ecn_marks);
        more(&mut self.challenge_acks, other.challenge_acks);
        more(&mut self.probes, other.probes);
        self.out_of_order += other.out_of_order;
        self.data_segments_received += other.data_segments_received;
        self.data_segments_sent += other.data_segments_sent;
        for (n, m) in self.drops.iter_mut().zip(other.drops) {
            more(n, m);
        }
    }

    /// Dropped segments for one cause.
    pub fn dropped(&self, cause: DropCause) -> u32 {
        self.drops[cause as usize]
    }

    pub(super) fn drop(&mut self, cause: DropCause) {
        self.drops[cause as usize] = self.drops[cause as usize].saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_place_and_its_own_name() {
        let mut names: Vec<_> = DropCause::ALL.iter().map(|cause| cause.name()).collect();
        for (n, cause) in DropCause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, n);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DROP_CAUSES);
    }

    #[test]
    fn counters_add_up() {
        let mut one = Counters { retransmissions: 2, timeouts: 1, ..Counters::default() };
        one.drop(DropCause::Paws);
        let mut sum = one;
        sum.add(&one);
        assert_eq!((sum.retransmissions, sum.timeouts, sum.dropped(DropCause::Paws)), (4, 2, 2));
    }
}
