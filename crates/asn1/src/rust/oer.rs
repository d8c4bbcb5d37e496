//! OER: what `fusewire_codec::oer` asks of a type (X.696). Components in order (those of a SET in the order of
//! their tags) behind bits that say which of the optional ones follow; additions behind bits of their own, each
//! counted; alternatives behind their tags. What is written is COER.

use super::Encoding;
use super::ber::tag;
use super::checks::character_width;
use super::encoding::{Entry, Form, Open, PLAIN, Place, What};
use super::limits::Limits;
use super::model::*;
use super::plain::{are_whole, cast, fixed, machine_integer, of_its_width};
use super::write::Writer;

/// The octet encoding rules, and the canonical ones.
pub static OER: Entry = Entry {
    encoding: Encoding::Oer,
    names: &["oer", "coer"],
    module: "oer",
    emit: |w, id| w.oer(id),
    open: Open {
        suffix: "_oer",
        argument: "rules: oer::Rules",
        call: ("oer::from_bytes(", ", rules)"),
    },
    form,
    canonical: Some("oer::Rules::Coer"),
    ..PLAIN
};

fn form(writer: &Writer<'_>, what: What<'_>, limits: &Limits, at: &Place) -> Option<Form> {
    let Place { base, value, reference } = at;
    let (low, high) = (limits.values.low(), limits.values.high());
    let is_natural = low.is_some_and(|low| low >= 0);
    match what {
        What::List(of) => {
            writer.elements(&OER, of, at).counted(format!("to.natural({base}.len() as u64)"))
        }
        What::Octets => {
            let n = fixed(limits)?;
            Form::new(format!("to.put({reference})"), format!("from.octets_fixed({n})"))
        }
        What::Bits => {
            let n = fixed(limits)?;
            let put = format!("{}.and_then(|()| to.bits_fixed({reference}))", are_whole(n, at));
            Form::new(put, format!("from.bits_fixed({n})"))
        }
        What::Wide => machine_integer("oer", limits, at, true).or_else(|| {
            let put = format!("to.natural_wide({reference})");
            is_natural.then_some(Form { put, take: "from.natural_wide()".to_owned() })
        }),
        What::Number(path) if high.is_none() && is_natural => Form::new(
            format!("to.natural({})", cast(path, "u64", at)),
            format!(
                "from.natural().and_then(|n| {path}::try_from(n).map_err(|_| \
                 from.error(codec::Problem::IntegerTooWide {{ bytes: 8 }})))"
            ),
        ),
        What::Number(path) => of_its_width("oer", limits, path, at),
        What::Real => match limits.binary? {
            32 => Form::new(
                format!("to.binary32(({value}) as f32)"),
                "from.binary32().map(f64::from)",
            ),
            _ => Form::new(format!("to.binary64({value})"), "from.binary64()"),
        },
        // X.696 clause 27: of a fixed number of characters of a fixed size.
        What::Text(path) => {
            let width = character_width(path).filter(|&width| width > 0)?;
            let (bytes, name) =
                (fixed(limits)?.checked_mul(width)?, path.trim_start_matches("types::"));
            Form::new(
                format!("to.put({base}.as_bytes())"),
                format!(
                    "from.octets_fixed({bytes}).and_then(|octets| {path}::new(octets).ok_or_else(|| from.error(codec::Problem::Contents({name:?}))))"
                ),
            )
        }
    }
}

/// More additions than these of one type have no bits.
const ADDITIONS_MAX: usize = 64;

/// How a CHOICE writes one of its alternatives.
enum Begin {
    /// Behind its tag.
    Tagged(WireTag),
    /// As the CHOICE that it is, which has tags of its own.
    Choice(DefId),
    /// It has no tag by which it could be known.
    None,
}

