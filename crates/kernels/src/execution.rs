//! The jobs: a pipeline run integrated, blocked or sequential over one message, for any level.
//!
//! A job is a [`LoopBody`]: `level.run(Integrated { .. })`. The whole loop is compiled inside the level's shell, and
//! the level is matched once a message.
//!
//! ```
//! use fusewire_kernels::{Level, execution::Integrated, stage::then, stages::{InternetSum, Swap}};
//! let src = [1u8, 2, 3, 4, 5, 6, 7, 8];
//! let mut dst = [0; 8];
//! let pipeline = then(Swap::<4>, InternetSum);
//! let ((), sum) = Level::detect().run(Integrated { stage: &pipeline, src: &src, dst: &mut dst });
//! assert_eq!(dst, [4, 3, 2, 1, 8, 7, 6, 5]);
//! assert_eq!(sum, fusewire_base::Sum::of(&dst));
//! ```
#![forbid(unsafe_code)]

use crate::arch::{Lanes, LoopBody, in_register};
use crate::stage::{Output, Run, Stage};

/// Bytes of a strip of the blocked execution; source and destination of one lie in the first-level
/// cache together.
pub const STRIP: usize = 4096;

/// How to run a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// One loop; a unit passes all stages in registers.
    Integrated,
    /// Each stage in turn over a strip that stays in the first-level cache.
    Blocked,
    /// Each stage over the whole message, the copy to its place being a pass of its own.
    Sequential,
}

const fn check<S: Stage>(width: usize) {
    assert!(S::BLOCK.is_power_of_two() && S::BLOCK <= 64, "a block is a power of two, at most 64");
    assert!(S::BLOCK <= width || !S::WHOLE_BLOCKS, "a block must fit a vector");
    assert!(matches!(S::VECTORS, 1 | 2 | 4 | 8 | 16), "a unit is 1, 2, 4, 8 or 16 vectors");
}

#[inline(always)]
fn check_lengths<S: Stage>(src: usize, dst: usize) {
    assert!(src == dst, "source and destination must have one length");
    assert!(
        !S::WHOLE_BLOCKS || src.is_multiple_of(S::BLOCK),
        "{} wants whole blocks of {}",
        S::NAME,
        S::BLOCK
    );
}

/// Loads `N` vectors from the front of `from`.
#[inline(always)]
fn load<L: Lanes, const N: usize>(lanes: L, from: &[u8]) -> [L::V; N] {
    let mut x = [lanes.zero(); N];
    for (i, x) in x.iter_mut().enumerate() {
        *x = lanes.load(&from[i * L::WIDTH..]);
    }
    x
}

/// Stores `N` vectors at the front of `to`.
#[inline(always)]
fn store<L: Lanes, const N: usize>(lanes: L, to: &mut [u8], x: [L::V; N]) {
    for (i, x) in x.into_iter().enumerate() {
        lanes.store(&mut to[i * L::WIDTH..], x);
    }
}

/// Vectors in a unit: what suits the stage, as far as it and the level have registers for it.
const fn vectors<L: Lanes, S: Stage>() -> usize {
    let most = if S::MOST_VECTORS < L::MOST_VECTORS { S::MOST_VECTORS } else { L::MOST_VECTORS };
    if S::VECTORS < most { S::VECTORS } else { most }
}

/// Runs `$body::<N>` with the `N` that suits, which only a literal can name.
macro_rules! with_vectors {
    ($body:ident($($argument:expr),*)) => {
        match const { vectors::<L, S>() } {
            1 => $body::<L, S, 1>($($argument),*),
            2 => $body::<L, S, 2>($($argument),*),
            4 => $body::<L, S, 4>($($argument),*),
            8 => $body::<L, S, 8>($($argument),*),
            _ => $body::<L, S, 16>($($argument),*),
        }
    };
}

/// The part of `len` that is whole vectors. The optimiser is not told how few there can be: it would
/// write the loop over them out.
#[inline(always)]
fn whole_vectors<L: Lanes>(len: usize) -> usize {
    in_register((len - len % L::WIDTH) as u64) as usize
}

