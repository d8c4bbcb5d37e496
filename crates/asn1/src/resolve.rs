//! What types, classes and numbers are, once names and parameters are followed.

use std::collections::HashMap;
use std::rc::Rc;

use crate::ast::*;
use crate::names::{Def, ModuleId, Target, World};
use crate::source::Span;

/// Where names are looked up: a module, and the parameters of the definition that they stand in.
#[derive(Clone, Debug)]
pub struct Env<'a> {
    /// The module.
    pub module: ModuleId,
    parameters: &'a [Parameter],
    arguments: Option<Rc<Arguments<'a>>>,
}

#[derive(Debug)]
struct Arguments<'a> {
    list: Vec<&'a Argument>,
    env: Env<'a>,
    depth: u32,
}

/// A type, and where its names are looked up.
#[derive(Clone, Debug)]
pub struct Ty<'a> {
    /// The type.
    pub ty: &'a Type,
    /// Where.
    pub env: Env<'a>,
}

impl Ty<'_> {
    /// Returns `true` if the type, apart from tags written at it, is a DummyReference (X.683, 8.3). A tag that is not
    /// written as IMPLICIT surrounds it, also under IMPLICIT and AUTOMATIC TAGS (X.680, 31.2.7 c), whatever the actual
    /// parameter is.
    pub fn is_dummy_reference(&self) -> bool {
        match &self.ty.kind {
            TypeKind::Reference(reference) => {
                reference.module.is_none() && self.env.parameter(&reference.name.text).is_some()
            }
            _ => false,
        }
    }
}

/// What a type is at last.
#[derive(Clone, Debug)]
pub enum Base<'a> {
    /// A type that is no reference, without regard to its tags.
    Known(Ty<'a>),
    /// Any type: ANY, or a field that holds types.
    Open,
    /// It cannot be known: a parameter, or of a module that is not there.
    Unknown,
    /// It is defined by itself alone.
    Cycle,
}

/// What a parameter's name stands for.
#[derive(Clone, Debug)]
pub enum Bound<'a> {
    /// Nothing yet: the definition is looked at by itself.
    Formal(&'a Parameter),
    /// An actual parameter, and where its names are looked up.
    Actual(&'a Argument, Env<'a>),
}

/// A component with what surrounds it.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The component.
    pub component: &'a Component,
    /// Where its names are looked up.
    pub env: Env<'a>,
    /// Behind `...`: the number of its `[[ … ]]` from one, zero where it is in none.
    pub addition: Option<u32>,
    /// Whether it came by COMPONENTS OF.
    pub is_included: bool,
}

/// The components of a type, and where each name is among them.
#[derive(Debug)]
pub struct Members<'a> {
    list: Vec<Member<'a>>,
    names: HashMap<&'a str, usize>,
}

impl<'a> Members<'a> {
    fn new(list: Vec<Member<'a>>) -> Members<'a> {
        let mut names = HashMap::new();
        for (n, member) in list.iter().enumerate() {
            if let Some(name) = &member.component.name {
                names.entry(name.text.as_str()).or_insert(n);
            }
        }
        Members { list, names }
    }

    /// The component of a name.
    pub fn named(&self, name: &str) -> Option<&Member<'a>> {
        self.names.get(name).map(|&n| &self.list[n])
    }
}

impl<'a> std::ops::Deref for Members<'a> {
    type Target = [Member<'a>];
    fn deref(&self) -> &[Member<'a>] {
        &self.list
    }
}

/// References may go through so many others.
const HOPS_MAX: u32 = 64;

/// Selections may be of selections, so deep.
const SELECTIONS_MAX: u32 = 16;

/// Parameterised definitions may use so many others.
const INSTANCES_MAX: u32 = 24;

impl<'a> Env<'a> {
    /// A module, or in it a definition by itself.
    pub fn of(module: ModuleId, parameters: &'a [Parameter]) -> Env<'a> {
        Env { module, parameters, arguments: None }
    }

    /// What a parameter stands for, if the name is one.
    pub fn parameter(&self, name: &str) -> Option<Bound<'a>> {
        let index = self.parameters.iter().position(|p| p.name.text == name)?;
        let Some(arguments) = &self.arguments else {
            return Some(Bound::Formal(&self.parameters[index]));
        };
        match arguments.list.get(index) {
            Some(argument) => Some(Bound::Actual(argument, arguments.env.clone())),
            None => Some(Bound::Formal(&self.parameters[index])),
        }
    }

