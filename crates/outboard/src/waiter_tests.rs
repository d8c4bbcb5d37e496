//! Every interleaving of small exchanges (loom): nobody sleeps over what came.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;
use crate::words::model::{Modelled, check};

/// Words of a waiter, how much came and was read of each of two leases, and bells.
#[derive(Default)]
struct Shared {
    words: Modelled<2>,
    came: [AtomicU64; 2],
    bells: AtomicU64,
}

/// Something comes `order[n]`-th for a lease, and `deferred` bells ring when all has come.
fn nobody_sleeps_over(order: &'static [usize], is_deferred: bool) {
    check(move || {
        let shared = Arc::new(Shared::default());
        let application = shared.clone();
        let waiter = thread::spawn(move || {
            let (mut read, mut found) = ([0; 2], 0);
            while found < order.len() as u64 {
                let ready = application.words.load(Word::Ready);
                if ready == 0 {
                    if sleeps(&application.words) {
                        // In the kernel, which shows a bell.
                        while application.bells.swap(0, Ordering::AcqRel) == 0 {
                            thread::yield_now();
                        }
                    }
                    wakes(&application.words);
                    continue;
                }
                for (lease, read) in read.iter_mut().enumerate() {
                    if ready & 1 << lease != 0 {
                        clear(&application.words, 1 << lease);
                        let came = application.came[lease].load(Ordering::Acquire);
                        found += came - *read;
                        *read = came;
                    }
                }
            }
        });
        let ring = || {
            wakes(&shared.words);
            shared.bells.fetch_add(1, Ordering::AcqRel);
        };
        let mut owes_bell = false;
        for lease in order {
            shared.came[*lease].fetch_add(1, Ordering::Release);
            let is_asleep = mark(&shared.words, 1 << *lease);
            match is_deferred {
                true => owes_bell |= is_asleep,
                false if is_asleep => ring(),
                false => {}
            }
        }
        if owes_bell && is_asleep(&shared.words) {
            ring();
        }
        waiter.join().unwrap();
    });
}

#[test]
fn nobody_sleeps_over_what_came_for_two_leases() {
    nobody_sleeps_over(&[0, 1], false);
    nobody_sleeps_over(&[0, 1], true);
}

#[test]
fn nobody_sleeps_over_what_came_twice() {
    nobody_sleeps_over(&[0, 0], false);
    nobody_sleeps_over(&[0, 0], true);
}
