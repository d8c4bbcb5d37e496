//! The interface below a stack: a link that is down loses what is sent, as any network does, and comes back; one that
//! was deleted is said to be. Beside it, where there is one, the way back to ourselves.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use fusewire_base::Sum;
use fusewire_device::interface::intake::{Intake, Summing};
use fusewire_device::interface::relay::{self, Relay};
use fusewire_device::interface::{Interface, RxPacket, Split, TxPacket};
use fusewire_kernels::{Level, copy_sum, sum};
use fusewire_net::Layer;

use super::loopback::Loopback;

/// An interface, with calls of its own in place of those that a link which is down lets fail.
pub struct Below {
    device: Box<dyn Interface>,
    /// A thread that sends, in place of who drives the stack.
    relay: Option<Relay>,
    /// A thread that receives.
    intake: Option<Intake>,
    /// Packets to ourselves, where they come back.
    pub loopback: Option<Box<Loopback>>,
}

/// How the thread that receives copies and sums.
struct Passes(Level);

impl Summing for Passes {
    fn copy(&self, from: &[u8], to: &mut [u8]) -> Sum {
        copy_sum(self.0, from, to)
    }

    fn sum(&self, bytes: &[u8]) -> Sum {
        sum(self.0, bytes)
    }
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
        Below {
            device,
            relay: None,
            intake: None,
            loopback: loops.then(|| Box::new(Loopback::new())),
        }
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

    /// From now on a thread of its own receives. What was received and not looked at is lost.
    pub fn intake(&mut self, config: relay::Config, level: Level) -> io::Result<()> {
        let receiver = || self.device.receiver();
        self.intake = Some(Intake::new(receiver, Box::new(Passes(level)), config)?);
        Ok(())
    }

    /// Packets to ourselves have not come back yet.
    pub fn has_looped(&self) -> bool {
        self.loopback.as_ref().is_some_and(|loopback| !loopback.is_empty())
    }

    pub fn receive(&mut self) -> io::Result<usize> {
        let received = match &mut self.intake {
            Some(intake) => intake.receive(),
            None => self.device.receive(),
        };
        received.or_else(|error| self.bear(error, 0))
    }

    pub fn packet(&self, index: usize) -> RxPacket<'_> {
        match &self.intake {
            Some(intake) => intake.packet(index),
            None => self.device.packet(index),
        }
    }

    pub fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        if self.intake.is_some() {
            return Ok(Split::Unsupported);
        }
        self.device
            .receive_split(head_len, memory)
            .or_else(|error| self.bear(error, Split::Nothing))
    }

    /// As [`Interface::peek`].
    pub fn peek(&mut self) -> Option<(RxPacket<'_>, usize)> {
        if self.intake.is_some() { None } else { self.device.peek() }
    }

    pub fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        let waited = match &self.intake {
            Some(intake) => intake.wait(&*self.device, timeout, want_write),
            None => self.device.wait(timeout, want_write),
        };
        waited.or_else(|error| self.bear(error, true))
    }

    /// What can be read when packets wait, where there is such a descriptor.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.intake {
            Some(intake) => Some(intake.as_fd()),
            None => self.device.as_fd(),
        }
    }

    /// Packets that the interface dropped, as far as it tells, and those that were none.
    pub fn dropped(&self) -> u64 {
        self.device.dropped() + self.intake.as_ref().map_or(0, Intake::malformed)
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
