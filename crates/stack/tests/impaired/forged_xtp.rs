//! XTP beside somebody who forges: packets with one thing wrong change nothing and are counted by what is wrong, and a
//! flood of FIRSTs takes no more memory than half-open contexts may, while who was there is served.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_device::memory::{self, Network};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_stack::{Config, Event, Keep};
use fusewire_testkit::Random;
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::xtp::{self, Connection};
use fusewire_wire::xtp::{
    Body, Code, Diag, Format, Header, Key, Options, Packet, Reason, SpanList, seal,
};

use crate::forged::is_record;
use crate::world::{A, B, PORT, World, carry, close, small};

const LEN_MAX: usize = 2048;

fn config() -> Config {
    Config { transport: either::Config::of_records(Protocol::Xtp), ..small() }
}

/// What is wrong with a packet, by the causes under which it is counted.
const WRONG: [(&[Wrong], &[&str]); 7] = [
    (&[Wrong::Key, Wrong::Rtn], &["transport-stray", "transport-malformed"]),
    (&[Wrong::Sync, Wrong::Alloc, Wrong::Unchecked], &["protocol"]),
    (&[Wrong::Seq], &["out-of-window"]),
    (&[Wrong::Rseq, Wrong::Echo], &["bad-ack"]),
    (&[Wrong::Bytes], &["tag"]),
    (&[Wrong::Diag], &["blind-reset"]),
    (&[Wrong::Check], &["checksum"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wrong {
    Key,
    Rtn,
    Sync,
    Seq,
    Rseq,
    Echo,
    Alloc,
    /// A control whose check does not cover it.
    Unchecked,
    /// A byte of a record.
    Bytes,
    /// A DIAG that does not count.
    Diag,
    Check,
}

/// A packet like this one but for one thing; `None` if it has none of that.
fn forged(random: &mut Random, genuine: &[u8], wrong: Wrong) -> Option<Vec<u8>> {
    let packet = Packet::parse(genuine).expect("a packet of ours");
    let mut header: Header<SpanList<16>> = packet.header.keep();
    let mut data = packet.data.to_vec();
    if !header.returned {
        return None;
    }
    let is_data = matches!(header.body, Body::Data { .. }) && !data.is_empty();
    let bit = random.below(60);
    match (wrong, &mut header.body) {
        (Wrong::Key, _) => header.key = Key::new(header.key.bits() ^ 1 << bit)?,
        (Wrong::Rtn, _) => header.returned = false,
        (Wrong::Sync, _) => header.sync = header.sync.wrapping_add(0x20_000),
        (Wrong::Seq, _) => header.seq += 1 << 40,
        (Wrong::Rseq, Body::Cntl(control)) => {
            control.rseq += 1 << 40;
            control.alloc += 1 << 40;
        }
        (Wrong::Echo, Body::Cntl(control)) => control.echo = control.echo.wrapping_add(0x20_000),
        (Wrong::Alloc, Body::Cntl(control)) => control.alloc += 1 << 40,
        (Wrong::Unchecked, Body::Cntl(_)) => header.options |= Options::NOCHECK,
        // One who knows all numbers, and makes a record look like a piece of a longer one, ends the connection.
        (Wrong::Bytes, _) if is_data && is_record(&data) => {
            let at = random.range(16..data.len() as u64) as usize;
            data[at] ^= 1 << (bit % 8);
        }
        (Wrong::Diag, _) => {
            let diag = Diag { code: Code::ContextRefused, reason: Reason::NoListener };
            header = Header {
                body: Body::Diag(diag),
                options: Options::NONE,
                sync: 0,
                seq: 0,
                ..header
            };
            data.clear();
        }
        (Wrong::Check, _) => {}
        _ => return None,
    }
    header.data_len = data.len() as u32;
    let mut out = [0; LEN_MAX];
    let len = header.emit(&mut out);
    let mut bytes = [&out[..len], &data].concat();
    seal(&mut bytes);
    if wrong == Wrong::Check {
        bytes[16] ^= 1 << (bit % 8);
    }
    Some(bytes)
}

/// Sends forged packets, as if they were its own, before each of its own.
struct Forging {
    inner: memory::Memory,
    random: Random,
    on: Arc<AtomicBool>,
    sent: Arc<Mutex<BTreeMap<Wrong, u64>>>,
}

impl Device for Forging {
    fusewire_device::forward!(self => self.inner; caps local_addr receive wait waker as_fd);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        for frame in frames {
            let genuine = [frame.header, frame.payload].concat();
            for &wrong in WRONG.iter().flat_map(|(wrong, _)| *wrong) {
                if !self.on.load(Ordering::Relaxed) || self.random.chance(0.5) {
                    continue;
                }
                if let Some(bytes) = forged(&mut self.random, &genuine, wrong) {
                    let (peer, header) = (frame.peer, &bytes[..]);
                    let forged = TxFrame { peer, header, payload: &[], ecn: Ecn::NotEct };
                    self.inner.transmit(&[forged])?;
                    *self.sent.lock().unwrap().entry(wrong).or_default() += 1;
                }
            }
            self.inner.transmit(&[*frame])?;
        }
        Ok(frames.len())
    }
}

fn network() -> Network {
    Network::new(memory::Config {
        mailbox_bytes: 64 << 20,
        coalesce: false,
        ..memory::Config::default()
    })
}

#[test]
fn forged_packets_change_nothing_and_are_counted_by_cause() {
    for seed in 1..=4 {
        let (network, on) = (network(), Arc::new(AtomicBool::new(false)));
        let (mut random, sent) = (Random::new(seed), Arc::new(Mutex::new(BTreeMap::new())));
        let mut end = |addr: &str| Forging {
            inner: network.attach(addr.parse().unwrap()).unwrap(),
            random: random.fork(),
            on: on.clone(),
            sent: sent.clone(),
        };
        let (a, b) = (Box::new(end(A)), Box::new(end(B)));
        let mut world = World::with(a, b, Arc::new(AtomicU64::new(1)), &config());
        world.connect();
        on.store(true, Ordering::Relaxed);
        // One record a packet. Nothing may wait for a timeout.
        let body = |n: usize| (0..900 + n % 300).map(|i| (i * 13 + n * 7) as u8).collect();
        carry(&mut world, 0..1000, 0.2, body);
        on.store(false, Ordering::Relaxed);
        let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
        let infos = [world.client.info(world.id), world.server.info(world.served.unwrap())];
        for info in infos.into_iter().flatten() {
            let c = &info.counters;
            assert_eq!((c.retransmissions, c.timeouts), (0, 0));
            c.drops.named().for_each(|(cause, n)| *counted.entry(cause).or_default() += n);
        }
        for stack in [&world.client, &world.server] {
            stack
                .dropped()
                .into_iter()
                .for_each(|(name, n)| *counted.entry(name).or_default() += n);
        }
        let sent = sent.lock().unwrap();
        for (wrong, causes) in WRONG {
            let of = |wrong| sent.get(wrong).copied().unwrap_or(0);
            assert!(wrong.iter().all(|wrong| of(wrong) > 20), "{sent:?}");
            let sent: u64 = wrong.iter().map(of).sum();
            let n: u64 = causes.iter().filter_map(|cause| counted.get(cause)).sum();
            // What is told to who knows no such key is a stray, too.
            let is_right = if wrong[0] == Wrong::Key { n >= sent } else { n == sent };
            assert!(is_right, "{wrong:?}: {n} for {sent}, {counted:?}");
        }
        let closed = |e: &Event| matches!(e, Event::Closed(_));
        assert!(!world.client_events.iter().chain(&world.server_events).any(closed));
        close(&mut world);
    }
}

#[test]
fn a_flood_of_firsts_is_bounded_and_who_is_open_is_served() {
    const BACKLOG: usize = 16;
    let network = network();
    let a = network.attach(A.parse().unwrap()).unwrap();
    let b = network.attach(B.parse().unwrap()).unwrap();
    let config = Config { backlog: BACKLOG, ..config() };
    let mut world = World::with(Box::new(a), Box::new(b), Arc::new(AtomicU64::new(1)), &config);
    world.connect();
    let mut strangers: Vec<_> = (0..64)
        .map(|n| network.attach(format!("192.0.2.100:{}", 1000 + n).parse().unwrap()).unwrap())
        .collect();
    let (mut random, mut batch) = (Random::new(7), RxBatch::new(64));
    let (mut sent_bytes, mut got_bytes, mut most) = (0, 0, 0);
    for round in 0..400 {
        for stranger in &mut strangers {
            let key = Key::new(random.next_u64() >> 1 | 1).unwrap();
            let now = fusewire_base::Instant::from_ms(1);
            let mut first = Connection::connect(&xtp::Config::default(), key, PORT, now)
                .poll_transmit(now)
                .unwrap()
                .header;
            first.data_len = 1000;
            let mut head = [0; LEN_MAX];
            let len = first.emit(&mut head);
            let mut bytes = [&head[..len], &[0x16; 1000]].concat();
            seal(&mut bytes);
            let frame = TxFrame {
                peer: B.parse().unwrap(),
                header: &bytes,
                payload: &[],
                ecn: Ecn::NotEct,
            };
            assert_eq!(stranger.transmit(&[frame]).unwrap(), 1);
            sent_bytes += bytes.len();
        }
        while world.server.poll(&mut Keep).unwrap() {}
        most = most.max(world.server.connections());
        for stranger in &mut strangers {
            while stranger.receive(&mut batch).unwrap() > 0 {
                got_bytes += batch.iter().map(|packet| packet.bytes.len()).sum::<usize>();
            }
        }
        carry(&mut world, round..round + 1, 0.1, |n| vec![n as u8; 1000]);
    }
    let half = BACKLOG / 2;
    println!("{most} contexts at most, {} cookies", world.server.cookies());
    assert!((1 + half..=1 + BACKLOG).contains(&most), "{most} contexts");
    assert!(world.server.cookies() > 64 * 300, "{} cookies", world.server.cookies());
    assert!(got_bytes <= sent_bytes, "amplifies: {got_bytes} for {sent_bytes}");
    let end = world.seconds() + Duration::from_secs(11).as_secs_f64();
    while world.seconds() < end {
        world.step();
    }
    assert_eq!(world.server.connections(), 1, "what was half open is gone");
    close(&mut world);
}

/// Packets for nobody are told so 100 times a second, whoever sends them.
#[test]
fn diags_have_a_limit() {
    let network = network();
    let a = network.attach(A.parse().unwrap()).unwrap();
    let b = network.attach(B.parse().unwrap()).unwrap();
    let mut world = World::with(Box::new(a), Box::new(b), Arc::new(AtomicU64::new(1)), &config());
    world.connect();
    let mut stranger = network.attach("192.0.2.100:9".parse().unwrap()).unwrap();
    let mut batch = RxBatch::new(64);
    let mut got = 0;
    let begun = world.seconds();
    while world.seconds() < begun + 2.5 {
        for service in [PORT + 1, PORT] {
            let now = fusewire_base::Instant::from_ms(1);
            let key = Key::new(got as u64 + 99).unwrap();
            // One for no listener, and one that the listener refuses.
            let config = xtp::Config {
                service: fusewire_wire::xtp::Service::Transaction,
                ..xtp::Config::default()
            };
            let mut first = Connection::connect(&config, key, service, now);
            let header = first.poll_transmit(now).unwrap().header;
            let mut bytes = [0; LEN_MAX];
            let len = header.emit(&mut bytes);
            seal(&mut bytes[..len]);
            let peer = B.parse().unwrap();
            let frame = TxFrame { peer, header: &bytes[..len], payload: &[], ecn: Ecn::NotEct };
            stranger.transmit(&[frame]).unwrap();
        }
        world.step();
        while stranger.receive(&mut batch).unwrap() > 0 {
            for packet in batch.iter() {
                let format = Packet::parse(packet.bytes).unwrap().header.body.format();
                assert_eq!(format, Format::Diag);
                got += 1;
            }
        }
    }
    assert!((290..=310).contains(&got), "{got} in 2.5 s");
    let limited = world.server.dropped().into_iter().find(|(name, _)| *name == "refusal-limited");
    assert!(limited.is_some_and(|(_, n)| n > 40_000), "{limited:?}");
    close(&mut world);
}
