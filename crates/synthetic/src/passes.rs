//! The same functions in one loop and in a loop each.
#![forbid(unsafe_code)]

use crate::{Error, Function, Lanes, Program};

/// Functions ready to run in each way.
pub struct Passes {
    fused: Program,
    apart: Vec<Program>,
}

impl Passes {
    /// Loops for these functions.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn new(lanes: Lanes, functions: &[Function]) -> Result<Passes, Error> {
        let fused = Program::new(lanes, functions)?;
        Ok(Passes { fused, apart: Program::passes(lanes, functions)? })
    }

    /// One loop.
    ///
    /// # Errors
    /// As [`Program::run`].
    #[inline]
    pub fn integrated(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        if self.fused.writes() { self.fused.run(src, dst) } else { self.fused.read(src) }
    }

    /// A loop each: the first that writes brings the message to its place, those behind it find it there.
    ///
    /// # Errors
    /// As [`Program::run`].
    #[inline]
    pub fn sequential(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        let mut moved = false;
        for pass in &mut self.apart {
            match (pass.writes(), moved) {
                (false, false) => pass.read(src),
                (false, true) => pass.read(dst),
                (true, false) => pass.run(src, dst),
                (true, true) => pass.run_in_place(dst),
            }?;
            moved |= pass.writes();
        }
        Ok(())
    }

    /// The same, over a strip after the other.
    ///
    /// # Errors
    /// As [`Program::run`]; and when strips are no whole number of units.
    #[inline]
    pub fn blocked(&mut self, strip: usize, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        let strips = src.chunks(strip).zip(dst.chunks_mut(strip));
        strips.into_iter().try_for_each(|(src, dst)| self.sequential(src, dst))
    }
}
