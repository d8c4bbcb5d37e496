//! Table constraints (X.682, 10): which type an open type's values have, by what stands in other components.

use std::collections::HashMap;

use fusewire_asn1::ast::{Argument, AtPath, ConstraintKind, FieldKind, Name, Reference, TypeKind};
use fusewire_asn1::objects::Object;
use fusewire_asn1::resolve::{Env, Ty};

use super::{KeyPath, Kind, Schema, Table, TypeId};
use crate::value::Value;

/// A table that is still to be read.
#[derive(Clone)]
pub struct Pending<'a> {
    /// The open type.
    pub open: TypeId,
    /// The class, and its field that the open type is.
    class: &'a Reference,
    field: &'a Name,
    set: &'a Reference,
    /// The components that say which.
    pub paths: &'a [AtPath],
    env: Env<'a>,
    around: Vec<TypeId>,
}

impl<'a> Pending<'a> {
    /// For an open type.
    pub fn of(self, open: TypeId) -> Pending<'a> {
        Pending { open, ..self }
    }
}

/// The table constraint at a type, where it has one.
pub fn constraint<'a>(ty: &Ty<'a>, around: &[TypeId]) -> Option<Pending<'a>> {
    let TypeKind::Field(class, path) = &ty.ty.kind else { return None };
    let (set, paths) = ty.ty.constraints.iter().find_map(|c| match &c.kind {
        ConstraintKind::Table(set, paths) => Some((set, paths)),
        _ => None,
    })?;
    let [field] = path.as_slice() else { return None };
    let (env, around) = (ty.env.clone(), around.to_vec());
    Some(Pending { open: 0, class, field, set, paths, env, around })
}

/// More rows are not read.
const ROWS_MAX: usize = 10_000;

/// A component that says which: where it is, its type, and the class's field that it is.
struct KeyOf<'a> {
    path: KeyPath,
    ty: TypeId,
    field: &'a str,
}

impl<'a> Schema<'_, 'a> {
    /// Reads a table; without one the open type stays what it is.
    pub(super) fn table(&mut self, pending: Pending<'a>) {
        let keys: Option<Vec<KeyOf<'a>>> =
            pending.paths.iter().map(|path| self.key_of(path, &pending)).collect();
        let (Some(keys), Some(class)) = (keys, self.world.class(pending.class, &pending.env))
        else {
            return;
        };
        let mut objects = Vec::new();
        self.world.objects_named(pending.set, &class, &pending.env, &mut objects, 0);
        let mut rows = HashMap::new();
        for object in objects.iter().take(ROWS_MAX) {
            let mut fingerprint = Vec::new();
            let is_whole = keys.iter().all(|key| {
                self.setting(object, key).is_some_and(|value| value.key(&mut fingerprint))
            });
            let of = setting_of(object, &pending.field.text);
            let (true, Some(Argument::Type(ty))) = (is_whole, of) else { continue };
            let ty = Ty { ty, env: object.env.clone() };
            let id = self.node(ty, None, Vec::new(), None);
            rows.entry(fingerprint).or_insert(id);
        }
        let keys = keys.into_iter().map(|k| k.path).collect();
        self.change(pending.open).kind = Kind::Open(Some(Table { keys, rows }));
    }

    /// The value that an object gives a key.
    fn setting(&mut self, object: &Object<'a>, key: &KeyOf<'a>) -> Option<Value> {
        let field = object.class.fields.iter().find(|f| f.name.text == key.field)?;
        let FieldKind::Value(_) = &field.kind else { return None };
        let (to, env) = match setting_of(object, key.field) {
            Some(to) => (to, object.env.clone()),
            None => (field.default.as_ref()?, object.class_env.clone()),
        };
        let value = match to {
            Argument::Value(value) => value,
            Argument::Braced(braced) => self.world.value_in(env.module, *braced),
            Argument::Type(_) => return None,
        };
        self.value_of(value, &env, key.ty).ok()
    }

    /// `@name.name`: from the outermost SEQUENCE or SET of the definition, with dots from one further in.
    fn key_of(&self, path: &'a AtPath, pending: &Pending<'a>) -> Option<KeyOf<'a>> {
        let around = &pending.around;
        let place = match path.level as usize {
            0 => 0,
            level => around.len().checked_sub(level)?,
        };
        let up = around.len().checked_sub(place + 1)?;
        let mut structure = *around.get(place)?;
        let mut members = Vec::new();
        for (n, name) in path.names.iter().enumerate() {
            let Kind::Structure(of) = &self.types[structure].kind else { return None };
            let at = of.members.iter().position(|m| m.name == name.text)?;
            members.push(at);
            if n + 1 < path.names.len() {
                structure = of.members[at].ty;
            } else {
                let field = self.field_of(of.members[at].ty)?;
                return Some(KeyOf { path: KeyPath { up, members }, ty: of.members[at].ty, field });
            }
        }
        None
    }

    /// The field of a class that a component's type is written as.
    fn field_of(&self, ty: TypeId) -> Option<&'a str> {
        self.fields.get(&ty).copied()
    }
}

/// What an object sets a field to.
fn setting_of<'a>(object: &Object<'a>, field: &str) -> Option<&'a Argument> {
    let settings: &'a [_] = object.settings;
    settings.iter().find(|s| s.field == field).map(|s| &s.to)
}
