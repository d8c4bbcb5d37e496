//! The server's side: which programs there are, what becomes of a call, and the loop over a transport.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::xdr::{Decoder, Encoder};
use fusewire_codec::{Limits, SliceSource};

use crate::auth::{AuthStat, Credential};
use crate::error::Fault;
use crate::message::{
    CallHeader, MessageDecoder, MessageEncoder, RPC_VERSION, Status, encode_reply,
};
use crate::replies::Replies;
use crate::transport::{Arrival, Transport};

/// What is known of a call beside its arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The program.
    pub program: u32,
    /// The version of it.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The caller's name for the call.
    pub xid: u32,
    /// Who the caller says to be.
    pub credential: &'a Credential,
    /// Where the call came from, if the transport says so.
    pub peer: Option<SocketAddr>,
}

/// One version of one program.
pub trait Service {
    /// The program's number.
    fn program(&self) -> u32;

    /// The version's number.
    fn version(&self) -> u32;

    /// Reads the arguments of a call, executes it, and writes its results. What was written does not count
    /// after a fault. Of procedure 0 nothing need be known: it is answered if this has no such procedure.
    ///
    /// # Errors
    /// What the caller is told instead.
    fn call(
        &self,
        call: &Call<'_>,
        from: &mut MessageDecoder<'_>,
        to: &mut MessageEncoder,
    ) -> Result<(), Fault>;
}

/// For stubs: an argument, or the fault of one that cannot be read.
///
/// # Errors
/// [`Fault::GarbageArguments`].
pub fn argument<T>(read: Result<T, fusewire_codec::Error>) -> Result<T, Fault> {
    read.map_err(|error| {
        tracing::debug!(%error, "arguments that cannot be read");
        Fault::GarbageArguments
    })
}

/// For stubs: that nothing follows the arguments.
///
/// # Errors
/// [`Fault::GarbageArguments`].
pub fn no_more(from: &mut MessageDecoder<'_>) -> Result<(), Fault> {
    if from.remaining() == 0 { Ok(()) } else { Err(Fault::GarbageArguments) }
}

/// For stubs: a result, or the fault of one that has no XDR form.
///
/// # Errors
/// [`Fault::System`].
pub fn result(written: Result<(), fusewire_codec::Error>) -> Result<(), Fault> {
    written.map_err(|error| {
        tracing::error!(%error, "a result that cannot be sent");
        Fault::System
    })
}

type Authorize = dyn Fn(&Call<'_>) -> Result<(), AuthStat> + Send + Sync;

/// The programs of a server. Shared by all its transports.
pub struct Services {
    programs: HashMap<u32, BTreeMap<u32, Box<dyn Service + Send + Sync>>>,
    authorize: Option<Box<Authorize>>,
    limits: Limits,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = |(program, versions): (&u32, &BTreeMap<u32, _>)| {
            (*program, versions.keys().copied().collect::<Vec<_>>())
        };
        f.debug_map().entries(self.programs.iter().map(versions)).finish()
    }
}

impl Default for Services {
    fn default() -> Self {
        let limits = Limits { count: 1 << 20, ..Limits::default() };
        Services { programs: HashMap::new(), authorize: None, limits }
    }
}

impl Services {
    /// None yet.
    pub fn new() -> Services {
        Services::default()
    }

    /// With this one too, in place of another of the same program and version.
    #[must_use]
    pub fn with(mut self, service: impl Service + Send + Sync + 'static) -> Services {
        let versions = self.programs.entry(service.program()).or_default();
        versions.insert(service.version(), Box::new(service));
        self
    }

