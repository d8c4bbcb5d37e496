//! The stack: an interface, the IP layer over it, and sockets. It reads no clock and never blocks but in
//! [`Stack::wait`]; time is an argument.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Waker;
use fusewire_device::interface::{Capabilities, Interface, Link, TxPacket, relay};
use fusewire_kernels::Transform;
use fusewire_net::{Config as NetConfig, Layer};
use fusewire_transport::isn::Generator;
use fusewire_transport::machine::Secrets;
use fusewire_transport::tcp::State;
use fusewire_transport::timer::Wheel;
use siphasher::sip128::{Hasher128, SipHasher13};

mod upkeep;

use super::below::Below;
use super::coexist::Coexistence;
use super::config::{Config, Counters, Error, Event, Result, SocketId};
use super::input::Direct;
use super::output::{Offload, Output};
use super::pending::Pending;
use super::replies::Replies;
use super::table::{Flow, Protocol, Socket, Table};
use crate::watch::Watch;

/// Resolution of timers.
const TICK: Duration = Duration::from_micros(250);
/// How often an answer of the peer is taken as news of the next hop.
const CONFIRM: Duration = Duration::from_secs(1);
/// How often a destination that is being resolved is tried again.
const RESOLVE_RETRY: Duration = Duration::from_millis(10);
/// How often what was sent to ourselves comes back in one call. What is sent then waits for the next.
const LOOPS: usize = 32;

/// An interface with IP, UDP and TCP over it.
///
/// How to drive it:
/// - [`poll`](Stack::poll) when the interface has packets (its descriptor is readable), when
///   [`poll_timeout`](Stack::poll_timeout) has come, and otherwise as often as is convenient: it
///   receives what waits, runs timers, and sends.
/// - Calls on sockets only queue what they send: [`transmit`](Stack::transmit) or the next `poll` puts
///   it on the wire.
/// - [`poll_event`](Stack::poll_event) until it gives nothing tells what happened to which socket.
///
/// Nothing is allocated for a packet. Sockets, queues, rings and tables have the bounds of [`Config`].
pub struct Stack {
    pub(super) interface: Below,
    pub(super) core: Core,
    /// The kernel, where we live on its addresses.
    pub(super) coexistence: Option<Box<Coexistence>>,
    /// When to look for changes of the interface; at once when there is none.
    pub(super) look_at: Option<Instant>,
    /// The packet of the interface's batch that comes next, and how many there are.
    next: usize,
    batch: usize,
}

/// A stack without its interface, so that a packet can lie in the one while it is handled by the other.
pub(super) struct Core {
    pub config: Config,
    pub layer: Layer,
    pub table: Table,
    pub counters: Counters,
    pub output: Output,
    /// The connection that the last segment was for.
    pub last: Option<(Flow, u32)>,
    pub isn: Generator,
    pub secrets: Secrets,
    timers: Wheel,
    /// Sockets that may have something to send.
    dirty: VecDeque<u32>,
    /// Sockets with events.
    eventful: VecDeque<u32>,
    /// Connections in TIME-WAIT, oldest first.
    time_wait: VecDeque<SocketId>,
    /// Connections whose next hop is being asked for.
    resolving: Vec<u32>,
    /// Answers that wait for the same.
    pub replies: Replies,
    resolve_at: Option<Instant>,
    /// The IP layer's, when it was last looked at.
    generation: u64,
    /// UDP sockets with staged messages.
    pub staged: Vec<SocketId>,
    /// When they have to leave, where that was promised.
    pub flush_at: Option<Instant>,
    /// When a message was last gathered.
    pub gathered_at: Instant,
    /// A datagram that was put together from fragments.
    pub scratch: Vec<u8>,
    /// What a pipeline makes of a message.
    pub message: Vec<u8>,
    /// Those of messages that are marshalled; `None` before the first, and while it is in use.
    pub passes: Option<Transform>,
    /// A frame of the IP layer's own, and how long it is while the device has no room for it.
    frame: Vec<u8>,
    frame_len: usize,
    /// The IP layer may have frames of its own to send.
    pub layer_speaks: bool,
    /// Messages whose next hop is being asked for.
    pub pending: Pending,
    /// Others on this host have ports on our addresses.
    pub shares: bool,
    /// Ports that a socket used and does not use any more.
    pub freed: Vec<(Protocol, u16)>,
    /// A capture under way.
    pub watch: Watch,
}

