//! Shared memory between two processes of one host, which do not trust each other.
//!
//! Each side makes one sealed file (`half`): its ring of outgoing records and its control words.
//! The other side maps it read-only, so nobody can write what the other decides by: each index lies in
//! memory that only its owner writes. An index is read once and checked before it is used (`ring`);
//! so is each length. How the files come across: [`Listener`] and [`Call`].
//!
//! A record is a header of 16 bytes, the TPDU, and padding to a multiple of 64 bytes:
//!
//! ```text
//! 0        4     5         16                                   64 n
//! │ length │ ecn │ zero    │ TPDU                     │ padding │
//! ```
//! With a TCP header of 32 bytes and a record header of 16 the ciphertext starts on a cache line.

mod half;
mod hostile;
mod rendezvous;
pub(crate) mod ring;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

pub use half::{OLDEST_KERNEL, RING_BYTES};
pub use hostile::Hostile;
pub use rendezvous::{Call, Caller, Listener, Token, pair, same};
pub use ring::Violation;

use self::ring::{ALIGN, Bell, Consumer, Control, Producer, Sleeper, WANT_DATA, WANT_ROOM, Word};
use crate::frame::Events;
use crate::sys::map::Mapping;
use crate::{Capabilities, Device, Ecn, Event, RxBatch, TxFrame, Waker, wake};

/// Bytes of a record before its frame.
const RECORD_HEADER: usize = 16;
/// What `wait` spins at most before it sleeps: a little more than a sleep and a wake cost.
const MAX_SPIN: Duration = Duration::from_micros(50);

/// By which addresses the stack knows the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// This side.
    pub local: SocketAddr,
    /// The other.
    pub peer: SocketAddr,
}

/// Control words in the two mappings. Each has a cache line of its own.
struct Words<'a> {
    own: &'a Mapping,
    peer: &'a Mapping,
}

const fn place(word: Word) -> usize {
    match word {
        Word::Head => 64,
        Word::Tail => 128,
        Word::Sleep => 192,
    }
}

impl Control for Words<'_> {
    fn peer(&self, word: Word) -> u64 {
        self.peer.load(place(word))
    }
    fn publish(&self, word: Word, value: u64) {
        self.own.store(place(word), value);
    }
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// A received frame that lies in the peer's memory, taken and not yet released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    position: u64,
    len: usize,
    /// The congestion bits that came with it.
    pub ecn: Ecn,
}

impl Place {
    /// Length of the frame in bytes, at least 1.
    pub const fn frame_len(&self) -> usize {
        self.len
    }
}

/// Frames through shared memory, to and from one peer.
///
/// Beside [`Device`], which copies, frames can be written and read where they lie:
/// [`Shm::reserve`], [`Shm::commit`], [`Shm::publish`] and [`Shm::take`], [`Shm::bytes`], [`Shm::release`].
///
/// **What a reader of [`Shm::bytes`] must do.** The peer can change the bytes at any time until they are
/// released, even between two loads of one byte. So: copy headers out before looking at them; load
/// each byte of ciphertext once, in the loop that sums, opens and stores it; decide nothing about
/// memory by bytes in place. What is then opened is something that the peer, who has the key, could
/// have sealed; a tag that does not fit what was loaded fails as any forgery. Executions that read
/// the ciphertext more than once work on a copy ([`Device::receive`]).
pub struct Shm {
    own: Mapping,
    peer: Mapping,
    socket: OwnedFd,
    ends: Ends,
    producer: Producer,
    consumer: Consumer,
    sleeper: Sleeper,
    bell: Bell,
    /// Length of the frame that `reserve` gave room for.
    reserved: Option<usize>,
    /// Room that `transmit` or `reserve` last lacked, in bytes.
    lacked: u64,
    failed: Option<Violation>,
    peer_gone: bool,
    spin: Duration,
    caps: Capabilities,
    events: Events,
    waker: Waker,
}

/// Bytes that a frame takes in the ring.
const fn record_bytes(frame_len: usize) -> u64 {
    ((RECORD_HEADER + frame_len) as u64).next_multiple_of(ALIGN)
}

/// The longest frame of a ring: four fit.
const fn max_frame(ring_bytes: usize) -> usize {
    ring_bytes / 4 - RECORD_HEADER
}

impl Shm {
    fn new(socket: OwnedFd, own: Mapping, peer: Mapping, ends: Ends) -> io::Result<Self> {
        let (sends, receives) = (own.ring_bytes(), peer.ring_bytes());
        let caps = Capabilities {
            name: "shm",
            max_datagram: max_frame(sends),
            segmentation_offload: true,
            receive_offload: true,
            is_whole_path: true,
            max_batch_bytes: sends,
            receive_buffer_bytes: receives / 2,
            notes: vec![format!("rings of {sends} bytes out and {receives} bytes in")],
        };
        Ok(Shm {
            producer: Producer::new(sends as u64),
            consumer: Consumer::new(receives as u64),
            own,
            peer,
            socket,
            ends,
            sleeper: Sleeper::default(),
            bell: Bell::default(),
            reserved: None,
            lacked: 0,
            failed: None,
            peer_gone: false,
            spin: MAX_SPIN,
            caps,
            events: Events::default(),
            waker: Waker::new()?,
        })
    }

