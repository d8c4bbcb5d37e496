//! What the constraints of a type leave of its values, as far as a codec needs it: which numbers, how long, of
//! which characters. A set that cannot be said exactly is taken larger, never smaller; a constraint with `...`
//! says nothing, for later versions may have other values.

use std::cell::Cell;

use crate::ast::*;
use crate::names::World;
use crate::resolve::{Base, Env, Ty};

/// Ranges of numbers, in order, apart from each other; [`i128::MIN`] and [`i128::MAX`] are no bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<(i128, i128)>);

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges::from(i128::MIN, i128::MAX)
    }
}

/// A set of more ranges is taken as the one range around them.
const RANGES_MAX: usize = 64;

impl Ranges {
    /// From a number to another.
    pub fn from(low: i128, high: i128) -> Ranges {
        Ranges(if low <= high { vec![(low, high)] } else { Vec::new() })
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[(i128, i128)] {
        &self.0
    }

    /// Whether it bounds nothing, or leaves nothing, which no module can mean.
    pub fn is_all(&self) -> bool {
        self.0.is_empty() || self.0 == [(i128::MIN, i128::MAX)]
    }

    /// The least, where there is one.
    pub fn low(&self) -> Option<i128> {
        self.0.first().map(|r| r.0).filter(|&n| n != i128::MIN)
    }

    /// The largest, where there is one.
    pub fn high(&self) -> Option<i128> {
        self.0.last().map(|r| r.1).filter(|&n| n != i128::MAX)
    }

    /// The one number that is left.
    pub fn only(&self) -> Option<i128> {
        self.low().filter(|&low| self.high() == Some(low))
    }

    fn joined(mut self, other: &Ranges) -> Ranges {
        self.0.extend(&other.0);
        self.0.sort_unstable();
        let mut out: Vec<(i128, i128)> = Vec::new();
        for (low, high) in self.0 {
            match out.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => out.push((low, high)),
            }
        }
        match out.as_slice() {
            [(low, _), .., (_, high)] if out.len() > RANGES_MAX => Ranges::from(*low, *high),
            _ => Ranges(out),
        }
    }

    fn within(&self, other: &Ranges) -> Ranges {
        let mut out = Vec::new();
        for &(low, high) in &self.0 {
            let parts = other.0.iter().map(|r| (r.0.max(low), r.1.min(high)));
            out.extend(parts.filter(|r| r.0 <= r.1));
        }
        Ranges(out)
    }

    fn others(&self) -> Ranges {
        let (mut out, mut next) = (Vec::new(), Some(i128::MIN));
        for &(low, high) in &self.0 {
            if let Some(start) = next
                && start < low
            {
                out.push((start, low - 1));
            }
            next = high.checked_add(1);
        }
        out.extend(next.map(|start| (start, i128::MAX)));
        Ranges(out)
    }
}

/// What constraints leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The numbers of an INTEGER.
    pub values: Ranges,
    /// Characters, bytes, bits or elements.
    pub sizes: Ranges,
    /// The characters.
    pub letters: Ranges,
    /// Bits of a REAL that is constrained to what 32 or 64 hold.
    pub binary: Option<u32>,
}

impl Limits {
    fn within(&self, other: &Limits) -> Limits {
        Limits {
            values: self.values.within(&other.values),
            sizes: self.sizes.within(&other.sizes),
            letters: self.letters.within(&other.letters),
            binary: self.binary.or(other.binary),
        }
    }

    fn joined(self, other: &Limits) -> Limits {
        Limits {
            values: self.values.joined(&other.values),
            sizes: self.sizes.joined(&other.sizes),
            letters: self.letters.joined(&other.letters),
            binary: None,
        }
    }

    /// What is left without these; all, where that depends on more than one thing.
    fn without(&self) -> Limits {
        let mut left = Limits::default();
        match (self.values.is_all(), self.sizes.is_all(), self.letters.is_all()) {
            (false, true, true) => left.values = self.values.others(),
            (true, false, true) => left.sizes = self.sizes.others(),
            _ => {}
        }
        left
    }
}

