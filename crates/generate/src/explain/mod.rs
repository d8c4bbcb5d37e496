//! Why a plan is as it is: for all that types of ADU share and for each type which mechanism was chosen, by which
//! clauses, with which figures, and what each other one would break or cost.
//!
//! [`Explanation`] is data, for `--json`; [`Explanation::markdown`] is the same in words, for people and for the
//! `EXPLAIN.md` of a generated crate. Nothing is chosen here: an alternative is judged by asking the choice again with
//! only that one left.

mod figures;
mod markdown;

use serde::Serialize;

use crate::catalogue::{Function, Mechanism, Set};
use crate::choice::adu::Failure;
use crate::choice::plans::{plan, without_wire};
use crate::choice::rank::{self, Combination, Score, profiled};
use crate::choice::rules::{Candidates, any_of};
use crate::choice::{Choice, broken, preferred};
use crate::language::specification::{Prefer, Specification};
use crate::language::value::{Clausal, Origin};
use crate::language::{Checked, keys::Word};
use crate::plan::{Execution, Plan, Profile};
use crate::rust::{has_priority, not_applied, why_no_code};

/// A clause that something comes of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Which: `adu.Audio.deadline_ms`.
    pub clause: String,
    /// Its value, as a specification has it.
    pub value: String,
    /// `written`, `profile` or `default`.
    pub origin: &'static str,
    /// The specification's file.
    pub file: String,
    /// Where it is written; of a default where the table begins that could have it.
    pub line: u32,
}

/// What another mechanism would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Something that is asked for would not hold.
    Breaks,
    /// All would hold, at a price.
    Costs,
}

/// A mechanism that was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// Its name.
    pub mechanism: &'static str,
    /// Whether it could be had.
    pub outcome: Outcome,
    /// What it would break or cost, in words with the numbers.
    pub why: String,
    /// The clauses that it would break.
    pub causes: Vec<Cause>,
}

/// One function and what serves it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The function.
    pub function: &'static str,
    /// The mechanism.
    pub mechanism: &'static str,
    /// What it does, to go on after "it".
    pub does: &'static str,
    /// With which figures, if it has any.
    pub with: Option<String>,
    /// The clauses that left no other, or that put it before the others.
    pub causes: Vec<Cause>,
    /// The others.
    pub alternatives: Vec<Alternative>,
}

/// A figure and what it may be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// `time`, `loss`, `size`, `rate`, `memory`.
    pub of: &'static str,
    /// In words, with the numbers.
    pub says: String,
    /// The clauses that it is compared with.
    pub causes: Vec<Cause>,
}

/// A type of ADU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AduExplanation {
    /// Its name.
    pub name: String,
    /// Its type in ASN.1.
    pub asn1: String,
    /// Who sends it: a role, or both.
    pub from: String,
    /// What comes of it at the worst corner of the network.
    pub figures: Vec<Figure>,
    /// What it has for itself.
    pub decisions: Vec<Decision>,
    /// How its data pass runs, and why.
    pub execution: String,
}

/// Why a plan is as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The plan's name.
    pub name: String,
    /// The specification's file.
    pub file: String,
    /// What both ends compare: hexadecimal.
    pub digest: String,
    /// What is compared, first first, where clauses leave a choice.
    pub preferred: Vec<&'static str>,
    /// Preferences that are not met.
    pub unmet: Vec<Cause>,
    /// Figures of all together.
    pub figures: Vec<Figure>,
    /// What all types of ADU share.
    pub shared: Vec<Decision>,
    /// Each type.
    pub adus: Vec<AduExplanation>,
    /// What changes nothing, and what generated ends do not apply, without which every promise is kept all the same.
    pub not_applied: Vec<Figure>,
}

