//! Memory between passes: begins at a cache line, grows when it must, is wiped when dropped.
#![forbid(unsafe_code)]

use zeroize::Zeroize;

const LINE: usize = 64;

/// A buffer for one message.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Scratch {
    /// Makes room for `len` bytes.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.len < len {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        self.bytes.zeroize();
        self.bytes = vec![0; len + LINE];
        self.start = self.bytes.as_ptr().align_offset(LINE).min(LINE);
        self.len = len;
    }

    /// `len` bytes, making room for them.
    #[inline(always)]
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        self.reserve(len);
        self.take(len)
    }

    /// The first `len` bytes; there must be room.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_line_and_keeps_what_it_has() {
        let mut scratch = Scratch::default();
        for len in [1, 100, 50, 70_000, 0] {
            scratch.reserve(len);
            let bytes = scratch.take(len);
            assert_eq!((bytes.len(), bytes.as_ptr() as usize % LINE), (len, 0));
        }
        let room = scratch.bytes.capacity();
        scratch.reserve(1000);
        assert_eq!(scratch.bytes.capacity(), room);
    }
}
