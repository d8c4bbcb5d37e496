//! Who may move the virtual clock, and when.
//!
//! packetdrill runs a script on its main thread and calls that the script expects to block on a second one;
//! one of the two at a time moves the clock: by sleeping, by waiting for a packet, and by a microsecond for
//! each look at the time. Whenever something happened that a sleeping call may wait for, it hands over to the second
//! thread and goes on when that sleeps again, or has returned **and** looked at the time: packetdrill takes
//! the end of a blocking call from the clock after the return.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::calls::Calls;
use crate::errno::Result;
use crate::file::Files;
use crate::outboard::Outboard;
use crate::settings::Settings;
use fusewire_base::Instant;

/// The clock's start: any time of a plausible year.
const EPOCH_US: u64 = 1_700_000_000_000_000;
/// Nothing that a script waits for takes longer.
const PATIENCE_US: u64 = 600_000_000;
/// The second thread gets so long, in real time, to come to rest.
const HANDOVER: Duration = Duration::from_millis(500);

/// One run of packetdrill.
pub struct Driver {
    world: Mutex<World>,
    changed: Condvar,
    main: ThreadId,
}

struct World {
    now_us: u64,
    files: Box<dyn Calls>,
    /// The second thread is in a call and awake, or has returned and not yet looked at the time.
    busy: bool,
    /// The second thread sleeps in a call.
    asleep: bool,
    /// When its call ends for want of events.
    gives_up_us: Option<u64>,
}

impl World {
    fn now(&self) -> Instant {
        Instant::from_us(self.now_us - EPOCH_US)
    }

    /// The next time at which something happens by itself.
    fn next_us(&self) -> Option<u64> {
        let timer = self.files.next_timeout().map(|at| {
            // Rounded up: a timer never fires early.
            (EPOCH_US + at.as_ns().div_ceil(1000)).max(self.now_us)
        });
        match (timer, self.gives_up_us.filter(|_| self.asleep)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// The stack as it is wanted: inline, or in an outboard.
fn stack(settings: Settings) -> Box<dyn Calls> {
    match settings.outboard.clone() {
        Some(path) => Box::new(Outboard::new(settings, &path)),
        None => Box::new(Files::new(settings)),
    }
}

impl Driver {
    /// A stack as `flags` describes it.
    pub fn new(flags: &str) -> Driver {
        let files = stack(Settings::parse(flags));
        Driver {
            world: Mutex::new(World {
                now_us: EPOCH_US,
                files,
                busy: false,
                asleep: false,
                gives_up_us: None,
            }),
            changed: Condvar::new(),
            main: thread::current().id(),
        }
    }

    fn is_main(&self) -> bool {
        thread::current().id() == self.main
    }

    /// Enters a call.
    fn enter(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_main() {
            return self.wait_until_idle(world);
        }
        world.busy = true;
        world
    }

    fn wait_until_idle<'a>(&'a self, world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        self.changed
            .wait_timeout_while(world, HANDOVER, |world| world.busy)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Lets the second thread look whether it can go on.
    fn hand_over<'a>(&'a self, mut world: MutexGuard<'a, World>) -> MutexGuard<'a, World> {
        if world.asleep {
            (world.asleep, world.busy) = (false, true);
            self.changed.notify_all();
            world = self.wait_until_idle(world);
        }
        world
    }

    /// Moves the clock to `to_us`; what is due before happens on the way.
    fn advance<'a>(
        &'a self,
        mut world: MutexGuard<'a, World>,
        to_us: u64,
    ) -> MutexGuard<'a, World> {
        while let Some(next_us) = world.next_us().filter(|next| *next <= to_us) {
            world.now_us = world.now_us.max(next_us);
            let now = world.now();
            world.files.poll(now);
            world = self.hand_over(world);
            if world.next_us() == Some(next_us) && next_us == to_us {
                // A timer that stays due must not hold the clock.
                break;
            }
        }
        world.now_us = world.now_us.max(to_us);
        world
    }

    /// A call that does not block.
    pub fn call<T>(&self, f: impl FnOnce(&mut dyn Calls, Instant) -> Result<T>) -> Result<T> {
        let mut world = self.enter();
        let now = world.now();
        world.files.at(now);
        let result = f(&mut *world.files, now);
        world.files.poll(now);
        if self.is_main() {
            drop(self.hand_over(world));
        }
        result
    }

    /// A call that may block: `attempt` gives `None` as long as it has to wait. The time to wait is in milliseconds as
    /// `poll(2)` takes it, negative for ever.
    pub fn blocking<T>(
        &self,
        timeout_ms: Option<i32>,
        mut attempt: impl FnMut(&mut dyn Calls, Instant) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut world = self.enter();
        let timeout_us = timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(|ms| ms * 1000);
        let gives_up_us = world.now_us + timeout_us.unwrap_or(PATIENCE_US);
        loop {
            let now = world.now();
            world.files.at(now);
            let result = attempt(&mut *world.files, now);
            world.files.poll(now);
            if !matches!(result, Ok(None)) || world.now_us >= gives_up_us {
                return result;
            }
            if self.is_main() {
                // The script says that this call returns at once; the kernel would wait, and so do we.
                let next_us = world.next_us().filter(|next| *next < gives_up_us);
                world = self.advance(world, next_us.unwrap_or(gives_up_us));
                continue;
            }
            (world.asleep, world.busy) = (true, false);
            world.gives_up_us = Some(gives_up_us);
            self.changed.notify_all();
            world = self
                .changed
                .wait_while(world, |world| world.asleep)
                .unwrap_or_else(PoisonError::into_inner);
            world.gives_up_us = None;
        }
    }

    // ---- clock and packets

    /// The virtual time in microseconds; each look moves it by one.
    pub fn now_us(&self) -> u64 {
        let mut world = self.enter();
        if !self.is_main() {
            world.busy = false;
            self.changed.notify_all();
        }
        let next = world.now_us + 1;
        self.advance(world, next).now_us
    }

    /// Time passes. The second thread sleeps before it makes its call, while the main thread waits for that.
    pub fn sleep(&self, us: u64) {
        let mut world = self.enter();
        world.busy &= self.is_main();
        let to = world.now_us + us;
        drop(self.advance(world, to));
    }

    /// A packet comes in.
    pub fn inject(&self, packet: &[u8]) {
        let mut world = self.enter();
        let now = world.now();
        world.files.handle(now, packet);
        world.files.poll(now);
        drop(self.hand_over(world));
    }

    /// The next packet that leaves, and when it did; empty when none ever will.
    pub fn departure(&self) -> (Vec<u8>, u64) {
        let mut world = self.enter();
        let gives_up_us = world.now_us + PATIENCE_US;
        loop {
            if let Some((at, packet)) = world.files.departure() {
                return (packet, EPOCH_US + at.as_ns() / 1000);
            }
            match world.next_us().filter(|next| *next < gives_up_us) {
                Some(next_us) => world = self.advance(world, next_us),
                None => return (Vec::new(), 0),
            }
        }
    }

    /// True for a descriptor that this stack gave out.
    pub fn owns(&self, fd: i32) -> bool {
        self.call(|files, _| Ok(files.owns(fd))).unwrap_or(false)
    }
}
