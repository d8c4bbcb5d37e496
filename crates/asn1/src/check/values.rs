//! Values beside their types.

use super::Checker;
use crate::ast::*;
use crate::names::{Target, well_known};
use crate::resolve::{Base, Env, Ty};

impl<'a> Checker<'_, 'a> {
    /// A value of a type. Names that the type gives come before those of definitions.
    pub(super) fn value(&mut self, value: &'a Value, ty: &Ty<'a>, env: &Env<'a>) {
        let base = match self.world.base(ty) {
            Base::Known(base) => base,
            Base::Open => return self.open_value(value, env),
            Base::Unknown | Base::Cycle => return,
        };
        if matches!(
            value.kind,
            ValueKind::Broken | ValueKind::Containing(_) | ValueKind::Min | ValueKind::Max
        ) {
            return;
        }
        if let ValueKind::Reference(reference) = &value.kind {
            return self.named(reference, &base, env);
        }
        if let ValueKind::Field(reference, _) = &value.kind {
            if !self.is_parameter(reference, env) {
                self.world.resolve(env.module, reference);
            }
            return;
        }
        let fits = match (&base.ty.kind, &value.kind) {
            (TypeKind::Simple(simple), _) => self.simple(*simple, value, env),
            (TypeKind::Integer(_), kind) => match kind {
                ValueKind::Braced(braced) => self.empty_of(*braced, value, env),
                // A sum of a character string's permitted alphabet is a string beside an INTEGER of SIZE.
                kind => matches!(kind, ValueKind::Integer(_)),
            },
            (TypeKind::Enumerated(_), _) => false,
            (TypeKind::BitString(_), ValueKind::Braced(braced)) => {
                self.bits(&base.ty.kind, *braced, env);
                true
            }
            (TypeKind::BitString(_), kind) => {
                matches!(kind, ValueKind::Bits(_) | ValueKind::Hex(_))
            }
            (TypeKind::Sequence(items) | TypeKind::Set(items), ValueKind::Braced(braced)) => {
                self.components_of_value(items, &base, *braced, value, env);
                true
            }
            (
                TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element),
                ValueKind::Braced(braced),
            ) => {
                let element = Ty { ty: element, env: base.env.clone() };
                for item in self.world.read_list(env.module, *braced).unwrap_or_default() {
                    if let Some(value) = &item.value {
                        self.value(value, &element, env);
                    }
                }
                true
            }
            (TypeKind::Choice(items), ValueKind::Choice(name, inner)) => {
                self.alternative(items, &base, name, inner, env);
                true
            }
            (TypeKind::Choice(_), ValueKind::Braced(_)) | (TypeKind::InstanceOf(_), _) => true,
            _ => false,
        };
        if !fits {
            let message = format!("this is no value of {}", described(&base.ty.kind));
            let help = match base.ty.kind {
                TypeKind::SequenceOf(..) | TypeKind::SetOf(..) => {
                    "write its values in braces (X.680 26.3, 28.3)"
                }
                _ => "write a value of that type",
            };
            self.error(value.span, message, help);
        }
    }

    /// `{}` of an INTEGER, which older modules have for a default: said, and let pass.
    fn empty_of(&self, braced: Braced, value: &Value, _env: &Env<'a>) -> bool {
        let is_empty = braced.close == braced.open + 1;
        if is_empty {
            self.warn(value.span, "`{}` is no value of INTEGER", "write a number");
        }
        is_empty
    }

    fn open_value(&mut self, value: &'a Value, env: &Env<'a>) {
        if let ValueKind::Open(ty, inner) = &value.kind {
            self.ty(ty, env);
            let ty = Ty { ty, env: env.clone() };
            self.value(inner, &ty, env);
        } else {
            self.loose_value(value, env);
        }
    }

    /// A name as a value.
    fn named(&mut self, reference: &'a Reference, base: &Ty<'a>, env: &Env<'a>) {
        let name = &reference.name;
        let given = reference.module.is_none() && self.world.gives_name(&base.ty.kind, &name.text);
        if given || self.is_parameter(reference, env) {
            return;
        }
        if matches!(base.ty.kind, TypeKind::Enumerated(_)) && reference.module.is_none() {
            let Some(Target::Def(_) | Target::Absent) = self.world.lookup(env.module, &name.text)
            else {
                let message = format!("the ENUMERATED has no item `{}`", name.text);
                return self.error(name.span, message, "name one of its items");
            };
            return;
        }
        if let Some(Target::Def(def)) = self.value_target(reference, env) {
            let arguments = reference.arguments.as_deref().unwrap_or_default();
            let assignment = self.world.assignment(def);
            if assignment.parameters.len() != arguments.len()
                && !matches!(assignment.kind, AssignmentKind::Broken)
            {
                let message = format!("`{}` needs its parameters", name.text);
                self.error(name.span, message, "give a parameter for each in its definition");
            }
            if let AssignmentKind::Value(governor, _) = &assignment.kind
                && assignment.parameters.is_empty()
            {
                let of = Ty { ty: governor, env: Env::of(def.module, &assignment.parameters) };
                self.same_type(name, &of, base);
            }
        }
    }

    /// Refuses the name of a value whose type is another than the one that is wanted. REAL is left out, because modules
    /// give it integers.
    fn same_type(&self, name: &Name, of: &Ty<'a>, wanted: &Ty<'a>) {
        let Base::Known(of) = self.world.base(of) else { return };
        let differ = match (&of.ty.kind, &wanted.ty.kind) {
            (TypeKind::Simple(Simple::Real), _) | (_, TypeKind::Simple(Simple::Real)) => false,
            (TypeKind::Simple(a), TypeKind::Simple(b)) => {
                a != b && compatible(*a).is_none_or(|group| compatible(*b) != Some(group))
            }
            (TypeKind::Simple(_), TypeKind::Integer(_) | TypeKind::BitString(_))
            | (TypeKind::Integer(_) | TypeKind::BitString(_), TypeKind::Simple(_))
            | (TypeKind::Integer(_), TypeKind::BitString(_))
            | (TypeKind::BitString(_), TypeKind::Integer(_)) => true,
            _ => false,
        };
        if differ {
            let message = format!("`{}` is a value of another type", name.text);
            self.error(name.span, message, "name a value of the type");
        }
    }

    fn simple(&mut self, simple: Simple, value: &'a Value, env: &Env<'a>) -> bool {
        match (simple, &value.kind) {
            (Simple::Boolean, kind) => matches!(kind, ValueKind::Boolean(_)),
            (Simple::Null, kind) => matches!(kind, ValueKind::Null),
            (Simple::Real, kind) => matches!(
                kind,
                ValueKind::Integer(_)
                    | ValueKind::Real(_)
                    | ValueKind::SpecialReal(_)
                    | ValueKind::Braced(_)
            ),
            (Simple::OctetString, kind) => {
                matches!(kind, ValueKind::Bits(_) | ValueKind::Hex(_) | ValueKind::Braced(_))
            }
            (Simple::ObjectIdentifier | Simple::RelativeOid, ValueKind::Braced(braced)) => {
                self.object_identifier(simple, *braced, env);
                true
            }
            (Simple::ObjectIdentifier | Simple::RelativeOid, _) => false,
            (simple, kind) if simple.is_text() => {
                matches!(kind, ValueKind::Text(_) | ValueKind::Braced(_))
            }
            _ => true,
        }
    }

    /// The names in an object identifier that have no number beside them.
    fn object_identifier(&mut self, simple: Simple, braced: Braced, env: &Env<'a>) {
        let Some(parts) = self.world.read_oid(env.module, braced) else { return };
        let mut numbers = Vec::new();
        for (n, part) in parts.iter().enumerate() {
            if let Some(number) = &part.number {
                let number = self.number(number, env);
                numbers.push(number.and_then(|n| u128::try_from(n).ok()).unwrap_or(u128::MAX));
                continue;
            }
            let Some(name) = &part.name else { continue };
            if simple == Simple::ObjectIdentifier
                && let Some(number) = well_known(&numbers, &name.text)
            {
                numbers.push(number);
                continue;
            }
            numbers.push(u128::MAX);
            let is_parameter = env.parameter(&name.text).is_some();
            if is_parameter || self.world.lookup(env.module, &name.text).is_some() {
                continue;
            }
            let message = format!("`{}` is not defined", name.text);
            let help = if n == 0 {
                "define it, import it, or write `name(number)`"
            } else {
                "write `name(number)`"
            };
            self.error(name.span, message, help);
        }
    }

    fn bits(&self, kind: &'a TypeKind, braced: Braced, env: &Env<'a>) {
        for item in self.world.read_list(env.module, braced).unwrap_or_default() {
            let Some(Value { kind: ValueKind::Reference(reference), .. }) = &item.value else {
                self.error(item.span, "this is no bit's name", "name bits: `{ a, b }`");
                continue;
            };
            let name = &reference.name;
            if !self.world.gives_name(kind, &name.text) {
                let message = format!("the BIT STRING has no bit `{}`", name.text);
                self.error(name.span, message, "name one of its bits");
            }
        }
    }

    fn components_of_value(
        &mut self,
        items: &'a [Item],
        base: &Ty<'a>,
        braced: Braced,
        value: &'a Value,
        env: &Env<'a>,
    ) {
        let Some(parts) = self.world.read_list(env.module, braced) else { return };
        let members = self.world.members(items, &base.env);
        if self.has_hidden(items, &base.env) || members.iter().any(|m| m.component.name.is_none()) {
            return;
        }
        let mut given = std::collections::HashSet::new();
        for (n, part) in parts.iter().enumerate() {
            // X.208 lets the name be left out.
            let Some(name) = part.name.as_ref().or_else(|| members.get(n)?.component.name.as_ref())
            else {
                self.error(part.span, "a value too many", "leave it out");
                continue;
            };
            let found = members.named(&name.text);
            let Some(member) = found else {
                let message = format!("the type has no component `{}`", name.text);
                self.error(name.span, message, "name one of its components");
                continue;
            };
            given.insert(name.text.as_str());
            if let Some(value) = &part.value {
                let ty = Ty { ty: &member.component.ty, env: member.env.clone() };
                self.value(value, &ty, env);
            }
        }
        let missing = members.iter().find(|m| {
            matches!(m.component.presence, Presence::Required)
                && m.addition.is_none()
                && m.component.name.as_ref().is_some_and(|n| !given.contains(n.text.as_str()))
        });
        if let Some(name) = missing.and_then(|m| m.component.name.as_ref()) {
            let message = format!("the component `{}` is missing", name.text);
            self.error(value.span, message, "give it a value");
        }
    }

    fn alternative(
        &mut self,
        items: &'a [Item],
        base: &Ty<'a>,
        name: &Name,
        inner: &'a Value,
        env: &Env<'a>,
    ) {
        let members = self.world.members(items, &base.env);
        let found =
            members.iter().find(|m| m.component.name.as_ref().is_some_and(|n| n.text == name.text));
        match found {
            Some(member) => {
                let ty = Ty { ty: &member.component.ty, env: member.env.clone() };
                self.value(inner, &ty, env);
            }
            None => {
                let message = format!("the CHOICE has no alternative `{}`", name.text);
                self.error(name.span, message, "name one of its alternatives");
            }
        }
    }
}

