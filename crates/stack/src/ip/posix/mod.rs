//! What POSIX calls things here: numbers of errors, options of sockets, addresses that are bound. For those who give
//! sockets of ours to programs that know the kernel's.

pub mod ancillary;
mod bound;
mod kept;
mod membership;
mod options;
mod zone;

pub use bound::Bound;
pub use membership::{is_membership, membership};
pub use options::{Effect, KindOf, Options, Telling, Tells};
pub use zone::{with_zone, without_zone};

use super::config::Error;

/// A value of `errno`, never 0.
pub fn errno(error: Error) -> i32 {
    use Error::*;
    match error {
        NoSocket => libc::EBADF,
        NotConnected => libc::ENOTCONN,
        Finished | Broken => libc::EPIPE,
        InUse(_) => libc::EADDRINUSE,
        Denied(_) => libc::EACCES,
        NotOurs(_) | NoPort => libc::EADDRNOTAVAIL,
        TooManySockets => libc::ENFILE,
        TooLong { .. } => libc::EMSGSIZE,
        Misuse(_) => libc::EINVAL,
        NoRoute => libc::ENETUNREACH,
        Unreachable => libc::EHOSTUNREACH,
        Refused => libc::ECONNREFUSED,
        Reset => libc::ECONNRESET,
        Aborted => libc::ECONNABORTED,
        TimedOut => libc::ETIMEDOUT,
        Interface => libc::ENETDOWN,
        CutShort => libc::EIO,
    }
}
