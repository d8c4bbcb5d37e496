//! Hashing again a file that an interrupted run has completed.

use super::plan::File;
use crate::blocks::BlockHash;
use blake3::Hasher;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that are read at a time.
const READ_LEN: usize = 64 << 10;
/// Work that opening a file counts for, in bytes hashed.
const OPENING: u64 = 16 << 10;

/// A file that is in its place and is being hashed.
#[derive(Debug)]
pub(super) struct Recheck {
    pub(super) file: Arc<File>,
    contents: OwnedFd,
    hash: BlockHash,
    hasher: Hasher,
}

impl Recheck {
    /// Compares `contents` with `hash`.
    pub(super) fn new(file: Arc<File>, contents: OwnedFd, hash: BlockHash) -> Recheck {
        Recheck { file, contents, hash, hasher: Hasher::new() }
    }

    /// Hashes about `budget` bytes and takes them from it. Returns whether the contents hold once all are hashed.
    pub(super) fn step(&mut self, budget: &mut u64) -> Option<bool> {
        let mut buffer = [0; READ_LEN];
        *budget = budget.saturating_sub(OPENING);
        loop {
            match rustix::io::read(&self.contents, &mut buffer) {
                Ok(0) => return Some(self.hasher.finalize().as_bytes() == &self.hash),
                Ok(n) => {
                    self.hasher.update(&buffer[..n]);
                    *budget = budget.saturating_sub(n as u64);
                }
                Err(Errno::INTR) => {}
                // It is simply got again.
                Err(_) => return Some(false),
            }
            if *budget == 0 {
                return None;
            }
        }
    }
}
