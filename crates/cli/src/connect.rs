//! The client's side of connecting: whom to believe, and what to say when it fails.

use std::io::{BufRead, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fusewire_files::Element;
use fusewire_files::net::{Call, Client, Judge, Patience};
use fusewire_outboard::client::Stream;
use fusewire_outboard::sockets::attach;
use fusewire_session::{
    ClientConfig, Error as SessionError, Fingerprint, HandshakeError, Identity, KnownHosts, Paths,
    Refusal, Trust, paths,
};
use fusewire_stack::{Error as StackError, Stack};
use fusewire_transport::either::Protocol;
use fusewire_transport::machine::KeepAlive;

use crate::device::{self, Carrying, DeviceChoice, is_here};
use crate::options::{Common, ElementChoice};
use crate::output::{Code, Failure, Result, command_line_with, printable, quoted};
use crate::url::{PORT, Url, shown};

/// How it is asked meanwhile; it is the silence that ends the connection.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(3), interval: Duration::from_secs(1), probes: u8::MAX };

/// What every client command takes.
#[derive(Args, Clone, Debug)]
pub struct Connect {
    /// The server's fingerprint, as it prints it at its start; remembered for the next time.
    #[arg(long, value_name = "FINGERPRINT")]
    trust: Option<Fingerprint>,
    #[command(flatten)]
    pub carrying: Carrying,
    /// What contents are marshalled as.
    #[arg(long, value_enum, default_value_t)]
    element: ElementChoice,
    /// Give up after so many seconds without an answer to a new connection.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    connect_timeout: u64,
    /// Continue after an outage of the network of up to SECONDS, and give up after a sixth more.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    #[command(flatten)]
    pub common: Common,
    /// The server is a sender's, which `fusewire cast` runs.
    #[arg(skip)]
    pub is_of_cast: bool,
}

impl Connect {
    /// How long the connection may be silent. Retransmissions are at most a tenth of that apart, so one follows the end of
    /// the longest outage in time.
    fn silence(&self) -> Duration {
        let outage = Duration::from_secs(self.timeout);
        outage + (outage / 6).max(Duration::from_secs(2))
    }

    /// Whose key is right was said.
    pub fn is_told_whom_to_trust(&self) -> bool {
        self.trust.is_some()
    }
}

/// An error, and whether another address may do better.
type Tried = (bool, Box<dyn std::error::Error>);

/// Opens connections to one server.
pub struct Connector<'a> {
    connect: &'a Connect,
    host: String,
    /// Name or address of the server's host, without a port.
    name: String,
    addresses: Vec<SocketAddr>,
    paths: Paths,
    config: ClientConfig,
    /// The key in the known-hosts file.
    known: Option<Fingerprint>,
    /// What carries the connections after the first, where that is not the device asked for.
    taken: Option<DeviceChoice>,
    /// Print nothing but errors.
    is_quiet: bool,
}

impl<'a> Connector<'a> {
    /// Finds the server's addresses and what is known of its key.
    ///
    /// # Errors
    /// Options that mean nothing together; the name is not known; the user's own files are unreadable; the key given is not the one that is known.
    pub fn new(connect: &'a Connect, url: &Url) -> Result<Connector<'a>> {
        connect.carrying.check(connect.common.transport())?;
        connect.common.check()?;
        if url.has_own_port() {
            connect.carrying.check_port()?;
        }
        let addresses = url.addresses().map_err(|e| Failure::new(Code::Connection, e))?;
        let paths = paths()?;
        let identity = Arc::new(Identity::load_or_create(&paths.identity)?);
        let (host, name) = (url.host(), url.name().to_string());
        let hosts = KnownHosts::load(&paths.known_hosts)?;
        let known = hosts.fingerprint(&host);
        if let Some(trust) = connect.trust {
            hosts.check(&host, trust).map_err(|e| Failure::new(Code::Refused, e.to_string()))?;
        }
        let trust = connect.trust.or(known).map_or(Trust::Ask, Trust::Pinned);
        let mut settings = connect.common.settings(identity, &[])?;
        settings.idle_timeout = Some(connect.silence());
        let element = Element::from(connect.element).swap_of();
        let config = ClientConfig { settings, trust, element, shared_memory: false };
        Ok(Connector {
            connect,
            host,
            name,
            addresses,
            paths,
            config,
            known,
            taken: None,
            is_quiet: false,
        })
    }

    /// Prints nothing but errors, if `is_quiet`.
    pub fn quiet(self, is_quiet: bool) -> Connector<'a> {
        Connector { is_quiet, ..self }
    }

