//! The choice: what clauses forbid and mechanisms need; what is feasible at every corner of the network; the least
//! of the rest. The same specification gives the same plan, wherever it is asked.

pub mod adu;
pub mod channel;
pub mod conflict;
pub(crate) mod plans;
pub mod rank;
pub mod rules;

use fusewire_model::Machine;

use crate::language::Specification;
use crate::plan::Plan;
pub use conflict::{Conflicting, Refusal};
use rank::Combination;
pub use rank::{broken, preferred};
use rules::Candidates;

/// A plan, and all that was looked at for it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The plan.
    pub plan: Plan,
    /// What was left to choose from, and why the rest was not.
    pub candidates: Candidates,
    /// What was chosen, with its figures.
    pub combination: Combination,
    /// How the data pass of each type runs, and why.
    pub executions: Vec<String>,
}

/// Chooses. With a calibrated machine its model says how data passes run.
///
/// # Errors
/// What is asked for cannot be had.
pub fn choose(of: &Specification, machine: Option<&Machine>) -> Result<Choice, Box<Refusal>> {
    let candidates = Candidates::of(of);
    match rank::least(of, &candidates) {
        Ok(combination) => {
            let (plan, executions) = plans::plan(of, &combination, machine);
            Ok(Choice { plan, candidates, combination, executions })
        }
        Err(failure) => Err(Box::new(conflict::refusal(of, failure))),
    }
}
