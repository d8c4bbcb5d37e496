//! Where sockets of running processes lie: `$XDG_RUNTIME_DIR/fusewire/PID.sock`, and `/run/fusewire/PID.sock`
//! for root where there is no such variable. The folder is its owner's alone.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

const NAME: &str = "fusewire";
const ROOT: &str = "/run/fusewire";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn runtime() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    dir.is_absolute().then(|| dir.join(NAME))
}

static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// This process's socket lies in `folder`, and only there it looks for others. Counts only before the first
/// use.
pub fn choose(folder: PathBuf) {
    // Chosen already: that one stays.
    let _ = CHOSEN.set(folder);
}

/// The folder of this process's socket.
///
/// # Errors
/// There is none: no `XDG_RUNTIME_DIR`, and not root.
pub fn folder() -> io::Result<PathBuf> {
    let usual = || runtime().or_else(|| is_root().then(|| ROOT.into()));
    CHOSEN.get().cloned().or_else(usual).ok_or_else(|| {
        let what = "XDG_RUNTIME_DIR is not set: set it to a folder that is yours alone";
        io::Error::new(io::ErrorKind::NotFound, what)
    })
}

/// All folders that this user may look into; root sees everybody's.
pub fn folders() -> Vec<PathBuf> {
    if let Some(chosen) = CHOSEN.get() {
        return vec![chosen.clone()];
    }
    let mut all: Vec<PathBuf> = runtime().into_iter().collect();
    if is_root() {
        all.push(ROOT.into());
        let users = std::fs::read_dir("/run/user").into_iter().flatten().flatten();
        all.extend(users.map(|user| user.path().join(NAME)));
    }
    all.sort();
    all.dedup();
    all
}

/// Connects, if that can be done at once: a process that stands still has a queue that may be full.
///
/// # Errors
/// Nobody listens there, or too many wait; what the operating system says.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The process of a socket's name.
pub fn pid(name: &OsStr) -> Option<u32> {
    let digits = name.to_str()?.strip_suffix(".sock")?;
    (!digits.starts_with(['0', '+'])).then(|| digits.parse().ok()).flatten()
}

/// Makes this process's socket: no one else may open it, and it answers from the moment that it has its name.
///
/// # Errors
/// The folder is not ours alone, the path is too long, a living process has our number, what the operating
/// system says.
pub fn bind(folder: &Path) -> io::Result<(UnixListener, PathBuf)> {
    own(folder)?;
    clean(folder);
    let pid = std::process::id();
    let (path, new) = (folder.join(format!("{pid}.sock")), folder.join(format!(".{pid}.new")));
    if connect(&path).is_ok() {
        let what = format!("{} is in use", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
    }
    remove(&new)?;
    let listener = UnixListener::bind(&new)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", new.display())))?;
    std::fs::set_permissions(&new, PermissionsExt::from_mode(0o600))?;
    // Whoever looks for stale sockets never meets one that does not listen yet.
    std::fs::rename(&new, &path)?;
    Ok((listener, path))
}

/// Makes the folder, or sees that it is ours and nobody else can write to it.
///
/// # Errors
/// It is not; what the operating system says.
pub fn own(folder: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())));
        }
        Ok(()) => return Ok(()),
    }
    let is = std::fs::symlink_metadata(folder)?;
    if is.is_dir() && is.uid() == rustix::process::geteuid().as_raw() && is.mode() & 0o022 == 0 {
        return Ok(());
    }
    let what = format!("{} is not a folder of yours alone: chmod 700 it", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes what dead processes have left.
fn clean(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if pid(&entry.file_name()).is_none() {
            continue;
        }
        let refused = connect(&entry.path())
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if refused {
            // Somebody else may have been quicker.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_of_processes() {
        for (name, is) in [
            ("1.sock", Some(1)),
            ("4194304.sock", Some(4_194_304)),
            ("0.sock", None),
            ("01.sock", None),
            ("+1.sock", None),
            (".sock", None),
            ("1", None),
            ("99999999999.sock", None),
        ] {
            assert_eq!(pid(OsStr::new(name)), is, "{name}");
        }
    }

    #[test]
    fn what_the_dead_left_is_removed_and_the_living_stay() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("fusewire");
        own(&folder).unwrap();
        drop(UnixListener::bind(folder.join("2.sock")).unwrap());
        let living = UnixListener::bind(folder.join("3.sock")).unwrap();
        std::fs::write(folder.join("notes"), "keep").unwrap();
        let (_listener, path) = bind(&folder).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
        assert!(!there("2.sock") && there("3.sock") && there("notes"));
        let twice = bind(&folder).unwrap_err();
        assert_eq!(twice.kind(), io::ErrorKind::AddrInUse);
        drop(living);
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(bind(dir.path()).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert_eq!(bind(&link).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
