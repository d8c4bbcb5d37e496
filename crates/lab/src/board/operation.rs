//! An operation, as the paper times it: from the call that sends a message until the application knows that all of it has
//! been sent; here, that it has come. In the board itself, and from an application beside it.

use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::time::{Duration, Instant};

use fusewire_outboard::server::{Server, Settings};
use fusewire_stack::Clock;
use fusewire_stack::ip::{SocketId, Stack, State};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::wire::Wire;
use super::{PEER, failed, stack};
use crate::cpu::{own_cpu_seconds, thread_cpu_seconds};
use crate::outboard::application::Stream as _;
use crate::outboard::client;
use crate::scratch::Scratch;
use crate::stats::median;
use crate::{Error, Result};

/// The board's processor, and the application's.
const CORES: [usize; 2] = [0, 1];
/// Operations that do not count: until windows and caches are what they will be.
const WARM: usize = 64;
/// Bytes of a write of a stream.
const STREAM_BYTES: usize = 64 << 10;
/// Who hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs `f` in a thread that stays on a processor.
fn on_core<R: Send>(core: usize, f: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            stay_on(core);
            f()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Where there is but one processor, all share that.
fn stay_on(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    let _ = sched_setaffinity(None, &set);
}

/// Does operations for so long; the middle one, in ns.
fn operations(window: Duration, mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    (0..WARM).try_for_each(|_| once())?;
    let (started, mut ns) = (Instant::now(), Vec::new());
    let mut last = started;
    while last - started < window {
        once()?;
        let now = Instant::now();
        ns.push((now - last).as_nanos() as f64);
        last = now;
    }
    median(ns).ok_or_else(|| failed("no operation came to its end"))
}

/// In the board: whoever asks for it is the board itself. Nanoseconds.
///
/// # Errors
/// The host at the other end does not answer.
pub fn alone(payload: usize, message: usize, window: Duration) -> Result<f64> {
    on_core(CORES[0], || {
        let clock = Clock::new();
        let mut stack = stack(Box::new(Wire::new(payload, message)?), 1, &clock)?;
        let id = stack.tcp_connect(clock.now(), PEER).map_err(failed)?;
        let mut turn = Patience::new();
        while stack.tcp_state(id).map_err(failed)? != State::Established {
            stack.poll(clock.now()).map_err(Error::os("driving the stack"))?;
            turn.vain()?;
        }
        let bytes = vec![7; message];
        operations(window, || operation_alone(&mut stack, id, &clock, &bytes))
    })
}

fn operation_alone(stack: &mut Stack, id: SocketId, clock: &Clock, bytes: &[u8]) -> Result<()> {
    let (mut written, mut turn) = (0, Patience::new());
    loop {
        written += stack.tcp_write(id, &bytes[written..]).map_err(failed)?;
        let now = clock.now();
        stack.transmit(now).map_err(Error::os("sending"))?;
        stack.poll(now).map_err(Error::os("driving the stack"))?;
        if stack.tcp_read(id, &mut [0]).map_err(failed)? == Some(1) {
            return Ok(());
        }
        turn.vain()?;
    }
}

/// Ends what waits in vain.
struct Patience(Option<Instant>, u32);

impl Patience {
    fn new() -> Patience {
        Patience(None, 0)
    }

    fn vain(&mut self) -> Result<()> {
        self.1 = self.1.wrapping_add(1);
        if !self.1.is_multiple_of(1 << 10) {
            return Ok(());
        }
        match self.0.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            true => Err(failed("the host at the other end does not answer")),
            false => Ok(()),
        }
    }
}

/// Who waits: asking again and again, application and board, or asleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nobody sleeps, and no system is asked to wake anybody.
    Spinning,
    /// Whoever has nothing to do sleeps at once.
    Sleeping,
}

/// Runs `application` with a stream over an outboard that runs on the processor beside.
fn beside<R: Send>(
    payload: usize,
    message: usize,
    waiting: Waiting,
    application: impl FnOnce(client::Stream<'_>) -> Result<R> + Send,
) -> Result<R> {
    let folder = Scratch::new()?;
    let clock = Clock::new();
    let stack = stack(Box::new(Wire::new(payload, message)?), 1, &clock)?;
    let spin = match waiting {
        Waiting::Spinning => PATIENCE,
        Waiting::Sleeping => Duration::ZERO,
    };
    let path = folder.path().join("outboard");
    let settings = Settings { spin, ..Settings::at(&path) };
    let mut server =
        Server::new(stack, clock, settings).map_err(Error::os("making an outboard"))?;
    let stop = server.stop();
    std::thread::scope(|scope| {
        let board = scope.spawn(move || {
            stay_on(CORES[0]);
            server.run()
        });
        let found = on_core(CORES[1], || {
            let sockets = client::Sockets::at(&path)?;
            application(sockets.stream_to(PEER, waiting == Waiting::Spinning)?)
        });
        stop.stop();
        let ended = board.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended.map_err(Error::os("running an outboard"))?;
        found
    })
}

/// From an application, over the outboard. Nanoseconds.
///
/// # Errors
/// As [`alone`].
pub fn by_outboard(
    payload: usize,
    message: usize,
    waiting: Waiting,
    window: Duration,
) -> Result<f64> {
    beside(payload, message, waiting, |mut stream| {
        let bytes = vec![7; message];
        operations(window, || {
            write_all(&mut stream, &bytes)?;
            let (mut answer, mut turn) = ([0], Patience::new());
            loop {
                match stream.read(&mut [IoSliceMut::new(&mut answer)]) {
                    Ok(1) => return Ok(()),
                    Ok(_) => return Err(failed("the outboard has closed the stream")),
                    Err(e) if again(&e) => turn.vain()?,
                    Err(e) => return Err(Error::os("reading")(e)),
                }
            }
        })
    })
}

fn again(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn write_all(stream: &mut client::Stream<'_>, bytes: &[u8]) -> Result<()> {
    let (mut written, mut turn) = (0, Patience::new());
    while written < bytes.len() {
        match stream.write(&[IoSlice::new(&bytes[written..])]) {
            Ok(len) => written += len,
            Err(e) if again(&e) => turn.vain()?,
            Err(e) => return Err(Error::os("writing")(e)),
        }
    }
    Ok(())
}

/// What a stream keeps busy, as parts of the time.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    /// The application's processor.
    pub application: f64,
    /// The board's.
    pub board: f64,
}

/// A stream over the outboard for so long, nobody spinning: who works, and how much of it at once.
///
/// # Errors
/// As [`alone`].
pub fn stream(payload: usize, window: Duration) -> Result<Busy> {
    beside(payload, usize::MAX, Waiting::Sleeping, |mut stream| {
        let bytes = vec![7; STREAM_BYTES];
        (0..WARM).try_for_each(|_| write_all(&mut stream, &bytes))?;
        let (started, all, own) = (Instant::now(), own_cpu_seconds(), thread_cpu_seconds());
        while started.elapsed() < window {
            write_all(&mut stream, &bytes)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let own = thread_cpu_seconds() - own;
        let all = own_cpu_seconds() - all;
        Ok(Busy { application: own / seconds, board: (all - own) / seconds })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_end_in_every_way() {
        let window = Duration::from_millis(5);
        for message in [1, 216, 13_824] {
            assert!(alone(216, message, window).unwrap() > 0.0);
            for waiting in [Waiting::Spinning, Waiting::Sleeping] {
                assert!(by_outboard(216, message, waiting, window).unwrap() > 0.0);
            }
        }
        let busy = stream(1448, window).unwrap();
        assert!(busy.application > 0.0 && busy.board > 0.0, "{busy:?}");
    }
}
