//! Values that are known when code is generated, and the bounds of numbers.

use super::lower::Lower;
use super::model::Constant;
use crate::ast::*;
use crate::names::{Target, World, well_known};
use crate::resolve::{Base, Bound, Env, Ty};

/// Values may be named through so many others.
const HOPS_MAX: u32 = 32;

impl<'a> Lower<'_, 'a> {
    /// What a value is, where it can be written as an expression.
    pub(super) fn constant_of(
        &self,
        value: &'a Value,
        ty: &Ty<'a>,
        env: &Env<'a>,
    ) -> Option<Constant> {
        constant(self.world, value, ty, env, 0)
    }

    /// A Rust name that is not taken in a module.
    pub(super) fn reserve(&mut self, module: usize, rust: String) -> String {
        super::idents::unique(rust, self.taken_in(module))
    }
}

fn constant<'a>(
    world: &World<'a>,
    value: &'a Value,
    ty: &Ty<'a>,
    env: &Env<'a>,
    hops: u32,
) -> Option<Constant> {
    let Base::Known(base) = world.base(ty) else { return None };
    if hops > HOPS_MAX {
        return None;
    }
    if let ValueKind::Reference(reference) = &value.kind {
        if let Some(named) = named(world, &base, &reference.name.text) {
            return Some(named);
        }
        if reference.module.is_none()
            && let Some(bound) = env.parameter(&reference.name.text)
        {
            let Bound::Actual(Argument::Value(next), outer) = bound else { return None };
            return constant(world, next, ty, &outer, hops + 1);
        }
        let (assignment, inner) = world.definition(reference, env)?;
        let AssignmentKind::Value(_, next) = &assignment.kind else { return None };
        return constant(world, next, ty, &inner, hops + 1);
    }
    match (&base.ty.kind, &value.kind) {
        (TypeKind::Simple(Simple::Boolean), ValueKind::Boolean(b)) => Some(Constant::Boolean(*b)),
        (TypeKind::Simple(Simple::Null), ValueKind::Null) => Some(Constant::Null),
        (TypeKind::Integer(_), ValueKind::Integer(n)) => n.map(Constant::Integer),
        (TypeKind::Simple(Simple::Real), kind) => real(world, kind, env).map(Constant::Real),
        (TypeKind::BitString(_), ValueKind::Bits(digits)) => Some(bits(digits)),
        (TypeKind::BitString(_), ValueKind::Hex(digits)) => Some(Constant::Bits(hex(digits), 0)),
        (TypeKind::BitString(names), ValueKind::Braced(braced)) => {
            named_bits(world, names, *braced, &base, env)
        }
        (TypeKind::Simple(Simple::OctetString), ValueKind::Hex(digits)) => {
            Some(Constant::Octets(hex(digits)))
        }
        (TypeKind::Simple(Simple::ObjectIdentifier), ValueKind::Braced(_)) => {
            arcs(world, value, env, 0).map(Constant::Oid)
        }
        (TypeKind::Simple(simple), ValueKind::Text(text)) if simple.is_text() => {
            let wide = matches!(
                simple,
                Simple::BmpString | Simple::UniversalString | Simple::CharacterString
            );
            (!wide && text.is_ascii()).then(|| Constant::Text(text.clone()))
        }
        (TypeKind::SequenceOf(..) | TypeKind::SetOf(..), ValueKind::Braced(braced)) => {
            (braced.close == braced.open + 1).then_some(Constant::Empty)
        }
        _ => None,
    }
}

/// A name that the type gives.
fn named<'a>(world: &World<'a>, base: &Ty<'a>, name: &str) -> Option<Constant> {
    match &base.ty.kind {
        TypeKind::Integer(names) => {
            let found = names.iter().find(|n| n.name.text == name)?;
            world.integer(&found.value, &base.env).map(Constant::Integer)
        }
        TypeKind::Enumerated(items) => items.iter().find_map(|item| match item {
            EnumItem::Named(n, _) if n.text == name => Some(Constant::Item(name.to_owned())),
            _ => None,
        }),
        _ => None,
    }
}

