//! A path that loses and delays, between both processes: each end impairs what it sends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::{Device, RxBatch, TxFrame};
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Bytes that wait before the rate limit, in round trips of it.
const QUEUE_ROUND_TRIPS: f64 = 1.0;
/// And at least so many.
const QUEUE_BYTES_MIN: f64 = 256e3;

/// What lies between both ends of a transfer of ours, each way alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Datagrams that are lost, of one.
    pub loss: f64,
    /// Time there and back.
    pub round_trip: Duration,
    /// Bytes a second that go through.
    pub rate: Option<u64>,
}

impl Impairment {
    /// It does nothing to what passes.
    pub fn is_clear(&self) -> bool {
        *self == Impairment::default()
    }

    fn rules(&self) -> Rules {
        let queue = self.rate.map_or(0.0, |rate| rate as f64 * self.round_trip.as_secs_f64());
        Rules {
            loss: self.loss,
            delay: self.round_trip / 2,
            rate: self.rate,
            queue_bytes: (queue * QUEUE_ROUND_TRIPS).max(QUEUE_BYTES_MIN) as usize,
            ..Rules::NONE
        }
    }

    /// The device with this before what it sends; the same seed, the same losses.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn before(&self, device: Box<dyn Device>, seed: u64) -> Result<Box<dyn Device>> {
        if self.is_clear() {
            return Ok(device);
        }
        let delayed = Delayed::new(device, self.rules(), seed);
        Ok(Box::new(delayed.map_err(Error::os("making a timer"))?))
    }
}

/// Who sleeps on this device's descriptor is woken for frames that were held back, too.
struct Delayed {
    link: Impair<Box<dyn Device>>,
    began: std::time::Instant,
    timer: OwnedFd,
    /// The timer and the device.
    both: OwnedFd,
    /// What the timer is set to.
    next: Option<Instant>,
}

impl Delayed {
    fn new(device: Box<dyn Device>, rules: Rules, seed: u64) -> io::Result<Delayed> {
        let began = std::time::Instant::now();
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&both, &timer, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        if let Some(frames) = device.as_fd() {
            epoll::add(&both, frames, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
        }
        let link = Impair::new(device, rules, Rules::NONE, seed, move || clock(began));
        Ok(Delayed { link, began, timer, both, next: None })
    }

    /// Sets the timer to what is due next.
    fn arm(&mut self) -> io::Result<()> {
        let next = self.link.next_release();
        if next == self.next {
            return Ok(());
        }
        self.next = next;
        let wait = next.map(|at| at.saturating_since(clock(self.began)));
        // Zero would be never.
        let wait = wait.map_or(Duration::ZERO, |wait| wait.max(Duration::from_nanos(1)));
        let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl Drop for Delayed {
    /// What was sent last is still on its way, and the peer waits for it.
    fn drop(&mut self) {
        while let Some(at) = self.link.next_release() {
            std::thread::sleep(at.saturating_since(clock(self.began)));
            if !matches!(self.link.transmit(&[]), Ok(0)) {
                break;
            }
        }
    }
}

fn clock(began: std::time::Instant) -> Instant {
    Instant::from_ns(began.elapsed().as_nanos() as u64)
}

impl Device for Delayed {
    fusewire_device::forward!(self => self.link; caps local_addr waker drops poll_event);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let taken = self.link.transmit(frames)?;
        self.arm()?;
        Ok(taken)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let received = self.link.receive(batch)?;
        self.arm()?;
        Ok(received)
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let ready = self.link.wait(timeout, want_write)?;
        self.arm()?;
        Ok(ready)
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.both.as_fd())
    }
}
