//! Threads of the library, which leave all signals to the program.

use std::io;
use std::thread::{Builder, JoinHandle};

use crate::sys::signals::Blocked;

/// Starts a thread of the library. It has all signals blocked from its beginning, because the program decides which of
/// its own threads handles a signal.
///
/// # Errors
/// The system has no thread left.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread inherits the mask of its creator.
    let _blocked = Blocked::new();
    Builder::new().name(name.into()).spawn(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The blocked signals of the calling thread, one bit each from signal 1 on.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn threads_begin_with_all_signals_blocked_but_those_of_faults() {
        let before = blocked();
        let in_thread = spawn("test", blocked).unwrap().join().unwrap();
        let bit = |signal: i32| 1u64 << (signal - 1);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGPIPE] {
            assert_ne!(in_thread & bit(signal), 0, "signal {signal}");
        }
        assert_eq!(in_thread & bit(libc::SIGSEGV), 0);
        assert_eq!(blocked(), before, "the creator's mask stays");
    }
}
