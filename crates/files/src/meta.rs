//! What is known of a file besides its contents.

use crate::attributes::{LINKS, OWNER, STICKY};
use crate::message::{Kind, Meta, Time, Version};
use blake3::Hasher;
use cap_std::fs::{Metadata, MetadataExt};
use rustix::fs::{FileType, Stat};
use std::cmp::Ordering;
use std::sync::LazyLock;

// What the messages say of a file is small, and goes from hand to hand.
impl Copy for Time {}
impl Copy for Version {}
impl Copy for Meta {}
impl Eq for Time {}
impl Eq for Version {}

impl Time {
    /// From what the file system says.
    fn of(s: i64, ns: i64) -> Time {
        Time { s, ns: u32::try_from(ns).unwrap_or(0) }
    }

    /// Which of two is later.
    pub(crate) fn cmp(&self, other: &Time) -> Ordering {
        (self.s, self.ns).cmp(&(other.s, other.ns))
    }
}

impl From<u128> for Version {
    /// Both hashes, that of the file first.
    fn from(hashes: u128) -> Version {
        Version { file: (hashes >> 64) as u64, state: hashes as u64 }
    }
}

impl Version {
    /// Both hashes, as records of unfinished files have them.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.file) << 64) | u128::from(self.state)).to_be_bytes()
    }
}

/// Returns the user that this process has the rights of.
fn own_uid() -> u32 {
    static UID: LazyLock<u32> = LazyLock::new(|| rustix::process::geteuid().as_raw());
    *UID
}

/// What the file system says, whichever way it was asked.
pub(crate) struct Found {
    pub(crate) kind: Kind,
    pub(crate) mtime: Time,
    pub(crate) len: u64,
    mode: u32,
    uid: u32,
    /// Names.
    nlink: u64,
    ctime: Time,
    /// Units of 512 bytes.
    blocks: u64,
    dev: u64,
    ino: u64,
}

impl Found {
    /// What `stat` says.
    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    pub(crate) fn of_stat(stat: &Stat) -> Found {
        Found {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            },
            mode: stat.st_mode,
            uid: stat.st_uid,
            nlink: stat.st_nlink as u64,
            mtime: Time::of(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: Time::of(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            len: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
        }
    }

    /// As messages have it.
    pub(crate) fn meta(&self) -> Meta {
        let size = if self.kind == Kind::File { self.len } else { 0 };
        let mut meta = Meta {
            kind: self.kind,
            mode: (self.mode & 0o777) as u16,
            mtime: self.mtime,
            size,
            sparse: self.blocks.saturating_mul(512) < size,
            version: self.version(),
            besides: None,
        };
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        meta.add_besides(match self.kind {
            Kind::File => bit(self.nlink > 1, LINKS),
            Kind::Folder => bit(self.mode & 0o1000 != 0, STICKY),
            _ => 0,
        });
        if matches!(self.kind, Kind::File | Kind::Folder) {
            meta.add_besides(bit(self.uid != own_uid(), OWNER));
        }
        meta
    }

    fn version(&self) -> Version {
        // What the hasher makes of its context is the same for all.
        static HASHER: LazyLock<Hasher> =
            LazyLock::new(|| Hasher::new_derive_key("fusewire file version 1"));
        let half = |numbers: &[u64]| {
            let mut hasher = HASHER.clone();
            for number in numbers {
                hasher.update(&number.to_le_bytes());
            }
            hasher.finalize().as_bytes().first_chunk().map_or(0, |half| u64::from_be_bytes(*half))
        };
        let [mtime, ctime] = [self.mtime, self.ctime].map(|Time { s, ns }| [s as u64, ns.into()]);
        Version {
            file: half(&[self.dev, self.ino]),
            state: half(&[self.len, mtime[0], mtime[1], ctime[0], ctime[1]]),
        }
    }
}

impl Meta {
    /// From what the file system says.
    pub fn of(metadata: &Metadata) -> Meta {
        let kind = if metadata.is_file() {
            Kind::File
        } else if metadata.is_dir() {
            Kind::Folder
        } else if metadata.is_symlink() {
            Kind::Link
        } else {
            Kind::Other
        };
        let found = Found {
            kind,
            mode: metadata.mode(),
            uid: metadata.uid(),
            nlink: metadata.nlink(),
            mtime: Time::of(metadata.mtime(), metadata.mtime_nsec()),
            ctime: Time::of(metadata.ctime(), metadata.ctime_nsec()),
            len: metadata.len(),
            blocks: metadata.blocks(),
            dev: metadata.dev(),
            ino: metadata.ino(),
        };
        found.meta()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::fs::Dir;
    use rustix::fs::AtFlags;

    #[test]
    fn both_ways_of_asking_find_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), b"contents").unwrap();
        std::fs::File::create(dir.path().join("sparse")).unwrap().set_len(1 << 20).unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let root = Dir::open_ambient_dir(dir.path(), cap_std::ambient_authority()).unwrap();
        for name in ["file", "sparse", "link", "folder"] {
            let one = Meta::of(&root.symlink_metadata(name).unwrap());
            let stat = rustix::fs::statat(&root, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!(Found::of_stat(&stat).meta(), one, "{name}");
            assert_ne!(one.version, Version::from(0));
        }
    }
}
