//! Records without a tag over XTP with CXOR behind them: every packet's trailer is of what it has, however records were
//! laid, cut and sent again; what is damaged is dropped by it; and who has not agreed on it has the Internet checksum.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::TxFrame;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{self, Network};
use fusewire_session::{Check, Cipher, Cxor};
use fusewire_stack::{Clock, Config, Error, Event, Stack};
use fusewire_transport::either::{self, Protocol};
use fusewire_wire::xtp::{Body, HEADER_LEN, Options, Packet, TRAILER_LEN};

use crate::world::{A, Altered, B, World, carry, close, small};

/// Where a bit changes, in every tenth packet with a trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Nowhere,
    Header,
    Data,
    Trailer,
}

/// Packets with data, since it was switched on.
#[derive(Default)]
struct Seen {
    on: AtomicBool,
    with: AtomicU64,
    without: AtomicU64,
    damaged: AtomicU64,
}

/// Looks at each packet with data that a side sends, and damages some.
struct Looks {
    at: Where,
    seen: Arc<Seen>,
}

impl Looks {
    fn looked_at(&self, frame: &TxFrame<'_>) -> Option<Vec<u8>> {
        let mut bytes = [frame.header, frame.payload].concat();
        let packet = Packet::parse(&bytes).expect("a packet of ours");
        let is_data = matches!(packet.header.body, Body::Data { .. }) && !packet.data.is_empty();
        if !is_data || !self.seen.on.load(Ordering::Relaxed) {
            return None;
        }
        let Some(trailer) = packet.trailer else {
            let covered = if packet.header.checks_all() { bytes.len() } else { HEADER_LEN };
            assert!(!packet.header.options.has(Options::RES));
            assert!(Sum::of(&bytes[..covered]).verifies());
            self.seen.without.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        assert_eq!(trailer, Cxor::of(packet.data).bits(), "{} bytes", packet.data.len());
        assert!(Sum::of(&bytes[..HEADER_LEN]).verifies() && !packet.header.checks_all());
        let nth = self.seen.with.fetch_add(1, Ordering::Relaxed) as usize;
        if self.at == Where::Nowhere || nth % 10 != 3 {
            return None;
        }
        let len = bytes.len();
        let byte = match self.at {
            Where::Nowhere | Where::Header => [9, 21, 30][nth % 3],
            Where::Data => HEADER_LEN + nth % (len - HEADER_LEN - TRAILER_LEN),
            Where::Trailer => len - 1 - nth % TRAILER_LEN,
        };
        bytes[byte] ^= 1 << (nth % 8);
        self.seen.damaged.fetch_add(1, Ordering::Relaxed);
        Some(bytes)
    }
}

fn over_xtp(check: Check) -> Config {
    Config { check, transport: either::Config::of_records(Protocol::Xtp), ..small() }
}

/// Every length of record: short ones that share a segment, odd ones, whole segments, and long ones that are cut.
fn body(n: usize) -> Vec<u8> {
    let len = match n % 9 {
        0 => 5000 + n % 64,
        1 => 0,
        2..=5 => 60 + n % 5,
        6 => 20_001,
        _ => 1300 + n % 104,
    };
    (0..len).map(|i| (i * 13 + n * 7 + (i >> 8)) as u8).collect()
}

/// ADUs cross. Packets of the client's with a trailer, without, and damaged, and what the server dropped.
fn cross(
    cipher: Cipher,
    config: &Config,
    (at, rules, seed): (Where, Rules, u64),
    count: usize,
) -> ([u64; 3], Vec<(&'static str, u64)>) {
    let network = Network::new(memory::Config {
        mailbox_bytes: 64 << 20,
        coalesce: true,
        ..memory::Config::default()
    });
    let (seen, ns) = (Arc::new(Seen::default()), Arc::new(AtomicU64::new(1)));
    let inner = network.attach(A.parse().unwrap()).unwrap();
    let t = ns.clone();
    let inner =
        Impair::new(inner, rules, rules, seed, move || Instant::from_ns(t.load(Ordering::Relaxed)));
    let looks = Looks { at, seen: seen.clone() };
    let a = Box::new(Altered { inner, alter: move |frame: &TxFrame<'_>| looks.looked_at(frame) });
    let b = Box::new(network.attach(B.parse().unwrap()).unwrap());
    let mut world = World::speaking(&[cipher], None, a, b, ns, config);
    world.connect();
    // The server's first words say that it has keys.
    carry(&mut world, 0..1, 60.0, |_| vec![1]);
    seen.on.store(true, Ordering::Relaxed);
    carry(&mut world, 1..count, 6000.0, body);
    let drops = world.server.info(world.served.unwrap()).unwrap().counters.drops;
    let drops = drops.named().filter(|(_, n)| *n > 0).collect();
    let closed = |e: &Event| matches!(e, Event::Closed(_));
    assert!(!world.client_events.iter().chain(&world.server_events).any(closed));
    seen.on.store(false, Ordering::Relaxed);
    close(&mut world);
    let counts = [&seen.with, &seen.without, &seen.damaged];
    (counts.map(|count| count.load(Ordering::Relaxed)), drops)
}

const CLEAR: (Where, Rules, u64) = (Where::Nowhere, Rules::NONE, 1);

#[test]
fn every_packet_has_a_trailer_of_what_it_has() {
    for cipher in [Cipher::NONE, Cipher::PES, Cipher::SAFER_SIMPLIFIED, Cipher::SAFER_K64] {
        let ([with, without, _], drops) = cross(cipher, &over_xtp(Check::Cxor), CLEAR, 200);
        assert!(with > 200 && without == 0, "{cipher}: {with}, {without}");
        assert_eq!(drops, [], "{cipher}");
    }
}

/// Cut elsewhere where a part has come, and behind others' losses.
#[test]
fn what_is_sent_again_has_one_of_its_own() {
    for seed in 1..=8 {
        let rules = Rules {
            loss: 0.01 * seed as f64,
            duplicate: 0.02,
            corrupt: 0.02,
            reorder: 0.05,
            reorder_delay: Duration::from_millis(2),
            delay: Duration::from_millis(5),
            ..Rules::default()
        };
        let cipher = [Cipher::NONE, Cipher::SAFER_SIMPLIFIED][seed as usize % 2];
        let ([with, without, _], drops) =
            cross(cipher, &over_xtp(Check::Cxor), (Where::Nowhere, rules, seed), 400);
        assert!(with > 600 && without == 0, "{seed}: {with}, {without}");
        assert!(drops.iter().any(|(cause, _)| *cause == "checksum"), "{seed}: {drops:?}");
    }
}

#[test]
fn a_changed_bit_is_seen_wherever_it_lies() {
    for (at, causes) in [
        (Where::Header, &["checksum", "protocol"][..]),
        (Where::Data, &["checksum"]),
        (Where::Trailer, &["checksum"]),
    ] {
        let ([_, _, damaged], drops) =
            cross(Cipher::NONE, &over_xtp(Check::Cxor), (at, Rules::NONE, 1), 200);
        let counted: u64 =
            drops.iter().filter(|(name, _)| causes.contains(name)).map(|d| d.1).sum();
        assert!(damaged >= 20, "{at:?}: {damaged}");
        assert_eq!(counted, damaged, "{at:?}: {drops:?}");
    }
}

/// Where the one does not want it, or the cipher makes a tag, there is none.
#[test]
fn who_has_not_agreed_on_it_has_another_check() {
    let ([with, without, _], drops) = cross(Cipher::NONE, &over_xtp(Check::Internet), CLEAR, 100);
    assert!(with == 0 && without > 100, "{with}, {without}");
    assert_eq!(drops, []);
    let ([with, _, _], drops) = cross(Cipher::AES_256_GCM, &over_xtp(Check::Cxor), CLEAR, 100);
    assert_eq!((with, drops), (0, vec![]));
}

/// Another implementation may have one beside a tag: it is made, and read, in a pass of its own.
#[test]
fn a_trailer_beside_a_tag_is_right() {
    let mut config = over_xtp(Check::Internet);
    if let either::Config::Xtp(xtp) = &mut config.transport {
        xtp.cxor = true;
    }
    for (at, causes) in [(Where::Nowhere, 0), (Where::Data, 1), (Where::Trailer, 1)] {
        let (counts, drops) = cross(Cipher::AES_256_GCM, &config, (at, Rules::NONE, 1), 100);
        let [with, without, damaged] = counts;
        assert!(with > 100 && without == 0, "{at:?}: {with}, {without}");
        let counted: u64 = drops.iter().map(|(_, n)| n).sum();
        assert_eq!((counted, drops.len()), (damaged, causes), "{at:?}: {drops:?}");
    }
}

/// Nothing proves the records then: what a device damages is the application's to see.
#[test]
fn without_a_check_whole_records_come_as_they_are() {
    let network =
        Network::new(memory::Config { mailbox_bytes: 64 << 20, ..memory::Config::default() });
    let [a, b] = [A, B].map(|addr| Box::new(network.attach(addr.parse().unwrap()).unwrap()));
    let ns = Arc::new(AtomicU64::new(1));
    let config = over_xtp(Check::None);
    let mut world = World::speaking(&[Cipher::NONE], None, a, b, ns, &config);
    world.connect();
    carry(&mut world, 0..200, 60.0, body);
    let drops = world.server.info(world.served.unwrap()).unwrap().counters.drops;
    assert_eq!(drops.total(), 0, "{drops:?}");
    close(&mut world);
}

#[test]
fn tcp_has_no_other_check() {
    let network = Network::new(memory::Config::default());
    for check in [Check::Cxor, Check::None] {
        let device = network.attach(A.parse().unwrap()).unwrap();
        let clock = Clock::virtual_ns(Arc::new(AtomicU64::new(1)));
        let config = Config { check, clock, ..small() };
        let mut stack = Stack::new(Box::new(device), config, &[1; 32]);
        let identity = crate::world::identity();
        let client = fusewire_session::ClientConfig::new(identity, fusewire_session::Trust::Ask);
        let refused = stack.connect(B.parse().unwrap(), crate::world::PORT, &client);
        let Err(Error::Misuse(why)) = refused else { panic!("{refused:?}") };
        assert!(why.starts_with("TCP"), "{why}");
    }
}