    /// Whether actual parameters are known here.
    pub fn is_instance(&self) -> bool {
        self.arguments.is_some()
    }

    /// The actual parameters, and where their names are looked up.
    pub fn actual(&self) -> Option<(&[&'a Argument], &Env<'a>)> {
        self.arguments.as_ref().map(|a| (a.list.as_slice(), &a.env))
    }

    /// A definition's own surroundings, with actual parameters from these.
    fn instance(
        &self,
        def: Def,
        assignment: &'a Assignment,
        list: Option<&'a [Argument]>,
    ) -> Option<Env<'a>> {
        let mut env = Env::of(def.module, &assignment.parameters);
        if let Some(list) = list
            && !assignment.parameters.is_empty()
        {
            let depth = self.arguments.as_ref().map_or(0, |a| a.depth) + 1;
            if depth > INSTANCES_MAX {
                return None;
            }
            let list = list.iter().collect();
            env.arguments = Some(Rc::new(Arguments { list, env: self.clone(), depth }));
        }
        Some(env)
    }
}

/// What a name of a type means.
enum Step<'a> {
    To(Ty<'a>),
    Class,
    Unknown,
}

impl<'a> World<'a> {
    /// Follows one reference of a type.
    fn step(&self, reference: &'a Reference, env: &Env<'a>) -> Step<'a> {
        if reference.module.is_none()
            && let Some(bound) = env.parameter(&reference.name.text)
        {
            return match bound {
                Bound::Actual(Argument::Type(ty), env) => Step::To(Ty { ty, env }),
                _ => Step::Unknown,
            };
        }
        let Some(Target::Def(def)) = self.resolve(env.module, reference) else {
            return Step::Unknown;
        };
        let assignment = self.assignment(def);
        match &assignment.kind {
            // A set of values is a type with just these.
            AssignmentKind::Type(ty) | AssignmentKind::Set(ty, _) => {
                match env.instance(def, assignment, reference.arguments.as_deref()) {
                    Some(env) => Step::To(Ty { ty, env }),
                    None => Step::Unknown,
                }
            }
            AssignmentKind::Class(_) => Step::Class,
            _ => Step::Unknown,
        }
    }

    /// The definition of a type that a name means, where it is no parameter.
    pub fn type_definition(
        &self,
        reference: &'a Reference,
        env: &Env<'a>,
    ) -> Option<(Def, Ty<'a>)> {
        if reference.module.is_none() && env.parameter(&reference.name.text).is_some() {
            return None;
        }
        let Some(Target::Def(def)) = self.resolve(env.module, reference) else { return None };
        let assignment = self.assignment(def);
        let (AssignmentKind::Type(ty) | AssignmentKind::Set(ty, _)) = &assignment.kind else {
            return None;
        };
        let env = env.instance(def, assignment, reference.arguments.as_deref())?;
        Some((def, Ty { ty, env }))
    }

    /// One step nearer to what a type is: what it refers to, if it refers to a type.
    pub fn next(&self, ty: &Ty<'a>) -> Option<Result<Ty<'a>, Base<'a>>> {
        Some(match &ty.ty.kind {
            TypeKind::Reference(reference) => match self.step(reference, &ty.env) {
                Step::To(next) => Ok(next),
                Step::Class | Step::Unknown => Err(Base::Unknown),
            },
            TypeKind::Selection(name, of) => self.selected(name, of, &ty.env),
            TypeKind::Field(reference, path) => self.field_type(reference, path, &ty.env),
            TypeKind::Any(_) => Err(Base::Open),
            TypeKind::Macro(used) => match used.types.as_slice() {
                [(_, _, inner)] if used.name.text == "TEXTUAL-CONVENTION" => {
                    Ok(Ty { ty: inner, env: ty.env.clone() })
                }
                _ => Err(Base::Unknown),
            },
            TypeKind::Broken => Err(Base::Unknown),
            _ => return None,
        })
    }

