//! What constraints say of encodings: bounds of numbers, sizes. What may be extended says nothing.

use fusewire_asn1::ast::*;
use fusewire_asn1::names::World;
use fusewire_asn1::resolve::{Env, Ty};

use super::allowed::{self, Allowed, Ends};
use super::{RealForm, Size};

/// What was gathered on the way to a type's definition.
#[derive(Default)]
pub struct Constraints {
    /// The sets of values that are allowed: a value is in each.
    pub allowed: Vec<Allowed>,
    /// The machine's number that holds it.
    pub real: RealForm,
}

impl Constraints {
    /// Those that stand at one type.
    pub fn add<'a>(&mut self, world: &World<'a>, ty: &Ty<'a>) {
        allowed::of_type(world, ty, &mut self.allowed);
        for constraint in &ty.ty.constraints {
            if let ConstraintKind::Set(spec) = &constraint.kind {
                self.real = self.real.or_known(real_form(world, spec, &ty.env));
            }
        }
    }

    /// The lowest and the highest number.
    pub fn bounds(&self) -> Ends {
        allowed::ends_of_all(&self.allowed, false)
    }

    /// How many there are.
    pub fn size(&self) -> Size {
        let (least, most) = allowed::ends_of_all(&self.allowed, true);
        let size = |n: i128| usize::try_from(n.max(0)).ok();
        Size { least: least.and_then(size), most: most.and_then(size) }
    }
}

/// `WITH COMPONENTS { mantissa (…), base (2), exponent (…) }` that a machine's number holds (X.696, 12.2, 12.3).
fn real_form<'a>(world: &World<'a>, spec: &'a SetSpec, env: &Env<'a>) -> RealForm {
    let Some(Set::Element(element)) = &spec.root else { return RealForm::Any };
    let (Element::Components(_, parts), false) = (&**element, spec.is_extensible) else {
        return RealForm::Any;
    };
    let bounds = |name: &str| {
        let part = parts.iter().find(|p| p.name.text == name)?;
        let (low, high) = allowed::numbers(world, part.constraint.as_ref()?, env).ends(false);
        low.zip(high)
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
