//! The stack: a device, the connections over it, and nothing that blocks but [`Stack::wait`].

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::{Device, Ecn, RxBatch, TxFrame, Waker};
use fusewire_session::{ClientConfig, Fingerprint, Handshake, Options, ServerConfig};
use fusewire_transport::isn;
use fusewire_transport::tcp::{self, Listener, ListenerAction, Secrets, Tuple, reset_for};
use fusewire_transport::timer::Wheel;
use fusewire_wire::tcp::{Header, MAX_HEADER_LEN};

use crate::application::{Application, Keep};
use crate::clock::Clock;
use crate::config::Config;
use crate::connection::{Connection, Event, Memory, Segment};
use crate::send_ring::HEADROOM;
use crate::{ConnectionId, Error, Result};

/// Super-packets taken from the device in one call.
const RECEIVE_SLOTS: usize = 8;
/// Frames given to the device in one call.
const TRANSMIT_FRAMES: usize = 128;
/// Bytes queued by `send` before they leave without being asked for: one super-packet.
const FLUSH_BYTES: u32 = 60 << 10;
/// Resolution of timers.
const TICK: Duration = Duration::from_micros(500);

/// Which endpoint of a stack a datagram belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    remote: SocketAddr,
    local_port: u16,
    remote_port: u16,
}

/// What was dropped before a connection was found, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drops {
    /// Not a TCP header.
    pub malformed: u64,
    /// Wrong checksum, and for no connection of ours.
    pub checksum: u64,
    /// For no connection and no listener.
    pub stray: u64,
    /// The table of connections is full.
    pub full: u64,
    /// Refused by the listener: backlog, cookie, violation.
    pub listener: u64,
}

/// Time spent in the three steps, without system calls: the paper's packet processing time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    /// Seconds in `send` and in building segments.
    pub send_s: f64,
    /// Payload segments sent.
    pub segments_sent: u64,
    /// Seconds from the frame's header to its acceptance.
    pub receive_s: f64,
    /// Payload segments received.
    pub segments_received: u64,
}

struct Listening {
    listener: Listener,
    port: u16,
    server: ServerConfig,
}

/// Where a header lies.
#[derive(Clone, Copy)]
enum HeaderAt {
    Ring(usize),
    Scratch(usize),
}

/// One segment between `poll_transmit` and the device.
#[derive(Clone, Copy)]
struct Planned {
    header: HeaderAt,
    header_len: usize,
    payload: (usize, usize),
    ecn: Ecn,
}

/// The stack. Single-threaded and without blocking: [`Endpoint`](crate::Endpoint) wraps it for
/// applications that want to block or await.
pub struct Stack {
    device: Box<dyn Device>,
    batch: Option<RxBatch>,
    clock: Clock,
    config: Config,
    connections: Vec<Option<Box<Connection>>>,
    generations: Vec<u32>,
    free: Vec<u32>,
    table: HashMap<Key, u32>,
    dirty: Vec<u32>,
    /// Connections whose events were not all taken.
    eventful: VecDeque<u32>,
    timers: Wheel,
    listening: Option<Listening>,
    isn: isn::Generator,
    next_port: u16,
    headers: Box<[[u8; MAX_HEADER_LEN]; TRANSMIT_FRAMES]>,
    planned: Vec<Planned>,
    drops: Drops,
    profile: Option<Profile>,
    last_work: Instant,
    live: usize,
}

impl Stack {
    /// A stack over `device`. `seed` keys the initial sequence numbers: 32 secret random bytes.
    pub fn new(device: Box<dyn Device>, config: Config, seed: &[u8; 32]) -> Self {
        let clock = Clock::new();
        let now = clock.now();
        let mut key = [0; 16];
        key.copy_from_slice(&seed[..16]);
        let max = config.max_connections;
        Stack {
            device,
            batch: Some(RxBatch::new(RECEIVE_SLOTS)),
            clock,
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            table: HashMap::new(),
            dirty: Vec::new(),
            eventful: VecDeque::new(),
            timers: Wheel::new(now, TICK, max),
            listening: None,
            isn: isn::Generator::new(&key),
            next_port: 0x8000 | u16::from_ne_bytes([seed[30], seed[31]]),
            headers: Box::new([[0; MAX_HEADER_LEN]; TRANSMIT_FRAMES]),
            planned: Vec::with_capacity(TRANSMIT_FRAMES),
            drops: Drops::default(),
            profile: None,
            last_work: now,
            live: 0,
            config,
        }
    }

