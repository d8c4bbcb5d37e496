//! The IP layer against a hostile link: any frames at any times. It never fails, what it says is well-formed, what
//! it hands up lies where it says, and its tables and timers stay within bounds.

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_net::{
    Config, Identifier, Input, Layer, Limits, Link, MembershipChange, Packet, Payload, Via,
};
use fusewire_wire::ethernet::{self, Address, EtherType};
use fusewire_wire::groups::IGMP;
use fusewire_wire::{dhcp, icmp, icmpv6, ipv4, ipv6, udp};

use crate::Choices;

/// The layer's MAC address.
pub const OWN: Address = Address([2, 0, 0, 0, 0, 1]);
/// MAC addresses, addresses and groups that frames come from and go to.
const ADDRESSES: [&str; 16] = [
    "10.0.0.1",
    "10.0.0.2",
    "10.0.0.3",
    "10.0.0.255",
    "224.0.0.1",
    "239.1.2.3",
    "192.0.2.1",
    "255.255.255.255",
    "2001:db8::1",
    "2001:db8::2",
    "fe80::ff:fe00:1",
    "fe80::2",
    "ff02::1",
    "ff02::1:ff00:1",
    "ff15::7",
    "::",
];
const MAX_FRAMES: usize = 2_000;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let how = choices.u8();
    let mut host = Host::new(how);
    while !choices.is_empty() {
        host.step(&mut choices);
        host.drain();
    }
    // Whatever happened, an hour of silence brings it to rest.
    for _ in 0..4 {
        host.pass(Duration::from_secs(900));
    }
    assert!(host.layer.neighbors().count() <= 32);
    assert!(host.layer.addresses().count() <= 16);
    assert!(host.layer.groups().count() <= 32);
}

struct Host {
    layer: Layer,
    now: Instant,
    xid: [u8; 4],
    transmitted: usize,
}

