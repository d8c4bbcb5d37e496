//! OER: what `fusewire_codec::oer` asks of a type (X.696). Components in order (those of a SET in the order of
//! their tags) behind bits that say which of the optional ones follow; additions behind bits of their own, each
//! counted; alternatives behind their tags. What is written is COER.

use super::Encoding;
use super::ber::tag;
use super::checks::character_width;
use super::encoding::{Entry, Form, Forward, NOTHING, Open, PLAIN, Place, Step, To, What};
use super::forward::extended;
use super::limits::Limits;
use super::model::*;
use super::plain::{are_whole, cast, fixed, machine_integer, of_its_width};
use super::write::Writer;

/// The octet encoding rules, and the canonical ones.
pub static OER: Entry = Entry {
    encoding: Encoding::Oer,
    names: &["oer", "coer"],
    module: "oer",
    emit: |w, id| w.forward(&OER, id),
    forward: Forward {
        put_struct: |w, of| w.oer_encode_struct(of),
        take_struct: |w, rust, of, to| w.oer_decode_struct(rust, of, to),
        put_item: |w, _, _, _| writeln!(w, "to.enumerated(self.number())"),
        take_item: |w, rust, _, _| w.decode_item(rust, "from.enumerated()?"),
        put_alternatives: |w, of| {
            let lines = |alternative: &Field| match w.model.oer_begin(alternative) {
                Begin::Tagged(t) => {
                    let put = w.put_alternative(&OER, alternative);
                    Some(vec![format!("to.tag(codec::{})?;", tag(t)), put])
                }
                Begin::Choice(_) => {
                    let put = w.put_alternative(&OER, alternative);
                    Some(vec!["to.selected_tag(value.oer_tag())?;".to_owned(), put])
                }
                Begin::None => None,
            };
            of.alternatives.iter().map(lines).collect()
        },
        put_unknown: "to.put(value.as_bytes())",
        put_none: NOTHING,
        take_choice: |w, id, of| w.oer_decode_choice(id, of),
    },
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

/// The tag in front of an alternative of a CHOICE (X.696 clause 20.1).
enum Begin {
    /// Its outermost tag.
    Tagged(WireTag),
    /// The tag of the alternative selected in the untagged CHOICE that it is.
    Choice(DefId),
    /// It has no tag by which it could be known.
    None,
}

impl Model {
    /// Finds the CHOICEs that are untagged alternatives of others.
    pub(super) fn find_inner_choices(&mut self) {
        let mut inner = vec![false; self.defs.len()];
        let choices = self.defs.iter().filter_map(|def| match &def.shape {
            Shape::Choice(of) => Some(&of.alternatives),
            _ => None,
        });
        for alternative in choices.flatten() {
            if let Begin::Choice(id) = self.oer_begin(alternative) {
                inner[id] = true;
            }
        }
        self.inner_choices = inner;
    }

    /// The alternative that takes tags that no alternative has: the untagged CHOICE that is extensible, in a CHOICE that is
    /// not extensible itself (X.680 clause 52.7).
    pub(super) fn open_alternative<'f>(&self, of: &'f Choice) -> Option<&'f Field> {
        self.open_alternative_within(of, 0)
    }

    fn open_alternative_within<'f>(&self, of: &'f Choice, depth: u32) -> Option<&'f Field> {
        let is_open = |alternative: &&Field| {
            let Begin::Choice(id) = self.oer_begin(alternative) else { return false };
            let Shape::Choice(inner) = &self.defs[id].shape else { return false };
            inner.is_extensible || self.open_alternative_within(inner, depth + 1).is_some()
        };
        if of.is_extensible || depth > 32 {
            return None;
        }
        of.alternatives.iter().find(is_open)
    }

    fn oer_begin(&self, alternative: &Field) -> Begin {
        match alternative.ty.tagging {
            Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t) => Begin::Tagged(t),
            Tagging::Own => {
                let mut kind = &alternative.ty.kind;
                for _ in 0..64 {
                    let Kind::Named(id) = kind else { break };
                    let def = &self.defs[*id];
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
}

impl Writer<'_> {
    fn oer_encode_struct(&mut self, of: &Struct) {
        let root: Vec<&Field> =
            self.ordered(of).into_iter().filter(|f| f.addition.is_none()).collect();
        let groups = self.put_root(&OER, of, &root);
        if !groups.is_empty() {
            writeln!(self, "if {} {{", extended(&groups));
            let known = &groups[..groups.len().min(ADDITIONS_MAX)];
            let bits: Vec<_> = known.iter().map(|(_, there)| there.clone()).collect();
            self.presence_bits(&bits, "additions");
            for (group, there) in known {
                writeln!(self, "if {there} {{");
                self.counted("to", |w| w.oer_encode_group(group));
                writeln!(self, "}}");
            }
            writeln!(self, "}}");
        }
        self.end_put(of);
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
                let put = self.put_named(&OER, field, "value", true);
                writeln!(self, "{put}?;");
            } else if field.is_grouped || field.presence == Presence::Optional {
                self.forward_encode_field(&OER, field);
            } else {
                // It is there: that is why this is written.
                let place = format!("self.{}", field.names.rust);
                let put = self.put_named(&OER, field, &place, false);
                writeln!(self, "{put}?;");
            }
        }
    }

    fn oer_decode_struct(&mut self, rust: &str, of: &Struct, to: To) {
        let root: Vec<&Field> =
            self.ordered(of).into_iter().filter(|f| f.addition.is_none()).collect();
        let extended = self.take_root(&OER, of, &root, to);
        let groups = groups(of);
        if of.unknown_at.is_some() {
            writeln!(self, "if {extended} {{");
            writeln!(self, "let (additions_, count_) = from.additions()?;");
            for (n, group) in groups.iter().take(ADDITIONS_MAX).enumerate() {
                writeln!(self, "if additions_ & {:#x} != 0 {{", 1_u64 << (63 - n));
                self.counted("from", |w| w.oer_decode_group(group, to));
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
        self.end_take(rust, of, to);
    }

    fn oer_decode_group(&mut self, group: &[&Field], to: To) {
        let count = group.iter().filter(|f| f.is_grouped && !f.is_needed).count();
        self.read_presence(count);
        let mut bit = 0;
        for field in group {
            let has_bit = field.is_grouped && !field.is_needed;
            self.take_field(&OER, field, to, |w| {
                if has_bit {
                    return w.bit_step(&OER, field, &mut bit, count);
                }
                let read = w.take_component(&OER, field);
                let value = match &field.presence {
                    Presence::Optional => format!("Some({read})"),
                    _ => read.clone(),
                };
                Step { comes: None, read, value }
            });
        }
    }

    /// The alternative of a tag is a function of its own, for a CHOICE around this one, which has read the tag.
    fn oer_decode_choice(&mut self, id: DefId, of: &Choice) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = &def.rust;
        let (a, life) = match def.borrows {
            true => ("<'a>", ""),
            false => ("", "'a, "),
        };
        writeln!(self);
        writeln!(self, "impl<'a> oer::Decode<'a> for {rust}{a} {{");
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
        if def.is_recursive {
            writeln!(self, "from.nested(|from| {{");
        }
        let cases: Vec<_> = of.alternatives.iter().filter_map(|a| self.oer_case(a)).collect();
        let open = self.model.open_alternative(of).and_then(|a| self.oer_case(a));
        let other = match open {
            _ if of.is_extensible => {
                format!("from.unknown_alternative(tag).map({rust}::Unknown)")
            }
            Some((_, read, open)) => format!("{read}.map({rust}::{})", open.names.rust),
            None => format!("Err(from.unknown(tag, {rust:?}))"),
        };
        self.ask_alternatives(rust, &cases, &other);
        if def.is_recursive {
            writeln!(self, "}})");
        }
        writeln!(self, "}}");
        if model.inner_choices[id] {
            self.oer_tag(rust, of);
        }
        writeln!(self, "}}");
    }

    /// The tag of the selected alternative, for the CHOICE around this one.
    fn oer_tag(&mut self, rust: &str, of: &Choice) {
        writeln!(self);
        writeln!(self, "/// Returns the outermost tag of the selected alternative, if it has one.");
        writeln!(self, "pub fn oer_tag(&self) -> Option<codec::ber::Tag> {{");
        writeln!(self, "match self {{");
        for alternative in &of.alternatives {
            let name = &alternative.names.rust;
            match self.model.oer_begin(alternative) {
                Begin::Tagged(t) => {
                    let tag = tag(t);
                    writeln!(self, "{rust}::{name}(_) => Some(codec::{tag}),");
                }
                Begin::Choice(_) => writeln!(self, "{rust}::{name}(value) => value.oer_tag(),"),
                Begin::None => writeln!(self, "{rust}::{name}(_) => None,"),
            }
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => oer::tag_of(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            writeln!(self, "_ => None,");
        }
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    /// The condition of an alternative, and what reads it.
    fn oer_case<'f>(&self, alternative: &'f Field) -> Option<(String, String, &'f Field)> {
        let is = |t: &WireTag| format!("tag == codec::{}", tag(*t));
        let (condition, read) = match self.model.oer_begin(alternative) {
            Begin::None => return None,
            Begin::Tagged(t) => (is(&t), self.take_alternative(&OER, alternative)),
            Begin::Choice(inner) => {
                let tags: Vec<_> = alternative.begins.iter().flatten().map(is).collect();
                let boxed = if alternative.ty.is_boxed { ".map(Box::new)" } else { "" };
                let (path, asn) = (self.path(inner), &alternative.names.asn);
                let read =
                    format!("from.same_tag(tag)?; {path}::oer_alternative(tag, from){boxed}");
                let read = match alternative.addition {
                    Some(_) => format!("|from| from.counted(|from| {{ {read} }})"),
                    None => format!("|from| {{ {read} }}"),
                };
                (tags.join(" || "), format!("from.field({asn:?}, {read})"))
            }
        };
        (!condition.is_empty()).then_some((condition, read, alternative))
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
