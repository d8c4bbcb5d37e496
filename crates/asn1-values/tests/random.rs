//! Random types, random values of them, every encoding: what is encoded decodes as the same.

mod made;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::{Encoding, Limits, Schema, jer, notation};
use fusewire_codec::ber::Rules;
use made::{Dice, a_value};
use proptest::prelude::*;

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
        let der = Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap();
        let value = Encoding::Tagged(Rules::Der).decode(&schema, ty, &der, limits).unwrap();
        prop_assert_eq!(Encoding::Tagged(Rules::Der).encode(&schema, ty, &value).unwrap(), der);
        for (name, _, encoding) in Encoding::ALL {
            let bytes = encoding.encode(&schema, ty, &value);
            prop_assert!(bytes.is_ok(), "{name} {bytes:?} {module}");
            let bytes = bytes.unwrap();
            let again = encoding.decode(&schema, ty, &bytes, limits);
            prop_assert!(again.as_ref() == Ok(&value), "{name} {again:?} {value:?} {module} {bytes:x?}");
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
