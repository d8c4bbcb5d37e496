//! The group as a [`Channel`]: messages are sealed on one side and opened on the other, and go one way.

use super::{Board, Mail};
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use crate::net::ADU_LEN;
use fusewire_codec::pipeline::{Marshal, Unmarshal};
use fusewire_session::group::{GroupOpened, GroupReceiver, GroupSender};
use fusewire_session::{DataPass, Error as SessionError};
use std::sync::Arc;

/// Carries messages to all members, each whole and in their order.
pub trait Sending {
    /// Bytes of the longest message.
    fn message_len_max(&self) -> usize;

    /// Bytes of messages that would be taken now.
    fn room(&mut self) -> usize;

    /// Takes a message of `len` bytes, which `write` puts into memory of that length; false, and nothing was written,
    /// where there is no room.
    ///
    /// # Errors
    /// The group is no more.
    fn send(&mut self, len: usize, write: &mut dyn FnMut(&mut [u8])) -> Result<bool, ChannelError>;
}

/// Hears messages of a group's sender, each whole and in their order, from where this member began.
pub trait Hearing {
    /// Gives the next message to `take`, if there is one.
    ///
    /// # Errors
    /// This is no member any more: why.
    fn recv(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<Received, ChannelError>;
}

fn broken(error: &SessionError) -> ChannelError {
    ChannelError { reason: error.to_string() }
}

/// The sender's end.
pub struct SealingChannel<S> {
    /// What carries the messages.
    pub carrier: S,
    board: Arc<Board>,
    sealer: GroupSender,
}

impl<S: Sending> SealingChannel<S> {
    /// Of what `board` casts.
    ///
    /// # Errors
    /// The cipher has no tags.
    pub fn new(
        carrier: S,
        board: &Arc<Board>,
        data_pass: DataPass,
    ) -> Result<SealingChannel<S>, SessionError> {
        let sealer = GroupSender::new(&board.key(), MAX_ADU_LEN as u32, data_pass)?;
        Ok(SealingChannel { carrier, board: Arc::clone(board), sealer })
    }
}

impl<S: Sending> Channel for SealingChannel<S> {
    fn max_adu(&self) -> usize {
        let fitting = self.sealer.body_len_fitting(self.carrier.message_len_max());
        fitting.unwrap_or(0).clamp(512, ADU_LEN)
    }

    fn room(&mut self) -> usize {
        self.carrier.room() / self.sealer.message_len(self.max_adu())
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        if self.board.epoch() != self.sealer.epoch() {
            self.sealer.renew(&self.board.key()).map_err(|error| broken(&error))?;
        }
        let len = self.sealer.message_len(message.marshalled_len());
        let (sealer, mut sealed) = (&mut self.sealer, Ok(()));
        let taken = self.carrier.send(len, &mut |memory| sealed = sealer.seal(message, memory))?;
        sealed.map_err(|error| broken(&error))?;
        Ok(if taken { Sent::Taken } else { Sent::Full })
    }

    fn recv(&mut self, _: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        Ok(Received::Nothing)
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        Ok(())
    }
}

/// A member's end.
pub struct OpeningChannel<H> {
    /// What carries the messages.
    pub carrier: H,
    mail: Arc<Mail>,
    opener: GroupReceiver,
    /// A message of an epoch that is not known yet.
    held: Option<Vec<u8>>,
    /// Messages that were not genuine.
    dropped: u64,
}

impl<H: Hearing> OpeningChannel<H> {
    /// With the keys that come to `mail`.
    pub fn new(carrier: H, mail: &Arc<Mail>, data_pass: DataPass) -> OpeningChannel<H> {
        let opener = GroupReceiver::new(MAX_ADU_LEN as u32, data_pass);
        OpeningChannel { carrier, mail: Arc::clone(mail), opener, held: None, dropped: 0 }
    }

    /// How many messages were not genuine: forged, damaged, or sealed for others.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl<H: Hearing> Channel for OpeningChannel<H> {
    fn max_adu(&self) -> usize {
        ADU_LEN
    }

    fn room(&mut self) -> usize {
        0
    }

    fn send(&mut self, _: &dyn Marshal) -> Result<Sent, ChannelError> {
        Ok(Sent::Full)
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        for key in self.mail.take_keys() {
            self.opener.learn(key).map_err(|error| broken(&error))?;
        }
        loop {
            let mut opened = None;
            if let Some(message) = self.held.take() {
                opened = Some((self.opener.open(&message, into), message.len()));
                self.held =
                    Some(message).filter(|_| matches!(opened, Some((Ok(GroupOpened::Later), _))));
            } else {
                let (opener, held) = (&mut self.opener, &mut self.held);
                let received = self.carrier.recv(&mut |message| {
                    let result = opener.open(message, into);
                    if matches!(result, Ok(GroupOpened::Later)) {
                        *held = Some(message.to_vec());
                    }
                    opened = Some((result, message.len()));
                })?;
                if !matches!(received, Received::Adu { .. }) {
                    return Ok(received);
                }
            }
            match opened {
                Some((Ok(GroupOpened::Genuine), len)) => return Ok(Received::Adu { len }),
                Some((Ok(GroupOpened::Later), _)) => return Ok(Received::Nothing),
                Some((Err(error @ SessionError::IntegrityLimit { .. }), _)) => {
                    return Err(broken(&error));
                }
                Some((Err(error), _)) => {
                    tracing::debug!(%error, "dropped a message of the group");
                    self.dropped += 1;
                }
                None => return Ok(Received::Nothing),
            }
        }
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        Ok(())
    }
}
