//! An interface in memory whose packets are lost, overtaken and doubled on a virtual clock. Super-frames are
//! cut and checksums finished on the way, as a network does, and every packet on the wire is verified.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::Waker;
use fusewire_device::interface::{
    Capabilities, Checksum, Interface, Link, RxPacket, Segmentation, Split, TxPacket,
};
use fusewire_testkit::Random;
use fusewire_testkit::link::{Impairments, Link as OneWay, Packet};

/// A bare IP packet.
#[derive(Clone)]
pub struct Ip(Vec<u8>);

impl Packet for Ip {
    fn len_bytes(&self) -> usize {
        self.0.len()
    }
    fn corrupt(&mut self, random: &mut Random) {
        let at = random.below(self.0.len() as u64) as usize;
        self.0[at] ^= 1 << random.below(8);
    }
    fn mark(&mut self) -> bool {
        false
    }
}

/// Both directions and the time.
pub struct Wire {
    pub now: Instant,
    pub ways: [OneWay<Ip>; 2],
    /// Packets with a wrong checksum that a sender put on the wire.
    pub wrong: u64,
    /// No interface takes a packet.
    pub full: bool,
}

impl Wire {
    pub fn new(impairments: &Impairments, seed: u64) -> Arc<Mutex<Wire>> {
        let mut random = Random::new(seed);
        let ways = [0, 1].map(|_| OneWay::new(impairments.clone(), random.fork()));
        Arc::new(Mutex::new(Wire { now: Instant::from_ms(5), ways, wrong: 0, full: false }))
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.ways.iter().filter_map(OneWay::next_arrival).min()
    }
}

/// One end.
pub struct End {
    wire: Arc<Mutex<Wire>>,
    which: usize,
    batch: Vec<Ip>,
    /// Bytes of the head of a packet that was cut.
    cut: Option<usize>,
    capabilities: Capabilities,
}

