//! LWS: what `fusewire_codec::lws` asks of a type. Components in order, behind bits that say which of the
//! optional ones follow; what stands behind `...` is counted, so that who does not know it can pass over it.

use super::model::*;
use super::oer::groups;
use super::plain::Forward;
use super::write::{Writer, line};

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
                self.forward_encode(Forward::Lws, id, |w| w.lws_encode_struct(of));
                self.forward_decode(Forward::Lws, id, |w| w.lws_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(Forward::Lws, id, |w| {
                    line!(w, "        to.integer(self.number())");
                });
                self.forward_decode(Forward::Lws, id, |w| {
                    w.decode_item(rust, "from.integer()?");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(Forward::Lws, id, of),
            Shape::Choice(of) => {
                self.forward_encode(Forward::Lws, id, |w| w.lws_encode_choice(rust, of));
                self.forward_decode(Forward::Lws, id, |w| w.lws_decode_choice(rust, of));
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
            self.forward_encode_field(Forward::Lws, field, "        ");
        }
        if !groups.is_empty() {
            line!(self, "        if {extended} {{");
            line!(self, "            to.count({})?;", groups.len());
            for group in groups {
                line!(self, "            to.counted(|to| {{");
                let bits: Vec<_> = group.iter().filter_map(|f| self.is_there(f)).collect();
                self.presence_bits(&bits, "presence");
                for field in group {
                    self.forward_encode_field(Forward::Lws, field, "                ");
                }
                line!(self, "                Ok(())");
                line!(self, "            }})?;");
            }
            line!(self, "        }}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            line!(self, "        let _ = to;");
        }
        line!(self, "        Ok(())");
    }

    /// Writes bits, by one call for each 64 of them.
    pub(super) fn presence_bits(&mut self, bits: &[String], method: &str) {
        for bits in bits.chunks(BITS_MAX) {
            let is_none = |bit: &str| bit == "false";
            if bits.iter().all(|b| is_none(b)) {
                line!(self, "        to.{method}(0, {})?;", bits.len());
                continue;
            }
            line!(self, "        let mut present_ = 0_u64;");
            for (n, bit) in bits.iter().enumerate().filter(|(_, b)| !is_none(b)) {
                match bits.len() - 1 - n {
                    0 => line!(self, "        present_ |= u64::from({bit});"),
                    up => line!(self, "        present_ |= u64::from({bit}) << {up};"),
                }
            }
            line!(self, "        to.{method}(present_, {})?;", bits.len());
        }
    }

    fn lws_decode_struct(&mut self, rust: &str, of: &Struct) {
        let root: Vec<&Field> = of.fields.iter().filter(|f| f.addition.is_none()).collect();
        let optional = root.iter().filter(|f| f.presence != Presence::Required).count();
        let first = usize::from(of.unknown_at.is_some());
        self.read_presence(optional + first, "        ");
        let mut bit = first;
        for field in root {
            let count = optional + first;
            self.forward_decode_field(Forward::Lws, field, &mut bit, count, "        ");
        }
        let groups = groups(of);
        let extended = condition(0, (optional + first).max(1));
        self.declare_additions(of);
        if !groups.is_empty() {
            self.lws_decode_additions(&groups, &extended);
        } else if of.unknown_at.is_some() {
            line!(self, "        if {extended} {{");
            line!(self, "            from.skip_additions()?;");
            line!(self, "        }}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            line!(self, "        let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        line!(self, "        Ok({rust} {{ {} }})", names.join(", "));
    }

    fn lws_decode_additions(&mut self, groups: &[Vec<&Field>], extended: &str) {
        line!(self, "        if {extended} {{");
        line!(self, "            let additions = from.count(WordT::BYTES)?;");
        for (n, group) in groups.iter().enumerate() {
            line!(self, "            if additions > {n} {{");
            line!(self, "                from.counted(|from| {{");
            let indent = "                    ";
            self.read_presence(group.len(), indent);
            let mut bit = 0;
            for field in group {
                if self.is_checked(&field.ty) {
                    line!(self, "{indent}let at_ = from.position();");
                }
                let step = self.bit_step(Forward::Lws, field, &mut bit, group.len());
                line!(self, "{indent}{} = {step};", field.names.rust);
                self.decode_checks(field, field.presence == Presence::Optional, indent);
            }
            line!(self, "                    Ok(())");
            line!(self, "                }})?;");
            line!(self, "            }}");
        }
        line!(self, "            for _ in {}..additions {{", groups.len());
        line!(self, "                from.skip_counted()?;");
        line!(self, "            }}");
        line!(self, "        }}");
    }

    /// Reads bits, by one call for each 64 of them.
    pub(super) fn read_presence(&mut self, count: usize, indent: &str) {
        for (n, start) in (0..count).step_by(BITS_MAX).enumerate() {
            line!(
                self,
                "{indent}let present{n}_ = from.presence({})?;",
                (count - start).min(BITS_MAX)
            );
        }
    }

    fn lws_encode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        match self {{");
        for (n, alternative) in of.alternatives.iter().enumerate() {
            let put = self.put(Forward::Lws, &alternative.ty, "value", true);
            line!(self, "            {rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            line!(self, "                to.index({n})?;");
            match alternative.addition {
                Some(_) => line!(self, "                to.counted(|to| {put})"),
                None => line!(self, "                {put}"),
            }
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            {rust}::Unknown(value) => to.octets_fixed(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            line!(self, "            _ => {{");
            line!(self, "                let _ = to;");
            line!(self, "                Ok(())");
            line!(self, "            }}");
        }
        line!(self, "        }}");
    }

    fn lws_decode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        match from.index()? {{");
        for (n, alternative) in of.alternatives.iter().enumerate() {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let take = self.take(Forward::Lws, &alternative.ty);
            let read = match alternative.addition {
                Some(_) => format!("|from| from.counted({take})"),
                None => take,
            };
            line!(self, "            {n} => {{");
            let read = format!("from.field({asn:?}, {read})");
            self.decode_alternative(rust, name, alternative, &read);
            line!(self, "            }}");
        }
        match of.is_extensible {
            true => {
                line!(self, "            other => {{");
                line!(self, "                from.unknown_alternative(other).map({rust}::Unknown)");
                line!(self, "            }}");
            }
            false => {
                line!(self, "            other => Err(from.unknown(other as i64, {rust:?})),");
            }
        }
        line!(self, "        }}");
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
