//! Where to put what is got, as the user's words have it.

use crate::target::Outlet;
use crate::{Error, RemotePath};
use cap_std::fs::Dir;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where to put what is got. It does not depend on what an earlier run has left there, so that the same again
/// goes on in the same place.
#[derive(Debug)]
pub struct Destination {
    pub(super) file: FilePlace,
    /// For a folder.
    pub(super) folder: Place,
}

/// Below `dir` under `name`, or `dir` itself if the name is empty. Nothing is written outside.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) dir: Dir,
    pub(super) name: RemotePath,
}

/// Where a single file goes.
#[derive(Debug)]
pub(super) enum FilePlace {
    Named(Place),
    /// Into what keeps no file.
    Outlet(Arc<Outlet>),
}

/// What to do about a link under the very name that the user gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Refuse,
    Replace,
}

impl Destination {
    /// Understands `path`:
    ///
    /// - with a slash at its end, or as `.` or `..`, it is a folder to put things into under the remote's own
    ///   name, made if it is missing;
    /// - otherwise it is the name that a folder gets, whether it is there already or not (`cp -T`); a link to a
    ///   folder is that folder;
    /// - a file goes into a folder that is there, and otherwise gets the name;
    /// - what is neither file nor folder, such as a pipe, is written to.
    ///
    /// Folders that are missing above it are made when something is stored.
    ///
    /// # Errors
    /// The folder cannot be opened, neither side gives a name, or it is a link that a file would replace.
    pub fn from_path(path: &Path, remote: &RemotePath) -> Result<Destination, Error> {
        Destination::of(path, remote, Links::Refuse)
    }

    /// The same; a link is replaced.
    ///
    /// # Errors
    /// As [`Destination::from_path`], but for the link.
    pub fn replacing_links(path: &Path, remote: &RemotePath) -> Result<Destination, Error> {
        Destination::of(path, remote, Links::Replace)
    }

    /// A file is written to `outlet`, in order and verified. A folder cannot be.
    ///
    /// # Errors
    /// The current folder cannot be opened.
    pub fn to_outlet(outlet: Outlet) -> Result<Destination, Error> {
        let folder = Place { dir: open(Path::new("."))?, name: RemotePath::default() };
        Ok(Destination { file: FilePlace::Outlet(Arc::new(outlet)), folder })
    }

    fn of(path: &Path, remote: &RemotePath, links: Links) -> Result<Destination, Error> {
        let (parent, last) = match split(path) {
            Some((parent, last)) if !is_folder_name(path) => (parent, last),
            split => return Destination::into_folder(path, split, remote),
        };
        let name = last.as_bytes();
        let place = || Place::new(parent, name);
        let there = std::fs::metadata(path).map(|there| there.file_type());
        if there.as_ref().is_ok_and(|there| there.is_dir()) {
            let own = own_name(remote)?;
            let file = FilePlace::Named(Place { dir: open(path)?, name: own });
            let folder = match path.is_symlink() {
                true => Place { dir: open(path)?, name: RemotePath::default() },
                false => place()?,
            };
            return Ok(Destination { file, folder });
        }
        let is_special = |t: &std::fs::FileType| {
            t.is_fifo() || t.is_char_device() || t.is_block_device() || t.is_socket()
        };
        if there.as_ref().is_ok_and(is_special) {
            let outlet = Arc::new(Outlet::to_path(path));
            return Ok(Destination { file: FilePlace::Outlet(outlet), folder: place()? });
        }
        if links == Links::Refuse
            && let Ok(target) = std::fs::read_link(path)
        {
            let target = target.as_os_str().as_bytes().to_vec();
            return Err(Error::Link { path: path.as_os_str().as_bytes().to_vec(), target });
        }
        Ok(Destination { file: FilePlace::Named(place()?), folder: place()? })
    }

    /// Into the folder `path` under the remote's own name; for the served folder, which has none, that is the
    /// folder itself.
    fn into_folder(
        path: &Path,
        split: Option<(&Path, &std::ffi::OsStr)>,
        remote: &RemotePath,
    ) -> Result<Destination, Error> {
        let own = own_name(remote)?;
        let place = |name: &RemotePath| match (path.is_dir(), split) {
            (false, Some((parent, last))) => {
                let names = [last.as_bytes(), b"/", name.as_bytes()].concat();
                Place::new(parent, names.strip_suffix(b"/").unwrap_or(&names))
            }
            _ => Ok(Place { dir: open(path)?, name: name.clone() }),
        };
        Ok(Destination { file: FilePlace::Named(place(&own)?), folder: place(&own)? })
    }
}

impl Place {
    /// Returns the place `names` below `folder`. Where that folder is missing, the place is below the deepest folder
    /// above it that exists; the others are made when something is stored.
    fn new(folder: &Path, names: &[u8]) -> Result<Place, Error> {
        let wrong = |problem| Error::path(names, problem);
        match (open(folder), split(folder)) {
            (Err(Error::Os { source, .. }), Some((above, last)))
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Place::new(above, &[last.as_bytes(), b"/", names].concat())
            }
            (dir, _) => {
                Ok(Place { dir: dir?, name: RemotePath::new(names.to_vec()).map_err(wrong)? })
            }
        }
    }
}

/// It ends in a slash or in a name that only says where one is.
fn is_folder_name(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let last = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    matches!(last, b"" | b"." | b"..")
}

/// The folder that holds it, and its name there, if it has one.
fn split(path: &Path) -> Option<(&Path, &std::ffi::OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

fn own_name(remote: &RemotePath) -> Result<RemotePath, Error> {
    let name = remote.name().unwrap_or_default();
    RemotePath::new(name.to_vec()).map_err(|e| Error::path(name, e))
}

fn open(path: &Path) -> Result<Dir, Error> {
    let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_path_buf() };
    Dir::open_ambient_dir(&path, cap_std::ambient_authority())
        .map_err(|e| Error::os("open the folder", path.as_os_str().as_bytes(), e))
}
