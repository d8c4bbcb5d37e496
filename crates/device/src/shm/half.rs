//! One side's file: made and sealed by its owner, checked and mapped read-only by the peer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;

use crate::kernel::Version;
use crate::sys::map::{CONTROL_BYTES, Mapping};

/// Smallest and largest ring, in bytes; both powers of two. The largest bounds what a peer can make
/// this process map.
pub const RING_BYTES: std::ops::RangeInclusive<usize> = (1 << 16)..=(1 << 26);

/// Nobody shortens or lengthens the file, and nobody but mappings that exist writes to it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE);

/// A ring of this length can be.
pub(crate) fn check_ring_bytes(ring_bytes: u64) -> io::Result<usize> {
    usize::try_from(ring_bytes)
        .ok()
        .filter(|n| RING_BYTES.contains(n) && n.is_power_of_two())
        .ok_or_else(|| invalid(format!("a ring of {ring_bytes} bytes")))
}

/// The oldest kernel that has `F_SEAL_FUTURE_WRITE`.
pub const OLDEST_KERNEL: Version = Version { major: 5, minor: 1 };

/// Makes one's own file: `ring_bytes` of ring behind the control area, mapped for writing, sealed.
pub(crate) fn create(ring_bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
    OLDEST_KERNEL.require("shared memory")?;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match memfd_create("fusewire", flags | MemfdFlags::NOEXEC_SEAL) {
        // NOEXEC_SEAL came with Linux 6.3; without it the file is merely executable.
        Err(Errno::INVAL) => memfd_create("fusewire", flags)?,
        result => result?,
    };
    ftruncate(&fd, (CONTROL_BYTES + ring_bytes) as u64)?;
    let mapping = Mapping::new(fd.as_fd(), ring_bytes, true)?;
    fcntl_add_seals(&fd, SEALS | SealFlags::SEAL)?;
    Ok((fd, mapping))
}

/// Checks and maps the peer's file.
pub(crate) fn adopt(fd: &OwnedFd, ring_bytes: usize) -> io::Result<Mapping> {
    let seals =
        fcntl_get_seals(fd).map_err(|_| invalid("a descriptor that is no sealed memory".into()))?;
    if !seals.contains(SEALS) {
        return Err(invalid(format!(
            "memory with the seals {seals:?}, which lack some of {SEALS:?}"
        )));
    }
    let size = fstat(fd)?.st_size;
    let expected = (CONTROL_BYTES + ring_bytes) as i64;
    if size != expected {
        return Err(invalid(format!("memory of {size} bytes in place of {expected}")));
    }
    Mapping::new(fd.as_fd(), ring_bytes, false)
}

/// What the peer offered is not what an honest one would.
pub(crate) fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("shared memory: the peer offered {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: usize = 1 << 16;

    fn refuses(fd: OwnedFd, why: &str) {
        let error = adopt(&fd, RING).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(why), "{error}");
    }

    #[test]
    fn what_one_side_makes_the_other_maps_and_cannot_change() {
        let (fd, mut own) = create(RING).unwrap();
        let peer = adopt(&fd, RING).unwrap();
        own.slice_mut(RING as u64 - 3, 6).copy_from_slice(b"across");
        assert_eq!(peer.slice(RING as u64 - 3, 6), b"across");
        assert_eq!(peer.slice(0, 3), b"oss", "the ring is mapped twice in a row");
        own.store(64, 7);
        assert_eq!(peer.load(64), 7);
        // The kernel refuses to map it for writing, to write, to resize, to punch holes, to unseal.
        assert!(Mapping::new(fd.as_fd(), RING, true).is_err());
        assert!(rustix::io::pwrite(&fd, b"x", 0).is_err());
        assert!(ftruncate(&fd, 0).is_err() && ftruncate(&fd, 1 << 20).is_err());
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&fd, punch, 0, 4096).is_err());
        assert!(fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
    }

    #[test]
    fn refuses_what_is_not_sealed_or_not_memory_or_not_as_long_as_said() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let len = (CONTROL_BYTES + RING) as u64;
        for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::SHRINK | SealFlags::GROW] {
            let fd = memfd_create("test", flags).unwrap();
            ftruncate(&fd, len).unwrap();
            fcntl_add_seals(&fd, seals).unwrap();
            refuses(fd, "seals");
        }
        for wrong in [0, len - 1, len + 1] {
            let fd = memfd_create("test", flags).unwrap();
            ftruncate(&fd, wrong).unwrap();
            fcntl_add_seals(&fd, SEALS).unwrap();
            refuses(fd, "bytes in place of");
        }
        refuses(std::fs::File::open("/dev/zero").unwrap().into(), "no sealed memory");
        refuses(std::io::pipe().unwrap().0.into(), "no sealed memory");
        for bytes in [0, 1, 4096, (1 << 16) + 1, 3 << 16, 1 << 27, u64::MAX] {
            assert!(check_ring_bytes(bytes).is_err(), "{bytes}");
        }
    }
}