    /// What contents are marshalled as.
    pub fn element(&self) -> Element {
        self.connect.element.into()
    }

    /// Opens a connection, trying one address after the other. The first decides about the server's key, and
    /// where it listens, for those after it.
    ///
    /// # Errors
    /// What the last address said, in words for a user, with an exit code.
    pub fn open(&mut self) -> Result<Client> {
        self.open_saying(&[])
    }

    /// [`Connector::open`], and tells the server this first (`Call::first`): every address that is tried may hear it.
    ///
    /// # Errors
    /// As [`Connector::open`].
    pub fn open_saying(&mut self, first: &[Vec<u8>]) -> Result<Client> {
        let mut failed = None;
        for address in self.addresses.clone() {
            match self.open_at(address, first) {
                Ok(link) => {
                    self.addresses = vec![address];
                    self.keep_to(&link);
                    self.config.trust = Trust::Pinned(link.peer());
                    self.remember(link.peer());
                    return Ok(link);
                }
                Err(failure) if failure.0 => failed = Some(failure.1),
                Err(failure) => return Err(failure.1),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new(Code::Connection, "no address").into()))
    }

    /// What was found not to be answered is not tried again for the connections after the first.
    fn keep_to(&mut self, link: &Client) {
        if self.taken.is_none()
            && self.connect.carrying.may_be_tcp()
            && link.carrier() == "kernel-tcp"
        {
            let transport = self.connect.common.transport().name().to_uppercase();
            let host = &self.host;
            let why = match link.missed() {
                Some(StackError::OtherTransport { served, .. }) => format!(
                    "{host} uses {} over UDP, and not {transport} (--transport {served})",
                    served.to_uppercase()
                ),
                _ => format!("no answer from {host} by {transport} over UDP"),
            };
            if !self.is_quiet {
                eprintln!("fusewire: {why}; going on over kernel TCP");
            }
            self.taken = Some(DeviceChoice::KernelTcp);
        }
    }

    /// Tries one address.
    fn open_at(&self, remote: SocketAddr, first: &[Vec<u8>]) -> std::result::Result<Client, Tried> {
        let own = self.config.settings.identity.fingerprint();
        let mut judge = |peer: Fingerprint| {
            // Whoever has the user's own key is the user.
            if peer == own || ask(&self.host, &self.name, peer) {
                Ok(())
            } else {
                Err(StackError::Untrusted(peer))
            }
        };
        let patience = Duration::from_secs(self.connect.connect_timeout);
        let carrying = &self.connect.carrying;
        let device = self.taken.as_ref().unwrap_or(carrying.device());
        let shared_memory = match device {
            DeviceChoice::Shm => true,
            DeviceChoice::Auto => is_here(remote.ip()),
            _ => false,
        };
        let config = ClientConfig { shared_memory, ..self.config.clone() };
        let call = Call { remote, config: &config, first };
        tracing::debug!(address = %remote, transport = %self.connect.common.transport(), %device, "connecting");
        let result = match device {
            DeviceChoice::KernelTcp => Client::over_kernel_tcp(&call, patience, &mut judge),
            DeviceChoice::Outboard(path) => over_outboard(path, &call, patience, &mut judge),
            DeviceChoice::Socket(_) if !carrying.may_be_tcp() => {
                Client::over_stack(self.stack(remote)?, &call, &mut judge)
            }
            DeviceChoice::Interface(_) => {
                Client::over_stack(self.stack(remote)?, &call, &mut judge)
            }
            DeviceChoice::Shm => Client::over_shared_memory(self.stack(remote)?, &call, &mut judge),
            DeviceChoice::Socket(_) | DeviceChoice::Auto => {
                let (stack, patience) = (self.stack(remote)?, Patience::new(patience));
                Client::over_the_best(stack, &call, patience, &mut judge)
            }
        };
        let result = result.inspect(|link| {
            let (over, cipher) = (link.carrier(), link.options().cipher);
            tracing::debug!(address = %remote, key = %link.peer(), over, %cipher, "connected");
            self.say(link, remote.ip());
        });
        result.map_err(|error| {
            let failure = self.explain(remote, &error);
            (failure.0 == Code::Connection, Failure::new(failure.0, failure.1).into())
        })
    }

