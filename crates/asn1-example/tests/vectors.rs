//! Encodings that are known from elsewhere: generated code and the interpreter of the modules write just these and read
//! them, and both refuse what is no encoding.
//!
//! A vector names its source: "asn1tools" is version 0.169 of that compiler, "clause" the text that is cited.

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_example as generated;
use fusewire_asn1_values::{Encoding, Error, Limits, Schema, notation};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::oer;
use generated::{choices, implicit_stamps, stamps};

const MODULES: &str = include_str!("../asn1/Vectors.asn1");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// What generated code makes of an encoding: the value's encoding again.
type Again = fn(&str, &[u8]) -> Result<Vec<u8>, fusewire_codec::Error>;

fn again<'a, T>(encoding: &str, bytes: &'a [u8]) -> Result<Vec<u8>, fusewire_codec::Error>
where
    T: ber::Encode + ber::Decode<'a> + oer::Encode + oer::Decode<'a>,
{
    match encoding {
        "ber" => ber::to_vec(&ber::from_bytes::<T>(bytes, Rules::Ber)?, Rules::Ber),
        "der" => ber::to_vec(&ber::from_bytes::<T>(bytes, Rules::Der)?, Rules::Der),
        "oer" => oer::to_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Oer)?),
        _ => oer::to_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Coer)?),
    }
}

fn modules() -> File {
    File::parse(0, Source::new("Vectors.asn1", MODULES.as_bytes()))
}

/// The interpreter's encoding of notation.
fn encoded(ty: &str, encoding: &str, text: &str) -> Result<Vec<u8>, Error> {
    let file = modules();
    let files = std::slice::from_ref(&file);
    let input = notation::Text::new(1, "input", text, files, ty)?;
    let world = World::new(files.iter().chain([input.file()]));
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty)?;
    let value = notation::from_text(&mut schema, &input, id)?;
    Encoding::from_name(encoding).expect("an encoding").encode(&schema, id, &value)
}

