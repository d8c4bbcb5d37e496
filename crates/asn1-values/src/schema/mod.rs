//! Types as encodings need them: names and parameters followed, tags and constraints put together.
//!
//! A [`Schema`] is filled on demand from modules that were read together ([`fusewire_asn1::names::World`]): asked
//! for a type by name it adds that type and all that it is made of. Nothing of the generated code's way from
//! module to codec is used, so that each is a check of the other.

mod allowed;
mod constraints;
mod lower;
mod tables;
pub(crate) mod tags;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fusewire_asn1::ast::{self, AssignmentKind, Simple};
use fusewire_asn1::names::{Def, ModuleId, World};
use fusewire_asn1::resolve::{Env, Ty};
use fusewire_codec::ber::Tag;

use crate::error::Error;
use crate::value::Value;

pub use allowed::Allowed;

/// A type, by its place in a [`Schema`].
pub type TypeId = usize;

/// A type.
#[derive(Clone, Debug)]
pub struct Type {
    /// What the notation calls it: a name, or the notation itself.
    pub name: String,
    /// Its tags in BER, outermost first; none of a CHOICE or open type without any.
    pub tags: Vec<Tag>,
    /// What it is.
    pub kind: Kind,
    /// What its constraints allow: a value is in each of these sets.
    pub allowed: Vec<Allowed>,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// BOOLEAN.
    Boolean,
    /// NULL.
    Null,
    /// INTEGER.
    Integer(Integer),
    /// ENUMERATED.
    Enumerated(Enumerated),
    /// REAL.
    Real(RealForm),
    /// BIT STRING, with the names of bits.
    Bits(Vec<(String, u32)>, Size),
    /// OCTET STRING.
    Octets(Size),
    /// OBJECT IDENTIFIER.
    Oid,
    /// RELATIVE-OID.
    RelativeOid,
    /// A character string or time.
    Text(Simple, Size),
    /// SEQUENCE or SET.
    Structure(Structure),
    /// SEQUENCE OF or SET OF.
    List(List),
    /// CHOICE.
    Choice(Choice),
    /// ANY or an open type.
    Open(Option<Table>),
    /// A type of a module that is not among the files.
    Opaque(Opaque),
    /// It cannot be known, and why.
    Unknown(String),
}

/// A type of a module that is not among the files. In BER, its values are complete encodings.
#[derive(Clone, Debug)]
pub struct Opaque {
    /// Its name, or the notation itself.
    pub name: String,
    /// The tag that its encodings begin with, if one is written that may be IMPLICIT. It is part of the value, because
    /// EXPLICIT tags surround a CHOICE, and nothing says whether the type is one (X.680, 31.2.7).
    pub tag: Option<Tag>,
}

impl Opaque {
    /// Returns why a value cannot be used.
    pub(crate) fn reason(&self) -> String {
        let name = &self.name;
        format!("`{name}` is of a module that is not there: add its file, or use BER or DER")
    }
}

impl Kind {
    /// Returns `true` if the type has a tag of its own, which IMPLICIT can replace.
    pub(crate) fn has_tag(&self) -> bool {
        !matches!(self, Kind::Choice(_) | Kind::Open(_) | Kind::Opaque(_) | Kind::Unknown(_))
    }
}

/// An INTEGER's names and bounds.
#[derive(Clone, Debug, Default)]
pub struct Integer {
    /// Named numbers.
    pub names: Vec<(String, i128)>,
    /// The lowest and the highest value, if its constraints say them for good.
    pub bounds: (Option<i128>, Option<i128>),
}

/// An ENUMERATED's items.
#[derive(Clone, Debug)]
pub struct Enumerated {
    /// Names and numbers.
    pub items: Vec<(String, i64)>,
    /// There may be others.
    pub is_extensible: bool,
}

/// How a REAL is constrained, for encodings that fit it to a machine's number (X.696, 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RealForm {
    /// Any number.
    #[default]
    Any,
    /// What binary32 holds.
    Binary32,
    /// What binary64 holds.
    Binary64,
}

/// How many bits, octets, characters or elements there are, where constraints say it for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// At least.
    pub least: Option<usize>,
    /// At most.
    pub most: Option<usize>,
}

impl Size {
    /// The one size that there is.
    pub fn fixed(self) -> Option<usize> {
        self.least.filter(|least| self.most == Some(*least))
    }
}

/// A SEQUENCE or SET.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Whether it is a SET.
    pub is_set: bool,
    /// Its components.
    pub members: Vec<Member>,
    /// In front of which component there may be others.
    pub unknown_at: Option<usize>,
}

/// A component or alternative.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name; that of its type, or its place, where it has none.
    pub name: String,
    /// Whether the name is its own.
    pub is_named: bool,
    /// Its type.
    pub ty: TypeId,
    /// It need not be there.
    pub is_optional: bool,
    /// What it is when it is not there.
    pub default: Option<Value>,
    /// Behind `...`: which addition it belongs to, from zero.
    pub addition: Option<usize>,
    /// Whether the addition is one in `[[ ]]`.
    pub in_group: bool,
    /// Neither OPTIONAL nor DEFAULT is written: an addition that is there has it.
    pub is_needed: bool,
}

