//! Files to measure with: bytes without a pattern, the same each time.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::{Error, Result};

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Makes a file of so many bytes.
///
/// # Errors
/// The file system's.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let os = || Error::os("making a file to send");
    let mut file = File::create(path).map_err(os())?;
    let (mut random, mut left) = (Random::new(2), bytes);
    let mut chunk = vec![0; 1 << 20];
    while left > 0 {
        random.fill(&mut chunk);
        let len = left.min(chunk.len() as u64) as usize;
        file.write_all(&chunk[..len]).map_err(os())?;
        left -= len as u64;
    }
    Ok(())
}

/// The hash of a file's contents.
pub(crate) fn hash_file(path: &Path) -> Result<blake3::Hash> {
    let os = || Error::os("reading a file back");
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).map_err(os())?).map_err(os())?;
    Ok(hasher.finalize())
}