/// References may go through so many others, and sets be within so many.
const HOPS_MAX: u32 = 64;

/// More sets of one type are not looked at.
const SETS_MAX: u32 = 10_000;

impl<'a> World<'a> {
    /// What the constraints of a type and of those that it is made from leave.
    pub fn limits(&self, ty: &Ty<'a>) -> Limits {
        self.limits_at(ty, 0, &Cell::new(SETS_MAX))
    }

    fn limits_at(&self, ty: &Ty<'a>, depth: u32, left: &Cell<u32>) -> Limits {
        let mut limits = Limits::default();
        let names = match self.base(ty) {
            Base::Known(base) => Some(base),
            _ => None,
        };
        let mut ty = ty.clone();
        for _ in depth..HOPS_MAX {
            let scope = Scope { world: self, env: ty.env.clone(), base: names.as_ref(), left };
            for constraint in &ty.ty.constraints {
                limits = limits.within(&scope.constraint(constraint, depth));
            }
            // A set of values that is used as a type.
            if let TypeKind::Reference(reference) = &ty.ty.kind
                && (reference.module.is_some() || ty.env.parameter(&reference.name.text).is_none())
                && let Some((assignment, env)) = self.definition(reference, &ty.env)
                && let AssignmentKind::Set(_, spec) = &assignment.kind
            {
                let scope = Scope { world: self, env, base: names.as_ref(), left };
                limits = limits.within(&scope.spec(spec, depth + 1));
            }
            match self.next(&ty) {
                Some(Ok(next)) => ty = next,
                _ => break,
            }
        }
        limits
    }
}

/// Where a constraint's names are looked up, and the type that it is of.
struct Scope<'w, 'a> {
    world: &'w World<'a>,
    env: Env<'a>,
    base: Option<&'w Ty<'a>>,
    /// Sets that may still be looked at.
    left: &'w Cell<u32>,
}

