//! Runs over contexts of XTP, which say how long they work, and how long the kernel does.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_device::{Device, Region, RxBatch, TxFrame, forward};
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Event, Kept, Message, Retransmission,
};
use fusewire_stack::transport::Secrets;

use super::{Means, PATIENCE, Report, Spent, Task, look, rest, runs, wrong};
use crate::inca::numbered::Runs;
use crate::process::{self, listens};
use crate::{Error, Result};

/// Where the receiver listens.
const SERVICE: u16 = 9293;
/// Bytes under way and kept at most, at either end.
const BUFFER: u32 = 1 << 20;

/// A device, and the time in the calls of it that moved something.
struct Timed<D> {
    device: D,
    ns: Arc<AtomicU64>,
}

impl<D: Device> Timed<D> {
    fn count(&mut self, call: impl FnOnce(&mut D) -> io::Result<usize>) -> io::Result<usize> {
        let begun = Instant::now();
        let moved = call(&mut self.device)?;
        if moved > 0 {
            self.ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(moved)
    }
}

impl<D: Device> Device for Timed<D> {
    forward!(self => self.device; caps local_addr named region takes_memory);
    forward!(self => self.device; wait next_timeout waker as_fd drops poll_event);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.count(|device| device.transmit(frames))
    }
    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.count(|device| device.transmit_from(region, frames))
    }
    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        self.count(|device| device.receive(batch))
    }
}

/// Contexts, and how long they and their application work.
struct Side {
    contexts: Contexts,
    kernel: Arc<AtomicU64>,
    work: Duration,
    since: Instant,
}

impl Side {
    /// What is there is done; sleeps if it is nothing, which is no work. Whether there was something.
    fn turn(&mut self) -> Result<bool> {
        let begun = Instant::now();
        if self.contexts.poll(&mut Kept)? {
            return Ok(true);
        }
        self.work += begun - self.since;
        self.contexts.wait(Some(PATIENCE))?;
        self.since = Instant::now();
        Ok(false)
    }

    fn spent(&self) -> Spent {
        let work = self.work + self.since.elapsed();
        let kernel_ns = self.kernel.load(Ordering::Relaxed) as f64;
        Spent { work_ns: work.as_nanos() as f64, kernel_ns }
    }
}

pub(super) fn work(task: &Task) -> Result<()> {
    let device = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp::Config::default())
        .map_err(Error::os("binding the UDP socket"))?;
    let kernel = Arc::new(AtomicU64::new(0));
    let device = Timed { device, ns: kernel.clone() };
    // Nobody else is here: the keys need not be secret.
    let seed = [u8::from(task.to.is_some()) + 1; 32];
    let contexts = Contexts::new(Box::new(device), Config::default(), &seed);
    let side = Side { contexts, kernel, work: Duration::ZERO, since: Instant::now() };
    let block = ControlBlock {
        check: Check::Cxor,
        retransmission: Retransmission::SelectiveRepeat,
        noerr: task.means == Means::XtpOnce,
        packet_bytes: Some(task.packet_bytes),
        send_bytes: BUFFER,
        receive_bytes: BUFFER,
        ..ControlBlock::default()
    };
    match task.to {
        Some(to) => send(task, side, to, block),
        None => receive(task, side, block),
    }
}

fn send(task: &Task, mut side: Side, to: SocketAddr, block: ControlBlock) -> Result<()> {
    let context = side.contexts.context(block)?;
    side.contexts.connect(context, to, SERVICE)?;
    let send = |side: &mut Side, adu: &[u8]| {
        while !side.contexts.send(context, &[IoSlice::new(adu)], About::default())? {
            go_on(task, side)?;
        }
        Ok(())
    };
    let drain = |side: &mut Side| {
        while side.contexts.unsent(context) > 0 {
            go_on(task, side)?;
        }
        side.work += side.since.elapsed();
        rest(side)?;
        side.since = Instant::now();
        Ok(())
    };
    let sent = runs(task, &mut side, send, drain)?;
    let spent = Spent { work_ns: side.work.as_nanos() as f64, ..side.spent() };
    side.contexts.finish(context);
    while side.contexts.count() > 0 && !has_ended(&mut side)? {}
    process::report(&Report { sent, spent, ..Report::default() })
}

/// A turn of the sender's, who hears of nothing but the end.
fn go_on(task: &Task, side: &mut Side) -> Result<()> {
    side.turn()?;
    while let Some((_, event)) = side.contexts.poll_event() {
        if let Event::Closed(why) = event {
            return Err(wrong(task.means, &format!("the context ended: {why:?}")));
        }
    }
    Ok(())
}

/// The peer has everything, and knows that nothing more comes.
fn has_ended(side: &mut Side) -> Result<bool> {
    side.turn()?;
    let mut events = std::iter::from_fn(|| side.contexts.poll_event());
    Ok(events.any(|(_, event)| matches!(event, Event::Finished | Event::Closed(_))))
}

fn receive(task: &Task, mut side: Side, block: ControlBlock) -> Result<()> {
    side.contexts.listen(SERVICE, block, &Secrets { isn: [3; 16], cookie: [4; 16] });
    listens(side.contexts.local_addr())?;
    let (mut runs, mut heard) = (Runs::new(task.adus), Instant::now());
    side.since = heard;
    let (mut finished, mut spent) = (None, Spent::default());
    while finished.is_none() {
        if side.turn()? {
            heard = Instant::now();
        } else if heard.elapsed() > PATIENCE {
            return Err(wrong(task.means, "nothing came for long"));
        }
        while let Some((context, event)) = side.contexts.poll_event() {
            match event {
                Event::Message(message) => {
                    take(task, &side.contexts, context, &message, &mut runs)?;
                    side.contexts.release(context, &message);
                }
                Event::Finished => finished = Some(context),
                Event::Closed(why) => {
                    return Err(wrong(task.means, &format!("the context ended: {why:?}")));
                }
                _ => {}
            }
        }
        spent = side.spent();
    }
    // The sender hears that all is here, and of the end.
    if let Some(context) = finished {
        side.contexts.finish(context);
        side.contexts.flush();
    }
    process::report(&Report { rates: runs.rates, spent, ..Report::default() })
}

/// A message came; where nothing goes again it may lack some of its bytes, and does not count then.
fn take(
    task: &Task,
    contexts: &Contexts,
    context: Context,
    message: &Message,
    runs: &mut Runs,
) -> Result<()> {
    if message.is_whole && message.len() == task.adu_bytes {
        let (run, number) = look(task, contexts.message(context, message))?;
        runs.see(run, number, Instant::now);
        return Ok(());
    }
    match task.means {
        Means::XtpOnce => Ok(()),
        _ => Err(wrong(task.means, "an ADU is not what was sent")),
    }
}
