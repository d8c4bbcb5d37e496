//! What a socket costs the others of its stack: for who gives each of his users so much and no more.

use super::config::{Result, SocketId};
use super::stack::Stack;
use super::table::Socket;

/// What a socket has, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that wait here: written and not acknowledged, received and not read.
    pub bytes: u64,
    /// Segments of its connection that have left.
    pub segments: u64,
}

impl Stack {
    /// What a socket costs; of datagrams and listeners only what waits to be read.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn load(&mut self, id: SocketId) -> Result<Load> {
        Ok(match self.core.table.socket(id)? {
            Socket::Stream(stream) => {
                Load { bytes: stream.waiting(), segments: stream.tcp.counters().segments_sent }
            }
            Socket::Udp(udp) => Load { bytes: udp.queue.bytes() as u64, segments: 0 },
            Socket::Listener(_) => Load::default(),
        })
    }
}
