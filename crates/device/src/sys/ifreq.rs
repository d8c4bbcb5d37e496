//! What a network interface is asked by its name with `ioctl` (netdevice(7)).

use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A request about the interface of this name.
pub(crate) fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is a C structure of numbers and a union of such, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() || name.bytes().any(|b| b == 0) {
        let what = format!("an interface's name has at most 15 bytes: {name:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    Ok(request)
}

/// The name in a request that the kernel filled.
pub(crate) fn name(request: &libc::ifreq) -> String {
    let bytes = request.ifr_name.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

/// The interface's MTU. `socket` is any socket in its network namespace.
pub(crate) fn mtu(socket: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let request = ask(socket, named(name)?, libc::SIOCGIFMTU as _)?;
    // SAFETY: SIOCGIFMTU filled this member; any bytes are a number.
    Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0))
}

/// Sets the interface's MTU.
pub(crate) fn set_mtu(socket: BorrowedFd<'_>, name: &str, mtu: usize) -> io::Result<()> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
    ask(socket, request, libc::SIOCSIFMTU as _).map(drop)
}

/// The interface's Ethernet address; `None` when it is of another kind.
pub(crate) fn mac(socket: BorrowedFd<'_>, name: &str) -> io::Result<Option<[u8; 6]>> {
    let request = ask(socket, named(name)?, libc::SIOCGIFHWADDR as _)?;
    // SAFETY: SIOCGIFHWADDR filled this member; any bytes are numbers.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let kind = address.sa_family;
    let ethernet = kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK;
    Ok(ethernet.then(|| std::array::from_fn(|i| address.sa_data[i] as u8)))
}

/// Takes the interface up, or down.
pub(crate) fn set_up(socket: BorrowedFd<'_>, name: &str, up: bool) -> io::Result<()> {
    let mut request = ask(socket, named(name)?, libc::SIOCGIFFLAGS as _)?;
    // SAFETY: SIOCGIFFLAGS filled this member; any bytes are a number.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let bit = libc::IFF_UP as libc::c_short;
    request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
    ask(socket, request, libc::SIOCSIFFLAGS as _).map(drop)
}

pub(super) fn ask(
    socket: BorrowedFd<'_>,
    mut request: libc::ifreq,
    what: libc::Ioctl,
) -> io::Result<libc::ifreq> {
    // SAFETY: every caller's `what` is an ioctl that reads and writes one `ifreq`.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}
