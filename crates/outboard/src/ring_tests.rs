//! The protocol of leases: bounds against a hostile application, and every interleaving of small exchanges (loom).

use std::cell::Cell;

use super::*;

/// Words that one thread has.
#[derive(Default)]
struct Plain([Cell<u64>; 5]);

impl Ring for Plain {}

impl Words<Word> for Plain {
    fn load(&self, word: Word) -> u64 {
        self.0[word as usize].get()
    }
    fn store(&self, word: Word, value: u64) {
        self.0[word as usize].set(value);
    }
    fn compare_exchange(&self, word: Word, old: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(word);
        if found == old {
            self.store(word, new);
            return Ok(old);
        }
        Err(found)
    }
    fn fetch_or(&self, word: Word, bits: u64) -> u64 {
        self.0[word as usize].replace(self.load(word) | bits)
    }
    fn swap(&self, word: Word, value: u64) -> u64 {
        self.0[word as usize].replace(value)
    }
    fn fence(&self) {}
}

#[test]
fn only_a_possible_index_is_believed() {
    for sent in [RING_BYTES + 1, POSITION, POSITION / 2] {
        let words = Plain::default();
        words.store(Word::Sent, sent);
        let violation = Progress::default().written(&words).unwrap_err();
        assert_eq!((violation.name, violation.found), ("write index", sent));
    }
    let (words, mut progress) = (Plain::default(), Progress::default());
    words.store(Word::Sent, 100);
    assert_eq!(progress.written(&words), Ok((0, 100)));
    progress.take(&words, 60);
    words.store(Word::Sent, 99);
    assert!(progress.written(&words).is_err(), "an index must not go back");
    words.store(Word::Sent, (60 + RING_BYTES) | REVOKED);
    assert_eq!(progress.written(&words), Ok((60, RING_BYTES)));
    progress.show(&words, 10);
    words.store(Word::Read, 11);
    assert!(progress.room(&words).is_err(), "more was read than there is");
    assert!(progress.must_ring(&words).is_err());
    words.store(Word::Read, 4 | ARMED);
    assert_eq!(progress.unread(&words), Ok((4, 6)));
    words.store(Word::Read, 3);
    assert!(progress.room(&words).is_err(), "an index must not go back");
}

#[test]
fn what_is_borrowed_is_no_room() {
    let (words, mut progress, mut taken) = (Plain::default(), Progress::default(), 0);
    commit(&words, 0, 100).unwrap();
    progress.written(&words).unwrap();
    progress.borrow(80);
    assert_eq!((progress.written(&words), progress.taken()), (Ok((80, 20)), (80, 80)));
    assert_eq!(room(&words, &mut taken, RING_BYTES), Ok((100, RING_BYTES - 100)));
    words.store(Word::Sent, RING_BYTES + 1);
    assert!(progress.written(&words).is_err(), "over what the outboard needs");
    words.store(Word::Sent, 100);
    progress.free(&words, 60);
    assert_eq!(progress.taken(), (80, 20));
    assert_eq!(room(&words, &mut taken, RING_BYTES), Ok((100, RING_BYTES - 40)));
    progress.take(&words, 20);
    assert_eq!(progress.taken(), (100, 0));
    assert_eq!(room(&words, &mut taken, RING_BYTES), Ok((100, RING_BYTES)));
}

