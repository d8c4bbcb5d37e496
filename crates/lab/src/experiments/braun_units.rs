//! Braun and Diot, section 2.2: units of a loop.

use fusewire_synthetic::{Lanes, Passes, WORDS_MAX};

use super::synthetic::{function, whole};
use crate::Result;
use crate::bench::{Bench, Method};
use crate::record::Place;

/// A multiple of all units of one kind of word.
const LEN_WORDS: usize = 840;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let longest = LEN_WORDS * 64;
    let src = vec![0x5a; longest];
    let mut cases = Vec::new();
    for lanes in Lanes::ALL.into_iter().filter(|lanes| lanes.is_available()) {
        for words in 1..=WORDS_MAX {
            let functions = [function(1, 3 * words, words); 3];
            let len = (6720 / lanes.word_bytes() / 840).max(1) * 840 * lanes.word_bytes();
            cases.push((lanes, words, len.min(longest), Passes::new(lanes, &functions)?));
        }
    }
    let src = &src[..];
    let mut methods: Vec<_> = cases
        .iter_mut()
        .map(|(lanes, words, len, made)| {
            let len = *len;
            let mut dst = vec![1; len];
            let place = Place::new("unit", lanes.name(), *words * lanes.word_bytes());
            let call = move || whole(made.integrated(&src[..len], &mut dst));
            (place, Method::new(1.0 / len as f64, call))
        })
        .collect();
    bench.turns(bench.choose(9, 41), &mut methods)
}
