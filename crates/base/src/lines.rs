//! Memory that begins at a cache line.

use core::ops::{Deref, DerefMut};

/// Bytes that begin at a cache line, zero at first; for what the kernel copies to. Large allocations begin 16 bytes into a
/// page, and where a copy goes to a few bytes further into a page than it comes from, as from the page cache to those,
/// processors of AMD's (seen on Zen 3) take three to four times as long for it.
#[derive(Debug)]
pub struct Lines {
    bytes: Vec<u8>,
    start: usize,
}

impl Lines {
    const LINE: usize = 64;

    /// `len` bytes.
    pub fn new(len: usize) -> Lines {
        let mut bytes = vec![0; len + Lines::LINE];
        let start = bytes.as_ptr().align_offset(Lines::LINE).min(Lines::LINE);
        bytes.truncate(start + len);
        Lines { bytes, start }
    }
}

impl Deref for Lines {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_at_a_cache_line_and_are_as_many_as_asked_for() {
        for len in [0, 1, 64, 65, 1 << 20] {
            let mut lines = Lines::new(len);
            lines.fill(1);
            assert_eq!((lines.len(), lines.as_ptr() as usize % 64), (len, 0), "{len}");
        }
    }
}
