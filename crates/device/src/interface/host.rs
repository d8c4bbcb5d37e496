//! What the kernel knows of its links, addresses, neighbours and routes, and notice of what changes, by
//! netlink (rtnetlink(7)). Who lives on the kernel's own address reads these instead of asking the network.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, LinkXdp, XdpAttached};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily as Family, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with,
};

use super::Change;
use crate::{Waker, wake};

/// A message of the kernel's is at most so long.
const MESSAGE_BYTES: usize = 64 << 10;

/// Changes that wait to be asked for.
const MOST_CHANGES: usize = 256;

/// A network interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, where it has one.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// It can carry packets.
    pub is_running: bool,
    /// It leads back to this host.
    pub is_loopback: bool,
}

/// An address of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostAddr {
    /// The interface that has it.
    pub index: u32,
    /// The address.
    pub addr: IpAddr,
    /// How many of its bits are the network's.
    pub prefix_len: u8,
}

/// A way to a network, of the kernel's main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// The interface it leads out of.
    pub index: u32,
    /// Where it leads: address and bits; no bits for everywhere else.
    pub destination: Option<IpAddr>,
    /// How many bits of the destination count.
    pub prefix_len: u8,
    /// The next hop, unless the destination is a neighbour.
    pub gateway: Option<IpAddr>,
    /// The source address that the kernel would choose.
    pub source: Option<IpAddr>,
    /// Of two that fit equally well, the smaller counts.
    pub metric: u32,
    /// Packets may not be larger, where it says.
    pub mtu: Option<usize>,
    /// For IPv6, or else for IPv4.
    pub is_v6: bool,
}

/// Questions to the kernel. They are answered at once.
#[derive(Debug)]
pub struct Host {
    fd: OwnedFd,
    sequence: u32,
}

fn socket(groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let fd = socket_with(
        Family::NETLINK,
        SocketType::RAW,
        flags | SocketFlags::CLOEXEC,
        // The first of netlink's protocols, NETLINK_ROUTE.
        None,
    )?;
    rustix::net::bind(&fd, &SocketAddrNetlink::new(0, groups))?;
    Ok(fd)
}

/// The messages in what the kernel sent.
fn messages(
    mut bytes: &[u8],
) -> impl Iterator<Item = io::Result<NetlinkPayload<RouteNetlinkMessage>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = match NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) {
            Ok(message) => message,
            Err(e) => {
                // One that cannot be read is passed over, as far as it says where it ends.
                let len = bytes.first_chunk().map_or(0, |len| u32::from_ne_bytes(*len) as usize);
                bytes = bytes.get(len.max(16).next_multiple_of(4)..).unwrap_or_default();
                return Some(Err(io::Error::new(io::ErrorKind::InvalidData, e.to_string())));
            }
        };
        let len = (message.header.length as usize).max(16).next_multiple_of(4);
        bytes = bytes.get(len..).unwrap_or_default();
        Some(Ok(message.payload))
    })
}

