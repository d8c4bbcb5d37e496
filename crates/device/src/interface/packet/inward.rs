//! How a packet socket receives: slots of its ring, and super-frames that wait beside it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::super::arena::{self, Arena};
use super::super::intake::{Receiver, Summing};
use super::super::vnet::{self, HEADER_BYTES};
use super::super::{Checksum, RxPacket, Segmentation, Split, unfinished};
use crate::sys::packet::{Received, Ring};
use crate::{Waker, wake};

/// Packets that one `receive` takes.
const BATCH_PACKETS: usize = 64;

/// The ring, what waits beside it, and where we are.
pub(super) struct Inward {
    ring: Ring,
    batch: Vec<Slot>,
    /// Packets that waited beside the ring.
    beside: Option<Arena>,
    /// Packets beside the ring that the next `receive` takes at most: what was looked at goes by itself, so that the next one may
    /// be looked at, too.
    most_beside: usize,
    /// What the socket said in place of a packet.
    pub failed: Option<io::Error>,
    /// Packets beside the ring that could not be read.
    missed: u64,
    /// Some of them may lie there yet, before those whose slots are still to come.
    pub is_behind: bool,
    malformed: u64,
}

/// A packet of the batch.
enum Slot {
    /// It lies in the ring.
    InRing { index: usize, checksum: Checksum, segmentation: Segmentation },
    /// It was read.
    Read { index: usize },
}

impl Inward {
    pub fn new(ring: Ring, has_beside: bool) -> Inward {
        Inward {
            ring,
            batch: Vec::with_capacity(BATCH_PACKETS),
            beside: has_beside.then(|| Arena::new(arena::PACKETS, true)),
            most_beside: arena::PACKETS,
            failed: None,
            missed: 0,
            is_behind: false,
            malformed: 0,
        }
    }

    /// Packets that the kernel had for us and that were none.
    pub fn lost(&self) -> u64 {
        let beside = self.beside.as_ref().map_or(0, |beside| beside.malformed);
        self.malformed + beside + self.missed
    }

    /// Nothing waits in the ring: what lies beside it yet has no slot any more.
    fn catch_up(&mut self, fd: BorrowedFd<'_>) {
        for _ in 0..self.ring.count() {
            match recv(fd, &mut [0; HEADER_BYTES], RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.is_behind = false;
                    return;
                }
                Err(error) => {
                    self.failed = Some(error.into());
                    return;
                }
            }
        }
    }

    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.batch.clear();
        if let Some(beside) = &mut self.beside {
            beside.clear();
        }
        let most_beside = std::mem::replace(&mut self.most_beside, arena::PACKETS);
        let count = self.ring.advance(BATCH_PACKETS, most_beside);
        for index in 0..count {
            if let (true, Some(beside)) = (self.ring.is_beside(index), &mut self.beside) {
                let index = beside.len();
                let read = again(&mut self.failed, || beside.read(fd));
                if beside.len() > index {
                    self.batch.push(Slot::Read { index });
                }
                self.missed += u64::from(read != Some(true));
                self.is_behind |= read.is_none();
                continue;
            }
            match self.ring.packet(index).and_then(described) {
                Some(RxPacket { checksum, segmentation, .. }) => {
                    self.batch.push(Slot::InRing { index, checksum, segmentation });
                }
                None => self.malformed += 1,
            }
        }
        if count == 0 && self.is_behind {
            self.catch_up(fd);
        }
        if self.batch.is_empty()
            && let Some(error) = self.failed.take()
        {
            return Err(error);
        }
        Ok(self.batch.len())
    }

    pub fn packet(&self, index: usize) -> RxPacket<'_> {
        match (&self.batch[index], &self.beside) {
            (&Slot::InRing { index, checksum, segmentation }, _) => {
                let bytes = self.ring.packet(index).map_or(&[][..], |packet| packet.bytes);
                RxPacket { bytes, checksum, segmentation }
            }
            (Slot::Read { index }, Some(beside)) => beside.packet(*index),
            (Slot::Read { .. }, None) => unreachable!("it was read to there"),
        }
    }

    pub fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        self.batch.clear();
        self.ring.give_back();
        if self.beside.is_none() || self.is_behind {
            // Slots and what waits beside them are not in step.
            return None;
        }
        self.most_beside = usize::from(self.ring.is_next_beside());
        let (Received { vnet, bytes, .. }, len) = self.ring.front()?;
        // One that is malformed is dropped by who takes it.
        let (checksum, segmentation) = vnet::describe(vnet?, len)?;
        Some((RxPacket { bytes, checksum, segmentation }, len))
    }

    pub fn receive_split(
        &mut self,
        fd: BorrowedFd<'_>,
        head_len: usize,
        [first, second]: [&mut [u8]; 2],
    ) -> io::Result<Split> {
        self.batch.clear();
        self.ring.give_back();
        self.most_beside = arena::PACKETS;
        let Some(beside) = self.beside.as_mut().filter(|_| self.ring.is_next_beside()) else {
            return Ok(Split::Unsupported);
        };
        self.ring.advance(1, 1);
        let mut read = || beside.read_split(fd, head_len, [&mut *first, &mut *second]);
        match again(&mut self.failed, &mut read) {
            Some(split) => {
                if let Split::Packet { .. } = split {
                    self.batch.push(Slot::Read { index: 0 });
                }
                Ok(split)
            }
            None => {
                (self.missed, self.is_behind) = (self.missed + 1, true);
                Ok(Split::Nothing)
            }
        }
    }

    pub fn rejoin(&mut self, memory: [&[u8]; 2]) {
        if let Some(beside) = &mut self.beside {
            beside.rejoin(memory);
        }
    }
}

