//! The caller's side: calls under way by their transaction, matched with their replies in any order; sent
//! again while nothing comes where the transport may lose them.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::fmt;
use std::hash::BuildHasher;
use std::io;
use std::time::{Duration, Instant};

use fusewire_codec::Limits;
use fusewire_codec::pipeline::Marshal;

use crate::auth::{Credential, OpaqueAuth};
use crate::error::Error;
use crate::message::{
    CallHeader, MessageDecoder, MessageEncoder, Outgoing, RPC_VERSION, Status, decode_status,
    reply_xid,
};
use crate::pass::{Incoming, decoder, write as write_message};
use crate::transport::{Arrival, Transport};

/// How a client calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who calls.
    pub credential: Credential,
    /// How long a call may take.
    pub timeout: Duration,
    /// When a call is sent again over a transport that may lose it; doubled each time.
    pub retransmit: Duration,
    /// The longest time between two such.
    pub retransmit_max: Duration,
    /// Calls under way at most.
    pub calls_max: usize,
    /// Bounds on what results may ask for.
    pub limits: Limits,
}

impl Default for Config {
    /// AUTH_NONE; 25 seconds a call, sent again after half a second, then at most every 8; 256 calls; results
    /// of a million elements.
    fn default() -> Self {
        Config {
            credential: Credential::None,
            timeout: Duration::from_secs(25),
            retransmit: Duration::from_millis(500),
            retransmit_max: Duration::from_secs(8),
            calls_max: 256,
            limits: Limits { count: 1 << 20, ..Limits::default() },
        }
    }
}

/// What reads results.
type Read<R> = for<'a> fn(&mut MessageDecoder<'a>) -> Result<R, fusewire_codec::Error>;

/// A call under way; [`Client::wait`] gives what it returns.
#[must_use = "a call that nobody waits for counts among those under way"]
pub struct Pending<R> {
    xid: u32,
    read: Read<R>,
}

impl<R> Pending<R> {
    /// Its transaction.
    pub fn xid(&self) -> u32 {
        self.xid
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("xid", &self.xid).finish_non_exhaustive()
    }
}

struct InFlight {
    /// Empty where it need not be sent again.
    message: Vec<u8>,
    deadline: Instant,
    again: Instant,
    interval: Duration,
    reply: Option<Vec<u8>>,
}

/// Calls of one version of one program over one transport.
///
/// Over a stream, both sides can come to wait for each other when many large calls are begun and none of
/// their large replies is waited for: the write timeout ends that.
pub struct Client<T> {
    transport: T,
    program: u32,
    version: u32,
    config: Config,
    in_flight: HashMap<u32, InFlight>,
    buffer: Vec<u8>,
    /// Makes transactions that nobody else can tell beforehand.
    key: RandomState,
    count: u64,
    strays: u64,
}

impl<T> fmt::Debug for Client<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("program", &self.program)
            .field("version", &self.version)
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}

