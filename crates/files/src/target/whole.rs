//! A file that came in one piece: written without a name, and given its name when it is complete.
//!
//! It is short enough to be in memory when its hash is looked at, so nothing of it need lie on the disk before that:
//! no partial file, no lock, no record. What is broken off leaves nothing. Where the file system knows no files
//! without a name ([`write`] gives nothing) it goes the way of all others.

use super::{Spot, Storing, check_place, timestamps};
use crate::Error;
use crate::inbox::WINDOW_LEN;
use crate::message::{Code, Meta};
use crate::name;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longer files do not come in one piece.
pub(super) const LEN_MAX: u64 = WINDOW_LEN as u64;

/// A whole file without a name.
#[derive(Debug)]
pub(super) struct Whole {
    file: OwnedFd,
}

/// A link is made to what a descriptor refers to by its name there, unless the kernel does without.
fn can_be_named() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| Path::new("/proc/self/fd").exists())
}

/// Writes `bytes`, all of a file that will be at `spot`; nothing where that is not possible.
pub(super) fn write(spot: &Spot, bytes: &[u8], path: &[u8]) -> Result<Option<Whole>, Error> {
    let os = |errno: Errno| Error::os("write", path, errno);
    if !can_be_named() {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(&*spot.dir, ".", flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(None),
        Err(errno) => return Err(os(errno)),
    };
    let (mut at, mut rest) = (0, bytes);
    while !rest.is_empty() {
        match rustix::io::pwrite(&file, rest, at) {
            Ok(0) => return Err(Error::local(Code::NoSpace, path)),
            Ok(n) => {
                at += n as u64;
                rest = &rest[n..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(os(errno)),
        }
    }
    Ok(Some(Whole { file }))
}

impl Whole {
    /// Permissions, time and name.
    pub(super) fn give_name(
        &self,
        spot: &Spot,
        path: &[u8],
        meta: &Meta,
        storing: Storing,
    ) -> Result<(), Error> {
        let os = |action| move |errno: Errno| Error::os(action, path, errno);
        if storing.sync {
            rustix::fs::fdatasync(&self.file).map_err(os("write"))?;
        }
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(meta.mode.into()))
            .map_err(os("set the permissions of"))?;
        rustix::fs::futimens(&self.file, &timestamps(meta.mtime)).map_err(os("set the time of"))?;
        match self.link(spot, OsStr::from_bytes(&spot.name)) {
            Ok(()) => {}
            Err(Errno::EXIST) if storing.replace => self.replace(spot, path)?,
            Err(Errno::EXIST) => return Err(Error::local(Code::Exists, path)),
            Err(errno) => return Err(os("write")(errno)),
        }
        if storing.sync { spot.sync().map_err(os("write the folder of")) } else { Ok(()) }
    }

    /// Takes the place of what is there.
    fn replace(&self, spot: &Spot, path: &[u8]) -> Result<(), Error> {
        check_place(&spot.dir, &spot.name, path, true)?;
        let os = |errno: Errno| Error::os("replace", path, errno);
        let spare = loop {
            let spare = name::spare(&spot.name);
            match self.link(spot, OsStr::from_bytes(&spare)) {
                Ok(()) => break spare,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(os(errno)),
            }
        };
        let (spare, name) = (OsStr::from_bytes(&spare), OsStr::from_bytes(&spot.name));
        rustix::fs::renameat(&*spot.dir, spare, &*spot.dir, name).map_err(|errno| {
            let _ = rustix::fs::unlinkat(&*spot.dir, spare, AtFlags::empty());
            os(errno)
        })
    }

    fn link(&self, spot: &Spot, name: &OsStr) -> rustix::io::Result<()> {
        // What a kernel before 6.10 allows to root alone.
        static BY_DESCRIPTOR: AtomicBool = AtomicBool::new(true);
        if BY_DESCRIPTOR.load(Ordering::Relaxed) {
            match rustix::fs::linkat(&self.file, "", &*spot.dir, name, AtFlags::EMPTY_PATH) {
                Err(Errno::NOENT) => BY_DESCRIPTOR.store(false, Ordering::Relaxed),
                other => return other,
            }
        }
        let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, file, &*spot.dir, name, AtFlags::SYMLINK_FOLLOW)
    }
}
