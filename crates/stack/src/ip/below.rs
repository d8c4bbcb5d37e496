//! The interface below a stack: a link that is down loses what is sent, as any network does, and comes back; one that
//! was deleted is said to be. Beside it, where there is one, the way back to ourselves.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use fusewire_device::interface::relay::{self, Relay};
use fusewire_device::interface::{Interface, Split, TxPacket};
use fusewire_net::Layer;

use super::loopback::Loopback;

/// An interface, with calls of its own in place of those that a link which is down lets fail.
pub struct Below {
    device: Box<dyn Interface>,
    /// A thread that sends, in place of who drives the stack.
    relay: Option<Relay>,
    /// Packets to ourselves, where they come back.
    pub loopback: Option<Box<Loopback>>,
}

impl Deref for Below {
    type Target = dyn Interface;

    fn deref(&self) -> &Self::Target {
        &*self.device
    }
}

impl DerefMut for Below {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.device
    }
}

impl Below {
    pub fn new(device: Box<dyn Interface>, layer: &Layer) -> Below {
        let loops = layer.config().loopback;
        Below { device, relay: None, loopback: loops.then(|| Box::new(Loopback::new())) }
    }

    /// Gives packets to the device, and those to ourselves to the way back; how many were taken.
    pub fn transmit(&mut self, packets: &[TxPacket<'_>], layer: &Layer) -> io::Result<usize> {
        if self.loopback.is_none() {
            return self.send(packets);
        }
        let mut taken = 0;
        while let [first, ..] = &packets[taken..] {
            let loops = layer.is_looped_frame(first.header);
            let alike = |packet: &&TxPacket<'_>| layer.is_looped_frame(packet.header) == loops;
            let run = &packets[taken..][..packets[taken..].iter().take_while(alike).count()];
            let count = match &mut self.loopback {
                Some(loopback) if loops => loopback.push(run),
                _ => self.send(run)?,
            };
            taken += count;
            if count < run.len() {
                break;
            }
        }
        Ok(taken)
    }

    fn send(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let sent = match &mut self.relay {
            Some(relay) => relay.transmit(packets, self.device.capabilities()),
            None => self.device.transmit(packets),
        };
        sent.or_else(|error| self.bear(error, packets.len()))
    }

    /// From now on a thread of its own sends.
    pub fn relay(&mut self, config: relay::Config) -> io::Result<()> {
        self.relay = Some(Relay::new(self.device.sender()?, config)?);
        Ok(())
    }

    /// Packets to ourselves have not come back yet.
    pub fn has_looped(&self) -> bool {
        self.loopback.as_ref().is_some_and(|loopback| !loopback.is_empty())
    }

    pub fn receive(&mut self) -> io::Result<usize> {
        self.device.receive().or_else(|error| self.bear(error, 0))
    }

    pub fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        self.device
            .receive_split(head_len, memory)
            .or_else(|error| self.bear(error, Split::Nothing))
    }

    pub fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.device.wait(timeout, want_write).or_else(|error| self.bear(error, true))
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
