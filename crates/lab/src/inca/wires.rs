//! What the measurements run over. Every namespace goes when the bench does.
//!
//! ```text
//!   near ── veth ── far           kernel to kernel
//!   near ── TAP ── (ours)         kernel to us
//!   near ── dummy                 what leaves here goes nowhere
//!   left ── veth ─┐   ┌─ veth ── right       kernel to kernel over a bridge
//!                 bridge
//!   (ours) ── TAP ┘   └─ TAP ── (ours)       us to us over the same bridge
//! ```

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::Result;
use crate::namespace::Namespace;

/// The Ethernet address of the kernel's end of the TAP.
pub const KERNEL_MAC: [u8; 6] = [2, 0x46, 0x57, 0, 0, 1];
/// The address that the raw device uses at its end.
pub const RAW_MAC: [u8; 6] = [2, 0x46, 0x57, 0x80, 0, 1];
/// The TAP between kernel and us.
pub const TAP: &str = "fwtap";
/// The TAPs at the bridge.
pub const BRIDGE_TAPS: [&str; 2] = ["fwleft", "fwright"];

/// An address in one of the networks below.
pub const fn host(network: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 77, network, host))
}

/// The kernel near, on the veth.
pub const NEAR: IpAddr = host(0, 1);
/// The kernel far, on the veth.
pub const FAR: IpAddr = host(0, 2);
/// Nobody on the veth: what is sent there reaches the far IP layer, which throws it away.
pub const NOBODY: IpAddr = host(0, 9);
/// The kernel near, on the TAP.
pub const TAP_KERNEL: IpAddr = host(1, 1);
/// We, on the TAP.
pub const TAP_OURS: IpAddr = host(1, 2);
/// Nobody on the dummy interface.
pub const NOWHERE: IpAddr = host(2, 9);
/// The kernel's two and our two at the bridge.
pub const BRIDGE_KERNEL: [IpAddr; 2] = [host(3, 1), host(3, 2)];
/// Nobody at the bridge: what is sent there reaches the IP layer on the right, which throws it away.
pub const BRIDGE_NOBODY: IpAddr = host(3, 9);
/// See [`BRIDGE_KERNEL`].
pub const BRIDGE_OURS: [IpAddr; 2] = [host(3, 3), host(3, 4)];

/// The namespaces, with all in them.
pub struct Wires {
    /// The peer's kernel.
    pub near: Namespace,
    /// The measured kernel.
    pub far: Namespace,
    /// Where the bridge is, and our TAPs.
    pub middle: Namespace,
    /// The kernel at one side of the bridge.
    pub left: Namespace,
    /// The kernel at its other side.
    pub right: Namespace,
}

impl Wires {
    /// Makes all of it.
    ///
    /// # Errors
    /// Not root, or what `ip` says.
    pub fn new() -> Result<Wires> {
        let make = || -> Result<Namespace> {
            let namespace = Namespace::new()?;
            // Only what is measured goes over the wires.
            let _ = namespace.sysctl("ipv6/conf/all/disable_ipv6", "1");
            let _ = namespace.sysctl("ipv6/conf/default/disable_ipv6", "1");
            Ok(namespace)
        };
        let wires =
            Wires { near: make()?, far: make()?, middle: make()?, left: make()?, right: make()? };
        wires.pair()?;
        wires.taps()?;
        wires.bridge()?;
        Ok(wires)
    }

    fn pair(&self) -> Result<()> {
        self.near.veth("fwnear", &self.far, "fwfar")?;
        self.near.ip(&format!("address add {NEAR}/24 dev fwnear"))?;
        self.far.ip(&format!("address add {FAR}/24 dev fwfar"))?;
        for (namespace, link) in [(&self.near, "fwnear"), (&self.far, "fwfar")] {
            neighbour(namespace, NOBODY, [2, 0, 0, 0, 0, 9], link)?;
            // Either throws away what it is given, and not every kernel has both.
            if namespace.ip("link add fwdummy type dummy").is_err() {
                namespace.ip("link add fwdummy type ifb")?;
            }
            namespace.ip("link set fwdummy up")?;
            namespace.ip(&format!("address add {}/24 dev fwdummy", host(2, 1)))?;
            neighbour(namespace, NOWHERE, [2, 0, 0, 0, 0, 9], "fwdummy")?;
        }
        Ok(())
    }

    fn taps(&self) -> Result<()> {
        self.near.tap(TAP)?;
        self.near.ip(&format!("link set {TAP} address {}", text(KERNEL_MAC)))?;
        self.near.ip(&format!("address add {TAP_KERNEL}/24 dev {TAP}"))?;
        neighbour(&self.near, TAP_OURS, RAW_MAC, TAP)
    }

    fn bridge(&self) -> Result<()> {
        self.middle.veth("fwl", &self.left, "fwkernel")?;
        self.middle.veth("fwr", &self.right, "fwkernel")?;
        for tap in BRIDGE_TAPS {
            self.middle.tap(tap)?;
        }
        self.middle.bridge("fwbridge", &["fwl", "fwr", BRIDGE_TAPS[0], BRIDGE_TAPS[1]])?;
        for (namespace, address) in [&self.left, &self.right].into_iter().zip(BRIDGE_KERNEL) {
            namespace.ip(&format!("address add {address}/24 dev fwkernel"))?;
        }
        neighbour(&self.left, BRIDGE_NOBODY, self.right.mac("fwkernel")?, "fwkernel")
    }
}

fn neighbour(namespace: &Namespace, ip: IpAddr, mac: [u8; 6], link: &str) -> Result<()> {
    let mac = text(mac);
    namespace.ip(&format!("neighbour replace {ip} lladdr {mac} dev {link} nud permanent"))
}

fn text(mac: [u8; 6]) -> String {
    fusewire_wire::ethernet::Address(mac).to_string()
}

/// An address with a port.
pub const fn at(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip, port)
}
