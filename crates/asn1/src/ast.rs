//! A module as it was written: names not yet resolved, notation whose meaning depends on a governor kept as
//! a range of tokens ([`Braced`]) and read when the governor is known.

use crate::source::Span;

pub use crate::simple::Simple;

/// A word and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// As it was written; a field's name with its `&`.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// What lies between two braces, by the numbers of the braces among the file's tokens that are no trivia.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Braced {
    /// The opening brace.
    pub open: u32,
    /// The closing brace.
    pub close: u32,
    /// Where they are.
    pub span: Span,
}

/// The tags that a module's types have of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagDefault {
    /// `EXPLICIT TAGS`, or nothing.
    Explicit,
    /// `IMPLICIT TAGS`.
    Implicit,
    /// `AUTOMATIC TAGS`.
    Automatic,
}

/// A module.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its name.
    pub name: Name,
    /// Its object identifier, where it has one.
    pub oid: Option<Vec<OidComponent>>,
    /// Its tags.
    pub tags: TagDefault,
    /// `EXTENSIBILITY IMPLIED`.
    pub extensibility_implied: bool,
    /// What others may import; everything where this is missing.
    pub exports: Option<Vec<Name>>,
    /// What it imports.
    pub imports: Vec<Import>,
    /// What it defines.
    pub assignments: Vec<Assignment>,
    /// All of it.
    pub span: Span,
}

/// Symbols from one module.
#[derive(Clone, Debug)]
pub struct Import {
    /// The symbols.
    pub symbols: Vec<Name>,
    /// The module.
    pub module: Name,
    /// Its object identifier.
    pub oid: Option<Vec<OidComponent>>,
    /// The value that is its object identifier, where that is written.
    pub oid_name: Option<Name>,
}

/// A component of an object identifier: `name`, `3`, `name(3)`, `name(value)` or `Module.value`.
#[derive(Clone, Debug)]
pub struct OidComponent {
    /// The name.
    pub name: Option<Name>,
    /// The number.
    pub number: Option<Value>,
    /// Where.
    pub span: Span,
}

/// A definition.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// What it defines.
    pub name: Name,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The definition.
    pub kind: AssignmentKind,
    /// All of it.
    pub span: Span,
}

/// What is defined.
#[derive(Clone, Debug)]
pub enum AssignmentKind {
    /// `Name ::= Type`; a class too, where the type is a class's name.
    Type(Type),
    /// `name Type ::= value`; an object too, where the type is a class's name.
    Value(Type, Value),
    /// `Name Type ::= { set }`; an object set too, where the type is a class's name.
    Set(Type, SetSpec),
    /// `NAME ::= CLASS { … }`.
    Class(Class),
    /// `NAME MACRO ::= BEGIN … END`.
    Macro,
    /// It could not be read; the error was reported.
    Broken,
}

/// A formal parameter, with its governor where it has one.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The governor.
    pub governor: Option<Type>,
    /// Its name.
    pub name: Name,
}

/// An actual parameter.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A type, a class, or a set named like a type.
    Type(Type),
    /// A value or an object.
    Value(Value),
    /// Something in braces: a set, an object or a value, as its governor says.
    Braced(Braced),
}

/// The name of a definition, perhaps in another module, with actual parameters.
#[derive(Clone, Debug)]
pub struct Reference {
    /// `Module.`.
    pub module: Option<Name>,
    /// The name.
    pub name: Name,
    /// The actual parameters.
    pub arguments: Option<Vec<Argument>>,
}

/// A tag's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TagClass {
    /// `UNIVERSAL`.
    Universal,
    /// `APPLICATION`.
    Application,
    /// No word.
    Context,
    /// `PRIVATE`.
    Private,
}

/// A tag before a type.
#[derive(Clone, Debug)]
pub struct Tag {
    /// Its class.
    pub class: TagClass,
    /// Its number.
    pub number: Value,
    /// `IMPLICIT` (true) or `EXPLICIT` (false), where one is written.
    pub implicit: Option<bool>,
    /// Where.
    pub span: Span,
}

/// A type.
#[derive(Clone, Debug)]
pub struct Type {
    /// Its tags, outermost first.
    pub tags: Vec<Tag>,
    /// What it is.
    pub kind: TypeKind,
    /// Its constraints, in order.
    pub constraints: Vec<Constraint>,
    /// All of it.
    pub span: Span,
}

