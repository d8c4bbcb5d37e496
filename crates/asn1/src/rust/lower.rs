//! Types of the notation into the model: each definition and each type without a name gets one in Rust.

use std::collections::{HashMap, HashSet, VecDeque};

use super::idents::{camel, snake, unique};
use super::limits::Limits;
use super::model::*;
use super::tags::{Step, applied};
use crate::ast::{Argument, AssignmentKind, MacroUse, Simple, TagClass, Type, TypeKind};
use crate::names::{Def, ModuleId, World};
use crate::resolve::{Base, Bound, Env, Ty};

/// References may go through so many others.
const HOPS_MAX: usize = 64;

/// Types that have their name from where they stand get no longer one.
const NAME_MAX: usize = 160;

/// More types than these are not generated.
const DEFS_MAX: usize = 100_000;

/// A definition whose shape is to be found: its type, and the tags that it has on the wire.
struct Job<'a> {
    id: DefId,
    ty: Ty<'a>,
    wire: Vec<WireTag>,
}

/// What finds the model.
pub struct Lower<'w, 'a> {
    pub(super) world: &'w World<'a>,
    pub(super) model: Model,
    known: HashMap<(Def, String), DefId>,
    hoisted: HashMap<(usize, String, Vec<WireTag>), DefId>,
    taken: Vec<HashSet<String>>,
    queue: VecDeque<Job<'a>>,
    /// Whether an INTEGER without bounds has 64 bits.
    pub(super) narrow: bool,
}

/// Whether a macro is of those that put a signature beside a type.
pub fn is_signed(used: &MacroUse) -> bool {
    used.types.len() == 1 && used.types[0].0 == used.name.text
}

impl<'w, 'a> Lower<'w, 'a> {
    /// The model of all modules.
    pub fn run(world: &'w World<'a>, narrow: bool) -> Model {
        let modules = world.modules.len();
        let mut lower = Lower {
            world,
            model: Model::default(),
            known: HashMap::new(),
            hoisted: HashMap::new(),
            taken: vec![HashSet::new(); modules],
            queue: VecDeque::new(),
            narrow,
        };
        let mut names = HashSet::from(["mod".to_owned()]);
        for scope in &world.modules {
            let rust = unique(snake(&scope.ast.name.text), &mut names);
            let asn = scope.ast.name.text.clone();
            lower.model.modules.push(ModuleModel { rust, asn, constants: Vec::new() });
        }
        for module in world.own_modules() {
            lower.assignments(module);
        }
        while let Some(job) = lower.queue.pop_front() {
            lower.shape(job);
        }
        lower.model
    }

    fn assignments(&mut self, module: ModuleId) {
        let scope = &self.world.modules[module];
        for (index, assignment) in scope.ast.assignments.iter().enumerate() {
            let is_repeated = self.world.is_repeated(Def { module, index });
            if !assignment.parameters.is_empty() || is_repeated {
                continue;
            }
            let env = Env::of(module, &[]);
            match &assignment.kind {
                AssignmentKind::Type(ty) | AssignmentKind::Set(ty, _)
                    if self.world.class_of(ty, &env).is_none() =>
                {
                    self.named(Def { module, index }, Ty { ty, env });
                }
                AssignmentKind::Value(Type { kind: TypeKind::Macro(used), .. }, _) => {
                    self.macro_types(module, &assignment.name.text, used);
                }
                AssignmentKind::Value(ty, value) => self.constant(module, assignment, ty, value),
                _ => {}
            }
        }
    }

    /// The types in a macro's use: `SubmitArgument` of `submit OPERATION ARGUMENT …`.
    fn macro_types(&mut self, module: ModuleId, name: &str, used: &'a MacroUse) {
        for (word, _, ty) in &used.types {
            let ty = Ty { ty, env: Env::of(module, &[]) };
            let wire = self.world.wire_tags(&ty);
            let rust = camel(name) + &camel(&word.to_ascii_lowercase());
            let id = self.new_def(module, rust, format!("{name} {word}"), &wire);
            self.queue.push_back(Job { id, ty, wire });
        }
    }

