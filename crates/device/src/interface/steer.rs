//! The XDP program that gives an AF_XDP socket our flows and leaves the kernel all else.
//!
//! ```text
//! is everything on this queue ours?   ─┐
//! is its flow (super::classify)?      ─┴▶ the socket of this queue, else the kernel
//! ```
//! A queue's flows are those of the process that has its socket. Several processes so share one program, which the first
//! hangs on the interface and the others find there.
//!
//! A flow is an entry for each queue of its process, so that a process with many queues has fewer flows: a port more
//! or less costs a system call for each queue, and none for the other ports.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use super::classify::{
    Assembler, CONTEXT, FRAME, KEY_BYTES, KEY_QUEUE, Key, LOOKUP, Label, MAX_FLOWS, Packet, QUEUE,
    R0, R1, R2, R3, R4, W, classify, keys, on,
};
use super::flows::Flows;
use super::host::Host;
use crate::sys::bpf::{self, Map};

/// Most queues of an interface: what fits into a key.
pub(crate) const MAX_QUEUES: u32 = 256;

/// Whose program is on an interface may change while we look: so often it is tried again, after so long.
const TRIES: u32 = 5;
const TRY_AGAIN: Duration = Duration::from_millis(10);

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
        let program = bpf::load(bpf::Kind::Xdp, &assemble(&maps))?;
        let link = |mode| bpf::link(program.as_fd(), interface, bpf::Kind::Xdp, mode);
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

const PASS: i32 = 2;
const REDIRECT: i32 = 51;
/// Of `struct xdp_md`.
const PACKET: Packet = Packet { data: 0, end: 4 };

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
    classify(&mut a, &maps.flows, PACKET);
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
