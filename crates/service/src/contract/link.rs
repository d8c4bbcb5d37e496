//! The link between two ends whose contract is looked at: one that loses, reorders, repeats and damages frames by a seed,
//! that can be cut, and that somebody listens to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::udp::{self, Udp};
use fusewire_device::{Capabilities, Device, RxBatch, SuperPacket, TxFrame, Waker};
use fusewire_stack as stack;

use crate::Result;

/// A link over which everything goes wrong at times.
pub const BAD: Rules =
    Rules { loss: 0.03, reorder: 0.05, duplicate: 0.02, corrupt: 0.02, ..Rules::NONE };

/// What a listener to the link looks for: no ciphertext has it but by a chance of one in 2^128.
pub const MARK: &[u8; 16] = b"to be hidden ...";

/// What is told of a link, and to it.
#[derive(Debug, Default)]
pub struct Wire {
    /// Frames that have left this end, and come to it.
    pub frames: AtomicU64,
    /// Bytes of those that have left this end, and of the longest of them.
    pub sent_bytes: AtomicU64,
    /// See `sent_bytes`.
    pub longest: AtomicU64,
    /// Those of them that show [`MARK`].
    pub shown: AtomicU64,
    /// Nothing comes through any more.
    pub is_cut: AtomicBool,
    /// What is said to this end of a group alone is not heard any more; what is said to all is.
    pub is_deaf: AtomicBool,
}

impl Wire {
    /// Somebody listens.
    fn sees(&self, parts: &[&[u8]]) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        let shows = |bytes: &&[u8]| bytes.windows(MARK.len()).any(|part| part == MARK);
        if parts.iter().any(shows) {
            self.shown.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The device of one end.
pub struct Link {
    inner: Impair<Box<dyn Device>>,
    wire: Arc<Wire>,
}

impl Link {
    /// At a free port of this address.
    pub fn new(local: SocketAddr, rules: Rules, seed: u64, wire: Arc<Wire>) -> Result<Link> {
        let udp = Udp::bind(local, &udp::Config::default());
        let udp = udp.map_err(stack::Error::os("binding the UDP socket"))?;
        Ok(Link::over(Box::new(udp), rules, seed, wire))
    }

    /// Around a device.
    pub fn over(device: Box<dyn Device>, rules: Rules, seed: u64, wire: Arc<Wire>) -> Link {
        let begun = std::time::Instant::now();
        let clock = move || Instant::from_us(begun.elapsed().as_micros() as u64);
        Link { inner: Impair::new(device, rules, rules, seed, clock), wire }
    }
}

impl Device for Link {
    fn caps(&self) -> &Capabilities {
        self.inner.caps()
    }

    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        for frame in frames {
            self.wire.sees(&[frame.header, frame.payload]);
            let len = (frame.header.len() + frame.payload.len()) as u64;
            self.wire.sent_bytes.fetch_add(len, Ordering::Relaxed);
            self.wire.longest.fetch_max(len, Ordering::Relaxed);
        }
        match self.wire.is_cut.load(Ordering::Relaxed) {
            true => Ok(frames.len()),
            false => self.inner.transmit(frames),
        }
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        let received = self.inner.receive(batch)?;
        for packet in batch.iter() {
            packet.frames().for_each(|frame| self.wire.sees(&[frame]));
        }
        // A returned key (`docs/xtp.md`, section 2).
        let is_alone = |frame: &[u8]| frame.first().is_some_and(|byte| byte & 0x80 != 0);
        if !self.wire.is_deaf.load(Ordering::Relaxed)
            || !batch.iter().any(|packet| packet.frames().any(is_alone))
        {
            return Ok(received);
        }
        // The rest of what came with it is heard.
        let heard = |packet: SuperPacket<'_>| {
            let heard: Vec<_> = packet.frames().filter(|frame| !is_alone(frame)).collect();
            (packet.peer, packet.segment_len, packet.ecn, heard.concat())
        };
        let all: Vec<_> = batch.iter().map(heard).collect();
        batch.clear();
        for (peer, segment_len, ecn, bytes) in all.iter().filter(|(.., bytes)| !bytes.is_empty()) {
            let (segment_len, ecn) = (*segment_len, *ecn);
            batch.push(SuperPacket { peer: *peer, segment_len, ecn, bytes });
        }
        Ok(batch.len())
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.inner.wait(timeout, want_write)
    }

    fn next_timeout(&self) -> Option<Duration> {
        self.inner.next_timeout()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_finds_what_is_in_the_clear() {
        let wire = Wire::default();
        let whole = [&b"before"[..], MARK, b"behind"].concat();
        for (payload, shown) in [(&whole[..], 1), (&whole[..20], 1), (&whole[..22], 2)] {
            wire.sees(&[b"header", payload]);
            assert_eq!(wire.shown.load(Ordering::Relaxed), shown);
        }
        assert_eq!(wire.frames.load(Ordering::Relaxed), 3);
    }
}
