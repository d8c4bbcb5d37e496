//! The handshake as a machine without I/O: TLS 1.3, then Hello and Choice, then keys.
//!
//! ```text
//! client                                             server
//! ClientHello                        ──▶
//!                                    ◀──  ServerHello … Finished
//! Certificate … Finished, Hello,
//! ADUs ([`Handshake::send_early`])   ──▶
//! ├ records of the client            ◀──  Choice
//!                                         ├ records of the server
//! ```
//! The caller hands stream bytes to [`Handshake::read`], in order, sends what [`Handshake::write`] gives,
//! and asks [`Handshake::poll`] after each. `read` never takes a byte beyond the handshake: rustls gets
//! one TLS record at a time, and what follows the last one belongs to the records of ours. After an error
//! there may be an alert or a refusal to send: call `write` once more.

use crate::config::{self, ClientConfig, DataPass, Executions, ServerConfig, Settings, Trust};
use crate::early::{self, Early};
use crate::error::{Error, HandshakeError};
use crate::exporter::Exporter;
use crate::fingerprint::Fingerprint;
use crate::hello::{self, Answer, Choice, Hello, Refusal};
use crate::key_log::KeyLogFile;
use crate::keys::{EXPORTER_LABEL, TrafficSecret};
use crate::record::{HeaderProtection, RecordParams, RecordReceiver, RecordSender};
use crate::rendezvous::Rendezvous;
use crate::tls::{self, Seen};
use fusewire_kernels::{Cipher, Swap};
use rustls::{AlertDescription, Connection};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;
use zeroize::{Zeroize, Zeroizing};

/// Bytes that a peer may send before the handshake ends. An honest one needs about 2,500.
pub const HANDSHAKE_LEN_MAX: usize = 16 * 1024;

const TLS_HEADER_LEN: usize = 5;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that connected.
    Client,
    /// The end that listened.
    Server,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// What the two sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Version of the record protocol.
    pub version: u8,
    /// The cipher, both ways.
    pub cipher: Cipher,
    /// Elements of bodies, both ways.
    pub element: Swap,
    /// Longest body that may be sent, bytes.
    pub send_body_len_max: u32,
    /// Longest body that may be received, bytes.
    pub receive_body_len_max: u32,
    /// A connection of which nothing was heard for so long is given up by both sides.
    pub idle_timeout: Option<Duration>,
    /// Headers of records are protected, both ways.
    pub protection: Option<HeaderProtection>,
}

/// What a finished handshake leaves.
#[derive(Debug)]
pub struct Established {
    /// The peer's key, proven by its signature. Under [`Trust::Ask`] the caller now decides about it.
    pub peer: Fingerprint,
    /// False under [`Trust::Ask`]: nobody has judged `peer` yet. True in all other cases.
    pub trusted: bool,
    /// What was agreed on.
    pub options: Options,
    /// Seals; its first record begins at [`RecordSender::next_offset`].
    pub sender: RecordSender,
    /// Opens; the first record begins at [`RecordReceiver::start_offset`].
    pub receiver: RecordReceiver,
    /// What the session goes on with over shared memory, if the client asked for it and the server agreed.
    pub rendezvous: Option<Box<Rendezvous>>,
    /// Makes keys for what belongs to the session and lies outside of its records.
    pub exporter: Exporter,
    /// A server's: ADUs that came within the handshake, with the indices from 0. A client's: those given to
    /// [`Handshake::send_early`] that did not go with it, to be sealed before all others.
    pub early: Vec<Vec<u8>>,
}

enum Role {
    Client { hello: Hello, trust: Trust },
    Server { config: Box<ServerConfig> },
}

struct Agreed {
    peer: Fingerprint,
    options: Options,
    /// The server's name, if both want shared memory.
    shared_memory: Option<Vec<u8>>,
}

