//! What goes into a connection and comes out of it: ranges of a stream, and what becomes of a segment.

use core::ops::Range;

use super::{DropCause, Protocol};

/// A range of the send stream that will be written and then committed. A reservation that was begun is
/// committed, or the connection is aborted.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that was begun must be committed"]
pub struct Reservation {
    offset: u64,
    len: u32,
    unit: u32,
}

impl Reservation {
    /// The `len` bytes from `offset` on, for one record.
    pub fn new(offset: u64, len: u32) -> Reservation {
        Reservation { offset, len, unit: len }
    }

    /// The same, filled by records of `unit` bytes each, of which the length is a multiple.
    pub fn of_records(self, unit: u32) -> Reservation {
        debug_assert!(unit > 0 && self.len.is_multiple_of(unit));
        Reservation { unit, ..self }
    }

    /// Stream offset of the first byte; 0 is the first byte after SYN.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a reservation is never empty")]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Length of each record in it, in bytes.
    pub fn unit(&self) -> u32 {
        self.unit
    }
}

/// How a committed range may be cut into segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cut {
    /// One ADU record: begins a segment, and is all of it unless others are joined to it. Or several, alike, which
    /// fit one segment ([`Reservation::of_records`]).
    #[default]
    Record,
    /// One ADU record more behind the one before, or several, alike, where
    /// [`Connection::joins`](super::Connection::joins) has said of all of them that they may.
    Joined,
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
pub struct Transmit<H> {
    /// The header; its checksum field is 0.
    pub header: H,
    /// Stream offsets of the payload: one queued piece.
    pub payload: Option<Range<u64>>,
    /// The payload, SYN or FIN was sent before.
    pub retransmission: bool,
    /// Why it is sent.
    pub kind: TransmitKind,
    /// Send it as ECN-capable, ECT(0) (RFC 3168, section 6.1.1).
    pub ecn_capable: bool,
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
    /// The plan's first `len` bytes, one at least, were taken; the others are as though they had never come.
    Part {
        /// Bytes taken, less than the plan's `len`.
        len: u32,
        /// What is wrong with the others.
        rest: DropCause,
    },
    /// As though the segment had never come.
    Reject(DropCause),
}

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

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// We have called, and nothing is known of the peer yet.
    Calling,
    /// The peer has answered, and not all is said.
    Open,
    /// Over; what may still be in the network dies out.
    Lingering,
    /// No connection, or one that is over.
    Closed,
}

/// What a listener does with a segment.
#[derive(Debug)]
pub enum ListenerAction<P: Protocol> {
    /// Send this: the handshake goes on, or the segment is refused.
    Reply(P::Header),
    /// Here is the connection. Hand the same segment to it: it may carry payload. See
    /// [`Listener::taken`](super::Listener::taken).
    Accept(Box<P::Connection>),
    /// Nothing to do; it was counted.
    Drop(DropCause),
}

/// What two ends say of the path between them, in TPDUs that are no segments of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Which of the two it is.
    pub says: Says,
    /// What nobody foretells: an answer has its question's.
    pub nonce: u64,
}

/// Question or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "there is no more to say")]
pub enum Says {
    Question = 1,
    Answer = 2,
}

/// What a trace shows of a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Sequence number, its lower half if it is longer.
    pub seq: u32,
    /// What it acknowledges, likewise.
    pub ack: u32,
    /// The window field.
    pub window: u16,
    /// Flags; [`Protocol::letters`](super::Protocol::letters) has their letters.
    pub flags: u8,
}
