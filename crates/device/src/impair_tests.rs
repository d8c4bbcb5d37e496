//! Each rule alone, on a virtual clock; and the same seed twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::memory::{self, Memory};

struct Rig {
    a: Impair<Memory>,
    b: Memory,
    now_ns: Arc<AtomicU64>,
    batch: RxBatch,
}

impl Rig {
    fn new(rules: Rules, seed: u64) -> Rig {
        let config = memory::Config { mailbox_bytes: 64 << 20, ..memory::Config::default() };
        let (a, b) = memory::pair(config).unwrap();
        let now_ns = Arc::new(AtomicU64::new(0));
        let clock = now_ns.clone();
        let clock = move || Instant::from_ns(clock.load(Ordering::Relaxed));
        Rig { a: Impair::new(a, rules, rules, seed, clock), b, now_ns, batch: RxBatch::new(8) }
    }

    fn send(&mut self, n: u32) {
        let mut bytes = [0u8; 100];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        let (header, payload) = bytes.split_at(20);
        let peer = self.b.local_addr();
        assert_eq!(
            self.a.transmit(&[TxFrame { peer, header, payload, ecn: Ecn::Ect0 }]).unwrap(),
            1
        );
    }

    fn advance_to(&mut self, now: Instant) {
        self.now_ns.store(now.as_ns(), Ordering::Relaxed);
        self.a.wait(Some(Duration::ZERO), false).unwrap();
    }

    fn received(&mut self) -> Vec<(Ecn, Vec<u8>)> {
        let mut got = Vec::new();
        while self.b.receive(&mut self.batch).unwrap() > 0 {
            for packet in self.batch.iter() {
                got.extend(packet.frames().map(|f| (packet.ecn, f.to_vec())));
            }
        }
        got
    }

    fn numbers(&mut self) -> Vec<u32> {
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes[..4].try_into().unwrap());
        self.received().iter().map(|(_, bytes)| number(bytes)).collect()
    }
}

#[test]
fn without_rules_nothing_happens() {
    let mut rig = Rig::new(Rules::NONE, 1);
    (0..100).for_each(|n| rig.send(n));
    assert_eq!(rig.numbers(), (0..100).collect::<Vec<_>>());
}

#[test]
fn loses_about_as_much_as_asked_and_the_same_for_the_same_seed() {
    let rules = Rules { loss: 0.3, ..Rules::NONE };
    let fates: Vec<_> = [7, 7, 8]
        .map(|seed| {
            let mut rig = Rig::new(rules, seed);
            (0..10_000).for_each(|n| rig.send(n));
            rig.numbers()
        })
        .into();
    assert!((6_700..7_300).contains(&fates[0].len()), "{} of 10000 came", fates[0].len());
    assert_eq!(fates[0], fates[1]);
    assert_ne!(fates[0], fates[2]);
}

#[test]
fn corrupts_exactly_one_bit() {
    let mut rig = Rig::new(Rules { corrupt: 1.0, ..Rules::NONE }, 3);
    (0..50).for_each(|_| rig.send(0));
    for (_, bytes) in rig.received() {
        assert_eq!(bytes.iter().map(|b| b.count_ones()).sum::<u32>(), 1);
    }
    assert_eq!(rig.a.counters().0.corrupted, 50);
}

#[test]
fn duplicates_and_marks() {
    let mut rig = Rig::new(Rules { duplicate: 1.0, mark: 1.0, ..Rules::NONE }, 3);
    rig.send(1);
    rig.send(2);
    let got = rig.received();
    assert_eq!(got.len(), 4);
    assert!(got.iter().all(|(ecn, _)| *ecn == Ecn::Ce));
}

