//! The control block: what an application says of a context when it makes one (Dabbous, section 4.1).

use fusewire_device::Capabilities;
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::xtp;
pub use fusewire_transport::xtp::{Rate, Retransmission};

use fusewire_wire::xtp::Service;

use super::Config;

/// Bytes of a packet before the path is known (`docs/xtp.md`, section 18).
pub(super) const BASE_PACKET: usize = 1200;
/// No packet is shorter: what every peer takes, and a header (section 2).
const PACKET_MIN: usize = 512 + 32;
/// The smallest buffer: what a peer may send before it knows of any.
const BUFFER_MIN: u32 = 16_384;

/// What proves that a packet is as it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Check {
    /// The Internet checksum over all of it (RFC 1071).
    #[default]
    Internet,
    /// The Internet checksum over the header, CXOR behind the data of a stream, if the peer has it too; otherwise as above.
    Cxor,
}

/// What a context carries (`docs/xtp.md`, section 2, services).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Messages either way, reliably (service 4).
    #[default]
    Stream,
    /// One message of one packet, of which nothing more is known (service 1).
    Datagram,
    /// One message, and the word that it was handed over (service 2).
    Acknowledged,
    /// A request and its answer (service 3).
    Transaction,
}

impl Kind {
    /// As views spell it.
    #[cfg(feature = "view")]
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Stream => "stream",
            Kind::Datagram => "datagram",
            Kind::Acknowledged => "acknowledged-datagram",
            Kind::Transaction => "transaction",
        }
    }
}

/// Mechanisms of a context, and its largest buffers. `Default` is a reliable stream of messages, in order.
#[derive(Clone, Debug)]
pub struct ControlBlock {
    /// What it carries. What is no stream has the Internet checksum, goes again whole, and is whole when it is told.
    pub kind: Kind,
    /// What is sent again when something was lost.
    pub retransmission: Retransmission,
    /// FASTNAK: ask to be told of gaps at once.
    pub fastnak: bool,
    /// NOERR: nothing is sent again; the receiver hears of gaps ([`Event::Gap`](super::Event::Gap)).
    pub noerr: bool,
    /// NOFLOW: the peer's window is not looked at; what it cannot hold it drops.
    pub noflow: bool,
    /// EDGE: ask by the change of a bit, beside SREQ.
    pub edge: bool,
    /// What proves packets.
    pub check: Check,
    /// BTAG: messages have 8 bytes of the application's.
    pub tags: bool,
    /// SORT: the priority of the context, the larger first; messages have their own.
    pub sort: Option<u16>,
    /// Messages are told when they are whole, also behind a gap; otherwise in order.
    pub overtaking: bool,
    /// The most that we send.
    pub out_rate: Rate,
    /// The most that we want to be sent.
    pub in_rate: Rate,
    /// Congestion control; `None` only on a path that the user vouches for.
    pub congestion: Option<Algorithm>,
    /// Bytes of a packet, header included, where the user knows the path; otherwise what the device carries where nothing
    /// lies between, and elsewhere 1,200.
    pub packet_bytes: Option<usize>,
    /// The largest send buffer, in bytes: what is queued and not acknowledged. No message is longer.
    pub send_bytes: u32,
    /// The largest receive buffer, in bytes: a message that is longer ends the context.
    pub receive_bytes: u32,
}

impl Default for ControlBlock {
    fn default() -> Self {
        ControlBlock {
            kind: Kind::default(),
            retransmission: Retransmission::default(),
            fastnak: true,
            noerr: false,
            noflow: false,
            edge: false,
            check: Check::default(),
            tags: false,
            sort: None,
            overtaking: false,
            out_rate: Rate::NONE,
            in_rate: Rate::NONE,
            congestion: Some(Algorithm::default()),
            packet_bytes: None,
            send_bytes: 2 << 20,
            receive_bytes: 2 << 20,
        }
    }
}

impl ControlBlock {
    /// The service on the wire.
    pub(super) fn service(&self) -> Service {
        match self.kind {
            Kind::Stream => Service::Stream,
            Kind::Datagram => Service::UnacknowledgedDatagram,
            Kind::Acknowledged => Service::AcknowledgedDatagram,
            Kind::Transaction => Service::Transaction,
        }
    }

    /// The machine's settings, for a path that carries packets of `packet` bytes.
    pub(super) fn settings(&self, caps: &Capabilities, packet: usize) -> xtp::Config {
        let device = u32::try_from(caps.receive_buffer_bytes).unwrap_or(u32::MAX);
        let receive_bytes = self.receive_bytes.min(device).max(BUFFER_MIN);
        let send_bytes = self.send_bytes.max(BUFFER_MIN);
        xtp::Config {
            tpdu_len: caps.max_datagram,
            send_tpdu_len: packet,
            send_buffer: send_bytes,
            max_packets_in_flight: (send_bytes as usize / 64).min(4096),
            recv_window: receive_bytes,
            initial_recv_window: receive_bytes,
            retransmission: self.retransmission,
            fastnak: self.fastnak,
            noerr: self.noerr,
            passes_gaps: true,
            noflow: self.noflow,
            edge: self.edge,
            cxor: self.check == Check::Cxor && self.kind == Kind::Stream,
            btag: self.tags,
            messages: true,
            sort: self.sort,
            out_rate: self.out_rate,
            in_rate: self.in_rate,
            congestion: self.congestion,
            // Packets are made when they can leave.
            pacing: false,
            ..xtp::Config::default()
        }
    }

    /// Bytes of the first packets to a peer, of which is known whether nothing lies between.
    pub(super) fn packet(&self, config: &Config, caps: &Capabilities, is_whole: bool) -> usize {
        let wanted = self.packet_bytes.or(config.packet_bytes);
        let path = if is_whole { caps.max_datagram } else { BASE_PACKET };
        wanted.unwrap_or(path).clamp(PACKET_MIN, caps.max_datagram.max(PACKET_MIN))
    }
}
