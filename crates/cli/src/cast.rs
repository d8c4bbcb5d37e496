//! `fusewire cast`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;

use fusewire_device::{Device, Waker};
use fusewire_files::Error;
use fusewire_files::cast::{Board, MemberId, Standing, Tally};
use fusewire_files::client::put::Source;
use fusewire_files::message::Code as Cause;
use fusewire_files::net::group::{self, CastEnd, CastProgress, Sender, Start};
use fusewire_files::net::{Control, Server};
use fusewire_files::server::{Settings, Share};
use fusewire_session::{Allow, Identity, ServerConfig, paths};
use fusewire_stack::PORT as INNER_PORT;
use fusewire_stack::group::{Leaving, MemberInfo, SenderConfig};
use fusewire_transport::machine::KeepAlive;
use rustix::io::Errno;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::device::Carrying;
use crate::options::{self, Common};
use crate::output::{Code, EXIT_CODES, Failure, Result, count, json, printable, rate, size};
use crate::progress::Progress;
use crate::transfer;
use crate::url::{named_addr, numeric_addr};

/// The group's port, unless it is named.
pub const PORT: u16 = 9294;
/// Default UDP port of a sender's sessions. It is fixed because receivers remember a sender's key by address and port.
pub const SESSIONS_PORT: u16 = 9295;
/// A member that vanishes is noticed after so long.
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(3), interval: Duration::from_secs(1), probes: 9 };
/// How long a member may take for its handshake.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// How often the line with numbers changes.
const SAY_EVERY: Duration = Duration::from_millis(500);

/// What is cast, to which group, and who may have it.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Cast {
    /// Files and folders; nothing beside them can be had.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The group's address, for example 239.1.2.3 or [ff15::7]:9294 [default port: 9294].
    #[arg(value_parser = group_addr)]
    group: SocketAddr,
    /// Begin when so many receivers are there.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096))]
    wait: u64,
    /// Begin after so many seconds, with those who are there.
    #[arg(long, value_name = "SECONDS")]
    after: Option<u64>,
    /// The network interface that leads to the group [default: the system's choice].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Routers that packets to the group may pass, and one more.
    #[arg(long, value_name = "N", default_value_t = 1)]
    hops: u8,
    /// Most bytes a second to the group, for example 20M.
    #[arg(long, value_name = "BYTES/S", value_parser = options::rate)]
    rate: Option<u64>,
    /// A receiver that the others wait for and that takes less than so many bytes a second is left behind; it gets the
    /// rest by itself.
    #[arg(long, value_name = "BYTES/S", value_parser = options::rate, default_value = "64k")]
    floor: u64,
    /// The same of one that says nothing for so many milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    silence: u64,
    /// Listen here for the receivers' sessions; port 0 takes a free one [default: every address, and port 9295, or a free
    /// port if another program has that].
    #[arg(long, value_name = "ADDR", value_parser = sessions_addr)]
    listen: Option<SocketAddr>,
    /// Cast to the receivers whose fingerprints are in this file, one per line, and to your own key. Read the file again
    /// at SIGHUP: receivers that are no longer in it cannot open what is cast from then on [default: your own key only].
    #[arg(long, value_name = "FILE", conflicts_with = "public")]
    allow: Option<PathBuf>,
    /// Cast to everyone who asks.
    #[arg(long)]
    public: bool,
    #[command(flatten)]
    carrying: Carrying,
    #[command(flatten)]
    common: Common,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print lines of JSON: address and fingerprint first, each receiver's end, and a last one for all.
    #[arg(long)]
    json: bool,
}

/// `ADDRESS[:PORT]` of a group.
pub fn group_addr(text: &str) -> std::result::Result<SocketAddr, String> {
    match numeric_addr(text, PORT)? {
        addr if !addr.ip().is_multicast() => {
            Err("no group's address: those are 224.0.0.0 to 239.255.255.255, and ff00::/8".into())
        }
        addr if addr.port() == 0 => Err("a group needs a port".into()),
        addr => Ok(addr),
    }
}

/// Parses `ADDRESS[:PORT]` of the sender's sessions.
fn sessions_addr(text: &str) -> std::result::Result<SocketAddr, String> {
    named_addr(text, SESSIONS_PORT)
}

/// Explains how to reach a group when the kernel has no route to it.
pub fn no_route(error: &fusewire_stack::Error) -> &'static str {
    let fusewire_stack::Error::Os { source, .. } = error else { return "" };
    match Errno::from_io_error(source) {
        Some(Errno::NETUNREACH | Errno::NODEV | Errno::ADDRNOTAVAIL) => {
            "\nName the network interface with --interface NAME, or add a route to the group (ip route add)"
        }
        _ => "",
    }
}

