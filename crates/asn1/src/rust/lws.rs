//! LWS: what `fusewire_codec::lws` asks of a type. Components in order, behind bits that say which of the
//! optional ones follow; what stands behind `...` is counted, so that who does not know it can pass over it.

use super::model::*;
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
                self.lws_encode(id, |w| w.lws_encode_struct(of));
                self.lws_decode(id, |w| w.lws_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.lws_encode(id, |w| line!(w, "        to.integer(self.number())"));
                self.lws_decode(id, |w| {
                    line!(w, "        let found = from.integer()?;");
                    line!(w, "        Self::from_number(found).ok_or_else(|| from.unknown(found, {rust:?}))");
                });
            }
            Shape::Newtype(_) => {
                self.lws_encode(id, |w| line!(w, "        lws::Encode::encode(&self.0, to)"));
                self.lws_decode(id, |w| line!(w, "        lws::Decode::decode(from).map({rust})"));
            }
            Shape::Choice(of) => {
                self.lws_encode(id, |w| w.lws_encode_choice(rust, of));
                self.lws_decode(id, |w| w.lws_decode_choice(rust, of));
            }
        }
    }

    fn lws_encode(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let (rust, any) = (&self.model.defs[id].rust, self.generics(id, "'_"));
        line!(self);
        line!(self, "impl lws::Encode for {rust}{any} {{");
        line!(self, "    fn encode<SinkT: codec::Sink, WordT: lws::Word>(");
        line!(self, "        &self,");
        line!(self, "        to: &mut lws::Encoder<SinkT, WordT>,");
        line!(self, "    ) -> Result<(), codec::Error> {{");
        body(self);
        line!(self, "    }}");
        line!(self, "}}");
    }

    fn lws_decode(&mut self, id: DefId, body: impl FnOnce(&mut Self)) {
        let def = &self.model.defs[id];
        let (rust, a, is_recursive) = (&def.rust, self.generics(id, "'a"), def.is_recursive);
        line!(self);
        line!(self, "impl<'a> lws::Decode<'a> for {rust}{a} {{");
        line!(self, "    fn decode<SourceT: codec::Source<'a>, WordT: lws::Word>(");
        line!(self, "        from: &mut lws::Decoder<SourceT, WordT>,");
        line!(self, "    ) -> Result<Self, codec::Error> {{");
        if is_recursive {
            line!(self, "        from.nested(|from| {{");
        }
        body(self);
        if is_recursive {
            line!(self, "        }})");
        }
        line!(self, "    }}");
        line!(self, "}}");
    }

    /// Whether a component is written, as a condition; nothing for one that always is.
    fn is_there(&self, field: &Field) -> Option<String> {
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
        let additions: Vec<String> = of
            .fields
            .iter()
            .filter(|f| f.addition.is_some())
            .filter_map(|f| self.is_there(f))
            .collect();
        let extended =
            if additions.is_empty() { "false".to_owned() } else { additions.join(" || ") };
        let mut bits = Vec::new();
        if of.unknown_at.is_some() {
            bits.push(extended.clone());
        }
        let root = of.fields.iter().filter(|f| f.addition.is_none());
        bits.extend(root.filter_map(|f| self.is_there(f)));
        self.lws_presence(&bits);
        for field in of.fields.iter().filter(|f| f.addition.is_none()) {
            self.lws_encode_field(field, "        ");
        }
        let groups = groups(of);
        if !groups.is_empty() {
            line!(self, "        if {extended} {{");
            line!(self, "            to.count({})?;", groups.len());
            for group in groups {
                line!(self, "            to.counted(|to| {{");
                let bits: Vec<_> = group.iter().filter_map(|f| self.is_there(f)).collect();
                self.lws_presence(&bits);
                group.iter().for_each(|f| self.lws_encode_field(f, "                "));
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

    fn lws_presence(&mut self, bits: &[String]) {
        for bits in bits.chunks(BITS_MAX) {
            line!(self, "        let mut present = 0_u64;");
            for (n, bit) in bits.iter().enumerate().filter(|(_, b)| *b != "false") {
                match bits.len() - 1 - n {
                    0 => line!(self, "        present |= u64::from({bit});"),
                    up => line!(self, "        present |= u64::from({bit}) << {up};"),
                }
            }
            let text = format!("        to.presence(present, {})?;", bits.len());
            // A variable that nothing changes must not be one that could be.
            if bits.iter().all(|b| b == "false") {
                let unchanging = "        let mut present = 0_u64;\n";
                self.out.truncate(self.out.len() - unchanging.len());
                line!(self, "        to.presence(0, {})?;", bits.len());
            } else {
                line!(self, "{text}");
            }
        }
    }

    fn lws_encode_field(&mut self, field: &Field, indent: &str) {
        let place = format!("self.{}", field.names.rust);
        match (&field.presence, self.is_there(field)) {
            (Presence::Optional, _) => {
                line!(self, "{indent}if let Some(value) = &{place} {{");
                line!(self, "{indent}    lws::Encode::encode(value, to)?;");
                line!(self, "{indent}}}");
            }
            (_, Some(condition)) => {
                line!(self, "{indent}if {} {{", condition);
                line!(self, "{indent}    lws::Encode::encode(&{place}, to)?;");
                line!(self, "{indent}}}");
            }
            (_, None) => line!(self, "{indent}lws::Encode::encode(&{place}, to)?;"),
        }
    }

    fn lws_decode_struct(&mut self, rust: &str, of: &Struct) {
        let root: Vec<&Field> = of.fields.iter().filter(|f| f.addition.is_none()).collect();
        let optional = root.iter().filter(|f| f.presence != Presence::Required).count();
        let first = usize::from(of.unknown_at.is_some());
        self.lws_read_presence(optional + first, "        ");
        let mut bit = first;
        for field in root {
            let step = self.lws_decode_step(field, &mut bit, optional + first);
            line!(self, "        let {} = {step};", field.names.rust);
        }
        let groups = groups(of);
        let extended = format!("{} != 0", mask(0, (optional + first).max(1)));
        if !groups.is_empty() {
            for field in of.fields.iter().filter(|f| f.addition.is_some()) {
                let name = &field.names.rust;
                match &field.presence {
                    Presence::Default(constant) => {
                        let default = self.expression(constant, &field.ty).unwrap_or_default();
                        line!(self, "        let mut {name} = {default};");
                    }
                    _ => line!(self, "        let mut {name} = None;"),
                }
            }
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
            self.lws_read_presence(group.len(), "                    ");
            let mut bit = 0;
            for field in group {
                let step = self.lws_decode_step(field, &mut bit, group.len());
                line!(self, "                    {} = {step};", field.names.rust);
            }
            line!(self, "                    Ok(())");
            line!(self, "                }})?;");
            line!(self, "            }}");
        }
        line!(self, "            for _ in {}..additions {{", groups.len());
        line!(self, "                from.counted(|_| Ok(()))?;");
        line!(self, "            }}");
        line!(self, "        }}");
    }

    fn lws_read_presence(&mut self, count: usize, indent: &str) {
        for (n, start) in (0..count).step_by(BITS_MAX).enumerate() {
            line!(
                self,
                "{indent}let present{n}_ = from.presence({})?;",
                (count - start).min(BITS_MAX)
            );
        }
    }

    fn lws_decode_step(&self, field: &Field, bit: &mut usize, count: usize) -> String {
        let name = format!("{:?}", field.names.asn);
        if field.presence == Presence::Required {
            return format!("from.field({name}, lws::Decode::decode)?");
        }
        let condition = format!("{} != 0", mask(*bit, count));
        *bit += 1;
        let optional = format!("from.optional({condition}, {name}, lws::Decode::decode)?");
        match &field.presence {
            Presence::Default(constant) => {
                let default = self.expression(constant, &field.ty).unwrap_or_default();
                format!("{optional}.unwrap_or({default})")
            }
            _ => optional,
        }
    }

    fn lws_encode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        match self {{");
        for (n, alternative) in of.alternatives.iter().enumerate() {
            let step = match alternative.addition {
                Some(_) => "to.counted(|to| lws::Encode::encode(value, to))",
                None => "lws::Encode::encode(value, to)",
            };
            line!(self, "            {rust}::{}(value) => {{", alternative.names.rust);
            line!(self, "                to.index({n})?;");
            line!(self, "                {step}");
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            {rust}::Unknown(_) => {{");
            line!(
                self,
                "                let problem = codec::Problem::Discriminant {{ found: -1, type_name: {rust:?} }};"
            );
            line!(self, "                Err(to.error(problem))");
            line!(self, "            }}");
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
            let read = match alternative.addition {
                Some(_) => "|from| from.counted(lws::Decode::decode)",
                None => "lws::Decode::decode",
            };
            line!(self, "            {n} => from.field({asn:?}, {read}).map({rust}::{name}),");
        }
        line!(self, "            other => Err(from.unknown(other as i64, {rust:?})),");
        line!(self, "        }}");
    }
}

/// The additions, each with its components.
fn groups(of: &Struct) -> Vec<Vec<&Field>> {
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

/// Where a bit is among those that were read.
fn mask(bit: usize, count: usize) -> String {
    let (word, within) = (bit / BITS_MAX, bit % BITS_MAX);
    let in_word = (count - word * BITS_MAX).min(BITS_MAX);
    format!("present{word}_ & {:#x}", 1_u64 << (in_word - 1 - within))
}
