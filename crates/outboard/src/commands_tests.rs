//! Every interleaving of small exchanges (loom): each request is answered once, its caller has his own answer, and nobody sleeps
//! over one.

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::*;
use crate::news;
use crate::words::model::{Modelled, check};

impl From<Word> for usize {
    fn from(word: Word) -> usize {
        match word {
            Word::State(slot) => 2 * slot,
            Word::Answered(slot) => 2 * slot + 1,
        }
    }
}

/// A table of one slot or two, and who sleeps.
#[derive(Default)]
struct Shared {
    words: Modelled<4>,
    news: Modelled<2>,
    /// A request and an answer of each, a byte. Relaxed: any value that the protocol does not exclude.
    requests: [AtomicU64; 2],
    answers: [AtomicU64; 2],
    /// The outboard was woken.
    bells: AtomicU64,
    /// Who sleeps at an answer's word, as the kernel knows.
    sleepers: [Mutex<bool>; 2],
}

impl Shared {
    /// As `FUTEX_WAIT` and as `FUTEX_WAKE`.
    fn sleep(&self, slot: usize, seen: u64) {
        let mut sleeps = self.sleepers[slot].lock().unwrap();
        *sleeps = self.words.load(Word::Answered(slot)) == seen;
        while *sleeps {
            drop(sleeps);
            thread::yield_now();
            sleeps = self.sleepers[slot].lock().unwrap();
        }
    }

    fn wake(&self, slot: usize) {
        *self.sleepers[slot].lock().unwrap() = false;
    }

    /// Asks for what is one more than `request`, and looks for the answer, or sleeps.
    fn call(&self, request: u64, may_sleep: bool) -> u64 {
        let number = claim(&self.words, 0).unwrap();
        self.requests[0].store(request, Ordering::Relaxed);
        ask(&self.words, 0, number, request as usize);
        if news::tell(&self.news, 1) {
            self.bells.fetch_add(1, Ordering::AcqRel);
        }
        let mut len = answer(&self.words, 0, number);
        while let Err(seen) = len {
            match may_sleep {
                true => {
                    len = sleeps(&self.words, 0, number);
                    if len.is_err() {
                        self.sleep(0, seen);
                    }
                }
                false => {
                    thread::yield_now();
                    len = answer(&self.words, 0, number);
                }
            }
        }
        assert_eq!(answer(&self.words, 0, number), Ok(request as usize + 1));
        let answer = self.answers[0].load(Ordering::Relaxed);
        free(&self.words, 0, number);
        answer
    }

    /// Answers what was told of; true if there was something.
    fn serve(&self) -> bool {
        if news::hear(&self.news) == 0 {
            return false;
        }
        let asked = take(&self.words, 0).unwrap().expect("what was told of");
        let request = self.requests[0].load(Ordering::Relaxed);
        assert_eq!(asked.len, request as usize);
        self.answers[0].store(request + 1, Ordering::Relaxed);
        if complete(&self.words, 0, asked, asked.len + 1) {
            self.wake(0);
        }
        true
    }
}

#[test]
fn nobody_sleeps_over_a_request_or_its_answer() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let application = shared.clone();
        let caller = thread::spawn(move || assert_eq!(application.call(10, true), 11));
        while !shared.serve() {
            if news::sleeps(&shared.news, true, !0) {
                while shared.bells.swap(0, Ordering::AcqRel) == 0 {
                    thread::yield_now();
                }
            }
            news::sleeps(&shared.news, false, !0);
        }
        caller.join().unwrap();
    });
}

#[test]
fn one_after_the_other_is_answered_what_he_has_asked() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let application = shared.clone();
        let caller = thread::spawn(move || {
            assert_eq!([10, 20].map(|request| application.call(request, false)), [11, 21]);
        });
        for _ in 0..2 {
            while !shared.serve() {
                thread::yield_now();
            }
        }
        caller.join().unwrap();
    });
}

#[test]
fn two_at_once_have_each_a_slot() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let callers = [10, 20].map(|request| {
            let shared = shared.clone();
            thread::spawn(move || {
                let claimed = |slot| claim(&shared.words, slot).map(|number| (slot, number));
                let (slot, number) = (0..2).find_map(claimed).expect("one of two");
                shared.requests[slot].store(request, Ordering::Relaxed);
                ask(&shared.words, slot, number, request as usize);
                news::tell(&shared.news, 1 << slot);
                slot
            })
        });
        let [first, second] = callers.map(|caller| caller.join().unwrap());
        assert_ne!(first, second);
        assert_eq!(news::hear(&shared.news), 3);
        for (slot, request) in [(first, 10), (second, 20)] {
            assert_eq!(take(&shared.words, slot).unwrap().map(|asked| asked.len), Some(request));
            assert_eq!(shared.requests[slot].load(Ordering::Relaxed), request as u64);
        }
    });
}

/// Whoever gives up asks otherwise, so that what he has asked is done once: by the slot, or not.
#[test]
fn what_is_withdrawn_is_not_taken() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let application = shared.clone();
        let caller = thread::spawn(move || {
            let number = claim(&application.words, 0).unwrap();
            ask(&application.words, 0, number, 7);
            news::tell(&application.news, 1);
            thread::yield_now();
            let is_withdrawn = withdraw(&application.words, 0, number);
            match is_withdrawn {
                // Whose bit was heard meanwhile is looked at, and left.
                true => {
                    while claim(&application.words, 0).is_none() {
                        thread::yield_now();
                    }
                }
                false => assert!(claim(&application.words, 0).is_none()),
            }
            is_withdrawn
        });
        let taken = (0..2).filter(|_| {
            thread::yield_now();
            let has_news = news::hear(&shared.news) != 0;
            has_news && take(&shared.words, 0).unwrap().is_some()
        });
        let taken = taken.count();
        let is_withdrawn = caller.join().unwrap();
        assert_eq!(taken, usize::from(!is_withdrawn));
    });
}

#[test]
fn what_no_caller_writes_is_not_taken() {
    loom::model(|| {
        let words = Modelled::<4>::default();
        for state in [0, CLAIMED, ASKED, CLAIMED | TAKEN, CLAIMED | ASKED | TAKEN, !0] {
            words.store(Word::State(0), state);
            assert_eq!(take(&words, 0), Ok(None), "{state:b}");
        }
        let most = MESSAGE_MAX as u64;
        for (len, is_possible) in [(0, true), (most, true), (most + 1, false), (LEN, false)] {
            words.store(Word::State(0), len << LEN_AT | CLAIMED | ASKED);
            assert_eq!(take(&words, 0).is_ok(), is_possible, "{len}");
        }
        // The caller believes no length either.
        words.store(Word::Answered(0), 1 << NUMBER_AT | LEN);
        assert_eq!(answer(&words, 0, Number(1)), Ok(MESSAGE_MAX));
    });
}
