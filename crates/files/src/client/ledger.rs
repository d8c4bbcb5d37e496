//! What all connections of a transfer share and write to: what is to be done, and what was.

use super::report::{Event, Observer, Skip, Totals};
use crate::message::Meta;
use crate::{Error, RemotePath};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The ledger, and what is counted beside it without a lock.
pub(super) struct Shared<J, S> {
    /// Bytes of contents that have come or gone, holes among them.
    pub(super) bytes: AtomicU64,
    /// Of these, those that lie in holes.
    pub(super) holes: AtomicU64,
    ledger: Mutex<Ledger<J, S>>,
}

/// Jobs `J`, and what a plan keeps to find more of them.
pub(super) struct Ledger<J, S> {
    pub(super) observer: Box<dyn Observer>,
    pub(super) jobs: VecDeque<J>,
    /// Jobs that connections have taken and not ended.
    pub(super) active: usize,
    pub(super) totals: Totals,
    first_error: Option<Error>,
    /// Something was broken off with its connection that nobody does again.
    pub(super) is_cut_short: bool,
    /// Gives up the remaining files, because they would fail for the same reason.
    pub(super) has_ended: bool,
    state: S,
}

impl<J, S> Deref for Ledger<J, S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.state
    }
}

impl<J, S> DerefMut for Ledger<J, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

impl<J, S> Shared<J, S> {
    pub(super) fn new(observer: Box<dyn Observer>, jobs: VecDeque<J>, state: S) -> Self {
        let (active, totals, first_error) = (0, Totals::default(), None);
        let ledger = Ledger {
            observer,
            jobs,
            active,
            totals,
            first_error,
            is_cut_short: false,
            has_ended: false,
            state,
        };
        Shared { bytes: 0.into(), holes: 0.into(), ledger: Mutex::new(ledger) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Ledger<J, S>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sums so far.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.lock().totals;
        let moved = self.bytes.load(Ordering::Relaxed);
        totals.bytes_done = totals.bytes_done.saturating_add(moved);
        totals.bytes_holes = self.holes.load(Ordering::Relaxed);
        totals
    }

    /// The first failure.
    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().first_error.take()
    }

    /// A job that was taken is ended.
    pub(super) fn end(&self) {
        self.lock().active -= 1;
    }

    /// `bytes` were moved, `holes` of them in holes.
    pub(super) fn moved(&self, bytes: u64, holes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.holes.fetch_add(holes, Ordering::Relaxed);
    }

    /// A file has failed; told once.
    pub(super) fn failed(&self, fate: &Fate, path: &RemotePath, error: Error) {
        if !fate.failed.swap(true, Ordering::Relaxed) {
            self.lock().fail(path, error);
        }
    }

    /// Counts a file that an interrupted run has completed; `bytes` are those of all copies.
    pub(super) fn kept(
        &self,
        fate: &Fate,
        path: &RemotePath,
        (size, bytes): (u64, u64),
        hash: Option<[u8; 32]>,
    ) {
        if !fate.done.swap(true, Ordering::Relaxed) {
            let mut ledger = self.lock();
            tracing::debug!(%path, bytes = size, "there already");
            let totals = &mut ledger.totals;
            totals.files_done += 1;
            totals.files_here += 1;
            totals.bytes_done = totals.bytes_done.saturating_add(bytes);
            totals.bytes_here = totals.bytes_here.saturating_add(size);
            ledger.observer.event(Event::Kept { path, size, hash });
        }
    }

    /// Leaves a file of `bytes` bytes as it is, because something is there that may not be replaced.
    pub(super) fn leave(&self, fate: &Fate, path: &RemotePath, bytes: u64) {
        if !fate.failed.swap(true, Ordering::Relaxed) {
            let mut ledger = self.lock();
            ledger.totals.files -= 1;
            ledger.totals.bytes = ledger.totals.bytes.saturating_sub(bytes);
            ledger.skip(path, Skip::Exists);
        }
    }

    /// A file is complete; told once, and true then.
    pub(super) fn done(
        &self,
        fate: &Fate,
        path: &RemotePath,
        meta: &Meta,
        hash: impl FnOnce() -> Option<[u8; 32]>,
    ) -> bool {
        let is_first = !fate.done.swap(true, Ordering::Relaxed);
        if is_first {
            let mut ledger = self.lock();
            tracing::debug!(%path, bytes = meta.size, "transferred");
            ledger.totals.files_done += 1;
            ledger.observer.event(Event::Done { path, size: meta.size, hash: hash() });
        }
        is_first
    }
}

impl<J, S> Ledger<J, S> {
    /// The next job, if one waits and anything is still to be done.
    pub(super) fn take(&mut self) -> Option<J> {
        if self.has_ended {
            return None;
        }
        let job = self.jobs.pop_front()?;
        self.active += 1;
        Some(job)
    }

    /// A file that has come another way, but for `before` bytes that were here.
    pub(super) fn have(&mut self, meta: &Meta, before: u64) {
        self.totals.files += 1;
        self.totals.files_done += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(meta.size);
        self.caught(meta.size, before, meta.size);
    }

    /// Bytes of a file that have come another way, in all copies of it `all`, but for `before` of them that were here.
    pub(super) fn caught(&mut self, bytes: u64, before: u64, all: u64) {
        let (before, totals) = (before.min(bytes), &mut self.totals);
        totals.bytes_done = totals.bytes_done.saturating_add(all);
        totals.bytes_here = totals.bytes_here.saturating_add(before);
        totals.bytes_caught = totals.bytes_caught.saturating_add(bytes - before);
    }

    pub(super) fn skip(&mut self, path: &RemotePath, why: Skip) {
        tracing::debug!(%path, %why, "left out");
        self.totals.skipped += 1;
        self.totals.unchanged += u64::from(why.is_there());
        self.observer.event(Event::Skipped { path, why });
    }

    /// Counts and reports a failure. One that ends everything is the last.
    pub(super) fn fail(&mut self, path: &RemotePath, error: Error) {
        if self.has_ended {
            return;
        }
        if error.ends_all() {
            self.has_ended = true;
            self.jobs.clear();
        }
        tracing::debug!(%path, %error, "failed");
        self.totals.failed += 1;
        self.observer.event(Event::Failed { path, error: &error });
        self.first_error.get_or_insert(error);
    }

    /// Bytes of a file that an earlier transfer has left, in all copies of it `all`.
    pub(super) fn resumed(&mut self, path: &RemotePath, bytes: u64, all: u64) {
        tracing::debug!(%path, bytes, "goes on");
        self.totals.bytes_done = self.totals.bytes_done.saturating_add(all);
        self.totals.bytes_here = self.totals.bytes_here.saturating_add(bytes);
        self.observer.event(Event::Resumed { path, bytes });
    }
}

/// What has become of a file: of several ranges each may find out.
#[derive(Debug, Default)]
pub(super) struct Fate {
    failed: AtomicBool,
    done: AtomicBool,
    grew: AtomicBool,
}

impl Fate {
    /// What comes or goes of it is dropped.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Notes that the file grew while it was read; `true` the first time.
    pub(super) fn grows(&self) -> bool {
        !self.grew.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}
