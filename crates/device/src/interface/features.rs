//! What a driver says that it can do with XDP: the `netdev` family of generic netlink (Linux 6.3,
//! `Documentation/netlink/specs/netdev.yaml`).

use std::io;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};

/// `NETDEV_XDP_ACT_BASIC` and `NETDEV_XDP_ACT_REDIRECT`: programs run in the driver.
const NATIVE: u64 = 1 | 2;
/// `NETDEV_XDP_ACT_XSK_ZEROCOPY`
const ZERO_COPY: u64 = 8;

/// What a driver offers to AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XdpFeatures {
    pub is_native: bool,
    pub is_zero_copy: bool,
}

/// Generic netlink: the controller, its question for a family, and that family's for a device.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;
/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// Headers of netlink and of generic netlink.
const HEADER_BYTES: usize = 20;

/// Asks the kernel what the driver of the interface of this number offers.
///
/// # Errors
/// `Unsupported` before Linux 6.3; what the kernel says.
pub(crate) fn xdp(index: u32) -> io::Result<XdpFeatures> {
    let unknown = || io::Error::new(io::ErrorKind::Unsupported, "the kernel does not tell");
    let answer = ask(CONTROLLER, GET_FAMILY, FAMILY_NAME, b"netdev\0")?;
    let family = attribute(&answer, FAMILY_ID).and_then(|id| id.first_chunk().copied());
    let family = u16::from_ne_bytes(family.ok_or_else(unknown)?);
    let answer = ask(family, GET_DEVICE, DEVICE_INDEX, &index.to_ne_bytes())?;
    let features = attribute(&answer, DEVICE_FEATURES).and_then(|bits| bits.first_chunk().copied());
    let features = u64::from_ne_bytes(features.ok_or_else(unknown)?);
    Ok(XdpFeatures {
        is_native: features & NATIVE == NATIVE,
        is_zero_copy: features & ZERO_COPY != 0,
    })
}

/// One question with one attribute; what comes back behind the headers.
fn ask(family: u16, command: u8, kind: u16, value: &[u8]) -> io::Result<Vec<u8>> {
    let flags = SocketFlags::CLOEXEC;
    let protocol = Some(netlink::GENERIC);
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    rustix::net::bind(&fd, &SocketAddrNetlink::new(0, 0))?;
    let padded = value.len().next_multiple_of(4);
    let mut message = Vec::with_capacity(HEADER_BYTES + 4 + padded);
    message.extend_from_slice(&((HEADER_BYTES + 4 + padded) as u32).to_ne_bytes());
    message.extend_from_slice(&family.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    // Sequence and port: there is one question on this socket.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[command, 1, 0, 0]);
    message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(HEADER_BYTES + 4 + padded, 0);
    rustix::net::send(&fd, &message, SendFlags::empty())?;
    let mut answer = vec![0; 1 << 14];
    let (len, _) = rustix::net::recv(&fd, &mut answer[..], RecvFlags::empty())?;
    answer.truncate(len);
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    if kind == Some(ERROR) {
        let code = answer.get(16..20).and_then(|code| code.first_chunk().copied());
        let code = i32::from_ne_bytes(code.unwrap_or_default());
        return Err(io::Error::from_raw_os_error(code.wrapping_neg()));
    }
    Ok(answer.split_off(HEADER_BYTES.min(answer.len())))
}

/// The value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (head, _) = bytes.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The two highest bits say how the value is to be read.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = bytes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_about_loopback() {
        match xdp(1) {
            Ok(features) => assert!(!features.is_zero_copy, "{features:?}"),
            Err(e) => eprintln!("skipped: {e}"),
        }
        assert!(xdp(0x7fff_fff0).is_err());
    }

    #[test]
    fn attributes_are_found_and_nothing_is_read_behind_the_end() {
        let bytes = [5, 0, 1, 0, 7, 0, 0, 0, 6, 0, 3, 0x80, 1, 2, 0, 0];
        assert_eq!(attribute(&bytes, 1), Some(&[7][..]));
        assert_eq!(attribute(&bytes, 3), Some(&[1, 2][..]));
        assert_eq!(attribute(&bytes, 2), None);
        for len in 0..14 {
            assert_eq!(attribute(&bytes[..len], 3), None);
        }
        assert_eq!(attribute(&[0, 0, 9, 0], 1), None, "no length at all");
    }
}
