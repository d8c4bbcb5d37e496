//! Programs, their versions and procedures (RFC 5531, section 12.3).

use std::collections::HashSet;
use std::hash::Hash;

use crate::ast;
use crate::meaning::Lowering;
use crate::model::{Names, Procedure, Program, Version};
use crate::names::{Taken, snake};

/// Names that the stubs of a version have themselves.
const CALLS: [&str; 5] = ["new", "with", "wait", "null", "inner"];

/// Adds a program to the model.
pub fn program(lowering: &mut Lowering<'_>, program: &ast::Program) {
    if program.versions.is_empty() {
        let help = "write `version NAME { … } = NUMBER;`";
        lowering.error(program.name.span, "this program has no version", help);
    }
    let number =
        lowering.scope.unsigned(&program.number, "a program's number", lowering.diagnostics);
    let rust = lowering.types.unique(snake(&program.name.text));
    let (mut names, mut numbers, mut taken) =
        (HashSet::new(), HashSet::new(), Taken::with(&["number"]));
    let mut versions = Vec::new();
    for version in &program.versions {
        once(
            lowering,
            &mut names,
            version.name.text.as_str(),
            &version.name,
            "version's name",
            "program",
        );
        let read = self::version(lowering, version, &mut taken);
        once(lowering, &mut numbers, read.number, &version.name, "version's number", "program");
        versions.push(read);
    }
    let names = Names { xdr: program.name.text.clone(), rust };
    lowering.model.programs.push(Program { names, number: number.unwrap_or(0), versions });
}

fn version(lowering: &mut Lowering<'_>, version: &ast::Version, taken: &mut Taken) -> Version {
    if version.procedures.is_empty() {
        let help =
            "write `RESULT NAME(ARGUMENT) = NUMBER;`; `void NULL(void) = 0;` is always there";
        lowering.error(version.name.span, "this version has no procedure", help);
    }
    let number =
        lowering.scope.unsigned(&version.number, "a version's number", lowering.diagnostics);
    let (mut names, mut numbers, mut calls) = (HashSet::new(), HashSet::new(), Taken::with(&CALLS));
    let mut procedures = Vec::new();
    for procedure in &version.procedures {
        let name = &procedure.name;
        once(lowering, &mut names, name.text.as_str(), name, "procedure's name", "version");
        let path = format!("{}.{}", version.name.text, name.text);
        let number = lowering.scope.unsigned(
            &procedure.number,
            "a procedure's number",
            lowering.diagnostics,
        );
        let number = number.unwrap_or(0);
        once(lowering, &mut numbers, number, name, "procedure's number", "version");
        let arguments =
            procedure.arguments.iter().map(|a| lowering.specifier(a, &path)).collect::<Vec<_>>();
        if number == 0 && !(arguments.is_empty() && procedure.result.is_none()) {
            let message = "procedure 0 takes and returns nothing";
            let help = "RFC 5531, section 12.1: make both void, or give it another number";
            lowering.error(name.span, message, help);
        }
        procedures.push(Procedure {
            names: Names { xdr: name.text.clone(), rust: calls.unique(snake(&name.text)) },
            number,
            arguments,
            result: procedure.result.as_ref().map(|r| lowering.specifier(r, &path)),
        });
    }
    let names =
        Names { xdr: version.name.text.clone(), rust: taken.unique(snake(&version.name.text)) };
    Version { names, number: number.unwrap_or(0), procedures }
}

/// Says so where a name or number is there already.
fn once<T: Eq + Hash>(
    lowering: &mut Lowering<'_>,
    seen: &mut HashSet<T>,
    what: T,
    at: &ast::Name,
    called: &str,
    within: &str,
) {
    if !seen.insert(what) {
        let message = format!("this {called} stands twice in one {within}");
        lowering.error(at.span, message, "RFC 5531, section 12.3: give it another one");
    }
}
