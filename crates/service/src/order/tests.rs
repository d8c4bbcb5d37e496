//! Delivery under loss, reordering, copies and hostile numbers.

use super::*;
use fusewire_testkit::{Random, for_each_seed};

fn ms(ms: u64) -> Instant {
    Instant::from_ms(ms)
}

fn one(order: Order, window: usize, patience: Option<u64>) -> Orders<u64> {
    let patience = patience.map(Duration::from_millis);
    Orders::new(&[Lane { order, window, patience, after: &[] }])
}

fn drain(orders: &mut Orders<u64>, now: Instant) -> Vec<Event<u64>> {
    core::iter::from_fn(|| orders.poll(now)).collect()
}

fn adu(number: u64) -> Event<u64> {
    Event::Adu { lane: 0, number, adu: number }
}

fn gap(first: u64, count: u64) -> Event<u64> {
    Event::Gap(Skip { lane: 0, first, count })
}

#[test]
fn a_gap_is_waited_for_and_told_once() {
    let mut orders = one(Order::Type, 16, Some(30));
    for n in [0, 3, 4, 7] {
        orders.push(ms(10 * n), 0, n, &[], n).unwrap();
    }
    assert_eq!(drain(&mut orders, ms(59)), [adu(0)]);
    // 3 came at 30.
    assert_eq!(orders.poll_timeout(), Some(ms(60)));
    orders.push(ms(59), 0, 1, &[], 1).unwrap();
    assert_eq!(drain(&mut orders, ms(60)), [adu(1), gap(2, 1), adu(3), adu(4)]);
    assert_eq!(orders.push(ms(60), 0, 2, &[], 2), Err((Refused::Old, 2)), "too late");
    assert_eq!(orders.poll_timeout(), Some(ms(100)));
    // The sender says so: no wait.
    orders.skip(Skip { lane: 0, first: 5, count: 2 });
    assert_eq!(drain(&mut orders, ms(61)), [gap(5, 2), adu(7)]);
    assert_eq!((orders.held(), orders.poll_timeout()), (0, None));
}

/// A gap is waited for as long as the one lets it that waits longest behind it, whichever that is.
#[test]
fn none_waits_beyond_its_own_patience() {
    let mut orders = one(Order::Type, 16, Some(30));
    for (n, came) in [(0, 0), (2, 50), (3, 25)] {
        orders.push(ms(came), 0, n, &[], n).unwrap();
    }
    assert_eq!(drain(&mut orders, ms(54)), [adu(0)]);
    assert_eq!((orders.poll_timeout(), orders.base(0)), (Some(ms(55)), 1));
    assert_eq!(drain(&mut orders, ms(55)), [gap(1, 1), adu(2), adu(3)]);
}

#[test]
fn each_is_taken_once_and_numbers_are_bounded() {
    for order in [Order::All, Order::Type, Order::None] {
        let mut orders = one(order, 8, None);
        orders.push(ms(0), 0, 7, &[], 7).unwrap();
        assert_eq!(orders.push(ms(0), 0, 7, &[], 7), Err((Refused::Old, 7)));
        for beyond in [8, 9, 1 << 32, u64::MAX] {
            assert_eq!(
                orders.push(ms(0), 0, beyond, &[], 0),
                Err((Refused::Beyond, 0)),
                "{beyond}"
            );
        }
        orders.skip(Skip { lane: 0, first: 0, count: u64::MAX });
        orders.skip(Skip { lane: 7, first: u64::MAX, count: u64::MAX });
        let mut events = drain(&mut orders, ms(0));
        events.sort_by_key(|event| matches!(event, Event::Adu { .. }));
        assert_eq!(events, [gap(0, 7), adu(7)], "{order:?}");
        assert_eq!(orders.push(ms(0), 0, 15, &[], 15), Ok(()), "the window has moved");
    }
    let mut newest = one(Order::Newest, 1, None);
    newest.push(ms(0), 0, u64::MAX - 1, &[], 1).unwrap();
    assert_eq!(drain(&mut newest, ms(0)).len(), 2);
    assert!(newest.push(ms(0), 0, 5, &[], 5).is_err());
}

