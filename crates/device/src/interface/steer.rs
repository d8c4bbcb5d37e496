//! The XDP program that gives an AF_XDP socket our flows and leaves the kernel all else, assembled here:
//! nothing has to be compiled for it, and the verifier checks it each time that it is loaded.
//!
//! ```text
//! any       is everything on this queue ours?   ─┐
//! ARP       target in flows?                     │
//! IPv4, v6  (destination, protocol, port) or     ├─▶ the socket of this queue, else the kernel
//!           (destination) in flows?              │
//! ICMPv6    solicited target in flows?          ─┘
//! ```
//! Flows are a hash map, so that they change under way, and each is of one queue: a queue's flows are those of the
//! process that has its socket. Several processes so share one program, which the first hangs on the interface
//! and the others find there. Fragments, IP options and IPv6 extension headers have no port where the program
//! looks: with flows by port they stay the kernel's. XTP's port is always 0: of it what has options is ours too,
//! and fragments.
//!
//! A flow is an entry for each queue of its process, so that a process with many queues has fewer flows: a port more
//! or less costs a system call for each queue, and none for the other ports.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use super::flows::{Flows, Port, Protocol};
use super::host::Host;
use crate::sys::bpf::{self, Map};

/// Bytes of a key: address (IPv4 mapped), port, protocol, queue. No port and no protocol stand for all that is
/// sent to the address.
const KEY_BYTES: usize = 20;
type Key = [u8; KEY_BYTES];
/// Where in a key the queue is.
const KEY_QUEUE: usize = 19;
/// Most flows at a time, over all queues of all processes.
const MAX_FLOWS: u32 = 1 << 18;
/// Most queues of an interface: what fits into a key.
pub(crate) const MAX_QUEUES: u32 = 256;

/// Whose program is on an interface may change while we look: so often it is tried again, after so long.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(10);

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
fn keys(flows: &Flows) -> HashSet<Key> {
    let port = |p: &Port| key(p.addr, p.port, p.protocol as u8);
    let addrs = flows.addrs.iter().map(|addr| key(*addr, 0, 0));
    flows.ports.iter().map(port).chain(addrs).collect()
}

/// The same flow on another queue.
fn on(queue: u8, mut key: Key) -> Key {
    key[KEY_QUEUE] = queue;
    key
}

/// What the program looks into. Queues of several processes are in it.
#[derive(Debug)]
struct Maps {
    flows: Map,
    /// For each queue, whether all that comes on it is ours.
    everything: Map,
    sockets: Map,
}

impl Maps {
    fn new() -> io::Result<Maps> {
        let flows =
            bpf::create_map(bpf::MAP_HASH, KEY_BYTES as u32, 1, MAX_FLOWS, bpf::NO_PREALLOC)?;
        let everything = bpf::create_map(bpf::MAP_ARRAY, 4, 4, MAX_QUEUES, 0)?;
        let sockets = bpf::create_map(bpf::MAP_XSK, 4, 4, MAX_QUEUES, 0)?;
        Ok(Maps { flows, everything, sockets })
    }

    /// Those of a program like ours, if they are all there.
    fn of(maps: Vec<(u32, Map)>) -> Option<Maps> {
        let (mut flows, mut everything, mut sockets) = (None, None, None);
        for (kind, map) in maps {
            match (kind, map.key_len, map.value_len) {
                (bpf::MAP_HASH, KEY_BYTES, 1) => flows = Some(map),
                (bpf::MAP_ARRAY, 4, 4) => everything = Some(map),
                (bpf::MAP_XSK, 4, 4) => sockets = Some(map),
                _ => return None,
            }
        }
        Some(Maps { flows: flows?, everything: everything?, sockets: sockets? })
    }

    fn take_everything(&self, queue: u8, is_ours: bool) -> io::Result<()> {
        self.everything.put(&u32::from(queue).to_ne_bytes(), &u32::from(is_ours).to_ne_bytes())
    }
}

