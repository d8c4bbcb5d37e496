//! Which packets of a shared interface are ours, and the same as a program for a packet socket (classic BPF,
//! Linux `Documentation/networking/filter.rst`). Everything else stays the kernel's.

use std::net::{IpAddr, Ipv6Addr};

/// A transport of which a socket of ours can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// RFC 9293.
    Tcp = 6,
    /// RFC 768.
    Udp = 17,
    /// `docs/xtp.md`. It has no ports that IP's header is followed by: all of it that is sent to an address is one
    /// socket's, whose port is 0.
    Xtp = 36,
}

impl Protocol {
    /// In small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Xtp => "xtp",
        }
    }
}

/// A local port on a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port {
    /// An address of the kernel's on the interface.
    pub addr: IpAddr,
    /// TCP, UDP or XTP.
    pub protocol: Protocol,
    /// The port; of XTP 0.
    pub port: u16,
}

/// What an interface is to give us. Ports are for living on the kernel's own address, addresses for one
/// that the kernel does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flows {
    /// Every packet.
    pub everything: bool,
    /// All that is sent to these addresses, with ARP and neighbour solicitations for them.
    pub addrs: Vec<IpAddr>,
    /// Packets to Ethernet groups: broadcast and multicast.
    pub groups: bool,
    /// Packets to these ports. Of fragments and ICMP errors to the address, which have no port where one
    /// looks for it, a packet socket gives a copy, and an XDP program leaves them to the kernel.
    pub ports: Vec<Port>,
}

impl Flows {
    /// Every packet.
    pub fn everything() -> Flows {
        Flows { everything: true, ..Flows::default() }
    }

    /// Addresses of our own.
    pub fn addrs(addrs: impl IntoIterator<Item = IpAddr>) -> Flows {
        Flows { addrs: addrs.into_iter().collect(), groups: true, ..Flows::default() }
    }

    /// Ports on the kernel's addresses.
    pub fn ports(ports: impl IntoIterator<Item = Port>) -> Flows {
        Flows { ports: ports.into_iter().collect(), ..Flows::default() }
    }
}

/// One instruction of classic BPF, as `sock_filter` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip when the comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Its operand.
    pub k: u32,
}

const LD_WORD: u16 = 0x20;
const LD_HALF: u16 = 0x28;
const LD_BYTE: u16 = 0x30;
const LD_HALF_X: u16 = 0x48;
const LD_BYTE_X: u16 = 0x50;
const LDX_IP_LEN: u16 = 0xb1;
const JUMP: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RETURN: u16 = 0x06;
/// Ancillary load: the packet had a VLAN tag (`SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT`).
const VLAN_PRESENT: u32 = (-0x1000i32 + 48) as u32;
/// Bytes of the packet that pass: all.
const ALL: u32 = 0x40_0000;

/// Most instructions that the kernel takes (`BPF_MAXINSNS`).
pub const MAX_INSTRUCTIONS: usize = 4096;

#[derive(Default)]
struct Assembler(Vec<Instruction>);

