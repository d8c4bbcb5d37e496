//! `fusewire receive`.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use fusewire_device::Device;
use fusewire_files::cast::{Catcher, Joiner, Mail, Tally, Wanted};
use fusewire_files::client::Totals;
use fusewire_files::client::get::{Destination, Existing, Options, Plan};
use fusewire_files::net::Client;
use fusewire_files::net::group::{self, Receiver};
use fusewire_files::{Hashing, RemotePath};
use fusewire_stack::group::{Heard, ReceiverConfig};

use crate::cast::{SESSIONS_PORT, group_addr, no_route};
use crate::connect::Connector;
use crate::output::{Code, EXIT_CODES, Failure, Result, printable, size};
use crate::report::{Reporter, Watch};
use crate::transfer::{self, Moving};
use crate::url::{Url, named_addrs, shown};

/// How often it is looked whether there is news.
const LOOK: Duration = Duration::from_millis(5);
/// How long another sender is listened for after one that is not trusted: each announces itself once a second.
const ANOTHER: Duration = Duration::from_secs(3);

/// What `--rate` bounds here: the group has the sender's.
const RATE: &str = "Most bytes a second of what is got over connections of its own when the group's end has come, for \
                    example 20M; how fast the group goes the sender says";

/// Which group to listen to, and where to put what is cast.
#[derive(Args)]
#[command(after_help = EXIT_CODES, mut_arg("rate", |arg| arg.help(RATE)))]
pub struct Receive {
    /// The group's address, for example 239.1.2.3 or [ff15::7]:9294 [default port: 9294].
    #[arg(value_parser = group_addr)]
    group: SocketAddr,
    /// The folder to put things into, under their own names; made if it is missing.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Of one sender alone: the one with its sessions at HOST:PORT, or at this port of whatever host, as it prints it at
    /// its start [default: the first one that is heard].
    #[arg(long, value_name = "[HOST]:PORT", value_parser = meant)]
    from: Option<Meant>,
    /// Give up when nothing is heard of the group for so many seconds [default: wait].
    #[arg(long, value_name = "SECONDS")]
    patience: Option<u64>,
    /// The network interface that leads to the group [default: the system's choice].
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Leave files alone that have the same size and time here, or are newer.
    #[arg(long, conflicts_with = "no_clobber")]
    update: bool,
    /// Never replace a file.
    #[arg(long)]
    no_clobber: bool,
    /// Files are on the disk before they have their name.
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    pub moving: Moving,
}

/// Which sender is meant, by where its sessions are.
#[derive(Clone, Debug)]
enum Meant {
    /// Whichever has them at this port.
    Port(u16),
    /// A name or an address, and a port.
    Host(String),
}

/// What a sender prints of itself is its port, where it listens at all addresses of its host.
fn meant(text: &str) -> std::result::Result<Meant, String> {
    let wrong = || "expected HOST:PORT, or :PORT".to_string();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    Ok(match host {
        "" | "0.0.0.0" | "[::]" => Meant::Port(port),
        _ => Meant::Host(text.to_string()),
    })
}

