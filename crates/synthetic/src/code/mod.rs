//! Machine code for a description, and the memory that it runs in. The crate's one room for unsafe code.
//!
//! [`Code`] is made by [`assemble`] alone. What it assembles reads `src` and writes `dst` a unit at a
//! time from the first byte to the last, and reads and writes its context within the layout that
//! it was assembled for; [`Code::run`] sees to the lengths.
#![allow(unsafe_code)]

mod assemble;
mod encode;

pub(crate) use assemble::{Layout, assemble};

use std::ffi::c_void;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Code in memory of its own, which nobody can write any more.
pub(crate) struct Code {
    at: NonNull<c_void>,
    len: usize,
    /// Bytes that a turn of the loop treats.
    unit_bytes: usize,
    /// What it was assembled for.
    layout: Layout,
}

/// Of message, place, bytes before their end (negative), context.
type Entry = unsafe extern "sysv64" fn(*const u8, *mut u8, isize, *mut u64);

// SAFETY: the memory is read and executed only, and belongs to this value until it is dropped.
unsafe impl Send for Code {}
// SAFETY: as above; `run` changes nothing in it.
unsafe impl Sync for Code {}

impl Code {
    /// Puts assembled code where it can run.
    pub(crate) fn new(assembled: assemble::Assembled) -> Result<Code, Errno> {
        let len = assembled.bytes.len().next_multiple_of(4096);
        // SAFETY: a new mapping, nothing is at its place before; its length is not zero.
        let at = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let at = NonNull::new(at).ok_or(Errno::NOMEM)?;
        let code = Code { at, len, unit_bytes: assembled.unit_bytes, layout: assembled.layout };
        // SAFETY: the mapping has `len` bytes and nobody else knows of it.
        unsafe {
            let to = at.as_ptr().cast::<u8>();
            std::ptr::copy_nonoverlapping(assembled.bytes.as_ptr(), to, assembled.bytes.len());
            mprotect(at.as_ptr(), len, MprotectFlags::READ | MprotectFlags::EXEC)?;
        }
        Ok(code)
    }

    /// The context that it wants.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// From `src` to `dst`.
    ///
    /// # Panics
    /// When the lengths differ or are no whole number of units, or the context is too small.
    pub(crate) fn run(&self, src: &[u8], dst: &mut [u8], context: &mut [u64]) {
        assert_eq!(src.len(), dst.len(), "source and destination must have one length");
        self.check(src.len(), context);
        // SAFETY: code of `assemble`, for this CPU; it reads `src` and writes `dst` within their
        // lengths, a whole number of its units, and stays within the context.
        unsafe {
            self.enter(src.as_ptr_range().end, dst.as_mut_ptr_range().end, src.len(), context)
        }
    }

    /// The same in place.
    ///
    /// # Panics
    /// As [`Code::run`].
    pub(crate) fn run_in_place(&self, bytes: &mut [u8], context: &mut [u64]) {
        self.check(bytes.len(), context);
        let end = bytes.as_mut_ptr_range().end;
        // SAFETY: as in `run`; a unit is read whole before it is written.
        unsafe { self.enter(end, end, bytes.len(), context) }
    }

    /// The same, of a pipeline that writes nothing.
    ///
    /// # Panics
    /// As [`Code::run`], and when it writes.
    pub(crate) fn read(&self, src: &[u8], context: &mut [u64]) {
        assert!(!self.layout.writes, "it writes, and there is no place");
        self.check(src.len(), context);
        // SAFETY: as in `run`; nothing is written to the message's place.
        unsafe { self.enter(src.as_ptr_range().end, std::ptr::null_mut(), src.len(), context) }
    }

    fn check(&self, len: usize, context: &[u64]) {
        assert!(len.is_multiple_of(self.unit_bytes), "whole units of {}", self.unit_bytes);
        assert!(context.len() >= self.layout.len_words, "a context of {}", self.layout.len_words);
    }

    /// # Safety
    /// `len` is a whole number of units and there are as many bytes before both ends; the context is
    /// as large as the layout.
    unsafe fn enter(&self, src_end: *const u8, dst_end: *mut u8, len: usize, context: &mut [u64]) {
        // SAFETY: a whole function with this calling convention begins at the mapping's start.
        let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(self.at.as_ptr()) };
        // SAFETY: the caller's.
        unsafe { entry(src_end, dst_end, -(len as isize), context.as_mut_ptr()) }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no code runs in it without borrowing the value.
        let _ = unsafe { munmap(self.at.as_ptr(), self.len) };
    }
}
