//! Living beside the kernel on its own addresses: what the kernel has to be asked for and told.
//!
//! Addresses, routes and neighbours are the kernel's, read by netlink and followed as they change. A port of a
//! socket of ours is reserved in the kernel as long as the socket uses it, so that nobody else gets it and the kernel
//! does not answer for it, and the interface is steered to give us what is sent to it. All else stays the
//! kernel's: ARP, neighbour discovery, ICMP, groups, and every other port.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::interface::flows::{Flows, Port};
use fusewire_device::interface::reserved_port::ReservedPort;
use fusewire_device::interface::{Change, Interface, host};
use fusewire_net::{Cidr, Config as NetConfig, Layer, Route};
use fusewire_wire::ethernet::Address;

use super::config::{Error, Result};
use super::stack::Stack;
use super::table::{Protocol, Socket, Table};

/// How often a stack that sleeps looks for changes of the kernel's addresses and routes.
const LOOK: Duration = Duration::from_secs(1);
/// Ports that are tried when any would do, and others of this host have those chosen.
const TRIES: usize = 64;

/// The kernel that we live beside.
pub(super) struct Coexistence {
    /// The interface's number.
    index: u32,
    kernel: host::Host,
    reserved: BTreeMap<(Protocol, u16), Vec<ReservedPort>>,
    /// Groups of XTP's, which the kernel is in for each of these.
    joined: Vec<(Port, UdpSocket)>,
    look_at: Instant,
}

impl Coexistence {
    /// The kernel's addresses and routes on the interface `name`, in place of those that are there.
    fn read(kernel: &mut host::Host, index: u32, net: &mut NetConfig) -> io::Result<()> {
        let addrs = kernel.addrs()?.into_iter().filter(|addr| addr.index == index);
        net.addresses = addrs.filter_map(|addr| Cidr::new(addr.addr, addr.prefix_len)).collect();
        net.routes = read_routes(kernel, index)?;
        Ok(())
    }

    /// Reserves the port of a socket, on each address of ours that it is bound to, and has what is sent to it
    /// given to us.
    fn reserve_port(
        &mut self,
        interface: &mut dyn Interface,
        layer: &Layer,
        protocol: Protocol,
        local: SocketAddr,
    ) -> Result<()> {
        let key = (protocol, local.port());
        let known = self.reserved.get(&key).map_or(&[][..], Vec::as_slice);
        let wanted = layer.addresses().map(|entry| entry.cidr.address()).filter(|own| {
            let any = local.ip().is_unspecified() && (local.is_ipv6() || own.is_ipv4());
            (any || local.ip() == *own) && !known.iter().any(|port| port.port().addr == *own)
        });
        let mut new = Vec::new();
        for own in wanted {
            let at = match own {
                IpAddr::V4(_) => SocketAddr::new(own, local.port()),
                // Of an address of the link the kernel wants to know which link.
                IpAddr::V6(v6) => SocketAddrV6::new(v6, local.port(), 0, self.index).into(),
            };
            let port = ReservedPort::new(protocol, at);
            new.push(port.map_err(|error| refusal(&error, SocketAddr::new(own, local.port())))?);
        }
        if new.is_empty() {
            return Ok(());
        }
        let before = known.len();
        self.reserved.entry(key).or_default().append(&mut new);
        self.steer(interface).map_err(|error| {
            tracing::warn!(%error, "a port cannot be had of the interface");
            if let Some(ports) = self.reserved.get_mut(&key) {
                ports.truncate(before);
            }
            Error::TooManySockets
        })
    }

    /// A port is nobody's any more: the kernel has it again.
    fn release(&mut self, interface: &mut dyn Interface, protocol: Protocol, port: u16) {
        let Some(ports) = self.reserved.remove(&(protocol, port)) else { return };
        if let Err(error) = self.steer(interface) {
            tracing::warn!(%error, "a port cannot be given back to the kernel");
        }
        drop(ports);
    }

    fn steer(&self, interface: &mut dyn Interface) -> io::Result<()> {
        let reserved = self.reserved.values().flatten().map(ReservedPort::port);
        interface.steer(&Flows::ports(reserved.chain(self.joined.iter().map(|joined| joined.0))))
    }