    /// What a type is at last.
    pub fn base(&self, ty: &Ty<'a>) -> Base<'a> {
        let mut ty = ty.clone();
        for _ in 0..HOPS_MAX {
            match self.next(&ty) {
                None => return Base::Known(ty),
                Some(Ok(next)) => ty = next,
                Some(Err(base)) => return base,
            }
        }
        Base::Cycle
    }

    fn selected(&self, name: &Name, of: &'a Type, env: &Env<'a>) -> Result<Ty<'a>, Base<'a>> {
        if self.selecting.get() >= SELECTIONS_MAX {
            return Err(Base::Cycle);
        }
        self.selecting.set(self.selecting.get() + 1);
        let base = self.base(&Ty { ty: of, env: env.clone() });
        self.selecting.set(self.selecting.get() - 1);
        let Base::Known(choice) = base else { return Err(base) };
        let TypeKind::Choice(items) = &choice.ty.kind else {
            self.error(env.module, of.span, "a selection from what is no CHOICE", "name a CHOICE");
            return Err(Base::Unknown);
        };
        let members = self.members(items, &choice.env);
        let found =
            members.iter().find(|m| m.component.name.as_ref().is_some_and(|n| n.text == name.text));
        match found {
            Some(member) => Ok(Ty { ty: &member.component.ty, env: member.env.clone() }),
            None => {
                let message = format!("the CHOICE has no alternative `{}`", name.text);
                self.error(env.module, name.span, message, "name one of its alternatives");
                Err(Base::Unknown)
            }
        }
    }

    /// `CLASS.&field` as a type.
    fn field_type(
        &self,
        reference: &'a Reference,
        path: &'a [Name],
        env: &Env<'a>,
    ) -> Result<Ty<'a>, Base<'a>> {
        if reference.name.text.starts_with(|c: char| c.is_ascii_lowercase()) {
            return self.object_field_type(reference, path, env);
        }
        let Some((mut class, mut class_env)) = self.class(reference, env) else {
            return Err(Base::Unknown);
        };
        for (n, name) in path.iter().enumerate() {
            let Some(field) = class.fields.iter().find(|f| f.name.text == name.text) else {
                let message = format!("the class has no field `{}`", name.text);
                self.error(env.module, name.span, message, "name a field of the class");
                return Err(Base::Unknown);
            };
            let last = n + 1 == path.len();
            match &field.kind {
                FieldKind::Type | FieldKind::VariableValue(_) | FieldKind::VariableSet(_) => {
                    return Err(Base::Open);
                }
                FieldKind::Value(ty) | FieldKind::Set(ty) if last => {
                    return Ok(Ty { ty, env: class_env });
                }
                FieldKind::Value(ty) | FieldKind::Set(ty) => {
                    let TypeKind::Reference(next) = &ty.kind else { return Err(Base::Unknown) };
                    let Some(found) = self.class(next, &class_env) else {
                        return Err(Base::Unknown);
                    };
                    (class, class_env) = found;
                }
            }
        }
        Err(Base::Unknown)
    }

    /// `object.&Type`.
    fn object_field_type(
        &self,
        reference: &'a Reference,
        path: &'a [Name],
        env: &Env<'a>,
    ) -> Result<Ty<'a>, Base<'a>> {
        let [name] = path else { return Err(Base::Unknown) };
        let Some(object) = self.object(reference, env, 0) else { return Err(Base::Unknown) };
        let setting = object.settings.iter().find(|s| s.field == name.text);
        match setting.map(|s| &s.to) {
            Some(Argument::Type(ty)) => Ok(Ty { ty, env: object.env }),
            _ => Err(Base::Unknown),
        }
    }

    /// The class that a name means, through classes that are other names of it.
    pub fn class(&self, reference: &'a Reference, env: &Env<'a>) -> Option<(&'a Class, Env<'a>)> {
        let (mut reference, mut env) = (reference, env.clone());
        for _ in 0..HOPS_MAX {
            if reference.module.is_none()
                && let Some(bound) = env.parameter(&reference.name.text)
            {
                match bound {
                    Bound::Actual(Argument::Type(ty), outer) => {
                        let TypeKind::Reference(next) = &ty.kind else { return None };
                        (reference, env) = (next, outer);
                        continue;
                    }
                    _ => return None,
                }
            }
            let Target::Def(def) = self.resolve(env.module, reference)? else { return None };
            let assignment = self.assignment(def);
            let inner = env.instance(def, assignment, reference.arguments.as_deref())?;
            match &assignment.kind {
                AssignmentKind::Class(class) => return Some((class, inner)),
                AssignmentKind::Type(Type { kind: TypeKind::Reference(next), .. }) => {
                    (reference, env) = (next, inner);
                }
                _ => return None,
            }
        }
        None
    }

    /// The class that a governor means, if it is one.
    pub fn class_of(&self, governor: &'a Type, env: &Env<'a>) -> Option<(&'a Class, Env<'a>)> {
        match &governor.kind {
            TypeKind::Reference(reference) if governor.tags.is_empty() => {
                self.class(reference, env)
            }
            _ => None,
        }
    }

    /// The definition that a value's or set's name means, with its surroundings.
    pub fn definition(
        &self,
        reference: &'a Reference,
        env: &Env<'a>,
    ) -> Option<(&'a Assignment, Env<'a>)> {
        let Target::Def(def) = self.resolve(env.module, reference)? else { return None };
        let assignment = self.assignment(def);
        let env = env.instance(def, assignment, reference.arguments.as_deref())?;
        Some((assignment, env))
    }

    /// Components, those of COMPONENTS OF among them.
    pub fn members(&self, items: &'a [Item], env: &Env<'a>) -> Rc<Members<'a>> {
        let key = (items.as_ptr() as usize, items.len());
        // Without actual parameters a list is the same wherever it is looked at.
        if env.arguments.is_none()
            && let Some(known) = self.known_members.borrow().get(&key)
        {
            return Rc::clone(known);
        }
        let members = Rc::new(Members::new(self.list_members(items, env)));
        if env.arguments.is_none() {
            self.known_members.borrow_mut().insert(key, Rc::clone(&members));
        }
        members
    }

