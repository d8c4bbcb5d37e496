//! A stack from words: which device, which addresses, which gateway; and the default one, from the environment.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fusewire_device::interface::{Interface, devices, flows::Flows, host, packet, tap, xdp};
use fusewire_outboard::client::Outboard;
use fusewire_outboard::server::default_path;
use fusewire_stack::ip::net::addresses::Origin;
use fusewire_stack::ip::net::{Cidr, Route};
use fusewire_stack::ip::posix::Bound;
use fusewire_stack::ip::{Host, HostConfig, Sharing, Stack};

use crate::errno::{Errno, Result};

/// What a stack is made of, as its user says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `tap:NAME`, `packet:INTERFACE`, `xdp:INTERFACE`, `auto`, `auto:INTERFACE`; `outboard`, `outboard:PATH`.
    pub device: String,
    /// `ADDRESS/PREFIX`, `dhcp`, `slaac`, `loopback`, with commas between; or `kernel` alone.
    pub addresses: String,
    /// Routers, with commas between.
    pub gateway: String,
    /// Largest IP packet; 0: what the interface says.
    pub mtu: u32,
}

/// Where the protocol work of sockets is done.
#[derive(Clone)]
pub enum Side {
    Inline(Arc<Opened>),
    Outboard(Arc<Outboard>),
}

