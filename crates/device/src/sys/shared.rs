//! A sealed file of memory that two processes share: one makes it, the other maps what it is given. Nothing of it is
//! believed: words are loaded once, by atomic operations; places and lengths are the caller's own, and checked here.

#[cfg(target_arch = "x86_64")]
use std::arch::{
    asm,
    x86_64::{_MM_HINT_T0, _mm_prefetch},
};
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::io::{Errno, IoSliceMut};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::thread::futex;

use super::copy::copy;
use super::wiped::Wiped;

/// Who may write to a file of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Whoever has it.
    All,
    /// Its maker alone.
    Maker,
}

/// A mapping of such a file.
#[derive(Debug)]
pub struct Shared {
    /// Invariant: `len` bytes from here are mapped, readable, and writable when `is_writable`, as long as this lives; the
    /// file is that long and cannot become shorter.
    base: NonNull<u8>,
    len: usize,
    is_writable: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for Shared {}
// SAFETY: what is done by `&self` is atomic, or copies bytes of which nobody has a reference but by `&mut self` and
// `slice`, which says what its caller has to expect.
unsafe impl Sync for Shared {}

/// Bytes that a cache fetches at once.
const LINE: usize = 64;

/// Nobody shortens or lengthens the file, nor takes that back.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A sequentially consistent fence right behind a word was changed by one operation that also reads it
/// ([`Shared::compare_exchange`] and others, or those of an [`AtomicU64`]): on x86 each of those is one already.
#[inline]
pub fn fence_behind_change() {
    match cfg!(target_arch = "x86_64") {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

impl Shared {
    /// Makes a file of `len` bytes of zeros, which take memory as they are touched, and maps it to be written.
    ///
    /// # Errors
    /// No memory or descriptor is left.
    pub fn create(len: usize, writers: Writers) -> io::Result<(OwnedFd, Shared)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match memfd_create("fusewire", flags | MemfdFlags::NOEXEC_SEAL) {
            // NOEXEC_SEAL came with Linux 6.3; without it the file is merely executable.
            Err(Errno::INVAL) => memfd_create("fusewire", flags)?,
            result => result?,
        };
        ftruncate(&fd, len as u64)?;
        let mapping = Shared::map(fd.as_fd(), len, true)?;
        let seals = match writers {
            Writers::All => SEALS,
            Writers::Maker => SEALS | SealFlags::FUTURE_WRITE,
        };
        fcntl_add_seals(&fd, seals)?;
        Ok((fd, mapping))
    }

    /// Maps a file that somebody else has made; a forked child does not find the mapping.
    ///
    /// # Errors
    /// `InvalidData`: it is not as long as said, or may become shorter. What the kernel says.
    pub fn adopt(fd: BorrowedFd<'_>, len: usize, is_writable: bool) -> io::Result<Shared> {
        let is_sealed = fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        if !is_sealed || u64::try_from(fstat(fd)?.st_size) != Ok(len as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let shared = Shared::map(fd, len, is_writable)?;
        // SAFETY: all of the mapping just made; what it changes is what a child gets.
        unsafe { madvise(shared.base.as_ptr().cast(), len, Advice::LinuxDontFork)? };
        Ok(shared)
    }

    fn map(fd: BorrowedFd<'_>, len: usize, is_writable: bool) -> io::Result<Shared> {
        let read = ProtFlags::READ;
        let protection = if is_writable { read | ProtFlags::WRITE } else { read };
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, fd, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { base, len, is_writable })
    }

    /// The word at byte `at`.
    #[inline]
    fn word(&self, at: usize, to_write: bool) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len && (self.is_writable || !to_write));
        // SAFETY: in bounds and aligned (asserted; the base is page-aligned), mapped as long as `self`. Loads are all that
        // is done to it when the mapping is read-only.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Reads a word, with acquire order.
    ///
    /// # Panics
    /// As all of these: beyond the end, or not at a multiple of 8.
    #[inline]
    pub fn load(&self, at: usize) -> u64 {
        self.word(at, false).load(Ordering::Acquire)
    }

    /// Writes a word, with release order.
    ///
    /// # Panics
    /// As [`Shared::load`], and when the mapping is read-only, as with all that write.
    #[inline]
    pub fn store(&self, at: usize, value: u64) {
        self.word(at, true).store(value, Ordering::Release);
    }

    /// Puts `new` in place of `old`.
    ///
    /// # Errors
    /// What there is in place of `old`.
    #[inline]
    pub fn compare_exchange(&self, at: usize, old: u64, new: u64) -> Result<u64, u64> {
        let word = self.word(at, true);
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Sets bits; what was there.
    #[inline]
    pub fn fetch_or(&self, at: usize, bits: u64) -> u64 {
        self.word(at, true).fetch_or(bits, Ordering::AcqRel)
    }

    /// Puts `value` there; what was there.
    #[inline]
    pub fn swap(&self, at: usize, value: u64) -> u64 {
        self.word(at, true).swap(value, Ordering::AcqRel)
    }

    /// The upper half of a word, as the kernel looks at it.
    fn upper(&self, at: usize) -> &AtomicU32 {
        let half = ptr::from_ref(self.word(at, false)).cast::<AtomicU32>();
        let half = half.wrapping_add(usize::from(cfg!(target_endian = "little")));
        // SAFETY: half of a word that lives as long as `self`, aligned for it. Nothing here loads or stores by this reference:
        // its address goes to the kernel.
        unsafe { &*half }
    }

    /// Sleeps while the upper half of a word is this, for so long at most: until somebody [wakes](Shared::wake) who sleeps there, in
    /// any process. It may end sooner.
    ///
    /// # Panics
    /// As [`Shared::load`].
    pub fn sleep(&self, at: usize, upper: u32, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let _ = futex::wait(self.upper(at), futex::Flags::empty(), upper, limit.as_ref());
    }

    /// Wakes one who [sleeps](Shared::sleep) at a word; false when nobody does.
    ///
    /// # Panics
    /// As [`Shared::load`].
    pub fn wake(&self, at: usize) -> bool {
        futex::wake(self.upper(at), futex::Flags::empty(), 1) == Ok(1)
    }

    #[inline]
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
        self.base.as_ptr().wrapping_add(at)
    }

    /// Has the cache fetch what a thread is about to read, or to write, at these places, while it does something else: another
    /// processor may have it. Places beyond the end are fetched by nobody.
    #[inline]
    pub fn expect(&self, at: usize, len: usize, to_write: bool) {
        let end = at.saturating_add(len).min(self.len);
        for at in (at & !(LINE - 1)..end).step_by(LINE) {
            let line = self.base.as_ptr().wrapping_add(at);
            #[cfg(target_arch = "x86_64")]
            // SAFETY: neither changes what a program can see, whatever the address; a processor without `prefetchw` does nothing.
            unsafe {
                match to_write {
                    true => asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)),
                    false => _mm_prefetch::<_MM_HINT_T0>(line.cast()),
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (line, to_write);
        }
    }

    /// Copies bytes out, which others may write meanwhile: then they are of any value.
    ///
    /// # Panics
    /// As [`Shared::load`].
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let from = self.place(at, out.len());
        // SAFETY: in bounds (asserted), and `out` is the caller's, elsewhere. No reference to the source is made; bytes that
        // another process changes meanwhile are of any value, and any value is a byte.
        unsafe { copy(from, out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// As [`Shared::store`].
    #[inline]
    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.is_writable);
        let to = self.place(at, bytes.len());
        // SAFETY: as in `read`, the other way.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Reads from a file that has offsets, from one of them on, into two places, one after the other, until both are full; how much
    /// it gave. Nobody else in this process writes or reads there meanwhile.
    ///
    /// # Errors
    /// As `preadv(2)`.
    ///
    /// # Panics
    /// As [`Shared::store`], and when the places overlap.
    pub fn read_file(
        &self,
        file: BorrowedFd<'_>,
        offset: u64,
        places: [(usize, usize); 2],
    ) -> rustix::io::Result<usize> {
        assert!(self.is_writable);
        let [(a, a_len), (b, b_len)] = places;
        let [first, second] = places.map(|(at, len)| (self.place(at, len), len));
        // Neither sum overflows: each place was seen to end within the mapping.
        assert!(a + a_len <= b || b + b_len <= a);
        // SAFETY: in bounds, mapped and initialised, and the two share no byte (asserted), or one has none. They live for the
        // call, in which the kernel writes to them, and nobody else in this process, by the protocol of whoever shares it; nothing
        // is loaded from them.
        let [first, second] =
            [first, second].map(|(at, len)| unsafe { std::slice::from_raw_parts_mut(at, len) });
        rustix::io::preadv(file, &mut [IoSliceMut::new(first), IoSliceMut::new(second)], offset)
    }

    /// `len` bytes in place. Another process may change them at any time, even between two loads of one byte: whoever
    /// reads them decides nothing about memory by them.
    ///
    /// # Panics
    /// As [`Shared::load`].
    pub fn slice(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds, mapped and initialised. This process does not write there while the slice lives, by the
        // protocol of whoever shares it; another may, against the letter of the language: the loads then give bytes of its
        // choice, by which nothing is decided.
        unsafe { std::slice::from_raw_parts(self.place(at, len), len) }
    }

    /// Lends `fill` `len` bytes in place, to write, while the caller sees to it that no other thread of this process touches
    /// them. What another process writes there meanwhile stays, and may be what `fill` reads back: it had better not.
    ///
    /// # Panics
    /// As [`Shared::store`].
    pub fn write_by<T>(&self, at: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
        assert!(self.is_writable);
        // SAFETY: as in `slice`; exclusive within the process by the protocol of whoever shares it, as long as `fill` runs.
        fill(unsafe { std::slice::from_raw_parts_mut(self.place(at, len), len) })
    }

    /// `len` bytes in place, to write.
    ///
    /// # Panics
    /// As [`Shared::store`].
    pub fn slice_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        assert!(self.is_writable);
        // SAFETY: as in `slice`; exclusive within the process by `&mut self`.
        unsafe { std::slice::from_raw_parts_mut(self.place(at, len), len) }
    }

    /// The same of two places at once, each where it begins and how long it is.
    ///
    /// # Panics
    /// As [`Shared::store`], and when they overlap.
    pub fn slices_mut(&mut self, places: [(usize, usize); 2]) -> [&mut [u8]; 2] {
        assert!(self.is_writable);
        let [(a, a_len), (b, b_len)] = places;
        let [first, second] = places.map(|(at, len)| (self.place(at, len), len));
        // Neither sum overflows: each place was seen to end within the mapping.
        assert!(a + a_len <= b || b + b_len <= a);
        // SAFETY: as in `slice_mut`, and the two share no byte (asserted), or one has none.
        unsafe {
            [
                std::slice::from_raw_parts_mut(first.0, first.1),
                std::slice::from_raw_parts_mut(second.0, second.1),
            ]
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` has mapped; nobody has a reference. Failing would only leak address space.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Words of a pair of mappings: two bases, two lengths.
const PAIR: usize = 4;
/// In place of a base: somebody is about to put a pair there.
const IS_TAKEN: u64 = 1;

/// Pairs of mappings, of which the first may be written, that the threads of a process come to share one by one, and words
/// beside them. A forked child finds neither.
#[derive(Debug)]
pub struct Unforked {
    all: Wiped,
    pairs: usize,
}

/// A mapping that is [there](Unforked) for as long as that is.
#[derive(Debug)]
pub struct View<'a> {
    shared: ManuallyDrop<Shared>,
    of: PhantomData<&'a Unforked>,
}

impl Deref for View<'_> {
    type Target = Shared;
    #[inline]
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Unforked {
    /// Room for so many pairs, and words for whoever makes it.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new(pairs: usize, words: usize) -> io::Result<Unforked> {
        Ok(Unforked { all: Wiped::new(pairs * PAIR + words)?, pairs })
    }

    /// The words beside.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        &self.all.words()[self.pairs * PAIR..]
    }

    #[inline]
    fn pair(&self, index: usize) -> &[AtomicU64] {
        &self.all.words()[..self.pairs * PAIR][index * PAIR..][..PAIR]
    }

    /// Puts a pair in at `index`; false when there is one, and the mappings are gone.
    ///
    /// # Panics
    /// When the first cannot be written, or the second can.
    pub fn put(&self, index: usize, [written, read]: [Shared; 2]) -> bool {
        assert!(written.is_writable && !read.is_writable);
        let [first, second, len_of_first, len_of_second] = self.pair(index) else {
            return false;
        };
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        if first.compare_exchange(0, IS_TAKEN, acquire, relaxed).is_err() {
            return false;
        }
        let [written, read] = [written, read].map(ManuallyDrop::new);
        len_of_first.store(written.len as u64, relaxed);
        len_of_second.store(read.len as u64, relaxed);
        second.store(read.base.as_ptr().expose_provenance() as u64, relaxed);
        first.store(written.base.as_ptr().expose_provenance() as u64, Ordering::Release);
        true
    }

    /// The pair at `index`, if it is there.
    #[inline]
    pub fn get(&self, index: usize) -> Option<[View<'_>; 2]> {
        if index >= self.pairs {
            return None;
        }
        let [first, second, len_of_first, len_of_second] = self.pair(index) else { return None };
        let base = first.load(Ordering::Acquire);
        if base <= IS_TAKEN {
            return None;
        }
        let view = |base: u64, len: u64, is_writable| {
            let base = NonNull::new(ptr::with_exposed_provenance_mut(base as usize))?;
            // The invariant: base and length are those of a mapping that `put` has left here, and that is unmapped with
            // this alone; a forked child, which has not got it, does not find them either.
            let shared = ManuallyDrop::new(Shared { base, len: len as usize, is_writable });
            Some(View { shared, of: PhantomData })
        };
        let relaxed = Ordering::Relaxed;
        let written = view(base, len_of_first.load(relaxed), true)?;
        Some([written, view(second.load(relaxed), len_of_second.load(relaxed), false)?])
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        for [written, read] in (0..self.pairs).filter_map(|index| self.get(index)) {
            drop([written, read].map(|view| ManuallyDrop::into_inner(view.shared)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const LEN: usize = 1 << 16;

    #[test]
    fn what_its_maker_alone_may_write_others_read() {
        let (fd, mine) = Shared::create(LEN, Writers::Maker).unwrap();
        assert!(Shared::adopt(fd.as_fd(), LEN, true).is_err());
        let other = Shared::adopt(fd.as_fd(), LEN, false).unwrap();
        mine.write(LEN - 3, b"end");
        mine.store(8, 7);
        let mut end = [0; 3];
        other.read(LEN - 3, &mut end);
        assert_eq!((&end, other.slice(LEN - 3, 3), other.load(8)), (b"end", &b"end"[..], 7));
        assert!(std::panic::catch_unwind(|| other.store(8, 1)).is_err());
        assert!(std::panic::catch_unwind(|| other.write(0, b"x")).is_err());
        assert!(ftruncate(&fd, 0).is_err() && ftruncate(&fd, 1 << 20).is_err());
    }

    #[test]
    fn a_file_is_read_to_where_it_is_told() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::pwrite(&file, b"0123456789", 0).unwrap();
        let (fd, all) = Shared::create(LEN, Writers::All).unwrap();
        let read = |offset, places| all.read_file(file.as_fd(), offset, places);
        // The second lies before the first, as at the end of a ring.
        assert_eq!(read(1, [(LEN - 3, 3), (8, 4)]), Ok(7));
        assert_eq!((all.slice(LEN - 3, 3), all.slice(7, 6)), (&b"123"[..], &b"\x004567\0"[..]));
        assert_eq!(read(8, [(LEN - 3, 3), (8, 4)]), Ok(2), "what there is");
        assert_eq!((all.slice(LEN - 3, 3), all.slice(8, 4)), (&b"893"[..], &b"4567"[..]));
        assert_eq!(
            (read(10, [(0, 9), (9, 0)]), read(u64::MAX, [(0, 9), (9, 0)])),
            (Ok(0), Err(Errno::INVAL))
        );
        let refused = |all: &Shared, places| {
            let read = std::panic::AssertUnwindSafe(|| all.read_file(file.as_fd(), 0, places));
            assert!(std::panic::catch_unwind(read).is_err());
        };
        for places in
            [[(LEN - 3, 4), (0, 1)], [(0, 1), (LEN, 1)], [(8, 4), (11, 4)], [(8, 4), (7, 2)]]
        {
            refused(&all, places);
        }
        refused(&Shared::adopt(fd.as_fd(), LEN, false).unwrap(), [(0, 1), (1, 1)]);
    }

    #[test]
    fn nothing_beyond_the_end_is_touched() {
        let (fd, mut all) = Shared::create(LEN, Writers::All).unwrap();
        let other = Shared::adopt(fd.as_fd(), LEN, true).unwrap();
        assert_eq!((other.fetch_or(0, 6), other.compare_exchange(0, 6, 1)), (0, Ok(6)));
        assert_eq!((all.compare_exchange(0, 6, 2), all.swap(0, 5), all.load(0)), (Err(1), 1, 5));
        let refused = |touch: &mut dyn FnMut()| {
            let touch = std::panic::AssertUnwindSafe(touch);
            let done = std::panic::catch_unwind(|| {
                let touch = touch;
                (touch.0)();
            });
            assert!(done.is_err());
        };
        for (at, len) in [(LEN, 1), (LEN - 1, 2), (usize::MAX, 2), (0, LEN + 1)] {
            let bytes = vec![0; len];
            refused(&mut || other.read(at, &mut bytes.clone()));
            refused(&mut || other.write(at, &bytes));
            refused(&mut || assert_eq!(other.slice(at, len).len(), len));
            refused(&mut || assert_eq!(all.slice_mut(at, len).len(), len));
        }
        for at in [1, LEN - 7, LEN] {
            assert!(std::panic::catch_unwind(|| other.load(at)).is_err());
        }
        assert!(Shared::adopt(fd.as_fd(), LEN / 2, true).is_err());
        let unsealed = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, LEN as u64).unwrap();
        assert!(Shared::adopt(unsealed.as_fd(), LEN, true).is_err());
    }

    #[test]
    fn who_sleeps_at_a_word_that_he_may_only_read_is_woken() {
        let (fd, mine) = Shared::create(LEN, Writers::Maker).unwrap();
        let other = Shared::adopt(fd.as_fd(), LEN, false).unwrap();
        let long = Duration::from_secs(60);
        mine.store(8, 7 << 32 | 1);
        // It is another already.
        other.sleep(8, 6, long);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while other.load(8) == 7 << 32 | 1 {
                    other.sleep(8, 7, long);
                }
            });
            let until = Instant::now() + long / 2;
            while !mine.wake(8) {
                assert!(Instant::now() < until, "nobody sleeps");
            }
            mine.store(8, 8 << 32 | 1);
            while !sleeper.is_finished() {
                mine.wake(8);
            }
        });
    }

    #[test]
    fn pairs_come_once_and_stay() {
        let pair = || {
            let (_, written) = Shared::create(LEN, Writers::All).unwrap();
            let (fd, _) = Shared::create(LEN, Writers::Maker).unwrap();
            [written, Shared::adopt(fd.as_fd(), LEN, false).unwrap()]
        };
        let all = Unforked::new(2, 3).unwrap();
        assert!(all.get(1).is_none() && all.get(2).is_none());
        assert!(all.put(1, pair()) && !all.put(1, pair()));
        let [written, read] = all.get(1).unwrap();
        written.store(16, 3);
        assert_eq!((all.get(1).unwrap()[0].load(16), read.load(16)), (3, 0));
        assert_eq!(all.words().len(), 3);
    }
}