/// What a type is.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// A type without parts.
    Simple(Simple),
    /// `INTEGER`, with its named numbers.
    Integer(Vec<NamedNumber>),
    /// `BIT STRING`, with its named bits.
    BitString(Vec<NamedNumber>),
    /// `ENUMERATED`.
    Enumerated(Vec<EnumItem>),
    /// `SEQUENCE { … }`.
    Sequence(Vec<Item>),
    /// `SET { … }`.
    Set(Vec<Item>),
    /// `CHOICE { … }`.
    Choice(Vec<Item>),
    /// `SEQUENCE OF`, with the element's name where it has one.
    SequenceOf(Option<Name>, Box<Type>),
    /// `SET OF`.
    SetOf(Option<Name>, Box<Type>),
    /// `name < Type`.
    Selection(Name, Box<Type>),
    /// `ANY`, with the component that says what it is.
    Any(Option<Name>),
    /// A definition's name: a type, or a class where a class may stand.
    Reference(Reference),
    /// `CLASS.&field.&field`, or an object or object set and its fields.
    Field(Reference, Vec<Name>),
    /// `INSTANCE OF CLASS`.
    InstanceOf(Reference),
    /// A macro's notation.
    Macro(MacroUse),
    /// It could not be read; the error was reported.
    Broken,
}

/// `name(3)` of an INTEGER or BIT STRING.
#[derive(Clone, Debug)]
pub struct NamedNumber {
    /// The name.
    pub name: Name,
    /// The number, or a value's name.
    pub value: Value,
}

/// A part of an ENUMERATED.
#[derive(Clone, Debug)]
pub enum EnumItem {
    /// A name, with its number where one is written.
    Named(Name, Option<Value>),
    /// `...`.
    Extension,
}

/// A part of a SEQUENCE, SET or CHOICE.
#[derive(Clone, Debug)]
pub enum Item {
    /// A component.
    Component(Box<Component>),
    /// `COMPONENTS OF Type`.
    ComponentsOf(Type),
    /// `...`, with its exception's value where it has one.
    Extension(Span),
    /// `[[ version: … ]]`.
    Group(Option<Value>, Vec<Item>),
}

/// A component of a SEQUENCE or SET, an alternative of a CHOICE.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name; in older modules there need be none.
    pub name: Option<Name>,
    /// Its type.
    pub ty: Type,
    /// Whether it must be there.
    pub presence: Presence,
}

/// Whether a component must be there.
#[derive(Clone, Debug)]
pub enum Presence {
    /// It must.
    Required,
    /// `OPTIONAL`.
    Optional,
    /// `DEFAULT value`.
    Default(Value),
}

/// A macro's use: its name and what follows, as far as it is known.
#[derive(Clone, Debug)]
pub struct MacroUse {
    /// The macro.
    pub name: Name,
    /// The types in it, each with the macro's own word before it (`ARGUMENT`), and the name that it has.
    pub types: Vec<(String, Option<Name>, Type)>,
    /// Whether the macro is one whose meaning is known.
    pub is_standard: bool,
}

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// What it is.
    pub kind: ValueKind,
    /// Where.
    pub span: Span,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum ValueKind {
    /// `TRUE`, `FALSE`.
    Boolean(bool),
    /// `NULL`.
    Null,
    /// Digits, perhaps with a sign; nothing if they are more than 128 bits hold.
    Integer(Option<i128>),
    /// Digits with a fraction or an exponent, as written, with the sign.
    Real(String),
    /// `PLUS-INFINITY`, `MINUS-INFINITY`, `NOT-A-NUMBER`.
    SpecialReal(&'static str),
    /// `'01'B`: digits alone.
    Bits(String),
    /// `'0F'H`: digits alone.
    Hex(String),
    /// `"…"`, without the quotation marks.
    Text(String),
    /// A value's or object's name, a named number, an enumeration's item.
    Reference(Reference),
    /// `object.&field`.
    Field(Reference, Vec<Name>),
    /// `name : value`.
    Choice(Name, Box<Value>),
    /// `Type : value`.
    Open(Box<Type>, Box<Value>),
    /// `CONTAINING value`.
    Containing(Box<Value>),
    /// `{ … }`.
    Braced(Braced),
    /// `... '0F'H`, in values only.
    Extension(Extension),
    /// `MIN`.
    Min,
    /// `MAX`.
    Max,
    /// It could not be read; the error was reported.
    Broken,
}

/// An extension that its type does not know: `... '0F'H`, `... 2 : '0F'H` or `... [2] : '0F'H`. X.680 has no notation for
/// it; the checker refuses it in modules.
#[derive(Clone, Debug)]
pub struct Extension {
    /// The number of the addition or alternative, from zero.
    pub number: Option<i128>,
    /// The tag of the alternative.
    pub tag: Option<Box<Tag>>,
    /// The octets: digits alone.
    pub octets: String,
}

/// A constraint in parentheses.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// What it says.
    pub kind: ConstraintKind,
    /// Whether `! exception` stands in it.
    pub has_exception: bool,
    /// Where.
    pub span: Span,
}

