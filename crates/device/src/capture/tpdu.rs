//! TPDUs as packets that a reader of captures knows.
//!
//! Each TPDU gets an Ethernet and an IPv6 header made for the capture. Their addresses are those of
//! the constant pseudo-header ([`encapsulation::address`]), so that the TPDU's own checksum is right as
//! it stands. Endpoint 0 is the local side; peers are numbered as they are met, and name
//! resolution blocks give the numbers their true addresses.

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use fusewire_wire::{ethernet, ipv6};

use crate::pcapng::{self, Direction, Packet};
use crate::{Ecn, encapsulation};

/// Bytes before a TPDU.
const MAX_HEADERS: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + ipv6::JUMBO_LEN;
/// Peers that get a number of their own; all later ones share the last.
const MAX_PEERS: u16 = u16::MAX - 1;

/// Turns TPDUs into blocks of a section with one interface.
#[derive(Debug)]
pub struct Tpdus {
    local: SocketAddr,
    protocol: u8,
    peers: HashMap<SocketAddr, u16>,
}

/// What is known of a TPDU besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Tpdu<'a> {
    /// Since the start of 1970.
    pub time: Duration,
    /// Which way it went.
    pub direction: Direction,
    /// The other side.
    pub peer: SocketAddr,
    /// Its congestion mark.
    pub ecn: Ecn,
    /// Words for its reader; none when empty.
    pub comment: &'a str,
    /// Bytes of it that are kept.
    pub snap_len: usize,
}

impl Tpdus {
    /// For a device whose own address is `local`, which is given its name in `out`, and TPDUs of the `protocol` that has
    /// that number in the headers of IP.
    pub fn new(out: &mut Vec<u8>, local: SocketAddr, protocol: u8) -> Self {
        pcapng::name(out, encapsulation::address(0), &local.to_string());
        Tpdus { local, protocol, peers: HashMap::new() }
    }

    /// Appends one TPDU, and its peer's name when it is new.
    pub fn write(&mut self, out: &mut Vec<u8>, tpdu: &Tpdu<'_>, parts: [&[u8]; 2]) {
        let number = self.number(out, tpdu.peer);
        let (source, destination) = match tpdu.direction {
            Direction::In => (number, 0),
            Direction::Out => (0, number),
        };
        let mut headers = [0; MAX_HEADERS];
        let len = parts[0].len() + parts[1].len();
        let headers_len =
            make_headers(&mut headers, (source, destination), self.protocol, tpdu.ecn, len);
        let packet = Packet {
            interface: 0,
            time: tpdu.time,
            direction: tpdu.direction,
            len: headers_len + len,
            comment: tpdu.comment,
        };
        let first = parts[0].len().min(tpdu.snap_len);
        let second = parts[1].len().min(tpdu.snap_len - first);
        pcapng::packet(out, &packet, |out| {
            out.extend(&headers[..headers_len]);
            out.extend(&parts[0][..first]);
            out.extend(&parts[1][..second]);
        });
    }

    /// The peer's endpoint number; a new one is written with its address.
    fn number(&mut self, out: &mut Vec<u8>, peer: SocketAddr) -> u16 {
        if peer == self.local {
            return 1 + MAX_PEERS;
        }
        if let Some(&number) = self.peers.get(&peer) {
            return number;
        }
        let number = u16::try_from(self.peers.len() + 1).unwrap_or(MAX_PEERS).min(MAX_PEERS);
        if number < MAX_PEERS {
            self.peers.insert(peer, number);
            pcapng::name(out, encapsulation::address(number), &peer.to_string());
        }
        number
    }
}

/// Fills in Ethernet and IPv6 headers; returns their length.
fn make_headers(
    out: &mut [u8; MAX_HEADERS],
    (from, to): (u16, u16),
    protocol: u8,
    ecn: Ecn,
    tpdu_len: usize,
) -> usize {
    let mac = |n: u16| {
        let [a, b] = n.to_be_bytes();
        ethernet::Address([2, 0, 0, 0, a, b])
    };
    let ethernet = ethernet::Header {
        destination: mac(to),
        source: mac(from),
        ethertype: ethernet::EtherType::IPV6,
        header_len: ethernet::HEADER_LEN as u8,
    };
    let at = ethernet.emit(out);
    let ip = ipv6::Header {
        traffic_class: ecn as u8,
        flow_label: 0,
        payload_len: 0,
        next_header: protocol,
        hop_limit: 64,
        source: Ipv6Addr::from(encapsulation::address(from)),
        destination: Ipv6Addr::from(encapsulation::address(to)),
    };
    at + ip.emit_for(protocol, tpdu_len, &mut out[at..])
}
