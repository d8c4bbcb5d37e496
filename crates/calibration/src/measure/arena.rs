//! Memory to measure in: a message's place and its destination, in the cache or not.

use crate::measure::random::Random;

const PAGE: usize = 4096;
const LINE: usize = 64;
/// Places that cold messages come from in turns.
const QUARTERS: usize = 4;

/// Two areas that begin at pages and are larger than the caches together.
pub(crate) struct Arena {
    src: Area,
    dst: Area,
    work: Area,
    /// Where the next cold message of each quarter lies, and whose turn it is.
    next: [usize; QUARTERS],
    turn: usize,
    random: Random,
}

struct Area {
    bytes: Vec<u8>,
    start: usize,
}

impl Area {
    fn new(len: usize) -> Area {
        let mut bytes = vec![0; len + PAGE];
        // Bytes of all values, or look-ups would find one entry of their tables again and again; and each
        // page is touched, or they would all be the kernel's one page of zeros.
        let mut random = Random::new(0);
        for word in bytes.chunks_exact_mut(8) {
            word.copy_from_slice(&random.word().to_le_bytes());
        }
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Area { bytes, start }
    }

    fn at(&mut self, offset: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[self.start + offset..][..len]
    }

    fn len(&self) -> usize {
        self.bytes.len() - PAGE
    }
}

/// Where a message comes from, where it goes, and a buffer between passes.
pub(crate) struct Places<'a> {
    pub(crate) src: &'a [u8],
    pub(crate) dst: &'a mut [u8],
    pub(crate) work: &'a mut [u8],
}

/// The most that a message may have.
pub(crate) const MESSAGE_MAX: usize = 8 << 20;

impl Arena {
    pub(crate) fn new(cold_bytes: usize) -> Arena {
        let area = || Area::new(cold_bytes.max(2 * MESSAGE_MAX) + PAGE);
        Arena {
            src: area(),
            dst: area(),
            work: Area::new(MESSAGE_MAX),
            next: [0; QUARTERS],
            turn: 0,
            random: Random::new(1),
        }
    }

    /// The same places each time: as near as they fit.
    pub(crate) fn warm(&mut self, len: usize) -> Places<'_> {
        self.places(0, 0, len)
    }

    /// Other places each time, which the caches have long forgotten: no page comes again before all others of
    /// its quarter have come. Quarters take turns, so that no prefetcher guesses the next. Message and place begin
    /// anywhere in their pages: a load waits for stores whose addresses end like its own, and state is stored too.
    pub(crate) fn cold(&mut self, len: usize) -> Places<'_> {
        let quarter = self.len() / QUARTERS / PAGE * PAGE;
        self.turn = (self.turn + 1) % QUARTERS;
        let next = &mut self.next[self.turn];
        if *next + len + PAGE > quarter {
            *next = 0;
        }
        let offset = self.turn * quarter + *next;
        *next += len.next_multiple_of(PAGE) + PAGE;
        let mut line = || self.random.below((PAGE / LINE) as u32) as usize * LINE;
        let (src, dst) = (offset + line(), offset + line());
        self.places(src, dst, len)
    }

    /// Bytes of each area.
    pub(crate) fn len(&self) -> usize {
        self.src.len() - PAGE
    }

    fn places(&mut self, src: usize, dst: usize, len: usize) -> Places<'_> {
        Places {
            src: self.src.at(src, len),
            dst: self.dst.at(dst, len),
            work: self.work.at(0, len),
        }
    }
}
