//! What a packet socket is asked (Linux `if_packet.h`), and the memory of its receive ring.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::sockopt;
use crate::interface::flows::Instruction;

/// All Ethernet protocols, in the order of the network.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();
/// Bytes of a block of the ring.
pub(crate) const BLOCK_BYTES: usize = 2 << 20;
/// Bytes that Linux's headers take of a slot before an Ethernet frame, and some to spare.
const SLOT_HEAD_BYTES: usize = 128;
/// Bytes of a block that closes as a whole: several super-frames.
const CLOSED_BLOCK_BYTES: usize = 256 << 10;
/// Where `tpacket2_hdr` and `tpacket3_hdr` have status, captured and true length, and the place of the packet.
const SLOT_FIELDS: [usize; 4] = [0, 8, 4, 12];
const BLOCK_FIELDS: [usize; 4] = [20, 12, 16, 24];
/// A virtio header.
const VNET_BYTES: usize = crate::interface::VNET_HEADER_BYTES;

/// From now on the socket gets the packets of the interface (`bind`).
pub(crate) fn bind(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // SAFETY: a C structure of numbers, for which zero is valid.
    let mut addr: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    addr.sll_family = libc::AF_PACKET as u16;
    addr.sll_protocol = ALL_PROTOCOLS;
    addr.sll_ifindex = index as c_int;
    let len = size_of_val(&addr) as libc::socklen_t;
    // SAFETY: `addr` lives across the call and is as long as said.
    let status = unsafe { libc::bind(fd.as_raw_fd(), (&raw const addr).cast(), len) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the socket a filter, in place of the one that it had; it takes effect at once.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<_> = program
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k })
        .collect();
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let described = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the option takes a `sock_fprog`; it points to `len` instructions, which live across the
    // call and which the kernel copies and checks.
    unsafe { set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &described) }
}

/// Takes the filter away.
pub(crate) fn detach_filter(fd: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0)
}

/// `setsockopt` of a structure.
///
/// # Safety
/// The option takes a `T`; pointers in it are what the option wants.
unsafe fn set<T>(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: `value` lives across the call and is as long as said; the caller vouches for what is in it.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The interface also takes what is sent to `mac` for as long as the socket lives; all multicast groups,
/// when there is none.
pub(crate) fn listen_to(fd: BorrowedFd<'_>, index: u32, mac: Option<[u8; 6]>) -> io::Result<()> {
    /// `PACKET_MR_UNICAST`.
    const UNICAST: u16 = 3;
    let mut address = [0; 8];
    address[..6].copy_from_slice(&mac.unwrap_or_default());
    let request = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: if mac.is_some() { UNICAST } else { libc::PACKET_MR_ALLMULTI as u16 },
        mr_alen: 6,
        mr_address: address,
    };
    // SAFETY: the option takes a `packet_mreq`, of numbers.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request) }
}

/// Packets that found the ring full since the last call.
pub(crate) fn dropped(fd: BorrowedFd<'_>) -> u64 {
    let mut stats = [0u32; 3];
    let mut len = size_of_val(&stats) as libc::socklen_t;
    // SAFETY: the option writes at most `len` bytes of numbers, which `stats` has.
    let status = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            stats.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    };
    if status == 0 { u64::from(stats[1]) } else { 0 }
}

/// How the kernel fills the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// A slot a packet, seen as soon as it is there (`TPACKET_V2`).
    Slots,
    /// Packets close together in blocks, seen when the block is full or a millisecond old (`TPACKET_V3`).
    Blocks,
}

/// A packet in the ring that is ours until the next [`Ring::advance`].
#[derive(Clone, Copy, Debug)]
struct Taken {
    /// From the beginning of the mapping; the virtio header lies before it.
    at: usize,
    len: usize,
    /// It was longer than its room.
    is_cut: bool,
    /// All of it waits beside the ring, to be read.
    is_beside: bool,
    /// It never left this host, and nobody has made its checksum.
    is_unfinished: bool,
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// Its virtio header, where the socket has them.
    pub vnet: Option<&'a [u8]>,
    pub bytes: &'a [u8],
    /// It never left this host, and nobody has made its checksum. With a virtio header that says it better.
    pub is_unfinished: bool,
}

