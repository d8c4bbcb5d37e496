//! Words that the threads of a process share, and that a forked child finds zero (`MADV_WIPEONFORK`): for what is its
//! parent's alone. After `vfork` they are the parent's still, which waits.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A multiple of a page of any machine.
const PAGE: usize = 1 << 16;

/// Such words, zero at first. Memory is taken as they are touched.
#[derive(Debug)]
pub struct Wiped {
    /// Invariant: `count` words are mapped from here, readable and writable, as long as this lives.
    words: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only used by atomic operations.
unsafe impl Send for Wiped {}
// SAFETY: as above.
unsafe impl Sync for Wiped {}

fn len(count: usize) -> usize {
    (8 * count).next_multiple_of(PAGE)
}

impl Wiped {
    /// `count` words.
    ///
    /// # Errors
    /// No memory is left; the kernel is older than Linux 4.14.
    pub fn new(count: usize) -> io::Result<Wiped> {
        let (len, protection) = (len(count), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let new = Wiped { words: NonNull::new(base.cast()).expect("no mapping lies at 0"), count };
        // SAFETY: all of the mapping just made, of which zeros keep their meaning.
        unsafe { madvise(base, len, Advice::LinuxWipeOnFork)? };
        Ok(new)
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the invariant; a mapping begins at a page, which is aligned for words, and any bytes are integers.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        // SAFETY: by the invariant; nobody has a reference, for this was lent by `&mut`.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), len(self.count)) };
    }
}
