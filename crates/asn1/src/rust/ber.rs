//! BER and DER: what `fusewire_codec::ber` asks of a type. Components are encoded last first, for the
//! encoder writes backwards.

use super::Encoding;
use super::checks::Side;
use super::encoding::{Entry, Open, PLAIN};
use super::model::*;
use super::write::Writer;
use crate::ast::TagClass;

/// The basic encoding rules.
pub static BER: Entry = RULES;

/// The distinguished encoding rules, by the same code.
pub static DER: Entry = Entry { encoding: Encoding::Der, names: &["der"], ..RULES };

const RULES: Entry = Entry {
    encoding: Encoding::Ber,
    names: &["ber"],
    module: "ber",
    emit: |w, id| w.ber(id),
    open: Open {
        suffix: "",
        argument: "rules: ber::Rules",
        call: ("ber::from_bytes(", ", rules)"),
    },
    ..PLAIN
};

/// A tag as an expression.
pub fn tag(tag: WireTag) -> String {
    let class = match tag.class {
        TagClass::Universal => "universal",
        TagClass::Application => "application",
        TagClass::Context => "context",
        TagClass::Private => "private",
    };
    format!("ber::Tag::{class}({})", tag.number)
}

impl Writer<'_> {
    /// What a definition needs for BER and DER.
    pub fn ber(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.tagged(id, "true");
                self.encode_contents(id, |w| w.encode_struct(of));
                self.decode_contents(id, |w| match model.is_in_place(id) {
                    true => w.contents_in_place(&def.rust, of),
                    false => w.decode_struct(&def.rust, of),
                });
            }
            Shape::Enumerated(..) => {
                self.tagged(id, "false");
                self.encode_contents(id, |w| writeln!(w, "to.integer_contents(self.number())"));
                self.decode_contents(id, |w| {
                    writeln!(w, "let found = from.integer_contents(header)?;");
                    writeln!(w, "Self::from_number(found).ok_or_else(|| {{");
                    let name = &def.rust;
                    writeln!(
                        w,
                        "from.error(codec::Problem::Discriminant {{ found, type_name: {name:?} }})"
                    );
                    writeln!(w, "}})");
                });
            }
            Shape::Newtype(of) => self.newtype(id, of),
            Shape::Choice(of) => self.choice(id, of),
        }
        self.blank(id);
    }

    /// The tag, and the complete encoding by way of the contents.
    fn tagged(&mut self, id: DefId, constructed: &str) {
        let def = &self.model.defs[id];
        let Some(own) = def.tag else { return };
        let (rust, any, a) = (&def.rust, self.generics(id, "'_"), self.generics(id, "'a"));
        writeln!(self);
        writeln!(self, "impl ber::Tagged for {rust}{any} {{");
        writeln!(self, "const TAG: ber::Tag = {};", tag(own));
        writeln!(self, "const CONSTRUCTED: bool = {constructed};");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl ber::Encode for {rust}{any} {{");
        writeln!(
            self,
            "fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        writeln!(self, "ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
        writeln!(self, "fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{");
        writeln!(
            self,
            "<Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)"
        );
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "fn begins_with(tag: ber::Tag) -> bool {{");
        writeln!(self, "tag == <Self as ber::Tagged>::TAG");
        writeln!(self, "}}");
        if self.model.is_in_place(id) {
            self.in_place();
            let own = "<Self as ber::Tagged>::TAG";
            writeln!(self, "<Self as ber::DecodeContents>::as_into(place_, {own}, from)");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn encode_contents(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        writeln!(self);
        writeln!(self, "impl ber::EncodeContents for {rust}{any} {{");
        writeln!(
            self,
            "fn encode_contents(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        body(self);
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    fn decode_contents(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, a) = (&self.model.defs[id].rust, self.generics(id, "'a"));
        writeln!(self);
        writeln!(self, "impl<'a> ber::DecodeContents<'a> for {rust}{a} {{");
        writeln!(self, "fn decode_contents(");
        writeln!(self, "from: &mut ber::Decoder<'a>,");
        writeln!(self, "header: ber::Header,");
        writeln!(self, ") -> Result<Self, codec::Error> {{");
        body(self);
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    /// The components of a SET in the order of their tags, in which DER has them (X.690 clause 10.3).
    pub(super) fn ordered<'f>(&self, of: &'f Struct) -> Vec<&'f Field> {
        let mut fields: Vec<&Field> = of.fields.iter().collect();
        if of.is_set {
            fields.sort_by_key(|f| {
                let least = f.begins.as_ref().and_then(|b| b.iter().min().copied());
                (least.is_none(), least)
            });
        }
        fields
    }

    fn encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        for field in self.ordered(of).into_iter().rev() {
            let place = format!("self.{}", field.names.rust);
            match &field.presence {
                Presence::Required => {
                    let step = encode_step(&field.ty, &format!("&{place}"));
                    writeln!(self, "{step}?;");
                }
                Presence::Optional => {
                    let step = encode_step(&field.ty, "value");
                    writeln!(self, "if let Some(value) = &{place} {{");
                    writeln!(self, "{step}?;");
                    writeln!(self, "}}");
                }
                Presence::Default(constant) => {
                    let step = encode_step(&field.ty, &format!("&{place}"));
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    match default.as_str() {
                        "false" => writeln!(self, "if {place} {{"),
                        "true" => writeln!(self, "if !{place} {{"),
                        _ => writeln!(self, "if {place} != {default} {{"),
                    }
                    writeln!(self, "{step}?;");
                    writeln!(self, "}}");
                }
            }
        }
        if of.fields.is_empty() {
            writeln!(self, "let _ = to;");
        }
        writeln!(self, "Ok(())");
    }

    fn decode_struct(&mut self, rust: &str, of: &Struct) {
        if of.is_set {
            return self.decode_set(rust, of);
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            return writeln!(self, "from.constructed(header, |_| Ok({rust} {{}}))");
        }
        writeln!(self, "from.constructed(header, |from| {{");
        for (n, field) in of.fields.iter().enumerate() {
            if of.unknown_at == Some(n) {
                self.skip_unknown(of.fields.get(n));
            }
            let step = self.decode_step(field);
            let name = &field.names.rust;
            if self.is_checked(&field.ty) {
                let ty = self.field_type(field);
                writeln!(self, "let at_ = from.position();");
                writeln!(self, "let {name}: {ty} = {step};");
                let is_option = field.presence == Presence::Optional;
                self.decode_checks(field, is_option);
            } else if self.field_type(field) == "()" {
                self.declare(name, "()", &step);
            } else {
                writeln!(self, "let {name} = {step};");
            }
        }
        if of.unknown_at == Some(of.fields.len()) {
            writeln!(self, "from.skip_rest()?;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        writeln!(self, "Ok({rust} {{ {} }})", names.join(", "));
        writeln!(self, "}})");
    }

    /// Passes what is not known in front of a component.
    pub(super) fn skip_unknown(&mut self, next: Option<&Field>) {
        let Some(Field { begins: Some(begins), .. }) = next else { return };
        let tags: Vec<_> = begins.iter().map(|t| format!("from.next_is({})", tag(*t))).collect();
        writeln!(self, "while from.more()? && !({}) {{", tags.join(" || "));
        writeln!(self, "from.any()?;");
        writeln!(self, "}}");
    }

    pub(super) fn decode_step(&self, field: &Field) -> String {
        let name = format!("{:?}", field.names.asn);
        let default = match &field.presence {
            Presence::Default(constant) => self.expression(constant, &field.ty).unwrap_or_default(),
            _ => String::new(),
        };
        match (&field.presence, field.ty.tagging) {
            (Presence::Required, Tagging::Own) => format!("from.required({name})?"),
            (Presence::Required, Tagging::Implicit(t)) => {
                format!("from.implicit({name}, {})?", tag(t))
            }
            (Presence::Required, Tagging::Explicit(t)) => {
                format!("from.explicit({name}, {})?", tag(t))
            }
            (Presence::Required, Tagging::Raw(t)) => format!(
                "if from.next_is({}) {{ from.required({name})? }} else {{ return Err(from.missing({name})) }}",
                tag(t)
            ),
            (_, Tagging::Raw(t)) => {
                format!(
                    "if from.next_is({}) {{ Some(from.required({name})?) }} else {{ None }}",
                    tag(t)
                )
            }
            (Presence::Optional, Tagging::Own) => format!("from.optional({name})?"),
            (Presence::Optional, Tagging::Implicit(t)) => {
                format!("from.optional_implicit({name}, {})?", tag(t))
            }
            (Presence::Optional, Tagging::Explicit(t)) => {
                format!("from.optional_explicit({name}, {})?", tag(t))
            }
            (Presence::Default(_), Tagging::Own) => format!("from.default({name}, {default})?"),
            (Presence::Default(_), Tagging::Implicit(t)) => {
                format!("from.default_implicit({name}, {}, {default})?", tag(t))
            }
            (Presence::Default(_), Tagging::Explicit(t)) => {
                format!("from.default_explicit({name}, {}, {default})?", tag(t))
            }
        }
    }

    /// A SET, each component in a variable until all were there.
    fn decode_set(&mut self, rust: &str, of: &Struct) {
        if of.fields.is_empty() && of.unknown_at.is_none() {
            return writeln!(self, "from.constructed(header, |_| Ok({rust} {{}}))");
        }
        writeln!(self, "from.constructed(header, |from| {{");
        self.set_components(rust, of, |_, _| false);
        self.finish_set(rust, of);
        writeln!(self, "}})");
    }

    fn finish_set(&mut self, rust: &str, of: &Struct) {
        of.fields.iter().for_each(|f| self.decode_checks(f, true));
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
                    writeln!(self, "{name}: from.unless({asn:?}, {name}, {default})?,");
                }
            }
        }
        writeln!(self, "}})");
    }

    /// Whether a component begins with `tag`, as a condition.
    pub(super) fn begins(&self, field: &Field, tag_: &str) -> String {
        match (&field.ty.tagging, &field.begins) {
            (Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t), _) => {
                format!("{tag_} == {}", tag(*t))
            }
            (Tagging::Own, Some(tags)) if !tags.is_empty() && tags.len() <= 4 => {
                let tags: Vec<_> = tags.iter().map(|t| format!("{tag_} == {}", tag(*t))).collect();
                tags.join(" || ")
            }
            (Tagging::Own, _) => {
                format!("<{} as ber::Decode>::begins_with({tag_})", self.ty(&field.ty, "'_"))
            }
        }
    }

    fn newtype(&mut self, id: DefId, of: &Newtype) {
        let def = &self.model.defs[id];
        let inner = self.ty(&of.inner, "'_");
        if def.tag.is_none() {
            let (rust, any, a) = (&def.rust, self.generics(id, "'_"), self.generics(id, "'a"));
            writeln!(self);
            writeln!(self, "impl ber::Encode for {rust}{any} {{");
            writeln!(
                self,
                "fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
            );
            writeln!(self, "ber::Encode::encode(&self.0, to)");
            writeln!(self, "}}");
            writeln!(self, "}}");
            writeln!(self);
            writeln!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
            writeln!(
                self,
                "fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{"
            );
            writeln!(self, "ber::Decode::decode(from).map({rust})");
            writeln!(self, "}}");
            writeln!(self);
            writeln!(self, "fn begins_with(tag: ber::Tag) -> bool {{");
            writeln!(self, "<{inner} as ber::Decode>::begins_with(tag)");
            writeln!(self, "}}");
            return writeln!(self, "}}");
        }
        let rust = def.rust.clone();
        if of.is_implicit {
            self.tagged(id, &format!("<{inner} as ber::Tagged>::CONSTRUCTED"));
            self.encode_contents(id, |w| {
                w.newtype_checks(of);
                if of.has_free_zeros() {
                    // X.690 clause 11.2.2: named bits have no zeros at their end.
                    writeln!(w, "if to.rules() == ber::Rules::Der {{");
                    writeln!(w, "let bits = self.0.trimmed();");
                    writeln!(w, "return ber::EncodeContents::encode_contents(&bits, to);");
                    writeln!(w, "}}");
                }
                writeln!(w, "ber::EncodeContents::encode_contents(&self.0, to)");
            });
            let read = "ber::DecodeContents::decode_contents(from, header)";
            self.decode_contents(id, |w| w.decode_inner(&rust, of, read));
        } else {
            self.tagged(id, "true");
            self.encode_contents(id, |w| {
                w.newtype_checks(of);
                writeln!(w, "ber::Encode::encode(&self.0, to)");
            });
            self.decode_contents(id, |w| {
                let read = "from.constructed(header, |from| ber::Decode::decode(from))";
                w.decode_inner(&rust, of, read);
            });
        }
    }

    /// What a struct around a value holds, and what is asked of that.
    fn decode_inner(&mut self, rust: &str, of: &Newtype, read: &str) {
        let mut checks = self.own_checks(of, "value", false, &Side::Decode, "");
        if of.has_free_zeros() {
            checks.extend(no_free_zeros("ber::Rules::Der"));
        }
        if checks.is_empty() {
            return writeln!(self, "{read}.map({rust})");
        }
        let ty = self.ty(&of.inner, "'a");
        writeln!(self, "let at_ = from.position();");
        writeln!(self, "let value: {ty} = {read}?;");
        checks.iter().for_each(|c| writeln!(self, "{c}"));
        writeln!(self, "Ok({rust}(value))");
    }

    /// A CHOICE: complete encodings of its alternatives, within a tag where it has one.
    fn choice(&mut self, id: DefId, of: &Choice) {
        let def = &self.model.defs[id];
        let (rust, any, a) = (def.rust.clone(), self.generics(id, "'_"), self.generics(id, "'a"));
        if def.tag.is_some() {
            self.tagged(id, "true");
            self.encode_contents(id, |w| w.encode_choice(&rust, of));
            return self.decode_contents(id, |w| {
                writeln!(w, "from.constructed(header, |from| {{");
                w.decode_choice(&rust, of);
                writeln!(w, "}})");
            });
        }
        writeln!(self);
        writeln!(self, "impl ber::Encode for {rust}{any} {{");
        writeln!(
            self,
            "fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        self.encode_choice(&rust, of);
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
        writeln!(self, "fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{");
        self.decode_choice(&rust, of);
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "fn begins_with(tag: ber::Tag) -> bool {{");
        let conditions: Vec<_> = of.alternatives.iter().map(|f| self.begins(f, "tag")).collect();
        if conditions.is_empty() {
            writeln!(self, "let _ = tag;");
            writeln!(self, "false");
        } else {
            writeln!(self, "{}", conditions.join("\n|| "));
        }
        writeln!(self, "}}");
        if self.model.is_in_place(id) {
            self.choice_in_place(&rust, of);
        }
        writeln!(self, "}}");
    }

    fn encode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "match self {{");
        for alternative in &of.alternatives {
            let step = encode_step(&alternative.ty, "value");
            writeln!(self, "{rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            writeln!(self, "{step}");
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => ber::Encode::encode(value, to),");
        }
        if of.alternatives.is_empty() && !of.is_extensible {
            writeln!(self, "_ => {{");
            writeln!(self, "let _ = to;");
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn decode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "let tag = from.peek()?;");
        let mut otherwise = "";
        for alternative in &of.alternatives {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let read = match alternative.ty.tagging {
                Tagging::Own | Tagging::Raw(_) => format!("from.required({asn:?})"),
                Tagging::Implicit(t) => format!("from.implicit({asn:?}, {})", tag(t)),
                Tagging::Explicit(t) => format!("from.explicit({asn:?}, {})", tag(t)),
            };
            let condition = self.begins(alternative, "tag");
            writeln!(self, "{otherwise}if {condition} {{");
            self.decode_alternative(rust, name, alternative, &read);
            otherwise = "} else ";
        }
        let other = if of.is_extensible {
            format!("ber::Decode::decode(from).map({rust}::Unknown)")
        } else {
            format!("Err(from.unknown({rust:?}))")
        };
        if of.alternatives.is_empty() {
            writeln!(self, "let _ = tag;");
            return writeln!(self, "{other}");
        }
        writeln!(self, "}} else {{");
        writeln!(self, "{other}");
        writeln!(self, "}}");
    }
}