impl<T: Transport> Client<T> {
    /// Calls of that version of that program.
    pub fn new(transport: T, program: u32, version: u32, config: Config) -> Self {
        Client {
            transport,
            program,
            version,
            config,
            in_flight: HashMap::new(),
            buffer: Vec::new(),
            key: RandomState::new(),
            count: 0,
            strays: 0,
        }
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Messages that were no replies to calls under way: late, twice, forged.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Calls under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Who calls, from now on.
    pub fn set_credential(&mut self, credential: Credential) {
        self.config.credential = credential;
    }

    /// Calls a procedure and waits for what it returns.
    ///
    /// # Errors
    /// As [`Client::begin`] and [`Client::wait`].
    pub fn call<R>(
        &mut self,
        procedure: u32,
        write: impl Fn(&mut MessageEncoder<'_>) -> Result<(), fusewire_codec::Error>,
        read: Read<R>,
    ) -> Result<R, Error> {
        let call = self.begin(procedure, write, read)?;
        self.wait(call)
    }

    /// Sends a call; [`Client::wait`] waits for what it returns. What it waits here for room is of its time.
    ///
    /// # Errors
    /// It cannot be sent, or there are too many.
    pub fn begin<R>(
        &mut self,
        procedure: u32,
        write: impl Fn(&mut MessageEncoder<'_>) -> Result<(), fusewire_codec::Error>,
        read: Read<R>,
    ) -> Result<Pending<R>, Error> {
        if self.in_flight.len() >= self.config.calls_max {
            return Err(Error::TooManyCalls(self.config.calls_max));
        }
        let xid = self.fresh_xid();
        let deadline = Instant::now() + self.config.timeout;
        let header = CallHeader {
            xid,
            rpc_version: RPC_VERSION,
            program: self.program,
            version: self.version,
            procedure,
            credential: self.config.credential.opaque().map_err(Error::Arguments)?,
            verifier: OpaqueAuth::NONE,
        };
        let write = |to: &mut MessageEncoder<'_>| header.encode(to).and_then(|()| write(to));
        let max = self.transport.message_len_max();
        let mut message = Vec::new();
        if self.transport.is_sealed() {
            let outgoing = Outgoing::new(xid, &write).map_err(Error::Arguments)?.by(deadline);
            fits(outgoing.marshalled_len(), max)?;
            self.transport.send_message(&outgoing).map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut if error.raw_os_error().is_none() => {
                    Error::TimedOut(self.config.timeout)
                }
                _ => Error::Transport(error),
            })?;
        } else {
            message = std::mem::take(&mut self.buffer);
            write_message(&mut message, write).map_err(Error::Arguments)?;
            fits(message.len(), max)?;
            self.transport.send(&message)?;
        }
        let now = Instant::now();
        let interval = self.config.retransmit;
        let mut call = InFlight {
            message: Vec::new(),
            deadline,
            again: now + interval,
            interval,
            reply: None,
        };
        match self.transport.is_reliable() {
            true if self.transport.is_sealed() => {}
            true => self.buffer = message,
            false => call.message = message,
        }
        self.in_flight.insert(xid, call);
        Ok(Pending { xid, read })
    }

    /// What a call returns, once it does. Replies to other calls are kept for those.
    ///
    /// # Errors
    /// The call was not answered, refused, or failed there.
    pub fn wait<R>(&mut self, call: Pending<R>) -> Result<R, Error> {
        let reply = loop {
            let Entry::Occupied(mut entry) = self.in_flight.entry(call.xid) else {
                return Err(Error::NoCall);
            };
            if let Some(reply) = entry.get_mut().reply.take() {
                entry.remove();
                break reply;
            }
            if entry.get().deadline <= Instant::now() {
                self.forget(call.xid);
                return Err(Error::TimedOut(self.config.timeout));
            }
            let deadline = entry.get().deadline;
            if !self.transport.is_sealed() {
                self.receive(deadline)?;
            } else if let Some(result) = self.receive_sealed(&call, deadline)? {
                self.in_flight.remove(&call.xid);
                return result;
            }
        };
        let mut from = decoder(&reply, self.config.limits);
        let result = from.uint().map_err(Error::Reply);
        let result = result.and_then(|_| read_result(&mut from, call.read));
        self.buffer = reply;
        result
    }

    /// Receives one message: the reply to `call` is read in the pass that opens it, one to another call kept for that.
    fn receive_sealed<R>(
        &mut self,
        call: &Pending<R>,
        deadline: Instant,
    ) -> Result<Option<Result<R, Error>>, Error> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut incoming = Incoming::new(self.config.limits, |from| {
            let xid = from.uint()?;
            if xid == call.xid {
                return Ok(Some(read_result(from, call.read)));
            }
            buffer.clear();
            buffer.extend_from_slice(&xid.to_be_bytes());
            buffer.extend_from_slice(&from.rest()?);
            Ok(None)
        });
        let patience = deadline.saturating_duration_since(Instant::now());
        let arrival = self.transport.receive_message(&mut incoming, Some(patience))?;
        match (arrival, incoming.found) {
            (Arrival::End, _) => return Err(Error::Ended),
            (Arrival::Message, Some(Ok(Some(result)))) => return Ok(Some(result)),
            (Arrival::Message, Some(Ok(None))) => self.handle_message(buffer),
            (Arrival::Message, _) => self.strays += 1,
            (Arrival::Nothing, _) => self.buffer = buffer,
        }
        Ok(None)
    }

