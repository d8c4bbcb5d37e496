//! Why a call failed, as POSIX numbers it.
#![forbid(unsafe_code)]

use std::io;

use fusewire_session::Error as SessionError;
use fusewire_stack::{Error as StackError, ip};

/// A value of `errno`, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// Short for results of this crate.
pub type Result<T> = std::result::Result<T, Errno>;

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> io::Error {
        io::Error::from_raw_os_error(errno.0)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Errno {
        Errno(errno.raw_os_error())
    }
}

impl From<ip::Error> for Errno {
    fn from(error: ip::Error) -> Errno {
        Errno(ip::posix::errno(error))
    }
}

impl From<StackError> for Errno {
    fn from(error: StackError) -> Errno {
        use StackError::*;
        Errno(match error {
            Os { source, .. } => return system(&source),
            Session(error) => return error.into(),
            Untrusted(_) => libc::EACCES,
            TimedOut(_) | Silent { .. } => libc::ETIMEDOUT,
            Unreachable(_) | Refused(_) => libc::ECONNREFUSED,
            Reset(_) => libc::ECONNRESET,
            Protocol { .. } => libc::EPROTO,
            NoSharedMemory { .. } => libc::EHOSTUNREACH,
            Closed => libc::EPIPE,
            TooLong { .. } | NoRoom { .. } => libc::EMSGSIZE,
            Elapsed => libc::EAGAIN,
            PeerClosed { .. } => libc::ECONNABORTED,
            MaxAdu { .. } | Misuse(_) => libc::EINVAL,
            _ => libc::EIO,
        })
    }
}

impl From<SessionError> for Errno {
    fn from(error: SessionError) -> Errno {
        use SessionError::*;
        Errno(match error {
            Os { source, .. } => return system(&source),
            Handshake(_) => libc::EACCES,
            KeyFileMode { .. } | Owner { .. } => libc::EPERM,
            Misuse(_) | Text { .. } => libc::EINVAL,
            Malformed { .. } | Violation(_) | NotAuthentic { .. } => libc::EPROTO,
            // It went without having ended.
            Truncated { .. } => libc::ECONNRESET,
            _ => libc::EIO,
        })
    }
}

/// What the kernel says, or what of it is known.
fn system(error: &io::Error) -> Errno {
    match error.raw_os_error() {
        Some(number) => Errno(number),
        None => io::Error::from(error.kind()).into(),
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        if let Some(number) = error.raw_os_error().filter(|number| *number != 0) {
            return Errno(number);
        }
        let ours = error.get_ref().and_then(|inner| inner.downcast_ref::<ip::Error>());
        if let Some(ours) = ours {
            return (*ours).into();
        }
        Errno(match error.kind() {
            io::ErrorKind::PermissionDenied => libc::EPERM,
            io::ErrorKind::NotFound => libc::ENODEV,
            io::ErrorKind::InvalidInput => libc::EINVAL,
            io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
            io::ErrorKind::OutOfMemory => libc::ENOMEM,
            io::ErrorKind::AddrInUse => libc::EADDRINUSE,
            io::ErrorKind::ResourceBusy => libc::EBUSY,
            io::ErrorKind::TimedOut => libc::ETIMEDOUT,
            io::ErrorKind::NetworkUnreachable => libc::ENETUNREACH,
            io::ErrorKind::NetworkDown => libc::ENETDOWN,
            _ => libc::EIO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_meaning_on_its_way_through_io() {
        for error in [ip::Error::Refused, ip::Error::TimedOut, ip::Error::Finished] {
            assert_eq!(Errno::from(io::Error::from(error)), Errno::from(error));
        }
        assert_eq!(Errno::from(io::Error::from(Errno(libc::EBADF))), Errno(libc::EBADF));
        let kind = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(Errno::from(kind), Errno(libc::EPERM));
    }
}
