//! Abbott and Peterson's model, as Ahlgren's Figure 4 has it: cycles to treat one word of message.
//!
//! It knows no state, so in it integration always wins.

use super::Implementation;

/// What their model asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AbbottPeterson {
    /// Layers.
    pub layers: u32,
    /// Those of them that write.
    pub write_layers: u32,
    /// Cycles of computation for a word, all layers together.
    pub computation_cycles: f64,
    /// Cycles of one access, cache hits and misses mixed.
    pub access_cycles: f64,
}

impl AbbottPeterson {
    /// Cycles a word. A turn of a loop costs three.
    pub fn cycles_per_word(&self, implementation: Implementation) -> f64 {
        let (loops, accesses) = match implementation {
            Implementation::Sequential => (self.layers, self.layers + self.write_layers),
            Implementation::Integrated => (1, 2),
        };
        3.0 * f64::from(loops) + self.computation_cycles + self.access_cycles * f64::from(accesses)
    }
}