/// From `src` through the stage to `dst`, which has the same length.
#[inline(always)]
fn through<L: Lanes, S: Run<L>, const N: usize>(
    lanes: L,
    stage: &S,
    state: &mut S::State,
    src: &[u8],
    dst: &mut [u8],
) {
    let unit = N * L::WIDTH;
    let whole = src.len() - src.len() % unit;
    let (units, mut src) = src.split_at(whole);
    let (units_to, mut dst) = dst.split_at_mut(whole);
    for (from, to) in units.chunks_exact(unit).zip(units_to.chunks_exact_mut(unit)) {
        let mut x = load::<L, N>(lanes, from);
        stage.unit(lanes, state, &mut x);
        store(lanes, to, x);
    }
    stage.pause::<N>(lanes, state);
    if src.is_empty() {
        return;
    }
    if S::FOURS && N > 4 {
        while src.len() >= 4 * L::WIDTH {
            let (from, rest) = src.split_at(4 * L::WIDTH);
            let (to, rest_to) = dst.split_at_mut(4 * L::WIDTH);
            let mut x = load::<L, 4>(lanes, from);
            stage.unit(lanes, state, &mut x);
            store(lanes, to, x);
            (src, dst) = (rest, rest_to);
        }
        stage.pause::<4>(lanes, state);
    }
    if N > 1 {
        let whole = whole_vectors::<L>(src.len());
        let (vectors, rest) = src.split_at(whole);
        let (vectors_to, rest_to) = dst.split_at_mut(whole);
        let vectors_to = vectors_to.chunks_exact_mut(L::WIDTH);
        for (from, to) in vectors.chunks_exact(L::WIDTH).zip(vectors_to) {
            let mut x = load::<L, 1>(lanes, from);
            stage.unit(lanes, state, &mut x);
            store(lanes, to, x);
        }
        (src, dst) = (rest, rest_to);
    }
    if !src.is_empty() {
        let mut x = lanes.load_partial(src);
        stage.tail(lanes, state, &mut x, src.len());
        lanes.store_partial(dst, x);
    }
}

/// Through the stage in place.
#[inline(always)]
fn in_place<L: Lanes, S: Run<L>, const N: usize>(
    lanes: L,
    stage: &S,
    state: &mut S::State,
    bytes: &mut [u8],
) {
    let mut units = bytes.chunks_exact_mut(N * L::WIDTH);
    for bytes in &mut units {
        let mut x = load::<L, N>(lanes, bytes);
        stage.unit(lanes, state, &mut x);
        store(lanes, bytes, x);
    }
    stage.pause::<N>(lanes, state);
    let mut rest = units.into_remainder();
    if rest.is_empty() {
        return;
    }
    if N > 1 {
        let (vectors, after) = rest.split_at_mut(whole_vectors::<L>(rest.len()));
        for bytes in vectors.chunks_exact_mut(L::WIDTH) {
            let mut x = load::<L, 1>(lanes, bytes);
            stage.unit(lanes, state, &mut x);
            store(lanes, bytes, x);
        }
        rest = after;
    }
    if !rest.is_empty() {
        let mut x = lanes.load_partial(rest);
        stage.tail(lanes, state, &mut x, rest.len());
        lanes.store_partial(rest, x);
    }
}

/// Through the stage and nowhere else.
#[inline(always)]
fn read<L: Lanes, S: Run<L>, const N: usize>(
    lanes: L,
    stage: &S,
    state: &mut S::State,
    bytes: &[u8],
) {
    let mut units = bytes.chunks_exact(N * L::WIDTH);
    for bytes in &mut units {
        let mut x = load::<L, N>(lanes, bytes);
        stage.unit(lanes, state, &mut x);
    }
    stage.pause::<N>(lanes, state);
    let mut rest = units.remainder();
    if rest.is_empty() {
        return;
    }
    if N > 1 {
        let (vectors, after) = rest.split_at(whole_vectors::<L>(rest.len()));
        for bytes in vectors.chunks_exact(L::WIDTH) {
            let mut x = load::<L, 1>(lanes, bytes);
            stage.unit(lanes, state, &mut x);
        }
        rest = after;
    }
    if !rest.is_empty() {
        let mut x = lanes.load_partial(rest);
        stage.tail(lanes, state, &mut x, rest.len());
    }
}

