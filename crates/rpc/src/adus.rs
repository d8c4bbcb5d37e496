//! Messages over Fusewire's own transport, encrypted: one ADU carries one message, marshalled in the pass that seals it
//! and unmarshalled in the one that opens it, so no record marking stands around it. Both sides must do so; a peer of another make speaks TCP or UDP.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::pipeline::Unmarshal;
use fusewire_stack::{Error, Link};

use crate::message::Outgoing;
use crate::transport::{Arrival, Transport};

/// Messages as ADUs of a connection: any [`Link`].
pub struct Adus<L>(pub L);

impl<L: Link> Transport for Adus<L> {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send(message).and_then(|()| self.0.flush()).map_err(io_error)
    }

    fn is_sealed(&self) -> bool {
        true
    }

    fn send_message(&mut self, message: &Outgoing<'_>) -> io::Result<()> {
        self.0.send_message(message).and_then(|()| self.0.flush()).map_err(io_error)
    }

    fn receive_message(
        &mut self,
        into: &mut dyn Unmarshal,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let received = match patience {
            None => self.0.recv_message(into),
            Some(patience) => self.0.recv_message_timeout(into, patience),
        };
        match received {
            Ok(Some(_)) => Ok(Arrival::Message),
            Ok(None) => Ok(Arrival::End),
            Err(Error::Elapsed) => Ok(Arrival::Nothing),
            Err(error) => Err(io_error(error)),
        }
    }

    fn receive(
        &mut self,
        message: &mut Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Arrival> {
        let received = match patience {
            None => self.0.recv_adu(),
            Some(patience) => self.0.recv_adu_timeout(patience),
        };
        let adu = match received {
            Ok(Some(adu)) => adu,
            Ok(None) => return Ok(Arrival::End),
            Err(Error::Elapsed) => return Ok(Arrival::Nothing),
            Err(error) => return Err(io_error(error)),
        };
        self.0.recycle(std::mem::replace(message, adu));
        Ok(Arrival::Message)
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn message_len_max(&self) -> usize {
        self.0.adu_len_max()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.0.session().remote
    }
}

pub(crate) fn io_error(error: Error) -> io::Error {
    match error {
        Error::Os { ref source, .. } => match source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(source.kind(), error),
        },
        other => io::Error::other(other),
    }
}