impl Host {
    /// Opens the way to the kernel. It takes no privilege.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<Host> {
        Ok(Host { fd: socket(0, SocketFlags::empty())?, sequence: 0 })
    }

    /// Sends one message and gives every answer to `each`.
    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut each: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        rustix::net::send(&self.fd, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0; MESSAGE_BYTES];
        loop {
            let len = match rustix::net::recv(&self.fd, &mut buffer[..], RecvFlags::empty()) {
                Ok((len, _)) => len,
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            for payload in messages(&buffer[..len]) {
                match payload {
                    Ok(NetlinkPayload::Done(_)) => return Ok(()),
                    Ok(NetlinkPayload::Error(e)) => {
                        return match e.code {
                            None => Ok(()),
                            Some(code) => Err(io::Error::from_raw_os_error(code.get().abs())),
                        };
                    }
                    Ok(NetlinkPayload::InnerMessage(message)) => each(message),
                    // Of a kind that is newer than this reader.
                    Ok(_) | Err(_) => {}
                }
            }
        }
    }

    /// All interfaces of this network namespace.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn links(&mut self) -> io::Result<Vec<HostLink>> {
        let mut links = Vec::new();
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.ask(question, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                links.push(read_link(&link));
            }
        })?;
        Ok(links)
    }

    /// The XDP program on an interface: its number, and whether the driver runs it.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn xdp_program(&mut self, index: u32) -> io::Result<Option<(u32, bool)>> {
        let (mut id, mut is_native) = (None, false);
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.ask(question, NLM_F_DUMP, |answer| {
            let RouteNetlinkMessage::NewLink(link) = answer else { return };
            if link.header.index != index {
                return;
            }
            for attribute in &link.attributes {
                let LinkAttribute::Xdp(all) = attribute else { continue };
                for told in all {
                    match told {
                        LinkXdp::ProgId(number) => id = Some(*number),
                        LinkXdp::Attached(mode) => is_native = *mode == XdpAttached::Driver,
                        _ => {}
                    }
                }
            }
        })?;
        Ok(id.map(|id| (id, is_native)))
    }

    /// The kernel's addresses, on all interfaces.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn addrs(&mut self) -> io::Result<Vec<HostAddr>> {
        let mut addrs = Vec::new();
        let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.ask(question, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewAddress(message) = answer {
                addrs.extend(read_addr(&message));
            }
        })?;
        Ok(addrs)
    }

    /// The neighbours of which the kernel knows where they are: interface, address, Ethernet address.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn neighbours(&mut self) -> io::Result<Vec<(u32, IpAddr, [u8; 6])>> {
        let mut neighbours = Vec::new();
        let question = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
        self.ask(question, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewNeighbour(message) = answer
                && let Some((index, addr, Some(mac))) = read_neighbour(&message)
            {
                neighbours.push((index, addr, mac));
            }
        })?;
        Ok(neighbours)
    }

    /// The routes of the kernel's main table.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn routes(&mut self) -> io::Result<Vec<HostRoute>> {
        let mut routes = Vec::new();
        let question = RouteNetlinkMessage::GetRoute(RouteMessage::default());
        self.ask(question, NLM_F_DUMP, |answer| {
            if let RouteNetlinkMessage::NewRoute(message) = answer {
                routes.extend(read_route(&message));
            }
        })?;
        Ok(routes)
    }

    /// Lets the kernel find out where a neighbour is; [`Change::Neighbour`] tells when it knows. Takes
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn probe(&mut self, index: u32, addr: IpAddr) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.ifindex = index;
        message.header.state = NeighbourState::None;
        message.header.flags = NeighbourFlags::Use;
        let (family, addr) = match addr {
            IpAddr::V4(v4) => (AddressFamily::Inet, NeighbourAddress::Inet(v4)),
            IpAddr::V6(v6) => (AddressFamily::Inet6, NeighbourAddress::Inet6(v6)),
        };
        message.header.family = family;
        message.attributes.push(NeighbourAttribute::Destination(addr));
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.ask(message, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, drop)
    }
}

fn read_link(link: &LinkMessage) -> HostLink {
    let flags = link.header.flags;
    let mut read = HostLink {
        index: link.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        is_running: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::Running),
        is_loopback: flags.contains(LinkFlags::Loopback),
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => read.name.clone_from(name),
            LinkAttribute::Address(bytes) => read.mac = bytes[..].try_into().ok(),
            LinkAttribute::Mtu(mtu) => read.mtu = *mtu as usize,
            _ => {}
        }
    }
    read
}

fn read_addr(message: &AddressMessage) -> Option<HostAddr> {
    let mut found = None;
    for attribute in &message.attributes {
        match attribute {
            // Of a point-to-point link `Address` is the other end.
            AddressAttribute::Local(addr) => found = Some(*addr),
            AddressAttribute::Address(addr) => found = found.or(Some(*addr)),
            _ => {}
        }
    }
    let (index, prefix_len) = (message.header.index, message.header.prefix_len);
    found.map(|addr| HostAddr { index, addr, prefix_len })
}

/// Interface, address, and where it is if that is known.
fn read_neighbour(message: &NeighbourMessage) -> Option<(u32, IpAddr, Option<[u8; 6]>)> {
    let is_known = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Permanent
    );
    let (mut addr, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                addr = Some((*v4).into())
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                addr = Some((*v6).into());
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes[..].try_into().ok(),
            _ => {}
        }
    }
    Some((message.header.ifindex, addr?, mac.filter(|_| is_known)))
}

