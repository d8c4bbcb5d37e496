//! One stream to many hosts (`docs/xtp.md`, section 16): a sender and receivers over UDP to a group, each driven by the
//! thread that calls it. Over another device that reaches a group (`Sender::over`, `Receiver::over`) it is the same: as IP
//! protocol 36 on an interface, a receiver's device joins the group (`OnInterface::join`).
//!
//! What is sent at once is a message: the receiver gets it whole, in order. Nothing is encrypted here: who may read is
//! decided by what the application puts into its messages, and whom it accepts.

#[cfg(feature = "view")]
mod observe;
mod receiver;
mod sender;
mod turns;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use fusewire_device::{random, udp};
use fusewire_wire::xtp::{Address, Key};

use crate::{Error, Result};

pub use fusewire_transport::machine::Counters;
pub use fusewire_transport::xtp::group::{Leaving, MemberInfo};
pub use fusewire_wire::xtp::Reason;
pub use receiver::{Heard, Receiver, ReceiverEvent};
pub use sender::{Sender, SenderEvent};

/// Names who is a member, or was, at its sender.
pub type MemberId = Key;
/// Names who asks to be one: its own key.
pub type AskId = Key;

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// The group and its port.
    pub group: SocketAddr,
    /// The network interface by name; `None`: the kernel's choice.
    pub interface: Option<String>,
    /// Where packets come from: an unspecified address, or one of this host; a port, or 0 for any.
    pub local: SocketAddr,
    /// The port at which the sender's sessions are to be had, told to who hears the group; 0: none.
    pub sessions: u16,
    /// Routers that packets to the group may pass, and one more.
    pub hops: u8,
    /// Receivers on this host hear the group, too.
    pub loopback: bool,
    /// Members answer, and what they miss goes again (service 6). Otherwise nobody answers (service 5).
    pub reliable: bool,
    /// Bytes a second that are sent at most, headers counted. Without answers there has to be a bound.
    pub rate: Option<u32>,
    /// Bytes of headers before XTP's that count for the rate, too: of IP and UDP, or none.
    pub carried_by: u32,
    /// Bytes a second below which a member is dropped for which others wait.
    pub floor: u32,
    /// A member that says nothing for so long, though asked, is dropped. Whole milliseconds.
    pub silence: Duration,
    /// Most members.
    pub members_max: usize,
    /// Bytes of memory for what is not acknowledged by all; a message has a quarter of it at most.
    pub buffer: usize,
    /// Bytes of a packet: what every path to a member carries in one datagram.
    pub packet_len: usize,
    /// Messages prove themselves, as records with tags do: no sum is made of them beside UDP's (NOCHECK). Receivers have
    /// to know.
    pub nocheck: bool,
    /// What controls congestion; `None` only on a path that the user vouches for.
    pub congestion: Option<crate::Congestion>,
    /// What to ask the kernel for.
    pub udp: udp::Config,
}

impl SenderConfig {
    /// The defaults, for a group.
    pub fn new(group: SocketAddr) -> SenderConfig {
        SenderConfig {
            group,
            interface: None,
            local: any(group),
            sessions: 0,
            hops: 1,
            loopback: true,
            reliable: true,
            rate: None,
            carried_by: 0,
            floor: 64 << 10,
            silence: Duration::from_secs(2),
            members_max: 256,
            buffer: 8 << 20,
            packet_len: packet_len(group),
            nocheck: false,
            congestion: Some(crate::Congestion::Bbr),
            udp: udp::Config::default(),
        }
    }

    /// What carries the group in UDP.
    ///
    /// # Errors
    /// The address is not a group's, or the operating system refuses it.
    pub fn udp_device(&self) -> Result<udp::Udp> {
        let group = device_group(self.group, self.interface.as_deref(), self.hops, self.loopback)?;
        udp::Udp::to_group(self.local, &group, &self.udp).map_err(Error::os("opening the group"))
    }
}

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// The group and its port.
    pub group: SocketAddr,
    /// The network interface by name; `None`: the kernel's choice.
    pub interface: Option<String>,
    /// Bytes of memory for what has not been taken.
    pub buffer: usize,
    /// Messages prove themselves to who takes them: what has no sum beside UDP's is taken (NOCHECK). Without answers what lies
    /// behind a gap is handed over as a message, which it is if the one before ended in the gap.
    pub nocheck: bool,
    /// A member that hears nothing of its sender for so long gives up.
    pub patience: Duration,
    /// What to ask the kernel for.
    pub udp: udp::Config,
}

impl ReceiverConfig {
    /// The defaults, for a group.
    pub fn new(group: SocketAddr) -> ReceiverConfig {
        ReceiverConfig {
            group,
            interface: None,
            buffer: 8 << 20,
            nocheck: false,
            patience: Duration::from_secs(120),
            udp: udp::Config::default(),
        }
    }

    /// What carries the group in UDP.
    ///
    /// # Errors
    /// The address is not a group's, or the operating system refuses it.
    pub fn udp_device(&self) -> Result<udp::Member> {
        let group = device_group(self.group, self.interface.as_deref(), 1, true)?;
        udp::Member::join(&group, &self.udp).map_err(Error::os("joining the group"))
    }
}

/// What a datagram holds on a link of 1500 bytes, beside the headers of IP and UDP.
fn packet_len(group: SocketAddr) -> usize {
    match group {
        SocketAddr::V4(_) => 1500 - 20 - 8,
        SocketAddr::V6(_) => 1500 - 40 - 8,
    }
}

/// Any address of this host that can talk to `group`, and any port.
fn any(group: SocketAddr) -> SocketAddr {
    match group {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    }
}

/// The group as FIRST has it, of whose address a device says what names it there: in UDP, or without a port as IP itself.
fn address(group: SocketAddr, named: SocketAddr, sessions: u16) -> Address {
    let mut address = Address::towards(named, group.port());
    if let Address::V4 { srcport, .. } | Address::V6 { srcport, .. } = &mut address {
        *srcport = sessions;
    }
    address
}

fn device_group(
    addr: SocketAddr,
    interface: Option<&str>,
    hops: u8,
    loopback: bool,
) -> Result<udp::Group> {
    let interface = match (interface, addr) {
        (Some(name), _) => {
            udp::interface_index(name).map_err(Error::os("finding the network interface"))?
        }
        // Of a link, or of an interface (RFC 4291, section 2.7).
        (None, SocketAddr::V6(v6)) if v6.scope_id() == 0 && v6.ip().octets()[1] & 15 <= 2 => {
            return Err(Error::Misuse("a group of one link needs its network interface"));
        }
        (None, SocketAddr::V6(v6)) => v6.scope_id(),
        (None, SocketAddr::V4(_)) => 0,
    };
    Ok(udp::Group { addr, interface, hops, loopback })
}

/// A key that nobody foretells.
fn draw_key() -> io::Result<Key> {
    loop {
        if let Some(key) = Key::new(u64::from_be_bytes(random()?)) {
            return Ok(key);
        }
    }
}
