//! Groups of hosts: sockets that send to one, and that hear one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use super::{Config, Udp};
use crate::{Capabilities, Device, Event, Region, RxBatch, TxFrame, Waker, wake};

/// How a group is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group's address, and its port.
    pub addr: SocketAddr,
    /// Index of the network interface; 0: the kernel's choice.
    pub interface: u32,
    /// Routers that what is sent may pass, and one more: 1 stays on the link.
    pub hops: u8,
    /// Receivers on this host hear it, too.
    pub loopback: bool,
}

/// The index of the network interface of this name.
///
/// # Errors
/// There is none.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(rustix::net::netdevice::name_to_index(&socket, name)?)
}

impl Udp {
    /// Binds a socket that sends to a group, and to and from any peer.
    ///
    /// # Errors
    /// As [`Udp::bind`]; or the address is not a group's of its family, or the interface is not there, or no route leads
    /// to the group.
    pub fn to_group(addr: SocketAddr, group: &Group, config: &Config) -> io::Result<Udp> {
        if !group.addr.ip().is_multicast() || group.addr.is_ipv4() != addr.is_ipv4() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a group's address"));
        }
        let mut udp = Udp::bind(addr, config)?;
        if let Some(mtu) = link_mtu(addr.ip(), group)? {
            let headers = if group.addr.is_ipv4() { 20 + 8 } else { 40 + 8 };
            let datagram = mtu.saturating_sub(headers);
            udp.caps.max_datagram = udp.caps.max_datagram.min(datagram);
        }
        let (socket, hops) = (&udp.socket, u32::from(group.hops));
        match group.addr.ip() {
            IpAddr::V4(ip) => {
                sockopt::set_ip_multicast_ttl(socket, hops)?;
                sockopt::set_ip_multicast_loop(socket, group.loopback)?;
                if group.interface != 0 {
                    let none = Ipv4Addr::UNSPECIFIED;
                    sockopt::set_ip_multicast_if_with_ifindex(socket, &ip, &none, group.interface)?;
                }
            }
            IpAddr::V6(_) => {
                sockopt::set_ipv6_multicast_hops(socket, hops)?;
                sockopt::set_ipv6_multicast_loop(socket, group.loopback)?;
                if group.interface != 0 {
                    sockopt::set_ipv6_multicast_if(socket, group.interface)?;
                }
            }
        }
        Ok(udp)
    }
}

/// Returns the MTU of the link that leads from `local` to the group, if the kernel knows it: bytes of an IP packet.
///
/// # Errors
/// No route leads to the group: each datagram to it would be refused.
fn link_mtu(local: IpAddr, group: &Group) -> io::Result<Option<usize>> {
    let socket = UdpSocket::bind((local, 0))?;
    let (level, name) = match group.addr.ip() {
        IpAddr::V4(ip) => {
            let none = Ipv4Addr::UNSPECIFIED;
            let index = group.interface;
            sockopt::set_ip_multicast_if_with_ifindex(&socket, &ip, &none, index)?;
            (libc::IPPROTO_IP, libc::IP_MTU)
        }
        IpAddr::V6(_) => {
            sockopt::set_ipv6_multicast_if(&socket, group.interface)?;
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        }
    };
    socket.connect(group.addr)?;
    let mtu = crate::sys::sockopt::get(socket.as_fd(), level, name).ok();
    Ok(mtu.and_then(|mtu| usize::try_from(mtu).ok()))
}

/// Hears a group on its port, where others of this host may hear it too, and talks to and from any peer by a port of its
/// own.
pub struct Member {
    group: Udp,
    own: Udp,
    /// Readable when either is.
    both: rustix::fd::OwnedFd,
    /// So often the group was looked at first.
    group_first: u8,
}

/// So often the group is looked at first before one's own port is.
const GROUP_FIRST: u8 = 8;

impl Member {
    /// Joins the group of hosts.
    ///
    /// # Errors
    /// The address is not a group's, the interface is not there, or no descriptor is left.
    pub fn join(group: &Group, config: &Config) -> io::Result<Member> {
        let any: IpAddr = match group.addr.ip() {
            ip if !ip.is_multicast() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a group's address"));
            }
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = hear(group)?;
        let copying = Config { zero_copy: false, ..*config };
        let group = Udp::of(socket, &copying)?;
        let own = Udp::bind((any, 0).into(), &copying)?;
        let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (n, udp) in [&group, &own].into_iter().enumerate() {
            let name = epoll::EventData::new_u64(n as u64);
            epoll::add(&both, udp.flows.set(), name, epoll::EventFlags::IN)?;
        }
        Ok(Member { group, own, both, group_first: 0 })
    }

    /// The port that the group is heard on.
    pub fn group_addr(&self) -> SocketAddr {
        self.group.local_addr()
    }
}

/// A socket that others may have beside us, bound to the group itself: what is for other groups, or for this host alone, does
/// not come to it.
fn hear(group: &Group) -> io::Result<UdpSocket> {
    let family = if group.addr.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    match group.addr {
        SocketAddr::V4(addr) => {
            bind(&socket, &addr)?;
            let none = Ipv4Addr::UNSPECIFIED;
            sockopt::set_ip_add_membership_with_ifindex(
                &socket,
                addr.ip(),
                &none,
                group.interface,
            )?;
        }
        SocketAddr::V6(mut addr) => {
            if addr.scope_id() == 0 {
                addr.set_scope_id(group.interface);
            }
            bind(&socket, &addr)?;
            sockopt::set_ipv6_add_membership(&socket, addr.ip(), group.interface)?;
        }
    }
    Ok(UdpSocket::from(socket))
}

impl Device for Member {
    fn caps(&self) -> &Capabilities {
        self.group.caps()
    }

    fn local_addr(&self) -> SocketAddr {
        self.own.local_addr()
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.own.transmit(frames)
    }

    fn transmit_from(&mut self, region: &Region, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.own.transmit_from(region, frames)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        // What comes to one's own port is little, and waits no longer than that.
        let own_first = self.group_first == GROUP_FIRST;
        self.group_first = if own_first { 0 } else { self.group_first + 1 };
        let (first, second) = match own_first {
            true => (&mut self.own, &mut self.group),
            false => (&mut self.group, &mut self.own),
        };
        match first.receive(batch)? {
            0 => second.receive(batch),
            count => Ok(count),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let full = want_write.then(|| self.own.socket.as_fd());
        let woken = wake::wait_for(self.both.as_fd(), full, &self.own.waker, timeout)?;
        if woken {
            self.group.take_errors(None);
            self.own.take_errors(None);
        }
        Ok(woken)
    }

    fn waker(&self) -> Waker {
        self.own.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.both.as_fd())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.own.poll_event()
    }
}