/// The passes of a pipeline's stages over one message or strip: the first stage that puts out bytes
/// takes them from `src` to `work`, the others work in place, a stage without output reads where the
/// bytes are.
pub struct Passes<'a> {
    src: &'a [u8],
    work: &'a mut [u8],
    moved: bool,
}

impl Passes<'_> {
    /// A pass that only copies; where the bytes have already been moved, it goes over them in place
    /// and there is nothing to do.
    #[inline(always)]
    pub fn copy(&mut self) {
        if !self.moved {
            self.work.copy_from_slice(self.src);
            self.moved = true;
        }
    }

    /// One stage's pass.
    #[inline(always)]
    pub fn run<L: Lanes, S: Run<L>>(&mut self, lanes: L, stage: &S, state: &mut S::State) {
        match (S::OUTPUT, self.moved) {
            (Output::Same, false) => {
                with_vectors!(through(lanes, stage, state, self.src, self.work));
                self.moved = true;
            }
            (Output::Same, true) => with_vectors!(in_place(lanes, stage, state, self.work)),
            (Output::None, false) => with_vectors!(read(lanes, stage, state, self.src)),
            (Output::None, true) => with_vectors!(read(lanes, stage, state, self.work)),
        }
    }
}

/// One loop from `src` to `dst`; a unit passes all stages in registers.
pub struct Integrated<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub src: &'a [u8],
    /// Where it goes; as long as `src`.
    pub dst: &'a mut [u8],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Integrated<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        const { check::<S>(L::WIDTH) };
        check_lengths::<S>(self.src.len(), self.dst.len());
        let mut state = self.stage.start(lanes);
        with_vectors!(through(lanes, self.stage, &mut state, self.src, self.dst));
        self.stage.finish(lanes, state, self.src.len())
    }
}

/// Three parts of a message, each a loop, in an order other than the message's: Braun and Diot's B, C,
/// A, for a header whose length field is inside the encrypted part and is known last.
///
/// A stage that must see the bytes first to last cannot be run so; that is refused when it is compiled:
///
/// ```compile_fail
/// use fusewire_kernels::{Level, execution::Parts, stages::Crc32c};
/// let cuts = [8, 16];
/// Level::PORTABLE.run(Parts { stage: &Crc32c, src: &[0; 24], dst: &mut [0; 24], cuts });
/// ```
/// while one that does not mind can:
/// ```
/// use fusewire_kernels::{Level, execution::Parts, stages::InternetSum};
/// let cuts = [8, 16];
/// Level::PORTABLE.run(Parts { stage: &InternetSum, src: &[0; 24], dst: &mut [0; 24], cuts });
/// ```
pub struct Parts<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub src: &'a [u8],
    /// Where it goes; as long as `src`.
    pub dst: &'a mut [u8],
    /// Where B and C begin. A is `..cuts[0]`, B `cuts[0]..cuts[1]`, C `cuts[1]..`. Multiples of the
    /// pipeline's block.
    pub cuts: [usize; 2],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Parts<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        const {
            check::<S>(L::WIDTH);
            assert!(!S::ORDERED, "an ordering-constrained stage cannot take the parts B, C, A");
        };
        let Parts { stage, src, dst, cuts: [b, c] } = self;
        check_lengths::<S>(src.len(), dst.len());
        assert!(
            b.is_multiple_of(S::BLOCK) && c.is_multiple_of(S::BLOCK),
            "cuts lie between blocks"
        );
        let mut state = stage.start(lanes);
        for part in [b..c, c..src.len(), 0..b] {
            let (src, dst) = (&src[part.clone()], &mut dst[part]);
            with_vectors!(through(lanes, stage, &mut state, src, dst));
        }
        stage.finish(lanes, state, src.len())
    }
}

