//! The server's side: which programs there are, what becomes of a call, and the loop over a transport.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_codec::pipeline::Marshal;
use fusewire_codec::{Error as CodecError, Limits, Problem};

use crate::auth::{AuthStat, Credential, OpaqueAuth};
use crate::error::Fault;
use crate::message::{
    CallHeader, MessageDecoder, MessageEncoder, Outgoing, RPC_VERSION, Status, encode_reply,
};
use crate::pass::{Incoming, decoder, write};
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

    /// Reads the arguments of a call of that procedure. Nothing is done before the message is known to be genuine: what
    /// is to be done then is what this gives. Of procedure 0 nothing need be known: it is answered if this has no such
    /// procedure.
    ///
    /// # Errors
    /// What the caller is told instead.
    fn read(&self, procedure: u32, from: &mut MessageDecoder<'_>) -> Result<Prepared<'_>, Fault>;
}

/// A call whose arguments were read: executes it, and gives its results to [`Reply::result`], once and at the end.
///
/// # Errors
/// What the caller is told instead.
pub type Prepared<'s> = Box<dyn FnOnce(&Call<'_>, &mut Reply<'_>) -> Result<(), Fault> + 's>;

/// What a call is answered with.
pub struct Reply<'a> {
    xid: u32,
    to: To<'a>,
    /// There are results.
    is_written: bool,
}

enum To<'a> {
    Bytes(&'a mut Vec<u8>),
    /// Results are marshalled in the pass that seals them.
    Sealed {
        transport: &'a mut dyn Transport,
        failed: Option<io::Error>,
    },
}

impl Reply<'_> {
    /// Results, which `results` writes.
    ///
    /// # Errors
    /// [`Fault::System`]: they have no XDR form, or are longer than the transport takes.
    pub fn result(
        &mut self,
        results: impl Fn(&mut MessageEncoder<'_>) -> Result<(), CodecError>,
    ) -> Result<(), Fault> {
        self.write(Status::Success, results).map_err(|error| {
            tracing::error!(%error, "a result that cannot be sent");
            Fault::System
        })
    }

    fn write(
        &mut self,
        status: Status,
        results: impl Fn(&mut MessageEncoder<'_>) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let xid = self.xid;
        let message =
            |to: &mut MessageEncoder<'_>| encode_reply(xid, status, to).and_then(|()| results(to));
        match &mut self.to {
            To::Bytes(bytes) => write(bytes, message)?,
            To::Sealed { transport, failed } => {
                let message = Outgoing::new(xid, &message)?;
                let (len, max) = (message.marshalled_len(), transport.message_len_max());
                if len > max {
                    return Err(Problem::Full { needed: len, left: max }.at(0));
                }
                *failed = transport.send_message(&message).err();
            }
        }
        self.is_written = true;
        Ok(())
    }
}

/// What a message asks for.
struct Asked<'s> {
    header: CallHeader<'static>,
    credential: Result<Credential, AuthStat>,
    /// Of a version of RPC and of a program that are known.
    call: Result<Result<Prepared<'s>, Fault>, Status>,
}

/// For stubs: an argument, or the fault of one that cannot be read.
///
/// # Errors
/// [`Fault::GarbageArguments`].
pub fn argument<T>(read: Result<T, CodecError>) -> Result<T, Fault> {
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
    ) -> Result<(), CodecError> {
        let asked = self.read(&mut decoder(message, self.limits))?;
        let mut reply = Reply { xid: asked.header.xid, to: To::Bytes(reply), is_written: false };
        self.answer(asked, peer, &mut reply)
    }

    /// Reads a call, of which nothing is believed yet.
    fn read(&self, from: &mut MessageDecoder<'_>) -> Result<Asked<'_>, CodecError> {
        let CallHeader { xid, rpc_version, program, version, procedure, credential, .. } =
            CallHeader::decode(from)?;
        let credential = Credential::read(&credential);
        let call = self.find(rpc_version, program, version);
        let call = call.map(|service| service.read(procedure, from));
        let (none, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let header = CallHeader {
            xid,
            rpc_version,
            program,
            version,
            procedure,
            credential: none,
            verifier,
        };
        Ok(Asked { header, credential, call })
    }

    fn find(&self, rpc_version: u32, program: u32, version: u32) -> Result<&dyn Service, Status> {
        if rpc_version != RPC_VERSION {
            return Err(Status::RpcMismatch { low: RPC_VERSION, high: RPC_VERSION });
        }
        let versions = self.programs.get(&program).ok_or(Status::ProgramUnavailable)?;
        match versions.get(&version) {
            Some(service) => Ok(&**service),
            None => {
                let low = versions.keys().next().copied().unwrap_or(0);
                let high = versions.keys().next_back().copied().unwrap_or(0);
                Err(Status::ProgramMismatch { low, high })
            }
        }
    }

    /// Executes a call that is genuine, and writes the reply.
    fn answer(
        &self,
        asked: Asked<'_>,
        peer: Option<SocketAddr>,
        reply: &mut Reply<'_>,
    ) -> Result<(), CodecError> {
        let status = self.execute(asked, peer, reply);
        match status {
            Status::Success if reply.is_written => Ok(()),
            status => reply.write(status, |_| Ok(())),
        }
    }

    fn execute(&self, asked: Asked<'_>, peer: Option<SocketAddr>, reply: &mut Reply<'_>) -> Status {
        let Asked { header, credential, call: prepared } = asked;
        if let Err(status @ Status::RpcMismatch { .. }) = prepared {
            return status;
        }
        let credential = match credential {
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
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(status) => return status,
        };
        match prepared.and_then(|execute| execute(&call, reply)) {
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
        if self.transport.is_sealed() {
            return self.turn_sealed(services, patience);
        }
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
            let error = no_call(error);
            return if self.transport.is_reliable() { Err(error) } else { Ok(Turn::Served) };
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

    /// Arguments are read in the pass that opens a call, and results written in the one that seals the reply.
    fn turn_sealed(&mut self, services: &Services, patience: Option<Duration>) -> io::Result<Turn> {
        let mut incoming = Incoming::new(services.limits, |from| services.read(from));
        match self.transport.receive_message(&mut incoming, patience)? {
            Arrival::Message => {}
            Arrival::Nothing => return Ok(Turn::Nothing),
            Arrival::End => return Ok(Turn::End),
        }
        let asked = match incoming.found {
            Some(Ok(asked)) => asked,
            Some(Err(error)) => return Err(no_call(error)),
            None => return Err(io::ErrorKind::InvalidData.into()),
        };
        let peer = self.transport.peer();
        let to = To::Sealed { transport: &mut self.transport, failed: None };
        let mut reply = Reply { xid: asked.header.xid, to, is_written: false };
        services.answer(asked, peer, &mut reply).map_err(io::Error::other)?;
        match reply.to {
            To::Sealed { failed: Some(error), .. } => Err(error),
            _ => Ok(Turn::Served),
        }
    }

    /// Makes the reply one of failure.
    fn fail(&mut self) -> io::Result<()> {
        let xid = self.message.first_chunk().map_or(0, |xid| u32::from_be_bytes(*xid));
        write(&mut self.reply, |to| encode_reply(xid, Status::SystemError, to))
            .map_err(io::Error::other)
    }
}

fn no_call(error: CodecError) -> io::Error {
    tracing::debug!(%error, "a message that is no call");
    io::Error::new(io::ErrorKind::InvalidData, error)
}
