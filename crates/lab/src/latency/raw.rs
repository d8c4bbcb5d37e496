//! Cold requests without a session: TCP of a host of ours, and a transaction of XTP's.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use fusewire_device::{Device, random};
use fusewire_stack::Clock;
use fusewire_stack::context::{self, About, Contexts, ControlBlock, Event, Kept, Kind};
use fusewire_stack::ip::net::{self, Cidr};
use fusewire_stack::ip::{self, SocketId, Stack};
use fusewire_stack::transport::Secrets;

use super::BYTES;
use super::tunnel::Tunnel;
use crate::process::listens;
use crate::{Error, Result};

/// The server's address in the tunnel, whose port is also the service of contexts.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PORT: u16 = 7;
/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Milliseconds until the request could leave, and until its answer was there, which is the second.
pub(super) type Asked = ([f64; 2], [u8; BYTES]);

/// What a socket of ours says.
fn socket(error: ip::Error) -> Error {
    Error::os("a stream of ours")(error.into())
}

fn wrong(what: &str) -> Error {
    Error::Wrong { method: "cold requests".to_owned(), what: what.to_owned() }
}

/// A host with an address of its own in a tunnel, and its time.
fn host(
    device: Box<dyn Device>,
    own: Ipv4Addr,
    first: Option<SocketAddr>,
) -> Result<(Stack, Clock)> {
    let (tunnel, clock) = (Tunnel::over(device, first), Clock::new());
    let cidr = Cidr::new(own.into(), 8).ok_or_else(|| wrong("no address"))?;
    let net = net::Config {
        addresses: vec![cidr],
        duplicate_detection: false,
        ..Stack::net_config(&tunnel)
    };
    let seed = random().map_err(Error::os("reading random bytes"))?;
    Ok((Stack::new(Box::new(tunnel), net, ip::Config::default(), seed, clock.now()), clock))
}

/// What can be done now; sleeps if that is nothing.
fn turn(stack: &mut Stack, clock: &Clock) -> Result<()> {
    let failed = Error::os("driving a host");
    let worked = stack.poll(clock.now()).map_err(failed)?;
    if !worked && !stack.wants_transmit() {
        stack.wait(clock.now(), Some(PATIENCE), false).map_err(Error::os("waiting"))?;
    }
    Ok(())
}

/// Answers over TCP with what was asked, until it is killed.
pub(super) fn serve_tcp(device: Box<dyn Device>) -> Result<()> {
    let at = device.local_addr();
    let (mut stack, clock) = host(device, SERVER, None)?;
    let listener = stack.tcp_listen((SERVER, PORT).into(), 64).map_err(socket)?;
    listens(at)?;
    let mut open: Vec<SocketId> = Vec::new();
    loop {
        turn(&mut stack, &clock)?;
        while let Some((id, _)) = stack.tcp_accept(listener).map_err(socket)? {
            open.push(id);
        }
        open.retain(|id| echo(&mut stack, &clock, *id));
    }
}

/// What came goes back; false when the connection is over.
fn echo(stack: &mut Stack, clock: &Clock, id: SocketId) -> bool {
    let mut bytes = [0; BYTES];
    loop {
        match stack.tcp_read(id, &mut bytes) {
            Ok(None) => return true,
            Ok(Some(1..)) if stack.tcp_write(id, &bytes) == Ok(BYTES) => {}
            _ => {
                let _ = stack.close(clock.now(), id);
                return false;
            }
        }
    }
}

/// Asks over TCP: connects, sends, and reads the answer.
pub(super) fn ask_tcp(
    device: Box<dyn Device>,
    server: SocketAddr,
    n: u32,
    question: &[u8; BYTES],
) -> Result<Asked> {
    let [_, _, high, low] = n.to_be_bytes();
    let (mut stack, clock) = host(device, Ipv4Addr::new(10, 1, high, low), Some(server))?;
    let began = Instant::now();
    let ms = || began.elapsed().as_secs_f64() * 1e3;
    let id = stack.tcp_connect(clock.now(), (SERVER, PORT).into()).map_err(socket)?;
    while stack.tcp_state(id).map_err(socket)? != ip::State::Established {
        turn(&mut stack, &clock)?;
        within(began)?;
    }
    let connected = ms();
    if stack.tcp_write(id, question).map_err(socket)? != BYTES {
        return Err(wrong("a question has no room"));
    }
    let (mut answer, mut got) = ([0; BYTES], 0);
    while got < BYTES {
        turn(&mut stack, &clock)?;
        within(began)?;
        match stack.tcp_read(id, &mut answer[got..]).map_err(socket)? {
            Some(0) => return Err(wrong("no answer")),
            some => got += some.unwrap_or(0),
        }
    }
    Ok(([connected, ms()], answer))
}

fn within(began: Instant) -> Result<()> {
    if began.elapsed() < PATIENCE { Ok(()) } else { Err(wrong("no answer in time")) }
}

fn contexts(device: Box<dyn Device>) -> Result<Contexts> {
    let seed = random().map_err(Error::os("reading random bytes"))?;
    Ok(Contexts::new(device, context::Config::default(), &seed))
}

fn block() -> ControlBlock {
    ControlBlock { kind: Kind::Transaction, ..ControlBlock::default() }
}

/// Answers transactions with what was asked, until it is killed.
pub(super) fn serve_xtp(device: Box<dyn Device>) -> Result<()> {
    let mut contexts = contexts(device)?;
    let random = || random().map_err(Error::os("reading random bytes"));
    contexts.listen(PORT, block(), &Secrets { isn: random()?, cookie: random()? });
    listens(contexts.local_addr())?;
    loop {
        contexts.poll(&mut Kept)?;
        while let Some((context, event)) = contexts.poll_event() {
            if let Event::Message(message) = event {
                let answer = contexts.message(context, &message).concat();
                contexts.send(context, &[IoSlice::new(&answer)], About::default())?;
            }
        }
        contexts.wait(None)?;
    }
}

/// Asks by a transaction.
pub(super) fn ask_xtp(
    device: Box<dyn Device>,
    server: SocketAddr,
    question: &[u8; BYTES],
) -> Result<Asked> {
    let mut contexts = contexts(device)?;
    let began = Instant::now();
    let ms = || began.elapsed().as_secs_f64() * 1e3;
    let context = contexts.context(block())?;
    contexts.connect(context, server, PORT)?;
    contexts.send(context, &[IoSlice::new(question)], About::default())?;
    let sent = ms();
    loop {
        contexts.poll(&mut Kept)?;
        while let Some((context, event)) = contexts.poll_event() {
            match event {
                Event::Message(message) => {
                    let answer = contexts.message(context, &message).concat();
                    let answer = answer.try_into().map_err(|_| wrong("an answer is too short"))?;
                    return Ok(([sent, ms()], answer));
                }
                Event::Closed(ended) => return Err(wrong(&format!("no answer: {ended:?}"))),
                _ => {}
            }
        }
        within(began)?;
        contexts.wait(Some(PATIENCE))?;
    }
}
