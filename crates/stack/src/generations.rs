//! Places of what comes and goes, numbered. Who names one by its number and how often it was used before does not reach
//! who has it next.

/// Which places are taken, and how often each was given back.
#[derive(Default)]
pub(crate) struct Generations {
    given_back: Vec<u32>,
    free: Vec<u32>,
}

impl Generations {
    /// `count` places, all free; the first is taken first.
    #[cfg(feature = "interfaces")]
    pub fn new(count: u32) -> Generations {
        Generations { given_back: vec![0; count as usize], free: (0..count).rev().collect() }
    }

    /// Takes a place, of those that are there.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Adds a place, and takes it.
    pub fn add(&mut self) -> u32 {
        self.given_back.push(0);
        self.given_back.len() as u32 - 1
    }

    /// Gives a place back. Its name from now on is another.
    pub fn give_back(&mut self, index: u32) {
        let times = &mut self.given_back[index as usize];
        *times = times.wrapping_add(1);
        self.free.push(index);
    }

    /// How often the place was given back.
    pub fn of(&self, index: u32) -> u32 {
        self.given_back[index as usize]
    }

    /// Whether that is how often the place, if there is one, was given back.
    pub fn is_current(&self, index: u32, generation: u32) -> bool {
        self.given_back.get(index as usize) == Some(&generation)
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.given_back.len() - self.free.len()
    }

    /// Whether none is free.
    #[cfg(feature = "interfaces")]
    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }
}

/// Number and generation, as a name that is shown says them: `7.1`.
#[cfg(any(feature = "interfaces", feature = "view"))]
pub(crate) fn parse(name: &str) -> Option<(u32, u32)> {
    let (index, generation) = name.split_once('.')?;
    Some((index.parse().ok()?, generation.parse().ok()?))
}
