//! `fusewire outboard`.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fusewire_outboard::server::{
    Allow, Budget, Confined, Processors, Server, Settings, Stop, default_path,
};
use fusewire_stack::ip;
use fusewire_stack::on_interface::{self, Carrier, Name};
use fusewire_view::place;
use listenfd::ListenFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use sd_notify::NotifyState;
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::device::{OwnAddresses, failed};
use crate::output::{Code, Failure, LOCAL_EXIT_CODES, Result, json, printable};

/// Which interface, and who may use it.
#[derive(Args)]
#[command(after_help = LOCAL_EXIT_CODES)]
pub struct Outboard {
    /// The network interface: xdp:INTERFACE[/QUEUE], packet:INTERFACE, tap:NAME, or auto:INTERFACE for the better of the
    /// first two.
    #[arg(long, value_name = "DEVICE")]
    device: Name,
    #[command(flatten)]
    own: OwnAddresses,
    /// Where applications find it [default: fusewire-outboard.sock in the folder that XDG_RUNTIME_DIR names, or else
    /// /run/fusewire-outboard.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// A user, by number, who may use it besides you and root, with the ports that he may bind to [default: 1024-65535]
    /// and his addresses [default: all]; root has all.
    #[arg(long = "allow", value_name = "UID[:PORTS][@ADDRESSES]")]
    allow: Vec<Allow>,
    /// With --address, 127.0.0.0/8, ::1 and the addresses themselves lead from its sockets to its sockets, without the
    /// interface; otherwise nothing of it goes there.
    #[arg(long, requires = "addresses")]
    loopback: bool,
    /// Most sockets that a user may have.
    #[arg(long, value_name = "COUNT", default_value_t = Budget::default().sockets,
        value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    sockets_max: usize,
    /// Most MiB of a user's data that wait: sent and not acknowledged, received and not read. When he has them his writers wait,
    /// and his connections' windows close.
    #[arg(long, value_name = "MIB", default_value_t = Budget::default().bytes >> 20)]
    memory_max: u64,
    /// Most segments and datagrams a second that a user's sockets send, whatever their length [default: as many as there is room for].
    #[arg(long, value_name = "COUNT")]
    packets_max: Option<u64>,
    /// The processor that the thread which does all other work stays on [default: any].
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
    /// A thread of its own sends, on this processor, what the first has made ready: see docs/outboard.md for when it pays.
    #[arg(long, value_name = "CPU")]
    transmit_cpu: Option<usize>,
    /// A thread of its own receives, on this processor, and sums what it receives: see there, too.
    #[arg(long, value_name = "CPU")]
    receive_cpu: Option<usize>,
    /// Microseconds that it looks without sleeping after there was work.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50)]
    spin: u64,
    /// Keep all rights of who starts it, for debugging: by default it gives up what it does not need (docs/outboard.md).
    #[arg(long)]
    no_confinement: bool,
    /// End with this process, which started it.
    #[arg(long, hide = true, value_name = "PID")]
    with_parent: Option<u32>,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print where it is and its addresses as a line of JSON on standard output, when it is ready.
    #[arg(long)]
    json: bool,
}

/// Serves until a signal says to stop.
pub fn run(outboard: &Outboard) -> Result {
    // Before anything is made that an end has to take away.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    if let Some(parent) = outboard.with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::HUP))?;
        if std::os::unix::process::parent_id() != parent {
            return Err(Failure::new(Code::Failed, "who started it is gone").into());
        }
    }
    let name = &outboard.device;
    let own = outboard.own.list(name)?;
    let settings = on_interface::Settings { name: name.clone(), own, carrier: Carrier::Udp };
    let budget = Budget {
        sockets: outboard.sockets_max,
        bytes: outboard.memory_max.saturating_mul(1 << 20),
        packets: outboard.packets_max,
        ..Budget::default()
    };
    let config = ip::Config {
        max_sockets: budget.entries(),
        loopback: outboard.loopback,
        ..ip::Config::default()
    };
    let (stack, clock) = on_interface::stack(&settings, config)
        .map_err(|error| failed("cannot start", name, &error))?;
    let addresses: Vec<_> = stack.layer().addresses().map(|entry| entry.cidr.to_string()).collect();
    let notes = stack.capabilities().notes.join("; ");
    let (path, listener) = place_of(outboard)?;
    let settings = Settings {
        listener,
        allow: outboard.allow.clone(),
        budget,
        spin: Duration::from_micros(outboard.spin),
        ..Settings::at(&path)
    };
    let mut server = Server::new(stack, clock, settings).map_err(|error| {
        Failure::new(Code::Failed, format!("cannot listen at {}: {error}", path.display()))
    })?;
    let confined = (!outboard.no_confinement).then(|| confine(&server)).transpose()?;
    server
        .stay_on(Processors {
            first: outboard.cpu,
            transmit: outboard.transmit_cpu,
            receive: outboard.receive_cpu,
        })
        .map_err(|error| failed("cannot have its processors", name, &error))?;
    let _ = server.observe().inspect_err(|error| tracing::info!(%error, "not visible"));
    stop_on_signals(signals, server.stop())?;
    if outboard.json {
        json(&json!({
            "event": "ready",
            "device": name.to_string(),
            "addresses": addresses,
            "socket": path.to_string_lossy(),
            "confined": confined.is_some(),
        }))?;
    }
    if !outboard.quiet {
        let mut err = std::io::stderr().lock();
        writeln!(err, "outboard   {name} ({})", printable(&notes))?;
        writeln!(err, "addresses  {}", addresses.join(" "))?;
        writeln!(err, "socket     {}", printable(&path.to_string_lossy()))?;
        writeln!(err, "may        {}", rights(confined.as_ref()))?;
    }
    // A service manager that started it waits for this; where there is none it goes nowhere.
    let told = sd_notify::notify(&[NotifyState::Ready]);
    let _ = told.inspect_err(|error| tracing::warn!(%error, "nobody hears that it is ready"));
    let served = server.run();
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    served.map_err(|error| failed("the outboard has ended", name, &error).into())
}

