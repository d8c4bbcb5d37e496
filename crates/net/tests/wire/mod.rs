//! Layers on one Ethernet without loss, and a clock that stands still until it is told.

use std::net::IpAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::{Config, Fragment, Input, Layer, Link, MAX_HEADER_LEN, MacPair, Packet, Via};
use fusewire_wire::ethernet::Address;
use fusewire_wire::{icmp, icmpv6, udp};

/// A MAC address of the tests by its number.
pub fn mac_address(n: u8) -> Address {
    Address([2, 0, 0, 0, 0, n])
}

/// A host with these addresses, which are its own without a question.
pub fn config(n: u8, addresses: &[&str]) -> Config {
    let addresses = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    let link = Link::Ethernet(mac_address(n));
    Config { addresses, duplicate_detection: false, ..Config::new(link) }
}

/// Hosts on one wire.
pub struct Wire {
    /// The hosts.
    pub layers: Vec<Layer>,
    /// The clock.
    pub now: Instant,
    /// Every frame that was on the wire, with its time and sender.
    pub log: Vec<(Instant, usize, Vec<u8>)>,
}

#[allow(dead_code, reason = "each test uses a part of it")]
impl Wire {
    /// One host for each configuration.
    pub fn new(configs: Vec<Config>) -> Wire {
        let now = Instant::from_ms(1_000_000);
        let layer = |(n, config)| Layer::new(config, &[n as u8 + 1; 32], now);
        let layers = configs.into_iter().enumerate().map(layer).collect();
        Wire { layers, now, log: Vec::new() }
    }

    /// Lets everybody say what there is to say, and returns what went up.
    pub fn settle(&mut self) -> Vec<(usize, Input)> {
        let mut up = Vec::new();
        let mut rounds = 0;
        while let Some((from, frame)) = self.next_frame() {
            for to in (0..self.layers.len()).filter(|&to| to != from) {
                match self.layers[to].handle(self.now, &frame) {
                    Input::Consumed | Input::Dropped(_) => {}
                    input => up.push((to, input)),
                }
            }
            self.log.push((self.now, from, frame));
            rounds += 1;
            assert!(rounds < 10_000, "the wire never falls silent");
        }
        up
    }

    fn next_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        (0..self.layers.len()).find_map(|from| self.transmit(from).map(|frame| (from, frame)))
    }

    /// The next frame of one host.
    pub fn transmit(&mut self, from: usize) -> Option<Vec<u8>> {
        let mut out = [0xee; 1514];
        let len = self.layers[from].poll_transmit(self.now, &mut out)?;
        Some(out[..len].to_vec())
    }

    /// Lets time pass, timer by timer.
    pub fn pass(&mut self, time: Duration) -> Vec<(usize, Input)> {
        let end = self.now + time;
        let mut up = self.settle();
        loop {
            let next = self.layers.iter().filter_map(Layer::poll_timeout).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            assert!(next > self.now, "a timer that is not served");
            self.now = next;
            for layer in &mut self.layers {
                layer.handle_timeout(self.now);
            }
            up.extend(self.settle());
        }
        self.now = end;
        up
    }
}

/// Builds frames that no layer would send.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each test uses a part of it")]
pub struct Craft {
    /// The sender's MAC address.
    pub from: Address,
    /// The receiver's.
    pub to: Address,
    /// The IP header's source.
    pub source: IpAddr,
    /// The IP header's destination.
    pub destination: IpAddr,
    /// Its hop limit.
    pub hop_limit: u8,
}

#[allow(dead_code, reason = "each test uses a part of it")]
impl Craft {
    /// From host `from` to host `to`.
    pub fn new(from: u8, to: u8, source: &str, destination: &str) -> Craft {
        Craft {
            from: mac_address(from),
            to: mac_address(to),
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            hop_limit: 64,
        }
    }

    fn via(&self) -> Via {
        Via {
            source: self.source,
            destination: self.destination,
            next_hop: self.destination,
            macs: Some(MacPair { source: self.from, destination: self.to }),
            mtu: 1500,
            may_fragment: false,
            hop_limit: self.hop_limit,
            loops: false,
            is_shared: false,
            generation: 0,
        }
    }

    /// A packet of any protocol.
    pub fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.via().header_len()];
        self.via().emit(&Packet::new(protocol, payload.len()), &mut frame);
        frame.extend(payload);
        frame
    }

    /// A piece of one.
    pub fn piece(&self, protocol: u8, id: u32, payload: &[u8], at: usize, more: bool) -> Vec<u8> {
        let piece = Fragment { offset: at, len: payload.len(), more, identification: id };
        let mut frame = vec![0; MAX_HEADER_LEN];
        let packet = Packet { dont_fragment: false, ..Packet::new(protocol, payload.len()) };
        let len = self.via().emit_fragment(&packet, &piece, &mut frame);
        frame.truncate(len);
        frame.extend(payload);
        frame
    }

    /// An ICMPv6 message whose checksum is still to be made.
    pub fn icmpv6(&self, message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        let sum = self.via().pseudo_header_sum(icmpv6::NUMBER, message.len());
        icmp::emit_checksum(sum, &mut message);
        self.packet(icmpv6::NUMBER, &message)
    }

    /// A UDP datagram.
    pub fn udp(&self, ports: (u16, u16), data: &[u8]) -> Vec<u8> {
        let len = udp::HEADER_LEN + data.len();
        let header =
            udp::Header { src_port: ports.0, dst_port: ports.1, len: len as u16, checksum: 0 };
        let mut body = vec![0; udp::HEADER_LEN];
        header.emit(&mut body);
        body.extend(data);
        let sum = self.via().pseudo_header_sum(udp::NUMBER, len);
        udp::Header { checksum: udp::checksum(sum, &body), ..header }.emit(&mut body);
        self.packet(udp::NUMBER, &body)
    }
}
