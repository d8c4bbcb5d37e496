//! Why segments are dropped.

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

/// Number of [`DropCause`]s.
pub const DROP_CAUSES: usize = DropCause::Protocol as usize + 1;

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
}
