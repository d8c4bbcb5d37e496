//! What `/dev/net/tun` is asked with `ioctl` (Linux `if_tun.h`).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::ifreq;

/// What the other side of a TUN or TAP may hand us unfinished (`TUN_F_*`).
pub(crate) mod offload {
    pub(crate) const CHECKSUM: u32 = 0x01;
    pub(crate) const TSO4: u32 = 0x02;
    pub(crate) const TSO6: u32 = 0x04;
    pub(crate) const TSO_ECN: u32 = 0x08;
    pub(crate) const USO4: u32 = 0x20;
    pub(crate) const USO6: u32 = 0x40;
}

/// Makes `fd`, which is `/dev/net/tun` opened, the interface of this name (`TUNSETIFF`); the kernel fills
/// a `%d` in it, or gives it a name where it is empty. `flags` are `IFF_*`. Returns its name.
pub(crate) fn attach(fd: BorrowedFd<'_>, name: &str, flags: c_int) -> io::Result<String> {
    let mut request = ifreq::named(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which `request` is.
    unsafe { ioctl(fd, libc::TUNSETIFF as _, (&raw mut request).cast()) }?;
    Ok(ifreq::name(&request))
}

/// Says what we take unfinished (`TUNSETOFFLOAD`); refused when the kernel does not know one of them.
pub(crate) fn set_offload(fd: BorrowedFd<'_>, bits: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    unsafe { ioctl(fd, libc::TUNSETOFFLOAD as _, bits as usize as *mut _) }
}

/// Keeps the interface after the last descriptor is closed, or no longer (`TUNSETPERSIST`).
pub(crate) fn set_persistent(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes its argument by value.
    unsafe { ioctl(fd, libc::TUNSETPERSIST as _, usize::from(on) as *mut _) }
}

/// # Safety
/// `argument` is what `request` wants: a number, or a pointer to what the kernel reads and writes.
unsafe fn ioctl(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: *mut libc::c_void,
) -> io::Result<()> {
    // SAFETY: the caller vouches for the argument.
    let status = unsafe { libc::ioctl(fd.as_raw_fd(), request, argument) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