    fn stack(&self, remote: SocketAddr) -> std::result::Result<Stack, Tried> {
        let patience = Duration::from_secs(self.connect.connect_timeout);
        let device = self.connect.carrying.connect(remote).map_err(|e| (false, e))?;
        self.connect.common.stack(device, KEEP_ALIVE, patience).map_err(|e| (false, e))
    }

    /// Tells what carries the bytes, if anybody wants to know.
    fn say(&self, link: &Client, remote: IpAddr) {
        let carrying = &self.connect.carrying;
        if !carrying.is_verbose() {
            return;
        }
        let why = match (carrying.device(), is_here(remote)) {
            _ if carrying.may_be_tcp() && link.carrier() == "kernel-tcp" => {
                vec!["there was no answer over UDP".into()]
            }
            (DeviceChoice::Auto, false) => device::auto(remote),
            (DeviceChoice::Auto, true) if link.carrier() == "shm" => {
                vec!["the server is on this host, and offers shared memory".into()]
            }
            (DeviceChoice::Auto, true) => vec![
                "the server is on this host, and there is no shared memory with it (--device shm says why)".into(),
            ],
            _ => link.notes(),
        };
        carrying.say(link.carrier(), &why);
    }

    fn remember(&mut self, peer: Fingerprint) {
        if self.known.is_some() || peer == self.config.settings.identity.fingerprint() {
            return;
        }
        if let Err(error) = KnownHosts::add(&self.paths.known_hosts, &self.host, peer) {
            eprintln!(
                "fusewire: warning: the key is not remembered: {}",
                printable(&error.to_string())
            );
        }
        self.known = Some(peer);
    }

    fn explain(&self, remote: SocketAddr, error: &StackError) -> (Code, String) {
        let (host, carrying) = (&self.host, &self.connect.carrying);
        match error {
            StackError::Untrusted(peer) => (Code::Refused, self.unknown(*peer)),
            StackError::Session(SessionError::Handshake(handshake)) => {
                let text = match handshake {
                    HandshakeError::UntrustedServer { expected, found } if self.known.is_none() => {
                        format!(
                            "the server {host} has another key than --trust says:\n  {found}\nand not\n  \
                             {expected}\nOn {}, the user who runs the server prints its key with\n  fusewire key \
                             show\nUse that with --trust",
                            self.name
                        )
                    }
                    HandshakeError::UntrustedServer { expected, found } => {
                        let path = self.paths.known_hosts.clone();
                        let (host, known, found) = (host.clone(), *expected, *found);
                        SessionError::KeyChanged { host, known, found, path }.to_string()
                    }
                    HandshakeError::RefusedByPeer(refusal) => {
                        format!("{host}: {handshake}{}", self.how_to_allow(*refusal))
                    }
                    _ => format!("{host}: {handshake}"),
                };
                (Code::Refused, text)
            }
            StackError::Session(_) | StackError::Misuse(_) => (Code::Failed, error.to_string()),
            StackError::NoSharedMemory { why, .. } => {
                let text =
                    format!("no shared memory with {host}: {why}; --device udp does without");
                (Code::Connection, text)
            }
            StackError::TimedOut(_)
                if !carrying.may_be_tcp()
                    && matches!(carrying.device(), DeviceChoice::Socket(_)) =>
            {
                let text = format!(
                    "cannot connect to {host}: {error} Where UDP is blocked, --device kernel-tcp goes over TCP, and \
                     without --device both are tried"
                );
                (Code::Connection, text)
            }
            StackError::OtherTransport { served, .. } => {
                let text = format!("cannot connect to {host}: {error} (--transport {served})");
                (Code::Connection, text)
            }
            _ if is_refused(error) => {
                let serve = self.how_to_serve(remote);
                (Code::Connection, format!("cannot connect to {host}: {error}{serve}"))
            }
            _ => (Code::Connection, format!("cannot connect to {host}: {error}")),
        }
    }

