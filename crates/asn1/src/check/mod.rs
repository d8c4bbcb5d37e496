//! Files read together, and what is wrong with them: names that mean nothing, tags that are not distinct,
//! values that are none of their type.

mod applies;
mod constraints;
mod objects;
pub(crate) mod tags;
mod types;
mod values;

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::names::{ModuleId, Target, World};
use crate::parser::File;
use crate::resolve::{Base, Env, Ty};
use crate::source::{Source, Span};

/// Files and what is wrong with them.
#[derive(Debug)]
pub struct Checked {
    /// The files, in the order in which they were given.
    pub files: Vec<File>,
    /// What is wrong, by file and place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads files, each of which may import from the others.
pub fn check(sources: Vec<Source>) -> Checked {
    let files: Vec<File> =
        sources.into_iter().enumerate().map(|(id, source)| File::parse(id, source)).collect();
    let diagnostics = diagnose(&files);
    Checked { files, diagnostics }
}

/// What is wrong with files that may import from each other, by file and place.
pub fn diagnose<'a>(files: impl IntoIterator<Item = &'a File, IntoIter: Clone>) -> Vec<Diagnostic> {
    let files = files.into_iter();
    let world = World::new(files.clone());
    for module in world.own_modules() {
        let mut checker =
            Checker { world: &world, module, enclosing: Vec::new(), span: Span::default() };
        for assignment in &world.modules[module].ast.assignments {
            checker.assignment(assignment);
        }
    }
    world.check_clauses();
    let mut diagnostics = world.into_diagnostics();
    diagnostics.extend(files.flat_map(|f| f.diagnostics.iter().cloned()));
    diagnostics.sort_by_key(|d| (d.file, d.span));
    diagnostics
}

impl Checked {
    /// What is wrong with one file.
    pub fn of(&self, file: usize) -> impl Iterator<Item = &Diagnostic> {
        let start = self.diagnostics.partition_point(|d| d.file < file);
        self.diagnostics[start..].iter().take_while(move |d| d.file == file)
    }

    /// Whether nothing is wrong with one file, warnings aside.
    pub fn is_ok(&self, file: usize) -> bool {
        !self.of(file).any(Diagnostic::is_error)
    }

    /// How many definitions one file has.
    pub fn definitions(&self, file: usize) -> usize {
        self.files[file].modules.iter().map(|m| m.assignments.len()).sum()
    }
}

/// Walks one module.
struct Checker<'w, 'a> {
    world: &'w World<'a>,
    module: ModuleId,
    /// The components that surround the type at hand, outermost first.
    enclosing: Vec<(&'a [Item], Env<'a>)>,
    /// The constraint at hand.
    span: Span,
}

impl<'a> Checker<'_, 'a> {
    fn error(&self, span: Span, message: impl Into<String>, help: &str) {
        self.world.error(self.module, span, message, help);
    }

    fn warn(&self, span: Span, message: impl Into<String>, help: &str) {
        self.world.warn(self.module, span, message, help);
    }

    fn assignment(&mut self, assignment: &'a Assignment) {
        let env = Env::of(self.module, &assignment.parameters);
        for parameter in &assignment.parameters {
            if let Some(governor) = &parameter.governor {
                self.governor(governor, &env);
            }
        }
        match &assignment.kind {
            AssignmentKind::Type(ty) => {
                self.ty(ty, &env);
                if let Base::Cycle = self.world.base(&Ty { ty, env }) {
                    let message = format!("`{}` is defined by itself alone", assignment.name.text);
                    self.error(assignment.name.span, message, "say what it is");
                }
            }
            AssignmentKind::Value(governor, value) => {
                self.governor(governor, &env);
                match self.world.class_of(governor, &env) {
                    Some(class) => self.object(value, &class, &env),
                    None => {
                        let ty = Ty { ty: governor, env: env.clone() };
                        self.value(value, &ty, &env);
                        self.within(value, &ty, &env);
                        self.circular(&assignment.name, value, &env);
                    }
                }
            }
            AssignmentKind::Set(governor, spec) => {
                self.governor(governor, &env);
                match self.world.class_of(governor, &env) {
                    Some(class) => self.object_set(spec, &class, &env),
                    None => {
                        let ty = Ty { ty: governor, env: env.clone() };
                        self.set_spec(spec, &ty, &env);
                    }
                }
            }
            AssignmentKind::Class(class) => self.class(class, &env),
            AssignmentKind::Macro | AssignmentKind::Broken => {}
        }
    }

    /// Refuses a value that is defined by its own name, through whatever other values.
    fn circular(&self, name: &Name, value: &'a Value, env: &Env<'a>) {
        let (mut value, mut env) = (value, env.clone());
        let mut seen = std::collections::HashSet::new();
        while let ValueKind::Reference(reference) = &value.kind {
            if reference.module.is_none() && env.parameter(&reference.name.text).is_some() {
                return;
            }
            let Some(Target::Def(def)) = self.world.lookup(env.module, &reference.name.text) else {
                return;
            };
            if !seen.insert(def) {
                let message = format!("`{}` is defined by itself alone", name.text);
                return self.error(name.span, message, "give it a value");
            }
            let assignment = self.world.assignment(def);
            let AssignmentKind::Value(_, next) = &assignment.kind else { return };
            (value, env) = (next, Env::of(def.module, &assignment.parameters));
        }
    }

    /// A type or a class in front of something that it governs.
    fn governor(&mut self, governor: &'a Type, env: &Env<'a>) {
        self.ty(governor, env);
    }
}
