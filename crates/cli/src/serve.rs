//! `fusewire serve`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use clap::Args;
use fusewire_device::interface::host::Host;
use fusewire_files::net::{self, Control, Server, streams};
use fusewire_files::server::{Settings, Share};
use fusewire_outboard::client::{Listener, Outboard, Stream};
use fusewire_outboard::sockets::attach;
use fusewire_session::{Allow, AllowList, Cipher, Fingerprint, Identity, ServerConfig, paths};
use fusewire_stack::byte_stream::ByteStream;
use fusewire_stack::{PORT as INNER_PORT, shm};
use fusewire_transport::machine::KeepAlive;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::device::{Carrying, DeviceChoice};
use crate::options::{self, Common};
use crate::output::{Code, EXIT_CODES, Failure, Result, command_line_with, count, json, printable};
use crate::transfer;
use crate::url::{PORT, named_addr, shown};

/// Where it listens unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);
/// How long a client may take for its handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// A client that vanishes is noticed after about a minute.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(30), interval: Duration::from_secs(5), probes: 6 };

/// What is served, where, and to whom.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Serve {
    /// The folder to serve. Nothing above it can be reached.
    dir: PathBuf,
    /// Listen on this address, on UDP and on TCP; :: is every address of the host, port 0 takes a free one [default:
    /// 127.0.0.1:9293, or port 9293 of the first address on --device's interface].
    #[arg(long, value_name = "ADDR", value_parser = listen_addr)]
    listen: Option<SocketAddr>,
    /// Clients may make and replace files.
    #[arg(long)]
    writable: bool,
    /// Serve the clients whose fingerprints are in this file, one per line, and your own key. Read the file again at
    /// SIGHUP, and close the connections of clients that are no longer in it [default: your own key only].
    #[arg(long, value_name = "FILE", conflicts_with = "public")]
    allow: Option<PathBuf>,
    /// Serve everyone.
    #[arg(long)]
    public: bool,
    /// Take insecure ciphers too, from clients that ask for one.
    #[arg(long)]
    allow_insecure: bool,
    /// Most bytes a second for each connection, for example 20M.
    #[arg(long, value_name = "BYTES/S", value_parser = options::rate)]
    rate: Option<u64>,
    /// Uploaded files are on the disk before they have their name.
    #[arg(long)]
    sync: bool,
    /// Seconds that transfers may go on after SIGTERM or Ctrl-C; a second one breaks them off.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,
    /// Do not take connections over kernel TCP.
    #[arg(long)]
    no_kernel_tcp: bool,
    /// Do not go on over shared memory with clients of this host that ask for it.
    #[arg(long)]
    no_shm: bool,
    #[command(flatten)]
    carrying: Carrying,
    #[command(flatten)]
    common: Common,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print address and fingerprint as a line of JSON on standard output.
    #[arg(long)]
    json: bool,
}

fn listen_addr(text: &str) -> std::result::Result<SocketAddr, String> {
    // A number alone would be taken for an address, as the system understands one.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "expected ADDRESS[:PORT], for example 127.0.0.1:{text} or [::]:{text}"
        ));
    }
    named_addr(text, PORT)
}

/// Every cipher that must be asked for on both sides.
fn insecure() -> Vec<Cipher> {
    Cipher::ALL.into_iter().filter(|cipher| cipher.is_insecure()).collect()
}

impl Serve {
    fn config(&self) -> Result<ServerConfig> {
        let identity = Arc::new(Identity::load_or_create(&paths()?.identity)?);
        let more = if self.allow_insecure { insecure() } else { Vec::new() };
        let allow = options::allow(self.allow.as_deref(), self.public, identity.fingerprint())?;
        let mut settings = self.common.settings(identity, &more)?;
        // The client chooses: its transfer is to continue after the outage that it allows.
        settings.idle_timeout = Some(options::SILENCE_MAX);
        Ok(ServerConfig { settings, allow, shared_memory: None })
    }

    fn announce(&self, address: SocketAddr, config: &ServerConfig) -> Result {
        let fingerprint = config.settings.identity.fingerprint();
        if self.json {
            json(&json!({
                "event": "listening",
                "address": address.to_string(),
                "fingerprint": fingerprint.to_string(),
                "url": format!("fusewire://{}/", reached(address)),
            }))?;
        }
        if self.quiet {
            return Ok(());
        }
        let whom = match &config.allow {
            Allow::OwnKey => "your own key only".to_string(),
            Allow::List(list) => keys(list),
            Allow::Changing(list) => keys(&list.read().unwrap_or_else(PoisonError::into_inner)),
            Allow::Public => "everyone".to_string(),
        };
        let what = if self.writable { "read and write" } else { "read only" };
        let mut err = std::io::stderr().lock();
        writeln!(err, "serving      {} ({what}, {whom})", self.dir.display())?;
        let reach = match address.ip() {
            ip if ip.is_unspecified() => format!(" (every interface, {address})"),
            ip if ip.is_loopback() => " (this host only)".into(),
            _ => String::new(),
        };
        writeln!(err, "address      fusewire://{}/{reach}", reached(address))?;
        for address in own_addresses(address) {
            writeln!(err, "             fusewire://{address}/")?;
        }
        writeln!(err, "fingerprint  {fingerprint}")?;
        if address.ip().is_loopback() && self.listen.is_none() {
            let again = command_line_with("--listen ::");
            writeln!(err, "For clients on other hosts, run instead:\n  {again}")?;
        }
        if matches!(config.allow, Allow::OwnKey) {
            let add =
                "To serve other users, add what they print with `fusewire key show` to a file";
            writeln!(err, "{add}, and use --allow FILE")?;
        }
        if self.public && self.writable {
            writeln!(err, "warning: everyone who can reach {address} can change these files")?;
        }
        Ok(())
    }
}