/// The things to cast, by their own names. A folder named with a slash at its end is one by its name, too.
fn things(paths: &[PathBuf]) -> Result<Vec<(Vec<u8>, Source)>> {
    let mut things = Vec::new();
    for path in paths {
        let named = path.file_name().map(|name| name.as_bytes().to_vec());
        let name = named.or_else(|| {
            let whole = std::fs::canonicalize(path).ok()?;
            whole.file_name().map(|name| name.as_bytes().to_vec())
        });
        things.push((name.unwrap_or_default(), Source::from_path(path)?));
    }
    Ok(things)
}

/// Why they cannot be cast together, for who named them.
fn of_one_name(error: Error) -> Box<dyn std::error::Error> {
    match error {
        Error::Local { code: Cause::Exists, path } => {
            let name = String::from_utf8_lossy(&path);
            let text = format!(
                "more than one PATH is named {name}, and receivers have each under its own name"
            );
            Failure::new(Code::Usage, text).into()
        }
        error => error.into(),
    }
}

/// Casts it.
pub fn run(cast: &Cast) -> Result {
    let stop = Arc::new(AtomicBool::new(false));
    let cipher = cast.common.check_group()?;
    let share =
        Share::of_several(things(&cast.paths)?, Settings::default()).map_err(of_one_name)?;
    let config = cast.config()?;
    let board = Board::new(&share, cipher, fusewire_device::random()?)?;
    let mut carrying = cast.carrying.clone();
    let over_ip = cast.over_ip(&mut carrying)?;
    carrying.check(cast.common.transport())?;
    let device = cast.sessions(&carrying)?;
    let mut stack = cast.common.stack(device, KEEP_ALIVE, HANDSHAKE_WAIT)?;
    stack.listen(INNER_PORT, config.clone(), &options::secrets()?);
    let address = stack.local_addr();
    let sender = cast.sender(address.port(), over_ip)?;
    let (control, waker) = (Arc::new(Control::default()), stack.waker());
    cast.heed_reload(&config, &board, &control, &stack)?;
    heed_signals(&stop, &control, stack.waker())?;
    let fingerprint = config.settings.identity.fingerprint();
    cast.announce(&board, address, &fingerprint.to_string())?;
    let mut server = Server::new(stack, Arc::clone(&share));
    let served = Arc::clone(&control);
    let serving = std::thread::Builder::new().name("sessions".into()).spawn(move || {
        server.run(&served, Duration::from_millis(500)).map_err(|e| e.to_string())
    })?;
    let mut teller = Teller::new(cast, board.totals());
    let start = Start { members: cast.wait as usize, after: cast.after.map(Duration::from_secs) };
    let data_pass = config.settings.data_pass;
    let ended = group::cast(sender, (&share, &board), data_pass, start, &stop, &mut |told| {
        teller.tell(told);
    });
    control.drain();
    waker.wake();
    if let Ok(Err(error)) = serving.join() {
        tracing::warn!(%error, "sessions ended");
    }
    transfer::leave_it_to_the_signal(&control);
    teller.end(&ended)
}

/// The first Ctrl-C or SIGTERM ends the cast, the second resets the sessions, and ends the process.
fn heed_signals(stop: &Arc<AtomicBool>, control: &Arc<Control>, waker: Waker) -> Result {
    let (stop, control) = (Arc::clone(stop), Arc::clone(control));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("stopping".into()).spawn(move || {
        for signal in signals.forever() {
            if stop.swap(true, Ordering::Relaxed) {
                transfer::give_up(&control, || waker.wake(), signal);
            }
        }
    })?;
    Ok(())
}

impl Cast {
    fn config(&self) -> Result<ServerConfig> {
        let identity = Arc::new(Identity::load_or_create(&paths()?.identity)?);
        let allow = options::allow(self.allow.as_deref(), self.public, identity.fingerprint())?;
        let settings = self.common.settings(identity, &[])?;
        Ok(ServerConfig { settings, allow, shared_memory: None })
    }

    /// Any address that the group's receivers could reach.
    fn any(&self) -> SocketAddr {
        match self.group {
            SocketAddr::V4(_) => ([0, 0, 0, 0], SESSIONS_PORT).into(),
            SocketAddr::V6(_) => ([0u16; 8], SESSIONS_PORT).into(),
        }
    }

