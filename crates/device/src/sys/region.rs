//! Memory that frames leave from without a copy: pages of an unnamed file, each region mapped once.
//!
//! The kernel takes the pages themselves with `sendfile`, where `sendmsg` would copy their bytes into
//! its own. So the bytes of a frame that was sent stay as they are until its peer has acknowledged it;
//! the retransmission memory of a connection has to keep them anyway.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use crate::caches::shares_last_cache;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Regions begin and end with a page of every machine.
const PAGE_BYTES: usize = 1 << 16;
/// One that is at least so large begins where a huge page can.
const HUGE_BYTES: usize = 2 << 20;

/// Of what size the pages of a region can be, in bytes.
const fn page_bytes(len: usize) -> usize {
    if len >= HUGE_BYTES { HUGE_BYTES } else { PAGE_BYTES }
}

/// An unnamed file that regions are parts of. It grows as regions are made, holds pages only where
/// somebody wrote, and gives those of a dropped region back to the system.
#[derive(Clone, Debug)]
pub(crate) struct RegionFile(Arc<File>);

#[derive(Debug)]
struct File {
    fd: OwnedFd,
    extents: Mutex<Extents>,
}

#[derive(Debug, Default)]
struct Extents {
    /// Length of the file.
    end: u64,
    /// Offset and length of parts that no region uses.
    free: Vec<(u64, usize)>,
}

impl RegionFile {
    pub fn new() -> io::Result<Self> {
        let fd = memfd_create("fusewire-frames", MemfdFlags::CLOEXEC)?;
        Ok(RegionFile(Arc::new(File { fd, extents: Mutex::default() })))
    }

    /// A region of at least `len` bytes, all zero.
    pub fn region(&self, len: usize) -> io::Result<Region> {
        let len = len.max(1).next_multiple_of(page_bytes(len));
        let offset = self.0.take(len)?;
        match Pages::map(self.0.clone(), offset, len) {
            Ok(pages) => {
                let is_far = !shares_last_cache();
                Ok(Region {
                    memory: Memory::Pages(pages),
                    is_lent: true,
                    is_far,
                    is_written: false,
                })
            }
            Err(error) => {
                self.0.give(offset, len);
                Err(error)
            }
        }
    }
}

impl File {
    /// A part of the file that no region uses, `len` bytes long, as if never written.
    fn take(&self, len: usize) -> io::Result<u64> {
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = extents.free.iter().position(|(_, free)| *free == len) {
            return Ok(extents.free.swap_remove(at).0);
        }
        let offset = extents.end.next_multiple_of(page_bytes(len) as u64);
        let end = offset + len as u64;
        ftruncate(&self.fd, end)?;
        extents.end = end;
        Ok(offset)
    }

    /// Gives the pages of a part back to the system; they read as zero.
    fn empty(&self, offset: u64, len: usize) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.fd, hole, offset, len as u64)?)
    }

    fn give(&self, offset: u64, len: usize) {
        // A part that could not be emptied is not used again.
        if self.empty(offset, len).is_ok() {
            let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
            extents.free.push((offset, len));
        }
    }
}