#[test]
fn the_bell_rings_once_for_each_arming_and_only_for_something() {
    let (words, mut progress) = (Plain::default(), Progress::default());
    assert_eq!(arm(&words), Ok(After::Rest));
    assert_eq!(progress.must_ring(&words), Ok(false));
    progress.show(&words, 5);
    assert_eq!((progress.must_ring(&words), progress.must_ring(&words)), (Ok(true), Ok(false)));
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, 2), Ok(Some(After::Rest)), "some is left");
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, len), Ok(Some(After::Drain)));
    assert_eq!((drain(&words), drain(&words)), (Ok(true), Ok(false)));
    assert!(!drained(&words, true));
    progress.show(&words, 1);
    assert_eq!(progress.must_ring(&words), Ok(true));
    assert!(!give_up(&words), "it has rung");
    assert_eq!(drain(&words), Ok(true));
    assert!(drained(&words, true), "what is there nobody has rung for");
    assert!(give_up(&words));
    assert_eq!((unread(&words), commit(&words, 0, 1)), (Err(Lost), Err(Lost)));
    assert_eq!(progress.must_ring(&words), Ok(false));
    assert_eq!(Progress::revoke(&words), Left { is_rung: false, is_busy: false });
    assert_eq!(progress.unread(&words), Ok((5, 1)), "which goes through the placeholder");
}

#[test]
fn room_is_told_to_who_waits_for_it() {
    let (words, mut progress) = (Plain::default(), Progress::default());
    progress.show(&words, RING_BYTES);
    progress.want_room(&words, true);
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, 1000), Ok(Some(After::Tell)), "the bell is to ring");
    assert_eq!(progress.must_ring(&words), Ok(true));
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, 1000), Ok(Some(After::Rest)), "it is not worth it");
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, RING_BYTES / 2), Ok(Some(After::Tell)));
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, len), Ok(Some(After::Drain)), "all at once");
    assert_eq!(drain(&words), Ok(true));
    assert!(drained(&words, true), "there is room");
    let mut taken = 0;
    assert_eq!(room(&words, &mut taken, 10), Ok((0, RING_BYTES)));
    commit(&words, 0, RING_BYTES).unwrap();
    assert_eq!(room(&words, &mut taken, 10), Ok((RING_BYTES, 0)));
    progress.written(&words).unwrap();
    progress.take(&words, 30);
    assert_eq!((room(&words, &mut taken, 10), taken), (Ok((RING_BYTES, 30)), 30));
}

#[test]
fn what_a_reader_leaves_that_looked_by_itself_is_rung_for() {
    for arms in [false, true] {
        left_by_who_looked(arms);
    }
}

/// `arms`: it was about to sleep, and looked once more.
fn left_by_who_looked(arms: bool) {
    let (words, mut progress) = (Plain::default(), Progress::default());
    progress.show(&words, 5);
    assert_eq!(progress.must_ring(&words), Ok(false), "it looks by itself");
    if arms {
        assert_eq!(arm(&words), Ok(After::Rest));
    }
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, 2), Ok(Some(After::Tell)));
    assert_eq!(progress.must_ring(&words), Ok(true));
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, 1), Ok(Some(After::Rest)), "once");
}

#[test]
fn who_reads_all_of_a_full_ring_at_once_tells_of_the_room_though_the_bell_had_rung() {
    let (words, mut progress) = (Plain::default(), Progress::default());
    arm(&words).unwrap();
    progress.show(&words, RING_BYTES);
    assert_eq!(progress.must_ring(&words), Ok(true));
    progress.want_room(&words, true);
    let (read, len) = unread(&words).unwrap();
    assert_eq!(consume(&words, read, len, len), Ok(Some(After::Drain)));
    assert_eq!(drain(&words), Ok(true));
    assert!(drained(&words, true));
}

/// Words, ring and placeholder in loom's memory.
mod model {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::super::*;
    use crate::news;
    use crate::words::model::{Modelled, check};

    struct Shared {
        words: Modelled<5>,
        /// A byte each. Relaxed: a reader may see any value that the protocol does not exclude.
        out: [AtomicU64; 4],
        came: [AtomicU64; 4],
        /// Doorbells that lie in the placeholder.
        bells: AtomicU64,
        /// The outboard was told.
        told: AtomicU64,
        /// The same by words, and it was woken.
        news: Modelled<2>,
        woken: AtomicU64,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            Arc::new(Shared {
                words: Default::default(),
                out: Default::default(),
                came: Default::default(),
                bells: AtomicU64::new(0),
                told: AtomicU64::new(0),
                news: Default::default(),
                woken: AtomicU64::new(0),
            })
        }

