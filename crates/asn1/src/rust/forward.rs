//! What the syntaxes that write forwards have in common: components in order, a function that writes and one that reads.

use super::checks::Side;
use super::encoding::Entry;
use super::model::*;
use super::oer::groups;
use super::write::Writer;

impl Writer<'_> {
    /// An implementation of `Encode`.
    pub fn forward_encode(&mut self, syntax: &Entry, id: DefId, body: impl FnOnce(&mut Self)) {
        self.forward_encode_with(syntax, id, body, |_| {});
    }

    /// An implementation of `Encode`, with `more` functions.
    fn forward_encode_with(
        &mut self,
        syntax: &Entry,
        id: DefId,
        body: impl FnOnce(&mut Self),
        more: impl FnOnce(&mut Self),
    ) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        let (module, (declared, given)) = (syntax.module, syntax.generics);
        writeln!(self);
        writeln!(self, "impl {module}::Encode for {rust}{any} {{");
        writeln!(self, "fn encode<SinkT: codec::Sink{declared}>(");
        writeln!(self, "&self,");
        writeln!(self, "to: &mut {module}::Encoder<SinkT{given}>,");
        writeln!(self, ") -> Result<(), codec::Error> {{");
        body(self);
        writeln!(self, "}}");
        more(self);
        writeln!(self, "}}");
    }

    /// An implementation of `Decode`; one level deeper where the type holds itself.
    pub fn forward_decode(&mut self, syntax: &Entry, id: DefId, body: impl FnOnce(&mut Self)) {
        self.forward_decode_with(syntax, id, body, |_| {});
    }

    /// An implementation of `Decode`, with `more` functions.
    fn forward_decode_with(
        &mut self,
        syntax: &Entry,
        id: DefId,
        body: impl FnOnce(&mut Self),
        more: impl FnOnce(&mut Self),
    ) {
        let def = &self.model.defs[id];
        let (rust, a, is_recursive) = (&def.rust, self.generics(id, "'a"), def.is_recursive);
        let (module, (declared, given)) = (syntax.module, syntax.generics);
        writeln!(self);
        writeln!(self, "impl<'a> {module}::Decode<'a> for {rust}{a} {{");
        writeln!(self, "fn decode<SourceT: codec::Source<'a>{declared}>(");
        writeln!(self, "from: &mut {module}::Decoder<SourceT{given}>,");
        writeln!(self, ") -> Result<Self, codec::Error> {{");
        if is_recursive {
            writeln!(self, "from.nested(|from| {{");
        }
        body(self);
        if is_recursive {
            writeln!(self, "}})");
        }
        writeln!(self, "}}");
        more(self);
        writeln!(self, "}}");
    }

    /// A struct around a value: as that.
    pub fn forward_newtype(&mut self, syntax: &Entry, id: DefId, of: &Newtype) {
        let body = |w: &mut Self| {
            w.newtype_checks(of);
            let put = w.put_inner(syntax, of);
            writeln!(w, "{put}");
        };
        self.forward_encode_with(syntax, id, body, |w| (syntax.newtype)(w, id, of, &Side::Encode));
        let body = |w: &mut Self| {
            let rust = &w.model.defs[id].rust;
            let mut checks = w.own_checks(of, "value", false, &Side::Decode, "");
            if let Some(rules) = syntax.canonical.filter(|_| of.has_free_zeros()) {
                checks.extend(super::ber::no_free_zeros(rules));
            }
            let read = w.read(syntax, &of.inner);
            if checks.is_empty() {
                return writeln!(w, "{read}.map({rust})");
            }
            let ty = w.ty(&of.inner, "'a");
            writeln!(w, "let at_ = from.position();");
            writeln!(w, "let value: {ty} = {read}?;");
            checks.iter().for_each(|c| writeln!(w, "{c}"));
            writeln!(w, "Ok({rust}(value))");
        };
        self.forward_decode_with(syntax, id, body, |w| (syntax.newtype)(w, id, of, &Side::Decode));
    }

    /// An item of an ENUMERATED by its number.
    pub fn decode_item(&mut self, rust: &str, number: &str) {
        writeln!(self, "let at_ = from.position();");
        writeln!(self, "let found = {number};");
        writeln!(self, "Self::from_number(found).ok_or_else(|| {{");
        writeln!(self, "codec::Problem::Discriminant {{ found, type_name: {rust:?} }}.at(at_)");
        writeln!(self, "}})");
    }

    /// What is asked of a struct's value before it is encoded.
    pub fn newtype_checks(&mut self, of: &Newtype) {
        let checks = self.own_checks(of, "self.0", false, &Side::Encode, "");
        checks.iter().for_each(|c| writeln!(self, "{c}"));
    }

    /// What is asked of all components before any is encoded.
    pub fn root_checks(&mut self, of: &Struct) {
        of.fields.iter().for_each(|f| self.encode_checks(f));
    }

    /// What is asked of an alternative, `value`, before it is encoded.
    pub fn alternative_checks(&mut self, alternative: &Field) {
        let path = format!(".in_field({:?})", alternative.names.asn);
        let checks = self.checks(&alternative.ty, "value", true, &Side::Encode, &path);
        checks.iter().for_each(|c| writeln!(self, "{c}"));
    }

    /// An alternative that `read` reads, and what is asked of it.
    pub fn decode_alternative(&mut self, rust: &str, name: &str, field: &Field, read: &str) {
        let path = format!(".in_field({:?})", field.names.asn);
        let checks = self.checks(&field.ty, "value", false, &Side::Decode, &path);
        if checks.is_empty() {
            return writeln!(self, "{read}.map({rust}::{name})");
        }
        let ty = self.ty(&field.ty, "'a");
        writeln!(self, "let at_ = from.position();");
        writeln!(self, "let value: {ty} = {read}?;");
        checks.iter().for_each(|c| writeln!(self, "{c}"));
        writeln!(self, "Ok({rust}::{name}(value))");
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
            writeln!(self, "let mut {name}: {ty} = {start};");
        }
    }

    /// A component that its bit says is there.
    pub fn forward_encode_field(&mut self, syntax: &Entry, field: &Field) {
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            let put = self.put(syntax, &field.ty, "value", true);
            writeln!(self, "if let Some(value) = &{place} {{");
            writeln!(self, "{put}?;");
            return writeln!(self, "}}");
        }
        let put = self.put(syntax, &field.ty, &place, false);
        match self.is_there(field) {
            Some(condition) => {
                writeln!(self, "if {condition} {{");
                writeln!(self, "{put}?;");
                writeln!(self, "}}");
            }
            None => writeln!(self, "{put}?;"),
        }
    }

    /// Reads a component that its bit says is there.
    pub fn forward_decode_field(
        &mut self,
        syntax: &Entry,
        field: &Field,
        bit: &mut usize,
        count: usize,
    ) {
        if self.is_checked(&field.ty) {
            writeln!(self, "let at_ = from.position();");
        }
        let (name, ty) = (field.names.rust.clone(), self.field_type(field));
        let read = self.bit_step(syntax, field, bit, count);
        self.declare(&name, &ty, &read);
        self.decode_checks(field, field.presence == Presence::Optional);
    }

    /// A variable of a type.
    pub fn declare(&mut self, name: &str, ty: &str, read: &str) {
        if ty == "()" {
            writeln!(
                self,
                "#[allow(clippy::let_unit_value, reason = \"NULL is a component, too\")]"
            );
        }
        writeln!(self, "let {name}: {ty} = {read};");
    }

    /// How a component is read, the number of its bit among `count`.
    pub fn bit_step(&self, syntax: &Entry, field: &Field, bit: &mut usize, count: usize) -> String {
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
        match syntax.canonical {
            Some(_) => format!("from.default({condition}, {name}, {default}, {take})?"),
            None => format!("from.optional({condition}, {name}, {take})?.unwrap_or({default})"),
        }
    }
}
