//! XDR: what `fusewire_codec::xdr` asks of a type, as `docs/xdr.md` maps it. A SEQUENCE is a structure, a CHOICE a
//! union, OPTIONAL is optional-data; what stands behind `...` is an array of opaque data.

use super::Encoding;
use super::checks::character_width;
use super::encoding::{Entry, Form, Forward, NOTHING, Open, PLAIN, Place, Step, To, What};
use super::forward::extended;
use super::limits::Limits;
use super::model::*;
use super::oer::groups;
use super::plain::{at_most, bits_as_octets, fixed, machine_integer};
use super::write::Writer;
use crate::ast::TagClass;

/// External data representation.
pub static XDR: Entry = Entry {
    encoding: Encoding::Xdr,
    names: &["xdr"],
    module: "xdr",
    emit: |w, id| w.forward(&XDR, id),
    forward: Forward {
        put_struct: |w, of| w.xdr_encode_struct(of),
        take_struct: |w, rust, of, to| w.xdr_decode_struct(rust, of, to),
        put_item: |w, _, _, _| {
            writeln!(w, "let number = i32::try_from(self.number()).map_err(|_| {{");
            writeln!(w, "to.error(codec::Problem::IntegerTooWide {{ bytes: 8 }})");
            writeln!(w, "}})?;");
            writeln!(w, "to.int(number)");
        },
        take_item: |w, rust, _, _| w.decode_item(rust, "i64::from(from.int()?)"),
        put_alternatives: |w, of| {
            let lines = |(alternative, number)| {
                Some(vec![format!("to.uint({number})?;"), w.put_alternative(&XDR, alternative)])
            };
            of.alternatives.iter().zip(numbers(of)).map(lines).collect()
        },
        put_unknown: "to.opaque_fixed(value.as_bytes())",
        put_none: NOTHING,
        take_choice: |w, id, of| {
            w.forward_choice(&XDR, id, |w, to| w.xdr_decode_choice(id, of, to))
        },
    },
    open: Open { suffix: "_xdr", argument: "", call: ("xdr::from_bytes(", ")") },
    form,
    ..PLAIN
};

fn form(writer: &Writer<'_>, what: What<'_>, limits: &Limits, at: &Place) -> Option<Form> {
    let Place { base, value, reference } = at;
    match what {
        What::List(of) => {
            let each = writer.elements(&XDR, of, at);
            let bound = at_most(limits);
            if let Some(n) = fixed(limits) {
                return each.fixed(n);
            }
            if bound.is_none() && !each.is_special {
                return None;
            }
            let bound = bound.map_or_else(|| "u32::MAX".to_owned(), |n| n.to_string());
            if !each.is_special {
                let take = format!("from.nested(|from| from.array({bound}))");
                return Form::new(format!("to.array({reference}, {bound})"), take);
            }
            let put = writer.put(&XDR, of, "e", true);
            Form::new(
                format!("to.array_of({reference}, {bound}, |to, e| {put})"),
                format!("from.nested(|from| from.array_of({bound}, {}))", each.read),
            )
        }
        What::Octets => match fixed(limits) {
            Some(n) => Form::new(
                format!("to.opaque_fixed({reference})"),
                format!("from.octets_fixed({n})"),
            ),
            None => {
                let most = at_most(limits)?;
                Form::new(format!("to.opaque({reference}, {most})"), format!("from.octets({most})"))
            }
        },
        What::Bits => bits_as_octets(limits, at, "opaque_fixed"),
        What::Wide => machine_integer("xdr", limits, at, false),
        What::Real if limits.binary == Some(32) => {
            Form::new(format!("to.float(({value}) as f32)"), "from.float().map(f64::from)")
        }
        What::Text(path) => {
            let width = character_width(path).filter(|&width| width > 0)?;
            let bound = at_most(limits)?.checked_mul(width)?;
            Form::new(
                format!("to.opaque({base}.as_bytes(), {bound})"),
                format!("from.text({bound})"),
            )
        }
        What::Number(_) | What::Real => None,
    }
}