/// One loop that reads and stores nothing, for pipelines without output.
pub struct Scan<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub src: &'a [u8],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Scan<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        const {
            check::<S>(L::WIDTH);
            assert!(matches!(S::OUTPUT, Output::None), "a scan stores nothing");
        };
        check_lengths::<S>(self.src.len(), self.src.len());
        let mut state = self.stage.start(lanes);
        with_vectors!(read(lanes, self.stage, &mut state, self.src));
        self.stage.finish(lanes, state, self.src.len())
    }
}

/// One loop over a message where it is.
pub struct InPlace<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub bytes: &'a mut [u8],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for InPlace<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        const { check::<S>(L::WIDTH) };
        let len = self.bytes.len();
        check_lengths::<S>(len, len);
        let mut state = self.stage.start(lanes);
        with_vectors!(in_place(lanes, self.stage, &mut state, self.bytes));
        self.stage.finish(lanes, state, len)
    }
}

/// Each stage in turn over a strip, strip after strip. The first that puts out bytes writes to `dst`,
/// the others work there.
pub struct Blocked<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub src: &'a [u8],
    /// Where it goes; as long as `src`.
    pub dst: &'a mut [u8],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Blocked<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        let Blocked { stage, src, dst } = self;
        Apart::new(Execution::Blocked, stage, src, &mut [], dst).run(lanes)
    }
}

/// Each stage over the whole message, in `work`; then a pass that copies it to `dst`.
pub struct Sequential<'a, S> {
    /// The pipeline.
    pub stage: &'a S,
    /// The message.
    pub src: &'a [u8],
    /// The buffer between the passes; as long as `src` at least.
    pub work: &'a mut [u8],
    /// Where the message goes; as long as `src`.
    pub dst: &'a mut [u8],
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Sequential<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        let Sequential { stage, src, work, dst } = self;
        Apart::new(Execution::Sequential, stage, src, work, dst).run(lanes)
    }
}

/// What blocked and sequential have in common: stages apart from each other, over strips.
pub(crate) struct Apart<'a, S> {
    pub(crate) stage: &'a S,
    pub(crate) src: &'a [u8],
    /// Where the stages work; as long as `src`.
    pub(crate) work: &'a mut [u8],
    /// Bytes in a strip: a multiple of every unit, or more than the message has.
    pub(crate) strip: usize,
    /// Where the message is copied to in the end.
    pub(crate) dst: Option<&'a mut [u8]>,
}

impl<'a, S> Apart<'a, S> {
    /// Blocked or sequential, as the argument says.
    pub(crate) fn new(
        execution: Execution,
        stage: &'a S,
        src: &'a [u8],
        work: &'a mut [u8],
        dst: &'a mut [u8],
    ) -> Self {
        if execution == Execution::Sequential {
            let work = &mut work[..src.len()];
            return Apart { stage, src, work, strip: usize::MAX, dst: Some(dst) };
        }
        Apart { stage, src, work: dst, strip: STRIP, dst: None }
    }
}

impl<L: Lanes, S: Run<L>> LoopBody<L> for Apart<'_, S> {
    type Output = S::Output;
    #[inline(always)]
    fn run(self, lanes: L) -> S::Output {
        const { check::<S>(L::WIDTH) };
        let Apart { stage, src, work, strip, dst } = self;
        check_lengths::<S>(src.len(), work.len());
        let mut state = stage.start(lanes);
        let mut moved = false;
        let (mut src_left, mut work_left) = (src, &mut *work);
        while !src_left.is_empty() {
            // Not `chunks`: it divides by the strip's length.
            let (src, src_after) = src_left.split_at(strip.min(src_left.len()));
            let (work, work_after) = work_left.split_at_mut(src.len());
            (src_left, work_left) = (src_after, work_after);
            let mut passes = Passes { src, work, moved: false };
            stage.pass(lanes, &mut state, &mut passes);
            moved = passes.moved;
            if !moved && dst.is_none() {
                passes.work.copy_from_slice(src);
            }
        }
        if let Some(dst) = dst {
            dst.copy_from_slice(if moved { work } else { src });
        }
        stage.finish(lanes, state, src.len())
    }
}
