//! `--device`: what carries the bytes of a transfer, and what `auto` takes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use fusewire_device::interface::devices::{self, Found};
use fusewire_device::sockets::{self, Entry};
use fusewire_device::{Device, udp};
use fusewire_outboard::server::default_path;
use fusewire_stack::ip::net::Cidr;
use fusewire_stack::on_interface::{self, Carrier, Kind, Name, OnInterface, Own, Settings};
use fusewire_transport::either::Protocol;
use rustix::io::Errno;

use crate::output::{Code, Failure, Result, printable};

/// What is taken unless told otherwise.
const DEFAULT: DeviceChoice = DeviceChoice::Socket(&sockets::ALL[0]);

/// What carries the bytes, and with which address.
#[derive(Args, Clone, Debug)]
pub struct Carrying {
    /// What carries the bytes: udp; io-uring, which is UDP through a ring of io_uring; kernel-tcp, for where UDP is
    /// blocked; shm, shared memory with a server on this host; auto, which is shm where the server offers it and the
    /// default elsewhere; or a network interface, past the kernel's UDP: xdp:INTERFACE, packet:INTERFACE, tap:NAME, or
    /// auto:INTERFACE for the better of the first two; xdp:INTERFACE/QUEUE leaves the other queues to other processes;
    /// outboard[:PATH], streams of the stack that `fusewire outboard` runs.
    /// A server takes udp, io-uring, auto, an interface or an outboard [default: udp; a client goes on over kernel-tcp where UDP is
    /// not answered].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    #[command(flatten)]
    own: OwnAddresses,
    /// On an interface, what is around each packet: udp, or ip for nothing but that, as protocol 36, which takes
    /// --transport xtp on both sides and all of XTP of the address. Of a cast it is what is around the group's packets: with
    /// ip on --device, and the sessions in UDP.
    #[arg(long, value_name = "udp|ip", default_value_t)]
    carrier: Carrier,
    /// Say what carries the bytes, and why.
    #[arg(short, long)]
    verbose: bool,
}

/// Whose addresses an interface is used with.
#[derive(Args, Clone, Debug)]
pub struct OwnAddresses {
    /// On an interface, an address of our own that no host has, of either IP version [default: the kernel's address, which
    /// keeps all other ports].
    #[arg(long = "address", value_name = "ADDRESS/PREFIX", value_parser = own_address)]
    addresses: Vec<OwnAddress>,
    /// With --address, the router to all who are not in its network.
    #[arg(long = "gateway", value_name = "ADDRESS", requires = "addresses")]
    gateways: Vec<IpAddr>,
}

/// An address that a host may have, its network, and its zone if that was named.
#[derive(Clone, Debug)]
struct OwnAddress {
    cidr: Cidr,
    zone: Option<String>,
}

/// Parses `ADDRESS/PREFIX`, with or without brackets and zone: `[fe80::9%eth0]/64`.
fn own_address(text: &str) -> std::result::Result<OwnAddress, String> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    let (bare, zone) = bare.split_once('%').map_or((bare, None), |(a, b)| (a, Some(b)));
    if zone.is_some() && !bare.contains(':') {
        return Err("an IPv4 address has no zone".into());
    }
    let plain = prefix.map_or(bare.to_string(), |prefix| format!("{bare}/{prefix}"));
    let own: Cidr = plain.parse().map_err(|error| format!("{error}"))?;
    let ip = own.address();
    let is_all = match (ip, own.prefix_len()) {
        (IpAddr::V4(ip), prefix @ 1..=30) => ip.to_bits() | u32::MAX >> prefix == ip.to_bits(),
        _ => ip == IpAddr::V4(Ipv4Addr::BROADCAST),
    };
    Err(match () {
        () if !text.contains('/') => {
            let most = if ip.is_ipv4() { "24" } else { "64" };
            format!("how long is the prefix of its network, as in {ip}/{most}?")
        }
        () if ip.is_unspecified() => "it is nobody's address".into(),
        () if ip.is_multicast() => "it is a group's address".into(),
        () if is_all => "it is the address of all of its network".into(),
        () => return Ok(OwnAddress { cidr: own, zone: zone.map(str::to_string) }),
    })
}

