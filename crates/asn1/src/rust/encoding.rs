//! What a transfer syntax is to the compiler: an entry, which stands in the file that writes its code, and is named in
//! the list `ENCODINGS`.

use super::Encoding;
use super::checks::{Leaf, Side};
use super::limits::Limits;
use super::model::*;
use super::write::Writer;

/// A transfer syntax. A module of `fusewire_codec` has its encoder, its decoder and the traits that a type implements.
pub struct Entry {
    pub encoding: Encoding,
    /// What it is called on a command line.
    pub names: &'static [&'static str],
    /// Its module of `fusewire_codec`; what two entries have in common is written once.
    pub module: &'static str,
    /// Writes what a definition needs.
    pub emit: fn(&mut Writer<'_>, DefId),
    /// Structs are decoded where they stay.
    pub is_in_place: bool,
    /// How values are written and read, by a syntax that writes forwards.
    pub forward: Forward,
    /// How the value of an open type is read.
    pub open: Open,
    /// How a value is written and read whose Rust type does not say it.
    pub form: fn(&Writer<'_>, What<'_>, &Limits, &Place) -> Option<Form>,
    /// What its encoder and decoder are generic over beside sink and source: declared, and given.
    pub generics: (&'static str, &'static str),
    /// Its canonical rules, if it has such: what leaves out defaults, and zeros at the end of named bits.
    pub canonical: Option<&'static str>,
    /// More functions of the traits for a struct around a value.
    pub newtype: fn(&mut Writer<'_>, DefId, &Newtype, &Side),
}

/// How the value of an open type is read by a function that is written for each table.
pub struct Open {
    /// What the function's name ends with.
    pub suffix: &'static str,
    pub argument: &'static str,
    /// What is called: in front of the bytes, and behind them.
    pub call: (&'static str, &'static str),
}

/// How what a value is made of is written and read, by a syntax that writes forwards.
pub struct Forward {
    /// Writes the components of a SEQUENCE or SET.
    pub put_struct: fn(&mut Writer<'_>, &Struct),
    /// Reads them, into a struct of that name.
    pub take_struct: fn(&mut Writer<'_>, &str, &Struct, To),
    /// Writes an item of an ENUMERATED of that name, which may have others than these.
    pub put_item: fn(&mut Writer<'_>, &str, &[(Names, i64)], bool),
    /// Reads one.
    pub take_item: fn(&mut Writer<'_>, &str, &[(Names, i64)], bool),
    /// For each alternative of a CHOICE the lines that write it; none for one that cannot be written.
    pub put_alternatives: fn(&Writer<'_>, &Choice) -> Vec<Option<Vec<String>>>,
    /// Writes `value`, an alternative that is not known.
    pub put_unknown: &'static str,
    /// What stands for the alternatives of a CHOICE that has none.
    pub put_none: &'static [&'static str],
    /// Reads an alternative of a definition.
    pub take_choice: fn(&mut Writer<'_>, DefId, &Choice),
}

/// Where the components of a structure go that is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To variables, of which the structure is made at the end.
    Variables,
    /// To their places in `place_`.
    Places,
}

/// How a component is read.
pub struct Step {
    /// Whether it comes, as a condition, of one that need not.
    pub comes: Option<String>,
    /// What reads it if it comes: a value of its type.
    pub read: String,
    /// What reads it or says what stands for it: the component's value, which may be an `Option` or a default.
    pub value: String,
}

/// Of a syntax that does not write forwards.
const NO_FORWARD: Forward = Forward {
    put_struct: |_, _| {},
    take_struct: |_, _, _, _| {},
    put_item: |_, _, _, _| {},
    take_item: |_, _, _, _| {},
    put_alternatives: |_, _| Vec::new(),
    put_unknown: "",
    put_none: NOTHING,
    take_choice: |_, _, _| {},
};

/// Nothing is written.
pub const NOTHING: &[&str] = &["_ => {", "let _ = to;", "Ok(())", "}"];

/// An entry of a syntax of which the Rust type always says the form.
pub const PLAIN: Entry = Entry {
    encoding: Encoding::Ber,
    names: &[],
    module: "",
    emit: |_, _| {},
    is_in_place: true,
    forward: NO_FORWARD,
    open: Open { suffix: "", argument: "", call: ("", "") },
    form: |_, _, _, _| None,
    generics: ("", ""),
    canonical: None,
    newtype: |_, _, _, _| {},
};

/// A type whose constraints may change its encoding.
#[derive(Clone, Copy)]
pub enum What<'m> {
    /// SEQUENCE OF or SET OF, by its elements.
    List(&'m Use),
    /// OCTET STRING.
    Octets,
    /// BIT STRING.
    Bits,
    /// An INTEGER whose Rust type holds every number.
    Wide,
    /// An INTEGER of the machine, by its Rust type.
    Number(&'static str),
    Real,
    /// A character string, by its Rust type.
    Text(&'static str),
}

impl<'m> What<'m> {
    /// What a type is at last; none for a definition.
    pub fn of(leaf: &Leaf<'m>) -> Option<What<'m>> {
        Some(match leaf.kind {
            Kind::Vec(of) | Kind::SetOf(of) => What::List(of),
            Kind::Plain("types::Octets", _) => What::Octets,
            Kind::Plain("types::BitString", _) => What::Bits,
            Kind::Plain("types::Integer", _) => What::Wide,
            Kind::Plain("f64", _) => What::Real,
            Kind::Plain(path, _) if super::write::type_range(path).is_some() => What::Number(path),
            Kind::Plain(path, _) => What::Text(path),
            Kind::Named(_) => return None,
        })
    }
}

/// A value's place, as expressions.
pub struct Place {
    /// What a method is called on.
    pub base: String,
    /// The value itself.
    pub value: String,
    pub reference: String,
}

impl Place {
    /// A place, or a reference to one, and the way from there.
    pub fn new(base: &str, is_ref: bool, way: &str) -> Place {
        if is_ref && way.is_empty() {
            return Place {
                base: base.to_owned(),
                value: format!("*{base}"),
                reference: base.to_owned(),
            };
        }
        let base = format!("{base}{way}");
        Place { value: base.clone(), reference: format!("&{base}"), base }
    }
}

/// How a value is written and read: an expression with `to` that gives a `Result`, and one with `from`.
pub struct Form {
    /// Writes it.
    pub put: String,
    /// Reads it.
    pub take: String,
}

impl Form {
    /// A form.
    pub fn new(put: impl Into<String>, take: impl Into<String>) -> Option<Form> {
        Some(Form { put: put.into(), take: take.into() })
    }
}
