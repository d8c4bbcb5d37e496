//! Connections that carry messages of one length both ways, and who asks and answers over them.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::{BYTES, Report};
use crate::process;
use crate::{Error, Result};

/// A message.
pub type Message = [u8; BYTES];

/// Round trips before any counts.
const WARM: usize = 200;
/// Round trips that count, at least.
const ENOUGH: usize = 200;
/// What a thread that only waits needs.
const STACK_BYTES: usize = 256 << 10;

/// A connection, for calls that block.
pub trait Talk: Send + 'static {
    /// Sends a message.
    fn send(&mut self, message: &Message) -> Result<()>;
    /// Waits for one; false when there will be none.
    fn recv(&mut self, message: &mut Message) -> Result<bool>;
}

/// A connection, for tasks.
pub trait TalkAsync: 'static {
    /// Sends a message.
    async fn send(&mut self, message: &Message) -> Result<()>;
    /// Waits for one; false when there will be none.
    async fn recv(&mut self, message: &mut Message) -> Result<bool>;
}

impl Talk for UdpSocket {
    fn send(&mut self, message: &Message) -> Result<()> {
        UdpSocket::send(self, message).map(drop).map_err(Error::os("sending"))
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        UdpSocket::recv(self, message).map(|len| len == BYTES).map_err(Error::os("receiving"))
    }
}

impl Talk for TcpStream {
    fn send(&mut self, message: &Message) -> Result<()> {
        self.write_all(message).map_err(Error::os("sending"))
    }

    fn recv(&mut self, message: &mut Message) -> Result<bool> {
        self.read_exact(message).map(|()| true).map_err(Error::os("receiving"))
    }
}

/// Answers for ever, or until there is nobody to answer to.
pub fn echo(mut talk: impl Talk) -> Result<()> {
    let mut message = [0; BYTES];
    while talk.recv(&mut message)? {
        talk.send(&message)?;
    }
    Ok(())
}

/// The same in a task.
pub async fn echo_async(mut talk: impl TalkAsync) -> Result<()> {
    let mut message = [0; BYTES];
    while talk.recv(&mut message).await? {
        talk.send(&message).await?;
    }
    Ok(())
}

/// A thread that does what there is to do for one connection.
pub fn thread(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    // What fails in it ends it, and shows at the side that asks.
    let spawned = thread.spawn(|| drop(work()));
    spawned.map(drop).map_err(Error::os("starting a thread"))
}

/// A thread that waits for what never comes.
pub fn wait(mut talk: impl Talk) -> Result<()> {
    thread(move || talk.recv(&mut [0; BYTES]).map(drop))
}

/// The same as a task.
pub async fn wait_async(mut talk: impl TalkAsync) -> Result<()> {
    talk.recv(&mut [0; BYTES]).await.map(drop)
}

/// Asks, one message after the other, and prints how long answers took.
pub fn ask(mut talk: impl Talk, seconds: f64) -> Result<()> {
    let mut meter = Meter::new(seconds);
    let mut answer = [0; BYTES];
    while let Some(message) = meter.next() {
        talk.send(&message)?;
        let is_there = talk.recv(&mut answer)?;
        meter.took(is_there.then_some(&answer))?;
    }
    meter.print()
}

/// The same in a task.
pub async fn ask_async(mut talk: impl TalkAsync, seconds: f64) -> Result<()> {
    let mut meter = Meter::new(seconds);
    let mut answer = [0; BYTES];
    while let Some(message) = meter.next() {
        talk.send(&message).await?;
        let is_there = talk.recv(&mut answer).await?;
        meter.took(is_there.then_some(&answer))?;
    }
    meter.print()
}

/// Round trips, timed.
struct Meter {
    end: Option<Instant>,
    seconds: f64,
    asked: u64,
    message: Message,
    began: Instant,
    us: Vec<f64>,
}

impl Meter {
    fn new(seconds: f64) -> Meter {
        let (us, message) = (Vec::with_capacity(1 << 16), [0x5a; BYTES]);
        Meter { end: None, seconds, asked: 0, message, began: Instant::now(), us }
    }

    /// What to ask next; the clock runs.
    fn next(&mut self) -> Option<Message> {
        if self.asked == WARM as u64 {
            self.us.clear();
            self.end = Some(Instant::now() + Duration::from_secs_f64(self.seconds.max(0.0)));
        }
        if self.us.len() >= ENOUGH && self.end.is_some_and(|end| Instant::now() >= end) {
            return None;
        }
        self.asked += 1;
        self.message[..8].copy_from_slice(&self.asked.to_be_bytes());
        self.began = Instant::now();
        Some(self.message)
    }

    /// The answer is there.
    fn took(&mut self, answer: Option<&Message>) -> Result<()> {
        self.us.push(self.began.elapsed().as_secs_f64() * 1e6);
        match answer {
            Some(answer) if *answer == self.message => Ok(()),
            _ => {
                let what = "an answer is not what was asked".to_owned();
                Err(Error::Wrong { method: "latency".to_owned(), what })
            }
        }
    }

    fn report(&mut self) -> Report {
        self.us.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let index =
                ((self.us.len() as f64 * part) as usize).min(self.us.len().saturating_sub(1));
            self.us.get(index).copied().unwrap_or(f64::NAN)
        };
        Report { p50_us: at(0.5), p99_us: at(0.99) }
    }

    fn print(mut self) -> Result<()> {
        process::report(&self.report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_compared_and_the_middle_is_the_middle() {
        let mut meter = Meter::new(0.0);
        for _ in 0..WARM + ENOUGH {
            let message = meter.next().unwrap();
            meter.took(Some(&message)).unwrap();
        }
        assert!(meter.next().is_none());
        meter.us = (1..=1000).rev().map(f64::from).collect();
        let report = meter.report();
        assert_eq!((report.p50_us, report.p99_us), (501.0, 991.0));
        let mut meter = Meter::new(0.0);
        let first = meter.next().unwrap();
        meter.next().unwrap();
        assert!(meter.took(Some(&first)).is_err(), "an answer to another question");
        assert!(meter.took(None).is_err());
    }
}
