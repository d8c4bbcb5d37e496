//! Spans: what has come beyond a gap (`docs/xtp.md`, section 2).

use super::{Error, OFFSET_MAX, long, value};

/// Offsets `left .. right` of a stream have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first offset.
    pub left: u64,
    /// The offset behind the last.
    pub right: u64,
}

/// Spans in rising order, that neither touch each other nor the `rseq` before them.
pub trait Spans: Copy {
    /// Each of them.
    fn iter(&self) -> impl ExactSizeIterator<Item = Span>;
}

/// Spans as they lie in a packet, found to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanSlice<'a>(&'a [[u8; 16]]);

impl<'a> SpanSlice<'a> {
    /// All of `bytes`, which are a multiple of 16.
    pub(super) fn parse(rseq: u64, bytes: &'a [u8]) -> Result<SpanSlice<'a>, Error> {
        let (spans, _) = bytes.as_chunks::<16>();
        let spans = SpanSlice(spans);
        let mut end = rseq;
        for (n, Span { left, right }) in spans.iter().enumerate() {
            if left <= end || right <= left || right > OFFSET_MAX {
                return Err(value("span", n as u32));
            }
            end = right;
        }
        Ok(spans)
    }
}

impl Spans for SpanSlice<'_> {
    fn iter(&self) -> impl ExactSizeIterator<Item = Span> {
        self.0.iter().map(|span| Span { left: long(span, 0), right: long(span, 8) })
    }
}

/// At most `N` spans of one's own, each end less than 2^32 beyond a `base`: a window is no wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanList<const N: usize> {
    base: u64,
    count: u8,
    spans: [(u32, u32); N],
}

impl<const N: usize> SpanList<N> {
    const COUNTS: () = assert!(N <= u8::MAX as usize, "count is a byte");

    /// None beyond `base`, which is an `rseq`.
    pub const fn new(base: u64) -> Self {
        () = Self::COUNTS;
        SpanList { base, count: 0, spans: [(0, 0); N] }
    }

    /// Adds the next one; false when there is no room, it lies too far away, or does not lie beyond the last with a gap
    /// between.
    pub fn push(&mut self, span: Span) -> bool {
        let near = |offset: u64| u32::try_from(offset.checked_sub(self.base)?).ok();
        let (Some(left), Some(right)) = (near(span.left), near(span.right)) else { return false };
        let count = usize::from(self.count);
        let end = count.checked_sub(1).map_or(0, |last| self.spans[last].1);
        if left <= end || right <= left || count == N {
            return false;
        }
        self.spans[count] = (left, right);
        self.count += 1;
        true
    }
}

impl<const N: usize> Spans for SpanList<N> {
    fn iter(&self) -> impl ExactSizeIterator<Item = Span> {
        let base = self.base;
        self.spans[..self.count.into()].iter().map(move |&(left, right)| Span {
            left: base + u64::from(left),
            right: base + u64::from(right),
        })
    }
}
