//! `dprintf` and its forms: libc lays the text down and writes it to the descriptor by itself. So the lease of a stream is
//! given up before, and its bytes go by the placeholder in the order in which they are written. What is no stream that can be
//! written to is told so, as libc's text means nothing in a placeholder then.

use std::ffi::{c_char, c_int, c_void};

use rustix::io::Errno;

use super::{ByLibc, answer};
use crate::library::ours;
use crate::{bytes, sys};

/// libc's functions of these names, looked up at their first use.
static NEXT: [ByLibc; 4] = [
    ByLibc::new("dprintf\0"),
    ByLibc::new("__dprintf_chk\0"),
    ByLibc::new("vdprintf\0"),
    ByLibc::new("__vdprintf_chk\0"),
];

/// A list of arguments: a pointer, or handed over as one.
type Arguments = *mut c_void;

/// libc writes to this number next, by the function of this name.
extern "C" fn before(fd: c_int, which: usize) -> *mut c_void {
    if let Some((library, mut socket)) = ours(fd) {
        let may = match socket.is_stream() {
            true => bytes::can_write(library, &mut socket, false),
            false => Err(Errno::OPNOTSUPP),
        };
        match may {
            Ok(()) => library.give_up(&socket),
            Err(error) => {
                if error == Errno::PIPE {
                    sys::raise_broken_pipe();
                }
                answer(Err(error));
                return failed as extern "C" fn() -> c_int as *mut c_void;
            }
        }
    }
    match NEXT[which].get() {
        none if none.is_null() => absent as extern "C" fn() -> c_int as *mut c_void,
        found => found,
    }
}

/// In the place of what would write to nowhere; why is said already.
extern "C" fn failed() -> c_int {
    -1
}

/// In the place of what libc does not have.
pub(super) extern "C" fn absent() -> c_int {
    answer(Err(Errno::NOSYS)) as c_int
}

/// A function of any number of arguments: it keeps all that they may lie in, asks `before`, and goes on as libc's, which
/// finds registers and stack as the caller left them.
#[cfg(target_arch = "x86_64")]
macro_rules! goes_on {
    ($which:literal, $before:ident) => {
        std::arch::naked_asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 192",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            // How many of the vectors are used.
            "mov [rsp + 48], rax",
            "movups [rsp + 64], xmm0",
            "movups [rsp + 80], xmm1",
            "movups [rsp + 96], xmm2",
            "movups [rsp + 112], xmm3",
            "movups [rsp + 128], xmm4",
            "movups [rsp + 144], xmm5",
            "movups [rsp + 160], xmm6",
            "movups [rsp + 176], xmm7",
            "mov esi, {which}",
            "call {before}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "mov rax, [rsp + 48]",
            "movups xmm0, [rsp + 64]",
            "movups xmm1, [rsp + 80]",
            "movups xmm2, [rsp + 96]",
            "movups xmm3, [rsp + 112]",
            "movups xmm4, [rsp + 128]",
            "movups xmm5, [rsp + 144]",
            "movups xmm6, [rsp + 160]",
            "movups xmm7, [rsp + 176]",
            "leave",
            "jmp r11",
            which = const $which,
            before = sym $before,
        )
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use goes_on;

/// Writes formatted text.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    goes_on!(0, before)
}

/// The same, checked.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    goes_on!(1, before)
}

/// The same with a list of arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    list: Arguments,
) -> c_int {
    type Vdprintf = unsafe extern "C-unwind" fn(c_int, *const c_char, Arguments) -> c_int;
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe { std::mem::transmute::<*mut c_void, Vdprintf>(before(fd, 2))(fd, format, list) }
}

/// The same, checked.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: Arguments,
) -> c_int {
    type Checked = unsafe extern "C-unwind" fn(c_int, c_int, *const c_char, Arguments) -> c_int;
    // SAFETY: what libc has under this name is of this type; the caller's obligation otherwise.
    unsafe { std::mem::transmute::<*mut c_void, Checked>(before(fd, 3))(fd, flag, format, list) }
}
