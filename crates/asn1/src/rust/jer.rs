//! JER: what `fusewire_codec::jer` asks of a type (X.697). A SEQUENCE or SET is an object with a member for each
//! component that is there, a CHOICE one with a member for the alternative, an ENUMERATED's item its name. What is
//! written has no member for a component that is its default.

use super::Encoding;
use super::encoding::{Entry, Form, Forward, Open, PLAIN, Place, What};
use super::limits::Limits;
use super::model::*;
use super::plain::fixed;
use super::write::Writer;

/// The JSON encoding rules.
pub static JER: Entry = Entry {
    encoding: Encoding::Jer,
    names: &["jer"],
    module: "jer",
    emit: |w, id| w.forward(&JER, id),
    is_in_place: false,
    forward: Forward {
        put_struct: |w, of| w.jer_encode_struct(of),
        take_struct: |w, rust, of, _| w.jer_decode_struct(rust, of),
        put_item: |w, rust, items, is_extensible| {
            writeln!(w, "match *self {{");
            for (names, _) in items {
                writeln!(w, "{rust}::{} => to.string({:?}),", names.rust, names.asn);
            }
            if is_extensible {
                writeln!(w, "{rust}::Unknown(number) => to.number(number),");
            }
            writeln!(w, "}}");
        },
        take_item: |w, rust, items, is_extensible| {
            writeln!(w, "let named = |name_: &str| match name_ {{");
            for (names, _) in items {
                writeln!(w, "{:?} => Some({rust}::{}),", names.asn, names.rust);
            }
            writeln!(w, "_ => None,");
            writeln!(w, "}};");
            let numbered = if is_extensible { "Self::from_number" } else { "|_| None" };
            writeln!(w, "from.item({rust:?}, named, {numbered})");
        },
        put_alternatives: |w, of| {
            let line = |alternative: &Field| {
                let put = w.put(&JER, &alternative.ty, "value", true);
                let asn = &alternative.names.asn;
                Some(vec![format!("to.object(|to| to.member({asn:?}, |to| {put}))")])
            };
            of.alternatives.iter().map(line).collect()
        },
        put_unknown: "to.unknown_alternative(value.as_bytes())",
        put_none: &["_ => to.null(),"],
        take_choice: |w, id, of| w.forward_decode(&JER, id, |w| w.jer_decode_choice(id, of)),
    },
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
        self.gather(rust, of, |_, name, default| format!("{name}.unwrap_or({default})"));
    }

    fn jer_decode_choice(&mut self, id: DefId, of: &Choice) {
        let model = self.model;
        let rust = model.defs[id].rust.as_str();
        let (text, other) = match of.is_extensible {
            true => {
                ("text_", format!("from.unknown_alternative(name_, text_).map({rust}::Unknown)"))
            }
            false => ("_", format!("Err(from.unexpected({rust:?}))")),
        };
        let case = |alternative: &Field| {
            let (asn, take) = (&alternative.names.asn, self.take(&JER, &alternative.ty));
            (format!("{asn:?}"), format!("from.field({asn:?}, {take})"))
        };
        let cases: Vec<_> = of.alternatives.iter().map(case).collect();
        writeln!(self, "from.alternative(|from, name_, {text}| match name_ {{");
        self.match_alternatives(rust, of, cases.into_iter(), &[format!("_ => {other},")]);
        writeln!(self, "}})");
    }
}
