//! Services 1 to 3 (`docs/xtp.md`, section 15): one message, and what is said to it.
//!
//! | type | who |
//! |---|---|
//! | [`Request`] | the initiator of one message: a datagram, or a request that is answered |
//! | [`Answers`] | how long answers take, and so how long the next request waits for its own |
//! | [`Responder`] | the responder's contexts, all of them: those that wait for an answer, and those whose answer is kept |
//!
//! In the clean case neither is more than a few numbers: FIRST goes, the answer comes. What needs more than that, because
//! the answer takes long or is long, is from then on a [`Connection`](super::Connection) within the one or the other, whose
//! stream in the one direction has ended already.

mod connection;
mod context;
mod patience;
mod request;
mod responder;

use super::connection::INITIAL_ALLOC;
use super::headers::when;
use super::{Config, Header, Transmit};
use crate::machine::{Initial, PayloadPlan, TransmitKind};
use core::ops::Range;
use fusewire_wire::xtp::{HEADER_LEN, Options, Service};

pub use patience::{ANSWER_SLACK, Answers, Patience};
pub use request::{Outcome, Request};
pub use responder::{Arrived, Bounds, Event, Id, Incoming, Responder};

/// A message to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// One of services 1 to 3.
    pub service: Service,
    /// The service's number at the responder.
    pub port: u16,
    /// Bytes of it.
    pub len: u32,
    /// The application's 8 bytes.
    pub btag: Option<u64>,
    /// It has a tag of its own: where it is in one packet, the check covers the header alone.
    pub proves_itself: bool,
}

/// A message that services 1 to 3 do not carry: longer than this, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The longest.
    pub max: u32,
}

/// Bytes of a traffic segment with limits.
const TRAFFIC_LEN: u32 = 24;
/// Bytes of the longest address segment.
const ADDRESS_LEN_MAX: u32 = 40;

/// Bytes of data in one FIRST, with an address segment of so many.
fn first_payload(cfg: &Config, address_len: u32, btag: bool, xkey: bool) -> u32 {
    let tags = 8 * (u32::from(btag) + u32::from(xkey));
    let cost = HEADER_LEN as u32 + address_len + TRAFFIC_LEN + tags;
    u32::try_from(cfg.send_tpdu_len).unwrap_or(u32::MAX).saturating_sub(cost).max(1)
}

/// The longest message of a service: what FIRST holds, or so many FIRSTs as a controller lets out at once, and no more
/// than may be sent before there is an alloc.
pub fn message_len_max(cfg: &Config, service: Service, btag: bool) -> u32 {
    let one = first_payload(cfg, ADDRESS_LEN_MAX, btag, true);
    let packets = if service == Service::UnacknowledgedDatagram {
        1
    } else {
        cfg.initial_window_packets.max(1)
    };
    one.saturating_mul(packets).min(INITIAL_ALLOC as u32)
}

/// What says of a packet that it is all of a stream, but for the offset.
const WHOLE: Options = Options::RCLOSE.with(Options::WCLOSE).with(Options::EOM);

/// A packet with all of a message's bytes.
fn is_whole_message(h: &Header) -> bool {
    h.seq == 0 && h.options.has(Options::WCLOSE.with(Options::EOM))
}

/// A plan to take all of a payload.
fn take_all(offset: u64, len: u32) -> Initial {
    if len == 0 {
        return Initial::Control;
    }
    Initial::Payload(PayloadPlan {
        offset,
        len,
        trim_front: 0,
        trim_back: 0,
        in_order: true,
        duplicate: false,
    })
}

/// A packet that leaves.
fn packet(header: Header, payload: Option<Range<u64>>, retransmission: bool) -> Transmit {
    let kind = if payload.is_some() { TransmitKind::Data } else { TransmitKind::Ack };
    Transmit { header, payload, retransmission, kind, ecn_capable: false }
}

/// NOCHECK, for what proves itself.
fn unchecked(proves_itself: bool) -> Options {
    when(proves_itself, Options::NOCHECK)
}
