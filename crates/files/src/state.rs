//! The record of an unfinished file: which blocks are in the partial file, and their hashes.
//!
//! ```text
//! "fusewire part 1\n" | version (16) | size (8, big-endian) | block number (8) hash (32) | block …
//! ```
//! Once blocks are in it that were compared with no hash of their sender it begins with "fusewire part r\n", and is taken up
//! only where none are compared. It is appended to as blocks are verified. It is not trusted when a transfer is resumed: each block is
//! hashed again, so a crash between the two files, or a change to one of them, costs those blocks and no more.

use crate::Error;
use crate::blocks::{BlockHash, block_count};
use crate::message::{Code, Version};
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;

const MAGIC: &[u8; 16] = b"fusewire part 1\n";
/// Of blocks that were compared with nothing.
const MAGIC_UNCOMPARED: &[u8; 16] = b"fusewire part r\n";
const RECORD_LEN: usize = 40;
/// Files of fewer blocks are not resumed: to send them again is quicker than to keep a record.
pub(crate) const RESUMED_BLOCKS_MIN: u64 = 4;

/// Which state of which file is being received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) version: Version,
    pub(crate) size: u64,
    /// Each block was compared with the hash that its sender sent.
    pub(crate) compared: bool,
}

impl Identity {
    fn header(&self) -> [u8; 40] {
        let mut header = [0; 40];
        header[..16].copy_from_slice(if self.compared { MAGIC } else { MAGIC_UNCOMPARED });
        header[16..32].copy_from_slice(&self.version.to_bytes());
        header[32..].copy_from_slice(&self.size.to_be_bytes());
        header
    }
}

/// A record and the blocks that it tells of.
pub(crate) type Opened = (State, Vec<(u64, BlockHash)>);

/// The record, open for appending.
#[derive(Debug)]
pub(crate) struct State {
    file: File,
    name: Vec<u8>,
}

impl State {
    /// Opens the record `name` in `dir` and gives the blocks that it tells of; begins a new one when there is
    /// none or it is of something else.
    pub(crate) fn open(dir: &Dir, name: &[u8], identity: Identity) -> Result<Opened, Error> {
        let os = |e| Error::os("keep the record of", name, e);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
        let mut file = dir.open_with(OsStr::from_bytes(name), &options).map_err(os)?;
        let opened = file.metadata().map_err(os)?;
        if !opened.is_file() {
            return Err(Error::local(Code::NotAFile, name));
        }
        // A record tells of each block once, or a few times after damage; what is longer is none of ours.
        let len_max =
            block_count(identity.size).saturating_mul(4 * RECORD_LEN as u64).saturating_add(40);
        let mut bytes = Vec::new();
        if opened.len() <= len_max {
            file.read_to_end(&mut bytes).map_err(os)?;
        }
        let mut blocks = BTreeMap::new();
        let mut kept_len = 0;
        let header = identity.header();
        let compared = Identity { compared: true, ..identity }.header();
        let told = bytes.first_chunk();
        if told == Some(&header) || !identity.compared && told == Some(&compared) {
            for record in bytes[40..].chunks_exact(RECORD_LEN) {
                if let (Some(index), Some(hash)) =
                    (record.first_chunk::<8>(), record.last_chunk::<32>())
                {
                    blocks.insert(u64::from_be_bytes(*index), *hash);
                }
            }
            // A crash can have cut the last record short.
            kept_len = (bytes.len() / RECORD_LEN * RECORD_LEN) as u64;
        }
        file.set_len(kept_len).map_err(os)?;
        let seek = |file: &File, to| {
            rustix::fs::seek(file, rustix::fs::SeekFrom::Start(to)).map_err(|e| os(e.into()))
        };
        seek(&file, 0)?;
        file.write_all(&header).map_err(os)?;
        seek(&file, kept_len.max(header.len() as u64))?;
        Ok((State { file, name: name.to_vec() }, blocks.into_iter().collect()))
    }

    /// Block `index` is in the partial file.
    pub(crate) fn append(&mut self, index: u64, hash: &BlockHash) -> Result<(), Error> {
        let mut record = [0; RECORD_LEN];
        record[..8].copy_from_slice(&index.to_be_bytes());
        record[8..].copy_from_slice(hash);
        self.file.write_all(&record).map_err(|e| Error::os("keep the record of", &self.name, e))
    }
}
