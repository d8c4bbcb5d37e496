//! Address resolution for IPv4 (RFC 826): requests answered, answers learned, claims to our addresses seen.

use core::net::{IpAddr, Ipv4Addr};

use fusewire_base::Instant;
use fusewire_wire::arp::{Operation, PACKET_LEN, Packet};
use fusewire_wire::ethernet::{self, Address, EtherType};

use crate::addresses::Claim;
use crate::counters::Cause;
use crate::input::Input;
use crate::layer::Layer;
use crate::neighbors::{Evidence, Learned};
use crate::outbox::Kind;

impl Layer {
    pub(crate) fn arp(
        &mut self,
        now: Instant,
        bytes: &[u8],
        own: Address,
        from: Address,
    ) -> Result<Input, Cause> {
        let packet = Packet::parse(bytes).map_err(|_| Cause::ArpMalformed)?;
        let sender = packet.sender_ip;
        // Who lies about itself is not worth an entry.
        if packet.sender_mac != from || from.is_multicast() || from == own {
            return Err(Cause::ArpIgnored);
        }
        if sender.is_multicast() || sender.is_loopback() || sender == Ipv4Addr::BROADCAST {
            return Err(Cause::ArpIgnored);
        }
        // Beside a kernel with our address it is the kernel that defends it, and its packets come by.
        if self.config.responds {
            self.arp_claims(now, &packet)?;
        }
        let for_us = self.addresses.is_own(packet.target_ip.into());
        if !sender.is_unspecified() && self.addresses.on_link(sender.into()).is_some() {
            let evidence = match packet.operation {
                _ if sender == packet.target_ip => Evidence::Unasked,
                Operation::Request if for_us => Evidence::Mentioned,
                Operation::Request => Evidence::Unasked,
                Operation::Reply => Evidence::Answer,
            };
            self.learn(now, sender.into(), from, evidence)?;
        } else if !sender.is_unspecified() {
            // RFC 826 knows no networks, but an entry for another network is never looked up.
            return Err(Cause::ArpIgnored);
        }
        if packet.operation == Operation::Request && for_us && self.config.responds {
            let reply = Packet {
                operation: Operation::Reply,
                sender_mac: own,
                sender_ip: packet.target_ip,
                target_mac: from,
                target_ip: sender,
            };
            let kind = Kind::Link { destination: from, ethertype: EtherType::ARP };
            let out = self.outbox.push(now, kind, PACKET_LEN).ok_or(Cause::AnswerNoRoom)?;
            reply.emit(out);
        }
        Ok(Input::Consumed)
    }

    /// Another host says that it has, or wants, an address of ours.
    fn arp_claims(&mut self, now: Instant, packet: &Packet) -> Result<(), Cause> {
        let has = IpAddr::V4(packet.sender_ip);
        let probes = packet.sender_ip.is_unspecified() && packet.operation == Operation::Request;
        let wants = IpAddr::V4(packet.target_ip);
        let tentative = self.addresses.entry(wants).is_some_and(|e| !e.is_usable());
        let claimed = if probes && tentative { wants } else { has };
        self.claimed(now, claimed)
    }

    pub(crate) fn claimed(&mut self, now: Instant, address: IpAddr) -> Result<(), Cause> {
        match self.addresses.handle_claim(now, address) {
            Claim::Foreign => Ok(()),
            Claim::Conflict => Err(Cause::AddressConflict),
            Claim::Lost(entry) => {
                self.lost_address(now, &entry);
                Err(Cause::AddressConflict)
            }
        }
    }

    /// What a packet says of a neighbour. Who finds no place in the table is answered all the same.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        address: IpAddr,
        mac: Address,
        evidence: Evidence,
    ) -> Result<(), Cause> {
        let random = &mut self.random;
        match self.neighbors.learn(now, address, mac, evidence, random) {
            Learned::Nothing | Learned::Resolved => Ok(()),
            Learned::Contested => Err(Cause::NeighborContested),
            Learned::Full => {
                self.counters.drops.count(Cause::NeighborsFull);
                Ok(())
            }
        }
    }
}

/// A request for the MAC address of `target`: to one host, or to all.
pub(crate) fn emit_request(
    own: Address,
    source: Ipv4Addr,
    target: Ipv4Addr,
    mac: Option<Address>,
    out: &mut [u8],
) -> usize {
    let header = ethernet::Header {
        destination: mac.unwrap_or(Address::BROADCAST),
        source: own,
        ethertype: EtherType::ARP,
        header_len: ethernet::HEADER_LEN as u8,
    };
    let at = header.emit(out);
    let request = Packet {
        operation: Operation::Request,
        sender_mac: own,
        sender_ip: source,
        target_mac: Address::default(),
        target_ip: target,
    };
    at + request.emit(&mut out[at..])
}
