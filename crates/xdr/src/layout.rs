//! What the model as a whole decides: which types hold themselves, which are lists, what stands behind a
//! pointer, which fixed arrays lie in place. Everything here is linear and without recursion over the file's
//! own types.

use std::collections::{HashMap, HashSet};

use fusewire_asn1::Diagnostic;
use fusewire_asn1::circles::components;

use crate::model::*;

/// Arrays in place, in bytes: larger ones are vectors.
const IN_PLACE_MAX: u64 = 4096;

/// Names that lead to names: more is refused.
const ALIAS_DEPTH_MAX: usize = 64;

/// Decides it.
pub fn finish(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
    if !aliases(model, diagnostics) {
        // Nothing below would end.
        return;
    }
    discriminants(model, diagnostics);
    lists(model);
    cycles(model, diagnostics);
    in_place(model);
}

/// Refuses names that lead back to themselves, or lead on too long.
fn aliases(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let edges: Vec<Vec<DefId>> = (0..model.defs.len())
        .map(|id| {
            let mut to = Vec::new();
            if let Shape::Alias(ty) = &model.defs[id].shape {
                each(ty, &mut |inner, _| to.extend(id_of(inner)));
            }
            to.retain(|&id| matches!(model.defs[id].shape, Shape::Alias(_)));
            to
        })
        .collect();
    let mut depths = vec![0_usize; edges.len()];
    let mut is_right = true;
    for component in components(&edges) {
        let id = component[0];
        if component.len() > 1 || edges[id].contains(&id) {
            for &id in &component {
                let message = format!("`{}` leads back to itself", model.defs[id].names.xdr);
                let help = "only structures and unions can hold themselves";
                diagnostics.push(Diagnostic::error(0, model.defs[id].span, message).help(help));
            }
            is_right = false;
            continue;
        }
        depths[id] = edges[id].iter().map(|&to| depths[to] + 1).max().unwrap_or(0);
        if depths[id] > ALIAS_DEPTH_MAX {
            let message = format!("more than {ALIAS_DEPTH_MAX} type definitions lead on from here");
            let help = "use the type itself";
            diagnostics.push(Diagnostic::error(0, model.defs[id].span, message).help(help));
            is_right = false;
            // Said once, and not of all that lead here.
            depths[id] = 0;
        }
    }
    is_right
}

/// A union's discriminant is an integer of some kind, and its cases are legal values of it.
fn discriminants(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
    let mut found = Vec::new();
    let mut enumerations = HashMap::new();
    for (id, def) in model.defs.iter().enumerate() {
        let Shape::Union(union) = &def.shape else { continue };
        let discriminant = model.target(&union.discriminant).clone();
        let legal = |n: i64| match &discriminant {
            Type::Int => i32::try_from(n).is_ok(),
            Type::Uint => u32::try_from(n).is_ok(),
            Type::Bool => n == 0 || n == 1,
            _ => true,
        };
        let numbers = match &discriminant {
            Type::Named { id, .. } => match &model.defs[*id].shape {
                Shape::Enum(variants) => Some(&*enumerations.entry(*id).or_insert_with(|| {
                    variants.iter().map(|v| i64::from(v.number)).collect::<HashSet<_>>()
                })),
                _ => {
                    let help = "it is an int, an unsigned int, a bool or an enumeration";
                    let message = "a union cannot be switched on this";
                    diagnostics.push(Diagnostic::error(0, def.span, message).help(help));
                    continue;
                }
            },
            Type::Int | Type::Uint | Type::Bool => None,
            _ => continue,
        };
        for arm in &union.arms {
            if !legal(arm.value) || numbers.is_some_and(|n| !n.contains(&arm.value)) {
                let message =
                    format!("`{}` is no value of what the union is switched on", arm.names.xdr);
                let help = "RFC 4506, section 6.4 (5): cases are values of the discriminant's type";
                diagnostics.push(Diagnostic::error(0, arm.span, message).help(help));
            }
        }
        found.push((id, discriminant));
    }
    for (id, discriminant) in found {
        if let Shape::Union(union) = &mut model.defs[id].shape {
            union.discriminant = discriminant;
        }
    }
}

