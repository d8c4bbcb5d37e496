//! The encapsulated transport straight on a network interface: a [`Device`] whose datagrams are UDP of our own IP layer
//! (`docs/encapsulation.md`), so that the peer may be one too, or an ordinary UDP socket.
//!
//! ```text
//!   open      words of a user ──▶ interface, addresses, routes, held port
//!   send      frames ──▶ runs of one peer and length ──▶ packets or super-frames, in one call of the interface
//!   receive   packets ──▶ IP layer ──▶ the batch's slots, neighbours of one length together
//!   beside    the kernel's address: its neighbours and routes, told by netlink
//! ```
//!
//! The UDP checksum costs no pass over the bytes, in neither direction: a TPDU carries the checksum of its own bytes, so
//! their sum is known from its length alone ([`tpdu_sum`]). A TPDU that is damaged has another, and is dropped with its
//! datagram. What is left besides the pass of the stack is one copy each way: out of the send ring into the interface's
//! memory, and from there into the batch.

mod beside;
mod open;
mod receive;
mod send;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fusewire_base::{Instant, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::interface::{Change, Checksum, Interface, Segmentation, TxPacket};
use fusewire_device::{Capabilities, Device, Event, RxBatch, TxFrame, Waker};
use fusewire_net::{Config as NetConfig, Layer, Via};
use fusewire_wire::{ipv4, ipv6, udp};

use crate::clock::Clock;
use beside::Kernel;
use send::Headers;

pub use open::{Kind, Name, Own, Settings, connect, listen};

/// How often a device that never sleeps looks for changes of its interface.
const LOOK: Duration = Duration::from_millis(10);
/// Events that wait to be asked for.
const EVENTS_MAX: usize = 64;
/// Bytes and frames that wait for the answer of a neighbour, and how long.
const PENDING_BYTES: usize = 256 << 10;
const PENDING_FRAMES: usize = 256;
const PENDING_TIME: Duration = Duration::from_secs(3);
/// The most payload that may wait in an interface, whatever it says.
const RECEIVE_BYTES_MAX: usize = 4 << 20;

/// The sum of a TPDU whose checksum is right: what is missing to zero from its pseudo-header's.
const fn tpdu_sum(len: usize) -> Sum {
    Sum::from_folded(!pseudo_header_sum(len).folded())
}

/// What was dropped on the way in, by cause; the IP layer counts its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Not a UDP datagram.
    pub malformed: u64,
    /// Wrong checksum, the TPDU's or the datagram's.
    pub checksum: u64,
    /// For another port or protocol.
    pub stray: u64,
    /// The interface's notes on checksum or segmentation do not fit the packet.
    pub bad_offload: u64,
    /// To be sent to a next hop that did not answer, or too many while it was asked for.
    pub unresolved: u64,
}

/// A frame whose next hop is being asked for.
struct Pending {
    peer: SocketAddr,
    ecn: fusewire_device::Ecn,
    bytes: Vec<u8>,
    until: Instant,
}

/// UDP datagrams of one port, on an interface.
pub struct OnInterface {
    interface: Box<dyn Interface>,
    layer: Layer,
    clock: Clock,
    local: SocketAddr,
    caps: Capabilities,
    /// Whose address it is, where that is the kernel's.
    kernel: Option<Kernel>,
    /// The way to whom was last sent to.
    via: Option<Via>,
    headers: Box<Headers>,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// The IP layer's generation when what waits was last tried.
    pending_generation: u64,
    events: VecDeque<Event>,
    drops: Drops,
    /// A frame of the IP layer's own, and its length while the interface has no room for it.
    frame: Vec<u8>,
    frame_len: usize,
    /// The IP layer may have something to say.
    speaks: bool,
    look_at: Instant,
    /// The packet of the interface's batch that comes next, and how many there are.
    next: usize,
    count: usize,
}

