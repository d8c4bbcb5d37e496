//! The stack: a device, the connections over it, and nothing that blocks but [`Stack::wait`].

mod calls;
mod capture;
mod input;
#[cfg(feature = "view")]
mod observe;
mod output;
mod room;
mod sizes;

pub(crate) use output::hand_over;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::{Device, Ecn, RxBatch, Waker};
use fusewire_session::{
    Check, ClientConfig, Datagrams, Fingerprint, Handshake, Marshal, Options, Rendezvous,
    ServerConfig, Side,
};
use fusewire_transport::machine::{
    Connection as _, Counters, Header as _, Info, Listener as _, Protocol as _, Secrets, Sizes,
    Stage,
};
use fusewire_transport::timer::Wheel;

use crate::asked::Asked;
use crate::calls::Calls;
use crate::clock::Clock;
use crate::config::Config;
use crate::connection::{Connection, Event, HANDSHAKE_WINDOW, Segment};
use crate::drops::{Cause, Drops};
use crate::generations::Generations;
use crate::machine::{
    Ends, Flow, Header, Listener, ListenerAction, Settings, Transport, set_trailers, settings,
};
use crate::path::Path;
use crate::path::question::Nonces;
use crate::pieces::Payload;
use crate::watch::Watch;
use crate::{ConnectionId, Error, Result};

/// Super-packets taken from the device in one call.
const RECEIVE_SLOTS: usize = 8;
/// Frames given to the device in one call.
const TRANSMIT_FRAMES: usize = 128;
/// Bytes queued by `send` before they leave without being asked for, where no super-packet is longer.
const FLUSH_BYTES: usize = 60 << 10;
/// Bytes of a datagram before the path is known (RFC 8899, section 5.1.2).
const BASE_DATAGRAM: usize = 1200;
/// How long acknowledgements of bulk wait for what comes with it, while frames are looked for.
const ACK_WAIT: Duration = Duration::from_micros(20);
/// How long they wait where frames of other connections keep coming: less than a tail loss probe does.
const ACK_WAIT_MAX: Duration = Duration::from_millis(1);
/// Bytes that come without payload of ours in between before frames are waited for with naps.
const STREAM_BYTES: u64 = 1 << 20;
/// What a nap must bring for another one.
const NAP_BYTES: u64 = 32 << 10;
/// How long a nap is, to which the kernel adds its own slack (50 µs, unless it is told otherwise). Twice that fits well
/// into a window at any rate that is seen here.
const NAP: Duration = Duration::from_micros(30);
/// Resolution of timers.
const TICK: Duration = Duration::from_micros(500);

/// Which endpoint of a stack a datagram belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    remote: SocketAddr,
    flow: Flow,
}

/// Time spent in the three steps, without system calls: the paper's packet processing time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profile {
    /// Seconds in `send`, in building segments, and in bringing what was staged to where it is sent from.
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
    payload: Payload,
    ecn: Ecn,
    kind: crate::trace::Kind,
}

/// How far the received batch was worked through.
#[derive(Clone, Copy, Default)]
struct Cursor {
    /// Super-packets before this one are done.
    packet: usize,
    /// Bytes of it that are done.
    at: usize,
    /// The next frame has come before: somebody wanted only some of its records.
    again: bool,
    /// When the batch came.
    now: Instant,
    /// The connection of the last frame: a super-packet's frames have one sender.
    last: Option<(Key, u32)>,
}

/// The stack. Single-threaded and without blocking: [`Endpoint`](crate::Endpoint) wraps it for
/// applications that want to block or await.
pub struct Stack {
    device: Box<dyn Device>,
    batch: Option<RxBatch>,
    cursor: Cursor,
    clock: Clock,
    config: Config,
    connections: Vec<Option<Box<Connection>>>,
    generations: Generations,
    table: HashMap<Key, u32>,
    /// To find a peer whose address has changed.
    by_flow: HashMap<Flow, u32>,
    /// Memory of the question that is being asked.
    question: Vec<u8>,
    /// Connections that a device event ended.
    unreachable: Vec<u32>,
    nonces: Nonces,
    dirty: Vec<u32>,
    /// Connections that owed acknowledgements when they last had their turn.
    owing: Vec<u32>,
    /// When the first of them came.
    owing_since: Instant,
    /// Connections whose events were not all taken.
    eventful: VecDeque<u32>,
    /// Connections that came into TIME-WAIT, and perhaps have ended since, first in front.
    waiting: VecDeque<ConnectionId>,
    timers: Wheel,
    listening: Option<Listening>,
    /// Keys the numbers of connections that we open.
    key: [u8; 16],
    next_flow: u16,
    headers: Box<[[u8; Header::LEN_MAX]; TRANSMIT_FRAMES]>,
    planned: Vec<Planned>,
    /// Pieces of what was pushed, with their trailers, until they have left.
    detour: Vec<u8>,
    drops: Drops,
    /// Cookies that listeners before this one gave out.
    cookies: u64,
    profile: Option<Profile>,
    last_work: Instant,
    /// Bytes that have come since payload of ours left, and how many they were at the last nap.
    streamed: u64,
    napped_at: u64,
    /// Connections of which nobody waits for anything.
    done: usize,
    /// Where [`Stack::evict`] looks first.
    evict_from: usize,
    /// A capture under way.
    watch: Watch,
    /// What those ask who look on, and that they may.
    asked: Option<Asked<Stack>>,
    /// What connections counted that are gone, and what listeners dropped.
    past: Counters,
    /// Calls beside sessions' streams.
    calls: Calls,
}

