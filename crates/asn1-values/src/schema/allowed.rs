//! Which values constraints allow: sets of numbers, of sizes and of characters, asked of a value as the notation says
//! them (X.680 clause 51). What may be extended allows all, and so does what depends on more than the value's own
//! numbers, size and characters: the constraints that `docs/asn1.md` calls not enforced.

use fusewire_asn1::ast::*;
use fusewire_asn1::names::World;
use fusewire_asn1::resolve::{Base, Env, Ty};

use super::{Kind, Type};
use crate::characters::{self, Coding};
use crate::error::Error;
use crate::number;
use crate::value::Value as Asn1Value;

/// Constraints within others are followed so deep.
const DEPTH_MAX: u32 = 64;

/// Of one constraint so many parts are looked at.
const PARTS_MAX: usize = 10_000;

/// A set of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Whether a value is in it is not asked here.
    Unasked,
    /// From one number to another, where there are such bounds.
    Range(Option<i128>, Option<i128>),
    /// What has a size of these.
    Size(Box<Allowed>),
    /// What has only characters whose numbers are of these.
    Letters(Box<Allowed>),
    /// What is in all of them.
    All(Vec<Allowed>),
    /// What is in one of them.
    Any(Vec<Allowed>),
    /// What is not in it.
    Not(Box<Allowed>),
}

/// What is asked of a value.
enum Asked<'v> {
    /// A number; none where 128 bits do not hold it, and whether it is negative.
    Number(Option<i128>, bool),
    /// How many parts or characters, and the characters.
    Sized(i128, &'v [u32]),
    /// Bits whose zeros at the end count for nothing: how many there are without these.
    NamedBits(i128),
}

impl Allowed {
    /// Whether a value is in the set; nothing where that is not asked here.
    fn has(&self, asked: &Asked<'_>) -> Option<bool> {
        match (self, asked) {
            (Allowed::Range(low, high), Asked::Number(Some(n), _)) => {
                Some(low.is_none_or(|low| low <= *n) && high.is_none_or(|high| *n <= high))
            }
            (Allowed::Range(low, _), Asked::Number(None, true)) => Some(low.is_none()),
            (Allowed::Range(_, high), Asked::Number(None, false)) => Some(high.is_none()),
            (Allowed::Size(sizes), Asked::Sized(len, _)) => {
                sizes.has(&Asked::Number(Some(*len), false))
            }
            // There may be as many zeros behind them as a size needs.
            (Allowed::Size(sizes), Asked::NamedBits(len)) => sizes.reaches(*len),
            (Allowed::Letters(letters), Asked::Sized(_, characters)) => {
                let has = |c: &u32| letters.has(&Asked::Number(Some(i128::from(*c)), false));
                characters.iter().map(has).fold(Some(true), both)
            }
            (Allowed::All(of), _) => of.iter().map(|a| a.has(asked)).fold(Some(true), both),
            (Allowed::Any(of), _) => {
                let not = |a: &Allowed| a.has(asked).map(|has| !has);
                of.iter().map(not).fold(Some(true), both).map(|none| !none)
            }
            // That one size would do does not say that no other does.
            (Allowed::Not(_), Asked::NamedBits(_)) => None,
            (Allowed::Not(of), _) => of.has(asked).map(|has| !has),
            _ => None,
        }
    }

    /// Whether there is such a number that is no less than `least`.
    fn reaches(&self, least: i128) -> Option<bool> {
        match self {
            Allowed::Range(_, high) => Some(high.is_none_or(|high| least <= high)),
            Allowed::All(of) => of.iter().map(|a| a.reaches(least)).fold(Some(true), both),
            Allowed::Any(of) => {
                let not = |a: &Allowed| a.reaches(least).map(|reaches| !reaches);
                of.iter().map(not).fold(Some(true), both).map(|none| !none)
            }
            _ => None,
        }
    }

    /// The lowest and the highest number, or size, that is in it, where there are such; what is taken away from a set
    /// leaves its ends where they are.
    pub(super) fn ends(&self, of_sizes: bool) -> Ends {
        match self {
            Allowed::Range(low, high) if !of_sizes => (*low, *high),
            Allowed::Size(sizes) if of_sizes => sizes.ends(false),
            Allowed::All(of) => ends_of_all(of, of_sizes),
            Allowed::Any(of) => {
                let ends = of.iter().map(|a| a.ends(of_sizes)).reduce(|a, b| {
                    (a.0.zip(b.0).map(|(a, b)| a.min(b)), a.1.zip(b.1).map(|(a, b)| a.max(b)))
                });
                ends.unwrap_or((None, None))
            }
            _ => (None, None),
        }
    }

