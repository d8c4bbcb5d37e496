//! The encapsulated transport on an interface in memory, on a virtual clock: what the interface leaves undone is done,
//! whatever it can do, and a bad link changes nothing but time.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fusewire_base::Instant;
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::interface::memory::{self, Memory};
use fusewire_device::interface::{Checksum, Interface, Link};
use fusewire_device::{Device, Ecn, Event, RxBatch, TxFrame};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::context;
use fusewire_stack::ip::{self, net};
use fusewire_stack::on_interface::{Carrier, OnInterface};
use fusewire_stack::transport::{self, Protocol};
use fusewire_stack::{Cause, Clock, Config, ConnectionId, Event as StackEvent, Keep, Stack};
use fusewire_transport::machine::Secrets;
use fusewire_wire::ethernet::Address;

const PORT: u16 = 9293;

fn identity() -> Arc<Identity> {
    let name = format!("fusewire-oi-{}-{:?}", std::process::id(), std::thread::current().id());
    let dir = std::env::temp_dir().join(name);
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

/// Addresses of the two ends.
const V4: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const V6: [&str; 2] = ["fd00::1", "fd00::2"];

fn addr(ends: [&str; 2], which: usize) -> SocketAddr {
    SocketAddr::new(ends[which].parse().unwrap(), 7 + which as u16)
}

/// What is around a TPDU, and whose it is.
type Carried = (Carrier, Protocol);
const TCP: Carried = (Carrier::Udp, Protocol::Tcp);
const XTP: Carried = (Carrier::Ip, Protocol::Xtp);
const ALL: [Carried; 3] = [TCP, (Carrier::Udp, Protocol::Xtp), XTP];

fn device(interface: Memory, ends: [&str; 2], which: usize, clock: &Clock) -> OnInterface {
    carried(Carrier::Udp, interface, ends, which, clock)
}

fn carried(
    carrier: Carrier,
    interface: Memory,
    ends: [&str; 2],
    which: usize,
    clock: &Clock,
) -> OnInterface {
    let link = match interface.capabilities().mac {
        Some(mac) => net::Link::Ethernet(Address(mac)),
        None => net::Link::Ip,
    };
    let mtu = interface.capabilities().mtu;
    let bits = if ends == V4 { 24 } else { 64 };
    let own = net::Cidr::new(ends[which].parse().unwrap(), bits).unwrap();
    let net = net::Config {
        mtu,
        addresses: vec![own],
        duplicate_detection: false,
        ..net::Config::new(link)
    };
    let (seed, now) = ([which as u8 + 1; 32], clock.now());
    let stack = ip::Stack::new(Box::new(interface), net, ip::Config::default(), seed, now);
    match carrier {
        Carrier::Udp => OnInterface::new(stack, addr(ends, which), clock.clone()).unwrap(),
        Carrier::Ip => OnInterface::over_ip(stack, addr(ends, which), clock.clone()).unwrap(),
    }
}

fn clock() -> (Arc<AtomicU64>, Clock) {
    let ns = Arc::new(AtomicU64::new(1_000_000_000));
    (ns.clone(), Clock::virtual_ns(ns))
}

struct World {
    ns: Arc<AtomicU64>,
    client: Stack,
    server: Stack,
    id: ConnectionId,
    served: Option<ConnectionId>,
}

impl World {
    fn new(
        (carrier, transport): Carried,
        memory: memory::Config,
        ends: [&str; 2],
        rules: Rules,
        seed: u64,
    ) -> World {
        let (ns, clock) = clock();
        let (a, b) = memory::pair(memory).unwrap();
        let (a, b) = (carried(carrier, a, ends, 0, &clock), carried(carrier, b, ends, 1, &clock));
        let t = ns.clone();
        let a =
            Impair::new(a, rules, rules, seed, move || Instant::from_ns(t.load(Ordering::Relaxed)));
        let transport = transport::Config::of_records(transport);
        let config = Config { clock, transport, ..Config::default() };
        let mut client = Stack::new(Box::new(a), config.clone(), &[1; 32]);
        let mut server = Stack::new(Box::new(b), config, &[2; 32]);
        let identity = identity();
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        server.listen(PORT, ServerConfig::new(identity.clone()), &secrets);
        let trust = Trust::Pinned(identity.fingerprint());
        let config = ClientConfig::new(identity, trust);
        let id = client.connect(addr(ends, 1), PORT, &config).unwrap();
        World { ns, client, server, id, served: None }
    }

    /// 100 µs, and all that happens in them.
    fn step(&mut self) {
        self.ns.fetch_add(100_000, Ordering::Relaxed);
        while self.client.poll(&mut Keep).unwrap() | self.server.poll(&mut Keep).unwrap() {}
        while let Some((_, event)) = self.client.poll_event() {
            assert!(!matches!(event, StackEvent::Closed(Some(_))), "{event:?}");
        }
        while let Some((id, event)) = self.server.poll_event() {
            if matches!(event, StackEvent::Connected { .. }) {
                self.served = Some(id);
            }
        }
    }

    /// Sends `count` ADUs to the server, which sends each back; returns the virtual seconds that it took.
    fn echo(&mut self, count: usize) -> f64 {
        let start = self.ns.load(Ordering::Relaxed);
        let (mut sent, mut back) = (0, 0);
        let mut waiting: Option<Vec<u8>> = None;
        while back < count {
            let seconds = (self.ns.load(Ordering::Relaxed) - start) as f64 * 1e-9;
            assert!(seconds < 600.0, "{back} of {count} came back");
            self.step();
            while self.client.session(self.id).is_some()
                && sent < count
                && self.client.send(self.id, &adu(sent)).unwrap()
            {
                sent += 1;
            }
            self.client.flush();
            if let Some(served) = self.served {
                while let Some(adu) =
                    waiting.take().or_else(|| self.server.recv(served).map(|(_, adu)| adu))
                {
                    if !self.server.send(served, &adu).unwrap() {
                        waiting = Some(adu);
                        break;
                    }
                }
                self.server.flush();
            }
            while let Some((_, got)) = self.client.recv(self.id) {
                assert!(got == adu(back), "ADU {back} is not what was sent");
                back += 1;
            }
        }
        (self.ns.load(Ordering::Relaxed) - start) as f64 * 1e-9
    }
}

fn adu(n: usize) -> Vec<u8> {
    let len = match n % 7 {
        0 => 5000,
        1 => 0,
        _ => 900 + n % 300,
    };
    (0..len).map(|i| (i * 13 + n * 7) as u8).collect()
}

#[test]
fn every_kind_of_interface_carries_it() {
    for carried in ALL {
        for link in [Link::Ethernet, Link::Ip] {
            for (checksum, segmentation) in [(false, false), (true, false), (true, true)] {
                for ends in [V4, V6] {
                    let memory =
                        memory::Config { link, checksum, segmentation, ..Default::default() };
                    let mut world = World::new(carried, memory, ends, Rules::NONE, 1);
                    let seconds = world.echo(400);
                    assert!(seconds < 1.0, "{seconds} s with {carried:?} {memory:?}");
                    let mut dropped = world.server.dropped();
                    // Neighbours are looked for before there are any.
                    dropped.retain(|(cause, _)| *cause != "destination-group");
                    assert_eq!(dropped, [], "{carried:?} {memory:?}");
                }
            }
        }
    }
}

#[test]
fn a_bad_link_costs_time_and_nothing_else() {
    let rules = Rules { loss: 0.02, duplicate: 0.02, corrupt: 0.02, reorder: 0.02, ..Rules::NONE };
    for (seed, carried) in (1..=4).flat_map(|seed| ALL.map(|carried| (seed, carried))) {
        for segmentation in [false, true] {
            let memory = memory::Config {
                checksum: segmentation,
                segmentation,
                queue_packets: 64,
                ..Default::default()
            };
            let ends = if seed % 2 == 0 { V4 } else { V6 };
            World::new(carried, memory, ends, rules, seed).echo(300);
        }
    }
}

/// A TPDU of a header of 20 bytes and `len` bytes, with its checksum.
fn tpdu(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..20 + len).map(|i| (i * 31 + len) as u8).collect();
    bytes[12] = 5 << 4;
    bytes[16..18].fill(0);
    let sum = pseudo_header_sum(6, bytes.len()) + fusewire_base::Sum::of(&bytes);
    let checksum = sum.checksum();
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn frame(peer: SocketAddr, bytes: &[u8]) -> TxFrame<'_> {
    TxFrame { peer, header: &bytes[..20], payload: &bytes[20..], ecn: Ecn::Ect0 }
}

