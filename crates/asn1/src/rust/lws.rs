//! LWS: what `fusewire_codec::lws` asks of a type. Components in order, behind bits that say which of the
//! optional ones follow; what stands behind `...` is counted, so that who does not know it can pass over it.

use super::Encoding;
use super::checks::Side;
use super::encoding::{Entry, Form, Forward, NOTHING, Open, PLAIN, Place, To, What};
use super::forward::extended;
use super::limits::Limits;
use super::model::*;
use super::plain::{bits_as_octets, fixed, machine_integer, of_its_width};
use super::write::{Writer, type_range};

/// The light-weight syntax, one codec for words of every size.
pub static LWS: Entry = Entry {
    encoding: Encoding::Lws,
    names: &["lws16", "lws32", "lws64"],
    module: "lws",
    emit: |w, id| {
        w.forward(&LWS, id);
        w.lws_fixed(id);
    },
    forward: Forward {
        put_struct: |w, of| w.lws_encode_struct(of),
        take_struct: |w, rust, of, to| w.lws_decode_struct(rust, of, to),
        put_item: |w, _, _, _| writeln!(w, "to.integer(self.number())"),
        take_item: |w, rust, _, _| w.decode_item(rust, "from.integer()?"),
        put_alternatives: |w, of| {
            let lines = |(n, alternative)| {
                Some(vec![format!("to.index({n})?;"), w.put_alternative(&LWS, alternative)])
            };
            of.alternatives.iter().enumerate().map(lines).collect()
        },
        put_unknown: "to.octets_fixed(value.as_bytes())",
        put_none: NOTHING,
        take_choice: |w, id, of| {
            w.forward_choice(&LWS, id, |w, to| w.lws_decode_choice(id, of, to))
        },
    },
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
        let root: Vec<&Field> = of.fields.iter().filter(|f| f.addition.is_none()).collect();
        let groups = self.put_root(&LWS, of, &root);
        if !groups.is_empty() {
            writeln!(self, "if {} {{", extended(&groups));
            writeln!(self, "to.count({})?;", groups.len());
            for (group, _) in groups {
                self.counted("to", |w| {
                    let bits: Vec<_> = group.iter().filter_map(|f| w.is_there(f)).collect();
                    w.presence_bits(&bits, "presence");
                    group.iter().for_each(|field| w.forward_encode_field(&LWS, field));
                });
            }
            writeln!(self, "}}");
        }
        self.end_put(of);
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

    fn lws_decode_struct(&mut self, rust: &str, of: &Struct, to: To) {
        let root: Vec<&Field> = of.fields.iter().filter(|f| f.addition.is_none()).collect();
        let extended = self.take_root(&LWS, of, &root, to);
        let groups = super::oer::groups(of);
        if !groups.is_empty() {
            self.lws_decode_additions(&groups, &extended, to);
        } else if of.unknown_at.is_some() {
            writeln!(self, "if {extended} {{");
            writeln!(self, "from.skip_additions()?;");
            writeln!(self, "}}");
        }
        self.end_take(rust, of, to);
    }

    fn lws_decode_additions(&mut self, groups: &[Vec<&Field>], extended: &str, to: To) {
        writeln!(self, "if {extended} {{");
        writeln!(self, "let additions = from.count(WordT::BYTES)?;");
        for (n, group) in groups.iter().enumerate() {
            writeln!(self, "if additions > {n} {{");
            self.counted("from", |w| {
                w.read_presence(group.len());
                let mut bit = 0;
                for field in group {
                    let step = |w: &mut Self| w.bit_step(&LWS, field, &mut bit, group.len());
                    w.take_field(&LWS, field, to, step);
                }
            });
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

    fn lws_decode_choice(&mut self, id: DefId, of: &Choice, to: To) {
        let model = self.model;
        let rust = model.defs[id].rust.as_str();
        let patterns = (0..of.alternatives.len()).map(|n| n.to_string());
        let others = match of.is_extensible {
            true => vec![
                "other => {".to_owned(),
                format!("from.unknown_alternative(other).map({rust}::Unknown)"),
                "}".to_owned(),
            ],
            false => vec![format!("other => Err(from.unknown(other as i64, {rust:?})),")],
        };
        self.match_number(&LWS, (id, of), "from.index()?", patterns, &others, to);
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