    /// Whether it says nothing of any value.
    fn is_unasked(&self) -> bool {
        match self {
            Allowed::Unasked => true,
            Allowed::All(of) => of.iter().all(Allowed::is_unasked),
            Allowed::Any(of) => of.iter().any(Allowed::is_unasked),
            Allowed::Size(of) | Allowed::Letters(of) | Allowed::Not(of) => of.is_unasked(),
            Allowed::Range(low, high) => low.is_none() && high.is_none(),
        }
    }
}

/// Those of what is in all of the sets.
pub(super) fn ends_of_all(of: &[Allowed], of_sizes: bool) -> Ends {
    of.iter().map(|a| a.ends(of_sizes)).fold((None, None), |a, b| {
        let high = a.1.zip(b.1).map(|(a, b)| a.min(b));
        (a.0.max(b.0), high.or(a.1).or(b.1))
    })
}

/// The lowest and the highest; nothing where there is no such end.
pub(super) type Ends = (Option<i128>, Option<i128>);

/// Both, as Kleene has it: what is wrong is wrong whatever is not known.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

impl Type {
    /// What is wrong with a value of the type, by its constraints.
    pub fn objection(&self, value: &Asn1Value) -> Option<String> {
        if self.allowed.is_empty() {
            return None;
        }
        let characters;
        let asked = match (value, &self.kind) {
            (Asn1Value::Integer(bytes), _) => {
                let is_negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
                Asked::Number(number::to_i128(bytes), is_negative)
            }
            (Asn1Value::Octets(bytes), _) => Asked::Sized(bytes.len() as i128, &[]),
            (Asn1Value::Bits(bytes, unused), Kind::Bits(names, _)) if names.is_empty() => {
                Asked::Sized(8 * bytes.len() as i128 - i128::from(*unused), &[])
            }
            (Asn1Value::Bits(bytes, _), Kind::Bits(..)) => {
                Asked::NamedBits(bytes.iter().rposition(|b| *b != 0).map_or(0, |last| {
                    8 * last as i128 + 8 - i128::from(bytes[last].trailing_zeros())
                }))
            }
            (Asn1Value::List(elements), _) => Asked::Sized(elements.len() as i128, &[]),
            (Asn1Value::Text(bytes), Kind::Text(simple, _)) => {
                characters = numbers_of(characters::coding(*simple), bytes)?;
                Asked::Sized(characters.len() as i128, &characters)
            }
            _ => return None,
        };
        if self.allowed.iter().all(|a| a.has(&asked) != Some(false)) {
            return None;
        }
        // Worded only now: most values are allowed, and a long number's digits take the square of their count.
        let found = match (&asked, value) {
            (Asked::Number(Some(n), _), _) => n.to_string(),
            (Asked::Number(None, _), _) => "a number beyond 128 bits".to_owned(),
            (Asked::NamedBits(n), _) | (Asked::Sized(n, _), Asn1Value::Bits(..)) => {
                format!("{n} bits")
            }
            (Asked::Sized(n, _), Asn1Value::Octets(_)) => format!("{n} octets"),
            (Asked::Sized(n, _), Asn1Value::List(_)) => format!("{n} elements"),
            (Asked::Sized(n, of), _) => {
                let shown: String = of.iter().take(40).filter_map(|c| char::from_u32(*c)).collect();
                format!("{n} characters, {shown:?}")
            }
        };
        Some(format!("{found}: not what the constraint of {} allows", self.name))
    }

    /// Checks a value that is to be written: its characters, and by the constraints.
    ///
    /// # Errors
    /// The type does not have the characters, or the constraints do not allow the value.
    pub fn allows(&self, value: &Asn1Value) -> Result<(), Error> {
        if let (Asn1Value::Text(bytes), Kind::Text(simple, _)) = (value, &self.kind) {
            characters::check(*simple, bytes)?;
        }
        self.objection(value).map_or(Ok(()), |objection| Err(Error::of_value(objection)))
    }
}

/// The numbers of a string's characters; nothing for types that switch sets, whose bytes are no characters.
fn numbers_of(coding: Coding, bytes: &[u8]) -> Option<Vec<u32>> {
    match coding {
        Coding::Utf8 => {
            std::str::from_utf8(bytes).ok().map(|text| text.chars().map(u32::from).collect())
        }
        Coding::Latin => None,
        Coding::Two => {
            let pairs = bytes.as_chunks::<2>().0.iter();
            Some(pairs.map(|p| u32::from(u16::from_be_bytes(*p))).collect())
        }
        Coding::Four => {
            Some(bytes.as_chunks::<4>().0.iter().map(|q| u32::from_be_bytes(*q)).collect())
        }
    }
}