    /// Has the kernel join a group on the interface, and what of XTP is sent to it given to us.
    fn join(&mut self, interface: &mut dyn Interface, group: IpAddr) -> io::Result<()> {
        let socket = match group {
            IpAddr::V4(v4) => {
                let socket = UdpSocket::bind(("0.0.0.0", 0))?;
                let (any, index) = (&Ipv4Addr::UNSPECIFIED, self.index);
                rustix::net::sockopt::set_ip_add_membership_with_ifindex(&socket, &v4, any, index)?;
                socket
            }
            IpAddr::V6(v6) => {
                let socket = UdpSocket::bind(("::", 0))?;
                socket.join_multicast_v6(&v6, self.index)?;
                socket
            }
        };
        self.joined.push((Port { addr: group, protocol: Protocol::Xtp, port: 0 }, socket));
        self.steer(interface)
    }

    /// Lets the kernel find out where a neighbour is; its MAC address, if that is known already.
    fn ask(&mut self, address: IpAddr) -> io::Result<Option<[u8; 6]>> {
        if self.kernel.probe(self.index, address).is_err() {
            self.knock(address)?;
        }
        let mut known = self.kernel.neighbours()?.into_iter();
        let found = known.find(|known| (known.0, known.1) == (self.index, address));
        Ok(found.map(|(.., mac)| mac))
    }

    /// Lets the kernel send a datagram without a byte to a neighbour's discard port (RFC 863): before it can, it has to
    /// find the neighbour. For who may not ask it for that.
    fn knock(&self, address: IpAddr) -> io::Result<()> {
        const DISCARD: u16 = 9;
        let (any, to): (IpAddr, SocketAddr) = match address {
            IpAddr::V4(v4) => ([0u8; 4].into(), (v4, DISCARD).into()),
            IpAddr::V6(v6) => {
                ([0u8; 16].into(), SocketAddrV6::new(v6, DISCARD, 0, self.index).into())
            }
        };
        UdpSocket::bind((any, 0))?.send_to(&[], to).map(|_| ())
    }

    /// The interface was deleted.
    fn is_gone(&mut self) -> io::Result<bool> {
        Ok(self.kernel.links()?.iter().all(|link| link.index != self.index))
    }

    /// The kernel has this address on the interface.
    fn has(&mut self, address: IpAddr) -> io::Result<bool> {
        let all = self.kernel.addrs()?;
        Ok(all.iter().any(|addr| addr.index == self.index && addr.addr == address))
    }
}

/// Routes of the kernel's main table that lead out of the interface; of two to one network the one that the
/// kernel would take.
fn read_routes(kernel: &mut host::Host, index: u32) -> io::Result<Vec<Route>> {
    let mut found: Vec<_> = kernel.routes()?.into_iter().filter(|r| r.index == index).collect();
    // Of equals the first is taken.
    found.sort_by_key(|route| route.metric);
    let route = |route: &host::HostRoute| {
        let any: IpAddr = match route.is_v6 {
            true => std::net::Ipv6Addr::UNSPECIFIED.into(),
            false => std::net::Ipv4Addr::UNSPECIFIED.into(),
        };
        let destination = Cidr::new(route.destination.unwrap_or(any), route.prefix_len)?;
        Some(Route { destination, gateway: route.gateway })
    };
    Ok(found.iter().filter_map(route).collect())
}

/// Why the kernel does not let us have a port.
fn refusal(error: &io::Error, at: SocketAddr) -> Error {
    match error.kind() {
        io::ErrorKind::AddrInUse => Error::InUse(at),
        io::ErrorKind::AddrNotAvailable => Error::NotOurs(at),
        io::ErrorKind::PermissionDenied => Error::Denied(at),
        _ => {
            tracing::warn!(%error, %at, "the kernel does not let us reserve a port");
            Error::TooManySockets
        }
    }
}

