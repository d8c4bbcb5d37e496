//! The journal of a transfer of many files: which of them are complete, so that the same transfer goes on after it was
//! interrupted.
//!
//! ```text
//! "fusewire done 1\n" | name (16) version (16) hash (32) | name …
//! ```
//! The name is the first half of the BLAKE3 hash of the file's path, the version that of the source's state (device,
//! inode, size and times), and the hash that of the contents; it is zero where the side that keeps the journal does not
//! know it. The journal is not trusted: what it names is compared again before it counts. It is appended to as files
//! become complete, and removed when all of them are.

use crate::RemotePath;
use crate::blocks::BlockHash;
use crate::message::Version;
use rustix::fs::FlockOperation;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MAGIC: &[u8; 16] = b"fusewire done 1\n";
const RECORD_LEN: usize = 64;
/// Records that are written together, at most.
const WAITING_MAX: usize = 64;
/// Bytes of files that these records stand for, at most, but for the last one.
const WAITING_BYTES_MAX: u64 = 1 << 20;
/// A journal that was not written to for this long is removed when another one is opened.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The journal of one transfer.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` until the first file is complete.
    file: Option<File>,
    /// Records of an interrupted run.
    known: HashMap<u128, ([u8; 16], BlockHash)>,
    /// Nothing is written any more: an earlier write failed.
    has_failed: bool,
    /// Records that are not written yet.
    waiting: Vec<u8>,
    /// Bytes of the files that they stand for.
    waiting_bytes: u64,
}

impl Journal {
    /// Opens the journal of the transfer that `command` tells from others, in the folder `dir`, which is made if it is
    /// missing. With `anew`, what an interrupted run has recorded is dropped.
    ///
    /// # Errors
    /// The folder or the journal cannot be used, or the same transfer is running in another process
    /// ([`io::ErrorKind::WouldBlock`]).
    pub fn open(dir: &Path, command: &[u8], anew: bool) -> io::Result<Journal> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let name = blake3::hash(command).to_hex();
        let path = dir.join(format!("{}.done", &name[..32]));
        remove_old(dir);
        let mut state = State::default();
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(mut file) => {
                lock(&file)?;
                if !anew {
                    state.known = read(&mut file)?;
                }
                if state.known.is_empty() {
                    file.set_len(0)?;
                    file.rewind()?;
                    file.write_all(MAGIC)?;
                }
                state.file = Some(file);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Journal { path, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the hash of the file at `path`, if an interrupted run completed it from this state of the source. It is
    /// zero if the hash is not known.
    pub(super) fn find(&self, path: &RemotePath, version: Version) -> Option<BlockHash> {
        let state = self.lock();
        let (recorded, hash) = state.known.get(&key(path))?;
        (*recorded == version.to_bytes()).then_some(*hash)
    }

    /// Records that the file of `size` bytes at `path` is complete. A journal that cannot be written costs no transfer.
    ///
    /// A few records of short files are written together: a crash loses them, and these files are sent again.
    pub(super) fn append(
        &self,
        path: &RemotePath,
        (version, size): (Version, u64),
        hash: Option<BlockHash>,
    ) {
        let mut record = [0; RECORD_LEN];
        record[..16].copy_from_slice(&key(path).to_be_bytes());
        record[16..32].copy_from_slice(&version.to_bytes());
        record[32..].copy_from_slice(&hash.unwrap_or_default());
        let mut state = self.lock();
        state.waiting.extend(record);
        state.waiting_bytes = state.waiting_bytes.saturating_add(size);
        if state.waiting.len() >= WAITING_MAX * RECORD_LEN
            || state.waiting_bytes >= WAITING_BYTES_MAX
        {
            state.flush(&self.path);
        }
    }

    /// Everything is complete.
    pub(super) fn remove(&self) {
        let mut state = self.lock();
        if state.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
        state.has_failed = true;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.flush(&self.path);
    }
}

impl State {
    /// Writes the records that wait.
    fn flush(&mut self, path: &Path) {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if !self.has_failed
            && !waiting.is_empty()
            && let Err(error) = self.write(path, &waiting)
        {
            tracing::debug!(%error, "the journal is given up");
            self.has_failed = true;
        }
    }

    fn write(&mut self, path: &Path, records: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                let mut file =
                    options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
                lock(&file)?;
                file.write_all(MAGIC)?;
                none.insert(file)
            }
        };
        file.write_all(records)
    }
}

fn key(path: &RemotePath) -> u128 {
    blake3::hash(path.as_bytes()).as_bytes().first_chunk().map_or(0, |b| u128::from_be_bytes(*b))
}

fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// Reads all records, and leaves the file open behind the last whole one. A crash can have cut the last one short.
fn read(file: &mut File) -> io::Result<HashMap<u128, ([u8; 16], BlockHash)>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mut known = HashMap::new();
    let Some(records) = bytes.strip_prefix(MAGIC) else { return Ok(known) };
    for record in records.chunks_exact(RECORD_LEN) {
        if let (Some(key), Some(version), Some(hash)) =
            (record.first_chunk(), record[16..].first_chunk(), record.last_chunk())
        {
            known.insert(u128::from_be_bytes(*key), (*version, *hash));
        }
    }
    let end = (MAGIC.len() + records.len() / RECORD_LEN * RECORD_LEN) as u64;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    Ok(known)
}

/// Removes journals of transfers that were not taken up again for a long time.
fn remove_old(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEPT));
        if is_old && entry.path().extension().is_some_and(|extension| extension == "done") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_again_by_path_and_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| RemotePath::from_user(name.as_bytes()).unwrap();
        let version = |n: u128| Version::from(n);
        let open = |command: &[u8], anew| Journal::open(&dir.path().join("a/b"), command, anew);
        {
            let journal = open(b"x", false).unwrap();
            assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 0, "made too early");
            journal.append(&path("f"), (version(1), 1), Some([7; 32]));
            journal.append(&path("g"), (version(2), 1 << 20), None);
            let again = open(b"x", false).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::WouldBlock);
        }
        // The crash came within a record.
        let file = fs::read_dir(dir.path().join("a/b")).unwrap().next().unwrap().unwrap().path();
        OpenOptions::new().append(true).open(&file).unwrap().write_all(&[1; 30]).unwrap();
        {
            let journal = open(b"x", false).unwrap();
            assert_eq!(journal.find(&path("f"), version(1)), Some([7; 32]));
            assert_eq!(journal.find(&path("g"), version(2)), Some([0; 32]));
            assert_eq!(journal.find(&path("g"), version(1)), None);
            journal.append(&path("h"), (version(3), 1), None);
        }
        assert_eq!(open(b"y", false).unwrap().find(&path("f"), version(1)), None);
        {
            let journal = open(b"x", false).unwrap();
            assert!(journal.find(&path("h"), version(3)).is_some());
        }
        let journal = open(b"x", true).unwrap();
        assert_eq!(journal.find(&path("h"), version(3)), None);
        journal.append(&path("h"), (version(4), 1 << 20), None);
        journal.remove();
        assert!(!file.exists());
    }
}