impl OnInterface {
    /// Datagrams to and from `local`, an address that `net` gives the interface. `seed` is secret and random.
    ///
    /// [`listen`] and [`connect`] do all that comes before.
    pub fn new(
        interface: Box<dyn Interface>,
        net: NetConfig,
        local: SocketAddr,
        seed: &[u8; 32],
        clock: Clock,
    ) -> OnInterface {
        let now = clock.now();
        let mut device = OnInterface {
            frame: vec![0; interface.capabilities().max_packet_bytes.clamp(1600, 65_600)],
            interface,
            layer: Layer::new(net, seed, now),
            clock,
            local,
            caps: Capabilities::default(),
            kernel: None,
            via: None,
            headers: Box::new(Headers::new()),
            pending: VecDeque::new(),
            pending_bytes: 0,
            pending_generation: 0,
            events: VecDeque::new(),
            drops: Drops::default(),
            frame_len: 0,
            speaks: true,
            look_at: now,
            next: 0,
            count: 0,
        };
        device.describe();
        device
    }

    /// Brings the capabilities up to date with the interface's.
    fn describe(&mut self) {
        let interface = self.interface.capabilities();
        let headers = udp::HEADER_LEN
            + if self.local.is_ipv4() { ipv4::MIN_HEADER_LEN } else { ipv6::HEADER_LEN };
        let max_datagram = interface.mtu.saturating_sub(headers);
        let receive_buffer_bytes = self.interface.queue_packets().saturating_mul(max_datagram);
        self.caps = Capabilities {
            name: interface.name,
            max_datagram,
            segmentation_offload: interface.udp_segmentation && interface.checksum,
            receive_offload: interface.receive_offload,
            max_batch_bytes: send::super_frame_max(interface, headers),
            is_whole_path: false,
            receive_buffer_bytes: receive_buffer_bytes.min(RECEIVE_BYTES_MAX),
            notes: interface.notes.clone(),
        };
    }

    /// What was dropped.
    pub fn drops(&self) -> Drops {
        self.drops
    }

    /// The interface below.
    pub fn interface(&self) -> &dyn Interface {
        &*self.interface
    }

