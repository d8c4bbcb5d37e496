//! Why segments are dropped, in words of no protocol: views put its name before them (`tcp-checksum`, `xtp-checksum`).

fusewire_base::causes! {
    /// Why a segment was dropped.
    DropCause, counted by Drops of u32 {
        /// Wrong Internet checksum.
        Checksum = "checksum",
        /// Wrong authentication tag.
        Tag = "tag",
        /// Malformed header or record.
        Malformed = "malformed",
        /// No connection, or a closed one.
        Closed = "closed",
        /// Sequence numbers outside the window.
        OutOfWindow = "out-of-window",
        /// Acknowledges what was not sent, or is too old (RFC 5961, section 5).
        BadAck = "bad-ack",
        /// Timestamp older than one seen (PAWS, RFC 7323, section 5).
        Paws = "paws",
        /// Neither ACK nor RST nor SYN.
        NoAck = "no-ack",
        /// RST that is not exactly the next (RFC 5961, section 3).
        BlindReset = "blind-reset",
        /// SYN on an open connection (RFC 5961, section 4), or FIRST on an open context.
        BlindOpen = "blind-open",
        /// Payload after the peer's end (FIN, WCLOSE), or after we stopped reading.
        AfterEnd = "after-end",
        /// The table of received ranges is full.
        TooManyRanges = "too-many-ranges",
        /// The caller had no memory for it.
        NoMemory = "no-memory",
        /// The backlog or the half-open table is full.
        Backlog = "backlog",
        /// Opens what is not to be had, and is told so: DIAG 1 of XTP, RST of TCP.
        Refused = "refused",
        /// Peer violates the protocol otherwise.
        Protocol = "protocol",
    }
}