        fn tell(&self) {
            self.told.fetch_or(1, Ordering::AcqRel);
        }

        fn take_bell(&self) -> bool {
            let less = |bells: u64| bells.checked_sub(1);
            self.bells.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
        }
    }

    impl Ring for Modelled<5> {}

    /// What the application has committed is sent, once, whenever the lease is taken back; the rest it sends otherwise.
    #[test]
    fn a_revocation_splits_what_is_sent_in_two() {
        check(|| {
            let shared = Shared::new();
            let application = shared.clone();
            let writer = thread::spawn(move || {
                let mut taken = 0;
                for n in 0..2u64 {
                    let Ok((position, _)) = room(&application.words, &mut taken, 1) else {
                        return n;
                    };
                    application.out[position as usize].store(10 + n, Ordering::Relaxed);
                    if commit(&application.words, position, 1).is_err() {
                        return n;
                    }
                }
                2
            });
            let mut progress = Progress::default();
            let mut all = 0;
            let mut take = |progress: &mut Progress| {
                let (position, len) = progress.written(&shared.words).unwrap();
                for at in position..position + len {
                    assert_eq!(shared.out[at as usize].load(Ordering::Relaxed), 10 + at);
                }
                progress.take(&shared.words, len);
                all += len;
            };
            take(&mut progress);
            Progress::revoke(&shared.words);
            take(&mut progress);
            assert_eq!(writer.join().unwrap(), all);
        });
    }

    /// Who writes tells of it, and the outboard, which leaves that alone while it finds something without, does not sleep over
    /// anything.
    #[test]
    fn nobody_sleeps_over_what_was_committed() {
        check(|| {
            let shared = Shared::new();
            let application = shared.clone();
            let writer = thread::spawn(move || {
                for _ in 0..2 {
                    let (position, _) = room(&application.words, &mut 0, 1).unwrap();
                    commit(&application.words, position, 1).unwrap();
                    if news::tell(&application.news, 1) {
                        application.woken.fetch_add(1, Ordering::AcqRel);
                    }
                }
            });
            let (mut progress, mut all, mut rests) = (Progress::default(), 0, false);
            while all < 2 {
                if rests || news::hear(&shared.news) != 0 {
                    let (_, len) = progress.written(&shared.words).unwrap();
                    progress.take(&shared.words, len);
                    (all, rests) = (all + len, len > 0);
                    continue;
                }
                if news::sleeps(&shared.news, true, 1) {
                    while shared.woken.swap(0, Ordering::AcqRel) == 0 {
                        thread::yield_now();
                    }
                }
                news::sleeps(&shared.news, false, 1);
            }
            writer.join().unwrap();
        });
    }

    /// A reader that sleeps is rung for what comes, and each byte is read once: by it, or in its place by who takes the lease
    /// back, in order.
    #[test]
    fn no_interleaving_loses_a_byte_or_a_ring() {
        check(|| {
            let shared = Shared::new();
            let application = shared.clone();
            let reader = thread::spawn(move || {
                let mut count = 0;
                while count < 2 {
                    let Ok((read, len)) = unread(&application.words) else { return count };
                    if len > 0 {
                        let at = (read & POSITION) as usize;
                        let found = application.came[at].load(Ordering::Relaxed);
                        match consume(&application.words, read, len, 1) {
                            Err(Lost) => return count,
                            Ok(None) => continue,
                            Ok(Some(After::Drain)) => drain_bell(&application),
                            Ok(Some(After::Tell)) => {
                                application.tell();
                            }
                            Ok(Some(After::Rest)) => {}
                        }
                        assert_eq!(found, 10 + count);
                        count += 1;
                        continue;
                    }
                    match arm(&application.words) {
                        Err(Lost) => return count,
                        Ok(After::Drain) => drain_bell(&application),
                        Ok(_) => {}
                    }
                    if unread(&application.words).is_ok_and(|(_, len)| len == 0) {
                        // Asleep in the placeholder, which has a byte when it is rung, or others when the lease is over.
                        while application.bells.load(Ordering::Acquire) == 0 {
                            if application.words.load(Word::Read) & REVOKED != 0 {
                                return count;
                            }
                            thread::yield_now();
                        }
                    }
                }
                count
            });
            let mut progress = Progress::default();
            for n in 0..2u64 {
                shared.came[n as usize].store(10 + n, Ordering::Relaxed);
                progress.show(&shared.words, 1);
                if progress.must_ring(&shared.words).unwrap() {
                    shared.bells.fetch_add(1, Ordering::AcqRel);
                }
            }
            assert_eq!(reader.join().unwrap(), 2, "all was rung for");
            assert!(shared.bells.load(Ordering::Acquire) <= 1);
        });
    }

    /// Who looks by himself, reads a part and then sleeps in `poll` is rung for what is left.
    #[test]
    fn what_is_left_is_rung_for() {
        check(|| {
            let shared = Shared::new();
            let application = shared.clone();
            let reader = thread::spawn(move || {
                loop {
                    let (read, len) = unread(&application.words).unwrap();
                    if len == 0 {
                        thread::yield_now();
                        continue;
                    }
                    match consume(&application.words, read, len, 1).unwrap() {
                        None => continue,
                        Some(After::Drain) => drain_bell(&application),
                        Some(After::Tell) => application.tell(),
                        Some(After::Rest) => {}
                    }
                    break;
                }
                while application.bells.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            });
            let mut progress = Progress::default();
            let ring = |progress: &mut Progress| {
                if progress.must_ring(&shared.words).unwrap() {
                    shared.bells.fetch_add(1, Ordering::AcqRel);
                }
            };
            for _ in 0..2 {
                progress.show(&shared.words, 1);
                ring(&mut progress);
            }
            // Until something was read, and the bell lies there for the rest.
            while shared.words.load(Word::Read) & (POSITION | RUNG) <= RUNG {
                if shared.told.swap(0, Ordering::AcqRel) != 0 {
                    ring(&mut progress);
                }
                thread::yield_now();
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn what_is_not_read_when_the_lease_ends_is_what_is_left() {
        check(|| {
            let shared = Shared::new();
            let mut progress = Progress::default();
            for n in 0..2u64 {
                shared.came[n as usize].store(10 + n, Ordering::Relaxed);
                progress.show(&shared.words, 1);
            }
            arm(&shared.words).unwrap();
            if progress.must_ring(&shared.words).unwrap() {
                shared.bells.fetch_add(1, Ordering::AcqRel);
            }
            let application = shared.clone();
            let reader = thread::spawn(move || {
                let mut count = 0;
                while let Ok((read, len @ 1..)) = unread(&application.words) {
                    match consume(&application.words, read, len, 1) {
                        Err(Lost) => break,
                        Ok(None) => continue,
                        Ok(Some(After::Drain)) => drain_bell(&application),
                        Ok(Some(_)) => {}
                    }
                    count += 1;
                }
                count
            });
            let mut left = Progress::revoke(&shared.words);
            let (_, owed) = progress.unread(&shared.words).unwrap();
            while left.is_busy {
                thread::yield_now();
                left = Progress::left(&shared.words);
            }
            if left.is_rung {
                assert!(shared.take_bell(), "it lies there");
                Progress::quiet(&shared.words);
            }
            assert!(!is_noisy(&shared.words));
            assert_eq!(
                shared.bells.load(Ordering::Acquire),
                0,
                "nothing is before the peer's bytes"
            );
            assert_eq!(reader.join().unwrap() + owed, 2);
        });
    }

    fn drain_bell(application: &Shared) {
        if drain(&application.words) == Ok(true) {
            let was_there = application.take_bell();
            if drained(&application.words, was_there) {
                application.tell();
            }
        }
    }
}
