//! Folders and links, made below an open folder.

use crate::Error;
use crate::folder::{self, open_parent};
use crate::message::{Code, Kind, Meta};
use crate::name::{self, PathError, RemotePath};
use crate::target::timestamps;
use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;

/// Makes the folder at `path` and those above it; one that is there is kept.
pub(crate) fn make_folder(root: &Dir, path: &RemotePath) -> Result<(), Error> {
    let Some(name) = path.name().map(OsStr::from_bytes) else { return Ok(()) };
    let os = |e| Error::os("make the folder", path.as_bytes(), e);
    let dir = open_parent(root, path)?;
    match dir.create_dir(name) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other.map_err(os),
    }
    if dir.symlink_metadata(name).map_err(os)?.is_dir() {
        return Ok(());
    }
    Err(Error::local(Code::NotAFolder, path.as_bytes()))
}

/// Lets the owner of the folder at `path` do everything in it, until [`touch`] sets its permissions.
pub(crate) fn let_owner_write(root: &Dir, path: &RemotePath) -> Result<(), Error> {
    let os = |e: Errno| Error::os("set the permissions of", path.as_bytes(), e);
    let dir = folder::open(root, path)?;
    let mode = rustix::fs::fstat(&dir).map_err(os)?.st_mode & 0o7777;
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    match rustix::fs::chmodat(&dir, ".", Mode::from_raw_mode(mode | 0o700), AtFlags::empty()) {
        // Another user's: what cannot be stored in it says so itself.
        Err(Errno::PERM | Errno::ACCESS) => Ok(()),
        other => other.map_err(os),
    }
}

/// Removes what processes that have ended left in the folder at `path` between making something and giving it its name.
pub(crate) fn remove_spares(root: &Dir, path: &RemotePath) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(dir) = folder::open(root, path) else { return };
    let opened = rustix::fs::openat(&dir, ".", flags, Mode::empty());
    let Ok(entries) = opened.and_then(rustix::fs::Dir::new) else { return };
    for entry in entries.flatten() {
        let process = name::spare_of(entry.file_name().to_bytes());
        let process = process.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if process.is_some_and(|id| test_kill_process(id) == Err(Errno::SRCH)) {
            let _ = rustix::fs::unlinkat(&dir, entry.file_name(), AtFlags::empty());
        }
    }
}

/// Returns `true` if there is a link at `path` that leads to `target`.
pub(crate) fn has_link(root: &Dir, path: &RemotePath, target: &[u8]) -> bool {
    let Ok(dir) = folder::open(root, &path.parent()) else { return false };
    let name = OsStr::from_bytes(path.name().unwrap_or_default());
    rustix::fs::readlinkat(&dir, name, Vec::new()).is_ok_and(|there| there.to_bytes() == target)
}

/// Makes a link at `path` that leads to `target`, which was found to stay inside. A file or link that is
/// there is replaced by renaming.
pub(crate) fn make_link(
    root: &Dir,
    path: &RemotePath,
    target: &[u8],
    replace: bool,
) -> Result<(), Error> {
    let Some(name) = path.name() else {
        return Err(Error::path(path.as_bytes(), PathError::Component("")));
    };
    let os = |e: Errno| Error::os("make the link", path.as_bytes(), e);
    let dir = open_parent(root, path)?;
    let (target, at) = (OsStr::from_bytes(target), OsStr::from_bytes(name));
    match rustix::fs::symlinkat(target, &dir, at) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) if replace => {}
        Err(Errno::EXIST) => return Err(Error::local(Code::Exists, path.as_bytes())),
        Err(error) => return Err(os(error)),
    }
    let there = dir.symlink_metadata(at);
    let there = there.map_err(|e| Error::os("look at", path.as_bytes(), e))?;
    if let Kind::Folder | Kind::Other = Meta::of(&there).kind {
        return Err(Error::local(Code::NotAFile, path.as_bytes()));
    }
    // The name of the partial file may be an upload's that goes on.
    let spare = loop {
        let spare = crate::name::spare(name);
        match rustix::fs::symlinkat(target, &dir, OsStr::from_bytes(&spare)) {
            Ok(()) => break spare,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(os(error)),
        }
    };
    let spare = OsStr::from_bytes(&spare);
    rustix::fs::renameat(&dir, spare, &dir, at).map_err(|error| {
        let _ = rustix::fs::unlinkat(&dir, spare, AtFlags::empty());
        os(error)
    })
}

/// Sets permissions and time of the folder at `path`, of nothing else: files have theirs set before they have
/// their name.
pub(crate) fn touch(root: &Dir, path: &RemotePath, meta: &Meta) -> Result<(), Error> {
    let os = |e: rustix::io::Errno| Error::os("set the time of", path.as_bytes(), e);
    let dir = folder::open(root, path)?;
    // The handle may be one that only names the folder; "." can be opened in it.
    rustix::fs::utimensat(&dir, ".", &timestamps(meta.mtime), AtFlags::empty()).map_err(os)?;
    let mode = Mode::from_raw_mode(meta.permissions());
    rustix::fs::chmodat(&dir, ".", mode, AtFlags::empty()).map_err(os)
}