/// The interpreter's notation of an encoding.
fn decoded(ty: &str, encoding: &str, bytes: &[u8]) -> Result<String, Error> {
    let file = modules();
    let world = World::new([&file]);
    let mut schema = Schema::new(&world);
    let id = schema.type_named(ty)?;
    let encoding = Encoding::from_name(encoding).expect("an encoding");
    let value = encoding.decode(&schema, id, bytes, Limits::default())?;
    Ok(notation::to_text(&schema, &value, id).split_whitespace().collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn agree(ty: &str, again: Again, encodings: &[&str], text: &str, expected: &str) {
    let expected = bytes(expected);
    for encoding in encodings {
        let written =
            encoded(ty, encoding, text).unwrap_or_else(|e| panic!("{ty} {encoding}: {e}"));
        assert_eq!(hex(&written), hex(&expected), "{ty} {encoding} by the interpreter");
        let read = decoded(ty, encoding, &expected).unwrap_or_else(|e| panic!("{ty}: {e}"));
        assert_eq!(read, text, "{ty} {encoding} by the interpreter");
        let written = again(encoding, &expected).unwrap_or_else(|e| panic!("{ty} {encoding}: {e}"));
        assert_eq!(hex(&written), hex(&expected), "{ty} {encoding} by generated code");
        for len in 0..expected.len() {
            assert!(again(encoding, &expected[..len]).is_err(), "{ty} {encoding} cut at {len}");
            assert!(decoded(ty, encoding, &expected[..len]).is_err(), "{ty} {encoding} at {len}");
        }
    }
}

#[track_caller]
fn refused(ty: &str, again: Again, encodings: &[&str], wrong: &str) {
    let wrong = bytes(wrong);
    for encoding in encodings {
        let error = decoded(ty, encoding, &wrong).expect_err("the interpreter refuses it");
        let found = again(encoding, &wrong).expect_err("generated code refuses it");
        assert_eq!(error.offset, Some(found.offset()), "{error}; {found}");
    }
}

const OER: [&str; 2] = ["oer", "coer"];

/// X.696, 20.1: the outermost tag of the selected alternative, then its encoding, which in an untagged CHOICE begins
/// with a tag again. `Tagged` is also what asn1tools and pycrate 0.8.1 write; they refuse the others.
#[test]
fn each_choice_within_a_choice_writes_its_tag() {
    use choices::*;
    agree("Choices.Outer", |e, b| again::<Outer>(e, b), &OER, "inner : i : 5", "83 8305");
    agree("Choices.Outer", |e, b| again::<Outer>(e, b), &OER, "inner : s : \"a\"", "84 840161");
    agree("Choices.Outer", |e, b| again::<Outer>(e, b), &OER, "b : TRUE", "01 ff");
    agree("Choices.Three", |e, b| again::<Three>(e, b), &OER, "two : inner : i : 5", "83 83 8305");
    agree("Choices.Three", |e, b| again::<Three>(e, b), &OER, "two : y : NULL", "88 88");
    agree("Choices.Extended", |e, b| again::<Extended>(e, b), &OER, "inner : i : 5", "83 02 8305");
    agree("Choices.OfOpen", |e, b| again::<OfOpen>(e, b), &OER, "open : n : NULL", "bf8768 bf8768");
    agree("Choices.OfInner", |e, b| again::<OfInner>(e, b), &OER, "t : i : 5", "83 8305");
    agree(
        "Choices.Holder",
        |e, b| again::<Holder>(e, b),
        &OER,
        "{ o inner : i : 5, n 7 }",
        "83 8305 07",
    );
    agree("Choices.Tagged", |e, b| again::<Tagged>(e, b), &OER, "inner : i : 5", "80 8305");
    let text = "more : pair : { a leaf : TRUE, b more : pair : { a leaf : FALSE, b leaf : TRUE } }";
    agree("Choices.Tree", |e, b| again::<Tree>(e, b), &OER, text, "86 86 85ff 86 86 8500 85ff");
}

#[test]
fn tags_of_choices_within_choices_must_be_the_same() {
    use choices::*;
    refused("Choices.Outer", |e, b| again::<Outer>(e, b), &OER, "83 840161");
    refused("Choices.Outer", |e, b| again::<Outer>(e, b), &OER, "8305");
    refused("Choices.Three", |e, b| again::<Three>(e, b), &OER, "83 84 840161");
    refused("Choices.Extended", |e, b| again::<Extended>(e, b), &OER, "83 03 840161");
}

/// The tags of BER are as they were.
#[test]
fn choices_within_choices_have_one_tag_in_ber() {
    use choices::*;
    agree(
        "Choices.Three",
        |e, b| again::<Three>(e, b),
        &["ber", "der"],
        "two : inner : i : 5",
        "83 01 05",
    );
}

/// X.680, 31.2.7 c: a tag in front of an untagged DummyReference is EXPLICIT. By asn1tools (and pycrate 0.8.1 for
/// `OfPosition` and `OfPick`).
#[test]
fn tags_of_parameters_are_explicit() {
    let der = ["ber", "der"];
    let (position, text) = ("30 0a 800101 a105 3003800102", "{ at 1, what { a 2 } }");
    agree("Stamps.OfPosition", |e, b| again::<stamps::OfPosition>(e, b), &der, text, position);
    agree("Stamps.OfHanded", |e, b| again::<stamps::OfHanded>(e, b), &der, text, position);
    let integer = "30 08 800101 a103 020102";
    agree(
        "Stamps.OfInteger",
        |e, b| again::<stamps::OfInteger>(e, b),
        &der,
        "{ at 1, what 2 }",
        integer,
    );
    let listed = "30 07 a005 3003800102";
    agree(
        "Stamps.OfListed",
        |e, b| again::<stamps::OfListed>(e, b),
        &der,
        "{ x { { a 2 } } }",
        listed,
    );
    let pick = "a005 3003800102";
    agree("Stamps.OfPick", |e, b| again::<stamps::OfPick>(e, b), &der, "one : { a 2 }", pick);
    let picks = "a007 a005 3003800102";
    agree(
        "Stamps.OfPicks",
        |e, b| again::<stamps::OfPicks>(e, b),
        &der,
        "one : one : { a 2 }",
        picks,
    );

    let implicit = "30 0a 020101 a105 3003020102";
    agree(
        "ImplicitStamps.OfPosition",
        |e, b| again::<implicit_stamps::OfPosition>(e, b),
        &der,
        text,
        implicit,
    );
    let around = "a505 3003020102";
    let of_around: Again = |e, b| again::<implicit_stamps::OfAround>(e, b);
    agree("ImplicitStamps.OfAround", of_around, &der, "{ a 2 }", around);
}
