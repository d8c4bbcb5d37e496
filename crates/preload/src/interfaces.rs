//! The outboard's interface and addresses, for programs that ask which ones there are.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use fusewire_outboard::client::Welcome;
use fusewire_outboard::protocol::{Family, Kind};
use rustix::net::netdevice;

use crate::library::library;
use crate::sockaddr::{self, Laid};
use crate::sys;

/// Bytes of an interface's name, with the zero byte behind it.
pub const NAME_LEN: usize = libc::IF_NAMESIZE;
/// The name of the interface if this process's network namespace does not have it.
const ELSEWHERE: &[u8] = b"fusewire0";

/// The outboard's interface as programs see it.
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name, with zeros behind it.
    pub name: [u8; NAME_LEN],
    /// The kernel knows it by this name too.
    pub is_here: bool,
    welcome: Welcome,
}

/// An address of the interface, as a program reads it.
#[derive(Clone, Copy)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// It with port 0 and its zone.
    pub laid: Laid,
    /// Its network's mask.
    pub mask: Laid,
    /// The address of all on its network, of IPv4.
    pub broadcast: Option<Laid>,
}

/// Returns the outboard's interface; `None`: no outboard runs, or rules leave all to the kernel.
pub fn interface() -> Option<Interface> {
    let library = library().filter(|library| !library.is_confined())?;
    if library.is_kernel(Kind::Stream) && library.is_kernel(Kind::Datagram) {
        return None;
    }
    // An address of IPv6 may have come since the process first asked.
    let welcome = library.client.welcome().ok()?;
    let index = welcome.interface;
    let any = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0).ok()?;
    let known = netdevice::index_to_name_inlined(&any, index);
    let mut name = [0; NAME_LEN];
    let found = known.as_ref().map_or(ELSEWHERE, |name| name.as_bytes());
    let len = found.len().min(NAME_LEN - 1);
    name[..len].copy_from_slice(&found[..len]);
    Some(Interface { index, name, is_here: known.is_ok(), welcome })
}

impl Interface {
    /// Its addresses; those of loopback are on the kernel's interface.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        let all = self.welcome.addresses().iter().filter(|(ip, _)| !ip.is_loopback());
        all.map(|(ip, prefix)| self.address(*ip, *prefix))
    }

    fn address(&self, ip: IpAddr, prefix: u8) -> Address {
        let prefix = u32::from(prefix);
        match ip {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
                let lay = |bits: u32| {
                    let ip = IpAddr::V4(bits.into());
                    sockaddr::emit(Family::V4, SocketAddr::new(ip, 0))
                };
                let broadcast = (prefix < 31).then(|| lay(v4.to_bits() | host));
                Address { ip, laid: lay(v4.to_bits()), mask: lay(!host), broadcast }
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(prefix).unwrap_or(0);
                let lay = |bits: u128, scope: u32| {
                    let address = SocketAddrV6::new(bits.into(), 0, 0, scope);
                    sockaddr::emit(Family::V6, address.into())
                };
                let scope = if v6.is_unicast_link_local() { self.index } else { 0 };
                let mask = lay(!host, 0);
                Address { ip, laid: lay(v6.to_bits(), scope), mask, broadcast: None }
            }
        }
    }
}
