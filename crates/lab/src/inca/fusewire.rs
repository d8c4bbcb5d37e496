//! Fusewire over a TAP: an IP stack in this process, asked again and again (it never sleeps).

use std::cell::RefCell;
use std::net::SocketAddr;

use fusewire_codec::pipeline::{Fixed, Placed};
use fusewire_device::interface::tap::{self, Tap};
use fusewire_stack::Clock;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Bytes, Config, SocketId, Stack, State, TcpConfig};

use super::numbered;
use super::task::{
    DOUBLE_BYTES, MARK, Means, Meter, NAP, Protocol, Report, Role, SEND_BUFFER, Task, Vain, WINDOW,
    ask, look, settle, stream_byte,
};
use super::timed::{Spent, Timed};
use crate::process::listens;
use crate::{Error, Result};

/// Bytes of writes after which they are sent, though there is room for more: several super-frames, so that
/// the peer is woken for all of them at once.
const FLUSH_BYTES: usize = 256 << 10;
/// Looks for an answer between two turns of the stack.
const LOOKS_A_TURN: u32 = 32;
/// Super-frames sent between two turns of the stack.
const SENDS_A_TURN: u32 = 16;

pub fn work(task: &Task) -> Result<Report> {
    let mut subject = Subject::open(task)?;
    match (task.protocol, task.role) {
        (Protocol::Udp, Role::Send) => subject.udp_send(),
        (Protocol::Udp, Role::Receive) => subject.udp_receive(),
        (Protocol::Udp, Role::Ask) => subject.udp_ask(),
        (Protocol::Udp, Role::Answer) => subject.udp_answer(),
        (Protocol::Tcp, Role::Send) => subject.tcp_send(),
        (Protocol::Tcp, Role::Receive) => subject.tcp_receive(),
        (Protocol::Tcp, _) => Err(Error::Unsupported("round trips are UDP's".into())),
    }
}

/// A stack of one address on a TAP; `spent` hears of the time inside it.
fn open(name: &str, cidr: Cidr, clock: &Clock, spent: &Spent) -> Result<Stack> {
    let config = tap::Config { name: name.into(), ..tap::Config::default() };
    let tap = Tap::open(&config).map_err(Error::os("opening a TAP"))?;
    let tap = Timed::new(tap, spent.clone());
    settle(name)?;
    let seed = fusewire_device::random().map_err(Error::os("asking for randomness"))?;
    let net =
        NetConfig { addresses: vec![cidr], duplicate_detection: false, ..Stack::net_config(&tap) };
    Ok(Stack::new(Box::new(tap), net, Config::default(), seed, clock.now()))
}

struct Subject<'a> {
    task: &'a Task,
    stack: Stack,
    clock: Clock,
    quiet: Vain,
    spent: Spent,
}

impl<'a> Subject<'a> {
    fn open(task: &'a Task) -> Result<Self> {
        let clock = Clock::new();
        let cidr = Cidr::new(task.local.ip(), task.prefix())
            .ok_or_else(|| Error::Unsupported("not an address and a prefix".into()))?;
        let spent = Spent::default();
        let stack = open(&task.tap, cidr, &clock, &spent)?;
        Ok(Subject { task, stack, clock, quiet: Vain::default(), spent })
    }

    /// Drives the stack once; false when nothing has happened for too long.
    fn turn(&mut self) -> Result<bool> {
        let worked = self.stack.poll(self.clock.now()).map_err(Error::os("driving the stack"))?;
        Ok(!self.quiet.is_over(worked))
    }

    /// The same, for who only sends: what was sent is something that has happened.
    fn turn_of_sender(&mut self, sent: bool) -> Result<bool> {
        let goes_on = self.turn()?;
        if sent {
            self.quiet.is_over(true);
        }
        Ok(goes_on || sent)
    }

    fn bind(&mut self) -> Result<SocketId> {
        self.stack.udp_bind(self.task.local).map_err(failed)
    }

