//! Reading and writing the caller's memory. Null pointers and lengths are checked here; that what is not null
//! points to as much memory as the caller says, and that nobody else writes it meanwhile, is the contract of
//! every function of the library (`fusewire.h`), and the obligation of each function here.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::IoSlice;
use std::time::Duration;

use libc::{iovec, sockaddr, socklen_t, timespec};

use crate::address;
use crate::errno::{Errno, Result};
use crate::open;
use crate::socket::Place;

const FAULT: Errno = Errno(libc::EFAULT);
/// Pieces of a message, and messages of a call, at most: `IOV_MAX`, `UIO_MAXIOV`.
pub const PIECES_MAX: usize = 1024;

/// Memory to read. Null is an empty slice where nothing is asked for.
///
/// # Safety
/// `at` is null or points to `len` bytes that nobody writes during `'a`.
pub unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(FAULT);
    }
    if isize::try_from(len).is_err() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: not null; `len` bytes are the caller's obligation; `len` fits isize; bytes have no alignment.
    Ok(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

/// Memory to write.
///
/// # Safety
/// `at` is null or points to `len` bytes that nobody else uses during `'a`.
pub unsafe fn bytes_mut<'a>(at: *mut c_void, len: usize) -> Result<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if at.is_null() {
        return Err(FAULT);
    }
    if isize::try_from(len).is_err() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: as in `bytes`, and alone. It came through the C border, where no value of a byte is invalid.
    Ok(unsafe { std::slice::from_raw_parts_mut(at.cast(), len) })
}

