//! Records that share a segment: which do, where such a segment is cut, and what an acknowledgement of bulk waits for.

use crate::pair::{End, Pair};
use core::ops::Range;
use core::time::Duration;
use fusewire_transport::machine::{Cut, DropCause, Initial, Verdict};
use fusewire_transport::tcp::{Config, State};
use fusewire_wire::tcp::Flags;

fn open() -> Pair {
    Pair::open(&Config::default(), &Config::default())
}

/// Commits a record, in the segment of the one before if it may; whether it did.
fn pack(end: &mut End, len: u32) -> bool {
    let joins = end.tcp.joins(len);
    let r = end.tcp.reserve(len).expect("room");
    end.tcp.commit(r, if joins { Cut::Joined } else { Cut::Record });
    joins
}

/// The payloads that leave now.
fn payloads(pair: &mut Pair) -> Vec<Range<u64>> {
    pair.a.output(pair.now).into_iter().map(|p| p.payload).collect()
}

#[test]
fn records_that_wait_share_a_segment_as_long_as_they_fit_whole() {
    let mut pair = open();
    let joined: Vec<_> = [700, 700, 40, 1, 1000, 440].map(|len| pack(&mut pair.a, len)).into();
    assert_eq!(joined, [false, true, true, false, true, false]);
    assert_eq!(payloads(&mut pair), [0..1440, 1440..2441, 2441..2881]);
}

/// Records that are committed together are cut and joined as if each had been committed by itself.
#[test]
fn records_committed_together_are_those_committed_one_by_one() {
    let mut random = fusewire_testkit::Random::new(7);
    for _ in 0..300 {
        let (mut together, mut singly) = (open(), open());
        for _ in 0..12 {
            let (each, wanted) = (1 + random.below(500) as u32, 1 + random.below(9) as u32);
            let room = match together.a.tcp.joins_whole() {
                0 => together.a.tcp.max_payload(),
                room => room,
            };
            let count = wanted.min(room / each).max(1);
            let joins = together.a.tcp.joins(count * each);
            assert!(joins || together.a.tcp.joins_whole() < count * each);
            let r = together.a.tcp.reserve(count * each).expect("room").of_records(each);
            together.a.tcp.commit(r, if joins { Cut::Joined } else { Cut::Record });
            for nth in 0..count {
                let joined = pack(&mut singly.a, each);
                assert_eq!(joined, joins || nth > 0, "{nth} of {count}");
            }
            if random.below(4) == 0 {
                assert_eq!(payloads(&mut together), payloads(&mut singly));
            }
        }
        let smaller = 600 + random.below(500) as u32;
        for pair in [&mut together, &mut singly] {
            pair.a.tcp.set_max_payload(smaller);
            pair.a.tcp.resend_all(pair.now);
        }
        assert_eq!(payloads(&mut together), payloads(&mut singly));
    }
}

#[test]
fn a_record_alone_leaves_at_once_and_takes_none_afterwards() {
    let mut pair = open();
    assert!(!pack(&mut pair.a, 100));
    assert_eq!(payloads(&mut pair).as_slice(), std::slice::from_ref(&(0..100)));
    assert!(!pack(&mut pair.a, 100), "the segment before is on its way");
    assert_eq!(payloads(&mut pair).as_slice(), std::slice::from_ref(&(100..200)));
}

#[test]
fn pieces_of_a_long_record_and_streams_take_none() {
    let mut pair = open();
    pack(&mut pair.a, 1440 + 5);
    assert!(!pair.a.tcp.joins(10), "behind a piece");
    let r = pair.a.tcp.reserve(10).expect("room");
    pair.a.tcp.commit(r, Cut::Stream);
    assert!(!pair.a.tcp.joins(10), "behind a stream");
    pack(&mut pair.a, 10);
    assert!(pair.a.tcp.joins(1430) && !pair.a.tcp.joins(1431));
    pair.a.tcp.finish();
    assert!(!pair.a.tcp.joins(10), "behind the end");
    let out = pair.a.output(pair.now);
    let lens: Vec<_> = out.iter().map(|p| (p.len(), p.has(Flags::FIN))).collect();
    assert_eq!(lens, [(1440, false), (5, false), (10, false), (10, true)]);
}

