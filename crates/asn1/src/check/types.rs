//! Types: their names, numbers and parts.

use std::collections::HashMap;

use super::Checker;
use crate::ast::*;
use crate::names::Target;
use crate::resolve::{Base, Bound, Env, Ty};

impl<'a> Checker<'_, 'a> {
    /// A type and all in it.
    pub(super) fn ty(&mut self, ty: &'a Type, env: &Env<'a>) {
        for tag in &ty.tags {
            self.number(&tag.number, env);
            if tag.class == TagClass::Universal {
                let help = "UNIVERSAL tags are ASN.1's own; APPLICATION and PRIVATE are free";
                self.warn(tag.span, "a tag of class UNIVERSAL", help);
            }
        }
        self.kind(ty, env);
        let bare = Ty { ty, env: env.clone() };
        for constraint in &ty.constraints {
            self.constraint(constraint, &bare, env);
        }
        self.leaves_a_value(&bare);
        self.implicit(ty, env);
    }

    /// Refuses the word IMPLICIT before a type that has no tag of its own to replace: an open type, an untagged CHOICE
    /// (X.680 31.2.9). Before ANY it is a warning, because modules after X.409 have it; the tag is explicit then.
    fn implicit(&self, ty: &'a Type, env: &Env<'a>) {
        let Some(tag) = ty.tags.last().filter(|tag| tag.implicit == Some(true)) else { return };
        let mut inner = Ty { ty, env: env.clone() };
        while let Some(Ok(next)) = self.world.next(&inner) {
            if !next.ty.tags.is_empty() {
                return;
            }
            inner = next;
        }
        let is_open = matches!(self.world.base(&inner), Base::Open);
        if is_open || matches!(inner.ty.kind, TypeKind::Choice(_)) {
            let message = "IMPLICIT before a type without a tag of its own (X.680 31.2.9)";
            match inner.ty.kind {
                TypeKind::Any(_) => self.warn(tag.span, message, "write EXPLICIT, which is meant"),
                _ => self.error(tag.span, message, "write EXPLICIT"),
            }
        }
    }

    fn kind(&mut self, ty: &'a Type, env: &Env<'a>) {
        match &ty.kind {
            TypeKind::Simple(_) | TypeKind::Broken => {}
            TypeKind::Integer(names) => self.named_numbers(names, env),
            TypeKind::BitString(names) => {
                self.named_numbers(names, env);
                self.bit_numbers(names, env);
            }
            TypeKind::Enumerated(items) => self.enumerated(items, env),
            TypeKind::Sequence(items) | TypeKind::Set(items) | TypeKind::Choice(items) => {
                self.structured(ty, items, env);
            }
            TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element) => self.ty(element, env),
            TypeKind::Selection(_, of) => {
                self.ty(of, env);
                self.world.base(&Ty { ty, env: env.clone() });
            }
            TypeKind::Any(by) => self.any(by.as_ref(), ty, env),
            TypeKind::Reference(reference) => self.reference(reference, env),
            TypeKind::Field(reference, _) => {
                self.reference(reference, env);
                self.field_of_class(reference, env);
                self.world.base(&Ty { ty, env: env.clone() });
            }
            TypeKind::InstanceOf(reference) => self.reference(reference, env),
            TypeKind::Macro(used) => {
                self.world.lookup(self.module, &used.name.text);
                for (_, _, ty) in &used.types {
                    self.ty(ty, env);
                }
            }
        }
    }

    /// Refuses `Type.&field`: only classes, objects and object sets have fields.
    fn field_of_class(&self, reference: &'a Reference, env: &Env<'a>) {
        if self.is_parameter(reference, env) || self.world.class(reference, env).is_some() {
            return;
        }
        let Some((assignment, inner)) = self.world.definition(reference, env) else { return };
        if let AssignmentKind::Type(ty) = &assignment.kind
            && let Base::Known(_) = self.world.base(&Ty { ty, env: inner })
        {
            let message = format!("`{}` is a type; only a class has fields", reference.name.text);
            self.error(reference.name.span, message, "name a class");
        }
    }

    /// The default values of a parameterized type, with the actual parameters.
    fn defaults_of_instance(&mut self, reference: &'a Reference, env: &Env<'a>) {
        let is_formal = |argument: &Argument| {
            matches!(argument, Argument::Type(Type { kind: TypeKind::Reference(r), .. })
                if r.module.is_none() && env.parameter(&r.name.text).is_some())
        };
        if reference.arguments.iter().flatten().any(is_formal) {
            return;
        }
        let Some((assignment, inner)) = self.world.definition(reference, env) else { return };
        let AssignmentKind::Type(Type {
            kind: TypeKind::Sequence(items) | TypeKind::Set(items),
            ..
        }) = &assignment.kind
        else {
            return;
        };
        for item in items {
            if let Item::Component(component) = item
                && let Presence::Default(value) = &component.presence
                && let TypeKind::Reference(of) = &component.ty.kind
                && of.module.is_none()
                && assignment.parameters.iter().any(|p| p.name.text == of.name.text)
            {
                let ty = Ty { ty: &component.ty, env: inner.clone() };
                if let (ValueKind::Reference(name), Base::Known(base)) =
                    (&value.kind, self.world.base(&ty))
                    && name.module.is_none()
                    && inner.parameter(&name.name.text).is_none()
                    && matches!(base.ty.kind, TypeKind::Integer(_) | TypeKind::Enumerated(_))
                    && !self.world.gives_name(&base.ty.kind, &name.name.text)
                    && self.world.lookup(inner.module, &name.name.text).is_none()
                {
                    let message = format!(
                        "with these parameters the default `{}` is no value of `{}`",
                        name.name.text, of.name.text
                    );
                    let help = "give a parameter whose type has this value";
                    self.error(reference.name.span, message, help);
                }
            }
        }
    }

    /// `ANY DEFINED BY name`: the name is that of a component beside it.
    fn any(&self, by: Option<&Name>, ty: &Type, _env: &Env<'a>) {
        let Some(name) = by else { return };
        let beside = self
            .enclosing
            .iter()
            .rev()
            .take(2)
            .any(|(items, env)| self.world.members(items, env).named(&name.text).is_some());
        if !beside {
            let message = format!("no component `{}` is beside this ANY", name.text);
            self.warn(ty.span, message, "name the component that says what it is");
        }
    }

    /// A name of a definition, its actual parameters among it.
    pub(super) fn reference(&mut self, reference: &'a Reference, env: &Env<'a>) {
        let is_parameter =
            reference.module.is_none() && env.parameter(&reference.name.text).is_some();
        let mut parameters: Option<&'a [Parameter]> = None;
        let mut defining = env.clone();
        if !is_parameter && let Some(Target::Def(def)) = self.world.resolve(env.module, reference) {
            let assignment = self.world.assignment(def);
            if !matches!(assignment.kind, AssignmentKind::Broken) {
                parameters = Some(&assignment.parameters);
            }
            defining = Env::of(def.module, &assignment.parameters);
        }
        let arguments = reference.arguments.as_deref().unwrap_or_default();
        if let Some(parameters) = parameters
            && (parameters.len() != arguments.len()
                || parameters.is_empty() && reference.arguments.is_some())
            && !(reference.arguments.is_none() && self.is_class_alias(reference, env))
        {
            let name = &reference.name;
            let message = format!(
                "`{}` has {} parameters, here are {}",
                name.text,
                parameters.len(),
                arguments.len()
            );
            let help = "give a parameter for each in its definition";
            if self.world.is_sure(env.module, reference) {
                self.error(name.span, message, help);
            } else {
                self.warn(name.span, message, "is this the version of the module that is meant?");
            }
            return;
        }
        if !arguments.is_empty() {
            self.defaults_of_instance(reference, env);
        }
        for (n, argument) in arguments.iter().enumerate() {
            let formal = parameters.and_then(|p| p.get(n));
            self.argument(argument, formal, &defining, env);
        }
    }

    fn is_class_alias(&self, reference: &'a Reference, env: &Env<'a>) -> bool {
        self.world.class(reference, env).is_some()
    }

    /// An actual parameter beside the formal one's governor.
    fn argument(
        &mut self,
        argument: &'a Argument,
        formal: Option<&'a Parameter>,
        defining: &Env<'a>,
        env: &Env<'a>,
    ) {
        let is_set =
            formal.is_none_or(|p| p.name.text.starts_with(|c: char| c.is_ascii_uppercase()));
        let governor = formal.and_then(|p| p.governor.as_ref());
        // A governor that is itself a parameter says nothing here.
        let is_open = |ty: &Type| {
            matches!(&ty.kind, TypeKind::Reference(r)
                if r.module.is_none() && defining.parameter(&r.name.text).is_some())
        };
        let governor = governor.filter(|g| !is_open(g));
        let class = governor.and_then(|g| self.world.class_of(g, defining));
        match (argument, governor) {
            (Argument::Type(ty), _) => self.ty(ty, env),
            (Argument::Value(value), Some(_)) if class.is_some() => {
                if let Some(class) = class {
                    self.object(value, &class, env);
                }
            }
            (Argument::Value(value), Some(ty)) => {
                self.value(value, &Ty { ty, env: defining.clone() }, env);
            }
            (Argument::Value(value), None) => self.loose_value(value, env),
            (Argument::Braced(braced), Some(_)) if class.is_some() => {
                if let Some(class) = class {
                    if !is_set {
                        return self.object(self.world.value_in(env.module, *braced), &class, env);
                    }
                    if let Some(spec) = self.world.read_set(env.module, *braced) {
                        self.object_set(spec, &class, env);
                    }
                }
            }
            (Argument::Braced(_), _) => {}
        }
    }

    /// A number in its place: digits, or a value's name.
    pub(super) fn number(&self, value: &'a Value, env: &Env<'a>) -> Option<i128> {
        self.loose_value(value, env);
        self.world.integer(value, env)
    }

    fn named_numbers(&self, names: &'a [NamedNumber], env: &Env<'a>) {
        let mut seen = HashMap::new();
        let mut numbers = HashMap::new();
        for named in names {
            let number = self.number(&named.value, env);
            if seen.insert(named.name.text.as_str(), ()).is_some() {
                let message = format!("`{}` is there twice", named.name.text);
                self.error(named.name.span, message, "give each number another name");
            }
            if let Some(number) = number
                && let Some(other) = numbers.insert(number, &named.name.text)
            {
                let message = format!("{number} has the name `{other}` already");
                self.error(named.name.span, message, "give each name another number");
            }
        }
    }

    /// Bits have numbers from 0 on (X.680 22.4).
    fn bit_numbers(&self, names: &'a [NamedNumber], env: &Env<'a>) {
        for named in names {
            if let Some(number) = self.world.integer(&named.value, env)
                && number < 0
            {
                let message = format!("expected a bit's number of at least 0, found {number}");
                self.error(named.value.span, message, "count bits from 0");
            }
        }
    }

    /// Numbers of items that stand after `...`: none is used twice, with those that items without a number get, and
    /// each is above the one before it (X.680 20.4 to 20.6).
    fn additional_items(&self, items: &'a [EnumItem], env: &Env<'a>) {
        let Some(marker) = items.iter().position(|i| matches!(i, EnumItem::Extension)) else {
            return;
        };
        let given = |value: &'a Option<Value>| self.world.integer(value.as_ref()?, env);
        let mut numbers: HashMap<i128, &str> = HashMap::new();
        for item in &items[..marker] {
            if let EnumItem::Named(name, value) = item
                && let Some(number) = given(value)
            {
                numbers.insert(number, &name.text);
            }
        }
        let mut next = 0;
        for item in &items[..marker] {
            let EnumItem::Named(name, None) = item else { continue };
            while numbers.contains_key(&next) {
                next += 1;
            }
            numbers.insert(next, &name.text);
        }
        let mut highest: Option<i128> = None;
        for item in &items[marker + 1..] {
            let EnumItem::Named(name, value) = item else { continue };
            if value.is_some() && given(value).is_none() {
                return;
            }
            let number = given(value).unwrap_or_else(|| {
                let mut free = highest.map_or(0, |highest| highest + 1);
                while numbers.contains_key(&free) {
                    free += 1;
                }
                free
            });
            // Two written numbers that are equal are reported where all items are looked at.
            let is_written = |other: &&str| {
                items.iter().any(
                    |item| matches!(item, EnumItem::Named(name, Some(_)) if name.text == **other),
                )
            };
            match numbers.get(&number) {
                Some(other) if value.is_some() && !is_written(other) => {
                    let message = format!("{number} is the number of `{other}` already");
                    self.error(name.span, message, "give each item another number");
                }
                Some(_) => {}
                None if highest.is_some_and(|highest| number < highest) => {
                    let message = format!("{number} is below the number of the item before it");
                    let help = "write additional items in the order of their numbers (X.680 20.6)";
                    self.error(name.span, message, help);
                }
                None => {}
            }
            numbers.insert(number, &name.text);
            highest = Some(highest.map_or(number, |highest| highest.max(number)));
        }
    }

    fn enumerated(&self, items: &'a [EnumItem], env: &Env<'a>) {
        self.additional_items(items, env);
        let mut seen = HashMap::new();
        let mut numbers = HashMap::new();
        for item in items {
            let EnumItem::Named(name, value) = item else { continue };
            if seen.insert(name.text.as_str(), ()).is_some() {
                let message = format!("`{}` is there twice", name.text);
                self.error(name.span, message, "name each item differently");
            }
            if let Some(value) = value
                && let Some(number) = self.number(value, env)
                && let Some(other) = numbers.insert(number, &name.text)
            {
                let message = format!("{number} is the number of `{other}` already");
                self.error(name.span, message, "give each item another number");
            }
        }
        let markers = items.iter().filter(|i| matches!(i, EnumItem::Extension)).count();
        if markers > 1
            && let Some(EnumItem::Named(name, _)) =
                items.iter().rfind(|i| matches!(i, EnumItem::Named(..)))
        {
            self.error(name.span, "an ENUMERATED with two `...`", "leave one `...`");
        }
    }

    fn structured(&mut self, ty: &'a Type, items: &'a [Item], env: &Env<'a>) {
        self.enclosing.push((items, env.clone()));
        self.items(items, env);
        let members = self.world.members(items, env);
        let mut seen = HashMap::new();
        for member in members.iter() {
            let Some(name) = &member.component.name else { continue };
            if seen.insert(name.text.as_str(), ()).is_some() {
                let message = format!("`{}` is there twice", name.text);
                let span = if member.is_included { ty.span } else { name.span };
                self.error(span, message, "name each component differently");
            }
        }
        self.distinct_tags(ty, items, &members, env);
        self.enclosing.pop();
    }

    fn items(&mut self, items: &'a [Item], env: &Env<'a>) {
        let mut markers = 0;
        for item in items {
            match item {
                Item::Component(component) => {
                    self.ty(&component.ty, env);
                    if let Presence::Default(value) = &component.presence {
                        let ty = Ty { ty: &component.ty, env: env.clone() };
                        self.value(value, &ty, env);
                        self.within(value, &ty, env);
                    }
                }
                Item::ComponentsOf(ty) => self.ty(ty, env),
                Item::Extension(span) => {
                    markers += 1;
                    if markers == 3 {
                        self.error(*span, "more than two `...`", "leave at most two");
                    }
                }
                Item::Group(_, items) => self.items(items, env),
            }
        }
    }

    /// Whether a name is a parameter's.
    pub(super) fn is_parameter(&self, reference: &Reference, env: &Env<'a>) -> bool {
        reference.module.is_none()
            && matches!(
                env.parameter(&reference.name.text),
                Some(Bound::Formal(_) | Bound::Actual(..))
            )
    }
}
