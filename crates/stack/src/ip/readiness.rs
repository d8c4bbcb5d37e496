//! What a call on a socket would do now, without doing it: for `poll` and its like.

use std::net::IpAddr;

use fusewire_base::Instant;
use fusewire_transport::tcp::State;

use super::config::{Result, SocketId};
use super::stack::Stack;
use super::table::Socket;
use super::udp::Messages;

/// What may be done with a socket without waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read or to accept, the end of the stream, or an error to be told.
    pub readable: bool,
    /// A third of the send buffer is free, or writing would fail at once.
    pub writable: bool,
    /// The peer has finished, and all that it sent was read or waits to be.
    pub peer_finished: bool,
    /// Nothing goes either way any more.
    pub over: bool,
    /// There is an error to be told.
    pub error: bool,
}

impl Stack {
    /// What may be done now. Who finds no room is told [`Event::Writable`](super::Event::Writable) when
    /// there is.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn readiness(&mut self, id: SocketId) -> Result<Readiness> {
        Ok(match self.core.table.socket(id)? {
            Socket::Udp(udp) => {
                let error = udp.error.is_some();
                let readable = error || !udp.queue.is_empty();
                Readiness { readable, writable: true, error, ..Readiness::default() }
            }
            Socket::Listener(listener) => {
                Readiness { readable: !listener.waiting.is_empty(), ..Readiness::default() }
            }
            Socket::Stream(stream) => {
                let state = stream.tcp.state();
                let over = state == State::Closed;
                let writable = match state {
                    State::SynSent | State::SynReceived => false,
                    State::Established | State::CloseWait => stream.is_writable(),
                    _ => true,
                };
                if !writable {
                    stream.ask_room();
                }
                let at_end = stream.at_end();
                let error = stream.error.is_some();
                Readiness {
                    readable: stream.readable() > 0 || at_end || error,
                    writable,
                    peer_finished: at_end,
                    over,
                    error,
                }
            }
        })
    }

    /// The messages of a UDP socket that are next, where they lie.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn udp_peek(&mut self, id: SocketId) -> Result<Option<Messages<'_>>> {
        Ok(self.core.table.udp(id)?.queue.front())
    }

    /// Forgets the first `len` bytes, whole messages, of what [`Stack::udp_peek`] shows; of empty messages, one.
    ///
    /// # Errors
    /// [`Error::NoSocket`](super::Error::NoSocket).
    pub fn udp_skip(&mut self, id: SocketId, len: usize) -> Result<()> {
        self.core.table.udp(id)?.queue.skip(len);
        Ok(())
    }

    /// The address of ours from which a packet to `remote` would go.
    ///
    /// # Errors
    /// [`Error::Unreachable`](super::Error::Unreachable), [`Error::NoRoute`](super::Error::NoRoute).
    pub fn source_for(&mut self, now: Instant, remote: IpAddr) -> Result<IpAddr> {
        self.core.source(now, remote, None)
    }

    /// The largest IP packet that the path to `remote` takes, as far as is known, in bytes.
    ///
    /// # Errors
    /// As [`Stack::source_for`].
    pub fn path_mtu(&mut self, now: Instant, remote: IpAddr) -> Result<usize> {
        let source = self.core.source(now, remote, None)?;
        self.core.layer_speaks = true;
        let via = self.core.layer.route(now, remote, Some(source));
        Ok(via.map_or(self.core.output.offload.mtu, |via| via.mtu))
    }
}
