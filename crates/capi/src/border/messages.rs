//! `sendmsg` and `recvmsg`, one message or many a call, with ancillary data of datagrams.

use std::ffi::{c_int, c_uint};

use libc::{mmsghdr, msghdr, ssize_t, timespec};

use fusewire_stack::ip::posix::ancillary;

use super::{destination, memory};
use crate::address::Family;
use crate::errno::{Errno, Result};
use crate::posix::Posix;
use crate::socket::{Flags, Got, Incoming, Outgoing};
use crate::table;

/// A message to send, as its header names it.
///
/// # Safety
/// The header's pointers are null or point to what it says, during `'a`.
unsafe fn outgoing<'a>(socket: &dyn Posix, header: &msghdr) -> Result<Outgoing<'a>> {
    // SAFETY: the caller's obligation is ours.
    let (addr, bytes, control) = unsafe {
        let addr = memory::address(header.msg_name.cast(), header.msg_namelen)?;
        let control = memory::bytes(header.msg_control, header.msg_controllen)?;
        (addr, memory::gather(header.msg_iov, header.msg_iovlen)?, control)
    };
    if !control.is_empty() && socket.is_stream() {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let beside = ancillary::parse(control, socket.family() == Family::V6).map_err(Errno)?;
    let to = if socket.is_stream() { None } else { destination(socket, addr)? };
    Ok(Outgoing { to, beside, bytes })
}

/// Fills a header in with what came for it.
///
/// # Safety
/// The header's pointers are null or point to what it says.
unsafe fn fill_header(
    socket: &dyn Posix,
    header: &mut msghdr,
    incoming: &Incoming<'_>,
    flags: Flags,
) -> Result<usize> {
    let Got { from, len: whole, beside } = incoming.got.unwrap_or_default();
    let room = incoming.place.len();
    // SAFETY: the caller's obligation is ours.
    let control = unsafe { memory::bytes_mut(header.msg_control, header.msg_controllen) };
    let is_v6 = from.is_some_and(|from| from.is_ipv6());
    let (used, is_cut) = ancillary::emit(&beside, is_v6, control.unwrap_or_default());
    header.msg_controllen = used;
    header.msg_flags = if whole > room { libc::MSG_TRUNC } else { 0 };
    header.msg_flags |= if is_cut { libc::MSG_CTRUNC } else { 0 };
    let emit = || from.map_or(Vec::new(), |from| socket.family().emit(from));
    let len = &raw mut header.msg_namelen;
    // SAFETY: the name is the caller's obligation; its length lies in the header.
    unsafe { memory::put_address(header.msg_name.cast(), len, emit) }?;
    Ok(if flags.truncated { whole } else { whole.min(room) })
}

exported! {
    fn fw_sendmsg(fd: c_int, header: *const msghdr, flags: c_int) -> ssize_t {
        let socket = table::socket(fd)?;
        // SAFETY: null, or a header whose pointers point to what it says: the header file's contract.
        let message = unsafe {
            let header = memory::value(header).ok_or(Errno(libc::EFAULT))?;
            outgoing(&*socket, &header)?
        };
        let flags = Flags::of(flags)?;
        if socket.is_stream() {
            return socket.send_stream(&message.bytes, flags);
        }
        let len = message.bytes.len();
        socket.send_messages(&[message], flags)?;
        Ok(len)
    }

    fn fw_recvmsg(fd: c_int, header: *mut msghdr, flags: c_int) -> ssize_t {
        let socket = table::socket(fd)?;
        // SAFETY: null, or one header: the header file's contract.
        let headers = unsafe { memory::array_mut(header, 1, 1) }?;
        let header = &mut headers[0];
        let flags = Flags::of(flags)?;
        if socket.is_stream() && flags.truncated {
            // SAFETY: so many pieces are there: the header file's contract. Nothing is written where they point to.
            let len = unsafe { memory::len_of(header.msg_iov, header.msg_iovlen) }?;
            (header.msg_namelen, header.msg_controllen, header.msg_flags) = (0, 0, 0);
            return socket.discard(len, flags);
        }
        // SAFETY: its pieces point to what they say: the header file's contract.
        let place = unsafe { memory::scatter(header.msg_iov, header.msg_iovlen) }?;
        let mut incoming = [Incoming { place, got: None }];
        if socket.is_stream() {
            let received = incoming[0].place.fill(|out| match socket.recv_stream(out, flags) {
                Ok(received) => (received, Ok(received)),
                Err(error) => (0, Err(error)),
            })?;
            (header.msg_namelen, header.msg_controllen, header.msg_flags) = (0, 0, 0);
            return Ok(received);
        }
        socket.recv_messages(&mut incoming, flags, None)?;
        // SAFETY: its name points to what it says: the header file's contract.
        unsafe { fill_header(&*socket, header, &incoming[0], flags) }
    }

    fn fw_sendmmsg(fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        let socket = table::socket(fd)?;
        // SAFETY: null, or `count` headers: the header file's contract.
        let headers = unsafe { memory::array_mut(headers, count as usize, memory::PIECES_MAX) }?;
        let flags = Flags::of(flags)?;
        let mut messages = Vec::with_capacity(headers.len());
        for header in headers.iter() {
            // SAFETY: its pointers point to what it says: the header file's contract.
            match unsafe { outgoing(&*socket, &header.msg_hdr) } {
                Ok(message) => messages.push(message),
                Err(error) if messages.is_empty() => return Err(error),
                // Those before it are sent; it is told of when it is first.
                Err(_) => break,
            }
        }
        let mut sent = 0;
        if socket.is_stream() {
            for (header, message) in headers.iter_mut().zip(&messages) {
                let len = match socket.send_stream(&message.bytes, flags) {
                    Ok(len) => len,
                    Err(error) if sent == 0 => return Err(error),
                    Err(_) => break,
                };
                header.msg_len = len as c_uint;
                sent += 1;
                if len < message.bytes.len() {
                    break;
                }
            }
        } else {
            sent = socket.send_messages(&messages, flags)?;
            for (header, message) in headers.iter_mut().zip(&messages).take(sent) {
                header.msg_len = message.bytes.len() as c_uint;
            }
        }
        Ok(sent)
    }

    fn fw_recvmmsg(fd: c_int, headers: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        let socket = table::socket(fd)?;
        if socket.is_stream() {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        // SAFETY: null, or `count` headers and a time: the header file's contract.
        let (headers, timeout) = unsafe {
            let headers = memory::array_mut(headers, count as usize, memory::PIECES_MAX)?;
            (headers, memory::time(timeout)?)
        };
        let flags = Flags::of(flags)?;
        let mut incoming = Vec::with_capacity(headers.len());
        for header in headers.iter() {
            // SAFETY: its pieces point to what they say: the header file's contract.
            let place =
                unsafe { memory::scatter(header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) }?;
            incoming.push(Incoming { place, got: None });
        }
        let received = socket.recv_messages(&mut incoming, flags, timeout)?;
        for (header, incoming) in headers.iter_mut().zip(&incoming).take(received) {
            // SAFETY: its name points to what it says: the header file's contract.
            let len = unsafe { fill_header(&*socket, &mut header.msg_hdr, incoming, flags) }?;
            header.msg_len = len as c_uint;
        }
        Ok(received)
    }
}
