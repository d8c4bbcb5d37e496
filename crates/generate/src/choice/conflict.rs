//! What cannot be had: the fewest clauses that cannot hold together, and the nearest values with which they would.

use super::adu::{ADU_BYTES_MAX, Failure, Told};
use super::rank::{any, least};
use super::rules::Candidates;
use crate::language::specification::Adu;
use crate::language::value::{Clausal, Clause, Origin, Range};
use crate::language::{Specification, holds_together};

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// In words, with the numbers.
    pub why: String,
    /// Clauses that are written, without any one of which there would be a plan.
    pub clauses: Vec<Conflicting>,
    /// Clauses that are not written and play a part as well.
    pub defaults: Vec<Conflicting>,
    /// `size_bytes` of types for which only ASN.1 says a size, with values for which there would be a plan.
    pub sizes: Vec<Conflicting>,
}

/// A clause of a conflict.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflicting {
    /// Which.
    pub clause: Clause,
    /// Its value.
    pub value: String,
    /// The nearest value with which, all others being as they are, there would be a plan.
    pub passes: Option<String>,
    /// Of what would be chosen with that no code is made yet.
    pub is_without_code: bool,
    /// If there is none: the nearest value with which this conflict would end, though it would still be refused.
    pub ends: Option<String>,
    /// Why it would still be refused then, or without the clause.
    pub then: Option<String>,
    /// Without it there would be a plan, all others being as they are.
    pub goes: bool,
}

/// Values that are tried one behind the other, each demanding less.
const STEPS: u32 = 32;
/// Times the last step is halved.
const HALVES: u32 = 10;
/// Clauses that are asked each by itself, at most: of more that takes long.
const ENDING_MAX: usize = 64;

/// The fewest clauses of what cannot be had. Where another conflict stands behind the first that is found, they are those of what
/// comes nearest to what is asked for, if more of them have a value that would do.
pub fn refusal(of: &Specification, failure: Failure) -> Refusal {
    let whole = failure.clone();
    let mut refusal = nearest_conflict(of, failure);
    let mut all = refusal.clauses.iter().chain(&refusal.defaults);
    if all.clone().all(|one| one.goes) && all.any(|one| whole.clauses.contains(&one.clause.name)) {
        // There is one conflict: its reason is that of the specification as it is, and not of what is left for it.
        refusal.why = whole.why;
    }
    Refusal { sizes: sizes(of, &refusal), ..refusal }
}

/// Shorter ADUs with which there would be a plan, of types that a refusal is about and whose size is not written.
fn sizes(of: &Specification, refusal: &Refusal) -> Vec<Conflicting> {
    let is_about = |adu: &Adu| {
        let own = format!("adu.{}.", adu.name);
        let mut all = refusal.clauses.iter().chain(&refusal.defaults);
        all.any(|one| one.clause.name.starts_with(&own))
            || refusal.why.starts_with(&format!("{}: ", adu.name))
    };
    let size_of = |(place, adu): (usize, &Adu)| {
        let low = adu.extents.iter().map(|extent| extent.low).min()?.max(1) as f64;
        let high = adu.extents.iter().map(|of| of.high.map_or(ADU_BYTES_MAX, |n| n as f64));
        let high = high.fold(low, f64::max);
        let mut whole = of.clone();
        whole.adus[place].size_bytes.value = Some(Range::new(low, high));
        let clause = &whole.adus[place].size_bytes.clause;
        let found = nearest(&whole, &whole, &clause.name)?;
        Some(Conflicting {
            clause: clause.clone(),
            value: whole.adus[place].size_bytes.text(),
            passes: Some(found.text),
            is_without_code: found.is_without_code,
            ends: None,
            then: None,
            goes: false,
        })
    };
    let about = of.adus.iter().enumerate().filter(|(_, adu)| is_about(adu));
    about.filter(|(_, adu)| adu.size_bytes.value.is_none()).filter_map(size_of).collect()
}

