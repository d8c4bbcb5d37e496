//! The wire of transfers over a network interface: two namespaces joined by veth. They go when the bench does.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use super::Carrier;
use super::worker::Role;
use crate::Result;
use crate::namespace::Namespace;

/// Largest UDP payload of veth's MTU over IPv4.
pub const DATAGRAM_MAX: usize = 1500 - 20 - 8;

/// The two ends of a transfer: what carries it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub sender: Carrier,
    pub receiver: Carrier,
}

impl Ends {
    /// Kernel UDP.
    pub const UDP: Ends = Ends { sender: Carrier::UDP, receiver: Carrier::UDP };

    /// Kernel UDP, the device, and each against the other.
    pub fn beside_udp(device: Carrier) -> [Ends; 4] {
        let (udp, ours) = (Carrier::UDP, device);
        [(udp, udp), (ours, ours), (ours, udp), (udp, ours)]
            .map(|(sender, receiver)| Ends { sender, receiver })
    }
}

/// The namespaces.
pub struct Veth {
    sender: Namespace,
    receiver: Namespace,
}

const LINKS: [&str; 2] = ["fwsend", "fwreceive"];
const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 77, 9, 1)), IpAddr::V4(Ipv4Addr::new(10, 77, 9, 2))];

impl Veth {
    /// Makes them.
    ///
    /// # Errors
    /// Not root, or what `ip` says.
    pub fn new() -> Result<Veth> {
        let (sender, receiver) = (Namespace::new()?, Namespace::new()?);
        sender.veth(LINKS[0], &receiver, LINKS[1])?;
        for (namespace, at) in [(&sender, 0), (&receiver, 1)] {
            namespace.ip(&format!("address add {}/24 dev {}", ADDRESSES[at], LINKS[at]))?;
        }
        Ok(Veth { sender, receiver })
    }

    /// A command that will run in the namespace of this side, and its interface and address there.
    pub fn command(&self, program: &Path, role: &Role) -> (Command, Option<(String, IpAddr)>) {
        let (at, namespace) = match role {
            Role::Send(_) => (0, &self.sender),
            Role::Receive { .. } => (1, &self.receiver),
        };
        (namespace.command(program), Some((LINKS[at].into(), ADDRESSES[at])))
    }
}
