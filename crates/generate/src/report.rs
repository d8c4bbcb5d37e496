//! What is said of a specification: wrong, refused or had, for people and for machines. The program prints it and does
//! no more.

use std::fmt::Write;

use serde::Serialize;

use crate::Plan;
use crate::choice::{Choice, Conflicting, Refusal};
use crate::explain::{Explanation, explain};
use crate::language::Checked;
use crate::rust::without_code;

/// A clause of a conflict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clause {
    /// Which: `adu.Audio.deadline_ms`.
    pub clause: String,
    /// Its value, as a specification has it.
    pub value: String,
    /// `written`, `profile` or `default`.
    pub origin: &'static str,
    /// Where it is written; of a default where the table begins that could have it.
    pub line: u32,
    /// In characters.
    pub column: u32,
    /// The nearest value with which, all else being as it is, it could be had.
    pub passes: Option<String>,
    /// Of what would be chosen with that no code is made yet.
    pub passes_without_code: bool,
    /// Without it, all else being as it is, it could be had.
    pub goes: bool,
    /// If there is none: the nearest value with which this conflict would end, though it would still be refused.
    pub ends: Option<String>,
    /// Why it would still be refused then, or without the clause.
    pub then: Option<String>,
}

/// What cannot be had.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// In words, with the numbers.
    pub why: String,
    /// Clauses that are written: without any one of them the others can be had.
    pub clauses: Vec<Clause>,
    /// Clauses that are not written and play a part as well.
    pub defaults: Vec<Clause>,
    /// `size_bytes` of types for which only ASN.1 says a size, with values that would pass.
    pub sizes: Vec<Clause>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wrong {
    /// The file: the specification's, or one of ASN.1.
    pub file: String,
    /// `error` or `warning`.
    pub severity: &'static str,
    /// Where.
    pub line: u32,
    /// In characters.
    pub column: u32,
    /// What it is about, as it stands there.
    pub token: String,
    /// What is wrong.
    pub message: String,
    /// What was expected, or is meant.
    pub help: String,
}

/// A report: the line of JSON of `fusewire generate --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The specification's file.
    pub file: String,
    /// Whether it can be had.
    pub ok: bool,
    /// It can be had, and this is why no code is made of it yet.
    pub without_code: Option<String>,
    /// What is wrong, and warnings.
    pub diagnostics: Vec<Wrong>,
    /// Nothing is wrong, and it cannot be had.
    pub refused: Option<Refused>,
    /// What was chosen.
    pub plan: Option<Plan>,
    /// Why.
    pub explanation: Option<Explanation>,
}

/// The report of a specification, and what was chosen for it, if nothing was wrong.
pub fn report(checked: &Checked, chosen: Option<&Result<Choice, Box<Refusal>>>) -> Report {
    let diagnostics = checked.diagnostics.iter().map(|d| {
        let source = &checked.sources[d.file];
        let at = d.position(source);
        Wrong {
            file: source.name().to_owned(),
            severity: d.severity.as_str(),
            line: at.line,
            column: at.column,
            token: d.token.clone(),
            message: d.message.clone(),
            help: d.help.clone(),
        }
    });
    let choice = chosen.and_then(|chosen| chosen.as_ref().ok());
    Report {
        file: checked.sources[0].name().to_owned(),
        ok: choice.is_some(),
        without_code: choice.and_then(|choice| without_code(checked, choice)),
        diagnostics: diagnostics.collect(),
        refused: chosen.and_then(|c| c.as_ref().err()).map(|refusal| refused(checked, refusal)),
        plan: choice.map(|choice| choice.plan.clone()),
        explanation: choice.map(|choice| explain(checked, choice)),
    }
}

/// A refusal with the places of its clauses.
pub fn refused(checked: &Checked, refusal: &Refusal) -> Refused {
    let clause = |one: &Conflicting| {
        let at = checked.sources[0].position(one.clause.span.start);
        Clause {
            clause: one.clause.name.clone(),
            value: checked.value(&one.clause, one.value.clone()),
            origin: one.clause.origin.as_str(),
            line: at.line,
            column: at.column,
            passes: one.passes.clone(),
            passes_without_code: one.is_without_code,
            goes: one.goes,
            ends: one.ends.clone(),
            then: one.then.clone(),
        }
    };
    Refused {
        why: refusal.why.clone(),
        clauses: refusal.clauses.iter().map(clause).collect(),
        defaults: refusal.defaults.iter().map(clause).collect(),
        sizes: refusal.sizes.iter().map(clause).collect(),
    }
}

impl Refused {
    /// In words: why, then a line for each clause with its place, as compilers print them.
    pub fn text(&self, file: &str) -> String {
        let mut text = format!("{file}: refused: {}", self.why);
        match self.clauses.len() {
            0 => {}
            1 => text += "\nthis clause alone stands against it:",
            _ if self.clauses.iter().chain(&self.defaults).all(|one| one.goes) => {
                text += "\nthese clauses do not go together; without any one of them the others do:"
            }
            _ => {
                text += "\nthese clauses do not go together; after a change that does not pass, the next refusal is given:"
            }
        }
        for one in &self.clauses {
            let Clause { clause, value, line, column, .. } = one;
            let _ = write!(text, "\n  {file}:{line}:{column}: `{clause} = {value}`{}", passes(one));
        }
        if !self.defaults.is_empty() {
            text += "\nby what nobody wrote:";
        }
        for one in &self.defaults {
            let (of, clause, value) = (one.origin, &one.clause, &one.value);
            let _ = write!(text, "\n  {of}: `{clause} = {value}`{}", passes(one));
        }
        if !self.sizes.is_empty() {
            text += "\nor with shorter ADUs:";
        }
        for one in &self.sizes {
            let Clause { clause, value, .. } = one;
            let _ = write!(text, "\n  from ASN.1: `{clause} = {value}`{}", passes(one));
        }
        text
    }
}

fn passes(of: &Clause) -> String {
    let code = if of.passes_without_code { ", of which no code is made yet" } else { "" };
    let then = of.then.as_deref().unwrap_or_default();
    match (&of.passes, &of.ends) {
        (Some(value), _) => format!(", and would pass as {value}{code}"),
        (None, Some(value)) => format!(", and as {value} is refused: {then}"),
        (None, None) if of.goes => ", and passes only without it".to_owned(),
        (None, None) => format!(", and without it is refused: {then}"),
    }
}
