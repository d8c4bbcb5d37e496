//! Which packets of a capture are kept: by address, port and protocol, as far as their headers are there.

use std::net::IpAddr;

use clap::{Args, ValueEnum};
use fusewire_device::pcapng::LINKTYPE_ETHERNET;
use fusewire_wire::ethernet::{self, EtherType};
use fusewire_wire::ipv6_extension::{FRAGMENT, FRAGMENT_LEN, Fragment};
use fusewire_wire::{arp, ipv4, ipv6};

/// What is kept has one of the hosts, one of the ports and one of the protocols, where some are named.
#[derive(Args, Debug, Default)]
pub struct Filter {
    /// Keep only packets from or to this address; several times: any of them.
    #[arg(long = "host", value_name = "ADDRESS")]
    hosts: Vec<IpAddr>,
    /// Keep only TCP and UDP with this port at either end, and so not XTP on IP itself, which has none; a stack's TCP or XTP in
    /// UDP has its datagrams' ports; several times: any of them.
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
    /// Keep only this protocol; several times: any of them.
    #[arg(long = "protocol", value_name = "PROTOCOL", value_enum)]
    protocols: Vec<Protocol>,
}

/// A protocol in IP, or ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// XTP.
    Xtp,
    /// ICMP and ICMPv6.
    Icmp,
    /// ARP.
    Arp,
}

/// What is looked at of a packet.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    ends: [Option<IpAddr>; 2],
    ports: [Option<u16>; 2],
    protocol: Option<Protocol>,
}

impl Filter {
    /// Whether a packet of an interface of this link type is kept. Its end may be missing.
    pub fn keeps(&self, link_type: u16, packet: &[u8]) -> bool {
        if self.hosts.is_empty() && self.ports.is_empty() && self.protocols.is_empty() {
            return true;
        }
        let seen = look(link_type, packet).unwrap_or_default();
        let host = |host: &IpAddr| seen.ends.contains(&Some(*host));
        let port = |port: &u16| seen.ports.contains(&Some(*port));
        let protocol = |protocol: &Protocol| seen.protocol == Some(*protocol);
        (self.hosts.is_empty() || self.hosts.iter().any(host))
            && (self.ports.is_empty() || self.ports.iter().any(port))
            && (self.protocols.is_empty() || self.protocols.iter().any(protocol))
    }
}

fn look(link_type: u16, packet: &[u8]) -> Option<Seen> {
    if link_type != LINKTYPE_ETHERNET {
        return ip(packet);
    }
    let header = ethernet::Header::parse(packet).ok()?;
    let body = packet.get(usize::from(header.header_len)..)?;
    match header.ethertype {
        EtherType::ARP => {
            let arp = arp::Packet::parse(body).ok()?;
            let ends = [arp.sender_ip, arp.target_ip].map(|addr| Some(addr.into()));
            Some(Seen { ends, protocol: Some(Protocol::Arp), ..Seen::default() })
        }
        _ => ip(body),
    }
}

fn ip(packet: &[u8]) -> Option<Seen> {
    let (ends, protocol, body) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Header::parse_quoted(packet).ok()?;
            let ends = [header.source, header.destination].map(|addr| Some(addr.into()));
            // What follows the first fragment has no ports.
            let is_first = header.fragment_offset == 0;
            let body = packet.get(usize::from(header.header_len)..).filter(|_| is_first);
            (ends, header.protocol, body)
        }
        6 => {
            let header = ipv6::Header::parse_quoted(packet).ok()?;
            let ends = [header.source, header.destination].map(|addr| Some(addr.into()));
            let (protocol, body) = upper(header.next_header, packet.get(ipv6::HEADER_LEN..)?)?;
            (ends, protocol, body)
        }
        _ => return None,
    };
    let protocol = match protocol {
        1 | 58 => Some(Protocol::Icmp),
        6 => Some(Protocol::Tcp),
        17 => Some(Protocol::Udp),
        36 => Some(Protocol::Xtp),
        _ => None,
    };
    let has_ports = matches!(protocol, Some(Protocol::Tcp | Protocol::Udp));
    let ports = match body.filter(|_| has_ports).and_then(|body| body.first_chunk()) {
        Some([a, b, c, d]) => [[*a, *b], [*c, *d]].map(|port| Some(u16::from_be_bytes(port))),
        None => [None; 2],
    };
    Some(Seen { ends, ports, protocol })
}

