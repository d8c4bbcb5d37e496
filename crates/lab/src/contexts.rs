//! Runs of numbered ADUs over contexts of XTP, and over the kernel's TCP, as Dabbous measured (section 4.2.2): raw data, no
//! session, two processes.
//!
//! A run ends when its last ADU has come; its throughput is what was received by the time from the first to the last.

use std::io::{IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Event, Kept, Retransmission,
};
use fusewire_stack::transport::Secrets;
use serde::{Deserialize, Serialize};

use crate::inca::numbered::{NUMBERS, PAUSE, RUNS, Runs};
use crate::process::{self, Process, listens};
use crate::worker;
use crate::{Error, Result};

/// Where the receiver listens.
const SERVICE: u16 = 9293;
/// Bytes under way and kept at most, at either end.
const BUFFER: u32 = 1 << 20;
/// Who hears nothing for so long gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// NDU: bytes of a packet, header included; nothing for the kernel's TCP.
    pub packet_bytes: Option<usize>,
    pub adu_bytes: usize,
    /// ADUs of a run.
    pub adus: u32,
    pub program: PathBuf,
}

/// What a worker is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// Where the receiver is; nothing for itself.
    to: Option<SocketAddr>,
    packet_bytes: Option<usize>,
    adu_bytes: usize,
    adus: u32,
}

/// Bytes of ADUs a second, of each run.
///
/// # Errors
/// A side failed, or an ADU was not what was sent.
pub(crate) fn measure(plan: &Plan) -> Result<Vec<f64>> {
    let start = |to: Option<SocketAddr>| {
        let mut command = Command::new(&plan.program);
        let Plan { packet_bytes, adu_bytes, adus, .. } = *plan;
        worker::Task::Contexts(Task { to, packet_bytes, adu_bytes, adus }).pass_to(&mut command)?;
        Process::spawn("contexts", if to.is_some() { "send" } else { "receive" }, command)
    };
    let mut receiver = start(None)?;
    let mut sender = start(Some(receiver.address()?))?;
    let rates: Vec<f64> = receiver.last_report()?;
    let sent: u32 = sender.last_report()?;
    if sent != RUNS * plan.adus {
        return Err(wrong(&format!("{sent} ADUs were sent")));
    }
    Ok(rates.iter().map(|adus| adus * plan.adu_bytes as f64).collect())
}

fn wrong(what: &str) -> Error {
    Error::Wrong { method: "contexts".to_owned(), what: what.to_owned() }
}

/// Does one side.
///
/// # Errors
/// Whatever went wrong.
pub(crate) fn work(task: &Task) -> Result<()> {
    if task.packet_bytes.is_none() {
        return work_tcp(task);
    }
    let device = Udp::bind((Ipv4Addr::LOCALHOST, 0).into(), &udp::Config::default())
        .map_err(Error::os("binding the UDP socket"))?;
    // Nobody else is here: the keys need not be secret.
    let seed = [u8::from(task.to.is_some()) + 1; 32];
    let mut contexts = Contexts::new(Box::new(device), Config::default(), &seed);
    let block = ControlBlock {
        check: Check::Cxor,
        retransmission: Retransmission::SelectiveRepeat,
        packet_bytes: task.packet_bytes,
        send_bytes: BUFFER,
        receive_bytes: BUFFER,
        ..ControlBlock::default()
    };
    match task.to {
        None => receive(task, contexts, block),
        Some(to) => {
            let context = contexts.context(block)?;
            contexts.connect(context, to, SERVICE)?;
            send(task, contexts, context)
        }
    }
}

/// Byte `at` of each ADU behind its numbers.
fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// All ADUs by `send`; `pause` between runs. How many they are.
fn runs<T>(
    task: &Task,
    to: &mut T,
    mut send: impl FnMut(&mut T, &[u8]) -> Result<()>,
    mut pause: impl FnMut(&mut T) -> Result<()>,
) -> Result<u32> {
    let mut adu: Vec<u8> = (0..task.adu_bytes.max(NUMBERS.end)).map(byte).collect();
    for run in 0..RUNS {
        for number in 0..task.adus {
            let numbers = u64::from(run) << 32 | u64::from(number);
            adu[NUMBERS].copy_from_slice(&numbers.to_be_bytes());
            send(to, &adu)?;
        }
        pause(to)?;
        std::thread::sleep(PAUSE);
    }
    Ok(RUNS * task.adus)
}