/// Which numbers a set is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those of the value itself, or its size and characters.
    Value,
    /// Those of characters.
    Letters,
}

/// The numbers that a constraint of a type allows.
pub(super) fn numbers<'a>(world: &World<'a>, constraint: &'a Constraint, env: &Env<'a>) -> Allowed {
    let (env, names) = (env.clone(), None);
    Reading { world, env, names, left: PARTS_MAX }.constraint(constraint, Of::Value, 0)
}

/// The constraints that stand at one type.
pub(super) fn of_type<'a>(world: &World<'a>, ty: &Ty<'a>, allowed: &mut Vec<Allowed>) {
    let names = match world.base(ty) {
        Base::Known(base) => Some(base),
        _ => None,
    };
    let mut reading = Reading { world, env: ty.env.clone(), names, left: PARTS_MAX };
    for constraint in &ty.ty.constraints {
        allowed.push(reading.constraint(constraint, Of::Value, 0));
    }
    // A set of values that is used as a type.
    if let TypeKind::Reference(reference) = &ty.ty.kind
        && (reference.module.is_some() || ty.env.parameter(&reference.name.text).is_none())
        && let Some((assignment, env)) = world.definition(reference, &ty.env)
        && let AssignmentKind::Set(_, spec) = &assignment.kind
    {
        reading.env = env;
        allowed.push(reading.spec(spec, Of::Value, 1));
    }
    allowed.retain(|a| !a.is_unasked());
}

/// Constraints as they are read.
struct Reading<'w, 'a> {
    world: &'w World<'a>,
    env: Env<'a>,
    /// The type whose named numbers may stand for numbers.
    names: Option<Ty<'a>>,
    /// Parts that may still be looked at.
    left: usize,
}

impl<'a> Reading<'_, 'a> {
    fn constraint(&mut self, constraint: &'a Constraint, of: Of, depth: u32) -> Allowed {
        match &constraint.kind {
            ConstraintKind::Set(spec) => self.spec(spec, of, depth),
            _ => Allowed::Unasked,
        }
    }

    fn spec(&mut self, spec: &'a SetSpec, of: Of, depth: u32) -> Allowed {
        match &spec.root {
            Some(root) if !spec.is_extensible => self.set(root, of, depth + 1),
            _ => Allowed::Unasked,
        }
    }

    fn set(&mut self, set: &'a Set, of: Of, depth: u32) -> Allowed {
        if depth > DEPTH_MAX || self.left == 0 {
            return Allowed::Unasked;
        }
        self.left -= 1;
        match set {
            Set::Union(parts) => {
                Allowed::Any(parts.iter().map(|p| self.set(p, of, depth + 1)).collect())
            }
            Set::Intersection(parts) => {
                Allowed::All(parts.iter().map(|p| self.set(p, of, depth + 1)).collect())
            }
            Set::Except(all, without) => {
                let without = Allowed::Not(Box::new(self.set(without, of, depth + 1)));
                Allowed::All(vec![self.set(all, of, depth + 1), without])
            }
            Set::AllExcept(without) => Allowed::Not(Box::new(self.set(without, of, depth + 1))),
            Set::Element(element) => self.element(element, of, depth + 1),
        }
    }

    fn element(&mut self, element: &'a Element, of: Of, depth: u32) -> Allowed {
        match (element, of) {
            (Element::Value(value), Of::Value) => match self.number(value) {
                Some(n) => Allowed::Range(Some(n), Some(n)),
                None => Allowed::Unasked,
            },
            (Element::Value(value), Of::Letters) => match self.text(value) {
                Some(text) => {
                    let one = |c| Allowed::Range(Some(c as i128), Some(c as i128));
                    Allowed::Any(text.chars().map(one).collect())
                }
                None => Allowed::Unasked,
            },
            (Element::Range(low, low_open, high, high_open), Of::Value) => {
                let low = self.number(low).map(|n| n.saturating_add((*low_open).into()));
                let high = self.number(high).map(|n| n.saturating_sub((*high_open).into()));
                Allowed::Range(low, high)
            }
            (Element::Range(low, low_open, high, high_open), Of::Letters) => {
                let end = |value: &'a Value, is_end| match value.kind {
                    _ if is_end => Some(None),
                    _ => {
                        let mut characters = self.text(value)?.chars();
                        let first = characters.next().filter(|_| characters.next().is_none());
                        first.map(|c| Some(c as i128))
                    }
                };
                let low = end(low, matches!(low.kind, ValueKind::Min));
                let high = end(high, matches!(high.kind, ValueKind::Max));
                match (low, high) {
                    (Some(low), Some(high)) => Allowed::Range(
                        low.map(|n| n + i128::from(*low_open)),
                        high.map(|n| n - i128::from(*high_open)),
                    ),
                    _ => Allowed::Unasked,
                }
            }
            (Element::Size(constraint), Of::Value) => {
                Allowed::Size(Box::new(self.constraint(constraint, Of::Value, depth)))
            }
            (Element::From(constraint), Of::Value) => {
                Allowed::Letters(Box::new(self.constraint(constraint, Of::Letters, depth)))
            }
            (Element::Type(ty, _), _) => self.included(ty, of, depth),
            (Element::Group(spec), _) => self.spec(spec, of, depth),
            _ => Allowed::Unasked,
        }
    }

    /// A type in a constraint: what its own constraints allow, and those of what it is made of.
    fn included(&mut self, ty: &'a fusewire_asn1::ast::Type, of: Of, depth: u32) -> Allowed {
        let mut all = Vec::new();
        let mut ty = Ty { ty, env: self.env.clone() };
        for _ in 0..DEPTH_MAX {
            let outer = std::mem::replace(&mut self.env, ty.env.clone());
            for constraint in &ty.ty.constraints {
                let allowed = self.constraint(constraint, Of::Value, depth + 1);
                all.push(match of {
                    Of::Value => allowed,
                    Of::Letters => letters_of(allowed),
                });
            }
            self.env = outer;
            match self.world.next(&ty) {
                Some(Ok(next)) => ty = next,
                _ => break,
            }
        }
        Allowed::All(all)
    }

    /// A number, or what the type calls one.
    fn number(&self, value: &'a Value) -> Option<i128> {
        if let (ValueKind::Reference(reference), Some(names)) = (&value.kind, &self.names)
            && let TypeKind::Integer(numbers) = &names.ty.kind
            && let Some(named) = numbers.iter().find(|n| n.name.text == reference.name.text)
        {
            return self.world.integer(&named.value, &names.env);
        }
        self.world.integer(value, &self.env)
    }

    fn text(&self, value: &'a Value) -> Option<&'a str> {
        let mut at = (value, self.env.clone());
        for _ in 0..DEPTH_MAX {
            match &at.0.kind {
                ValueKind::Text(text) => return Some(text),
                ValueKind::Reference(reference) => {
                    let (assignment, env) = self.world.definition(reference, &at.1)?;
                    let AssignmentKind::Value(_, next) = &assignment.kind else { return None };
                    at = (next, env);
                }
                _ => return None,
            }
        }
        None
    }
}

