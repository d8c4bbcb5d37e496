//! Constraints: what they name is there, and their values are of the type.

use super::Checker;
use crate::ast::*;
use crate::names::Target;
use crate::resolve::{Base, Env, Ty};
use std::sync::LazyLock;

/// What SIZE constrains.
static SIZE: LazyLock<Type> = LazyLock::new(|| Type {
    tags: Vec::new(),
    kind: TypeKind::Integer(Vec::new()),
    constraints: Vec::new(),
    span: crate::source::Span::default(),
});

impl<'a> Checker<'_, 'a> {
    /// A constraint on a type.
    pub(super) fn constraint(&mut self, constraint: &'a Constraint, ty: &Ty<'a>, env: &Env<'a>) {
        match &constraint.kind {
            ConstraintKind::Set(spec) => {
                self.span = constraint.span;
                self.set_spec(spec, ty, env);
            }
            ConstraintKind::Table(reference, paths) => {
                self.reference(reference, env);
                for path in paths {
                    self.path(path);
                }
            }
            ConstraintKind::Contents(contained, by) => {
                if let Some(contained) = contained {
                    self.ty(contained, env);
                }
                if let Some(by) = by {
                    self.loose_value(by, env);
                }
            }
            ConstraintKind::User | ConstraintKind::Broken => {}
        }
    }

    /// `@component`: the component is where the path says.
    fn path(&self, path: &AtPath) {
        let depth = self.enclosing.len();
        let place = match path.level {
            0 => 0,
            level if level as usize <= depth => depth - level as usize,
            _ => return,
        };
        let Some(name) = path.names.first() else { return };
        let Some((items, env)) = self.enclosing.get(place) else { return };
        let has = |items: &'a [Item], env: &Env<'a>| {
            self.world.members(items, env).named(&name.text).is_some()
        };
        if has(items, env) {
            return;
        }
        let message = format!("no component `{}` is there", name.text);
        let elsewhere = self.enclosing.iter().any(|(items, env)| has(items, env));
        let help = "`@name` is of the outermost type, `@.name` of the innermost";
        if elsewhere {
            self.warn(name.span, message, help);
        } else {
            self.error(name.span, message, help);
        }
    }

    /// A set of values of a type.
    pub(super) fn set_spec(&mut self, spec: &'a SetSpec, ty: &Ty<'a>, env: &Env<'a>) {
        for set in spec.root.iter().chain(&spec.additional) {
            self.set(set, ty, env);
        }
    }

    fn set(&mut self, set: &'a Set, ty: &Ty<'a>, env: &Env<'a>) {
        match set {
            Set::Union(parts) | Set::Intersection(parts) => {
                parts.iter().for_each(|part| self.set(part, ty, env));
            }
            Set::Except(a, b) => {
                self.set(a, ty, env);
                self.set(b, ty, env);
            }
            Set::AllExcept(a) => self.set(a, ty, env),
            Set::Element(element) => self.element(element, ty, env),
        }
    }

    fn element(&mut self, element: &'a Element, ty: &Ty<'a>, env: &Env<'a>) {
        self.applies(element, ty, self.span);
        match element {
            Element::Value(value) => {
                self.value(value, ty, env);
                self.letters(value, ty);
            }
            Element::Range(low, _, high, _) => {
                self.value(low, ty, env);
                self.value(high, ty, env);
                self.letters(low, ty);
                self.letters(high, ty);
                let ends = (self.world.integer(low, env), self.world.integer(high, env));
                if let (Some(low_number), Some(high_number)) = ends
                    && low_number > high_number
                {
                    let message = format!("{low_number} is above {high_number}");
                    self.error(low.span, message, "write the smaller end first");
                }
            }
            Element::Size(constraint) => {
                let size = Ty { ty: &SIZE, env: env.clone() };
                self.constraint(constraint, &size, env);
                self.size(constraint, env);
            }
            Element::From(constraint) => self.constraint(constraint, ty, env),
            Element::Type(contained, _) => self.ty(contained, env),
            Element::Inner(constraint) => {
                if let Base::Known(base) = self.world.base(ty)
                    && let TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element) =
                        &base.ty.kind
                {
                    let element = Ty { ty: element, env: base.env.clone() };
                    self.constraint(constraint, &element, env);
                }
            }
            Element::Components(_, parts) => self.components(parts, ty, env),
            Element::Pattern(value) => self.loose_value(value, env),
            Element::Settings(_) => {}
            Element::Group(spec) => self.set_spec(spec, ty, env),
        }
    }

    fn components(&mut self, parts: &'a [ComponentConstraint], ty: &Ty<'a>, env: &Env<'a>) {
        let Base::Known(base) = self.world.base(ty) else { return };
        let (TypeKind::Sequence(items) | TypeKind::Set(items) | TypeKind::Choice(items)) =
            &base.ty.kind
        else {
            return;
        };
        let members = self.world.members(items, &base.env);
        for part in parts {
            let found = members.named(&part.name.text);
            let Some(member) = found else {
                let message = format!("the type has no component `{}`", part.name.text);
                if self.has_hidden(items, &base.env) {
                    continue;
                }
                self.error(part.name.span, message, "name one of its components");
                continue;
            };
            if let Some(constraint) = &part.constraint {
                let inner = Ty { ty: &member.component.ty, env: member.env.clone() };
                self.constraint(constraint, &inner, env);
            }
        }
    }

    /// Whether components are taken from a type that is not known.
    pub(super) fn has_hidden(&self, items: &'a [Item], env: &Env<'a>) -> bool {
        items.iter().any(|item| match item {
            Item::ComponentsOf(ty) => {
                !matches!(self.world.base(&Ty { ty, env: env.clone() }), Base::Known(_))
            }
            _ => false,
        })
    }

    /// A value whose type is not known: the names in it that must mean something do.
    pub(super) fn loose_value(&self, value: &'a Value, env: &Env<'a>) {
        match &value.kind {
            ValueKind::Reference(reference) if !self.is_parameter(reference, env) => {
                self.world.resolve(env.module, reference);
            }
            ValueKind::Field(reference, _) if !self.is_parameter(reference, env) => {
                self.world.resolve(env.module, reference);
            }
            _ => {}
        }
    }

    /// What a value's name means, where it is a definition's.
    pub(super) fn value_target(&self, reference: &'a Reference, env: &Env<'a>) -> Option<Target> {
        self.world.resolve(env.module, reference)
    }
}
