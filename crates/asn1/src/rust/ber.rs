//! BER and DER: what `fusewire_codec::ber` asks of a type. Components are encoded last first, for the
//! encoder writes backwards.

use super::Encoding;
use super::checks::Side;
use super::encoding::{Entry, NOTHING, Open, PLAIN};
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
    }

    /// The tag, and the complete encoding by way of the contents.
    fn tagged(&mut self, id: DefId, constructed: &str) {
        let def = &self.model.defs[id];
        let Some(own) = def.tag else { return };
        let (rust, any) = (&def.rust, self.generics(id, "'_"));
        writeln!(self);
        writeln!(self, "impl ber::Tagged for {rust}{any} {{");
        writeln!(self, "const TAG: ber::Tag = {};", tag(own));
        writeln!(self, "const CONSTRUCTED: bool = {constructed};");
        writeln!(self, "}}");
        self.encode(id, |w| {
            writeln!(w, "ber::EncodeContents::encode_as(self, <Self as ber::Tagged>::TAG, to)");
        });
        let read = "<Self as ber::DecodeContents>::decode_as(<Self as ber::Tagged>::TAG, from)";
        let begins = ["tag == <Self as ber::Tagged>::TAG".to_owned()];
        self.decode(
            id,
            |w| writeln!(w, "{read}"),
            &begins,
            |w| {
                if w.model.is_in_place(id) {
                    w.in_place();
                    let own = "<Self as ber::Tagged>::TAG";
                    writeln!(w, "<Self as ber::DecodeContents>::as_into(place_, {own}, from)");
                    writeln!(w, "}}");
                }
            },
        );
    }

    fn encode(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        self.encode_of(id, "Encode", "encode", body);
    }

    fn encode_contents(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        self.encode_of(id, "EncodeContents", "encode_contents", body);
    }

    fn encode_of(&mut self, id: DefId, of: &str, function: &str, body: impl FnOnce(&mut Self)) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        let to = "to: &mut ber::Encoder<'_>";
        writeln!(self);
        writeln!(self, "impl ber::{of} for {rust}{any} {{");
        writeln!(self, "fn {function}(&self, {to}) -> Result<(), codec::Error> {{");
        body(self);
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    /// An implementation of `Decode`, by lines that say whether it begins with `tag`, and with `more` functions.
    fn decode(
        &mut self,
        id: DefId,
        body: impl FnOnce(&mut Self),
        begins: &[String],
        more: impl FnOnce(&mut Self),
    ) {
        let (rust, a) = (&self.model.defs[id].rust, self.generics(id, "'a"));
        writeln!(self);
        writeln!(self, "impl<'a> ber::Decode<'a> for {rust}{a} {{");
        writeln!(self, "fn decode(from: &mut ber::Decoder<'a>) -> Result<Self, codec::Error> {{");
        body(self);
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "fn begins_with(tag: ber::Tag) -> bool {{");
        begins.iter().for_each(|line| writeln!(self, "{line}"));
        writeln!(self, "}}");
        more(self);
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
            let (condition, value) = match self.is_there(field) {
                Some(_) if field.presence == Presence::Optional => {
                    (Some(format!("let Some(value) = &{place}")), "value".to_owned())
                }
                condition => (condition, format!("&{place}")),
            };
            let step = self.named(encode_step(&field.ty, &value), field);
            match condition {
                Some(condition) => {
                    writeln!(self, "if {condition} {{");
                    writeln!(self, "{step}?;");
                    writeln!(self, "}}");
                }
                None => writeln!(self, "{step}?;"),
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
            let mut step = self.decode_step(field);
            if let Some(condition) = self.is_another_next(of, n) {
                step = format!("if {condition} {{ None }} else {{ {step} }}");
            }
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

    /// Returns `true` if encodings of a component's type may begin with any tag.
    fn takes_any(&self, field: &Field) -> bool {
        let is_any = matches!(self.leaf(&field.ty).kind, Kind::Plain("types::Any", _));
        is_any && matches!(field.ty.tagging, Tagging::Own)
    }

    /// For an OPTIONAL component that may begin with any tag: the condition that the next tag is that of a component which
    /// can follow in its place. Their tags differ from its own (X.680 25.6), which is not known.
    pub(super) fn is_another_next(&self, of: &Struct, n: usize) -> Option<String> {
        let (field, rest) = of.fields[n..].split_first()?;
        if field.presence != Presence::Optional || !self.takes_any(field) {
            return None;
        }
        let required = rest.iter().position(|f| f.presence == Presence::Required);
        let next = &rest[..required.map_or(rest.len(), |n| n + 1)];
        let known = next.iter().filter(|f| !self.takes_any(f)).filter_map(|f| f.begins.as_ref());
        let tags: Vec<_> = known.flatten().map(|t| format!("from.next_is({})", tag(*t))).collect();
        (!tags.is_empty()).then(|| tags.join(" || "))
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
        let default = match &field.presence {
            Presence::Default(constant) => {
                format!(", {}", self.expression(constant, &field.ty).unwrap_or_default())
            }
            _ => String::new(),
        };
        let may = match field.presence {
            Presence::Required => "required",
            Presence::Optional => "optional",
            Presence::Default(_) => "default",
        };
        read_step(may, field, &default)
    }

    /// A SET, each component in a variable until all were there.
    fn decode_set(&mut self, rust: &str, of: &Struct) {
        if of.fields.is_empty() && of.unknown_at.is_none() {
            return writeln!(self, "from.constructed(header, |_| Ok({rust} {{}}))");
        }
        writeln!(self, "from.constructed(header, |from| {{");
        self.set_components(rust, of, |_, _| false);
        of.fields.iter().for_each(|f| self.decode_checks(f, true));
        self.gather(rust, of, |asn, name, default| {
            format!("from.unless({asn:?}, {name}, {default})?")
        });
        writeln!(self, "}})");
    }

    /// Whether a component begins with `tag`, as a condition.
    pub(super) fn begins(&self, field: &Field, tag_: &str) -> String {
        let begins_with = |ty| format!("<{ty} as ber::Decode>::begins_with({tag_})");
        self.is_one_of(field, |t| format!("{tag_} == {t}"), begins_with)
    }

    /// A condition on the tag of a component, or on its type where that may begin with many.
    pub(super) fn is_one_of(
        &self,
        field: &Field,
        is: impl Fn(String) -> String,
        begins: impl FnOnce(String) -> String,
    ) -> String {
        match (&field.ty.tagging, &field.begins) {
            (Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t), _) => is(tag(*t)),
            (Tagging::Own, Some(tags)) if !tags.is_empty() && tags.len() <= 4 => {
                let tags: Vec<_> = tags.iter().map(|t| is(tag(*t))).collect();
                tags.join(" || ")
            }
            (Tagging::Own, _) => begins(self.ty(&field.ty, "'_")),
        }
    }

    fn newtype(&mut self, id: DefId, of: &Newtype) {
        let def = &self.model.defs[id];
        let inner = self.ty(&of.inner, "'_");
        let rust = def.rust.clone();
        if def.tag.is_none() {
            self.encode(id, |w| writeln!(w, "ber::Encode::encode(&self.0, to)"));
            let read = format!("ber::Decode::decode(from).map({rust})");
            let begins = [format!("<{inner} as ber::Decode>::begins_with(tag)")];
            return self.decode(id, |w| writeln!(w, "{read}"), &begins, |_| {});
        }
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
                let read = "from.constructed(header, ber::Decode::decode)";
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
        self.checked(read, &of.inner, &checks, rust);
    }

    /// A CHOICE: complete encodings of its alternatives, within a tag where it has one.
    fn choice(&mut self, id: DefId, of: &Choice) {
        let model = self.model;
        let rust = model.defs[id].rust.as_str();
        let lines = |a: &Field| Some(vec![self.named(encode_step(&a.ty, "value"), a)]);
        let lines: Vec<_> = of.alternatives.iter().map(lines).collect();
        let put = |w: &mut Self| {
            w.put_choice(rust, of, &lines, "ber::Encode::encode(value, to)", NOTHING);
        };
        if model.defs[id].tag.is_some() {
            self.tagged(id, "true");
            self.encode_contents(id, put);
            return self.decode_contents(id, |w| {
                writeln!(w, "from.constructed(header, |from| {{");
                w.decode_choice(rust, of);
                writeln!(w, "}})");
            });
        }
        self.encode(id, put);
        let conditions: Vec<_> = of.alternatives.iter().map(|f| self.begins(f, "tag")).collect();
        let begins = match conditions.is_empty() {
            true => vec!["let _ = tag;".to_owned(), "false".to_owned()],
            false => vec![conditions.join("\n|| ")],
        };
        self.decode(
            id,
            |w| w.decode_choice(rust, of),
            &begins,
            |w| {
                if model.is_in_place(id) {
                    w.choice_in_place(rust, of);
                }
            },
        );
    }

    fn decode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "let tag = from.peek()?;");
        if of.alternatives.is_empty() {
            writeln!(self, "let _ = tag;");
        }
        let case = |a| (self.begins(a, "tag"), step("required", a, "", ""), a);
        let mut cases: Vec<_> = of.alternatives.iter().map(case).collect();
        // Alternatives with tags of their own come before one that takes any tag.
        cases.sort_by_key(|(_, _, alternative)| self.takes_any(alternative));
        let other = match self.model.open_alternative(of) {
            _ if of.is_extensible => format!("ber::Decode::decode(from).map({rust}::Unknown)"),
            Some(open) => {
                format!("{}.map({rust}::{})", step("required", open, "", ""), open.names.rust)
            }
            None => format!("Err(from.unknown({rust:?}))"),
        };
        self.ask_alternatives(rust, &cases, &other);
    }
}

