//! What this host has to live on, what each device would give and why, and which one to take.
//!
//! Nothing is changed and no program is loaded to find out: some drivers lose their link over that. What
//! XDP would give is what the driver says of itself.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::CapabilitySet;

use super::features;
use super::host::{Host, HostLink};
use crate::kernel::Version;
use crate::sys::{bpf, ethtool};

/// What a device would give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Name as the user chooses it: `tap`, `packet`, `xdp`.
    pub device: &'static str,
    /// Everything it takes is there.
    pub available: bool,
    /// How it would work, in a few words.
    pub mode: &'static str,
    /// The card fills and empties our memory itself.
    pub zero_copy: bool,
    /// Checksums may be left to it.
    pub checksum: bool,
    /// TCP super-frames may be left to it.
    pub tcp_segmentation: bool,
    /// UDP super-frames may be left to it.
    pub udp_segmentation: bool,
    /// Super-frames come from it.
    pub receive_offload: bool,
    /// Queues that can be used apart from each other.
    pub queues: u32,
    /// Reasons for what it gives and does not give.
    pub why: Vec<String>,
    /// What is missing, with the command that grants it.
    pub missing: Vec<String>,
}

/// An interface, or a TAP that would be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the kernel says of it; `None` for what would be made.
    pub link: Option<HostLink>,
    /// Its driver.
    pub driver: String,
    /// The kernel's addresses on it.
    pub addrs: Vec<(IpAddr, u8)>,
    /// The kernel merges what it receives before we see it.
    pub merges: bool,
    /// What can be opened on it, the better one first.
    pub offers: Vec<Offer>,
}

/// Linux that has UDP super-frames in the virtio header.
const UDP_SEGMENTATION: Version = Version { major: 6, minor: 2 };
/// Linux that has XDP on a link that ends with its process.
const XDP: Version = Version { major: 5, minor: 9 };
/// Linux that puts a packet into several frames of AF_XDP.
const XDP_PIECES: Version = Version { major: 6, minor: 6 };

fn runs(version: Version) -> bool {
    Version::running().is_none_or(|running| running >= version)
}

/// The rights that this process has, found by trying what changes nothing.
#[derive(Clone, Copy, Debug)]
struct Rights {
    admin: bool,
    raw: bool,
    bpf: bool,
}

impl Rights {
    fn held() -> Rights {
        let effective = rustix::thread::capabilities(None).map(|sets| sets.effective);
        let has = |one| effective.is_ok_and(|all| all.contains(one));
        let raw = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
        Rights {
            admin: has(CapabilitySet::NET_ADMIN),
            raw: raw.is_ok(),
            // In a user namespace one has the capability and not the right.
            bpf: bpf::create_map(bpf::MAP_XSK, 4, 4, 1, 0).is_ok(),
        }
    }

    /// What is missing of these, with the command that grants it.
    fn missing(wanted: &[(bool, &str)]) -> Vec<String> {
        let missing: Vec<_> =
            wanted.iter().filter(|(held, _)| !held).map(|(_, name)| *name).collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let program = std::env::current_exe().unwrap_or_else(|_| "PROGRAM".into());
        let all: Vec<_> = wanted.iter().map(|(_, name)| *name).collect();
        let (names, program) = (missing.join(" and "), program.display());
        vec![format!(
            "{}: run as root, or once: setcap {}+ep {program}",
            names.to_uppercase(),
            all.join(",")
        )]
    }
}

/// All interfaces of this network namespace, and a TAP that would be made.
///
/// # Errors
/// What the kernel says.
pub fn list() -> io::Result<Vec<Found>> {
    let rights = Rights::held();
    let mut host = Host::open()?;
    let (links, addrs) = (host.links()?, host.addrs()?);
    let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut all = vec![Found {
        link: None,
        driver: "tun".into(),
        addrs: Vec::new(),
        merges: true,
        offers: vec![tap(rights)],
    }];
    for link in links {
        let driver = ethtool::driver(any.as_fd(), &link.name).unwrap_or_default();
        let merging = ethtool::Feature::Merging;
        let merges = ethtool::feature(any.as_fd(), &link.name, merging).unwrap_or(false);
        let queues = ethtool::queues(any.as_fd(), &link.name).unwrap_or(1);
        let on_link = addrs.iter().filter(|addr| addr.index == link.index);
        let addrs = on_link.map(|addr| (addr.addr, addr.prefix_len)).collect();
        let mut offers = vec![packet(&link, merges, rights), xdp(&link, &driver, queues, rights)];
        if offers[1].available && offers[1].zero_copy {
            offers.swap(0, 1);
        }
        all.push(Found { link: Some(link), driver, addrs, merges, offers });
    }
    Ok(all)
}

