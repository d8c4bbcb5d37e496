//! Floods: what the kernel sends us over an established connection goes on under each. Its rate is told, and the one that
//! it has while the same flood goes to another host of the bridge.
//!
//! ```text
//!   kernel ── veth ─┐          ┌─ TAP ── our stack
//!                    bridge ──┤
//!   other ─── veth ─┘          └─ TAP ── the flood, from this test
//! ```

use std::io::{IoSlice, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_base::{Seq, Sum};
use fusewire_device::interface::tap::{self, Tap};
use fusewire_device::interface::{Checksum, Interface, Segmentation, TxPacket};
use fusewire_lab::namespace::Namespace;
use fusewire_stack::ip::{Config, SocketId};
use fusewire_wire::tcp::{self, Flags};
use fusewire_wire::{ethernet, ipv4};

use crate::lan::{Lan, PATIENCE, at, can_run, kernel, ours};

/// How long the transfer is measured under each flood, where it is sent as fast as it should be.
const WINDOW: Duration = Duration::from_millis(400);
/// Measurements to us and to the other, in turn.
const ROUNDS: usize = 3;
/// What our process may grow by, in bytes.
const GROWTH: u64 = 64 << 20;
const PORT: u16 = 7;
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 3);

/// What the flood consists of, and how many a second.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Syn,
    Ack,
    Rst,
    Icmp,
    Arp,
    Fragment,
}

impl Kind {
    const fn a_second(self) -> u32 {
        match self {
            Kind::Fragment => 20_000,
            _ => 50_000,
        }
    }
}

/// Whom the flood goes to.
const NOBODY: u8 = 0;
const US: u8 = 1;
const ANOTHER: u8 = 2;

struct Flood {
    tap: Tap,
    kind: Kind,
    macs: [[u8; 6]; 2],
    /// The kernel's port of the connection that the flood is to harm.
    victim_port: u16,
    random: u64,
}