    fn constant(
        &mut self,
        module: ModuleId,
        assignment: &'a crate::ast::Assignment,
        ty: &'a Type,
        value: &'a crate::ast::Value,
    ) {
        let env = Env::of(module, &[]);
        if self.world.class_of(ty, &env).is_some() {
            return;
        }
        let constant = self.constant_of(value, &Ty { ty, env: env.clone() }, &env);
        let simple = matches!(
            constant,
            Some(Constant::Boolean(_) | Constant::Integer(_) | Constant::Oid(_))
        );
        if let Some(constant) = constant.filter(|_| simple) {
            let name = super::idents::shout(&assignment.name.text);
            let rust = unique(name, &mut self.taken[module]);
            let names = Names { rust, asn: assignment.name.text.clone() };
            self.model.modules[module].constants.push((names, constant));
        }
    }

    /// The definition of a name, with its actual parameters.
    fn named(&mut self, def: Def, ty: Ty<'a>) -> DefId {
        let key = (def, self.key(&ty.env, 0));
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let asn = self.world.assignment(def).name.text.clone();
        let mut rust = camel(&asn);
        let words = key.1.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for word in words.filter(|w| w.starts_with(|c: char| c.is_ascii_alphabetic())) {
            if rust.len() < 40 {
                rust += &camel(word);
            }
        }
        let wire = self.world.wire_tags(&ty);
        let id = self.new_def(def.module, rust, asn, &wire);
        self.known.insert(key, id);
        self.queue.push_back(Job { id, ty, wire });
        id
    }

    fn new_def(&mut self, module: usize, rust: String, asn: String, wire: &[WireTag]) -> DefId {
        // Names are ASCII.
        let rust = unique(rust[..rust.len().min(NAME_MAX)].to_owned(), &mut self.taken[module]);
        let (tag, shape) = (wire.first().copied(), Shape::Pending);
        self.model.defs.push(DefModel {
            module,
            rust,
            asn,
            tag,
            shape,
            borrows: false,
            is_recursive: false,
            is_list_of_itself: false,
        });
        self.model.defs.len() - 1
    }

    /// Actual parameters as a text that tells them from others.
    fn key(&self, env: &Env<'a>, depth: u32) -> String {
        let Some((arguments, outer)) = env.actual() else { return String::new() };
        let mut key = String::new();
        for argument in arguments {
            let span = match argument {
                Argument::Type(ty) => ty.span,
                Argument::Value(value) => value.span,
                Argument::Braced(braced) => braced.span,
            };
            let text = self.world.modules[outer.module].file.source.slice(span);
            let bare = text.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
            let bound = outer.parameter(bare);
            match bound {
                // A parameter handed on is what it stands for.
                Some(Bound::Actual(..)) if depth < 8 => key += &self.key(outer, depth + 1),
                Some(_) => key += bare,
                None => {
                    key.extend(text.split_whitespace().flat_map(|w| [w, " "]));
                    if depth < 8 && outer.is_instance() && self.mentions(text, outer) {
                        key += &self.key(outer, depth + 1);
                    }
                }
            }
            key.push(',');
        }
        key
    }

    fn mentions(&self, text: &str, env: &Env<'a>) -> bool {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.any(|w| env.parameter(w).is_some())
    }