    fn tell(&mut self, event: Event) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// What is to be done between packets: changes of the interface, timers, the IP layer's own frames, and what waited
    /// for a neighbour.
    ///
    /// # Errors
    /// The interface's, when it is broken or gone.
    fn upkeep(&mut self, now: Instant) -> io::Result<()> {
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.follow(now)?;
        }
        if self.layer.poll_timeout().is_some_and(|at| at <= now) {
            self.layer.handle_timeout(now);
            self.speaks = true;
        }
        if self.speaks {
            self.transmit_layer(now)?;
        }
        if !self.pending.is_empty() {
            self.flush_pending(now)?;
        }
        Ok(())
    }

    /// Follows what happens to the interface.
    fn follow(&mut self, now: Instant) -> io::Result<()> {
        let mut is_removed = false;
        while let Some(change) = self.interface.poll_change() {
            match change {
                Change::Gone => return Err(gone(&self.caps.notes)),
                Change::Mtu(mtu) => {
                    self.layer.set_mtu(mtu);
                    self.describe();
                }
                // What cannot be sent while the link is down is lost, as on any network.
                Change::Running(_) => {}
                Change::AddressRemoved(address) => is_removed |= address == self.local.ip(),
                Change::Neighbour(address, station) => {
                    if let Some(kernel) = &mut self.kernel {
                        kernel.told(&mut self.layer, address, station);
                    }
                }
                Change::Routes | Change::Overrun => {
                    if let Some(kernel) = &mut self.kernel {
                        kernel.read_again(&mut self.layer)?;
                    }
                }
                Change::AddressAdded(..) => {}
            }
        }
        let Some(kernel) = &mut self.kernel else { return Ok(()) };
        if is_removed && !kernel.has(self.local.ip())? {
            // A link that is deleted loses its addresses first.
            if kernel.is_gone()? {
                return Err(gone(&self.caps.notes));
            }
            let what = format!("the kernel no longer has the address {}", self.local.ip());
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, what));
        }
        kernel.refresh(&mut self.layer, now);
        Ok(())
    }

    /// What an error of the interface means: a link that is down comes back, one that was deleted is said to be.
    fn broken(&mut self, now: Instant, error: io::Error) -> io::Result<()> {
        self.follow(now)?;
        if is_down(&error) {
            return Ok(());
        }
        // A TAP without its link says no more than this.
        let is_tap = error.raw_os_error() == Some(rustix::io::Errno::BADFD.raw_os_error());
        Err(if is_tap { gone(&self.caps.notes) } else { error })
    }

    /// Sends the IP layer's own frames: questions for neighbours, answers, errors. Beside the kernel they are its to send.
    fn transmit_layer(&mut self, now: Instant) -> io::Result<()> {
        loop {
            if self.frame_len == 0 {
                let Some(len) = self.layer.poll_transmit(now, &mut self.frame) else {
                    self.speaks = false;
                    return Ok(());
                };
                if self.kernel.is_some() {
                    continue;
                }
                self.frame_len = len;
            }
            let packet = TxPacket {
                header: &self.frame[..self.frame_len],
                payload: &[],
                checksum: Checksum::InPlace,
                segmentation: Segmentation::None,
            };
            match self.interface.transmit(&[packet]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(e) if is_down(&e) => {}
                Err(e) => return Err(e),
            }
            self.frame_len = 0;
        }
    }

    /// The way to `to` as far as the layer knows it.
    fn way(&mut self, now: Instant, to: IpAddr) -> Result<Via, fusewire_net::NoPath> {
        if let Some(via) = &self.via
            && via.destination == to
            && via.generation == self.layer.generation()
        {
            return Ok(*via);
        }
        self.speaks = true;
        let source = Some(self.local.ip());
        let mut found = self.layer.route(now, to, source);
        use fusewire_net::NoPath::{Resolving, Unreachable};
        if let (Err(Resolving | Unreachable), Some(kernel)) = (&found, &mut self.kernel)
            && let Ok(next_hop) = self.layer.next_hop(to)
        {
            let known = kernel.ask(&mut self.layer, now, next_hop, to);
            found = if known { self.layer.route(now, to, source) } else { Err(Resolving) };
        }
        self.via = found.ok();
        found
    }
}

/// The link is down: what is sent is lost.
fn is_down(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NetworkDown | io::ErrorKind::NetworkUnreachable)
}

fn gone(notes: &[String]) -> io::Error {
    let which = notes.first().map_or("", String::as_str);
    io::Error::new(io::ErrorKind::NotFound, format!("the network interface was deleted ({which})"))
}

impl Device for OnInterface {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let now = self.clock.now();
        self.upkeep(now)?;
        let mut taken = 0;
        while taken < frames.len() {
            let (count, is_full) = self.transmit_some(now, &frames[taken..])?;
            taken += count;
            if is_full {
                break;
            }
        }
        Ok(taken)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let now = self.clock.now();
        self.upkeep(now)?;
        batch.clear();
        self.fill(now, batch)?;
        if self.speaks {
            self.transmit_layer(now)?;
        }
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        if self.next < self.count {
            return Ok(true);
        }
        let now = self.clock.now();
        let due = [self.layer.poll_timeout(), self.pending.front().map(|p| p.until)];
        let due = due.into_iter().flatten().min().map(|at| at.saturating_since(now));
        let timeout = match (timeout, due) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // It wakes for changes too.
        self.look_at = Instant::ZERO;
        let woken = self.interface.wait(timeout, want_write);
        // A link that was deleted is told best by its notice.
        match woken {
            Err(e) => self.broken(now, e).map(|()| true),
            woken => woken,
        }
    }

    fn waker(&self) -> Waker {
        self.interface.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interface.as_fd()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