impl End {
    pub fn new(wire: &Arc<Mutex<Wire>>, which: usize, mtu: usize, offload: bool) -> End {
        let capabilities = Capabilities {
            name: "lossy",
            link: Link::Ip,
            mac: None,
            mtu,
            checksum: offload,
            tcp_segmentation: offload,
            udp_segmentation: offload,
            receive_offload: false,
            max_packet_bytes: if offload { 65_535 } else { mtu },
            notes: Vec::new(),
        };
        End { wire: wire.clone(), which, batch: Vec::new(), cut: None, capabilities }
    }
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn headers(packet: &[u8]) -> (usize, u8) {
    if packet[0] >> 4 == 4 { (usize::from(packet[0] & 15) * 4, packet[9]) } else { (40, packet[6]) }
}

/// The sum of pseudo-header and transport, checksum field included.
fn transport_sum(packet: &[u8]) -> Sum {
    let (start, protocol) = headers(packet);
    let addresses = if start == 40 { &packet[8..40] } else { &packet[12..20] };
    let len = (packet.len() - start) as u16;
    Sum::of(addresses).word(u16::from(protocol)).word(len) + Sum::of(&packet[start..])
}

/// Lengths and IP checksum made right again.
fn seal_ip(packet: &mut [u8]) {
    let len = packet.len() as u16;
    if packet[0] >> 4 == 4 {
        put(packet, 2, len);
        put(packet, 10, 0);
        let sum = Sum::of(&packet[..20]).checksum();
        put(packet, 10, sum);
    } else {
        put(packet, 4, len - 40);
    }
}

/// What a card does with a super-frame or an unfinished checksum.
pub fn cut(packet: &[u8], checksum: Checksum, segmentation: Segmentation) -> Vec<Vec<u8>> {
    let (start, protocol) = headers(packet);
    let (field, header_len) = match protocol {
        6 => (start + 16, usize::from(packet[start + 12] >> 4) * 4),
        _ => (start + 6, 8),
    };
    let finish = |packet: &mut Vec<u8>| {
        put(packet, field, 0);
        let sum = match transport_sum(packet).checksum() {
            0 if protocol == 17 => 0xffff,
            sum => sum,
        };
        put(packet, field, sum);
    };
    let segment_len = match segmentation {
        Segmentation::None => {
            let mut packet = packet.to_vec();
            if checksum != Checksum::InPlace {
                finish(&mut packet);
            }
            return vec![packet];
        }
        Segmentation::Tcp { segment_len, .. } | Segmentation::Udp { segment_len } => segment_len,
    };
    let (head, payload) = packet.split_at(start + header_len);
    let count = payload.len().div_ceil(usize::from(segment_len));
    let pieces = payload.chunks(usize::from(segment_len)).enumerate();
    pieces
        .map(|(i, piece)| {
            let mut packet = [head, piece].concat();
            seal_ip(&mut packet);
            if protocol == 6 {
                let at = start + 4;
                let seq = u32::from(word(&packet, at)) << 16 | u32::from(word(&packet, at + 2));
                let seq = seq.wrapping_add(i as u32 * u32::from(segment_len));
                packet[at..at + 4].copy_from_slice(&seq.to_be_bytes());
                if i + 1 < count {
                    packet[start + 13] &= !0x09;
                }
            } else {
                put(&mut packet, start + 4, (8 + piece.len()) as u16);
            }
            finish(&mut packet);
            packet
        })
        .collect()
}

impl Interface for End {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let mut wire = self.wire.lock().unwrap();
        let now = wire.now;
        if wire.full {
            return Ok(0);
        }
        for packet in packets {
            let mut bytes = packet.header.to_vec();
            packet.payload.iter().for_each(|piece| bytes.extend_from_slice(piece));
            for packet in cut(&bytes, packet.checksum, packet.segmentation) {
                let (_, protocol) = headers(&packet);
                let fragment = packet[0] >> 4 == 4 && word(&packet, 6) & 0x3fff != 0;
                assert!(packet.len() <= self.capabilities.mtu, "{} bytes", packet.len());
                if matches!(protocol, 6 | 17) && !fragment && !transport_sum(&packet).verifies() {
                    wire.wrong += 1;
                }
                wire.ways[self.which].send(now, Ip(packet));
            }
        }
        Ok(packets.len())
    }
    fn receive(&mut self) -> io::Result<usize> {
        let mut wire = self.wire.lock().unwrap();
        let now = wire.now;
        (self.cut, self.batch) = (None, Vec::new());
        while let Some(packet) = wire.ways[1 - self.which].poll(now) {
            self.batch.push(packet);
        }
        Ok(self.batch.len())
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        let bytes = &self.batch[index].0;
        RxPacket {
            bytes: &bytes[..self.cut.unwrap_or(bytes.len())],
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        }
    }
    fn receive_split(&mut self, head_len: usize, [memory, _]: [&mut [u8]; 2]) -> io::Result<Split> {
        let mut wire = self.wire.lock().unwrap();
        let now = wire.now;
        let Some(mut packet) = wire.ways[1 - self.which].poll(now) else {
            return Ok(Split::Nothing);
        };
        let len = packet.0.len();
        let behind = packet.0.get_mut(head_len..).unwrap_or_default();
        memory[..behind.len()].copy_from_slice(behind);
        behind.fill(0xee);
        (self.cut, self.batch) = (Some(head_len.min(len)), vec![packet]);
        Ok(Split::Packet { len })
    }
    fn rejoin(&mut self, [memory, _]: [&[u8]; 2]) {
        let at = self.cut.take().unwrap();
        let behind = &mut self.batch[0].0[at..];
        behind.copy_from_slice(&memory[..behind.len()]);
    }
    fn wait(&mut self, _: Option<Duration>, _: bool) -> io::Result<bool> {
        Ok(false)
    }
    fn waker(&self) -> Waker {
        Waker::new().unwrap()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn dropped(&self) -> u64 {
        0
    }
}

use crate::net::{Net, pattern};
use crate::tcp::{connected, transfer};
use fusewire_stack::ip::{Config, Stack};

pub fn lossy(v6: bool, mtu: usize, offload: bool, impairments: &Impairments, seed: u64) -> Net {
    let wire = Wire::new(impairments, seed);
    let now = wire.lock().unwrap().now;
    let stacks = [0, 1].map(|which| {
        let end = End::new(&wire, which, mtu, offload);
        let net = crate::net::net_config(&end, which);
        Stack::new(Box::new(end), net, Config::default(), [which as u8 + 1; 32], now)
    });
    Net { stacks, now, v6, events: [Vec::new(), Vec::new()], wire: Some(wire) }
}

pub fn bad(random: &mut Random) -> Impairments {
    let share = |random: &mut Random, most: f64| random.below(1000) as f64 / 1000.0 * most;
    Impairments {
        rate: Some(12_500_000),
        delay: Duration::from_millis(random.below(40)),
        jitter: Duration::from_micros(random.below(3000)),
        queue_bytes: 300_000,
        loss: share(random, 0.04),
        loss_burst: 1.0 + share(random, 3.0),
        reorder: share(random, 0.05),
        reorder_delay: Duration::from_millis(1 + random.below(20)),
        duplicate: share(random, 0.03),
        corrupt: share(random, 0.01),
        ..Impairments::default()
    }
}

#[test]
fn streams_survive_what_networks_do() {
    for seed in 0..24 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let impairments = bad(&mut random);
        let mtu = [576, 1280, 1500, 9000][random.below(4) as usize];
        let v6 = seed % 2 == 1;
        let mut net =
            lossy(v6, mtu.max(if v6 { 1280 } else { 0 }), seed % 4 < 2, &impairments, seed);
        let (client, server) = connected(&mut net, 80);
        let piece = 1 + random.below(70_000) as usize;
        transfer(&mut net, 0, (client, server), 600_000, piece, seed % 3 == 0);
        transfer(&mut net, 1, (server, client), 100_000, piece, seed % 3 != 0);
        assert_eq!(net.wire.as_ref().unwrap().lock().unwrap().wrong, 0);
        for (which, id) in [(0, client), (1, server)] {
            net.stacks[which].close(net.now, id).unwrap();
        }
        net.run(Duration::from_secs(400));
        assert_eq!((net.stacks[0].sockets(), net.stacks[1].sockets()), (0, 1));
    }
}

