//! Structs decoded where they stay, component by component, over a value that costs nothing to make
//! (`fusewire_codec::Blank`): that value, and how BER and DER read into it; `forward` has how the
//! others do. What is returned instead is moved once for each struct around it, which of a type like the MPDU of X.411
//! is most of the work.

use super::ber::{read_step, step, tag};
use super::model::*;
use super::settle::{Needs, settled};
use super::write::Writer;

impl Model {
    /// Finds the definitions of which there is such a value: all but those that only boxes could make finite.
    pub(super) fn find_blanks(&mut self) {
        let needs: Vec<Needs> = (0..self.defs.len()).map(|id| self.blank_needs(id)).collect();
        (self.blanks, _) = settled(&needs, |_| true);
    }

    /// What there must be such a value of, for there to be one of a definition.
    fn blank_needs(&self, id: DefId) -> Needs {
        let mut needs = Vec::new();
        let mut holds = |ty: &Use| {
            if let Kind::Named(id) = ty.kind {
                needs.push(id);
            }
            !ty.is_boxed
        };
        let may = match &self.defs[id].shape {
            Shape::Struct(of) => {
                let mut required = of.fields.iter().filter(|f| f.presence == Presence::Required);
                required.all(|field| holds(&field.ty))
            }
            Shape::Choice(of) => of.alternatives.first().is_some_and(|a| holds(&a.ty)),
            Shape::Enumerated(items, _) => !items.is_empty(),
            Shape::Newtype(Newtype { inner: of, .. }) | Shape::Alias(of) => holds(of),
            Shape::Pending => true,
        };
        may.then_some(needs)
    }

    /// Whether a definition is decoded in place: a struct that may be large.
    pub(super) fn is_in_place(&self, id: DefId) -> bool {
        match &self.defs[id].shape {
            Shape::Struct(of) => self.blanks[id] && !of.fields.is_empty(),
            Shape::Choice(of) => {
                let large = |a: &Field| self.is_large(&a.ty);
                self.blanks[id] && self.defs[id].tag.is_none() && of.alternatives.iter().any(large)
            }
            _ => false,
        }
    }

    /// Whether what a type is, other names aside, is decoded in place.
    pub(super) fn is_large(&self, ty: &Use) -> bool {
        match ty.kind {
            Kind::Named(id) if !ty.is_boxed => match &self.defs[id].shape {
                Shape::Alias(of) => self.is_large(of),
                Shape::Struct(_) => self.is_in_place(id),
                _ => false,
            },
            _ => false,
        }
    }
}

