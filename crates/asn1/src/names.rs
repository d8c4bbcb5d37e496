//! Which definition a name means: in its own module, imported from another file, or built in.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::LazyLock;

use crate::ast::*;
use crate::diagnostic::Diagnostic;
use crate::parser::File;
use crate::resolve::Members;
use crate::source::{FileId, Source, Span};

/// A module, by its place in [`World::modules`].
pub type ModuleId = usize;

/// An object identifier's numbers.
type Oid = Vec<u128>;

/// A definition: its module, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Def {
    /// The module.
    pub module: ModuleId,
    /// The place among its assignments.
    pub index: usize,
}

/// What a name means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A definition.
    Def(Def),
    /// Something of a module that is not there.
    Absent,
}

/// A module among others.
#[derive(Debug)]
pub struct Scope<'a> {
    /// Its file.
    pub file: &'a File,
    /// The module.
    pub ast: &'a Module,
    /// Its object identifier, as far as it is made of numbers.
    pub oid: Option<Vec<u128>>,
    symbols: HashMap<&'a str, usize>,
    imports: HashMap<&'a str, Imported<'a>>,
    /// What it imports, and in which of its imports.
    imported: HashMap<&'a str, usize>,
    /// From where it imports, and in which of its imports.
    modules: HashMap<&'a str, usize>,
    exports: Option<HashSet<&'a str>>,
}

#[derive(Debug)]
struct Imported<'a> {
    target: Target,
    name: &'a Name,
    is_used: Cell<bool>,
    is_exact: bool,
}

/// What the standards define for everyone: classes (X.681 annexes A and B), and the structures that some
/// types without parts are made of (X.680 clauses 33 to 36, X.681 annex C).
static BUILT_IN: LazyLock<File> = LazyLock::new(|| {
    let text = "BuiltIn DEFINITIONS ::= BEGIN
TYPE-IDENTIFIER ::= CLASS { &id OBJECT IDENTIFIER UNIQUE, &Type }
    WITH SYNTAX { &Type IDENTIFIED BY &id }
ABSTRACT-SYNTAX ::= CLASS { &id OBJECT IDENTIFIER, &Type,
    &property BIT STRING { handles-invalid-encodings(0) } DEFAULT {} }
    WITH SYNTAX { &Type IDENTIFIED BY &id [HAS PROPERTY &property] }
External ::= [UNIVERSAL 8] IMPLICIT SEQUENCE {
    direct-reference OBJECT IDENTIFIER OPTIONAL, indirect-reference INTEGER OPTIONAL,
    data-value-descriptor ObjectDescriptor OPTIONAL,
    encoding CHOICE { single-ASN1-type [0] EXPLICIT ANY, octet-aligned [1] IMPLICIT OCTET STRING,
        arbitrary [2] IMPLICIT BIT STRING } }
Identification ::= CHOICE {
    syntaxes [0] IMPLICIT SEQUENCE { abstract [0] IMPLICIT OBJECT IDENTIFIER,
        transfer [1] IMPLICIT OBJECT IDENTIFIER },
    syntax [1] IMPLICIT OBJECT IDENTIFIER, presentation-context-id [2] IMPLICIT INTEGER,
    context-negotiation [3] IMPLICIT SEQUENCE { presentation-context-id [0] IMPLICIT INTEGER,
        transfer-syntax [1] IMPLICIT OBJECT IDENTIFIER },
    transfer-syntax [4] IMPLICIT OBJECT IDENTIFIER, fixed [5] IMPLICIT NULL }
EmbeddedPdv ::= [UNIVERSAL 11] IMPLICIT SEQUENCE { identification [0] EXPLICIT Identification,
    data-value [2] IMPLICIT OCTET STRING }
UnrestrictedString ::= [UNIVERSAL 29] IMPLICIT SEQUENCE { identification [0] EXPLICIT Identification,
    string-value [2] IMPLICIT OCTET STRING }
InstanceOf ::= [UNIVERSAL 8] IMPLICIT SEQUENCE { type-id OBJECT IDENTIFIER, value [0] EXPLICIT ANY }
END";
    File::parse(FileId::MAX, Source::new("built in", text.as_bytes()))
});

