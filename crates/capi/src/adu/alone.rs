//! A connection whose link one caller at a time drives, for callers of many threads.
//!
//! Whoever finds nothing sleeps with the link in its hands, and the others sleep until it is back. Who comes new wakes the
//! sleeper. When the link is back, all who wait look once before somebody sleeps with it again.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_stack::{Error, Keep, Link, Readiness, Session, kernel_tcp, shm};

use super::{Carried, Patience, TURN, failed};
use crate::errno::{Errno, Result};

/// A sleep that was shorter had news for nobody who waits: another's records, say, that nobody receives.
const SHORT: Duration = Duration::from_micros(20);
/// How long nobody looks then.
const NAP: Duration = Duration::from_millis(1);

/// What an attempt gives.
type Attempted<T> = Poll<fusewire_stack::Result<T>>;

pub struct Alone {
    shared: Arc<Shared>,
    session: Session,
    adu_len: (usize, usize),
}

struct Shared {
    state: Mutex<State>,
    news: Condvar,
    waker: Waker,
    /// Its descriptor is gone.
    is_dropped: AtomicBool,
}

struct State {
    /// Not here while somebody sleeps with it.
    held: Option<Held>,
    /// How often it came back.
    returns: u64,
    /// Who waits until it does.
    followers: usize,
    /// Of those, who has not looked since.
    behind: usize,
    /// A thread sees that what was sent leaves.
    leaves: bool,
}

struct Held {
    link: Box<dyn Link>,
    /// What `poll` has found.
    arrived: Option<fusewire_stack::Result<Option<Vec<u8>>>>,
    has_ended: bool,
    peer_has_ended: bool,
    /// There was no room for the last ADU.
    is_full: bool,
}

impl Alone {
    /// # Errors
    /// [`Error::Os`] when no descriptor is left.
    pub fn kernel_tcp(mut connection: kernel_tcp::Connection) -> fusewire_stack::Result<Alone> {
        connection.give_up_silent()?;
        let waker = connection.waker()?;
        Ok(Alone::new(Box::new(connection), waker))
    }

    pub fn shm(connection: shm::Connection) -> Alone {
        let waker = connection.waker();
        Alone::new(Box::new(connection), waker)
    }

    fn new(link: Box<dyn Link>, waker: Waker) -> Alone {
        let (session, adu_len) = (link.session(), (link.adu_len(), link.adu_len_max()));
        let (has_ended, peer_has_ended, is_full) = (false, false, false);
        let held = Held { link, arrived: None, has_ended, peer_has_ended, is_full };
        let state = State { held: Some(held), returns: 0, followers: 0, behind: 0, leaves: false };
        let (state, news) = (Mutex::new(state), Condvar::new());
        let shared = Shared { state, news, waker, is_dropped: AtomicBool::new(false) };
        Alone { shared: Arc::new(shared), session, adu_len }
    }

    /// What is the case now.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn readiness(&self) -> Result<Readiness> {
        self.now(|held| Ok(held.readiness()))
    }

    /// Does what needs no waiting.
    fn now<T>(&self, mut act: impl FnMut(&mut Held) -> fusewire_stack::Result<T>) -> Result<T> {
        let patience = Patience { until: None, is_closed: &self.shared.is_dropped };
        self.shared.until(&patience, |held| Poll::Ready(act(held)))
    }

    /// What was sent leaves, though nobody may call any more.
    fn leave(&self) {
        let mut state = self.shared.lock();
        if std::mem::replace(&mut state.leaves, true) {
            return;
        }
        drop(state);
        let shared = self.shared.clone();
        let leaving = move || {
            let patience = Patience { until: None, is_closed: &shared.is_dropped };
            // Who calls next is told what went wrong.
            let _ = shared.until(&patience, Held::leaves);
            shared.lock().leaves = false;
        };
        // Without a thread it leaves with the next call.
        if fusewire_device::thread::spawn("fusewire-leaving", leaving).is_err() {
            self.shared.lock().leaves = false;
        }
    }

    /// Does something whose rest may leave later.
    fn leaving(
        &self,
        act: impl FnMut(&mut Held) -> fusewire_stack::Result<Poll<()>>,
    ) -> Result<()> {
        if self.now(act)?.is_pending() {
            self.leave();
        }
        Ok(())
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, Ordering::Release);
        self.shared.waker.wake();
    }
}

impl Held {
    fn leaves(&mut self) -> Attempted<()> {
        if self.has_ended { self.link.try_finish() } else { self.link.try_flush() }
    }

    /// Sends `adu` unless it `is_sent`, and lets it leave.
    fn send(&mut self, adu: &[u8], is_sent: &mut bool) -> Attempted<()> {
        if !*is_sent {
            if self.has_ended {
                return Poll::Ready(Err(Error::Closed));
            }
            self.is_full = self.link.try_send(adu)?.is_pending();
            if self.is_full {
                return Poll::Pending;
            }
            *is_sent = true;
        }
        self.leaves()
    }