    /// The connection's end, if it has come: what the peer violated, or that it is gone.
    fn check(&self) -> io::Result<()> {
        match self.failed {
            Some(violation) => Err(io::Error::new(io::ErrorKind::InvalidData, violation)),
            None if self.peer_gone => Err(io::ErrorKind::ConnectionAborted.into()),
            None => Ok(()),
        }
    }

    /// Remembers a violation: nothing that the peer writes later is believed.
    fn fail(&mut self, violation: Violation) -> io::Error {
        self.failed = Some(violation);
        io::Error::new(io::ErrorKind::InvalidData, violation)
    }

    /// Room for a frame of `len` bytes in the ring, to write it in place; `None` when the ring is
    /// full. Without [`Shm::commit`] the next call gives the same room again.
    ///
    /// # Errors
    /// `InvalidInput` for a frame that is empty or longer than `max_datagram`; the connection's end.
    pub fn reserve(&mut self, len: usize) -> io::Result<Option<&mut [u8]>> {
        self.reserved = None;
        self.check()?;
        if len == 0 || len > self.caps.max_datagram {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = record_bytes(len);
        let words = Words { own: &self.own, peer: &self.peer };
        match self.producer.room_for(&words, bytes) {
            Ok(Some(position)) => {
                self.reserved = Some(len);
                Ok(Some(self.own.slice_mut(position + RECORD_HEADER as u64, len)))
            }
            Ok(None) => {
                self.lacked = bytes;
                Ok(None)
            }
            Err(violation) => Err(self.fail(violation)),
        }
    }

    /// Bytes that were free in the ring when the peer was last asked, which is when room lacked. There
    /// may be more.
    pub fn known_room(&self) -> usize {
        self.producer.known_room() as usize
    }

    /// Keeps the frame that was written into the room that `reserve` gave.
    ///
    /// # Panics
    /// When nothing is reserved.
    pub fn commit(&mut self, ecn: Ecn) {
        let len = self.reserved.take().expect("room is reserved");
        let mut header = [0; RECORD_HEADER];
        header[..4].copy_from_slice(&(len as u32).to_le_bytes());
        header[4] = ecn as u8;
        let position = self.producer.head();
        self.own.slice_mut(position, RECORD_HEADER).copy_from_slice(&header);
        self.producer.commit(record_bytes(len));
    }

    /// Shows the peer all frames that were committed, and wakes it when it sleeps.
    pub fn publish(&mut self) {
        let words = Words { own: &self.own, peer: &self.peer };
        if self.producer.publish(&words) && self.bell.must_ring(&words, WANT_DATA) {
            self.ring_the_bell();
        }
    }

    /// The next frame, which stays where it is until [`Shm::release`]; `None` when there is none.
    ///
    /// # Errors
    /// The connection's end; what the peer published before it went comes first.
    pub fn take(&mut self) -> io::Result<Option<Place>> {
        if self.failed.is_some() {
            self.check()?;
        }
        let words = Words { own: &self.own, peer: &self.peer };
        let (position, available) = match self.consumer.available(&words) {
            Ok(available) => available,
            Err(violation) => return Err(self.fail(violation)),
        };
        if available == 0 {
            return self.check().map(|()| None);
        }
        // One load of the length; from here on only the local copy counts.
        let header = self.peer.load_ring(position).to_le();
        let len = header & 0xffff_ffff;
        let most = (available - RECORD_HEADER as u64).min(max_frame(self.peer.ring_bytes()) as u64);
        if len == 0 || len > most {
            return Err(self.fail(Violation::Length { position, found: len, most }));
        }
        let len = len as usize;
        self.consumer.take(record_bytes(len));
        let ecn = Ecn::from_tos((header >> 32) as u8);
        Ok(Some(Place { position: position + RECORD_HEADER as u64, len, ecn }))
    }

    /// The bytes of a frame that was taken. Read them as [`Shm`] says.
    ///
    /// # Panics
    /// When the place is not one that was taken and not released.
    pub fn bytes(&self, place: Place) -> &[u8] {
        assert!(self.consumer.holds(place.position, place.len as u64));
        self.peer.slice(place.position, place.len)
    }

    /// Gives the room of all frames that were taken back to the peer, and wakes it when it waits for
    /// room.
    pub fn release(&mut self) {
        let words = Words { own: &self.own, peer: &self.peer };
        if self.consumer.release(&words) && self.bell.must_ring(&words, WANT_ROOM) {
            self.ring_the_bell();
        }
    }

    fn ring_the_bell(&mut self) {
        match send(&self.socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            // A full queue of rings will wake it as well.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {}
            Err(_) => self.peer_gone = true,
        }
    }

    /// Forgets rings that have come, a bounded number at a time; notices the peer's end.
    fn hear_the_bell(&mut self) {
        for _ in 0..64 {
            match recv(&self.socket, &mut [0u8; 8], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.peer_gone = true;
                    return;
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.peer_gone = true;
                    return;
                }
            }
        }
    }

