//! One stream of the group's at a receiver, and what opens it.

use std::net::{IpAddr, SocketAddr};

use fusewire_device::Device;
use fusewire_session::DataPass;
use fusewire_stack as stack;
use fusewire_stack::group::{Heard, ReceiverConfig};

use super::opener::Opener;
use super::{Counters, RESENT};
use crate::Result;

/// A stream of the group's, and what opens it.
pub(super) struct Ear {
    pub receiver: stack::group::Receiver<Box<dyn Device>>,
    pub opener: Opener,
    /// Which of the two.
    stream: usize,
    /// The stream's key, and where it comes from.
    key: u64,
    pub from: (IpAddr, u16),
    has_joined: bool,
    /// The stream is announced from elsewhere.
    is_elsewhere: bool,
    /// It reads from here on.
    pub hears: bool,
    pub has_finished: bool,
}

impl Ear {
    /// `named` is which of the two streams it is, and what the session says of it: its key, and where it comes from;
    /// its bodies are so long at most, and opened so.
    pub fn new(
        device: Box<dyn Device>,
        config: &ReceiverConfig,
        named: (usize, u64, (IpAddr, u16)),
        (body_max, pass): (usize, DataPass),
    ) -> Ear {
        let (stream, key, from) = named;
        Ear {
            receiver: stack::group::Receiver::over(device, config),
            opener: Opener::new(stream, body_max, pass),
            stream,
            key,
            from: (from.0.to_canonical(), from.1),
            has_joined: false,
            is_elsewhere: false,
            hears: false,
            has_finished: false,
        }
    }

    /// Joins what is announced, unless it is what another announces by this stream's key.
    ///
    /// # Errors
    /// [`Error::Stack`].
    pub fn hear(&mut self, heard: &Heard, own: u64) -> Result<()> {
        let is_alike = heard.key() == self.key && heard.is_reliable() == (self.stream == RESENT);
        if self.has_joined || !is_alike {
            return Ok(());
        }
        let from: SocketAddr = heard.from();
        if (from.ip().to_canonical(), from.port()) != self.from {
            self.is_elsewhere = true;
            return Ok(());
        }
        self.receiver.join(heard, own)?;
        self.has_joined = true;
        Ok(())
    }

    /// It is announced, and not from where the session says that it comes from.
    pub fn is_elsewhere(&self) -> bool {
        self.is_elsewhere && !self.has_joined
    }

    /// Opens the next message into `body`; false: there is none that can be.
    ///
    /// # Errors
    /// [`Error::Stack`]: too much was not genuine.
    pub fn open_next(&mut self, body: &mut Vec<u8>, counters: &mut Counters) -> Result<bool> {
        let Ear { receiver, opener, .. } = self;
        opener.open_next(body, counters, |tell| {
            receiver.recv(|at, message| tell(at, message));
        })
    }
}
