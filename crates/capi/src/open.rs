//! A stack from words: which device, which addresses, which gateway; and the default one, from the environment.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewire_device::interface::{Interface, devices, flows::Flows, host, packet, tap, xdp};
use fusewire_stack::ip::net::{Cidr, Route};
use fusewire_stack::ip::{Host, HostConfig, Stack};

use crate::errno::{Errno, Result};

/// What a stack is made of, as its user says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `tap:NAME`, `packet:INTERFACE`, `xdp:INTERFACE`, `auto`, `auto:INTERFACE`.
    pub device: String,
    /// `ADDRESS/PREFIX`, `dhcp`, `slaac`, with commas between.
    pub addresses: String,
    /// Routers, with commas between.
    pub gateway: String,
    /// Largest IP packet; 0: what the interface says.
    pub mtu: u32,
}

/// A stack that runs.
pub struct Opened {
    pub host: Host,
    /// What TCP sockets are bound to: the stack knows of listeners and connections only.
    bound: Mutex<Vec<SocketAddr>>,
}

static DEFAULT: Mutex<Option<Arc<Opened>>> = Mutex::new(None);

thread_local! {
    static REASON: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Why opening a stack last failed on this thread, as a sentence.
pub fn reason() -> String {
    REASON.with_borrow(String::clone)
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Opens a stack; the first becomes the default.
///
/// # Errors
/// `EINVAL`, `EPERM`, `ENODEV`, `EADDRINUSE`, what the kernel says; [`reason`] says more.
pub fn open(settings: &Settings) -> Result<Arc<Opened>> {
    open_in(&mut default_slot(), settings)
}

fn open_in(default: &mut Option<Arc<Opened>>, settings: &Settings) -> Result<Arc<Opened>> {
    let opened = Opened::new(settings).map_err(|error| {
        REASON.set(error.to_string());
        Errno::from(error)
    })?;
    let opened = Arc::new(opened);
    default.get_or_insert_with(|| opened.clone());
    Ok(opened)
}

fn default_slot() -> MutexGuard<'static, Option<Arc<Opened>>> {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The default stack; opens it, if there is none, as the environment says.
///
/// # Errors
/// `ENETDOWN` when the environment says nothing; as [`open`].
pub fn default() -> Result<Arc<Opened>> {
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
            REASON.set("FUSEWIRE_MTU is not a number".into());
            Errno(libc::EINVAL)
        })?,
    };
    if settings.device.is_empty() {
        REASON.set("no stack: call fw_open, or set FUSEWIRE_DEVICE and FUSEWIRE_ADDRESS".into());
        return Err(Errno(libc::ENETDOWN));
    }
    open_in(&mut slot, &settings)
}

/// A stack is closed: it is no longer the default.
pub fn close(opened: &Arc<Opened>) {
    let mut slot = default_slot();
    if slot.as_ref().is_some_and(|default| Arc::ptr_eq(default, opened)) {
        *slot = None;
    }
}

/// What the words of [`Settings`] mean.
#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    addresses: Vec<Cidr>,
    dhcp: bool,
    slaac: bool,
    routes: Vec<Route>,
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
            _ => words.addresses.push(word.parse().map_err(|_| {
                invalid(format!("address {word:?} is not ADDRESS/PREFIX, dhcp or slaac"))
            })?),
        }
    }
    if words.addresses.is_empty() && !words.dhcp && !words.slaac {
        return Err(invalid("no address: one of ADDRESS/PREFIX, dhcp, slaac is needed".into()));
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
    let taken = host::Host::open()?.addrs()?;
    let ours = words.addresses.iter().map(Cidr::address);
    if let Some(both) = ours.clone().find(|ours| taken.iter().any(|addr| addr.addr == *ours)) {
        let what = format!("{both} is the kernel's: give an address that nobody has");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    }
    // The addresses to come are not known yet.
    let all = words.dhcp || words.slaac;
    Ok(if all { Flows::everything() } else { Flows::addrs(ours) })
}

