//! JER: what `fusewire_codec::jer` asks of a type (X.697). A SEQUENCE or SET is an object with a member for each
//! component that is there, a CHOICE one with a member for the alternative, an ENUMERATED's item its name. What is
//! written has no member for a component that is its default.

use super::Encoding;
use super::encoding::{Entry, Form, Open, PLAIN, Place, What};
use super::limits::Limits;
use super::model::*;
use super::plain::fixed;
use super::write::Writer;

/// The JSON encoding rules.
pub static JER: Entry = Entry {
    encoding: Encoding::Jer,
    names: &["jer"],
    module: "jer",
    emit: |w, id| w.jer(id),
    open: Open { suffix: "_jer", argument: "", call: ("jer::from_bytes(", ")") },
    form,
    ..PLAIN
};

fn form(writer: &Writer<'_>, what: What<'_>, limits: &Limits, at: &Place) -> Option<Form> {
    let base = &at.base;
    match what {
        What::List(of) if writer.is_special(&JER, of) => {
            let put = writer.put(&JER, of, "e", true);
            let read = writer.take(&JER, of);
            Form::new(
                format!("to.array(&{base}[..], |to, e| {put})"),
                format!("from.array({read})"),
            )
        }
        What::Bits => {
            let n = fixed(limits)?;
            let put = format!("to.bits({base}.as_bytes(), {base}.unused(), Some({n}))");
            Form::new(put, format!("from.bits(Some({n}))"))
        }
        _ => None,
    }
}

impl Writer<'_> {
    /// What a definition needs for JER.
    fn jer(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = def.rust.as_str();
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(&JER, id, |w| w.jer_encode_struct(of));
                self.forward_decode(&JER, id, |w| w.jer_decode_struct(rust, of));
            }
            Shape::Enumerated(items, is_extensible) => {
                self.forward_encode(&JER, id, |w| {
                    writeln!(w, "match *self {{");
                    for (names, _) in items {
                        writeln!(w, "{rust}::{} => to.string({:?}),", names.rust, names.asn);
                    }
                    if *is_extensible {
                        writeln!(w, "{rust}::Unknown(number) => to.number(number),");
                    }
                    writeln!(w, "}}");
                });
                self.forward_decode(&JER, id, |w| {
                    writeln!(w, "let named = |name_: &str| match name_ {{");
                    for (names, _) in items {
                        writeln!(w, "{:?} => Some({rust}::{}),", names.asn, names.rust);
                    }
                    writeln!(w, "_ => None,");
                    writeln!(w, "}};");
                    let numbered = if *is_extensible { "Self::from_number" } else { "|_| None" };
                    writeln!(w, "from.item({rust:?}, named, {numbered})");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(&JER, id, of),
            Shape::Choice(of) => {
                self.forward_encode(&JER, id, |w| w.jer_encode_choice(rust, of));
                self.forward_decode(&JER, id, |w| w.jer_decode_choice(rust, of));
            }
        }
    }

    fn jer_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        let to = if of.fields.is_empty() { "_" } else { "to" };
        writeln!(self, "to.object(|{to}| {{");
        for field in &of.fields {
            let (asn, place) = (&field.names.asn, format!("self.{}", field.names.rust));
            if field.presence == Presence::Optional {
                let put = self.put(&JER, &field.ty, "value", true);
                writeln!(self, "if let Some(value) = &{place} {{");
                writeln!(self, "to.member({asn:?}, |to| {put})?;");
                writeln!(self, "}}");
                continue;
            }
            let condition = self.is_there(field);
            if let Some(condition) = &condition {
                writeln!(self, "if {condition} {{");
            }
            let put = self.put(&JER, &field.ty, &place, false);
            writeln!(self, "to.member({asn:?}, |to| {put})?;");
            if condition.is_some() {
                writeln!(self, "}}");
            }
        }
        writeln!(self, "Ok(())");
        writeln!(self, "}})");
    }

    /// Each component in a variable until all were there.
    fn jer_decode_struct(&mut self, rust: &str, of: &Struct) {
        for field in &of.fields {
            let ty = self.ty(&field.ty, "'a");
            writeln!(self, "let mut {}: Option<{ty}> = None;", field.names.rust);
        }
        writeln!(self, "from.object(|from, name_| match name_ {{");
        for field in &of.fields {
            let (name, asn) = (&field.names.rust, &field.names.asn);
            let take = self.take(&JER, &field.ty);
            if !self.is_checked(&field.ty) {
                writeln!(self, "{asn:?} => from.once(&mut {name}, {asn:?}, {take}),");
                continue;
            }
            writeln!(self, "{asn:?} => {{");
            writeln!(self, "let at_ = from.position();");
            writeln!(self, "from.once(&mut {name}, {asn:?}, {take})?;");
            self.decode_checks(field, true);
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        }
        match of.unknown_at {
            Some(_) => writeln!(self, "_ => from.skip().map(drop),"),
            None => writeln!(self, "_ => Err(from.unexpected({rust:?})),"),
        }
        writeln!(self, "}})?;");
        writeln!(self, "Ok({rust} {{");
        for field in &of.fields {
            let (name, asn) = (&field.names.rust, &field.names.asn);
            match &field.presence {
                Presence::Optional => writeln!(self, "{name},"),
                Presence::Required => {
                    writeln!(self, "{name}: {name}.ok_or_else(|| from.missing({asn:?}))?,");
                }
                Presence::Default(constant) => {
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    writeln!(self, "{name}: {name}.unwrap_or({default}),");
                }
            }
        }
        writeln!(self, "}})");
    }

    fn jer_encode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "match self {{");
        for alternative in &of.alternatives {
            let put = self.put(&JER, &alternative.ty, "value", true);
            writeln!(self, "{rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            let asn = &alternative.names.asn;
            writeln!(self, "to.object(|to| to.member({asn:?}, |to| {put}))");
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => to.unknown_alternative(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            writeln!(self, "_ => to.null(),");
        }
        writeln!(self, "}}");
    }

    fn jer_decode_choice(&mut self, rust: &str, of: &Choice) {
        let text = if of.is_extensible { "text_" } else { "_" };
        writeln!(self, "from.alternative(|from, name_, {text}| match name_ {{");
        for alternative in &of.alternatives {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let take = self.take(&JER, &alternative.ty);
            writeln!(self, "{asn:?} => {{");
            let read = format!("from.field({asn:?}, {take})");
            self.decode_alternative(rust, name, alternative, &read);
            writeln!(self, "}}");
        }
        match of.is_extensible {
            true => {
                let unknown = "from.unknown_alternative(name_, text_)";
                writeln!(self, "_ => {unknown}.map({rust}::Unknown),");
            }
            false => writeln!(self, "_ => Err(from.unexpected({rust:?})),"),
        }
        writeln!(self, "}})");
    }
}