/// A structure that ends with an optional one of itself, and is never used but as such, is an element of a
/// list: a vector in Rust, which takes no depth. The bytes are the same.
fn lists(model: &mut Model) {
    let mut is_list: Vec<bool> = (0..model.defs.len())
        .map(|id| {
            match &model.defs[id].shape {
                Shape::Struct(fields) => {
                    let leads_here = |field: &Field| match model.target(&field.ty) {
                        Type::Optional(of) => id_of(of) == Some(id),
                        _ => false,
                    };
                    // Two branches are a tree, unless one is what comes next.
                    fields.split_last().is_some_and(|(last, others)| {
                        leads_here(last)
                            && (last.names.xdr.contains("next") || !others.iter().any(leads_here))
                    })
                }
                _ => false,
            }
        })
        .collect();
    let uses = model.defs.iter().flat_map(Model::uses);
    let procedures = model.programs.iter().flat_map(|p| &p.versions).flat_map(|v| &v.procedures);
    let uses = uses.chain(procedures.flat_map(|p| p.arguments.iter().chain(&p.result)));
    for ty in uses {
        each(ty, &mut |inner, is_optional| {
            if let (Some(id), false) = (id_of(inner), is_optional) {
                is_list[id] = false;
            }
        });
    }
    for (id, &is_list) in is_list.iter().enumerate() {
        if let (Shape::Struct(fields), true) = (&mut model.defs[id].shape, is_list) {
            fields.pop();
        }
    }
    for ty in all_types(model) {
        each_mut(ty, &mut |inner| {
            if let Type::Optional(of) = inner
                && let Some(id) = id_of(of).filter(|&id| is_list[id])
            {
                *inner = Type::List(id);
            }
        });
    }
}

/// What holds itself: reading counts its depth, and what it holds itself through stands behind a pointer.
fn cycles(model: &mut Model, diagnostics: &mut Vec<Diagnostic>) {
    let edges = |model: &Model, counts: fn(&Def, &Type, Behind) -> bool| -> Vec<Vec<DefId>> {
        let of = |def: &Def| {
            let mut to = Vec::new();
            for ty in Model::uses(def) {
                held(ty, Behind::Nothing, &mut |inner, behind| {
                    if counts(def, inner, behind)
                        && let Some(id) = id_of(inner)
                    {
                        to.push(id);
                    }
                });
            }
            to
        };
        model.defs.iter().map(of).collect()
    };
    let all = edges(model, |_, _, _| true);
    for component in components(&all) {
        let in_circle = component.len() > 1 || all[component[0]].contains(&component[0]);
        component.into_iter().for_each(|id| model.defs[id].is_recursive = in_circle);
    }
    // Without an end: through components that are always there.
    let always = edges(model, |def, _, behind| {
        !matches!(def.shape, Shape::Union(_)) && matches!(behind, Behind::Nothing | Behind::Array)
    });
    for component in components(&always) {
        if component.len() > 1 || always[component[0]].contains(&component[0]) {
            let def = &model.defs[component[0]];
            let message = format!("`{}` always holds another one of itself", def.names.xdr);
            let help = "make the inner one optional, `TYPE *NAME`, or variable, `TYPE NAME<>`";
            diagnostics.push(Diagnostic::error(0, def.span, message).help(help));
        }
    }
    let in_place =
        edges(model, |_, _, behind| matches!(behind, Behind::Nothing | Behind::Optional));
    let mut component_of = vec![0; model.defs.len()];
    for (n, component) in components(&in_place).into_iter().enumerate() {
        component.into_iter().for_each(|id| component_of[id] = n);
    }
    let is_alias: Vec<bool> =
        model.defs.iter().map(|d| matches!(d.shape, Shape::Alias(_))).collect();
    for id in 0..model.defs.len() {
        let is_recursive = model.defs[id].is_recursive;
        for ty in Model::uses_mut(&mut model.defs[id]) {
            let named = match ty {
                Type::Optional(of) => of,
                other => other,
            };
            if let Type::Named { id: to, is_boxed } = named {
                *is_boxed = is_recursive && !is_alias[*to] && component_of[*to] == component_of[id];
            }
        }
    }
}