impl Side {
    fn is(&self, other: &Side) -> bool {
        match (self, other) {
            (Side::Inline(one), Side::Inline(other)) => Arc::ptr_eq(one, other),
            (Side::Outboard(one), Side::Outboard(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A stack that runs in this process.
pub struct Opened {
    pub host: Host,
    /// What TCP sockets are bound to.
    bound: Mutex<Bound>,
    _mac: Option<OwnMac>,
}

static DEFAULT: Mutex<Option<Side>> = Mutex::new(None);

/// Why something failed.
#[derive(Clone)]
enum Reason {
    Sentence(String),
    /// What the C library says of it.
    Number(Errno),
}

thread_local! {
    static REASON: RefCell<Option<Reason>> = const { RefCell::new(None) };
    /// Whether the call that runs has told its own.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Why the last call on this thread that failed did, as a sentence; empty where none has.
pub fn reason() -> String {
    REASON.with_borrow(|reason| match reason {
        None => String::new(),
        Some(Reason::Sentence(sentence)) => sentence.clone(),
        Some(Reason::Number(errno)) => io::Error::from(*errno).to_string(),
    })
}

/// Keeps that sentence.
pub fn tell(reason: String) {
    REASON.set(Some(Reason::Sentence(reason)));
    IS_TOLD.set(true);
}

/// Runs `call`. When it fails without a sentence of its own, its number is the reason, and not what an earlier call said.
pub fn reasoned<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    IS_TOLD.set(false);
    call().inspect_err(|errno| {
        if !IS_TOLD.get() {
            REASON.set(Some(Reason::Number(*errno)));
        }
    })
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Opens a stack; the first becomes the default.
///
/// # Errors
/// `EINVAL`, `EPERM`, `ENODEV`, `EADDRINUSE`, what the kernel says; [`reason`] says more.
pub fn open(settings: &Settings) -> Result<Side> {
    open_in(&mut default_slot(), settings)
}

fn open_in(default: &mut Option<Side>, settings: &Settings) -> Result<Side> {
    let opened = match path(settings).transpose() {
        Some(path) => path.and_then(|path| attach(&path)).map(Side::Outboard),
        None => Opened::new(settings).map(Arc::new).map(Side::Inline),
    };
    let side = opened.map_err(|error| {
        tell(error.to_string());
        Errno::from(error)
    })?;
    default.get_or_insert_with(|| side.clone());
    Ok(side)
}

/// Where an outboard's socket lies, if the device is one.
fn path(settings: &Settings) -> io::Result<Option<PathBuf>> {
    let (device, path) = settings.device.split_once(':').unwrap_or((&settings.device, ""));
    if device != "outboard" {
        return Ok(None);
    }
    if !settings.addresses.is_empty() || !settings.gateway.is_empty() || settings.mtu > 0 {
        let what = "an outboard has its own addresses, routers and MTU: leave them out";
        return Err(invalid(what.into()));
    }
    Ok(Some(if path.is_empty() { default_path() } else { path.into() }))
}

fn attach(path: &Path) -> io::Result<Arc<Outboard>> {
    Outboard::at(path).map_err(|error| {
        let why = match Errno::from(io::Error::from(error.kind())).0 {
            libc::ENETDOWN => "there is none".into(),
            libc::EPERM => "it is not for this user".into(),
            _ => error.to_string(),
        };
        io::Error::new(error.kind(), format!("outboard at {}: {why}", path.display()))
    })
}

fn default_slot() -> MutexGuard<'static, Option<Side>> {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The default stack; opens it, if there is none, as the environment says.
///
/// # Errors
/// `ENETDOWN` when the environment says nothing; as [`open`].
pub fn default() -> Result<Side> {
    let mut slot = default_slot();
    if let Some(opened) = &*slot {
        return Ok(opened.clone());
    }
    let word = |name: &str| std::env::var(name).unwrap_or_default();
    let mtu = word("FUSEWIRE_MTU");
    let mtu = if mtu.is_empty() { Ok(0) } else { mtu.parse() };
    let settings = Settings {
        device: word("FUSEWIRE_DEVICE"),
        addresses: word("FUSEWIRE_ADDRESS"),
        gateway: word("FUSEWIRE_GATEWAY"),
        mtu: mtu.map_err(|_| {
            tell("FUSEWIRE_MTU is not a number".into());
            Errno(libc::EINVAL)
        })?,
    };
    if settings.device.is_empty() {
        tell("no stack: call fw_open, or set FUSEWIRE_DEVICE and FUSEWIRE_ADDRESS".into());
        return Err(Errno(libc::ENETDOWN));
    }
    open_in(&mut slot, &settings)
}

/// A stack is closed: it is no longer the default.
pub fn close(side: &Side) {
    let mut slot = default_slot();
    if slot.as_ref().is_some_and(|default| default.is(side)) {
        *slot = None;
    }
}

/// What the words of [`Settings`] mean.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    addresses: Vec<Cidr>,
    dhcp: bool,
    slaac: bool,
    /// What is for ourselves comes back.
    loopback: bool,
    /// Beside the kernel, on its own addresses.
    kernel: bool,
    routes: Vec<Route>,
}

impl Words {
    /// Addresses that are not known yet will be ours.
    fn asks(&self) -> bool {
        self.dhcp || self.slaac
    }
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty())
}

fn words(settings: &Settings) -> io::Result<Words> {
    let mut words = Words::default();
    for word in list(&settings.addresses) {
        match word {
            "dhcp" => words.dhcp = true,
            "slaac" => words.slaac = true,
            "loopback" => words.loopback = true,
            "kernel" => words.kernel = true,
            _ => words.addresses.push(word.parse().map_err(|_| {
                invalid(format!(
                    "address {word:?} is not ADDRESS/PREFIX, dhcp, slaac, loopback or kernel"
                ))
            })?),
        }
    }
    let others = !words.addresses.is_empty()
        || words.asks()
        || words.loopback
        || !settings.gateway.is_empty();
    if words.kernel && others {
        let what = "\"kernel\" stands alone: the kernel's addresses and routes are used";
        return Err(invalid(what.into()));
    }
    if !words.kernel && words.addresses.is_empty() && !words.asks() {
        let what = "no address: one of ADDRESS/PREFIX, dhcp, slaac, kernel is needed";
        return Err(invalid(what.into()));
    }
    for word in list(&settings.gateway) {
        let gateway: IpAddr =
            word.parse().map_err(|_| invalid(format!("gateway {word:?} is no address")))?;
        let any = match gateway {
            IpAddr::V4(_) => Cidr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            IpAddr::V6(_) => Cidr::new(Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        words.routes.extend(any.map(|destination| Route { destination, gateway: Some(gateway) }));
    }
    Ok(words)
}

/// What of an interface that the kernel uses too is ours.
fn flows(words: &Words) -> io::Result<Flows> {
    if words.kernel {
        // Ports follow with the sockets.
        return Ok(Flows::default());
    }
    let taken = host::Host::open()?.addrs()?;
    let ours = words.addresses.iter().map(Cidr::address);
    if let Some(both) = ours.clone().find(|ours| taken.iter().any(|addr| addr.addr == *ours)) {
        let what = format!(
            "{both} is the kernel's: give an address that nobody has, or \"kernel\" to live beside \
             it on its own"
        );
        return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    }
    Ok(if words.asks() { Flows::everything() } else { Flows::addrs(ours) })
}

/// A MAC address of our own on an interface: who asks for an address by the kernel's is given the kernel's.
/// It is the same each time, so that a server of addresses knows it again, and this process alone has it as long as
/// the socket lives.
struct OwnMac {
    mac: [u8; 6],
    _held: UnixDatagram,
}

/// MAC addresses of our own that an interface can have.
const OWN_MACS: u8 = 32;

impl OwnMac {
    fn of(name: &str) -> io::Result<OwnMac> {
        let link = host::Host::open()?.links()?.into_iter().find(|link| link.name == name);
        let Some(base) = link.and_then(|link| link.mac) else {
            let what = format!("no Ethernet interface {name}");
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        };
        for number in 1..=OWN_MACS {
            // Locally administered (IEEE 802, section 8.4), and not the interface's own.
            let [a, b, c, d, e, f] = base;
            let mac = [(a | 2) & !1, b, c, d ^ number, e, f ^ number];
            let text = mac.map(|byte| format!("{byte:02x}")).concat();
            let address = UnixAddr::from_abstract_name(format!("fusewire/station/{text}"))?;
            match UnixDatagram::bind_addr(&address) {
                Ok(held) => return Ok(OwnMac { mac, _held: held }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        let what = format!("{OWN_MACS} stacks on {name} ask for addresses already");
        Err(io::Error::new(io::ErrorKind::AddrInUse, what))
    }
}

/// An interface, its name where it is the kernel's too, and the MAC address that we have on it.
type Chosen = (Box<dyn Interface>, Option<String>, Option<OwnMac>);

fn interface(settings: &Settings, words: &Words) -> io::Result<Chosen> {
    let (device, name) = match settings.device.split_once(':') {
        Some((device, name)) => (device, Some(name).filter(|name| !name.is_empty())),
        None => (settings.device.as_str(), None),
    };
    let needed = || name.ok_or_else(|| invalid(format!("{device} needs a name: {device}:NAME")));
    let device = match (device, name) {
        // Others' packets pass by who waits for its address, and XDP takes them from the kernel.
        ("auto", Some(_)) if words.asks() => "packet",
        ("auto", name) => devices::choose(&devices::list()?, name)?.0,
        (device, _) => device,
    };
    let mtu = Some(settings.mtu as usize).filter(|mtu| *mtu > 0);
    let named = name.map(str::to_string);
    Ok(match device {
        "tap" if words.kernel => {
            let what = "a TAP is our own: \"kernel\" is for packet:, xdp: and auto:INTERFACE";
            return Err(invalid(what.into()));
        }
        "tap" => {
            let mut config = tap::Config { mtu, ..tap::Config::default() };
            config.name = name.map_or(config.name, str::to_string);
            (Box::new(tap::Tap::open(&config)?), None, None)
        }
        "packet" => {
            let name = needed()?;
            let flows = flows(words)?;
            let own_mac = words.asks().then(|| OwnMac::of(name)).transpose()?;
            let mac = own_mac.as_ref().map(|own| own.mac);
            let config = packet::Config { flows, mac, ..packet::Config::new(name) };
            (Box::new(packet::Packet::open(&config)?), named, own_mac)
        }
        "xdp" if words.asks() => {
            let what = "XDP takes chosen addresses: dhcp and slaac need tap: or packet:";
            return Err(invalid(what.into()));
        }
        "xdp" => {
            let (name, queue) = xdp::name_and_queue(needed()?).map_err(invalid)?;
            let config = xdp::Config { flows: flows(words)?, ..xdp::Config::new(name) };
            (xdp::open(&config, queue)?, Some(name.to_string()), None)
        }
        _ => {
            let what = format!(
                "device {:?} is not tap:NAME, packet:INTERFACE, xdp:INTERFACE, auto or outboard:PATH",
                settings.device
            );
            return Err(invalid(what));
        }
    })
}

/// How long a server of addresses is waited for, and how long a router, which need not be there.
const SERVER_WAIT: Duration = Duration::from_secs(20);
const ROUTER_WAIT: Duration = Duration::from_secs(5);

/// Waits for the addresses that were asked for.
fn await_address(host: &Host, dhcp: bool, slaac: bool) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        let (leased, advertised) = host.with(|stack, _| {
            let usable = |origin| {
                stack.layer().addresses().any(|entry| entry.is_usable() && entry.origin == origin)
            };
            (usable(Origin::Dhcp), usable(Origin::Slaac))
        })?;
        if (leased || !dhcp) && (advertised || !slaac || begin.elapsed() > ROUTER_WAIT) {
            return Ok(());
        }
        if begin.elapsed() > SERVER_WAIT {
            let what = format!("no DHCP server lent an address within {} s", SERVER_WAIT.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, what));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets other processes look at a stack, where the environment says so.
///
/// # Errors
/// As `observe`.
pub fn observe(observe: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let word = std::env::var_os("FUSEWIRE_OBSERVE").unwrap_or_default();
    if word.is_empty() || word == "0" { Ok(()) } else { observe() }
}

impl Opened {
    fn new(settings: &Settings) -> io::Result<Opened> {
        let words = words(settings)?;
        let (interface, name, mac) = interface(settings, &words)?;
        let bound = Mutex::default();
        if let Some(name) = name.filter(|_| words.kernel) {
            let host = Host::coexisting(interface, &name, HostConfig::default())?;
            observe(|| host.observe())?;
            return Ok(Opened { host, bound, _mac: mac });
        }
        let mut net = Stack::net_config(&*interface);
        if settings.mtu > 0 {
            net.mtu = net.mtu.min(settings.mtu as usize);
        }
        net.addresses = words.addresses;
        net.routes = words.routes;
        (net.dhcp, net.slaac) = (words.dhcp, words.slaac);
        net.loopback = words.loopback;
        let host = Host::new(interface, net, HostConfig::default())?;
        observe(|| host.observe())?;
        await_address(&host, words.dhcp, words.slaac)?;
        Ok(Opened { host, bound, _mac: mac })
    }

    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an address for a TCP socket, beside those that it shares it with; port 0 asks for any.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`.
    pub fn reserve(&self, local: SocketAddr, sharing: Sharing) -> Result<SocketAddr> {
        let mut bound = self.bound();
        Ok(self.host.with(|stack, _| bound.reserve(stack, local, sharing))??)
    }

    /// Gives back what [`Opened::reserve`] gave.
    pub fn release(&self, local: SocketAddr) {
        let mut bound = self.bound();
        // A stack whose interface is gone has none.
        let _ = self.host.with(|stack, _| bound.release(stack, local));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(addresses: &str, gateway: &str) -> Settings {
        let (addresses, gateway) = (addresses.into(), gateway.into());
        Settings { device: "tap:x".into(), addresses, gateway, mtu: 0 }
    }

    #[test]
    fn words_mean_addresses_and_routes() {
        let got = words(&settings("10.0.0.2/24, fd00::2/64 dhcp", "10.0.0.1,fd00::1")).unwrap();
        assert_eq!(got.addresses.len(), 2);
        assert!(got.dhcp && !got.slaac && !got.kernel);
        assert!(words(&settings("kernel", "")).unwrap().kernel);
        assert!(!got.loopback && words(&settings("10.0.0.2/24,loopback", "")).unwrap().loopback);
        assert_eq!(got.routes.len(), 2);
        assert_eq!(got.routes[1].destination, "::/0".parse().unwrap());
        for (addresses, gateway) in [
            ("", ""),
            ("10.0.0.2/33", ""),
            ("ten", ""),
            ("10.0.0.2/24", "router"),
            ("kernel,dhcp", ""),
            ("kernel,loopback", ""),
            ("loopback", ""),
            ("kernel", "10.0.0.1"),
        ] {
            let error = words(&settings(addresses, gateway)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{addresses:?} {gateway:?}");
        }
    }

    #[test]
    fn a_device_that_nobody_knows_is_refused_with_a_sentence() {
        for device in ["", "tape:x", "packet", "xdp:"] {
            let settings = Settings { device: device.into(), ..settings("192.0.2.77/24", "") };
            assert_eq!(open(&settings).err(), Some(Errno(libc::EINVAL)), "{device:?}");
            assert!(!reason().is_empty());
        }
    }
}
