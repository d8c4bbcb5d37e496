//! Sockets' place in words: which device, which addresses, which gateway.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use fusewire_device::interface::{Interface, devices, flows::Flows, host, packet, tap, xdp};
use fusewire_stack::ip::net::addresses::Origin;
use fusewire_stack::ip::net::{Cidr, Route};
use fusewire_stack::ip::{Host, HostConfig, Stack};

use crate::server::default_path;

/// Where sockets are to come from, as their user says it. As text: the device, then addresses and routers if they are needed,
/// with spaces between: `outboard:/run/fusewire.sock`, `tap:fw0 10.0.0.2/24,loopback 10.0.0.1`.
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

impl FromStr for Settings {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Settings> {
        let mut words = text.split_whitespace().map(str::to_string);
        let [device, addresses, gateway] = [(); 3].map(|()| words.next().unwrap_or_default());
        if device.is_empty() || words.next().is_some() {
            let what = format!("{text:?} is not DEVICE [ADDRESSES [ROUTERS]]");
            return Err(invalid(what));
        }
        Ok(Settings { device, addresses, gateway, mtu: 0 })
    }
}

impl Settings {
    /// What the environment says: `FUSEWIRE_DEVICE`, `FUSEWIRE_ADDRESS`, `FUSEWIRE_GATEWAY`, `FUSEWIRE_MTU`. The device is
    /// empty where it says nothing.
    ///
    /// # Errors
    /// The last is no number.
    pub fn from_env() -> io::Result<Settings> {
        let word = |name: &str| std::env::var(name).unwrap_or_default();
        let mtu = match word("FUSEWIRE_MTU").as_str() {
            "" => 0,
            mtu => mtu.parse().map_err(|_| invalid("FUSEWIRE_MTU is not a number".into()))?,
        };
        Ok(Settings {
            device: word("FUSEWIRE_DEVICE"),
            addresses: word("FUSEWIRE_ADDRESS"),
            gateway: word("FUSEWIRE_GATEWAY"),
            mtu,
        })
    }

    /// Where an outboard's socket lies, if the device is one.
    ///
    /// # Errors
    /// It is, and something is said besides that is not its user's to say.
    pub fn outboard(&self) -> io::Result<Option<PathBuf>> {
        let (device, path) = self.device.split_once(':').unwrap_or((&self.device, ""));
        if device != "outboard" {
            return Ok(None);
        }
        if !self.addresses.is_empty() || !self.gateway.is_empty() || self.mtu > 0 {
            let what = "an outboard has its own addresses, routers and MTU: leave them out";
            return Err(invalid(what.into()));
        }
        Ok(Some(if path.is_empty() { default_path() } else { path.into() }))
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// A host that runs in this process.
pub struct Inline {
    host: Host,
    _mac: Option<OwnMac>,
}

impl Inline {
    /// The host: what has no call for both.
    pub fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn open(settings: &Settings) -> io::Result<Inline> {
        let words = words(settings)?;
        let (interface, name, mac) = interface(settings, &words)?;
        if let Some(name) = name.filter(|_| words.kernel) {
            let host = Host::coexisting(interface, &name, HostConfig::default())?;
            observe(|| host.observe())?;
            return Ok(Inline { host, _mac: mac });
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
        Ok(Inline { host, _mac: mac })
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
    fn one_line_says_it_all() {
        let all: Settings = "tap:fw0 10.0.0.2/24,loopback 10.0.0.1".parse().unwrap();
        assert_eq!((all.device.as_str(), all.gateway.as_str()), ("tap:fw0", "10.0.0.1"));
        assert_eq!(all.addresses, "10.0.0.2/24,loopback");
        assert_eq!(all.outboard().unwrap(), None);
        let outboard = |text: &str| text.parse::<Settings>().unwrap().outboard();
        assert_eq!(outboard("outboard:/x/y").unwrap(), Some("/x/y".into()));
        assert_eq!(outboard("outboard").unwrap(), Some(default_path()));
        let refused = [outboard("outboard:/x 10.0.0.2/24").unwrap_err()]
            .into_iter()
            .chain(["", "tap:x a b c"].map(|text| text.parse::<Settings>().unwrap_err()));
        for error in refused {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
