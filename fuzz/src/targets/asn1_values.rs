//! Values by their module, one with every type: what decodes is shown, read and encoded, and what a canonical
//! encoding takes is encoded as it was.

use std::sync::LazyLock;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::characters::is_unsafe;
use fusewire_asn1_values::{Encoding, Limits, Schema, Syntax, jer, notation};
use fusewire_codec::ber::Rules;

static MODULE: LazyLock<Vec<File>> = LazyLock::new(|| {
    let text = include_bytes!("../../../crates/asn1-values/tests/everything.asn1");
    vec![File::parse(0, Source::new("everything.asn1", text))]
});

const TYPES: [&str; 8] =
    ["All", "Small", "Strings", "Times", "Choice", "Extended", "Attribute", "Tree"];

const LIMITS: Limits = Limits { depth: 24, size: 1 << 16, count: 1 << 10 };

/// Runs one input: the first byte chooses the type and the encoding.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let world = World::new(MODULE.iter());
    let mut schema = Schema::new(&world);
    let ty_name = TYPES[usize::from(first & 7)];
    let ty = schema.type_named(ty_name).expect("a type of the module");
    let (_, _, by) = Encoding::ALL[usize::from(first >> 3 & 7)];
    let value = match by.decode(&schema, ty, data, LIMITS) {
        Ok(value) => value,
        Err(error) => return assert!(error.offset.is_none_or(|o| o <= data.len()), "{error}"),
    };
    let bytes = by.encode(&schema, ty, &value).expect("what was decoded encodes");
    let coer = Encoding::Forward(Syntax::Coer);
    if by == Encoding::Tagged(Rules::Der) || by == coer && !may_be_later(ty_name) {
        assert_eq!(bytes, data, "one encoding for each value");
    }
    let again = by.decode(&schema, ty, &bytes, LIMITS).expect("what was encoded decodes");
    assert_eq!(by.encode(&schema, ty, &again).expect("encodes again"), bytes);
    let json = jer::to_json(&schema, &value, ty);
    assert!(!json.contains(is_unsafe), "{json:?}");
    let text = notation::to_text(&schema, &value, ty);
    assert!(!text.contains(|c| c != '\n' && is_unsafe(c)), "{text:?}");
    // What JSON has no numbers for, it has not: NaN of other bits, a REAL of more digits.
    jer::from_json(&schema, &json, ty).unwrap_or_else(|e| panic!("{e}: {json}"));
    if data.len() < 400 {
        read(&text, ty_name);
    }
}

/// Who knows more additions than we do writes a bit for each, also for those that are absent (X.696, section 16); we
/// write as many as we know, so that its encoding is not ours.
fn may_be_later(ty: &str) -> bool {
    matches!(ty, "Extended" | "All")
}

/// The notation that was printed is read.
fn read(text: &str, ty: &str) {
    let input = notation::Text::new(1, "input", text, &MODULE, ty);
    let input = input.unwrap_or_else(|e| panic!("{e}: {text}"));
    let world = World::new(MODULE.iter().chain([input.file()]));
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty).expect("a type of the module");
    notation::from_text(&mut schema, &input, id).unwrap_or_else(|e| panic!("{e}: {text}"));
}

/// A value of everything in each encoding.
pub fn seeds() -> Vec<Vec<u8>> {
    let text = include_str!("../../../crates/asn1-values/tests/everything.txt");
    let input = notation::Text::new(1, "input", text, &MODULE, "All").expect("notation");
    let world = World::new(MODULE.iter().chain([input.file()]));
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("All").expect("a type of the module");
    let value = notation::from_text(&mut schema, &input, ty).expect("a value");
    let encodings = (0_u8..).zip(Encoding::ALL);
    let whole = encodings.map(|(n, (_, _, by))| {
        [vec![n << 3], by.encode(&schema, ty, &value).expect("encodes")].concat()
    });
    let small: [&[u8]; 4] = [
        b"\x09\x30\x09\x82\x02\x06\x40\xa3\x03\x02\x01\x07",
        b"\x0c\x80\x01\x05",
        b"\x0f\x30\x06\xa0\x01\x00\x02\x01\x05",
        b"\x1d\x80\x01\x05\x02\x05\x20\x03\x01\x02\x03",
    ];
    whole.chain(small.iter().map(|s| s.to_vec())).collect()
}