#[test]
fn messages_arrive_whole_or_not_at_all() {
    for seed in 0..24 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let impairments = bad(&mut random);
        let v6 = seed % 2 == 1;
        let mut net = lossy(v6, 1500, seed % 4 < 2, &impairments, seed);
        let server = net.stacks[1].udp_bind(net.addr(1, 7)).unwrap();
        let client = net.stacks[0].udp_bind(net.addr(0, 0)).unwrap();
        let to = Some(net.addr(1, 7));
        let (mut sent, mut got) = (0, 0);
        for round in 0..60u64 {
            let (len, count) = match round % 3 {
                0 => (random.below(1400) as usize + 8, 20),
                1 => (random.below(200) as usize + 8, 100),
                _ => (random.below(9000) as usize + 8, 1),
            };
            // Each message says how long it is and what it holds.
            let one: Vec<u8> =
                [&(len as u64).to_be_bytes()[..], &pattern(len as u64, 8, len - 8)].concat();
            let all = one.repeat(count);
            sent += net.stacks[0].udp_send_batch(net.now, client, &all, len, to).unwrap().unwrap();
            net.run(Duration::from_millis(random.below(50)));
            let now = net.now;
            let view = |batch: fusewire_stack::ip::Messages<'_>| {
                for message in batch.iter() {
                    let len = u64::from_be_bytes(message[..8].try_into().unwrap());
                    assert_eq!(message.len() as u64, len);
                    assert!(message[8..] == pattern(len, 8, message.len() - 8), "a wrong byte");
                    got += 1;
                }
            };
            net.stacks[1].udp_recv_batch(now, server, view).unwrap().unwrap();
        }
        assert!(got > sent / 2 && got <= sent * 2, "{got} of {sent}");
    }
}

#[test]
fn a_path_that_swallows_large_packets_is_found_narrow() {
    for v6 in [false, true] {
        for offload in [false, true] {
            let swallows = Impairments {
                delay: Duration::from_millis(5),
                mtu_bytes: 1300,
                ..Impairments::default()
            };
            let mut net = lossy(v6, 1500, offload, &swallows, 3);
            let (client, server) = connected(&mut net, 80);
            let begin = net.now;
            transfer(&mut net, 0, (client, server), 500_000, 50_000, false);
            let took = net.now - begin;
            assert!(took < Duration::from_secs(60), "{took:?}");
            let info = net.stacks[0].tcp_info(client).unwrap();
            assert!(info.max_payload <= 1300 - 40, "{}", info.max_payload);
        }
    }
}