impl Assembler {
    fn push(&mut self, code: u16, k: u32) {
        self.0.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn accept(&mut self) {
        self.push(RETURN, ALL);
    }

    fn drop(&mut self) {
        self.push(RETURN, 0);
    }

    /// `body` runs when the comparison of the last load with `k` holds (`when`), and is skipped otherwise.
    fn branch(&mut self, code: u16, k: u32, when: bool, body: impl FnOnce(&mut Assembler)) {
        // A conditional jump reaches 255 instructions, an unconditional one all of them.
        let (jt, jf) = if when { (1, 0) } else { (0, 1) };
        self.0.push(Instruction { code, jt, jf, k });
        let jump = self.0.len();
        self.push(JUMP, 0);
        body(self);
        self.0[jump].k = (self.0.len() - jump - 1) as u32;
    }

    fn equal(&mut self, load: u16, at: u32, k: u32, body: impl FnOnce(&mut Assembler)) {
        self.push(load, at);
        self.branch(JEQ, k, true, body);
    }

    /// `body` runs when the 16 bytes at `at` are `addr`.
    fn equal_v6(&mut self, at: u32, addr: Ipv6Addr, body: impl FnOnce(&mut Assembler)) {
        self.equal_words(at, &addr.octets(), Box::new(body));
    }

    fn equal_words(&mut self, at: u32, bytes: &[u8], body: Box<dyn FnOnce(&mut Assembler) + '_>) {
        let Some((word, rest)) = bytes.split_first_chunk() else { return body(self) };
        self.equal(LD_WORD, at, u32::from_be_bytes(*word), |a| a.equal_words(at + 4, rest, body));
    }
}

/// The filter of a packet socket on Ethernet for these flows; `None` when every packet passes.
///
/// Tagged packets (VLAN) never pass, unless every packet does.
pub fn assemble(flows: &Flows) -> Option<Vec<Instruction>> {
    if flows.everything {
        return None;
    }
    let mut a = Assembler::default();
    a.push(LD_WORD, VLAN_PRESENT);
    a.branch(JEQ, 0, false, Assembler::drop);
    if flows.groups {
        a.push(LD_BYTE, 0);
        a.branch(JSET, 1, true, Assembler::accept);
    }
    a.equal(LD_HALF, 12, 0x0800, |a| v4(a, flows));
    a.equal(LD_HALF, 12, 0x86dd, |a| v6(a, flows));
    a.equal(LD_HALF, 12, 0x0806, |a| {
        a.push(LD_WORD, 38);
        for addr in &flows.addrs {
            if let IpAddr::V4(addr) = addr {
                a.branch(JEQ, addr.to_bits(), true, Assembler::accept);
            }
        }
    });
    a.drop();
    Some(a.0)
}

/// Distinct addresses that ports are on.
fn port_addrs(flows: &Flows) -> Vec<IpAddr> {
    let mut addrs: Vec<_> = flows.ports.iter().map(|port| port.addr).collect();
    addrs.sort_unstable();
    addrs.dedup();
    addrs
}

/// IPv4 behind Ethernet: protocol at 23, fragment offset at 20, destination at 30.
fn v4(a: &mut Assembler, flows: &Flows) {
    a.push(LD_WORD, 30);
    for addr in &flows.addrs {
        if let IpAddr::V4(addr) = addr {
            a.branch(JEQ, addr.to_bits(), true, Assembler::accept);
        }
    }
    for addr in port_addrs(flows) {
        let IpAddr::V4(v4) = addr else { continue };
        a.equal(LD_WORD, 30, v4.to_bits(), |a| {
            a.push(LD_HALF, 20);
            // What follows the first fragment has no ports.
            a.branch(JSET, 0x1fff, true, Assembler::accept);
            a.push(LDX_IP_LEN, 14);
            a.equal(LD_BYTE, 23, 1, |a| {
                a.push(LD_BYTE_X, 14);
                for error in [3, 11, 12] {
                    a.branch(JEQ, error, true, Assembler::accept);
                }
            });
            ports(a, flows, addr, LD_BYTE, 23, LD_HALF_X, 16);
            a.drop();
        });
    }
    a.drop();
}

/// IPv6 behind Ethernet: next header at 20, destination at 38, what follows at 54.
fn v6(a: &mut Assembler, flows: &Flows) {
    for addr in &flows.addrs {
        if let IpAddr::V6(addr) = addr {
            a.equal_v6(38, *addr, Assembler::accept);
        }
    }
    for addr in port_addrs(flows) {
        let IpAddr::V6(v6) = addr else { continue };
        a.equal_v6(38, v6, |a| {
            // Behind extension headers and in fragments ports lie elsewhere.
            a.push(LD_BYTE, 20);
            for extension in [0, 43, 44, 60] {
                a.branch(JEQ, extension, true, Assembler::accept);
            }
            a.branch(JEQ, 58, true, |a| {
                // Below 128 are errors.
                a.push(LD_BYTE, 54);
                a.branch(JGE, 128, false, Assembler::accept);
                a.drop();
            });
            ports(a, flows, addr, LD_BYTE, 20, LD_HALF, 56);
            a.drop();
        });
    }
    a.drop();
}

/// Passes what goes to a port on `addr`: the protocol is loaded from `protocol_at`, the port from `port_at`.
fn ports(
    a: &mut Assembler,
    flows: &Flows,
    addr: IpAddr,
    load_protocol: u16,
    protocol_at: u32,
    load_port: u16,
    port_at: u32,
) {
    if flows.ports.iter().any(|p| p.addr == addr && p.protocol == Protocol::Xtp) {
        a.push(load_protocol, protocol_at);
        a.branch(JEQ, Protocol::Xtp as u32, true, Assembler::accept);
    }
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut wanted = flows.ports.iter().filter(|p| p.addr == addr && p.protocol == protocol);
        let Some(first) = wanted.next() else { continue };
        a.equal(load_protocol, protocol_at, protocol as u32, |a| {
            a.push(load_port, port_at);
            for port in std::iter::once(first).chain(wanted) {
                a.branch(JEQ, u32::from(port.port), true, Assembler::accept);
            }
        });
    }
}

#[cfg(test)]
#[path = "flows_tests.rs"]
mod tests;