impl Writer<'_> {
    fn xdr_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.xdr_encode_field(field);
        }
        let groups = self.groups_there(of);
        if !groups.is_empty() {
            writeln!(self, "if {} {{", extended(&groups));
            writeln!(self, "to.uint({})?;", groups.len());
            for (group, _) in groups {
                self.counted("to", |w| group.iter().for_each(|f| w.xdr_encode_field(f)));
            }
            writeln!(self, "}} else {{");
            writeln!(self, "to.uint(0)?;");
            writeln!(self, "}}");
        } else if of.unknown_at.is_some() {
            writeln!(self, "to.uint(0)?;");
        }
        self.end_put(of);
    }

    fn xdr_encode_field(&mut self, field: &Field) {
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            writeln!(self, "to.bool({place}.is_some())?;");
            return self.forward_encode_field(&XDR, field);
        }
        // A default is always there.
        let put = self.put_named(&XDR, field, &place, false);
        writeln!(self, "{put}?;");
    }

    fn xdr_decode_struct(&mut self, rust: &str, of: &Struct, to: To) {
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.take_field(&XDR, field, to, |w| w.xdr_step(field));
        }
        self.declare_additions(of, to);
        if of.unknown_at.is_some() {
            writeln!(self, "let additions_ = from.count(u32::MAX)?;");
            let groups = groups(of);
            for (n, group) in groups.iter().enumerate() {
                writeln!(self, "if additions_ > {n} {{");
                self.counted("from", |w| {
                    group.iter().for_each(|f| w.take_field(&XDR, f, to, |w| w.xdr_step(f)));
                });
                writeln!(self, "}}");
            }
            writeln!(self, "for _ in {}..additions_ {{", groups.len());
            writeln!(self, "from.skip_counted()?;");
            writeln!(self, "}}");
        }
        self.end_take(rust, of, to);
    }

    fn xdr_step(&mut self, field: &Field) -> Step {
        let (asn, read) = (&field.names.asn, self.take_component(&XDR, field));
        if field.presence != Presence::Optional {
            return Step { comes: None, value: read.clone(), read };
        }
        writeln!(self, "let is_there_ = from.field({asn:?}, |from| from.bool())?;");
        let take = self.take(&XDR, &field.ty);
        let value = format!("from.optional(is_there_, {asn:?}, {take})?");
        Step { comes: Some("is_there_".to_owned()), read, value }
    }

    fn xdr_decode_choice(&mut self, id: DefId, of: &Choice, to: To) {
        let model = self.model;
        let rust = model.defs[id].rust.as_str();
        let patterns = numbers(of).into_iter().map(|n| n.to_string());
        let (first, other) = match of.is_extensible {
            true => ("let _ = number_at_;", format!("from.unknown(other).map({rust}::Unknown)")),
            false => {
                let problem =
                    format!("codec::Problem::Discriminant {{ found, type_name: {rust:?} }}");
                ("let found = i64::from(other);", format!("Err({problem}.at(number_at_))"))
            }
        };
        let others = ["other => {".to_owned(), first.to_owned(), other, "}".to_owned()];
        writeln!(self, "let number_at_ = from.position();");
        self.match_number(&XDR, (id, of), "from.uint()?", patterns, &others, to);
    }
}

/// The discriminants of a union: the tags' numbers where all tags are of the context, otherwise places from zero.
fn numbers(of: &Choice) -> Vec<u32> {
    let number = |field: &Field| match (field.ty.tagging, field.begins.as_deref()) {
        (Tagging::Own, _) => None,
        (_, Some([WireTag { class: TagClass::Context, number }])) => Some(*number),
        _ => None,
    };
    let tags: Option<Vec<u32>> = of.alternatives.iter().map(number).collect();
    let is_distinct = |tags: &Vec<u32>| {
        let set: std::collections::HashSet<_> = tags.iter().collect();
        set.len() == tags.len()
    };
    tags.filter(is_distinct).unwrap_or_else(|| (0..of.alternatives.len() as u32).collect())
}