/// How a component is decoded that is `required`, `optional` or has a `default`.
pub(super) fn read_step(may: &str, field: &Field, default: &str) -> String {
    let Tagging::Raw(t) = field.ty.tagging else {
        return format!("{}?", step(may, field, "", default));
    };
    let name = &field.names.asn;
    let read = format!("from.required({name:?})?");
    let (read, absent) = match may {
        "required" => (read, format!("return Err(from.missing({name:?}))")),
        _ => (format!("Some({read})"), "None".to_owned()),
    };
    format!("if from.next_is({}) {{ {read} }} else {{ {absent} }}", tag(t))
}

/// The call of the decoder's function that reads a component: what its name ends with, and more arguments.
pub(super) fn step(may: &str, field: &Field, end: &str, more: &str) -> String {
    let (how, tag) = match field.ty.tagging {
        Tagging::Own | Tagging::Raw(_) => ("", String::new()),
        Tagging::Implicit(t) => ("implicit", format!(", {}", tag(t))),
        Tagging::Explicit(t) => ("explicit", format!(", {}", tag(t))),
    };
    let function = match (may, how) {
        (may, "") => may.to_owned(),
        ("required", how) => how.to_owned(),
        (may, how) => format!("{may}_{how}"),
    };
    format!("from.{function}{end}({:?}{tag}{more})", field.names.asn)
}

/// How a value is encoded where it is used.
pub fn encode_step(ty: &Use, value: &str) -> String {
    match ty.tagging {
        Tagging::Own | Tagging::Raw(_) => format!("ber::Encode::encode({value}, to)"),
        Tagging::Implicit(t) => format!("to.implicit({}, {value})", tag(t)),
        Tagging::Explicit(t) => format!("to.explicit({}, {value})", tag(t)),
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