/// SEQUENCE OF or SET OF.
#[derive(Clone, Debug)]
pub struct List {
    /// Whether it is a SET OF.
    pub is_set: bool,
    /// Its elements' type.
    pub element: TypeId,
    /// How many there are.
    pub size: Size,
}

/// A CHOICE.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its alternatives.
    pub alternatives: Vec<Member>,
    /// There may be others.
    pub is_extensible: bool,
}

/// Which type an open type's values have, by the values of other components (X.682, 10).
#[derive(Clone, Debug)]
pub struct Table {
    /// The components.
    pub keys: Vec<KeyPath>,
    /// The types, by the keys of their values.
    pub rows: HashMap<Vec<u8>, TypeId>,
}

/// Where a component is that a table asks about.
#[derive(Clone, Debug)]
pub struct KeyPath {
    /// How many SEQUENCEs, SETs to leave, from the innermost around the open type.
    pub up: usize,
    /// The component, and components within it.
    pub members: Vec<usize>,
}

/// What is still to be found of a type.
struct Job<'a> {
    id: TypeId,
    ty: Ty<'a>,
    automatic: Option<u32>,
    /// The SEQUENCEs and SETs around it in the same definition, outermost first.
    around: Vec<TypeId>,
}

struct PendingDefault<'a> {
    structure: TypeId,
    member: usize,
    value: &'a ast::Value,
    env: Env<'a>,
}

/// Types of modules.
pub struct Schema<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    types: Vec<Rc<Type>>,
    known: HashMap<Vec<usize>, TypeId>,
    queue: VecDeque<Job<'a>>,
    defaults: Vec<PendingDefault<'a>>,
    tables: Vec<tables::Pending<'a>>,
    /// Values are being converted for the schema itself.
    settling: bool,
    /// The field of a class that a type is written as.
    fields: HashMap<TypeId, &'a str>,
}

/// More types than these are not looked at.
const TYPES_MAX: usize = 200_000;

impl<'w, 'a> Schema<'w, 'a> {
    /// Of modules.
    pub fn new(world: &'w World<'a>) -> Schema<'w, 'a> {
        Schema {
            world,
            types: Vec::new(),
            known: HashMap::new(),
            queue: VecDeque::new(),
            defaults: Vec::new(),
            tables: Vec::new(),
            settling: false,
            fields: HashMap::new(),
        }
    }

