//! Tags (X.680 clauses 25 to 29): whether a decoder can tell the parts of a type from each other.

use std::collections::HashMap;

use super::Checker;
use crate::ast::*;
use crate::names::World;
use crate::resolve::{Base, Env, Member, Ty};

/// A tag.
pub type Id = (TagClass, i128);

/// The tags that a type's encoding may begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outer {
    /// One of these.
    Tags(Vec<Id>),
    Any,
    /// They cannot be known.
    Unknown,
}

/// Steps through types that one answer may take.
const STEPS_MAX: u32 = 20_000;

/// A CHOICE of more alternatives is not looked into.
const ALTERNATIVES_MAX: usize = 2_000;

impl<'a> World<'a> {
    /// The tags that a type's encoding may begin with.
    pub fn outer_tags(&self, ty: &Ty<'a>) -> Outer {
        let mut steps = STEPS_MAX;
        self.outer(ty, &mut steps, 0)
    }

    fn outer(&self, ty: &Ty<'a>, steps: &mut u32, depth: u32) -> Outer {
        let mut ty = ty.clone();
        loop {
            if *steps == 0 || depth > 32 {
                return Outer::Unknown;
            }
            *steps -= 1;
            if let Some(tag) = ty.ty.tags.first() {
                return match self.integer(&tag.number, &ty.env) {
                    Some(number) => Outer::Tags(vec![(tag.class, number)]),
                    None => Outer::Unknown,
                };
            }
            match self.next(&ty) {
                Some(Ok(next)) => ty = next,
                Some(Err(Base::Open)) => return Outer::Any,
                Some(Err(_)) => {
                    let is_signed = matches!(&ty.ty.kind, TypeKind::Macro(m)
                        if m.types.len() == 1 && m.types[0].0 == m.name.text);
                    return if is_signed { universal(16) } else { Outer::Unknown };
                }
                None => break,
            }
        }
        match &ty.ty.kind {
            TypeKind::Choice(items) => self.outer_of_choice(items, &ty.env, steps, depth),
            kind => universal_tag(kind).map_or(Outer::Unknown, universal),
        }
    }

    fn outer_of_choice(
        &self,
        items: &'a [Item],
        env: &Env<'a>,
        steps: &mut u32,
        depth: u32,
    ) -> Outer {
        if items.len() > ALTERNATIVES_MAX {
            return Outer::Unknown;
        }
        let members = self.members(items, env);
        if self.is_automatic(items, env) {
            let tags = (0..members.len() as i128).map(|n| (TagClass::Context, n));
            return Outer::Tags(tags.collect());
        }
        let mut tags = Vec::new();
        for member in members.iter() {
            let ty = Ty { ty: &member.component.ty, env: member.env.clone() };
            match self.outer(&ty, steps, depth + 1) {
                Outer::Tags(more) if tags.len() + more.len() <= ALTERNATIVES_MAX => {
                    tags.extend(more);
                }
                Outer::Tags(_) => return Outer::Unknown,
                other => return other,
            }
        }
        Outer::Tags(tags)
    }

    /// Whether automatic tags are given to components: where the module says so and none has one of its own.
    pub fn is_automatic(&self, items: &[Item], env: &Env<'a>) -> bool {
        fn has_tag(items: &[Item]) -> bool {
            items.iter().any(|item| match item {
                Item::Component(component) => !component.ty.tags.is_empty(),
                Item::Group(_, items) => has_tag(items),
                _ => false,
            })
        }
        self.modules[env.module].ast.tags == TagDefault::Automatic && !has_tag(items)
    }
}

fn universal(number: u32) -> Outer {
    Outer::Tags(vec![(TagClass::Universal, i128::from(number))])
}

/// The number of a type's own tag; a CHOICE, an ANY and a reference have none.
pub fn universal_tag(kind: &TypeKind) -> Option<u32> {
    Some(match kind {
        TypeKind::Simple(simple) => simple.tag(),
        TypeKind::Integer(_) => 2,
        TypeKind::BitString(_) => 3,
        TypeKind::Enumerated(_) => 10,
        TypeKind::Sequence(_) | TypeKind::SequenceOf(..) => 16,
        TypeKind::Set(_) | TypeKind::SetOf(..) => 17,
        TypeKind::InstanceOf(_) => 8,
        _ => return None,
    })
}

impl<'a> Checker<'_, 'a> {
    /// That tags are distinct where they must be: among all components of a SET or CHOICE, in a SEQUENCE among
    /// components that may be missing and the next that may not.
    pub(super) fn distinct_tags(
        &self,
        ty: &'a Type,
        items: &'a [Item],
        members: &[Member<'a>],
        env: &Env<'a>,
    ) {
        if self.world.is_automatic(items, env) {
            return;
        }
        let is_sequence = matches!(ty.kind, TypeKind::Sequence(_));
        let mut run: HashMap<Id, &Member<'a>> = HashMap::new();
        for member in members {
            let component = member.component;
            let outer = self.world.outer_tags(&Ty { ty: &component.ty, env: member.env.clone() });
            // An open type may begin with any tag (X.680 25.6). ANY of older modules is a warning, because X.208 left the
            // choice of its types to the text of a standard.
            if let (Outer::Any, true, Some(other)) = (&outer, is_sequence, run.values().next()) {
                let name = |c: &Component| {
                    c.name.as_ref().map(|name| name.text.clone()).unwrap_or_default()
                };
                let message = format!(
                    "`{}` may have the tag of `{}`, which may be absent",
                    name(component),
                    name(other.component)
                );
                let span = self.world.place(component.name.as_ref(), &component.ty);
                match component.ty.kind {
                    TypeKind::Any(_) => self.warn(span, message, "give it a tag"),
                    _ => self.error(span, message, "give it a tag"),
                }
            }
            let Outer::Tags(tags) = outer else {
                if is_sequence && matches!(component.presence, Presence::Required) {
                    run.clear();
                }
                continue;
            };
            for tag in tags {
                let Some(other) = run.insert(tag, member) else { continue };
                if std::ptr::eq(other.component, component) {
                    continue;
                }
                let span = if member.is_included {
                    ty.span
                } else {
                    component.ty.tags.first().map_or_else(
                        || self.world.place(component.name.as_ref(), &component.ty),
                        |t| t.span,
                    )
                };
                let name = |c: &Component| match &c.name {
                    Some(name) => format!("`{}`", name.text),
                    None => "the component".to_owned(),
                };
                let message = format!(
                    "{} has the tag {} as {} has",
                    name(component),
                    shown(tag),
                    name(other.component)
                );
                self.error(span, message, "give it another tag");
            }
            if is_sequence && matches!(component.presence, Presence::Required) {
                run.clear();
            }
        }
    }
}

/// A tag in words.
fn shown((class, number): Id) -> String {
    match class {
        TagClass::Universal => format!("[UNIVERSAL {number}]"),
        TagClass::Application => format!("[APPLICATION {number}]"),
        TagClass::Context => format!("[{number}]"),
        TagClass::Private => format!("[PRIVATE {number}]"),
    }
}
