//! Random values of types, made of a list of decisions.

use fusewire_asn1::ast::Simple;
use fusewire_asn1_values::schema::{Kind, Size, TypeId};
use fusewire_asn1_values::value::{Real, Structure};
use fusewire_asn1_values::{Schema, Value, characters, number};

/// Decisions, zeros when they are used up.
pub struct Dice<'a>(pub std::slice::Iter<'a, u64>);

impl Dice<'_> {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0.next().map_or(0, |n| n % sides)
    }
}

/// How many there are: below `most`, but for what a constraint says of values that have so many parts.
fn length(dice: &mut Dice<'_>, size: Size, most: u64, is_allowed: impl Fn(usize) -> bool) -> u64 {
    let least = size.least.unwrap_or(0) as u64;
    let most = size.most.map_or(least + most, |n| n as u64 + 1);
    let from = least + dice.roll(most.saturating_sub(least).max(1));
    let most = most.max(from + 1) - 1;
    allowed(least.into(), from.into(), most.into(), |n| is_allowed(n as usize)) as u64
}

/// Whether constraints allow a value of the type.
fn is_allowed(schema: &Schema<'_, '_>, ty: TypeId, value: &Value) -> bool {
    schema.get(ty).objection(value).is_none()
}

/// A number that constraints allow, this one or the next that is, up to the last and from the first again.
fn allowed(first: i128, from: i128, last: i128, is_allowed: impl Fn(i128) -> bool) -> i128 {
    let mut numbers = (from..=last).take(1000).chain(first..from);
    numbers.find(|&n| is_allowed(n)).unwrap_or(from)
}

/// A value of a type.
pub fn a_value(schema: &Schema<'_, '_>, ty: TypeId, dice: &mut Dice<'_>) -> Value {
    let bytes =
        |dice: &mut Dice<'_>, len: u64| (0..len).map(|_| dice.roll(256) as u8).collect::<Vec<u8>>();
    match &schema.get(ty).kind {
        Kind::Boolean => Value::Boolean(dice.roll(2) == 1),
        Kind::Null => Value::Null,
        Kind::Integer(of) => match of.bounds {
            (None, None) => {
                // With names it is 64 bits wide in XDR.
                let len = 1 + dice.roll(if of.names.is_empty() { 20 } else { 8 });
                let value = Value::Integer(number::minimal(&bytes(dice, len)).to_vec());
                if is_allowed(schema, ty, &value) { value } else { Value::integer(1) }
            }
            (low, high) => {
                let (low, high) = (low.unwrap_or(-9), high.unwrap_or(i128::from(u64::MAX) << 8));
                let far = (i128::from(dice.roll(u64::MAX)) << 8) % (high - low + 1);
                let is_allowed = |n| is_allowed(schema, ty, &Value::integer(n));
                Value::integer(allowed(low, low + far, high, is_allowed))
            }
        },
        Kind::Enumerated(of) => {
            Value::Enumerated(of.items[dice.roll(of.items.len() as u64) as usize].1)
        }
        Kind::Real(_) => {
            let value = f64::from_bits(dice.roll(u64::MAX));
            Value::Real(Real::new(if value.is_nan() { f64::NAN } else { value }))
        }
        Kind::Bits(names, size) => {
            let len = length(dice, *size, 40, |n| {
                let unused = (n.wrapping_neg() % 8) as u8;
                !names.is_empty()
                    || is_allowed(schema, ty, &Value::Bits(vec![0; n.div_ceil(8)], unused))
            });
            let mut bits = bytes(dice, len.div_ceil(8));
            let unused = (len.wrapping_neg() % 8) as u8;
            if let Some(last) = bits.last_mut() {
                *last = *last & (0xff << unused) | if names.is_empty() { 0 } else { 1 << unused };
            }
            Value::Bits(bits, unused)
        }
        Kind::Octets(size) => {
            let len =
                length(dice, *size, 200, |n| is_allowed(schema, ty, &Value::Octets(vec![0; n])));
            Value::Octets(bytes(dice, len))
        }
        Kind::Oid | Kind::RelativeOid => {
            let mut arcs = vec![0x2a];
            for _ in 0..dice.roll(4) {
                arcs.extend([0x81, dice.roll(128) as u8]);
            }
            Value::Oid(arcs)
        }
        Kind::Text(simple, size) => {
            let text = match simple {
                Simple::UtcTime => "991231235959Z".to_owned(),
                Simple::GeneralizedTime => "20240229235958.5Z".to_owned(),
                Simple::Date => format!("20{:02}-02-28", dice.roll(100)),
                Simple::TimeOfDay => format!("{:02}:59:58", dice.roll(24)),
                Simple::DateTime => format!("1999-{:02}-28T23:59:60", 1 + dice.roll(12)),
                _ => {
                    let coding = characters::coding(*simple);
                    let is_allowed = |c: char, len: usize| {
                        let text = String::from_iter(std::iter::repeat_n(c, len));
                        let text = characters::encode(coding, &text).unwrap();
                        is_allowed(schema, ty, &Value::Text(text))
                    };
                    let any = |len| ('a'..='z').any(|c| is_allowed(c, len));
                    let len = length(dice, *size, 20, any);
                    let letters: Vec<char> =
                        ('a'..='z').filter(|c| is_allowed(*c, len as usize)).collect();
                    let sides = letters.len() as u64;
                    (0..len).map(|_| letters[dice.roll(sides) as usize]).collect()
                }
            };
            Value::Text(characters::encode(characters::coding(*simple), &text).unwrap())
        }
        Kind::Structure(of) => {
            let mut members = Vec::new();
            for member in &of.members {
                let is_there = (!member.is_optional || dice.roll(2) == 1)
                    || (member.in_group && member.is_needed);
                let value = is_there.then(|| a_value(schema, member.ty, dice));
                members.push(value.filter(|v| member.default.as_ref() != Some(v)));
            }
            Value::Structure(Structure { members, unknown: Vec::new() })
        }
        Kind::List(of) => {
            let len = length(dice, of.size, 5, |n| {
                is_allowed(schema, ty, &Value::List(vec![Value::Null; n]))
            });
            Value::List((0..len).map(|_| a_value(schema, of.element, dice)).collect())
        }
        Kind::Choice(of) => {
            let index = dice.roll(of.alternatives.len() as u64) as usize;
            Value::Choice(index, Box::new(a_value(schema, of.alternatives[index].ty, dice)))
        }
        Kind::Open(_) | Kind::Opaque(_) | Kind::Unknown(_) => panic!("none of these is made"),
    }
}