    /// Explains how to check and to trust a key that was never seen, when no user can be asked.
    fn unknown(&self, peer: Fingerprint) -> String {
        let (host, name) = (&self.host, &self.name);
        let again = command_line_with(&format!("--trust {peer}"));
        format!(
            "the server {host} is not known. Its key has the fingerprint\n  {peer}\nOn {name}, the user who runs \
             the server prints it with\n  fusewire key show\nIf it is the same, run here\n  {again}"
        )
    }

    /// Explains how to start a server that other hosts reach.
    fn how_to_serve(&self, remote: SocketAddr) -> String {
        if self.connect.is_of_cast {
            return String::new();
        }
        let xtp = match self.connect.common.transport() {
            Protocol::Xtp => " --transport xtp",
            Protocol::Tcp => "",
        };
        if is_here(remote.ip()) {
            let listen = match (remote.ip(), remote.port()) {
                (IpAddr::V4(Ipv4Addr::LOCALHOST), PORT) => String::new(),
                _ => format!(" --listen {}", quoted(&shown(remote))),
            };
            return format!(
                "\nIf no server runs, start one here:\n  fusewire serve DIR{listen}{xtp}"
            );
        }
        let name = &self.name;
        let listen = match remote.port() {
            PORT => "::".to_string(),
            port => quoted(&format!("[::]:{port}")),
        };
        format!(
            "\nOn {name}, run\n  fusewire serve DIR --listen {listen}{xtp}\nWithout --listen a server listens on \
             127.0.0.1 only."
        )
    }

    /// Explains what makes a server accept this client.
    fn how_to_allow(&self, refusal: Refusal) -> String {
        let (name, own) = (&self.name, self.config.settings.identity.fingerprint());
        let command =
            if self.connect.is_of_cast { "cast PATH GROUP" } else { "serve DIR --listen ::" };
        match refusal {
            Refusal::NotAllowed => format!(
                "\nOn {name}, add the key of this client to a list, and start the server with that list:\n  \
                 echo {own} >> clients.txt\n  fusewire {command} --allow clients.txt\nA server that runs with \
                 --allow reads its list again at SIGHUP."
            ),
            Refusal::Insecure | Refusal::NoCommonCipher => {
                let cipher = "start the server with --cipher LIST, or --allow-insecure";
                format!("\nOn {name}, {cipher}, or leave --cipher out here")
            }
            Refusal::HeaderProtection => "\nRun the same command with --header-protection".into(),
            _ => String::new(),
        }
    }
}

/// Returns `true` if the server's host answers, and no server listens there.
fn is_refused(error: &StackError) -> bool {
    match error {
        StackError::Unreachable(_) | StackError::Refused(_) => true,
        StackError::Os { source, .. } => source.kind() == std::io::ErrorKind::ConnectionRefused,
        _ => false,
    }
}

/// Over a stream of an outboard's.
fn over_outboard(
    path: &Path,
    call: &Call<'_>,
    patience: Duration,
    judge: Judge<'_>,
) -> fusewire_stack::Result<Client> {
    let outboard = attach(path).map_err(StackError::os("attaching"))?;
    let stream = Stream::connect(&outboard, call.remote, patience);
    Client::over_stream(call, stream.map_err(StackError::os("connecting"))?, patience, judge)
}

/// Asks whether to believe a server that was never seen; no where nobody can answer.
fn ask(host: &str, name: &str, peer: Fingerprint) -> bool {
    let (input, mut out) = (std::io::stdin(), std::io::stderr());
    if !input.is_terminal() || !out.is_terminal() {
        return false;
    }
    let question = format!(
        "The server {host} is not known. Its key has the fingerprint\n  {peer}\nOn {name}, the user who runs the server \
         prints it with\n  fusewire key show\nIf it is the same, go on and remember it (yes/no)? "
    );
    let mut answer = String::new();
    loop {
        if write!(out, "{question}").and_then(|()| out.flush()).is_err() {
            return false;
        }
        answer.clear();
        match input.lock().read_line(&mut answer) {
            Ok(1..) => {}
            _ => return false,
        }
        match answer.trim() {
            "yes" => return true,
            "no" => return false,
            _ => {}
        }
    }
}