fn tap(rights: Rights) -> Offer {
    let mut missing = Rights::missing(&[(rights.admin, "cap_net_admin")]);
    if let Some(missing) = missing.first_mut() {
        *missing += "; or have one made: ip tuntap add dev NAME mode tap vnet_hdr user USER";
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        missing.push("/dev/net/tun is not there: modprobe tun".into());
    }
    let udp_segmentation = runs(UDP_SEGMENTATION);
    let mut why =
        vec!["super-frames and checksums are left undone between us and the kernel".into()];
    if !udp_segmentation {
        why.push(format!("UDP super-frames need Linux {UDP_SEGMENTATION}"));
    }
    Offer {
        device: "tap",
        available: missing.is_empty(),
        mode: "an interface of our own, to be routed or bridged",
        zero_copy: false,
        checksum: true,
        tcp_segmentation: true,
        udp_segmentation,
        receive_offload: true,
        queues: 256,
        why,
        missing,
    }
}

fn packet(link: &HostLink, merges: bool, rights: Rights) -> Offer {
    let mut missing = Rights::missing(&[(rights.raw, "cap_net_raw")]);
    let mut why =
        vec!["the kernel cuts super-frames, and makes checksums where the card does not".into()];
    if !merges {
        why.push(format!(
            "only super-frames of this host come whole: the kernel merges nothing on {0} (ethtool -K {0} \
             gro on)",
            link.name
        ));
    }
    if link.is_loopback {
        missing.push("loopback has no other end".into());
    } else if link.mac.is_none() {
        missing.push("it is no Ethernet".into());
    }
    Offer {
        device: "packet",
        available: missing.is_empty(),
        mode: "a filtered copy of what the kernel receives, in a ring",
        zero_copy: false,
        checksum: true,
        tcp_segmentation: true,
        udp_segmentation: runs(UDP_SEGMENTATION),
        receive_offload: true,
        queues: 256,
        why,
        missing,
    }
}

fn xdp(link: &HostLink, driver: &str, queues: u32, rights: Rights) -> Offer {
    let mut missing = Rights::missing(&[
        (rights.raw, "cap_net_raw"),
        (rights.admin, "cap_net_admin"),
        (rights.bpf, "cap_bpf"),
    ]);
    if link.is_loopback {
        missing.push("loopback has no other end".into());
    } else if link.mac.is_none() {
        missing.push("it is no Ethernet".into());
    }
    let most = if runs(XDP_PIECES) { super::xdp::MOST_MTU } else { super::xdp::OLD_MOST_MTU };
    if link.mtu > most {
        let name = &link.name;
        missing.push(format!("an MTU of at most {most}: ip link set {name} mtu {most}"));
    }
    if !runs(XDP) {
        missing.push(format!("Linux {XDP}"));
    }
    let mut why = Vec::new();
    let told = features::xdp(link.index);
    let (is_native, zero_copy) = match told {
        Ok(told) => (told.is_native, told.is_zero_copy),
        Err(_) => (NATIVE.contains(&driver), false),
    };
    let driver = if driver.is_empty() { "without a name" } else { driver };
    why.push(match (&told, is_native, zero_copy) {
        (Err(_), true, _) => {
            format!("the driver {driver} runs programs; the kernel does not say more")
        }
        (Err(_), false, _) => format!("nobody says that the driver {driver} runs programs"),
        (Ok(_), true, true) => format!("the driver {driver} fills memory of ours"),
        (Ok(_), true, false) => format!("the driver {driver} runs programs, and copies"),
        (Ok(_), false, _) => format!("the driver {driver} runs no programs: the kernel does"),
    });
    why.push("no super-frames".into());
    Offer {
        device: "xdp",
        available: missing.is_empty(),
        mode: match (is_native, zero_copy) {
            (true, true) => "native, zero-copy",
            (true, false) => "native, copied",
            _ => "generic, copied",
        },
        zero_copy,
        checksum: false,
        tcp_segmentation: false,
        udp_segmentation: false,
        receive_offload: false,
        queues,
        why,
        missing,
    }
}

