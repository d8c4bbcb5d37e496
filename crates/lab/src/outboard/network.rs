//! What the measurements run over. Every namespace goes when the bench does.
//!
//! ```text
//!   near, the peer's kernel ── veth ── far      the kernel's sockets
//!   near                    ── wire ── far      inline
//!   near                    ── wire ── far      the outboard
//! ```
//! A wire is a veth, or a TAP of which near has the one end and Fusewire the other. On each near has two addresses: that
//! of its sockets, and one from which what comes goes back at once, before IP sees it: a peer that takes no processor.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;

use fusewire_stack::on_interface::{Kind, Name};

use super::task::Means;
use crate::namespace::Namespace;
use crate::{Error, Result};

/// The Ethernet address of the kernel's end of a TAP; that of its other end follows from it.
const TAP_MAC: [[u8; 6]; 2] = [[2, 0x46, 0x57, 0, 0, 1], [2, 0x46, 0x57, 0x80, 0, 1]];
/// Bits of a network.
pub const PREFIX: u8 = 24;

/// The namespaces, with all in them.
pub struct Network {
    /// The peer's kernel.
    near: Namespace,
    /// The application's.
    far: Namespace,
    kind: Kind,
    /// Why nothing goes back by itself, if so.
    pub no_echo: Option<String>,
}

/// Where the one end of a measurement sits.
pub struct End<'a> {
    /// In which namespace its processes run.
    pub namespace: &'a Namespace,
    /// Its address.
    pub address: IpAddr,
}

/// A wire, and who is on it.
pub struct Wire<'a> {
    /// The application.
    pub application: End<'a>,
    /// Its peer.
    pub peer: End<'a>,
    /// Near's address from which everything goes back.
    pub echo: IpAddr,
    /// The interface that is Fusewire's.
    pub device: Name,
}

fn address(network: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 78, network, host).into()
}

fn number(means: Means) -> u8 {
    match means {
        Means::Kernel => 0,
        Means::Inline => 1,
        Means::Outboard => 2,
    }
}

impl Network {
    /// Makes all of it, with interfaces of ours of this kind; the kernels' streams begin with that congestion control, or the
    /// machine's own.
    ///
    /// # Errors
    /// Not root, or what `ip` says.
    pub fn new(kind: Kind, congestion: Option<&str>) -> Result<Network> {
        let make = || -> Result<Namespace> {
            let namespace = Namespace::new()?;
            // Only what is measured goes over the wires.
            let _ = namespace.sysctl("ipv6/conf/all/disable_ipv6", "1");
            let _ = namespace.sysctl("ipv6/conf/default/disable_ipv6", "1");
            Ok(namespace)
        };
        let mut network = Network { near: make()?, far: make()?, kind, no_echo: None };
        for &means in Means::ALL {
            if let Err(why) = network.wire_up(means) {
                match why {
                    Error::Unsupported(why) if why.starts_with("nft") => {
                        network.no_echo = Some(why)
                    }
                    why => return Err(why),
                }
            }
        }
        if let Some(name) = congestion {
            network.near.begin_streams_with(name)?;
            network.far.begin_streams_with(name)?;
        }
        Ok(network)
    }

    fn is_tap(&self, means: Means) -> bool {
        self.kind == Kind::Tap && means != Means::Kernel
    }

    fn wire_up(&self, means: Means) -> Result<()> {
        let n = number(means);
        let (here, there) = (format!("fwnear{n}"), format!("fwfar{n}"));
        let macs = if self.is_tap(means) {
            let [kernels, ours] = TAP_MAC.map(text);
            self.near.tap(&here)?;
            self.near.ip(&format!("link set {here} address {kernels}"))?;
            [kernels, ours]
        } else {
            self.near.veth(&here, &self.far, &there)?;
            [text(self.near.mac(&here)?), text(self.far.mac(&there)?)]
        };
        for host in [1, 8] {
            self.near.ip(&format!("address add {}/{PREFIX} dev {here}", address(n, host)))?;
        }
        if means == Means::Kernel {
            self.far.ip(&format!("address add {}/{PREFIX} dev {there}", address(n, 3)))?;
        }
        self.echo(n, &here, macs)
    }

    /// What comes for the address that is nobody's goes back to who sent it; to the port that it came from, which is to
    /// be the same.
    fn echo(&self, n: u8, link: &str, [near, far]: [String; 2]) -> Result<()> {
        let (ours, echo) = (address(n, 3), address(n, 8));
        let rules = format!(
            "table netdev fusewire{n} {{\nchain echo {{\n\
             type filter hook ingress device \"{link}\" priority 0;\n\
             ip protocol udp ip daddr {echo} ip saddr set {echo} ip daddr set {ours} \
             ether saddr set {near} ether daddr set {far} fwd to \"{link}\"\n}}\n}}\n"
        );
        let failed = |why: &str| Error::Unsupported(format!("nft: {}", why.trim()));
        let mut command = self.near.command("nft");
        command.args(["-f", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(&e.to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(rules.as_bytes());
        }
        let output = child.wait_with_output().map_err(|e| failed(&e.to_string()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(failed(&String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// The wire of these means.
    pub fn wire(&self, means: Means) -> Wire<'_> {
        let n = number(means);
        let (namespace, interface) = match self.is_tap(means) {
            true => (&self.near, format!("fwnear{n}")),
            false => (&self.far, format!("fwfar{n}")),
        };
        Wire {
            application: End { namespace, address: address(n, 3) },
            peer: End { namespace: &self.near, address: address(n, 1) },
            echo: address(n, 8),
            device: Name { kind: self.kind, interface, queue: None },
        }
    }
}

fn text(mac: [u8; 6]) -> String {
    fusewire_wire::ethernet::Address(mac).to_string()
}
