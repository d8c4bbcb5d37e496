//! Why a request has failed.

use super::{Code, Failed};
use crate::Error;
use std::fmt;
use std::io;

impl Code {
    /// What an error of the operating system is told as.
    pub fn of_os(error: &io::Error) -> Code {
        match error.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            io::ErrorKind::PermissionDenied => Code::Denied,
            io::ErrorKind::AlreadyExists => Code::Exists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::NoSpace,
            io::ErrorKind::FileTooLarge => Code::TooLarge,
            io::ErrorKind::NotADirectory => Code::NotAFolder,
            io::ErrorKind::IsADirectory => Code::NotAFile,
            io::ErrorKind::InvalidFilename => Code::BadPath,
            io::ErrorKind::ReadOnlyFilesystem => Code::Denied,
            io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy => Code::Busy,
            _ => Code::Io,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::NotFound => "no such file or folder",
            Code::Denied => "permission denied",
            Code::BadPath => "not a path that can be used",
            Code::NotAFile => "not a regular file",
            Code::NotAFolder => "not a folder",
            Code::Changed => "the file changed while it was being transferred",
            Code::Shrunk => "the file became shorter while it was being read",
            Code::ReadOnly => "the server does not allow writing (fusewire serve --writable does)",
            Code::Exists => "already there",
            Code::NoSpace => "no space left on the disk",
            Code::TooLarge => "larger than the file system allows",
            Code::Busy => "in use by another transfer, or too much at once",
            Code::WrongHash => "contents were damaged on the way",
            Code::Cancelled => "broken off",
            Code::BadRequest => "request cannot be met",
            Code::Protocol => "protocol error",
            Code::Io => "input or output error",
            Code::Broken => "connection broken",
            Code::Unknown(number) => {
                return write!(f, "failed for reason {number}, which is not known here");
            }
        })
    }
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Failed {
        Failed { code: error.code(), detail: error.detail().into() }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        Error::Refused { code: failed.code, detail: failed.detail.into_vec() }
    }
}