    fn udp_receive(&mut self) -> Result<Report> {
        let id = self.bind()?;
        listens(self.task.local)?;
        if self.task.packets > 0 {
            return numbered::receive(self.task, |message| {
                loop {
                    match self.stack.udp_recv(id, message).map_err(failed)? {
                        Some(received) => return Ok(Some(received.len)),
                        None if !self.turn()? => return Ok(None),
                        None => {}
                    }
                }
            });
        }
        let mut meter = Meter::new(self.task).with_device(&self.spent);
        let size = self.task.size;
        if self.task.means == Means::Fusewire {
            let mut bytes = vec![0; 1 << 16];
            loop {
                match self.stack.udp_recv(id, &mut bytes).map_err(failed)? {
                    Some(received) => {
                        meter.wrong += look(&bytes[..received.len], size).1;
                        if !meter.count_one() {
                            return meter.report();
                        }
                    }
                    None if !self.turn()? => return meter.report(),
                    None => {}
                }
            }
        }
        if self.task.means == Means::FusewireXdr {
            return self.udp_receive_numbers(id, meter);
        }
        loop {
            let mut seen = (0, 0);
            let now = self.clock.now();
            let taken = self.stack.udp_recv_batch(now, id, |messages| {
                let (count, wrong) = look(messages.bytes, size);
                seen = (seen.0 + count, seen.1 + wrong);
            });
            taken.map_err(Error::os("receiving"))?.map_err(failed)?;
            meter.wrong += seen.1;
            if seen.0 > 0 {
                self.quiet.is_over(true);
                if !meter.count(seen.0) {
                    return meter.report();
                }
            } else if !self.turn()? {
                return meter.report();
            }
        }
    }

    /// Messages that are arrays of XDR doubles, into the application's own.
    fn udp_receive_numbers(&mut self, id: SocketId, mut meter: Meter) -> Result<Report> {
        let mut numbers = vec![0.0f64; self.task.size / DOUBLE_BYTES];
        let mark = f64::from_be_bytes([MARK; DOUBLE_BYTES]);
        loop {
            let (now, mut wrong) = (self.clock.now(), 0);
            let mut fixed = Fixed(&mut numbers);
            let mut placed = Placed::xdr(&mut fixed);
            let taken = self.stack.udp_recv_messages(now, id, &mut placed, |_, placed| {
                let is_right = placed.placed().is_ok_and(|Fixed(numbers)| numbers[0] == mark);
                wrong += u64::from(!is_right);
                true
            });
            let messages = taken.map_err(Error::os("receiving"))?.map_err(failed)?;
            meter.wrong += wrong;
            if messages > 0 {
                self.quiet.is_over(true);
                if !meter.count(messages as u64) {
                    return meter.report();
                }
            } else if !self.turn()? {
                return meter.report();
            }
        }
    }

    fn udp_send(&mut self) -> Result<Report> {
        let id = self.bind()?;
        let size = self.task.size;
        let peer = Some(self.task.peer);
        self.find_peer(id)?;
        if self.task.packets > 0 {
            return self.send_runs(|subject, message| {
                let staged = subject.stack.udp_stage(subject.clock.now(), id, message, peer);
                let taken = staged.map_err(Error::os("sending"))?.map_err(failed)?;
                Ok(if taken { message.len() } else { 0 })
            });
        }
        let mut meter = Meter::new(self.task).with_device(&self.spent);
        if self.task.means == Means::Fusewire {
            let bytes = vec![MARK; size];
            let mut now = self.clock.now();
            for sent in 1u32.. {
                let staged = self.stack.udp_stage(now, id, &bytes, peer);
                let taken = staged.map_err(Error::os("sending"))?.map_err(failed)?;
                if !taken || sent.is_multiple_of(SENDS_A_TURN * 64) {
                    now = self.clock.now();
                    if !self.turn_of_sender(taken)? {
                        return meter.report();
                    }
                }
                if taken && !meter.count_one_sent() {
                    return meter.report();
                }
            }
        }
        let count = self.task.messages_per_super_frame();
        let bytes = vec![MARK; size * count];
        for turn in 0u32.. {
            let now = self.clock.now();
            let sent = self.stack.udp_send_batch(now, id, &bytes, size, peer);
            let sent = sent.map_err(Error::os("sending"))?.map_err(failed)?;
            // Whoever only sends has to look now and then at what comes too: who asks for our address.
            let looks = sent == 0 || turn.is_multiple_of(SENDS_A_TURN);
            if looks && !self.turn_of_sender(sent > 0)? {
                break;
            }
            if sent > 0 && !meter.count_sent(sent as u64) {
                break;
            }
        }
        meter.report()
    }