/// Receives it.
pub fn run(mut receive: Receive) -> Result {
    receive.moving.connect.is_of_cast = true;
    let over_ip = receive.over_ip()?;
    let receive = &receive;
    let moving = &receive.moving;
    if moving.hash != Hashing::Both {
        let text = "--hash: what a group is sent is always compared with its hashes";
        return Err(Failure::new(Code::Usage, text).into());
    }
    moving.connect.common.check_group()?;
    let wanted = Wanted {
        filter: moving.filter()?,
        existing: match (receive.update, receive.no_clobber) {
            (true, _) => Existing::KeepSame,
            (_, true) => Existing::Refuse,
            _ => Existing::Replace,
        },
        sync: receive.sync,
    };
    let stop = transfer::stop_flag()?;
    let mut receiver = receive.open(over_ip)?;
    let Found { heard, url, mut connector, link } = receive.find(&mut receiver, &stop)?;
    std::fs::create_dir_all(&receive.output).map_err(|error| {
        Failure::new(Code::Failed, format!("cannot make {}: {error}", receive.output.display()))
    })?;
    let reporter = Reporter::new(moving.voice(), &url);
    let mail = Arc::new(Mail::default());
    // 63 bits that nobody foretells, and not zero.
    let group_key = u64::from_be_bytes(fusewire_device::random()?) >> 1 | 1;
    let session = Session::begin(link, &mail, (group_key, receive.place()?))?;
    let teller = reporter.clone();
    let part = Part { receive, receiver, heard, group_key, wanted, reporter, stop: &stop };
    let (tally, done) = part.run(&mail, &mut connector);
    if tally.is_some() && mail.is_closed() {
        teller.note("the session had ended: the sender does not know what is here");
    }
    session.end(tally, &mail);
    done
}

/// A sender, and a session with it.
struct Found<'a> {
    heard: Heard,
    url: Url,
    connector: Connector<'a>,
    link: Client,
}

/// The session in which this is a member, in a thread of its own.
struct Session {
    thread: thread::JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Session {
    fn begin(mut link: Client, mail: &Arc<Mail>, keys: (u64, u64)) -> Result<Session> {
        let mut joiner = Joiner::new(mail, keys, link.element())?;
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new().name("session".into()).spawn(move || {
            let turn: fusewire_files::net::TurnFn<'_> =
                &mut |channel, scratch, now| joiner.turn(channel, scratch, now);
            if let Err(error) = link.run(&seen, turn) {
                tracing::info!(%error, "the session with the sender has ended");
            }
        })?;
        Ok(Session { thread, stop })
    }

    /// Tells the sender what has come, if that is known; otherwise it sees that the session has ended.
    fn end(self, tally: Option<Tally>, mail: &Mail) {
        match tally {
            Some(tally) => mail.report(tally),
            None => self.stop.store(true, Ordering::Relaxed),
        }
        let _ = self.thread.join();
    }
}

impl Receive {
    /// What carries the group where its packets are IP's own; what is left carries sessions.
    fn over_ip(&mut self) -> Result<Option<Box<dyn Device>>> {
        let group = self.group.ip();
        let Some(mut device) = self.moving.connect.carrying.take_group(None, group)? else {
            return Ok(None);
        };
        if self.interface.is_some() {
            let what = "--carrier ip: --device says which interface leads to the group: without --interface";
            return Err(Failure::new(Code::Usage, what).into());
        }
        device.join(group).map_err(|error| self.deaf(&error, ""))?;
        Ok(Some(Box::new(device)))
    }

    fn deaf(&self, error: &dyn std::error::Error, how: &str) -> Failure {
        Failure::new(Code::Failed, format!("cannot listen to {}: {error}{how}", self.group))
    }

    fn open(&self, over_ip: Option<Box<dyn Device>>) -> Result<Receiver> {
        let interface = self.interface.clone();
        let config = ReceiverConfig { interface, nocheck: true, ..ReceiverConfig::new(self.group) };
        let device = match over_ip {
            Some(device) => device,
            None => {
                Box::new(config.udp_device().map_err(|error| self.deaf(&error, no_route(&error)))?)
            }
        };
        let device = self.moving.connect.common.captured_group(device)?;
        let mut receiver = Receiver::over(device, &config);
        if let Err(error) = receiver.observe() {
            tracing::info!(%error, "not visible to fusewire ss");
        }
        Ok(receiver)
    }

    /// What the sender knows this receiver by when it comes again: the folder that things go to.
    fn place(&self) -> Result<u64> {
        let folder = std::fs::metadata(&self.output)?;
        Ok(folder.ino() ^ folder.dev().rotate_left(40))
    }