/// Fixed lengths that are small enough lie in place.
fn in_place(model: &mut Model) {
    let edges: Vec<Vec<DefId>> = model
        .defs
        .iter()
        .map(|def| {
            let mut to = Vec::new();
            Model::uses(def).into_iter().for_each(|ty| each(ty, &mut |t, _| to.extend(id_of(t))));
            to
        })
        .collect();
    let mut sizes = vec![8_u64; model.defs.len()];
    for id in components(&edges).into_iter().flatten() {
        let is_recursive = model.defs[id].is_recursive;
        let is_union = matches!(model.defs[id].shape, Shape::Union(_));
        let mut size = 8;
        for ty in Model::uses_mut(&mut model.defs[id]) {
            let of = place(ty, &sizes, is_recursive);
            size = if is_union { size.max(of + 8) } else { size + of };
        }
        sizes[id] = size;
    }
    let procedures = model.programs.iter_mut().flat_map(|p| &mut p.versions);
    for procedure in procedures.flat_map(|v| &mut v.procedures) {
        for ty in procedure.arguments.iter_mut().chain(&mut procedure.result) {
            place(ty, &sizes, false);
        }
    }
}

/// The bytes that a type takes in Rust, about; makes its fixed lengths arrays if they are small. The parser
/// bounds how deep types stand in each other without a name.
fn place(ty: &mut Type, sizes: &[u64], is_recursive: bool) -> u64 {
    let (element, length, holds_itself) = match ty {
        Type::Array(of, length) => {
            let holds_itself = is_recursive && id_of(of).is_some();
            (place(of, sizes, is_recursive), length, holds_itself)
        }
        Type::Opaque(length) => (1, length, false),
        Type::Optional(of) => return 8 + place(of, sizes, is_recursive),
        Type::Named { is_boxed: true, .. } => return 8,
        Type::Named { id, .. } => return sizes[*id],
        Type::Quadruple => return 16,
        Type::Text(_) | Type::List(_) => return 24,
        _ => return 8,
    };
    if let Length::Exactly(n) = *length {
        let bytes = element.saturating_mul(n.into());
        if bytes <= IN_PLACE_MAX && !holds_itself {
            *length = Length::InPlace(n);
            return bytes;
        }
    }
    24
}

// ---- walking

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Nothing,
    Optional,
    /// A fixed array of at least one.
    Array,
    Vector,
}

fn id_of(ty: &Type) -> Option<DefId> {
    match ty {
        Type::Named { id, .. } | Type::List(id) => Some(*id),
        _ => None,
    }
}

/// A type and those in it; says whether each stands directly in an optional one.
fn each(ty: &Type, visit: &mut impl FnMut(&Type, bool)) {
    let (mut at, mut is_optional) = (ty, false);
    loop {
        visit(at, is_optional);
        (at, is_optional) = match at {
            Type::Array(of, _) => (of, false),
            Type::Optional(of) => (of, true),
            _ => return,
        };
    }
}

fn each_mut(ty: &mut Type, visit: &mut impl FnMut(&mut Type)) {
    visit(ty);
    if let Type::Array(of, _) | Type::Optional(of) = ty {
        each_mut(of, visit);
    }
}

/// A type and those in it, and behind what each stands.
fn held(ty: &Type, behind: Behind, visit: &mut impl FnMut(&Type, Behind)) {
    match ty {
        Type::Array(of, Length::AtMost(_) | Length::Exactly(0)) => held(of, Behind::Vector, visit),
        Type::Array(of, _) => {
            held(of, if behind == Behind::Nothing { Behind::Array } else { behind }, visit);
        }
        Type::Optional(of) => {
            held(
                of,
                if behind == Behind::Nothing { Behind::Optional } else { Behind::Vector },
                visit,
            );
        }
        Type::List(_) => visit(ty, Behind::Vector),
        _ => visit(ty, behind),
    }
}

fn all_types(model: &mut Model) -> impl Iterator<Item = &mut Type> {
    let procedures = model.programs.iter_mut().flat_map(|p| &mut p.versions);
    let procedures = procedures.flat_map(|v| &mut v.procedures);
    let used = procedures.flat_map(|p| p.arguments.iter_mut().chain(&mut p.result));
    model.defs.iter_mut().flat_map(Model::uses_mut).chain(used)
}
