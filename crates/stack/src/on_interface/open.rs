//! From a user's words to a device: which interface, whose address, which port.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::str::FromStr;

use fusewire_device::interface::devices;
use fusewire_device::interface::flows::Flows;
use fusewire_device::interface::host::Host;
use fusewire_device::interface::{Interface, packet, tap, xdp};
use fusewire_device::random;
use fusewire_net::{Cidr, NoPath, Route};

use super::*;

/// How an interface is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET.
    Packet,
    /// A TAP.
    Tap,
    /// The better one of those that an interface offers.
    Auto,
}

impl Kind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Xdp => "xdp",
            Kind::Packet => "packet",
            Kind::Tap => "tap",
            Kind::Auto => "auto",
        }
    }
}

/// `xdp:INTERFACE`, `xdp:INTERFACE/QUEUE`, `packet:INTERFACE`, `tap:NAME`, `auto:INTERFACE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// How it is taken.
    pub kind: Kind,
    /// The interface's name.
    pub interface: String,
    /// This of its queues alone, from 0; otherwise all.
    pub queue: Option<u32>,
}

impl FromStr for Name {
    type Err = String;
    fn from_str(text: &str) -> Result<Name, String> {
        let kinds = [Kind::Xdp, Kind::Packet, Kind::Tap, Kind::Auto];
        let (kind, interface) = text.split_once(':').unwrap_or((text, ""));
        let kind = kinds.into_iter().find(|known| known.name() == kind);
        let wrong = || {
            format!(
                "expected xdp:INTERFACE[/QUEUE], packet:INTERFACE, tap:NAME or auto:INTERFACE, found {text:?}"
            )
        };
        let kind = kind.ok_or_else(wrong)?;
        let (interface, queue) = match kind {
            Kind::Xdp => xdp::name_and_queue(interface).map_err(|_| wrong())?,
            _ => (interface, None),
        };
        let fits = (1..16).contains(&interface.len())
            && interface.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':');
        if !fits {
            return Err(format!("{} needs the name of an interface: {0}:NAME", kind.name()));
        }
        Ok(Name { kind, interface: interface.into(), queue })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.interface)?;
        self.queue.map_or(Ok(()), |queue| write!(f, "/{queue}"))
    }
}

/// An address of our own, which the kernel does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The address, and which are its neighbours.
    pub address: Cidr,
    /// Where everybody else is reached.
    pub gateway: Option<IpAddr>,
}

/// What is around a TPDU on an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, as everywhere else: the peer may be on an ordinary socket.
    #[default]
    Udp,
    /// Nothing but IP: XTP has a protocol number there. One process has all of it on an address.
    Ip,
}