fn nearest_conflict(of: &Specification, failure: Failure) -> Refusal {
    let first = conflict(of, failure.clone(), Told::First, &[]);
    let all = |of: &Refusal| of.clauses.iter().chain(&of.defaults).cloned().collect::<Vec<_>>();
    if all(&first).iter().all(|one| one.goes) {
        return first;
    }
    let passing = |of: &Refusal| all(of).iter().filter(|one| one.passes.is_some()).count();
    let more = |best: Refusal, other: Refusal| match passing(&other) > passing(&best) {
        true => other,
        false => best,
    };
    // What of each by itself ends it is no other conflict's, even if another type's clauses would fail without it as well.
    let ending = ending(of);
    let mut best = first;
    if !ending.is_empty() {
        best = more(best, conflict(of, failure, Told::First, &ending));
    }
    let Err(failure) = any(of, &Candidates::of(of), Told::Nearest) else { return best };
    more(best, conflict(of, failure, Told::Nearest, &[]))
}

/// Clauses that are written, without any one of which there would be a plan; of many clauses none.
fn ending(of: &Specification) -> Vec<String> {
    let clauses = of.clauses().into_iter();
    let written = clauses.filter(|c| c.is_demanding() && c.clause().origin == Origin::Written);
    let names: Vec<_> = written.map(|c| c.clause().name.clone()).collect();
    if names.len() > ENDING_MAX {
        return Vec::new();
    }
    let is_ending = |name: &String| {
        let mut without = of.clone();
        let Some(clause) = without.clause_mut(name) else { return false };
        clause.relax();
        any(&without, &Candidates::of(&without), Told::First).is_ok()
    };
    names.into_iter().filter(is_ending).collect()
}

/// The fewest clauses that cannot hold together, of which those of these names are.
fn conflict(of: &Specification, failure: Failure, told: Told, ending: &[String]) -> Refusal {
    let fails = |of: &Specification| any(of, &Candidates::of(of), told).err();
    let mut left = of.clone();
    let first = failure.clone();
    let names = |origin: fn(Origin) -> bool| -> Vec<String> {
        let demanding = of.clauses().into_iter().filter(|c| c.is_demanding());
        let of_origin = demanding.filter(|c| origin(c.clause().origin));
        of_origin.map(|c| c.clause().name.clone()).collect()
    };
    let mut why = failure;
    // What nobody wrote goes first: a conflict is told by what somebody did write, if it can be.
    let order = names(|o| o != Origin::Written).into_iter().chain(names(|o| o == Origin::Written));
    let mut kept: Vec<String> = order.collect();
    let mut drop = |kept: &mut Vec<String>, names: &[String]| {
        if names.iter().any(|name| ending.contains(name)) {
            return;
        }
        let mut without = left.clone();
        for name in names {
            if let Some(clause) = without.clause_mut(name) {
                clause.relax();
            }
        }
        // What fails by more without them is another conflict: they inform as well as demand.
        let is_of_it = |failure: &Failure| told == Told::First || failure.excess <= why.excess;
        if let Some(failure) = fails(&without).filter(is_of_it) {
            (left, why) = (without, failure);
            kept.retain(|name| !names.contains(name));
        }
    };
    // A type of ADU that has nothing to do with it goes at once.
    for adu in &of.adus {
        let own = format!("adu.{}.", adu.name);
        let names: Vec<_> = kept.iter().filter(|name| name.starts_with(&own)).cloned().collect();
        drop(&mut kept, &names);
    }
    // Clauses inform as well as demand (a rate says when the next one comes), so one may be found to be needless only
    // when others are gone: until all that is left is needed.
    loop {
        let before = kept.clone();
        before.iter().for_each(|name| drop(&mut kept, std::slice::from_ref(name)));
        if kept.len() == before.len() {
            break;
        }
    }
    let conflicting = |name: &String| {
        let clause = of.clauses().into_iter().find(|c| c.clause().name == *name)?;
        let passes = nearest(of, of, name);
        let mut without = of.clone();
        without.clause_mut(name)?.relax();
        let ends = if passes.is_none() { nearest(&left, of, name) } else { None };
        if let Some(nearest) = &ends {
            without = of.clone();
            without.clause_mut(name)?.loosen(nearest.share);
        }
        let then = fails(&without).filter(|_| passes.is_none());
        without = of.clone();
        without.clause_mut(name)?.relax();
        Some(Conflicting {
            clause: clause.clause().clone(),
            value: clause.text(),
            ends: ends.map(|nearest| nearest.text),
            then: then.map(|failure| failure.why),
            is_without_code: passes.as_ref().is_some_and(|nearest| nearest.is_without_code),
            goes: fails(&without).is_none(),
            passes: passes.map(|nearest| nearest.text),
        })
    };
    // What the others need to be told is no part of the conflict, unless it alone would end it.
    let is_part = |one: &Conflicting| {
        let mut without = left.clone();
        if let Some(clause) = without.clause_mut(&one.clause.name) {
            clause.relax();
        }
        one.goes || fails(&without).is_none()
    };
    let mut all: Vec<_> = kept.iter().filter_map(conflicting).filter(is_part).collect();
    // The numbers that were found first are those of the specification as it is, if they are of these clauses, or of the same
    // demand: what is left without the other clauses demands less, and its numbers are smaller.
    let is_first = kept.iter().all(|name| first.clauses.contains(name))
        || subject(&first.why) == subject(&why.why);
    let why = if is_first { first.why } else { why.why };
    // A clause without which all is refused as before is no cause of it.
    let changes = |one: &Conflicting| one.goes || one.then.as_ref() != Some(&why);
    if all.iter().any(changes) {
        all.retain(changes);
    }
    let (clauses, defaults) = all.into_iter().partition(|c| c.clause.origin == Origin::Written);
    Refusal { why, clauses, defaults, sizes: Vec::new() }
}