/// The same over the kernel's TCP.
fn work_tcp(task: &Task) -> Result<()> {
    if let Some(to) = task.to {
        let mut stream = TcpStream::connect(to).map_err(Error::os("connecting"))?;
        let write = |stream: &mut TcpStream, adu: &[u8]| {
            stream.write_all(adu).map_err(Error::os("sending"))
        };
        let sent = runs(task, &mut stream, write, |_| Ok(()))?;
        return process::report(&sent);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Error::os("binding"))?;
    listens(listener.local_addr().map_err(Error::os("asking for the address"))?)?;
    let mut stream = listener.accept().map_err(Error::os("accepting"))?.0;
    let (mut runs, mut adu) = (Runs::new(task.adus), vec![0; task.adu_bytes]);
    while !runs.is_over() {
        stream.read_exact(&mut adu).map_err(Error::os("receiving"))?;
        let numbers = look(task, [&adu, &[]])?;
        runs.see((numbers >> 32) as u32, numbers as u32, Instant::now);
    }
    process::report(&runs.rates)
}

fn send(task: &Task, mut contexts: Contexts, context: Context) -> Result<()> {
    let send = |contexts: &mut Contexts, adu: &[u8]| {
        while !contexts.send(context, &[IoSlice::new(adu)], About::default())? {
            turn(contexts)?;
        }
        Ok(())
    };
    let drain = |contexts: &mut Contexts| {
        while contexts.unsent(context) > 0 {
            turn(contexts)?;
        }
        Ok(())
    };
    let sent = runs(task, &mut contexts, send, drain)?;
    contexts.finish(context);
    while contexts.count() > 0 && !has_ended(&mut contexts)? {}
    process::report(&sent)
}

/// What is there is done; sleeps if it is nothing.
fn turn(contexts: &mut Contexts) -> Result<()> {
    if !contexts.poll(&mut Kept)? {
        contexts.wait(Some(PATIENCE))?;
    }
    while let Some((_, event)) = contexts.poll_event() {
        if let Event::Closed(why) = event {
            return Err(wrong(&format!("the context ended: {why:?}")));
        }
    }
    Ok(())
}

/// The peer has everything, and knows that nothing more comes.
fn has_ended(contexts: &mut Contexts) -> Result<bool> {
    if !contexts.poll(&mut Kept)? {
        contexts.wait(Some(PATIENCE))?;
    }
    let mut events = std::iter::from_fn(|| contexts.poll_event());
    Ok(events.any(|(_, event)| matches!(event, Event::Finished | Event::Closed(_))))
}

fn receive(task: &Task, mut contexts: Contexts, block: ControlBlock) -> Result<()> {
    contexts.listen(SERVICE, block, &Secrets { isn: [3; 16], cookie: [4; 16] });
    listens(contexts.local_addr())?;
    let (mut runs, mut heard) = (Runs::new(task.adus), Instant::now());
    while !runs.is_over() {
        if contexts.poll(&mut Kept)? {
            heard = Instant::now();
        } else if heard.elapsed() > PATIENCE {
            return Err(wrong("nothing came for long"));
        } else {
            contexts.wait(Some(PATIENCE))?;
        }
        while let Some((context, event)) = contexts.poll_event() {
            match event {
                Event::Message(message) => {
                    let numbers = look(task, contexts.message(context, &message))?;
                    runs.see((numbers >> 32) as u32, numbers as u32, Instant::now);
                    contexts.release(context, &message);
                }
                Event::Closed(why) => return Err(wrong(&format!("the context ended: {why:?}"))),
                _ => {}
            }
        }
    }
    // The sender hears that all is here, and of the end.
    let mut is_over = false;
    while !is_over {
        contexts.poll(&mut Kept)?;
        while let Some((context, event)) = contexts.poll_event() {
            if event == Event::Finished {
                contexts.finish(context);
                contexts.flush();
                is_over = true;
            }
        }
        contexts.wait(Some(PATIENCE))?;
    }
    process::report(&runs.rates)
}

/// The numbers of an ADU that has come whole.
fn look(task: &Task, pieces: [&[u8]; 2]) -> Result<u64> {
    let at = |at: usize| pieces[0].get(at).or_else(|| pieces[1].get(at - pieces[0].len()));
    let len = pieces[0].len() + pieces[1].len();
    let is_right =
        len == task.adu_bytes && at(0) == Some(&byte(0)) && at(len - 1) == Some(&byte(len - 1));
    let numbers = NUMBERS.map(|n| at(n).copied().unwrap_or(0));
    let numbers = numbers.fold(0, |all, byte| all << 8 | u64::from(byte));
    if is_right { Ok(numbers) } else { Err(wrong("an ADU is not what was sent")) }
}