    /// A type where it is used, with tags in front of its own.
    pub(super) fn used(&mut self, ty: &Ty<'a>, outer: &[Step], owner: DefId, hint: &str) -> Use {
        let limits = self.world.limits(ty);
        let (kind, own) = self.bare(ty, &limits, owner, hint);
        let wire = applied(outer, self.world.wire_tags(ty));
        let is_open = own.is_empty() && matches!(kind, Kind::Plain(..));
        if is_open && wire.len() == 1 && self.is_raw(ty, outer) {
            return Use { kind, tagging: Tagging::Raw(wire[0]), is_boxed: false, limits };
        }
        let tagging = if wire == own {
            Tagging::Own
        } else if wire.len() == own.len() && wire[1..] == own[1..] {
            Tagging::Implicit(wire[0])
        } else if wire.len() == own.len() + 1 && wire[1..] == own {
            Tagging::Explicit(wire[0])
        } else {
            let id = self.hoist(ty, wire[1..].to_vec(), owner, hint);
            let (kind, tagging) = (Kind::Named(id), Tagging::Explicit(wire[0]));
            return Use { kind, tagging, is_boxed: false, limits };
        };
        Use { kind, tagging, is_boxed: false, limits }
    }

    /// Whether an open type's tag is in place of its own: one that is written IMPLICIT, or of an unknown type.
    fn is_raw(&self, ty: &Ty<'a>, outer: &[Step]) -> bool {
        let written = ty.ty.tags.first().is_some_and(|t| t.implicit == Some(true));
        let unknown = !matches!(self.world.base(ty), Base::Open);
        let implicit = outer.first().or(self.world.written_tags(ty).first()).is_some_and(|s| s.1);
        written || (unknown && implicit)
    }

    /// The names that are taken in a module.
    pub(super) fn taken_in(&mut self, module: usize) -> &mut HashSet<String> {
        &mut self.taken[module]
    }

    /// A type of its own for what has no name.
    fn hoist(&mut self, ty: &Ty<'a>, wire: Vec<WireTag>, owner: DefId, hint: &str) -> DefId {
        // One type is one, however often it is met: it may be among its own components.
        let key = (std::ptr::from_ref(ty.ty) as usize, self.key(&ty.env, 0), wire.clone());
        if let Some(&id) = self.hoisted.get(&key) {
            return id;
        }
        let module = self.model.defs[owner].module;
        let rust = format!("{}{}", self.model.defs[owner].rust, camel(hint));
        let asn = format!("{}.{hint}", self.model.defs[owner].asn);
        let id = self.new_def(module, rust, asn, &wire);
        self.hoisted.insert(key, id);
        if self.model.defs.len() < DEFS_MAX {
            self.queue.push_back(Job { id, ty: ty.clone(), wire });
        } else {
            self.model.defs[id].shape = Shape::Alias(Use::own(ANY));
        }
        id
    }

    /// A type without regard to its tags, and the tags that what stands for it has by itself.
    fn bare(
        &mut self,
        ty: &Ty<'a>,
        limits: &Limits,
        owner: DefId,
        hint: &str,
    ) -> (Kind, Vec<WireTag>) {
        if let Some(kind) = self.machine_integer(ty, limits) {
            return (kind, vec![super::tags::universal(2)]);
        }
        let mut ty = ty.clone();
        for _ in 0..HOPS_MAX {
            if let TypeKind::Reference(reference) = &ty.ty.kind
                && let Some((def, target)) = self.world.type_definition(reference, &ty.env)
            {
                let wire = self.world.wire_tags(&target);
                return (Kind::Named(self.named(def, target)), wire);
            }
            match self.world.next(&ty) {
                Some(Ok(next)) => ty = next,
                Some(Err(_)) => {
                    if matches!(&ty.ty.kind, TypeKind::Macro(m) if is_signed(m)) {
                        let wire = vec![super::tags::universal(16)];
                        let id = self.hoist(&ty, wire.clone(), owner, hint);
                        return (Kind::Named(id), wire);
                    }
                    return (ANY, Vec::new());
                }
                None => return self.inline(&ty, limits, owner, hint),
            }
        }
        (ANY, Vec::new())
    }

