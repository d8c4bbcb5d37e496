//! Objects and object sets (X.681), and other notation in braces, read beside its governor.

use crate::ast::*;
use crate::names::{ModuleId, World};
use crate::parser::{ListItem, Parsed, Parser, Setting};
use crate::resolve::{Bound, Env};

/// An object: its class, what its fields are set to, and where names are looked up.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The class.
    pub class: &'a Class,
    /// Where the class's names are looked up.
    pub class_env: Env<'a>,
    /// The fields.
    pub settings: &'a [Setting],
    /// Where the settings' names are looked up.
    pub env: Env<'a>,
}

/// Objects may be named through so many others.
const HOPS_MAX: u32 = 32;

/// More objects than these of one set are not looked at.
pub const OBJECTS_MAX: usize = 10_000;

impl<'a> World<'a> {
    fn read<T>(
        &self,
        module: ModuleId,
        braced: Braced,
        read: impl FnOnce(&mut Parser<'a>) -> Parsed<T>,
    ) -> Option<T> {
        let mut parser = self.modules[module].file.within(braced);
        let result = read(&mut parser);
        for diagnostic in std::mem::take(&mut parser.diagnostics) {
            self.say(diagnostic);
        }
        result.ok()
    }

    /// What lies in braces, as an object of a class.
    pub fn read_object(
        &self,
        module: ModuleId,
        braced: Braced,
        class: &Class,
    ) -> Option<&'a [Setting]> {
        let file = self.modules[module].file;
        let cell = &file.readings(braced).object;
        cell.get_or_init(|| self.read(module, braced, |p| p.object(class))).as_deref()
    }

    /// What lies in braces, as a set.
    pub fn read_set(&self, module: ModuleId, braced: Braced) -> Option<&'a SetSpec> {
        let file = self.modules[module].file;
        let read = |p: &mut Parser<'a>| {
            let set = p.set_spec()?;
            p.expect_end()?;
            Ok(set)
        };
        file.readings(braced).set.get_or_init(|| self.read(module, braced, read)).as_ref()
    }

    /// What lies in braces, as a list of values.
    pub fn read_list(&self, module: ModuleId, braced: Braced) -> Option<&'a [ListItem]> {
        let file = self.modules[module].file;
        let cell = &file.readings(braced).list;
        cell.get_or_init(|| self.read(module, braced, Parser::list_items)).as_deref()
    }

    /// What lies in braces, as an object identifier.
    pub fn read_oid(&self, module: ModuleId, braced: Braced) -> Option<&'a [OidComponent]> {
        let file = self.modules[module].file;
        let cell = &file.readings(braced).oid;
        cell.get_or_init(|| self.read(module, braced, Parser::oid_components)).as_deref()
    }

    /// What lies in braces, as a value, where no value's notation holds the braces.
    pub fn value_in(&self, module: ModuleId, braced: Braced) -> &'a Value {
        let cell = &self.modules[module].file.readings(braced).value;
        cell.get_or_init(|| Value { kind: ValueKind::Braced(braced), span: braced.span })
    }

    /// The object that a name means.
    pub fn object(&self, reference: &'a Reference, env: &Env<'a>, hops: u32) -> Option<Object<'a>> {
        if hops > HOPS_MAX {
            return None;
        }
        if reference.module.is_none()
            && let Some(bound) = env.parameter(&reference.name.text)
        {
            return match bound {
                Bound::Actual(
                    Argument::Value(Value { kind: ValueKind::Reference(next), .. }),
                    env,
                ) => self.object(next, &env, hops + 1),
                _ => None,
            };
        }
        let (assignment, inner) = self.definition(reference, env)?;
        let AssignmentKind::Value(governor, value) = &assignment.kind else { return None };
        let (class, class_env) = self.class_of(governor, &inner)?;
        self.object_of(value, class, class_env, &inner, hops + 1)
    }

    /// The object that a value's notation means.
    pub fn object_of(
        &self,
        value: &'a Value,
        class: &'a Class,
        class_env: Env<'a>,
        env: &Env<'a>,
        hops: u32,
    ) -> Option<Object<'a>> {
        match &value.kind {
            ValueKind::Braced(braced) => {
                let settings = self.read_object(env.module, *braced, class)?;
                Some(Object { class, class_env, settings, env: env.clone() })
            }
            ValueKind::Reference(reference) => self.object(reference, env, hops),
            _ => None,
        }
    }

    /// The objects of a set, and whether there may be others.
    pub fn objects_of(
        &self,
        spec: &'a SetSpec,
        class: &(&'a Class, Env<'a>),
        env: &Env<'a>,
        objects: &mut Vec<Object<'a>>,
        hops: u32,
    ) -> bool {
        let mut is_open = spec.is_extensible;
        for set in spec.root.iter().chain(&spec.additional) {
            is_open |= self.objects_in(set, class, env, objects, hops);
        }
        is_open
    }

    fn objects_in(
        &self,
        set: &'a Set,
        class: &(&'a Class, Env<'a>),
        env: &Env<'a>,
        objects: &mut Vec<Object<'a>>,
        hops: u32,
    ) -> bool {
        if hops > HOPS_MAX || objects.len() > OBJECTS_MAX {
            return true;
        }
        match set {
            Set::Union(parts) => {
                let mut is_open = false;
                for part in parts {
                    is_open |= self.objects_in(part, class, env, objects, hops);
                }
                is_open
            }
            Set::Intersection(_) | Set::Except(..) | Set::AllExcept(_) => true,
            Set::Element(element) => match &**element {
                Element::Value(value) => {
                    let object = self.object_of(value, class.0, class.1.clone(), env, hops + 1);
                    let is_open = object.is_none();
                    objects.extend(object);
                    is_open
                }
                Element::Group(spec) => self.objects_of(spec, class, env, objects, hops + 1),
                Element::Type(ty, _) => match &ty.kind {
                    TypeKind::Reference(reference) => {
                        self.objects_named(reference, class, env, objects, hops + 1)
                    }
                    _ => true,
                },
                _ => true,
            },
        }
    }

    /// The objects of a set that is named.
    pub fn objects_named(
        &self,
        reference: &'a Reference,
        class: &(&'a Class, Env<'a>),
        env: &Env<'a>,
        objects: &mut Vec<Object<'a>>,
        hops: u32,
    ) -> bool {
        if hops > HOPS_MAX {
            return true;
        }
        if reference.module.is_none()
            && let Some(bound) = env.parameter(&reference.name.text)
        {
            return match bound {
                Bound::Actual(
                    Argument::Type(Type { kind: TypeKind::Reference(next), .. }),
                    outer,
                ) => self.objects_named(next, class, &outer, objects, hops + 1),
                Bound::Actual(Argument::Braced(braced), outer) => {
                    match self.read_set(outer.module, *braced) {
                        Some(spec) => self.objects_of(spec, class, &outer, objects, hops + 1),
                        None => true,
                    }
                }
                _ => true,
            };
        }
        let Some((assignment, inner)) = self.definition(reference, env) else { return true };
        let AssignmentKind::Set(_, spec) = &assignment.kind else { return true };
        self.objects_of(spec, class, &inner, objects, hops + 1)
    }
}
