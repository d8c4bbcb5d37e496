//! What a sender to a group, and a receiver, are told when they are made.

use super::super::config::Rate;
use crate::congestion::Algorithm;
use core::time::Duration;
use fusewire_wire::xtp::{Address, Service};

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// The group, as FIRST and JCNTL have it.
    pub address: Address,
    /// [`Service::Multicast`], or [`Service::UnacknowledgedMulticast`].
    pub service: Service,
    /// Bytes of header and body in one packet.
    pub send_tpdu_len: usize,
    /// Messages prove themselves: the check covers the header alone of what they are sent in (NOCHECK).
    pub nocheck: bool,
    /// Bytes that may be reserved, queued and in flight together.
    pub send_buffer: u32,
    /// Entries of the ring of queued and in-flight packets.
    pub max_packets_in_flight: usize,
    /// The most that is sent.
    pub out_rate: Rate,
    /// Bytes that what carries a packet puts before it, as far as they count for `out_rate`.
    pub carried_by: u32,
    /// Bytes a second below which a member is dropped for which others wait.
    pub floor: u32,
    /// A member that has said nothing for so long, though asked, is dropped. Whole milliseconds.
    pub silence: Duration,
    /// Time between the answers of two members.
    pub slot: Duration,
    /// Members, and those who ask to be one.
    pub members_max: usize,
    /// Congestion control of the reliable service; `None` only on a path that the user vouches for.
    pub congestion: Option<Algorithm>,
    /// Packets of the initial window.
    pub initial_window_packets: u32,
    /// Time between two FIRSTs.
    pub announce: Duration,
    /// Smallest WTIMER.
    pub wtimer_min: Duration,
    /// How long a sender answers after its end.
    pub linger: Duration,
}

impl Default for SenderConfig {
    fn default() -> Self {
        SenderConfig {
            address: Address::in_udp(0),
            service: Service::Multicast,
            send_tpdu_len: 1472,
            nocheck: false,
            send_buffer: 8 << 20,
            max_packets_in_flight: 16 << 10,
            out_rate: Rate::NONE,
            carried_by: 0,
            floor: 64 << 10,
            silence: Duration::from_secs(2),
            slot: Duration::from_micros(20),
            members_max: 256,
            congestion: Some(Algorithm::Bbr),
            initial_window_packets: 10,
            announce: Duration::from_secs(1),
            wtimer_min: Duration::from_millis(200),
            linger: Duration::from_secs(60),
        }
    }
}

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The group: FIRST for another is not heard.
    pub address: Address,
    /// Bytes of header and body that we take in one packet.
    pub tpdu_len: usize,
    /// The check need not cover data (NOCHECK): messages prove themselves.
    pub nocheck: bool,
    /// Bytes of the receiver's memory.
    pub recv_window: u32,
    /// Spans beyond a gap that are remembered.
    pub max_ranges: usize,
    /// WTIMER before an answer to JCNTL has come; it doubles.
    pub wtimer: Duration,
    /// A member that hears nothing for so long is done.
    pub ctimeout: Duration,
    /// How long is asked to join, and for the end.
    pub patience: Duration,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        ReceiverConfig {
            address: Address::in_udp(0),
            tpdu_len: 65_507,
            nocheck: false,
            recv_window: 8 << 20,
            max_ranges: 1024,
            wtimer: Duration::from_millis(200),
            ctimeout: Duration::from_secs(120),
            patience: Duration::from_secs(30),
        }
    }
}