    /// The type of an INTEGER that is given its width where it is used, and not where it is defined.
    fn machine_integer(&self, ty: &Ty<'a>, limits: &Limits) -> Option<Kind> {
        let TypeKind::Reference(_) = &ty.ty.kind else { return None };
        let Base::Known(base) = self.world.base(ty) else { return None };
        let is_plain = matches!(&base.ty.kind, TypeKind::Integer(names) if names.is_empty());
        if !is_plain || self.world.wire_tags(ty) != [super::tags::universal(2)] {
            return None;
        }
        let defined = self.world.next(ty)?.ok()?;
        let (kind, own) = (self.integer(limits, false), self.world.limits(&defined));
        (kind != self.integer(&own, false)).then_some(kind)
    }

    /// A type that is no reference.
    fn inline(
        &mut self,
        ty: &Ty<'a>,
        limits: &Limits,
        owner: DefId,
        hint: &str,
    ) -> (Kind, Vec<WireTag>) {
        let own = |number| vec![super::tags::universal(number)];
        match &ty.ty.kind {
            TypeKind::Simple(simple) => self.simple(*simple),
            TypeKind::Integer(names) => (self.integer(limits, !names.is_empty()), own(2)),
            TypeKind::BitString(names) if names.is_empty() => {
                (Kind::Plain("types::BitString", true), own(3))
            }
            TypeKind::SequenceOf(name, element) | TypeKind::SetOf(name, element) => {
                let hint = name.as_ref().map_or_else(|| format!("{hint}-item"), |n| n.text.clone());
                let element = Ty { ty: element, env: ty.env.clone() };
                let element = self.element(&element, owner, &hint);
                match ty.ty.kind {
                    TypeKind::SetOf(..) => (Kind::SetOf(Box::new(element)), own(17)),
                    _ => (Kind::Vec(Box::new(element)), own(16)),
                }
            }
            TypeKind::InstanceOf(_) => self.built_in("InstanceOf"),
            kind => {
                let wire: Vec<_> = crate::check::tags::universal_tag(kind)
                    .map(super::tags::universal)
                    .into_iter()
                    .collect();
                let bare = Ty { ty: ty.ty, env: ty.env.clone() };
                let id = self.hoist(&bare, wire.clone(), owner, hint);
                (Kind::Named(id), wire)
            }
        }
    }

    /// An element of a list: its tags must be its type's own.
    pub(super) fn element(&mut self, ty: &Ty<'a>, owner: DefId, hint: &str) -> Use {
        let used = self.used(ty, &[], owner, hint);
        if used.tagging == Tagging::Own {
            return used;
        }
        let wire = self.world.wire_tags(ty);
        Use::own(Kind::Named(self.hoist(ty, wire, owner, hint)))
    }

    fn simple(&mut self, simple: Simple) -> (Kind, Vec<WireTag>) {
        let (path, borrows, tag) = match simple {
            Simple::Boolean => ("bool", false, 1),
            Simple::Null => ("()", false, 5),
            Simple::Real => ("f64", false, 9),
            Simple::OctetString => ("types::Octets", true, 4),
            Simple::ObjectIdentifier => ("types::Oid", true, 6),
            Simple::RelativeOid => ("types::RelativeOid", true, 13),
            Simple::ObjectDescriptor => ("types::ObjectDescriptor", true, 7),
            Simple::Utf8String | Simple::OidIri | Simple::RelativeOidIri => {
                ("types::Utf8String", true, 12)
            }
            Simple::NumericString => ("types::NumericString", true, 18),
            Simple::PrintableString => ("types::PrintableString", true, 19),
            Simple::TeletexString => ("types::TeletexString", true, 20),
            Simple::VideotexString => ("types::VideotexString", true, 21),
            Simple::Ia5String => ("types::Ia5String", true, 22),
            Simple::UtcTime => ("types::UtcTime", true, 23),
            Simple::GeneralizedTime => ("types::GeneralizedTime", true, 24),
            Simple::GraphicString => ("types::GraphicString", true, 25),
            Simple::VisibleString | Simple::Time | Simple::Duration => {
                ("types::VisibleString", true, 26)
            }
            Simple::Date => ("types::Date", false, 31),
            Simple::TimeOfDay => ("types::TimeOfDay", false, 32),
            Simple::DateTime => ("types::DateTime", false, 33),
            Simple::GeneralString => ("types::GeneralString", true, 27),
            Simple::UniversalString => ("types::UniversalString", true, 28),
            Simple::BmpString => ("types::BmpString", true, 30),
            Simple::External => return self.built_in("External"),
            Simple::EmbeddedPdv => return self.built_in("EmbeddedPdv"),
            Simple::CharacterString => return self.built_in("UnrestrictedString"),
        };
        (Kind::Plain(path, borrows), vec![super::tags::universal(tag)])
    }