/// A type in words.
fn described(kind: &TypeKind) -> &'static str {
    match kind {
        TypeKind::Integer(_) => "INTEGER",
        TypeKind::BitString(_) => "BIT STRING",
        TypeKind::Enumerated(_) => "the ENUMERATED",
        TypeKind::Sequence(_) => "the SEQUENCE",
        TypeKind::Set(_) => "the SET",
        TypeKind::Choice(_) => "the CHOICE",
        TypeKind::SequenceOf(..) => "the SEQUENCE OF",
        TypeKind::SetOf(..) => "the SET OF",
        TypeKind::Simple(Simple::Boolean) => "BOOLEAN",
        TypeKind::Simple(Simple::Null) => "NULL",
        TypeKind::Simple(Simple::Real) => "REAL",
        TypeKind::Simple(Simple::OctetString) => "OCTET STRING",
        TypeKind::Simple(Simple::ObjectIdentifier) => "OBJECT IDENTIFIER",
        TypeKind::Simple(simple) if simple.is_text() => "the string's type",
        _ => "the type",
    }
}

/// The group of types that a type shares its values with: the names of values of one type stand for values of the others
/// (X.680 annex F). Tags do not matter for that, so that times go with the strings that they are.
fn compatible(simple: Simple) -> Option<u32> {
    use Simple as S;
    Some(match simple {
        S::Utf8String
        | S::NumericString
        | S::PrintableString
        | S::Ia5String
        | S::VisibleString
        | S::UniversalString
        | S::BmpString
        | S::UtcTime
        | S::GeneralizedTime => 0,
        S::GraphicString | S::ObjectDescriptor => 1,
        S::Time | S::Date | S::TimeOfDay | S::DateTime | S::Duration => 2,
        _ => return None,
    })
}