impl Stack {
    /// A stack that lives beside the kernel on the addresses that the kernel has on `interface`, which is opened on
    /// the link of this name and with no flows (`Flows::default()`). Only ports of its sockets are its own. Its
    /// neighbours are asked for by the kernel.
    ///
    /// # Errors
    /// `NotFound`, when there is no such link or it has no address; what the kernel says.
    pub fn coexisting(
        interface: Box<dyn Interface>,
        name: &str,
        config: super::Config,
        seed: [u8; 32],
        now: Instant,
    ) -> io::Result<Stack> {
        let mut kernel = host::Host::open()?;
        let link = kernel.links()?.into_iter().find(|link| link.name == name);
        let not_found = |what: String| io::Error::new(io::ErrorKind::NotFound, what);
        let index = link.ok_or_else(|| not_found(format!("no interface {name}")))?.index;
        let mut net = Stack::net_config(&*interface);
        Coexistence::read(&mut kernel, index, &mut net)?;
        if net.addresses.is_empty() {
            let what = format!("the kernel has no address on {name} (ip addr add … dev {name})");
            return Err(not_found(what));
        }
        (net.responds, net.duplicate_detection) = (false, false);
        let mut stack = Stack::new(interface, net, config, seed, now);
        let reserved = BTreeMap::new();
        stack.coexistence = Some(Box::new(Coexistence {
            index,
            kernel,
            reserved,
            joined: Vec::new(),
            look_at: now + LOOK,
        }));
        stack.core.shares = true;
        Ok(stack)
    }

    /// Lives beside the kernel, on its addresses.
    pub fn is_coexisting(&self) -> bool {
        self.coexistence.is_some()
    }

    /// Beside the kernel: has a TCP port before a socket listens on it or connects from it. It is had until
    /// [`Stack::give_up_port`], or until the last socket that used it is gone.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NotOurs`], [`Error::Denied`], [`Error::TooManySockets`].
    pub fn claim_port(&mut self, local: SocketAddr) -> Result<()> {
        self.reserve_port(Protocol::Tcp, local)
    }

    /// Undoes [`Stack::claim_port`], where no socket uses the port.
    pub fn give_up_port(&mut self, port: u16) {
        self.core.free_port(Protocol::Tcp, port);
    }

    /// Beside the kernel: has a port that a socket is to be bound to.
    pub(super) fn reserve_port(&mut self, protocol: Protocol, local: SocketAddr) -> Result<()> {
        match &mut self.coexistence {
            Some(coexistence) => {
                coexistence.reserve_port(&mut *self.interface, &self.core.layer, protocol, local)
            }
            None => Ok(()),
        }
    }

    /// Chooses a port and has it; another one when somebody else on this host has that.
    pub(super) fn reserve_any_port(
        &mut self,
        protocol: Protocol,
        local: IpAddr,
        remote: Option<SocketAddr>,
        is_free: impl Fn(&Table, u16) -> bool,
    ) -> Result<SocketAddr> {
        let ports = self.core.config.ephemeral_ports.clone();
        let remote = remote.unwrap_or(SocketAddr::new(local, 0));
        for _ in 0..TRIES {
            let port = self.core.table.ephemeral(&ports, local, remote, &is_free)?;
            let at = SocketAddr::new(local, port);
            match self.reserve_port(protocol, at) {
                Err(Error::InUse(_)) => {}
                reserved => return reserved.map(|()| at),
            }
        }
        Err(Error::NoPort)
    }

    /// Beside the kernel: has it join a group whose packets of XTP are to be ours.
    pub(super) fn join_beside(&mut self, group: IpAddr) -> Result<()> {
        let Some(coexistence) = &mut self.coexistence else { return Ok(()) };
        let joined = coexistence.join(&mut *self.interface, group);
        joined.map_err(|error| refusal(&error, SocketAddr::new(group, 0)))
    }

    /// Gives back ports that nobody uses any more.
    pub(super) fn release_ports(&mut self) {
        let Some(coexistence) = &mut self.coexistence else {
            self.core.freed.clear();
            return;
        };
        while let Some((protocol, port)) = self.core.freed.pop() {
            if !self.core.table.uses(protocol, port) {
                coexistence.release(&mut *self.interface, protocol, port);
            }
        }
    }

