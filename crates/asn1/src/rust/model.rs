//! What is generated, before it is written: definitions with their Rust names, wire tags and parts.

use super::limits::Limits;
use crate::ast::TagClass;

/// A tag on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireTag {
    pub class: TagClass,
    pub number: u32,
}

/// A definition, by its place in [`Model::defs`].
pub type DefId = usize;

/// Everything that is generated.
#[derive(Debug, Default)]
pub struct Model {
    /// Rust's names of the modules.
    pub modules: Vec<ModuleModel>,
    /// The types.
    pub defs: Vec<DefModel>,
    /// Of which of them there is a value to decode over (`fusewire_codec::Blank`).
    pub blanks: Vec<bool>,
    /// Whose encodings in LWS all have one size.
    pub fixed: Vec<bool>,
    /// The CHOICEs that are untagged alternatives of others.
    pub inner_choices: Vec<bool>,
}

/// A module.
#[derive(Debug)]
pub struct ModuleModel {
    /// Its name in Rust.
    pub rust: String,
    /// Its name in ASN.1.
    pub asn: String,
    /// Its values.
    pub constants: Vec<(Names, Constant)>,
}

/// A type.
#[derive(Debug)]
pub struct DefModel {
    pub module: usize,
    /// Its name in Rust.
    pub rust: String,
    /// What it is called in the notation.
    pub asn: String,
    /// Its tag; none for a CHOICE without one, and for what is another name of such.
    pub tag: Option<WireTag>,
    pub shape: Shape,
    pub borrows: bool,
    /// Whether its values may hold values of itself.
    pub is_recursive: bool,
    /// Whether it is a list of lists of itself, and of nothing else.
    pub is_list_of_itself: bool,
}

/// What a type is in Rust.
#[derive(Debug)]
pub enum Shape {
    /// Not known yet.
    Pending,
    /// A struct: SEQUENCE, or SET.
    Struct(Struct),
    /// An enum with values: CHOICE.
    Choice(Choice),
    /// An enum: its items' names and numbers, whether there may be others.
    Enumerated(Vec<(Names, i64)>, bool),
    /// A struct around one value.
    Newtype(Newtype),
    /// Another name of a type.
    Alias(Use),
}

/// A SEQUENCE or SET.
#[derive(Debug)]
pub struct Struct {
    pub is_set: bool,
    /// Its components.
    pub fields: Vec<Field>,
    /// In front of which component what is not known may stand.
    pub unknown_at: Option<usize>,
    /// Open types that a table says more of.
    pub tables: Vec<Table>,
}

/// An open type whose values' types are said by another component.
#[derive(Debug)]
pub struct Table {
    /// The open component.
    pub open: usize,
    /// The component that says which.
    pub by: usize,
    /// The Rust name of what comes of it.
    pub rust: String,
    /// For each: its variant's name, what identifies it, its type.
    pub rows: Vec<(Names, Constant, Use)>,
}

/// A CHOICE.
#[derive(Debug)]
pub struct Choice {
    pub alternatives: Vec<Field>,
    /// Whether there may be others.
    pub is_extensible: bool,
}

/// A struct around one value.
#[derive(Debug)]
pub struct Newtype {
    /// The value.
    pub inner: Use,
    /// Whether the tag replaces the value's own.
    pub is_implicit: bool,
    /// Named numbers or bits.
    pub names: Vec<(Names, i128)>,
    pub are_bits: bool,
}

impl Newtype {
    /// Named bits, whose value does not change by zeros at their end (X.690 clause 11.2.2, X.696 clause 13.3.1).
    pub fn has_free_zeros(&self) -> bool {
        self.are_bits && self.inner.limits.sizes.low().unwrap_or(0) <= 0
    }
}

/// A name in Rust and in ASN.1.
#[derive(Clone, Debug)]
pub struct Names {
    pub rust: String,
    pub asn: String,
}

/// A component or alternative.
#[derive(Debug)]
pub struct Field {
    pub names: Names,
    /// Its type.
    pub ty: Use,
    /// Whether it must be there.
    pub presence: Presence,
    /// The tags that it may begin with; none where they are not known.
    pub begins: Option<Vec<WireTag>>,
    /// Behind `...`: which addition it belongs to, from zero.
    pub addition: Option<usize>,
    /// It stands in `[[ ]]`.
    pub is_grouped: bool,
    /// It is there whenever its `[[ ]]` is.
    pub is_needed: bool,
}

/// Whether a component must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It must.
    Required,
    /// It need not.
    Optional,
    Default(Constant),
}

/// A value that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// TRUE or FALSE.
    Boolean(bool),
    Null,
    /// A number.
    Integer(i128),
    /// A number as Rust writes it.
    Real(String),
    /// An item of an ENUMERATED, by its name.
    Item(String),
    /// Bits, and how many of the last byte are none.
    Bits(Vec<u8>, u8),
    /// Bytes.
    Octets(Vec<u8>),
    /// Characters.
    Text(String),
    /// An object identifier.
    Oid(Vec<u128>),
    /// A list without elements.
    Empty,
}

/// A type where it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    pub kind: Kind,
    /// What stands in front of it.
    pub tagging: Tagging,
    /// Whether it is behind a pointer, for it contains itself.
    pub is_boxed: bool,
    /// What all the constraints that are known here leave of its values.
    pub limits: Limits,
}

/// What tags stand in front of a type where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagging {
    Own,
    /// One in place of its own.
    Implicit(WireTag),
    /// One around it.
    Explicit(WireTag),
    /// An open type that begins with this tag itself.
    Raw(WireTag),
}

/// What a type is in Rust where it is used.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A definition.
    Named(DefId),
    /// A type of Rust or of the codec: its path, and whether it borrows.
    Plain(&'static str, bool),
    Vec(Box<Use>),
    SetOf(Box<Use>),
}

impl Use {
    /// A type as it is.
    pub fn own(kind: Kind) -> Use {
        Use::of(kind, Limits::default())
    }

    /// A type as it is, within limits.
    pub fn of(kind: Kind, limits: Limits) -> Use {
        Use { kind, tagging: Tagging::Own, is_boxed: false, limits }
    }
}

impl Model {
    /// The definitions that a type holds directly, and whether behind a vector.
    pub fn held<'m>(&'m self, ty: &'m Use, held: &mut Vec<(DefId, bool)>) {
        let mut ty = ty;
        let mut behind = false;
        loop {
            match &ty.kind {
                Kind::Named(id) => return held.push((*id, behind)),
                Kind::Plain(..) => return,
                Kind::Vec(of) | Kind::SetOf(of) => {
                    ty = of;
                    behind = true;
                }
            }
        }
    }

    /// The types that a definition is made of.
    pub fn uses(&self, id: DefId) -> Vec<&Use> {
        match &self.defs[id].shape {
            Shape::Struct(s) => s.fields.iter().map(|f| &f.ty).collect(),
            Shape::Choice(c) => c.alternatives.iter().map(|f| &f.ty).collect(),
            Shape::Newtype(n) => vec![&n.inner],
            Shape::Alias(of) => vec![of],
            Shape::Enumerated(..) | Shape::Pending => Vec::new(),
        }
    }
}