impl Writer<'_> {
    /// What a definition needs for OER.
    pub fn oer(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = def.rust.as_str();
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(&OER, id, |w| w.oer_encode_struct(of));
                self.forward_decode(&OER, id, |w| w.oer_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(&OER, id, |w| {
                    writeln!(w, "to.enumerated(self.number())");
                });
                self.forward_decode(&OER, id, |w| {
                    w.decode_item(rust, "from.enumerated()?");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(&OER, id, of),
            Shape::Choice(of) => self.oer_choice(id, of),
        }
    }

    fn oer_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        let groups = groups(of);
        let there: Vec<String> = groups.iter().map(|g| self.any_is_there(g)).collect();
        let root: Vec<&Field> =
            self.ordered(of).into_iter().filter(|f| f.addition.is_none()).collect();
        let mut bits = Vec::new();
        if of.unknown_at.is_some() {
            bits.push(if there.is_empty() { "false".to_owned() } else { there.join(" || ") });
        }
        bits.extend(root.iter().filter_map(|f| self.is_there(f)));
        self.presence_bits(&bits, "presence");
        for field in &root {
            self.forward_encode_field(&OER, field);
        }
        if !groups.is_empty() {
            writeln!(self, "if {} {{", there.join(" || "));
            let known = &there[..there.len().min(ADDITIONS_MAX)];
            self.presence_bits(known, "additions");
            for (group, there) in groups.iter().zip(known) {
                writeln!(self, "if {there} {{");
                writeln!(self, "to.counted(|to| {{");
                self.oer_encode_group(group);
                writeln!(self, "Ok(())");
                writeln!(self, "}})?;");
                writeln!(self, "}}");
            }
            writeln!(self, "}}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = to;");
        }
        writeln!(self, "Ok(())");
    }

    /// An addition: a component, or those of `[[ ]]` as a SEQUENCE.
    fn oer_encode_group(&mut self, group: &[&Field]) {
        if group[0].is_grouped {
            let optional = group.iter().filter(|f| !f.is_needed);
            let bits: Vec<_> = optional.filter_map(|f| self.is_there(f)).collect();
            self.presence_bits(&bits, "presence");
        }
        for field in group {
            if field.is_needed && field.presence == Presence::Optional {
                let (name, asn) = (&field.names.rust, &field.names.asn);
                writeln!(self, "let Some(value) = &self.{name} else {{");
                writeln!(self, "return Err(to.error(codec::Problem::Missing).in_field({asn:?}));");
                writeln!(self, "}};");
                let put = self.put(&OER, &field.ty, "value", true);
                writeln!(self, "{put}?;");
            } else if field.is_grouped {
                self.forward_encode_field(&OER, field);
            } else {
                // It is there: that is why this is written.
                let place = format!("self.{}", field.names.rust);
                if field.presence == Presence::Optional {
                    let put = self.put(&OER, &field.ty, "value", true);
                    writeln!(self, "if let Some(value) = &{place} {{");
                    writeln!(self, "{put}?;");
                    writeln!(self, "}}");
                } else {
                    let put = self.put(&OER, &field.ty, &place, false);
                    writeln!(self, "{put}?;");
                }
            }
        }
    }

    fn oer_decode_struct(&mut self, rust: &str, of: &Struct) {
        let root: Vec<&Field> =
            self.ordered(of).into_iter().filter(|f| f.addition.is_none()).collect();
        let first = usize::from(of.unknown_at.is_some());
        let count = first + root.iter().filter(|f| f.presence != Presence::Required).count();
        self.read_presence(count);
        let mut bit = first;
        for field in root {
            self.forward_decode_field(&OER, field, &mut bit, count);
        }
        let groups = groups(of);
        self.declare_additions(of);
        if of.unknown_at.is_some() {
            writeln!(self, "if {} {{", super::lws::condition(0, count));
            writeln!(self, "let (additions_, count_) = from.additions()?;");
            for (n, group) in groups.iter().take(ADDITIONS_MAX).enumerate() {
                writeln!(self, "if additions_ & {:#x} != 0 {{", 1_u64 << (63 - n));
                writeln!(self, "from.counted(|from| {{");
                self.oer_decode_group(group);
                writeln!(self, "Ok(())");
                writeln!(self, "}})?;");
                writeln!(self, "}}");
            }
            if groups.len() < ADDITIONS_MAX {
                writeln!(self, "for addition_ in {}..count_ {{", groups.len());
                writeln!(self, "if additions_ >> (63 - addition_) & 1 != 0 {{");
                writeln!(self, "from.skip_addition()?;");
                writeln!(self, "}}");
                writeln!(self, "}}");
            } else {
                writeln!(self, "let _ = count_;");
            }
            writeln!(self, "}}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        writeln!(self, "Ok({rust} {{ {} }})", names.join(", "));
    }

    fn oer_decode_group(&mut self, group: &[&Field]) {
        let count = group.iter().filter(|f| f.is_grouped && !f.is_needed).count();
        self.read_presence(count);
        let mut bit = 0;
        for field in group {
            if self.is_checked(&field.ty) {
                writeln!(self, "let at_ = from.position();");
            }
            let (name, asn) = (&field.names.rust, &field.names.asn);
            let take = self.take(&OER, &field.ty);
            let read = match (&field.presence, field.is_grouped && !field.is_needed) {
                (Presence::Default(constant), true) => {
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    let condition = super::lws::condition(bit, count);
                    bit += 1;
                    format!("from.default({condition}, {asn:?}, {default}, {take})?")
                }
                (_, true) => {
                    let condition = super::lws::condition(bit, count);
                    bit += 1;
                    format!("from.optional({condition}, {asn:?}, {take})?")
                }
                (Presence::Optional, false) => format!("Some(from.field({asn:?}, {take})?)"),
                (_, false) => format!("from.field({asn:?}, {take})?"),
            };
            writeln!(self, "{name} = {read};");
            let is_option = field.presence == Presence::Optional;
            self.decode_checks(field, is_option);
        }
    }

    fn oer_begin(&self, alternative: &Field) -> Begin {
        match alternative.ty.tagging {
            Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t) => Begin::Tagged(t),
            Tagging::Own => {
                let mut kind = &alternative.ty.kind;
                for _ in 0..64 {
                    let Kind::Named(id) = kind else { break };
                    let def = &self.model.defs[*id];
                    match &def.shape {
                        Shape::Alias(of) => kind = &of.kind,
                        Shape::Choice(_) if def.tag.is_none() => return Begin::Choice(*id),
                        _ => break,
                    }
                }
                match alternative.begins.as_deref() {
                    Some([tag]) => Begin::Tagged(*tag),
                    _ => Begin::None,
                }
            }
        }
    }

    fn oer_choice(&mut self, id: DefId, of: &Choice) {
        let def = &self.model.defs[id];
        let (rust, is_recursive) = (def.rust.clone(), def.is_recursive);
        self.forward_encode(&OER, id, |w| w.oer_encode_choice(&rust, of));
        let (a, life) = match def.borrows {
            true => ("<'a>", ""),
            false => ("", "'a, "),
        };
        let rules = "impl<'a> oer::Decode<'a> for";
        writeln!(self);
        writeln!(self, "{rules} {rust}{a} {{");
        writeln!(self, "fn decode<SourceT: codec::Source<'a>>(");
        writeln!(self, "from: &mut oer::Decoder<SourceT>,");
        writeln!(self, ") -> Result<Self, codec::Error> {{");
        writeln!(self, "let tag = from.tag()?;");
        writeln!(self, "Self::oer_alternative(tag, from)");
        writeln!(self, "}}");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "impl{a} {rust}{a} {{");
        writeln!(self, "/// Decodes the alternative of a tag that was read.");
        writeln!(self, "///");
        writeln!(self, "/// # Errors");
        writeln!(self, "/// There is no such alternative, or it is malformed.");
        writeln!(self, "pub fn oer_alternative<{life}SourceT: codec::Source<'a>>(");
        writeln!(self, "tag: codec::ber::Tag,");
        writeln!(self, "from: &mut oer::Decoder<SourceT>,");
        writeln!(self, ") -> Result<Self, codec::Error> {{");
        if is_recursive {
            writeln!(self, "from.nested(|from| {{");
        }
        self.oer_decode_choice(&rust, of);
        if is_recursive {
            writeln!(self, "}})");
        }
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    fn oer_encode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "match self {{");
        for alternative in &of.alternatives {
            let begin = self.oer_begin(alternative);
            if matches!(begin, Begin::None) {
                writeln!(self, "{rust}::{}(_) => {{", alternative.names.rust);
                writeln!(
                    self,
                    "Err(to.error(codec::Problem::Unsupported(\"an alternative without a tag\")))"
                );
                writeln!(self, "}}");
                continue;
            }
            writeln!(self, "{rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            let put = self.put(&OER, &alternative.ty, "value", true);
            if let Begin::Tagged(t) = begin {
                writeln!(self, "to.tag(codec::{})?;", tag(t));
                if alternative.addition.is_some() {
                    writeln!(self, "to.counted(|to| {put})");
                } else {
                    writeln!(self, "{put}");
                }
            } else {
                writeln!(self, "{put}");
            }
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => to.put(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            writeln!(self, "_ => {{");
            writeln!(self, "let _ = to;");
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn oer_decode_choice(&mut self, rust: &str, of: &Choice) {
        let mut otherwise = "";
        for alternative in &of.alternatives {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let (condition, read) = match self.oer_begin(alternative) {
                Begin::None => continue,
                Begin::Tagged(t) => {
                    let take = self.take(&OER, &alternative.ty);
                    let read = match alternative.addition {
                        Some(_) => format!("|from| from.counted({take})"),
                        None => take,
                    };
                    (format!("tag == codec::{}", tag(t)), read)
                }
                Begin::Choice(inner) => {
                    let begins = alternative.begins.clone().unwrap_or_default();
                    let tags: Vec<_> =
                        begins.iter().map(|t| format!("tag == codec::{}", tag(*t))).collect();
                    if tags.is_empty() {
                        continue;
                    }
                    let boxed = if alternative.ty.is_boxed { ".map(Box::new)" } else { "" };
                    let path = self.path(inner);
                    (tags.join(" || "), format!("|from| {path}::oer_alternative(tag, from){boxed}"))
                }
            };
            writeln!(self, "{otherwise}if {condition} {{");
            self.decode_alternative(
                rust,
                name,
                alternative,
                &format!("from.field({asn:?}, {read})"),
            );
            otherwise = "} else ";
        }
        let other = if of.is_extensible {
            format!("from.unknown_alternative(tag).map({rust}::Unknown)")
        } else {
            format!("Err(from.unknown(tag, {rust:?}))")
        };
        if otherwise.is_empty() {
            return writeln!(self, "{other}");
        }
        writeln!(self, "}} else {{");
        writeln!(self, "{other}");
        writeln!(self, "}}");
    }
}

/// The additions, each with its components.
pub fn groups(of: &Struct) -> Vec<Vec<&Field>> {
    let mut groups: Vec<Vec<&Field>> = Vec::new();
    for field in &of.fields {
        let Some(n) = field.addition else { continue };
        if n >= groups.len() {
            groups.push(Vec::new());
        }
        groups[n].push(field);
    }
    groups
}