fn read_route(message: &RouteMessage) -> Option<HostRoute> {
    let is_main = |attributes: &[RouteAttribute]| {
        let table = attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
        table.unwrap_or(message.header.table.into()) == u32::from(RouteHeader::RT_TABLE_MAIN)
    };
    if message.header.kind != RouteType::Unicast || !is_main(&message.attributes) {
        return None;
    }
    let addr = |addr: &RouteAddress| match addr {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    };
    let mut route = HostRoute {
        index: 0,
        destination: None,
        prefix_len: message.header.destination_prefix_length,
        gateway: None,
        source: None,
        metric: 0,
        mtu: None,
        is_v6: message.header.address_family == AddressFamily::Inet6,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => route.index = *index,
            RouteAttribute::Destination(to) => route.destination = addr(to),
            RouteAttribute::Gateway(hop) => route.gateway = addr(hop),
            RouteAttribute::PrefSource(from) => route.source = addr(from),
            RouteAttribute::Priority(metric) => route.metric = *metric,
            RouteAttribute::Metrics(metrics) => {
                route.mtu = metrics.iter().find_map(|metric| match metric {
                    RouteMetric::Mtu(mtu) => Some(*mtu as usize),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    // Of several next hops, and of routes by number, the interface lies deeper: they are left out.
    (route.index != 0).then_some(route)
}

/// Notice of what happens to one interface.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
    link: HostLink,
    changes: VecDeque<Change>,
    buffer: Vec<u8>,
}

/// Groups of rtnetlink(7), as bits: links, and for those who use the kernel's addresses the rest.
const LINKS: u32 = 1;
const ADDRS: u32 = 0x10 | 0x100;
const NEIGHBOURS: u32 = 0x4;
const ROUTES: u32 = 0x40 | 0x400;

impl Watch {
    /// Notice of the interface of this number from now on. It takes no privilege.
    ///
    /// # Errors
    /// `NotFound`, when there is no such interface; what the kernel says.
    pub fn new(index: u32) -> io::Result<Watch> {
        // First the notices, then what they are compared with.
        let fd = socket(LINKS | ADDRS | NEIGHBOURS | ROUTES, SocketFlags::NONBLOCK)?;
        let link = Host::open()?.links()?.into_iter().find(|link| link.index == index);
        let link = link.ok_or(io::ErrorKind::NotFound)?;
        Ok(Watch { fd, link, changes: VecDeque::new(), buffer: vec![0; MESSAGE_BYTES] })
    }

    /// The interface's number.
    pub fn index(&self) -> u32 {
        self.link.index
    }

    /// The next change, if there is one. Never waits.
    pub fn poll(&mut self) -> Option<Change> {
        if self.changes.is_empty() {
            self.fill();
        }
        self.changes.pop_front()
    }

    /// Reads all notices that wait. Of too many the first are kept, and that there were more.
    fn fill(&mut self) {
        loop {
            match rustix::net::recv(&self.fd, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => self.read(len),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => self.changes.push_back(Change::Overrun),
                Err(_) => return,
            }
            let is_gone = self.changes.contains(&Change::Gone);
            if self.changes.len() > MOST_CHANGES {
                self.changes.truncate(MOST_CHANGES);
                self.changes.push_back(Change::Overrun);
                self.changes.extend(is_gone.then_some(Change::Gone));
            }
        }
    }

    /// Sleeps until `fd` is ready, `waker` wakes, or something changed, which is read then: who never asks
    /// for it sleeps again.
    pub(crate) fn wait(
        &mut self,
        fd: BorrowedFd<'_>,
        waker: &Waker,
        timeout: Option<Duration>,
        want_write: bool,
    ) -> io::Result<bool> {
        let flags = if want_write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [
            PollFd::from_borrowed_fd(fd, flags),
            PollFd::new(waker, PollFlags::IN),
            PollFd::new(&self.fd, PollFlags::IN),
        ];
        let woken = wake::sleep_waking(&mut fds, waker, timeout)?;
        let has_changed = !fds[2].revents().is_empty();
        if has_changed {
            self.fill();
        }
        Ok(woken)
    }

    fn read(&mut self, len: usize) {
        let Watch { link, changes, buffer, .. } = self;
        for payload in messages(&buffer[..len]) {
            let Ok(NetlinkPayload::InnerMessage(message)) = payload else { continue };
            match message {
                RouteNetlinkMessage::NewLink(new) if new.header.index == link.index => {
                    let new = read_link(&new);
                    if new.mtu != link.mtu && new.mtu != 0 {
                        changes.push_back(Change::Mtu(new.mtu));
                    }
                    if new.is_running != link.is_running {
                        changes.push_back(Change::Running(new.is_running));
                    }
                    *link = new;
                }
                RouteNetlinkMessage::DelLink(gone) if gone.header.index == link.index => {
                    changes.push_back(Change::Gone);
                }
                RouteNetlinkMessage::NewAddress(message) => {
                    let addr = read_addr(&message).filter(|addr| addr.index == link.index);
                    let added = |a: HostAddr| Change::AddressAdded(a.addr, a.prefix_len);
                    changes.extend(addr.map(added));
                }
                RouteNetlinkMessage::DelAddress(message) => {
                    let addr = read_addr(&message).filter(|addr| addr.index == link.index);
                    changes.extend(addr.map(|a| Change::AddressRemoved(a.addr)));
                }
                RouteNetlinkMessage::NewNeighbour(message) => {
                    let new = read_neighbour(&message).filter(|(at, ..)| *at == link.index);
                    changes.extend(new.map(|(_, addr, mac)| Change::Neighbour(addr, mac)));
                }
                RouteNetlinkMessage::DelNeighbour(message) => {
                    let gone = read_neighbour(&message).filter(|(at, ..)| *at == link.index);
                    changes.extend(gone.map(|(_, addr, _)| Change::Neighbour(addr, None)));
                }
                RouteNetlinkMessage::NewRoute(_) | RouteNetlinkMessage::DelRoute(_)
                    if changes.back() != Some(&Change::Routes) =>
                {
                    changes.push_back(Change::Routes);
                }
                _ => {}
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