/// All modules that are there.
pub struct World<'a> {
    /// Each with its names.
    pub modules: Vec<Scope<'a>>,
    by_name: HashMap<&'a str, Vec<ModuleId>>,
    diagnostics: RefCell<Vec<Diagnostic>>,
    said: RefCell<HashSet<(FileId, Span, String)>>,
    built_in: ModuleId,
    /// Undefined names that were met, for what could be meant by definitions and imports that nobody uses.
    undefined: RefCell<Vec<(ModuleId, String)>>,
    used: RefCell<HashSet<Def>>,
    said_of: RefCell<HashMap<FileId, u32>>,
    oids: RefCell<HashMap<(ModuleId, String), Option<Oid>>>,
    pub(crate) known_members: RefCell<HashMap<(usize, usize), Rc<Members<'a>>>>,
    pub(crate) known_names: RefCell<HashMap<(usize, usize), HashSet<&'a str>>>,
    /// How many components may still be taken from other types.
    pub(crate) inclusions: Cell<u32>,
    /// How many selections are being followed, one from within another.
    pub(crate) selecting: Cell<u32>,
}

impl<'a> World<'a> {
    /// The modules of all files, their imports resolved.
    pub fn new(files: impl IntoIterator<Item = &'a File>) -> World<'a> {
        let mut world = World {
            modules: Vec::new(),
            by_name: HashMap::new(),
            diagnostics: RefCell::default(),
            said: RefCell::default(),
            built_in: 0,
            undefined: RefCell::default(),
            used: RefCell::default(),
            said_of: RefCell::default(),
            oids: RefCell::default(),
            known_members: RefCell::default(),
            known_names: RefCell::default(),
            inclusions: Cell::new(INCLUSIONS_MAX),
            selecting: Cell::new(0),
        };
        for file in files {
            for ast in &file.modules {
                let id = world.modules.len();
                // Object identifiers distinguish the versions of a module (X.680 13.2).
                let text = |m: &'a Module| {
                    let parts = m.oid.iter().flatten();
                    parts.map(|part| file.source.slice(part.span)).collect::<Vec<_>>()
                };
                let is_version =
                    |m: &'a Module| m.oid.is_some() && ast.oid.is_some() && text(m) != text(ast);
                if file
                    .modules
                    .iter()
                    .take_while(|m| !std::ptr::eq(*m, ast))
                    .any(|m| m.name.text == ast.name.text && !is_version(m))
                {
                    let message = format!("the module `{}` is defined twice", ast.name.text);
                    let error = Diagnostic::error(file.id, ast.name.span, message);
                    world.say(error.about(&ast.name.text).help("give each module another name"));
                }
                world.by_name.entry(&ast.name.text).or_default().push(id);
                let scope = world.scope(file, ast);
                world.modules.push(scope);
            }
        }
        world.built_in = world.modules.len();
        let file: &File = &BUILT_IN;
        for ast in &file.modules {
            let scope = world.scope(file, ast);
            world.modules.push(scope);
        }
        for id in 0..world.built_in {
            world.modules[id].imports = world.imports_of(id);
        }
        world
    }

    /// The definition of what the standards define for everyone.
    pub fn built_in(&self, name: &str) -> Option<Def> {
        let index = *self.modules[self.built_in].symbols.get(name)?;
        Some(Def { module: self.built_in, index })
    }

    /// Whether a definition repeats one of the same name.
    pub(crate) fn is_repeated(&self, def: Def) -> bool {
        let scope = &self.modules[def.module];
        scope.symbols.get(self.assignment(def).name.text.as_str()) != Some(&def.index)
    }