#[test]
fn delays_and_holds_back() {
    let delay = Duration::from_millis(20);
    let mut rig = Rig::new(Rules { delay, ..Rules::NONE }, 3);
    rig.send(1);
    rig.advance_to(Instant::from_ns(19_999_999));
    assert!(rig.numbers().is_empty());
    assert_eq!(rig.a.next_release(), Some(Instant::from_ms(20)));
    rig.advance_to(Instant::from_ms(20));
    assert_eq!(rig.numbers(), [1]);

    assert_eq!(rig.a.next_timeout(), None);
    rig.send(2);
    rig.now_ns.store(25_000_000, Ordering::Relaxed);
    assert_eq!(rig.a.next_timeout(), Some(Duration::from_millis(15)));

    let rules = Rules { reorder: 0.2, delay, ..Rules::NONE };
    let mut rig = Rig::new(rules, 4);
    for n in 0..1000 {
        rig.advance_to(Instant::from_us(u64::from(n) * 100));
        rig.send(n);
    }
    rig.advance_to(Instant::from_ms(1000));
    let mut got = rig.numbers();
    assert!(!got.is_sorted());
    got.sort_unstable();
    assert_eq!(got, (0..1000).collect::<Vec<_>>());
}

#[test]
fn the_rate_limit_spaces_frames_and_drops_the_tail() {
    let rules = Rules { rate: Some(100_000), queue_bytes: 1000, ..Rules::NONE };
    let mut rig = Rig::new(rules, 5);
    // 100 bytes at 100 kB/s: one each millisecond; ten wait, one more is on its way.
    (0..50).for_each(|n| rig.send(n));
    assert!((10..=11).contains(&rig.a.outgoing.held.len()), "{}", rig.a.outgoing.held.len());
    for ms in 1..=10 {
        rig.advance_to(Instant::from_ms(ms));
        assert_eq!(rig.numbers(), [ms as u32 - 1]);
    }
    assert!(rig.a.counters().0.overflowed >= 39);
}

#[test]
fn a_link_that_follows_rules_changes_with_them() {
    let slow = Rules { delay: Duration::from_millis(5), ..Rules::NONE };
    let mut rig = Rig::new(slow, 8);
    let rules = Arc::new(Mutex::new(Rules { loss: 1.0, ..Rules::NONE }));
    rig.a.follows = Some(rules.clone());
    rig.send(0);
    *rules.lock().unwrap() = Rules { delay: Duration::from_millis(2), ..Rules::NONE };
    rig.send(1);
    rig.advance_to(Instant::from_ms(1));
    assert_eq!(rig.numbers(), []);
    rig.advance_to(Instant::from_ms(2));
    assert_eq!(rig.numbers(), [1]);
}

#[test]
fn incoming_frames_suffer_too() {
    let mut rig = Rig::new(Rules { delay: Duration::from_millis(1), ..Rules::NONE }, 6);
    let peer = rig.a.local_addr();
    let frame = TxFrame { peer, header: &[1; 40], payload: &[], ecn: Ecn::NotEct };
    rig.b.transmit(&[frame, frame, frame]).unwrap();
    let mut batch = RxBatch::new(2);
    assert_eq!(rig.a.receive(&mut batch).unwrap(), 0);
    rig.now_ns.store(1_000_000, Ordering::Relaxed);
    assert!(rig.a.wait(None, false).unwrap());
    assert_eq!(rig.a.receive(&mut batch).unwrap(), 1);
    assert_eq!(batch.iter().next().unwrap().frames().count(), 3);
}

#[test]
fn what_is_on_its_way_arrives_although_the_device_is_dropped() {
    let mut far = [false, true].map(|delivers| {
        let (a, b) = memory::pair(memory::Config::default()).unwrap();
        let rules = Rules { delay: Duration::from_millis(5), ..Rules::NONE };
        let began = std::time::Instant::now();
        let clock = move || Instant::from_ns(began.elapsed().as_nanos() as u64);
        let a = Impair::new(a, rules, Rules::NONE, 7, clock);
        let mut a = if delivers { a.delivering() } else { a };
        let frame =
            TxFrame { peer: b.local_addr(), header: &[1; 40], payload: &[], ecn: Ecn::NotEct };
        assert_eq!(a.transmit(&[frame, frame]).unwrap(), 2);
        b
    });
    let came = far.each_mut().map(|far| {
        let mut batch = RxBatch::new(8);
        far.receive(&mut batch).unwrap();
        batch.iter().map(|packet| packet.frames().count()).sum::<usize>()
    });
    assert_eq!(came, [0, 2]);
}