enum State {
    Tls,
    /// TLS is done; the peer's Hello or Choice comes next.
    Message,
    /// So many ADUs of the client's come next; then the server answers.
    Early {
        left: u8,
        agreed: Box<Agreed>,
        answer: Vec<u8>,
    },
    /// Agreed; what is left of our own flight goes out first.
    Agreed(Box<Agreed>),
    Done,
    Failed(HandshakeError),
}

/// A handshake in progress. See the [module's text](self).
pub struct Handshake {
    tls: Connection,
    role: Role,
    own: Fingerprint,
    seen: Seen,
    data_pass: DataPass,
    executions: Executions,
    key_log: Option<Arc<KeyLogFile>>,
    state: State,
    /// The TLS record being collected.
    record: Vec<u8>,
    read_len: usize,
    written_len: usize,
    client_random: [u8; 32],
    /// Hello, then Choice: the exporter's context.
    transcript: Vec<u8>,
    /// A client's, until its Hello leaves.
    to_say: Early,
    /// ADUs that went with a client's Hello.
    said: u8,
    /// A server's, that have come; a client's, that did not go.
    early: Vec<Vec<u8>>,
}

impl Handshake {
    /// A client's handshake. [`write`](Self::write) has its first flight at once.
    ///
    /// # Errors
    /// [`Misuse::Config`](crate::Misuse::Config), or [`HandshakeError::Tls`] out of the library.
    pub fn client(config: &ClientConfig) -> Result<Handshake, Error> {
        let ClientConfig { settings, trust, element, shared_memory } = config;
        settings.check()?;
        let seen = Seen::default();
        let tls = tls::client(config, seen.clone())?;
        let hello = Hello {
            version: hello::VERSION,
            allow_insecure: settings.allow_insecure,
            element: *element,
            body_len_max: settings.body_len_max,
            ciphers: settings.ciphers.clone(),
            shared_memory: *shared_memory,
            idle_timeout: settings.idle_timeout,
            protection: settings.protection,
            early: 0,
            terms: settings.terms.clone(),
        };
        let role = Role::Client { hello, trust: *trust };
        Ok(Handshake::new(tls.into(), role, seen, settings))
    }

    /// A server's handshake.
    ///
    /// # Errors
    /// [`Misuse::Config`](crate::Misuse::Config), or [`HandshakeError::Tls`] out of the library.
    pub fn server(config: &ServerConfig) -> Result<Handshake, Error> {
        config.settings.check()?;
        let seen = Seen::default();
        let tls = tls::server(config, seen.clone())?;
        let role = Role::Server { config: Box::new(config.clone()) };
        Ok(Handshake::new(tls.into(), role, seen, &config.settings))
    }

    fn new(tls: Connection, role: Role, seen: Seen, settings: &Settings) -> Handshake {
        Handshake {
            tls,
            role,
            own: settings.identity.fingerprint(),
            seen,
            data_pass: settings.data_pass,
            executions: settings.executions.clone(),
            key_log: settings.key_log.clone(),
            state: State::Tls,
            record: Vec::new(),
            read_len: 0,
            written_len: 0,
            client_random: [0; 32],
            transcript: Vec::new(),
            to_say: Early::default(),
            said: 0,
            early: Vec::new(),
        }
    }

    /// Takes an ADU of a client's that goes with its part of the handshake, a round trip before there are records.
    /// False, and nothing is taken: the client has not pinned its server, its Hello has left, or there is no room left
    /// ([`EARLY_LEN_MAX`](crate::EARLY_LEN_MAX)). A server that does not take it so gets it first of all
    /// ([`Established::early`]).
    pub fn send_early(&mut self, body: &[u8]) -> bool {
        match (&self.role, &self.state) {
            (Role::Client { hello, trust: Trust::Pinned(_) }, State::Tls) => {
                self.to_say.push(body, hello.element, hello.protection)
            }
            _ => false,
        }
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        match self.role {
            Role::Client { .. } => Side::Client,
            Role::Server { .. } => Side::Server,
        }
    }

