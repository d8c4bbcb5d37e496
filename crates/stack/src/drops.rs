//! What the stacks drop.

fusewire_base::causes! {
    /// Why a stack dropped something that is not a connection's, the IP layer's or the device's to count.
    Cause, counted by Drops {
        /// Transport header malformed.
        Malformed = "transport-malformed",
        /// Wrong transport checksum, and for no connection (a connection counts its own).
        Checksum = "transport-checksum",
        /// UDP over IPv6 without a checksum.
        NoChecksum = "udp-no-checksum",
        /// The device's notes on checksum or segmentation do not fit the packet.
        BadOffload = "bad-offload",
        /// A protocol that we do not speak.
        Protocol = "protocol-unknown",
        /// For no connection and no listener; TCP's over IP is answered with RST.
        Stray = "transport-stray",
        /// Refused by a listener: backlog, cookie, violation.
        Listener = "transport-listener",
        /// Would be told that it belongs to nobody, but too many were told so in this second.
        Refusal = "refusal-limited",
        /// The table of sockets is full.
        TooManySockets = "too-many-sockets",
        /// The table of connections is full.
        TooManyConnections = "too-many-connections",
        /// Handshakes of sessions that were not completed in time, or pushed out by others when the table was full.
        Handshake = "handshake-unfinished",
        /// UDP for nobody's port; answered with ICMP when it was for us alone.
        UdpStray = "udp-stray",
        /// XTP straight over IP to an address where nobody speaks it; answered with ICMP when it was for us alone.
        XtpStray = "xtp-stray",
        /// The queue of a UDP socket was full, in messages.
        UdpOverflow = "udp-overflow",
        /// UDP from somebody else to a connected socket.
        UdpNotPeer = "udp-not-peer",
        /// UDP messages whose next hop did not answer, or that were too many while it was asked for, or found no room after it.
        UdpUnresolved = "udp-unresolved",
        /// ICMP errors that no socket was told of: they quote nothing of it that is under way.
        IcmpStray = "icmp-stray",
        /// Packets of calls that are none of ours, or no more, or not the peer's.
        CallStray = "call-stray",
        /// Requests and answers of calls that are not genuine, or came before.
        CallTag = "call-tag",
        /// Answers that had no way to go.
        Unroutable = "answer-unroutable",
        /// Answers that found the output queue full.
        OutputFull = "answer-output-full",
        /// TCP segments that came with fewer hops left than their socket demands (RFC 5082).
        FewHops = "too-few-hops",
    }
}
