//! One connection, as the transfer sees it: whole ADUs in and out, without blocking.
//!
//! Every message of the transfer says by itself what it belongs to, so ADUs may be given to the receiver in
//! any order; none may be lost, made up or given twice.

use fusewire_codec::pipeline::{Marshal, Unmarshal};

/// A connection that carries ADUs reliably.
pub trait Channel {
    /// Bytes of the largest ADU that is one TPDU. Data messages are never longer; control messages can be,
    /// up to [`MAX_ADU_LEN`].
    fn max_adu(&self) -> usize;

    /// How many ADUs of `max_adu` bytes would be taken now, at least. Files are read that far ahead and no
    /// further; zero means the same as [`Sent::Full`]: there will be room later.
    fn room(&mut self) -> usize;

    /// Takes one message as an ADU, or nothing of it: marshalled in the pass that seals it. Its memory is free again when
    /// this returns.
    ///
    /// # Errors
    /// The connection is broken.
    fn send(&mut self, message: &dyn Marshal) -> Result<Sent, ChannelError>;

    /// Gives one ADU that is whole and verified: `into` has unmarshalled it in the pass that opened it, or, where it came
    /// before somebody asked, in one of its own. Of what is none `into` has forgotten everything.
    ///
    /// # Errors
    /// The connection is broken.
    fn recv(&mut self, into: &mut dyn Unmarshal) -> Result<Received, ChannelError>;

    /// Says that no ADU will be sent any more; what was sent still arrives.
    ///
    /// # Errors
    /// The connection is broken.
    fn finish(&mut self) -> Result<(), ChannelError>;
}

/// The largest ADU that anybody may send, in bytes.
pub const MAX_ADU_LEN: usize = 128 << 10;

/// What became of an ADU given to [`Channel::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It will arrive, unless the connection breaks.
    Taken,
    /// There was no room; nothing was taken.
    Full,
}

/// What [`Channel::recv`] had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// An ADU of `len` bytes.
    Adu {
        /// Its length in bytes.
        len: usize,
    },
    /// Nothing now.
    Nothing,
    /// Nothing any more: the peer has finished and all was given.
    Finished,
}

/// The connection is broken: nothing can be sent or received on it any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection broken: {reason}")]
pub struct ChannelError {
    /// Why, in words for a user.
    pub reason: String,
}
