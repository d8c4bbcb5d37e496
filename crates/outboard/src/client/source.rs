//! What a stream sends, and how it gets into the ring out: memory is copied there, a file is read there. Either way it is there
//! that the outboard's frames are gathered from, so nothing of a file is copied but by the kernel's read.

use std::os::fd::BorrowedFd;

use fusewire_device::Shared;
use rustix::io::{Errno, IoSlice};

use super::Result;
use super::leased::{PIECES_MAX, Part, len_of, rest_of};

/// What is sent by a call.
pub(super) trait Source {
    /// How long it is, or seems to be: what is laid down says where it ends.
    fn len(&self) -> usize;

    /// Lays what comes `skip` bytes behind its begin down in these places of memory, until they are full; how much: less where it
    /// ends, or where a file gives less.
    ///
    /// # Errors
    /// It cannot be read: nothing was laid down that counts.
    fn lay(&self, skip: usize, memory: &Shared, places: [(usize, usize); 2]) -> Result<usize>;

    /// Gives so much of it as a part says to somebody, who says how much of that he has taken.
    ///
    /// # Errors
    /// It cannot be read; his.
    fn give(
        &self,
        part: Part,
        to: &mut dyn FnMut(&[IoSlice<'_>]) -> Result<usize>,
    ) -> Result<usize>;
}

/// Copies what of these pieces comes `skip` bytes behind their begin to these places; how much there was.
pub(super) fn copy_in(
    memory: &Shared,
    [(first, front), (second, rest)]: [(usize, usize); 2],
    pieces: &[IoSlice<'_>],
    skip: usize,
) -> usize {
    let (mut part, mut laid) = (Part { skip, most: front + rest }, 0);
    for piece in pieces {
        let bytes = &piece[part.of(piece.len())];
        let (before, behind) = bytes.split_at(bytes.len().min(front.saturating_sub(laid)));
        if !before.is_empty() {
            memory.write(first + laid, before);
        }
        if !behind.is_empty() {
            memory.write(second + laid + before.len() - front, behind);
        }
        laid += bytes.len();
    }
    laid
}

impl Source for [IoSlice<'_>] {
    fn len(&self) -> usize {
        len_of(self)
    }

    fn lay(&self, skip: usize, memory: &Shared, places: [(usize, usize); 2]) -> Result<usize> {
        Ok(copy_in(memory, places, self, skip))
    }

    fn give(
        &self,
        part: Part,
        to: &mut dyn FnMut(&[IoSlice<'_>]) -> Result<usize>,
    ) -> Result<usize> {
        if part.skip == 0 && part.most == usize::MAX {
            return to(self);
        }
        let mut rest = [IoSlice::new(&[]); PIECES_MAX];
        let count = rest_of(self, part, &mut rest);
        to(&rest[..count])
    }
}

/// Of a file, from an offset on.
pub(super) struct File<'a> {
    /// It has offsets.
    pub file: BorrowedFd<'a>,
    /// Where what is sent begins.
    pub begin: u64,
    /// How long it is at most.
    pub count: usize,
}

impl File<'_> {
    /// Reads by `read`, which is given where, as often as a signal interrupts that.
    fn read(&self, skip: usize, mut read: impl FnMut(u64) -> Result<usize>) -> Result<usize> {
        let at = self.begin.checked_add(skip as u64).ok_or(Errno::OVERFLOW)?;
        loop {
            match read(at) {
                Err(Errno::INTR) => {}
                done => return done,
            }
        }
    }
}

impl Source for File<'_> {
    fn len(&self) -> usize {
        self.count
    }

    fn lay(&self, skip: usize, memory: &Shared, places: [(usize, usize); 2]) -> Result<usize> {
        self.read(skip, |at| memory.read_file(self.file, at, places))
    }

    fn give(
        &self,
        Part { skip, most }: Part,
        to: &mut dyn FnMut(&[IoSlice<'_>]) -> Result<usize>,
    ) -> Result<usize> {
        let mut part = [0; GIVEN];
        let most = GIVEN.min(most).min(self.count - skip);
        let len = self.read(skip, |at| rustix::io::pread(self.file, &mut part[..most], at))?;
        // Who is given nothing would be told of the end of a connection.
        if len == 0 { Ok(0) } else { to(&[IoSlice::new(&part[..len])]) }
    }
}

/// Bytes of a file that are handed over at a time, on the stack of who sends them.
const GIVEN: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use fusewire_device::Writers;

    #[test]
    fn pieces_are_laid_across_the_end_of_a_ring_as_they_follow_each_other() {
        const ALL: &[u8] = b"0123456789ab";
        let (_fd, memory) = Shared::create(4096, Writers::All).unwrap();
        for (cut, skip) in (0..=12).flat_map(|cut| (0..=12).map(move |skip| (cut, skip))) {
            let (front, rest) = ALL.split_at(cut);
            let pieces = [IoSlice::new(front), IoSlice::new(&[]), IoSlice::new(rest)];
            for (room, first) in (0..14).flat_map(|room| (0..=room).map(move |at| (room, at))) {
                memory.write(64, &[0; 32]);
                let places = [(4096 - first, first), (64, room - first)];
                let wanted = &ALL[skip..ALL.len().min(skip + room)];
                assert_eq!(pieces.lay(skip, &memory, places), Ok(wanted.len()));
                let mut laid =
                    [memory.slice(4096 - first, first), memory.slice(64, room - first)].concat();
                laid.truncate(wanted.len());
                assert_eq!(
                    laid, wanted,
                    "cut at {cut}, {skip} skipped, {first} of {room} before the end"
                );
                assert_eq!(memory.slice(64 + room - first, 1), [0], "nothing behind them");
            }
        }
    }
}
