//! The memory that programs hand over. That a pointer points to as much as the call says is libc's contract with them.

use std::ffi::c_void;
use std::io::{IoSlice, IoSliceMut};

use fusewire_outboard::client::Result;
use libc::{iovec, sockaddr, socklen_t};
use rustix::io::Errno;

/// Pieces that are taken at once: a stream goes on after so many, a datagram of more is too long.
pub const PIECES: usize = 64;

/// Memory to read.
///
/// # Safety
/// `at` points to `len` bytes that nobody writes during `'a`, unless `len` is 0.
pub unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    match len {
        0 => Ok(&[]),
        _ if at.is_null() => Err(Errno::FAULT),
        // SAFETY: not null; the caller's obligation; what is longer than memory is cut.
        _ => Ok(unsafe { std::slice::from_raw_parts(at.cast(), len.min(isize::MAX as usize)) }),
    }
}

/// Memory to write.
///
/// # Safety
/// `at` points to `len` bytes that nobody else uses during `'a`, unless `len` is 0.
pub unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    match len {
        0 => Ok(&mut []),
        _ if at.is_null() => Err(Errno::FAULT),
        // SAFETY: as above, and alone.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len.min(isize::MAX as usize)) }),
    }
}

/// The pieces that a vector names.
///
/// # Safety
/// `vector` points to `count` of them, each to memory that is readable during `'a`.
unsafe fn vector<'a>(vector: *const iovec, count: usize) -> Result<&'a [iovec]> {
    match count {
        0 => Ok(&[]),
        1..=1024 if !vector.is_null() => {
            // SAFETY: not null; the caller's obligation.
            Ok(unsafe { std::slice::from_raw_parts(vector, count) })
        }
        1..=1024 => Err(Errno::FAULT),
        _ => Err(Errno::MSGSIZE),
    }
}

/// How many bytes a vector names.
///
/// # Errors
/// `EFAULT`, `EMSGSIZE`: it is none.
///
/// # Safety
/// `at` points to `count` pieces.
pub unsafe fn len_of((at, count): (*mut iovec, usize)) -> Result<usize> {
    // SAFETY: the caller's obligation; no piece is looked into.
    let all = unsafe { vector(at, count) }?;
    Ok(all.iter().fold(0, |len, piece| len.saturating_add(piece.iov_len)))
}

/// The pieces that are taken at once: those that are not empty, of a stream the first 64.
///
/// # Errors
/// `EMSGSIZE`: there are more of a datagram.
fn taken(all: &[iovec], is_stream: bool) -> Result<impl Iterator<Item = &iovec>> {
    let parts = all.iter().filter(|piece| piece.iov_len > 0);
    match !is_stream && parts.clone().nth(PIECES).is_some() {
        true => Err(Errno::MSGSIZE),
        false => Ok(parts.take(PIECES)),
    }
}

/// Pieces to write into, behind one of ours; how many there are.
pub struct Scatter<'a> {
    pieces: [IoSliceMut<'a>; PIECES + 1],
    count: usize,
}

impl<'a> Scatter<'a> {
    /// `first`, and those of a vector, for a stream or for a datagram.
    ///
    /// # Errors
    /// `EMSGSIZE`: there are more than are taken of a datagram; `EFAULT`, `EINVAL`.
    ///
    /// # Safety
    /// `at` points to `count` pieces of memory that nobody else uses during `'a`.
    pub unsafe fn new(
        first: &'a mut [u8],
        (at, count): (*const iovec, usize),
        is_stream: bool,
    ) -> Result<Scatter<'a>> {
        // SAFETY: the caller's obligation.
        let all = unsafe { vector(at, count) }?;
        let mut pieces = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        pieces[0] = IoSliceMut::new(first);
        let mut count = 1;
        for (place, piece) in pieces[1..].iter_mut().zip(taken(all, is_stream)?) {
            // SAFETY: the caller's obligation.
            *place = IoSliceMut::new(unsafe { bytes_mut(piece.iov_base, piece.iov_len) }?);
            count += 1;
        }
        Ok(Scatter { pieces, count })
    }

    /// All of them.
    pub fn pieces(&mut self) -> &mut [IoSliceMut<'a>] {
        &mut self.pieces[..self.count]
    }
}

/// Pieces to read from, and how many there are.
pub struct Gather<'a> {
    pieces: [IoSlice<'a>; PIECES],
    count: usize,
}

impl<'a> Gather<'a> {
    /// Those of a vector, for a stream or for a datagram.
    ///
    /// # Errors
    /// As [`Scatter::new`].
    ///
    /// # Safety
    /// `at` points to `count` pieces of memory that nobody writes during `'a`.
    pub unsafe fn new(vector: (*const iovec, usize), is_stream: bool) -> Result<Gather<'a>> {
        // SAFETY: the caller's obligation.
        unsafe { Gather::behind(vector, is_stream, 0) }
    }

    /// The same behind the first so many bytes.
    ///
    /// # Errors
    /// As [`Scatter::new`].
    ///
    /// # Safety
    /// As of [`Gather::new`].
    pub unsafe fn behind(
        (at, count): (*const iovec, usize),
        is_stream: bool,
        mut behind: usize,
    ) -> Result<Gather<'a>> {
        // SAFETY: the caller's obligation.
        let all = unsafe { vector(at, count) }?;
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let mut count = 0;
        for piece in all {
            let skipped = behind.min(piece.iov_len);
            behind -= skipped;
            if skipped == piece.iov_len {
                continue;
            }
            let Some(place) = pieces.get_mut(count) else {
                if is_stream {
                    break;
                }
                return Err(Errno::MSGSIZE);
            };
            // SAFETY: the caller's obligation.
            *place = IoSlice::new(&unsafe { bytes(piece.iov_base, piece.iov_len) }?[skipped..]);
            count += 1;
        }
        Ok(Gather { pieces, count })
    }

    /// All of them.
    pub fn pieces(&self) -> &[IoSlice<'a>] {
        &self.pieces[..self.count]
    }
}

/// An address that a program gives, if it does.
///
/// # Safety
/// `at` is null or points to `len` bytes.
pub unsafe fn address<'a>(at: *const sockaddr, len: socklen_t) -> Result<Option<&'a [u8]>> {
    if at.is_null() || len == 0 {
        return Ok(None);
    }
    if len as usize > size_of::<libc::sockaddr_storage>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's obligation.
    unsafe { bytes(at.cast(), len as usize) }.map(Some)
}

/// Gives a program bytes, as many as it has room for, and says how long they are (an address) or how many it got.
///
/// # Safety
/// `len` is null or points to a length, and `at` is null or points to as many bytes.
pub unsafe fn put(at: *mut c_void, len: *mut socklen_t, given: &[u8]) -> Result<()> {
    if len.is_null() {
        return if at.is_null() { Ok(()) } else { Err(Errno::FAULT) };
    }
    // SAFETY: not null; the caller's obligation.
    let room = unsafe { len.read() } as usize;
    if !at.is_null() {
        let count = given.len().min(room);
        // SAFETY: as above.
        unsafe { bytes_mut(at, count) }?.copy_from_slice(&given[..count]);
    }
    // SAFETY: as above.
    unsafe { len.write(given.len() as socklen_t) };
    Ok(())
}