    fn list_members(&self, items: &'a [Item], env: &Env<'a>) -> Vec<Member<'a>> {
        let mut members = Vec::new();
        let mut walk = Walk { members: &mut members, markers: 0, group: 0, groups: 0, depth: 0 };
        self.add_members(items, env, false, &mut walk);
        members
    }

    fn add_members(
        &self,
        items: &'a [Item],
        env: &Env<'a>,
        is_included: bool,
        walk: &mut Walk<'_, 'a>,
    ) {
        for item in items {
            if walk.members.len() >= MEMBERS_MAX {
                return;
            }
            match item {
                Item::Component(component) => {
                    let addition = (walk.markers == 1 && !is_included).then_some(walk.group);
                    walk.members.push(Member {
                        component,
                        env: env.clone(),
                        addition,
                        is_included,
                    });
                }
                Item::Extension(_) => walk.markers += u32::from(!is_included),
                Item::Group(_, items) => {
                    walk.groups += 1;
                    walk.group = walk.groups;
                    self.add_members(items, env, is_included, walk);
                    walk.group = 0;
                }
                Item::ComponentsOf(ty) => {
                    let of = Ty { ty, env: env.clone() };
                    let Base::Known(of) = self.base(&of) else { continue };
                    let (TypeKind::Sequence(items) | TypeKind::Set(items)) = &of.ty.kind else {
                        let help = "name a SEQUENCE or a SET";
                        self.error(env.module, ty.span, "COMPONENTS OF what has none", help);
                        continue;
                    };
                    if walk.depth >= 16 {
                        let help = "take it out of its own components";
                        self.error(env.module, ty.span, "COMPONENTS OF itself", help);
                        continue;
                    }
                    let budget = self.inclusions.get().saturating_sub(items.len() as u32 + 1);
                    self.inclusions.set(budget);
                    if budget == 0 {
                        let help = "take fewer components from other types";
                        self.error(env.module, ty.span, "too many components are included", help);
                        continue;
                    }
                    walk.depth += 1;
                    let before = walk.members.len();
                    for part in root_of(items) {
                        self.add_members(std::slice::from_ref(part), &of.env, true, walk);
                    }
                    let absent = absent_in(&ty.constraints);
                    let is_absent = |m: &Member<'_>| {
                        m.component.name.as_ref().is_some_and(|n| absent.contains(&n.text.as_str()))
                    };
                    if !absent.is_empty() {
                        let included = walk.members.split_off(before);
                        walk.members.extend(included.into_iter().filter(|m| !is_absent(m)));
                    }
                    walk.depth -= 1;
                }
            }
        }
    }

    /// A whole number, where a value is one.
    pub fn integer(&self, value: &'a Value, env: &Env<'a>) -> Option<i128> {
        let (mut value, mut env) = (value, env.clone());
        for _ in 0..HOPS_MAX {
            match &value.kind {
                ValueKind::Integer(n) => return *n,
                ValueKind::Reference(reference) => {
                    if reference.module.is_none()
                        && let Some(bound) = env.parameter(&reference.name.text)
                    {
                        match bound {
                            Bound::Actual(Argument::Value(next), outer) => {
                                (value, env) = (next, outer)
                            }
                            _ => return None,
                        }
                        continue;
                    }
                    let module = match &reference.module {
                        None => self.lookup(env.module, &reference.name.text)?,
                        Some(_) => self.resolve(env.module, reference)?,
                    };
                    let Target::Def(def) = module else { return None };
                    let assignment = self.assignment(def);
                    let AssignmentKind::Value(_, next) = &assignment.kind else { return None };
                    env = env.instance(def, assignment, reference.arguments.as_deref())?;
                    value = next;
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether an ENUMERATED, an INTEGER or a BIT STRING gives a name.
    pub fn gives_name(&self, kind: &'a TypeKind, name: &str) -> bool {
        let (key, names): (_, &mut dyn Iterator<Item = &'a Name>) = match kind {
            TypeKind::Enumerated(items) => (
                (items.as_ptr() as usize, items.len()),
                &mut items.iter().filter_map(|i| match i {
                    EnumItem::Named(name, _) => Some(name),
                    EnumItem::Extension => None,
                }),
            ),
            TypeKind::Integer(names) | TypeKind::BitString(names) => {
                ((names.as_ptr() as usize, names.len()), &mut names.iter().map(|n| &n.name))
            }
            _ => return false,
        };
        let mut known = self.known_names.borrow_mut();
        let names = known.entry(key).or_insert_with(|| names.map(|n| n.text.as_str()).collect());
        names.contains(name)
    }

    /// The span that an error about a type points to.
    pub fn place(&self, name: Option<&Name>, ty: &Type) -> Span {
        name.map_or(ty.span, |n| n.span)
    }
}

struct Walk<'w, 'a> {
    members: &'w mut Vec<Member<'a>>,
    markers: u32,
    group: u32,
    groups: u32,
    depth: u32,
}

/// More components than these of one type are not looked at.
pub const MEMBERS_MAX: usize = 100_000;

/// The components that WITH COMPONENTS says are absent.
fn absent_in(constraints: &[Constraint]) -> Vec<&str> {
    let mut absent = Vec::new();
    for constraint in constraints {
        if let ConstraintKind::Set(SetSpec { root: Some(Set::Element(element)), .. }) =
            &constraint.kind
            && let Element::Components(_, parts) = &**element
        {
            let parts = parts.iter().filter(|p| p.presence == Some(false));
            absent.extend(parts.map(|p| p.name.text.as_str()));
        }
    }
    absent
}

/// Components before the first `...` and behind the second.
pub fn root_of(items: &[Item]) -> impl Iterator<Item = &Item> {
    let mut markers = 0;
    items.iter().filter(move |item| match item {
        Item::Extension(_) => {
            markers += 1;
            false
        }
        Item::Group(..) => false,
        _ => markers != 1,
    })
}