    /// The sender that is meant. Anyone can announce the group: where it is said who is trusted, who has another key is
    /// passed over, unless nobody else is heard.
    fn find(&self, receiver: &mut Receiver, stop: &AtomicBool) -> Result<Found<'_>> {
        let mut others = Vec::new();
        let mut refused: Option<Box<dyn std::error::Error>> = None;
        self.say_waiting();
        loop {
            let patience = match refused {
                None => self.patience.map(Duration::from_secs),
                Some(_) => Some(self.patience.map_or(ANOTHER, Duration::from_secs).max(ANOTHER)),
            };
            let Some(heard) = self.listen(receiver, stop, &others, patience)? else {
                let text = format!("nothing is heard of {}", self.group);
                return Err(match (stop.load(Ordering::Relaxed), refused) {
                    (true, _) => Failure::new(Code::Interrupted, "interrupted").into(),
                    (false, None) => Failure::new(Code::Connection, text).into(),
                    (false, Some(error)) => {
                        transfer::not_connected(&self.moving, &*error)?;
                        error
                    }
                });
            };
            let url = self.url(&heard)?;
            if matches!(self.from, Some(Meant::Host(_)))
                || !self.moving.connect.is_told_whom_to_trust()
            {
                let (connector, link) = transfer::connect(&self.moving, &url)?;
                return Ok(Found { heard, url, connector, link });
            }
            let connected = Connector::new(&self.moving.connect, &url)
                .and_then(|mut connector| connector.open().map(|link| (connector, link)));
            match connected {
                Ok((connector, link)) => return Ok(Found { heard, url, connector, link }),
                Err(error) if Failure::is(&*error, Code::Refused) => {
                    tracing::info!(%error, "another sender is looked for");
                    others.extend(heard.sessions());
                    refused.get_or_insert(error);
                }
                Err(error) => {
                    transfer::not_connected(&self.moving, &*error)?;
                    return Err(error);
                }
            }
        }
    }

    /// On a terminal it is seen that this is not stuck.
    fn say_waiting(&self) {
        if self.moving.shows() {
            let who = match &self.from {
                None => "a sender".to_string(),
                Some(Meant::Port(port)) => format!("a sender with sessions at port {port}"),
                Some(Meant::Host(host)) => format!("the sender at {host}"),
            };
            let group = self.group;
            eprintln!("fusewire: waiting for {} to cast to {group}", printable(&who));
        }
    }

    /// A sender of the group that is none of `others`, once it is heard.
    fn listen(
        &self,
        receiver: &mut Receiver,
        stop: &AtomicBool,
        others: &[SocketAddr],
        patience: Option<Duration>,
    ) -> Result<Option<Heard>> {
        let addresses: Vec<SocketAddr> = match &self.from {
            None | Some(Meant::Port(_)) => Vec::new(),
            Some(Meant::Host(host)) => {
                let found = named_addrs(host, SESSIONS_PORT);
                found.map_err(|error| Failure::new(Code::Connection, error))?
            }
        };
        let is_meant = |heard: &Heard| match (&self.from, heard.sessions()) {
            (_, None) => false,
            (Some(Meant::Host(_)), Some(sessions)) => addresses.contains(&sessions),
            (Some(Meant::Port(port)), Some(sessions)) if sessions.port() != *port => false,
            (_, Some(sessions)) => !others.contains(&sessions),
        };
        Ok(group::listen(receiver, patience, stop, &is_meant)?)
    }

    /// Where its sessions are to be had.
    fn url(&self, heard: &Heard) -> Result<Url> {
        let place = match (&self.from, heard.sessions()) {
            (Some(Meant::Host(from)), _) => from.clone(),
            (_, Some(sessions)) => shown(sessions),
            (_, None) => {
                return Err(Failure::new(Code::Connection, "the sender has no sessions").into());
            }
        };
        Ok(format!("fusewire://{place}/")
            .parse()
            .map_err(|e: String| Failure::new(Code::Usage, e))?)
    }
}

