//! OER: what `fusewire_codec::oer` asks of a type (X.696). Components in order (those of a SET in the order of
//! their tags) behind bits that say which of the optional ones follow; additions behind bits of their own, each
//! counted; alternatives behind their tags. What is written is COER.

use super::ber::tag;
use super::model::*;
use super::plain::Forward;
use super::write::{Writer, line};

/// More additions than these of one type have no bits.
const ADDITIONS_MAX: usize = 64;

/// How a CHOICE writes one of its alternatives.
enum Form {
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
                self.forward_encode(Forward::Oer, id, |w| w.oer_encode_struct(of));
                self.forward_decode(Forward::Oer, id, |w| w.oer_decode_struct(rust, of));
            }
            Shape::Enumerated(..) => {
                self.forward_encode(Forward::Oer, id, |w| {
                    line!(w, "        to.enumerated(self.number())");
                });
                self.forward_decode(Forward::Oer, id, |w| {
                    w.decode_item(rust, "from.enumerated()?");
                });
            }
            Shape::Newtype(of) => self.forward_newtype(Forward::Oer, id, of),
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
            self.forward_encode_field(Forward::Oer, field, "        ");
        }
        if !groups.is_empty() {
            line!(self, "        if {} {{", there.join(" || "));
            let known = &there[..there.len().min(ADDITIONS_MAX)];
            self.presence_bits(known, "additions");
            for (group, there) in groups.iter().zip(known) {
                line!(self, "            if {there} {{");
                line!(self, "                to.counted(|to| {{");
                self.oer_encode_group(group);
                line!(self, "                    Ok(())");
                line!(self, "                }})?;");
                line!(self, "            }}");
            }
            line!(self, "        }}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            line!(self, "        let _ = to;");
        }
        line!(self, "        Ok(())");
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
                line!(self, "                    let Some(value) = &self.{name} else {{");
                line!(
                    self,
                    "                        return Err(to.error(codec::Problem::Missing).in_field({asn:?}));"
                );
                line!(self, "                    }};");
                let put = self.put(Forward::Oer, &field.ty, "value", true);
                line!(self, "                    {put}?;");
            } else if field.is_grouped {
                self.forward_encode_field(Forward::Oer, field, "                    ");
            } else {
                // It is there: that is why this is written.
                let place = format!("self.{}", field.names.rust);
                if field.presence == Presence::Optional {
                    let put = self.put(Forward::Oer, &field.ty, "value", true);
                    line!(self, "                    if let Some(value) = &{place} {{");
                    line!(self, "                        {put}?;");
                    line!(self, "                    }}");
                } else {
                    let put = self.put(Forward::Oer, &field.ty, &place, false);
                    line!(self, "                    {put}?;");
                }
            }
        }
    }

    fn oer_decode_struct(&mut self, rust: &str, of: &Struct) {
        let root: Vec<&Field> =
            self.ordered(of).into_iter().filter(|f| f.addition.is_none()).collect();
        let first = usize::from(of.unknown_at.is_some());
        let count = first + root.iter().filter(|f| f.presence != Presence::Required).count();
        self.read_presence(count, "        ");
        let mut bit = first;
        for field in root {
            self.forward_decode_field(Forward::Oer, field, &mut bit, count, "        ");
        }
        let groups = groups(of);
        self.declare_additions(of);
        if of.unknown_at.is_some() {
            line!(self, "        if {} {{", super::lws::condition(0, count));
            line!(self, "            let (additions_, count_) = from.additions()?;");
            for (n, group) in groups.iter().take(ADDITIONS_MAX).enumerate() {
                line!(self, "            if additions_ & {:#x} != 0 {{", 1_u64 << (63 - n));
                line!(self, "                from.counted(|from| {{");
                self.oer_decode_group(group);
                line!(self, "                    Ok(())");
                line!(self, "                }})?;");
                line!(self, "            }}");
            }
            if groups.len() < ADDITIONS_MAX {
                line!(self, "            for addition_ in {}..count_ {{", groups.len());
                line!(self, "                if additions_ >> (63 - addition_) & 1 != 0 {{");
                line!(self, "                    from.skip_addition()?;");
                line!(self, "                }}");
                line!(self, "            }}");
            } else {
                line!(self, "            let _ = count_;");
            }
            line!(self, "        }}");
        }
        if of.fields.is_empty() && of.unknown_at.is_none() {
            line!(self, "        let _ = from;");
        }
        let names: Vec<_> = of.fields.iter().map(|f| f.names.rust.as_str()).collect();
        line!(self, "        Ok({rust} {{ {} }})", names.join(", "));
    }

    fn oer_decode_group(&mut self, group: &[&Field]) {
        let indent = "                    ";
        let count = group.iter().filter(|f| f.is_grouped && !f.is_needed).count();
        self.read_presence(count, indent);
        let mut bit = 0;
        for field in group {
            if self.is_checked(&field.ty) {
                line!(self, "{indent}let at_ = from.position();");
            }
            let (name, asn) = (&field.names.rust, &field.names.asn);
            let take = self.take(Forward::Oer, &field.ty);
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
            line!(self, "{indent}{name} = {read};");
            let is_option = field.presence == Presence::Optional;
            self.decode_checks(field, is_option, indent);
        }
    }

    fn oer_form(&self, alternative: &Field) -> Form {
        match alternative.ty.tagging {
            Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t) => Form::Tagged(t),
            Tagging::Own => {
                let mut kind = &alternative.ty.kind;
                for _ in 0..64 {
                    let Kind::Named(id) = kind else { break };
                    let def = &self.model.defs[*id];
                    match &def.shape {
                        Shape::Alias(of) => kind = &of.kind,
                        Shape::Choice(_) if def.tag.is_none() => return Form::Choice(*id),
                        _ => break,
                    }
                }
                match alternative.begins.as_deref() {
                    Some([tag]) => Form::Tagged(*tag),
                    _ => Form::None,
                }
            }
        }
    }

    fn oer_choice(&mut self, id: DefId, of: &Choice) {
        let def = &self.model.defs[id];
        let (rust, is_recursive) = (def.rust.clone(), def.is_recursive);
        self.forward_encode(Forward::Oer, id, |w| w.oer_encode_choice(&rust, of));
        let (a, life) = match def.borrows {
            true => ("<'a>", ""),
            false => ("", "'a, "),
        };
        let rules = "impl<'a> oer::Decode<'a> for";
        line!(self);
        line!(self, "{rules} {rust}{a} {{");
        line!(self, "    fn decode<SourceT: codec::Source<'a>>(");
        line!(self, "        from: &mut oer::Decoder<SourceT>,");
        line!(self, "    ) -> Result<Self, codec::Error> {{");
        line!(self, "        let tag = from.tag()?;");
        line!(self, "        Self::oer_alternative(tag, from)");
        line!(self, "    }}");
        line!(self, "}}");
        line!(self);
        line!(self, "impl{a} {rust}{a} {{");
        line!(self, "    /// Decodes the alternative of a tag that was read.");
        line!(self, "    ///");
        line!(self, "    /// # Errors");
        line!(self, "    /// There is no such alternative, or it is malformed.");
        line!(self, "    pub fn oer_alternative<{life}SourceT: codec::Source<'a>>(");
        line!(self, "        tag: codec::ber::Tag,");
        line!(self, "        from: &mut oer::Decoder<SourceT>,");
        line!(self, "    ) -> Result<Self, codec::Error> {{");
        if is_recursive {
            line!(self, "        from.nested(|from| {{");
        }
        self.oer_decode_choice(&rust, of);
        if is_recursive {
            line!(self, "        }})");
        }
        line!(self, "    }}");
        line!(self, "}}");
    }

    fn oer_encode_choice(&mut self, rust: &str, of: &Choice) {
        line!(self, "        match self {{");
        for alternative in &of.alternatives {
            let form = self.oer_form(alternative);
            if matches!(form, Form::None) {
                line!(self, "            {rust}::{}(_) => {{", alternative.names.rust);
                line!(
                    self,
                    "                Err(to.error(codec::Problem::Unsupported(\"an alternative without a tag\")))"
                );
                line!(self, "            }}");
                continue;
            }
            line!(self, "            {rust}::{}(value) => {{", alternative.names.rust);
            self.alternative_checks(alternative);
            let put = self.put(Forward::Oer, &alternative.ty, "value", true);
            if let Form::Tagged(t) = form {
                line!(self, "                to.tag(codec::{})?;", tag(t));
                if alternative.addition.is_some() {
                    line!(self, "                to.counted(|to| {put})");
                } else {
                    line!(self, "                {put}");
                }
            } else {
                line!(self, "                {put}");
            }
            line!(self, "            }}");
        }
        if of.is_extensible {
            line!(self, "            {rust}::Unknown(value) => to.put(value.as_bytes()),");
        } else if of.alternatives.is_empty() {
            line!(self, "            _ => {{");
            line!(self, "                let _ = to;");
            line!(self, "                Ok(())");
            line!(self, "            }}");
        }
        line!(self, "        }}");
    }

    fn oer_decode_choice(&mut self, rust: &str, of: &Choice) {
        let mut otherwise = "";
        for alternative in &of.alternatives {
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let (condition, read) = match self.oer_form(alternative) {
                Form::None => continue,
                Form::Tagged(t) => {
                    let take = self.take(Forward::Oer, &alternative.ty);
                    let read = match alternative.addition {
                        Some(_) => format!("|from| from.counted({take})"),
                        None => take,
                    };
                    (format!("tag == codec::{}", tag(t)), read)
                }
                Form::Choice(inner) => {
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
            line!(self, "        {otherwise}if {condition} {{");
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
            return line!(self, "        {other}");
        }
        line!(self, "        }} else {{");
        line!(self, "            {other}");
        line!(self, "        }}");
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