    /// Forgets a call; its reply, if it has come, is a stray then, and so is one that comes later, unless the transport drops it
    /// ([`Transactions`](crate::Transactions) does).
    pub fn cancel<R>(&mut self, call: Pending<R>) {
        self.forget(call.xid);
    }

    fn forget(&mut self, xid: u32) {
        let is_answered = self.in_flight.remove(&xid).is_some_and(|call| call.reply.is_some());
        // Some transports keep replies of their own.
        self.strays += u64::from(self.transport.cancel(xid) || is_answered);
    }

    /// Receives one message, or sends again what is due by then.
    fn receive(&mut self, deadline: Instant) -> Result<(), Error> {
        let waits =
            || self.in_flight.values().filter(|c| c.reply.is_none() && !c.message.is_empty());
        let wake = waits().map(|c| c.again).min().map_or(deadline, |again| again.min(deadline));
        let patience = wake.saturating_duration_since(Instant::now());
        let mut message = std::mem::take(&mut self.buffer);
        match self.transport.receive(&mut message, Some(patience))? {
            Arrival::Message => self.handle_message(message),
            Arrival::Nothing => self.buffer = message,
            Arrival::End => return Err(Error::Ended),
        }
        self.send_again()
    }

    fn handle_message(&mut self, message: Vec<u8>) {
        let call = reply_xid(&message).and_then(|xid| self.in_flight.get_mut(&xid));
        match call {
            Some(call) if call.reply.is_none() => {
                // Who waits for it does not need the call any more.
                self.buffer = std::mem::take(&mut call.message);
                call.reply = Some(message);
            }
            _ => {
                self.strays += 1;
                tracing::debug!(
                    len = message.len(),
                    "a message that is no reply to a call under way"
                );
                self.buffer = message;
            }
        }
    }

    fn send_again(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        for call in self.in_flight.values_mut() {
            if call.reply.is_none() && !call.message.is_empty() && call.again <= now {
                self.transport.send(&call.message)?;
                call.interval = (call.interval * 2).min(self.config.retransmit_max);
                call.again = now + call.interval;
            }
        }
        Ok(())
    }

    fn fresh_xid(&mut self) -> u32 {
        loop {
            self.count += 1;
            let xid = self.key.hash_one(self.count) as u32;
            if !self.in_flight.contains_key(&xid) {
                return xid;
            }
        }
    }
}

/// What follows the transaction in a reply.
fn read_result<R>(from: &mut MessageDecoder<'_>, read: Read<R>) -> Result<R, Error> {
    let status = decode_status(from).map_err(Error::Reply)?;
    let error = match status {
        Status::Success => {
            let result = read(from).map_err(Error::Reply)?;
            return from.finished().map(|()| result).map_err(Error::Reply);
        }
        Status::ProgramUnavailable => Error::ProgramUnavailable,
        Status::ProgramMismatch { low, high } => Error::ProgramMismatch { low, high },
        Status::ProcedureUnavailable => Error::ProcedureUnavailable,
        Status::GarbageArguments => Error::GarbageArguments,
        Status::SystemError => Error::SystemError,
        Status::RpcMismatch { low, high } => Error::RpcMismatch { low, high },
        Status::AuthError(why) => Error::Auth(why),
    };
    Err(error)
}

fn fits(len: usize, max: usize) -> Result<(), Error> {
    if len > max { Err(Error::TooLong { len, max }) } else { Ok(()) }
}
