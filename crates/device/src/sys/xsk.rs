//! The memory that an AF_XDP socket shares with the kernel (Linux `Documentation/networking/af_xdp.rst`): frames,
//! and four rings of places in them.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::sockopt;
use rustix::net::xdp::{
    XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING,
    XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};

/// `struct xdp_desc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub at: u64,
    pub len: u32,
    pub options: u32,
}

/// A mapping, undone when dropped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; nothing that points into it outlives its owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One ring of `T`, one side of which is ours.
///
/// Invariant: the mapping holds both indices, the flags and `mask + 1` entries at these places, for as long
/// as this lives. Between the indices lie entries of whoever consumes.
struct Ring<T> {
    mapping: Mapping,
    offsets: XdpRingOffset,
    mask: u32,
    /// Our index, which the kernel only reads.
    own: u32,
    _entries: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(
        fd: BorrowedFd<'_>,
        entries: u32,
        offsets: XdpRingOffset,
        page: u64,
    ) -> io::Result<Self> {
        assert!(entries.is_power_of_two());
        let len = offsets.desc as usize + entries as usize * size_of::<T>();
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe {
            mmap(ptr::null_mut(), len, protection, flags | MapFlags::POPULATE, fd, page)?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { base, len };
        Ok(Ring { mapping, offsets, mask: entries - 1, own: 0, _entries: std::marker::PhantomData })
    }

    fn word(&self, at: u64) -> &AtomicU32 {
        debug_assert!(at as usize + 4 <= self.mapping.len);
        // SAFETY: the kernel gave these places, aligned and inside the mapping; the words are shared with it
        // and only touched atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.base.as_ptr().add(at as usize).cast()) }
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & self.mask) as usize * size_of::<T>();
        // In bounds by the mask.
        self.mapping.base.as_ptr().wrapping_add(at).cast()
    }

    /// How many entries a producer can put.
    fn room(&self) -> u32 {
        let consumer = self.word(self.offsets.consumer).load(Ordering::Acquire);
        (self.mask + 1) - self.own.wrapping_sub(consumer).min(self.mask + 1)
    }

    /// Puts an entry, seen after [`Ring::publish`]. False when there is no room.
    fn put(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        // SAFETY: in bounds and aligned; there is room, so the entry is the producer's, who we are.
        unsafe { self.entry(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
        true
    }

    fn publish(&self) {
        self.word(self.offsets.producer).store(self.own, Ordering::Release);
    }

    /// Takes an entry, if there is one; the kernel has its place back after [`Ring::release`].
    fn take(&mut self) -> Option<T> {
        let producer = self.word(self.offsets.producer).load(Ordering::Acquire);
        if producer == self.own {
            return None;
        }
        // SAFETY: in bounds and aligned; the producer has published it, so it is ours until `release`, and
        // every `T` here is of numbers.
        let entry = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(entry)
    }

    fn release(&self) {
        self.word(self.offsets.consumer).store(self.own, Ordering::Release);
    }

    /// Nothing that we put waits to be consumed.
    fn is_drained(&self) -> bool {
        self.word(self.offsets.consumer).load(Ordering::Acquire) == self.own
    }

    /// The kernel sleeps until it is called.
    fn wants_call(&self) -> bool {
        let flags = self.offsets.flags;
        flags.is_none_or(|at| self.word(at).load(Ordering::Relaxed) & 1 != 0)
    }
}

/// The packet goes on in the next descriptor (`XDP_PKT_CONTD`).
const CONTINUES: u32 = 1;
/// Most frames that the kernel takes for one packet (`MAX_SKB_FRAGS`).
const MOST_PIECES: usize = 17;

/// A received packet.
#[derive(Clone, Copy)]
struct Packet {
    /// Where it begins, in `frames` or in `joined`.
    at: usize,
    len: usize,
    is_joined: bool,
}

/// What the kernel has put into a frame.
///
/// # Panics
/// When it says that it lies beyond the frames.
///
/// # Safety
/// The frame is out of the receive ring, and goes back into the fill ring after what is borrowed here alone: until
/// then the kernel does not write to it.
unsafe fn received(frames: &Mapping, at: usize, len: usize) -> &[u8] {
    assert!(at.checked_add(len).is_some_and(|end| end <= frames.len));
    // SAFETY: in bounds; the caller vouches that nobody writes to it.
    unsafe { std::slice::from_raw_parts(frames.base.as_ptr().add(at), len) }
}

/// Frames, and who has them: the kernel, to fill or to send; we, free or with a received packet in it.
///
/// Invariant: each frame is at one place only: in the fill ring or on its way through the kernel to `taken`; in
/// `free`; or sent and not completed.
pub(crate) struct Memory {
    frames: Mapping,
    frame_bytes: usize,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<Descriptor>,
    tx: Ring<Descriptor>,
    /// Received, ours until the next `receive`.
    taken: Vec<Descriptor>,
    /// The packets in `taken`; of one that has not come to its end yet the first `begun` frames.
    packets: Vec<Packet>,
    begun: usize,
    /// Packets of several frames, put together.
    joined: Vec<u8>,
    free: Vec<u64>,
}

// SAFETY: mappings belong to the process, not to a thread.
unsafe impl Send for Memory {}

/// Bytes before a received packet, so that what follows an Ethernet header is aligned.
const HEADROOM: u32 = 2;

impl Memory {
    /// Gives the socket `2 * entries` frames: half to receive, half to send.
    pub fn new(fd: BorrowedFd<'_>, entries: u32, frame_bytes: usize) -> io::Result<Memory> {
        let len = 2 * entries as usize * frame_bytes;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, flags)? };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let frames = Mapping { base, len };
        let region = XdpUmemReg {
            addr: base.as_ptr() as u64,
            len: len as u64,
            chunk_size: frame_bytes as u32,
            headroom: HEADROOM,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(fd, region)?;
        sockopt::set_xdp_umem_fill_ring_size(fd, entries)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, entries)?;
        sockopt::set_xdp_rx_ring_size(fd, entries)?;
        sockopt::set_xdp_tx_ring_size(fd, entries)?;
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let mut fill = Ring::new(fd, entries, offsets.fr, XDP_UMEM_PGOFF_FILL_RING)?;
        for frame in 0..u64::from(entries) {
            fill.put(frame * frame_bytes as u64);
        }
        fill.publish();
        Ok(Memory {
            frames,
            frame_bytes,
            fill,
            completion: Ring::new(fd, entries, offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING)?,
            rx: Ring::new(fd, entries, offsets.rx, XDP_PGOFF_RX_RING)?,
            tx: Ring::new(fd, entries, offsets.tx, XDP_PGOFF_TX_RING)?,
            taken: Vec::with_capacity(entries as usize),
            packets: Vec::with_capacity(entries as usize),
            begun: 0,
            joined: Vec::new(),
            free: (entries..2 * entries).map(|n| u64::from(n) * frame_bytes as u64).collect(),
        })
    }