    /// Runs of numbered messages: `some` takes a part of one, or nothing where there is no room.
    fn send_runs(
        &mut self,
        mut some: impl FnMut(&mut Self, &[u8]) -> Result<usize>,
    ) -> Result<Report> {
        let task = self.task;
        let subject = RefCell::new(self);
        let send = |message: &[u8]| {
            let (mut subject, mut sent) = (subject.borrow_mut(), 0);
            while sent < message.len() {
                let len = some(&mut subject, &message[sent..])?;
                sent += len;
                if len == 0 && !subject.turn()? {
                    return Err(Error::Unsupported("there is no way to the peer".into()));
                }
            }
            Ok(())
        };
        let pause = |pause| {
            let end = std::time::Instant::now() + pause;
            while std::time::Instant::now() < end {
                subject.borrow_mut().turn_of_sender(true)?;
            }
            Ok(())
        };
        numbered::send(task, send, pause)
    }

    /// Sends one message, and waits until it has left: until the peer's MAC address is known.
    fn find_peer(&mut self, id: SocketId) -> Result<()> {
        self.send_surely(id, &vec![MARK; self.task.size], self.task.peer)?;
        while self.stack.counters().udp_messages_sent == 0 {
            if !self.turn()? {
                return Err(Error::Unsupported("there is no way to the peer".into()));
            }
        }
        Ok(())
    }

    fn udp_ask(&mut self) -> Result<Report> {
        let id = self.bind()?;
        let task = self.task;
        let question = vec![MARK; task.size];
        ask(task.seconds, || {
            self.send_surely(id, &question, task.peer)?;
            for looked in 1u32.. {
                let (now, mut answered) = (self.clock.now(), false);
                let taken = self.stack.udp_recv_batch(now, id, |messages| {
                    answered |= messages.bytes.len() == task.size;
                });
                taken.map_err(Error::os("receiving"))?.map_err(failed)?;
                if answered {
                    return Ok(());
                }
                // Timers, and who asks for our address, have time.
                if looked.is_multiple_of(LOOKS_A_TURN) && !self.turn()? {
                    break;
                }
            }
            Err(Error::Unsupported("no answer came".into()))
        })
    }

    fn send_surely(&mut self, id: SocketId, bytes: &[u8], to: SocketAddr) -> Result<()> {
        loop {
            let sent = self.stack.udp_send(self.clock.now(), id, bytes, Some(to));
            if sent.map_err(Error::os("sending"))?.map_err(failed)? {
                return Ok(());
            }
            if !self.turn()? {
                return Err(Error::Unsupported("there is no way to the peer".into()));
            }
        }
    }

    fn udp_answer(&mut self) -> Result<Report> {
        let id = self.bind()?;
        listens(self.task.local)?;
        let mut bytes = vec![0; 1 << 16];
        // It is killed when the asker is done.
        loop {
            match self.stack.udp_recv(id, &mut bytes).map_err(failed)? {
                Some(r) => self.send_surely(id, &bytes[..r.len], r.from)?,
                None => {
                    self.turn()?;
                }
            }
        }
    }

    fn tcp_config(&self) -> TcpConfig {
        TcpConfig {
            recv_window: WINDOW,
            initial_recv_window: WINDOW,
            send_buffer: SEND_BUFFER,
            ..self.stack.config().tcp.clone()
        }
    }