    /// Takes bytes of the stream and says how many: all of them, or those up to the handshake's end.
    ///
    /// # Errors
    /// [`Error::Handshake`], and the same again on each further call. [`write`](Self::write) may have an
    /// alert or a refusal for the peer.
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut taken = 0;
        loop {
            match &self.state {
                State::Failed(error) => return Err(error.clone().into()),
                State::Agreed(_) | State::Done => return Ok(taken),
                State::Tls | State::Message | State::Early { .. } => {}
            }
            let rest = &bytes[taken..];
            if rest.is_empty() {
                return Ok(taken);
            }
            match self.collect(rest) {
                Ok(n) => taken += n,
                Err(error) => {
                    self.state = State::Failed(error.clone());
                    self.record.zeroize();
                    return Err(error.into());
                }
            }
        }
    }

    /// Appends to `out` what is to be sent, in order.
    pub fn write(&mut self, out: &mut Vec<u8>) {
        let begin = out.len();
        while self.tls.wants_write() {
            match self.tls.write_tls(out) {
                Ok(n) if n > 0 => self.written_len += n,
                // A Vec takes everything, and rustls fails only when the writer does.
                _ => return,
            }
            if self.side() == Side::Client && self.written_len == out.len() - begin {
                self.client_random = client_random(&out[begin..]);
            }
        }
    }

    /// True when [`write`](Self::write) has something.
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// The result, once: when both sides agreed and everything of ours was written.
    pub fn poll(&mut self) -> Option<Established> {
        if self.tls.wants_write() {
            return None;
        }
        match core::mem::replace(&mut self.state, State::Done) {
            State::Agreed(agreed) => match self.establish(*agreed) {
                Ok(established) => Some(established),
                Err(error) => {
                    self.state = State::Failed(error);
                    None
                }
            },
            other => {
                self.state = other;
                None
            }
        }
    }

    /// What to make of the stream's end before [`poll`](Self::poll) gave a result.
    pub fn ended(&self) -> Error {
        match &self.state {
            State::Failed(error) => error.clone().into(),
            _ => HandshakeError::Ended.into(),
        }
    }

    /// Takes bytes up to the end of the TLS record at hand, and works on it once it is whole.
    fn collect(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let wanted = if self.record.len() < TLS_HEADER_LEN {
            TLS_HEADER_LEN
        } else {
            TLS_HEADER_LEN + usize::from(u16::from_be_bytes([self.record[3], self.record[4]]))
        };
        let n = bytes.len().min(wanted - self.record.len());
        self.read_len += n;
        self.record.extend_from_slice(&bytes[..n]);
        let whole = match self.record[..] {
            [_, _, _, high, low, ..] => {
                TLS_HEADER_LEN + usize::from(u16::from_be_bytes([high, low]))
            }
            _ => TLS_HEADER_LEN,
        };
        // All of a record counts as soon as its header announces it, before any of it is kept.
        if self.read_len + (whole - self.record.len()) > HANDSHAKE_LEN_MAX {
            return Err(HandshakeError::TooLong { limit: HANDSHAKE_LEN_MAX });
        }
        if self.record.len() == whole {
            if self.read_len == whole && self.side() == Side::Server {
                self.client_random = client_random(&self.record);
            }
            let record = core::mem::take(&mut self.record);
            self.handle_record(&record)?;
            self.record = record;
            self.record.clear();
        }
        Ok(n)
    }

    fn handle_record(&mut self, record: &[u8]) -> Result<(), HandshakeError> {
        let mut rest = record;
        while !rest.is_empty() {
            match self.tls.read_tls(&mut rest) {
                Ok(n) if n > 0 => {}
                // rustls takes nothing more after a close_notify, or when a message is too long.
                _ => return Err(HandshakeError::Ended),
            }
            if let Err(error) = self.tls.process_new_packets() {
                return Err(self.tls_error(error));
            }
        }
        match self.state {
            State::Tls if !self.tls.is_handshaking() => self.tls_done(),
            State::Message => self.handle_message(),
            State::Early { .. } => self.handle_early(),
            _ => Ok(()),
        }
    }

    /// Names what rustls can only call an alert or a verifier's failure.
    fn tls_error(&self, error: rustls::Error) -> HandshakeError {
        match (&self.role, self.peer()) {
            (&Role::Client { trust: Trust::Pinned(expected), .. }, Some(found))
                if expected != found =>
            {
                HandshakeError::UntrustedServer { expected, found }
            }
            _ if error == rustls::Error::NoApplicationProtocol
                || error
                    == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) =>
            {
                HandshakeError::NoCommonProtocol
            }
            _ => HandshakeError::Tls(error),
        }
    }

    /// Returns the key that the peer has shown and whose signature was right, once it has.
    pub fn peer(&self) -> Option<Fingerprint> {
        *self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn tls_done(&mut self) -> Result<(), HandshakeError> {
        let takes_early = match self.tls.alpn_protocol() {
            Some(protocol) if protocol == tls::ALPN => false,
            Some(protocol) if protocol == tls::ALPN_EARLY => true,
            _ => return Err(HandshakeError::NoCommonProtocol),
        };
        if let Role::Client { hello, .. } = &mut self.role {
            let early = core::mem::take(&mut self.to_say);
            self.said = if takes_early { early.count() } else { 0 };
            hello.early = self.said;
            let element = hello.element;
            hello.emit(&mut self.transcript);
            let message = self.transcript.clone();
            self.send(&message)?;
            if takes_early {
                early.messages().try_for_each(|message| self.send(message))?;
            } else {
                self.early = early.into_bodies(element);
            }
        }
        self.state = State::Message;
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        let sent = self.tls.writer().write_all(message);
        sent.map_err(|_| HandshakeError::Tls(rustls::Error::EncryptError))
    }

    /// The content of the record just read: one message of ours and nothing else.
    fn handle_message(&mut self) -> Result<(), HandshakeError> {
        let expected = match self.role {
            Role::Client { .. } => "Choice",
            Role::Server { .. } => "Hello",
        };
        let mut message = [0; hello::MESSAGE_LEN_MAX + 1];
        let message = self.message(&mut message, expected)?;
        let Some(peer) = self.peer() else {
            return Err(HandshakeError::Tls(rustls::Error::NoCertificatesPresented));
        };
        match &self.role {
            Role::Client { hello, .. } => {
                let (options, shared_memory) = agree_as_client(hello, message)?;
                self.transcript.extend_from_slice(message);
                let agreed = Agreed { peer, options, shared_memory };
                self.state = State::Agreed(Box::new(agreed));
                Ok(())
            }
            Role::Server { config } => {
                self.transcript.extend_from_slice(message);
                let takes_early = self.tls.alpn_protocol() == Some(tls::ALPN_EARLY);
                match answer_as_server(config, self.own, peer, message, takes_early) {
                    Ok((choice, options, left)) => self.choose(choice, options, peer, left),
                    Err(refusal) => {
                        let mut answer = Vec::new();
                        Answer::Refusal(refusal).emit(&mut answer);
                        self.send(&answer)?;
                        Err(match refusal {
                            Refusal::NotAllowed => HandshakeError::ClientNotAllowed(peer),
                            refusal => HandshakeError::RefusedByUs(refusal),
                        })
                    }
                }
            }
        }
    }

    /// A server's choice, which leaves when as many ADUs have come as its client said.
    fn choose(
        &mut self,
        choice: Choice,
        options: Options,
        peer: Fingerprint,
        left: u8,
    ) -> Result<(), HandshakeError> {
        let at = self.transcript.len();
        choice.emit(&mut self.transcript);
        let answer = self.transcript[at..].to_vec();
        let agreed = Box::new(Agreed { peer, options, shared_memory: choice.shared_memory });
        self.state = State::Early { left, agreed, answer };
        self.answer()
    }

    /// Sends a server's answer if it waits for nothing more.
    fn answer(&mut self) -> Result<(), HandshakeError> {
        match core::mem::replace(&mut self.state, State::Message) {
            State::Early { left: 0, agreed, answer } => {
                self.send(&answer)?;
                self.state = State::Agreed(agreed);
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// The content of the record just read, and nothing behind it, as long as it may be.
    fn message<'m>(
        &mut self,
        memory: &'m mut [u8],
        expected: &'static str,
    ) -> Result<&'m [u8], HandshakeError> {
        let len = match self.tls.reader().read(memory) {
            Ok(len) if (1..memory.len()).contains(&len) => len,
            _ => return Err(HandshakeError::Message { expected }),
        };
        // An honest peer sends nothing that rustls would have to answer.
        if self.tls.wants_write() && self.side() == Side::Server {
            return Err(HandshakeError::Message { expected });
        }
        Ok(&memory[..len])
    }

    /// An ADU of the client's, of whom it is known that it may be here.
    fn handle_early(&mut self) -> Result<(), HandshakeError> {
        let expected = "an ADU of the agreed length";
        let mut message = vec![0; early::EARLY_LEN_MAX + 1];
        let message = self.message(&mut message, expected)?;
        let State::Early { left, agreed, .. } = &mut self.state else { return Ok(()) };
        let Options { receive_body_len_max, element, .. } = agreed.options;
        let body = early::parse(message, receive_body_len_max, element);
        self.early.push(body.ok_or(HandshakeError::Message { expected })?);
        *left -= 1;
        self.answer()
    }

    fn establish(&mut self, agreed: Agreed) -> Result<Established, HandshakeError> {
        let Agreed { peer, options, shared_memory } = agreed;
        let side = self.side();
        let send = self.export(Medium::Stream, side, peer)?;
        let receive = self.export(Medium::Stream, side.other(), peer)?;
        if let Some(log) = &self.key_log {
            log.log_records(side, &self.client_random, &send);
            log.log_records(side.other(), &self.client_random, &receive);
        }
        let sender = self.sender(&options, send, self.written_len as u64)?;
        let sender = sender.after(u64::from(self.said));
        let receiver = self.receiver(&options, receive, self.read_len as u64)?;
        let trusted = !matches!(self.role, Role::Client { trust: Trust::Ask, .. });
        let rendezvous = match shared_memory {
            Some(name) => Some(Box::new(self.rendezvous(peer, options, name)?)),
            None => None,
        };
        let exporter = Exporter::new(*self.secret(5, peer)?);
        let early = core::mem::take(&mut self.early);
        Ok(Established { peer, trusted, options, sender, receiver, rendezvous, exporter, early })
    }

    /// Keys and tokens of their own: no key seals both for the stream and for the rings.
    fn rendezvous(
        &self,
        peer: Fingerprint,
        options: Options,
        name: Vec<u8>,
    ) -> Result<Rendezvous, HandshakeError> {
        let side = self.side();
        let send = self.export(Medium::SharedMemory, side, peer)?;
        let receive = self.export(Medium::SharedMemory, side.other(), peer)?;
        Ok(Rendezvous {
            name,
            own_token: send.token(),
            peer_token: receive.token(),
            peer,
            options,
            sender: self.sender(&options, send, 0)?,
            receiver: self.receiver(&options, receive, 0)?,
        })
    }

    fn sender(
        &self,
        options: &Options,
        secret: TrafficSecret,
        offset: u64,
    ) -> Result<RecordSender, HandshakeError> {
        let params = self.params(options, options.send_body_len_max);
        RecordSender::new(params, secret, offset).map_err(library)
    }

    fn receiver(
        &self,
        options: &Options,
        secret: TrafficSecret,
        offset: u64,
    ) -> Result<RecordReceiver, HandshakeError> {
        let params = self.params(options, options.receive_body_len_max);
        RecordReceiver::new(params, secret, offset).map_err(library)
    }

    fn params(&self, options: &Options, body_len_max: u32) -> RecordParams {
        let mut data_pass = self.data_pass;
        if let Some(known) = self.executions.of(options.cipher, options.element) {
            data_pass.execution = known;
        }
        let Options { cipher, element, protection, .. } = *options;
        let params = RecordParams::new(cipher, element, body_len_max, data_pass);
        RecordParams { protection, ..params }
    }

    /// The traffic secret of what `sender` sends. Context: who sends where, both keys, both messages of
    /// ours.
    fn export(
        &self,
        medium: Medium,
        sender: Side,
        peer: Fingerprint,
    ) -> Result<TrafficSecret, HandshakeError> {
        let which = match (medium, sender) {
            (Medium::Stream, Side::Client) => 1,
            (Medium::Stream, Side::Server) => 2,
            (Medium::SharedMemory, Side::Client) => 3,
            (Medium::SharedMemory, Side::Server) => 4,
        };
        Ok(TrafficSecret::from_bytes(*self.secret(which, peer)?))
    }

    /// A secret of the TLS exporter for one purpose.
    fn secret(&self, which: u8, peer: Fingerprint) -> Result<Zeroizing<[u8; 32]>, HandshakeError> {
        let (client, server) = match self.side() {
            Side::Client => (self.own, peer),
            Side::Server => (peer, self.own),
        };
        let mut context = vec![which];
        context.extend(client.as_bytes());
        context.extend(server.as_bytes());
        context.extend(&self.transcript);
        let mut bytes = Zeroizing::new([0; 32]);
        self.tls
            .export_keying_material(&mut bytes[..], EXPORTER_LABEL, Some(&context))
            .map_err(HandshakeError::Tls)?;
        Ok(bytes)
    }
}

/// Where records lie one after the other.
#[derive(Clone, Copy)]
enum Medium {
    Stream,
    SharedMemory,
}

fn library(_: Error) -> HandshakeError {
    HandshakeError::Tls(rustls::Error::General("record keys".into()))
}

/// From a TLS record with a ClientHello: after record header, handshake header and version.
fn client_random(record: &[u8]) -> [u8; 32] {
    record.get(11..43).and_then(|r| r.try_into().ok()).unwrap_or_default()
}

fn agree_as_client(
    hello: &Hello,
    message: &[u8],
) -> Result<(Options, Option<Vec<u8>>), HandshakeError> {
    let expected = "Choice";
    // Of the ciphers that were offered: of others this program may have nothing.
    let choice = match Answer::parse_knowing(message, &hello.ciphers) {
        Ok(Answer::Choice(choice)) => choice,
        Ok(Answer::Refusal(refusal)) => return Err(HandshakeError::RefusedByPeer(refusal)),
        Err(error) => match hello::refused_cipher(&error, hello.allow_insecure) {
            Some(refusal) => return Err(HandshakeError::RefusedByUs(refusal)),
            None => return Err(HandshakeError::Message { expected }),
        },
    };
    if choice.cipher.is_insecure() && !hello.allow_insecure {
        return Err(HandshakeError::RefusedByUs(Refusal::Insecure));
    }
    if choice.element != hello.element {
        return Err(HandshakeError::RefusedByUs(Refusal::NoCommonCipher));
    }
    if choice.terms == hello.terms.is_empty() {
        // Who knows of no terms passes over them.
        return Err(HandshakeError::RefusedByUs(Refusal::Terms(0)));
    }
    if choice.shared_memory.is_some() && !hello.shared_memory {
        return Err(HandshakeError::Message { expected });
    }
    match (hello.protection, choice.protection) {
        (Some(asked), given) if given < Some(asked) || choice.cipher.mask.is_none() => {
            return Err(HandshakeError::RefusedByUs(Refusal::HeaderProtection));
        }
        (None, Some(_)) => return Err(HandshakeError::Message { expected }),
        _ => {}
    }
    let options = Options {
        version: choice.version,
        cipher: choice.cipher,
        element: choice.element,
        send_body_len_max: choice.body_len_max.min(config::BODY_LEN_MAX),
        receive_body_len_max: hello.body_len_max,
        idle_timeout: smaller(choice.idle_timeout, hello.idle_timeout),
        protection: choice.protection,
    };
    Ok((options, choice.shared_memory))
}

fn answer_as_server(
    config: &ServerConfig,
    own: Fingerprint,
    peer: Fingerprint,
    message: &[u8],
    takes_early: bool,
) -> Result<(Choice, Options, u8), Refusal> {
    if !config.allow.allows(own, peer) {
        return Err(Refusal::NotAllowed);
    }
    let known = &config.settings.ciphers;
    let (hello, offers_insecure) =
        Hello::parse_knowing(message, known).map_err(|_| Refusal::Malformed)?;
    if hello.version < hello::VERSION {
        return Err(Refusal::Version);
    }
    if hello.early > 0 && !takes_early {
        return Err(Refusal::Malformed);
    }
    let settings = &config.settings;
    if settings.protection.is_some() && hello.protection.is_none() {
        return Err(Refusal::HeaderProtection);
    }
    let protection = hello.protection.max(settings.protection);
    if let Some(at) = settings.terms.difference(&hello.terms) {
        return Err(Refusal::Terms(at));
    }
    let terms = !settings.terms.is_empty();
    let cipher = hello::choose((&hello, offers_insecure), known, settings.allow_insecure)?;
    let version = hello::VERSION;
    let element = hello.element;
    let shared_memory = config.shared_memory.clone().filter(|_| hello.shared_memory);
    let (body_len_max, idle_timeout) = (settings.body_len_max, settings.idle_timeout);
    let choice = Choice {
        version,
        cipher,
        element,
        body_len_max,
        shared_memory,
        idle_timeout,
        protection,
        terms,
    };
    let options = Options {
        version,
        cipher,
        element,
        send_body_len_max: hello.body_len_max.min(config::BODY_LEN_MAX),
        receive_body_len_max: body_len_max,
        idle_timeout: smaller(idle_timeout, hello.idle_timeout),
        protection,
    };
    Ok((choice, options, hello.early))
}

/// What both have agreed on: the smaller of what was said.
fn smaller(ours: Option<Duration>, theirs: Option<Duration>) -> Option<Duration> {
    match (ours, theirs) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl core::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Handshake")
            .field("side", &self.side())
            .field("read_len", &self.read_len)
            .field("written_len", &self.written_len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    /// What a server says that has never heard of header protection, or knows better than the client.
    #[test]
    fn a_client_that_asked_does_without_a_server_that_does_not_protect_headers() {
        let identity = Arc::new(Identity::ephemeral().unwrap());
        let padded = HeaderProtection::with_padding;
        let agree = |asked: Option<HeaderProtection>, given, cipher| {
            let mut config = ClientConfig::new(identity.clone(), Trust::Ask);
            config.settings.protection = asked;
            config.settings.allow_insecure = true;
            config.settings.ciphers = vec![Cipher::AES_256_GCM, Cipher::PES];
            let Role::Client { hello, .. } = Handshake::client(&config).unwrap().role else {
                unreachable!()
            };
            let (version, element, body_len_max) = (hello::VERSION, Swap::None, 1000);
            let choice = Choice {
                version,
                cipher,
                element,
                body_len_max,
                shared_memory: None,
                idle_timeout: None,
                protection: given,
                terms: false,
            };
            let mut message = Vec::new();
            choice.emit(&mut message);
            agree_as_client(&hello, &message).map(|(options, _)| options.protection)
        };
        let gcm = Cipher::AES_256_GCM;
        assert_eq!(agree(padded(64), padded(64), gcm), Ok(padded(64)));
        assert_eq!(agree(padded(64), padded(128), gcm), Ok(padded(128)));
        let refused = Err(HandshakeError::RefusedByUs(Refusal::HeaderProtection));
        assert_eq!(agree(padded(64), None, gcm), refused);
        assert_eq!(agree(padded(64), padded(32), gcm), refused);
        assert_eq!(agree(padded(1), padded(1), Cipher::PES), refused);
        let unasked = Err(HandshakeError::Message { expected: "Choice" });
        assert_eq!(agree(None, padded(1), gcm), unasked);
    }
}
