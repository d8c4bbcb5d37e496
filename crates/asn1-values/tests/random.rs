//! Random types, random values of them, every encoding: what is encoded decodes as the same.

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::forward::{self, Syntax};
use fusewire_asn1_values::schema::{Kind, TypeId};
use fusewire_asn1_values::value::{Real, Structure};
use fusewire_asn1_values::{Limits, Schema, Value, ber, characters, jer, notation, number};
use fusewire_codec::ber::Rules;
use proptest::prelude::*;

/// Decisions, zeros when they are used up.
struct Dice<'a>(std::slice::Iter<'a, u64>);

impl Dice<'_> {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.next().map_or(0, |n| n % sides)
    }
}

/// The notation of a type.
fn a_type(dice: &mut Dice<'_>, depth: u32) -> String {
    const LEAVES: [&str; 22] = [
        "BOOLEAN",
        "NULL",
        "INTEGER",
        "INTEGER (0..255)",
        "INTEGER (-5..70000)",
        "INTEGER (0..MAX)",
        "INTEGER { one(1), two(2) }",
        "INTEGER (0..18446744073709551615)",
        "ENUMERATED { a, b(300), c, ..., d }",
        "REAL",
        "BIT STRING",
        "BIT STRING (SIZE (11))",
        "BIT STRING { x(0), y(9) }",
        "OCTET STRING",
        "OCTET STRING (SIZE (3))",
        "OBJECT IDENTIFIER",
        "RELATIVE-OID",
        "UTF8String",
        "PrintableString",
        "IA5String (SIZE (2))",
        "BMPString",
        "UTCTime",
    ];
    let kinds = if depth == 0 { 1 } else { 3 };
    match dice.roll(kinds) {
        0 => LEAVES[dice.roll(LEAVES.len() as u64) as usize].to_owned(),
        1 => {
            let of = if dice.roll(2) == 0 { "SEQUENCE" } else { "SET" };
            let size = if dice.roll(3) == 0 { " SIZE (2)" } else { "" };
            format!("{of}{size} OF {}", a_type(dice, depth - 1))
        }
        _ => {
            let of = ["SEQUENCE", "SET", "CHOICE"][dice.roll(3) as usize];
            let mut parts: Vec<String> = Vec::new();
            let marker = dice.roll(6);
            for n in 0..1 + dice.roll(5) {
                if n == marker {
                    parts.push("...".to_owned());
                }
                let optional = if of != "CHOICE" && dice.roll(3) == 0 { " OPTIONAL" } else { "" };
                let part = format!("c{n} {}{optional}", a_type(dice, depth - 1));
                let is_grouped = n > marker && of != "CHOICE" && dice.roll(3) == 0;
                parts.push(if is_grouped { format!("[[ {part} ]]") } else { part });
            }
            if of != "CHOICE" && marker > 4 {
                parts.push("last INTEGER DEFAULT 7".to_owned());
            }
            format!("{of} {{ {} }}", parts.join(", "))
        }
    }
}