    /// Opens the device of the receivers' sessions. A second cast from this host takes a free port.
    fn sessions(&self, carrying: &Carrying) -> Result<Box<dyn Device>> {
        let any = self.any();
        let is_taken = || UdpSocket::bind(any).is_err_and(|e| e.kind() == ErrorKind::AddrInUse);
        if self.listen.is_some() || !is_taken() {
            return carrying.listen(self.listen, any);
        }
        if !self.quiet {
            let why = format!("port {SESSIONS_PORT} is in use: sessions have a free port");
            say(&format!("{why}, for which receivers must trust this sender's key once more"));
        }
        carrying.listen(None, SocketAddr::new(any.ip(), 0))
    }

    /// What carries the group where its packets are IP's own; `carrying` is left with what carries sessions.
    fn over_ip(&self, carrying: &mut Carrying) -> Result<Option<Box<dyn Device>>> {
        let local = self.listen.map(|listen| listen.ip());
        let Some(device) = carrying.take_group(local, self.group.ip())? else { return Ok(None) };
        if self.interface.is_some() || self.hops != 1 {
            let what = "--carrier ip: --device says which interface leads to the group, and routers pass nothing: without \
                        --interface and --hops";
            return Err(Failure::new(Code::Usage, what).into());
        }
        Ok(Some(Box::new(device)))
    }

    fn sender(&self, sessions: u16, over_ip: Option<Box<dyn Device>>) -> Result<Sender> {
        let bounded = |rate: u64| u32::try_from(rate).unwrap_or(u32::MAX);
        let config = SenderConfig {
            interface: self.interface.clone(),
            sessions,
            hops: self.hops,
            rate: self.rate.map(bounded),
            floor: bounded(self.floor),
            silence: Duration::from_millis(self.silence),
            // Records with tags.
            nocheck: true,
            ..SenderConfig::new(self.group)
        };
        let config = SenderConfig {
            // Who waits for more lets more in.
            members_max: config.members_max.max(self.wait as usize),
            packet_len: self.common.datagram_bytes().unwrap_or(config.packet_len),
            congestion: self.common.congestion().or(config.congestion),
            ..config
        };
        let in_udp = || Ok(Box::new(config.udp_device()?) as Box<dyn Device>);
        let device = over_ip.map_or_else(in_udp, Ok);
        let device = match device {
            Ok(device) => Ok(self.common.captured_group(device)?),
            Err(error) => Err(error),
        };
        let mut sender =
            device.and_then(|device| Sender::over(device, &config)).map_err(|error| {
                let text = format!("cannot send to {}: {error}{}", self.group, no_route(&error));
                Failure::new(Code::Failed, text)
            })?;
        if let Err(error) = sender.observe() {
            tracing::info!(%error, "not visible to fusewire ss");
        }
        Ok(sender)
    }

    fn announce(&self, board: &Board, address: SocketAddr, fingerprint: &str) -> Result {
        let (files, bytes) = board.totals();
        if self.json {
            return json(&json!({
                "event": "casting", "group": self.group.to_string(), "address": address.to_string(),
                "fingerprint": fingerprint, "files": files, "bytes": bytes,
            }));
        }
        if !self.quiet {
            let mut err = std::io::stderr().lock();
            writeln!(err, "casting      {}, {}", count(files, "file"), size(bytes))?;
            writeln!(err, "group        {}", self.group)?;
            // Where it is any address of this host no other host knows it by that.
            let host = (!address.ip().is_unspecified()).then(|| address.to_string());
            let sessions = host.unwrap_or_else(|| format!(":{}", address.port()));
            writeln!(err, "sessions     {sessions}")?;
            writeln!(err, "fingerprint  {fingerprint}")?;
        }
        Ok(())
    }

    /// SIGHUP reads again who may have it; who may not any more is not told the next secret.
    fn heed_reload(
        &self,
        config: &ServerConfig,
        board: &Arc<Board>,
        control: &Arc<Control>,
        stack: &fusewire_stack::Stack,
    ) -> Result {
        let (Some(path), Allow::Changing(list)) = (self.allow.clone(), config.allow.clone()) else {
            return Ok(());
        };
        let (board, control, waker) = (Arc::clone(board), Arc::clone(control), stack.waker());
        let own = config.settings.identity.fingerprint();
        let mut signals = signal_hook::iterator::Signals::new([SIGHUP])?;
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                match (options::allow_list(&path, own), fusewire_device::random()) {
                    (Ok(new), Ok(secret)) => {
                        let new = Arc::new(new);
                        *list.write().unwrap_or_else(PoisonError::into_inner) = (*new).clone();
                        board.readmit(&|key| new.contains(key), secret);
                        control.readmit(move |key| new.contains(key));
                        waker.wake();
                    }
                    (Err(error), _) => say(&format!("{error}; who may have it has not changed")),
                    (_, Err(error)) => say(&format!("{error}; who may have it has not changed")),
                }
            }
        })?;
        Ok(())
    }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "fusewire: {}", printable(text));
}