/// What of it is this process's.
#[derive(Debug)]
struct Ours {
    everything: bool,
    /// As of queue 0; each is in the map for each of `queues`.
    flows: HashSet<Key>,
    queues: Vec<u8>,
}

/// A program that hangs on an interface by our doing or another's.
struct Attached {
    maps: Maps,
    link: OwnedFd,
    is_native: bool,
    is_joined: bool,
}

/// A program and its maps, on an interface. It hangs there until the last process that uses it drops it or ends,
/// however it ends.
#[derive(Debug)]
pub(crate) struct Steering {
    maps: Maps,
    ours: Mutex<Ours>,
    /// The interface runs the program as long as one of the kind is open.
    _link: OwnedFd,
    /// In the driver, and not where the kernel's stack begins.
    pub is_native: bool,
    /// Another process hung it there.
    pub is_joined: bool,
}

impl Steering {
    /// Hangs a program on the interface: in the driver if it can, unless `generic` is asked for. Where another
    /// process did so already, that one's is used.
    ///
    /// # Errors
    /// `ResourceBusy`, when a program of another kind is there; what the kernel says.
    pub fn attach(interface: u32, wanted: &Flows, generic: bool) -> io::Result<Steering> {
        let attach = || Steering::link_or_join(interface, generic);
        let Attached { maps, link, is_native, is_joined } = again_while_occupied(attach)?;
        let ours = Ours { everything: wanted.everything, flows: keys(wanted), queues: Vec::new() };
        Ok(Steering { maps, ours: Mutex::new(ours), _link: link, is_native, is_joined })
    }

    fn link_or_join(interface: u32, generic: bool) -> io::Result<Attached> {
        let maps = Maps::new()?;
        let program = bpf::load_xdp(&assemble(&maps))?;
        let link = |mode| bpf::link_xdp(program.as_fd(), interface, mode);
        let linked = match if generic { None } else { Some(link(bpf::NATIVE)) } {
            Some(Ok(link)) => Ok((link, true)),
            // Somebody else's program is there; another mode would not change that.
            Some(Err(e)) if e.kind() == io::ErrorKind::ResourceBusy => Err(e),
            _ => link(bpf::GENERIC).map(|link| (link, false)),
        };
        match linked {
            Ok((link, is_native)) => Ok(Attached { maps, link, is_native, is_joined: false }),
            Err(busy) if is_occupied(&busy) => join(interface, program.as_fd(), busy),
            Err(e) => Err(e),
        }
    }

    fn ours(&self) -> std::sync::MutexGuard<'_, Ours> {
        self.ours.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// From now on these flows are ours, on all queues that are.
    ///
    /// # Errors
    /// `OutOfMemory`, when there is no room for them all: then those that were ours still are.
    pub fn set(&self, wanted: &Flows) -> io::Result<()> {
        let mut ours = self.ours();
        let wanted_keys = keys(wanted);
        let new: Vec<Key> = wanted_keys.difference(&ours.flows).copied().collect();
        for (at, key) in new.iter().enumerate() {
            if let Err(e) = self.put(&ours.queues, key) {
                new[..=at].iter().for_each(|key| self.remove(&ours.queues, key));
                return Err(e);
            }
        }
        ours.flows.difference(&wanted_keys).for_each(|key| self.remove(&ours.queues, key));
        (ours.flows, ours.everything) = (wanted_keys, wanted.everything);
        ours.queues.iter().try_for_each(|q| self.maps.take_everything(*q, ours.everything))
    }

    fn put(&self, queues: &[u8], key: &Key) -> io::Result<()> {
        let put = |queue: &u8| self.maps.flows.put(&on(*queue, *key), &[1]);
        queues.iter().try_for_each(put).map_err(|e| match e.raw_os_error() {
            Some(libc::E2BIG) => {
                let what = format!(
                    "more than {MAX_FLOWS} flows, each counted once for each queue of its process: fewer ports, or \
                     a queue of its own (xdp:INTERFACE/QUEUE)"
                );
                io::Error::new(io::ErrorKind::OutOfMemory, what)
            }
            _ => e,
        })
    }

