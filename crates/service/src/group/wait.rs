//! Sleeping on the devices of two streams, and on what sessions have to say.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use fusewire_device::{self as device, Device};
use fusewire_stack as stack;
use rustix::event::{PollFd, PollFlags};

use crate::Result;

/// Streams of an end.
pub(super) const STREAMS: usize = 2;

/// A session has news, or another thread of ours.
#[derive(Debug)]
pub(super) struct News {
    /// Of a session.
    is_there: AtomicBool,
    nudge: device::Waker,
}

impl News {
    /// Whether sessions are to be asked; true once for each time.
    pub fn take(&self) -> bool {
        self.is_there.swap(false, Ordering::Acquire)
    }

    /// Ends the sleep.
    pub fn nudge(&self) {
        self.nudge.wake();
    }
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_there.store(true, Ordering::Release);
        self.nudge.wake();
    }
}

/// What an end sleeps on.
pub(super) struct Sleeper {
    pub news: Arc<News>,
    frames: [Option<OwnedFd>; STREAMS],
}

impl Sleeper {
    pub fn new() -> Result<Sleeper> {
        let nudge = device::Waker::new().map_err(stack::Error::os("making a descriptor"))?;
        let news = Arc::new(News { is_there: AtomicBool::new(true), nudge });
        Ok(Sleeper { news, frames: [None, None] })
    }

    /// Frames of this stream end it, too.
    pub fn watch(&mut self, stream: usize, device: &dyn Device) -> Result<()> {
        let frames = device.as_fd().map(|fd| fd.try_clone_to_owned()).transpose();
        self.frames[stream] = frames.map_err(stack::Error::os("duplicating a descriptor"))?;
        Ok(())
    }

    /// Until something comes, somebody has news, or the time has passed; `None`: for ever.
    pub fn sleep(&self, timeout: Option<Duration>) -> Result<()> {
        let nudge = self.news.nudge.as_fd();
        let fd = |at: usize| self.frames[at].as_ref().map_or(nudge, AsFd::as_fd);
        let mut polled =
            [nudge, fd(0), fd(1)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        device::sleep(&mut polled, timeout).map_err(stack::Error::os("waiting"))?;
        self.news.nudge.drain();
        Ok(())
    }
}