/// How a ring is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub version: Version,
    /// Bytes of all of it, about.
    pub bytes: usize,
    /// The longest packet that is taken whole.
    pub packet_bytes: usize,
    /// Longer ones wait beside the ring, to be read (`PACKET_COPY_THRESH`).
    pub beside: bool,
    /// A virtio header before each packet.
    pub vnet: bool,
}

/// The receive ring of a packet socket.
///
/// Invariant: `base .. base + len` is mapped, readable and writable as long as this lives; the kernel
/// writes only to slots and blocks whose status says that they are its own. What `taken` describes lies in
/// slots and blocks that are ours.
pub(crate) struct Ring {
    base: NonNull<u8>,
    len: usize,
    version: Version,
    /// Of a slot.
    slot_bytes: usize,
    /// Of a virtio header before each packet, or 0.
    vnet_bytes: usize,
    /// Slots or blocks.
    count: usize,
    /// The oldest one that is ours, and how many of them were taken.
    first: usize,
    held: usize,
    taken: Vec<Taken>,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Makes the ring of `fd`, whose packets have virtio headers if the shape says so.
    pub fn new(fd: BorrowedFd<'_>, shape: Shape) -> io::Result<Ring> {
        let Shape { version, bytes, .. } = shape;
        let vnet_bytes = if shape.vnet { VNET_BYTES } else { 0 };
        let slot_bytes = (shape.packet_bytes + SLOT_HEAD_BYTES).next_multiple_of(256);
        let number = match version {
            Version::Slots => libc::tpacket_versions::TPACKET_V2,
            Version::Blocks => libc::tpacket_versions::TPACKET_V3,
        };
        sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, number as c_int)?;
        // The packet behind an Ethernet header lies at a multiple of 16.
        sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_RESERVE, 16 - vnet_bytes as c_int)?;
        if shape.beside {
            sockopt::set(fd, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, 1)?;
        }
        let (block, frame, blocks, count) = match version {
            Version::Slots => {
                let blocks = bytes.div_ceil(BLOCK_BYTES).max(1);
                (BLOCK_BYTES, slot_bytes, blocks, blocks * (BLOCK_BYTES / slot_bytes))
            }
            Version::Blocks => {
                let blocks = bytes.div_ceil(CLOSED_BLOCK_BYTES).max(2);
                (CLOSED_BLOCK_BYTES, 2048, blocks, blocks)
            }
        };
        let request = libc::tpacket_req3 {
            tp_block_size: block as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (blocks * (block / frame)) as u32,
            tp_retire_blk_tov: 1,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        // SAFETY: the option takes a `tpacket_req3`, of numbers, which begins with the `tpacket_req` that the
        // older version takes: the kernel reads as much as it knows.
        unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)? };
        let len = blocks * block;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, flags, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let taken = Vec::with_capacity(2048);
        Ok(Ring { base, len, version, slot_bytes, vnet_bytes, count, first: 0, held: 0, taken })
    }

    /// Slots or blocks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The longest frame that a slot or block takes whole.
    pub fn room(&self) -> usize {
        match self.version {
            Version::Slots => self.slot_bytes - SLOT_HEAD_BYTES,
            Version::Blocks => CLOSED_BLOCK_BYTES / 2,
        }
    }

    /// Where slot or block `index` begins.
    fn place(&self, index: usize) -> usize {
        let index = index % self.count;
        match self.version {
            Version::Slots => {
                let a_block = BLOCK_BYTES / self.slot_bytes;
                index / a_block * BLOCK_BYTES + index % a_block * self.slot_bytes
            }
            Version::Blocks => index * CLOSED_BLOCK_BYTES,
        }
    }

    /// The word by which slot or block `index` changes hands.
    fn status(&self, index: usize) -> &AtomicU32 {
        let at = match self.version {
            Version::Slots => 0,
            Version::Blocks => 8,
        };
        // SAFETY: every place lies in the mapping, at a multiple of 16; the word is shared with the kernel and
        // only touched atomically.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(self.place(index) + at).cast()) }
    }

    /// A number of the kernel's in a slot or block that is ours.
    fn word(&self, at: usize) -> usize {
        assert!(at + 4 <= self.len);
        // SAFETY: in bounds; whoever calls has seen the status, so the kernel does not write here.
        unsafe { self.base.as_ptr().add(at).cast::<u32>().read_unaligned() as usize }
    }

    /// Gives what was taken back to the kernel.
    pub fn give_back(&mut self) {
        self.taken.clear();
        for i in self.first..self.first + self.held {
            self.status(i).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.first = (self.first + self.held) % self.count;
        self.held = 0;
    }

    /// The next packet waits beside the ring.
    pub fn is_next_beside(&self) -> bool {
        let status = self.status(self.first + self.held).load(Ordering::Acquire);
        status & libc::TP_STATUS_USER != 0 && self.says_beside(status)
    }

    /// The status of a packet that waits beside the ring: the kernel has queued it then, whatever else it says of it.
    fn says_beside(&self, status: u32) -> bool {
        self.version == Version::Slots && status & libc::TP_STATUS_COPY != 0
    }

    /// Gives what was taken back to the kernel, and takes what is there: at most `most` slots, of which at most `beside` are of
    /// packets beside the ring, or a block. Returns the number of packets.
    pub fn advance(&mut self, most: usize, beside: usize) -> usize {
        self.give_back();
        let mut room = beside;
        match self.version {
            Version::Slots => {
                while self.held < most.min(self.count) && self.is_ours(self.first + self.held) {
                    if self.is_next_beside() {
                        if room == 0 {
                            break;
                        }
                        room -= 1;
                    }
                    let at = self.place(self.first + self.held);
                    self.held += 1;
                    self.taken.push(self.described(at, self.slot_bytes, SLOT_FIELDS).0);
                }
            }
            Version::Blocks if self.is_ours(self.first) => {
                self.held = 1;
                self.take_block(self.place(self.first));
            }
            Version::Blocks => {}
        }
        self.taken.len()
    }

    fn is_ours(&self, index: usize) -> bool {
        self.status(index).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The front of the next packet, if that waits beside the ring, and how long all of it is. It stays the next.
    pub fn front(&self) -> Option<(Received<'_>, usize)> {
        if !self.is_next_beside() {
            return None;
        }
        let at = self.place(self.first + self.held);
        let (taken, len) = self.described(at, self.slot_bytes, SLOT_FIELDS);
        Some((self.received(&taken), len))
    }

    /// The packet whose header lies at `at`, with `room` bytes up to the next, and its fields for status, captured and true
    /// length and its place at these offsets; and its true length.
    fn described(
        &self,
        at: usize,
        room: usize,
        [status, captured, len, place]: [usize; 4],
    ) -> (Taken, usize) {
        let status = self.word(at + status) as u32;
        let (captured, len) = (self.word(at + captured), self.word(at + len));
        let place = self.word(at + place) & 0xffff;
        // The kernel made these; a wrong one would be its fault, and is dropped as a cut packet.
        let fits = place >= self.vnet_bytes && place + captured <= room;
        let is_cut = !fits || captured < len;
        let is_unfinished = status & libc::TP_STATUS_CSUMNOTREADY != 0;
        let is_beside = self.says_beside(status);
        let (at, filled) = if fits { (at + place, captured) } else { (self.vnet_bytes, 0) };
        (Taken { at, len: filled, is_cut, is_beside, is_unfinished }, len)
    }

    fn take_block(&mut self, block: usize) {
        let (count, mut at) = (self.word(block + 12), self.word(block + 16));
        for _ in 0..count {
            if at + 48 > CLOSED_BLOCK_BYTES {
                break;
            }
            let next = self.word(block + at);
            let taken = self.described(block + at, CLOSED_BLOCK_BYTES - at, BLOCK_FIELDS).0;
            self.taken.push(taken);
            at += next;
        }
    }

    /// A packet of those that the last [`Ring::advance`] took waits beside the ring.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn is_beside(&self, index: usize) -> bool {
        self.taken[index].is_beside
    }

    /// A packet of those that the last [`Ring::advance`] took; `None` for one that was cut.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn packet(&self, index: usize) -> Option<Received<'_>> {
        let taken = self.taken[index];
        (!taken.is_cut).then(|| self.received(&taken))
    }

    fn received(&self, taken: &Taken) -> Received<'_> {
        let (Taken { at, len, is_unfinished, .. }, before) = (*taken, self.vnet_bytes);
        assert!(at >= before && at + len <= self.len);
        // SAFETY: in bounds; in a slot or block that is ours: it was taken, or its status was seen to say so, and stays so until
        // it is given back, which needs `&mut self`.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(at - before), before + len)
        };
        let (vnet, bytes) = bytes.split_at(before);
        let vnet = (before > 0).then_some(vnet);
        Received { vnet, bytes, is_unfinished }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` made; every slice of it borrowed `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
