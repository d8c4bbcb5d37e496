//! The interface below a stack: a link that is down loses what is sent, as any network does, and comes back; one that
//! was deleted is said to be.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fusewire_device::interface::{Interface, Split, TxPacket};

/// An interface, with calls of its own in place of those that a link which is down lets fail.
pub struct Below(pub Box<dyn Interface>);

impl Deref for Below {
    type Target = dyn Interface;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Below {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Below {
    pub fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        self.0.transmit(packets).or_else(|error| self.bear(error, packets.len()))
    }

    pub fn receive(&mut self) -> io::Result<usize> {
        self.0.receive().or_else(|error| self.bear(error, 0))
    }

    pub fn receive_split(&mut self, head_len: usize, memory: &mut [u8]) -> io::Result<Split> {
        self.0.receive_split(head_len, memory).or_else(|error| self.bear(error, Split::Nothing))
    }

    pub fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.0.wait(timeout, want_write).or_else(|error| self.bear(error, true))
    }

    /// `otherwise`, when the link is only down.
    fn bear<T>(&self, error: io::Error, otherwise: T) -> io::Result<T> {
        match error.kind() {
            io::ErrorKind::NetworkDown | io::ErrorKind::NetworkUnreachable => Ok(otherwise),
            // A TAP without its link says no more than this.
            _ if error.raw_os_error() == Some(rustix::io::Errno::BADFD.raw_os_error()) => {
                Err(self.gone())
            }
            _ => Err(error),
        }
    }

    /// The link was deleted.
    pub fn gone(&self) -> io::Error {
        let which = self.capabilities().notes.first().map_or("", String::as_str);
        let what = format!("the network interface was deleted ({which})");
        io::Error::new(io::ErrorKind::NotFound, what)
    }
}
