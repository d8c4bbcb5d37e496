//! Braun and Diot, section 2.2: units of a loop.

use fusewire_synthetic::{Lanes, Passes, WORDS_MAX};

use super::synthetic::{function, whole};
use crate::Result;
use crate::bench::{Bench, Method};
use crate::experiment::{Axis, Chart, Experiment, Needs, Paper};
use crate::record::{Place, Point};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "braun-units",
    paper: Paper::BraunDiot,
    shows: "section 2.2",
    title: "The unit that a turn of the loop carries",
    question: "Is a unit larger than the stages need worth its registers?",
    method: "Three synthetic functions (one word of state, three instructions a word) in one loop whose unit is one to \
             eight words, of 32 and 64 bits in general registers and of 256 and 512 bits in vectors where the \
             processor has them; 6.5 KiB in the first-level cache.",
    differs: "The paper says that the unit should be the least common multiple of the functions' blocks and of the \
              width of memory's bus, without numbers. The bus of today is the vector; more words in a turn save \
              loop overhead until registers end.",
    charts: &[Chart::lines(
        "unit",
        "Time by unit",
        Axis::logarithmic("unit", "bytes"),
        Axis::logarithmic("time", "ns/B"),
    )],
    published: Vec::<Point>::new,
    needs: Needs::Nothing,
    seconds: [0.2, 1.0],
    run,
};

/// A multiple of all units of one kind of word.
const LEN_WORDS: usize = 840;

fn run(bench: &mut Bench<'_>) -> Result<()> {
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