    /// There is something to do: what is wanted of data and room that was lacked, or an end to tell.
    fn ready(&mut self, wants: u64) -> bool {
        if self.failed.is_some() || self.peer_gone {
            return true;
        }
        let words = Words { own: &self.own, peer: &self.peer };
        let data = self.consumer.available(&words).map(|(_, bytes)| bytes > 0);
        let room = self.producer.room_for(&words, self.lacked).map(|room| room.is_some());
        match (data, room) {
            (Ok(data), Ok(room)) => {
                data && wants & WANT_DATA != 0 || room && wants & WANT_ROOM != 0
            }
            (Err(violation), _) | (_, Err(violation)) => {
                self.failed = Some(violation);
                true
            }
        }
    }

    /// Asks the peer to ring from now on, for an owner that sleeps on several descriptors, of which
    /// [`Device::as_fd`] is one. False when there is something to do already and no ring may come; either
    /// way [`Shm::get_up`] follows.
    pub fn lie_down(&mut self, want_write: bool) -> bool {
        self.lie_down_for(wants(want_write))
    }

    fn lie_down_for(&mut self, wants: u64) -> bool {
        self.sleeper.lie_down(&Words { own: &self.own, peer: &self.peer }, wants);
        !self.ready(wants)
    }

    /// Ends what [`Shm::lie_down`] began.
    pub fn get_up(&mut self) {
        self.sleeper.get_up(&Words { own: &self.own, peer: &self.peer });
        self.hear_the_bell();
    }

    /// Spins until ready, for as long as spinning paid lately.
    fn spin_until_ready(&mut self, wants: u64, timeout: Option<Duration>) -> bool {
        let limit = timeout.map_or(self.spin, |timeout| timeout.min(self.spin));
        let start = Instant::now();
        loop {
            if self.ready(wants) {
                self.spin = (self.spin * 2).min(MAX_SPIN);
                return true;
            }
            if start.elapsed() >= limit {
                self.spin = (self.spin / 2).max(Duration::from_micros(1));
                return false;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
    }

    fn wait_for(&mut self, wants: u64, timeout: Option<Duration>) -> io::Result<bool> {
        if self.spin_until_ready(wants, timeout) {
            return Ok(true);
        }
        if timeout == Some(Duration::ZERO) {
            self.hear_the_bell();
            return Ok(self.ready(wants));
        }
        let woken = if self.lie_down_for(wants) {
            wake::wait(self.socket.as_fd(), &self.waker, timeout, false)
        } else {
            Ok(true)
        };
        self.get_up();
        woken
    }

    /// Sleeps until there is room where it lacked, or an end to tell, whatever waits to be received meanwhile.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn wait_for_room(&mut self) -> io::Result<()> {
        self.wait_for(WANT_ROOM, None).map(|_| ())
    }
}

/// What [`Device::wait`] waits for.
fn wants(want_write: bool) -> u64 {
    if want_write { WANT_DATA | WANT_ROOM } else { WANT_DATA }
}

impl Device for Shm {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.ends.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        self.check()?;
        let mut taken = 0;
        for frame in frames {
            if frame.peer != self.ends.peer {
                self.events.push(Event::Unreachable { peer: frame.peer, is_closed: false });
            } else if frame.len() > self.caps.max_datagram {
                self.events.push(Event::TooBig { peer: frame.peer, len: frame.len() });
            } else if !frame.is_empty() {
                let Some(room) = self.reserve(frame.len())? else { break };
                let (header, payload) = room.split_at_mut(frame.header.len());
                header.copy_from_slice(frame.header);
                payload.copy_from_slice(frame.payload);
                self.commit(frame.ecn);
            }
            taken += 1;
        }
        self.publish();
        Ok(taken)
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        batch.clear();
        loop {
            let place = match self.take() {
                Ok(Some(place)) => place,
                Ok(None) => break,
                // What came before the end is delivered first.
                Err(_) if !batch.is_empty() => break,
                Err(e) => return Err(e),
            };
            if place.len > batch.slot_bytes() {
                let peer = self.ends.peer;
                self.events.push(Event::TooBig { peer, len: place.len });
                continue;
            }
            let bytes = self.peer.slice(place.position, place.len);
            if !batch.push_frame(self.ends.peer, place.ecn, bytes, true) {
                self.consumer.untake(record_bytes(place.len));
                break;
            }
        }
        self.release();
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.wait_for(wants(want_write), timeout)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The doorbell; it rings only while this side is in [`Device::wait`], or between
    /// [`Shm::lie_down`] and [`Shm::get_up`].
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}

#[cfg(test)]
mod tests;
