//! ADUs of a batch, in runs of one length: those leave together.

use std::iter::Fuse;

/// Most ADUs in a run.
const RUN: usize = 32;

/// What is left of a batch.
pub(super) struct Runs<'a, I> {
    rest: Fuse<I>,
    /// The first behind the run, of another length.
    next: Option<&'a [u8]>,
    run: [&'a [u8]; RUN],
    /// Of these, `run[from..to]` are left.
    from: usize,
    to: usize,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Runs<'a, I> {
    pub fn of(rest: I) -> Self {
        Runs { rest: rest.fuse(), next: None, run: [&[]; RUN], from: 0, to: 0 }
    }

    /// The next ADUs, which have one length; none at the end of the batch.
    pub fn run(&mut self) -> &[&'a [u8]] {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            while self.to < RUN
                && let Some(adu) = self.next.take().or_else(|| self.rest.next())
            {
                if self.to > 0 && adu.len() != self.run[0].len() {
                    self.next = Some(adu);
                    break;
                }
                self.run[self.to] = adu;
                self.to += 1;
            }
        }
        &self.run[self.from..self.to]
    }

    /// So many of the run are done.
    pub fn take(&mut self, count: usize) {
        self.from += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_one_length_and_nothing_is_lost() {
        let memory = [7; 3];
        let lens = [[1; 70].as_slice(), &[2, 2, 0, 0, 3], &[1; RUN], &[2]].concat();
        let mut runs = Runs::of(lens.iter().map(|len| &memory[..*len]));
        let (mut got, mut turns, mut take) = (Vec::new(), 0, 1);
        while let run @ [first, ..] = runs.run() {
            assert!(run.len() <= RUN && run.iter().all(|adu| adu.len() == first.len()));
            let taken = take.min(run.len());
            got.extend(run[..taken].iter().map(|adu| adu.len()));
            runs.take(taken);
            (turns, take) = (turns + 1, take % 40 + 7);
        }
        assert_eq!(got, lens);
        assert!(turns < 20, "{turns}");
    }
}