impl Writer<'_> {
    /// The value that is decoded over.
    pub(super) fn blank(&mut self, id: DefId) {
        let model = self.model;
        let def = &model.defs[id];
        if !model.blanks[id] {
            return;
        }
        let rust = &def.rust;
        const BLANK: &str = "codec::Blank::blank()";
        let value = match &def.shape {
            Shape::Struct(of) => {
                let fields = of.fields.iter().map(|field| {
                    let value = match &field.presence {
                        Presence::Required => BLANK.to_owned(),
                        Presence::Optional => "None".to_owned(),
                        Presence::Default(constant) => {
                            self.expression(constant, &field.ty).unwrap_or_default()
                        }
                    };
                    format!("{}: {value}", field.names.rust)
                });
                format!("{rust} {{ {} }}", fields.collect::<Vec<_>>().join(", "))
            }
            Shape::Choice(of) => match of.alternatives.first() {
                Some(first) => {
                    let value = if self.ty(&first.ty, "'_") == "()" { "()" } else { BLANK };
                    format!("{rust}::{}({value})", first.names.rust)
                }
                None => return,
            },
            Shape::Enumerated(items, _) => match items.first() {
                Some((names, _)) => format!("{rust}::{}", names.rust),
                None => return,
            },
            Shape::Newtype(_) => format!("{rust}({BLANK})"),
            Shape::Alias(_) | Shape::Pending => return,
        };
        let any = self.generics(id, "'_");
        writeln!(self);
        writeln!(self, "impl codec::Blank for {rust}{any} {{");
        writeln!(self, "fn blank() -> Self {{");
        writeln!(self, "{value}");
        writeln!(self, "}}");
        writeln!(self, "}}");
    }

    /// Says of a type that it is decoded in place, within its `Decode`.
    pub(super) fn says_in_place(&mut self) {
        writeln!(self);
        writeln!(self, "fn in_place() -> Option<fn() -> Self> {{");
        writeln!(self, "Some(<Self as codec::Blank>::blank)");
        writeln!(self, "}}");
        writeln!(self);
    }

    /// Whether an alternative that is read by its number alone is decoded where it stays.
    pub(super) fn is_alternative_placed(&self, alternative: &Field) -> bool {
        self.model.is_large(&alternative.ty)
            && alternative.addition.is_none()
            && !self.is_checked(&alternative.ty)
    }

    /// As [`Writer::says_in_place`], for BER.
    pub(super) fn in_place(&mut self) {
        self.says_in_place();
        writeln!(self, "fn decode_into(");
        writeln!(self, "place_: &mut Self,");
        writeln!(self, "from: &mut ber::Decoder<'a>,");
        writeln!(self, ") -> Result<(), codec::Error> {{");
    }

    /// How a struct that is decoded in place gives its contents by value, and in place.
    pub(super) fn contents_in_place(&mut self, rust: &str, of: &Struct) {
        writeln!(self, "let mut value = <Self as codec::Blank>::blank();");
        writeln!(self, "ber::DecodeContents::contents_into(&mut value, from, header)?;");
        writeln!(self, "Ok(value)");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(self, "fn contents_into(");
        writeln!(self, "place_: &mut Self,");
        writeln!(self, "from: &mut ber::Decoder<'a>,");
        writeln!(self, "header: ber::Header,");
        writeln!(self, ") -> Result<(), codec::Error> {{");
        writeln!(self, "from.constructed(header, |from| {{");
        match of.is_set {
            true => {
                self.set_components(rust, of, Self::is_placed);
                self.set_is_whole(of);
            }
            false => self.sequence_in_place(of),
        }
        writeln!(self, "Ok(())");
        writeln!(self, "}})");
    }

    fn sequence_in_place(&mut self, of: &Struct) {
        for (n, field) in of.fields.iter().enumerate() {
            if of.unknown_at == Some(n) {
                self.skip_unknown(of.fields.get(n));
            }
            if self.is_placed(field) {
                let step = into_step(field);
                match self.is_another_next(of, n) {
                    Some(condition) => {
                        writeln!(self, "if !({condition}) {{");
                        writeln!(self, "{step}?;");
                        writeln!(self, "}}");
                    }
                    None => writeln!(self, "{step}?;"),
                }
                continue;
            }
            let (name, step) = (&field.names.rust, self.decode_step(field));
            if self.is_checked(&field.ty) {
                let ty = self.field_type(field);
                writeln!(self, "let at_ = from.position();");
                writeln!(self, "let {name}: {ty} = {step};");
                let is_option = field.presence == Presence::Optional;
                self.decode_checks(field, is_option);
                writeln!(self, "place_.{name} = {name};");
            } else {
                writeln!(self, "place_.{name} = {step};");
            }
        }
        if of.unknown_at == Some(of.fields.len()) {
            writeln!(self, "from.skip_rest()?;");
        }
    }

    /// A SET: first in the order that DER has, then whatever is left. What is placed goes to its place at once, and of
    /// what must be there a variable says whether it was; anything else is a variable until the end.
    pub(super) fn set_components(
        &mut self,
        rust: &str,
        of: &Struct,
        is_placed: fn(&Self, &Field) -> bool,
    ) {
        let fields = self.ordered(of);
        if of.fields.iter().any(|f| self.is_checked(&f.ty)) {
            writeln!(self, "let at_ = from.position();");
        }
        if of.unknown_at.is_some() {
            writeln!(self, "let start_ = from.position();");
        }
        for field in &fields {
            let name = &field.names.rust;
            match (is_placed(self, field), &field.presence) {
                (true, Presence::Required) => {
                    let (condition, step) = (self.is_next(field), into_step(field));
                    let had = had(field);
                    writeln!(self, "let mut {had} = {condition};");
                    writeln!(self, "if {had} {{");
                    writeln!(self, "{step}?;");
                    writeln!(self, "}}");
                }
                (true, _) => {
                    let step = into_step(field);
                    writeln!(self, "{step}?;");
                }
                (false, _) => {
                    let (ty, step) = (self.ty(&field.ty, "'a"), read_step("optional", field, ""));
                    writeln!(self, "let mut {name}: Option<{ty}> = {step};");
                }
            }
        }
        // What is not known stands between the others in DER.
        match of.unknown_at {
            Some(_) => {
                writeln!(self, "from.in_order(start_)?;");
                writeln!(self, "while from.more()? {{");
            }
            None => writeln!(self, "while from.out_of_order()? {{"),
        }
        writeln!(self, "let tag_ = from.peek()?;");
        let mut otherwise = "";
        for field in &fields {
            let condition = self.begins(field, "tag_");
            writeln!(self, "{otherwise}if {condition} {{");
            self.out_of_order(field, is_placed(self, field));
            otherwise = "} else ";
        }
        match of.fields.is_empty() {
            true => writeln!(self, "let _ = tag_;"),
            false => writeln!(self, "}} else {{"),
        }
        match of.unknown_at {
            Some(_) => writeln!(self, "from.any()?;"),
            None => writeln!(self, "return Err(from.unknown({rust:?}));"),
        }
        if !of.fields.is_empty() {
            writeln!(self, "}}");
        }
        writeln!(self, "}}");
    }

    fn out_of_order(&mut self, field: &Field, is_placed: bool) {
        let (name, asn) = (&field.names.rust, &field.names.asn);
        let read = match field.ty.tagging {
            Tagging::Own | Tagging::Raw(_) => "ber::Decode::decode(from)".to_owned(),
            Tagging::Implicit(t) => format!("ber::DecodeContents::decode_as({}, from)", tag(t)),
            Tagging::Explicit(t) => format!("from.within({}, ber::Decode::decode)", tag(t)),
        };
        match (is_placed, &field.presence) {
            (true, Presence::Required) => {
                let (had, step) = (had(field), into_step(field));
                writeln!(self, "if core::mem::replace(&mut {had}, true) {{");
                writeln!(self, "return Err(from.twice({asn:?}));");
                writeln!(self, "}}");
                writeln!(self, "{step}?;");
            }
            (true, _) => {
                writeln!(self, "from.once(&mut place_.{name}, {asn:?}, |from| {read})?;");
            }
            (false, _) => {
                writeln!(self, "from.once(&mut {name}, {asn:?}, |from| {read})?;");
            }
        }
    }

    /// What must be there was there; what was in variables comes to its place.
    fn set_is_whole(&mut self, of: &Struct) {
        of.fields
            .iter()
            .filter(|f| !self.is_placed(f))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|f| self.decode_checks(f, true));
        for field in &of.fields {
            let (name, asn) = (&field.names.rust, &field.names.asn);
            match (self.is_placed(field), &field.presence) {
                (true, Presence::Required) => {
                    let had = had(field);
                    writeln!(self, "if !{had} {{");
                    writeln!(self, "return Err(from.missing({asn:?}));");
                    writeln!(self, "}}");
                }
                (true, _) => {}
                (false, Presence::Required) => {
                    let value = format!("{name}.ok_or_else(|| from.missing({asn:?}))?");
                    writeln!(self, "place_.{name} = {value};");
                }
                (false, Presence::Optional) => writeln!(self, "place_.{name} = {name};"),
                (false, Presence::Default(constant)) => {
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    let value = format!("from.unless({asn:?}, {name}, {default})?");
                    writeln!(self, "place_.{name} = {value};");
                }
            }
        }
    }

    /// A CHOICE in place: what is large, where it stays; what is not, as ever.
    pub(super) fn choice_in_place(&mut self, rust: &str, of: &Choice) {
        self.in_place();
        writeln!(self, "let tag = from.peek()?;");
        let alone = of.alternatives.len() == 1 && !of.is_extensible;
        let mut otherwise = "";
        for (n, alternative) in of.alternatives.iter().enumerate() {
            // A struct: nothing is asked of it here, for its components ask themselves.
            if !self.model.is_large(&alternative.ty) {
                continue;
            }
            let name = &alternative.names.rust;
            let condition = self.begins(alternative, "tag");
            let step = step("required", alternative, "_into", ", value");
            writeln!(self, "{otherwise}if {condition} {{");
            if n > 0 {
                writeln!(self, "*place_ = {rust}::{name}(codec::Blank::blank());");
            }
            if alone {
                writeln!(self, "let {rust}::{name}(value) = place_;");
                writeln!(self, "{step}?;");
            } else {
                writeln!(self, "if let {rust}::{name}(value) = place_ {{");
                writeln!(self, "{step}?;");
                writeln!(self, "}}");
            }
            otherwise = "} else ";
        }
        writeln!(self, "}} else {{");
        writeln!(self, "*place_ = ber::Decode::decode(from)?;");
        writeln!(self, "}}");
        writeln!(self, "Ok(())");
        writeln!(self, "}}");
    }

    /// Whether a component is decoded into its place at once.
    fn is_placed(&self, field: &Field) -> bool {
        !matches!(field.presence, Presence::Default(_))
            && !matches!(field.ty.tagging, Tagging::Raw(_))
            && !self.is_checked(&field.ty)
    }

    /// Whether a component of its own comes next, as a condition.
    fn is_next(&self, field: &Field) -> String {
        let begins = |ty| format!("from.next_begins::<{ty}>()?");
        self.is_one_of(field, |t| format!("from.next_is({t})"), begins)
    }
}

/// The variable that says whether a component was there.
fn had(field: &Field) -> String {
    format!("had_{}_", field.names.rust.trim_start_matches("r#"))
}

/// How a component is decoded into its place.
fn into_step(field: &Field) -> String {
    let may = if field.presence == Presence::Optional { "optional" } else { "required" };
    step(may, field, "_into", &format!(", &mut place_.{}", field.names.rust))
}