/// What a constraint says.
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// A subtype.
    Set(SetSpec),
    /// `{ObjectSet}{@paths}`: a table constraint, and with paths a component relation.
    Table(Reference, Vec<AtPath>),
    /// `CONTAINING Type ENCODED BY value`.
    Contents(Option<Box<Type>>, Option<Value>),
    /// `CONSTRAINED BY { … }`.
    User,
    /// It could not be read; the error was reported.
    Broken,
}

/// `@.a.b`: how many dots, and the names.
#[derive(Clone, Debug)]
pub struct AtPath {
    /// Levels up; none is the outermost type.
    pub level: u32,
    /// The components' names.
    pub names: Vec<Name>,
}

/// A set of values or objects.
#[derive(Clone, Debug)]
pub struct SetSpec {
    /// Before `...`; nothing for `{...}`.
    pub root: Option<Set>,
    /// Whether `...` stands in it.
    pub is_extensible: bool,
    /// Behind `...`.
    pub additional: Option<Set>,
}

/// Elements joined.
#[derive(Clone, Debug)]
pub enum Set {
    /// `|`.
    Union(Vec<Set>),
    /// `^`.
    Intersection(Vec<Set>),
    /// `a EXCEPT b`.
    Except(Box<Set>, Box<Set>),
    /// `ALL EXCEPT a`.
    AllExcept(Box<Set>),
    /// One.
    Element(Box<Element>),
}

/// One element.
#[derive(Clone, Debug)]
pub enum Element {
    /// A value or an object.
    Value(Value),
    /// `lower .. upper`, each with whether `<` leaves it out.
    Range(Value, bool, Value, bool),
    /// `SIZE (…)`.
    Size(Box<Constraint>),
    /// `FROM (…)`.
    From(Box<Constraint>),
    /// A type, or a set's name; whether `INCLUDES` was written.
    Type(Box<Type>, bool),
    /// `WITH COMPONENT (…)`.
    Inner(Box<Constraint>),
    /// `WITH COMPONENTS { … }`; whether it begins with `...`.
    Components(bool, Vec<ComponentConstraint>),
    /// `PATTERN value`.
    Pattern(Value),
    /// `SETTINGS "…"`.
    Settings(String),
    /// `( … )`.
    Group(Box<SetSpec>),
}

/// What `WITH COMPONENTS` says of one component.
#[derive(Clone, Debug)]
pub struct ComponentConstraint {
    /// The component.
    pub name: Name,
    /// Its values.
    pub constraint: Option<Constraint>,
    /// `PRESENT` (true), `ABSENT` (false), `OPTIONAL` or nothing (none).
    pub presence: Option<bool>,
}

/// An information object class (X.681).
#[derive(Clone, Debug)]
pub struct Class {
    /// Its fields.
    pub fields: Vec<Field>,
    /// Its syntax, where it has one of its own.
    pub syntax: Option<Vec<SyntaxItem>>,
}

/// A class's field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name with `&`.
    pub name: Name,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether it may be left out: `OPTIONAL`, or a default.
    pub is_optional: bool,
    /// Its default, where it has one.
    pub default: Option<Argument>,
    /// `UNIQUE`.
    pub is_unique: bool,
}

/// What a field holds.
#[derive(Clone, Debug)]
pub enum FieldKind {
    /// `&Type`: a type.
    Type,
    /// `&value Type`: a value; an object if the type is a class.
    Value(Type),
    /// `&Set Type`: a set of values; an object set if the type is a class.
    Set(Type),
    /// `&value &Type`: a value whose type is in another field.
    VariableValue(Vec<Name>),
    /// `&Set &Type`: a set of such.
    VariableSet(Vec<Name>),
}

/// A part of `WITH SYNTAX`.
#[derive(Clone, Debug)]
pub enum SyntaxItem {
    /// A word, or a comma.
    Word(Name),
    /// A field.
    Field(Name),
    /// `[ … ]`.
    Optional(Vec<SyntaxItem>),
}