    /// Lets the kernel find out what the layer wants to know; true when it knew something already.
    pub(super) fn ask_kernel(&mut self, now: Instant) -> bool {
        let Some(coexistence) = &mut self.coexistence else { return false };
        let mut is_told = false;
        while let Some(address) = self.core.layer.poll_question(now) {
            match coexistence.ask(address) {
                Ok(Some(mac)) => {
                    self.core.layer.neighbor_resolved(now, address, Address(mac));
                    is_told = true;
                }
                Ok(None) => {}
                // It is asked again, and then given up like one that does not answer.
                Err(error) => {
                    tracing::warn!(%error, %address, "the kernel cannot ask for a neighbour")
                }
            }
        }
        is_told
    }

    /// When the kernel is to be looked at again, by who sleeps.
    pub(super) fn kernel_timeout(&self) -> Option<Instant> {
        self.coexistence.as_ref().map(|coexistence| coexistence.look_at)
    }

    /// Follows what happened to the kernel's addresses, neighbours and routes.
    pub(super) fn follow_kernel(&mut self, now: Instant, change: &Change) -> io::Result<()> {
        let Some(coexistence) = &mut self.coexistence else { return Ok(()) };
        match *change {
            Change::Neighbour(address, Some(mac)) => {
                self.core.layer.neighbor_resolved(now, address, Address(mac));
                self.core.layer_speaks = true;
            }
            Change::Routes => {
                let routes = read_routes(&mut coexistence.kernel, coexistence.index)?;
                self.core.layer.replace_routes(routes);
            }
            Change::AddressAdded(address, prefix_len) => {
                if let Some(cidr) = Cidr::new(address, prefix_len) {
                    self.add_address(now, cidr);
                    self.reserve_again();
                }
            }
            // A link that is deleted loses its addresses first.
            Change::AddressRemoved(_) if coexistence.is_gone()? => {
                return Err(self.interface.gone());
            }
            Change::AddressRemoved(address) => {
                if !coexistence.has(address)? {
                    self.remove_address(now, address)?;
                }
            }
            Change::Overrun => self.read_kernel(now)?,
            Change::Neighbour(_, None) | Change::Gone | Change::Running(_) | Change::Mtu(_) => {}
        }
        Ok(())
    }

    /// The next look is due a while after this one.
    pub(super) fn kernel_looked_at(&mut self, now: Instant) {
        if let Some(coexistence) = &mut self.coexistence {
            coexistence.look_at = now + LOOK;
        }
    }

    /// Notices were lost: addresses and routes are read anew.
    fn read_kernel(&mut self, now: Instant) -> io::Result<()> {
        let Some(coexistence) = &mut self.coexistence else { return Ok(()) };
        let mut net = self.core.layer.config().clone();
        Coexistence::read(&mut coexistence.kernel, coexistence.index, &mut net)?;
        self.core.layer.replace_routes(net.routes);
        let own = self.core.layer.addresses().map(|entry| entry.cidr.address());
        let is_there = |own: &IpAddr| net.addresses.iter().any(|cidr| cidr.address() == *own);
        let gone: Vec<IpAddr> = own.filter(|own| !is_there(own)).collect();
        for address in gone {
            self.remove_address(now, address)?;
        }
        for cidr in net.addresses {
            self.add_address(now, cidr);
        }
        self.reserve_again();
        Ok(())
    }

    /// Sockets that are bound to no address have their ports on a new one too, unless somebody else has.
    fn reserve_again(&mut self) {
        let bound = |socket: &Socket| match socket {
            Socket::Udp(udp) => Some((udp.protocol, udp.local)),
            Socket::Listener(listener) => Some((Protocol::Tcp, listener.local)),
            Socket::Stream(_) => None,
        };
        let sockets = self.core.table.slots.iter().filter_map(|slot| bound(slot.socket.as_ref()?));
        let open: Vec<_> = sockets.filter(|(_, local)| local.ip().is_unspecified()).collect();
        for (protocol, local) in open {
            if let Err(error) = self.reserve_port(protocol, local) {
                tracing::warn!(%error, %local, "a socket does not hear on a new address");
            }
        }
    }
}
