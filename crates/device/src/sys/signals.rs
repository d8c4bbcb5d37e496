//! The signal mask of the calling thread.

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that a fault raises in the thread itself. A blocked one would kill the process without its handler.
const OF_FAULTS: [libc::c_int; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// Blocks all signals but those of faults in the calling thread, until it is dropped in that thread.
pub struct Blocked {
    before: libc::sigset_t,
    /// The mask belongs to the thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks them.
    pub fn new() -> Blocked {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: sigfillset initialises `all`. sigdelset and pthread_sigmask then read and write that set, and
        // pthread_sigmask initialises `before`, as SIG_BLOCK and valid pointers leave it no reason to fail.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in OF_FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            assert_eq!(failed, 0, "pthread_sigmask");
            before.assume_init()
        };
        Blocked { before, _not_send: std::marker::PhantomData }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: `before` is initialised, and a null pointer asks for no former mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}
