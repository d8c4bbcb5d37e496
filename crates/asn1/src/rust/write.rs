//! The model as Rust: types and constants. What each transfer syntax needs is beside this.

use super::lines::Lines;
use super::model::*;

/// What writes one module.
pub struct Writer<'m> {
    pub(super) model: &'m Model,
    pub(super) module: usize,
    pub(super) out: Lines,
}

impl<'m> Writer<'m> {
    /// Of a module.
    pub fn new(model: &'m Model, module: usize) -> Writer<'m> {
        Writer { model, module, out: Lines::new() }
    }

    /// What `writeln!` calls.
    pub fn write_fmt(&mut self, lines: std::fmt::Arguments<'_>) {
        self.out.write_fmt(lines);
    }
}

impl Writer<'_> {
    /// A definition's name where it is used in this module.
    pub fn path(&self, id: DefId) -> String {
        let def = &self.model.defs[id];
        if def.module == self.module {
            return def.rust.clone();
        }
        format!("super::{}::{}", self.model.modules[def.module].rust, def.rust)
    }

    /// `<'a>`, or `<'_>`, where a definition borrows.
    pub fn generics(&self, id: DefId, lifetime: &str) -> String {
        if self.model.defs[id].borrows { format!("<{lifetime}>") } else { String::new() }
    }

    /// A type as it is written.
    pub fn ty(&self, ty: &Use, lifetime: &str) -> String {
        let inner = match &ty.kind {
            Kind::Named(id) => format!("{}{}", self.path(*id), self.generics(*id, lifetime)),
            Kind::Plain(path, true) => format!("{path}<{lifetime}>"),
            Kind::Plain(path, false) => (*path).to_owned(),
            Kind::Vec(of) => format!("Vec<{}>", self.ty(of, lifetime)),
            Kind::SetOf(of) => format!("types::SetOf<{}>", self.ty(of, lifetime)),
        };
        if ty.is_boxed { format!("Box<{inner}>") } else { inner }
    }

    /// A definition's type.
    pub fn definition(&mut self, id: DefId) {
        let def = &self.model.defs[id];
        let generics = self.generics(id, "'a");
        writeln!(self);
        writeln!(self, "/// `{}`", def.asn);
        if let Shape::Alias(of) | Shape::Newtype(Newtype { inner: of, .. }) = &def.shape {
            self.note_width(of);
        }
        match &def.shape {
            Shape::Alias(of) => {
                let of = self.ty(of, "'a");
                writeln!(self, "pub type {}{generics} = {of};", def.rust);
            }
            Shape::Struct(of) => {
                writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
                writeln!(self, "pub struct {}{generics} {{", def.rust);
                for field in &of.fields {
                    let ty = self.field_type(field);
                    writeln!(self, "/// `{}`", field.names.asn);
                    self.note_width(&field.ty);
                    writeln!(self, "pub {}: {ty},", field.names.rust);
                }
                writeln!(self, "}}");
            }
            Shape::Choice(of) => {
                writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
                writeln!(self, "pub enum {}{generics} {{", def.rust);
                for alternative in &of.alternatives {
                    let ty = self.ty(&alternative.ty, "'a");
                    writeln!(self, "/// `{}`", alternative.names.asn);
                    self.note_width(&alternative.ty);
                    writeln!(self, "{}({ty}),", alternative.names.rust);
                }
                if of.is_extensible {
                    writeln!(
                        self,
                        "/// An alternative that this version does not know, as it is encoded."
                    );
                    writeln!(self, "Unknown(types::Any<'a>),");
                }
                writeln!(self, "}}");
            }
            Shape::Enumerated(items, is_extensible) => {
                self.enumerated(&def.rust, items, *is_extensible)
            }
            Shape::Newtype(of) => {
                let ty = self.ty(&of.inner, "'a");
                writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
                writeln!(self, "pub struct {}{generics}(pub {ty});", def.rust);
                self.named_numbers(id, of);
            }
            Shape::Pending => writeln!(self, "pub type {}<'a> = types::Any<'a>;", def.rust),
        }
    }