/// Why the plan of a choice is as it is. `checked` is what was chosen for.
pub fn explain(checked: &Checked, choice: &Choice) -> Explanation {
    let why = Why { checked, choice, of: &checked.specification };
    let functions =
        |is_of_adu: bool| Function::ALL.into_iter().filter(move |f| f.is_of_adu() == is_of_adu);
    let adus = why.of.adus.iter().enumerate().map(|(place, adu)| AduExplanation {
        name: adu.name.clone(),
        asn1: adu.ty.value.clone(),
        from: why.sender(place),
        figures: why.adu_figures(place),
        decisions: functions(true).map(|f| why.decision(f, Some(place))).collect(),
        execution: choice.executions[place].clone(),
    });
    Explanation {
        name: choice.plan.name.clone(),
        file: checked.sources[0].name().to_owned(),
        digest: choice.plan.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        preferred: preferred(why.of).into_iter().map(Word::word).collect(),
        unmet: why.causes(&why.broken(&choice.combination)),
        figures: why.shared_figures(),
        shared: functions(false).map(|f| why.decision(f, None)).collect(),
        adus: adus.collect(),
        not_applied: without_effect(checked, choice)
            .into_iter()
            .chain(not_applied(checked, &choice.plan))
            .collect(),
    }
}

/// Clauses that are written, promise nothing by themselves, and change nothing in this choice.
fn without_effect(checked: &Checked, choice: &Choice) -> Vec<Figure> {
    let of = &checked.specification;
    let is_guide = |clause: &&dyn Clausal| {
        let key = clause.clause().name.rsplit('.').next().unwrap_or_default();
        clause.clause().origin == Origin::Written
            && ["prefer", "profile", "control", "floor_kbit"].contains(&key)
    };
    let is_idle = |clause: &&dyn Clausal| {
        let mut without = of.clone();
        let name = &clause.clause().name;
        let Some(own) = without.clause_mut(name) else { return false };
        let before = own.text();
        own.relax();
        if own.text() == before {
            return false;
        }
        for adu in &mut without.adus {
            // A priority by the profile goes with it.
            if adu.priority.clause.origin == Origin::Profile && *name == adu.profile.clause.name {
                adu.priority.value = 100.0;
            }
        }
        match rank::least(&without, &Candidates::of(&without)) {
            Ok(found) => visible(&without_wire(&without, &found, None).0) == visible(&choice.plan),
            Err(_) => false,
        }
    };
    let says = "changes nothing here: without it the same is chosen";
    let idle = of.clauses().into_iter().filter(is_guide).filter(is_idle);
    idle.map(|clause| Figure {
        of: "no effect",
        says: says.to_owned(),
        causes: vec![cause(checked, clause)],
    })
    .collect()
}

/// A plan without what no end shows: what the choice counts with, names of profiles, and priorities that order nothing.
fn visible(plan: &Plan) -> Plan {
    let mut plan = Plan { wire: Vec::new(), digest: [0; 32], ..plan.clone() };
    plan.network.is_reserved = false;
    let orders: Vec<bool> = plan.adus.iter().map(|adu| has_priority(&plan, adu)).collect();
    for (adu, orders) in plan.adus.iter_mut().zip(orders) {
        adu.profile = Profile::Default;
        adu.execution = Execution::Integrated;
        if !orders {
            adu.priority = 0;
        }
    }
    plan
}

struct Why<'w> {
    checked: &'w Checked,
    choice: &'w Choice,
    of: &'w Specification,
}

