//! What is known of a file besides its contents.

use blake3::Hasher;
use cap_std::fs::{Metadata, MetadataExt};
use rustix::fs::{FileType, Stat};
use std::sync::LazyLock;

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket: shown, never transferred.
    Other,
}

/// A point in time as files have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970, below zero before.
    pub s: i64,
    /// Nanoseconds after that, less than 1,000,000,000.
    pub ns: u32,
}

/// Tells one state of a file from another. The first half names the file (device and inode), the second its
/// state (size, time of last modification and of last change); both are hashes, so the peer learns neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version(pub [u8; 16]);

impl Version {
    /// The half that names the file.
    pub fn file(&self) -> &[u8] {
        &self.0[..8]
    }
}

/// What is known of a file besides its name and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// Permission bits, `0o777` at most.
    pub mode: u32,
    /// Time of last modification.
    pub mtime: Time,
    /// Bytes of contents; zero for all but files.
    pub size: u64,
    /// The file may have holes: it takes less room than its size.
    pub sparse: bool,
    /// Which state of which file this is.
    pub version: Version,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Folders between it and the root of the listing; 0 for what lies in the root, and for the root itself
    /// where that is asked for by name.
    pub depth: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// The link's target, empty for all but links.
    pub target: Vec<u8>,
    /// The folder could not be read, or lies too deep: nothing in it is listed.
    pub unread: bool,
    /// The rest.
    pub meta: Meta,
}

/// What two files have alike that are taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) size: u64,
    pub(crate) mtime: Time,
}

impl Stamp {
    /// Of a regular file; of nothing else.
    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    pub(crate) fn of(stat: &Stat) -> Option<Stamp> {
        let mtime = Time {
            s: stat.st_mtime as i64,
            ns: u32::try_from(stat.st_mtime_nsec as i64).unwrap_or(0),
        };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then_some(Stamp { size: stat.st_size as u64, mtime })
    }
}

/// What the file system says, whichever way it was asked.
struct Found {
    kind: Kind,
    mode: u32,
    /// Seconds and nanoseconds.
    mtime: (i64, i64),
    ctime: (i64, i64),
    len: u64,
    /// Units of 512 bytes.
    blocks: u64,
    dev: u64,
    ino: u64,
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
        Meta::found(&Found {
            kind,
            mode: metadata.mode(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
            len: metadata.len(),
            blocks: metadata.blocks(),
            dev: metadata.dev(),
            ino: metadata.ino(),
        })
    }

    /// From what `stat` says.
    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    pub(crate) fn of_stat(stat: &Stat) -> Meta {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        Meta::found(&Found {
            kind,
            mode: stat.st_mode,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            len: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
        })
    }

    fn found(found: &Found) -> Meta {
        let size = if found.kind == Kind::File { found.len } else { 0 };
        Meta {
            kind: found.kind,
            mode: found.mode & 0o777,
            mtime: Time { s: found.mtime.0, ns: u32::try_from(found.mtime.1).unwrap_or(0) },
            size,
            sparse: found.blocks.saturating_mul(512) < size,
            version: version(found),
        }
    }
}

fn version(found: &Found) -> Version {
    // What the hasher makes of its context is the same for all.
    static HASHER: LazyLock<Hasher> =
        LazyLock::new(|| Hasher::new_derive_key("fusewire file version 1"));
    let mut version = [0; 16];
    let half = |to: &mut [u8], numbers: &[u64]| {
        let mut hasher = HASHER.clone();
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        to.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    };
    let (file, state) = version.split_at_mut(8);
    half(file, &[found.dev, found.ino]);
    let [mtime, ctime] = [found.mtime, found.ctime].map(|(s, ns)| [s as u64, ns as u64]);
    half(state, &[found.len, mtime[0], mtime[1], ctime[0], ctime[1]]);
    Version(version)
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
            assert_eq!(Meta::of_stat(&stat), one, "{name}");
            assert_ne!(one.version, Version::default());
        }
    }
}
