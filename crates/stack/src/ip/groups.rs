//! What a socket sends to a group, or to all of a network, comes to this host's own sockets that listen there too (RFC 1112,
//! section 6.1; `IP_MULTICAST_LOOP`, of IPv6 RFC 3493, section 5.2): at once, and without the interface.

use std::net::SocketAddr;

use fusewire_net::Via;

use super::input::Direct;
use super::output::UdpPacket;
use super::stack::Core;
use super::table::Protocol;
use super::udp::{Incoming, Messages, Staged};

impl Core {
    /// Gives messages that have left, one after the other, to the sockets here that are among those whom they are for.
    #[inline]
    pub(super) fn come_back(
        &mut self,
        via: &Via,
        packet: &UdpPacket,
        bytes: &[u8],
        message_len: usize,
    ) {
        if via.is_shared && packet.protocol == Protocol::Udp {
            self.bring_back(via, packet, bytes, message_len);
        }
    }

    fn bring_back(&mut self, via: &Via, packet: &UdpPacket, bytes: &[u8], message_len: usize) {
        let (to, marking) = (via.destination, packet.marking);
        // Who sends to all of a network cannot keep it from them.
        let keeps = if to.is_ipv4() { marking.keeps_v4 } else { marking.keeps_v6 };
        if keeps && to.is_multicast() {
            return;
        }
        let messages = Messages {
            from: SocketAddr::new(via.source, packet.src_port),
            to,
            is_shared: true,
            traffic_class: marking.traffic_class,
            hop_limit: packet.ip(0).hop_limit.unwrap_or(via.hop_limit),
            bytes,
            message_len: message_len.max(1),
        };
        // A queue has room for what leaves at once, but not for as much as a call may give.
        let run = (Staged::MAX / messages.message_len).max(1) * messages.message_len;
        let (mut bytes, mut is_first) = (bytes, true);
        while std::mem::take(&mut is_first) || !bytes.is_empty() {
            let (front, rest) = bytes.split_at(run.min(bytes.len()));
            let messages = Messages { bytes: front, ..messages };
            let count = messages.count() as u64;
            let incoming = Incoming { messages, head: None };
            let hear = self.udp_deliver_to_all(packet.dst.port(), &incoming, &mut Direct::None);
            self.counters.udp_messages_returned += count * hear as u64;
            bytes = rest;
        }
    }
}