    /// A structure that the standard defines for everyone.
    fn built_in(&mut self, name: &str) -> (Kind, Vec<WireTag>) {
        let Some(def) = self.world.built_in(name) else { return (ANY, Vec::new()) };
        let AssignmentKind::Type(ty) = &self.world.assignment(def).kind else {
            return (ANY, Vec::new());
        };
        let ty = Ty { ty, env: Env::of(def.module, &[]) };
        let wire = self.world.wire_tags(&ty);
        (Kind::Named(self.named(def, ty)), wire)
    }

    /// The type of an INTEGER: the narrowest that holds what its bounds leave; with named numbers and no bounds
    /// it has 64 bits.
    fn integer(&self, limits: &Limits, has_names: bool) -> Kind {
        let bounds = (limits.values.low(), limits.values.high());
        let plain = |path| Kind::Plain(path, false);
        match bounds {
            (Some(low), Some(high)) => match fitting(low, high) {
                Some(path) => plain(path),
                None => Kind::Plain("types::Integer", true),
            },
            (None, None) if has_names || self.narrow => plain("i64"),
            _ if self.narrow => plain("i64"),
            _ => Kind::Plain("types::Integer", true),
        }
    }

    /// What a definition is.
    fn shape(&mut self, job: Job<'a>) {
        let Job { id, ty, wire } = job;
        let mut inner = ty.clone();
        for _ in 0..HOPS_MAX {
            let is_definition = matches!(&inner.ty.kind, TypeKind::Reference(r)
                if self.world.type_definition(r, &inner.env).is_some());
            match self.world.next(&inner) {
                Some(Ok(next)) if !is_definition => inner = next,
                _ => break,
            }
        }
        let is_signed = matches!(&inner.ty.kind, TypeKind::Macro(m) if is_signed(m));
        let is_built = match &inner.ty.kind {
            TypeKind::Sequence(_)
            | TypeKind::Set(_)
            | TypeKind::Choice(_)
            | TypeKind::Enumerated(_) => true,
            TypeKind::Integer(names) | TypeKind::BitString(names) => !names.is_empty(),
            _ => is_signed,
        };
        let shape = if is_built && wire.len() > 1 {
            let inner = self.hoist(&inner, wire[1..].to_vec(), id, "inner");
            explicit(Use::own(Kind::Named(inner)))
        } else if is_built {
            let limits = self.world.limits(&ty);
            self.built(id, &inner, limits)
        } else {
            self.wrapped(id, &ty, &wire)
        };
        self.model.defs[id].shape = shape;
    }

    /// A definition around a type that has one itself, or needs none.
    fn wrapped(&mut self, id: DefId, ty: &Ty<'a>, wire: &[WireTag]) -> Shape {
        let limits = self.world.limits(ty);
        let (kind, own) = self.bare(ty, &limits, id, "");
        let inner = Use::of(kind, limits);
        if wire == own {
            return Shape::Alias(inner);
        }
        if wire.len() == own.len() && wire[1..] == own[1..] {
            let names = Vec::new();
            return Shape::Newtype(Newtype { inner, is_implicit: true, names, are_bits: false });
        }
        if wire.len() == own.len() + 1 && wire[1..] == own {
            return explicit(inner);
        }
        if wire.len() < 2 {
            return Shape::Alias(inner);
        }
        explicit(Use::own(Kind::Named(self.hoist(ty, wire[1..].to_vec(), id, "inner"))))
    }

