//! What structures are made of: components, alternatives, items.

use std::collections::HashSet;

use super::idents::{camel, snake, unique};
use super::lower::{Lower, automatic};
use super::model::*;
use super::tags::applied;
use crate::ast::{self, ConstraintKind, EnumItem, FieldKind, Item, TypeKind};
use crate::parser::Setting;
use crate::resolve::{Env, Member, Ty};

impl<'a> Lower<'_, 'a> {
    /// A SEQUENCE or SET.
    pub(super) fn structure(
        &mut self,
        id: DefId,
        items: &'a [Item],
        env: &Env<'a>,
        is_set: bool,
    ) -> Struct {
        let members = self.world.members(items, env);
        let numbers = self.automatic_numbers(items, env, &members);
        let mut taken = HashSet::new();
        let mut fields = Vec::new();
        for (n, member) in members.iter().enumerate() {
            let name = component_name(member, n);
            let ty = Ty { ty: &member.component.ty, env: member.env.clone() };
            let mut field = self.component(id, &ty, numbers.as_ref().map(|n2| n2[n]), &name);
            field.names.rust = unique(snake(&name), &mut taken);
            field.presence = match &member.component.presence {
                ast::Presence::Required if member.addition.is_some() => Presence::Optional,
                ast::Presence::Required => Presence::Required,
                ast::Presence::Optional => Presence::Optional,
                ast::Presence::Default(value) => self
                    .constant_of(value, &ty, &member.env)
                    .map_or(Presence::Optional, Presence::Default),
            };
            field.is_grouped = member.addition.is_some_and(|group| group > 0);
            field.is_needed = matches!(member.component.presence, ast::Presence::Required);
            fields.push(field);
        }
        number_additions(&members, &mut fields);
        let markers: Vec<usize> =
            (0..items.len()).filter(|&n| matches!(items[n], Item::Extension(_))).collect();
        let implied = self.world.modules[env.module].ast.extensibility_implied;
        let unknown_at = match markers.as_slice() {
            [] if implied => Some(fields.len()),
            [] => None,
            [_] => Some(fields.len()),
            [_, second, ..] => Some(self.world.members(&items[..*second], env).len()),
        };
        let tables = self.tables(id, &members, &fields);
        Struct {
            is_set,
            fields,
            unknown_at: unknown_at.map(|n| n.min(fields_len(&members))),
            tables,
        }
    }

    /// A component or alternative with its type.
    fn component(&mut self, id: DefId, ty: &Ty<'a>, number: Option<usize>, name: &str) -> Field {
        let outer: Vec<_> = number.map(|number| automatic(number, ty)).into_iter().collect();
        let used = self.used(ty, &outer, id, name);
        let wire = applied(&outer, self.world.wire_tags(ty));
        let begins = match wire.first() {
            Some(&tag) => Some(vec![tag]),
            None => self.world.begins_with(ty),
        };
        let names = Names { rust: String::new(), asn: name.to_owned() };
        Field {
            names,
            ty: used,
            presence: Presence::Required,
            begins,
            addition: None,
            is_grouped: false,
            is_needed: true,
        }
    }

    /// The numbers of automatic tags: those in the root first (X.680 clause 25.7).
    fn automatic_numbers(
        &self,
        items: &'a [Item],
        env: &Env<'a>,
        members: &[Member<'a>],
    ) -> Option<Vec<usize>> {
        if !self.world.is_automatic(items, env) {
            return None;
        }
        let root = members.iter().filter(|m| m.addition.is_none()).count();
        let (mut next, mut next_addition) = (0, root);
        let number = |m: &Member<'a>| {
            let counter = if m.addition.is_none() { &mut next } else { &mut next_addition };
            *counter += 1;
            *counter - 1
        };
        Some(members.iter().map(number).collect())
    }

    /// A CHOICE.
    pub(super) fn choice(&mut self, id: DefId, items: &'a [Item], env: &Env<'a>) -> Choice {
        let members = self.world.members(items, env);
        let numbers = self.automatic_numbers(items, env, &members);
        let is_extensible = items.iter().any(|i| matches!(i, Item::Extension(_)))
            || self.world.modules[env.module].ast.extensibility_implied;
        let mut taken = HashSet::new();
        if is_extensible {
            taken.insert("Unknown".to_owned());
        }
        let mut alternatives = Vec::new();
        for (n, member) in members.iter().enumerate() {
            let name = component_name(member, n);
            let ty = Ty { ty: &member.component.ty, env: member.env.clone() };
            let mut field = self.component(id, &ty, numbers.as_ref().map(|n2| n2[n]), &name);
            field.names.rust = unique(variant(&name), &mut taken);
            alternatives.push(field);
        }
        number_additions(&members, &mut alternatives);
        Choice { alternatives, is_extensible }
    }

    /// The items of an ENUMERATED with their numbers (X.680 clause 20).
    pub(super) fn enumerated(
        &mut self,
        items: &'a [EnumItem],
        env: &Env<'a>,
    ) -> (Vec<(Names, i64)>, bool) {
        let marker = items.iter().position(|i| matches!(i, EnumItem::Extension));
        let given = |item: &'a EnumItem| match item {
            EnumItem::Named(_, Some(value)) => {
                self.world.integer(value, env).and_then(|n| i64::try_from(n).ok())
            }
            _ => None,
        };
        let root_end = marker.unwrap_or(items.len());
        let mut used: HashSet<i64> = items[..root_end].iter().filter_map(given).collect();
        let (mut next, mut highest) = (0_i64, -1_i64);
        let mut taken = HashSet::from(["Unknown".to_owned()]);
        let mut named = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let EnumItem::Named(name, _) = item else { continue };
            let number = given(item).unwrap_or_else(|| {
                if n > root_end {
                    next = next.max(highest + 1);
                }
                while used.contains(&next) {
                    next += 1;
                }
                next
            });
            used.insert(number);
            if n > root_end {
                highest = highest.max(number);
            }
            let rust = unique(variant(&name.text), &mut taken);
            named.push((Names { rust, asn: name.text.clone() }, number));
        }
        (named, marker.is_some())
    }

    /// Open components whose types an object set gives by another component.
    fn tables(&mut self, id: DefId, members: &[Member<'a>], fields: &[Field]) -> Vec<Table> {
        let mut tables = Vec::new();
        for (open, member) in members.iter().enumerate() {
            let is_open = matches!(fields[open].ty.kind, Kind::Plain("types::Any", _));
            let TypeKind::Field(class_name, path) = &member.component.ty.kind else { continue };
            let (Some(constraint), [field_name], true) =
                (member.component.ty.constraints.first(), path.as_slice(), is_open)
            else {
                continue;
            };
            let ConstraintKind::Table(set, paths) = &constraint.kind else { continue };
            let Some(by_name) = paths.first().and_then(|p| p.names.first()) else { continue };
            let by = members
                .iter()
                .position(|m| m.component.name.as_ref().is_some_and(|n| n.text == by_name.text));
            let Some(by) = by.filter(|_| paths.len() == 1 && paths[0].names.len() == 1) else {
                continue;
            };
            if fields[by].presence != Presence::Required {
                continue;
            }
            let TypeKind::Field(_, key_path) = &members[by].component.ty.kind else { continue };
            let (Some(class), [key]) =
                (self.world.class(class_name, &member.env), key_path.as_slice())
            else {
                continue;
            };
            let mut objects = Vec::new();
            self.world.objects_named(set, &class, &member.env, &mut objects, 0);
            let rust = format!("{}{}", self.model.defs[id].rust, camel(&fields[open].names.asn));
            let mut rows: Vec<(Names, Constant, Use)> = Vec::new();
            let mut taken = HashSet::from(["Unknown".to_owned()]);
            for object in &objects {
                let setting = |name: &str| object.settings.iter().find(|s| s.field == name);
                let (Some(key), Some(of)) = (setting(&key.text), setting(&field_name.text)) else {
                    continue;
                };
                let key_field = object.class.fields.iter().find(|f| f.name.text == key.field);
                let Some(FieldKind::Value(key_ty)) = key_field.map(|f| &f.kind) else { continue };
                let key_ty = Ty { ty: key_ty, env: object.class_env.clone() };
                let Some(constant) = self.setting_constant(key, &key_ty, &object.env) else {
                    continue;
                };
                let is_key = matches!(constant, Constant::Oid(_) | Constant::Integer(_));
                let ast::Argument::Type(ty) = &of.to else { continue };
                if !is_key || rows.iter().any(|r| r.1 == constant) || rows.len() >= ROWS_MAX {
                    continue;
                }
                let ty = Ty { ty, env: object.env.clone() };
                let name = row_name(ty.ty, rows.len());
                let rust_name = unique(camel(&name), &mut taken);
                let hint = format!("{}-{name}", fields[open].names.asn);
                let used = self.element(&ty, id, &hint);
                rows.push((Names { rust: rust_name, asn: name }, constant, used));
            }
            if !rows.is_empty() {
                let module = self.model.defs[id].module;
                let rust = self.reserve(module, rust);
                tables.push(Table { open, by, rust, rows });
            }
        }
        tables
    }

    fn setting_constant(
        &mut self,
        setting: &'a Setting,
        ty: &Ty<'a>,
        env: &Env<'a>,
    ) -> Option<Constant> {
        match &setting.to {
            ast::Argument::Value(value) => self.constant_of(value, ty, env),
            ast::Argument::Braced(braced) => {
                let value = self.world.value_in(env.module, *braced);
                self.constant_of(value, ty, env)
            }
            ast::Argument::Type(_) => None,
        }
    }
}

