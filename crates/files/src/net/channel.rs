//! One connection of a stack, as the machines of the transfer see it.

use super::RECORD_OVERHEAD;
use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use fusewire_codec::pipeline::{Marshal, Unmarshal};
use fusewire_stack::{ConnectionId, Stack};

/// One connection, borrowed for a turn.
pub(super) struct StackChannel<'a> {
    pub(super) stack: &'a mut Stack,
    pub(super) id: ConnectionId,
    /// The peer has sent its last ADU.
    pub(super) peer_finished: bool,
}

impl Channel for StackChannel<'_> {
    fn max_adu(&self) -> usize {
        let fitting = self.stack.adu_len(self.id).map_or(0, |(fitting, _)| fitting);
        // A path that carries less than this carries it in pieces.
        fitting.clamp(512, MAX_ADU_LEN)
    }

    fn room(&mut self) -> usize {
        let record = self.max_adu() + RECORD_OVERHEAD;
        self.stack.room_for(self.id, record) / record
    }

    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError> {
        let taken = self.stack.send_message(self.id, message)?;
        Ok(if taken { Sent::Taken } else { Sent::Full })
    }

    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError> {
        Ok(match self.stack.recv_any_message(self.id, into)? {
            Some(len) => Received::Adu { len },
            None if self.peer_finished => Received::Finished,
            None => Received::Nothing,
        })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.stack.finish(self.id);
        Ok(())
    }
}
