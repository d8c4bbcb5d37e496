//! The messages of RFC 5531, section 9: `rpc_msg`, without arguments and results.

use fusewire_codec::xdr::{Decode, Decoder, Encode, Encoder};
use fusewire_codec::{Error, Problem, Sink};

use crate::auth::{AuthStat, OpaqueAuth};
pub use crate::pass::{Input, Outgoing, Output};

/// The version of RPC that this is.
pub const RPC_VERSION: u32 = 2;

const CALL: u32 = 0;
const REPLY: u32 = 1;

/// What reads messages.
pub type MessageDecoder<'a> = Decoder<Input<'a>>;
/// What writes messages.
pub type MessageEncoder<'a> = Encoder<Output<'a>>;

/// The beginning of a call: everything before the arguments.
#[derive(Clone, Debug)]
pub(crate) struct CallHeader<'a> {
    pub xid: u32,
    pub rpc_version: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub credential: OpaqueAuth<'a>,
    pub verifier: OpaqueAuth<'a>,
}

impl CallHeader<'_> {
    pub fn encode(&self, to: &mut Encoder<impl Sink>) -> Result<(), Error> {
        for word in [self.xid, CALL, self.rpc_version, self.program, self.version, self.procedure] {
            to.uint(word)?;
        }
        self.credential.encode(to)?;
        self.verifier.encode(to)
    }
}

impl<'a> CallHeader<'a> {
    /// Of another version of RPC only `xid` and `rpc_version` mean something.
    pub fn decode(from: &mut MessageDecoder<'a>) -> Result<CallHeader<'a>, Error> {
        let xid = from.uint()?;
        let offset = from.position();
        let kind = from.uint()?;
        if kind != CALL {
            return Err(Problem::Discriminant { found: kind.into(), type_name: "call" }.at(offset));
        }
        let rpc_version = from.uint()?;
        let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let (program, version, procedure) = (0, 0, 0);
        let header =
            CallHeader { xid, rpc_version, program, version, procedure, credential, verifier };
        if rpc_version != RPC_VERSION {
            return Ok(header);
        }
        Ok(CallHeader {
            program: from.field("prog", Decoder::uint)?,
            version: from.field("vers", Decoder::uint)?,
            procedure: from.field("proc", Decoder::uint)?,
            credential: from.field("cred", OpaqueAuth::decode)?,
            verifier: from.field("verf", OpaqueAuth::decode)?,
            ..header
        })
    }
}

/// What a reply says before the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `SUCCESS`: results follow.
    Success,
    /// `PROG_UNAVAIL`
    ProgramUnavailable,
    /// `PROG_MISMATCH`
    ProgramMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// `PROC_UNAVAIL`
    ProcedureUnavailable,
    /// `GARBAGE_ARGS`
    GarbageArguments,
    /// `SYSTEM_ERR`
    SystemError,
    /// `MSG_DENIED`, `RPC_MISMATCH`
    RpcMismatch {
        /// The lowest version.
        low: u32,
        /// The highest version.
        high: u32,
    },
    /// `MSG_DENIED`, `AUTH_ERROR`
    AuthError(AuthStat),
}

/// The transaction of a reply, if the message is one.
pub(crate) fn reply_xid(message: &[u8]) -> Option<u32> {
    let (xid, rest) = message.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    (u32::from_be_bytes(*kind) == REPLY).then(|| u32::from_be_bytes(*xid))
}

/// Writes a reply up to its results.
pub(crate) fn encode_reply(
    xid: u32,
    status: Status,
    to: &mut Encoder<impl Sink>,
) -> Result<(), Error> {
    to.uint(xid)?;
    to.uint(REPLY)?;
    let accepted = |to: &mut Encoder<_>, accept_stat: u32| {
        to.uint(0)?;
        OpaqueAuth::NONE.encode(to)?;
        to.uint(accept_stat)
    };
    match status {
        Status::Success => accepted(to, 0),
        Status::ProgramUnavailable => accepted(to, 1),
        Status::ProgramMismatch { low, high } => {
            accepted(to, 2)?;
            to.uint(low)?;
            to.uint(high)
        }
        Status::ProcedureUnavailable => accepted(to, 3),
        Status::GarbageArguments => accepted(to, 4),
        Status::SystemError => accepted(to, 5),
        Status::RpcMismatch { low, high } => {
            [1, 0, low, high].into_iter().try_for_each(|n| to.uint(n))
        }
        Status::AuthError(why) => [1, 1, why.number()].into_iter().try_for_each(|n| to.uint(n)),
    }
}

/// Reads a reply up to its results: the transaction and the status.
///
/// # Errors
/// It is no reply.
pub fn decode_reply(from: &mut MessageDecoder<'_>) -> Result<(u32, Status), Error> {
    Ok((from.uint()?, decode_status(from)?))
}

/// What follows the transaction in a reply, up to its results.
pub(crate) fn decode_status(from: &mut MessageDecoder<'_>) -> Result<Status, Error> {
    let wrong = |found: u32, type_name, offset| {
        Problem::Discriminant { found: found.into(), type_name }.at(offset)
    };
    let offset = from.position();
    let kind = from.uint()?;
    if kind != REPLY {
        return Err(wrong(kind, "reply", offset));
    }
    let offset = from.position();
    let status = match from.uint()? {
        0 => {
            from.field("verf", OpaqueAuth::decode)?;
            let offset = from.position();
            match from.uint()? {
                0 => Status::Success,
                1 => Status::ProgramUnavailable,
                2 => Status::ProgramMismatch { low: from.uint()?, high: from.uint()? },
                3 => Status::ProcedureUnavailable,
                4 => Status::GarbageArguments,
                5 => Status::SystemError,
                other => return Err(wrong(other, "accept_stat", offset)),
            }
        }
        1 => {
            let offset = from.position();
            match from.uint()? {
                0 => Status::RpcMismatch { low: from.uint()?, high: from.uint()? },
                1 => Status::AuthError(AuthStat::from_number(from.uint()?)),
                other => return Err(wrong(other, "reject_stat", offset)),
            }
        }
        other => return Err(wrong(other, "reply_stat", offset)),
    };
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::decoder;
    use fusewire_codec::Limits;

    #[test]
    fn every_status_comes_back_and_truncated_none() {
        let all = [
            Status::Success,
            Status::ProgramUnavailable,
            Status::ProgramMismatch { low: 2, high: 4 },
            Status::ProcedureUnavailable,
            Status::GarbageArguments,
            Status::SystemError,
            Status::RpcMismatch { low: 2, high: 2 },
            Status::AuthError(AuthStat::TooWeak),
            Status::AuthError(AuthStat::Other(13)),
        ];
        for status in all {
            let mut to = Encoder::new(Vec::new());
            encode_reply(7, status, &mut to).unwrap();
            let bytes = to.into_inner();
            let read = |bytes| decode_reply(&mut decoder(bytes, Limits::default()));
            assert_eq!(read(&bytes).unwrap(), (7, status));
            assert_eq!(reply_xid(&bytes), Some(7));
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_err(), "{status:?} cut at {len}");
            }
        }
    }

    #[test]
    fn an_oversized_credential_is_none() {
        let mut to = Encoder::new(Vec::new());
        for word in [7, 0, 2, 1, 1, 1, 1, 401] {
            to.uint(word).unwrap();
        }
        let mut bytes = to.into_inner();
        bytes.extend([0; 500]);
        let mut from = decoder(&bytes, Limits::default());
        let error = CallHeader::decode(&mut from).unwrap_err();
        assert_eq!(*error.problem(), Problem::TooLong { found: 401, bound: 400 });
    }
}