/// Names the clients on a list to which `--allow` has added the server's own key.
fn keys(list: &AllowList) -> String {
    format!("your own key and {}", count(list.len().saturating_sub(1) as u64, "other"))
}

/// Returns host and port under which clients reach `address`: the host's name if it is every address of the host.
fn reached(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return shown(address);
    }
    let host = rustix::system::uname();
    format!("{}:{}", printable(&host.nodename().to_string_lossy()), address.port())
}

/// Most addresses of this host that are shown.
const SHOWN_MAX: usize = 4;

/// Returns the addresses of this host for clients that do not know its name, if a server listens on all of them as
/// `listen`. Addresses that only this host or its link reaches are left out.
fn own_addresses(listen: SocketAddr) -> Vec<SocketAddr> {
    if !listen.ip().is_unspecified() {
        return Vec::new();
    }
    let is_reached = |ip: &IpAddr| match ip {
        IpAddr::V4(v4) => !v4.is_loopback() && !v4.is_link_local(),
        IpAddr::V6(v6) => listen.is_ipv6() && !v6.is_loopback() && !v6.is_unicast_link_local(),
    };
    let all = Host::open().and_then(|mut host| host.addrs()).unwrap_or_default();
    let reached = all.iter().map(|addr| addr.addr).filter(is_reached);
    reached.map(|ip| SocketAddr::new(ip, listen.port())).take(SHOWN_MAX).collect()
}

impl Serve {
    /// What is said in the end of connections that were broken off.
    fn ended(&self, broken: usize) -> Result {
        if broken == 0 {
            return Ok(());
        }
        let what = count(broken as u64, "connection");
        let what = format!("{what} broken off after {} s", self.grace);
        Err(Failure::new(Code::Failed, what).into())
    }
}

/// Serves until a signal says to stop.
pub fn run(serve: &Serve) -> Result {
    let settings = Settings {
        writable: serve.writable,
        bytes_per_s: serve.rate.unwrap_or(0),
        sync: serve.sync,
        ..Settings::default()
    };
    let share = Share::open(&serve.dir, settings)?;
    let config = serve.config()?;
    if let DeviceChoice::Outboard(path) = serve.carrying.device() {
        return over_outboard(serve, path, &share, &config);
    }
    let (mut stack, tcp) = bind(serve)?;
    let shared = if serve.no_shm { None } else { Some(shm::Listener::bind()?) };
    let invitations = shared.as_ref().map(shm::Listener::invitations);
    let shared_memory = shared.as_ref().map(|s| s.name().to_vec());
    let with_memory = ServerConfig { shared_memory, ..config.clone() };
    stack.listen(INNER_PORT, with_memory, &options::secrets()?);
    let control = Arc::new(Control::default());
    let waker = stack.waker();
    heed_signals(&control, move || waker.wake(), Reload::of(serve, &config))?;
    let _observed =
        net::observe(&control).inspect_err(|error| tracing::info!(%error, "not visible"));
    let address = stack.local_addr();
    serve.announce(address, &config)?;
    if let Some(listener) = tcp {
        let (config, share, control) = (config, Arc::clone(&share), Arc::clone(&control));
        std::thread::Builder::new().name("accept".into()).spawn(move || {
            if let Err(error) = streams::serve(&listener, &config, &share, &control) {
                tracing::error!(%error, "no more connections over kernel TCP");
            }
        })?;
    }
    if let Some(mut listener) = shared {
        let (share, control) = (Arc::clone(&share), Arc::clone(&control));
        std::thread::Builder::new().name("shm accept".into()).spawn(move || {
            fusewire_files::net::shm::serve(&mut listener, &share, &control);
        })?;
    }
    let mut server = Server::new(stack, share).with_shared_memory(invitations);
    let broken = server.run(&control, Duration::from_secs(serve.grace))?;
    transfer::leave_it_to_the_signal(&control);
    serve.ended(broken)
}