/// The connection of that name, where more of the stack is needed beside it.
fn of<'c>(
    connections: &'c mut [Option<Box<Connection>>],
    generations: &Generations,
    id: ConnectionId,
) -> Option<&'c mut Connection> {
    if !generations.is_current(id.index, id.generation) {
        return None;
    }
    connections[id.index as usize].as_deref_mut()
}

impl Stack {
    /// A stack over `device`. `seed` keys the initial sequence numbers and the questions about paths: 32 secret
    /// random bytes.
    pub fn new(device: Box<dyn Device>, config: Config, seed: &[u8; 32]) -> Self {
        let clock = config.clock.clone();
        let now = clock.now();
        let mut key = [0; 16];
        key.copy_from_slice(&seed[..16]);
        let max = config.max_connections;
        Stack {
            device,
            batch: Some(RxBatch::new(RECEIVE_SLOTS)),
            cursor: Cursor::default(),
            clock,
            connections: Vec::new(),
            generations: Generations::default(),
            table: HashMap::new(),
            by_flow: HashMap::new(),
            question: Vec::new(),
            unreachable: Vec::new(),
            nonces: Nonces::new(seed),
            dirty: Vec::new(),
            owing: Vec::new(),
            owing_since: now,
            eventful: VecDeque::new(),
            waiting: VecDeque::new(),
            timers: Wheel::new(now, TICK, max),
            listening: None,
            key,
            next_flow: u16::from_ne_bytes([seed[30], seed[31]]),
            headers: Box::new([[0; Header::LEN_MAX]; TRANSMIT_FRAMES]),
            planned: Vec::with_capacity(TRANSMIT_FRAMES),
            detour: Vec::new(),
            drops: Drops::default(),
            cookies: 0,
            profile: None,
            last_work: now,
            streamed: 0,
            napped_at: 0,
            done: 0,
            evict_from: 0,
            watch: Watch::default(),
            asked: None,
            past: Counters::default(),
            calls: Calls::new(seed),
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
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// What the stack and its device have dropped: names of causes, and how often each was.
    pub fn dropped(&self) -> Vec<(&'static str, u64)> {
        self.drops.named().chain(self.device.drops()).filter(|(_, n)| *n > 0).collect()
    }

    /// Answers a question, if there is one.
    #[inline]
    fn answer(&mut self) {
        if let Some(question) = self.asked.as_ref().and_then(Asked::next) {
            question(self);
        }
    }

    /// SYNs answered with a cookie, because too many handshakes were half open.
    pub fn cookies(&self) -> u64 {
        self.cookies + self.listening.as_ref().map_or(0, |l| l.listener.cookies_given())
    }

    /// Connections that are open or closing.
    pub fn connections(&self) -> usize {
        self.generations.taken()
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
    /// when there are too many connections, or for a check that the transport has not.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        port: u16,
        client: &ClientConfig,
    ) -> Result<ConnectionId> {
        self.config.check_fits()?;
        let now = self.clock.now();
        let remote = self.device.named(remote);
        let mut settings = handshaking(&self.settings(remote));
        if self.config.check == Check::Cxor {
            // Which cipher it will be the server says, and beside a tag there is no other check.
            let has_tags = client.settings.ciphers.iter().any(|cipher| cipher.tag_len > 0);
            set_trailers(&mut settings, !has_tags);
        }
        let mut client = client.clone();
        client.settings.body_len_max = self.body_len_max(client.settings.body_len_max);
        let handshake = Handshake::client(&client)?;
        let flow = self.free_flow(now, remote, port);
        let ends = Ends { local: self.device.local_addr(), remote, flow };
        let machine = settings.connect(&ends, port, &self.key, now);
        let index = self.insert(ends, machine, handshake)?;
        let id = self.id(index);
        self.schedule_handshake(index, now);
        if let Some(connection) = &mut self.connections[index as usize]
            && connection.machine.opens_with_data()
        {
            connection.flush_session();
        }
        self.settle(index);
        self.transmit();
        Ok(id)
    }

    /// Takes connections to `port` from now on; `Event::Connected` tells of each.
    pub fn listen(&mut self, port: u16, mut server: ServerConfig, secrets: &Secrets) {
        let local = self.device.local_addr();
        let mut settings = handshaking(&self.settings(local));
        if self.config.check == Check::Cxor {
            set_trailers(&mut settings, true);
        }
        server.settings.body_len_max = self.body_len_max(server.settings.body_len_max);
        self.listening = Some(Listening {
            listener: settings.listen(self.config.backlog, secrets),
            port,
            server,
        });
    }

    /// Takes no further connections; those that are open go on.
    pub fn stop_listening(&mut self) {
        self.cookies = self.cookies();
        self.listening = None;
    }

    /// True while it takes connections.
    pub fn is_listening(&self) -> bool {
        self.listening.is_some()
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

    /// Gives the connection up: the peer's application learns `code` after all that was sent before
    /// ([`Error::PeerClosed`]). `Event::Closed` follows at once; what is under way goes on, for at most as long as
    /// a handshake may take. Where nothing can be said any more, because our stream has ended or there is no
    /// session yet, it is as [`Stack::abort`].
    pub fn close(&mut self, id: ConnectionId, code: u64) {
        let deadline = self.clock.now() + self.config.handshake_timeout;
        if let Some(connection) = self.get_mut(id) {
            connection.close_with(code, deadline);
            self.settle(id.index);
            self.transmit();
        }
    }

    /// Connections that have still something to say or to hear: all but those in TIME-WAIT, and those that are over and only
    /// go on telling so to a peer that has all, and has ended.
    pub fn active(&self) -> usize {
        self.generations.taken() - self.done
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, id: ConnectionId) {
        if let Some(connection) = self.get_mut(id) {
            connection.fail(Error::Closed);
            self.mark_dirty(id.index);
            self.transmit();
        }
    }

    fn free_flow(&mut self, now: Instant, remote: SocketAddr, service: u16) -> Flow {
        loop {
            self.next_flow = self.next_flow.wrapping_add(1);
            let flow = settings(&self.config);
            let flow = flow.flow_to(service, self.next_flow, &self.key, now);
            if !self.table.contains_key(&Key { remote, flow }) {
                return flow;
            }
        }
    }

    /// The largest datagram that the path to `remote` may carry, where that has to be found out.
    fn largest_datagram(&self, remote: SocketAddr) -> Option<usize> {
        (!self.knows_path(remote)).then(|| self.device.caps().max_datagram)
    }

    fn insert(&mut self, ends: Ends, machine: Transport, handshake: Handshake) -> Result<u32> {
        if self.generations.taken() >= self.config.max_connections && !self.evict() {
            return Err(Error::Misuse("too many connections"));
        }
        let sizes = self.settings(ends.remote).sizes();
        let path = Path::new(self.largest_datagram(ends.remote));
        let ring = self.device.region(self.ring_bytes());
        let level = self.config.level;
        let mut connection =
            Box::new(Connection::new(ends, machine, handshake, path, ring, sizes, level));
        connection.packs = self.config.packs;
        connection.unchecked = self.config.check == Check::None;
        let index = self.generations.take().unwrap_or_else(|| {
            self.connections.push(None);
            self.generations.add()
        });
        self.connections[index as usize] = Some(connection);
        self.table.insert(key(&ends), index);
        self.by_flow.insert(ends.flow, index);
        self.name_also(index);
        Ok(index)
    }

    /// Finds a connection by its second name too, once that is known.
    fn name_also(&mut self, index: u32) {
        if let Some(connection) = &mut self.connections[index as usize]
            && connection.also.is_none()
            && let Some(flow) = connection.machine.also()
        {
            connection.also = Some(flow);
            self.table.insert(Key { remote: connection.ends.remote, flow }, index);
            self.by_flow.insert(flow, index);
        }
    }

    fn schedule_handshake(&mut self, index: u32, now: Instant) {
        if let Some(connection) = &mut self.connections[index as usize] {
            connection.handshake_deadline = Some(now + self.config.handshake_timeout);
        }
    }

    fn id(&self, index: u32) -> ConnectionId {
        ConnectionId { index, generation: self.generations.of(index) }
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        of(&mut self.connections, &self.generations, id)
    }

    fn get(&self, id: ConnectionId) -> Option<&Connection> {
        if !self.generations.is_current(id.index, id.generation) {
            return None;
        }
        self.connections[id.index as usize].as_deref()
    }

    // ---- ADUs ---------------------------------------------------------------------------------

    /// Seals one ADU into the retransmission memory, in one pass. False when there is no room:
    /// `Event::Writable` tells when to try again. Before [`Event::Connected`] an ADU to a server whose key is pinned goes
    /// with the handshake, and is there a round trip sooner, as far as there is room
    /// ([`EARLY_LEN_MAX`](fusewire_session::EARLY_LEN_MAX)). Full super-packets leave by themselves; call
    /// [`Stack::flush`] for the rest.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Closed`], [`Error::Untrusted`].
    pub fn send(&mut self, id: ConnectionId, adu: &[u8]) -> Result<bool> {
        self.send_by(id, |connection, _| connection.send(adu).map(usize::from)).map(|sent| sent > 0)
    }

    /// As [`Stack::send`], of ADUs of one length; how many of them had room.
    pub(crate) fn send_run(&mut self, id: ConnectionId, adus: &[&[u8]]) -> Result<usize> {
        let mut sent = 0;
        while sent < adus.len() {
            match self.send_by(id, |connection, bytes| connection.send_run(&adus[sent..], bytes))? {
                0 => break,
                more => sent += more,
            }
        }
        Ok(sent)
    }

    /// As [`Stack::send`], of an ADU that is marshalled in the one pass that seals it: `codec::pipeline::Message`
    /// makes one of a value.
    ///
    /// # Errors
    /// The errors of [`Stack::send`]; and [`Error::Session`] when the message is not as long as it says, which ends the
    /// connection.
    pub fn send_message<M: Marshal + ?Sized>(&mut self, id: ConnectionId, adu: &M) -> Result<bool> {
        let send = |connection: &mut Connection, _| connection.send_message(adu).map(usize::from);
        self.send_by(id, send).map(|sent| sent > 0)
    }

    /// `send` is told how long a super-packet is, and says how many ADUs it has sealed.
    fn send_by(
        &mut self,
        id: ConnectionId,
        send: impl FnOnce(&mut Connection, usize) -> Result<usize>,
    ) -> Result<usize> {
        let start = self.profile.is_some().then(std::time::Instant::now);
        let super_packet = self.device.caps().max_batch_bytes.max(FLUSH_BYTES);
        let connection = self.get_mut(id).ok_or(Error::Closed)?;
        let taken = send(connection, super_packet)?;
        let full = taken > 0 && connection.fills(super_packet);
        if let (Some(start), Some(profile)) = (start, &mut self.profile) {
            profile.send_s += start.elapsed().as_secs_f64();
        }
        self.mark_dirty(id.index);
        if full {
            self.transmit();
        }
        Ok(taken)
    }

    /// Bytes of ADUs that may be sealed now, at least; their records' overhead is counted.
    pub fn room(&self, id: ConnectionId) -> usize {
        self.get(id).map_or(0, Connection::room)
    }

    /// As [`Stack::room`], for records of `len` bytes. When there is no room for one, and something is under
    /// way that will make room, zero: `Event::Writable` follows as after [`Stack::send`]. Otherwise at least `len`.
    pub fn room_for(&mut self, id: ConnectionId, len: usize) -> usize {
        self.get_mut(id).map_or(0, |c| c.room_for(len))
    }

    /// Puts everything that may leave on the wire.
    pub fn flush(&mut self) {
        self.transmit();
    }

    /// Tells peers of windows that ADUs taken since have opened, where that should not wait for the next
    /// [`Stack::poll`].
    pub fn flush_due(&mut self) {
        let is_due = |&index: &u32| {
            self.connections[index as usize].as_ref().is_some_and(|c| c.machine.wants_ack())
        };
        if self.dirty.iter().any(is_due) {
            self.transmit();
        }
    }

    /// The next ADU in order, if it is there; give the buffer back with [`Stack::recycle`].
    pub fn recv(&mut self, id: ConnectionId) -> Option<(u64, Vec<u8>)> {
        self.take(id, |c| c.inbox.next())
    }

    /// The next ADU in order is there.
    pub(crate) fn has_next(&mut self, id: ConnectionId) -> bool {
        self.get_mut(id).is_some_and(|c| c.inbox.has_next())
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
        connection.took(id, buffer.len());
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

    /// What seals and opens datagrams beside the stream, which the application carries itself, once its peer is trusted;
    /// once, as no number is sealed twice. `None` where the cipher has no tag.
    pub fn take_datagrams(&mut self, id: ConnectionId) -> Option<Datagrams> {
        self.get_mut(id)?.take_datagrams()
    }

    /// What the session can go on with over shared memory ([`shm`](crate::shm)), if both sides want it
    /// and the peer is trusted; once.
    pub fn take_rendezvous(&mut self, id: ConnectionId) -> Option<Rendezvous> {
        self.get_mut(id)?.take_rendezvous()
    }

    /// The peer's address.
    pub fn remote_addr(&self, id: ConnectionId) -> Option<SocketAddr> {
        Some(self.get(id)?.ends.remote)
    }

    /// Estimates and counters of the transport.
    pub fn info(&self, id: ConnectionId) -> Option<Info> {
        Some(self.get(id)?.machine.info())
    }

    // ---- events -------------------------------------------------------------------------------

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        while let Some(&index) = self.eventful.front() {
            let id = self.id(index);
            let event =
                self.connections[index as usize].as_mut().and_then(|c| c.events.pop_front());
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

    /// Something has happened that [`Stack::poll_event`] has not given yet.
    pub fn has_events(&self) -> bool {
        let has = |index: &u32| {
            self.connections[*index as usize].as_ref().is_some_and(|c| !c.events.is_empty())
        };
        self.eventful.iter().any(has)
    }

    /// Forgets a connection that is over and whose events were taken.
    fn reap(&mut self, index: u32) {
        let over = self.connections[index as usize].as_ref().is_some_and(|c| {
            c.is_closed()
                && c.events.is_empty()
                && c.machine.stage() == Stage::Closed
                && !c.is_dirty
        });
        if over {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        if let Some(connection) = self.connections[index as usize].take() {
            self.past.add(connection.machine.counters());
            let gone = self.id(index);
            for flow in connection.flows() {
                self.table.remove(&Key { remote: connection.ends.remote, flow });
                if self.by_flow.get(&flow) == Some(&index) {
                    self.by_flow.remove(&flow);
                }
            }
            self.cursor.last = self.cursor.last.filter(|(_, last)| *last != index);
            self.timers.cancel(index);
            self.generations.give_back(index);
            self.done -= usize::from(connection.is_counted_done);
            if let Some(calls) = &connection.calls {
                self.forget_calls(gone, calls);
            }
        }
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
        if connection.is_done() && !std::mem::replace(&mut connection.is_counted_done, true) {
            self.done += 1;
        }
        let in_time_wait = connection.machine.stage() == Stage::Lingering;
        let began = in_time_wait && !std::mem::replace(&mut connection.is_waiting, true);
        self.tell(index);
        if began {
            self.wait_for_strays(index);
        }
        self.name_also(index);
        self.may_call(index);
        self.mark_dirty(index);
    }

    /// Something happened to a connection that nobody was told of: that alone has nothing to send.
    fn tell(&mut self, index: u32) {
        if let Some(connection) = &mut self.connections[index as usize]
            && !connection.events.is_empty()
            && !std::mem::replace(&mut connection.is_eventful, true)
        {
            self.eventful.push_back(index);
        }
    }

    fn reschedule(&mut self, index: u32) {
        let Some(connection) = &self.connections[index as usize] else { return };
        let deadlines = [
            connection.machine.poll_timeout(),
            connection.handshake_deadline,
            connection.told_until,
            connection.silence.filter(|_| !connection.is_closed()).map(|s| s.due()),
            connection.path.poll_timeout(),
            connection.last_word_due(),
        ];
        self.timers.set(index, deadlines.into_iter().flatten().min());
    }
}

/// The same settings for a connection whose peer is not known yet.
fn handshaking(settings: &Settings) -> Settings {
    let (mut settings, sizes) = (settings.clone(), settings.sizes());
    let initial_recv_window = sizes.initial_recv_window.min(HANDSHAKE_WINDOW);
    settings.set_sizes(&Sizes { initial_recv_window, ..sizes });
    settings
}

fn key(ends: &Ends) -> Key {
    Key { remote: ends.remote, flow: ends.flow }
}