/// Where its socket lies, and the socket itself if a service manager gives it (sd_listen_fds(3)).
fn place_of(outboard: &Outboard) -> Result<(PathBuf, Option<Arc<OwnedFd>>)> {
    let mut given = ListenFd::from_env();
    if given.len() == 0 {
        return Ok((outboard.socket.clone().unwrap_or_else(default_path), None));
    }
    let wrong = |what: String| Failure::new(Code::Usage, what);
    if given.len() > 1 || outboard.socket.is_some() {
        let what = "a socket by LISTEN_FDS is the only one: no second, and no --socket";
        return Err(wrong(what.into()).into());
    }
    let (family, kind) = (AddressFamily::UNIX.as_raw(), SocketType::SEQPACKET.as_raw());
    let listener: Option<OwnedFd> = given
        .take_custom(0, family.into(), kind as i32, "Unix socket of ListenSequentialPacket=")
        .map_err(|error| wrong(format!("LISTEN_FDS: {error}")))?;
    let listener = listener.ok_or_else(|| wrong("LISTEN_FDS: no socket".into()))?;
    let address = rustix::net::getsockname(&listener)
        .and_then(SocketAddrUnix::try_from)
        .map_err(|error| wrong(format!("LISTEN_FDS: {error}")))?;
    let path = address.path().map(|path| path.to_string_lossy().into_owned().into());
    Ok((path.unwrap_or_default(), Some(Arc::new(listener))))
}

/// The first SIGINT or SIGTERM ends it, the second at once. SIGHUP ends it however often it comes: the kernel says with each
/// thread of a parent that the parent has ended.
fn stop_on_signals(mut signals: Signals, stop: Stop) -> Result {
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut is_told = false;
        for signal in signals.forever() {
            if is_told && signal != SIGHUP {
                std::process::exit(128 + signal);
            }
            is_told |= signal != SIGHUP;
            stop.stop();
        }
    })?;
    Ok(())
}

/// Gives up what is not needed any more; the live view's folder is, so it is made before.
fn confine(server: &Server) -> Result<Confined> {
    if std::fs::read_dir("/proc/self/task")?.count() > 1 {
        let what = "cannot give up rights: there are threads already, which would keep them";
        return Err(Failure::new(Code::Failed, what).into());
    }
    let view = place::folder().and_then(|folder| place::own(&folder).map(|()| folder)).ok();
    let folders: Vec<_> = view.iter().map(PathBuf::as_path).collect();
    Ok(server.confine(&folders).map_err(|error| {
        let what = format!("cannot give up rights: {error} (--no-confinement keeps them)");
        Failure::new(Code::Failed, what)
    })?)
}

/// What an outboard may still do, in words.
fn rights(confined: Option<&Confined>) -> String {
    let Some(Confined { capabilities, has_landlock }) = confined else {
        return "whatever its user may (--no-confinement)".into();
    };
    let names: Vec<_> = capabilities.iter_names().map(|(name, _)| name).collect();
    let files = if *has_landlock { "only its own sockets' files" } else { "the files of its user" };
    let capabilities = if names.is_empty() { "no capability".into() } else { names.join(" ") };
    format!("{capabilities}, {files}, only listed system calls")
}