/// Of what a string type allows the characters: those of its permitted alphabets.
fn letters_of(allowed: Allowed) -> Allowed {
    match allowed {
        Allowed::Letters(letters) => *letters,
        Allowed::All(of) => Allowed::All(of.into_iter().map(letters_of).collect()),
        Allowed::Any(of) => Allowed::Any(of.into_iter().map(letters_of).collect()),
        _ => Allowed::Unasked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_decides_nothing() {
        let number = |n| Asked::Number(Some(n), n < 0);
        let few =
            Allowed::Any(vec![Allowed::Range(Some(1), Some(3)), Allowed::Range(Some(7), None)]);
        for (n, has) in [(0, false), (1, true), (3, true), (4, false), (7, true), (1 << 90, true)] {
            assert_eq!(few.has(&number(n)), Some(has), "{n}");
            assert_eq!(Allowed::Not(Box::new(few.clone())).has(&number(n)), Some(!has), "{n}");
        }
        assert_eq!(few.has(&Asked::Number(None, true)), Some(false));
        assert_eq!(few.has(&Asked::Number(None, false)), Some(true));
        let or = Allowed::Any(vec![Allowed::Unasked, few.clone()]);
        assert_eq!((or.has(&number(1)), or.has(&number(0))), (Some(true), None));
        let sizes = Allowed::Size(Box::new(Allowed::Range(Some(4), Some(4))));
        let except = Allowed::Not(Box::new(sizes.clone()));
        assert_eq!(sizes.has(&Asked::NamedBits(3)), Some(true), "with a zero behind them");
        assert_eq!(except.has(&Asked::NamedBits(3)), None, "of another size it is allowed");
        assert_eq!(except.has(&Asked::Sized(4, &[])), Some(false));
        let and = Allowed::All(vec![Allowed::Unasked, few]);
        assert_eq!((and.has(&number(1)), and.has(&number(0))), (None, Some(false)));
        assert!(or.is_unasked() && !and.is_unasked());
    }
}
