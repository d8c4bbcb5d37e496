//! XDR: what `fusewire_codec::xdr` asks of a type, as `docs/xdr.md` maps it. A SEQUENCE is a structure, a CHOICE a
//! union, OPTIONAL is optional-data; what stands behind `...` is an array of opaque data.

use super::Encoding;
use super::checks::character_width;
use super::encoding::{Entry, Form, Open, PLAIN, Place, What};
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
    emit: |w, id| w.xdr(id),
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
    /// What a definition needs for XDR.
    pub fn xdr(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = def.rust.as_str();
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(&XDR, id, |w| w.xdr_encode_struct(of));
                self.forward_decode(&XDR, id, |w| w.xdr_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(&XDR, id, |w| {
                    writeln!(w, "let number = i32::try_from(self.number()).map_err(|_| {{");
                    writeln!(w, "to.error(codec::Problem::IntegerTooWide {{ bytes: 8 }})");
                    writeln!(w, "}})?;");
                    writeln!(w, "to.int(number)");
                });
                self.forward_decode(&XDR, id, |w| {
                    w.decode_item(rust, "i64::from(from.int()?)");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(&XDR, id, of),
            Shape::Choice(of) => {
                self.forward_encode(&XDR, id, |w| w.xdr_encode_choice(rust, of));
                self.forward_decode(&XDR, id, |w| w.xdr_decode_choice(rust, of));
            }
        }
    }

    fn xdr_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.xdr_encode_field(field);
        }
        let groups = groups(of);
        if !groups.is_empty() {
            let there: Vec<String> = groups.iter().map(|g| self.any_is_there(g)).collect();
            writeln!(self, "if {} {{", there.join(" || "));
            writeln!(self, "to.uint({})?;", groups.len());
            for group in groups {
                writeln!(self, "to.counted(|to| {{");
                group.iter().for_each(|f| self.xdr_encode_field(f));
                writeln!(self, "Ok(())");
                writeln!(self, "}})?;");
            }
            writeln!(self, "}} else {{");
            writeln!(self, "to.uint(0)?;");
            writeln!(self, "}}");
        } else if of.unknown_at.is_some() {
            writeln!(self, "to.uint(0)?;");
        } else if of.fields.is_empty() {
            writeln!(self, "let _ = to;");
        }
        writeln!(self, "Ok(())");
    }

    fn xdr_encode_field(&mut self, field: &Field) {
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            let put = self.put(&XDR, &field.ty, "value", true);
            writeln!(self, "to.bool({place}.is_some())?;");
            writeln!(self, "if let Some(value) = &{place} {{");
            writeln!(self, "{put}?;");
            writeln!(self, "}}");
        } else {
            let put = self.put(&XDR, &field.ty, &place, false);
            writeln!(self, "{put}?;");
        }
    }

    fn xdr_decode_struct(&mut self, rust: &str, of: &Struct) {
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.xdr_decode_field(field, true);
        }
        self.declare_additions(of);
        if of.unknown_at.is_some() {
            writeln!(self, "let additions_ = from.count(u32::MAX)?;");
            let groups = groups(of);
            for (n, group) in groups.iter().enumerate() {
                writeln!(self, "if additions_ > {n} {{");
                writeln!(self, "from.counted(|from| {{");
                group.iter().for_each(|f| self.xdr_decode_field(f, false));
                writeln!(self, "Ok(())");
                writeln!(self, "}})?;");
                writeln!(self, "}}");
            }
            writeln!(self, "for _ in {}..additions_ {{", groups.len());
            writeln!(self, "from.skip_counted()?;");
            writeln!(self, "}}");
        } else if of.fields.is_empty() {
            writeln!(self, "let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        writeln!(self, "Ok({rust} {{ {} }})", names.join(", "));
    }

    fn xdr_decode_field(&mut self, field: &Field, is_declared: bool) {
        let (name, asn) = (&field.names.rust, &field.names.asn);
        if self.is_checked(&field.ty) {
            writeln!(self, "let at_ = from.position();");
        }
        let take = self.take(&XDR, &field.ty);
        let is_option = field.presence == Presence::Optional;
        let read = match is_option {
            true => {
                writeln!(self, "let is_there_ = from.field({asn:?}, |from| from.bool())?;");
                format!("from.optional(is_there_, {asn:?}, {take})?")
            }
            false => format!("from.field({asn:?}, {take})?"),
        };
        if is_declared {
            let ty = self.field_type(field);
            self.declare(name, &ty, &read);
        } else {
            writeln!(self, "{name} = {read};");
        }
        self.decode_checks(field, is_option);
    }

    fn xdr_encode_choice(&mut self, rust: &str, of: &Choice) {
        let numbers = numbers(of);
        writeln!(self, "match self {{");
        for (alternative, number) in of.alternatives.iter().zip(numbers) {
            writeln!(self, "{rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            let put = self.put(&XDR, &alternative.ty, "value", true);
            writeln!(self, "to.uint({number})?;");
            match alternative.addition {
                Some(_) => writeln!(self, "to.counted(|to| {put})"),
                None => writeln!(self, "{put}"),
            }
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => to.opaque_fixed(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            writeln!(self, "_ => {{");
            writeln!(self, "let _ = to;");
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn xdr_decode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "let number_at_ = from.position();");
        writeln!(self, "match from.uint()? {{");
        for (alternative, number) in of.alternatives.iter().zip(numbers(of)) {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let take = self.take(&XDR, &alternative.ty);
            let read = match alternative.addition {
                Some(_) => format!("|from| from.counted({take})"),
                None => take,
            };
            writeln!(self, "{number} => {{");
            self.decode_alternative(
                rust,
                name,
                alternative,
                &format!("from.field({asn:?}, {read})"),
            );
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "other => {{");
            writeln!(self, "let _ = number_at_;");
            writeln!(self, "from.unknown(other).map({rust}::Unknown)");
            writeln!(self, "}}");
        } else {
            writeln!(self, "other => {{");
            writeln!(self, "let found = i64::from(other);");
            writeln!(
                self,
                "Err(codec::Problem::Discriminant {{ found, type_name: {rust:?} }}.at(number_at_))"
            );
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
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