    /// Gives the last packets' frames back and takes at most `most` packets that came; returns how many.
    pub fn receive(&mut self, most: usize) -> usize {
        let done = self.taken.len() - self.begun;
        if done > 0 {
            for packet in self.taken.drain(..done) {
                // The fill ring has room for every frame that came out of it.
                self.fill.put(packet.at - packet.at % self.frame_bytes as u64);
            }
            self.fill.publish();
        }
        self.packets.clear();
        self.joined.clear();
        let mut came = false;
        while self.packets.len() < most {
            let Some(descriptor) = self.rx.take() else { break };
            came = true;
            self.taken.push(descriptor);
            self.begun += 1;
            if descriptor.options & CONTINUES == 0 {
                let packet = self.join(self.taken.len() - self.begun);
                self.packets.push(packet);
                self.begun = 0;
            }
        }
        if came {
            self.rx.release();
        }
        self.packets.len()
    }

    /// The packet whose frames are those of `taken` from the one of this number on.
    fn join(&mut self, first: usize) -> Packet {
        if let [Descriptor { at, len, .. }] = self.taken[first..] {
            return Packet { at: at as usize, len: len as usize, is_joined: false };
        }
        let begin = self.joined.len();
        for n in first..self.taken.len() {
            let Descriptor { at, len, .. } = self.taken[n];
            // SAFETY: the frame came out of the receive ring and is in `taken`.
            let piece = unsafe { received(&self.frames, at as usize, len as usize) };
            self.joined.extend_from_slice(piece);
        }
        Packet { at: begin, len: self.joined.len() - begin, is_joined: true }
    }

    /// The kernel fills no frame before it is called.
    pub fn receive_wants_call(&self) -> bool {
        self.fill.offsets.flags.is_some() && self.fill.wants_call()
    }

    /// A packet of the last `receive`.
    ///
    /// # Panics
    /// When there is none of this number.
    pub fn packet(&self, index: usize) -> &[u8] {
        let Packet { at, len, is_joined } = self.packets[index];
        if is_joined {
            return &self.joined[at..at + len];
        }
        // SAFETY: the frame came out of the receive ring and is in `taken` until the next `receive`, which takes
        // `&mut self`.
        unsafe { received(&self.frames, at, len) }
    }

    /// The longest packet that can be sent in frames of this size, and one of them each.
    pub fn room(&self, in_pieces: bool) -> usize {
        if in_pieces { self.frame_bytes * MOST_PIECES } else { self.frame_bytes }
    }

    /// Takes back frames that were sent.
    pub fn reclaim(&mut self) {
        let before = self.free.len();
        while let Some(at) = self.completion.take() {
            self.free.push(at - at % self.frame_bytes as u64);
        }
        if self.free.len() > before {
            self.completion.release();
        }
    }

    /// Puts a packet of `len` bytes, which are in `pieces`, among those to send, in as many frames as it takes.
    /// False when there is no room.
    pub fn send<'a>(&mut self, len: usize, mut pieces: impl Iterator<Item = &'a [u8]>) -> bool {
        let count = len.div_ceil(self.frame_bytes);
        assert!((1..=MOST_PIECES).contains(&count));
        if (self.tx.room() as usize) < count || self.free.len() < count {
            return false;
        }
        let (mut piece, mut left) = (&[][..], len);
        for _ in 0..count {
            let at = self.free.pop().expect("as many as it takes");
            let room = left.min(self.frame_bytes);
            debug_assert!(at as usize + room <= self.frames.len);
            // SAFETY: a frame in `free` lies in the mapping and nobody else has it, nor a slice of it.
            let frame = unsafe {
                std::slice::from_raw_parts_mut(self.frames.base.as_ptr().add(at as usize), room)
            };
            let mut filled = 0;
            while filled < room {
                if piece.is_empty() {
                    piece = pieces.next().expect("as many bytes as it says");
                    continue;
                }
                let (now, later) = piece.split_at(piece.len().min(room - filled));
                frame[filled..filled + now.len()].copy_from_slice(now);
                (piece, filled) = (later, filled + now.len());
            }
            left -= room;
            let options = if left > 0 { CONTINUES } else { 0 };
            self.tx.put(Descriptor { at, len: room as u32, options });
        }
        true
    }

    /// Shows the kernel what [`Memory::send`] put; true when it has to be called.
    pub fn publish(&self) -> bool {
        self.tx.publish();
        self.tx.wants_call()
    }

    /// The kernel has taken all that is to be sent.
    pub fn is_drained(&self) -> bool {
        self.tx.is_drained()
    }
}
