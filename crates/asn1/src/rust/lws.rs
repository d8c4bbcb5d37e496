//! LWS: what `fusewire_codec::lws` asks of a type. Components in order, behind bits that say which of the
//! optional ones follow; what stands behind `...` is counted, so that who does not know it can pass over it.

use super::Encoding;
use super::checks::Side;
use super::encoding::{Entry, Form, Open, PLAIN, Place, What};
use super::limits::Limits;
use super::model::*;
use super::oer::groups;
use super::plain::{bits_as_octets, fixed, machine_integer, of_its_width};
use super::write::{Writer, type_range};

/// The light-weight syntax, one codec for words of every size.
pub static LWS: Entry = Entry {
    encoding: Encoding::Lws,
    names: &["lws16", "lws32", "lws64"],
    module: "lws",
    emit: |w, id| w.lws(id),
    open: Open { suffix: "_lws", argument: "", call: ("lws::from_bytes::<WordT, _>(", ")") },
    form,
    generics: (", WordT: lws::Word", ", WordT"),
    newtype: |w, id, of, side| w.lws_packed(id, of, side),
    ..PLAIN
};

fn form(writer: &Writer<'_>, what: What<'_>, limits: &Limits, at: &Place) -> Option<Form> {
    match what {
        What::List(of) => {
            let each = writer.elements(&LWS, of, at);
            match fixed(limits) {
                Some(n) => each.fixed(n),
                None => each.counted(format!("to.count({}.len())", at.base)),
            }
        }
        What::Octets => {
            let (n, reference) = (fixed(limits)?, &at.reference);
            Form::new(format!("to.octets_fixed({reference})"), format!("from.octets_fixed({n})"))
        }
        What::Bits => bits_as_octets(limits, at, "octets_fixed"),
        What::Wide => machine_integer("lws", limits, at, true),
        What::Number(path) => of_its_width("lws", limits, path, at),
        What::Real | What::Text(_) => None,
    }
}

/// Bits that one call takes.
const BITS_MAX: usize = 64;

