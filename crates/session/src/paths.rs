//! Where a user's key and known hosts lie, unless the user says otherwise.

use crate::error::{Error, Misuse};
use std::ffi::OsString;
use std::path::PathBuf;

/// Files of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The private key, PKCS #8 in PEM.
    pub identity: PathBuf,
    /// Pinned servers.
    pub known_hosts: PathBuf,
}

/// `$XDG_STATE_HOME/fusewire`, or `~/.local/state/fusewire` where that is unset or relative (XDG Base
/// Directory Specification).
///
/// # Errors
/// [`Misuse::Config`] when neither variable names an absolute folder.
pub fn paths() -> Result<Paths, Error> {
    paths_from(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))
}

fn paths_from(state: Option<OsString>, home: Option<OsString>) -> Result<Paths, Error> {
    let absolute = |dir: Option<OsString>| dir.map(PathBuf::from).filter(|d| d.is_absolute());
    let folder = absolute(state)
        .or_else(|| Some(absolute(home)?.join(".local/state")))
        .ok_or(Misuse::Config("neither XDG_STATE_HOME nor HOME names a folder: name the key file"))?
        .join("fusewire");
    Ok(Paths { identity: folder.join("identity.pem"), known_hosts: folder.join("known_hosts") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_home_first_then_home() {
        let of =
            |s: Option<&str>, h: Option<&str>| paths_from(s.map(Into::into), h.map(Into::into));
        let identity = |s, h| of(s, h).unwrap().identity.to_string_lossy().into_owned();
        assert_eq!(identity(Some("/s"), Some("/h")), "/s/fusewire/identity.pem");
        assert_eq!(identity(None, Some("/h")), "/h/.local/state/fusewire/identity.pem");
        assert_eq!(identity(Some("relative"), Some("/h")), "/h/.local/state/fusewire/identity.pem");
        assert_eq!(identity(Some(""), Some("/h")), "/h/.local/state/fusewire/identity.pem");
        assert!(of(None, None).is_err());
        assert!(of(None, Some("")).is_err());
    }
}
