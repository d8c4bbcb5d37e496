//! The kernel's own address: its neighbours and routes are asked for and followed, and its own answers are left to it.
//!
//! What is learned of a next hop is forgotten after a while and asked for again when it is used, so that the kernel,
//! which sends nothing to it itself, goes on verifying that it is there.

use std::net::UdpSocket;

use fusewire_device::interface::hold::Hold;
use fusewire_device::interface::host::Host;
use fusewire_net::{Cidr, Route};
use fusewire_wire::ethernet::Address;

use super::*;

/// How long a neighbour is believed to be where the kernel said.
const BELIEF: Duration = Duration::from_secs(30);
/// How often the kernel is asked to look for the same neighbour.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// Next hops at once; a peer beyond them is asked for with every use.
const HOPS_MAX: usize = 1024;

/// A next hop that we use.
struct Hop {
    address: IpAddr,
    asked: Instant,
}

/// What is the kernel's, and ours to use.
pub(super) struct Kernel {
    host: Host,
    index: u32,
    /// Keeps the port from everybody else, and the kernel silent.
    _hold: Hold,
    hops: Vec<Hop>,
    routes: Vec<Route>,
    refresh_at: Instant,
}

impl Kernel {
    /// Uses the kernel's address on the interface of this number.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(index: u32, hold: Hold) -> io::Result<Kernel> {
        let host = Host::open()?;
        let (hops, routes) = (Vec::new(), Vec::new());
        Ok(Kernel { host, index, _hold: hold, hops, routes, refresh_at: Instant::ZERO })
    }

    /// Reads the routes that lead out of the interface, in place of those before, and forgets neighbours.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_again(&mut self, layer: &mut Layer) -> io::Result<()> {
        self.routes.drain(..).for_each(|route| layer.remove_route(&route));
        let mut routes = self.host.routes()?;
        routes.retain(|route| route.index == self.index);
        // Of two for one destination the better is added last, and found first or replaces the other.
        routes.sort_by_key(|route| std::cmp::Reverse(route.metric));
        for route in routes {
            let any: IpAddr = if route.is_v6 { [0u8; 16].into() } else { [0u8; 4].into() };
            let to = route.destination.unwrap_or(any);
            let Some(destination) = Cidr::new(to, route.prefix_len) else { continue };
            self.routes.retain(|known| {
                let same = known.destination == destination;
                if same {
                    layer.remove_route(known);
                }
                !same
            });
            let route = Route { destination, gateway: route.gateway };
            if layer.add_route(route) {
                self.routes.push(route);
            }
        }
        self.forget(layer);
        Ok(())
    }

    /// The kernel has this address on the interface.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn has(&mut self, address: IpAddr) -> io::Result<bool> {
        let all = self.host.addrs()?;
        Ok(all.iter().any(|addr| addr.index == self.index && addr.addr == address))
    }

    /// The interface was deleted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn is_gone(&mut self) -> io::Result<bool> {
        Ok(self.host.links()?.iter().all(|link| link.index != self.index))
    }

    fn forget(&mut self, layer: &mut Layer) {
        self.hops.drain(..).for_each(|hop| layer.set_neighbor(hop.address, None));
    }

    /// What was believed for long enough is to be asked for again.
    pub fn refresh(&mut self, layer: &mut Layer, now: Instant) {
        if now >= self.refresh_at {
            self.refresh_at = now + BELIEF;
            self.forget(layer);
        }
    }

    /// The kernel has learned where a neighbour is, or forgotten it.
    pub fn told(&mut self, layer: &mut Layer, address: IpAddr, station: Option<[u8; 6]>) {
        if self.hops.iter().any(|hop| hop.address == address) {
            layer.set_neighbor(address, station.map(Address));
        }
    }

    /// Asks the kernel for a next hop on the way to `peer`. True when it knows where it is; else it finds out.
    pub fn ask(&mut self, layer: &mut Layer, now: Instant, hop: IpAddr, peer: IpAddr) -> bool {
        match self.hops.iter_mut().find(|known| known.address == hop) {
            Some(known) if now < known.asked + ASK_EVERY => return false,
            Some(known) => known.asked = now,
            None => {
                if self.hops.len() >= HOPS_MAX {
                    self.forget(layer);
                }
                self.hops.push(Hop { address: hop, asked: now });
            }
        }
        let mut known = self.host.neighbours().unwrap_or_default().into_iter();
        let station = known.rfind(|(at, addr, _)| *at == self.index && *addr == hop);
        if let Some((_, _, mac)) = station {
            layer.set_neighbor(hop, Some(Address(mac)));
        }
        // It is used, and so has to be verified, whether it is known or not.
        if self.host.probe(self.index, hop).is_err() {
            knock(peer);
        }
        station.is_some()
    }
}

/// Lets the kernel send a datagram without a byte to the discard port (RFC 863): before it can, it has to find the next
/// hop. For who may not ask it for that.
fn knock(peer: IpAddr) {
    const DISCARD: u16 = 9;
    let any: IpAddr = if peer.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    if let Ok(socket) = UdpSocket::bind((any, 0)) {
        // Whether it goes or not, nothing else is to be done.
        let _ = socket.send_to(&[], (peer, DISCARD));
    }
}
