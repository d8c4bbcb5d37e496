//! Maps, programs and links by `bpf(2)`: as much as a program of a few dozen instructions needs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Kinds of maps (`enum bpf_map_type`).
pub(crate) const MAP_HASH: u32 = 1;
pub(crate) const MAP_ARRAY: u32 = 2;
pub(crate) const MAP_XSK: u32 = 17;
/// Memory only for what is there (`BPF_F_NO_PREALLOC`).
pub(crate) const NO_PREALLOC: u32 = 1;
/// How a program hangs on an interface (`XDP_FLAGS_*`).
pub(crate) const GENERIC: u32 = 1 << 1;
pub(crate) const NATIVE: u32 = 1 << 2;

const MAP_CREATE: u32 = 0;
const MAP_UPDATE: u32 = 2;
const MAP_DELETE: u32 = 3;
const MAP_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const PROG_BY_ID: u32 = 13;
const MAP_BY_ID: u32 = 14;
const INFO: u32 = 15;
const LINK_CREATE: u32 = 28;
const LINK_BY_ID: u32 = 30;
const LINK_NEXT_ID: u32 = 31;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Packets as they leave the driver.
    Xdp,
    /// Packets behind packet sockets and before the kernel's stack (`tcx`, Linux 6.6).
    Tcx,
}

impl Kind {
    /// `BPF_PROG_TYPE_*`
    fn program(self) -> u32 {
        match self {
            Kind::Xdp => 6,
            // `SCHED_CLS`
            Kind::Tcx => 3,
        }
    }

    /// `enum bpf_attach_type`
    fn place(self) -> u32 {
        match self {
            Kind::Xdp => 37,
            // Ingress.
            Kind::Tcx => 46,
        }
    }
}

const LINK_TYPE_XDP: u32 = 6;

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
unsafe fn bpf(command: u32, attributes: &mut Attributes) -> io::Result<i32> {
    let (pointer, len) = (&raw mut *attributes, size_of::<Attributes>());
    // SAFETY: the attributes are borrowed exclusively, for some commands answer in them, longer than the
    // kernel's own, and zero behind what it knows; the caller vouches for what they point to.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, len) };
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
    let mut attributes = Attributes::new()
        .u32(0, kind)
        .u32(4, key_len)
        .u32(8, value_len)
        .u32(12, entries)
        .u32(16, flags);
    // SAFETY: there is no pointer in them.
    let fd = unsafe { bpf(MAP_CREATE, &mut attributes)? };
    Ok(Map { fd: owned(fd), key_len: key_len as usize, value_len: value_len as usize })
}

/// A map, and how long its keys and values are.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    pub key_len: usize,
    pub value_len: usize,
}