/// A device and the bare interface at its other end; they know each other.
fn bare(config: memory::Config, ends: [&str; 2]) -> (OnInterface, Memory, Arc<AtomicU64>) {
    let (ns, clock) = clock();
    let (a, b) = memory::pair(memory::Config { link: Link::Ip, ..config }).unwrap();
    (device(a, ends, 0, &clock), b, ns)
}

/// A packet of XTP with so many bytes, whose check covers all of it, or its header alone.
fn packet(len: usize, nocheck: bool) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..32 + len).map(|i| (i * 31 + len) as u8).collect();
    bytes[8..12].copy_from_slice(&[if nocheck { 0x40 } else { 0 }, 0, 0, 0x20]);
    bytes[12..16].copy_from_slice(&(len as u32).to_be_bytes());
    bytes[16..18].fill(0);
    let covered = if nocheck { 32 } else { bytes.len() };
    let check = fusewire_base::Sum::of(&bytes[..covered]).checksum();
    bytes[16..18].copy_from_slice(&check.to_be_bytes());
    bytes
}

#[test]
fn the_checksum_of_a_datagram_follows_from_its_tpdus() {
    for ends in [V4, V6] {
        let (mut device, mut other, _) = bare(memory::Config::default(), ends);
        let of = |len: usize| [tpdu(len), packet(len, false), packet(len, true)];
        for bytes in [0, 1, 2, 333, 1400].into_iter().flat_map(of) {
            let len = bytes.len();
            assert_eq!(device.transmit(&[frame(addr(ends, 1), &bytes)]).unwrap(), 1);
            assert_eq!(other.receive().unwrap(), 1);
            let packet = other.packet(0);
            assert_eq!(packet.checksum, Checksum::InPlace);
            // An independent parser agrees, with a sum over all of it.
            let sliced = etherparse::SlicedPacket::from_ip(packet.bytes).unwrap();
            let Some(etherparse::TransportSlice::Udp(udp)) = &sliced.transport else { panic!() };
            assert_eq!(udp.payload(), bytes);
            let (header, payload) = (udp.to_header(), udp.payload());
            let expected = match sliced.net.as_ref().unwrap() {
                etherparse::NetSlice::Ipv4(ip) => {
                    let ip = ip.header().to_header();
                    assert!(ip.dont_fragment && ip.ecn.value() == Ecn::Ect0 as u8);
                    header.calc_checksum_ipv4(&ip, payload).unwrap()
                }
                etherparse::NetSlice::Ipv6(ip) => {
                    header.calc_checksum_ipv6(&ip.header().to_header(), payload).unwrap()
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(header.checksum, expected, "{len} bytes");
        }
    }
}

#[test]
fn what_is_damaged_or_not_ours_is_dropped_by_cause() {
    for ends in [V4, V6] {
        let (mut device, mut other, _) = bare(memory::Config::default(), ends);
        // The other end sends what ours sends, turned around.
        let bytes = tpdu(500);
        device.transmit(&[frame(addr(ends, 1), &bytes)]).unwrap();
        other.receive().unwrap();
        let sent = other.packet(0).bytes.to_vec();
        let header_len = sent.len() - 8 - bytes.len();
        let mut good = sent.clone();
        let (at, n) = if ends == V4 { (12, 4) } else { (8, 16) };
        for i in 0..n {
            good.swap(at + i, at + n + i);
        }
        good.swap(header_len, header_len + 2);
        good.swap(header_len + 1, header_len + 3);
        let mut batch = RxBatch::new(8);
        let mut give = |device: &mut OnInterface, bytes: &[u8]| {
            let packet = fusewire_device::interface::TxPacket {
                header: bytes,
                payload: &[],
                checksum: Checksum::InPlace,
                segmentation: Default::default(),
            };
            other.transmit(&[packet]).unwrap();
            let count = device.receive(&mut batch).unwrap();
            batch.iter().for_each(|packet| {
                assert_eq!((packet.peer, packet.ecn), (addr(ends, 1), Ecn::Ect0));
                assert!(packet.bytes == &bytes[header_len + 8..]);
            });
            count
        };
        assert_eq!(give(&mut device, &good), 1);
        let counted = |device: &OnInterface| {
            let drops = device.stack().counters().drops;
            (drops.of(Cause::Checksum), drops.of(Cause::UdpStray))
        };
        assert_eq!(counted(&device), (0, 0));
        // A bit of the UDP checksum, and of the port that it covers.
        for (at, bit) in [(6, 1), (0, 0x40)] {
            let mut bad = good.clone();
            bad[header_len + at] ^= bit;
            assert_eq!(give(&mut device, &bad), 0);
        }
        assert_eq!(counted(&device), (2, 0));
        // Another port, with the checksum that it takes.
        let mut bad = good.clone();
        bad[header_len + 3] += 1;
        let checksum = u16::from_be_bytes([bad[header_len + 6], bad[header_len + 7]]) - 1;
        bad[header_len + 6..header_len + 8].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(give(&mut device, &bad), 0);
        assert_eq!(counted(&device), (2, 1));
        // Cut short anywhere.
        for len in 0..good.len() {
            assert_eq!(give(&mut device, &good[..len.max(1)]), 0, "{len} bytes");
        }
        assert_eq!(give(&mut device, &good), 1);
    }
}

#[test]
fn what_does_not_fit_is_told_and_what_waits_is_bounded() {
    let (mut device, mut other, ns) = bare(memory::Config::default(), V4);
    assert_eq!(device.caps().max_datagram, 1472);
    let (fits, too_long) = (tpdu(1472 - 20), tpdu(1473 - 20));
    let frames = [frame(addr(V4, 1), &fits), frame(addr(V4, 1), &too_long)];
    assert_eq!(device.transmit(&frames).unwrap(), 2);
    let told = Event::TooBig { peer: addr(V4, 1), len: 1473 };
    assert_eq!((device.poll_event(), device.poll_event()), (Some(told), None));
    assert_eq!(other.receive().unwrap(), 1);
    // Nobody answers for this neighbour: its frames wait, then the transport is told.
    let (a, _b) = memory::pair(memory::Config::default()).unwrap();
    let clock = Clock::virtual_ns(ns.clone());
    let mut device = self::device(a, V4, 0, &clock);
    for _ in 0..1000 {
        assert_eq!(device.transmit(&[frame(addr(V4, 1), &fits)]).unwrap(), 1);
    }
    let unresolved = device.stack().counters().drops.of(Cause::UdpUnresolved);
    assert!(unresolved > 700, "{unresolved}");
    // Whoever sleeps is told for how long: it asks again, and gives up.
    let (mut slept, mut told) = (0, None);
    while told.is_none() {
        let timeout = device.next_timeout().expect("a neighbour is asked for");
        assert!(!timeout.is_zero() && slept < 20, "{slept} times, {timeout:?}");
        ns.fetch_add(timeout.as_nanos() as u64, Ordering::Relaxed);
        device.receive(&mut RxBatch::new(1)).unwrap();
        (slept, told) = (slept + 1, device.poll_event());
    }
    assert_eq!(told, Some(Event::Unreachable { peer: addr(V4, 1), is_closed: false }));
    // Nor is there a way to another network, or to another IP version.
    for peer in ["192.0.2.1:1", "[fd00::2]:1"] {
        while device.poll_event().is_some() {}
        let peer = peer.parse().unwrap();
        assert_eq!(device.transmit(&[frame(peer, &fits)]).unwrap(), 1);
        assert_eq!(device.poll_event(), Some(Event::Unreachable { peer, is_closed: false }));
    }
}

#[test]
fn what_the_layers_below_drop_is_seen_from_outside() {
    let folder = std::env::temp_dir().join(format!("fusewire-oi-view-{}", std::process::id()));
    fusewire_view::place::choose(folder.clone());
    let (device, mut other, ns) = bare(memory::Config::default(), V4);
    let config = Config { clock: Clock::virtual_ns(ns), ..Config::default() };
    let mut stack = Stack::new(Box::new(device), config, &[1; 32]);
    stack.observe().unwrap();
    let mut give = |bytes: &[u8]| {
        let packet = fusewire_device::interface::TxPacket {
            header: bytes,
            payload: &[],
            checksum: Checksum::InPlace,
            segmentation: Default::default(),
        };
        assert_eq!(other.transmit(&[packet]).unwrap(), 1);
    };
    // No IP, a port that is nobody's, and no TPDU.
    give(&[0xff; 40]);
    for (port, payload) in [(99, &[0; 100]), (7, &[0x55; 100])] {
        let mut bytes = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64);
        builder.udp(8, port).write(&mut bytes, payload).unwrap();
        give(&bytes);
    }
    let seen = std::thread::spawn(|| {
        let all = fusewire_view::client::processes();
        all[0].report().unwrap()
    });
    while !seen.is_finished() {
        stack.poll(&mut Keep).unwrap();
    }
    let report = seen.join().unwrap();
    let drops = &report.stacks[0].drops;
    let metrics = fusewire_view::prometheus::text(std::slice::from_ref(&report));
    for cause in ["ip-version", "udp-stray", "transport-checksum"] {
        assert_eq!(drops[cause], 1, "{cause} of {drops:?}");
        assert!(metrics.contains(&format!("cause=\"{cause}\"}} 1")), "{metrics}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn contexts_speak_straight_over_ip() {
    for ends in [V4, V6] {
        let (ns, clock) = clock();
        let (a, b) = memory::pair(memory::Config::default()).unwrap();
        let [mut near, mut far] = [(a, 0), (b, 1)].map(|(interface, which)| {
            let device = carried(Carrier::Ip, interface, ends, which, &clock);
            let config = context::Config { clock: clock.clone(), ..Default::default() };
            context::Contexts::new(Box::new(device), config, &[which as u8 + 1; 32])
        });
        far.listen(7, Default::default(), &Secrets { isn: [3; 16], cookie: [4; 16] });
        let context = near.context(Default::default()).unwrap();
        near.connect(context, addr(ends, 1), 7).unwrap();
        let message = adu(7 * 3);
        assert!(near.send(context, &[IoSlice::new(&message)], Default::default()).unwrap());
        let mut came = None;
        for _ in 0..10_000 {
            ns.fetch_add(100_000, Ordering::Relaxed);
            near.poll(&mut context::Kept).unwrap();
            far.poll(&mut context::Kept).unwrap();
            while let Some((called, event)) = far.poll_event() {
                if let context::Event::Message(message) = event {
                    came = Some((far.message(called, &message).concat(), far.remote_addr(called)));
                }
            }
        }
        let (came, from) = came.expect("a message");
        assert!(came == message);
        assert_eq!(from, Some(SocketAddr::new(addr(ends, 0).ip(), 0)), "it has no port");
    }
}
