//! Which packets are ours, as a part of a program for the kernel (eBPF), assembled here: nothing has to be compiled for it,
//! and the verifier checks it each time that it is loaded. [`super::steer`] hangs it where XDP is, [`super::withhold`]
//! behind packet sockets.
//!
//! ```text
//! ARP       target in flows?                     │
//! IPv4, v6  (destination, protocol, port) or     ├─▶ found, else passed on
//!           (destination) in flows?              │
//! ICMPv6    solicited target in flows?          ─┘
//! ```
//! Flows are a hash map, so that they change under way, and each is of one queue. Fragments, IP options and IPv6
//! extension headers have no port where the program looks: with flows by port they are passed on. XTP's port is
//! always 0: of it what has options is found too, and fragments.

use std::collections::HashSet;
use std::net::IpAddr;

use super::flows::{Flows, Port, Protocol};
use crate::sys::bpf::Map;

/// Bytes of a key: address (IPv4 mapped), port, protocol, queue. No port and no protocol stand for all that is
/// sent to the address.
pub(super) const KEY_BYTES: usize = 20;
pub(super) type Key = [u8; KEY_BYTES];
/// Where in a key the queue is.
pub(super) const KEY_QUEUE: usize = 19;
/// Most flows at a time, over all queues of all processes.
pub(super) const MAX_FLOWS: u32 = 1 << 18;
fn key(addr: IpAddr, port: u16, protocol: u8) -> Key {
    let addr = match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    let mut key = [0; KEY_BYTES];
    key[..16].copy_from_slice(&addr.octets());
    key[16..18].copy_from_slice(&port.to_be_bytes());
    key[18] = protocol;
    key
}

/// The keys of these flows, of queue 0.
pub(super) fn keys(flows: &Flows) -> HashSet<Key> {
    let port = |p: &Port| key(p.addr, p.port, p.protocol as u8);
    let addrs = flows.addrs.iter().map(|addr| key(*addr, 0, 0));
    flows.ports.iter().map(port).chain(addrs).collect()
}

/// The same flow on another queue.
pub(super) fn on(queue: u8, mut key: Key) -> Key {
    key[KEY_QUEUE] = queue;
    key
}

// Registers (BPF instruction set, RFC 9669, section 2.1).
pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
pub(super) const R4: u8 = 4;
/// The context, over calls.
pub(super) const CONTEXT: u8 = 6;
/// The packet's begin and end, over calls.
const DATA: u8 = 7;
const END: u8 = 8;
/// The protocol, over calls.
const PROTOCOL: u8 = 9;
pub(super) const FRAME: u8 = 10;

/// XTP's number in IP, and that of IPv6's fragment header.
const XTP: i32 = Protocol::Xtp as i32;
const FRAGMENT: i32 = 44;

pub(super) const LOOKUP: i32 = 1;
/// Where on the stack the key lies, and the queue's number.
const KEY: i16 = -24;
pub(super) const QUEUE: i16 = -4;

/// Sizes of loads and stores.
pub(super) const W: u8 = 0x00;
const H: u8 = 0x08;
const B: u8 = 0x10;
const DW: u8 = 0x18;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    V4,
    V6,
    /// XTP, in the map under port 0.
    Portless,
    /// IPv6, and no fragment.
    Whole,
    Address,
    Found,
    Pass,
}