impl Flood {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Sends at the rate until told to stop, and counts the packets that went to us.
    fn run(mut self, target: &AtomicU8, stop: &AtomicBool, to_us: &AtomicU64) {
        let started = Instant::now();
        let mut sent = 0u64;
        while !stop.load(Ordering::Relaxed) {
            let due = started.elapsed().as_secs_f64() * f64::from(self.kind.a_second());
            let whom = target.load(Ordering::Relaxed);
            if sent as f64 >= due || whom == NOBODY {
                sent = sent.max(due as u64);
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            // What could not be sent in time is not made up for.
            sent = sent.max((due as u64).saturating_sub(1000)) + 1;
            let frame = self.frame(whom == US);
            let payload = [IoSlice::new(&[])];
            let packet = TxPacket {
                header: &frame,
                payload: &payload[..0],
                checksum: Checksum::InPlace,
                segmentation: Segmentation::None,
            };
            if self.tap.transmit(&[packet]).is_ok_and(|n| n == 1) && whom == US {
                to_us.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn frame(&mut self, to_us: bool) -> Vec<u8> {
        let random = self.next();
        let destination = if to_us { v4(ours(false)) } else { OTHER };
        // A host of our network that is not there.
        let source = Ipv4Addr::new(10, 77, 9, 16 + (random >> 8) as u8 % 200);
        match self.kind {
            Kind::Arp => self.arp(to_us, source, destination, random),
            Kind::Syn => self.tcp(to_us, source, destination, random, Flags::SYN, random as u16),
            Kind::Ack => self.tcp(to_us, source, destination, random, Flags::ACK, random as u16),
            Kind::Rst => {
                // Blind: all is right but the sequence number.
                let port = self.victim_port;
                self.tcp(to_us, v4(kernel(false)), destination, random, Flags::RST, port)
            }
            Kind::Icmp => {
                let mut echo = vec![8, 0, 0, 0, 0, 1, 0, 1];
                echo.resize(64, 0x55);
                let checksum = Sum::of(&echo).checksum();
                echo[2..4].copy_from_slice(&checksum.to_be_bytes());
                self.ip(to_us, source, destination, 1, &echo, (0, false), 0)
            }
            Kind::Fragment => {
                let offset = (random >> 40) as u16 % 100 * 8;
                let payload = [0x33; 1000];
                self.ip(to_us, source, destination, 17, &payload, (offset, true), random as u16)
            }
        }
    }

    fn ethernet(&self, to_us: bool, ethertype: ethernet::EtherType) -> Vec<u8> {
        let mut frame = vec![0; ethernet::HEADER_LEN];
        let header = ethernet::Header {
            destination: ethernet::Address(self.macs[usize::from(!to_us)]),
            source: ethernet::Address([2, 0xbd, 0, 0, 0, 1]),
            ethertype,
            header_len: 0,
        };
        header.emit(&mut frame);
        frame
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one packet")]
    fn ip(
        &self,
        to_us: bool,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        payload: &[u8],
        (fragment_offset, more_fragments): (u16, bool),
        identification: u16,
    ) -> Vec<u8> {
        let mut frame = self.ethernet(to_us, ethernet::EtherType::IPV4);
        let mut bytes = [0; ipv4::MIN_HEADER_LEN];
        let header = ipv4::Header {
            tos: 0,
            total_len: (bytes.len() + payload.len()) as u16,
            identification,
            dont_fragment: false,
            more_fragments,
            fragment_offset,
            ttl: 64,
            protocol,
            source,
            destination,
            header_len: 0,
        };
        header.emit(&mut bytes);
        frame.extend_from_slice(&bytes);
        frame.extend_from_slice(payload);
        frame
    }

    fn tcp(
        &self,
        to_us: bool,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        random: u64,
        flags: Flags,
        port: u16,
    ) -> Vec<u8> {
        let mut header = tcp::Header {
            src_port: port.max(1),
            dst_port: PORT,
            seq: Seq((random >> 16) as u32),
            ack: Seq((random >> 32) as u32),
            flags,
            header_len: 0,
            window: 1000,
            checksum: 0,
            urgent: 0,
            options: tcp::Options::default(),
        };
        let mut bytes = [0; tcp::MIN_HEADER_LEN];
        header.emit(&mut bytes);
        let pseudo = ipv4::pseudo_header_sum(source, destination, 6, bytes.len() as u16);
        header.checksum = (pseudo + Sum::of(&bytes)).checksum();
        header.emit(&mut bytes);
        self.ip(to_us, source, destination, 6, &bytes, (0, false), 0)
    }

    /// Who has the target's address? Asked by somebody new each time.
    fn arp(&self, to_us: bool, source: Ipv4Addr, target: Ipv4Addr, random: u64) -> Vec<u8> {
        let mut frame = self.ethernet(to_us, ethernet::EtherType::ARP);
        frame.extend_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0xbd]);
        frame.extend_from_slice(&(random as u32).to_be_bytes());
        frame.extend_from_slice(&source.octets());
        frame.extend_from_slice(&[0; 6]);
        frame.extend_from_slice(&target.octets());
        frame
    }
}

fn v4(ip: IpAddr) -> Ipv4Addr {
    match ip {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Bytes of memory that this process uses.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

struct Bridge {
    lan: Lan,
    flood: Option<Tap>,
    macs: [[u8; 6]; 2],
    _others: [Namespace; 2],
}

fn bridge() -> Bridge {
    let [middle, kernel_side, other] = [(); 3].map(|()| Namespace::new().unwrap());
    middle.veth("fwk", &kernel_side, "fwkernel").unwrap();
    middle.veth("fwo", &other, "fwother").unwrap();
    kernel_side.ip(&format!("address add {}/24 dev fwkernel", kernel(false))).unwrap();
    other.ip(&format!("address add {OTHER}/24 dev fwother")).unwrap();
    let open = |name: &str| {
        let config = tap::Config { name: name.into(), offload: false, ..tap::Config::default() };
        middle.run(|| Tap::open(&config).unwrap()).unwrap()
    };
    let (tap, flood) = (open("fwours"), open("fwflood"));
    middle.bridge("fwbridge", &["fwk", "fwo", "fwours", "fwflood"]).unwrap();
    let macs = [tap.capabilities().mac.unwrap(), other.mac("fwother").unwrap()];
    let lan = Lan::over(kernel_side, tap, Config::default());
    Bridge { lan, flood: Some(flood), macs, _others: [middle, other] }
}

/// Reads what is there; returns how many bytes.
fn drain(lan: &mut Lan, id: SocketId, buffer: &mut [u8]) -> u64 {
    let mut read = 0;
    while let Some(len) = lan.stack.tcp_read(id, buffer).expect("the connection lives") {
        assert!(len > 0, "the connection lives");
        read += len as u64;
    }
    read
}

/// Rates of the transfer in bytes a second: under a flood to us, of so many packets, and to the other.
fn rates(kind: Kind) -> [f64; 2] {
    let mut bridge = bridge();
    let lan = &mut bridge.lan;
    let address = at(ours(false), PORT);
    let listener = lan.stack.tcp_listen(address, 16).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (namespace, stopped) = (lan.namespace.clone(), stop.clone());
    let sender = std::thread::spawn(move || {
        let send = || {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
            let bytes = vec![0x77; 64 << 10];
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
            while !stopped.load(Ordering::Relaxed) && stream.write_all(&bytes).is_ok() {}
        };
        namespace.run(send).unwrap();
    });
    let mut buffer = vec![0; 64 << 10];
    let (id, peer) = lan.drive("connecting", |lan| lan.stack.tcp_accept(listener).unwrap());
    let target = Arc::new(AtomicU8::new(NOBODY));
    let flood = Flood {
        tap: bridge.flood.take().unwrap(),
        kind,
        macs: bridge.macs,
        victim_port: peer.port(),
        random: 0x9e37_79b9_7f4a_7c15,
    };
    let flooded = Arc::new(AtomicU64::new(0));
    let (whom, ended, count) = (target.clone(), stop.clone(), flooded.clone());
    let flooder = std::thread::spawn(move || flood.run(&whom, &ended, &count));
    let many = (f64::from(kind.a_second()) * WINDOW.as_secs_f64()) as u64;
    let before = resident();
    let mut rates = [Vec::new(), Vec::new()];
    for round in 1..=ROUNDS as u64 {
        for (whom, rates) in [US, ANOTHER].into_iter().zip(&mut rates) {
            target.store(whom, Ordering::Relaxed);
            let (mut bytes, started) = (0, Instant::now());
            lan.drive("the transfer under a flood", |lan| {
                bytes += drain(lan, id, &mut buffer);
                let is_over = match whom {
                    US => flooded.load(Ordering::Relaxed) >= round * many,
                    _ => started.elapsed() >= WINDOW,
                };
                is_over.then_some(())
            });
            assert!(bytes > 0, "{kind:?}: nothing came while {many} packets did");
            rates.push(bytes as f64 / started.elapsed().as_secs_f64());
        }
    }
    let growth = resident().saturating_sub(before);
    stop.store(true, Ordering::Relaxed);
    let now = lan.clock.now();
    lan.stack.abort(now, id).unwrap();
    lan.drive("the end", |_| (sender.is_finished() && flooder.is_finished()).then_some(()));
    assert!(growth < GROWTH, "{kind:?}: {growth} bytes of memory more");
    assert!(lan.stack.sockets() <= Config::default().max_sockets);
    rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[ROUNDS / 2]
    })
}

fn survives(kind: Kind) {
    if !can_run(&[]) {
        return;
    }
    let [ours, theirs] = rates(kind);
    let ratio = ours / theirs;
    println!(
        "{kind:?}, {} a second: {:.0} MB/s while it goes to us, {:.0} while to another: {ratio:.2}",
        kind.a_second(),
        ours / 1e6,
        theirs / 1e6
    );
}

#[test]
fn of_syn() {
    survives(Kind::Syn);
}

#[test]
fn of_ack() {
    survives(Kind::Ack);
}

#[test]
fn of_rst() {
    survives(Kind::Rst);
}

#[test]
fn of_icmp() {
    survives(Kind::Icmp);
}

#[test]
fn of_arp() {
    survives(Kind::Arp);
}

#[test]
fn of_fragments() {
    survives(Kind::Fragment);
}
