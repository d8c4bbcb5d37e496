//! What is known of a file besides its contents.

use cap_std::fs::{Metadata, MetadataExt};

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
        let size = if kind == Kind::File { metadata.len() } else { 0 };
        Meta {
            kind,
            mode: metadata.mode() & 0o777,
            mtime: Time {
                s: metadata.mtime(),
                ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            },
            size,
            sparse: metadata.blocks().saturating_mul(512) < size,
            version: version(metadata),
        }
    }
}

fn version(metadata: &Metadata) -> Version {
    let mut version = [0; 16];
    let half = |to: &mut [u8], numbers: &[u64]| {
        let mut hasher = blake3::Hasher::new_derive_key("fusewire file version 1");
        for number in numbers {
            hasher.update(&number.to_le_bytes());
        }
        to.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    };
    let (file, state) = version.split_at_mut(8);
    half(file, &[metadata.dev(), metadata.ino()]);
    let (mtime, ctime) = (metadata.mtime() as u64, metadata.ctime() as u64);
    let (mtime_ns, ctime_ns) = (metadata.mtime_nsec() as u64, metadata.ctime_nsec() as u64);
    half(state, &[metadata.len(), mtime, mtime_ns, ctime, ctime_ns]);
    Version(version)
}