/// Tells how far the cast is, and how it ends.
struct Teller<'a> {
    cast: &'a Cast,
    files: u64,
    bytes: u64,
    progress: Progress,
    /// Since the group is sent something.
    begun: Option<Instant>,
    sent: Option<Duration>,
    bytes_sent: u64,
    bytes_holes: u64,
    said: Option<Instant>,
    members: Vec<Member>,
    told: BTreeMap<MemberId, &'static str>,
    failed: u64,
}

type Member = (MemberId, Standing, Option<MemberInfo>, Option<Leaving>);

/// What is known of a member, in a word. Where there are so many `files` it may want fewer.
fn word((_, standing, info, left): &Member, files: u64) -> &'static str {
    let wanted = |tally: Tally| tally.wanted.unwrap_or(files);
    match (standing.tally, standing.is_gone, info, left) {
        (Some(tally), ..) if tally.files >= wanted(tally) && tally.failed == 0 => "complete",
        (Some(_), ..) => "incomplete",
        (None, ..) if standing.is_removed => "removed",
        (None, true, ..) => "gone",
        (_, _, _, Some(Leaving::Slow)) => "left behind: too slow",
        (_, _, _, Some(Leaving::Silent)) => "left behind: silent",
        (_, _, Some(info), _) if info.is_done => "checking",
        (_, _, Some(_), _) => "receiving",
        _ => "joining",
    }
}

impl<'a> Teller<'a> {
    fn new(cast: &'a Cast, (files, bytes): (u64, u64)) -> Teller<'a> {
        Teller {
            cast,
            files,
            bytes,
            progress: Progress::new(),
            begun: None,
            sent: None,
            bytes_sent: 0,
            bytes_holes: 0,
            said: None,
            members: Vec::new(),
            told: BTreeMap::new(),
            failed: 0,
        }
    }

    fn tell(&mut self, told: &CastProgress) {
        if told.has_begun {
            self.begun.get_or_insert_with(Instant::now);
        }
        (self.bytes_sent, self.bytes_holes) = (told.bytes_sent, told.bytes_holes);
        // Who came again is one receiver, by its last session.
        let members = told.members.iter().filter(|(_, standing, ..)| !standing.is_replaced);
        self.members = members.cloned().collect();
        for failed in &told.failed {
            self.failed += 1;
            say(&format!("{}: {}", failed.0, failed.1));
        }
        let receiving = |m: &Member| matches!(word(m, self.files), "receiving");
        if told.has_begun && self.sent.is_none() && !self.members.iter().any(receiving) {
            self.sent = self.begun.map(|begun| begun.elapsed());
        }
        for member in &self.members {
            let word = word(member, self.files);
            if self.told.insert(member.0, word) == Some(word) || matches!(word, "joining") {
                continue;
            }
            self.tell_member(member, word);
        }
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            self.say_line();
        }
    }

    fn tell_member(&self, (_, standing, info, _): &Member, word: &str) {
        let (key, peer) = (&standing.key, &standing.peer);
        let tally = standing.tally.unwrap_or_default();
        if self.cast.json {
            let _ = json(&json!({
                "event": "member", "key": key.to_string(), "peer": &**peer, "state": word,
                "files": tally.files, "bytes": tally.bytes, "failed": tally.failed,
                "wanted": tally.wanted, "lost": info.map(|info| info.lost),
            }));
        } else if !self.cast.quiet {
            self.progress.clear();
            let (files, wanted) = (tally.files, tally.wanted.unwrap_or(self.files));
            let more = match (word, tally.failed) {
                ("incomplete", 0) => format!(": {files} of {}", count(wanted, "file")),
                ("incomplete", failed) => format!(": {failed} failed"),
                ("complete", _) if wanted < self.files => {
                    format!(": {} that it wanted", count(wanted, "file"))
                }
                _ => String::new(),
            };
            let _ = writeln!(std::io::stderr(), "{}  {key}  {word}{more}", printable(peer));
        }
    }