    /// The device.
    pub fn device(&self) -> &dyn Device {
        &*self.device
    }

    /// Our address as the device knows it.
    pub fn local_addr(&self) -> SocketAddr {
        self.device.local_addr()
    }

    /// Wakes [`Stack::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.device.waker()
    }

    /// What was dropped before a connection was found.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// Connections that are open or closing.
    pub fn connections(&self) -> usize {
        self.live
    }

    /// Begins to measure the time in the three steps.
    pub fn measure(&mut self) {
        self.profile = Some(Profile::default());
    }

    /// What was measured since [`Stack::measure`].
    pub fn profile(&self) -> Option<Profile> {
        self.profile
    }

    // ---- opening and closing ------------------------------------------------------------------

    /// Opens a connection; `Event::Connected` or `Event::Closed` follows.
    ///
    /// # Errors
    /// [`Error::Session`] for a configuration that no session can be made from; [`Error::Misuse`]
    /// when there are too many connections.
    pub fn connect(&mut self, remote: SocketAddr, port: u16, client: &ClientConfig) -> Result<ConnectionId> {
        let now = self.clock.now();
        let cfg = self.tcp_config(remote);
        let body_len_max = client.body_len_max.min(longest_adu(&cfg));
        let handshake = Handshake::client(&ClientConfig { body_len_max, ..client.clone() })?;
        let local_port = self.free_port(remote, port);
        let tuple = Tuple { local: self.device.local_addr(), remote, local_port, remote_port: port };
        let iss = self.isn.isn(now, &tuple);
        let tcp = tcp::Connection::connect(&cfg, local_port, port, iss, now);
        let index = self.insert(tuple, tcp, handshake)?;
        let id = self.id(index);
        self.schedule_handshake(index, now);
        self.settle(index);
        self.transmit();
        Ok(id)
    }

    /// Takes connections to `port` from now on; `Event::Connected` tells of each.
    pub fn listen(&mut self, port: u16, mut server: ServerConfig, secrets: &Secrets) {
        let local = self.device.local_addr();
        let cfg = self.tcp_config(local);
        server.body_len_max = server.body_len_max.min(longest_adu(&cfg));
        self.listening = Some(Listening { listener: Listener::new(&cfg, self.config.backlog, secrets), port, server });
    }

    /// Takes no further connections; those that are open go on.
    pub fn stop_listening(&mut self) {
        self.listening = None;
    }

    /// The caller has judged the peer's key and accepts it.
    pub fn trust(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.trust();
        }
    }

    /// Ends our stream in order: everything sent before arrives, then the end.
    pub fn finish(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.finish();
            self.mark_dirty(id.index);
        }
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.fail(Error::Closed);
            self.mark_dirty(id.index);
            self.transmit();
        }
    }

    fn free_port(&mut self, remote: SocketAddr, remote_port: u16) -> u16 {
        loop {
            self.next_port = self.next_port.wrapping_add(1) | 0x8000;
            let key = Key { remote, local_port: self.next_port, remote_port };
            if !self.table.contains_key(&key) {
                return self.next_port;
            }
        }
    }

    /// TCP settings as the device and the path allow.
    fn tcp_config(&self, remote: SocketAddr) -> tcp::Config {
        let caps = self.device.caps();
        let mut cfg = self.config.tcp.clone();
        let datagram = self.config.datagram_bytes.unwrap_or(caps.max_datagram).min(caps.max_datagram);
        let mss = |bytes: usize| u16::try_from(bytes.saturating_sub(20)).unwrap_or(u16::MAX);
        cfg.mss = mss(datagram);
        // On loopback the path is known; elsewhere it has to be found.
        let known = remote.ip().is_loopback() || caps.name != "udp" || self.config.datagram_bytes.is_some();
        cfg.send_mss = if known { mss(datagram) } else { cfg.send_mss.min(mss(datagram)) };
        let buffer = u32::try_from(caps.receive_buffer_bytes).unwrap_or(u32::MAX);
        cfg.recv_window = cfg.recv_window.min(buffer.max(64 << 10));
        cfg.initial_recv_window = cfg.initial_recv_window.min(cfg.recv_window);
        cfg.send_buffer = cfg.send_buffer.min(u32::try_from(self.config.send_ring_bytes).unwrap_or(u32::MAX));
        cfg
    }

    fn insert(&mut self, tuple: Tuple, tcp: tcp::Connection, handshake: Handshake) -> Result<u32> {
        if self.live >= self.config.max_connections && !self.evict() {
            return Err(Error::Misuse("too many connections"));
        }
        let cfg = &self.config.tcp;
        let memory = Memory {
            send_ring_bytes: self.config.send_ring_bytes,
            send_ring_records: cfg.max_segments_in_flight,
            window_bytes: cfg.recv_window as usize,
            ranges: cfg.max_ranges,
        };
        let connection = Box::new(Connection::new(tuple, tcp, handshake, &memory, self.config.level));
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.generations.push(0);
            self.connections.len() as u32 - 1
        });
        self.connections[index as usize] = Some(connection);
        self.table.insert(key(&tuple), index);
        self.live += 1;
        Ok(index)
    }

    fn schedule_handshake(&mut self, index: u32, now: Instant) {
        if let Some(connection) = &mut self.connections[index as usize] {
            connection.handshake_deadline = Some(now + self.config.handshake_timeout);
        }
    }

    fn id(&self, index: u32) -> ConnectionId {
        ConnectionId { index, generation: self.generations[index as usize] }
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        if self.generations.get(id.index as usize) != Some(&id.generation) {
            return None;
        }
        self.connections[id.index as usize].as_deref_mut()
    }

    fn get(&self, id: ConnectionId) -> Option<&Connection> {
        if self.generations.get(id.index as usize) != Some(&id.generation) {
            return None;
        }
        self.connections[id.index as usize].as_deref()
    }

    // ---- ADUs ---------------------------------------------------------------------------------

    /// Seals one ADU into the retransmission memory, in one pass. False when there is no room:
    /// `Event::Writable` tells when to try again. Full super-packets leave by themselves; call
    /// [`Stack::flush`] for the rest.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Closed`], [`Error::Untrusted`].
    pub fn send(&mut self, id: ConnectionId, adu: &[u8]) -> Result<bool> {
        let start = self.profile.is_some().then(std::time::Instant::now);
        let connection = self.get_mut(id).ok_or(Error::Closed)?;
        let taken = connection.send(adu)?;
        if taken {
            connection.unflushed += adu.len() as u32;
        }
        let full = connection.unflushed >= FLUSH_BYTES;
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.send_s += start.elapsed().as_secs_f64();
        }
        self.mark_dirty(id.index);
        if full {
            self.transmit();
        }
        Ok(taken)
    }

    /// How many ADUs of `len` bytes [`Stack::send`] would take now, at least. After a zero,
    /// `Event::Writable` tells when to ask again.
    pub fn room(&mut self, id: ConnectionId, len: usize) -> usize {
        self.get_mut(id).map_or(0, |connection| connection.room(len))
    }

    /// The time that the stack goes by.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Puts everything that may leave on the wire.
    pub fn flush(&mut self) {
        self.transmit();
    }

    /// The next ADU in order, if it is there; give the buffer back with [`Stack::recycle`].
    pub fn recv(&mut self, id: ConnectionId) -> Option<(u64, Vec<u8>)> {
        self.take(id, |c| c.inbox.next())
    }

    /// Any ADU that is there, with its index: ADUs are delivered out of order.
    pub fn recv_any(&mut self, id: ConnectionId) -> Option<(u64, Vec<u8>)> {
        self.take(id, |c| c.inbox.any())
    }

    fn take(
        &mut self,
        id: ConnectionId,
        pick: impl FnOnce(&mut Connection) -> Option<(u64, Vec<u8>)>,
    ) -> Option<(u64, Vec<u8>)> {
        let connection = self.get_mut(id)?;
        let (index, buffer) = pick(connection)?;
        connection.took(buffer.len());
        self.mark_dirty(id.index);
        Some((index, buffer))
    }

    /// Takes the buffer of an ADU back, so that the next needs no allocation.
    pub fn recycle(&mut self, id: ConnectionId, buffer: Vec<u8>) {
        if let Some(connection) = self.get_mut(id) {
            connection.inbox.recycle(buffer);
        }
    }

    /// The longest ADU that is one segment on this path now, and the longest that the peer takes.
    pub fn adu_len(&self, id: ConnectionId) -> Option<(usize, usize)> {
        self.get(id)?.adu_len()
    }

    /// The peer's key and what was agreed on.
    pub fn session(&self, id: ConnectionId) -> Option<(Fingerprint, Options)> {
        self.get(id)?.session()
    }

    /// The peer's address.
    pub fn remote_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        Some(self.get(id)?.tuple.remote)
    }

    /// Estimates and counters of the transport.
    pub fn info(&self, id: ConnectionId) -> Option<tcp::Info> {
        Some(self.get(id)?.tcp.info())
    }

    // ---- events -------------------------------------------------------------------------------

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(&index) = self.eventful.front() {
            let id = self.id(index);
            let event = self.connections[index as usize].as_mut().and_then(|c| c.events.pop_front());
            if let Some(event) = event {
                return Some((id, event));
            }
            self.eventful.pop_front();
            if let Some(connection) = &mut self.connections[index as usize] {
                connection.is_eventful = false;
                self.reap(index);
            }
        }
        None
    }

    /// Forgets a connection that is over and whose events were taken.
    fn reap(&mut self, index: u32) {
        let over = self.connections[index as usize].as_ref().is_some_and(|c| {
            c.is_closed() && c.events.is_empty() && c.tcp.state() == tcp::State::Closed && !c.is_dirty
        });
        if over {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        if let Some(connection) = self.connections[index as usize].take() {
            self.table.remove(&key(&connection.tuple));
            self.timers.cancel(index);
            self.generations[index as usize] = self.generations[index as usize].wrapping_add(1);
            self.free.push(index);
            self.live -= 1;
        }
    }

    /// Makes room by forgetting a connection in TIME-WAIT.
    fn evict(&mut self) -> bool {
        let idle = |c: &Option<Box<Connection>>| {
            c.as_ref().is_some_and(|c| c.tcp.state() == tcp::State::TimeWait && !c.is_dirty && !c.is_eventful)
        };
        let index = self.connections.iter().position(idle);
        if let Some(index) = index {
            self.remove(index as u32);
        }
        index.is_some()
    }

    fn mark_dirty(&mut self, index: u32) {
        if let Some(connection) = &mut self.connections[index as usize]
            && !std::mem::replace(&mut connection.is_dirty, true)
        {
            self.dirty.push(index);
        }
    }

    /// After anything that may have changed a connection: events, timers, things to send.
    fn settle(&mut self, index: u32) {
        let Some(connection) = &mut self.connections[index as usize] else { return };
        connection.poll_transport();
        if !connection.events.is_empty() && !std::mem::replace(&mut connection.is_eventful, true) {
            self.eventful.push_back(index);
        }
        self.mark_dirty(index);
    }

    fn reschedule(&mut self, index: u32) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let deadline = match (connection.tcp.poll_timeout(), connection.handshake_deadline) {
            (Some(a), Some(b)) => Some(if a < b { a } else { b }),
            (a, b) => a.or(b),
        };
        match deadline {
            Some(at) => {
                self.timers.schedule(index, at);
            }
            None => self.timers.cancel(index),
        }
    }

    // ---- the loop -----------------------------------------------------------------------------

    /// Receives what waits, runs timers, sends what may leave. True if there was work.
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn poll(&mut self, app: &mut dyn Application) -> Result<bool> {
        let mut batch = self.batch.take().unwrap_or_else(|| RxBatch::new(RECEIVE_SLOTS));
        let received = self.device.receive(&mut batch).map_err(Error::os("receiving from the device"));
        let now = self.clock.now();
        if matches!(received, Ok(n) if n > 0) {
            let segments = self.take_batch(now, &batch, app);
            if let Some(profile) = &mut self.profile {
                profile.receive_s += self.clock.now().saturating_since(now).as_secs_f64();
                profile.segments_received += segments;
            }
        }
        self.batch = Some(batch);
        let received = received?;
        let timed = self.run_timers(now);
        let sent = self.transmit();
        let worked = received > 0 || timed || sent > 0;
        if worked {
            self.last_work = now;
        }
        Ok(worked)
    }

    /// True shortly after there was work: looking again is cheaper than sleeping.
    pub fn wants_spin(&self) -> bool {
        self.clock.now().saturating_since(self.last_work) < self.config.spin
    }

    /// Time until the next timer is due.
    pub fn next_timeout(&self) -> Option<Duration> {
        let now = self.clock.now();
        let listener = self.listening.as_ref().and_then(|l| l.listener.poll_timeout());
        let at = match (self.timers.next_deadline(), listener) {
            (Some(a), Some(b)) => Some(if a < b { a } else { b }),
            (a, b) => a.or(b),
        };
        at.map(|at| at.saturating_since(now))
    }

    /// Sleeps until frames wait, a timer is due, another thread wakes us, or `timeout` passes; does
    /// not sleep while [`Stack::wants_spin`].
    ///
    /// # Errors
    /// [`Error::Os`] when the device is broken.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        if self.wants_spin() {
            std::hint::spin_loop();
            return Ok(());
        }
        let timeout = match (timeout, self.next_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.device.wait(timeout, false).map_err(Error::os("waiting for the device"))?;
        Ok(())
    }

    fn run_timers(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((tuple, header)) = self.listening.as_mut().and_then(|l| l.listener.poll_transmit(now)) {
            any = true;
            self.send_alone(tuple.remote, header);
        }
        self.timers.advance(now);
        while let Some(index) = self.timers.pop_expired() {
            any = true;
            if let Some(connection) = &mut self.connections[index as usize] {
                if connection.handshake_deadline.is_some_and(|at| at <= now) {
                    connection.handshake_deadline = None;
                    if connection.is_closed() {
                        connection.tcp.abort();
                    } else if connection.session().is_none() {
                        connection.fail(Error::TimedOut(connection.tuple.remote));
                    }
                }
                connection.tcp.handle_timeout(now);
                self.settle(index);
            }
        }
        any
    }

    /// All frames of a batch. One look-up a super-packet: its frames have one sender.
    fn take_batch(&mut self, now: Instant, batch: &RxBatch, app: &mut dyn Application) -> u64 {
        let mut last: Option<(Key, u32)> = None;
        let mut segments = 0;
        for packet in batch.iter() {
            let marked = packet.ecn == Ecn::Ce;
            for frame in packet.frames() {
                let Ok(header) = Header::parse(frame) else {
                    self.drops.malformed += 1;
                    continue;
                };
                let (head, payload) = frame.split_at(usize::from(header.header_len).min(frame.len()));
                let header_sum = pseudo_header_sum(frame.len()) + header_sum(head);
                let segment = Segment { header: &header, header_sum, payload, marked };
                let key = Key { remote: packet.peer, local_port: header.dst_port, remote_port: header.src_port };
                let index = match last {
                    Some((known, index)) if known == key => Some(index),
                    _ => self.table.get(&key).copied(),
                };
                let Some(index) = index else {
                    self.take_stray(now, packet.peer, &segment);
                    continue;
                };
                if last.is_none_or(|(_, i)| i != index)
                    && let Some((_, previous)) = last.replace((key, index))
                {
                    self.settle(previous);
                }
                let id = self.id(index);
                if let Some(connection) = &mut self.connections[index as usize] {
                    connection.handle_segment(now, id, &segment, app);
                }
                segments += u64::from(!payload.is_empty());
            }
        }
        if let Some((_, index)) = last {
            self.settle(index);
        }
        segments
    }

    /// A segment for no connection: the listener's, or answered with a reset.
    fn take_stray(&mut self, now: Instant, remote: SocketAddr, segment: &Segment<'_>) {
        let sum = fusewire_kernels::sum(self.config.level, segment.payload);
        if !(segment.header_sum + sum).verifies() {
            self.drops.checksum += 1;
            return;
        }
        let header = segment.header;
        let tuple = Tuple {
            local: self.device.local_addr(),
            remote,
            local_port: header.dst_port,
            remote_port: header.src_port,
        };
        let is_full = self.live >= self.config.max_connections && !self.evict();
        let Some(listening) = self.listening.as_mut().filter(|l| l.port == header.dst_port) else {
            self.drops.stray += 1;
            if let Some(reply) = reset_for(header, segment.payload.len() as u32) {
                self.send_alone(remote, reply);
            }
            return;
        };
        if is_full {
            self.drops.full += 1;
            return;
        }
        match listening.listener.handle_segment(now, &tuple, header, segment.payload.len() as u32) {
            ListenerAction::SynAck(reply) | ListenerAction::Reset(reply) => self.send_alone(remote, reply),
            ListenerAction::Accept(tcp) => self.accept(now, tuple, *tcp, segment),
            ListenerAction::Drop(_) => self.drops.listener += 1,
        }
    }

    fn accept(&mut self, now: Instant, tuple: Tuple, tcp: tcp::Connection, segment: &Segment<'_>) {
        let Some(listening) = &mut self.listening else { return };
        listening.listener.taken();
        let handshake = match Handshake::server(&listening.server) {
            Ok(handshake) => handshake,
            Err(error) => {
                tracing::error!(%error, "cannot begin a handshake");
                return;
            }
        };
        match self.insert(tuple, tcp, handshake) {
            Ok(index) => {
                self.schedule_handshake(index, now);
                let id = self.id(index);
                if let Some(connection) = &mut self.connections[index as usize] {
                    connection.handle_segment(now, id, segment, &mut Keep);
                }
                self.settle(index);
            }
            Err(_) => self.drops.full += 1,
        }
    }

    fn send_alone(&mut self, remote: SocketAddr, header: Header) {
        let buffer = &mut self.headers[0];
        let len = emit(header, buffer, Sum::ZERO, 0);
        let frame = TxFrame { peer: remote, header: &buffer[..len], payload: &[], ecn: Ecn::NotEct };
        if let Err(error) = self.device.transmit(&[frame]) {
            tracing::debug!(%error, "cannot answer");
        }
    }

    // ---- transmission -------------------------------------------------------------------------

    /// Gives every dirty connection its turn. Returns the number of segments sent.
    fn transmit(&mut self) -> usize {
        let now = self.clock.now();
        let mut total = 0;
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            while let n @ 1.. = self.transmit_batch(now, index) {
                total += n;
                if n < TRANSMIT_FRAMES {
                    break;
                }
            }
            if let Some(connection) = &mut self.connections[index as usize] {
                connection.is_dirty = false;
                connection.unflushed = 0;
            }
            self.settle_quietly(index);
            self.reschedule(index);
        }
        // Nobody became dirty meanwhile, so the memory can be used again.
        debug_assert!(self.dirty.is_empty());
        self.dirty = dirty;
        total
    }

    /// Events that transmission itself made, without marking the connection dirty again.
    fn settle_quietly(&mut self, index: u32) {
        let Some(connection) = &mut self.connections[index as usize] else { return };
        connection.poll_transport();
        if !connection.events.is_empty() {
            if !std::mem::replace(&mut connection.is_eventful, true) {
                self.eventful.push_back(index);
            }
        } else if !connection.is_eventful {
            self.reap(index);
        }
    }

    fn transmit_batch(&mut self, now: Instant, index: u32) -> usize {
        let Some(connection) = &mut self.connections[index as usize] else { return 0 };
        let start = self.profile.is_some().then(std::time::Instant::now);
        self.planned.clear();
        let mut data_segments = 0;
        while self.planned.len() < TRANSMIT_FRAMES {
            let Some(transmit) = connection.tcp.poll_transmit(now) else { break };
            let ecn = if transmit.ecn_capable { Ecn::Ect0 } else { Ecn::NotEct };
            let scratch = self.planned.len();
            let planned = match &transmit.payload {
                None => {
                    let header_len = emit(transmit.header, &mut self.headers[scratch], Sum::ZERO, 0);
                    Planned { header: HeaderAt::Scratch(scratch), header_len, payload: (0, 0), ecn }
                }
                Some(range) => {
                    data_segments += 1;
                    let located = connection.ring.locate(range);
                    let (from, to) = (located.payload.start, located.payload.end);
                    let sum = located.sum.unwrap_or_else(|| {
                        fusewire_kernels::sum(self.config.level, &connection.ring.memory()[from..to])
                    });
                    let header_len = transmit.header.emit_len();
                    let header = if located.headroom && header_len == HEADROOM {
                        let room = &mut connection.ring.memory_mut()[from - HEADROOM..from];
                        emit(transmit.header, room, sum, to - from);
                        HeaderAt::Ring(from - HEADROOM)
                    } else {
                        emit(transmit.header, &mut self.headers[scratch], sum, to - from);
                        HeaderAt::Scratch(scratch)
                    };
                    Planned { header, header_len, payload: (from, to), ecn }
                }
            };
            self.planned.push(planned);
        }
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.send_s += start.elapsed().as_secs_f64();
            profile.segments_sent += data_segments;
        }
        if self.planned.is_empty() {
            return 0;
        }
        let memory = connection.ring.memory();
        let peer = connection.tuple.remote;
        let nothing = TxFrame { peer, header: &[], payload: &[], ecn: Ecn::NotEct };
        let mut frames = [nothing; TRANSMIT_FRAMES];
        for (frame, planned) in frames.iter_mut().zip(&self.planned) {
            frame.header = match planned.header {
                HeaderAt::Ring(at) => &memory[at..at + planned.header_len],
                HeaderAt::Scratch(i) => &self.headers[i][..planned.header_len],
            };
            frame.payload = &memory[planned.payload.0..planned.payload.1];
            frame.ecn = planned.ecn;
        }
        hand_over(&mut *self.device, &frames[..self.planned.len()]);
        self.planned.len()
    }
}

