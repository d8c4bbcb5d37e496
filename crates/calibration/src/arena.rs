//! Memory to measure in: a message's place and its destination, in the cache or not.

const PAGE: usize = 4096;
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
        let mut x = 0x9E37_79B9_7F4A_7C15_u64;
        for word in bytes.chunks_exact_mut(8) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            word.copy_from_slice(&x.to_le_bytes());
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
        let area = || Area::new(cold_bytes.max(2 * MESSAGE_MAX));
        Arena {
            src: area(),
            dst: area(),
            work: Area::new(MESSAGE_MAX),
            next: [0; QUARTERS],
            turn: 0,
        }
    }

    /// The same places each time: as near as they fit.
    pub(crate) fn warm(&mut self, len: usize) -> Places<'_> {
        self.places(0, len)
    }

    /// Other places each time, which the caches have long forgotten: no page comes again before all others of
    /// its quarter have come. Quarters take turns, so that no prefetcher guesses the next.
    pub(crate) fn cold(&mut self, len: usize) -> Places<'_> {
        let quarter = self.src.len() / QUARTERS / PAGE * PAGE;
        self.turn = (self.turn + 1) % QUARTERS;
        let next = &mut self.next[self.turn];
        if *next + len > quarter {
            *next = 0;
        }
        let offset = self.turn * quarter + *next;
        *next += len.next_multiple_of(PAGE);
        self.places(offset, len)
    }

    /// Bytes of each area.
    pub(crate) fn len(&self) -> usize {
        self.src.len()
    }

    fn places(&mut self, offset: usize, len: usize) -> Places<'_> {
        Places {
            src: self.src.at(offset, len),
            dst: self.dst.at(offset, len),
            work: self.work.at(0, len),
        }
    }
}
