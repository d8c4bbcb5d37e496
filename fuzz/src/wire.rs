//! A device whose wire the target holds in its hands: frames can be seen, changed, and come from anywhere.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fusewire_device::{Capabilities, Device, Ecn, RxBatch, TxFrame, Waker};

/// A frame under way.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Who sent it, or seems to have.
    pub from: SocketAddr,
    /// Its congestion bits.
    pub ecn: Ecn,
    /// The TPDU.
    pub bytes: Vec<u8>,
}

/// Frames on their way to one device, oldest first.
#[derive(Clone, Default)]
pub struct Mailbox(Arc<Mutex<VecDeque<Frame>>>);

impl Mailbox {
    /// The frames.
    pub fn frames(&self) -> MutexGuard<'_, VecDeque<Frame>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of two devices.
pub struct Wired {
    local: SocketAddr,
    remote: SocketAddr,
    inward: Mailbox,
    outward: Mailbox,
    caps: Capabilities,
    waker: Waker,
}

/// Two devices with their addresses, and the mailbox of each. What goes elsewhere is lost. Over a device of
/// the name `udp` a stack has to find out how long datagrams can be.
///
/// # Errors
/// No descriptor is left.
pub fn pair(
    name: &'static str,
    addrs: [SocketAddr; 2],
    max_datagram: usize,
) -> io::Result<([Wired; 2], [Mailbox; 2])> {
    let boxes = [Mailbox::default(), Mailbox::default()];
    let device = |own: usize| {
        Ok::<_, io::Error>(Wired {
            local: addrs[own],
            remote: addrs[1 - own],
            inward: boxes[own].clone(),
            outward: boxes[1 - own].clone(),
            caps: Capabilities {
                name,
                max_datagram,
                max_batch_bytes: max_datagram,
                receive_buffer_bytes: 1 << 20,
                ..Capabilities::default()
            },
            waker: Waker::new()?,
        })
    };
    Ok(([device(0)?, device(1)?], boxes))
}

impl Device for Wired {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }

    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        for frame in frames.iter().filter(|f| f.peer == self.remote && !f.is_empty()) {
            let bytes = [frame.header, frame.payload].concat();
            self.outward.frames().push_back(Frame { from: self.local, ecn: frame.ecn, bytes });
        }
        Ok(frames.len())
    }

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        batch.clear();
        let mut frames = self.inward.frames();
        while let Some(frame) = frames.front() {
            if !batch.push_frame(frame.from, frame.ecn, &frame.bytes, true) {
                break;
            }
            frames.pop_front();
        }
        Ok(batch.len())
    }

    fn wait(&mut self, _: Option<Duration>, want_write: bool) -> io::Result<bool> {
        Ok(want_write)
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
