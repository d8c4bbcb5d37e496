//! A thread that only receives, on a processor of its own. It makes the system calls that receive, copies packets and sums
//! them. It does no protocol work: the receive processor of MacLean and Barvick (section 2.2) runs the receiving half of the
//! protocol, this thread does not.
//!
//! ```text
//!  the intake's thread                                       who drives the stack
//!  device ──▶ Receiver::receive ──copy, sum──▶ batch ──▶ full ──▶ packets, with their sums
//!                                               ▲────── empty ◀────────┘
//! ```
//! The packets lie in memory of ours before anybody looks at them, so that the device has its own again at once. Where nobody has
//! looked at their checksums they are summed in the pass that copies them; what a header says of which bytes the sum is to be,
//! and whether it is right, is the stack's to know. There are so many batches and no more; when all are full the device's
//! own memory fills, and what it drops then it counts.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_base::Sum;

pub use super::arena::Arena;
use super::relay::{Config, stay_on};
use super::{Interface, RxPacket};
use crate::{Waker, wake};

/// Batches under way or empty.
const BATCHES: usize = 8;
/// How soon a device is looked at again that has said what is wrong.
const RETRY: Duration = Duration::from_millis(1);
/// How long at most a sleep lasts: what becomes of the interface itself is not told otherwise.
const SLEEP: Duration = Duration::from_secs(1);

/// The receiving half of an interface, for another thread.
pub trait Receiver: Send {
    /// An empty batch, as this one fills it.
    fn batch(&self) -> Arena;

    /// Lays the packets that wait into a batch, as far as it has room. Those that are summed on the way have their sum.
    ///
    /// # Errors
    /// What the operating system says when the interface is broken or gone; nothing was taken then.
    fn receive(&mut self, into: &mut Arena, summing: &dyn Summing) -> io::Result<()>;

    /// Sleeps until packets wait, or `waker` wakes. May wake for nothing.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    fn wait(&mut self, waker: &Waker) -> io::Result<()>;
}

/// How bytes are copied and summed.
pub trait Summing: Send {
    /// Copies `from` to `to`, which is as long, and sums what was copied in the same pass.
    fn copy(&self, from: &[u8], to: &mut [u8]) -> Sum;

    /// Sums bytes that lie where they belong.
    fn sum(&self, bytes: &[u8]) -> Sum;
}

/// Why there is no receiving half of an interface any more.
pub(super) fn taken() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "another thread receives already")
}

struct State {
    full: VecDeque<Arena>,
    empty: Vec<Arena>,
    error: Option<io::Error>,
    /// The thread is gone, and was not told to.
    is_gone: bool,
    /// `filled` can be read: as long as there is something to take.
    has_rung: bool,
    /// The thread waits for an empty batch, or until its error was taken.
    sleeps: bool,
}

/// What the two threads share.
struct Way {
    state: Mutex<State>,
    room: Condvar,
    /// Batches that are full, and an error if there is one: looked at without the lock.
    waiting: AtomicUsize,
    /// Readable as long as something waits.
    filled: Waker,
    /// Wakes the thread that sleeps on the device.
    over: Waker,
    is_over: AtomicBool,
    malformed: AtomicU64,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The state is another: who looks sees how many things wait, and who sleeps is woken for the first of them.
    fn tell(&self, state: &mut State) {
        let is_error = state.is_gone || state.error.is_some();
        let waiting = state.full.len() + usize::from(is_error);
        self.waiting.store(waiting, Ordering::Release);
        match (waiting > 0, state.has_rung) {
            (true, false) => self.filled.wake(),
            (false, true) => self.filled.drain(),
            _ => return,
        }
        state.has_rung = waiting > 0;
    }

    /// Sleeps until `find` finds something; `None` when it is over.
    fn wait_for<T>(&self, mut find: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut state = self.lock();
        loop {
            if self.is_over() {
                return None;
            }
            if let Some(found) = find(&mut state) {
                return Some(found);
            }
            state.sleeps = true;
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeps = false;
        }
    }

    /// An empty batch; `None` when it is over.
    fn empty(&self, spin: Duration) -> Option<Arena> {
        let begin = Instant::now();
        while self.waiting.load(Ordering::Relaxed) >= BATCHES - 1 && begin.elapsed() < spin {
            std::hint::spin_loop();
        }
        self.wait_for(|state| state.empty.pop())
    }

    /// A batch is there to be taken.
    fn put(&self, mut batch: Arena, summing: &dyn Summing) {
        batch.sum(summing);
        let mut state = self.lock();
        if batch.len() == 0 {
            return state.empty.push(batch);
        }
        state.full.push_back(batch);
        self.tell(&mut state);
    }

    /// Tells an error, and waits until it was taken. `None` when it is over.
    fn fail(&self, error: io::Error) -> Option<()> {
        let mut state = self.lock();
        state.error = Some(error);
        self.tell(&mut state);
        drop(state);
        self.wait_for(|state| state.error.is_none().then_some(()))?;
        std::thread::sleep(RETRY);
        Some(())
    }
}

/// Says that the thread is gone if it ends by a panic: nobody would hear of anything any more.
struct Guard<'a>(&'a Way);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.is_gone = true;
            self.0.tell(&mut state);
        }
    }
}

