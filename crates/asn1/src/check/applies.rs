//! Constraints beside the types that they can apply to (X.680 clause 51.2, table 9), and values beside what the
//! constraints of their type leave.

use super::Checker;
use crate::ast::*;
use crate::resolve::{Base, Env, Ty};
use crate::rust::limits::Ranges;
use crate::simple::Simple;
use crate::source::Span;

impl<'a> Checker<'_, 'a> {
    /// Refuses an element of a constraint that cannot apply to the type.
    pub(super) fn applies(&self, element: &Element, ty: &Ty<'a>, span: Span) {
        let Base::Known(base) = self.world.base(ty) else { return };
        let kind = &base.ty.kind;
        let is_text = matches!(kind, TypeKind::Simple(simple) if simple.is_text());
        let is_list = matches!(kind, TypeKind::SequenceOf(..) | TypeKind::SetOf(..));
        let (notation, applies) = match element {
            Element::Size(_) => {
                let is_string =
                    matches!(kind, TypeKind::BitString(_) | TypeKind::Simple(Simple::OctetString));
                ("SIZE", is_text || is_string || is_list)
            }
            Element::From(_) => ("FROM", is_text),
            Element::Pattern(_) => ("PATTERN", is_text),
            Element::Inner(_) => ("WITH COMPONENT", is_list),
            Element::Components(..) => {
                let has_components = matches!(
                    kind,
                    TypeKind::Sequence(_)
                        | TypeKind::Set(_)
                        | TypeKind::Choice(_)
                        | TypeKind::InstanceOf(_)
                        | TypeKind::Simple(
                            Simple::Real
                                | Simple::External
                                | Simple::EmbeddedPdv
                                | Simple::CharacterString
                        )
                );
                ("WITH COMPONENTS", has_components)
            }
            _ => return,
        };
        if !applies {
            let message = format!("{notation} does not apply to this type (X.680 51.2)");
            self.error(span, message, "remove the constraint, or constrain another type");
        }
    }

    /// Refuses bounds of a SIZE below zero.
    pub(super) fn size(&self, constraint: &'a Constraint, env: &Env<'a>) {
        let ConstraintKind::Set(spec) = &constraint.kind else { return };
        for set in spec.root.iter().chain(&spec.additional) {
            self.size_set(set, env);
        }
    }

    fn size_set(&self, set: &'a Set, env: &Env<'a>) {
        match set {
            Set::Union(parts) | Set::Intersection(parts) => {
                parts.iter().for_each(|part| self.size_set(part, env));
            }
            Set::Except(a, _) => self.size_set(a, env),
            Set::Element(element) => match &**element {
                Element::Value(value) => self.natural(value, env),
                Element::Range(low, _, high, _) => {
                    self.natural(low, env);
                    self.natural(high, env);
                }
                _ => {}
            },
            Set::AllExcept(_) => {}
        }
    }

    fn natural(&self, value: &'a Value, env: &Env<'a>) {
        if let Some(number) = self.world.integer(value, env)
            && number < 0
        {
            let message = format!("expected a size of at least 0, found {number}");
            self.error(value.span, message, "write a number that is not negative");
        }
    }

    /// Refuses constraints that together leave no value of an INTEGER or no length.
    pub(super) fn leaves_a_value(&self, ty: &Ty<'a>) {
        let Some(constraint) = ty.ty.constraints.last() else { return };
        if !matches!(constraint.kind, ConstraintKind::Set(_)) {
            return;
        }
        // A range with exchanged ends is reported by itself.
        if let ConstraintKind::Set(SetSpec { root: Some(Set::Element(element)), .. }) =
            &constraint.kind
            && let Element::Range(low, _, high, _) = &**element
            && self.world.integer(low, &ty.env) > self.world.integer(high, &ty.env)
            && self.world.integer(high, &ty.env).is_some()
        {
            return;
        }
        let Base::Known(base) = self.world.base(ty) else { return };
        let limits = self.world.limits(ty);
        let is_empty = |ranges: &Ranges| ranges.as_slice().is_empty();
        // Between two integers there are other REAL values, and without letters there is the empty string.
        let has_no_value = matches!(base.ty.kind, TypeKind::Integer(_)) && is_empty(&limits.values);
        let has_no_text = is_empty(&limits.letters) && limits.sizes.low().unwrap_or(0) > 0;
        if has_no_value || is_empty(&limits.sizes) || has_no_text {
            let message = "the constraints leave no value of the type";
            self.error(constraint.span, message, "write constraints that have values in common");
        }
    }

    /// Refuses a number, a string or a size that the constraints of the type exclude. Does not look at the values in
    /// constraints, because these may be outside of what the whole type permits.
    pub(super) fn within(&self, value: &'a Value, ty: &Ty<'a>, env: &Env<'a>) {
        let Base::Known(base) = self.world.base(ty) else { return };
        let limits = self.world.limits(ty);
        let has = |ranges: &Ranges, number: i128| {
            ranges.as_slice().is_empty()
                || ranges.as_slice().iter().any(|(low, high)| (*low..=*high).contains(&number))
        };
        let outside = match (&base.ty.kind, &value.kind) {
            (TypeKind::Integer(names), _) => {
                let named = match &value.kind {
                    ValueKind::Reference(reference) if reference.module.is_none() => {
                        names.iter().find(|named| named.name.text == reference.name.text)
                    }
                    _ => None,
                };
                let number = match named {
                    Some(named) => self.world.integer(&named.value, &base.env),
                    None => self.world.integer(value, env),
                };
                number.filter(|number| !has(&limits.values, *number)).map(|n| n.to_string())
            }
            (TypeKind::Simple(simple), ValueKind::Text(text)) if simple.is_text() => {
                let len = text.chars().count();
                let bad = text.chars().find(|c| {
                    !has(&limits.letters, i128::from(u32::from(*c)))
                        || alphabet(*simple).is_some_and(|is_in| !is_in(*c))
                });
                match bad {
                    Some(c) => Some(format!("the character `{c}`")),
                    None => (!has(&limits.sizes, len as i128)).then(|| format!("{len} characters")),
                }
            }
            (TypeKind::Simple(Simple::OctetString), ValueKind::Hex(digits)) => {
                let len = digits.len().div_ceil(2);
                (!has(&limits.sizes, len as i128)).then(|| format!("{len} octets"))
            }
            _ => None,
        };
        if let Some(found) = outside {
            let message = format!("expected a value of the type, found {found}");
            self.error(value.span, message, "write a value that the constraints permit");
        }
    }

    /// Refuses characters in a permitted alphabet that the type itself does not have.
    pub(super) fn letters(&self, value: &Value, ty: &Ty<'a>) {
        let (Base::Known(base), ValueKind::Text(text)) = (self.world.base(ty), &value.kind) else {
            return;
        };
        let TypeKind::Simple(simple) = &base.ty.kind else { return };
        let Some(is_in) = alphabet(*simple) else { return };
        if let Some(c) = text.chars().find(|c| !is_in(*c)) {
            let message = format!("the type has no character `{c}`");
            self.error(value.span, message, "write characters of the type");
        }
    }
}

/// The characters of a type (X.680 clause 41, tables 9 and 10), where these are few.
fn alphabet(simple: Simple) -> Option<fn(char) -> bool> {
    Some(match simple {
        Simple::NumericString => |c| c.is_ascii_digit() || c == ' ',
        Simple::PrintableString => |c| c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c),
        Simple::VisibleString => |c| (' '..='~').contains(&c),
        Simple::Ia5String => |c| c.is_ascii(),
        _ => return None,
    })
}