#[cfg(test)]
impl Inward {
    pub fn has_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// The slot of the next packet goes by, if that waits beside the ring.
    pub fn pass_beside(&mut self) -> bool {
        self.ring.advance(1, 1) > 0 && self.ring.is_beside(0)
    }
}

/// What another thread receives by.
pub(super) struct Receiving {
    /// Unmapped before the socket is closed.
    inward: Inward,
    fd: OwnedFd,
    /// Packets of the slot, or block, that was taken, and how many of them went on.
    taken: usize,
    next: usize,
}

impl Receiving {
    pub fn new(inward: Inward, fd: OwnedFd) -> Receiving {
        Receiving { inward, fd, taken: 0, next: 0 }
    }
}

impl Receiver for Receiving {
    fn batch(&self) -> Arena {
        Arena::new(BATCH_PACKETS, true)
    }

    fn receive(&mut self, into: &mut Arena, summing: &dyn Summing) -> io::Result<()> {
        let Receiving { inward, fd, taken, next } = self;
        while into.has_room() {
            if next == taken {
                // What was copied is the kernel's again at once.
                (*next, *taken) = (0, inward.ring.advance(1, 1));
            }
            if *taken == 0 {
                if inward.is_behind {
                    inward.catch_up(fd.as_fd());
                }
                break;
            }
            let index = std::mem::replace(next, *next + 1);
            if inward.ring.is_beside(index) && inward.beside.is_some() {
                let read = again(&mut inward.failed, || into.read(fd.as_fd()));
                into.malformed += u64::from(read != Some(true));
                inward.is_behind |= read.is_none();
                continue;
            }
            match inward.ring.packet(index).and_then(described) {
                Some(packet) => into.push(&packet, summing),
                None => into.malformed += 1,
            }
        }
        match inward.failed.take_if(|_| into.len() == 0) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn wait(&mut self, waker: &Waker) -> io::Result<()> {
        wake::wait(self.fd.as_fd(), waker, None, false)?;
        // What ended the sleep may be that the interface is gone.
        Ok(rustix::net::sockopt::socket_error(&self.fd)??)
    }
}

/// Reads a packet that waits beside the ring. An error of the socket's is told once, in place of it, and kept for who sleeps or looks
/// next and finds nothing: slot and packet stay in step. `None`: there was another.
fn again<T>(failed: &mut Option<io::Error>, mut read: impl FnMut() -> io::Result<T>) -> Option<T> {
    (0..2).find_map(|_| read().map_err(|error| *failed = Some(error)).ok())
}

/// What is known of a packet of the ring; `None` when its virtio header contradicts it.
fn described(packet: Received<'_>) -> Option<RxPacket<'_>> {
    let Received { vnet, bytes, is_unfinished } = packet;
    let Some(vnet) = vnet else {
        let checksum = if is_unfinished { unfinished::checksum(bytes) } else { Checksum::InPlace };
        return Some(RxPacket { bytes, checksum, segmentation: Segmentation::None });
    };
    vnet::parse(vnet, bytes)
}
