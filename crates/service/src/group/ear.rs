//! One stream of the group's at a receiver, and what opens it: in order, by keys that come by another way.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use fusewire_device::Device;
use fusewire_session::group::{GroupKey, GroupOpened, GroupReceiver};
use fusewire_session::{DataPass, Error as SessionError};
use fusewire_stack as stack;
use fusewire_stack::group::{Heard, ReceiverConfig};

use super::wait::STREAMS;
use super::{Counters, RESENT, body_len_max};
use crate::{Error, Result};

/// How long what has come waits for its keys: of what is sent again, and of what is not. Behind it the others wait, as far as
/// there is memory.
pub(super) const HOLDING: [Duration; STREAMS] =
    [Duration::from_secs(10), Duration::from_millis(500)];

/// A stream of the group's, and what opens it.
pub(super) struct Ear {
    pub receiver: stack::group::Receiver<Box<dyn Device>>,
    opens: GroupReceiver,
    body_max: usize,
    /// Which of the two.
    stream: usize,
    /// The stream's key, and where it comes from.
    key: u64,
    pub from: (IpAddr, u16),
    /// A message of an epoch whose keys have not come yet, and the stream's offset where it begins.
    held: Vec<u8>,
    held_at: Option<u64>,
    /// Since when something has waited for its keys and nothing was genuine.
    waits: Option<Instant>,
    /// The stream's offset where the first epoch began that it was told of: what lies before that is for others.
    begins: u64,
    /// Something was not genuine, in the place of what was.
    pub is_spoiled: bool,
    has_joined: bool,
    /// The stream is announced from elsewhere.
    is_elsewhere: bool,
    /// It reads from here on.
    pub hears: bool,
    pub has_finished: bool,
}

impl Ear {
    /// `named` is which of the two streams it is, and what the session says of it: its key, and where it comes from.
    pub fn new(
        device: Box<dyn Device>,
        config: &ReceiverConfig,
        named: (usize, u64, (IpAddr, u16)),
        body_max: usize,
    ) -> Ear {
        let (stream, key, from) = named;
        Ear {
            receiver: stack::group::Receiver::over(device, config),
            opens: GroupReceiver::new(body_len_max(body_max), DataPass::detect()),
            body_max,
            stream,
            key,
            from: (from.0.to_canonical(), from.1),
            held: Vec::with_capacity(body_max + 256),
            held_at: None,
            waits: None,
            begins: 0,
            is_spoiled: false,
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

    /// Something has come and waits for its keys.
    pub fn is_waiting(&self) -> bool {
        self.held_at.is_some()
    }

    /// As many epochs of what must arrive are told as can be kept: nothing more is to be learnt before more is opened.
    pub fn is_full(&self) -> bool {
        self.stream == RESENT && self.opens.is_full()
    }

    /// The sender tells of an epoch, which began at this offset; or of the last once more.
    ///
    /// # Errors
    /// [`Error::Group`], where it is no later one.
    pub fn learn(&mut self, key: &GroupKey, begins: u64) -> Result<()> {
        if self.opens.epoch().is_none() {
            self.begins = begins;
        }
        // The other stream's epoch is the one that began, or none has.
        if self.opens.epoch() == Some(key.epoch) || self.opens.learn(key.clone()).is_ok() {
            return Ok(());
        }
        if self.stream == RESENT {
            return Err(Error::Group("tells of an epoch that is no later one"));
        }
        // What is sent once, and was said in so many epochs while nothing was taken, is gone for good.
        self.opens = GroupReceiver::new(body_len_max(self.body_max), DataPass::detect());
        self.begins = begins;
        let _ = self.opens.learn(key.clone());
        Ok(())
    }

    /// Opens the next message into `body`; false: there is none that can be.
    ///
    /// # Errors
    /// [`Error::Stack`]: too much was not genuine.
    pub fn open_next(&mut self, body: &mut Vec<u8>, counters: &mut Counters) -> Result<bool> {
        loop {
            let (at, opened) = match self.held_at.take() {
                Some(at) => (at, self.opens.open(&self.held, body)),
                None => {
                    let Ear { receiver, opens, held, .. } = self;
                    let next = receiver.recv(|at, message| {
                        let opened = opens.open(message, body);
                        if matches!(opened, Ok(GroupOpened::Later)) {
                            held.clear();
                            held.extend_from_slice(message);
                        }
                        (at, opened)
                    });
                    let Some(next) = next else { return Ok(false) };
                    next
                }
            };
            match opened {
                Ok(GroupOpened::Genuine) => {
                    self.waits = None;
                    return Ok(true);
                }
                // Sealed before this end came, and sent behind it.
                _ if at < self.begins => {}
                Ok(GroupOpened::Later) if self.may_wait() => {
                    self.held_at = Some(at);
                    return Ok(false);
                }
                Err(error @ SessionError::IntegrityLimit { .. }) => {
                    return Err(stack::Error::from(error).into());
                }
                // Its keys have not come, or it is not what the sender sealed: that does not come any more.
                Ok(GroupOpened::Later) | Err(_) => {
                    self.is_spoiled = true;
                    counters.refused += 1;
                }
            }
        }
    }

    /// Whether what is of an epoch that was not told may wait. There is one wait until something is genuine, however much
    /// comes that nobody can open; and none where as many epochs were told as can be kept, as all of theirs comes before.
    fn may_wait(&mut self) -> bool {
        let since = *self.waits.get_or_insert_with(Instant::now);
        !self.is_full() && since.elapsed() < HOLDING[self.stream]
    }
}