impl Stack {
    /// A stack on an interface. `seed` is secret and random: initial sequence numbers, cookies, ports and
    /// hashes are keyed with it.
    pub fn new(
        interface: Box<dyn Interface>,
        mut net: NetConfig,
        config: Config,
        seed: [u8; 32],
        now: Instant,
    ) -> Stack {
        net.loopback |= config.loopback;
        let caps = interface.capabilities();
        let key = |purpose: u8| {
            let (front, back) = seed.split_at(16);
            let mut hasher = SipHasher13::new_with_key(front.try_into().unwrap_or(&[0; 16]));
            std::hash::Hasher::write(&mut hasher, back);
            std::hash::Hasher::write_u8(&mut hasher, purpose);
            hasher.finish128().as_bytes()
        };
        let secrets = Secrets { isn: key(1), cookie: key(2) };
        let max = config.max_sockets.max(1);
        let core = Core {
            layer: Layer::new(net, &seed, now),
            table: Table::new(max, key(3)),
            counters: Counters::default(),
            output: Output::new(caps),
            last: None,
            isn: Generator::new(&secrets.isn),
            secrets,
            timers: Wheel::new(now, TICK, max),
            dirty: VecDeque::with_capacity(max),
            eventful: VecDeque::with_capacity(max),
            time_wait: VecDeque::new(),
            resolving: Vec::new(),
            replies: Replies::new(),
            resolve_at: None,
            generation: 0,
            staged: Vec::new(),
            flush_at: None,
            gathered_at: Instant::ZERO,
            scratch: Vec::new(),
            message: Vec::new(),
            passes: None,
            frame: vec![0; caps.max_packet_bytes.clamp(1600, 65_600)],
            frame_len: 0,
            layer_speaks: true,
            pending: Pending::default(),
            shares: false,
            freed: Vec::new(),
            watch: Watch::default(),
            config,
        };
        Stack {
            interface: Below::new(interface, &core.layer),
            core,
            coexistence: None,
            look_at: None,
            next: 0,
            batch: 0,
        }
    }

    // ---- driving