impl Host {
    fn new(how: u8) -> Host {
        let link = if how & 1 == 0 { Link::Ethernet(OWN) } else { Link::Ip };
        let mut config = Config::new(link);
        config.dhcp = how & 2 != 0;
        config.slaac = how & 4 != 0;
        config.duplicate_detection = how & 8 != 0;
        config.responds = how & 16 == 0;
        if how & 32 == 0 {
            config.addresses = ["10.0.0.1/24", "2001:db8::1/64"].map(|a| a.parse().unwrap()).into();
        }
        if how & 64 != 0 {
            config.identifier = Identifier::Opaque([7; 16]);
        }
        config.limits = Limits {
            neighbors: 32,
            reassemblies: 16,
            path_mtus: 8,
            groups: 8,
            ..Limits::default()
        };
        let now = Instant::from_ms(1_000_000);
        Host { layer: Layer::new(config, &[9; 32], now), now, xid: [0; 4], transmitted: 0 }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.u8() % 8 {
            0 => {
                let len = usize::from(choices.u8());
                let frame = choices.bytes(len).to_vec();
                self.give(&frame);
            }
            1 => {
                let packet = self.packet(choices);
                self.give(&packet);
            }
            2 => {
                let piece = self.piece(choices);
                self.give(&piece);
            }
            3 => {
                let mut frame = [OWN.0, [2, 0, 0, 0, 0, choices.u8()]].concat();
                frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, choices.u8() % 3]);
                let sender = frame[6..12].to_vec();
                frame.extend(sender);
                frame.extend(choices.bytes(14));
                self.give(&frame);
            }
            4 => self.pass(Duration::from_millis(choices.u16().into())),
            5 => self.use_path(choices),
            6 => self.server(choices),
            _ => self.change(choices),
        }
    }

    /// A frame's way in.
    fn give(&mut self, frame: &[u8]) {
        match self.layer.handle(self.now, frame) {
            Input::Transport(datagram) => {
                let payload = self.layer.payload(frame, &datagram.payload);
                assert!(payload.len() <= 65_535);
                if let Payload::Frame { start, end } = datagram.payload {
                    assert!(start <= end && end <= frame.len());
                }
                assert!(
                    self.layer.is_own(datagram.destination)
                        || datagram.destination != datagram.source
                );
                assert!(!self.layer.is_own(datagram.source));
                assert!(!datagram.source.is_multicast() && !datagram.source.is_unspecified());
                self.layer.answer_unreachable(self.now, frame, &datagram);
                if let Some(out) = self.layer.answer(self.now, &datagram, 20) {
                    out.fill(0x55);
                }
            }
            Input::Error(error) => {
                assert!(self.layer.is_own(error.local));
                self.layer.accept_too_big(self.now, &error);
            }
            Input::Consumed | Input::Dropped(_) => {}
        }
    }

    fn via(&self, choices: &mut Choices<'_>) -> Option<Via> {
        let of = |n: u8| -> IpAddr { ADDRESSES[usize::from(n) % 16].parse().unwrap() };
        let (source, destination) = (of(choices.u8()), of(choices.u8()));
        let flags = choices.u8();
        let to = if flags & 1 == 0 { OWN } else { Address::BROADCAST };
        let macs =
            fusewire_net::MacPair { source: Address([2, 0, 0, 0, 0, flags >> 4]), destination: to };
        let ethernet = matches!(self.layer.config().link, Link::Ethernet(_));
        (source.is_ipv4() == destination.is_ipv4()).then_some(Via {
            source,
            destination,
            next_hop: destination,
            macs: ethernet.then_some(macs),
            mtu: 1500,
            may_fragment: flags & 8 != 0,
            hop_limit: [255, 64, 1][usize::from(flags >> 1) % 3],
            loops: false,
            is_shared: false,
            generation: 0,
        })
    }

    /// A packet of any protocol, whose checksums are right.
    fn packet(&mut self, choices: &mut Choices<'_>) -> Vec<u8> {
        let Some(via) = self.via(choices) else { return Vec::new() };
        let protocol = [icmp::NUMBER, icmpv6::NUMBER, IGMP, 17, 6, 0, 43, 60, 44, 59]
            [usize::from(choices.u8()) % 10];
        let len = usize::from(choices.u8());
        let mut body = choices.bytes(len).to_vec();
        seal(&via, protocol, &mut body);
        let mut frame = vec![0; via.header_len()];
        via.emit(&Packet::new(protocol, body.len()), &mut frame);
        frame.extend(body);
        frame
    }

    fn piece(&mut self, choices: &mut Choices<'_>) -> Vec<u8> {
        let Some(via) = self.via(choices) else { return Vec::new() };
        let at = usize::from(choices.u16()) & !7;
        let flags = choices.u8();
        let len = usize::from(choices.u8()) * if flags & 2 == 0 { 1 } else { 8 };
        let mut body = choices.bytes(len).to_vec();
        body.resize(len, 0);
        let piece = fusewire_net::Fragment {
            offset: at,
            len,
            more: flags & 1 != 0,
            identification: u32::from(flags >> 6),
        };
        let mut frame = vec![0; fusewire_net::MAX_HEADER_LEN];
        let protocol = [17, icmp::NUMBER, icmpv6::NUMBER, 60][usize::from(flags >> 2) % 4];
        let header_len = via.emit_fragment(&Packet::new(protocol, len), &piece, &mut frame);
        frame.truncate(header_len);
        frame.extend(body);
        frame
    }

    /// A DHCP server that has seen our messages.
    fn server(&mut self, choices: &mut Choices<'_>) {
        let kind =
            [dhcp::Kind::Offer, dhcp::Kind::Ack, dhcp::Kind::Nak][usize::from(choices.u8()) % 3];
        let word = choices.u32();
        let message = dhcp::Message {
            yours: [10, 0, 0, 50 + (word & 1) as u8].into(),
            server: Some([10, 0, 0, 2].into()),
            lease_s: Some(word >> 8),
            prefix_len: Some((word >> 2) as u8 & 31),
            ..dhcp::Message::new(kind, u32::from_be_bytes(self.xid), OWN)
        };
        let mut body = vec![0; udp::HEADER_LEN + dhcp::EMIT_LEN];
        message.emit(&mut body[udp::HEADER_LEN..]);
        let len = usize::from(choices.u8());
        let more = choices.bytes(len);
        let at = body.len() - more.len().min(40);
        let end = body.len();
        body[at..end].copy_from_slice(&more[..end - at]);
        let header =
            udp::Header { src_port: 67, dst_port: 68, len: body.len() as u16, checksum: 0 };
        header.emit(&mut body);
        let (from, to) = ("10.0.0.2".parse().unwrap(), "10.0.0.50".parse().unwrap());
        let sum = fusewire_net::pseudo_header_sum(from, to, udp::NUMBER, body.len());
        udp::Header { checksum: udp::checksum(sum, &body), ..header }.emit(&mut body);
        let via = Via {
            source: from,
            destination: to,
            next_hop: to,
            macs: Some(fusewire_net::MacPair {
                source: Address([2, 0, 0, 0, 0, 2]),
                destination: OWN,
            }),
            mtu: 1500,
            may_fragment: false,
            hop_limit: 64,
            loops: false,
            is_shared: false,
            generation: 0,
        };
        let mut frame = vec![0; via.header_len()];
        via.emit(&Packet::new(udp::NUMBER, body.len()), &mut frame);
        frame.extend(body);
        self.give(&frame);
    }

    fn use_path(&mut self, choices: &mut Choices<'_>) {
        let to: IpAddr = match choices.u8() {
            n @ 0..=15 => ADDRESSES[usize::from(n)].parse().unwrap(),
            n => [10, 0, 0, n].into(),
        };
        let Ok(via) = self.layer.route(self.now, to, None) else { return };
        assert!(self.layer.is_own(via.source) && via.destination == to);
        assert!(via.mtu >= 552 && via.mtu <= 1500);
        match choices.u8() % 4 {
            0 => self.layer.confirm(self.now, via.next_hop),
            1 => {
                self.layer.path_lost(self.now, to, choices.u16().into());
            }
            2 => self.layer.path_delivered(to, choices.u16().into()),
            _ => {
                let len = usize::from(choices.u16());
                let (mut at, mut pieces) = (0, 0);
                while at < len {
                    let piece = via.fragment(len, at, 1);
                    let packet = Packet::new(udp::NUMBER, len);
                    let mut out = [0; fusewire_net::MAX_HEADER_LEN];
                    let link_len = via.header_len() - via.ip_header_len();
                    let header_len = via.emit_fragment(&packet, &piece, &mut out);
                    assert!(header_len - link_len + piece.len <= via.mtu);
                    assert!(piece.more != (piece.offset + piece.len == len));
                    at += piece.len;
                    pieces += 1;
                }
                assert!(pieces <= 124);
            }
        }
    }

    fn change(&mut self, choices: &mut Choices<'_>) {
        let of = |n: u8| -> IpAddr { ADDRESSES[usize::from(n) % 16].parse().unwrap() };
        let (what, which) = (choices.u8(), of(choices.u8()));
        match what % 4 {
            joins @ (0 | 1) => {
                use MembershipChange::{Block, Join, JoinSource, Leave, LeaveSource, Unblock};
                let (source, socket) = (of(what >> 4), u32::from(what >> 7));
                let change = match (joins, what >> 2 & 3) {
                    (0, 1) => JoinSource(source),
                    (0, 2) => Block(source),
                    (0, _) => Join,
                    (_, 1) => LeaveSource(source),
                    (_, 2) => Unblock(source),
                    _ => Leave,
                };
                let changed = self.layer.change_membership(self.now, socket, which, change);
                assert!(which.is_multicast() || changed.is_err());
            }
            2 => self.layer.remove_address(self.now, which),
            _ => {
                if !which.is_multicast() && !which.is_unspecified() {
                    let len = if which.is_ipv4() { 24 } else { 64 };
                    let cidr = fusewire_net::Cidr::new(which, len).unwrap();
                    self.layer.add_address(self.now, cidr);
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.drain();
        for n in 0.. {
            let Some(next) = self.layer.poll_timeout().filter(|&next| next <= end) else { break };
            assert!(next > self.now, "a timer that is not served: {next}, now {}", self.now);
            assert!(n < 50_000, "time does not pass");
            self.now = next;
            self.layer.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
        self.layer.handle_timeout(self.now);
        self.drain();
    }

    /// Takes what the layer has to say, and reads it.
    fn drain(&mut self) {
        for n in 0.. {
            let mut out = [0xee; 1515];
            let Some(len) = self.layer.poll_transmit(self.now, &mut out[..1514]) else { break };
            assert!(n < MAX_FRAMES, "it never falls silent");
            self.transmitted += 1;
            let frame = &out[..len];
            match self.layer.config().link {
                Link::Ip => self.read_ip(frame),
                Link::Ethernet(_) => {
                    let header = ethernet::Header::parse(frame).expect("Ethernet");
                    assert_eq!(header.source, OWN);
                    match header.ethertype {
                        EtherType::ARP => {
                            fusewire_wire::arp::Packet::parse(&frame[14..]).expect("ARP");
                        }
                        _ => self.read_ip(&frame[14..]),
                    }
                }
            }
        }
        // Where the layer does not ask itself, somebody else is told of whom.
        for n in 0.. {
            let Some(_) = self.layer.poll_question(self.now) else { break };
            assert!(n < MAX_FRAMES, "it never stops asking");
        }
    }

    fn read_ip(&mut self, packet: &[u8]) {
        assert!(packet.len() <= 1500);
        if packet[0] >> 4 == 6 {
            let header = ipv6::Header::parse(packet).expect("IPv6");
            assert_eq!(header.payload(packet).len() + ipv6::HEADER_LEN, packet.len());
            return;
        }
        let header = ipv4::Header::parse(packet).expect("IPv4");
        assert_eq!(usize::from(header.total_len), packet.len());
        let payload = header.payload(packet);
        let ports = payload.get(..4) == Some(&[0, 68, 0, 67]);
        if header.protocol == udp::NUMBER && ports && !header.is_fragment() {
            let message = dhcp::Message::parse(&payload[udp::HEADER_LEN..]).expect("DHCP");
            self.xid = message.xid.to_be_bytes();
        }
    }
}

/// Makes the checksum of a message right.
fn seal(via: &Via, protocol: u8, body: &mut [u8]) {
    if body.len() < 8 {
        return;
    }
    let sum = match (protocol, via.source) {
        (icmp::NUMBER | IGMP, _) => Sum::ZERO,
        (icmpv6::NUMBER, IpAddr::V6(_)) => via.pseudo_header_sum(protocol, body.len()),
        _ => return,
    };
    icmp::emit_checksum(sum, body);
}

/// Honest traffic in the form that [`run`] reads.
pub fn seeds() -> Vec<Vec<u8>> {
    let ping = |source: u8, destination: u8, protocol: u8, kind: u8| {
        let mut step = vec![1, source, destination, 2 << 4, protocol, 16, kind, 0, 0, 0];
        step.extend([7; 12]);
        step
    };
    let solicitation = |source: u8, destination: u8| {
        let mut step = vec![1, source, destination, 2 << 4, 1, 32, 135, 0, 0, 0, 0, 0, 0, 0];
        step.extend("2001:db8::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        step.extend([1, 1, 2, 0, 0, 0, 0, 2]);
        step
    };
    let mut advertisement = vec![1, 11, 12, 2 << 4 | 1, 1, 56, 134, 0, 0, 0, 64, 0, 7, 8];
    advertisement.extend([0; 8]);
    advertisement.extend([1, 1, 2, 0, 0, 0, 0, 2, 3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8]);
    advertisement.extend([0, 0, 0, 0, 0x20, 1, 0xd, 0xb8, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let request = [3, 2, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1].to_vec();
    let beginning = [2, 1, 0, 2 << 4, 0, 0, 1, 16].iter().copied().chain([5; 16]).collect();
    let end = [2, 1, 0, 2 << 4, 0, 16, 0, 8].iter().copied().chain([6; 8]).collect();
    let wait = vec![4, 0x20, 0];
    let query = vec![1, 1, 4, 2 << 4 | 1, 2, 12, 0x11, 10, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0];
    let quote = [0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let mut too_big = vec![1, 1, 0, 2 << 4, 0, 36, 3, 4, 0, 0, 0, 0, 5, 0];
    too_big.extend(quote);
    too_big.extend([0, 80, 1, 2, 3, 4, 5, 6]);
    let scripts: Vec<(u8, Vec<Vec<u8>>)> = vec![
        (0, vec![request.clone(), ping(1, 0, 0, 8), vec![5, 1, 0], wait.clone()]),
        (8, vec![wait.clone(), solicitation(9, 8), ping(9, 8, 1, 128), solicitation(15, 13)]),
        (4 | 8 | 32, vec![wait.clone(), advertisement, wait.clone(), wait.clone()]),
        (0, vec![beginning, end, wait.clone()]),
        (2 | 32, vec![wait.clone(), vec![6, 0, 0, 0, 14, 97, 0], vec![6, 1, 0, 0, 14, 97, 0]]),
        (0, vec![vec![7, 0, 5, 7, 0, 14], query, wait, vec![7, 1, 5]]),
        (1, vec![too_big, ping(1, 0, 3, 9), vec![5, 2, 3, 0x23, 0x28]]),
    ];
    let script = |(how, steps): (u8, Vec<Vec<u8>>)| {
        let mut seed = vec![how];
        seed.extend(steps.concat());
        seed
    };
    scripts.into_iter().map(script).collect()
}