impl Carrier {
    /// Both.
    pub const ALL: [Carrier; 2] = [Carrier::Udp, Carrier::Ip];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Udp => "udp",
            Carrier::Ip => "ip",
        }
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(name: &str) -> Result<Carrier, String> {
        let found = Carrier::ALL.into_iter().find(|carrier| carrier.name() == name);
        found.ok_or_else(|| format!("expected udp or ip, found {name:?}"))
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which interface, and whose address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interface.
    pub name: Name,
    /// An address of our own for each IP version that is spoken; none: beside the kernel, on its address.
    pub own: Vec<Own>,
    /// What is around a TPDU.
    pub carrier: Carrier,
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Takes datagrams to `port` of an address of the interface: `address`, or the first one when that is `None` or
/// unspecified. Port 0 takes a free one. Without UDP all of XTP to the address is taken, whatever the port.
///
/// # Errors
/// `PermissionDenied` with what is missing, `AddrNotAvailable`, `AddrInUse`, `NotFound`, `Unsupported`,
/// `InvalidInput` for settings that make no sense, what the kernel says.
pub fn listen(settings: &Settings, address: Option<IpAddr>, port: u16) -> io::Result<OnInterface> {
    open(settings, port, |all| {
        let version = address.map(|address| address.is_ipv6());
        match address.filter(|address| !address.is_unspecified()) {
            Some(address) => all.iter().find(|cidr| cidr.address() == address).copied(),
            None => first(all, version),
        }
        .ok_or_else(|| {
            let which = address.map_or("none".into(), |address| format!("no {address}"));
            nowhere(settings, all, &which)
        })
    })
}

/// Sends to `remote`, from a free port of an address of the interface from which it can be reached.
///
/// # Errors
/// As [`listen`]; `NetworkUnreachable` when `remote` is not reached by this interface.
pub fn connect(settings: &Settings, remote: SocketAddr) -> io::Result<OnInterface> {
    let to = remote.ip();
    let mut device = open(settings, 0, |all| {
        let on_link = all.iter().filter(|c| c.contains(to)).max_by_key(|c| c.prefix_len());
        let chosen = kernels_choice(to).and_then(|a| all.iter().find(|c| c.address() == a));
        let found = on_link.or(chosen).copied().or_else(|| first(all, Some(to.is_ipv6())));
        found.ok_or_else(|| nowhere(settings, all, &format!("none to reach {to} from")))
    })?;
    let now = device.clock.now();
    let unreachable = match device.stack.route(now, to, Some(device.local.ip())) {
        Ok(_) | Err(NoPath::Resolving) => None,
        Err(NoPath::Own) => Some("it is this host's own".into()),
        Err(why) => Some(why.to_string()),
    };
    match unreachable {
        Some(why) => {
            let what = format!("no way to {to} over {}: {why}", settings.name.interface);
            Err(io::Error::new(io::ErrorKind::NetworkUnreachable, what))
        }
        None => Ok(device),
    }
}

fn nowhere(settings: &Settings, all: &[Cidr], which: &str) -> io::Error {
    let there: Vec<_> = all.iter().map(|cidr| cidr.address().to_string()).collect();
    let there = if there.is_empty() { "no address".into() } else { there.join(" ") };
    let what = format!("{} has {there}, {which}", settings.name.interface);
    io::Error::new(io::ErrorKind::AddrNotAvailable, what)
}

/// The first address of a version, or of IPv4 before IPv6, that can be reached from elsewhere.
fn first(all: &[Cidr], is_v6: Option<bool>) -> Option<Cidr> {
    let reaches = |cidr: &&Cidr| match cidr.address() {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    let fits = |cidr: &&Cidr| is_v6.is_none_or(|v6| cidr.address().is_ipv6() == v6);
    let mut fitting: Vec<_> = all.iter().filter(reaches).filter(fits).collect();
    fitting.sort_by_key(|cidr| cidr.address().is_ipv6());
    fitting.first().map(|cidr| **cidr)
}

/// The address that the kernel would send from. No packet leaves.
fn kernels_choice(to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any(to), 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    socket.local_addr().ok().map(|addr| addr.ip())
}

/// A stack on an interface with sockets of any kind: on all of the addresses of our own, or beside the kernel on its.
/// Its time is the clock's.
///
/// # Errors
/// As [`listen`].
pub fn stack(settings: &Settings, config: ip::Config) -> io::Result<(ip::Stack, Clock)> {
    let (clock, opening) = (Clock::new(), Opening::of(settings)?);
    let stack = match &settings.own[..] {
        [] => opening.coexisting(config, &clock)?,
        own => {
            let all: Vec<Cidr> = own.iter().map(|own| own.address).collect();
            opening.alone(own, all, config, &clock)?
        }
    };
    Ok((stack, clock))
}

/// Opens the interface; `choose` picks one of its addresses.
fn open(
    settings: &Settings,
    port: u16,
    choose: impl FnOnce(&[Cidr]) -> io::Result<Cidr>,
) -> io::Result<OnInterface> {
    let (clock, mut opening) = (Clock::new(), Opening::of(settings)?);
    // There are none of what lies on IP itself.
    opening.super_frames = settings.carrier == Carrier::Udp;
    let (stack, address) = if settings.own.is_empty() {
        let stack = opening.coexisting(config(), &clock)?;
        let all: Vec<Cidr> = stack.layer().addresses().map(|entry| entry.cidr).collect();
        let address = choose(&all)?.address();
        (stack, address)
    } else {
        let all: Vec<Cidr> = settings.own.iter().map(|own| own.address).collect();
        let cidr = choose(&all)?;
        (opening.alone(&settings.own, vec![cidr], config(), &clock)?, cidr.address())
    };
    let local = SocketAddr::new(address, port);
    let (made, what) = match settings.carrier {
        Carrier::Udp => (OnInterface::new(stack, local, clock), format!("UDP port {port}")),
        Carrier::Ip => {
            let what = format!("XTP, protocol {} of IP, on {address}", xtp::NUMBER);
            (OnInterface::over_ip(stack, local, clock), what)
        }
    };
    made.map_err(|e| {
        let why = match e {
            ip::Error::InUse(_) if settings.carrier == Carrier::Ip => {
                "another process has it, and one has all of it".into()
            }
            e => e.to_string(),
        };
        io::Error::new(io::Error::from(e).kind(), format!("{what}: {why}"))
    })
}

/// An interface that is to be opened.
struct Opening<'a> {
    kind: Kind,
    name: &'a str,
    queue: Option<u32>,
    super_frames: bool,
}

impl Opening<'_> {
    fn of(settings: &Settings) -> io::Result<Opening<'_>> {
        let name = settings.name.interface.as_str();
        let kind = match settings.name.kind {
            Kind::Auto => match devices::choose(&devices::list()?, Some(name))?.0 {
                "xdp" => Kind::Xdp,
                _ => Kind::Packet,
            },
            kind => kind,
        };
        if settings.own.is_empty() && kind == Kind::Tap {
            return Err(invalid(format!(
                "tap:{name} needs an address of its own: --address ADDRESS/PREFIX"
            )));
        }
        Ok(Opening { kind, name, queue: settings.name.queue, super_frames: true })
    }

    /// On addresses of our own, once it is clear that nobody else has them.
    fn alone(
        &self,
        own: &[Own],
        all: Vec<Cidr>,
        config: ip::Config,
        clock: &Clock,
    ) -> io::Result<ip::Stack> {
        let taken = Host::open()?.addrs()?;
        let is_taken = |cidr: &&Cidr| taken.iter().any(|addr| addr.addr == cidr.address());
        if let Some(both) = all.iter().find(is_taken) {
            let what =
                format!("{} is the kernel's: give an address that nobody has", both.address());
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        let interface = self.take(Flows::addrs(all.iter().map(Cidr::address)))?;
        let mut net = ip::Stack::net_config(&*interface);
        net.addresses = all.clone();
        // Of a TAP we are one of two ends.
        net.duplicate_detection = self.kind != Kind::Tap;
        for gateway in own.iter().filter_map(|own| own.gateway) {
            let route = Cidr::new(any(gateway), 0);
            let route = route.map(|destination| Route { destination, gateway: Some(gateway) });
            net.routes.extend(route);
        }
        let mut stack = ip::Stack::new(interface, net, config, random()?, clock.now());
        /// Longer than RFC 4862 takes for it.
        const PATIENCE: Duration = Duration::from_secs(4);
        let end = clock.now() + PATIENCE;
        while let Some(cidr) = all.iter().find(|cidr| !stack.layer().is_own(cidr.address())) {
            let now = clock.now();
            if now >= end {
                let what = format!("another host answers for the address {}", cidr.address());
                return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
            }
            stack.poll(now)?;
            stack.wait(now, Some(end.saturating_since(now)), false)?;
        }
        Ok(stack)
    }

    /// On the kernel's address, which keeps all ports but ours.
    fn coexisting(&self, config: ip::Config, clock: &Clock) -> io::Result<ip::Stack> {
        let links = Host::open()?.links()?;
        if links.iter().all(|link| link.name != self.name) {
            let all: Vec<_> = links.into_iter().map(|link| link.name).collect();
            let what = format!("no interface {}, but {}", self.name, all.join(" "));
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let interface = self.take(Flows::default())?;
        ip::Stack::coexisting(interface, self.name, config, random()?, clock.now())
    }

    fn take(&self, flows: Flows) -> io::Result<Box<dyn Interface>> {
        let name = self.name;
        Ok(match self.kind {
            Kind::Xdp => xdp::open(&xdp::Config { flows, ..xdp::Config::new(name) }, self.queue)?,
            Kind::Packet | Kind::Auto => {
                let super_frames = self.super_frames;
                let config = packet::Config { flows, super_frames, ..packet::Config::new(name) };
                Box::new(packet::Packet::open(&config)?)
            }
            Kind::Tap => {
                let config = tap::Config { name: name.into(), ..tap::Config::default() };
                Box::new(tap::Tap::open(&config)?)
            }
        })
    }
}

/// A stack of one UDP socket that nothing waits in.
fn config() -> ip::Config {
    ip::Config { max_sockets: 1, udp_queue_bytes: 0, udp_queue_entries: 8, ..ip::Config::default() }
}

fn any(version: IpAddr) -> IpAddr {
    match version {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        let name: Name = "xdp:eth0".parse().unwrap();
        assert_eq!((name.kind, name.interface.as_str()), (Kind::Xdp, "eth0"));
        assert_eq!(name.to_string(), "xdp:eth0");
        let name: Name = "xdp:eth0/3".parse().unwrap();
        assert_eq!((name.interface.as_str(), name.queue), ("eth0", Some(3)));
        assert_eq!(name.to_string(), "xdp:eth0/3");
        for wrong in [
            "xdp",
            "xdp:eth0/",
            "xdp:eth0/x",
            "xdp:/1",
            "packet:eth0/1",
            "xdp:",
            "eth0",
            "udp:eth0",
            "tap:a/b",
            "tap:a b",
            "packet:0123456789abcdef",
        ] {
            assert!(wrong.parse::<Name>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_first_address_that_others_reach_is_taken() {
        let all: Vec<Cidr> =
            ["fe80::1/64", "fd00::1/64", "10.0.0.1/8"].iter().map(|c| c.parse().unwrap()).collect();
        assert_eq!(first(&all, None).unwrap().address(), all[2].address());
        assert_eq!(first(&all, Some(true)).unwrap().address(), all[1].address());
        assert_eq!(first(&all[..1], None), None);
    }
}