    /// Receives what waits, runs timers, sends what may leave. True if there was work.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn poll(&mut self, now: Instant) -> io::Result<bool> {
        self.follow(now)?;
        let received = self.receive(now, &mut Direct::None)?;
        Ok(self.poll_rest(now)? || received > 0)
    }

    /// As [`Stack::poll`], for who has just received by [`Stack::tcp_read_into`] or
    /// [`Stack::udp_recv_batch`]: runs timers and sends.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn poll_rest(&mut self, now: Instant) -> io::Result<bool> {
        // Who takes packets by another call hears of the interface here alone.
        self.follow(now)?;
        let mtu = self.interface.capabilities().mtu;
        if mtu != self.core.output.offload.mtu {
            self.core.output.offload = Offload::of(self.interface.capabilities());
            self.core.layer.set_mtu(mtu);
        }
        let timed = self.core.run_timers(now);
        let sent = self.transmit(now)?;
        Ok(timed || sent)
    }

    /// Packets wait because the interface is full: look again soon, or when it can be written to.
    pub fn is_blocked(&self) -> bool {
        !self.core.output.is_empty() || self.core.layer_is_blocked() || self.core.pending.is_blocked
    }

    /// Connections that are neither over nor in TIME-WAIT.
    pub fn unfinished(&self) -> usize {
        let table = &self.core.table;
        let streams = (0..table.slots.len() as u32).filter_map(|index| table.stream_seen(index));
        streams.filter(|s| !s.over && s.tcp.state() != State::TimeWait).count()
    }

    /// Takes one batch of packets, or what was left of the last, as far as the reader's memory takes it;
    /// returns how many there were.
    pub(super) fn receive(&mut self, now: Instant, direct: &mut Direct<'_>) -> io::Result<usize> {
        if self.next == self.batch {
            (self.next, self.batch) = (0, 0);
            self.batch = self.interface.receive()?;
        }
        let first = self.next;
        self.core.watch.now = now;
        while self.next < self.batch {
            let packet = self.interface.packet(self.next);
            if direct.is_full_for(&packet) {
                break;
            }
            self.next += 1;
            self.core.input(now, &packet, direct);
            self.core.watch.received(&packet);
        }
        let count = self.next - first;
        if count > 0 {
            self.core.watch.flush();
            self.core.settle_dirty();
        }
        Ok(count)
    }

    /// Packets of the last batch, or to ourselves, were left for the next call: there is something to do at once.
    pub fn has_unread(&self) -> bool {
        self.next < self.batch || self.interface.has_looped()
    }

    /// Sends what may leave. True if there was something.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn transmit(&mut self, now: Instant) -> io::Result<bool> {
        let before = self.core.counters.sent;
        self.core.watch.now = now;
        self.send_all(now)?;
        for _ in 0..LOOPS {
            if !self.take_looped(now) {
                break;
            }
            self.send_all(now)?;
        }
        Ok(self.core.counters.sent != before)
    }

    /// What we sent to ourselves comes back; false when there was nothing.
    fn take_looped(&mut self, now: Instant) -> bool {
        let loopback = self.interface.loopback.as_mut();
        let Some(batch) = loopback.and_then(|loopback| loopback.take()) else { return false };
        for packet in batch.iter() {
            self.core.input_looped(now, &packet);
            self.core.watch.received(&packet);
        }
        if let Some(loopback) = &mut self.interface.loopback {
            loopback.give_back(batch);
        }
        self.core.watch.flush();
        self.core.settle_dirty();
        true
    }

    /// Gives all that may leave to the interface, and to ourselves.
    fn send_all(&mut self, now: Instant) -> io::Result<()> {
        loop {
            let all = self.core.collect(now);
            let core = &mut self.core;
            let (interface, table) = (&mut self.interface, &core.table);
            let drained = core.output.flush(
                interface,
                &core.layer,
                table,
                &mut core.counters,
                &mut core.watch,
            )?;
            if all || !drained {
                break;
            }
        }
        self.flush_staged(now)?;
        self.flush_pending(now)?;
        self.transmit_layer(now)?;
        if self.core.shares {
            self.release_ports();
            if self.ask_kernel(now) {
                self.core.retry_resolving(now);
                return self.send_all(now);
            }
        }
        Ok(())
    }

    /// Gives packets to the interface; how many it took.
    pub(super) fn give(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let taken = self.interface.transmit(packets, &self.core.layer)?;
        self.core.counters.sent += taken as u64;
        self.core.watch.sent(&packets[..taken], |_| ["", ""]);
        Ok(taken)
    }

    /// Sends the IP layer's own frames: questions for neighbours, answers, errors.
    fn transmit_layer(&mut self, now: Instant) -> io::Result<()> {
        let core = &mut self.core;
        if !core.layer_speaks {
            return Ok(());
        }
        loop {
            if core.frame_len == 0 {
                let Some(len) = core.layer.poll_transmit(now, &mut core.frame) else {
                    core.layer_speaks = false;
                    return Ok(());
                };
                core.frame_len = len;
            }
            let header = &core.frame[..core.frame_len];
            let packet = TxPacket { header, ..TxPacket::default() };
            if self.interface.transmit(&[packet], &core.layer)? == 0 {
                return Ok(());
            }
            core.counters.sent += 1;
            core.watch.sent(&[packet], |_| ["", ""]);
            core.frame_len = 0;
        }
    }

    /// [`Stack::transmit`] has something to do.
    pub fn wants_transmit(&self) -> bool {
        let core = &self.core;
        core.layer_speaks
            || self.interface.has_looped()
            || !core.dirty.is_empty()
            || !core.output.is_empty()
            || !core.freed.is_empty()
    }

    /// When to call [`Stack::poll`] at the latest, unless it [is blocked](Stack::is_blocked): then also when the interface can be
    /// written to.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let core = &self.core;
        let times = [
            core.timers.next_deadline(),
            core.resolve_at,
            core.layer.poll_timeout().filter(|_| !core.layer_is_blocked()),
            core.pending.deadline(),
            core.flush_at,
            self.kernel_timeout(),
            self.interface.has_looped().then_some(Instant::ZERO),
        ];
        times.into_iter().flatten().min()
    }

    /// When messages that were gathered have to leave.
    pub(super) fn gathers_until(&self) -> Option<Instant> {
        self.core.flush_at
    }

    /// Settings of an IP layer for an interface: its link, MAC address and MTU, and nothing else.
    pub fn net_config(interface: &dyn Interface) -> NetConfig {
        let caps = interface.capabilities();
        let link = match (caps.link, caps.mac) {
            (Link::Ethernet, Some(mac)) => {
                fusewire_net::Link::Ethernet(fusewire_wire::ethernet::Address(mac))
            }
            _ => fusewire_net::Link::Ip,
        };
        NetConfig { mtu: caps.mtu, ..NetConfig::new(link) }
    }

    /// What happened to a socket; `None` when nothing new did.
    pub fn poll_event(&mut self) -> Option<(SocketId, Event)> {
        let core = &mut self.core;
        while let Some(index) = core.eventful.front().copied() {
            let slot = &mut core.table.slots[index as usize];
            if let Some(event) = slot.events.pop() {
                return Some((core.table.id(index), event));
            }
            slot.eventful = false;
            core.eventful.pop_front();
        }
        None
    }

    /// Sleeps until there is something to do, the interface can be written to (when `want_write`), or `timeout` has
    /// passed: false. `now` is the time at which it begins. May wake for nothing.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    pub fn wait(
        &mut self,
        now: Instant,
        timeout: Option<Duration>,
        want_write: bool,
    ) -> io::Result<bool> {
        let due = self.poll_timeout().map(|at| at.saturating_since(now));
        let timeout = match (timeout, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if self.has_unread() {
            return Ok(true);
        }
        let full = want_write || !self.core.output.is_empty();
        // It wakes for changes too.
        self.look_at = None;
        self.interface.wait(timeout, full)
    }

    /// Wakes [`Stack::wait`] from another thread.
    pub fn waker(&self) -> Waker {
        self.interface.waker()
    }

    /// What the interface got.
    pub fn capabilities(&self) -> &Capabilities {
        self.interface.capabilities()
    }

    /// Most bytes of the datagrams that leave as one super-frame.
    pub fn udp_super_frame_max(&self, is_v6: bool) -> usize {
        self.core.output.offload.udp_payload_max(is_v6)
    }

    /// From now on packets are sent by a thread of its own, which is given copies of them: for where that leaves more of the
    /// time of who drives the stack to other work than the copies take.
    ///
    /// # Errors
    /// `Unsupported`: the interface cannot; there is no such processor, no descriptor or no thread.
    pub fn send_by_thread(&mut self, config: relay::Config) -> io::Result<()> {
        self.interface.relay(config)
    }

    /// From now on packets are received by a thread of its own, which copies them and sums them on the way. What was
    /// received before and not handled is lost, as on any network.
    ///
    /// # Errors
    /// As [`Stack::send_by_thread`].
    pub fn receive_by_thread(&mut self, config: relay::Config) -> io::Result<()> {
        self.interface.intake(config, self.core.config.level)?;
        (self.next, self.batch) = (0, 0);
        Ok(())
    }

    /// What can be read when packets wait, where there is such a descriptor; another one after [`Stack::receive_by_thread`].
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interface.as_fd()
    }

    /// The interface itself.
    pub fn interface(&self) -> &dyn Interface {
        &*self.interface
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// The IP layer.
    pub fn layer(&self) -> &Layer {
        &self.core.layer
    }

    /// The way to `destination`, from `source` when that is fixed already; a next hop that is not known is asked for.
    ///
    /// # Errors
    /// See [`NoPath`](fusewire_net::NoPath).
    pub fn route(
        &mut self,
        now: Instant,
        destination: IpAddr,
        source: Option<IpAddr>,
    ) -> Result<fusewire_net::Via, fusewire_net::NoPath> {
        self.core.layer_speaks = true;
        self.core.layer.route(now, destination, source)
    }

    /// Adds a route; false when there is no room.
    pub fn add_route(&mut self, route: fusewire_net::Route) -> bool {
        self.core.layer.add_route(route)
    }

    /// Takes a route away.
    pub fn remove_route(&mut self, route: &fusewire_net::Route) {
        self.core.layer.remove_route(route);
    }

    /// Gives the interface an address; false when there is no room.
    pub fn add_address(&mut self, now: Instant, address: fusewire_net::Cidr) -> bool {
        self.core.layer_speaks = true;
        self.core.layer.add_address(now, address)
    }

    /// What it was told.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// TCP's settings of sockets that are made from now on, where they do not say otherwise.
    pub fn set_tcp_config(&mut self, config: super::TcpConfig) {
        self.core.config.tcp = config;
    }

    /// Sockets at present, those included that the application has closed and the network has not.
    pub fn sockets(&self) -> usize {
        self.core.table.len()
    }

    /// Ends the use of a socket. A connection sends what was written and then FIN, or, when there is something that nobody has
    /// read, what of it may leave at once and then RST; a listener resets what nobody has accepted.
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<()> {
        if self.core.table.udp(id).is_ok_and(|udp| !udp.closed) {
            // An interface that is gone takes nothing, and says so elsewhere.
            let _ = self.flush_udp(now, id);
        }
        match self.core.table.socket(id)? {
            Socket::Udp(udp) => {
                if std::mem::replace(&mut udp.closed, true) {
                    return Err(Error::NoSocket);
                }
                let (protocol, port) = (udp.protocol, udp.local.port());
                self.core.layer_speaks = true;
                self.core.layer.leave_groups(now, id.index);
                self.core.table.unbind(protocol, port, id.index);
                self.core.forget_sent(id);
                self.core.free_port(protocol, port);
                self.core.speak_xtp();
            }
            Socket::Listener(listener) => {
                let (port, mut waiting) =
                    (listener.local.port(), std::mem::take(&mut listener.waiting));
                if listener.defer.is_some() {
                    waiting.extend(self.core.table.deferred_of(id));
                }
                self.core.table.unbind(Protocol::Tcp, port, id.index);
                self.core.timers.cancel(id.index);
                self.core.table.remove(id.index);
                self.core.free_port(Protocol::Tcp, port);
                for stream in waiting {
                    // One that died meanwhile has nothing to end.
                    if self.abort(now, stream).is_ok() {
                        self.close(now, stream)?;
                    }
                }
            }
            Socket::Stream(stream) => {
                if stream.readable() > 0 {
                    self.send_written(now, id)?;
                }
                self.core.close_stream(now, id)?;
            }
        }
        Ok(())
    }

    /// Ends a connection at once: the peer is reset, behind what was written and may leave. The socket stays until it is closed.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn abort(&mut self, now: Instant, id: SocketId) -> Result<()> {
        self.send_written(now, id)?;
        self.core.table.stream(id)?.tcp.abort();
        self.core.mark(id.index);
        self.core.settle(id.index);
        Ok(())
    }

    /// Before a connection ends at once: what may leave of what was written is on its way, as if it had been sent when it was
    /// written.
    fn send_written(&mut self, now: Instant, id: SocketId) -> Result<()> {
        if self.core.table.stream(id)?.unsent() > 0 {
            // Nothing will follow that would fill a segment.
            self.core.table.stream(id)?.tcp.push();
            self.core.mark(id.index);
            let _ = self.transmit(now);
        }
        Ok(())
    }

    /// What failed on a socket since it was last asked.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn take_error(&mut self, id: SocketId) -> Result<Option<Error>> {
        Ok(match self.core.table.socket(id)? {
            Socket::Udp(udp) => udp.error.take(),
            Socket::Stream(stream) => stream.error,
            Socket::Listener(_) => None,
        })
    }

    /// The address that a socket is bound to.
    ///
    /// # Errors
    /// [`Error::NoSocket`].
    pub fn local_addr(&mut self, id: SocketId) -> Result<SocketAddr> {
        Ok(self.core.table.socket(id)?.local())
    }
}

/// Payload and options of a TCP segment in an IP packet of `mtu` bytes.
pub(super) fn mss(mtu: usize, ipv4: bool) -> u16 {
    let headers = if ipv4 { 40 } else { 60 };
    mtu.saturating_sub(headers).clamp(64, 65_535) as u16
}
