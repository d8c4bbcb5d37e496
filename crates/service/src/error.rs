//! What can go wrong, by blame.

use fusewire_session::{HandshakeError, Refusal};

/// An error of a generated end.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection: see there.
    #[error(transparent)]
    Stack(fusewire_stack::Error),
    /// The two programs are of different specifications.
    #[error("the peer is of another specification: it has not the clause `{clause}`")]
    Differs {
        /// This side's first clause that the peer has not got alike.
        clause: &'static str,
    },
    /// A value that none of its type may be, or bytes of the peer's that are none of it.
    #[error("{adu}: {error}")]
    Codec {
        /// The ADU's type.
        adu: &'static str,
        /// What is wrong with it.
        error: fusewire_codec::Error,
    },
    /// The peer sent an ADU of a type that is not its to send, or none at all.
    #[error("the peer sent an ADU of type number {number}, which is not one of its types")]
    Unknown {
        /// The number.
        number: u8,
    },
    /// An ADU that is longer than its clauses let it be: this side's, or the peer's.
    #[error("{adu} of {len} bytes, and its clauses let it have {max}")]
    TooLong {
        /// The ADU's type.
        adu: &'static str,
        /// Bytes of its encoding.
        len: usize,
        /// The most.
        max: usize,
    },
    /// As many ADUs wait as may, and none of them is less important. There is room once an end's `recv` has sent one or told that it has
    /// expired; of what goes beside datagrams, once some have arrived.
    #[error("no room for {adu}: as many ADUs wait as may")]
    NoRoom {
        /// The ADU's type.
        adu: &'static str,
    },
    /// The group has as many receivers as its clauses let it have.
    #[error("the group has as many receivers as it may")]
    Full,
    /// The group goes on without this receiver: it was too slow, said nothing for too long, or was removed.
    #[error("the group goes on without this receiver")]
    LetGo,
    /// What is said of the group is none of this protocol, or it has ended and its sender does not say so.
    #[error("the group's sender: {0}")]
    Group(&'static str),
    /// The deadline was over before there was room for it or before its answer came; where answers are wanted when they are
    /// late, too, [`PATIENCE`](crate::stream::PATIENCE) times it.
    #[error("{adu} expired")]
    Expired {
        /// The ADU's type.
        adu: &'static str,
    },
}

/// Short for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What a connection says, with the clause where it was that.
    pub(crate) fn of(error: fusewire_stack::Error, clauses: &'static [&'static str]) -> Error {
        use fusewire_session::Error as Session;
        match error {
            fusewire_stack::Error::Session(Session::Handshake(
                HandshakeError::RefusedByPeer(Refusal::Terms(at))
                | HandshakeError::RefusedByUs(Refusal::Terms(at)),
            )) => {
                let clause = clauses.get(usize::from(at)).copied();
                Error::Differs { clause: clause.unwrap_or("no further clause") }
            }
            error => Error::Stack(error),
        }
    }
}

impl From<fusewire_stack::Error> for Error {
    fn from(error: fusewire_stack::Error) -> Error {
        Error::Stack(error)
    }
}