/// How a value is encoded where it is used.
pub fn encode_step(ty: &Use, value: &str) -> String {
    match ty.tagging {
        Tagging::Own | Tagging::Raw(_) => format!("ber::Encode::encode({value}, to)"),
        Tagging::Implicit(t) => format!("to.implicit({}, {value})", tag(t)),
        Tagging::Explicit(t) => format!("to.explicit({}, {value})", tag(t)),
    }
}

/// How a component of a SET is decoded where DER has it.
pub(super) fn optional_step(field: &Field) -> String {
    let name = format!("{:?}", field.names.asn);
    match field.ty.tagging {
        Tagging::Own => format!("from.optional({name})?"),
        Tagging::Implicit(t) => format!("from.optional_implicit({name}, {})?", tag(t)),
        Tagging::Explicit(t) => format!("from.optional_explicit({name}, {})?", tag(t)),
        Tagging::Raw(t) => {
            format!(
                "if from.next_is({}) {{ Some(from.required({name})?) }} else {{ None }}",
                tag(t)
            )
        }
    }
}

/// Lines that refuse zeros at the end of named bits where the rules are canonical.
pub(super) fn no_free_zeros(rules: &str) -> [String; 4] {
    [
        format!("if from.rules() == {rules} && value.trimmed().len() != value.len() {{"),
        "let problem = codec::Problem::NotCanonical(\"named bits without zeros at their end\");"
            .to_owned(),
        "return Err(problem.at(at_));".to_owned(),
        "}".to_owned(),
    ]
}