    /// Bytes a second, without those that cost nothing to send.
    fn per_s(&self, took: Duration) -> f64 {
        self.bytes_sent.saturating_sub(self.bytes_holes) as f64 / took.as_secs_f64().max(1e-9)
    }

    /// The whole, and in place on a terminal alone.
    fn say_line(&self) {
        if self.cast.quiet || self.cast.json || !self.progress.terminal {
            return;
        }
        let there = self.members.iter().filter(|(_, standing, ..)| !standing.is_gone).count();
        let line = match self.begun {
            None => format!("waiting: {there} of {}", count(self.cast.wait, "receiver")),
            Some(begun) => {
                let per_s = self.per_s(begun.elapsed());
                let (sent, all) = (size(self.bytes_sent), size(self.bytes));
                format!("{sent} of {all} {} to {}", rate(per_s), count(there as u64, "receiver"))
            }
        };
        self.progress.report(&line);
    }

    fn end(self, ended: &std::result::Result<CastEnd, Error>) -> Result {
        self.progress.clear();
        let took = self.sent.or(self.begun.map(|begun| begun.elapsed())).unwrap_or_default();
        let (seconds, per_s) = (took.as_secs_f64(), self.per_s(took));
        let count_of = |what| self.members.iter().filter(|m| word(m, self.files) == what).count();
        // Whose session ended first may have everything all the same, and could not say so.
        let (complete, gone) = (count_of("complete"), count_of("gone"));
        // Whoever casts has done that himself.
        let (removed, all) = (count_of("removed"), self.members.len());
        if self.cast.json {
            json(&json!({
                "event": "summary", "files": self.files, "bytes": self.bytes,
                "bytes_sent": self.bytes_sent, "bytes_holes": self.bytes_holes,
                "seconds": seconds, "bytes_per_s": per_s, "members": all, "complete": complete,
                "gone": gone, "removed": removed, "failed": self.failed,
                "interrupted": matches!(ended, Ok(CastEnd::Stopped)),
                "error": ended.as_ref().err().map(Error::to_string),
            }))?;
        } else if !self.cast.quiet {
            let sent = size(self.bytes_sent.saturating_sub(self.bytes_holes));
            let files = count(self.files, "file");
            let mut line = format!("cast {files}, {sent} in {seconds:.2} s, {}", rate(per_s));
            if self.bytes_holes > 0 {
                line += &format!("; {} are holes", size(self.bytes_holes));
            }
            line += &format!("; {complete} of {} complete", count(all as u64, "receiver"));
            if removed > 0 {
                line += &format!(", {removed} removed");
            }
            if gone > 0 {
                line += &format!(", of {gone} it is not known");
            }
            writeln!(std::io::stderr(), "{line}")?;
        }
        let fail = |code, text: &str| Err(Failure::new(code, text).into());
        match ended {
            Err(error) => fail(Code::Connection, &error.to_string()),
            Ok(CastEnd::Stopped) => {
                fail(Code::Interrupted, "interrupted; receivers keep what has come")
            }
            Ok(CastEnd::Nobody) => {
                fail(Code::Connection, "nobody was there when it was time to begin")
            }
            Ok(CastEnd::Complete) if complete + gone + removed < all => {
                fail(Code::Failed, "not every receiver has everything")
            }
            Ok(CastEnd::Complete) if gone > 0 => {
                fail(Code::Failed, "not every receiver has said that it has everything")
            }
            Ok(CastEnd::Complete) if self.failed > 0 => fail(Code::Failed, ""),
            Ok(CastEnd::Complete) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_an_address_of_one() {
        for (text, expected) in [
            ("239.1.2.3", "239.1.2.3:9294"),
            ("239.1.2.3:7", "239.1.2.3:7"),
            ("ff15::7", "[ff15::7]:9294"),
            ("[ff15::7]", "[ff15::7]:9294"),
            ("[ff15::7]:8", "[ff15::7]:8"),
        ] {
            assert_eq!(group_addr(text).unwrap().to_string(), expected);
        }
        for wrong in ["", "host", "10.0.0.1", "::1", "239.1.2.3:0", "239.1.2.3:99999"] {
            assert!(group_addr(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_cast_has_a_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let names = |path: &std::path::Path| things(&[path.to_path_buf()]).unwrap().remove(0).0;
        assert_eq!(names(&dir.path().join("folder/")), b"folder");
        assert_eq!(
            names(&dir.path().join("folder/..")),
            dir.path().file_name().unwrap().as_bytes()
        );
        assert!(things(&[dir.path().join("nothing")]).is_err());
    }
}
