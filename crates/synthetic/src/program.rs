//! A list of functions, ready to run.
#![forbid(unsafe_code)]

use crate::code::{Code, assemble};
use crate::function::{CONSTANT, Error, Function, Lanes, check, table_entry};

/// Words of 64 bits in a cache line.
const LINE_WORDS: usize = 8;

/// Functions fused into one loop; of one function, the pass of a sequential execution.
pub struct Program {
    code: Code,
    unit_bytes: usize,
    lanes: Lanes,
    context: Vec<u64>,
    /// Where the context begins at a cache line.
    start: usize,
}

impl Program {
    /// The loop for these functions.
    ///
    /// # Errors
    /// When a parameter is out of bounds, the unit does not fit into registers, or this CPU has no such
    /// words.
    pub fn new(lanes: Lanes, functions: &[Function]) -> Result<Program, Error> {
        let unit_words = check(lanes, functions)?;
        let code = Code::new(assemble(lanes, functions, unit_words))?;
        let mut context = vec![0; code.layout().len_words + LINE_WORDS];
        let start = context.as_ptr().align_offset(64).min(LINE_WORDS);
        let constant = u64::from(CONSTANT);
        context[start..start + LINE_WORDS].fill(constant << 32 | constant);
        for (index, (function, table)) in functions.iter().zip(&code.layout().tables).enumerate() {
            if let Some(offset) = table {
                let table = &mut context[start + *offset as usize / 8..][..function.table_entries];
                for (i, entry) in table.iter_mut().enumerate() {
                    *entry = table_entry(index, i);
                }
            }
        }
        let unit_bytes = unit_words * lanes.word_bytes();
        Ok(Program { code, unit_bytes, lanes, context, start })
    }

    /// The passes of a sequential execution: a program for each function.
    ///
    /// # Errors
    /// As [`Program::new`].
    pub fn passes(lanes: Lanes, functions: &[Function]) -> Result<Vec<Program>, Error> {
        check(lanes, functions)?;
        let alone = |(index, function): (usize, &Function)| {
            let mut program = Program::new(lanes, std::slice::from_ref(function))?;
            // Each function has a table of its own, also when it runs alone.
            if let Some(offset) = program.code.layout().tables[0] {
                let at = program.start + offset as usize / 8;
                for (i, entry) in
                    program.context[at..][..function.table_entries].iter_mut().enumerate()
                {
                    *entry = table_entry(index, i);
                }
            }
            Ok(program)
        };
        functions.iter().enumerate().map(alone).collect()
    }

    /// Bytes of a unit: a message has whole units.
    pub fn unit_bytes(&self) -> usize {
        self.unit_bytes
    }

    /// Whether it puts out bytes.
    pub fn writes(&self) -> bool {
        self.code.layout().writes
    }

    /// Runs over `src`, and puts what it makes into `dst` if it writes. The state goes on from where it
    /// was.
    ///
    /// # Errors
    /// When the lengths differ or are no whole number of units.
    #[inline]
    pub fn run(&mut self, src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
        self.check(src.len(), dst.len())?;
        self.code.run(src, dst, &mut self.context[self.start..]);
        Ok(())
    }

    /// The same in place.
    ///
    /// # Errors
    /// As [`Program::run`].
    #[inline]
    pub fn run_in_place(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        self.check(bytes.len(), bytes.len())?;
        self.code.run_in_place(bytes, &mut self.context[self.start..]);
        Ok(())
    }

    /// The same, of functions that only read.
    ///
    /// # Errors
    /// As [`Program::run`].
    ///
    /// # Panics
    /// When it [writes](Program::writes).
    #[inline]
    pub fn read(&mut self, src: &[u8]) -> Result<(), Error> {
        self.check(src.len(), src.len())?;
        self.code.read(src, &mut self.context[self.start..]);
        Ok(())
    }

    fn check(&self, src: usize, dst: usize) -> Result<(), Error> {
        if src != dst || !src.is_multiple_of(self.unit_bytes) {
            return Err(Error::Length { src, dst, unit: self.unit_bytes });
        }
        Ok(())
    }

    /// The state of each function, as [`crate::oracle`] gives it.
    pub fn states(&self) -> Vec<u64> {
        let word = self.lanes.word_bytes().div_ceil(8);
        let offsets = self.code.layout().states.iter().flatten();
        offsets
            .flat_map(|offset| {
                let at = self.start + *offset as usize / 8;
                self.context[at..at + word].iter().copied()
            })
            .collect()
    }

    /// The state before the first byte.
    pub fn reset(&mut self) {
        let word = self.lanes.word_bytes().div_ceil(8);
        for offset in self.code.layout().states.iter().flatten() {
            let at = self.start + *offset as usize / 8;
            self.context[at..at + word].fill(0);
        }
    }
}
