//! What OER, XDR and LWS have in common: components in order, a function that writes and one that reads.

use super::checks::Side;
use super::model::*;
use super::oer::groups;
use super::plain::Forward;
use super::write::{Writer, line, type_range};

impl Writer<'_> {
    /// An implementation of `Encode`.
    pub fn forward_encode(&mut self, syntax: Forward, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        line!(self);
        line!(self, "impl {}::Encode for {rust}{any} {{", syntax.module());
        match syntax {
            Forward::Lws => {
                line!(self, "    fn encode<SinkT: codec::Sink, WordT: lws::Word>(");
                line!(self, "        &self,");
                line!(self, "        to: &mut lws::Encoder<SinkT, WordT>,");
            }
            _ => {
                line!(self, "    fn encode<SinkT: codec::Sink>(");
                line!(self, "        &self,");
                line!(self, "        to: &mut {}::Encoder<SinkT>,", syntax.module());
            }
        }
        line!(self, "    ) -> Result<(), codec::Error> {{");
        body(self);
        line!(self, "    }}");
        line!(self, "}}");
    }

    /// An implementation of `Decode`; one level deeper where the type holds itself.
    pub fn forward_decode(&mut self, syntax: Forward, id: DefId, body: impl FnOnce(&mut Self)) {
        let def = &self.model.defs[id];
        let (rust, a, is_recursive) = (&def.rust, self.generics(id, "'a"), def.is_recursive);
        line!(self);
        line!(self, "impl<'a> {}::Decode<'a> for {rust}{a} {{", syntax.module());
        match syntax {
            Forward::Lws => {
                line!(self, "    fn decode<SourceT: codec::Source<'a>, WordT: lws::Word>(");
                line!(self, "        from: &mut lws::Decoder<SourceT, WordT>,");
            }
            _ => {
                line!(self, "    fn decode<SourceT: codec::Source<'a>>(");
                line!(self, "        from: &mut {}::Decoder<SourceT>,", syntax.module());
            }
        }
        line!(self, "    ) -> Result<Self, codec::Error> {{");
        if is_recursive {
            line!(self, "        from.nested(|from| {{");
        }
        body(self);
        if is_recursive {
            line!(self, "        }})");
        }
        line!(self, "    }}");
        line!(self, "}}");
    }

    /// A struct around a value: as that. In LWS an array of such is one of what they hold.
    pub fn forward_newtype(&mut self, syntax: Forward, id: DefId, of: &Newtype) {
        let rust = self.model.defs[id].rust.clone();
        let ty = self.ty(&of.inner, "'a");
        self.forward_encode(syntax, id, |w| {
            w.newtype_checks(of);
            let put = w.put_inner(syntax, of);
            line!(w, "        {put}");
        });
        self.forward_decode(syntax, id, |w| {
            let mut checks = w.own_checks(of, "value", false, &Side::Decode, "");
            if syntax == Forward::Oer && of.has_free_zeros() {
                checks.extend(super::ber::no_free_zeros("oer::Rules::Coer"));
            }
            let read = w.read(syntax, &of.inner);
            if checks.is_empty() {
                return line!(w, "        {read}.map({rust})");
            }
            line!(w, "        let at_ = from.position();");
            line!(w, "        let value: {ty} = {read}?;");
            checks.iter().for_each(|c| line!(w, "        {c}"));
            line!(w, "        Ok({rust}(value))");
        });
        if syntax == Forward::Lws && self.is_packed(of) {
            self.packed(id, of);
        }
    }

    /// Whether arrays of it lie closer than its values do alone.
    pub(super) fn is_packed(&self, of: &Newtype) -> bool {
        let leaf = self.leaf(&of.inner);
        let is_number = match leaf.kind {
            Kind::Plain("f64" | "types::Integer", _) => true,
            Kind::Plain(path, _) => type_range(path).is_some(),
            _ => false,
        };
        let are_packed = |id: &DefId| match &self.model.defs[*id].shape {
            Shape::Newtype(of) => self.is_packed(of),
            _ => false,
        };
        is_number
            && !self.is_special(Forward::Lws, &of.inner)
            && leaf.newtypes.first().is_none_or(are_packed)
    }

    fn packed(&mut self, id: DefId, of: &Newtype) {
        let rust = self.model.defs[id].rust.clone();
        let ty = self.ty(&of.inner, "'a");
        let end = "    }\n}\n";
        let leaf = self.leaf(&of.inner);
        let copy = match leaf.kind {
            Kind::Plain("types::Integer", _) => ".clone()",
            _ if !leaf.way.is_empty() => ".clone()",
            _ => "",
        };
        // Into the implementations that were written last: first the one that decodes.
        let decode_all = {
            let checks =
                self.checks(&of.inner, "value", true, &Side::Decode, ".in_element(index_)");
            let mut text = String::from("    }\n\n");
            text += "    fn decode_all<SourceT: codec::Source<'a>, WordT: lws::Word>(\n";
            text += "        count: usize,\n";
            text += "        from: &mut lws::Decoder<SourceT, WordT>,\n";
            text += "    ) -> Result<Vec<Self>, codec::Error> {\n";
            if !checks.is_empty() {
                text += "        let at_ = from.position();\n";
            }
            text +=
                &format!("        let all = <{ty} as lws::Decode>::decode_all(count, from)?;\n");
            if !checks.is_empty() {
                text += "        for (index_, value) in all.iter().enumerate() {\n";
                checks.iter().for_each(|c| text += &format!("            {c}\n"));
                text += "        }\n";
            }
            text += &format!("        Ok(all.into_iter().map({rust}).collect())\n");
            text + end
        };
        let encode_all = {
            let checks =
                self.checks(&of.inner, "value.0", false, &Side::Encode, ".in_element(index_)");
            let mut text = String::from("    }\n\n");
            text += "    fn encode_all<SinkT: codec::Sink, WordT: lws::Word>(\n";
            text += "        values: &[Self],\n";
            text += "        to: &mut lws::Encoder<SinkT, WordT>,\n";
            text += "    ) -> Result<(), codec::Error> {\n";
            if !checks.is_empty() {
                text += "        for (index_, value) in values.iter().enumerate() {\n";
                checks.iter().for_each(|c| text += &format!("            {c}\n"));
                text += "        }\n";
            }
            text += &format!(
                "        let all: Vec<_> = values.iter().map(|value| value.0{copy}).collect();\n"
            );
            text += "        lws::Encode::encode_all(&all, to)\n";
            text + end
        };
        let at = self.out.rfind(end).unwrap_or(self.out.len());
        self.out.replace_range(at.., &decode_all);
        let head = self.out.rfind("\nimpl<'a> lws::Decode<'a>").unwrap_or(self.out.len());
        let at = self.out[..head].rfind(end).unwrap_or(head);
        self.out.replace_range(at..head, &encode_all);
    }

    /// An item of an ENUMERATED by its number.
    pub fn decode_item(&mut self, rust: &str, number: &str) {
        line!(self, "        let at_ = from.position();");
        line!(self, "        let found = {number};");
        line!(self, "        Self::from_number(found).ok_or_else(|| {{");
        line!(
            self,
            "            codec::Problem::Discriminant {{ found, type_name: {rust:?} }}.at(at_)"
        );
        line!(self, "        }})");
    }

    /// What is asked of a struct's value before it is encoded.
    pub fn newtype_checks(&mut self, of: &Newtype) {
        let checks = self.own_checks(of, "self.0", false, &Side::Encode, "");
        checks.iter().for_each(|c| line!(self, "        {c}"));
    }

    /// What is asked of all components before any is encoded.
    pub fn root_checks(&mut self, of: &Struct) {
        of.fields.iter().for_each(|f| self.encode_checks(f, "        "));
    }

    /// What is asked of an alternative, `value`, before it is encoded.
    pub fn alternative_checks(&mut self, alternative: &Field) {
        let path = format!(".in_field({:?})", alternative.names.asn);
        let checks = self.checks(&alternative.ty, "value", true, &Side::Encode, &path);
        checks.iter().for_each(|c| line!(self, "                {c}"));
    }

    /// An alternative that `read` reads, and what is asked of it.
    pub fn decode_alternative(&mut self, rust: &str, name: &str, field: &Field, read: &str) {
        let path = format!(".in_field({:?})", field.names.asn);
        let checks = self.checks(&field.ty, "value", false, &Side::Decode, &path);
        if checks.is_empty() {
            return line!(self, "                {read}.map({rust}::{name})");
        }
        let ty = self.ty(&field.ty, "'a");
        line!(self, "                let at_ = from.position();");
        line!(self, "                let value: {ty} = {read}?;");
        checks.iter().for_each(|c| line!(self, "                {c}"));
        line!(self, "                Ok({rust}::{name}(value))");
    }

    /// Whether one of an addition's components is there, as a condition.
    pub fn any_is_there(&self, group: &[&Field]) -> String {
        let there: Vec<_> = group.iter().filter_map(|f| self.is_there(f)).collect();
        if there.is_empty() { "false".to_owned() } else { there.join(" || ") }
    }

    /// Variables for what stands behind `...`.
    pub fn declare_additions(&mut self, of: &Struct) {
        if groups(of).is_empty() {
            return;
        }
        for field in of.fields.iter().filter(|f| f.addition.is_some()) {
            let (name, ty) = (&field.names.rust, self.field_type(field));
            let start = match &field.presence {
                Presence::Default(constant) => {
                    self.expression(constant, &field.ty).unwrap_or_default()
                }
                _ => "None".to_owned(),
            };
            line!(self, "        let mut {name}: {ty} = {start};");
        }
    }

    /// A component that its bit says is there.
    pub fn forward_encode_field(&mut self, syntax: Forward, field: &Field, indent: &str) {
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            let put = self.put(syntax, &field.ty, "value", true);
            line!(self, "{indent}if let Some(value) = &{place} {{");
            line!(self, "{indent}    {put}?;");
            return line!(self, "{indent}}}");
        }
        let put = self.put(syntax, &field.ty, &place, false);
        match self.is_there(field) {
            Some(condition) => {
                line!(self, "{indent}if {condition} {{");
                line!(self, "{indent}    {put}?;");
                line!(self, "{indent}}}");
            }
            None => line!(self, "{indent}{put}?;"),
        }
    }

    /// Reads a component that its bit says is there.
    pub fn forward_decode_field(
        &mut self,
        syntax: Forward,
        field: &Field,
        bit: &mut usize,
        count: usize,
        indent: &str,
    ) {
        if self.is_checked(&field.ty) {
            line!(self, "{indent}let at_ = from.position();");
        }
        let (name, ty) = (field.names.rust.clone(), self.field_type(field));
        let read = self.bit_step(syntax, field, bit, count);
        self.declare(&name, &ty, &read, indent);
        self.decode_checks(field, field.presence == Presence::Optional, indent);
    }

    /// A variable of a type.
    pub fn declare(&mut self, name: &str, ty: &str, read: &str, indent: &str) {
        if ty == "()" {
            line!(
                self,
                "{indent}#[allow(clippy::let_unit_value, reason = \"NULL is a component, too\")]"
            );
        }
        line!(self, "{indent}let {name}: {ty} = {read};");
    }

    /// How a component is read, the number of its bit among `count`.
    pub fn bit_step(
        &self,
        syntax: Forward,
        field: &Field,
        bit: &mut usize,
        count: usize,
    ) -> String {
        let name = format!("{:?}", field.names.asn);
        let take = self.take(syntax, &field.ty);
        if field.presence == Presence::Required {
            return format!("from.field({name}, {take})?");
        }
        let condition = super::lws::condition(*bit, count);
        *bit += 1;
        let Presence::Default(constant) = &field.presence else {
            return format!("from.optional({condition}, {name}, {take})?");
        };
        let default = self.expression(constant, &field.ty).unwrap_or_default();
        match syntax {
            Forward::Oer => format!("from.default({condition}, {name}, {default}, {take})?"),
            _ => format!("from.optional({condition}, {name}, {take})?.unwrap_or({default})"),
        }
    }
}