    /// A type.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id]
    }

    /// The types of a module that have names and need no parameters.
    pub fn names(&self) -> impl Iterator<Item = (ModuleId, &'a str)> {
        self.world.own_modules().flat_map(move |module| {
            let assignments = &self.world.modules[module].ast.assignments;
            let types = assignments.iter().filter(move |a| {
                let env = Env::of(module, &[]);
                a.parameters.is_empty()
                    && matches!(&a.kind, AssignmentKind::Type(ty) if self.world.class_of(ty, &env).is_none())
            });
            types.map(move |a| (module, a.name.text.as_str()))
        })
    }

    /// The type of a name: `Module.Type`, or `Type` where but one module has it.
    ///
    /// # Errors
    /// There is none, or several, or it needs parameters.
    pub fn type_named(&mut self, name: &str) -> Result<TypeId, Error> {
        let (wanted, name) = match name.split_once('.') {
            Some((module, name)) => (Some(module), name),
            None => (None, name),
        };
        let mut found = Vec::new();
        for module in self.world.own_modules() {
            let scope = &self.world.modules[module];
            if wanted.is_some_and(|w| w != scope.ast.name.text) {
                continue;
            }
            let index = scope.ast.assignments.iter().position(|a| a.name.text == name);
            found.extend(index.map(|index| Def { module, index }));
        }
        let module_of = |def: &Def| self.world.modules[def.module].ast.name.text.as_str();
        match (found.as_slice(), wanted) {
            ([def], _) => self.definition(*def),
            // Of several versions of a module the first that was given is meant.
            ([def, ..], Some(_)) => self.definition(*def),
            ([], Some(module)) => {
                let known =
                    self.world.own_modules().any(|m| self.world.modules[m].ast.name.text == module);
                Err(Error::of_type(match known {
                    true => format!("the module {module} has no type `{name}`"),
                    false => format!("no module is called `{module}`"),
                }))
            }
            ([], None) => Err(Error::of_type(format!("no module has a type `{name}`"))),
            (several, None) => {
                let modules: Vec<_> = several.iter().map(module_of).collect();
                let modules = modules.join(" and ");
                Err(Error::of_type(format!("`{name}` is in {modules}: write Module.{name}")))
            }
        }
    }

    fn definition(&mut self, def: Def) -> Result<TypeId, Error> {
        let assignment = self.world.assignment(def);
        let name = &assignment.name.text;
        if !assignment.parameters.is_empty() {
            return Err(Error::of_type(format!(
                "`{name}` needs parameters: name a type that gives them"
            )));
        }
        let env = Env::of(def.module, &[]);
        match &assignment.kind {
            AssignmentKind::Type(ty) | AssignmentKind::Set(ty, _)
                if self.world.class_of(ty, &env).is_none() =>
            {
                self.of(&Ty { ty, env }, name.clone())
            }
            _ => Err(Error::of_type(format!("`{name}` is no type"))),
        }
    }

    /// A type with all that it is made of.
    ///
    /// # Errors
    /// It is made of too many.
    pub fn of(&mut self, ty: &Ty<'a>, name: String) -> Result<TypeId, Error> {
        let id = self.node(ty.clone(), None, Vec::new(), Some(name));
        self.settle()?;
        self.drain()?;
        Ok(id)
    }

    /// Finds what is still to be found.
    fn settle(&mut self) -> Result<(), Error> {
        if self.settling {
            return Ok(());
        }
        self.settling = true;
        let result = self.settle_all();
        self.settling = false;
        result
    }

    fn settle_all(&mut self) -> Result<(), Error> {
        loop {
            self.drain()?;
            if let Some(table) = self.tables.pop() {
                self.table(table);
            } else if let Some(default) = self.defaults.pop() {
                self.default_of(default);
            } else {
                return Ok(());
            }
        }
    }

    /// Finds what types are, without their defaults and tables.
    pub(crate) fn drain(&mut self) -> Result<(), Error> {
        while let Some(job) = self.queue.pop_front() {
            if self.types.len() > TYPES_MAX {
                return Err(Error::of_type("the type is made of too many others"));
            }
            self.lower(job);
        }
        Ok(())
    }

    fn change(&mut self, id: TypeId) -> &mut Type {
        Rc::make_mut(&mut self.types[id])
    }

    /// A type that is kept while others are added.
    pub(crate) fn shared(&self, id: TypeId) -> Rc<Type> {
        Rc::clone(&self.types[id])
    }

    /// A default that cannot be read leaves the component OPTIONAL.
    fn default_of(&mut self, pending: PendingDefault<'a>) {
        let PendingDefault { structure, member, value, env } = pending;
        let Kind::Structure(of) = &self.types[structure].kind else { return };
        let ty = of.members[member].ty;
        let read = self.value_of(value, &env, ty);
        if let Kind::Structure(of) = &mut self.change(structure).kind {
            of.members[member].default = read.ok();
        }
    }

    /// Whether the encoding of a type may begin with a tag.
    pub fn begins_with(&self, id: TypeId, tag: Tag) -> bool {
        self.begins(id, tag, 0)
    }

    /// Returns `true` if the encodings of a type may begin with any tag, so that types with tags of their own come before
    /// it.
    pub fn takes_any(&self, id: TypeId) -> bool {
        let ty = &self.types[id];
        let is_open = matches!(ty.kind, Kind::Open(_) | Kind::Opaque(Opaque { tag: None, .. }));
        ty.tags.is_empty() && is_open
    }

    /// The alternative that begins with a tag. A tag that none has is one of the untagged CHOICE that is extensible, if the
    /// CHOICE is not extensible itself (X.680, 52.7).
    pub fn alternative_of(&self, of: &Choice, tag: Tag) -> Option<usize> {
        let begins = |a: &Member| self.begins_with(a.ty, tag);
        let known = of.alternatives.iter().position(|a| begins(a) && !self.takes_any(a.ty));
        let known = known.or_else(|| of.alternatives.iter().position(begins));
        known.or_else(|| self.open_alternative(of, 0))
    }

    fn open_alternative(&self, of: &Choice, depth: u32) -> Option<usize> {
        let is_open = |alternative: &Member| {
            let ty = &self.types[alternative.ty];
            let (Kind::Choice(inner), true) = (&ty.kind, ty.tags.is_empty()) else { return false };
            inner.is_extensible || self.open_alternative(inner, depth + 1).is_some()
        };
        if of.is_extensible || depth > 32 {
            return None;
        }
        of.alternatives.iter().position(is_open)
    }

    fn begins(&self, id: TypeId, tag: Tag, depth: u32) -> bool {
        let ty = &self.types[id];
        match (ty.tags.first(), &ty.kind) {
            (Some(first), _) => *first == tag,
            (None, Kind::Choice(choice)) => {
                depth < 32 && choice.alternatives.iter().any(|a| self.begins(a.ty, tag, depth + 1))
            }
            (None, Kind::Opaque(Opaque { tag: Some(first), .. })) => *first == tag,
            (None, Kind::Open(_) | Kind::Opaque(_)) => true,
            _ => false,
        }
    }
}
