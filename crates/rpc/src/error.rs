//! What can go wrong with a call, by blame: here, on the way, there.

use std::io;
use std::time::Duration;

use crate::auth::AuthStat;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments have no XDR form: beyond a bound of their type.
    #[error("the arguments cannot be sent: {0}")]
    Arguments(fusewire_codec::Error),
    /// The call is longer than the transport takes.
    #[error(
        "the call has {len} bytes, and the transport takes {max}: use one without that bound, such as TCP"
    )]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the longest.
        max: usize,
    },
    /// As many calls are under way as there may be.
    #[error("{0} calls are under way, which is all there may be: wait for one of them")]
    TooManyCalls(usize),
    /// This client did not begin that call, or has returned what came of it.
    #[error("no such call is under way")]
    NoCall,
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Transport(#[from] io::Error),
    /// The server ended the connection.
    #[error("the server ended the connection before its reply")]
    Ended,
    /// No reply.
    #[error("no reply within {0:?}: is the server there, and at this port?")]
    TimedOut(Duration),
    /// The reply is none, or its results are not of their type.
    #[error("the reply cannot be read: {0}")]
    Reply(fusewire_codec::Error),
    /// `PROG_UNAVAIL`
    #[error("the server does not have this program")]
    ProgramUnavailable,
    /// `PROG_MISMATCH`
    #[error("the server has versions {low} to {high} of this program, and not this one")]
    ProgramMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// `PROC_UNAVAIL`
    #[error("this version of the program does not have the procedure there")]
    ProcedureUnavailable,
    /// `GARBAGE_ARGS`
    #[error(
        "the server cannot read the arguments: do both sides have the same file of the protocol?"
    )]
    GarbageArguments,
    /// `SYSTEM_ERR`
    #[error("the server failed at this call")]
    SystemError,
    /// `RPC_MISMATCH`
    #[error("the server speaks versions {low} to {high} of RPC, and not 2")]
    RpcMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// `AUTH_ERROR`
    #[error("the server refuses the caller: {0}")]
    Auth(AuthStat),
}

/// What a caller is told instead of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// `PROC_UNAVAIL`: this version does not have the procedure.
    NoProcedure,
    /// `GARBAGE_ARGS`: the arguments cannot be read.
    GarbageArguments,
    /// `SYSTEM_ERR`: it failed here.
    System,
    /// `AUTH_ERROR`: not for this caller.
    Auth(AuthStat),
}