    /// The modules of the files, without the built-in one.
    pub fn own_modules(&self) -> std::ops::Range<ModuleId> {
        0..self.built_in
    }

    fn scope(&self, file: &'a File, ast: &'a Module) -> Scope<'a> {
        let mut symbols = HashMap::new();
        for (index, assignment) in ast.assignments.iter().enumerate() {
            let name = &assignment.name;
            if let Some(&first) = symbols.get(name.text.as_str()) {
                let first: usize = first;
                let first = &ast.assignments[first];
                let line = file.source.line_index(first.name.span.start) + 1;
                let message = format!("`{}` is defined twice", name.text);
                if is_same_text(file, first.span, assignment.span) {
                    let message = format!("{message}, word for word");
                    let warning = Diagnostic::warning(file.id, name.span, message);
                    let help = format!("remove it: it is defined in line {line}");
                    self.say(warning.about(&name.text).help(help));
                    continue;
                }
                let error = Diagnostic::error(file.id, name.span, message);
                self.say(error.about(&name.text).help(format!("it is defined in line {line} too")));
            } else {
                symbols.insert(name.text.as_str(), index);
            }
        }
        let oid = ast.oid.as_deref().and_then(numbers);
        let (mut imported, mut modules) = (HashMap::new(), HashMap::new());
        let exports = ast.exports.as_ref().map(|e| e.iter().map(|n| n.text.as_str()).collect());
        for (n, import) in ast.imports.iter().enumerate() {
            modules.entry(import.module.text.as_str()).or_insert(n);
            for name in &import.symbols {
                imported.entry(name.text.as_str()).or_insert(n);
            }
        }
        Scope { file, ast, oid, symbols, imports: HashMap::new(), imported, modules, exports }
    }

    fn imports_of(&self, id: ModuleId) -> HashMap<&'a str, Imported<'a>> {
        let Scope { file, ast, .. } = self.modules[id];
        let mut imports: HashMap<&'a str, Imported<'a>> = HashMap::new();
        for import in &ast.imports {
            if import.module.text == ast.name.text
                && import.oid.is_none()
                && import.oid_name.is_none()
            {
                let message = format!("{} imports from itself", ast.name.text);
                let error = Diagnostic::error(file.id, import.module.span, message);
                self.say(error.about(&ast.name.text).help("remove the import"));
            }
            let picked = self.pick(id, import, 0);
            if picked.is_none() {
                let name = &import.module.text;
                let message = format!("no module `{name}` is among the files");
                let warning = Diagnostic::warning(file.id, import.module.span, message);
                let help = "add its file; until then its types are opaque";
                self.say(warning.about(name).help(help));
            }
            for name in &import.symbols {
                let target = match picked {
                    Some((module, exact)) => self.symbol_of(module, name, file, exact, 0),
                    None => Target::Absent,
                };
                if self.modules[id].symbols.contains_key(name.text.as_str()) {
                    let message = format!("`{}` is imported and defined here", name.text);
                    let warning = Diagnostic::warning(file.id, name.span, message);
                    self.say(warning.about(&name.text).help("the one defined here is meant"));
                }
                let is_exact = picked.is_some_and(|(_, exact)| exact);
                let imported = Imported { target, name, is_used: Cell::new(false), is_exact };
                let before = imports.insert(&name.text, imported);
                if before.is_some_and(|b| b.target != target) {
                    let message = format!("`{}` is imported twice", name.text);
                    let warning = Diagnostic::warning(file.id, name.span, message);
                    self.say(
                        warning.about(&name.text).help("write `Module.Name` where it is used"),
                    );
                }
            }
        }
        imports
    }

    /// The module that an import means: of that name, with that identifier, that has what is imported; of
    /// several the one whose file is named most alike. Whether it is that very module, or another version.
    fn pick(&self, from: ModuleId, import: &Import, hops: u32) -> Option<(ModuleId, bool)> {
        let candidates = self.by_name.get(import.module.text.as_str())?;
        let wanted = match (&import.oid, &import.oid_name) {
            (Some(parts), _) => numbers(parts),
            (None, Some(name)) => self.oid_named(from, &name.text, hops + 1),
            (None, None) => None,
        };
        let own = self.modules[from].file.source.name();
        let rank = |&id: &ModuleId| {
            let scope = &self.modules[id];
            let same = wanted.is_some() && scope.oid == wanted;
            let has = import
                .symbols
                .iter()
                .filter(|s| {
                    let name = s.text.as_str();
                    scope.symbols.contains_key(name) || scope.imported.contains_key(name)
                })
                .count();
            let other = scope.file.source.name();
            let parts = own.split(['_', '/']).zip(other.split(['_', '/'])).filter(|(a, b)| a == b);
            let start = own.bytes().zip(other.bytes()).take_while(|(a, b)| a == b);
            (same, has, parts.count(), start.count(), std::cmp::Reverse(id))
        };
        let best = candidates.iter().copied().max_by_key(rank)?;
        let scope = &self.modules[best];
        let is_exact = match (&wanted, &scope.oid) {
            (Some(wanted), Some(oid)) => wanted == oid,
            (None, None) => candidates.len() == 1,
            _ => candidates.len() == 1 && import.oid.is_none() && import.oid_name.is_none(),
        };
        Some((best, is_exact && scope.file.is_readable()))
    }

    fn oid_named(&self, module: ModuleId, name: &str, hops: u32) -> Option<Vec<u128>> {
        let key = (module, name.to_owned());
        if let Some(known) = self.oids.borrow().get(&key) {
            return known.clone();
        }
        let oid = self.find_oid(module, name, hops);
        self.oids.borrow_mut().insert(key, oid.clone());
        oid
    }

    /// The object identifier that a value's name means, as far as it is made of numbers and such names.
    fn find_oid(&self, module: ModuleId, name: &str, hops: u32) -> Option<Vec<u128>> {
        if hops > OID_HOPS_MAX {
            return None;
        }
        let scope = &self.modules[module];
        let Some(&index) = scope.symbols.get(name) else {
            let import = &scope.ast.imports[*scope.imported.get(name)?];
            let (from, _) = self.pick(module, import, hops + 1)?;
            return if from == module { None } else { self.oid_named(from, name, hops + 1) };
        };
        let AssignmentKind::Value(_, value) = &scope.ast.assignments[index].kind else {
            return None;
        };
        let braced = match &value.kind {
            ValueKind::Braced(braced) => *braced,
            ValueKind::Reference(next) => return self.oid_named(module, &next.name.text, hops + 1),
            _ => return None,
        };
        let parts = self.read_oid(module, braced)?;
        let first = parts.first()?;
        let mut above = Vec::new();
        let mut rest = parts;
        if let (Some(name), None) = (&first.name, &first.number)
            && well_known(&[], &name.text).is_none()
        {
            above = self.oid_named(module, &name.text, hops + 1)?;
            rest = &parts[1..];
        }
        numbers_below(above, rest)
    }

    /// A symbol in the module that it is imported from, which may import it itself.
    fn symbol_of(
        &self,
        module: ModuleId,
        name: &Name,
        file: &File,
        is_exact: bool,
        hops: u32,
    ) -> Target {
        let scope = &self.modules[module];
        if let Some(&index) = scope.symbols.get(name.text.as_str()) {
            if scope.exports.as_ref().is_some_and(|e| !e.contains(name.text.as_str())) {
                let message = format!("`{}` is not exported by {}", name.text, scope.ast.name.text);
                let warning = Diagnostic::warning(file.id, name.span, message);
                self.say(warning.about(&name.text).help("add it to the EXPORTS there"));
            }
            return Target::Def(Def { module, index });
        }
        let import = scope.imported.get(name.text.as_str()).map(|&n| &scope.ast.imports[n]);
        let through = import.and_then(|import| {
            self.pick(module, &Import { symbols: vec![name.clone()], ..import.clone() }, hops)
        });
        match through {
            Some((next, exact)) if hops < 8 && next != module => {
                self.symbol_of(next, name, file, is_exact && exact, hops + 1)
            }
            _ => {
                if import.is_none() && Simple::from_word(&name.text).is_none() {
                    self.say_missing(scope, name, file, is_exact);
                }
                Target::Absent
            }
        }
    }

    /// What a name means in a module.
    pub fn lookup(&self, module: ModuleId, name: &str) -> Option<Target> {
        let scope = &self.modules[module];
        if let Some(&index) = scope.symbols.get(name) {
            let def = Def { module, index };
            self.used.borrow_mut().insert(def);
            return Some(Target::Def(def));
        }
        if let Some(imported) = scope.imports.get(name) {
            imported.is_used.set(true);
            return Some(imported.target);
        }
        // Its structures are not for others to name.
        let is_class = matches!(name, "TYPE-IDENTIFIER" | "ABSTRACT-SYNTAX");
        let inside = is_class || module == self.built_in;
        inside.then(|| self.built_in(name)).flatten().map(Target::Def)
    }

    /// What a reference means; an error is said where it means nothing.
    pub fn resolve(&self, module: ModuleId, reference: &Reference) -> Option<Target> {
        let name = &reference.name;
        let Some(outer) = &reference.module else {
            let target = self.lookup(module, &name.text);
            if target.is_none() {
                self.say_undefined(module, name);
            }
            return target;
        };
        let scope = &self.modules[module];
        if outer.text == scope.ast.name.text {
            let target = self.lookup(module, &name.text);
            if target.is_none() {
                self.say_undefined(module, name);
            }
            return target;
        }
        if let Some(imported) = scope.imports.get(name.text.as_str()) {
            imported.is_used.set(true);
        }
        let import = scope.modules.get(outer.text.as_str()).map(|&n| &scope.ast.imports[n]);
        let (symbols, outer) = (vec![name.clone()], outer.clone());
        let unlisted = Import { symbols, module: outer, oid: None, oid_name: None };
        match self.pick(module, import.unwrap_or(&unlisted), 0) {
            Some((found, exact)) => Some(self.symbol_of(found, name, scope.file, exact, 0)),
            None => Some(Target::Absent),
        }
    }

    /// A module has not what is imported from it: an error if it is surely that module, and has a name that
    /// could be meant. Many modules are published in extracts and in several versions.
    fn say_missing(&self, scope: &Scope<'a>, name: &Name, file: &File, is_exact: bool) {
        let message = format!("{} has no `{}`", scope.ast.name.text, name.text);
        let many = self.said_of.borrow().get(&file.id).is_some_and(|&n| n as usize > UNDEFINED_MAX);
        let alike = !many && scope.symbols.keys().any(|n| is_alike(n, &name.text));
        if is_exact && alike {
            let names = scope.symbols.keys().copied();
            let error = Diagnostic::error(file.id, name.span, message).about(&name.text);
            self.say(error.help(suggestion(&name.text, names)));
        } else {
            let warning = Diagnostic::warning(file.id, name.span, message).about(&name.text);
            self.say(warning.help("is this the version of the module that is meant?"));
        }
    }

    /// Whether what a reference means was found for sure: here, or in the very module that is meant.
    pub fn is_sure(&self, module: ModuleId, reference: &Reference) -> bool {
        let scope = &self.modules[module];
        let name = reference.name.text.as_str();
        match scope.imports.get(name) {
            Some(imported) => imported.is_exact,
            None => scope.symbols.contains_key(name),
        }
    }

    fn say_undefined(&self, module: ModuleId, name: &Name) {
        let scope = &self.modules[module];
        let message = format!("`{}` is not defined", name.text);
        let error = Diagnostic::error(scope.file.id, name.span, message).about(&name.text);
        let names = scope.symbols.keys().chain(scope.imports.keys()).copied();
        let count = self.undefined.borrow().len();
        let help =
            if count < UNDEFINED_MAX { suggestion(&name.text, names) } else { String::new() };
        if count < UNDEFINED_MAX {
            self.undefined.borrow_mut().push((module, name.text.clone()));
        }
        self.say(error.help(help));
    }

    /// Says something once.
    pub fn say(&self, diagnostic: Diagnostic) {
        if diagnostic.file == FileId::MAX {
            return;
        }
        let key = (diagnostic.file, diagnostic.span, diagnostic.message.clone());
        let mut said_of = self.said_of.borrow_mut();
        let count = said_of.entry(diagnostic.file).or_default();
        if *count >= SAID_MAX {
            return;
        }
        *count += 1;
        if self.said.borrow_mut().insert(key) {
            self.diagnostics.borrow_mut().push(diagnostic);
        }
    }

    /// Says that something is wrong in a module.
    pub fn error(&self, module: ModuleId, span: Span, message: impl Into<String>, help: &str) {
        let file = self.modules[module].file;
        let error = Diagnostic::error(file.id, span, message).help(help);
        self.say(error.about(file.token_at(span)));
    }

    /// Says that something may not be what was meant.
    pub fn warn(&self, module: ModuleId, span: Span, message: impl Into<String>, help: &str) {
        let file = self.modules[module].file;
        let warning = Diagnostic::warning(file.id, span, message).help(help);
        self.say(warning.about(file.token_at(span)));
    }

    /// Everything that was said.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        self.diagnostics.into_inner()
    }

    /// The assignment of a definition.
    pub fn assignment(&self, def: Def) -> &'a Assignment {
        &self.modules[def.module].ast.assignments[def.index]
    }

    /// Imports that nobody used, and exports of what is not there. A definition or an import that nobody
    /// uses beside an undefined name like it is an error where it stands, for there it was misspelled.
    pub fn check_clauses(&self) {
        for id in self.own_modules() {
            let scope = &self.modules[id];
            for export in scope.ast.exports.iter().flatten() {
                if self.lookup(id, &export.text).is_none() {
                    let message = format!("`{}` is exported and not defined", export.text);
                    let names = scope.symbols.keys().copied();
                    let few = scope.symbols.len() < 10_000;
                    let help = if few { suggestion(&export.text, names) } else { String::new() };
                    self.error(id, export.span, message, &help);
                }
            }
            let mut imports: Vec<_> = scope.imports.values().filter(|i| !i.is_used.get()).collect();
            imports.sort_by_key(|i| i.name.span);
            for import in imports {
                let name = &import.name.text;
                if let Some(meant) = self.undefined_like(id, name) {
                    let message =
                        format!("`{name}` is imported and not used, `{meant}` is not defined");
                    self.error(id, import.name.span, message, "one of them is misspelled");
                } else {
                    let message = format!("`{name}` is imported and not used");
                    self.warn(id, import.name.span, message, "remove it from the IMPORTS");
                }
            }
            self.check_unused(id);
        }
    }

    fn check_unused(&self, id: ModuleId) {
        let scope = &self.modules[id];
        for (index, assignment) in scope.ast.assignments.iter().enumerate() {
            if self.used.borrow().contains(&Def { module: id, index }) {
                continue;
            }
            let name = &assignment.name;
            if let Some(meant) = self.undefined_like(id, &name.text) {
                let message = format!("`{}` is not used here, `{meant}` is not defined", name.text);
                self.error(id, name.span, message, "one of them is misspelled");
            }
        }
    }

    fn undefined_like(&self, module: ModuleId, name: &str) -> Option<String> {
        let undefined = self.undefined.borrow();
        let found = undefined.iter().find(|(m, u)| *m == module && is_alike(u, name));
        found.map(|(_, name)| name.clone())
    }
}

