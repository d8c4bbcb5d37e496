//! Whether to integrate, by how much it pays, and why, in plain words.

mod describe;
mod why;

pub use describe::{Arrival, Described, Description, Error, Order, Output, Rule, VERSION};

use crate::machine::{self, Machine, Transform};
use crate::pipeline::{Cache, Implementation, Pipeline};
use crate::predict::{Prediction, cold_cycles, predict};

/// A difference that nobody would do anything for.
const SMALL: f64 = 0.05;

/// What the model says of a pipeline, for a message that lies near and one that lies in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Bytes of message.
    pub bytes: f64,
    /// For a message in the cache.
    pub warm: Comparison,
    /// For one in memory.
    pub cold: Comparison,
}

/// The three implementations beside each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Where the message lies.
    pub cache: Cache,
    /// In the order of [`Implementation::ALL`].
    pub predictions: [Prediction; 3],
    /// The one to take.
    pub choice: Implementation,
    /// Time that the best of the others takes, by that of the integrated one: above 1 integration pays.
    pub gain: f64,
    /// Why, a sentence each.
    pub why: Vec<String>,
}

/// The implementation to take for messages of so many bytes.
///
/// # Errors
/// As [`predict`].
pub fn choose(
    machine: &Machine,
    pipeline: &Pipeline,
    bytes: f64,
    cache: Cache,
) -> Result<Implementation, machine::Error> {
    Ok(fastest(&all(machine, pipeline, bytes, cache)?))
}

/// How the transfer's data pass runs fastest for messages in memory of so many bytes: integrated, unless
/// another is known to be faster by more than a little. `None` of what was not measured.
///
/// Words of 2 and 8 bytes are swapped as those of 4 are.
pub fn choose_transform(
    machine: &Machine,
    cipher: &str,
    swap_bytes: u32,
    level: &str,
    bytes: f64,
) -> Option<Implementation> {
    let swap_bytes = if swap_bytes > 1 { 4 } else { 1 };
    let cycles = |implementation| {
        let same = |one: &&Transform| {
            one.cipher == cipher
                && !one.receives
                && one.swap_bytes == swap_bytes
                && one.level == level
                && one.implementation == implementation
        };
        let one = machine.transforms.iter().find(same)?;
        Some(cold_cycles(one, bytes))
    };
    let integrated = cycles(Implementation::Integrated)?;
    let others = [Implementation::Blocked, Implementation::Sequential];
    let others = others.into_iter().filter_map(|other| Some((other, cycles(other)?)));
    let (other, took) = others.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(if took * (1.0 + SMALL) < integrated { other } else { Implementation::Integrated })
}

/// Compares the implementations of a pipeline.
///
/// # Errors
/// As [`predict`].
pub fn advise(
    machine: &Machine,
    pipeline: &Pipeline,
    bytes: f64,
) -> Result<Advice, machine::Error> {
    let compare = |cache| -> Result<Comparison, machine::Error> {
        let predictions = all(machine, pipeline, bytes, cache)?;
        let [integrated, blocked, sequential] = predictions;
        let gain = blocked.cycles.min(sequential.cycles) / integrated.cycles;
        let choice = fastest(&predictions);
        let mut why = why::sentences(machine, pipeline, &predictions)?;
        why.insert(0, in_words(choice, gain));
        Ok(Comparison { cache, predictions, choice, gain, why })
    };
    Ok(Advice { bytes, warm: compare(Cache::Warm)?, cold: compare(Cache::Cold)? })
}

fn all(
    machine: &Machine,
    pipeline: &Pipeline,
    bytes: f64,
    cache: Cache,
) -> Result<[Prediction; 3], machine::Error> {
    let [a, b, c] = Implementation::ALL;
    let ask = |implementation| predict(machine, pipeline, bytes, cache, implementation);
    Ok([ask(a)?, ask(b)?, ask(c)?])
}

/// Of equal ones the first.
fn fastest(predictions: &[Prediction; 3]) -> Implementation {
    let all = Implementation::ALL.into_iter().zip(predictions);
    all.min_by(|a, b| a.1.cycles.total_cmp(&b.1.cycles)).map_or(Implementation::Integrated, |a| a.0)
}

fn in_words(choice: Implementation, gain: f64) -> String {
    let percent = |ratio: f64| ((ratio - 1.0) * 100.0).round();
    if gain >= 1.0 + SMALL {
        return format!("Integrate: the best of the others takes {} % longer.", percent(gain));
    }
    if gain > 1.0 - SMALL {
        return format!("It hardly matters ({:+} %): take what is easier to write.", percent(gain));
    }
    let way = match choice {
        Implementation::Blocked => "run each function in turn over strips of 4096 bytes",
        _ => "run each function over the whole message",
    };
    format!("Do not integrate: one loop takes {} % longer. {way}.", percent(1.0 / gain))
        .replace(". run", ". Run")
}