impl OwnAddresses {
    /// There is one.
    pub fn is_some(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Returns the addresses, each with its router, for use on the interface `name`.
    ///
    /// # Errors
    /// Two addresses of one IP version, an address with the zone of another interface, or a router without an address to
    /// reach it from.
    pub fn list(&self, name: &Name) -> Result<Vec<Own>> {
        let wrong = |what: String| Failure::new(Code::Usage, what);
        let mut own: Vec<Own> = Vec::new();
        for OwnAddress { cidr: address, zone } in &self.addresses {
            if let Some(zone) = zone.as_ref().filter(|zone| **zone != name.interface) {
                let device = &name.interface;
                let what =
                    format!("--address {address}: the zone is {zone}, the device is on {device}");
                return Err(wrong(what).into());
            }
            let version = address.address().is_ipv4();
            if own.iter().any(|other| other.address.address().is_ipv4() == version) {
                return Err(
                    wrong(format!("--address {address}: one address of an IP version")).into()
                );
            }
            own.push(Own { address: *address, gateway: None });
        }
        for gateway in &self.gateways {
            let reaches = |own: &&mut Own| own.address.contains(*gateway);
            let own = own.iter_mut().find(reaches).ok_or_else(|| {
                wrong(format!("--gateway {gateway} is in the network of no --address"))
            })?;
            own.gateway = Some(*gateway);
        }
        Ok(own)
    }
}

/// What carries the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Our own TCP in UDP datagrams, by one of the kernel's sockets.
    Socket(&'static Entry),
    /// The kernel's TCP, for where UDP is blocked.
    KernelTcp,
    /// Shared memory with a server on this host, agreed on over UDP.
    Shm,
    /// What pays: see [`auto`].
    Auto,
    /// UDP datagrams of our own on a network interface.
    Interface(Name),
    /// Streams of the outboard whose socket lies there.
    Outboard(PathBuf),
}

impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<DeviceChoice, String> {
        if let Some(socket) = sockets::find(text) {
            return Ok(DeviceChoice::Socket(socket));
        }
        Ok(match text {
            "kernel-tcp" => DeviceChoice::KernelTcp,
            "shm" => DeviceChoice::Shm,
            "auto" => DeviceChoice::Auto,
            "outboard" => DeviceChoice::Outboard(default_path()),
            _ if text.contains(':') => match text.strip_prefix("outboard:") {
                Some("") => DeviceChoice::Outboard(default_path()),
                Some(path) => DeviceChoice::Outboard(path.into()),
                None => DeviceChoice::Interface(text.parse()?),
            },
            _ => {
                let names: Vec<_> = sockets::ALL.iter().map(|socket| socket.name).collect();
                return Err(format!(
                    "expected {}, kernel-tcp, shm, auto, xdp:INTERFACE, packet:INTERFACE, tap:NAME, \
                     auto:INTERFACE or outboard:PATH (fusewire devices lists interfaces)",
                    names.join(", ")
                ));
            }
        })
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Socket(socket) => f.write_str(socket.name),
            DeviceChoice::KernelTcp => f.write_str("kernel-tcp"),
            DeviceChoice::Shm => f.write_str("shm"),
            DeviceChoice::Auto => f.write_str("auto"),
            DeviceChoice::Interface(name) => name.fmt(f),
            DeviceChoice::Outboard(path) => write!(f, "outboard:{}", path.display()),
        }
    }
}

impl Carrying {
    /// The interface's settings.
    ///
    /// # Errors
    /// As [`OwnAddresses::list`].
    fn settings(&self, name: &Name) -> Result<Settings> {
        Ok(Settings { name: name.clone(), own: self.own.list(name)?, carrier: self.carrier })
    }

    /// The device asked for, or else the default.
    pub fn device(&self) -> &DeviceChoice {
        self.device.as_ref().unwrap_or(&DEFAULT)
    }

    /// Where UDP is not answered, kernel TCP will do: nobody has asked for UDP alone.
    pub fn may_be_tcp(&self) -> bool {
        matches!(self.device, None | Some(DeviceChoice::Auto))
    }

    /// An address of our own was asked for: the kernel has no sockets there.
    pub fn has_own_address(&self) -> bool {
        !self.own.addresses.is_empty()
    }

    /// Options that mean nothing together.
    ///
    /// # Errors
    /// `--address` or `--carrier ip` without an interface, the latter with another transport than XTP.
    pub fn check(&self, transport: Protocol) -> Result {
        let on_interface = matches!(self.device(), DeviceChoice::Interface(_));
        if self.has_own_address() && !on_interface {
            let what = format!(
                "--address needs a --device such as packet:INTERFACE, not {}",
                self.device()
            );
            return Err(Failure::new(Code::Usage, what).into());
        }
        let what = match (self.carrier, on_interface, transport) {
            (Carrier::Udp, ..) | (Carrier::Ip, true, Protocol::Xtp) => return Ok(()),
            (Carrier::Ip, false, _) => {
                format!("needs a --device such as packet:INTERFACE, not {}", self.device())
            }
            (Carrier::Ip, true, other) => format!("needs --transport xtp, not {other}"),
        };
        Err(Failure::new(Code::Usage, format!("--carrier ip {what}")).into())
    }

