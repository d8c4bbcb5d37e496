//! BER and DER: what `fusewire_codec::ber` asks of a type. Components are encoded last first, for the
//! encoder writes backwards.

use super::checks::Side;
use super::model::*;
use super::write::{Writer, line};
use crate::ast::TagClass;

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
                self.encode_contents(id, |w| {
                    line!(w, "        to.integer_contents(self.number())")
                });
                self.decode_contents(id, |w| {
                    line!(w, "        let found = from.integer_contents(header)?;");
                    line!(w, "        Self::from_number(found).ok_or_else(|| {{");
                    let name = &def.rust;
                    line!(w, "            from.error(codec::Problem::Discriminant {{ found, type_name: {name:?} }})");
                    line!(w, "        }})");
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
        line!(self);
        line!(self, "impl ber::Tagged for {rust}{any} {{");
        line!(self, "    const TAG: ber::Tag = {};", tag(own));
        line!(self, "    const CONSTRUCTED: bool = {constructed};");
        line!(self, "}}");
        line!(self);
        line!(self, "impl ber::Encode for {rust}{any} {{");
        line!(
            self,
            "    fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        line!(self, "        ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)");
        line!(self, "    }}");
        line!(self, "}}");
        line!(self);
        line!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
        line!(self, "    fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{");
        line!(
            self,
            "        <Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)"
        );
        line!(self, "    }}");
        line!(self);
        line!(self, "    fn begins_with(tag: ber::Tag) -> bool {{");
        line!(self, "        tag == <Self as ber::Tagged>::TAG");
        line!(self, "    }}");
        if self.model.is_in_place(id) {
            self.in_place();
            let own = "<Self as ber::Tagged>::TAG";
            line!(self, "        <Self as ber::DecodeContents>::as_into(place_, {own}, from)");
            line!(self, "    }}");
        }
        line!(self, "}}");
    }

    fn encode_contents(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        line!(self);
        line!(self, "impl ber::EncodeContents for {rust}{any} {{");
        line!(
            self,
            "    fn encode_contents(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        body(self);
        line!(self, "    }}");
        line!(self, "}}");
    }

    fn decode_contents(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, a) = (&self.model.defs[id].rust, self.generics(id, "'a"));
        line!(self);
        line!(self, "impl<'a> ber::DecodeContents<'a> for {rust}{a} {{");
        line!(self, "    fn decode_contents(");
        line!(self, "        from: &mut ber::Decoder<'a>,");
        line!(self, "        header: ber::Header,");
        line!(self, "    ) -> Result<Self, codec::Error> {{");
        body(self);
        line!(self, "    }}");
        line!(self, "}}");
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
                    line!(self, "        {step}?;");
                }
                Presence::Optional => {
                    let step = encode_step(&field.ty, "value");
                    line!(self, "        if let Some(value) = &{place} {{");
                    line!(self, "            {step}?;");
                    line!(self, "        }}");
                }
                Presence::Default(constant) => {
                    let step = encode_step(&field.ty, &format!("&{place}"));
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    match default.as_str() {
                        "false" => line!(self, "        if {place} {{"),
                        "true" => line!(self, "        if !{place} {{"),
                        _ => line!(self, "        if {place} != {default} {{"),
                    }
                    line!(self, "            {step}?;");
                    line!(self, "        }}");
                }
            }
        }
        if of.fields.is_empty() {
            line!(self, "        let _ = to;");
        }
        line!(self, "        Ok(())");
    }

    fn decode_struct(&mut self, rust: &str, of: &Struct) {
        if of.is_set {
            return self.decode_set(rust, of);
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            return line!(self, "        from.constructed(header, |_| Ok({rust} {{}}))");
        }
        line!(self, "        from.constructed(header, |from| {{");
        for (n, field) in of.fields.iter().enumerate() {
            if of.unknown_at == Some(n) {
                self.skip_unknown(of.fields.get(n));
            }
            let step = self.decode_step(field);
            let name = &field.names.rust;
            if self.is_checked(&field.ty) {
                let ty = self.field_type(field);
                line!(self, "            let at_ = from.position();");
                line!(self, "            let {name}: {ty} = {step};");
                let is_option = field.presence == Presence::Optional;
                self.decode_checks(field, is_option, "            ");
            } else if self.field_type(field) == "()" {
                self.declare(name, "()", &step, "            ");
            } else {
                line!(self, "            let {name} = {step};");
            }
        }
        if of.unknown_at == Some(of.fields.len()) {
            line!(self, "            from.skip_rest()?;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        line!(self, "            Ok({rust} {{ {} }})", names.join(", "));
        line!(self, "        }})");
    }

    /// Passes what is not known in front of a component.
    pub(super) fn skip_unknown(&mut self, next: Option<&Field>) {
        let Some(Field { begins: Some(begins), .. }) = next else { return };
        let tags: Vec<_> = begins.iter().map(|t| format!("from.next_is({})", tag(*t))).collect();
        line!(self, "            while from.more()? && !({}) {{", tags.join(" || "));
        line!(self, "                from.any()?;");
        line!(self, "            }}");
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
            return line!(self, "        from.constructed(header, |_| Ok({rust} {{}}))");
        }
        line!(self, "        from.constructed(header, |from| {{");
        self.set_components(rust, of, |_, _| false);
        self.finish_set(rust, of);
        line!(self, "        }})");
    }

    fn finish_set(&mut self, rust: &str, of: &Struct) {
        of.fields.iter().for_each(|f| self.decode_checks(f, true, "            "));
        line!(self, "            Ok({rust} {{");
        for field in &of.fields {
            let (name, asn) = (&field.names.rust, &field.names.asn);
            match &field.presence {
                Presence::Optional => line!(self, "                {name},"),
                Presence::Required => {
                    line!(
                        self,
                        "                {name}: {name}.ok_or_else(|| from.missing({asn:?}))?,"
                    );
                }
                Presence::Default(constant) => {
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    line!(
                        self,
                        "                {name}: from.unless({asn:?}, {name}, {default})?,"
                    );
                }
            }
        }
        line!(self, "            }})");
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
            line!(self);
            line!(self, "impl ber::Encode for {rust}{any} {{");
            line!(
                self,
                "    fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
            );
            line!(self, "        ber::Encode::encode(&self.0, to)");
            line!(self, "    }}");
            line!(self, "}}");
            line!(self);
            line!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
            line!(
                self,
                "    fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{"
            );
            line!(self, "        ber::Decode::decode(from).map({rust})");
            line!(self, "    }}");
            line!(self);
            line!(self, "    fn begins_with(tag: ber::Tag) -> bool {{");
            line!(self, "        <{inner} as ber::Decode>::begins_with(tag)");
            line!(self, "    }}");
            return line!(self, "}}");
        }
        let rust = def.rust.clone();
        if of.is_implicit {
            self.tagged(id, &format!("<{inner} as ber::Tagged>::CONSTRUCTED"));
            self.encode_contents(id, |w| {
                w.newtype_checks(of);
                if of.has_free_zeros() {
                    // X.690 clause 11.2.2: named bits have no zeros at their end.
                    line!(w, "        if to.rules() == ber::Rules::Der {{");
                    line!(w, "            let bits = self.0.trimmed();");
                    line!(w, "            return ber::EncodeContents::encode_contents(&bits, to);");
                    line!(w, "        }}");
                }
                line!(w, "        ber::EncodeContents::encode_contents(&self.0, to)");
            });
            let read = "ber::DecodeContents::decode_contents(from, header)";
            self.decode_contents(id, |w| w.decode_inner(&rust, of, read));
        } else {
            self.tagged(id, "true");
            self.encode_contents(id, |w| {
                w.newtype_checks(of);
                line!(w, "        ber::Encode::encode(&self.0, to)");
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
            return line!(self, "        {read}.map({rust})");
        }
        let ty = self.ty(&of.inner, "'a");
        line!(self, "        let at_ = from.position();");
        line!(self, "        let value: {ty} = {read}?;");
        checks.iter().for_each(|c| line!(self, "        {c}"));
        line!(self, "        Ok({rust}(value))");
    }

    /// A CHOICE: complete encodings of its alternatives, within a tag where it has one.
    fn choice(&mut self, id: DefId, of: &Choice) {
        let def = &self.model.defs[id];
        let (rust, any, a) = (def.rust.clone(), self.generics(id, "'_"), self.generics(id, "'a"));
        if def.tag.is_some() {
            self.tagged(id, "true");
            self.encode_contents(id, |w| w.encode_choice(&rust, of));
            return self.decode_contents(id, |w| {
                line!(w, "        from.constructed(header, |from| {{");
                w.decode_choice(&rust, of);
                line!(w, "        }})");
            });
        }
        line!(self);
        line!(self, "impl ber::Encode for {rust}{any} {{");
        line!(
            self,
            "    fn encode(&self, to: &mut ber::Encoder<'_>) -> Result<(), codec::Error> {{"
        );
        self.encode_choice(&rust, of);
        line!(self, "    }}");
        line!(self, "}}");
        line!(self);
        line!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
        line!(self, "    fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{");
        self.decode_choice(&rust, of);
        line!(self, "    }}");
        line!(self);
        line!(self, "    fn begins_with(tag: ber::Tag) -> bool {{");
        let conditions: Vec<_> = of.alternatives.iter().map(|f| self.begins(f, "tag")).collect();
        if conditions.is_empty() {
            line!(self, "        let _ = tag;");
            line!(self, "        false");
        } else {
            line!(self, "        {}", conditions.join("\n            || "));
        }
        line!(self, "    }}");
        if self.model.is_in_place(id) {
            self.choice_in_place(&rust, of);
        }
        line!(self, "}}");
    }

    fn encode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        match self {{");
        for alternative in &of.alternatives {
            let step = encode_step(&alternative.ty, "value");
            line!(self, "            {rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            line!(self, "                {step}");
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            {rust}::Unknown(value) => ber::Encode::encode(value, to),");
        }
        if of.alternatives.is_empty() && !of.is_extensible {
            line!(self, "            _ => {{");
            line!(self, "                let _ = to;");
            line!(self, "                Ok(())");
            line!(self, "            }}");
        }
        line!(self, "        }}");
    }

    fn decode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        let tag = from.peek()?;");
        let mut otherwise = "";
        for alternative in &of.alternatives {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let read = match alternative.ty.tagging {
                Tagging::Own | Tagging::Raw(_) => format!("from.required({asn:?})"),
                Tagging::Implicit(t) => format!("from.implicit({asn:?}, {})", tag(t)),
                Tagging::Explicit(t) => format!("from.explicit({asn:?}, {})", tag(t)),
            };
            let condition = self.begins(alternative, "tag");
            line!(self, "        {otherwise}if {condition} {{");
            self.decode_alternative(rust, name, alternative, &read);
            otherwise = "} else ";
        }
        let other = if of.is_extensible {
            format!("ber::Decode::decode(from).map({rust}::Unknown)")
        } else {
            format!("Err(from.unknown({rust:?}))")
        };
        if of.alternatives.is_empty() {
            line!(self, "        let _ = tag;");
            return line!(self, "        {other}");
        }
        line!(self, "        }} else {{");
        line!(self, "            {other}");
        line!(self, "        }}");
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
        "    let problem = codec::Problem::NotCanonical(\"named bits without zeros at their end\");"
            .to_owned(),
        "    return Err(problem.at(at_));".to_owned(),
        "}".to_owned(),
    ]
}
