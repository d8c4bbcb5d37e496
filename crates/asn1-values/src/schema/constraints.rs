//! What constraints say for good: bounds of numbers, sizes. What may be extended says nothing.

use fusewire_asn1::ast::*;
use fusewire_asn1::names::World;
use fusewire_asn1::resolve::{Env, Ty};

use super::{RealForm, Size};

/// Constraints within others are followed so deep.
const DEPTH_MAX: u32 = 16;

/// What was gathered on the way to a type's definition.
#[derive(Default)]
pub struct Constraints {
    /// The lowest and the highest number.
    pub bounds: (Option<i128>, Option<i128>),
    /// How many there are.
    pub size: Size,
    /// The machine's number that holds it.
    pub real: RealForm,
}

/// The lowest and the highest; nothing where there is no such bound.
type Bounds = (Option<i128>, Option<i128>);

impl Constraints {
    /// Those that stand at one type.
    pub fn add<'a>(&mut self, world: &World<'a>, ty: &Ty<'a>) {
        for constraint in &ty.ty.constraints {
            let ConstraintKind::Set(spec) = &constraint.kind else { continue };
            self.bounds = both(self.bounds, of_spec(world, spec, &ty.env, Of::Value, 0));
            let (least, most) = of_spec(world, spec, &ty.env, Of::Size, 0);
            let size = |n: Option<i128>| n.and_then(|n| usize::try_from(n.max(0)).ok());
            self.size.least = self.size.least.max(size(least));
            self.size.most = match (self.size.most, size(most)) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            self.real = self.real.narrowed(real_form(world, spec, &ty.env));
        }
    }
}

/// Which numbers are asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Value,
    Size,
}

fn both(a: Bounds, b: Bounds) -> Bounds {
    let most = match (a.1, b.1) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    (a.0.max(b.0), most)
}

fn either(a: Bounds, b: Bounds) -> Bounds {
    (a.0.zip(b.0).map(|(a, b)| a.min(b)), a.1.zip(b.1).map(|(a, b)| a.max(b)))
}

fn of_spec<'a>(world: &World<'a>, spec: &'a SetSpec, env: &Env<'a>, of: Of, depth: u32) -> Bounds {
    match &spec.root {
        Some(root) if !spec.is_extensible && depth < DEPTH_MAX => {
            of_set(world, root, env, of, depth + 1)
        }
        _ => (None, None),
    }
}

fn of_set<'a>(world: &World<'a>, set: &'a Set, env: &Env<'a>, of: Of, depth: u32) -> Bounds {
    let parts = |parts: &'a [Set], join: fn(Bounds, Bounds) -> Bounds| {
        let bounds = parts.iter().map(|p| of_set(world, p, env, of, depth + 1));
        bounds.reduce(join).unwrap_or((None, None))
    };
    match set {
        _ if depth > DEPTH_MAX => (None, None),
        Set::Union(list) => parts(list, either),
        Set::Intersection(list) => parts(list, both),
        Set::Except(set, _) => of_set(world, set, env, of, depth + 1),
        Set::AllExcept(_) => (None, None),
        Set::Element(element) => of_element(world, element, env, of, depth),
    }
}

fn of_element<'a>(
    world: &World<'a>,
    element: &'a Element,
    env: &Env<'a>,
    of: Of,
    depth: u32,
) -> Bounds {
    match (element, of) {
        (Element::Value(value), Of::Value) => {
            let number = world.integer(value, env);
            (number, number)
        }
        (Element::Range(low, low_open, high, high_open), Of::Value) => {
            let low = world.integer(low, env).map(|n| n + i128::from(*low_open));
            let high = world.integer(high, env).map(|n| n - i128::from(*high_open));
            (low, high)
        }
        (Element::Size(constraint), Of::Size) => match &constraint.kind {
            ConstraintKind::Set(spec) => {
                let (least, most) = of_spec(world, spec, env, Of::Value, depth + 1);
                (least, most)
            }
            _ => (None, None),
        },
        (Element::Group(spec), _) => of_spec(world, spec, env, of, depth + 1),
        (Element::Type(ty, _), _) => of_type(world, ty, env, of, depth + 1),
        _ => (None, None),
    }
}

/// A type in a constraint: what its own say.
fn of_type<'a>(world: &World<'a>, ty: &'a Type, env: &Env<'a>, of: Of, depth: u32) -> Bounds {
    let mut bounds = (None, None);
    let mut ty = Ty { ty, env: env.clone() };
    for _ in 0..DEPTH_MAX {
        for constraint in &ty.ty.constraints {
            if let ConstraintKind::Set(spec) = &constraint.kind {
                bounds = both(bounds, of_spec(world, spec, &ty.env, of, depth + 1));
            }
        }
        match world.next(&ty) {
            Some(Ok(next)) => ty = next,
            _ => break,
        }
    }
    bounds
}

/// `WITH COMPONENTS { mantissa (…), base (2), exponent (…) }` that a machine's number holds (X.696, 12.2, 12.3).
fn real_form<'a>(world: &World<'a>, spec: &'a SetSpec, env: &Env<'a>) -> RealForm {
    let Some(Set::Element(element)) = &spec.root else { return RealForm::Any };
    let (Element::Components(_, parts), false) = (&**element, spec.is_extensible) else {
        return RealForm::Any;
    };
    let bounds = |name: &str| {
        let part = parts.iter().find(|p| p.name.text == name)?;
        match &part.constraint.as_ref()?.kind {
            ConstraintKind::Set(spec) => match of_spec(world, spec, env, Of::Value, 0) {
                (Some(low), Some(high)) => Some((low, high)),
                _ => None,
            },
            _ => None,
        }
    };
    let (Some(mantissa), Some((2, 2)), Some(exponent)) =
        (bounds("mantissa"), bounds("base"), bounds("exponent"))
    else {
        return RealForm::Any;
    };
    let fits = |bits: u32, low: i128, high: i128| {
        let most = (1_i128 << bits) - 1;
        mantissa.0 >= -most && mantissa.1 <= most && exponent.0 >= low && exponent.1 <= high
    };
    match () {
        () if fits(24, -149, 104) => RealForm::Binary32,
        () if fits(53, -1074, 971) => RealForm::Binary64,
        () => RealForm::Any,
    }
}
