//! The state diagram's states.

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

impl State {
    /// As `ss` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "CLOSED",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::Established => "ESTAB",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }
}