/// Numbers the additions: each component behind `...` is one, and each `[[ … ]]`.
fn number_additions(members: &[Member<'_>], fields: &mut [Field]) {
    let (mut next, mut last_group) = (0, 0);
    for (member, field) in members.iter().zip(fields) {
        let Some(group) = member.addition else { continue };
        if group == 0 || group != last_group {
            next += 1;
        }
        last_group = group;
        field.addition = Some(next - 1);
    }
}

/// More rows of a table are not generated.
const ROWS_MAX: usize = 500;

/// What an open type's variant is called: as its type.
fn row_name(ty: &ast::Type, n: usize) -> String {
    match &ty.kind {
        TypeKind::Reference(reference) => reference.name.text.clone(),
        _ => format!("type{}", n + 1),
    }
}

fn fields_len(members: &[Member<'_>]) -> usize {
    members.len()
}

fn variant(name: &str) -> String {
    match camel(name) {
        // A variant needs no other name than a type of the prelude, but `Self` is none.
        name if name == "SelfType" => name,
        name => name
            .strip_suffix("Type")
            .filter(|s| camel(s) == name)
            .map_or(name.clone(), str::to_owned),
    }
}

/// A component's name; that of its type, or its place, where it has none.
fn component_name(member: &Member<'_>, n: usize) -> String {
    if let Some(name) = &member.component.name {
        return name.text.clone();
    }
    match &member.component.ty.kind {
        TypeKind::Reference(reference) => {
            let name = &reference.name.text;
            name[..1].to_ascii_lowercase() + &name[1..]
        }
        _ => format!("component{}", n + 1),
    }
}