#[test]
fn the_newest_overtakes() {
    let mut orders = one(Order::Newest, 1, None);
    assert_eq!(orders.push(ms(0), 0, 2, &[], 2), Ok(()));
    assert_eq!(orders.push(ms(0), 0, 1, &[], 1), Err((Refused::Old, 1)));
    assert_eq!(orders.push(ms(0), 0, 5, &[], 5), Err((Refused::Overtaken, 2)));
    assert_eq!(drain(&mut orders, ms(0)), [gap(0, 5), adu(5)]);
    orders.push(ms(0), 0, 6, &[], 6).unwrap();
    assert_eq!(drain(&mut orders, ms(0)), [adu(6)]);
}

#[test]
fn done_comes_after_all_blocks_that_come_and_those_that_do_not() {
    let patience = Some(Duration::from_millis(50));
    let blocks = Lane { order: Order::None, window: 32, patience, after: &[] };
    let done = Lane { order: Order::Type, window: 4, patience, after: &[0] };
    let mut orders = Orders::new(&[blocks, done]);
    for n in [0, 2] {
        orders.push(ms(0), 0, n, &[], n).unwrap();
    }
    // Blocks 1, 3 and 4 are lost; nothing but this one says that 3 and 4 were there.
    orders.push(ms(10), 1, 0, &[5], 100).unwrap();
    assert_eq!(drain(&mut orders, ms(49)), [adu(0), adu(2)]);
    assert_eq!(drain(&mut orders, ms(50)), [gap(1, 1)]);
    assert_eq!(orders.poll_timeout(), Some(ms(60)));
    let done = Event::Adu { lane: 1, number: 0, adu: 100 };
    assert_eq!(drain(&mut orders, ms(60)), [gap(3, 2), done]);
}

/// Reordered, duplicated, lost: every number is delivered once or told gone once, in the order that was asked for.
#[test]
fn every_number_is_delivered_or_told_once() {
    for_each_seed("every_number_is_delivered_or_told_once", |_, random| {
        let order = *random.pick(&[Order::All, Order::Type, Order::None, Order::Newest]);
        let mut orders = one(order, 64, Some(20));
        let mut sent: Vec<(Instant, u64)> = Vec::new();
        for n in 0..200u64 {
            for _ in 0..1 + u64::from(random.chance(0.1)) {
                if !random.chance(0.1) {
                    let late = Random::duration_below(random, Duration::from_millis(15));
                    sent.push((ms(n) + late, n));
                }
            }
        }
        sent.sort();
        let (mut told, mut last) = (vec![0; 200], None);
        let mut take = |orders: &mut Orders<u64>, now| {
            for event in drain(orders, now) {
                match event {
                    Event::Adu { number, adu, .. } => {
                        assert_eq!(number, adu);
                        assert!(order == Order::None || last < Some(number), "{order:?}");
                        last = Some(number);
                        told[number as usize] += 1;
                    }
                    Event::Gap(skip) => {
                        (skip.first..skip.first + skip.count).for_each(|n| told[n as usize] += 1);
                    }
                }
            }
        };
        let mut end = 0;
        for (at, n) in sent {
            take(&mut orders, at);
            end = end.max(n + 1);
            match orders.push(at, 0, n, &[], n) {
                Ok(()) | Err((Refused::Old | Refused::Overtaken, _)) => {}
                Err(refused) => panic!("{refused:?}"),
            }
            assert!(orders.held() <= 64);
        }
        take(&mut orders, ms(1000));
        assert!(told[..end as usize].iter().all(|&n| n == 1), "{order:?}: {told:?}");
        assert_eq!(orders.held(), 0);
    });
}
