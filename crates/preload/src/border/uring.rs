//! `io_uring`, whose operations on our sockets the kernel makes on their placeholders: bytes of streams are right there as long as
//! the process has no rings of ours. So it gets none from the time on when it makes an `io_uring`: by `syscall`, or by the
//! shared library liburing. One that is made in another way is found when a lease is about to begin.

use std::ffi::{c_int, c_uint, c_void};

use rustix::io::Errno;

use super::{ByLibc, answer, kernel};
use crate::library;

fn made(is_made: bool) {
    if let Some(library) = library::library().filter(|_| is_made) {
        library.refuse_rings();
    }
}

/// The system call.
///
/// # Safety
/// Requirements of the call on its arguments.
pub unsafe fn setup(entries: usize, parameters: usize) -> isize {
    // SAFETY: the caller's obligation.
    let done = unsafe { kernel(libc::SYS_io_uring_setup, [entries, parameters]) };
    made(done.is_ok());
    answer(done)
}

/// Makes functions of liburing's, which return a negative number when they fail.
macro_rules! of_liburing {
    ($($name:ident($($argument:ident: $Type:ty),*);)+) => { $(
        /// Makes an `io_uring`.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $Type),*) -> c_int {
            static NEXT: ByLibc = ByLibc::new(concat!(stringify!($name), "\0"));
            type Next = unsafe extern "C" fn($($Type),*) -> c_int;
            let next = NEXT.get();
            if next.is_null() {
                return -Errno::NOSYS.raw_os_error();
            }
            // SAFETY: what liburing has under this name is of this type; the caller's obligation otherwise.
            let done = unsafe { std::mem::transmute::<*mut c_void, Next>(next)($($argument),*) };
            made(done >= 0);
            done
        }
    )+ };
}

of_liburing! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, at: *mut c_void, len: usize);
}