#[test]
fn records_that_are_longer_than_a_segment_leave_in_full_ones() {
    let mut pair = open();
    let joined: Vec<_> = [2000, 2000, 1441, 1439, 3000].map(|len| pack(&mut pair.a, len)).into();
    assert_eq!(joined, [false, true, true, false, false]);
    let lens: Vec<_> =
        pair.a.output(pair.now).iter().map(|p| (p.len(), p.has(Flags::PSH))).collect();
    let full = (1440, false);
    let rest = [(1121, true), (1439, true), full, full, (120, true)];
    assert_eq!(lens, [&[full; 3][..], &rest].concat());
    // Nothing waits for a segment to become full.
    assert!(!pack(&mut pair.a, 2000));
    assert_eq!(pair.a.output(pair.now).len(), 2);
}

#[test]
fn a_smaller_path_cuts_where_records_begin() {
    let mut pair = open();
    // Of the first segment two records fit what the path carries then, of the second one is too long for it.
    for len in [200, 200, 200, 600, 100, 900, 100, 100, 50, 20] {
        pack(&mut pair.a, len);
    }
    assert_eq!(payloads(&mut pair), [0..1300, 1300..2470]);
    for len in [300, 300, 300, 300] {
        pack(&mut pair.a, len);
    }
    pair.a.tcp.set_max_payload(700);
    let out = pair.a.output(pair.now);
    let got: Vec<_> = out.iter().map(|p| p.payload.clone()).collect();
    let again = [0..600, 600..1300, 1300..2000, 2000..2200, 2200..2470];
    let unsent = [2470..3070, 3070..3670];
    assert_eq!(got, [&again[..], &unsent[..]].concat());
    let resent: Vec<_> = out.iter().map(|p| p.retransmission).collect();
    assert_eq!(resent, [true, true, true, true, true, false, false]);
    for p in &out {
        pair.b.take(pair.now, p);
    }
    assert_eq!(pair.b.tcp.rcv_nxt_offset(), 3670);
}

/// Records of any lengths over paths that become ever smaller: no segment is longer than the path carries, none but a
/// piece of a longer record ends within one, and every byte arrives once.
#[test]
fn segments_end_where_records_do_however_often_they_are_cut() {
    let mut random = fusewire_testkit::Random::new(5);
    for _ in 0..200 {
        let mut pair = open();
        let (mut ends, mut total) = (vec![0], 0);
        for _ in 0..60 {
            let len = 1 + random.below(700);
            pack(&mut pair.a, len as u32);
            total += len;
            ends.push(total);
        }
        let mut max = 1440u32;
        while max > 100 {
            let leaves = random.below(4) as usize;
            for _ in 0..leaves {
                // On its way, and lost.
                let _ = pair.a.tcp.poll_transmit(pair.now);
            }
            max = max.saturating_sub(1 + random.below(400) as u32).max(88);
            pair.a.tcp.set_max_payload(max);
            pair.a.tcp.resend_all(pair.now);
        }
        let mut last = 0;
        for _ in 0..400 {
            for p in pair.a.output(pair.now) {
                assert!(p.len() <= max);
                let begins = ends.binary_search(&p.payload.start);
                let next = ends[begins.map_or_else(|at| at, |at| at + 1).min(ends.len() - 1)];
                let ends_record = ends.binary_search(&p.payload.end).is_ok();
                assert!(ends_record || p.payload.end < next, "{:?} {next} {max}", p.payload);
                assert!(begins.is_ok() || p.payload.end <= next, "{:?} {next}", p.payload);
                last = last.max(p.payload.end);
                pair.b.take(pair.now, &p);
            }
            for p in pair.b.output(pair.now) {
                pair.a.take(pair.now, &p);
            }
            pair.sleep(Duration::from_millis(30));
        }
        assert_eq!((last, pair.b.tcp.rcv_nxt_offset()), (total, total));
    }
}