    /// What carries a group's packets where they are IP's own, beside the kernel on its address: `local`, or one of
    /// `group`'s IP version. That has all of XTP of the address then, and what is left here is what carries sessions: the
    /// kernel's UDP. Nothing: the group is cast to in UDP, by the kernel's sockets.
    ///
    /// # Errors
    /// There is no interface, or an address of our own, where the kernel has no sockets; it cannot be opened; an outboard.
    pub fn take_group(
        &mut self,
        local: Option<IpAddr>,
        group: IpAddr,
    ) -> Result<Option<OnInterface>> {
        if let DeviceChoice::Outboard(_) = self.device() {
            return Err(self.has_streams_alone());
        }
        if self.carrier == Carrier::Udp {
            return Ok(None);
        }
        self.check(Protocol::Xtp)?;
        let name = match self.device() {
            DeviceChoice::Interface(name) if !self.has_own_address() && name.kind != Kind::Tap => {
                name
            }
            other => {
                let what = format!(
                    "--carrier ip: a group is cast to beside the kernel, whose UDP has the sessions, \
                     by packet:INTERFACE, xdp:INTERFACE or auto:INTERFACE without --address, not {other}"
                );
                return Err(Failure::new(Code::Usage, what).into());
            }
        };
        let any = unspecified((group, 0).into()).ip();
        let device = on_interface::listen(&self.settings(name)?, Some(local.unwrap_or(any)), 0)
            .map_err(|e| failed("cannot reach a group", name, &e))?;
        (self.device, self.carrier) = (None, Carrier::Udp);
        Ok(Some(device))
    }

    /// A URL may say at which port its server is.
    ///
    /// # Errors
    /// XTP on IP itself has none.
    pub fn check_port(&self) -> Result {
        match self.carrier {
            Carrier::Udp => Ok(()),
            Carrier::Ip => {
                let what = "the URL names a port, and XTP on IP itself (--carrier ip) has none: leave it out, or use --carrier udp";
                Err(Failure::new(Code::Usage, what).into())
            }
        }
    }

    /// Several connections at once are possible.
    ///
    /// # Errors
    /// They are not on this device.
    pub fn check_jobs(&self, jobs: u32) -> Result {
        if self.carrier == Carrier::Ip && jobs > 1 {
            let what = format!(
                "-j {jobs}: --carrier ip gives all of XTP of the address to one connection here; use -j 1, or --carrier udp"
            );
            return Err(Failure::new(Code::Usage, what).into());
        }
        if let DeviceChoice::Interface(Name { kind: kind @ (Kind::Xdp | Kind::Tap), .. }) =
            self.device()
            && jobs > 1
        {
            let what = format!(
                "-j {jobs}: {} gives what it has to one connection here; use -j 1, or packet:INTERFACE",
                kind.name()
            );
            return Err(Failure::new(Code::Usage, what).into());
        }
        Ok(())
    }

    /// The device of a server at `listen`, or where it listens unless told otherwise.
    ///
    /// # Errors
    /// The address cannot be bound, the interface not opened.
    pub fn listen(
        &self,
        listen: Option<SocketAddr>,
        otherwise: SocketAddr,
    ) -> Result<Box<dyn Device>> {
        match self.device() {
            DeviceChoice::Socket(socket) => bind(socket, listen.unwrap_or(otherwise)),
            DeviceChoice::Auto => bind(&sockets::ALL[0], listen.unwrap_or(otherwise)),
            DeviceChoice::Interface(name) => {
                let settings = self.settings(name)?;
                let address = listen.map(|listen| listen.ip());
                let port = listen.unwrap_or(otherwise).port();
                let device = on_interface::listen(&settings, address, port)
                    .map_err(|e| failed("cannot listen", name, &e))?;
                Ok(Box::new(device))
            }
            DeviceChoice::KernelTcp | DeviceChoice::Shm => {
                let what = format!(
                    "--device {}: clients choose it, and a server takes it anyway (--no-kernel-tcp and --no-shm do not)",
                    self.device()
                );
                Err(Failure::new(Code::Usage, what).into())
            }
            DeviceChoice::Outboard(_) => Err(self.has_streams_alone()),
        }
    }

    /// Who needs datagrams finds none there.
    fn has_streams_alone(&self) -> Box<dyn std::error::Error> {
        let what =
            format!("--device {}: serve, get, put and ls go by it, casts do not", self.device());
        Failure::new(Code::Usage, what).into()
    }

    /// The device of a client of `remote`.
    ///
    /// # Errors
    /// No port is free, the interface cannot be opened or does not lead there.
    pub fn connect(&self, remote: SocketAddr) -> Result<Box<dyn Device>> {
        let name = match self.device() {
            DeviceChoice::Interface(name) => name,
            DeviceChoice::Socket(socket) => return bind(socket, unspecified(remote)),
            DeviceChoice::Outboard(_) => return Err(self.has_streams_alone()),
            _ => return bind(&sockets::ALL[0], unspecified(remote)),
        };
        let device = on_interface::connect(&self.settings(name)?, remote)
            .map_err(|e| failed("cannot connect", name, &e))?;
        Ok(Box::new(device))
    }

