//! What is ours ends at the interface: a packet socket has copies, and of the originals the kernel would look for a route,
//! a firewall's opinion and the socket that keeps the port ([`super::reserved_port`]), to drop them there. Behind packet
//! sockets, and before all that, a program of ours drops them at once (`tcx`, Linux 6.6). It costs rights
//! (`CAP_BPF`, `CAP_NET_ADMIN`); without them the kernel does as before.
//!
//! The program looks at unicast flows alone, since a group may have members in the kernel, too. What it does not find stays
//! the kernel's: tagged packets (VLAN), fragments of what has ports, ICMP errors.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use super::classify::{
    Assembler, CONTEXT, FRAME, KEY_BYTES, Key, Label, MAX_FLOWS, Packet, QUEUE, R0, R1, R4, W,
    classify, keys,
};
use super::flows::Flows;
use crate::sys::bpf::{self, Map};

/// `TCX_DROP`, and `TCX_NEXT`: another program, or else the kernel.
const DROP: i32 = 2;
const NEXT: i32 = -1;
/// Of `struct __sk_buff`.
const PACKET: Packet = Packet { data: 76, end: 80 };
const VLAN_PRESENT: i16 = 20;

/// A program on an interface, which hangs there as long as this lives.
#[derive(Debug)]
pub(super) struct Withheld {
    map: Map,
    flows: HashSet<Key>,
    _link: OwnedFd,
}

impl Withheld {
    /// Hangs a program on the interface of this number that keeps nothing yet.
    ///
    /// # Errors
    /// What the kernel says, of rights or of its age.
    pub fn attach(interface: u32) -> io::Result<Withheld> {
        let map = bpf::create_map(bpf::MAP_HASH, KEY_BYTES as u32, 1, MAX_FLOWS, bpf::NO_PREALLOC)?;
        let program = bpf::load(bpf::Kind::Tcx, &assemble(&map))?;
        let link = bpf::link(program.as_fd(), interface, bpf::Kind::Tcx, 0)?;
        Ok(Withheld { map, flows: HashSet::new(), _link: link })
    }

    /// The kernel has again what is not among `wanted`: before the socket's filter forgets it.
    pub fn release(&mut self, wanted: &Flows) {
        let wanted = wanted_keys(wanted);
        let gone: Vec<Key> = self.flows.difference(&wanted).copied().collect();
        for key in gone {
            // What is not there is as good as removed.
            let _ = self.map.remove(&key);
            self.flows.remove(&key);
        }
    }

    /// The kernel no longer has `wanted`: once the socket's filter takes it. Where there is no room it has them.
    pub fn keep(&mut self, wanted: &Flows) {
        for key in wanted_keys(wanted) {
            if !self.flows.contains(&key) && self.map.put(&key, &[1]).is_ok() {
                self.flows.insert(key);
            }
        }
    }
}

/// The keys of flows whose packets nobody else on this host can want.
fn wanted_keys(flows: &Flows) -> HashSet<Key> {
    let is_alone = |addr: &IpAddr| match addr {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_multicast(),
    };
    let ports = flows.ports.iter().filter(|port| is_alone(&port.addr)).copied();
    let addrs = flows.addrs.iter().filter(|addr| is_alone(addr)).copied();
    keys(&Flows { ports: ports.collect(), addrs: addrs.collect(), ..Flows::default() })
}

fn assemble(flows: &Map) -> Vec<u64> {
    let mut a = Assembler::default();
    a.copy(CONTEXT, R1);
    a.store_value(W, FRAME, QUEUE, 0);
    a.load(W, R4, CONTEXT, VLAN_PRESENT);
    a.if_differs(R4, 0, Label::Pass);
    classify(&mut a, flows, PACKET);
    a.label(Label::Found);
    a.set(R0, DROP);
    a.exit();
    a.label(Label::Pass);
    a.set(R0, NEXT);
    a.exit();
    a.finish()
}
