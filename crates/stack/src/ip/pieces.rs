//! Pipelines over messages whose memory is a ring, in one piece or two, and which are cut into segments: each run is of
//! whole blocks, and a block that lies across a border goes through memory of its own.

use fusewire_base::Sum;
use fusewire_kernels::Level;
use fusewire_kernels::execution::Integrated;
use fusewire_kernels::message::Segments;
use fusewire_kernels::stage::{AnyStage, then};
use fusewire_kernels::stages::InternetSum;

/// Bytes of the longest block of a stage.
pub const BLOCK_MAX: usize = 64;

/// A pipeline, and the level that it runs at.
pub struct Way<'a, S> {
    pub level: Level,
    pub pipeline: &'a S,
}

impl<S: AnyStage> Way<'_, S> {
    fn run(&self, src: &[u8], dst: &mut [u8]) {
        const { assert!(!S::ORDERED, "an ordering-constrained stage cannot go in pieces") };
        self.level.run(Integrated { stage: self.pipeline, src, dst });
    }

    /// The sum of `dst`, too.
    fn run_summed(&self, src: &[u8], dst: &mut [u8]) -> Sum {
        const { assert!(!S::ORDERED, "an ordering-constrained stage cannot go in pieces") };
        self.level.run(Integrated { stage: &then(self.pipeline, InternetSum), src, dst }).1
    }

    /// `len` bytes at `at`: as many of them as can pass at a time, so that all passes are of whole blocks but the last, which
    /// ends at `end`. 0: those of a block are to pass by themselves.
    fn whole(at: usize, len: usize, end: usize) -> usize {
        if at + len == end { len } else { len - len % S::BLOCK }
    }
}

/// From `src` through the pipeline to both pieces of `dst`, which have room for it; each segment hears of its sum, if there
/// are any.
pub fn pass_in<S: AnyStage>(
    way: &Way<'_, S>,
    src: &[u8],
    (a, b): (&mut [u8], &mut [u8]),
    mut segments: Option<impl Segments>,
) {
    let mut at = 0;
    while at < src.len() {
        let piece = if at < a.len() { a.len() } else { src.len() };
        let cut = segments.as_ref().map_or(src.len(), |segments| segments.end(at));
        let end = piece.min(cut).min(src.len());
        let whole = Way::<S>::whole(at, end - at, src.len());
        if whole > 0 {
            let from = &src[at..at + whole];
            let to =
                if at < a.len() { &mut a[at..at + whole] } else { &mut b[at - a.len()..][..whole] };
            match &mut segments {
                None => way.run(from, to),
                Some(segments) => segments.add(at, whole, way.run_summed(from, to)),
            }
            at += whole;
            continue;
        }
        let len = S::BLOCK.min(src.len() - at);
        let mut block = [0; BLOCK_MAX];
        let block = &mut block[..len];
        way.run(&src[at..at + len], block);
        let front = a.len().saturating_sub(at).min(len);
        let (x, y) = block.split_at(front);
        if front > 0 {
            a[at..at + front].copy_from_slice(x);
        }
        if !y.is_empty() {
            let behind = at + front - a.len();
            b[behind..behind + y.len()].copy_from_slice(y);
        }
        if let Some(segments) = &mut segments {
            add_each(segments, at, block);
        }
        at += len;
    }
}

/// Tells each segment the sum of its share of a block at `at`.
fn add_each(segments: &mut impl Segments, mut at: usize, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (here, rest) = bytes.split_at(bytes.len().min(segments.end(at) - at));
        segments.add(at, here.len(), Sum::of(here));
        (at, bytes) = (at + here.len(), rest);
    }
}

/// From both pieces of a ring through the pipeline to `dst`: as many bytes as it has room for.
pub fn pass_out<S: AnyStage>(way: &Way<'_, S>, (a, b): (&[u8], &[u8]), dst: &mut [u8]) {
    let (front, back) = (a.len().min(dst.len()), dst.len().saturating_sub(a.len()));
    let whole = Way::<S>::whole(0, front, dst.len());
    way.run(&a[..whole], &mut dst[..whole]);
    let across = S::BLOCK.min(dst.len() - whole);
    let split = front - whole;
    if split > 0 {
        let mut block = [0; BLOCK_MAX];
        block[..split].copy_from_slice(&a[whole..front]);
        block[split..across].copy_from_slice(&b[..across - split]);
        way.run(&block[..across], &mut dst[whole..whole + across]);
        let taken = across - split;
        return way.run(&b[taken..back], &mut dst[whole + across..]);
    }
    way.run(&b[..back], &mut dst[front..]);
}

#[cfg(test)]
mod tests {
    use fusewire_kernels::stages::Swap;

    use super::*;

    /// Cuts so many bytes apart.
    struct Cut<'a> {
        each: usize,
        sums: &'a mut Vec<(usize, usize, Sum)>,
    }

    impl Segments for Cut<'_> {
        fn end(&self, at: usize) -> usize {
            (at / self.each + 1) * self.each
        }

        fn add(&mut self, at: usize, len: usize, sum: Sum) {
            match self.sums.last_mut() {
                Some((_, before, all)) if !at.is_multiple_of(self.each) => {
                    (*all, *before) = (all.then(*before, sum), *before + len);
                }
                _ => self.sums.push((at, len, sum)),
            }
        }
    }

    /// Wherever the ring ends and segments are cut, at every level: the bytes of one run over all, and the sums of those.
    #[test]
    fn borders_change_nothing() {
        let src: Vec<u8> = (0..300u32).map(|i| ((i * 73) >> 2) as u8).collect();
        for level in Level::available() {
            let way = Way { level, pipeline: &Swap::<8> };
            for len in [0, 1, 7, 8, 9, 100, 299, 300] {
                let src = &src[..len];
                let mut wanted = vec![0; len];
                way.run(src, &mut wanted);
                for wrap in 0..=len {
                    for each in [1, 3, 8, 50, 1000] {
                        let mut memory = vec![0; len];
                        let mut sums = Vec::new();
                        let (a, b) = memory.split_at_mut(wrap);
                        pass_in(&way, src, (a, b), Some(Cut { each, sums: &mut sums }));
                        assert_eq!(memory, wanted, "{level}: {len} bytes, {wrap} before the end");
                        let cut = wanted.chunks(each).enumerate();
                        let cut = cut.map(|(i, share)| (i * each, share.len(), Sum::of(share)));
                        assert_eq!(sums, cut.collect::<Vec<_>>(), "{level}: {len} {wrap} {each}");
                    }
                    let (mut memory, (a, b)) = (vec![0; len], src.split_at(wrap));
                    pass_out(&way, (a, b), &mut memory);
                    assert_eq!(memory, wanted, "{level}: {len} bytes, {wrap} before the end");
                }
            }
        }
        println!("levels: {:?}", Level::available());
    }
}