    fn recv(&mut self, out: &mut [u8]) -> Attempted<Option<usize>> {
        match self.arrived.take() {
            None => self.link.try_recv(out),
            Some(Ok(Some(adu))) => {
                let (len, room) = (adu.len(), out.len());
                let fits = out.get_mut(..len).map(|out| out.copy_from_slice(&adu));
                self.link.recycle(adu);
                Poll::Ready(fits.map(|()| Some(len)).ok_or(Error::NoRoom { len, room }))
            }
            // So it is for who asks again, too.
            Some(end) => {
                self.arrived = Some(end.clone());
                Poll::Ready(end.map(|_| None))
            }
        }
    }

    fn finish(&mut self) -> Attempted<()> {
        self.has_ended = true;
        let left = self.link.try_finish()?;
        while !self.peer_has_ended
            && let Poll::Ready(more) = self.link.try_recv_with(&mut Keep)?
        {
            self.peer_has_ended = !more;
        }
        if self.peer_has_ended && left.is_ready() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn readiness(&mut self) -> Readiness {
        if self.arrived.is_none()
            && let Poll::Ready(arrived) = self.link.try_recv_adu()
        {
            self.arrived = Some(arrived);
        }
        let over = matches!(self.arrived, Some(Err(_)));
        // Where there was no room it is tried again, but not at once.
        let was_full = std::mem::replace(&mut self.is_full, false);
        let writable = over || (!was_full && self.link.try_flush().is_ready());
        Readiness { readable: self.arrived.is_some(), writable, called: false, over }
    }
}

/// Who sleeps with the link; it is back, however the sleep ends.
struct Sleeper<'a> {
    shared: &'a Shared,
    held: Option<Held>,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.held = self.held.take();
        state.returns += 1;
        state.behind = state.followers;
        self.shared.news.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attempts, at least once, and sleeps in turn.
    fn until<T>(
        &self,
        patience: &Patience<'_>,
        mut attempt: impl FnMut(&mut Held) -> Attempted<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let (mut is_behind, mut has_looked, mut naps) = (false, false, false);
        loop {
            let mut turn = TURN;
            if let Some(held) = &mut state.held {
                let attempted = attempt(held);
                has_looked = true;
                if std::mem::take(&mut is_behind) {
                    state.behind -= 1;
                    if state.behind == 0 {
                        self.news.notify_all();
                    }
                }
                if let Poll::Ready(result) = attempted {
                    return result.map_err(failed);
                }
                turn = patience.turn()?;
                if turn.is_zero() {
                    return Err(Errno(libc::EAGAIN));
                }
                if std::mem::take(&mut naps) {
                    turn = turn.min(NAP);
                } else if state.behind == 0 {
                    let mut sleeper = Sleeper { shared: self, held: state.held.take() };
                    drop(state);
                    let asleep = Instant::now();
                    // What it fails with, the attempts are told, too.
                    let slept = sleeper.held.as_mut().map(|held| held.link.wait(Some(turn)));
                    naps = asleep.elapsed() < SHORT || matches!(slept, Some(Err(_)));
                    drop(sleeper);
                    state = self.lock();
                    continue;
                }
            } else if !has_looked {
                self.waker.wake();
            }
            let returns = state.returns;
            state.followers += 1;
            let waited = self.news.wait_timeout(state, turn);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.followers -= 1;
            // It was counted when the link came back.
            is_behind |= state.returns != returns;
        }
    }
}

impl Carried for Alone {
    fn session(&self) -> Session {
        self.session
    }

    fn adu_len(&self) -> (usize, usize) {
        self.adu_len
    }

    fn send(&self, adu: &[u8], patience: &Patience<'_>) -> Result<()> {
        let mut is_sent = false;
        match self.shared.until(patience, |held| held.send(adu, &mut is_sent)) {
            Err(Errno(libc::EAGAIN)) if is_sent => {
                self.leave();
                Ok(())
            }
            sent => sent,
        }
    }

    fn recv(&self, out: &mut [u8], patience: &Patience<'_>) -> Result<Option<usize>> {
        self.shared.until(patience, |held| held.recv(out))
    }

    fn finish_sending(&self) -> Result<()> {
        self.leaving(|held| {
            held.has_ended = true;
            match held.link.try_finish() {
                Poll::Ready(Err(error)) => Err(error),
                left => Ok(left.map(|_| ())),
            }
        })
    }

    fn finish(&self, patience: &Patience<'_>) -> Result<()> {
        self.shared.until(patience, Held::finish)
    }

    fn close(&self, code: u64) -> Result<()> {
        self.leaving(|held| {
            held.link.close(code);
            held.arrived = None;
            Ok(held.link.try_flush().map(|_| ()))
        })
    }
}
