//! A check function over the pieces of one payload, and the trailer that is made of it (`docs/xtp.md`, section 4).

use fusewire_kernels::{Check, Cxor, Found, Level};

use crate::send_ring::{Located, SendRing};

/// What a check function has found of some pieces, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    check: Check,
    found: Found,
    len: usize,
}

impl Pieces {
    /// Of nothing.
    #[inline]
    pub fn new(check: Check) -> Pieces {
        Pieces { check, found: check.begin(), len: 0 }
    }

    /// Of `len` bytes of which that was found.
    #[inline]
    pub fn behind(check: Check, found: Found, len: usize) -> Pieces {
        Pieces { check, found, len }
    }

    /// CXOR, of the tag that is before the data, if there is one.
    pub fn behind_tag(tag: Option<u64>) -> Pieces {
        match tag {
            Some(tag) => Pieces::behind(Check::Cxor, Cxor::of(&tag.to_be_bytes()).into(), 8),
            None => Pieces::new(Check::Cxor),
        }
    }

    #[inline]
    fn then(self, next: Found, len: usize) -> Pieces {
        Pieces { found: self.found.then(self.len, next), len: self.len + len, ..self }
    }

    /// With `bytes` behind.
    #[inline]
    pub fn read(self, level: Level, bytes: &[u8]) -> Pieces {
        if bytes.is_empty() { self } else { self.then(self.check.of(level, bytes), bytes.len()) }
    }

    /// With `src` behind, which is copied to `dst` in the same loop.
    #[inline]
    pub fn copy(self, level: Level, src: &[u8], dst: &mut [u8]) -> Pieces {
        if src.is_empty() {
            return self;
        }
        self.then(self.check.copy(level, src, dst), src.len())
    }

    /// Pieces can be joined behind so many bytes: CXOR's are words.
    #[inline]
    pub fn joins(self, len: usize) -> bool {
        self.check != Check::Cxor || len.is_multiple_of(2)
    }

    /// Of all of them; [`Found::Nothing`] if they could not be joined.
    #[inline]
    pub fn found(self) -> Found {
        self.found
    }
}

/// Where a frame's payload lies, from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// In the ring's memory.
    Ring(usize, usize),
    /// In what was copied beside it.
    Detour(usize, usize),
}

/// Puts the trailer behind data that leave, `begin` being what it covers before them. What was pushed together has room for
/// it; a piece of that, as retransmissions are cut, goes by way of `detour`, in the loop that finds its CXOR.
pub(crate) fn put_trailer(
    ring: &mut SendRing,
    located: &Located,
    begin: Pieces,
    level: Level,
    detour: &mut Vec<u8>,
) -> Payload {
    let (from, to) = (located.payload.start, located.payload.end);
    if located.whole {
        let made = || begin.read(level, ring.bytes(from..to)).found().cxor();
        let cxor = located.found.cxor().or_else(made).unwrap_or_default();
        let behind = ring.behind_mut(to);
        behind.copy_from_slice(&cxor.bits().to_be_bytes());
        return Payload::Ring(from, to + behind.len());
    }
    let at = detour.len();
    detour.resize(at + to - from, 0);
    let found = begin.copy(level, ring.bytes(from..to), &mut detour[at..]).found();
    let cxor = found.cxor().unwrap_or_default();
    detour.extend_from_slice(&cxor.bits().to_be_bytes());
    Payload::Detour(at, detour.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send_ring::Place;
    use fusewire_base::Sum;
    use fusewire_device::Region;

    fn data(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(|at| (at * 37 + (at >> 5)) as u8).collect()
    }

    /// Whole, with the CXOR that sealing found or another check; and cut anywhere: the trailer is of what is sent.
    #[test]
    fn a_trailer_is_of_what_leaves() {
        let level = Level::detect();
        for (pushed, staged) in
            [(Check::Cxor, false), (Check::Cxor, true), (Check::Internet, false)]
        {
            let mut ring = SendRing::new(Region::private(4000), 16, 4);
            for range in [0..100, 100..333, 333..700] {
                let len = (range.end - range.start) as usize;
                let joins = ring.joins(len, staged) && range.start > 0 && range.start % 2 == 0;
                ring.push(range.start, len, Place { staged, joins }, |memory| {
                    memory.copy_from_slice(&data(range));
                    Ok::<_, ()>(pushed.of(level, memory))
                })
                .unwrap();
            }
            let mut detour = vec![7; 3];
            for (range, whole) in [
                (0..333, true),
                (333..700, true),
                (0..100, false),
                (100..333, false),
                (340..699, false),
            ] {
                for tag in [None, Some(0x0102_0304_0506_0708)] {
                    let located = ring.locate(&range);
                    assert_eq!(
                        (located.whole, located.headroom),
                        (whole, whole || range.start == 0)
                    );
                    // What was found together with a tag is of no use with another.
                    let with_tag = located.found.cxor().is_some() && tag.is_some();
                    if with_tag {
                        continue;
                    }
                    let begin = Pieces::behind_tag(tag);
                    let (bytes, at) =
                        match put_trailer(&mut ring, &located, begin, level, &mut detour) {
                            Payload::Ring(from, to) => (ring.bytes(from..to).to_vec(), true),
                            Payload::Detour(from, to) => (detour[from..to].to_vec(), false),
                        };
                    assert_eq!(at, whole);
                    let (sent, trailer) = bytes.split_at(bytes.len() - 4);
                    assert_eq!(sent, data(range.clone()));
                    let covered: Vec<u8> =
                        tag.iter().flat_map(|tag| tag.to_be_bytes()).chain(sent.to_vec()).collect();
                    assert_eq!(
                        trailer,
                        Cxor::of(&covered).bits().to_be_bytes(),
                        "{range:?} {tag:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn pieces_join_but_within_a_word() {
        let (level, bytes) = (Level::detect(), data(0..77));
        for check in Check::ALL {
            for at in 0..bytes.len() {
                let (first, next) = bytes.split_at(at);
                let mut to = vec![0; next.len()];
                let pieces = Pieces::new(check).read(level, first).copy(level, next, &mut to);
                assert_eq!(to, next);
                let whole = check.of(level, &bytes);
                let joins = Pieces::new(check).joins(at);
                assert_eq!(
                    pieces.found(),
                    if joins { whole } else { Found::Nothing },
                    "{check} {at}"
                );
            }
        }
        assert_eq!(Pieces::new(Check::Internet).read(level, &bytes).found(), Sum::of(&bytes));
    }
}
