//! Opening and making the folders above a path, none of them through a link.
//!
//! Where a link lies is what says how far up it may lead ([`crate::name::link_stays_inside`]), and a path's
//! names say that only while each of them is a folder: below `p`, a link to `.`, everything lies less deep
//! than its path looks.

use crate::Error;
use crate::message::Code;
use crate::name::RemotePath;
use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// The handle only names the folder: what is in it is opened through it.
const FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder at `path` below `root`.
///
/// # Errors
/// It is not there; [`Code::NotAFolder`] where a name of it is a link or anything else but a folder.
pub(crate) fn open(root: &Dir, path: &RemotePath) -> Result<Dir, Error> {
    find(root, path).map_err(|errno| error("open the folder", path, errno))
}

/// Opens the folder above `path`, making what is missing.
///
/// # Errors
/// As [`open`], but that it is not there.
pub(crate) fn open_parent(root: &Dir, path: &RemotePath) -> Result<Dir, Error> {
    let parent = path.parent();
    match find(root, &parent) {
        Err(Errno::NOENT) => {
            walk(root, &parent, true).map_err(|errno| error("make the folder", &parent, errno))
        }
        other => other.map_err(|errno| error("open the folder", &parent, errno)),
    }
}

/// The folder that was opened last. It stays open while one file after the other goes there, or comes from there, and
/// no longer: whoever has nothing more to do forgets it.
#[derive(Debug, Default)]
pub(crate) struct Last(Option<(RawFd, RemotePath, Arc<Dir>)>);

impl Last {
    /// The folder above `path`, as [`open_parent`] opens it if it is another than the last, or below another root.
    ///
    /// # Errors
    /// As [`open_parent`].
    pub(crate) fn parent(&mut self, root: &Dir, path: &RemotePath) -> Result<Arc<Dir>, Error> {
        self.or(root, path, || open_parent(root, path))
    }

    /// The same, but that nothing is made.
    ///
    /// # Errors
    /// As [`open`].
    pub(crate) fn parent_if_there(
        &mut self,
        root: &Dir,
        path: &RemotePath,
    ) -> Result<Arc<Dir>, Error> {
        self.or(root, path, || open(root, &path.parent()))
    }

    fn or(
        &mut self,
        root: &Dir,
        path: &RemotePath,
        open: impl FnOnce() -> Result<Dir, Error>,
    ) -> Result<Arc<Dir>, Error> {
        let root = root.as_raw_fd();
        if let Some((below, last, dir)) = &self.0
            && *below == root
            && last.is_parent_of(path)
        {
            return Ok(Arc::clone(dir));
        }
        let dir = Arc::new(open()?);
        self.0 = Some((root, path.parent(), Arc::clone(&dir)));
        Ok(dir)
    }

    /// Closes it.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

fn error(action: &'static str, path: &RemotePath, errno: Errno) -> Error {
    match errno {
        Errno::LOOP | Errno::NOTDIR => Error::local(Code::NotAFolder, path.as_bytes()),
        errno => Error::os(action, path.as_bytes(), errno),
    }
}

fn find(root: &Dir, path: &RemotePath) -> rustix::io::Result<Dir> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path.as_path(), FLAGS, Mode::empty(), resolve) {
        // A kernel before 5.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(root, path, false),
        other => other.map(Dir::from),
    }
}

/// The same, a name at a time; `make`s what is missing.
fn walk(root: &Dir, path: &RemotePath, make: bool) -> rustix::io::Result<Dir> {
    let open = |dir: &OwnedFd, name: &OsStr| rustix::fs::openat(dir, name, FLAGS, Mode::empty());
    let mut dir = rustix::fs::openat(root, ".", FLAGS, Mode::empty())?;
    for name in path.as_bytes().split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        dir = match open(&dir, name) {
            Err(Errno::NOENT) if make => {
                match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
                    // Somebody else makes it too.
                    Ok(()) | Err(Errno::EXIST) => open(&dir, name)?,
                    Err(errno) => return Err(errno),
                }
            }
            other => other?,
        };
    }
    Ok(Dir::from(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_find_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/f"), b"").unwrap();
        symlink(".", dir.path().join("a/link")).unwrap();
        symlink("nowhere", dir.path().join("a/broken")).unwrap();
        let root = Dir::open_ambient_dir(dir.path(), cap_std::ambient_authority()).unwrap();
        let code = |found: rustix::io::Result<Dir>| match found {
            Ok(found) => Ok(found.dir_metadata().unwrap()).map(|m| {
                use cap_std::fs::MetadataExt as _;
                m.ino()
            }),
            Err(errno) => Err(error("open", &RemotePath::default(), errno).code()),
        };
        for (path, expected) in [
            ("", None),
            ("a", None),
            ("a/b", None),
            ("a/c", Some(Code::NotFound)),
            ("a/f", Some(Code::NotAFolder)),
            ("a/f/x", Some(Code::NotAFolder)),
            ("a/link", Some(Code::NotAFolder)),
            ("a/link/b", Some(Code::NotAFolder)),
            ("a/broken/b", Some(Code::NotAFolder)),
        ] {
            let path = RemotePath::from_user(path.as_bytes()).unwrap();
            let (one, other) = (code(find(&root, &path)), code(walk(&root, &path, false)));
            assert_eq!(one, other, "{path}");
            assert_eq!(one.err(), expected, "{path}");
        }
    }
}