/// Object identifiers may be defined through so many others.
const OID_HOPS_MAX: u32 = 12;

/// More than these about one file is not said.
const SAID_MAX: u32 = 1_000;

/// How many components may be taken from other types, over all.
const INCLUSIONS_MAX: u32 = 1_000_000;

/// More undefined names than these are not looked at again.
const UNDEFINED_MAX: usize = 50;

impl File {
    /// Whether its notation was read without an error.
    pub fn is_readable(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Whether two places hold the same tokens, comments and white space aside.
fn is_same_text(file: &File, a: Span, b: Span) -> bool {
    let words = |span: Span| {
        let tokens = file.tree.tokens();
        let from = tokens.partition_point(|t| t.span.start < span.start);
        let inside = tokens[from..].iter().take_while(move |t| t.span.end <= span.end);
        inside.filter(|t| !t.kind.is_trivia()).map(|t| file.source.slice(t.span))
    };
    words(a).eq(words(b))
}

/// One line of help about a name that is not there.
pub(crate) fn suggestion<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> String {
    match nearest(name, names) {
        Some(meant) => format!("is `{meant}` meant?"),
        None => "define it, or import it from the module that does".to_owned(),
    }
}

/// Of words the one that another was meant to be: it differs by little. Of several the first in the alphabet.
pub fn nearest<'n>(word: &str, among: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    among.filter(|n| is_alike(n, word)).min()
}

/// Whether two words differ by little: by case or hyphens, by a letter or two neighbours exchanged, by two in
/// a long one.
fn is_alike(a: &str, b: &str) -> bool {
    if a == b || a.len().abs_diff(b.len()) > 2 {
        return false;
    }
    let plain = |w: &str| w.replace(['-', '_'], "").to_ascii_lowercase();
    plain(a) == plain(b) || distance(a.as_bytes(), b.as_bytes()) <= if a.len() > 8 { 2 } else { 1 }
}

/// How many letters are to be put in, left out, replaced or exchanged with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let width = b.len() + 1;
    let mut rows: Vec<Vec<usize>> = vec![(0..width).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The numbers of an object identifier, where each part has one or a name that X.660 gives one.
pub fn numbers(parts: &[OidComponent]) -> Option<Vec<u128>> {
    numbers_below(Vec::new(), parts)
}

fn numbers_below(mut numbers: Vec<u128>, parts: &[OidComponent]) -> Option<Vec<u128>> {
    for part in parts {
        let number = match (&part.number, &part.name) {
            (Some(Value { kind: ValueKind::Integer(Some(n)), .. }), _) => {
                u128::try_from(*n).ok()?
            }
            (None, Some(name)) => well_known(&numbers, &name.text)?,
            _ => return None,
        };
        numbers.push(number);
    }
    Some(numbers)
}

/// The number of a name that needs none beside it (X.660 annex A, X.680 clause 32).
pub fn well_known(above: &[u128], name: &str) -> Option<u128> {
    Some(match (above, name) {
        ([], "itu-t" | "ccitt" | "itu-r") => 0,
        ([], "iso") => 1,
        ([], "joint-iso-itu-t" | "joint-iso-ccitt") => 2,
        ([0], "recommendation") | ([1], "standard") => 0,
        ([0], "question") | ([1], "registration-authority") => 1,
        ([0], "administration") | ([1], "member-body") => 2,
        ([0], "network-operator") | ([1], "identified-organization") => 3,
        ([0], "identified-organization") => 4,
        ([0, 0], letter) if letter.len() == 1 => u128::from(letter.as_bytes()[0] - b'a' + 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_alike() {
        assert!(is_alike("Certificate", "Certficate"));
        assert!(is_alike("Certificate", "Certifciate"));
        assert!(is_alike("orName", "or-name"));
        assert!(!is_alike("Name", "Time"));
    }
}
