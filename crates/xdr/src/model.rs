//! What a file means: every name found, every number known, every type one that Rust can hold.

use fusewire_asn1::source::Span;

/// A file.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Constants.
    pub constants: Vec<Constant>,
    /// Types, those without a name in the file among them.
    pub defs: Vec<Def>,
    /// Programs.
    pub programs: Vec<Program>,
}

/// Which of the model's types.
pub type DefId = usize;

/// A name in the file and what it is in Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// As it stands in the file.
    pub xdr: String,
    /// In Rust.
    pub rust: String,
}

/// A constant.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its name.
    pub names: Names,
    /// Its value.
    pub value: ConstantValue,
}

/// The value of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantValue {
    /// A number within 64 bits, with or without sign.
    Number(i128),
    /// A string.
    Text(String),
}

/// A type with a name.
#[derive(Clone, Debug)]
pub struct Def {
    /// Its name; in the file's spelling a path where it has none of its own there.
    pub names: Names,
    /// Where.
    pub span: Span,
    /// What it is.
    pub shape: Shape,
    /// Whether a value of it can hold another one: reading takes a level of depth.
    pub is_recursive: bool,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Another name (4.18).
    Alias(Type),
    /// An enumeration (4.3).
    Enum(Vec<Variant>),
    /// A structure (4.14).
    Struct(Vec<Field>),
    /// A discriminated union (4.15).
    Union(Union),
}

/// One of an enumeration's.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name.
    pub names: Names,
    /// Its number.
    pub number: i32,
}

/// A component.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub names: Names,
    /// Its type.
    pub ty: Type,
}

/// A discriminated union.
#[derive(Clone, Debug)]
pub struct Union {
    /// `Int`, `Uint`, `Bool`, or an enumeration's name.
    pub discriminant: Type,
    /// An arm for each value.
    pub arms: Vec<Arm>,
    /// What is there otherwise, if anything may be.
    pub default: Option<Option<Field>>,
}

/// What one value of the discriminant leads to.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The value; a boolean's is 0 or 1.
    pub value: i64,
    /// The value as it stands in the file, and the variant in Rust.
    pub names: Names,
    /// Where.
    pub span: Span,
    /// What is there; nothing for void.
    pub field: Option<Field>,
}

/// How many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many, in an array in place.
    InPlace(u32),
    /// So many, in a vector: too large for the stack.
    Exactly(u32),
    /// Up to so many.
    AtMost(u32),
}

/// A type as it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// 4.1
    Int,
    /// 4.2
    Uint,
    /// 4.5
    Hyper,
    /// 4.5
    Uhyper,
    /// 4.6
    Float,
    /// 4.7
    Double,
    /// 4.8
    Quadruple,
    /// 4.4
    Bool,
    /// 4.9 and 4.10
    Opaque(Length),
    /// 4.11, with the most bytes.
    Text(u32),
    /// 4.12 and 4.13
    Array(Box<Type>, Length),
    /// 4.19
    Optional(Box<Type>),
    /// 4.19: the type that ended with an optional one of itself, without that end.
    List(DefId),
    /// A type with a name, behind a pointer if it holds what it stands in.
    Named {
        /// Which.
        id: DefId,
        /// Behind a pointer.
        is_boxed: bool,
    },
    /// Could not be read: said already.
    Wrong,
}

impl Type {
    /// A type with a name, in place.
    pub fn named(id: DefId) -> Type {
        Type::Named { id, is_boxed: false }
    }
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub names: Names,
    /// Its number.
    pub number: u32,
    /// Its versions.
    pub versions: Vec<Version>,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name.
    pub names: Names,
    /// Its number.
    pub number: u32,
    /// Its procedures.
    pub procedures: Vec<Procedure>,
}

/// A procedure.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub names: Names,
    /// Its number.
    pub number: u32,
    /// What it takes.
    pub arguments: Vec<Type>,
    /// What it returns; nothing for void.
    pub result: Option<Type>,
}

impl Model {
    /// What a type is behind its other names.
    pub fn target<'m>(&'m self, mut ty: &'m Type) -> &'m Type {
        // Circles of names are refused before anybody asks.
        while let Type::Named { id, .. } = ty {
            let Shape::Alias(next) = &self.defs[*id].shape else { break };
            ty = next;
        }
        ty
    }

    /// Every type that a definition uses, outermost first, with what to do to each.
    pub(crate) fn uses_mut(def: &mut Def) -> Vec<&mut Type> {
        match &mut def.shape {
            Shape::Alias(ty) => vec![ty],
            Shape::Enum(_) => Vec::new(),
            Shape::Struct(fields) => fields.iter_mut().map(|f| &mut f.ty).collect(),
            Shape::Union(union) => {
                let arms = union.arms.iter_mut().filter_map(|arm| arm.field.as_mut());
                let default = union.default.iter_mut().flatten();
                arms.chain(default).map(|f| &mut f.ty).collect()
            }
        }
    }

    /// Every type that a definition uses.
    pub(crate) fn uses(def: &Def) -> Vec<&Type> {
        match &def.shape {
            Shape::Alias(ty) => vec![ty],
            Shape::Enum(_) => Vec::new(),
            Shape::Struct(fields) => fields.iter().map(|f| &f.ty).collect(),
            Shape::Union(union) => {
                let arms = union.arms.iter().filter_map(|arm| arm.field.as_ref());
                arms.chain(union.default.iter().flatten()).map(|f| &f.ty).collect()
            }
        }
    }
}
