//! The rings' protocol: bounds against a hostile peer, and every interleaving of a small exchange (loom).

use std::cell::Cell;

use super::*;

/// A peer whose words are whatever the test says.
#[derive(Default)]
struct Hostile {
    head: Cell<u64>,
    tail: Cell<u64>,
    sleep: Cell<u64>,
}

impl Control for Hostile {
    fn peer(&self, word: Word) -> u64 {
        match word {
            Word::Head => self.head.get(),
            Word::Tail => self.tail.get(),
            Word::Sleep => self.sleep.get(),
        }
    }
    fn publish(&self, _: Word, _: u64) {}
    fn fence(&self) {}
}

#[test]
fn a_consumer_believes_only_a_possible_head() {
    for head in [1, 63, 65, 1024 + 64, u64::MAX, 1 << 63, u64::MAX - 63] {
        let peer = Hostile::default();
        peer.head.set(head);
        let error = Consumer::new(1024).available(&peer).unwrap_err();
        assert!(matches!(error, Violation::Index { name: "head", found, .. } if found == head));
    }
    let (peer, mut consumer) = (Hostile::default(), Consumer::new(1024));
    peer.head.set(1024);
    assert_eq!(consumer.available(&peer), Ok((0, 1024)));
    consumer.take(512);
    // While there is more, the word is not read again.
    peer.head.set(0);
    assert_eq!(consumer.available(&peer), Ok((512, 512)));
    consumer.take(512);
    assert!(consumer.available(&peer).is_err(), "an index must not go back");
    peer.head.set(1024 + 64);
    assert!(consumer.available(&peer).is_err(), "nothing was released yet");
    assert!(consumer.holds(0, 1024) && !consumer.holds(64, 1024) && !consumer.holds(2048, 0));
    assert!(consumer.release(&peer) && !consumer.release(&peer));
    assert!(!consumer.holds(0, 64));
    assert_eq!(consumer.available(&peer), Ok((1024, 64)));
}

#[test]
fn a_producer_believes_only_a_possible_tail() {
    let (peer, mut producer) = (Hostile::default(), Producer::new(1024));
    assert_eq!(producer.room_for(&peer, 1024), Ok(Some(0)));
    producer.commit(960);
    assert_eq!(producer.room_for(&peer, 128), Ok(None));
    peer.tail.set(64);
    assert!(producer.room_for(&peer, 128).is_err(), "what is not published cannot be released");
    assert!(producer.publish(&peer) && !producer.publish(&peer));
    assert_eq!(producer.room_for(&peer, 128), Ok(Some(960)));
    for tail in [0, 63, 100, 1024, u64::MAX] {
        peer.tail.set(tail);
        assert!(producer.room_for(&peer, 1024).is_err(), "{tail}");
    }
    peer.tail.set(960);
    assert_eq!(producer.room_for(&peer, 1024), Ok(Some(960)));
    assert_eq!(producer.room_for(&peer, 1025), Ok(None));
}

#[test]
fn each_sleep_is_ended_once() {
    let (peer, mut bell) = (Hostile::default(), Bell::default());
    assert!(!bell.must_ring(&peer, WANT_DATA));
    peer.sleep.set(1 << WANTS | WANT_DATA);
    assert!(!bell.must_ring(&peer, WANT_ROOM));
    assert!(bell.must_ring(&peer, WANT_DATA) && !bell.must_ring(&peer, WANT_DATA));
    peer.sleep.set(2 << WANTS | WANT_DATA);
    assert!(bell.must_ring(&peer, WANT_DATA));
}

/// Words and ring in loom's memory.
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::thread;

    use super::super::*;

    #[derive(Default)]
    struct Side {
        head: AtomicU64,
        tail: AtomicU64,
        sleep: AtomicU64,
    }

    impl Side {
        fn word(&self, word: Word) -> &AtomicU64 {
            match word {
                Word::Head => &self.head,
                Word::Tail => &self.tail,
                Word::Sleep => &self.sleep,
            }
        }
    }

    struct Shared {
        sides: [Side; 2],
        /// A ring of two lines. Relaxed: a reader may see any value that the protocol does not exclude.
        ring: [AtomicU64; 2],
        /// The doorbells: rings that were not heard yet.
        bells: [AtomicU64; 2],
    }

    /// One side's view.
    struct View(Arc<Shared>, usize);

    impl Control for View {
        fn peer(&self, word: Word) -> u64 {
            self.0.sides[1 - self.1].word(word).load(Ordering::Acquire)
        }
        fn publish(&self, word: Word, value: u64) {
            self.0.sides[self.1].word(word).store(value, Ordering::Release);
        }
        fn fence(&self) {
            fence(Ordering::SeqCst);
        }
    }

    impl View {
        fn ring_peer(&self) {
            self.0.bells[1 - self.1].fetch_add(1, Ordering::AcqRel);
        }

        /// Sleeps until rung; loom reports a deadlock when that never comes.
        fn sleep(&self) {
            while self.0.bells[self.1].load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            self.0.bells[self.1].store(0, Ordering::Release);
        }
    }

    fn produce(view: &View, count: u64) -> Result<(), Violation> {
        let (mut producer, mut sleeper, mut bell) =
            (Producer::new(2 * ALIGN), Sleeper::default(), Bell::default());
        for n in 0..count {
            let position = loop {
                if let Some(position) = producer.room_for(view, ALIGN)? {
                    break position;
                }
                sleeper.lie_down(view, WANT_ROOM);
                if producer.room_for(view, ALIGN)?.is_none() {
                    view.sleep();
                }
                sleeper.get_up(view);
            };
            view.0.ring[(position / ALIGN % 2) as usize].store(n, Ordering::Relaxed);
            producer.commit(ALIGN);
            producer.publish(view);
            if bell.must_ring(view, WANT_DATA) {
                view.ring_peer();
            }
        }
        Ok(())
    }

    fn consume(view: &View, count: u64) -> Result<(), Violation> {
        let (mut consumer, mut sleeper, mut bell) =
            (Consumer::new(2 * ALIGN), Sleeper::default(), Bell::default());
        for n in 0..count {
            let position = loop {
                let (position, bytes) = consumer.available(view)?;
                if bytes > 0 {
                    break position;
                }
                sleeper.lie_down(view, WANT_DATA);
                if consumer.available(view)?.1 == 0 {
                    view.sleep();
                }
                sleeper.get_up(view);
            };
            let found = view.0.ring[(position / ALIGN % 2) as usize].load(Ordering::Relaxed);
            assert_eq!(found, n);
            consumer.take(ALIGN);
            consumer.release(view);
            if bell.must_ring(view, WANT_ROOM) {
                view.ring_peer();
            }
        }
        Ok(())
    }

    #[test]
    fn no_interleaving_loses_a_record_or_a_wake() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(Shared {
                sides: Default::default(),
                ring: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
                bells: Default::default(),
            });
            let view = View(shared.clone(), 0);
            let producer = thread::spawn(move || produce(&view, 3));
            consume(&View(shared, 1), 3).unwrap();
            producer.join().unwrap().unwrap();
        });
    }
}
