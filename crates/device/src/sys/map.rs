//! A sealed file of shared memory, mapped: a control area, then a ring that is mapped twice in a
//! row, so that every piece of the ring is one slice wherever it starts.
//!
//! ```text
//! ┌─ control ─┬──── ring ────┬─ the same ring ─┐
//! 0       CONTROL_BYTES  + ring_bytes     + ring_bytes
//! ```

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Bytes before the ring: a whole number of pages on every machine.
pub(crate) const CONTROL_BYTES: usize = 1 << 16;

/// A mapping; the file may be closed after it was made.
///
/// Invariant: `base .. base + CONTROL_BYTES + 2 * ring_bytes` is mapped, readable, and writable when
/// `writable`, for as long as the mapping lives; `ring_bytes` is a power of two.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    ring_bytes: usize,
    writable: bool,
    /// Keeps it mapped.
    _reservation: Arc<Reservation>,
}

/// Addresses that are ours, whatever is mapped there.
#[derive(Debug)]
struct Reservation {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: addresses of the process; they are not accessed by it, and given back once.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

// SAFETY: the mapping belongs to the process, not to a thread; what it gives out by `&self` is atomic
// or read-only.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps control area and ring of `fd`, which is `CONTROL_BYTES + ring_bytes` long. A file that is
    /// shorter, or gets shorter, makes accesses fail with a signal: the caller checks size and seals.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(fd: BorrowedFd<'_>, ring_bytes: usize, writable: bool) -> io::Result<Self> {
        assert!(ring_bytes.is_power_of_two() && ring_bytes >= CONTROL_BYTES);
        let len = CONTROL_BYTES + 2 * ring_bytes;
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
        let base =
            unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on dropping it unmaps everything, whatever was mapped over it.
        let reservation = Arc::new(Reservation { base, len });
        let ring = base.as_ptr().wrapping_add(CONTROL_BYTES);
        let second = ring.wrapping_add(ring_bytes);
        // SAFETY: MAP_FIXED replaces only pages of the reservation just made, which nobody uses yet:
        // `CONTROL_BYTES + ring_bytes` from its start, and `ring_bytes` from there to its end.
        unsafe {
            mmap(base.as_ptr().cast(), CONTROL_BYTES + ring_bytes, protection, flags, fd, 0)?;
            mmap(second.cast(), ring_bytes, protection, flags, fd, CONTROL_BYTES as u64)?;
        }
        Ok(Mapping { base, ring_bytes, writable, _reservation: reservation })
    }

    /// The peer's view of this mapping at the same addresses. By them ThreadSanitizer tells which accesses
    /// meet; two mappings of one file have none in common.
    #[cfg(test)]
    pub fn peer_view(&self) -> Self {
        Mapping {
            base: self.base,
            ring_bytes: self.ring_bytes,
            writable: false,
            _reservation: Arc::clone(&self._reservation),
        }
    }

    /// Length of the ring in bytes.
    pub fn ring_bytes(&self) -> usize {
        self.ring_bytes
    }

    /// The word at byte `at` of the control area, which is a multiple of 8.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < CONTROL_BYTES);
        // SAFETY: in bounds and aligned (asserted; the base is page-aligned), mapped as long as
        // `self`, and never given out as anything but an atomic. Loads are all that is done to it when
        // the mapping is read-only (`store` asserts).
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Reads a control word, with acquire order.
    pub fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Writes a control word, with release order.
    ///
    /// # Panics
    /// When the mapping is read-only.
    pub fn store(&self, at: usize, value: u64) {
        assert!(self.writable);
        self.word(at).store(value, Ordering::Release);
    }

    /// Where a position lies in the ring.
    fn at(&self, position: u64) -> usize {
        CONTROL_BYTES + (position as usize & (self.ring_bytes - 1))
    }

    /// Reads the eight bytes at `position`, a multiple of 8, exactly once.
    pub fn load_ring(&self, position: u64) -> u64 {
        let at = self.at(position);
        assert!(at.is_multiple_of(8));
        // SAFETY: in bounds (`at` is at most the last word of the first ring) and aligned. The other
        // side may write it at any time, which an atomic load allows.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()).load(Ordering::Relaxed) }
    }

    /// `len` bytes from `position`.
    ///
    /// When the mapping is read-only the other process can change the bytes while they are read. It
    /// cannot move or unmap them. See [`Shm`](crate::shm::Shm) for what a reader must do.
    pub fn slice(&self, position: u64, len: usize) -> &[u8] {
        assert!(len <= self.ring_bytes);
        let at = self.at(position);
        // SAFETY: `at + len ≤ CONTROL_BYTES + 2 * ring_bytes`, all mapped and initialised (new pages
        // of the file are zero). This side does not write it while the slice lives: it can only by
        // `slice_mut`, which borrows exclusively. Another process may, against the letter of the
        // language: the loads then give bytes of its choice, and nothing here or in the readers
        // decides on memory safety by them (lengths come from `load_ring` and are checked).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(at), len) }
    }

    /// `len` bytes from `position`, to write.
    ///
    /// # Panics
    /// When the mapping is read-only.
    pub fn slice_mut(&mut self, position: u64, len: usize) -> &mut [u8] {
        assert!(self.writable && len <= self.ring_bytes);
        let at = self.at(position);
        // SAFETY: in bounds as in `slice`; exclusive within the process by `&mut self`, and the seal
        // keeps other processes from writing. No byte appears twice, as `len ≤ ring_bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(at), len) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `Mapping::new` reserved; every slice of it borrowed a mapping.
        // Failing would only leak address space.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