    /// What is not there is as good as removed.
    fn remove(&self, queues: &[u8], key: &Key) {
        for queue in queues {
            let _ = self.maps.flows.remove(&on(*queue, *key));
        }
    }

    /// Packets of our flows that come on this queue go to this socket, which is bound to it.
    ///
    /// # Errors
    /// As [`Steering::set`].
    pub fn socket(&self, queue: u32, socket: i32) -> io::Result<()> {
        let Ok(number) = u8::try_from(queue) else {
            let what = format!("queue {queue}, and a program knows {MAX_QUEUES}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        };
        // What a process left that was killed: the queue is ours alone now. Before us there was nobody
        // where the program is ours.
        let left =
            if self.is_joined { self.maps.flows.keys(MAX_FLOWS as usize) } else { Vec::new() };
        for left in left.iter().filter(|left| left[KEY_QUEUE] == number) {
            let _ = self.maps.flows.remove(left);
        }
        let mut ours = self.ours();
        ours.queues.push(number);
        ours.flows.iter().try_for_each(|key| self.put(&[number], key))?;
        self.maps.take_everything(number, ours.everything)?;
        self.maps.sockets.put(&queue.to_ne_bytes(), &socket.to_ne_bytes())
    }

    /// Nothing of this queue is ours any more. Others may go on with the program, and take the queue as soon as its
    /// socket is closed: this comes first.
    pub fn release(&self, queue: u32) {
        let Ok(queue) = u8::try_from(queue) else { return };
        let mut ours = self.ours();
        if ours.queues.contains(&queue) {
            ours.queues.retain(|q| *q != queue);
            let _ = self.maps.take_everything(queue, false);
            ours.flows.iter().for_each(|key| self.remove(&[queue], key));
        }
    }
}

/// Tries again when the program that was there has gone before it could be joined, or does not hang yet.
fn again_while_occupied<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..TRIES {
        match attempt() {
            Err(e) if is_occupied(&e) => std::thread::sleep(TRY_AGAIN),
            result => return result,
        }
    }
    attempt()
}

/// A program is there already, in the same mode or the other.
fn is_occupied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy || error.kind() == io::ErrorKind::AlreadyExists
}

/// The program that hangs on the interface, if it is like this one.
fn join(interface: u32, program: BorrowedFd<'_>, busy: io::Error) -> io::Result<Attached> {
    let Some((id, is_native)) = Host::open()?.xdp_program(interface)? else { return Err(busy) };
    let there = match bpf::hanging(id, interface) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(busy),
        Err(e) => {
            let what = format!(
                "an XDP program is on the interface; to use it too, if it is Fusewire's, takes CAP_SYS_ADMIN: {e}"
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        }
    };
    let is_alike = there.tag == bpf::program_info(program)?.0;
    let maps = Maps::of(there.maps).filter(|_| is_alike).ok_or(busy)?;
    Ok(Attached { maps, link: there.link, is_native, is_joined: true })
}

// Registers (BPF instruction set, RFC 9669, section 2.1).
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
/// The context, over calls.
const CONTEXT: u8 = 6;
/// The packet's begin and end, over calls.
const DATA: u8 = 7;
const END: u8 = 8;
/// The protocol, over calls.
const PROTOCOL: u8 = 9;
const FRAME: u8 = 10;

/// XTP's number in IP, and that of IPv6's fragment header.
const XTP: i32 = Protocol::Xtp as i32;
const FRAGMENT: i32 = 44;

const PASS: i32 = 2;
const LOOKUP: i32 = 1;
const REDIRECT: i32 = 51;
/// Where on the stack the key lies, and the queue's number.
const KEY: i16 = -24;
const QUEUE: i16 = -4;