impl Why<'_> {
    fn decision(&self, function: Function, place: Option<usize>) -> Decision {
        let set = self.set(&self.choice.combination, place);
        let mechanism = rank::of_function(set, function);
        let others = function.choices().filter(|other| *other != mechanism);
        let alternatives: Vec<_> = others.map(|other| self.alternative(other, place)).collect();
        let mut causes: Vec<Cause> = Vec::new();
        for cause in alternatives.iter().flat_map(|other| other.causes.iter()) {
            if !causes.contains(cause) {
                causes.push(cause.clone());
            }
        }
        // Who wrote something asks for its effect first.
        causes.sort_by_key(|cause| cause.origin == Origin::Default.as_str());
        let with = self.with(function, place);
        let entry = mechanism.entry();
        Decision {
            function: function.name(),
            mechanism: entry.name,
            does: entry.does,
            with,
            causes,
            alternatives,
        }
    }

    fn set(&self, of: &Combination, place: Option<usize>) -> Set {
        place.map_or(of.shared, |place| of.ways[place].set)
    }

    /// What would come of another mechanism.
    fn alternative(&self, other: Mechanism, place: Option<usize>) -> Alternative {
        let candidates = &self.choice.candidates;
        let of = |outcome, why: String, clauses: &[String]| Alternative {
            mechanism: other.name(),
            outcome,
            why,
            causes: self.causes(clauses),
        };
        if let Some(removal) = candidates.removal(other, place) {
            return of(Outcome::Breaks, removal.why.clone(), &removal.clauses);
        }
        match rank::least(self.of, &candidates.with_only(other, place)) {
            Err(failure) => {
                let Failure { why, clauses, .. } = self.reason(other, place).unwrap_or(failure);
                of(Outcome::Breaks, why, &clauses)
            }
            Ok(found)
                if found.score.is_without_code
                    && !self.choice.combination.score.is_without_code =>
            {
                if let Some(Failure { why, clauses, .. }) = self.reason(other, place) {
                    return of(Outcome::Breaks, why, &clauses);
                }
                let plan = plan(self.of, &found, None).0;
                let (why, clause) = why_no_code(self.of, &plan).unwrap_or_default();
                let clauses: Vec<_> = clause.into_iter().collect();
                of(Outcome::Breaks, format!("no code is made of it yet: {why}"), &clauses)
            }
            Ok(found) => {
                let (why, clauses) = self.price(&found);
                of(Outcome::Costs, why, &clauses)
            }
        }
    }

    /// Why another mechanism does not go with what was chosen for the functions before it, in the order of [`Function::ALL`]. A
    /// choice is explained by earlier ones alone: otherwise two would explain each other.
    fn reason(&self, other: Mechanism, place: Option<usize>) -> Option<Failure> {
        let function = other.entry().function;
        let is_before = |f: &Function| *f != function;
        let before: Vec<Function> = match place {
            // Decisions that all types share precede those of one type.
            Some(_) => {
                let own = Function::ALL.into_iter().filter(|f| f.is_of_adu()).take_while(is_before);
                Function::ALL.into_iter().filter(|f| !f.is_of_adu()).chain(own).collect()
            }
            None => {
                let shared = Function::ALL.into_iter().filter(|f| !f.is_of_adu());
                shared.take_while(is_before).collect()
            }
        };
        let mut candidates = self.choice.candidates.clone();
        let mut clash = None;
        for function in before {
            let at = if function.is_of_adu() { place } else { None };
            let one = rank::of_function(self.set(&self.choice.combination, at), function);
            clash = clash.or_else(|| why_apart(one, other));
            candidates = candidates.with_only(one, at);
        }
        let candidates = candidates.with_only(other, place);
        let failure = rank::least(self.of, &candidates).err()?;
        if clash.is_none() && candidates.missing().is_some() {
            // Clauses leave no other for a later function, and that one does not go with it.
            let all = Function::ALL.into_iter().filter(|f| !f.is_of_adu() && *f != function);
            let mut chosen = all.map(|f| rank::of_function(self.choice.combination.shared, f));
            clash = chosen.find_map(|one| why_apart(one, other));
        }
        Some(Failure { why: clash.unwrap_or(failure.why), ..failure })
    }

    /// The first thing in which a combination is worse than the one that was chosen, and preferences that it breaks.
    fn price(&self, other: &Combination) -> (String, Vec<String>) {
        let chosen = &self.choice.combination;
        let (ours, theirs): (&Score, &Score) = (&chosen.score, &other.score);
        if (theirs.broken, theirs.broken_default) > (ours.broken, ours.broken_default) {
            let broken = self.broken(chosen);
            let more = self.broken(other).into_iter().filter(|b| !broken.contains(b));
            return ("what is preferred or to be avoided".to_owned(), more.collect());
        }
        if theirs.is_bare && !ours.is_bare {
            return ("protection, which nobody asks to go without".to_owned(), Vec::new());
        }
        let pairs = ours.preferred.iter().zip(&theirs.preferred).zip(preferred(self.of));
        let mut pairs = pairs.filter(|((ours, theirs), _)| theirs > ours);
        if let Some(((ours, theirs), prefer)) = pairs.next() {
            return (priced(prefer, *ours, *theirs), self.preferring(prefer));
        }
        let why = if theirs.work > ours.work {
            format!("more work, {:.0} to {:.0}", theirs.work, ours.work)
        } else if theirs.mechanisms > ours.mechanisms {
            format!("more mechanisms, {} to {}", theirs.mechanisms, ours.mechanisms)
        } else {
            "no more: of what is alike the first by name is taken".to_owned()
        };
        (why, Vec::new())
    }

    /// The clauses that prefer something.
    fn preferring(&self, prefer: Prefer) -> Vec<String> {
        if self.of.prefer.value.contains(&prefer) {
            return vec![self.of.prefer.clause.name.clone()];
        }
        let by = self.of.adus.iter().filter(|adu| profiled(adu.profile.value) == Some(prefer));
        by.map(|adu| adu.profile.clause.name.clone()).collect()
    }

    /// Names of preferences that a combination goes against.
    fn broken(&self, of: &Combination) -> Vec<String> {
        broken(self.of, of.shared, &of.ways).into_iter().map(|clause| clause.name.clone()).collect()
    }

    fn causes(&self, names: &[String]) -> Vec<Cause> {
        let clauses = self.of.clauses();
        let find = |name: &String| clauses.iter().find(|c| c.clause().name == *name);
        names.iter().filter_map(find).map(|clause| self.cause(*clause)).collect()
    }

    fn cause(&self, clause: &dyn Clausal) -> Cause {
        cause(self.checked, clause)
    }
}