    /// Documents an INTEGER whose Rust type does not hold all values that its constraints allow.
    fn note_width(&mut self, ty: &Use) {
        match &ty.kind {
            Kind::Vec(of) | Kind::SetOf(of) => self.note_width(of),
            Kind::Plain("i64", _) => {
                let values = &ty.limits.values;
                if values.low().is_none() || values.high().is_none() {
                    writeln!(self, "///");
                    writeln!(
                        self,
                        "/// The module gives no bounds, and Rust's type holds 64 bits: decoding refuses wider numbers"
                    );
                    writeln!(self, "/// with `IntegerTooWide`.");
                }
            }
            _ => {}
        }
    }

    /// A component's type as it is written.
    pub fn field_type(&self, field: &Field) -> String {
        let ty = self.ty(&field.ty, "'a");
        if field.presence == Presence::Optional { format!("Option<{ty}>") } else { ty }
    }

    fn enumerated(&mut self, rust: &str, items: &[(Names, i64)], is_extensible: bool) {
        writeln!(self, "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]");
        writeln!(self, "pub enum {rust} {{");
        for (names, number) in items {
            writeln!(self, "/// `{}` ({number})", names.asn);
            writeln!(self, "{},", names.rust);
        }
        if is_extensible {
            writeln!(self, "/// An item that this version does not know.");
            writeln!(self, "Unknown(i64),");
        }
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl {rust} {{");
        writeln!(self, "/// Its number.");
        writeln!(self, "pub const fn number(self) -> i64 {{");
        writeln!(self, "match self {{");
        for (names, number) in items {
            writeln!(self, "{rust}::{} => {number},", names.rust);
        }
        if is_extensible {
            writeln!(self, "{rust}::Unknown(number) => number,");
        }
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "/// The item of a number.");
        writeln!(self, "pub const fn from_number(number: i64) -> Option<Self> {{");
        writeln!(self, "match number {{");
        for (names, number) in items {
            writeln!(self, "{number} => Some({rust}::{}),", names.rust);
        }
        let other = if is_extensible {
            format!("Some({rust}::Unknown(number))")
        } else {
            "None".to_owned()
        };
        writeln!(self, "_ => {other},");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    fn named_numbers(&mut self, id: DefId, of: &Newtype) {
        let range = match of.inner.kind {
            Kind::Plain(path, _) => type_range(path),
            _ => None,
        };
        let holds = |n: i128| range.is_some_and(|(low, high)| (low..=high).contains(&n));
        if of.names.is_empty() || !(of.are_bits || range.is_some()) {
            return;
        }
        let def = &self.model.defs[id];
        writeln!(self);
        writeln!(self, "impl {}{} {{", def.rust, self.generics(id, "'_"));
        for (names, number) in &of.names {
            if of.are_bits && (0..=i128::from(u32::MAX)).contains(number) {
                writeln!(self, "/// The bit `{}`", names.asn);
                writeln!(self, "pub const {}: usize = {number};", names.rust);
            } else if !of.are_bits && holds(*number) {
                writeln!(self, "/// `{}`", names.asn);
                writeln!(self, "pub const {}: Self = {}({number});", names.rust, def.rust);
            }
        }
        writeln!(self, "}}");
    }

    /// The module's values.
    pub fn constants(&mut self) {
        for (names, constant) in &self.model.modules[self.module].constants {
            let (ty, expression) = match constant {
                Constant::Boolean(value) => ("bool", value.to_string()),
                Constant::Integer(n) if i64::try_from(*n).is_ok() => ("i64", n.to_string()),
                Constant::Integer(n) => ("i128", n.to_string()),
                Constant::Oid(arcs) => ("types::Oid<'static>", oid(arcs)),
                _ => continue,
            };
            writeln!(self);
            writeln!(self, "/// `{}`", names.asn);
            writeln!(self, "pub const {}: {ty} = {expression};", names.rust);
        }
    }

    /// A constant as an expression of a type, where it is one of the type's.
    pub fn expression(&self, constant: &Constant, ty: &Use) -> Option<String> {
        if ty.is_boxed {
            return Some(format!("Box::new({})", self.expression_of(constant, &ty.kind)?));
        }
        self.expression_of(constant, &ty.kind)
    }

    fn expression_of(&self, constant: &Constant, kind: &Kind) -> Option<String> {
        if let Kind::Named(id) = kind {
            let path = self.path(*id);
            return match &self.model.defs[*id].shape {
                Shape::Alias(of) => self.expression(constant, of),
                Shape::Newtype(of) => {
                    Some(format!("{path}({})", self.expression(constant, &of.inner)?))
                }
                Shape::Enumerated(items, _) => {
                    let Constant::Item(name) = constant else { return None };
                    let (names, _) = items.iter().find(|i| i.0.asn == *name)?;
                    Some(format!("{path}::{}", names.rust))
                }
                _ => None,
            };
        }
        Some(match (constant, kind) {
            (Constant::Empty, Kind::Vec(_)) => "Vec::new()".to_owned(),
            (Constant::Empty, Kind::SetOf(_)) => "types::SetOf(Vec::new())".to_owned(),
            (Constant::Boolean(b), Kind::Plain("bool", _)) => b.to_string(),
            (Constant::Null, Kind::Plain("()", _)) => "()".to_owned(),
            (Constant::Integer(n), Kind::Plain(path, _)) if type_range(path).is_some() => {
                let (low, high) = type_range(path)?;
                (low..=high).contains(n).then(|| n.to_string())?
            }
            (Constant::Integer(n), Kind::Plain("types::Integer", _)) => {
                format!("types::Integer::from_be_bytes(&{:?})", n.to_be_bytes())
            }
            (Constant::Real(text), Kind::Plain("f64", _)) => text.clone(),
            (Constant::Bits(bytes, _), Kind::Plain("types::BitString", _)) if bytes.is_empty() => {
                "types::BitString::default()".to_owned()
            }
            (Constant::Bits(bytes, unused), Kind::Plain("types::BitString", _)) => {
                format!("types::BitString::new(&{bytes:?}, {unused}).unwrap_or_default()")
            }
            (Constant::Octets(bytes), Kind::Plain("types::Octets", _)) => {
                format!("types::Octets::new(&{bytes:?})")
            }
            (Constant::Text(text), Kind::Plain(path, true))
                if path.ends_with("String") && *path != "types::BitString"
                    || matches!(*path, "types::UtcTime" | "types::GeneralizedTime") =>
            {
                let escaped: String =
                    text.bytes().flat_map(|b| b.escape_ascii()).map(char::from).collect();
                format!("{path}::from_constant(b\"{escaped}\")")
            }
            // A default that is no valid time does not compile.
            (
                Constant::Text(text),
                Kind::Plain(path @ ("types::Date" | "types::TimeOfDay" | "types::DateTime"), _),
            ) => format!("const {{ {path}::from_constant(b\"{}\") }}", text.escape_default()),
            (Constant::Oid(arcs), Kind::Plain("types::Oid", _)) => oid(arcs),
            _ => return None,
        })
    }
}

/// What one of Rust's integers holds.
pub fn type_range(path: &str) -> Option<(i128, i128)> {
    Some(match path {
        "u8" => (0, u8::MAX.into()),
        "u16" => (0, u16::MAX.into()),
        "u32" => (0, u32::MAX.into()),
        "u64" => (0, u64::MAX.into()),
        "i8" => (i8::MIN.into(), i8::MAX.into()),
        "i16" => (i16::MIN.into(), i16::MAX.into()),
        "i32" => (i32::MIN.into(), i32::MAX.into()),
        "i64" => (i64::MIN.into(), i64::MAX.into()),
        _ => return None,
    })
}

/// An object identifier's contents, seven bits a byte.
pub fn oid_contents(arcs: &[u128]) -> Vec<u8> {
    let mut contents = Vec::new();
    let first = arcs.first().copied().unwrap_or(0).saturating_mul(40);
    let first = first.saturating_add(arcs.get(1).copied().unwrap_or(0));
    for arc in std::iter::once(first).chain(arcs.iter().skip(2).copied()) {
        let groups = (128 - arc.leading_zeros()).div_ceil(7).max(1);
        for group in (0..groups).rev() {
            let more = if group > 0 { 0x80 } else { 0 };
            contents.push((arc >> (7 * group) & 0x7f) as u8 | more);
        }
    }
    contents
}

fn oid(arcs: &[u128]) -> String {
    format!("types::Oid::from_constant(&{:?})", oid_contents(arcs))
}

#[cfg(test)]
mod tests {
    #[test]
    fn object_identifiers() {
        assert_eq!(super::oid_contents(&[1, 2, 840, 113549]), [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d]);
        assert_eq!(super::oid_contents(&[2, 999]), [0x88, 0x37]);
    }
}
