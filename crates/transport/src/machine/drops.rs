//! Why segments are dropped.

fusewire_base::causes! {
    /// Why a segment was dropped.
    DropCause, counted by Drops of u32 {
        /// Wrong Internet checksum.
        Checksum = "tcp-checksum",
        /// Wrong authentication tag.
        Tag = "tcp-tag",
        /// Malformed header or record.
        Malformed = "tcp-malformed",
        /// No connection, or a closed one.
        Closed = "tcp-closed",
        /// Sequence numbers outside the window.
        OutOfWindow = "tcp-out-of-window",
        /// Acknowledges what was not sent, or is too old (RFC 5961, section 5).
        BadAck = "tcp-bad-ack",
        /// Timestamp older than one seen (PAWS, RFC 7323, section 5).
        Paws = "tcp-paws",
        /// Neither ACK nor RST nor SYN.
        NoAck = "tcp-no-ack",
        /// RST that is not exactly the next (RFC 5961, section 3).
        BlindReset = "tcp-blind-reset",
        /// SYN on an open connection (RFC 5961, section 4).
        BlindSyn = "tcp-blind-syn",
        /// Payload after the peer's FIN, or after we stopped reading.
        AfterFin = "tcp-after-fin",
        /// The table of received ranges is full.
        TooManyRanges = "tcp-too-many-ranges",
        /// The caller had no memory for it.
        NoMemory = "tcp-no-memory",
        /// The backlog or the half-open table is full.
        Backlog = "tcp-backlog",
        /// Peer violates the protocol otherwise.
        Protocol = "tcp-protocol",
    }
}
