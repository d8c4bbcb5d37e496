//! BER and DER: structs decoded where they stay, component by component, over a value that costs nothing to make
//! (`fusewire_codec::ber::Blank`). What is returned instead is moved once for each struct around it, which of a type
//! like the MPDU of X.411 is most of the work.

use super::ber::tag;
use super::model::*;
use super::settle::{Needs, settled};
use super::write::{Writer, line};

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
    fn is_large(&self, ty: &Use) -> bool {
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
        const BLANK: &str = "ber::Blank::blank()";
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
                Some(first) => format!("{rust}::{}({BLANK})", first.names.rust),
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
        line!(self);
        line!(self, "impl ber::Blank for {rust}{any} {{");
        line!(self, "    fn blank() -> Self {{");
        line!(self, "        {value}");
        line!(self, "    }}");
        line!(self, "}}");
    }

    /// Says of a type that it is decoded in place, within its `Decode`.
    pub(super) fn in_place(&mut self) {
        line!(self);
        line!(self, "    fn in_place() -> Option<fn() -> Self> {{");
        line!(self, "        Some(<Self as ber::Blank>::blank)");
        line!(self, "    }}");
        line!(self);
        line!(self, "    fn decode_into(");
        line!(self, "        place_: &mut Self,");
        line!(self, "        from: &mut ber::Decoder<'a>,");
        line!(self, "    ) -> Result<(), codec::Error> {{");
    }

    /// How a struct that is decoded in place gives its contents by value, and in place.
    pub(super) fn contents_in_place(&mut self, rust: &str, of: &Struct) {
        line!(self, "        let mut value = <Self as ber::Blank>::blank();");
        line!(self, "        ber::DecodeContents::contents_into(&mut value, from, header)?;");
        line!(self, "        Ok(value)");
        line!(self, "    }}");
        line!(self);
        line!(self, "    fn contents_into(");
        line!(self, "        place_: &mut Self,");
        line!(self, "        from: &mut ber::Decoder<'a>,");
        line!(self, "        header: ber::Header,");
        line!(self, "    ) -> Result<(), codec::Error> {{");
        line!(self, "        from.constructed(header, |from| {{");
        match of.is_set {
            true => {
                self.set_components(rust, of, Self::is_placed);
                self.set_is_whole(of);
            }
            false => self.sequence_in_place(of),
        }
        line!(self, "            Ok(())");
        line!(self, "        }})");
    }

    fn sequence_in_place(&mut self, of: &Struct) {
        for (n, field) in of.fields.iter().enumerate() {
            if of.unknown_at == Some(n) {
                self.skip_unknown(of.fields.get(n));
            }
            if self.is_placed(field) {
                let step = into_step(field);
                line!(self, "            {step}?;");
                continue;
            }
            let (name, step) = (&field.names.rust, self.decode_step(field));
            if self.is_checked(&field.ty) {
                let ty = self.field_type(field);
                line!(self, "            let at_ = from.position();");
                line!(self, "            let {name}: {ty} = {step};");
                let is_option = field.presence == Presence::Optional;
                self.decode_checks(field, is_option, "            ");
                line!(self, "            place_.{name} = {name};");
            } else {
                line!(self, "            place_.{name} = {step};");
            }
        }
        if of.unknown_at == Some(of.fields.len()) {
            line!(self, "            from.skip_rest()?;");
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
            line!(self, "            let at_ = from.position();");
        }
        if of.unknown_at.is_some() {
            line!(self, "            let start_ = from.position();");
        }
        for field in &fields {
            let name = &field.names.rust;
            match (is_placed(self, field), &field.presence) {
                (true, Presence::Required) => {
                    let (condition, step) = (self.is_next(field), into_step(field));
                    let had = had(field);
                    line!(self, "            let mut {had} = {condition};");
                    line!(self, "            if {had} {{");
                    line!(self, "                {step}?;");
                    line!(self, "            }}");
                }
                (true, _) => {
                    let step = into_step(field);
                    line!(self, "            {step}?;");
                }
                (false, _) => {
                    let (ty, step) = (self.ty(&field.ty, "'a"), super::ber::optional_step(field));
                    line!(self, "            let mut {name}: Option<{ty}> = {step};");
                }
            }
        }
        // What is not known stands between the others in DER.
        match of.unknown_at {
            Some(_) => {
                line!(self, "            from.in_order(start_)?;");
                line!(self, "            while from.more()? {{");
            }
            None => line!(self, "            while from.out_of_order()? {{"),
        }
        line!(self, "                let tag_ = from.peek()?;");
        let mut otherwise = "";
        for field in &fields {
            let condition = self.begins(field, "tag_");
            line!(self, "                {otherwise}if {condition} {{");
            self.out_of_order(field, is_placed(self, field));
            otherwise = "} else ";
        }
        match of.fields.is_empty() {
            true => line!(self, "                let _ = tag_;"),
            false => line!(self, "                }} else {{"),
        }
        let indent = if of.fields.is_empty() { "" } else { "    " };
        match of.unknown_at {
            Some(_) => line!(self, "                {indent}from.any()?;"),
            None => line!(self, "                {indent}return Err(from.unknown({rust:?}));"),
        }
        if !of.fields.is_empty() {
            line!(self, "                }}");
        }
        line!(self, "            }}");
    }

    fn out_of_order(&mut self, field: &Field, is_placed: bool) {
        let (name, asn) = (&field.names.rust, &field.names.asn);
        let read = match field.ty.tagging {
            Tagging::Own | Tagging::Raw(_) => "ber::Decode::decode(from)".to_owned(),
            Tagging::Implicit(t) => format!("ber::DecodeContents::decode_as({}, from)", tag(t)),
            Tagging::Explicit(t) => format!("from.within({}, ber::Decode::decode)", tag(t)),
        };
        let indent = "                    ";
        match (is_placed, &field.presence) {
            (true, Presence::Required) => {
                let (had, step) = (had(field), into_step(field));
                line!(self, "{indent}if core::mem::replace(&mut {had}, true) {{");
                line!(self, "{indent}    return Err(from.twice({asn:?}));");
                line!(self, "{indent}}}");
                line!(self, "{indent}{step}?;");
            }
            (true, _) => {
                line!(self, "{indent}from.once(&mut place_.{name}, {asn:?}, |from| {read})?;");
            }
            (false, _) => {
                line!(self, "{indent}from.once(&mut {name}, {asn:?}, |from| {read})?;");
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
            .for_each(|f| self.decode_checks(f, true, "            "));
        for field in &of.fields {
            let (name, asn) = (&field.names.rust, &field.names.asn);
            match (self.is_placed(field), &field.presence) {
                (true, Presence::Required) => {
                    let had = had(field);
                    line!(self, "            if !{had} {{");
                    line!(self, "                return Err(from.missing({asn:?}));");
                    line!(self, "            }}");
                }
                (true, _) => {}
                (false, Presence::Required) => {
                    let value = format!("{name}.ok_or_else(|| from.missing({asn:?}))?");
                    line!(self, "            place_.{name} = {value};");
                }
                (false, Presence::Optional) => line!(self, "            place_.{name} = {name};"),
                (false, Presence::Default(constant)) => {
                    let default = self.expression(constant, &field.ty).unwrap_or_default();
                    let value = format!("from.unless({asn:?}, {name}, {default})?");
                    line!(self, "            place_.{name} = {value};");
                }
            }
        }
    }

    /// A CHOICE in place: what is large, where it stays; what is not, as ever.
    pub(super) fn choice_in_place(&mut self, rust: &str, of: &Choice) {
        self.in_place();
        line!(self, "        let tag = from.peek()?;");
        let alone = of.alternatives.len() == 1 && !of.is_extensible;
        let mut otherwise = "";
        for (n, alternative) in of.alternatives.iter().enumerate() {
            // A struct: nothing is asked of it here, for its components ask themselves.
            if !self.model.is_large(&alternative.ty) {
                continue;
            }
            let (name, asn) = (&alternative.names.rust, &alternative.names.asn);
            let condition = self.begins(alternative, "tag");
            let step = match alternative.ty.tagging {
                Tagging::Own | Tagging::Raw(_) => format!("from.required_into({asn:?}, value)?"),
                Tagging::Implicit(t) => format!("from.implicit_into({asn:?}, {}, value)?", tag(t)),
                Tagging::Explicit(t) => format!("from.explicit_into({asn:?}, {}, value)?", tag(t)),
            };
            line!(self, "        {otherwise}if {condition} {{");
            if n > 0 {
                line!(self, "            *place_ = {rust}::{name}(ber::Blank::blank());");
            }
            if alone {
                line!(self, "            let {rust}::{name}(value) = place_;");
                line!(self, "            {step};");
            } else {
                line!(self, "            if let {rust}::{name}(value) = place_ {{");
                line!(self, "                {step};");
                line!(self, "            }}");
            }
            otherwise = "} else ";
        }
        line!(self, "        }} else {{");
        line!(self, "            *place_ = ber::Decode::decode(from)?;");
        line!(self, "        }}");
        line!(self, "        Ok(())");
        line!(self, "    }}");
    }

    /// Whether a component is decoded into its place at once.
    fn is_placed(&self, field: &Field) -> bool {
        !matches!(field.presence, Presence::Default(_))
            && !matches!(field.ty.tagging, Tagging::Raw(_))
            && !self.is_checked(&field.ty)
    }

    /// Whether a component of its own comes next, as a condition.
    fn is_next(&self, field: &Field) -> String {
        match (&field.ty.tagging, &field.begins) {
            (Tagging::Implicit(t) | Tagging::Explicit(t) | Tagging::Raw(t), _) => {
                format!("from.next_is({})", tag(*t))
            }
            (Tagging::Own, Some(tags)) if !tags.is_empty() && tags.len() <= 4 => {
                let tags: Vec<_> =
                    tags.iter().map(|t| format!("from.next_is({})", tag(*t))).collect();
                tags.join(" || ")
            }
            (Tagging::Own, _) => format!("from.next_begins::<{}>()?", self.ty(&field.ty, "'_")),
        }
    }
}

/// The variable that says whether a component was there.
fn had(field: &Field) -> String {
    format!("had_{}_", field.names.rust.trim_start_matches("r#"))
}

/// How a component is decoded into its place.
fn into_step(field: &Field) -> String {
    let (name, asn) = (&field.names.rust, &field.names.asn);
    let may = if field.presence == Presence::Optional { "optional" } else { "required" };
    match field.ty.tagging {
        Tagging::Own | Tagging::Raw(_) => format!("from.{may}_into({asn:?}, &mut place_.{name})"),
        Tagging::Implicit(t) | Tagging::Explicit(t) => {
            let how = if matches!(field.ty.tagging, Tagging::Implicit(_)) {
                "implicit"
            } else {
                "explicit"
            };
            let may = if may == "optional" { "optional_" } else { "" };
            format!("from.{may}{how}_into({asn:?}, {}, &mut place_.{name})", tag(t))
        }
    }
}
