//! Folders and links, made below an open folder.

use crate::Error;
use crate::message::Code;
use crate::meta::{Kind, Meta};
use crate::name::{PathError, RemotePath};
use crate::target::{open_parent, timestamps};
use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode};
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
    let os = |e| Error::os("make the link", path.as_bytes(), e);
    let dir = open_parent(root, path)?;
    match dir.symlink_metadata(OsStr::from_bytes(name)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(os(error)),
        Ok(_) if !replace => return Err(Error::local(Code::Exists, path.as_bytes())),
        Ok(there) => match Meta::of(&there).kind {
            Kind::File | Kind::Link => {}
            Kind::Folder | Kind::Other => {
                return Err(Error::local(Code::NotAFile, path.as_bytes()));
            }
        },
    }
    let part = crate::name::unfinished(name, crate::name::PART_SUFFIX);
    let part = OsStr::from_bytes(&part);
    let _ = dir.remove_file(part);
    dir.symlink_contents(OsStr::from_bytes(target), part).map_err(os)?;
    dir.rename(part, &dir, OsStr::from_bytes(name)).map_err(|error| {
        let _ = dir.remove_file(part);
        os(error)
    })
}

/// Sets permissions and time of the folder at `path`, of nothing else: files have theirs set before they have
/// their name.
pub(crate) fn touch(root: &Dir, path: &RemotePath, meta: &Meta) -> Result<(), Error> {
    let os = |e: rustix::io::Errno| Error::os("set the time of", path.as_bytes(), e);
    let dir = root
        .open_dir(path.as_path())
        .map_err(|e| Error::os("open the folder", path.as_bytes(), e))?;
    // The handle may be one that only names the folder; "." can be opened in it.
    rustix::fs::utimensat(&dir, ".", &timestamps(meta.mtime), AtFlags::empty()).map_err(os)?;
    let mode = Mode::from_raw_mode(meta.mode & 0o777);
    rustix::fs::chmodat(&dir, ".", mode, AtFlags::empty()).map_err(os)
}
