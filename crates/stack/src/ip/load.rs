//! What a socket costs the others of its stack: for who gives each of his users so much and no more.

use super::config::{Result, SocketId};
use super::stack::Stack;
use super::table::Socket;

/// Window of a connection that is held back, in bytes: a small segment, so that who reads goes on.
const HELD_BACK: u32 = 1024;

/// What a socket has, and what it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes that wait here: written and not acknowledged, received and not read.
    pub bytes: u64,
    /// Segments of its connection that have left.
    pub segments: u64,
}

impl Stack {
    /// What a socket costs; of datagrams only what waits to be read, of a listener what the connections have that wait to be
    /// accepted.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn load(&mut self, id: SocketId) -> Result<Load> {
        Ok(match self.core.table.socket(id)? {
            Socket::Stream(stream) => {
                Load { bytes: stream.waiting(), segments: stream.tcp.counters().segments_sent }
            }
            Socket::Udp(udp) => Load { bytes: udp.queue.bytes() as u64, segments: 0 },
            Socket::Listener(listener) => {
                let waiting = std::mem::take(&mut listener.waiting);
                let of = |id: &SocketId| self.core.table.stream(*id).map_or(0, |one| one.waiting());
                let bytes = waiting.iter().map(of).sum();
                self.core.table.listener(id)?.waiting = waiting;
                Load { bytes, segments: 0 }
            }
        })
    }

    /// A socket takes as little as it can of what comes, or as much as before: for who has all the memory that he may
    /// have. The window of a connection closes, also where its peer was promised more; of datagrams one waits at a time, and
    /// others are dropped. A listener stays as it is.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn set_held_back(&mut self, id: SocketId, on: bool) -> Result<()> {
        match self.core.table.socket(id)? {
            Socket::Stream(stream) if on => {
                let before = stream.tcp.narrow_window(HELD_BACK);
                stream.held_back.get_or_insert(before);
            }
            Socket::Stream(stream) => {
                if let Some(before) = stream.held_back.take() {
                    stream.tcp.widen_window(before);
                    self.core.mark(id.index);
                }
            }
            Socket::Udp(udp) => udp.queue.is_held_back = on,
            Socket::Listener(_) => {}
        }
        Ok(())
    }
}