#[test]
fn what_follows_a_wrong_record_comes_again() {
    let mut pair = open();
    for len in [300, 300, 300] {
        pack(&mut pair.a, len);
    }
    let p = pair.a.output(pair.now).remove(0);
    let initial = pair.b.tcp.handle_initial(pair.now, &p.header, p.len());
    assert!(matches!(&initial, Initial::Payload(plan) if plan.len == 900));
    let verdict = Verdict::Part { len: 300, rest: DropCause::Tag };
    pair.b.tcp.handle_final(pair.now, &p.header, &initial, verdict, false);
    assert_eq!(pair.b.tcp.rcv_nxt_offset(), 300);
    assert_eq!(pair.b.tcp.counters().drops.of(DropCause::Tag), 1);
    pair.b.accepted.push(0..300);
    pair.b.take(pair.now, &p);
    assert_eq!((pair.b.tcp.rcv_nxt_offset(), pair.b.accepted[1].clone()), (900, 300..900));
}

/// Behind a forged record nothing of the segment is believed, its FIN neither: the stream goes on there.
#[test]
fn a_fin_behind_a_wrong_record_ends_nothing() {
    let mut pair = open();
    for len in [300, 300] {
        pack(&mut pair.a, len);
    }
    let p = pair.a.output(pair.now).remove(0);
    let mut forged = p.header;
    forged.flags |= Flags::FIN;
    let initial = pair.b.tcp.handle_initial(pair.now, &forged, p.len());
    let verdict = Verdict::Part { len: 300, rest: DropCause::Tag };
    pair.b.tcp.handle_final(pair.now, &forged, &initial, verdict, false);
    pair.b.accepted.push(0..300);
    pair.b.take(pair.now, &p);
    pack(&mut pair.a, 500);
    let rest = pair.a.output(pair.now).remove(0);
    pair.b.take(pair.now, &rest);
    assert_eq!((pair.b.tcp.state(), pair.b.tcp.rcv_nxt_offset()), (State::Established, 1100));
    // The true one, behind what was wrong on its way, comes again with it.
    let r = pair.a.tcp.reserve(200).expect("room");
    pair.a.tcp.commit(r, Cut::Record);
    pair.a.tcp.finish();
    let last = pair.a.output(pair.now).remove(0);
    assert!(last.has(Flags::FIN));
    let initial = pair.b.tcp.handle_initial(pair.now, &last.header, last.len());
    let verdict = Verdict::Part { len: 100, rest: DropCause::Tag };
    pair.b.tcp.handle_final(pair.now, &last.header, &initial, verdict, false);
    assert_eq!((pair.b.tcp.state(), pair.b.tcp.rcv_nxt_offset()), (State::Established, 1200));
    pair.b.accepted.push(1100..1200);
    pair.b.take(pair.now, &last);
    assert_eq!((pair.b.tcp.state(), pair.b.tcp.rcv_nxt_offset()), (State::CloseWait, 1300));
}

#[test]
fn acknowledgements_of_bulk_wait_for_a_part_of_the_window_or_a_pause() {
    let config = Config { stretch_acks: true, ..Config::default() };
    let mut pair = Pair::open(&Config::default(), &config);
    let mut acks = 0;
    // The window of the handshake opens.
    pair.a.send(1440);
    let first = pair.a.output(pair.now).remove(0);
    pair.b.take(pair.now, &first);
    let opened = pair.b.output(pair.now).remove(0);
    pair.a.take(pair.now, &opened);
    for _ in 0..8 {
        pair.a.send(1440);
    }
    for p in pair.a.output(pair.now) {
        pair.b.take(pair.now, &p);
        acks += pair.b.output(pair.now).len();
    }
    assert_eq!(acks, 0, "less than a sixteenth of 256 KiB");
    assert!(pair.b.tcp.owes_ack());
    pair.b.tcp.acknowledge();
    let out = pair.b.output(pair.now);
    assert_eq!((out.len(), pair.b.tcp.owes_ack()), (1, false));
    pair.a.take(pair.now, &out[0]);
    // Without a pause: one for each sixteenth.
    for _ in 0..14 {
        pair.a.send(1440);
    }
    let sent = pair.a.output(pair.now);
    assert!(sent.len() >= 12);
    for p in &sent {
        pair.b.take(pair.now, p);
        acks += pair.b.output(pair.now).len();
    }
    assert_eq!(acks, 1);
    // And nobody who does not look any more is waited for.
    pair.sleep(Duration::from_millis(26));
    assert_eq!(pair.b.output(pair.now).len(), 1, "the delayed acknowledgement");
}