    fn tcp_receive(&mut self) -> Result<Report> {
        let config = self.tcp_config();
        let listener = self.stack.tcp_listen_with(self.task.local, 1, &config).map_err(failed)?;
        listens(self.task.local)?;
        let id = loop {
            if let Some((id, _)) = self.stack.tcp_accept(listener).map_err(failed)? {
                break id;
            }
            if !self.turn()? {
                return Err(Error::Unsupported("nobody connected".into()));
            }
        };
        if self.task.packets > 0 {
            let size = self.task.size;
            return numbered::receive(self.task, |message| {
                let mut filled = 0;
                while filled < size {
                    match self.stack.tcp_read(id, &mut message[filled..size]) {
                        Ok(Some(len)) if len > 0 => filled += len,
                        Ok(None) if self.turn()? => {}
                        _ => return Ok(None),
                    }
                }
                Ok(Some(size))
            });
        }
        let mut meter = Meter::new(self.task).with_device(&self.spent);
        let mut bytes = vec![0; self.task.stride()];
        let (mut at, mut filled) = (0u64, 0);
        loop {
            let now = self.clock.now();
            let read = if self.task.bulk {
                let read = self.stack.tcp_read_into(now, id, &mut bytes);
                read.map_err(Error::os("reading"))?
            } else {
                self.stack.tcp_read(id, &mut bytes[filled..])
            };
            if read.is_err() && meter.is_done() {
                return meter.report();
            }
            match read.map_err(failed)? {
                Some(0) => return meter.report(),
                Some(len) if self.task.bulk => {
                    meter.wrong += u64::from(bytes[0] != stream_byte(at));
                    at += len as u64;
                    self.quiet.is_over(true);
                    self.stack.transmit(now).map_err(Error::os("acknowledging"))?;
                    if !meter.count_sent(len as u64) {
                        return self.end(id, meter);
                    }
                }
                Some(len) => {
                    filled += len;
                    if filled < bytes.len() {
                        continue;
                    }
                    filled = 0;
                    meter.wrong += u64::from(bytes[0] != stream_byte(at));
                    at += bytes.len() as u64;
                    if !meter.count_one_sent() {
                        return self.end(id, meter);
                    }
                }
                None if self.task.bulk => {
                    // It has just looked for packets: what comes now is to go to its place too.
                    let worked = self.stack.poll_rest(now).map_err(Error::os("acknowledging"))?;
                    if self.quiet.is_over(worked) {
                        return meter.report();
                    }
                    std::thread::sleep(NAP);
                }
                None if !self.turn()? => return meter.report(),
                None => {}
            }
        }
    }

    fn tcp_send(&mut self) -> Result<Report> {
        let (now, config) = (self.clock.now(), self.tcp_config());
        let id = self.stack.tcp_connect_with(now, self.task.peer, None, &config).map_err(failed)?;
        while self.stack.tcp_state(id).map_err(failed)? != State::Established {
            if !self.turn()? {
                return Err(Error::Unsupported("nobody accepted".into()));
            }
        }
        if self.task.packets > 0 {
            return self
                .send_runs(|subject, bytes| subject.stack.tcp_write(id, bytes).map_err(failed));
        }
        let stride = self.task.stride();
        // From any place below 251, as many bytes as one write takes.
        let bytes: Bytes = (0..(stride + 251) as u64).map(stream_byte).collect();
        let mut meter = Meter::new(self.task).with_device(&self.spent);
        let (mut at, mut written, mut held) = (0usize, 0, 0);
        loop {
            let start = (at - written) % 251;
            let range = start + written..start + stride;
            let len = match self.task.means {
                Means::FusewireShared => self.stack.tcp_write_shared(id, &bytes.slice(range)),
                _ => self.stack.tcp_write(id, &bytes[range]),
            };
            if len.is_err() && meter.is_done() {
                return meter.report();
            }
            let len = len.map_err(failed)?;
            at += len;
            written += len;
            held += len;
            if len == 0 || held >= FLUSH_BYTES {
                held = 0;
                if !self.turn()? {
                    return meter.report();
                }
            }
            if written < stride {
                continue;
            }
            written = 0;
            let goes_on = match self.task.bulk {
                true => meter.count_sent(stride as u64),
                false => meter.count_one_sent(),
            };
            if !goes_on {
                return self.end(id, meter);
            }
        }
    }

    /// Ends the connection so that the peer's kernel forgets it too.
    fn end(&mut self, id: SocketId, meter: Meter) -> Result<Report> {
        self.stack.abort(self.clock.now(), id).map_err(failed)?;
        self.turn()?;
        meter.report()
    }
}

fn failed(error: fusewire_stack::ip::Error) -> Error {
    Error::Unsupported(error.to_string())
}