/// Sizes of loads and stores.
const W: u8 = 0x00;
const H: u8 = 0x08;
const B: u8 = 0x10;
const DW: u8 = 0x18;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
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
struct Assembler {
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
    fn load(&mut self, size: u8, to: u8, from: u8, offset: i16) {
        self.push(0x61 | size, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    fn store(&mut self, size: u8, to: u8, offset: i16, from: u8) {
        self.push(0x63 | size, to, from, offset, 0);
    }

    /// `*(to + offset) = value`
    fn store_value(&mut self, size: u8, to: u8, offset: i16, value: i32) {
        self.push(0x62 | size, to, 0, offset, value);
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.push(0xbf, to, from, 0, 0);
    }

    fn set(&mut self, to: u8, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    fn add(&mut self, to: u8, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    fn and(&mut self, to: u8, value: i32) {
        self.push(0x57, to, 0, 0, value);
    }

    /// `to = map`: an instruction of two halves.
    fn map(&mut self, to: u8, map: &Map) {
        self.push(0x18, to, 1, 0, map.number());
        self.push(0, 0, 0, 0, 0);
    }

    fn call(&mut self, function: i32) {
        self.push(0x85, 0, 0, 0, function);
    }

    fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.code.len()));
    }

    fn jump(&mut self, opcode: u8, to: u8, from: u8, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(opcode, to, from, 0, value);
    }

    fn goto(&mut self, label: Label) {
        self.jump(0x05, 0, 0, 0, label);
    }

    fn if_equal(&mut self, register: u8, value: i32, label: Label) {
        self.jump(0x15, register, 0, value, label);
    }

    fn if_differs(&mut self, register: u8, value: i32, label: Label) {
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

    fn finish(mut self) -> Vec<u64> {
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

fn assemble(maps: &Maps) -> Vec<u64> {
    let mut a = Assembler::default();
    a.copy(CONTEXT, R1);
    // `rx_queue_index`
    a.load(W, R2, CONTEXT, 16);
    a.store(W, FRAME, QUEUE, R2);
    a.map(R1, &maps.everything);
    a.copy(R2, FRAME);
    a.add(R2, i32::from(QUEUE));
    a.call(LOOKUP);
    // More queues than there are sockets for.
    a.if_equal(R0, 0, Label::Pass);
    a.load(W, R4, R0, 0);
    a.if_differs(R4, 0, Label::Found);
    classify(&mut a, &maps.flows);
    a.label(Label::Found);
    a.map(R1, &maps.sockets);
    a.load(W, R2, FRAME, QUEUE);
    // Where the queue has no socket.
    a.set(R3, PASS);
    a.call(REDIRECT);
    a.exit();
    a.label(Label::Pass);
    a.set(R0, PASS);
    a.exit();
    a.finish()
}

fn classify(a: &mut Assembler, flows: &Map) {
    // `data` and `data_end`
    a.load(W, DATA, CONTEXT, 0);
    a.load(W, END, CONTEXT, 4);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_occupied_for_a_moment_is_tried_again() {
        let fails = |times: u32, kind: io::ErrorKind| {
            let mut tries = 0;
            let result = again_while_occupied(|| {
                tries += 1;
                if tries > times { Ok(()) } else { Err(kind.into()) }
            });
            (result.map_err(|e: io::Error| e.kind()), tries)
        };
        use io::ErrorKind::{AlreadyExists, PermissionDenied, ResourceBusy};
        assert_eq!(fails(0, ResourceBusy), (Ok(()), 1));
        assert_eq!(fails(3, AlreadyExists), (Ok(()), 4));
        assert_eq!(fails(100, ResourceBusy), (Err(ResourceBusy), TRIES));
        assert_eq!(fails(100, PermissionDenied), (Err(PermissionDenied), 1));
    }
}
