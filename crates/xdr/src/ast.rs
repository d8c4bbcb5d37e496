//! What the parser reads: RFC 4506, section 6.3, and RFC 5531, section 12.2, rule by rule.

use fusewire_asn1::source::Span;

/// A file.
#[derive(Clone, Debug, Default)]
pub struct Specification {
    /// `definition *`
    pub definitions: Vec<Definition>,
}

/// A name where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// `type-def`, `constant-def` or `program-def`.
#[derive(Clone, Debug)]
pub enum Definition {
    /// `const NAME = VALUE;`, and a `#define` of a number.
    Constant(Name, Value),
    /// `const NAME = "TEXT";`, and a `#define` of a string, as rpcgen accepts them.
    Text(Name, String),
    /// `typedef`, and the short forms `enum NAME`, `struct NAME` and `union NAME`.
    Type(Declaration),
    /// `program NAME { … } = NUMBER;`
    Program(Program),
}

/// A number, or the name of one.
#[derive(Clone, Debug)]
pub enum Value {
    /// A constant; none if it could not be read, which was said.
    Number(Option<i128>, Span),
    /// A constant's or an enumerator's name.
    Name(Name),
}

impl Value {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Value::Number(_, span) => *span,
            Value::Name(name) => name.span,
        }
    }
}

/// A name with its type.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The name; empty for `void`.
    pub name: Name,
    /// Its type.
    pub shape: Shape,
}

/// What is declared.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `void`
    Void,
    /// `type-specifier identifier`
    Plain(Specifier),
    /// `type-specifier "*" identifier`
    Optional(Specifier),
    /// `type-specifier identifier "[" value "]"`
    Fixed(Specifier, Value),
    /// `type-specifier identifier "<" [ value ] ">"`
    Variable(Specifier, Option<Value>),
    /// `"opaque" identifier "[" value "]"`
    OpaqueFixed(Value),
    /// `"opaque" identifier "<" [ value ] ">"`
    Opaque(Option<Value>),
    /// `"string" identifier "<" [ value ] ">"`
    Text(Option<Value>),
}

/// `type-specifier`
#[derive(Clone, Debug)]
pub enum Specifier {
    /// A type of the language.
    Basic(Basic),
    /// `enum-type-spec`
    Enum(Vec<Enumerator>),
    /// `struct-type-spec`
    Struct(Vec<Declaration>),
    /// `union-type-spec`
    Union(Box<Union>),
    /// `identifier`
    Named(Name),
    /// Could not be read: said already.
    Wrong,
}

/// Types without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of the language")]
pub enum Basic {
    Int,
    UnsignedInt,
    Hyper,
    UnsignedHyper,
    Float,
    Double,
    Quadruple,
    Bool,
    /// `string` as an argument or result, which rpcgen has.
    Text,
}

/// `identifier "=" value`
#[derive(Clone, Debug)]
pub struct Enumerator {
    /// Its name.
    pub name: Name,
    /// Its number; rpcgen counts on where there is none.
    pub value: Option<Value>,
}

/// `union-body`
#[derive(Clone, Debug)]
pub struct Union {
    /// `switch "(" declaration ")"`
    pub discriminant: Declaration,
    /// The cases.
    pub cases: Vec<Case>,
    /// `"default" ":" declaration`
    pub default: Option<Declaration>,
}

/// `case-spec`
#[derive(Clone, Debug)]
pub struct Case {
    /// The values that lead to it.
    pub values: Vec<Value>,
    /// What then is there.
    pub arm: Declaration,
}

/// `program-def`
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: Name,
    /// Its versions.
    pub versions: Vec<Version>,
    /// Its number.
    pub number: Value,
}

/// `version-def`
#[derive(Clone, Debug)]
pub struct Version {
    /// Its name.
    pub name: Name,
    /// Its procedures.
    pub procedures: Vec<Procedure>,
    /// Its number.
    pub number: Value,
}

/// `procedure-def`
#[derive(Clone, Debug)]
pub struct Procedure {
    /// Its name.
    pub name: Name,
    /// What it returns; nothing for `void`.
    pub result: Option<Specifier>,
    /// What it takes; empty for `void`.
    pub arguments: Vec<Specifier>,
    /// Its number.
    pub number: Value,
}