/// A mapped part of the file.
///
/// Invariant: `base .. base + len` is mapped, readable and writable as long as this lives, and no
/// other mapping has the same part of the file.
#[derive(Debug)]
struct Pages {
    file: Arc<File>,
    offset: u64,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is borrowed as any owned memory.
unsafe impl Send for Pages {}
// SAFETY: as above; by `&self` it is only read.
unsafe impl Sync for Pages {}

impl Pages {
    fn map(file: Arc<File>, offset: u64, len: usize) -> io::Result<Self> {
        let room = len + HUGE_BYTES;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
        let start = unsafe {
            mmap_anonymous(ptr::null_mut(), room, ProtFlags::empty(), MapFlags::PRIVATE)?
        }
        .cast::<u8>();
        // A huge page of the file has to be one of the mapping.
        let skip = (offset as usize).wrapping_sub(start as usize) % HUGE_BYTES;
        let base = start.wrapping_add(skip);
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: MAP_FIXED replaces only a part of the reservation just made, which nobody uses yet.
        let mapped = unsafe {
            mmap(base.cast(), len, protection, flags | MapFlags::FIXED, &file.fd, offset)
        };
        if let Err(error) = mapped {
            // SAFETY: all of the reservation, which nobody uses.
            let _ = unsafe { munmap(start.cast(), room) };
            return Err(error.into());
        }
        // SAFETY: what lies before the region and behind it (`skip < HUGE_BYTES`): parts of the
        // reservation that nobody uses. Failing would only leak address space.
        unsafe {
            if skip > 0 {
                let _ = munmap(start.cast(), skip);
            }
            let _ = munmap(base.wrapping_add(len).cast(), HUGE_BYTES - skip);
        }
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages { file, offset, base, len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `map` made; every slice of it borrowed `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        self.file.give(self.offset, self.len);
    }
}

#[derive(Debug)]
enum Memory {
    Pages(Pages),
    Private(Anonymous),
}

/// Pages of this process only, which hold memory only where somebody wrote.
///
/// Invariant: `base .. base + len` is mapped, readable and writable as long as this lives; with `len` 0 nothing
/// is mapped and `base` dangles.
#[derive(Debug)]
struct Anonymous {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: as for `Pages`.
unsafe impl Send for Anonymous {}
// SAFETY: as for `Pages`.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    fn map(len: usize) -> Anonymous {
        if len == 0 {
            return Anonymous { base: NonNull::dangling(), len };
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
        match base.ok().and_then(|base| NonNull::new(base.cast::<u8>())) {
            Some(base) => Anonymous { base, len },
            // As any allocation that fails.
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; PAGE_BYTES]>()),
        }
    }

    /// Gives the pages back; they read as zero.
    fn release(&mut self) {
        if self.len > 0 {
            // SAFETY: exactly the range that `map` made, borrowed exclusively by `&mut self`; its pages stay
            // mapped and are zero afterwards.
            let _ = unsafe { madvise(self.base.as_ptr().cast(), self.len, Advice::LinuxDontNeed) };
        }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: exactly the range that `map` made; every slice of it borrowed `self`.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        }
    }
}

/// Memory to send frames from; see [`Device::transmit_from`](crate::Device::transmit_from). Bytes in
/// it are zero until they are written.
#[derive(Debug)]
pub struct Region {
    memory: Memory,
    pub(super) is_lent: bool,
    pub(super) is_far: bool,
    /// It was borrowed to be written since it was made or released.
    is_written: bool,
}

impl Region {
    /// Memory of this process only: frames from it are copied.
    pub fn private(len: usize) -> Region {
        let memory = Memory::Private(Anonymous::map(len));
        Region { memory, is_lent: false, is_far: false, is_written: false }
    }

    /// The device can take this memory itself: the kernel may hold pages of it in frames on their way, also
    /// after their peer has said that it has them.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Whoever takes it without a copy may be a processor with which this one has no cache in common
    /// ([`shares_last_cache`]): what is written here is better written past the caches.
    pub fn is_far(&self) -> bool {
        self.is_far
    }

    /// Gives the pages back to the system until they are written again. What was in them is lost.
    pub fn release(&mut self) {
        if !std::mem::replace(&mut self.is_written, false) {
            return;
        }
        match &mut self.memory {
            // What cannot be given back stays ours.
            Memory::Pages(pages) => drop(pages.file.empty(pages.offset, pages.len)),
            Memory::Private(pages) => pages.release(),
        }
    }

    /// Makes huge pages of the memory where the kernel can (Linux 6.1): it takes them faster. Costs as
    /// much as writing all of the region, and the memory is there from then on.
    pub fn make_huge(&mut self) {
        let Memory::Pages(pages) = &self.memory else { return };
        let len = pages.len / HUGE_BYTES * HUGE_BYTES;
        if len > 0 {
            // SAFETY: within the mapping; the advice keeps its contents. Refused, all stays as it is.
            let _ = unsafe { libc::madvise(pages.base.as_ptr().cast(), len, libc::MADV_COLLAPSE) };
        }
    }

    /// The file, and the offset in it of `bytes`, which lie in this region; `None` for private memory
    /// or bytes that lie elsewhere.
    pub(crate) fn place(&self, bytes: &[u8]) -> Option<(BorrowedFd<'_>, u64)> {
        let Memory::Pages(pages) = &self.memory else { return None };
        let at = (bytes.as_ptr() as usize).checked_sub(pages.base.as_ptr() as usize)?;
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= pages.len);
        fits.then(|| (pages.file.fd.as_fd(), pages.offset + at as u64))
    }
}

impl Memory {
    fn span(&self) -> (NonNull<u8>, usize) {
        match self {
            Memory::Pages(pages) => (pages.base, pages.len),
            Memory::Private(pages) => (pages.base, pages.len),
        }
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let (base, len) = self.memory.span();
        // SAFETY: all of it is mapped and initialised (new pages are zero) and lives as long as `self`;
        // where `len` is 0, `base` only has to be aligned, and is. It is written only by `&mut self`: no
        // other mapping has these pages, and the kernel, which may hold some of them in frames on their
        // way, only reads.
        unsafe { std::slice::from_raw_parts(base.as_ptr(), len) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_written = true;
        let (base, len) = self.memory.span();
        // SAFETY: as above, and exclusive by `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_apart_and_new_ones_are_zero() {
        let file = RegionFile::new().unwrap();
        let mut regions: Vec<Region> = (0..4).map(|_| file.region(100_000).unwrap()).collect();
        for (i, region) in regions.iter_mut().enumerate() {
            assert!(region.len() >= 100_000 && region.iter().all(|b| *b == 0));
            region.fill(i as u8 + 1);
        }
        for (i, region) in regions.iter().enumerate() {
            assert!(region.iter().all(|b| *b == i as u8 + 1));
        }
        let (_, offset) = regions[1].place(&regions[1][10..20]).unwrap();
        drop(regions.remove(1));
        let again = file.region(100_000).unwrap();
        assert_eq!(again.place(&again[10..20]).unwrap().1, offset, "the part is used again");
        assert!(again.iter().all(|b| *b == 0));
    }

    #[test]
    fn what_is_released_is_zero_and_can_be_written_again() {
        let file = RegionFile::new().unwrap();
        for mut region in [file.region(100_000).unwrap(), Region::private(100_000)] {
            region.fill(7);
            region.release();
            assert!(region.iter().all(|b| *b == 0));
            region[5] = 1;
            assert_eq!(region[4..7], [0, 1, 0]);
            region.release();
            assert_eq!(region[5], 0);
        }
        Region::private(0).release();
    }

    #[test]
    fn huge_pages_keep_what_was_written() {
        let file = RegionFile::new().unwrap();
        let small = file.region(1000).unwrap();
        let mut large = file.region(2 * HUGE_BYTES).unwrap();
        assert_eq!(large.as_ptr() as usize % HUGE_BYTES, 0);
        for (i, b) in large.iter_mut().enumerate().step_by(1000) {
            *b = i as u8 | 1;
        }
        large.make_huge();
        for (i, b) in large.iter().enumerate() {
            assert_eq!(*b, if i % 1000 == 0 { i as u8 | 1 } else { 0 });
        }
        assert!(small.iter().all(|b| *b == 0));
    }

    #[test]
    fn only_bytes_of_the_region_have_a_place() {
        let file = RegionFile::new().unwrap();
        let (a, b) = (file.region(1).unwrap(), file.region(1).unwrap());
        assert!(a.place(&a).is_some());
        assert!(a.place(&b).is_none() && a.place(&[0; 8]).is_none());
        let private = Region::private(100);
        assert!(private.place(&private[..10]).is_none());
    }
}