/// What there is to do it with.
struct Part<'a> {
    receive: &'a Receive,
    receiver: Receiver,
    heard: Heard,
    group_key: u64,
    wanted: Wanted,
    reporter: Reporter,
    stop: &'a Arc<AtomicBool>,
}

impl Part<'_> {
    /// Takes what the group is sent, then gets what is missing. What there is of it then, if all was looked at, be it that
    /// something has failed.
    fn run(self, mail: &Arc<Mail>, connector: &mut Connector<'_>) -> (Option<Tally>, Result) {
        let (watch, reporter) = (Watch::start(), self.reporter.clone());
        let (moving, stop) = (&self.receive.moving, self.stop);
        let (wanted, plan) = match self.caught(mail) {
            Ok(caught) => caught,
            Err(error) => return (None, Err(error)),
        };
        let teller = (&reporter, "received");
        let ended = connector.open().and_then(|link| {
            transfer::run_since(watch, &plan, (link, None), connector, moving, teller, stop)
        });
        let totals = plan.totals();
        // Of a listing that was broken off there may be no job left.
        let tally = (totals.all_found && plan.is_finished()).then(|| Tally {
            files: plan.told_here(),
            bytes: totals.bytes_done,
            failed: totals.failed,
            wanted: Some(wanted),
        });
        (tally, ended)
    }

    /// Takes what the group is sent: how many files were wanted, and what is to be got of them.
    fn caught(mut self, mail: &Arc<Mail>) -> Result<(u64, Arc<Plan>)> {
        let moving = &self.receive.moving;
        self.wait_until_told(mail)?;
        let options = Options {
            filter: self.wanted.filter.clone(),
            existing: self.wanted.existing,
            sync: self.wanted.sync,
            bytes_per_s: moving.rate.unwrap_or(0),
            reply_bytes: moving.reply_bytes,
            connections: moving.jobs,
            ..Options::default()
        };
        let (dir, stop) = (self.receive.output.clone(), Arc::clone(self.stop));
        let (reporter, wanted) = (self.reporter.clone(), self.wanted.clone());
        let mut catcher = Catcher::new(mail, &dir, wanted, Box::new(reporter.clone()))?;
        while !stop.load(Ordering::Relaxed) && !catcher.check_some() {}
        let data_pass = fusewire_session::DataPass::detect();
        let heard = (&self.heard, self.group_key);
        let totals = mail.totals();
        let mut show = |bytes: u64| reporter.progress(&Totals { bytes_done: bytes, ..totals });
        let caught =
            group::catch(self.receiver, heard, (&mut catcher, mail), data_pass, &stop, &mut show);
        match caught {
            Err(error) if mail.refusal().is_some() => {
                return Err(Failure::new(Code::Refused, error.to_string()).into());
            }
            Err(error) => reporter.note(&format!("{error}; getting the rest")),
            Ok(false) => {
                let text =
                    "interrupted; what has come is kept: run the same command again to go on";
                return Err(Failure::new(Code::Interrupted, text).into());
            }
            Ok(true) => {}
        }
        tracing::info!(group = %size(catcher.bytes_done()), "received");
        let here = catcher.into_here();
        let wanted = here.told.len() as u64;
        let options = Options { here: Some(Arc::new(here)), ..options };
        let to = dir.join("");
        let destination = Destination::from_path(&to, &RemotePath::default())?;
        let plan =
            Plan::new(RemotePath::default(), destination, options, Box::new(reporter.clone()));
        Ok((wanted, plan))
    }

    fn wait_until_told(&mut self, mail: &Mail) -> Result {
        while !mail.is_told() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Failure::new(Code::Interrupted, "interrupted").into());
            }
            if let Some(why) = mail.refusal() {
                return Err(Failure::new(Code::Refused, why).into());
            }
            if mail.is_closed() {
                let text = "the session with the sender ended before it had told what it casts";
                return Err(Failure::new(Code::Connection, text).into());
            }
            // What comes meanwhile is not for this one.
            self.receiver.drive(Some(LOOK))?;
        }
        Ok(())
    }
}