/// The words of a refusal up to its first number: which type, and what is demanded of it.
fn subject(why: &str) -> (&str, &str) {
    let (name, rest) = why.split_once(": ").unwrap_or(("", why));
    (name, rest.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default())
}

/// A value of a clause with which there is a plan.
struct Nearest {
    text: String,
    /// How far it is from what is written, as [`Clausal::loosen`](crate::language::value::Clausal::loosen) takes it.
    share: f64,
    /// No code is made of what would be chosen.
    is_without_code: bool,
}

/// The nearest value of a clause with which there is a plan, if it has an order or other words and there is one that contradicts
/// nothing of the whole specification, of which `of` may be a part.
fn nearest(of: &Specification, whole: &Specification, name: &str) -> Option<Nearest> {
    let loosened = |of: &Specification, share: f64| {
        let mut loosened = of.clone();
        loosened.clause_mut(name)?.loosen(share);
        Some(loosened)
    };
    let with = |share: f64| {
        let text = of.clone().clause_mut(name)?.loosened(share)?;
        let part = loosened(of, share)?;
        let passes = any(&part, &Candidates::of(&part), Told::First).is_ok()
            && holds_together(&loosened(whole, share)?);
        passes.then_some((text, part))
    };
    // One behind the other: what demands less may inform less, and so not pass again further on.
    let share = |step: u32| f64::from(step) / f64::from(STEPS);
    let (step, mut best) = (1..=STEPS).find_map(|step| Some((step, with(share(step))?)))?;
    let (mut fails, mut passes) = (share(step - 1), share(step));
    for _ in 0..HALVES {
        let middle = (fails + passes) / 2.0;
        match with(middle) {
            Some(found) => {
                passes = middle;
                best = found;
            }
            None => fails = middle,
        }
    }
    let (text, loosened) = best;
    let chosen = least(&loosened, &Candidates::of(&loosened));
    let is_without_code = chosen.is_ok_and(|chosen| chosen.score.is_without_code);
    Some(Nearest { text, share: passes, is_without_code })
}