/// By streams of an outboard's; there is no stack here.
fn over_outboard(serve: &Serve, path: &Path, share: &Arc<Share>, config: &ServerConfig) -> Result {
    serve.carrying.check(serve.common.transport())?;
    let outboard = attach(path).map_err(|e| Failure::new(Code::Failed, e.to_string()))?;
    let listen = serve.listen.map_or_else(|| own_address(&outboard), Ok)?;
    let listener = Listener::bind(&outboard, listen).map_err(|error| {
        let device = serve.carrying.device();
        Failure::new(Code::Failed, format!("cannot listen on {listen} over {device}: {error}"))
    })?;
    serve.carrying.say(Stream::NAME, &[]);
    let control = Arc::new(Control::default());
    let waker = listener.waker();
    heed_signals(&control, move || waker.wake(), Reload::of(serve, config))?;
    let _observed =
        net::observe(&control).inspect_err(|error| tracing::info!(%error, "not visible"));
    serve.announce(listener.local_addr()?, config)?;
    let grace = Duration::from_secs(serve.grace);
    let broken = streams::serve_to_the_end(&listener, config, share, &control, grace);
    transfer::leave_it_to_the_signal(&control);
    let gone = |error| Failure::new(Code::Failed, format!("the outboard is gone: {error}"));
    serve.ended(broken.map_err(gone)?)
}

/// The first of an outboard's addresses that others reach, or else the first.
fn own_address(outboard: &Outboard) -> Result<SocketAddr> {
    let welcome = outboard.client().welcome().map_err(std::io::Error::from)?;
    let all = || welcome.addresses().iter().map(|(address, _)| *address);
    let found = all().find(|address| !address.is_loopback()).or_else(|| all().next());
    let none = || Failure::new(Code::Failed, "the outboard has no address yet".to_string());
    Ok(SocketAddr::new(found.ok_or_else(none)?, PORT))
}

/// UDP, and TCP on the same port. A free port of the one may be taken of the other: then try again.
fn bind(serve: &Serve) -> Result<(fusewire_stack::Stack, Option<TcpListener>)> {
    serve.carrying.check(serve.common.transport())?;
    let mut tries = 0;
    loop {
        let device = serve.carrying.listen(serve.listen, LISTEN)?;
        serve.carrying.say(device.caps().name, &device.caps().notes);
        let stack = serve.common.stack(device, KEEP_ALIVE, HANDSHAKE_WAIT)?;
        // On an address of our own the kernel has no sockets.
        if serve.no_kernel_tcp || serve.carrying.has_own_address() {
            return Ok((stack, None));
        }
        let address = stack.local_addr();
        match TcpListener::bind(address) {
            Ok(listener) => return Ok((stack, Some(listener))),
            Err(_) if serve.listen.is_some_and(|listen| listen.port() == 0) && tries < 16 => {
                tries += 1
            }
            Err(error) => {
                let message = format!(
                    "cannot listen on TCP {address}: {error}; --no-kernel-tcp does without"
                );
                return Err(Failure::new(Code::Failed, message).into());
            }
        }
    }
}

/// What SIGHUP reads again.
struct Reload {
    path: Option<PathBuf>,
    allow: Allow,
    own: Fingerprint,
    quiet: bool,
}

impl Reload {
    fn of(serve: &Serve, config: &ServerConfig) -> Reload {
        let own = config.settings.identity.fingerprint();
        Reload { path: serve.allow.clone(), allow: config.allow.clone(), own, quiet: serve.quiet }
    }

    /// Reads the list again; who is no longer on it is served no more. What cannot be read changes nothing.
    fn run(&self, control: &Control) {
        let (Some(path), Allow::Changing(list)) = (&self.path, &self.allow) else {
            return self.say("nothing to read again: there is no --allow");
        };
        match options::allow_list(path, self.own) {
            Ok(new) => {
                let keys = keys(&new);
                let new = Arc::new(new);
                *list.write().unwrap_or_else(PoisonError::into_inner) = (*new).clone();
                control.readmit(move |key| new.contains(key));
                self.say(&format!("serving {keys} from now on"));
            }
            Err(error) => {
                let text = format!("{error}; who is served has not changed");
                let _ = writeln!(std::io::stderr(), "fusewire: {}", printable(&text));
            }
        }
    }

    fn say(&self, what: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr(), "{what}");
        }
    }
}

/// SIGHUP reads again who is served; the first of the others drains, the second resets what goes on, and ends.
fn heed_signals(
    control: &Arc<Control>,
    wake: impl Fn() + Send + 'static,
    reload: Reload,
) -> Result {
    let control = Arc::clone(control);
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                reload.run(&control);
                wake();
                continue;
            }
            if control.is_draining() {
                transfer::give_up(&control, &wake, signal);
            }
            reload.say("stopping; transfers that go on may end");
            control.drain();
            wake();
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_alone_is_no_address() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:9293"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::]:9300", "[::]:9300"),
            ("::1", "[::1]:9293"),
        ] {
            assert_eq!(listen_addr(text).unwrap().to_string(), expected);
        }
        for wrong in ["9300", "", "127.0.0.1:99999"] {
            assert!(listen_addr(wrong).is_err(), "{wrong}");
        }
        assert!(listen_addr("9300").unwrap_err().contains("127.0.0.1:9300"));
    }
}
