//! A type of the notation into one of the schema.

use std::collections::HashSet;
use std::rc::Rc;

use fusewire_asn1::ast::{
    self, Argument, EnumItem, Item, MacroUse, NamedNumber, Presence, Simple, TypeKind,
};
use fusewire_asn1::resolve::{Base, Bound, Env, Member as AstMember, Ty};

use super::constraints::Constraints;
use super::{
    Choice, Enumerated, Integer, Job, Kind, List, Member, Opaque, PendingDefault, RealForm, Schema,
    Size, Structure, Type, TypeId, tables, tags,
};

/// References may go through so many others.
const HOPS_MAX: usize = 64;

/// The longest notation that stands for a name.
const NAME_CHARS_MAX: usize = 60;

impl<'a> Schema<'_, 'a> {
    /// The place of a type, which is found out later.
    pub(crate) fn node(
        &mut self,
        ty: Ty<'a>,
        automatic: Option<u32>,
        around: Vec<TypeId>,
        name: Option<String>,
    ) -> TypeId {
        let mut key =
            vec![std::ptr::from_ref(ty.ty) as usize, automatic.map_or(0, |n| n as usize + 1)];
        self.env_key(&ty.env, &mut key, 0);
        if let Some(&id) = self.known.get(&key) {
            return id;
        }
        let id = self.types.len();
        let name = name.unwrap_or_else(|| self.notation(&ty));
        let (tags, allowed) = (Vec::new(), Vec::new());
        self.types.push(Rc::new(Type { name, tags, kind: Kind::Null, allowed }));
        self.known.insert(key, id);
        self.queue.push_back(Job { id, ty, automatic, around });
        id
    }

    /// What tells one instance of a parameterised definition from others: its actual parameters, those that are
    /// handed on as what they stand for.
    fn env_key(&self, env: &Env<'a>, key: &mut Vec<usize>, depth: u32) {
        let Some((arguments, outer)) = env.actual() else { return key.push(env.module) };
        for argument in arguments {
            let (text, place) = match argument {
                Argument::Type(ty) => (ty.span, std::ptr::from_ref(*argument) as usize),
                Argument::Value(value) => (value.span, std::ptr::from_ref(*argument) as usize),
                Argument::Braced(braced) => (braced.span, std::ptr::from_ref(*argument) as usize),
            };
            let text = self.world.modules[outer.module].file.source.slice(text);
            let bare = text.trim_matches(|c: char| matches!(c, '{' | '}') || c.is_whitespace());
            match outer.parameter(bare) {
                Some(Bound::Actual(..)) if depth < 8 => self.env_key(outer, key, depth + 1),
                _ => {
                    key.push(place);
                    if depth < 8 && outer.is_instance() && mentions(text, outer) {
                        self.env_key(outer, key, depth + 1);
                    }
                }
            }
        }
    }

    /// A type as the notation writes it.
    fn notation(&self, ty: &Ty<'a>) -> String {
        if let TypeKind::Reference(reference) = &ty.ty.kind
            && reference.arguments.is_none()
        {
            return reference.name.text.clone();
        }
        let text = self.world.modules[ty.env.module].file.source.slice(ty.ty.span);
        let words: Vec<&str> = text.split_whitespace().collect();
        let text = words.join(" ");
        match text.char_indices().nth(NAME_CHARS_MAX) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }

    /// Finds out what a type is.
    pub(super) fn lower(&mut self, job: Job<'a>) {
        let world = self.world;
        let mut steps: Vec<tags::Step> = Vec::new();
        if let Some(number) = job.automatic {
            steps.push(tags::automatic(number, &job.ty));
        }
        let (mut ty, mut around) = (job.ty, job.around);
        let mut constraints = Constraints::default();
        let mut table = None;
        if let TypeKind::Field(_, path) = &ty.ty.kind
            && let Some(name) = path.last()
        {
            self.fields.insert(job.id, &name.text);
        }
        for hop in 0.. {
            let Some(written) = tags::written(world, &ty) else {
                return self.set(job.id, &steps, None, unknown("a tag's number is not known"));
            };
            steps.extend(written);
            constraints.add(world, &ty);
            table = table.or_else(|| tables::constraint(&ty, &around));
            if let Some(built_in) = built_in(&ty.ty.kind)
                && let Some(inner) = self.built_in(built_in)
            {
                (ty, around) = (inner, Vec::new());
                continue;
            }
            if hop > HOPS_MAX {
                return self.set(job.id, &steps, None, unknown("it is defined by itself alone"));
            }
            match world.next(&ty) {
                None => break,
                // What stands elsewhere has other components around it.
                Some(Ok(next)) => (ty, around) = (next, Vec::new()),
                Some(Err(Base::Open)) => {
                    if let Some(found) = table.filter(|t| !t.paths.is_empty()) {
                        self.tables.push(found.of(job.id));
                    }
                    return self.set(job.id, &steps, None, Kind::Open(None));
                }
                Some(Err(_)) => return self.unresolved(job.id, &steps, &ty),
            }
        }
        let kind = self.kind(job.id, &ty, &constraints, around);
        self.set(job.id, &steps, tags::own(&ty.ty.kind), kind);
        self.change(job.id).allowed = constraints.allowed;
    }

    fn set(&mut self, id: TypeId, steps: &[tags::Step], own: Option<u32>, kind: Kind) {
        let ty = self.change(id);
        ty.tags = tags::applied(steps, own);
        ty.kind = kind;
    }

    fn unresolved(&mut self, id: TypeId, steps: &[tags::Step], ty: &Ty<'a>) {
        match &ty.ty.kind {
            TypeKind::Macro(used) if is_signed(used) => {
                let kind = self.signed(used, &ty.env);
                self.set(id, steps, Some(16), kind);
            }
            TypeKind::Reference(_) | TypeKind::Field(..) => {
                // The tag of what cannot be looked into stays with it.
                let is_own = steps.last().is_some_and(|step| step.1);
                let name = self.notation(ty);
                self.set(id, steps, None, Kind::Opaque(Opaque { name, tag: None }));
                let ty = self.change(id);
                if let Kind::Opaque(of) = &mut ty.kind
                    && is_own
                {
                    of.tag = ty.tags.pop();
                }
            }
            _ => self.set(id, steps, None, unknown("it is not of a kind that has values here")),
        }
    }

    /// `SIGNED Type` (X.509 of 1988): the type, an algorithm's identifier and a signature.
    fn signed(&mut self, used: &'a MacroUse, env: &Env<'a>) -> Kind {
        let inner =
            self.node(Ty { ty: &used.types[0].2, env: env.clone() }, None, Vec::new(), None);
        let mut plain = |name: &str, tag: Vec<_>, kind| {
            let (name, allowed) = (name.to_owned(), Vec::new());
            self.types.push(Rc::new(Type { name, tags: tag, kind, allowed }));
            self.types.len() - 1
        };
        let bits = vec![fusewire_codec::ber::Tag::BIT_STRING];
        let parts = [
            ("toBeSigned", inner),
            ("algorithmIdentifier", plain("ANY", Vec::new(), Kind::Open(None))),
            ("signature", plain("BIT STRING", bits, Kind::Bits(Vec::new(), Size::default()))),
        ];
        let member = |(name, ty): (&str, TypeId)| Member {
            name: name.to_owned(),
            is_named: false,
            ty,
            is_optional: false,
            default: None,
            addition: None,
            in_group: false,
            is_needed: true,
        };
        let members = parts.into_iter().map(member).collect();
        Kind::Structure(Structure { is_set: false, members, unknown_at: None })
    }

    /// A structure that the standard defines for everyone.
    fn built_in(&self, name: &str) -> Option<Ty<'a>> {
        let def = self.world.built_in(name)?;
        match &self.world.assignment(def).kind {
            ast::AssignmentKind::Type(ty) => Some(Ty { ty, env: Env::of(def.module, &[]) }),
            _ => None,
        }
    }

    /// A type that is no reference.
    fn kind(
        &mut self,
        id: TypeId,
        ty: &Ty<'a>,
        constraints: &Constraints,
        around: Vec<TypeId>,
    ) -> Kind {
        match &ty.ty.kind {
            TypeKind::Simple(simple) => match simple {
                Simple::Boolean => Kind::Boolean,
                Simple::Null => Kind::Null,
                Simple::Real => Kind::Real(constraints.real),
                Simple::OctetString => Kind::Octets(constraints.size()),
                Simple::ObjectIdentifier => Kind::Oid,
                Simple::RelativeOid => Kind::RelativeOid,
                text => Kind::Text(*text, constraints.size()),
            },
            TypeKind::Integer(names) => Kind::Integer(Integer {
                names: self.numbers(names, &ty.env),
                bounds: constraints.bounds(),
            }),
            TypeKind::BitString(names) => {
                let names = self.numbers(names, &ty.env).into_iter();
                let names = names.filter_map(|(name, n)| Some((name, u32::try_from(n).ok()?)));
                Kind::Bits(names.collect(), constraints.size())
            }
            TypeKind::Enumerated(items) => Kind::Enumerated(self.enumerated(items, &ty.env)),
            TypeKind::Sequence(items) => self.structure(id, items, &ty.env, false, around),
            TypeKind::Set(items) => self.structure(id, items, &ty.env, true, around),
            TypeKind::SequenceOf(_, element) | TypeKind::SetOf(_, element) => {
                let is_set = matches!(ty.ty.kind, TypeKind::SetOf(..));
                let element = Ty { ty: element, env: ty.env.clone() };
                let element = self.node(element, None, around, None);
                Kind::List(List { is_set, element, size: constraints.size() })
            }
            TypeKind::Choice(items) => self.choice(items, &ty.env, &around),
            _ => unknown("it is not of a kind that has values here"),
        }
    }

    fn numbers(&self, names: &'a [NamedNumber], env: &Env<'a>) -> Vec<(String, i128)> {
        let number =
            |n: &'a NamedNumber| Some((n.name.text.clone(), self.world.integer(&n.value, env)?));
        names.iter().filter_map(number).collect()
    }

    /// Numbers of items (X.680, 20.3 to 20.8): those that are given; the others of the root count up from zero
    /// past these, and those behind the marker from the highest number in front.
    fn enumerated(&self, items: &'a [EnumItem], env: &Env<'a>) -> Enumerated {
        let given = |value: &'a Option<ast::Value>| {
            let number = self.world.integer(value.as_ref()?, env)?;
            i64::try_from(number).ok()
        };
        let marker = items.iter().position(|i| matches!(i, EnumItem::Extension));
        let (root, additions) = items.split_at(marker.unwrap_or(items.len()));
        let named = |item: &'a EnumItem| match item {
            EnumItem::Named(name, value) => Some((name.text.clone(), given(value))),
            EnumItem::Extension => None,
        };
        let mut taken: HashSet<i64> = root.iter().filter_map(named).filter_map(|n| n.1).collect();
        let mut numbered = Vec::new();
        let mut next = 0;
        for (name, number) in root.iter().filter_map(named) {
            let number = number.unwrap_or_else(|| {
                while taken.contains(&next) {
                    next += 1;
                }
                next
            });
            taken.insert(number);
            numbered.push((name, number));
        }
        let mut last = -1;
        for (name, number) in additions.iter().filter_map(named) {
            let number = number.unwrap_or_else(|| {
                let mut free = next.max(last + 1);
                while taken.contains(&free) {
                    free += 1;
                }
                free
            });
            taken.insert(number);
            last = last.max(number);
            numbered.push((name, number));
        }
        Enumerated { items: numbered, is_extensible: marker.is_some() }
    }

    fn structure(
        &mut self,
        id: TypeId,
        items: &'a [Item],
        env: &Env<'a>,
        is_set: bool,
        mut around: Vec<TypeId>,
    ) -> Kind {
        around.push(id);
        let members = self.members(items, env, &around);
        let list = self.world.members(items, env);
        for (n, member) in list.iter().enumerate() {
            if let Presence::Default(value) = &member.component.presence {
                let env = member.env.clone();
                self.defaults.push(PendingDefault { structure: id, member: n, value, env });
            }
        }
        let mut markers = items.iter().enumerate().filter(|i| matches!(i.1, Item::Extension(_)));
        let unknown_at = match (markers.next(), markers.next()) {
            (None, _) => {
                self.world.modules[env.module].ast.extensibility_implied.then_some(members.len())
            }
            (Some(_), None) => Some(members.len()),
            // Those in front of the second marker.
            (Some(_), Some((second, _))) => Some(self.world.members(&items[..second], env).len()),
        };
        Kind::Structure(Structure { is_set, members, unknown_at })
    }

    fn choice(&mut self, items: &'a [Item], env: &Env<'a>, around: &[TypeId]) -> Kind {
        let is_extensible = items.iter().any(|i| matches!(i, Item::Extension(_)))
            || self.world.modules[env.module].ast.extensibility_implied;
        let alternatives = self.members(items, env, around);
        Kind::Choice(Choice { alternatives, is_extensible })
    }

    fn members(&mut self, items: &'a [Item], env: &Env<'a>, around: &[TypeId]) -> Vec<Member> {
        let list = self.world.members(items, env);
        let automatic = self.world.is_automatic(items, env);
        let root = list.iter().filter(|m| m.addition.is_none()).count() as u32;
        let (mut next_root, mut next_addition) = (0, root);
        let (mut additions, mut last_group) = (0, 0);
        let mut members = Vec::with_capacity(list.len());
        for (n, member) in list.iter().enumerate() {
            // Automatic tags count the root first (X.680, 25.7 and 29.2).
            let next = if member.addition.is_none() { &mut next_root } else { &mut next_addition };
            let tag = automatic.then_some(*next);
            *next += 1;
            let addition = member.addition.map(|group| {
                if group == 0 || group != last_group {
                    additions += 1;
                }
                last_group = group;
                additions - 1
            });
            let component = member.component;
            let ty = Ty { ty: &component.ty, env: member.env.clone() };
            // What COMPONENTS OF brought stands elsewhere.
            let around = if member.is_included { Vec::new() } else { around.to_vec() };
            members.push(Member {
                name: component_name(member, n),
                is_named: component.name.is_some(),
                ty: self.node(ty, tag, around, None),
                is_optional: !matches!(component.presence, Presence::Required)
                    || addition.is_some(),
                default: None,
                addition,
                in_group: member.addition.is_some_and(|group| group > 0),
                is_needed: matches!(component.presence, Presence::Required),
            });
        }
        members
    }
}

