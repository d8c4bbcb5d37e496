//! What programs call: libc's names. Each function asks whether the descriptor is a socket of the outboard's; if not, it is
//! the system call that libc's would be.
//!
//! # Safety
//! All of them ask of the caller what libc asks.
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands above")]

mod bytes;
mod control;
mod formatted;
mod memory;
mod names;
mod numbers;
mod process;
mod raw;
mod waits;

use fusewire_outboard::client::Result;
use libc::c_long;

use crate::library;
use crate::sys;

/// What a call gives where the socket is the outboard's.
type Ours = Option<Result<usize>>;

/// What a body says, which may leave it by `?`.
fn ask(body: impl FnOnce() -> Ours) -> Ours {
    body()
}

/// The system call that libc would make.
///
/// # Safety
/// What the call asks of its arguments.
unsafe fn kernel<const N: usize>(number: c_long, arguments: [usize; N]) -> Result<usize> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    // SAFETY: the caller's obligation.
    sys::result(unsafe { sys::call(number, all) })
}

/// A result as C has it: -1 and `errno`.
fn answer(result: Result<usize>) -> isize {
    match result {
        Ok(value) => value as isize,
        Err(error) => {
            // SAFETY: the address of this thread's errno.
            unsafe { *libc::__errno_location() = error.raw_os_error() };
            -1
        }
    }
}

/// Makes the functions that programs call: the body's result where the socket is ours, or else that of a system call with
/// the same arguments.
macro_rules! interposed {
    ($($(#[$about:meta])* fn $name:ident = $number:ident($($argument:ident: $Type:ty),*) -> $Answer:ty $body:block)+) => { $(
        $(#[$about])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some bodies need none")]
        pub unsafe extern "C" fn $name($($argument: $Type),*) -> $Answer {
            // SAFETY: what the body reads and writes is what the caller of the function vouches for.
            let ours = $crate::border::ask(|| unsafe { $body });
            let result = match ours {
                Some(result) => result,
                // SAFETY: as libc would call it.
                None => unsafe { $crate::border::kernel(libc::$number, [$($argument as usize),*]) },
            };
            $crate::border::answer(result) as $Answer
        }
    )+ };
}
use interposed;

/// Makes other names of functions.
macro_rules! aliases {
    ($($name:ident = $other:ident($($argument:ident: $Type:ty),*) -> $Answer:ty;)+) => { $(
        /// Another name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $Type),*) -> $Answer {
            // SAFETY: the caller's obligation is the same.
            unsafe { $other($($argument),*) }
        }
    )+ };
}
use aliases;

/// What is done before the program begins.
extern "C" fn begin() {
    library::begin();
    process::find();
    waits::begin();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
