//! The scoreboard, acknowledgement by acknowledgement and train by train.

use super::*;

/// Sent segments of these lengths, from position 1 on.
fn sent(lens: &[u32]) -> SendQueue {
    let (mut queue, mut start) = (SendQueue::new(16), 1);
    for (i, len) in lens.iter().copied().enumerate() {
        let sent_at = Instant::ZERO;
        queue.push(Segment { start, sent_at, len, unit: 0, whole: false, flags: flag::STREAM });
        start += u64::from(len);
        assert_eq!(queue.mark_train_sent(Instant::from_ms(i as u64), 9, len), (1, false));
    }
    queue
}

#[test]
fn an_acknowledgement_of_many_is_as_many_of_one() {
    let lens = [1000, 1000, 300, 1000, 1, 1000];
    for una in (1..=4302u64).step_by(43) {
        let (mut at_once, mut by_one) = (sent(&lens), sent(&lens));
        let ack = |queue: &mut SendQueue, una| {
            let (mut count, mut latest) = (0, Instant::ZERO);
            let bytes = queue.ack_to(una, |s, n| (count, latest) = (count + n, s.sent_at));
            assert!(queue.is_consistent());
            (bytes, count, latest)
        };
        let all = ack(&mut at_once, una);
        let mut sum = (0, 0, Instant::ZERO);
        for una in 1..=una {
            let one = ack(&mut by_one, una);
            sum = (sum.0 + one.0, sum.1 + one.1, sum.2.max(one.2));
        }
        assert_eq!(all, sum, "{una}");
        assert_eq!((at_once.sent(), at_once.bounds()), (by_one.sent(), by_one.bounds()));
    }
}

#[test]
fn a_train_ends_before_another_length_and_at_a_push_tells() {
    let (mut queue, mut start) = (SendQueue::new(16), 1);
    for (len, flags) in [(1000, 0), (1000, flag::PUSH), (1000, 0), (999, 0), (1000, flag::FIN)] {
        let sent_at = Instant::ZERO;
        queue.push(Segment { start, sent_at, len, unit: 0, whole: false, flags });
        start += u64::from(len);
    }
    let now = Instant::from_ms(7);
    assert_eq!(queue.mark_train_sent(now, 1, 1000), (1, false));
    assert_eq!(queue.mark_train_sent(now, 9, 1000), (2, true));
    assert_eq!(queue.mark_train_sent(now, 9, 1000), (0, false));
    assert_eq!(queue.mark_train_sent(now, 9, 999), (1, false));
    assert_eq!(queue.mark_train_sent(now, 9, 1000), (0, false), "FIN goes by itself");
    assert_eq!((queue.sent(), queue.in_flight()), (4, 3999));
    assert!(queue.is_consistent() && queue.at(3).sent_at == now);
}
