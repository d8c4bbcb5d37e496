//! Contexts of XTP, as C calls them.

use std::ffi::{c_char, c_int, c_uint, c_ushort};
use std::io::IoSliceMut;
use std::sync::Arc;

use libc::{iovec, size_t, sockaddr, socklen_t, ssize_t};

use super::adus::{somewhere, within};
use super::memory;
use crate::contexts::{self, Settings};
use crate::errno::Result;
use crate::socket::Place;
use crate::table::{self, Entry};

/// `struct fw_context_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    size: size_t,
    mechanisms: c_uint,
    sort: c_int,
    packet: c_uint,
    send_bytes: c_uint,
    receive_bytes: c_uint,
    kind: c_int,
    out_rate: c_uint,
    out_burst: c_uint,
    in_rate: c_uint,
    in_burst: c_uint,
    congestion: *const c_char,
}

/// # Safety
/// The header's contract: null, or a configuration as long as it says.
unsafe fn settings(config: *const Config) -> Result<Settings> {
    // SAFETY: as this function's, and the name that it has ends by a zero or is null.
    let (config, congestion) = unsafe {
        let config = memory::sized(config)?;
        (config, memory::text(config.congestion)?)
    };
    Ok(Settings {
        mechanisms: config.mechanisms,
        sort: config.sort,
        packet: config.packet,
        send: config.send_bytes,
        receive: config.receive_bytes,
        kind: config.kind,
        out: [config.out_rate, config.out_burst],
        want: [config.in_rate, config.in_burst],
        congestion,
    })
}

exported! {
    fn fw_context_listen(
        config: *const Config, service: c_ushort, addr: *const sockaddr, len: socklen_t
    ) -> c_int {
        // SAFETY: null, or what they say: the header's contract.
        let (settings, addr) = unsafe { (settings(config)?, somewhere(addr, len)?) };
        table::insert(Entry::Contexts(Arc::new(contexts::listen(&settings, service, addr)?)))
    }

    fn fw_context_connect(
        config: *const Config, service: c_ushort, addr: *const sockaddr, len: socklen_t
    ) -> c_int {
        // SAFETY: null, or what they say: the header's contract.
        let (settings, addr) = unsafe { (settings(config)?, somewhere(addr, len)?) };
        table::insert(Entry::Contexts(Arc::new(contexts::connect(&settings, service, addr)?)))
    }

    fn fw_context_beside(
        fd: c_int, config: *const Config, service: c_ushort, addr: *const sockaddr, len: socklen_t
    ) -> c_int {
        let one = table::contexts(fd)?;
        // SAFETY: null, or what they say: the header's contract.
        let (settings, addr) = unsafe { (settings(config)?, somewhere(addr, len)?) };
        table::insert(Entry::Contexts(Arc::new(one.beside(&settings, service, addr)?)))
    }

    fn fw_context_timeout(fd: c_int) -> c_int {
        let left = table::contexts(fd)?.timeout();
        // A part of a millisecond is a whole one: who came too early would find nothing.
        Ok(left.map_or(-1, |left| left.as_micros().div_ceil(1000).try_into().unwrap_or(c_int::MAX)))
    }

    fn fw_context_accept(fd: c_int, timeout_ms: c_int) -> c_int {
        let accepted = table::contexts(fd)?.accept(within(timeout_ms))?;
        table::insert(Entry::Contexts(Arc::new(accepted)))
    }

    fn fw_context_send(
        fd: c_int, pieces: *const iovec, count: size_t, tag: *const u64, sort: c_int, timeout_ms: c_int
    ) -> ssize_t {
        let context = table::contexts(fd)?;
        // SAFETY: null, or so many pieces, and a number: the header's contract.
        let (pieces, tag) = unsafe { (memory::pieces(pieces, count)?, memory::value(tag)) };
        context.send(&pieces, tag, sort, within(timeout_ms))
    }

    fn fw_context_recv(
        fd: c_int, pieces: *const iovec, count: size_t, tag: *mut u64, timeout_ms: c_int
    ) -> ssize_t {
        let context = table::contexts(fd)?;
        // SAFETY: null, or so many pieces: the header's contract.
        let place = unsafe { memory::scatter(pieces, count) }?;
        let mut pieces: Vec<IoSliceMut<'_>> = match place {
            Place::One(piece) => vec![IoSliceMut::new(piece)],
            Place::Several(pieces) => pieces.into_iter().map(IoSliceMut::new).collect(),
        };
        let (len, told) = context.recv(&mut pieces, within(timeout_ms))?;
        // SAFETY: null, or a number: the header's contract.
        unsafe { memory::put_number(tag, told.unwrap_or(0)) };
        Ok(len)
    }

    fn fw_context_set_in_rate(fd: c_int, rate: c_uint, burst: c_uint) -> c_int {
        table::contexts(fd)?.set_in_rate(rate, burst)
    }

    fn fw_context_finish(fd: c_int, timeout_ms: c_int) -> c_int {
        table::contexts(fd)?.finish(within(timeout_ms))
    }
}