impl Map {
    /// The descriptor's number, which a program that uses the map names.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Puts a value under a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_len && value.len() == self.value_len);
        let mut attributes = Attributes::new()
            .fd(0, self.fd.as_fd())
            .pointer(8, key.as_ptr())
            .pointer(16, value.as_ptr());
        // SAFETY: key and value are as long as the map's are; the kernel reads them.
        unsafe { bpf(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// Takes a key out.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_len);
        let mut attributes = Attributes::new().fd(0, self.fd.as_fd()).pointer(8, key.as_ptr());
        // SAFETY: the key is as long as the map's are; the kernel reads it.
        unsafe { bpf(MAP_DELETE, &mut attributes) }.map(drop)
    }

    /// Every key that is there while nobody else changes the map; at most `most`.
    pub fn keys(&self, most: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < most {
            let mut next = vec![0; self.key_len];
            let before = keys.last().map_or(std::ptr::null(), |key| key.as_ptr());
            let mut attributes = Attributes::new()
                .fd(0, self.fd.as_fd())
                .pointer(8, before)
                .pointer(16, next.as_mut_ptr().cast_const());
            // SAFETY: both keys are as long as the map's are, or there is none before; the kernel reads the one
            // and writes the other, which is borrowed by nobody else.
            if unsafe { bpf(MAP_NEXT_KEY, &mut attributes) }.is_err() {
                break;
            }
            keys.push(next);
        }
        keys
    }
}

/// Loads a program that looks at the beginnings of packets alone. Refused, the error has the last lines of
/// what the verifier says.
pub(crate) fn load(kind: Kind, program: &[u64]) -> io::Result<OwnedFd> {
    // Packets of several buffers (`BPF_F_XDP_HAS_FRAGS`): Linux 5.18.
    let with_frags = match kind {
        Kind::Xdp => load_logged(kind, program, 1 << 5, &mut []).ok(),
        Kind::Tcx => None,
    };
    let loaded = with_frags.map_or_else(|| load_logged(kind, program, 0, &mut []), Ok);
    loaded.or_else(|error| {
        let mut log = vec![0; 1 << 16];
        load_logged(kind, program, 0, &mut log).map_err(|_| {
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

fn load_logged(kind: Kind, program: &[u64], flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let licence = c"Apache-2.0";
    let mut attributes = Attributes::new()
        .u32(0, kind.program())
        .u32(4, program.len() as u32)
        .pointer(8, program.as_ptr())
        .pointer(16, licence.as_ptr())
        .u32(24, u32::from(!log.is_empty()))
        .u32(28, log.len() as u32)
        .pointer(32, if log.is_empty() { std::ptr::null() } else { log.as_ptr() })
        .u32(44, flags)
        .u32(68, kind.place());
    // SAFETY: the program is as long as said, an instruction eight bytes; the licence ends with zero; the log,
    // borrowed exclusively, is as long as said. The kernel reads the first two and writes the last.
    unsafe { bpf(PROG_LOAD, &mut attributes) }.map(owned)
}

/// Hangs a program on an interface for as long as the descriptor lives.
pub(crate) fn link(
    program: BorrowedFd<'_>,
    interface: u32,
    kind: Kind,
    mode: u32,
) -> io::Result<OwnedFd> {
    let mut attributes =
        Attributes::new().fd(0, program).u32(4, interface).u32(8, kind.place()).u32(12, mode);
    // SAFETY: there is no pointer in them.
    unsafe { bpf(LINK_CREATE, &mut attributes) }.map(owned)
}

/// A program that hangs on an interface, and what is its own.
pub(crate) struct Hanging {
    /// It hangs there as long as this, or another of the kind, is open.
    pub link: OwnedFd,
    /// What tells its instructions from others', maps aside.
    pub tag: [u8; 8],
    pub maps: Vec<(u32, Map)>,
}

/// What the kernel tells of an object, as much as fits.
///
/// # Safety
/// Every pointer in `answer` is null, or to memory as long as the count beside it says.
unsafe fn info(object: BorrowedFd<'_>, answer: &mut [u64]) -> io::Result<()> {
    let mut attributes = Attributes::new()
        .fd(0, object)
        .u32(4, size_of_val(answer) as u32)
        .pointer(8, answer.as_mut_ptr());
    // SAFETY: the answer is as long as said and borrowed exclusively; the caller vouches for the pointers in it.
    unsafe { bpf(INFO, &mut attributes) }.map(drop)
}

fn by_id(command: u32, id: u32) -> io::Result<OwnedFd> {
    // SAFETY: there is no pointer in them.
    unsafe { bpf(command, &mut Attributes::new().u32(0, id)) }.map(owned)
}

fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// Tag and maps of a program (`struct bpf_prog_info`).
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<([u8; 8], Vec<u32>)> {
    const MOST_MAPS: usize = 8;
    let mut ids = [0u32; MOST_MAPS];
    let mut answer = [0u64; 29];
    // `nr_map_ids` and `map_ids`.
    answer[6] = u64::from_ne_bytes({
        let [a, b, c, d] = (MOST_MAPS as u32).to_ne_bytes();
        [0, 0, 0, 0, a, b, c, d]
    });
    answer[7] = ids.as_mut_ptr() as usize as u64;
    // SAFETY: `ids` is the list of maps, and as long as `nr_map_ids` says; the other pointers are null.
    unsafe { info(program, &mut answer) }?;
    let count = (halves(answer[6]).1 as usize).min(MOST_MAPS);
    Ok((answer[1].to_ne_bytes(), ids[..count].to_vec()))
}

/// The program of this number, where it hangs on this interface by a link.
///
/// # Errors
/// `PermissionDenied` without CAP_SYS_ADMIN; `NotFound`, when it hangs there by no link.
pub(crate) fn hanging(program: u32, interface: u32) -> io::Result<Hanging> {
    let mut id = 0;
    loop {
        let mut attributes = Attributes::new().u32(0, id);
        // SAFETY: there is no pointer in them; the kernel writes the next number into them.
        unsafe { bpf(LINK_NEXT_ID, &mut attributes) }.map_err(|e| match e.raw_os_error() {
            Some(libc::ENOENT) => io::ErrorKind::NotFound.into(),
            _ => e,
        })?;
        id = u32::from_ne_bytes(std::array::from_fn(|i| attributes.0[4 + i]));
        // It may be gone by now.
        let Ok(link) = by_id(LINK_BY_ID, id) else { continue };
        // `struct bpf_link_info`: type, number, program, and behind a gap the interface.
        let mut answer = [0u64; 32];
        // SAFETY: there is no pointer in it.
        if unsafe { info(link.as_fd(), &mut answer) }.is_err() {
            continue;
        }
        let found = (halves(answer[0]).0, halves(answer[1]).0, halves(answer[2]).0);
        if found != (LINK_TYPE_XDP, program, interface) {
            continue;
        }
        let program = by_id(PROG_BY_ID, program)?;
        let (tag, ids) = program_info(program.as_fd())?;
        let maps = ids.into_iter().map(open_map).collect::<io::Result<Vec<_>>>()?;
        return Ok(Hanging { link, tag, maps });
    }
}

/// The map of this number, and its kind (`struct bpf_map_info`).
fn open_map(id: u32) -> io::Result<(u32, Map)> {
    let fd = by_id(MAP_BY_ID, id)?;
    let mut answer = [0u64; 16];
    // SAFETY: there is no pointer in it.
    unsafe { info(fd.as_fd(), &mut answer) }?;
    let (key_len, value_len) = halves(answer[1]);
    let kind = halves(answer[0]).0;
    Ok((kind, Map { fd, key_len: key_len as usize, value_len: value_len as usize }))
}
