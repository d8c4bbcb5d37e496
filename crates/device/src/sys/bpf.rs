//! Maps, programs and links by `bpf(2)`: as much as an XDP program of a few dozen instructions needs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Kinds of maps (`enum bpf_map_type`).
pub(crate) const MAP_HASH: u32 = 1;
pub(crate) const MAP_XSK: u32 = 17;
/// Memory only for what is there (`BPF_F_NO_PREALLOC`).
pub(crate) const NO_PREALLOC: u32 = 1;
/// How a program hangs on an interface (`XDP_FLAGS_*`).
pub(crate) const GENERIC: u32 = 1 << 1;
pub(crate) const NATIVE: u32 = 1 << 2;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const PROG_LOAD: u32 = 5;
const LINK_CREATE: u32 = 28;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// `union bpf_attr`, filled by offset; what is not filled is zero, as the kernel wants it.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    fn new() -> Attributes {
        Attributes([0; 128])
    }

    fn u32(mut self, at: usize, value: u32) -> Attributes {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(self, at: usize, fd: BorrowedFd<'_>) -> Attributes {
        self.u32(at, fd.as_raw_fd() as u32)
    }

    fn pointer<T>(mut self, at: usize, to: *const T) -> Attributes {
        self.0[at..at + 8].copy_from_slice(&(to as usize as u64).to_ne_bytes());
        self
    }
}

/// # Safety
/// Pointers in `attributes` are to memory as long as `command` says there, alive across the call, and
/// writable where the kernel writes.
unsafe fn bpf(command: u32, attributes: &Attributes) -> io::Result<i32> {
    // SAFETY: the attributes are longer than the kernel's own and zero behind what it knows; the caller
    // vouches for what they point to.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<Attributes>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel made this descriptor for us just now.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map, whose keys and values are so long.
pub(crate) fn create_map(
    kind: u32,
    key_len: u32,
    value_len: u32,
    entries: u32,
    flags: u32,
) -> io::Result<Map> {
    let attributes = Attributes::new()
        .u32(0, kind)
        .u32(4, key_len)
        .u32(8, value_len)
        .u32(12, entries)
        .u32(16, flags);
    // SAFETY: there is no pointer in them.
    let fd = unsafe { bpf(MAP_CREATE, &attributes)? };
    Ok(Map { fd: owned(fd), key_len: key_len as usize, value_len: value_len as usize })
}

/// A map, and how long its keys and values are.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    key_len: usize,
    value_len: usize,
}

impl Map {
    /// The descriptor's number, which a program that uses the map names.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Puts a value under a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_len && value.len() == self.value_len);
        use std::os::fd::AsFd;
        let attributes = Attributes::new()
            .fd(0, self.fd.as_fd())
            .pointer(8, key.as_ptr())
            .pointer(16, value.as_ptr());
        // SAFETY: key and value are as long as the map's are; the kernel reads them.
        unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
    }

    /// Takes a key out.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_len);
        use std::os::fd::AsFd;
        let attributes = Attributes::new().fd(0, self.fd.as_fd()).pointer(8, key.as_ptr());
        // SAFETY: the key is as long as the map's are; the kernel reads it.
        unsafe { bpf(MAP_DELETE, &attributes) }.map(drop)
    }
}

/// Loads an XDP program. Refused, the error has the last lines of what the verifier says.
pub(crate) fn load_xdp(program: &[u64]) -> io::Result<OwnedFd> {
    load_logged(program, &mut []).or_else(|error| {
        let mut log = vec![0; 1 << 16];
        load_logged(program, &mut log).map_err(|_| {
            // Missing rights and a program that is refused look the same, but the latter has reasons.
            let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
            let text = String::from_utf8_lossy(&log[..end]);
            let last: Vec<_> = text.lines().rev().take(3).collect();
            match last.is_empty() {
                true => error,
                false => io::Error::new(io::ErrorKind::InvalidData, last.join(" < ")),
            }
        })
    })
}

fn load_logged(program: &[u64], log: &mut [u8]) -> io::Result<OwnedFd> {
    let licence = c"Apache-2.0";
    let attributes = Attributes::new()
        .u32(0, PROG_TYPE_XDP)
        .u32(4, program.len() as u32)
        .pointer(8, program.as_ptr())
        .pointer(16, licence.as_ptr())
        .u32(24, u32::from(!log.is_empty()))
        .u32(28, log.len() as u32)
        .pointer(32, if log.is_empty() { std::ptr::null() } else { log.as_ptr() })
        .u32(68, ATTACH_XDP);
    // SAFETY: the program is as long as said, an instruction eight bytes; the licence ends with zero; the log,
    // borrowed exclusively, is as long as said. The kernel reads the first two and writes the last.
    unsafe { bpf(PROG_LOAD, &attributes) }.map(owned)
}

/// Hangs a program on an interface for as long as the descriptor lives.
pub(crate) fn link_xdp(program: BorrowedFd<'_>, interface: u32, mode: u32) -> io::Result<OwnedFd> {
    let attributes =
        Attributes::new().fd(0, program).u32(4, interface).u32(8, ATTACH_XDP).u32(12, mode);
    // SAFETY: there is no pointer in them.
    unsafe { bpf(LINK_CREATE, &attributes) }.map(owned)
}