/// A way from a device by a thread that receives. With it the thread ends.
pub struct Intake {
    way: Arc<Way>,
    /// The batch at hand.
    held: Option<Arena>,
    thread: Option<JoinHandle<()>>,
}

impl Intake {
    /// Begins to receive by the receiving half of an interface, which `receiver` gives once all else is there: whoever has an
    /// error has the interface as it was.
    ///
    /// # Errors
    /// There is no such processor, no descriptor or thread to be had; or what `receiver` says.
    pub fn new(
        receiver: impl FnOnce() -> io::Result<Box<dyn Receiver>>,
        summing: Box<dyn Summing>,
        config: Config,
    ) -> io::Result<Intake> {
        let (filled, over) = (Waker::new()?, Waker::new()?);
        let (tell, told) = mpsc::sync_channel(1);
        let (give, given) = mpsc::sync_channel::<(Arc<Way>, Box<dyn Receiver>)>(1);
        let thread = crate::thread::spawn("receive", move || {
            let stays = config.cpu.map_or(Ok(()), stay_on);
            let is_there = stays.is_ok();
            let _ = tell.send(stays);
            if is_there && let Ok((way, receiver)) = given.recv() {
                let _guard = Guard(&way);
                carry(&way, receiver, &*summing, config.spin);
            }
        })?;
        told.recv().map_err(io::Error::other)??;
        let receiver = receiver()?;
        let state = State {
            full: VecDeque::with_capacity(BATCHES),
            empty: std::iter::repeat_with(|| receiver.batch()).take(BATCHES).collect(),
            error: None,
            is_gone: false,
            has_rung: false,
            sleeps: false,
        };
        let way = Arc::new(Way {
            state: Mutex::new(state),
            room: Condvar::new(),
            waiting: AtomicUsize::new(0),
            filled,
            over,
            is_over: AtomicBool::new(false),
            malformed: AtomicU64::new(0),
        });
        // It waits for nothing else.
        let _ = give.send((way.clone(), receiver));
        Ok(Intake { way, held: None, thread: Some(thread) })
    }

    /// As [`Interface::receive`], of what the thread has taken.
    ///
    /// # Errors
    /// What the device said behind the packets that were taken before; or, from then on, that the thread is gone.
    pub fn receive(&mut self) -> io::Result<usize> {
        let held = self.held.take().map(|mut batch| {
            batch.clear();
            batch
        });
        if held.is_none() && self.way.waiting.load(Ordering::Acquire) == 0 {
            return Ok(0);
        }
        let mut state = self.way.lock();
        state.empty.extend(held);
        self.held = state.full.pop_front();
        let error = match &self.held {
            Some(_) => None,
            None if state.is_gone => Some(io::Error::other("the thread that receives is gone")),
            None => state.error.take(),
        };
        self.way.tell(&mut state);
        if state.sleeps {
            self.way.room.notify_one();
        }
        match error {
            Some(error) => Err(error),
            None => Ok(self.held.as_ref().map_or(0, Arena::len)),
        }
    }

    /// A packet of the last [`Intake::receive`].
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn packet(&self, index: usize) -> RxPacket<'_> {
        self.held.as_ref().expect("a batch that was received").packet(index)
    }

    /// What can be read as long as there is something to be received.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.way.filled.as_fd()
    }

    /// As [`Interface::wait`], of the device that it receives from.
    ///
    /// # Errors
    /// What `poll(2)` says.
    pub fn wait(
        &self,
        device: &dyn Interface,
        timeout: Option<Duration>,
        want_write: bool,
    ) -> io::Result<bool> {
        let writable = device.as_fd().filter(|_| want_write);
        let limit = timeout.map_or(SLEEP, |timeout| timeout.min(SLEEP));
        let is_ready = wake::wait_for(self.as_fd(), writable, &device.waker(), Some(limit))?;
        // It may be the time to look what became of the interface.
        Ok(is_ready || timeout != Some(limit))
    }

    /// Packets that came and were none.
    pub fn malformed(&self) -> u64 {
        self.way.malformed.load(Ordering::Relaxed)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        let state = self.way.lock();
        self.way.is_over.store(true, Ordering::Release);
        drop(state);
        self.way.room.notify_one();
        self.way.over.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread.
fn carry(way: &Way, mut receiver: Box<dyn Receiver>, summing: &dyn Summing, spin: Duration) {
    let mut worked = Instant::now();
    while let Some(mut batch) = way.empty(spin) {
        let mut result = Ok(());
        while result.is_ok() && batch.len() == 0 && !way.is_over() {
            result = receiver.receive(&mut batch, summing);
            way.malformed.fetch_add(std::mem::take(&mut batch.malformed), Ordering::Relaxed);
            if result.is_ok() && batch.len() == 0 {
                match worked.elapsed() < spin {
                    true => std::hint::spin_loop(),
                    false => result = receiver.wait(&way.over),
                }
            }
        }
        if batch.len() > 0 {
            worked = Instant::now();
        }
        way.put(batch, summing);
        if let Err(error) = result
            && way.fail(error).is_none()
        {
            return;
        }
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