fn interface(settings: &Settings, words: &Words) -> io::Result<Box<dyn Interface>> {
    let (device, name) = match settings.device.split_once(':') {
        Some((device, name)) => (device, Some(name).filter(|name| !name.is_empty())),
        None => (settings.device.as_str(), None),
    };
    let needed = || name.ok_or_else(|| invalid(format!("{device} needs a name: {device}:NAME")));
    let device = match device {
        "auto" => devices::choose(&devices::list()?, name)?.0,
        device => device,
    };
    let mtu = Some(settings.mtu as usize).filter(|mtu| *mtu > 0);
    Ok(match device {
        "tap" => {
            let mut config = tap::Config { mtu, ..tap::Config::default() };
            config.name = name.map_or(config.name, str::to_string);
            Box::new(tap::Tap::open(&config)?)
        }
        "packet" => {
            let flows = flows(words)?;
            let config = packet::Config { flows, ..packet::Config::new(needed()?) };
            Box::new(packet::Packet::open(&config)?)
        }
        "xdp" => {
            let flows = flows(words)?;
            Box::new(xdp::Xdp::open(&xdp::Config { flows, ..xdp::Config::new(needed()?) })?)
        }
        _ => {
            let what = format!(
                "device {:?} is not tap:NAME, packet:INTERFACE, xdp:INTERFACE or auto",
                settings.device
            );
            return Err(invalid(what));
        }
    })
}

impl Opened {
    fn new(settings: &Settings) -> io::Result<Opened> {
        let words = words(settings)?;
        let interface = interface(settings, &words)?;
        let mut net = Stack::net_config(&*interface);
        if settings.mtu > 0 {
            net.mtu = net.mtu.min(settings.mtu as usize);
        }
        net.addresses = words.addresses;
        net.routes = words.routes;
        (net.dhcp, net.slaac) = (words.dhcp, words.slaac);
        let host = Host::new(interface, net, HostConfig::default())?;
        Ok(Opened { host, bound: Mutex::default() })
    }

    fn bound(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an address for a TCP socket; port 0 asks for any.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EADDRNOTAVAIL`.
    pub fn reserve(&self, local: SocketAddr) -> Result<SocketAddr> {
        let is_own = self
            .host
            .with(|stack, _| local.ip().is_unspecified() || stack.layer().is_own(local.ip()))?;
        if !is_own {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let mut bound = self.bound();
        let is_free = |at: &SocketAddr| !bound.iter().any(|other| overlap(*other, *at));
        let found = if local.port() != 0 {
            Some(local).filter(is_free)
        } else {
            // Below the ports that connections are given, so that the two never meet.
            let begin = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), local);
            let places = (0..PORTS).map(|at| (begin % PORTS + at) % PORTS);
            let ports = places.map(|at| SocketAddr::new(local.ip(), FIRST_PORT + at as u16));
            ports.into_iter().find(is_free)
        };
        let found = found.ok_or(Errno(libc::EADDRINUSE))?;
        bound.push(found);
        Ok(found)
    }

    /// Gives back what [`Opened::reserve`] gave.
    pub fn release(&self, local: SocketAddr) {
        let mut bound = self.bound();
        if let Some(at) = bound.iter().position(|other| *other == local) {
            bound.swap_remove(at);
        }
    }
}

/// Ports for TCP sockets that are bound to none: 32768 to 49151.
const FIRST_PORT: u16 = 32768;
const PORTS: u64 = 16384;

/// Two sockets cannot both be bound so: an unspecified address is all of its family, IPv6's all of both.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let all = |at: SocketAddr, other: SocketAddr| {
        at.ip().is_unspecified() && (at.is_ipv6() || other.is_ipv4())
    };
    a.port() == b.port() && (a.ip() == b.ip() || all(a, b) || all(b, a))
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
        assert!(got.dhcp && !got.slaac);
        assert_eq!(got.routes.len(), 2);
        assert_eq!(got.routes[1].destination, "::/0".parse().unwrap());
        for (addresses, gateway) in
            [("", ""), ("10.0.0.2/33", ""), ("ten", ""), ("10.0.0.2/24", "router")]
        {
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

    #[test]
    fn bound_addresses_overlap_as_sockets_do() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(overlap(at("0.0.0.0:1"), at("10.0.0.1:1")));
        assert!(overlap(at("10.0.0.1:1"), at("[::]:1")));
        assert!(!overlap(at("0.0.0.0:1"), at("[fd00::1]:1")));
        assert!(!overlap(at("10.0.0.1:1"), at("10.0.0.2:1")));
        assert!(!overlap(at("0.0.0.0:1"), at("0.0.0.0:2")));
    }
}