/// Drivers known to run programs, for kernels that do not tell.
const NATIVE: [&str; 14] = [
    "veth",
    "virtio_net",
    "tun",
    "mlx4_en",
    "mlx5_core",
    "i40e",
    "ice",
    "ixgbe",
    "igb",
    "igc",
    "bnxt_en",
    "ena",
    "gve",
    "nfp",
];

/// The device that `--device auto` takes, and why. On an interface: XDP where the card fills our memory,
/// else AF_PACKET, whose super-frames carry several times what single copied frames do. Without one: a TAP.
///
/// # Errors
/// `NotFound`, when there is no such interface; `PermissionDenied`, with all that is missing.
pub fn choose(found: &[Found], interface: Option<&str>) -> io::Result<(&'static str, String)> {
    let name = |found: &Found| found.link.as_ref().map(|link| link.name.clone());
    let one = found.iter().find(|found| name(found).as_deref() == interface).ok_or_else(|| {
        let all: Vec<_> = found.iter().filter_map(name).collect();
        let what =
            format!("no interface {}, but {}", interface.unwrap_or("to be made"), all.join(" "));
        io::Error::new(io::ErrorKind::NotFound, what)
    })?;
    if let Some(offer) = one.offers.iter().find(|offer| offer.available) {
        let mut reason = offer.why.join("; ");
        for better in one.offers.iter().take_while(|other| other.device != offer.device) {
            reason += &format!("; {} would take {}", better.device, better.missing.join("; "));
        }
        return Ok((offer.device, reason));
    }
    let each = |offer: &Offer| format!("{}: {}", offer.device, offer.missing.join("; "));
    let missing: Vec<_> = one.offers.iter().map(each).collect();
    Err(io::Error::new(io::ErrorKind::PermissionDenied, missing.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: Option<&str>, offers: Vec<Offer>) -> Found {
        let link = name.map(|name| HostLink {
            index: 9,
            name: name.into(),
            mac: Some([2; 6]),
            mtu: 1500,
            is_running: true,
            is_loopback: false,
        });
        Found { link, driver: "d".into(), addrs: Vec::new(), merges: true, offers }
    }

    const ALL: Rights = Rights { admin: true, raw: true, bpf: true };
    const NONE: Rights = Rights { admin: false, raw: false, bpf: false };

    #[test]
    fn the_best_device_that_may_be_opened_is_chosen() {
        let link = found(Some("eth9"), Vec::new()).link.unwrap();
        let (packet, xdp) = (packet(&link, true, ALL), xdp(&link, "veth", 1, ALL));
        let copied = found(Some("eth9"), vec![packet.clone(), xdp.clone()]);
        let made = found(None, vec![tap(ALL)]);
        let all = [made, copied];
        assert_eq!(choose(&all, Some("eth9")).unwrap().0, "packet");
        assert_eq!(choose(&all, Some("eth8")).unwrap_err().kind(), io::ErrorKind::NotFound);
        if std::path::Path::new("/dev/net/tun").exists() {
            assert_eq!(choose(&all, None).unwrap().0, "tap");
        }
        let zero_copy = Offer { zero_copy: true, mode: "native, zero-copy", ..xdp };
        let fast = [found(Some("eth9"), vec![zero_copy, packet])];
        assert_eq!(choose(&fast, Some("eth9")).unwrap().0, "xdp");
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_grants_it() {
        let link = found(Some("eth9"), Vec::new()).link.unwrap();
        let offers = vec![packet(&link, true, NONE), xdp(&link, "veth", 1, NONE)];
        let error = choose(&[found(Some("eth9"), offers)], Some("eth9")).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(text.contains("setcap cap_net_raw+ep ") && text.contains("CAP_BPF"), "{text}");
        assert!(text.contains("setcap cap_net_raw,cap_net_admin,cap_bpf+ep "), "{text}");
        let jumbo = HostLink { mtu: 65_000, ..link };
        let missing = xdp(&jumbo, "veth", 1, ALL).missing.join(" ");
        assert!(missing.contains("ip link set eth9 mtu"), "{missing}");
    }

    #[test]
    fn this_host_has_loopback_and_nothing_lives_on_it() {
        let all = list().unwrap();
        let is_loopback = |found: &&Found| found.link.as_ref().is_some_and(|l| l.is_loopback);
        let loopback = all.iter().find(is_loopback).expect("loopback");
        assert!(loopback.offers.iter().all(|offer| !offer.available));
        assert!(all.iter().any(|found| found.link.is_none()));
    }
}