fn a_value(schema: &Schema<'_, '_>, ty: TypeId, dice: &mut Dice<'_>) -> Value {
    let bytes =
        |dice: &mut Dice<'_>, len: u64| (0..len).map(|_| dice.roll(256) as u8).collect::<Vec<u8>>();
    match &schema.get(ty).kind {
        Kind::Boolean => Value::Boolean(dice.roll(2) == 1),
        Kind::Null => Value::Null,
        Kind::Integer(of) => match of.bounds {
            (None, None) => {
                // With names it is 64 bits wide in XDR.
                let len = 1 + dice.roll(if of.names.is_empty() { 20 } else { 8 });
                Value::Integer(number::minimal(&bytes(dice, len)).to_vec())
            }
            (low, high) => {
                let (low, high) = (low.unwrap_or(-9), high.unwrap_or(i128::from(u64::MAX) << 8));
                let far = (i128::from(dice.roll(u64::MAX)) << 8) % (high - low + 1);
                Value::integer(low + far)
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
            let len = size.fixed().map_or_else(|| dice.roll(40), |n| n as u64);
            let mut bits = bytes(dice, len.div_ceil(8));
            let unused = (len.wrapping_neg() % 8) as u8;
            if let Some(last) = bits.last_mut() {
                *last = *last & (0xff << unused) | if names.is_empty() { 0 } else { 1 << unused };
            }
            Value::Bits(bits, unused)
        }
        Kind::Octets(size) => {
            let len = size.fixed().map_or_else(|| dice.roll(200), |n| n as u64);
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
                fusewire_asn1::ast::Simple::UtcTime => "991231235959Z".to_owned(),
                _ => {
                    let len = size.fixed().map_or_else(|| dice.roll(20), |n| n as u64);
                    (0..len).map(|_| char::from(b'a' + dice.roll(26) as u8)).collect()
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
            let len = of.size.fixed().map_or_else(|| dice.roll(5), |n| n as u64);
            Value::List((0..len).map(|_| a_value(schema, of.element, dice)).collect())
        }
        Kind::Choice(of) => {
            let index = dice.roll(of.alternatives.len() as u64) as usize;
            Value::Choice(index, Box::new(a_value(schema, of.alternatives[index].ty, dice)))
        }
        Kind::Open(_) | Kind::Unknown(_) => panic!("none of these is made"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn what_is_encoded_decodes_as_the_same(
        of_type in prop::collection::vec(any::<u64>(), 0..60),
        of_value in prop::collection::vec(any::<u64>(), 0..400),
    ) {
        let notation_of = a_type(&mut Dice(of_type.iter()), 3);
        let module = format!("M DEFINITIONS AUTOMATIC TAGS ::= BEGIN T ::= {notation_of} END");
        let file = File::parse(0, Source::new("m", module.as_bytes()));
        prop_assert!(file.is_readable(), "{module}");
        let world = World::new([&file]);
        let mut schema = Schema::new(&world);
        let ty = schema.type_named("M.T").unwrap();
        let value = a_value(&schema, ty, &mut Dice(of_value.iter()));
        let limits = Limits::default();
        // DER sorts: the value that it gives is the one to compare with.
        let der = ber::encode(&schema, ty, &value, Rules::Der).unwrap();
        let value = ber::decode(&schema, ty, &der, Rules::Der, limits).unwrap();
        prop_assert_eq!(ber::encode(&schema, ty, &value, Rules::Der).unwrap(), der.clone());
        let again = ber::encode(&schema, ty, &value, Rules::Ber).unwrap();
        prop_assert_eq!(ber::decode(&schema, ty, &again, Rules::Ber, limits).unwrap(), value.clone());
        for syntax in [Syntax::Oer, Syntax::Coer, Syntax::Lws(2), Syntax::Lws(4), Syntax::Lws(8), Syntax::Xdr] {
            let bytes = forward::encode(&schema, ty, &value, syntax);
            prop_assert!(bytes.is_ok(), "{syntax:?} {bytes:?} {module}");
            let bytes = bytes.unwrap();
            let again = forward::decode(&schema, ty, &bytes, syntax, limits);
            prop_assert!(again.as_ref() == Ok(&value), "{syntax:?} {again:?} {value:?} {module} {bytes:x?}");
        }
        let json = jer::to_json(&schema, &value, ty);
        prop_assert_eq!(jer::from_json(&schema, &json, ty), Ok(value.clone()), "{}", json);
        let text = notation::to_text(&schema, &value, ty);
        let input = notation::Text::new(1, "text", &text, std::slice::from_ref(&file), "T");
        prop_assert!(input.is_ok(), "{text} {module}");
        let input = input.unwrap();
        let world = World::new([&file, input.file()]);
        let mut schema = Schema::new(&world);
        let ty = schema.type_named("M.T").unwrap();
        prop_assert_eq!(notation::from_text(&mut schema, &input, ty), Ok(value), "{} {}", text, module);
    }
}
