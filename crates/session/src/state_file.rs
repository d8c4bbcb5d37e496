//! Small private files, written so that a reader sees the old or the new content and nothing between.

use crate::error::Error;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes: about 80,000 known hosts.
const LEN_MAX: u64 = 8 << 20;

/// A temporary file beside its target, mode 0600, removed when dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // It may have been renamed, and then there is nothing left to remove.
        let _ = fs::remove_file(&self.0);
    }
}

fn write_temporary(path: &Path, content: &[u8]) -> Result<Temporary, Error> {
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| Error::os("make folder", folder, e))?;
    }
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| Error::Crypto("give random bytes"))?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{:016x}.tmp", u64::from_ne_bytes(random)));
    let temporary = path.with_file_name(name);
    let os = |e| Error::os("write", &temporary, e);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(os)?;
    let guard = Temporary(temporary.clone());
    file.write_all(content).and_then(|()| file.sync_all()).map_err(os)?;
    Ok(guard)
}

fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Durability of the name alone; the content is safe either way.
    let _ = File::open(folder).and_then(|f| f.sync_all());
}

/// Puts `content` at `path`, in place of what was there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let temporary = write_temporary(path, content)?;
    fs::rename(&temporary.0, path).map_err(|e| Error::os("rename to", path, e))?;
    sync_folder(path);
    Ok(())
}

/// Puts `content` at `path` unless something is there. Of many processes at once, one is told `true`.
pub(crate) fn create(path: &Path, content: &[u8]) -> Result<bool, Error> {
    let temporary = write_temporary(path, content)?;
    match fs::hard_link(&temporary.0, path) {
        Ok(()) => {
            sync_folder(path);
            Ok(true)
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(Error::os("create", path, e)),
    }
}

/// The text at `path`; empty when there is no file.
///
/// # Errors
/// [`Error::Owner`], [`Error::Os`].
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    match read_text_there(path) {
        Err(Error::Os { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

/// The text at `path`.
///
/// # Errors
/// [`Error::Owner`], [`Error::Os`].
pub(crate) fn read_text_there(path: &Path) -> Result<String, Error> {
    let os = |e| Error::os("read", path, e);
    let file = File::open(path).map_err(os)?;
    let meta = file.metadata().map_err(os)?;
    check_owner(&meta, path)?;
    let mut text = String::new();
    let read = file.take(LEN_MAX + 1).read_to_string(&mut text).map_err(os)?;
    if read as u64 > LEN_MAX { Err(os(ErrorKind::FileTooLarge.into())) } else { Ok(text) }
}

/// `meta`, of an open file, says that it belongs to the user who runs this program, or to root.
///
/// # Errors
/// [`Error::Owner`].
pub(crate) fn check_owner(meta: &Metadata, path: &Path) -> Result<(), Error> {
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner == user || owner == 0 {
        return Ok(());
    }
    Err(Error::Owner { path: path.to_path_buf(), owner, user })
}

/// Runs `change` while no other process does so for the same file.
pub(crate) fn locked<T>(
    path: &Path,
    change: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".lock");
    let lock_path = path.with_file_name(name);
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|e| Error::os("make folder", folder, e))?;
    }
    let os = |e| Error::os("lock", &lock_path, e);
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(os)?;
    lock.lock().map_err(os)?;
    change()
}

/// What of `text` may go into an error message: short, without control characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