/// Instructions, and jumps whose target is known later.
#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn push(&mut self, opcode: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        let registers = from << 4 | to;
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = immediate.to_le_bytes();
        self.code.push(u64::from_le_bytes([opcode, registers, low, high, a, b, c, d]));
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, size: u8, to: u8, from: u8, offset: i16) {
        self.push(0x61 | size, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, size: u8, to: u8, offset: i16, from: u8) {
        self.push(0x63 | size, to, from, offset, 0);
    }

    /// `*(to + offset) = value`
    pub fn store_value(&mut self, size: u8, to: u8, offset: i16, value: i32) {
        self.push(0x62 | size, to, 0, offset, value);
    }

    pub fn copy(&mut self, to: u8, from: u8) {
        self.push(0xbf, to, from, 0, 0);
    }

    pub fn set(&mut self, to: u8, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    pub fn add(&mut self, to: u8, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    fn and(&mut self, to: u8, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    /// `to = map`: an instruction of two halves.
    pub fn map(&mut self, to: u8, map: &Map) {
        self.push(0x18, to, 1, 0, map.number());
        self.push(0, 0, 0, 0, 0);
    }

    pub fn call(&mut self, function: i32) {
        self.push(0x85, 0, 0, 0, function);
    }

    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    pub fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn jump(&mut self, opcode: u8, to: u8, from: u8, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(opcode, to, from, 0, value);
    }

    fn goto(&mut self, label: Label) {
        self.jump(0x05, 0, 0, 0, label);
    }

    pub fn if_equal(&mut self, register: u8, value: i32, label: Label) {
        self.jump(0x15, register, 0, value, label);
    }

    pub fn if_differs(&mut self, register: u8, value: i32, label: Label) {
        self.jump(0x55, register, 0, value, label);
    }

    /// To the kernel with packets that have not this many bytes.
    fn need(&mut self, bytes: i32) {
        self.copy(R2, DATA);
        self.add(R2, bytes);
        self.jump(0x2d, R2, END, 0, Label::Pass);
    }

    /// The IPv4 address at this place, mapped, becomes the key's.
    fn key_v4(&mut self, at: i16) {
        self.load(W, R3, DATA, at);
        self.store_value(H, FRAME, KEY + 10, 0xffff);
        self.store(W, FRAME, KEY + 12, R3);
    }

    /// The IPv6 address at this place becomes the key's.
    fn key_v6(&mut self, at: i16) {
        for word in [0, 4, 8, 12] {
            self.load(W, R3, DATA, at + word);
            self.store(W, FRAME, KEY + word, R3);
        }
    }

    /// To [`Label::Found`] when the key is in the map.
    fn lookup(&mut self, flows: &Map) {
        self.map(R1, flows);
        self.copy(R2, FRAME);
        self.add(R2, i32::from(KEY));
        self.call(LOOKUP);
        self.if_differs(R0, 0, Label::Found);
    }

    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let found = self.labels.iter().find(|(name, _)| name == label);
            let target = found.expect("every label that is jumped to is set").1;
            let offset =
                i16::try_from(target as isize - *at as isize - 1).expect("a short program");
            let [low, high] = offset.to_le_bytes();
            let mut bytes = self.code[*at].to_le_bytes();
            (bytes[2], bytes[3]) = (low, high);
            self.code[*at] = u64::from_le_bytes(bytes);
        }
        // The kernel wants instructions in memory as they are written here, byte by byte.
        self.code.iter().map(|i| u64::from_ne_bytes(i.to_le_bytes())).collect()
    }
}

/// Two bytes of the network, as a load of two bytes gives them.
fn net(value: u16) -> i32 {
    i32::from(u16::from_ne_bytes(value.to_be_bytes()))
}

/// Where in a program's context `data` and `data_end` are, between which the packet lies.
#[derive(Clone, Copy)]
pub(super) struct Packet {
    pub data: i16,
    pub end: i16,
}

/// Goes to [`Label::Found`] with a packet whose flow on the queue at [`QUEUE`] is in the map, to [`Label::Pass`] with
/// any other. The context is in [`CONTEXT`].
pub(super) fn classify(a: &mut Assembler, flows: &Map, packet: Packet) {
    a.load(W, DATA, CONTEXT, packet.data);
    a.load(W, END, CONTEXT, packet.end);
    a.store_value(DW, FRAME, KEY, 0);
    a.store_value(DW, FRAME, KEY + 8, 0);
    a.store_value(W, FRAME, KEY + 16, 0);
    a.load(W, R4, FRAME, QUEUE);
    a.store(B, FRAME, KEY + KEY_QUEUE as i16, R4);
    // No more than any packet has, and enough for ARP.
    a.need(42);
    a.load(H, R4, DATA, 12);
    a.if_equal(R4, net(0x0800), Label::V4);
    a.if_equal(R4, net(0x86dd), Label::V6);
    a.if_differs(R4, net(0x0806), Label::Pass);
    a.key_v4(38);
    a.goto(Label::Address);

    a.label(Label::V4);
    a.key_v4(30);
    a.load(B, PROTOCOL, DATA, 23);
    a.if_equal(PROTOCOL, XTP, Label::Portless);
    // Options, or a fragment: no ports here.
    a.load(B, R4, DATA, 14);
    a.if_differs(R4, 0x45, Label::Address);
    a.load(H, R4, DATA, 20);
    a.and(R4, net(0x3fff));
    a.if_differs(R4, 0, Label::Address);
    a.load(H, R4, DATA, 36);
    ports(a, flows);
    a.goto(Label::Address);

    a.label(Label::V6);
    a.need(58);
    a.key_v6(38);
    a.load(B, PROTOCOL, DATA, 20);
    a.if_equal(PROTOCOL, XTP, Label::Portless);
    a.if_differs(PROTOCOL, FRAGMENT, Label::Whole);
    // What is in fragments is named by the fragment's header.
    a.load(B, PROTOCOL, DATA, 54);
    a.if_equal(PROTOCOL, XTP, Label::Portless);
    a.goto(Label::Address);
    a.label(Label::Whole);
    a.load(H, R4, DATA, 56);
    ports(a, flows);
    // Of ICMPv6 a neighbour solicitation: its target.
    a.if_differs(PROTOCOL, 58, Label::Address);
    a.need(78);
    a.load(B, R4, DATA, 54);
    a.if_differs(R4, 135, Label::Address);
    a.key_v6(62);
    a.goto(Label::Address);

    a.label(Label::Portless);
    a.set(R4, 0);
    ports(a, flows);

    a.label(Label::Address);
    a.lookup(flows);
    a.goto(Label::Pass);
}

/// Looks for the key with the port in `R4`, where the protocol has ports, and puts the key back.
fn ports(a: &mut Assembler, flows: &Map) {
    // Others have no such key: the map holds TCP, UDP and XTP only. An address alone has protocol 0, which is
    // an IPv6 hop-by-hop header: it is found by its address all the same.
    a.store(H, FRAME, KEY + 16, R4);
    a.store(B, FRAME, KEY + 18, PROTOCOL);
    a.lookup(flows);
    a.store_value(H, FRAME, KEY + 16, 0);
    a.store_value(B, FRAME, KEY + 18, 0);
}