/// The longest ADU that we take: a record that comes in pieces is held until it is whole, so it has to fit
/// into the window.
fn longest_adu(cfg: &tcp::Config) -> u32 {
    cfg.initial_recv_window - RECORD_OVERHEAD
}

/// More than a record adds to its body.
const RECORD_OVERHEAD: u32 = 64;

/// How long the device may stay full before what is left counts as lost.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// Gives frames to the device, which may have to drain first.
fn hand_over(device: &mut dyn Device, mut frames: &[TxFrame<'_>]) {
    loop {
        match device.transmit(frames) {
            Ok(taken) if taken >= frames.len() => return,
            Ok(taken) => frames = &frames[taken..],
            Err(error) => {
                tracing::warn!(%error, "cannot send");
                return;
            }
        }
        if !device.wait(Some(FULL_WAIT), true).unwrap_or(false) {
            return;
        }
    }
}

/// Writes a header with its checksum; `payload_sum` is over the `payload_len` bytes after it.
fn emit(mut header: Header, room: &mut [u8], payload_sum: Sum, payload_len: usize) -> usize {
    header.checksum = 0;
    let len = header.emit(room);
    let sum = pseudo_header_sum(len + payload_len) + header_sum(&room[..len]) + payload_sum;
    room[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    len
}

/// The sum of a header: a multiple of four bytes, at most sixty.
fn header_sum(bytes: &[u8]) -> Sum {
    let (words, _) = bytes.as_chunks::<4>();
    Sum::from_words(words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum())
}

fn key(tuple: &Tuple) -> Key {
    Key { remote: tuple.remote, local_port: tuple.local_port, remote_port: tuple.remote_port }
}
