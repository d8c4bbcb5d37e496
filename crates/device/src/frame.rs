//! A frame on its way out, and what can become of it.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// Explicit congestion notification bits of the IP header (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand congestion marks.
    #[default]
    NotEct = 0b00,
    /// It does, codepoint ECT(1).
    Ect1 = 0b01,
    /// It does, codepoint ECT(0).
    Ect0 = 0b10,
    /// A router met congestion.
    Ce = 0b11,
}

impl Ecn {
    /// From the low two bits of the IPv4 TOS or IPv6 traffic class octet.
    pub const fn from_tos(tos: u8) -> Ecn {
        match tos & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// One frame to send: header and payload, next to each other in memory or not.
#[derive(Clone, Copy, Debug)]
pub struct TxFrame<'a> {
    /// Where to.
    pub peer: SocketAddr,
    /// The TPDU's header.
    pub header: &'a [u8],
    /// The TPDU's payload; may be empty.
    pub payload: &'a [u8],
    /// The congestion bits of the IP header around it.
    pub ecn: Ecn,
}

impl TxFrame<'_> {
    /// Length in bytes on the wire.
    pub const fn len(&self) -> usize {
        self.header.len() + self.payload.len()
    }

    /// True for a frame without a byte; devices take it and send nothing.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of a frame that a device had taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It did not fit into the first link's MTU and was not sent.
    TooBig {
        /// Where it should have gone.
        peer: SocketAddr,
        /// Its length in bytes.
        len: usize,
    },
    /// The kernel knows no way to the peer, or the peer refuses. A hint, never proof: anyone can
    /// forge the ICMP message behind it.
    Unreachable {
        /// Where it should have gone.
        peer: SocketAddr,
        /// The peer's host reports that the port is closed.
        is_closed: bool,
    },
}

/// The last events, oldest first; when it is full the oldest is lost.
#[derive(Debug, Default)]
pub(crate) struct Events(VecDeque<Event>);

impl Events {
    const MAX: usize = 64;

    pub fn push(&mut self, event: Event) {
        if self.0.len() == Self::MAX {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    pub fn pop(&mut self) -> Option<Event> {
        self.0.pop_front()
    }
}
