//! What the syntaxes that write forwards have in common: components in order, a function that writes and one that reads.

use super::checks::Side;
use super::encoding::{Entry, Step, To};
use super::model::*;
use super::oer::groups;
use super::write::Writer;

impl Writer<'_> {
    /// What a definition needs for a syntax that writes forwards.
    pub fn forward(&mut self, syntax: &Entry, id: DefId) {
        let model = self.model;
        let (rust, forward) = (model.defs[id].rust.as_str(), &syntax.forward);
        match &model.defs[id].shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(syntax, id, |w| (forward.put_struct)(w, of));
                let take = |w: &mut Self, to| (forward.take_struct)(w, rust, of, to);
                match syntax.is_in_place && model.is_in_place(id) {
                    true => self.forward_decode_in_place(syntax, id, take),
                    false => self.forward_decode(syntax, id, |w| take(w, To::Variables)),
                }
            }
            Shape::Enumerated(items, is_extensible) => {
                let is_extensible = *is_extensible;
                self.forward_encode(syntax, id, |w| {
                    (forward.put_item)(w, rust, items, is_extensible)
                });
                self.forward_decode(syntax, id, |w| {
                    (forward.take_item)(w, rust, items, is_extensible)
                });
            }
            Shape::Newtype(of) => self.forward_newtype(syntax, id, of),
            Shape::Choice(of) => {
                let lines = (forward.put_alternatives)(self, of);
                let put = |w: &mut Self| {
                    w.put_choice(rust, of, &lines, forward.put_unknown, forward.put_none);
                };
                self.forward_encode(syntax, id, put);
                (forward.take_choice)(self, id, of);
            }
        }
    }

    /// A CHOICE is written: for each alternative the lines that do, and how one that is not known is.
    pub fn put_choice(
        &mut self,
        rust: &str,
        of: &Choice,
        lines: &[Option<Vec<String>>],
        unknown: &str,
        none: &[&str],
    ) {
        writeln!(self, "match self {{");
        for (alternative, lines) in of.alternatives.iter().zip(lines) {
            let name = &alternative.names.rust;
            if let Some(lines) = lines {
                writeln!(self, "{rust}::{name}(value) => {{");
                self.alternative_checks(alternative);
                lines.iter().for_each(|line| writeln!(self, "{line}"));
            } else {
                let problem = "codec::Problem::Unsupported(\"an alternative without a tag\")";
                writeln!(self, "{rust}::{name}(_) => {{");
                writeln!(self, "Err(to.error({problem}))");
            }
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => {unknown},");
        } else if of.alternatives.is_empty() {
            none.iter().for_each(|line| writeln!(self, "{line}"));
        }
        writeln!(self, "}}");
    }

    /// What writes an alternative, `value`: behind its length where it is an addition.
    pub fn put_alternative(&self, syntax: &Entry, alternative: &Field) -> String {
        let put = self.put_named(syntax, alternative, "value", true);
        match alternative.addition {
            Some(_) => format!("to.counted(|to| {put})"),
            None => put,
        }
    }

    /// What reads an alternative: behind its length where it is an addition.
    pub fn take_alternative(&self, syntax: &Entry, alternative: &Field) -> String {
        let take = self.take(syntax, &alternative.ty);
        let read = match alternative.addition {
            Some(_) => format!("|from| from.counted({take})"),
            None => take,
        };
        format!("from.field({:?}, {read})", alternative.names.asn)
    }

    /// A CHOICE is read by a match: for each alternative its pattern and what reads it; and lines for all others.
    pub fn match_alternatives(
        &mut self,
        rust: &str,
        of: &Choice,
        cases: impl Iterator<Item = (String, String)>,
        others: &[String],
    ) {
        for (alternative, (pattern, read)) in of.alternatives.iter().zip(cases) {
            writeln!(self, "{pattern} => {{");
            self.decode_alternative(rust, alternative, &read);
            writeln!(self, "}}");
        }
        others.iter().for_each(|line| writeln!(self, "{line}"));
    }

    /// A CHOICE is read by a match on its number, by value or where it stays.
    pub fn match_number(
        &mut self,
        syntax: &Entry,
        (id, of): (DefId, &Choice),
        number: &str,
        patterns: impl Iterator<Item = String>,
        others: &[String],
        to: To,
    ) {
        let rust = self.model.defs[id].rust.as_str();
        if to == To::Variables {
            let reads: Vec<_> =
                of.alternatives.iter().map(|a| self.take_alternative(syntax, a)).collect();
            writeln!(self, "match {number} {{");
            self.match_alternatives(rust, of, patterns.zip(reads), others);
            return writeln!(self, "}}");
        }
        writeln!(self, "let value_ = match {number} {{");
        for (n, (alternative, pattern)) in of.alternatives.iter().zip(patterns).enumerate() {
            writeln!(self, "{pattern} => {{");
            if self.is_alternative_placed(alternative) {
                self.alternative_in_place(syntax, rust, of, n);
            } else {
                let read = self.take_alternative(syntax, alternative);
                self.decode_alternative(rust, alternative, &read);
            }
            writeln!(self, "}}");
        }
        others.iter().for_each(|line| writeln!(self, "{line}"));
        writeln!(self, "}};");
        writeln!(self, "*place_ = value_?;");
        writeln!(self, "Ok(())");
    }

    /// An alternative that is large, where it stays.
    fn alternative_in_place(&mut self, syntax: &Entry, rust: &str, of: &Choice, n: usize) {
        let (name, asn) = (&of.alternatives[n].names.rust, &of.alternatives[n].names.asn);
        let into = format!("{}::Decode::decode_into", syntax.module);
        if n > 0 {
            writeln!(self, "*place_ = {rust}::{name}(codec::Blank::blank());");
        }
        let is_only = of.alternatives.len() == 1 && !of.is_extensible;
        let otherwise = if is_only { "" } else { " else { return Ok(()) }" };
        writeln!(self, "let {rust}::{name}(value) = place_{otherwise};");
        writeln!(self, "return from.field_into({asn:?}, value, {into});");
    }

    /// A CHOICE is read by asking about one alternative after the other: the condition of each and what reads it; and
    /// what reads all others.
    pub fn ask_alternatives(
        &mut self,
        rust: &str,
        cases: &[(String, String, &Field)],
        other: &str,
    ) {
        let mut otherwise = "";
        for (condition, read, alternative) in cases {
            writeln!(self, "{otherwise}if {condition} {{");
            self.decode_alternative(rust, alternative, read);
            otherwise = "} else ";
        }
        if cases.is_empty() {
            return writeln!(self, "{other}");
        }
        writeln!(self, "}} else {{");
        writeln!(self, "{other}");
        writeln!(self, "}}");
    }

    /// Writes the root of a structure, behind bits that say which of its components follow; gives the additions, each
    /// with the condition that it is there.
    pub fn put_root<'f>(
        &mut self,
        syntax: &Entry,
        of: &'f Struct,
        root: &[&Field],
    ) -> Vec<(Vec<&'f Field>, String)> {
        self.root_checks(of);
        let groups = self.groups_there(of);
        let mut bits = Vec::new();
        if of.unknown_at.is_some() {
            bits.push(extended(&groups));
        }
        bits.extend(root.iter().filter_map(|f| self.is_there(f)));
        self.presence_bits(&bits, "presence");
        root.iter().for_each(|field| self.forward_encode_field(syntax, field));
        groups
    }

    /// The additions of a structure, each with the condition that it is there.
    pub fn groups_there<'f>(&self, of: &'f Struct) -> Vec<(Vec<&'f Field>, String)> {
        let with_condition = |group: Vec<&'f Field>| {
            let there: Vec<_> = group.iter().filter_map(|f| self.is_there(f)).collect();
            let there = if there.is_empty() { "false".to_owned() } else { there.join(" || ") };
            (group, there)
        };
        groups(of).into_iter().map(with_condition).collect()
    }

    /// Reads the root of a structure behind its bits, and declares what stands behind `...`. Gives the condition that
    /// there are additions.
    pub fn take_root(&mut self, syntax: &Entry, of: &Struct, root: &[&Field], to: To) -> String {
        let optional = root.iter().filter(|f| f.presence != Presence::Required).count();
        let mut bit = usize::from(of.unknown_at.is_some());
        let count = optional + bit;
        self.read_presence(count);
        for field in root {
            self.take_field(syntax, field, to, |w| w.bit_step(syntax, field, &mut bit, count));
        }
        self.declare_additions(of, to);
        super::lws::condition(0, count.max(1))
    }

    /// The end of what writes a structure.
    pub fn end_put(&mut self, of: &Struct) {
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = to;");
        }
        writeln!(self, "Ok(())");
    }

    /// The end of what reads a structure.
    pub fn end_take(&mut self, rust: &str, of: &Struct, to: To) {
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = from;");
        }
        if to == To::Places {
            return writeln!(self, "Ok(())");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        writeln!(self, "Ok({rust} {{ {} }})", names.join(", "));
    }

    /// A structure of components that are each in a variable, if it was there; `unless` gives it or its default.
    pub fn gather(
        &mut self,
        rust: &str,
        of: &Struct,
        unless: impl Fn(&str, &str, String) -> String,
    ) {
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
                    writeln!(self, "{name}: {},", unless(asn, name, default));
                }
            }
        }
        writeln!(self, "}})");
    }

    /// What `body` writes, within a length: of `to`, or `from`.
    pub fn counted(&mut self, coder: &str, body: impl FnOnce(&mut Self)) {
        writeln!(self, "{coder}.counted(|{coder}| {{");
        body(self);
        writeln!(self, "Ok(())");
        writeln!(self, "}})?;");
    }

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

    /// An implementation of `Decode`, with `more` functions; one level deeper where the type holds itself.
    fn forward_decode_with(
        &mut self,
        syntax: &Entry,
        id: DefId,
        body: impl FnOnce(&mut Self),
        more: impl FnOnce(&mut Self),
    ) {
        self.decode_impl(syntax, id, |w| w.nested(id, body), more);
    }

    fn decode_impl(
        &mut self,
        syntax: &Entry,
        id: DefId,
        body: impl FnOnce(&mut Self),
        more: impl FnOnce(&mut Self),
    ) {
        let (rust, a) = (&self.model.defs[id].rust, self.generics(id, "'a"));
        let (module, (declared, given)) = (syntax.module, syntax.generics);
        writeln!(self);
        writeln!(self, "impl<'a> {module}::Decode<'a> for {rust}{a} {{");
        writeln!(self, "fn decode<SourceT: codec::Source<'a>{declared}>(");
        writeln!(self, "from: &mut {module}::Decoder<SourceT{given}>,");
        writeln!(self, ") -> Result<Self, codec::Error> {{");
        body(self);
        writeln!(self, "}}");
        more(self);
        writeln!(self, "}}");
    }

    /// What `body` reads, one level deeper where the type holds itself.
    fn nested(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let is_recursive = self.model.defs[id].is_recursive;
        if is_recursive {
            writeln!(self, "from.nested(|from| {{");
        }
        body(self);
        if is_recursive {
            writeln!(self, "}})");
        }
    }

    /// An implementation of `Decode` of a struct that is read where it stays, which `body` does.
    fn forward_decode_in_place(
        &mut self,
        syntax: &Entry,
        id: DefId,
        body: impl FnOnce(&mut Self, To),
    ) {
        let by_value = |w: &mut Self| {
            writeln!(w, "let mut value = <Self as codec::Blank>::blank();");
            writeln!(w, "{}::Decode::decode_into(&mut value, from)?;", syntax.module);
            writeln!(w, "Ok(value)");
        };
        self.decode_impl(syntax, id, by_value, |w| w.decode_into(syntax, id, body));
    }

    /// An implementation of `Decode` of a CHOICE: where it stays, too, if one of its alternatives is large.
    pub fn forward_choice(&mut self, syntax: &Entry, id: DefId, body: impl Fn(&mut Self, To)) {
        let is_in_place = syntax.is_in_place && self.model.is_in_place(id);
        self.forward_decode_with(
            syntax,
            id,
            |w| body(w, To::Variables),
            |w| {
                if is_in_place {
                    w.decode_into(syntax, id, &body);
                }
            },
        );
    }

    /// What reads a value where it stays, within its `Decode`.
    fn decode_into(&mut self, syntax: &Entry, id: DefId, body: impl FnOnce(&mut Self, To)) {
        let (module, (declared, given)) = (syntax.module, syntax.generics);
        self.says_in_place();
        writeln!(self, "fn decode_into<SourceT: codec::Source<'a>{declared}>(");
        writeln!(self, "place_: &mut Self,");
        writeln!(self, "from: &mut {module}::Decoder<SourceT{given}>,");
        writeln!(self, ") -> Result<(), codec::Error> {{");
        self.nested(id, |w| body(w, To::Places));
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
            w.checked(&w.read(syntax, &of.inner), &of.inner, &checks, rust);
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
    pub fn decode_alternative(&mut self, rust: &str, field: &Field, read: &str) {
        let path = format!(".in_field({:?})", field.names.asn);
        let checks = self.checks(&field.ty, "value", false, &Side::Decode, &path);
        self.checked(read, &field.ty, &checks, &format!("{rust}::{}", field.names.rust));
    }

    /// A value that `read` reads, what is asked of it, and what is made of it.
    pub fn checked(&mut self, read: &str, ty: &Use, checks: &[String], make: &str) {
        if checks.is_empty() {
            return writeln!(self, "{read}.map({make})");
        }
        let ty = self.ty(ty, "'a");
        writeln!(self, "let at_ = from.position();");
        writeln!(self, "let value: {ty} = {read}?;");
        checks.iter().for_each(|c| writeln!(self, "{c}"));
        writeln!(self, "Ok({make}(value))");
    }

    /// Variables for what stands behind `...`; a place holds already what stands for a component that does not come.
    pub fn declare_additions(&mut self, of: &Struct, to: To) {
        if groups(of).is_empty() || to == To::Places {
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
            let put = self.put_named(syntax, field, "value", true);
            writeln!(self, "if let Some(value) = &{place} {{");
            writeln!(self, "{put}?;");
            return writeln!(self, "}}");
        }
        let put = self.put_named(syntax, field, &place, false);
        match self.is_there(field) {
            Some(condition) => {
                writeln!(self, "if {condition} {{");
                writeln!(self, "{put}?;");
                writeln!(self, "}}");
            }
            None => writeln!(self, "{put}?;"),
        }
    }

    /// Reads a component as `step` says: into its place, or a variable, which that of an addition was declared before.
    pub fn take_field(
        &mut self,
        syntax: &Entry,
        field: &Field,
        to: To,
        step: impl FnOnce(&mut Self) -> Step,
    ) {
        let is_checked = self.is_checked(&field.ty);
        if is_checked {
            writeln!(self, "let at_ = from.position();");
        }
        let (name, step) = (&field.names.rust, step(self));
        if to == To::Places && !is_checked {
            return self.take_to_place(syntax, field, step);
        }
        match to == To::Variables && field.addition.is_some() {
            true => writeln!(self, "{name} = {};", step.value),
            false => self.declare(name, &self.field_type(field), &step.value),
        }
        self.decode_checks(field, field.presence == Presence::Optional);
        if to == To::Places {
            writeln!(self, "place_.{name} = {name};");
        }
    }

    /// Reads a component into its place, which holds what stands for one that does not come.
    fn take_to_place(&mut self, syntax: &Entry, field: &Field, step: Step) {
        let (name, asn) = (&field.names.rust, &field.names.asn);
        let is_optional = field.presence == Presence::Optional;
        let is_large = self.model.is_large(&field.ty);
        let is_default_checked = step.comes.is_some() && !is_optional && syntax.canonical.is_some();
        if is_default_checked {
            return writeln!(self, "place_.{name} = {};", step.value);
        }
        if let Some(condition) = &step.comes {
            writeln!(self, "if {condition} {{");
        }
        match (is_large, is_optional) {
            (false, false) => writeln!(self, "place_.{name} = {};", step.read),
            (false, true) => writeln!(self, "place_.{name} = Some({});", step.read),
            (true, _) => {
                let place = match is_optional {
                    true => format!("place_.{name}.insert(codec::Blank::blank())"),
                    false => format!("&mut place_.{name}"),
                };
                let into = format!("{}::Decode::decode_into", syntax.module);
                writeln!(self, "from.field_into({asn:?}, {place}, {into})?;");
            }
        }
        if step.comes.is_some() {
            writeln!(self, "}}");
        }
    }

    /// What reads a component that comes.
    pub fn take_component(&self, syntax: &Entry, field: &Field) -> String {
        format!("from.field({:?}, {})?", field.names.asn, self.take(syntax, &field.ty))
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
    pub fn bit_step(&self, syntax: &Entry, field: &Field, bit: &mut usize, count: usize) -> Step {
        let read = self.take_component(syntax, field);
        if field.presence == Presence::Required {
            return Step { comes: None, value: read.clone(), read };
        }
        let (name, take) = (format!("{:?}", field.names.asn), self.take(syntax, &field.ty));
        let condition = super::lws::condition(*bit, count);
        *bit += 1;
        let optional = format!("from.optional({condition}, {name}, {take})?");
        let value = match (&field.presence, syntax.canonical) {
            (Presence::Default(constant), canonical) => {
                let default = self.expression(constant, &field.ty).unwrap_or_default();
                match canonical {
                    Some(_) => format!("from.default({condition}, {name}, {default}, {take})?"),
                    None => format!("{optional}.unwrap_or({default})"),
                }
            }
            _ => optional,
        };
        Step { comes: Some(condition), read, value }
    }
}

/// Whether any of the additions is there, as a condition.
pub fn extended(groups: &[(Vec<&Field>, String)]) -> String {
    let there: Vec<_> = groups.iter().map(|(_, there)| there.as_str()).collect();
    if there.is_empty() { "false".to_owned() } else { there.join(" || ") }
}