/// An array of C structs to write, at most `max` of them.
///
/// # Safety
/// `at` is null or points to `len` aligned values that nobody else uses during `'a`.
pub unsafe fn array_mut<'a, T>(at: *mut T, len: usize, max: usize) -> Result<&'a mut [T]> {
    let len = len.min(max);
    if len == 0 {
        return Ok(&mut []);
    }
    if at.is_null() || !at.is_aligned() {
        return Err(FAULT);
    }
    // SAFETY: not null, aligned; the rest is the caller's obligation; `max` keeps it below isize.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// A value, unless the pointer is null.
///
/// # Safety
/// `at` is null or points to a value.
pub unsafe fn value<T: Copy>(at: *const T) -> Option<T> {
    // SAFETY: not null; that a value is there is the caller's obligation; alignment is not asked for.
    (!at.is_null()).then(|| unsafe { at.read_unaligned() })
}

/// That a struct which begins with its size is as long as ours. Another length is that of another version of the
/// header, and its fields may mean something else.
///
/// # Safety
/// `at` is null or points to a size.
unsafe fn check_size<T>(at: *const T) -> Result<()> {
    let expected = size_of::<T>();
    // SAFETY: null, or it begins with its size: the caller's obligation.
    match unsafe { value(at.cast::<usize>()) } {
        None => Err(FAULT),
        Some(size) if size != expected => {
            open::tell(format!(
                "size: expected {expected} bytes, found {size}: set it to the struct's sizeof, and compile \
                 with the header of this library"
            ));
            Err(Errno(libc::EINVAL))
        }
        Some(_) => Ok(()),
    }
}

/// A struct that begins with its size.
///
/// # Safety
/// `at` is null or points to a size, and to as many bytes as that says.
pub unsafe fn sized<T: Copy>(at: *const T) -> Result<T> {
    // SAFETY: the caller's obligation is ours.
    unsafe { check_size(at) }?;
    // SAFETY: not null, and it says that it is as long as we read.
    Ok(unsafe { at.read_unaligned() })
}

/// Writes such a struct, which `make` makes of its size. What it held but for that is not read.
///
/// # Safety
/// `at` is null or points to a size, and to as many bytes as that says, which nobody else uses.
pub unsafe fn put_sized<T>(at: *mut T, make: impl FnOnce(usize) -> T) -> Result<()> {
    // SAFETY: the caller's obligation is ours.
    unsafe { check_size(at.cast_const()) }?;
    // SAFETY: not null, and it says that it is as long as we write.
    unsafe { at.write_unaligned(make(size_of::<T>())) };
    Ok(())
}

/// A text; null is empty.
///
/// # Safety
/// `at` is null or points to a text that ends with a zero byte.
pub unsafe fn text(at: *const c_char) -> Result<String> {
    if at.is_null() {
        return Ok(String::new());
    }
    // SAFETY: not null; the end is the caller's obligation; it is copied before we return.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map(str::to_string).map_err(|_| Errno(libc::EINVAL))
}

/// An address to read; `None` for null.
///
/// # Safety
/// `at` is null or points to `len` bytes.
pub unsafe fn address<'a>(at: *const sockaddr, len: socklen_t) -> Result<Option<&'a [u8]>> {
    if at.is_null() {
        return Ok(None);
    }
    // `sockaddr_storage` is the longest that there is.
    if len as usize > size_of::<libc::sockaddr_storage>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller's obligation is ours.
    unsafe { bytes(at.cast(), len as usize) }.map(Some)
}

/// Writes an address, cut to the memory that is there, and its whole length, as POSIX wants it. A null
/// pointer asks for none.
///
/// # Safety
/// `at` is null or points to `*len` bytes, `len` is null or points to a length.
pub unsafe fn put_address(
    at: *mut sockaddr,
    len: *mut socklen_t,
    addr: impl FnOnce() -> Vec<u8>,
) -> Result<()> {
    if at.is_null() {
        return Ok(());
    }
    // SAFETY: `len` is the caller's obligation.
    let room = unsafe { value(len) }.ok_or(FAULT)?;
    let addr = addr();
    debug_assert!(addr.len() <= address::MAX);
    let taken = addr.len().min(room as usize);
    // SAFETY: `room` bytes are the caller's obligation, and `taken` is not more.
    unsafe { bytes_mut(at.cast(), taken) }?.copy_from_slice(&addr[..taken]);
    // SAFETY: not null, as `value` saw; that it may be written is the caller's obligation.
    unsafe { len.write_unaligned(addr.len() as socklen_t) };
    Ok(())
}

/// Writes an option's value, cut to the memory that is there, and how much was written.
///
/// # Safety
/// `at` is null or points to `*len` bytes, `len` is null or points to a length.
pub unsafe fn put_option(at: *mut c_void, len: *mut socklen_t, option: &[u8]) -> Result<()> {
    // SAFETY: `len` is the caller's obligation.
    let room = unsafe { value(len) }.ok_or(FAULT)?;
    let taken = option.len().min(room as usize);
    // SAFETY: `room` bytes are the caller's obligation, and `taken` is not more.
    unsafe { bytes_mut(at, taken) }?.copy_from_slice(&option[..taken]);
    // SAFETY: not null, as `value` saw; that it may be written is the caller's obligation.
    unsafe { len.write_unaligned(taken as socklen_t) };
    Ok(())
}

/// The pieces of a message to send, in one piece: where they lie if it is one, else copied together.
///
/// # Safety
/// `iov` is null or points to `count` pieces, each null or pointing to its bytes.
pub unsafe fn gather<'a>(iov: *const iovec, count: usize) -> Result<Cow<'a, [u8]>> {
    check_pieces(iov, count)?;
    let mut whole = Vec::new();
    for at in 0..count {
        // SAFETY: `count` pieces are there and each names its bytes: the caller's obligation.
        let piece = unsafe {
            let piece = iov.add(at).read_unaligned();
            bytes(piece.iov_base, piece.iov_len)?
        };
        if count == 1 {
            return Ok(Cow::Borrowed(piece));
        }
        whole.extend_from_slice(piece);
    }
    Ok(Cow::Owned(whole))
}

/// There are not too many pieces, and somewhere.
fn check_pieces(iov: *const iovec, count: usize) -> Result<()> {
    if count > PIECES_MAX {
        return Err(Errno(libc::EMSGSIZE));
    }
    if count > 0 && iov.is_null() {
        return Err(FAULT);
    }
    Ok(())
}

/// The pieces of a message to send, where they lie.
///
/// # Safety
/// `iov` is null or points to `count` pieces, each null or pointing to its bytes, which nobody writes during `'a`.
pub unsafe fn pieces<'a>(iov: *const iovec, count: usize) -> Result<Vec<IoSlice<'a>>> {
    check_pieces(iov, count)?;
    let piece = |at: usize| {
        // SAFETY: `count` pieces are there and each names its bytes: the caller's obligation.
        unsafe {
            let piece = iov.add(at).read_unaligned();
            bytes(piece.iov_base, piece.iov_len).map(IoSlice::new)
        }
    };
    (0..count).map(piece).collect()
}

/// Writes a number, unless the pointer is null.
///
/// # Safety
/// `at` is null or points to a number that nobody else uses.
pub unsafe fn put_number(at: *mut u64, number: u64) {
    if !at.is_null() {
        // SAFETY: not null; the rest is the caller's obligation; alignment is not asked for.
        unsafe { at.write_unaligned(number) };
    }
}

/// The pieces that a message is to go to.
///
/// # Safety
/// `iov` is null or points to `count` pieces, each null or pointing to its bytes, which nobody else uses and
/// which do not overlap.
pub unsafe fn scatter<'a>(iov: *const iovec, count: usize) -> Result<Place<'a>> {
    check_pieces(iov, count)?;
    let piece = |at: usize| {
        // SAFETY: `count` pieces are there and each names its bytes, apart from the others': the
        // caller's obligation.
        unsafe {
            let piece = iov.add(at).read_unaligned();
            bytes_mut(piece.iov_base, piece.iov_len)
        }
    };
    match count {
        0 => Ok(Place::One(&mut [])),
        1 => Ok(Place::One(piece(0)?)),
        _ => Ok(Place::Several((0..count).map(piece).collect::<Result<_>>()?)),
    }
}

/// How many bytes the pieces of a message have.
///
/// # Safety
/// `iov` is null or points to `count` pieces.
pub unsafe fn len_of(iov: *const iovec, count: usize) -> Result<usize> {
    check_pieces(iov, count)?;
    // SAFETY: `count` pieces are there: the caller's obligation.
    let len = |at: usize| unsafe { iov.add(at).read_unaligned() }.iov_len;
    Ok((0..count).fold(0, |all, at| all.saturating_add(len(at))))
}

/// A time to wait; null is for ever.
///
/// # Safety
/// `at` is null or points to a `timespec`.
pub unsafe fn time(at: *const timespec) -> Result<Option<Duration>> {
    // SAFETY: the caller's obligation is ours.
    let Some(time) = (unsafe { value(at) }) else { return Ok(None) };
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000);
    match (u64::try_from(time.tv_sec), nanos) {
        (Ok(seconds), Some(nanos)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Sets this thread's `errno`.
pub fn set_errno(errno: Errno) {
    // SAFETY: the C library gives a valid pointer to this thread's own.
    unsafe { *libc::__errno_location() = errno.0 as c_int };
}