/// The protocol behind extension headers, and what it says where this is the first fragment.
fn upper(next_header: u8, payload: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    let upper = ipv6::upper_layer(next_header, payload).ok()?;
    let body = payload.get(upper.offset..)?;
    if upper.protocol != FRAGMENT {
        return Some((upper.protocol, Some(body)));
    }
    let fragment = Fragment::parse(body).ok()?;
    Some((fragment.next_header, body.get(FRAGMENT_LEN..).filter(|_| fragment.offset == 0)))
}

#[cfg(test)]
mod tests {
    use fusewire_device::pcapng::LINKTYPE_RAW;

    use super::*;

    /// Addresses and ports stand where the headers have them.
    fn v4(protocol: u8, fragment: u16) -> Vec<u8> {
        let mut packet =
            vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet.extend([0, 80, 0x1f, 0x90, 0, 0, 0, 0]);
        packet
    }

    fn v6(chain: &[&[u8]]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 60, chain[0][0], 64];
        packet.extend([&[0xfd][..], &[0; 14], &[1], &[0xfd], &[0; 14], &[2]].concat());
        chain.iter().for_each(|part| packet.extend(&part[1..]));
        packet
    }

    #[test]
    fn headers_say_what_is_kept() {
        let filter = |hosts: &[&str], ports: &[u16], protocols: &[Protocol]| Filter {
            hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
            ports: ports.to_vec(),
            protocols: protocols.to_vec(),
        };
        let raw = LINKTYPE_RAW;
        let (tcp, udp) = (v4(6, 0), v4(17, 0));
        assert!(Filter::default().keeps(raw, &[]) && Filter::default().keeps(9, &tcp));
        assert!(filter(&["10.0.0.2"], &[], &[]).keeps(raw, &tcp));
        assert!(!filter(&["10.0.0.3"], &[], &[]).keeps(raw, &tcp));
        assert!(filter(&["10.0.0.3", "10.0.0.1"], &[8080], &[Protocol::Tcp]).keeps(raw, &tcp));
        assert!(!filter(&["10.0.0.1"], &[81], &[]).keeps(raw, &tcp));
        assert!(!filter(&[], &[80], &[Protocol::Tcp]).keeps(raw, &udp));
        // Ports are TCP's and UDP's, and in the first fragment.
        assert!(!filter(&[], &[80], &[]).keeps(raw, &v4(1, 0)));
        assert!(filter(&[], &[80], &[]).keeps(raw, &v4(17, 0x2000)));
        assert!(!filter(&[], &[80], &[]).keeps(raw, &v4(17, 0x2001)));
        assert!(filter(&[], &[], &[Protocol::Udp]).keeps(raw, &v4(17, 0x2001)));
        let ethernet = [&[0; 12][..], &[8, 0], &tcp].concat();
        assert!(filter(&[], &[80], &[]).keeps(LINKTYPE_ETHERNET, &ethernet));
        let ports: &[u8] = &[0, 0, 80, 0, 99, 0, 0, 0, 0];
        let options: &[u8] = &[0, 17, 0, 0, 0, 0, 0, 0, 0];
        assert!(filter(&["fd00::2"], &[99], &[Protocol::Udp]).keeps(raw, &v6(&[options, ports])));
        for (offset, is_kept) in [(1, true), (9, false)] {
            let fragment: &[u8] = &[FRAGMENT, 17, 0, 0, offset, 0, 0, 0, 1];
            let packet = v6(&[fragment, ports]);
            assert_eq!(filter(&[], &[80], &[]).keeps(raw, &packet), is_kept);
        }
        let mut arp = [&[0; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]].concat();
        arp[38..42].copy_from_slice(&[10, 0, 0, 9]);
        assert!(filter(&["10.0.0.9"], &[], &[Protocol::Arp]).keeps(LINKTYPE_ETHERNET, &arp));
        // However much of a packet is missing.
        for packet in [&tcp, &ethernet, &arp, &v6(&[options, ports])] {
            for len in 0..packet.len() {
                for link in [LINKTYPE_ETHERNET, raw] {
                    let _ = filter(&[], &[80], &[]).keeps(link, &packet[..len]);
                }
            }
        }
    }
}