impl<'a> Scope<'_, 'a> {
    fn may(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    fn constraint(&self, constraint: &'a Constraint, depth: u32) -> Limits {
        match &constraint.kind {
            ConstraintKind::Set(spec) => self.spec(spec, depth),
            _ => Limits::default(),
        }
    }

    fn spec(&self, spec: &'a SetSpec, depth: u32) -> Limits {
        match &spec.root {
            Some(root) if !spec.is_extensible && depth < HOPS_MAX => self.set(root, depth + 1),
            _ => Limits::default(),
        }
    }

    fn set(&self, set: &'a Set, depth: u32) -> Limits {
        if depth > HOPS_MAX || !self.may() {
            return Limits::default();
        }
        match set {
            Set::Union(parts) => {
                let mut parts = parts.iter().map(|p| self.set(p, depth + 1));
                let first = parts.next().unwrap_or_default();
                parts.fold(first, |all, part| all.joined(&part))
            }
            Set::Intersection(parts) => {
                let parts = parts.iter().map(|p| self.set(p, depth + 1));
                parts.fold(Limits::default(), |all, part| all.within(&part))
            }
            Set::Except(of, without) => {
                let of = self.set(of, depth + 1);
                match self.is_exact(without) {
                    true => of.within(&self.set(without, depth + 1).without()),
                    false => of,
                }
            }
            Set::AllExcept(without) if self.is_exact(without) => {
                self.set(without, depth + 1).without()
            }
            Set::AllExcept(_) => Limits::default(),
            Set::Element(element) => self.element(element, depth + 1),
        }
    }

    /// Whether a set is no larger than it says: only then may it be taken away.
    fn is_exact(&self, set: &'a Set) -> bool {
        match set {
            // Of more, what lies between is lost.
            Set::Union(parts) => {
                parts.len() <= RANGES_MAX && parts.iter().all(|p| self.is_exact(p))
            }
            Set::Element(element) => match &**element {
                Element::Value(value) => self.number(value).is_some(),
                Element::Range(low, _, high, _) => {
                    let is_known = |v| self.number(v).is_some();
                    let is_least = matches!(low.kind, ValueKind::Min) || is_known(low);
                    is_least && (matches!(high.kind, ValueKind::Max) || is_known(high))
                }
                Element::Group(spec) => {
                    !spec.is_extensible && spec.root.as_ref().is_some_and(|r| self.is_exact(r))
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn element(&self, element: &'a Element, depth: u32) -> Limits {
        let mut limits = Limits::default();
        match element {
            Element::Value(value) => {
                if let Some(number) = self.number(value) {
                    limits.values = Ranges::from(number, number);
                }
            }
            Element::Range(low, low_out, high, high_out) => {
                let low =
                    self.number(low).map_or(i128::MIN, |n| n.saturating_add((*low_out).into()));
                let high =
                    self.number(high).map_or(i128::MAX, |n| n.saturating_sub((*high_out).into()));
                limits.values = Ranges::from(low, high);
            }
            Element::Size(constraint) => {
                let sizes = self.constraint(constraint, depth).values;
                limits.sizes = sizes.within(&Ranges::from(0, i128::MAX));
            }
            Element::From(constraint) => {
                if let ConstraintKind::Set(SetSpec {
                    root: Some(set), is_extensible: false, ..
                }) = &constraint.kind
                {
                    limits.letters = self.letters(set, depth);
                }
            }
            Element::Type(ty, _) => {
                let ty = Ty { ty, env: self.env.clone() };
                return self.world.limits_at(&ty, depth + 1, self.left);
            }
            Element::Group(spec) => return self.spec(spec, depth),
            Element::Components(_, parts) => limits.binary = self.binary(parts),
            _ => {}
        }
        limits
    }

    /// A number, or what the type calls one.
    fn number(&self, value: &'a Value) -> Option<i128> {
        if let (ValueKind::Reference(reference), Some(base)) = (&value.kind, self.base)
            && let TypeKind::Integer(names) = &base.ty.kind
            && let Some(named) = names.iter().find(|n| n.name.text == reference.name.text)
        {
            return self.world.integer(&named.value, &base.env);
        }
        self.world.integer(value, &self.env)
    }

    /// The characters of a permitted alphabet.
    fn letters(&self, set: &'a Set, depth: u32) -> Ranges {
        if depth > HOPS_MAX || !self.may() {
            return Ranges::default();
        }
        match set {
            Set::Union(parts) => {
                let mut parts = parts.iter().map(|p| self.letters(p, depth + 1));
                let first = parts.next().unwrap_or_default();
                parts.fold(first, |all, part| all.joined(&part))
            }
            Set::Intersection(parts) => {
                let parts = parts.iter().map(|p| self.letters(p, depth + 1));
                parts.fold(Ranges::default(), |all, part| all.within(&part))
            }
            Set::Except(of, without) => {
                let of = self.letters(of, depth + 1);
                match self.are_exact_letters(without, depth + 1) {
                    true => of.within(&self.letters(without, depth + 1).others()),
                    false => of,
                }
            }
            Set::AllExcept(without) if self.are_exact_letters(without, depth + 1) => {
                self.letters(without, depth + 1).others()
            }
            Set::AllExcept(_) => Ranges::default(),
            Set::Element(element) => match &**element {
                Element::Value(value) => match self.text(value, 0) {
                    Some(text) => {
                        let none = Ranges(Vec::new());
                        let one = |c: char| Ranges::from(c as i128, c as i128);
                        text.chars().fold(none, |all, c| all.joined(&one(c)))
                    }
                    None => Ranges::default(),
                },
                Element::Range(low, low_out, high, high_out) => {
                    let low = self.letter(low).map(|n| n.saturating_add((*low_out).into()));
                    let high = self.letter(high).map(|n| n.saturating_sub((*high_out).into()));
                    match (low, high) {
                        (Some(low), Some(high)) => Ranges::from(low, high),
                        _ => Ranges::default(),
                    }
                }
                Element::Type(ty, _) => {
                    let ty = Ty { ty, env: self.env.clone() };
                    self.world.limits_at(&ty, depth + 1, self.left).letters
                }
                Element::Group(spec) => match &spec.root {
                    Some(set) if !spec.is_extensible => self.letters(set, depth + 1),
                    _ => Ranges::default(),
                },
                _ => Ranges::default(),
            },
        }
    }

    /// An end of a range of characters.
    fn letter(&self, value: &'a Value) -> Option<i128> {
        match value.kind {
            ValueKind::Min => return Some(i128::MIN),
            ValueKind::Max => return Some(i128::MAX),
            _ => {}
        }
        let mut chars = self.text(value, 0)?.chars();
        chars.next().filter(|_| chars.next().is_none()).map(|c| c as i128)
    }

    /// Whether a set of characters is no larger than it says.
    fn are_exact_letters(&self, set: &'a Set, depth: u32) -> bool {
        match set {
            Set::Union(parts) => {
                depth < HOPS_MAX
                    && parts.len() <= RANGES_MAX
                    && parts.iter().all(|p| self.are_exact_letters(p, depth + 1))
            }
            Set::Element(element) => match &**element {
                Element::Value(value) => {
                    self.text(value, 0).is_some_and(|text| text.chars().count() <= RANGES_MAX)
                }
                Element::Range(low, _, high, _) => {
                    self.letter(low).is_some() && self.letter(high).is_some()
                }
                Element::Group(spec) => {
                    let root = spec.root.as_ref().filter(|_| !spec.is_extensible);
                    depth < HOPS_MAX && root.is_some_and(|r| self.are_exact_letters(r, depth + 1))
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn text(&self, value: &'a Value, hops: u32) -> Option<&'a str> {
        match &value.kind {
            ValueKind::Text(text) => Some(text),
            ValueKind::Reference(reference) if hops < HOPS_MAX => {
                let (assignment, env) = self.world.definition(reference, &self.env)?;
                let AssignmentKind::Value(_, next) = &assignment.kind else { return None };
                Scope { world: self.world, env, base: None, left: self.left }.text(next, hops + 1)
            }
            _ => None,
        }
    }

    /// Whether what is said of mantissa, base and exponent is what 32 or 64 bits hold (X.696 clause 12).
    fn binary(&self, parts: &'a [ComponentConstraint]) -> Option<u32> {
        let of = |name: &str| {
            let part = parts.iter().find(|p| p.name.text == name)?;
            let values = self.constraint(part.constraint.as_ref()?, 0).values;
            values.low().zip(values.high())
        };
        let (mantissa, base, exponent) = (of("mantissa")?, of("base")?, of("exponent")?);
        let fits = |bits: u32, low: i128, high: i128| {
            let most = (1_i128 << bits) - 1;
            mantissa.0 >= -most && mantissa.1 <= most && exponent.0 >= low && exponent.1 <= high
        };
        match base == (2, 2) {
            true if fits(24, -149, 104) => Some(32),
            true if fits(53, -1074, 971) => Some(64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let of = |parts: &[(i128, i128)]| {
            parts.iter().fold(Ranges(Vec::new()), |all, r| all.joined(&Ranges::from(r.0, r.1)))
        };
        assert_eq!(of(&[(5, 9), (1, 3), (4, 4)]).as_slice(), [(1, 9)]);
        assert_eq!(of(&[(1, 3), (5, 9)]).within(&of(&[(2, 6)])).as_slice(), [(2, 3), (5, 6)]);
        assert_eq!(of(&[(0, 4)]).others().as_slice(), [(i128::MIN, -1), (5, i128::MAX)]);
        assert!(Ranges::default().others().is_all());
        assert_eq!(of(&[(7, 7)]).only(), Some(7));
        assert_eq!(Ranges::from(0, i128::MAX).high(), None);
    }
}
