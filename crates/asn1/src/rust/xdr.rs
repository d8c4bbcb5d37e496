//! XDR: what `fusewire_codec::xdr` asks of a type, as `docs/xdr.md` maps it. A SEQUENCE is a structure, a CHOICE a
//! union, OPTIONAL is optional-data; what stands behind `...` is an array of opaque data.

use super::model::*;
use super::oer::groups;
use super::plain::Forward;
use super::write::{Writer, line};
use crate::ast::TagClass;

impl Writer<'_> {
    /// What a definition needs for XDR.
    pub fn xdr(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = def.rust.as_str();
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(Forward::Xdr, id, |w| w.xdr_encode_struct(of));
                self.forward_decode(Forward::Xdr, id, |w| w.xdr_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(Forward::Xdr, id, |w| {
                    line!(w, "        let number = i32::try_from(self.number()).map_err(|_| {{");
                    line!(w, "            to.error(codec::Problem::IntegerTooWide {{ bytes: 8 }})");
                    line!(w, "        }})?;");
                    line!(w, "        to.int(number)");
                });
                self.forward_decode(Forward::Xdr, id, |w| {
                    w.decode_item(rust, "i64::from(from.int()?)");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(Forward::Xdr, id, of),
            Shape::Choice(of) => {
                self.forward_encode(Forward::Xdr, id, |w| w.xdr_encode_choice(rust, of));
                self.forward_decode(Forward::Xdr, id, |w| w.xdr_decode_choice(rust, of));
            }
        }
    }

    fn xdr_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.xdr_encode_field(field, "        ");
        }
        let groups = groups(of);
        if !groups.is_empty() {
            let there: Vec<String> = groups.iter().map(|g| self.any_is_there(g)).collect();
            line!(self, "        if {} {{", there.join(" || "));
            line!(self, "            to.uint({})?;", groups.len());
            for group in groups {
                line!(self, "            to.counted(|to| {{");
                group.iter().for_each(|f| self.xdr_encode_field(f, "                "));
                line!(self, "                Ok(())");
                line!(self, "            }})?;");
            }
            line!(self, "        }} else {{");
            line!(self, "            to.uint(0)?;");
            line!(self, "        }}");
        } else if of.unknown_at.is_some() {
            line!(self, "        to.uint(0)?;");
        } else if of.fields.is_empty() {
            line!(self, "        let _ = to;");
        }
        line!(self, "        Ok(())");
    }

    fn xdr_encode_field(&mut self, field: &Field, indent: &str) {
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            let put = self.put(Forward::Xdr, &field.ty, "value", true);
            line!(self, "{indent}to.bool({place}.is_some())?;");
            line!(self, "{indent}if let Some(value) = &{place} {{");
            line!(self, "{indent}    {put}?;");
            line!(self, "{indent}}}");
        } else {
            let put = self.put(Forward::Xdr, &field.ty, &place, false);
            line!(self, "{indent}{put}?;");
        }
    }

    fn xdr_decode_struct(&mut self, rust: &str, of: &Struct) {
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.xdr_decode_field(field, true, "        ");
        }
        self.declare_additions(of);
        if of.unknown_at.is_some() {
            line!(self, "        let additions_ = from.count(u32::MAX)?;");
            let groups = groups(of);
            for (n, group) in groups.iter().enumerate() {
                line!(self, "        if additions_ > {n} {{");
                line!(self, "            from.counted(|from| {{");
                group.iter().for_each(|f| self.xdr_decode_field(f, false, "                "));
                line!(self, "                Ok(())");
                line!(self, "            }})?;");
                line!(self, "        }}");
            }
            line!(self, "        for _ in {}..additions_ {{", groups.len());
            line!(self, "            from.skip_counted()?;");
            line!(self, "        }}");
        } else if of.fields.is_empty() {
            line!(self, "        let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        line!(self, "        Ok({rust} {{ {} }})", names.join(", "));
    }

    fn xdr_decode_field(&mut self, field: &Field, is_declared: bool, indent: &str) {
        let (name, asn) = (&field.names.rust, &field.names.asn);
        if self.is_checked(&field.ty) {
            line!(self, "{indent}let at_ = from.position();");
        }
        let take = self.take(Forward::Xdr, &field.ty);
        let is_option = field.presence == Presence::Optional;
        let read = match is_option {
            true => {
                line!(self, "{indent}let is_there_ = from.field({asn:?}, |from| from.bool())?;");
                format!("from.component(is_there_, {asn:?}, {take})?")
            }
            false => format!("from.field({asn:?}, {take})?"),
        };
        if is_declared {
            let ty = self.field_type(field);
            self.declare(name, &ty, &read, indent);
        } else {
            line!(self, "{indent}{name} = {read};");
        }
        self.decode_checks(field, is_option, indent);
    }

    fn xdr_encode_choice(&mut self, rust: &str, of: &Choice) {
        let numbers = numbers(of);
        line!(self, "        match self {{");
        for (alternative, number) in of.alternatives.iter().zip(numbers) {
            line!(self, "            {rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            let put = self.put(Forward::Xdr, &alternative.ty, "value", true);
            line!(self, "                to.uint({number})?;");
            match alternative.addition {
                Some(_) => line!(self, "                to.counted(|to| {put})"),
                None => line!(self, "                {put}"),
            }
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            {rust}::Unknown(value) => to.opaque_fixed(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            line!(self, "            _ => {{");
            line!(self, "                let _ = to;");
            line!(self, "                Ok(())");
            line!(self, "            }}");
        }
        line!(self, "        }}");
    }

    fn xdr_decode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        let number_at_ = from.position();");
        line!(self, "        match from.uint()? {{");
        for (alternative, number) in of.alternatives.iter().zip(numbers(of)) {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let take = self.take(Forward::Xdr, &alternative.ty);
            let read = match alternative.addition {
                Some(_) => format!("|from| from.counted({take})"),
                None => take,
            };
            line!(self, "            {number} => {{");
            self.decode_alternative(
                rust,
                name,
                alternative,
                &format!("from.field({asn:?}, {read})"),
            );
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            other => {{");
            line!(self, "                let _ = number_at_;");
            line!(self, "                from.unknown(other).map({rust}::Unknown)");
            line!(self, "            }}");
        } else {
            line!(self, "            other => {{");
            line!(self, "                let found = i64::from(other);");
            line!(
                self,
                "                Err(codec::Problem::Discriminant {{ found, type_name: {rust:?} }}.at(number_at_))"
            );
            line!(self, "            }}");
        }
        line!(self, "        }}");
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