fn unknown(reason: &str) -> Kind {
    Kind::Unknown(reason.to_owned())
}

/// Whether a text has a word that is a parameter.
fn mentions(text: &str, env: &Env<'_>) -> bool {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.any(|w| env.parameter(w).is_some())
}

/// Whether a macro is of those that put a signature beside a type.
fn is_signed(used: &MacroUse) -> bool {
    used.types.len() == 1 && used.types[0].0 == used.name.text
}

/// The structure that a type without parts stands for.
fn built_in(kind: &TypeKind) -> Option<&'static str> {
    Some(match kind {
        TypeKind::Simple(Simple::External) => "External",
        TypeKind::Simple(Simple::EmbeddedPdv) => "EmbeddedPdv",
        TypeKind::Simple(Simple::CharacterString) => "UnrestrictedString",
        TypeKind::InstanceOf(_) => "InstanceOf",
        _ => return None,
    })
}

/// A component's name; that of its type, or its place, where it has none.
fn component_name(member: &AstMember<'_>, n: usize) -> String {
    match (&member.component.name, &member.component.ty.kind) {
        (Some(name), _) => name.text.clone(),
        (None, TypeKind::Reference(reference)) => {
            let name = &reference.name.text;
            name[..1].to_ascii_lowercase() + &name[1..]
        }
        _ => format!("component{}", n + 1),
    }
}

impl RealForm {
    /// The form of components' bounds (X.696, 12.1): mantissa below 2^24 or 2^53, base 2, and the exponents.
    pub(super) fn or_known(self, other: RealForm) -> RealForm {
        if other == RealForm::Any { self } else { other }
    }
}
