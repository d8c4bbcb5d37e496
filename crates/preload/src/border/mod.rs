//! What programs call: libc's names. Each function asks whether the descriptor is a socket of the outboard's. If it is not,
//! the function calls libc's own of the same name, because libc's own call is a cancellation point (pthreads(7)). Until
//! libc's functions have been looked up, the system call takes their place.
//!
//! A thread can be cancelled inside of these functions, which unwinds the stack through them. So they have the ABI
//! `C-unwind`, and no value with a destructor is alive where [`cancel`] or libc's own function may be left that way.
//!
//! # Safety
//! All of them ask of the caller what libc asks.
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and stands above")]

mod bytes;
mod cancel;
mod control;
mod formatted;
mod interfaces;
mod memory;
mod names;
mod numbers;
mod process;
mod raw;
mod uring;
mod waits;

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use fusewire_outboard::client::Result;
use libc::c_long;
use rustix::io::Errno;

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
/// Requirements of the call on its arguments.
unsafe fn kernel<const N: usize>(number: c_long, arguments: [usize; N]) -> Result<usize> {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&arguments);
    // SAFETY: the caller's obligation.
    sys::result(unsafe { sys::call(number, all) })
}

/// libc's own function of a name, behind ours.
struct ByLibc {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl ByLibc {
    /// The function of this name, which ends with a zero byte.
    const fn new(name: &'static str) -> ByLibc {
        let name = match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name ends with its only zero byte"),
        };
        ByLibc { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Looks it up. A child between `vfork` and `exec` must not do that, so most functions are looked up at the start.
    fn find(&self) -> *mut c_void {
        // SAFETY: a name that ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(found, Ordering::Release);
        found
    }

    /// Returns it if it has been looked up, and null otherwise.
    fn known(&self) -> *mut c_void {
        self.at.load(Ordering::Acquire)
    }

    /// Returns it, looked up at the first use; null if libc has none.
    fn get(&self) -> *mut c_void {
        match self.known() {
            none if none.is_null() => self.find(),
            known => known,
        }
    }
}

/// Names functions of libc's, to be looked up together.
macro_rules! by_libc {
    ($($name:ident),+) => {
        pub(super) mod by_libc {
            #![allow(non_upper_case_globals, reason = "they have libc's names")]

            $(pub(in crate::border) static $name: $crate::border::ByLibc =
                $crate::border::ByLibc::new(concat!(stringify!($name), "\0"));)+

            /// Looks them up.
            pub(in crate::border) fn find() {
                $($name.find();)+
            }
        }
    };
}
use by_libc;

/// Calls libc's own function of a name, or evaluates the last argument while that function is not known.
macro_rules! pass_on {
    ($own:expr, ($($argument:expr => $Type:ty),*) -> $Answer:ty, $kernel:expr) => {{
        type Own = unsafe extern "C-unwind" fn($($Type),*) -> $Answer;
        match $own.known() {
            none if none.is_null() => $crate::border::answer($kernel) as $Answer,
            own => std::mem::transmute::<*mut std::ffi::c_void, Own>(own)($($argument),*),
        }
    }};
}
use pass_on;

/// The result of a function of libc's: -1 stands for `errno`.
fn result_of(value: isize) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        // SAFETY: the address of this thread's errno.
        Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
    })
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

/// Makes the functions that programs call: the body's result if the socket is ours, and otherwise that of libc's own
/// function with the same arguments.
macro_rules! interposed {
    ($($(#[$about:meta])* fn $name:ident = $number:ident($($argument:ident: $Type:ty),*) -> $Answer:ty $body:block)+) => {
        $crate::border::by_libc! { $($name),+ }

        $(
        $(#[$about])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, reason = "some bodies need none")]
        pub unsafe extern "C-unwind" fn $name($($argument: $Type),*) -> $Answer {
            // SAFETY: what the body reads and writes is what the caller of the function vouches for.
            let ours = $crate::border::ask(|| unsafe { $body });
            match ours {
                Some(result) => $crate::border::answer(result) as $Answer,
                // SAFETY: what libc has under this name is of this type; the arguments are the caller's.
                None => unsafe {
                    $crate::border::pass_on!(
                        by_libc::$name,
                        ($($argument => $Type),*) -> $Answer,
                        $crate::border::kernel(libc::$number, [$($argument as usize),*])
                    )
                },
            }
        }
        )+
    };
}
use interposed;

/// Makes other names of functions.
macro_rules! aliases {
    ($($name:ident = $other:ident($($argument:ident: $Type:ty),*) -> $Answer:ty;)+) => { $(
        /// Another name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $Type),*) -> $Answer {
            // SAFETY: the caller's obligation is the same.
            unsafe { $other($($argument),*) }
        }
    )+ };
}
use aliases;

/// What is done before the program begins.
extern "C" fn begin() {
    library::begin();
    bytes::by_libc::find();
    cancel::by_libc::find();
    control::by_libc::find();
    names::by_libc::find();
    numbers::by_libc::find();
    process::by_libc::find();
    process::find();
    waits::by_libc::find();
    waits::begin();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
