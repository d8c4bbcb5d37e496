//! Types: declarations, and their traits.
//!
//! A value is written and read by an expression that is put together from its type, so that bounds stand
//! where a type is used and a typedef costs nothing.

use std::collections::{HashMap, HashSet};

use super::Writer;
use crate::model::*;

impl Writer<'_> {
    pub fn def(&mut self, def: &Def) {
        writeln!(self);
        writeln!(self, "/// `{}`", def.names.xdr);
        match &def.shape {
            Shape::Alias(ty) => {
                let ty = self.ty(ty);
                writeln!(self, "pub type {} = {ty};", def.names.rust);
            }
            Shape::Enum(variants) => self.enumeration(def, variants),
            Shape::Struct(fields) => self.structure(def, fields),
            Shape::Union(union) => self.union(def, union),
        }
    }

    // ---- types

    /// A type in Rust.
    pub fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::Int => "i32".to_owned(),
            Type::Uint => "u32".to_owned(),
            Type::Hyper => "i64".to_owned(),
            Type::Uhyper => "u64".to_owned(),
            Type::Float => "f32".to_owned(),
            Type::Double => "f64".to_owned(),
            Type::Quadruple => "[u8; 16]".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Opaque(Length::InPlace(n)) => format!("[u8; {n}]"),
            Type::Opaque(_) => "Vec<u8>".to_owned(),
            Type::Text(_) if self.options.utf8_strings => "String".to_owned(),
            Type::Text(_) => "Vec<u8>".to_owned(),
            Type::Array(of, Length::InPlace(n)) => format!("[{}; {n}]", self.ty(of)),
            Type::Array(of, _) => format!("Vec<{}>", self.ty(of)),
            Type::Optional(of) => format!("Option<{}>", self.ty(of)),
            Type::List(id) => format!("Vec<{}>", self.model.defs[*id].names.rust),
            Type::Named { id, is_boxed: true } => {
                format!("Box<{}>", self.model.defs[*id].names.rust)
            }
            Type::Named { id, .. } => self.model.defs[*id].names.rust.clone(),
            Type::Wrong => "()".to_owned(),
        }
    }

    /// Whether it has the traits of the run time itself: its bounds are its own.
    fn has_traits(&self, ty: &Type) -> bool {
        use Type as T;
        matches!(
            ty,
            T::Int
                | T::Uint
                | T::Hyper
                | T::Uhyper
                | T::Float
                | T::Double
                | T::Bool
                | T::Named { .. }
        )
    }

    /// Whether a fixed array of it is read without a vector in between.
    fn is_number(ty: &Type) -> bool {
        use Type as T;
        matches!(ty, T::Int | T::Uint | T::Hyper | T::Uhyper | T::Float | T::Double | T::Bool)
    }

    /// What writes the value that `at`, a reference, leads to.
    pub fn encoding(&self, ty: &Type, at: &str) -> String {
        let ty = self.model.target(ty);
        match ty {
            Type::Quadruple | Type::Opaque(Length::InPlace(_)) => format!("to.opaque_fixed({at})"),
            Type::Opaque(Length::Exactly(n)) => {
                format!("to.exactly(<[_]>::len({at}), {n}).and_then(|()| to.opaque_fixed({at}))")
            }
            Type::Opaque(Length::AtMost(n)) => format!("to.opaque({at}, {})", most(*n)),
            Type::Text(n) if self.options.utf8_strings => format!("to.string({at}, {})", most(*n)),
            Type::Text(n) => format!("to.opaque({at}, {})", most(*n)),
            Type::Array(of, length) => {
                let of = self.model.target(of);
                let (plain, inner) = (self.has_traits(of), self.encoding(of, "value"));
                match length {
                    Length::AtMost(n) if plain => format!("to.array({at}, {})", most(*n)),
                    Length::AtMost(n) => {
                        format!("to.array_of({at}, {}, |to, value| {inner})", most(*n))
                    }
                    Length::InPlace(_) if plain => format!("to.array_fixed({at})"),
                    Length::InPlace(_) => {
                        format!("<[_]>::iter({at}).try_for_each(|value| {inner})")
                    }
                    Length::Exactly(n) => format!(
                        "to.exactly(<[_]>::len({at}), {n}).and_then(|()| <[_]>::iter({at}).try_for_each(|value| {inner}))"
                    ),
                }
            }
            Type::Optional(of) => {
                let inner = self.encoding(of, "value");
                format!(
                    "match {at} {{ None => to.bool(false), Some(value) => to.bool(true).and_then(|()| {inner}) }}"
                )
            }
            Type::List(_) => {
                format!("to.list_of({at}, |to, value| xdr::Encode::encode(value, to))")
            }
            Type::Wrong => "Ok(())".to_owned(),
            _ => format!("xdr::Encode::encode({at}, to)"),
        }
    }

    /// What reads a value.
    pub fn decoding(&self, ty: &Type) -> String {
        let ty = self.model.target(ty);
        match ty {
            Type::Quadruple | Type::Opaque(Length::InPlace(_)) => "from.opaque_fixed()".to_owned(),
            Type::Opaque(Length::Exactly(n)) => format!("from.opaque_exact({n})"),
            Type::Opaque(Length::AtMost(n)) => format!("from.opaque({})", most(*n)),
            Type::Text(n) if self.options.utf8_strings => format!("from.utf8({})", most(*n)),
            Type::Text(n) => format!("from.string({})", most(*n)),
            Type::Array(of, length) => {
                let of = self.model.target(of);
                let inner = self.decoding(of);
                match length {
                    Length::AtMost(n) if self.has_traits(of) => format!("from.array({})", most(*n)),
                    Length::AtMost(n) => format!("from.array_of({}, |from| {inner})", most(*n)),
                    Length::InPlace(_) if Self::is_number(of) => "from.array_fixed()".to_owned(),
                    Length::InPlace(_) => format!("from.array_exact(|from| {inner})"),
                    Length::Exactly(n) => format!("from.elements({n}, |from| {inner})"),
                }
            }
            Type::Optional(of) => {
                let inner = self.decoding(of);
                format!("if from.bool()? {{ {inner}.map(Some) }} else {{ Ok(None) }}")
            }
            Type::List(_) => "from.list_of(xdr::Decode::decode)".to_owned(),
            Type::Wrong => "Ok(())".to_owned(),
            _ => "xdr::Decode::decode(from)".to_owned(),
        }
    }

    // ---- traits

    fn encode(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let function =
            "encode<S: codec::Sink>(&self, to: &mut xdr::Encoder<S>) -> Result<(), codec::Error>";
        self.implement(&format!("impl xdr::Encode for {name}"), function, body);
    }

    fn decode(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        let function = "decode<S: codec::Source<'a>>(from: &mut xdr::Decoder<S>) -> Result<Self, codec::Error>";
        self.implement(&format!("impl<'a> xdr::Decode<'a> for {name}"), function, body);
    }

    fn implement(&mut self, head: &str, function: &str, body: impl FnOnce(&mut Self)) {
        writeln!(self);
        writeln!(self, "{head} {{");
        writeln!(self, "#[allow(unused_variables, clippy::redundant_closure)]");
        writeln!(self, "fn {function} {{");
        body(self);
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    fn enumeration(&mut self, def: &Def, variants: &[Variant]) {
        let name = &def.names.rust;
        let mut first = HashMap::new();
        let mut same = Vec::new();
        writeln!(self, "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]");
        writeln!(self, "#[repr(i32)]");
        writeln!(self, "pub enum {name} {{");
        for variant in variants {
            if let Some(other) = first.insert(variant.number, variant) {
                first.insert(variant.number, other);
                same.push((variant, other));
                continue;
            }
            writeln!(self, "/// `{}`", variant.names.xdr);
            writeln!(self, "{} = {},", variant.names.rust, variant.number);
        }
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl {name} {{");
        for (variant, other) in same {
            writeln!(self, "/// `{}`, another name of it.", variant.names.xdr);
            writeln!(self, "#[allow(non_upper_case_globals)]");
            writeln!(self, "pub const {}: Self = Self::{};", variant.names.rust, other.names.rust);
        }
        writeln!(self, "/// The one of that number.");
        writeln!(self, "pub const fn from_number(number: i32) -> Option<Self> {{");
        writeln!(self, "Some(match number {{");
        let mut seen = HashSet::new();
        for variant in variants.iter().filter(|v| seen.insert(v.number)) {
            writeln!(self, "{} => Self::{},", variant.number, variant.names.rust);
        }
        writeln!(self, "_ => return None,");
        writeln!(self, "}})");
        writeln!(self, "}}");
        writeln!(self, "}}");
        self.encode(name, |w| writeln!(w, "to.int(*self as i32)"));
        self.decode(name, |w| {
            let read = "|n| Self::from_number(n.cast_signed())";
            writeln!(w, "from.enumeration(\"{}\", {read})", def.names.xdr);
        });
    }

    fn structure(&mut self, def: &Def, fields: &[Field]) {
        let name = &def.names.rust;
        writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
        writeln!(self, "pub struct {name} {{");
        for field in fields {
            let ty = self.ty(&field.ty);
            writeln!(self, "/// `{}`", field.names.xdr);
            writeln!(self, "pub {}: {ty},", field.names.rust);
        }
        writeln!(self, "}}");
        self.encode(name, |w| {
            for field in fields {
                let written = w.encoding(&field.ty, &format!("&self.{}", field.names.rust));
                let name = &field.names.xdr;
                // What fails there is the sink, not the field.
                match w.can_refuse(&field.ty) {
                    true => writeln!(w, "({written}).map_err(|e| e.in_field(\"{name}\"))?;"),
                    false => writeln!(w, "{written}?;"),
                }
            }
            writeln!(w, "Ok(())");
        });
        self.decode(name, |w| {
            let (open, close) =
                if def.is_recursive { ("from.nested(|from| ", ")") } else { ("", "") };
            writeln!(w, "{open}Ok(Self {{");
            for field in fields {
                let read = w.decoding(&field.ty);
                let names = &field.names;
                writeln!(w, "{}: from.field(\"{}\", |from| {read})?,", names.rust, names.xdr);
            }
            writeln!(w, "}}){close}");
        });
    }

    /// Whether writing it can fail for what it is.
    fn can_refuse(&self, ty: &Type) -> bool {
        let ty = self.model.target(ty);
        !Self::is_number(ty) && !matches!(ty, Type::Quadruple | Type::Opaque(Length::InPlace(_)))
    }

    fn union(&mut self, def: &Def, union: &Union) {
        let name = &def.names.rust;
        writeln!(self, "#[derive(Clone, Debug, PartialEq)]");
        writeln!(self, "pub enum {name} {{");
        for arm in &union.arms {
            writeln!(self, "/// {}", label(&arm.names.xdr, arm.field.as_ref()));
            match &arm.field {
                Some(field) => {
                    let ty = self.ty(&field.ty);
                    writeln!(self, "{}({ty}),", arm.names.rust);
                }
                None => writeln!(self, "{},", arm.names.rust),
            }
        }
        if let Some(default) = &union.default {
            let discriminant = self.ty(&union.discriminant);
            writeln!(self, "/// {}", label("default", default.as_ref()));
            match default {
                Some(field) => {
                    let ty = self.ty(&field.ty);
                    writeln!(self, "Default({discriminant}, {ty}),");
                }
                None => writeln!(self, "Default({discriminant}),"),
            }
        }
        writeln!(self, "}}");
        self.encode(name, |w| w.union_encoding(def, union));
        self.decode(name, |w| w.union_decoding(def, union));
    }

    fn union_encoding(&mut self, def: &Def, union: &Union) {
        writeln!(self, "match self {{");
        for arm in &union.arms {
            let names = &arm.names;
            let written = match &union.discriminant {
                Type::Uint => format!("to.uint({})", arm.value),
                Type::Bool => format!("to.bool({})", arm.value == 1),
                _ => format!("to.int({})", arm.value),
            };
            match &arm.field {
                Some(field) => {
                    let value = self.encoding(&field.ty, "value");
                    let path = format!(".map_err(|e| e.in_field(\"{}\"))", field.names.xdr);
                    writeln!(self, "Self::{}(value) => {{", names.rust);
                    writeln!(self, "{written}?;");
                    writeln!(self, "({value}){path}");
                    writeln!(self, "}}");
                }
                None => writeln!(self, "Self::{} => {written},", names.rust),
            }
        }
        if let Some(default) = &union.default {
            let with = if default.is_some() { ", value" } else { "" };
            writeln!(self, "Self::Default(discriminant{with}) => {{");
            // What has an arm of its own is no default.
            let cases: Vec<_> = union.arms.iter().map(|arm| self.case(union, arm)).collect();
            writeln!(self, "if matches!(discriminant, {}) {{", cases.join(" | "));
            let found = match &union.discriminant {
                Type::Named { .. } => "*discriminant as i64",
                _ => "i64::from(*discriminant)",
            };
            writeln!(
                self,
                "let problem = codec::Problem::Discriminant {{ found: {found}, type_name: \"{}\" }};",
                def.names.xdr
            );
            writeln!(self, "return Err(problem.at(to.position()));");
            writeln!(self, "}}");
            writeln!(self, "xdr::Encode::encode(discriminant, to)?;");
            match default {
                Some(field) => {
                    let value = self.encoding(&field.ty, "value");
                    writeln!(self, "({value}).map_err(|e| e.in_field(\"{}\"))", field.names.xdr);
                }
                None => writeln!(self, "Ok(())"),
            }
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    /// A case as a pattern.
    fn case(&self, union: &Union, arm: &Arm) -> String {
        match &union.discriminant {
            Type::Bool => (arm.value == 1).to_string(),
            Type::Named { id, .. } => {
                let Shape::Enum(variants) = &self.model.defs[*id].shape else {
                    return String::new();
                };
                let variant = variants.iter().find(|v| i64::from(v.number) == arm.value);
                let name = &self.model.defs[*id].names.rust;
                format!("{name}::{}", variant.map_or("", |v| &v.names.rust))
            }
            _ => arm.value.to_string(),
        }
    }

    /// Whether every value of the discriminant has an arm.
    fn is_complete(&self, union: &Union) -> bool {
        let values = match &union.discriminant {
            Type::Bool => 2,
            Type::Named { id, .. } => match &self.model.defs[*id].shape {
                Shape::Enum(variants) => {
                    variants.iter().map(|v| v.number).collect::<HashSet<_>>().len()
                }
                _ => return false,
            },
            _ => return false,
        };
        values == union.arms.len()
    }

    fn union_decoding(&mut self, def: &Def, union: &Union) {
        let (open, close) =
            if def.is_recursive { ("from.nested(|from| {", "})") } else { ("", "") };
        if def.is_recursive {
            writeln!(self, "{open}");
        }
        let is_complete = self.is_complete(union);
        if union.default.is_none() && !is_complete {
            writeln!(self, "let offset = from.position();");
        }
        let ty = self.ty(&union.discriminant);
        writeln!(self, "let discriminant: {ty} = xdr::Decode::decode(from)?;");
        writeln!(self, "match discriminant {{");
        for arm in &union.arms {
            let case = self.case(union, arm);
            let rust = &arm.names.rust;
            match &arm.field {
                Some(field) => {
                    let read = self.decoding(&field.ty);
                    let name = &field.names.xdr;
                    writeln!(
                        self,
                        "{case} => from.field(\"{name}\", |from| {read}).map(Self::{rust}),"
                    );
                }
                None => writeln!(self, "{case} => Ok(Self::{rust}),"),
            }
        }
        match &union.default {
            _ if is_complete => {}
            Some(Some(field)) => {
                let (read, name) = (self.decoding(&field.ty), &field.names.xdr);
                writeln!(
                    self,
                    "other => from.field(\"{name}\", |from| {read}).map(|value| Self::Default(other, value)),"
                );
            }
            Some(None) => writeln!(self, "other => Ok(Self::Default(other)),"),
            None => {
                let found = match &union.discriminant {
                    Type::Named { .. } => "other as i64",
                    _ => "i64::from(other)",
                };
                writeln!(
                    self,
                    "other => Err(codec::Problem::Discriminant {{ found: {found}, type_name: \"{}\" }}.at(offset)),",
                    def.names.xdr
                );
            }
        }
        writeln!(self, "}}");
        if def.is_recursive {
            writeln!(self, "{close}");
        }
    }
}

/// A bound as an expression.
fn most(n: u32) -> String {
    if n == u32::MAX { "u32::MAX".to_owned() } else { n.to_string() }
}

/// What an arm is, for its documentation.
fn label(case: &str, field: Option<&Field>) -> String {
    match field {
        Some(field) => format!("`{case}`: `{}`", field.names.xdr),
        None => format!("`{case}`: void"),
    }
}