    /// A definition with parts of its own.
    fn built(&mut self, id: DefId, ty: &Ty<'a>, limits: Limits) -> Shape {
        match &ty.ty.kind {
            TypeKind::Sequence(items) => Shape::Struct(self.structure(id, items, &ty.env, false)),
            TypeKind::Set(items) => Shape::Struct(self.structure(id, items, &ty.env, true)),
            TypeKind::Choice(items) => Shape::Choice(self.choice(id, items, &ty.env)),
            TypeKind::Enumerated(items) => {
                let (items, is_extensible) = self.enumerated(items, &ty.env);
                Shape::Enumerated(items, is_extensible)
            }
            TypeKind::Integer(names) | TypeKind::BitString(names) => {
                let are_bits = matches!(ty.ty.kind, TypeKind::BitString(_));
                let kind = if are_bits {
                    Kind::Plain("types::BitString", true)
                } else {
                    self.integer(&limits, true)
                };
                let mut taken = HashSet::new();
                let names = names.iter().filter_map(|n| {
                    let rust = unique(super::idents::shout(&n.name.text), &mut taken);
                    let number = self.world.integer(&n.value, &ty.env)?;
                    Some((Names { rust, asn: n.name.text.clone() }, number))
                });
                let names = names.collect();
                let inner = Use::of(kind, limits);
                Shape::Newtype(Newtype { inner, is_implicit: true, names, are_bits })
            }
            TypeKind::Macro(used) => Shape::Struct(self.signed(id, used, &ty.env)),
            _ => Shape::Alias(Use::own(ANY)),
        }
    }

    /// `SIGNED Type`: the type, an algorithm's identifier and a signature.
    fn signed(&mut self, id: DefId, used: &'a MacroUse, env: &Env<'a>) -> Struct {
        let ty = Ty { ty: &used.types[0].2, env: env.clone() };
        let field = |name: &str, ty| Field {
            names: Names { rust: snake(name), asn: name.to_owned() },
            ty,
            presence: Presence::Required,
            begins: None,
            addition: None,
            is_grouped: false,
            is_needed: true,
        };
        let inner = self.used(&ty, &[], id, "toBeSigned");
        let fields = vec![
            field("toBeSigned", inner),
            field("algorithmIdentifier", Use::own(ANY)),
            field("signature", Use::own(Kind::Plain("types::BitString", true))),
        ];
        Struct { is_set: false, fields, unknown_at: None, tables: Vec::new() }
    }
}

/// The narrowest of Rust's integers that holds everything between two bounds.
pub fn fitting(low: i128, high: i128) -> Option<&'static str> {
    let unsigned = [(8, "u8"), (16, "u16"), (32, "u32"), (64, "u64")];
    let signed = [(8, "i8"), (16, "i16"), (32, "i32"), (64, "i64")];
    let fits = |bits: u32| low >= -(1_i128 << (bits - 1)) && high < 1_i128 << (bits - 1);
    let found = match low >= 0 {
        true => unsigned.iter().find(|w| high < 1_i128 << w.0),
        false => signed.iter().find(|w| fits(w.0)),
    };
    found.map(|w| w.1)
}

/// Any encoding.
pub const ANY: Kind = Kind::Plain("types::Any", true);

fn explicit(inner: Use) -> Shape {
    Shape::Newtype(Newtype { inner, is_implicit: false, names: Vec::new(), are_bits: false })
}

/// A tag that AUTOMATIC TAGS gives a type: EXPLICIT if that is an untagged DummyReference (X.680 clause 31.2.7 c).
pub fn automatic(number: usize, ty: &Ty<'_>) -> Step {
    let is_implicit = !ty.ty.tags.is_empty() || !ty.is_dummy_reference();
    (WireTag { class: TagClass::Context, number: number as u32 }, is_implicit)
}
