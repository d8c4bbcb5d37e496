//! ADUs on encrypted connections, as C calls them.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use libc::{size_t, sockaddr, socklen_t, ssize_t};

use super::{cut, memory};
use crate::address::{Family, Named};
use crate::adu::{self, Settings};
use crate::errno::{Errno, Result};
use crate::table::{self, Entry};

/// `struct fw_adu_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    size: size_t,
    identity: *const c_char,
    peer: *const c_char,
    ciphers: *const c_char,
    execution: c_int,
    element: c_uint,
    max_adu: c_uint,
    idle_ms: c_uint,
    header_protection: c_uint,
    carrier: c_int,
}

/// `struct fw_adu_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    size: size_t,
    peer: [c_char; 64],
    cipher: [c_char; 32],
    execution: c_int,
    element: c_uint,
    header_protection: c_uint,
    carrier: c_int,
    adu_len: size_t,
    adu_len_max: size_t,
    call_len_max: size_t,
    answer_len_max: size_t,
}

/// A text in a field of `N` characters, ended by a zero.
fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut bytes = [0; N];
    cut(text, &mut bytes);
    bytes.map(|byte| byte as c_char)
}

/// # Safety
/// The header's contract: null, or a configuration as long as it says, with texts.
unsafe fn settings(config: *const Config) -> Result<Settings> {
    // SAFETY: as this function's.
    unsafe {
        let config = memory::sized(config)?;
        Ok(Settings {
            identity: memory::text(config.identity)?,
            peer: memory::text(config.peer)?,
            ciphers: memory::text(config.ciphers)?,
            execution: config.execution,
            element: config.element,
            max_adu: config.max_adu,
            idle_ms: config.idle_ms,
            header_protection: config.header_protection,
            carrier: config.carrier,
        })
    }
}

/// # Safety
/// The header's contract: null, or `len` bytes.
pub(super) unsafe fn somewhere(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr> {
    // SAFETY: as this function's.
    let bytes = unsafe { memory::address(addr, len) }?.ok_or(Errno(libc::EFAULT))?;
    let family = bytes.first_chunk().map(|family| u16::from_ne_bytes(*family));
    let family = Family::of(family.ok_or(Errno(libc::EINVAL))?.into())?;
    match family.parse(bytes)? {
        Named::Somebody(address) => Ok(address),
        Named::Nobody => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// As `poll` has it: below zero for ever.
pub(super) fn within(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

exported! {
    fn fw_adu_identity(identity: *const c_char, out: *mut c_char, len: size_t) -> c_int {
        // SAFETY: null, or a text: the header's contract.
        let path = unsafe { memory::text(identity) }?;
        let print = adu::identity(&path)?.fingerprint().to_string();
        // SAFETY: null, or `len` bytes: the header's contract.
        let out = unsafe { memory::bytes_mut(out.cast(), len) }?;
        if out.len() <= print.len() {
            return Err(Errno(libc::ERANGE));
        }
        cut(&print, out);
        Ok(0)
    }

    fn fw_adu_listen(config: *const Config, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: null, or what they say: the header's contract.
        let (settings, addr) = unsafe { (settings(config)?, somewhere(addr, len)?) };
        table::insert(Entry::Adus(Arc::new(adu::listen(&settings, addr)?)))
    }

    fn fw_adu_connect(config: *const Config, addr: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: null, or what they say: the header's contract.
        let (settings, addr) = unsafe { (settings(config)?, somewhere(addr, len)?) };
        table::insert(Entry::Adus(Arc::new(adu::connect(&settings, addr)?)))
    }

    fn fw_adu_accept(fd: c_int, timeout_ms: c_int) -> c_int {
        let accepted = table::adus(fd)?.accept(within(timeout_ms))?;
        table::insert(Entry::Adus(Arc::new(accepted)))
    }

    fn fw_adu_send(fd: c_int, adu: *const c_void, len: size_t, timeout_ms: c_int) -> ssize_t {
        let adus = table::adus(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let adu = unsafe { memory::bytes(adu, len) }?;
        adus.send(adu, within(timeout_ms))
    }

    fn fw_adu_recv(fd: c_int, out: *mut c_void, len: size_t, timeout_ms: c_int) -> ssize_t {
        let adus = table::adus(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let out = unsafe { memory::bytes_mut(out, len) }?;
        adus.recv(out, within(timeout_ms))
    }

    fn fw_adu_call(
        fd: c_int,
        request: *const c_void,
        request_len: size_t,
        answer: *mut c_void,
        len: size_t,
        timeout_ms: c_int,
    ) -> ssize_t {
        let adus = table::adus(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        unsafe { memory::bytes_mut(answer, len) }?;
        // SAFETY: null, or `request_len` bytes: the header's contract.
        let request = unsafe { memory::bytes(request, request_len) }?;
        let (call, patience) = adus.call(request, within(timeout_ms))?;
        // SAFETY: null, or `len` bytes: the header's contract. The request, which may lie there, is not looked at any more.
        let answer = unsafe { memory::bytes_mut(answer, len) }?;
        call.recv(answer, &patience)
    }

    fn fw_adu_begin_call(fd: c_int, request: *const c_void, len: size_t, timeout_ms: c_int) -> c_int {
        let adus = table::adus(fd)?;
        // SAFETY: null, or `len` bytes: the header's contract.
        let request = unsafe { memory::bytes(request, len) }?;
        table::insert(Entry::Adus(Arc::new(adus.begin_call(request, within(timeout_ms))?)))
    }

    fn fw_adu_next_call(fd: c_int, timeout_ms: c_int) -> c_int {
        let call = table::adus(fd)?.next_call(within(timeout_ms))?;
        table::insert(Entry::Adus(Arc::new(call)))
    }

    fn fw_adu_finish(fd: c_int, timeout_ms: c_int) -> c_int {
        table::adus(fd)?.finish(within(timeout_ms))
    }

    fn fw_adu_give_up(fd: c_int, code: u64) -> c_int {
        table::adus(fd)?.give_up(code)
    }

    fn fw_adu_describe(fd: c_int, info: *mut Info) -> c_int {
        let agreed = table::adus(fd)?.agreed()?;
        let told = |size| Info {
            size,
            peer: field(&agreed.peer.to_string()),
            cipher: field(&agreed.cipher.to_string()),
            execution: agreed.execution,
            element: agreed.element,
            header_protection: agreed.header_protection,
            carrier: agreed.carrier,
            adu_len: agreed.adu_len,
            adu_len_max: agreed.adu_len_max,
            call_len_max: agreed.call_len_max,
            answer_len_max: agreed.answer_len_max,
        };
        // SAFETY: null, or as long as it says: the header's contract.
        unsafe { memory::put_sized(info, told) }
    }
}