impl Writer<'_> {
    /// What a definition needs for LWS.
    pub fn lws(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        let rust = def.rust.as_str();
        match &def.shape {
            Shape::Alias(_) | Shape::Pending => {}
            Shape::Struct(of) => {
                self.forward_encode(&LWS, id, |w| w.lws_encode_struct(of));
                self.forward_decode(&LWS, id, |w| w.lws_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(&LWS, id, |w| {
                    writeln!(w, "to.integer(self.number())");
                });
                self.forward_decode(&LWS, id, |w| {
                    w.decode_item(rust, "from.integer()?");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(&LWS, id, of),
            Shape::Choice(of) => {
                self.forward_encode(&LWS, id, |w| w.lws_encode_choice(rust, of));
                self.forward_decode(&LWS, id, |w| w.lws_decode_choice(rust, of));
            }
        }
        self.lws_fixed(id);
    }

    /// Whether a component is written, as a condition; nothing for one that always is.
    pub(super) fn is_there(&self, field: &Field) -> Option<String> {
        let place = format!("self.{}", field.names.rust);
        match &field.presence {
            Presence::Required => None,
            Presence::Optional => Some(format!("{place}.is_some()")),
            Presence::Default(constant) => {
                let default = self.expression(constant, &field.ty).unwrap_or_default();
                Some(match default.as_str() {
                    "false" => place,
                    "true" => format!("!{place}"),
                    _ => format!("{place} != {default}"),
                })
            }
        }
    }

    fn lws_encode_struct(&mut self, of: &Struct) {
        self.root_checks(of);
        let groups = groups(of);
        let there: Vec<String> = groups.iter().map(|g| self.any_is_there(g)).collect();
        let extended = if there.is_empty() { "false".to_owned() } else { there.join(" || ") };
        let mut bits = Vec::new();
        if of.unknown_at.is_some() {
            bits.push(extended.clone());
        }
        let root = of.fields.iter().filter(|f| f.addition.is_none());
        bits.extend(root.filter_map(|f| self.is_there(f)));
        self.presence_bits(&bits, "presence");
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.forward_encode_field(&LWS, field);
        }
        if !groups.is_empty() {
            writeln!(self, "if {extended} {{");
            writeln!(self, "to.count({})?;", groups.len());
            for group in groups {
                writeln!(self, "to.counted(|to| {{");
                let bits: Vec<_> = group.iter().filter_map(|f| self.is_there(f)).collect();
                self.presence_bits(&bits, "presence");
                for field in group {
                    self.forward_encode_field(&LWS, field);
                }
                writeln!(self, "Ok(())");
                writeln!(self, "}})?;");
            }
            writeln!(self, "}}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = to;");
        }
        writeln!(self, "Ok(())");
    }

    /// Writes bits, by one call for each 64 of them.
    pub(super) fn presence_bits(&mut self, bits: &[String], method: &str) {
        for bits in bits.chunks(BITS_MAX) {
            let is_none = |bit: &str| bit == "false";
            if bits.iter().all(|b| is_none(b)) {
                writeln!(self, "to.{method}(0, {})?;", bits.len());
                continue;
            }
            writeln!(self, "let mut present_ = 0_u64;");
            for (n, bit) in bits.iter().enumerate().filter(|(_, b)| !is_none(b)) {
                match bits.len() - 1 - n {
                    0 => writeln!(self, "present_ |= u64::from({bit});"),
                    up => writeln!(self, "present_ |= u64::from({bit}) << {up};"),
                }
            }
            writeln!(self, "to.{method}(present_, {})?;", bits.len());
        }
    }

    fn lws_decode_struct(&mut self, rust: &str, of: &Struct) {
        let root: Vec<&Field> = of.fields.iter().filter(|f| f.addition.is_none()).collect();
        let optional = root.iter().filter(|f| f.presence != Presence::Required).count();
        let first = usize::from(of.unknown_at.is_some());
        self.read_presence(optional + first);
        let mut bit = first;
        for field in root {
            let count = optional + first;
            self.forward_decode_field(&LWS, field, &mut bit, count);
        }
        let groups = groups(of);
        let extended = condition(0, (optional + first).max(1));
        self.declare_additions(of);
        if !groups.is_empty() {
            self.lws_decode_additions(&groups, &extended);
        } else if of.unknown_at.is_some() {
            writeln!(self, "if {extended} {{");
            writeln!(self, "from.skip_additions()?;");
            writeln!(self, "}}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            writeln!(self, "let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        writeln!(self, "Ok({rust} {{ {} }})", names.join(", "));
    }

    fn lws_decode_additions(&mut self, groups: &[Vec<&Field>], extended: &str) {
        writeln!(self, "if {extended} {{");
        writeln!(self, "let additions = from.count(WordT::BYTES)?;");
        for (n, group) in groups.iter().enumerate() {
            writeln!(self, "if additions > {n} {{");
            writeln!(self, "from.counted(|from| {{");
            self.read_presence(group.len());
            let mut bit = 0;
            for field in group {
                if self.is_checked(&field.ty) {
                    writeln!(self, "let at_ = from.position();");
                }
                let step = self.bit_step(&LWS, field, &mut bit, group.len());
                writeln!(self, "{} = {step};", field.names.rust);
                self.decode_checks(field, field.presence == Presence::Optional);
            }
            writeln!(self, "Ok(())");
            writeln!(self, "}})?;");
            writeln!(self, "}}");
        }
        writeln!(self, "for _ in {}..additions {{", groups.len());
        writeln!(self, "from.skip_counted()?;");
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    /// Reads bits, by one call for each 64 of them.
    pub(super) fn read_presence(&mut self, count: usize) {
        for (n, start) in (0..count).step_by(BITS_MAX).enumerate() {
            writeln!(self, "let present{n}_ = from.presence({})?;", (count - start).min(BITS_MAX));
        }
    }

    /// Whether arrays of a struct around a value lie closer than its values do alone.
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
            && !self.is_special(&LWS, &of.inner)
            && leaf.newtypes.first().is_none_or(are_packed)
    }

    /// An array of structs around a value is one of what they hold.
    fn lws_packed(&mut self, id: DefId, of: &Newtype, side: &Side) {
        if !self.is_packed(of) {
            return;
        }
        let (all, value, is_ref) = match side {
            Side::Encode => ("values", "value.0", false),
            Side::Decode => ("all", "value", true),
        };
        let checks = self.checks(&of.inner, value, is_ref, side, ".in_element(index_)");
        let ty = self.ty(&of.inner, "'a");
        writeln!(self);
        match side {
            Side::Encode => {
                writeln!(self, "fn encode_all<SinkT: codec::Sink, WordT: lws::Word>(");
                writeln!(self, "values: &[Self],");
                writeln!(self, "to: &mut lws::Encoder<SinkT, WordT>,");
                writeln!(self, ") -> Result<(), codec::Error> {{");
            }
            Side::Decode => {
                writeln!(self, "fn decode_all<SourceT: codec::Source<'a>, WordT: lws::Word>(");
                writeln!(self, "count: usize,");
                writeln!(self, "from: &mut lws::Decoder<SourceT, WordT>,");
                writeln!(self, ") -> Result<Vec<Self>, codec::Error> {{");
                if !checks.is_empty() {
                    writeln!(self, "let at_ = from.position();");
                }
                writeln!(self, "let all = <{ty} as lws::Decode>::decode_all(count, from)?;");
            }
        }
        if !checks.is_empty() {
            writeln!(self, "for (index_, value) in {all}.iter().enumerate() {{");
            checks.iter().for_each(|c| writeln!(self, "{c}"));
            writeln!(self, "}}");
        }
        match side {
            Side::Encode => {
                let leaf = self.leaf(&of.inner);
                let is_integer = matches!(leaf.kind, Kind::Plain("types::Integer", _));
                let copy = if is_integer || !leaf.way.is_empty() { ".clone()" } else { "" };
                let values = format!("values.iter().map(|value| value.0{copy}).collect()");
                writeln!(self, "let all: Vec<_> = {values};");
                writeln!(self, "lws::Encode::encode_all(&all, to)");
            }
            Side::Decode => {
                let rust = &self.model.defs[id].rust;
                writeln!(self, "Ok(all.into_iter().map({rust}).collect())");
            }
        }
        writeln!(self, "}}");
    }

    fn lws_encode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "match self {{");
        for (n, alternative) in of.alternatives.iter().enumerate() {
            let put = self.put(&LWS, &alternative.ty, "value", true);
            writeln!(self, "{rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            writeln!(self, "to.index({n})?;");
            match alternative.addition {
                Some(_) => writeln!(self, "to.counted(|to| {put})"),
                None => writeln!(self, "{put}"),
            }
            writeln!(self, "}}");
        }
        if of.is_extensible {
            writeln!(self, "{rust}::Unknown(value) => to.octets_fixed(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            writeln!(self, "_ => {{");
            writeln!(self, "let _ = to;");
            writeln!(self, "Ok(())");
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn lws_decode_choice(&mut self, rust: &str, of: &Choice) {
        writeln!(self, "match from.index()? {{");
        for (n, alternative) in of.alternatives.iter().enumerate() {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let take = self.take(&LWS, &alternative.ty);
            let read = match alternative.addition {
                Some(_) => format!("|from| from.counted({take})"),
                None => take,
            };
            writeln!(self, "{n} => {{");
            let read = format!("from.field({asn:?}, {read})");
            self.decode_alternative(rust, name, alternative, &read);
            writeln!(self, "}}");
        }
        match of.is_extensible {
            true => {
                writeln!(self, "other => {{");
                writeln!(self, "from.unknown_alternative(other).map({rust}::Unknown)");
                writeln!(self, "}}");
            }
            false => {
                writeln!(self, "other => Err(from.unknown(other as i64, {rust:?})),");
            }
        }
        writeln!(self, "}}");
    }
}

/// Whether a bit is set among those that were read, as a condition.
pub fn condition(bit: usize, count: usize) -> String {
    format!("{} != 0", mask(bit, count))
}

/// Where a bit is among those that were read.
fn mask(bit: usize, count: usize) -> String {
    let (word, within) = (bit / BITS_MAX, bit % BITS_MAX);
    let in_word = (count - word * BITS_MAX).min(BITS_MAX);
    format!("present{word}_ & {:#x}", 1_u64 << (in_word - 1 - within))
}