/// Why two mechanisms do not go together by the catalogue: the first that was chosen, and another one.
fn why_apart(chosen: Mechanism, other: Mechanism) -> Option<String> {
    let named = |one: Mechanism| format!("{} {}", one.entry().function.name(), one.name());
    let needs = |one: Mechanism, of: Mechanism| {
        let function = of.entry().function;
        let is_about = |need: &&&[Mechanism]| need.iter().any(|n| n.entry().function == function);
        one.entry().needs.iter().find(|need| is_about(need) && !need.contains(&of))
    };
    if let Some(need) = needs(chosen, other) {
        return Some(format!("{} needs {}", named(chosen), any_of(need)));
    }
    if let Some(need) = needs(other, chosen) {
        return Some(format!(
            "{} needs {}, and {} was chosen",
            other.name(),
            any_of(need),
            named(chosen)
        ));
    }
    let excludes = |a: Mechanism, b: Mechanism| a.entry().excludes.contains(&b);
    (excludes(chosen, other) || excludes(other, chosen))
        .then(|| format!("{} excludes it", named(chosen)))
}

/// A clause with its place.
pub(crate) fn cause(checked: &Checked, clause: &dyn Clausal) -> Cause {
    let of = clause.clause();
    let source = &checked.sources[0];
    Cause {
        clause: of.name.clone(),
        value: checked.value(of, clause.text()),
        origin: of.origin.as_str(),
        file: source.name().to_owned(),
        line: source.position(of.span.start).line,
    }
}

/// What one of the things that are preferred would cost.
fn priced(prefer: Prefer, ours: f64, theirs: f64) -> String {
    match prefer {
        Prefer::Latency => format!("time, {theirs:.0} ms of all types together and not {ours:.0}"),
        Prefer::Throughput => {
            format!("throughput, {} and not {}", figures::rate(-theirs), figures::rate(-ours))
        }
        Prefer::Cpu => format!("more work, {theirs:.0} to {ours:.0}"),
        Prefer::Memory => format!("more memory, {theirs:.0} bytes to {ours:.0}"),
        Prefer::Code => format!("more code, {theirs:.0} to {ours:.0}"),
    }
}
