//! Classes, objects and object sets (X.681).

use std::collections::HashSet;

use super::Checker;
use crate::ast::*;
use crate::parser::Setting;
use crate::resolve::{Env, Ty};

/// A class, and where its names are looked up.
type Classed<'a> = (&'a Class, Env<'a>);

impl<'a> Checker<'_, 'a> {
    /// A class's definition.
    pub(super) fn class(&mut self, class: &'a Class, env: &Env<'a>) {
        let mut seen = HashSet::new();
        for field in &class.fields {
            if !seen.insert(field.name.text.as_str()) {
                let message = format!("`{}` is there twice", field.name.text);
                self.error(field.name.span, message, "name each field differently");
            }
            match &field.kind {
                FieldKind::Type => {}
                FieldKind::Value(ty) | FieldKind::Set(ty) => self.ty(ty, env),
                FieldKind::VariableValue(path) | FieldKind::VariableSet(path) => {
                    if let Some(name) = path.first()
                        && !class.fields.iter().any(|f| f.name.text == name.text)
                    {
                        let message = format!("the class has no field `{}`", name.text);
                        self.error(name.span, message, "name a field of the class");
                    }
                }
            }
            match (&field.default, &field.kind) {
                (Some(Argument::Type(ty)), _) => self.ty(ty, env),
                (Some(Argument::Value(value)), FieldKind::Value(ty)) => {
                    self.setting_value(value, ty, env, env);
                }
                _ => {}
            }
        }
    }

    /// An object of a class.
    pub(super) fn object(&mut self, value: &'a Value, class: &Classed<'a>, env: &Env<'a>) {
        match &value.kind {
            ValueKind::Braced(braced) => self.object_in(*braced, value, class, env),
            ValueKind::Reference(reference) => {
                if !self.is_parameter(reference, env) {
                    self.reference(reference, env);
                }
            }
            ValueKind::Field(reference, _) => {
                if !self.is_parameter(reference, env) {
                    self.world.resolve(env.module, reference);
                }
            }
            ValueKind::Broken => {}
            _ => self.error(value.span, "this is no object", "write it in its class's syntax"),
        }
    }

    fn object_in(&mut self, braced: Braced, value: &'a Value, class: &Classed<'a>, env: &Env<'a>) {
        let Some(settings) = self.world.read_object(env.module, braced, class.0) else { return };
        for setting in settings {
            self.setting(setting, settings, class, env);
        }
        let missing = class.0.fields.iter().find(|field| {
            !field.is_optional && !settings.iter().any(|s| s.field == field.name.text)
        });
        if let Some(field) = missing {
            let message = format!("the object's `{}` is missing", field.name.text);
            self.error(value.span, message, "say what it is");
        }
    }

    fn setting(
        &mut self,
        setting: &'a Setting,
        settings: &'a [Setting],
        class: &Classed<'a>,
        env: &Env<'a>,
    ) {
        let field = class.0.fields.iter().find(|f| f.name.text == setting.field);
        let Some(field) = field else { return };
        match (&field.kind, &setting.to) {
            (_, Argument::Type(ty)) => self.ty(ty, env),
            (FieldKind::Value(ty), Argument::Value(value)) => {
                self.setting_value(value, ty, &class.1, env);
            }
            (FieldKind::Value(ty), Argument::Braced(braced)) => {
                if let Some(inner) = self.world.class_of(ty, &class.1) {
                    if let Some(settings) = self.world.read_object(env.module, *braced, inner.0) {
                        settings.iter().for_each(|s| self.setting(s, settings, &inner, env));
                    }
                } else {
                    let ty = Ty { ty, env: class.1.clone() };
                    self.braced_value(*braced, setting, &ty, env);
                }
            }
            (FieldKind::Set(ty), Argument::Braced(braced)) => {
                let Some(spec) = self.world.read_set(env.module, *braced) else { return };
                match self.world.class_of(ty, &class.1) {
                    Some(inner) => self.object_set(spec, &inner, env),
                    None => {
                        let ty = Ty { ty, env: class.1.clone() };
                        self.set_spec(spec, &ty, env);
                    }
                }
            }
            (FieldKind::VariableValue(path), Argument::Value(value)) => {
                let of = path.first().and_then(|n| settings.iter().find(|s| s.field == n.text));
                match of.map(|s| &s.to) {
                    Some(Argument::Type(ty)) => {
                        let ty = Ty { ty, env: env.clone() };
                        self.value(value, &ty, env);
                    }
                    _ => self.loose_value(value, env),
                }
            }
            (_, Argument::Value(value)) => self.loose_value(value, env),
            (_, Argument::Braced(_)) => {}
        }
    }

    /// A value in braces where no value's notation holds the braces.
    fn braced_value(&mut self, braced: Braced, _setting: &Setting, ty: &Ty<'a>, env: &Env<'a>) {
        self.value(self.world.value_in(env.module, braced), ty, env);
    }

    fn setting_value(
        &mut self,
        value: &'a Value,
        ty: &'a Type,
        class_env: &Env<'a>,
        env: &Env<'a>,
    ) {
        match self.world.class_of(ty, class_env) {
            Some(inner) => self.object(value, &inner, env),
            None => {
                let ty = Ty { ty, env: class_env.clone() };
                self.value(value, &ty, env);
            }
        }
    }

    /// A set of objects of a class.
    pub(super) fn object_set(&mut self, spec: &'a SetSpec, class: &Classed<'a>, env: &Env<'a>) {
        for set in spec.root.iter().chain(&spec.additional) {
            self.objects(set, class, env);
        }
    }

    fn objects(&mut self, set: &'a Set, class: &Classed<'a>, env: &Env<'a>) {
        match set {
            Set::Union(parts) | Set::Intersection(parts) => {
                parts.iter().for_each(|part| self.objects(part, class, env));
            }
            Set::Except(a, b) => {
                self.objects(a, class, env);
                self.objects(b, class, env);
            }
            Set::AllExcept(a) => self.objects(a, class, env),
            Set::Element(element) => match &**element {
                Element::Value(value) => self.object(value, class, env),
                Element::Type(ty, _) => self.ty(ty, env),
                Element::Group(spec) => self.object_set(spec, class, env),
                _ => {}
            },
        }
    }
}
