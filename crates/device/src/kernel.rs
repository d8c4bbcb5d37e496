//! The kernel's version: what a device needs, and what runs.

use std::fmt;
use std::io;

/// A version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
}

impl Version {
    /// The version that runs; `None` when its name is none of Linux.
    pub fn running() -> Option<Version> {
        let uname = rustix::system::uname();
        Version::parse(uname.release().to_str().ok()?)
    }

    /// From a release name such as `6.1.0-13-amd64`.
    fn parse(release: &str) -> Option<Version> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        Some(Version { major: number()?, minor: number()? })
    }

    /// Refuses to go on with an older kernel. A version that cannot be told is let through: what is
    /// missing will say so itself.
    ///
    /// # Errors
    /// `Unsupported`, with what is needed and what runs.
    pub fn require(self, what: &str) -> io::Result<()> {
        match Version::running() {
            Some(running) if running < self => {
                let message = format!("{what} needs Linux {self} and this is Linux {running}");
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_compares_release_names() {
        let version = |major, minor| Version { major, minor };
        assert_eq!(Version::parse("6.1.0-13-amd64"), Some(version(6, 1)));
        assert_eq!(Version::parse("5.15-rc3"), Some(version(5, 15)));
        assert_eq!(Version::parse("wsl"), None);
        assert!(version(4, 18) < version(5, 0) && version(5, 2) < version(5, 10));
        assert!(Version::running().is_some());
    }

    #[test]
    fn an_older_kernel_is_refused_with_a_reason() {
        assert!(Version { major: 2, minor: 6 }.require("nothing").is_ok());
        let error = Version { major: 1000, minor: 1 }.require("time travel").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("time travel needs Linux 1000.1 and this is Linux "));
    }
}