fn real<'a>(world: &World<'a>, kind: &'a ValueKind, env: &Env<'a>) -> Option<String> {
    let text = match kind {
        ValueKind::Integer(Some(n)) => n.to_string(),
        ValueKind::Real(text) => text.clone(),
        ValueKind::SpecialReal("PLUS-INFINITY") => return Some("f64::INFINITY".to_owned()),
        ValueKind::SpecialReal("MINUS-INFINITY") => return Some("f64::NEG_INFINITY".to_owned()),
        ValueKind::SpecialReal(_) => return Some("f64::NAN".to_owned()),
        ValueKind::Braced(braced) => {
            let items = world.read_list(env.module, *braced)?;
            let part = |n: usize| match &items.get(n)?.value.as_ref()?.kind {
                ValueKind::Integer(n) => *n,
                _ => None,
            };
            let (mantissa, base, exponent) = (part(0)?, part(1)?, part(2)?);
            if base == 10 {
                format!("{mantissa}e{exponent}")
            } else {
                let exponent = i32::try_from(exponent).ok()?;
                (mantissa as f64 * 2f64.powi(exponent)).to_string()
            }
        }
        _ => return None,
    };
    // What is parsed is what Rust would parse.
    let number: f64 = text.parse().ok()?;
    Some(format!("{number:?}"))
}

fn bits(digits: &str) -> Constant {
    let mut bytes = vec![0_u8; digits.len().div_ceil(8)];
    for (n, digit) in digits.bytes().enumerate() {
        if digit == b'1' {
            bytes[n / 8] |= 0x80 >> (n % 8);
        }
    }
    Constant::Bits(bytes, (8 - digits.len() % 8) as u8 % 8)
}

fn hex(digits: &str) -> Vec<u8> {
    let nibble = |c: u8| (c as char).to_digit(16).unwrap_or(0) as u8;
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| nibble(pair[0]) << 4 | pair.get(1).map_or(0, |&c| nibble(c)))
        .collect()
}

/// More named bits than these are no constant.
const BITS_MAX: i128 = 4096;

fn named_bits<'a>(
    world: &World<'a>,
    names: &'a [NamedNumber],
    braced: Braced,
    base: &Ty<'a>,
    env: &Env<'a>,
) -> Option<Constant> {
    let mut digits = String::new();
    for item in world.read_list(env.module, braced)? {
        let Some(Value { kind: ValueKind::Reference(reference), .. }) = &item.value else {
            return None;
        };
        let found = names.iter().find(|n| n.name.text == reference.name.text)?;
        let bit = world.integer(&found.value, &base.env).filter(|n| (0..BITS_MAX).contains(n))?;
        let bit = bit as usize;
        while digits.len() <= bit {
            digits.push('0');
        }
        digits.replace_range(bit..=bit, "1");
    }
    Some(bits(&digits))
}

/// The numbers of an object identifier, through the names that begin it.
fn arcs<'a>(world: &World<'a>, value: &'a Value, env: &Env<'a>, hops: u32) -> Option<Vec<u128>> {
    if hops > HOPS_MAX {
        return None;
    }
    let braced = match &value.kind {
        ValueKind::Braced(braced) => *braced,
        ValueKind::Reference(reference) => {
            let (assignment, inner) = world.definition(reference, env)?;
            let AssignmentKind::Value(_, next) = &assignment.kind else { return None };
            return arcs(world, next, &inner, hops + 1);
        }
        _ => return None,
    };
    let mut numbers: Vec<u128> = Vec::new();
    for (n, part) in world.read_oid(env.module, braced)?.iter().enumerate() {
        if let Some(number) = &part.number {
            numbers.push(u128::try_from(world.integer(number, env)?).ok()?);
            continue;
        }
        let name = part.name.as_ref()?;
        if let Some(number) = well_known(&numbers, &name.text) {
            numbers.push(number);
            continue;
        }
        let Target::Def(def) = world.lookup(env.module, &name.text)? else { return None };
        let AssignmentKind::Value(_, next) = &world.assignment(def).kind else { return None };
        let inner = Env::of(def.module, &[]);
        if n == 0 && !matches!(next.kind, ValueKind::Integer(_)) {
            numbers = arcs(world, next, &inner, hops + 1)?;
        } else {
            numbers.push(u128::try_from(world.integer(next, &inner)?).ok()?);
        }
    }
    let whole = numbers.len() >= 2 && numbers[0] <= 2 && (numbers[0] == 2 || numbers[1] < 40);
    whole.then_some(numbers)
}