    /// With a judge of who may call what. Procedure 0 is for everybody (RFC 5531, section 12.1).
    #[must_use]
    pub fn authorized_by(
        mut self,
        authorize: impl Fn(&Call<'_>) -> Result<(), AuthStat> + Send + Sync + 'static,
    ) -> Services {
        self.authorize = Some(Box::new(authorize));
        self
    }

    /// With these bounds on what arguments may ask for.
    #[must_use]
    pub fn limited_to(mut self, limits: Limits) -> Services {
        self.limits = limits;
        self
    }

    /// What is answered to a message of `peer`, in place of what `reply` holds.
    ///
    /// # Errors
    /// The message is no call: nothing is answered.
    pub fn handle(
        &self,
        message: &[u8],
        peer: Option<SocketAddr>,
        reply: &mut Vec<u8>,
    ) -> Result<(), fusewire_codec::Error> {
        let mut from = Decoder::new(SliceSource::new(message), self.limits);
        let header = CallHeader::decode(&mut from)?;
        reply.clear();
        let mut to = Encoder::new(std::mem::take(reply));
        encode_reply(header.xid, Status::Success, &mut to)?;
        let status = self.answer(&header, peer, &mut from, &mut to);
        *reply = to.into_inner();
        if status != Status::Success {
            reply.clear();
            let mut to = Encoder::new(std::mem::take(reply));
            encode_reply(header.xid, status, &mut to)?;
            *reply = to.into_inner();
        }
        Ok(())
    }

    fn answer(
        &self,
        header: &CallHeader<'_>,
        peer: Option<SocketAddr>,
        from: &mut MessageDecoder<'_>,
        to: &mut MessageEncoder,
    ) -> Status {
        if header.rpc_version != RPC_VERSION {
            return Status::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION };
        }
        let credential = match Credential::read(&header.credential) {
            Ok(credential) => credential,
            Err(why) => return Status::AuthError(why),
        };
        let call = Call {
            program: header.program,
            version: header.version,
            procedure: header.procedure,
            xid: header.xid,
            credential: &credential,
            peer,
        };
        if header.procedure != 0
            && let Err(why) = self.may_call(&call)
        {
            return Status::AuthError(why);
        }
        let Some(versions) = self.programs.get(&header.program) else {
            return Status::ProgramUnavailable;
        };
        let Some(service) = versions.get(&header.version) else {
            let low = versions.keys().next().copied().unwrap_or(0);
            let high = versions.keys().next_back().copied().unwrap_or(0);
            return Status::ProgramMismatch { low, high };
        };
        match service.call(&call, from, to) {
            Ok(()) => Status::Success,
            Err(Fault::NoProcedure) if header.procedure == 0 => Status::Success,
            Err(Fault::NoProcedure) => Status::ProcedureUnavailable,
            Err(Fault::GarbageArguments) => Status::GarbageArguments,
            Err(Fault::System) => Status::SystemError,
            Err(Fault::Auth(why)) => Status::AuthError(why),
        }
    }

    fn may_call(&self, call: &Call<'_>) -> Result<(), AuthStat> {
        match &self.authorize {
            Some(authorize) => authorize(call),
            // A flavour that nobody here can read.
            None if matches!(call.credential, Credential::Other(..)) => Err(AuthStat::RejectedCred),
            None => Ok(()),
        }
    }
}

/// What a [`Server::turn`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It answered a call, or dropped what was none.
    Served,
    /// Nothing came in that time.
    Nothing,
    /// The peer sends no more.
    End,
}

/// Answers the calls that come over one transport, one after the other.
#[derive(Debug)]
pub struct Server<T> {
    transport: T,
    message: Vec<u8>,
    reply: Vec<u8>,
    /// Only where calls may come twice.
    replies: Option<Replies>,
}

impl<T: Transport> Server<T> {
    /// Over `transport`.
    pub fn new(transport: T) -> Self {
        let replies = (!transport.is_reliable()).then(Replies::default);
        Server { transport, message: Vec::new(), reply: Vec::new(), replies }
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Answers until the peer sends no more.
    ///
    /// # Errors
    /// As [`Server::turn`].
    pub fn run(&mut self, services: &Services) -> io::Result<()> {
        while self.turn(services, None)? != Turn::End {}
        Ok(())
    }

    /// Answers the next call, for which it waits at most `patience`.
    ///
    /// # Errors
    /// The transport failed, or on a stream what came is no call (`InvalidData`): nothing after it would be.
    pub fn turn(&mut self, services: &Services, patience: Option<Duration>) -> io::Result<Turn> {
        match self.transport.receive(&mut self.message, patience)? {
            Arrival::Message => {}
            Arrival::Nothing => return Ok(Turn::Nothing),
            Arrival::End => return Ok(Turn::End),
        }
        let peer = self.transport.peer();
        let name = self.replies.as_ref().map(|replies| replies.name(peer, &self.message));
        if let (Some(replies), Some(name)) = (&self.replies, name)
            && let Some(reply) = replies.find(name)
        {
            self.transport.send(reply)?;
            return Ok(Turn::Served);
        }
        if let Err(error) = services.handle(&self.message, peer, &mut self.reply) {
            tracing::debug!(%error, "a message that is no call");
            if self.transport.is_reliable() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            return Ok(Turn::Served);
        }
        if self.reply.len() > self.transport.message_len_max() {
            tracing::error!(
                len = self.reply.len(),
                "a result that is longer than the transport takes"
            );
            self.fail()?;
        }
        let sent = self.transport.send(&self.reply);
        match (sent, &mut self.replies, name) {
            (Ok(()), Some(replies), Some(name)) => replies.keep(name, &self.reply),
            (Ok(()), ..) => {}
            // One caller that cannot be reached is no reason to leave the others.
            (Err(error), Some(_), _) => tracing::debug!(%error, "a reply that cannot be sent"),
            (Err(error), ..) => return Err(error),
        }
        Ok(Turn::Served)
    }

    /// Makes the reply one of failure.
    fn fail(&mut self) -> io::Result<()> {
        let xid = self.message.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
        self.reply.clear();
        let mut to = Encoder::new(std::mem::take(&mut self.reply));
        encode_reply(xid, Status::SystemError, &mut to).map_err(io::Error::other)?;
        self.reply = to.into_inner();
        Ok(())
    }
}