    /// Somebody wants to know what carries the bytes.
    pub fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// With `--verbose`, tells what carries the bytes, and why.
    pub fn say(&self, carrier: &str, why: &[String]) {
        if self.verbose {
            let why = if why.is_empty() { "as asked for".into() } else { why.join("; ") };
            eprintln!("fusewire: {}", printable(&format!("over {carrier}: {why}")));
        }
    }
}

/// Why nothing came of an interface.
pub fn failed(what: &str, name: &Name, error: &std::io::Error) -> Failure {
    let code = match error.kind() {
        std::io::ErrorKind::NetworkUnreachable => Code::Connection,
        std::io::ErrorKind::InvalidInput => Code::Usage,
        _ => Code::Failed,
    };
    Failure::new(code, format!("{what} on {name}: {error}"))
}

fn bind(socket: &Entry, addr: SocketAddr) -> Result<Box<dyn Device>> {
    let failed = |e: std::io::Error| {
        let name = socket.name;
        let instead = match Errno::from_io_error(&e) {
            Some(Errno::AFNOSUPPORT) if addr.is_ipv6() => "; without IPv6, listen on 0.0.0.0",
            _ => "",
        };
        let text = format!("cannot listen on UDP {addr} by {name}: {e}{instead}");
        Failure::new(Code::Failed, text)
    };
    Ok(socket.bind(addr, &udp::Config::default()).map_err(failed)?)
}

/// Every address of this host, and any port.
fn unspecified(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => ([0u8; 4], 0).into(),
        SocketAddr::V6(_) => ([0u8; 16], 0).into(),
    }
}

/// An address of this host: one that a socket can be bound to.
pub fn is_here(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

/// Why `--device auto` takes UDP with a peer elsewhere, and what could be tried on the interface that leads there.
///
/// The rule: an interface is taken from the kernel only where that is known to gain over UDP with its offloads. What was
/// measured so far (`fusewire bench transfer --device xdp`, `--device packet`, `docs/devices.md`) gains nowhere by itself,
/// and a card that fills memory of ours has not been measured: so it is named, and not taken.
pub fn why_udp(all: &[Found], leads_there: impl Fn(&Found) -> bool) -> Vec<String> {
    let mut why = vec!["no shared memory with a peer elsewhere".to_string()];
    for found in all.iter().filter(|found| leads_there(found)) {
        let Some(link) = &found.link else { continue };
        let zero_copy = found.offers.iter().find(|o| o.device == "xdp" && o.zero_copy);
        why.push(match zero_copy {
            Some(offer) if offer.available => format!(
                "xdp:{0} would work without a copy, but is not known to gain here: try --device xdp:{0}",
                link.name
            ),
            Some(offer) => format!("xdp:{} would take {}", link.name, offer.missing.join("; ")),
            None => format!("{} fills no memory of ours: XDP would copy", link.name),
        });
    }
    why
}

/// What `auto` takes for a peer elsewhere, in words.
pub fn auto(remote: IpAddr) -> Vec<String> {
    let from = UdpSocket::bind(unspecified((remote, 0).into()))
        .and_then(|socket| socket.connect((remote, 9)).and_then(|()| socket.local_addr()));
    let Ok(from) = from.map(|addr| addr.ip()) else { return why_udp(&[], |_| false) };
    let all = devices::list().unwrap_or_default();
    why_udp(&all, |found| found.addrs.iter().any(|(addr, _)| *addr == from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_may_have_brackets_and_the_zone_of_their_device() {
        for text in ["fe80::9/64", "[fe80::9]/64", "fe80::9%eth0/64", "[fe80::9%eth0]/64"] {
            let own =
                OwnAddresses { addresses: vec![own_address(text).unwrap()], gateways: vec![] };
            let list = own.list(&"packet:eth0".parse().unwrap()).unwrap();
            assert_eq!(list[0].address.to_string(), "fe80::9/64", "{text}");
            let other = own.list(&"packet:eth1".parse().unwrap());
            assert_eq!(other.is_err(), text.contains('%'), "{text}");
        }
        for wrong in ["[fe80::9/64", "192.0.2.1%eth0/24", "[fe80::9%eth0]", "[fe80::9]:7/64"] {
            assert!(own_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn devices_are_chosen_by_word() {
        for word in [
            "udp",
            "io-uring",
            "kernel-tcp",
            "shm",
            "auto",
            "xdp:eth0",
            "packet:eth0",
            "tap:fw0",
            "auto:eth0",
            "outboard:/run/x.sock",
        ] {
            assert_eq!(word.parse::<DeviceChoice>().unwrap().to_string(), word);
        }
        for wrong in ["", "tcp", "xdp", "xdp:", "udp:eth0"] {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }
}
