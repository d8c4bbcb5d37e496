//! A wire in memory whose other end is a host that answers: what the board sends is received there within the board's own
//! call, as if by a host that is as fast as one can be.

use std::io;

use fusewire_device::interface::memory::{Memory, pair};
use fusewire_device::interface::{Around, Interface as _, TxPacket};
use fusewire_stack::Clock;
use fusewire_stack::ip::{SocketId, Stack};

use super::{PEER, failed, stack, wire_of};
use crate::{Error, Result};

/// The board's end of the wire, and the host behind it.
pub struct Wire {
    end: Memory,
    host: Stack,
    clock: Clock,
    listener: SocketId,
    stream: Option<SocketId>,
    /// It answers a byte to so many.
    message: usize,
    /// Bytes of the next message that have come.
    came: usize,
    memory: Vec<u8>,
}

impl Wire {
    /// Packets of so many bytes, and a host that answers each message of so many with a byte.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(payload: usize, message: usize) -> Result<Wire> {
        let (end, other) = pair(wire_of(payload)).map_err(Error::os("joining interfaces"))?;
        let clock = Clock::new();
        let mut host = stack(Box::new(other), 2, &clock)?;
        let listener = host.tcp_listen(PEER, 1).map_err(failed)?;
        let memory = vec![0; 1 << 16];
        Ok(Wire { end, host, clock, listener, stream: None, message, came: 0, memory })
    }

    /// The host does what there is to do.
    fn drive(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.host.poll(now)?;
        if let Some((id, _)) = self.host.tcp_accept(self.listener)? {
            (self.stream, self.came) = (Some(id), 0);
        }
        let Some(id) = self.stream else { return Ok(()) };
        // A connection that is over is none.
        while let Ok(Some(len)) = self.host.tcp_read(id, &mut self.memory) {
            if len == 0 {
                self.stream = None;
                break;
            }
            self.came += len;
        }
        while self.came >= self.message && self.stream.is_some() {
            self.came -= self.message;
            self.host.tcp_write(id, &[1])?;
        }
        self.host.transmit(now).map(|_| ())
    }
}

impl Around for Wire {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.end
    }

    fn inner_mut(&mut self) -> &mut Memory {
        &mut self.end
    }

    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let taken = self.end.transmit(packets)?;
        self.drive()?;
        Ok(taken)
    }
}
