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
use generated::{choices, implicit_stamps, plain_times, stamps, times};

const MODULES: &str = include_str!("../asn1/Vectors.asn1");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| *b != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Decodes an encoding with generated code and returns the value's encoding.
type Again = fn(&str, &[u8]) -> Result<Vec<u8>, fusewire_codec::Error>;

fn again<'a, T>(encoding: &str, bytes: &'a [u8]) -> Result<Vec<u8>, fusewire_codec::Error>
where
    T: ber::Encode + ber::Decode<'a> + oer::Encode + oer::Decode<'a>,
{
    match encoding {
        "ber" => ber::to_vec(&ber::from_bytes::<T>(bytes, Rules::Ber)?, Rules::Ber),
        "der" => ber::to_vec(&ber::from_bytes::<T>(bytes, Rules::Der)?, Rules::Der),
        "oer" => oer::to_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Oer)?),
        _ => oer::to_canonical_vec(&oer::from_bytes::<T>(bytes, oer::Rules::Coer)?),
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

/// An encoding that is valid, and not canonical.
#[track_caller]
fn refused_only_by(ty: &str, again: Again, canonical: &str, basic: &str, given: &str) {
    let given = bytes(given);
    assert_eq!(hex(&again(basic, &given).expect(basic)), hex(&given));
    let text = decoded(ty, basic, &given).expect(basic);
    assert_eq!(hex(&encoded(ty, basic, &text).expect(basic)), hex(&given));

    let error = encoded(ty, canonical, &text).expect_err("the interpreter does not write it");
    assert!(error.to_string().contains("not canonical"), "{error}");
    let error = decoded(ty, canonical, &given).expect_err("the interpreter does not read it");
    let found = again(canonical, &given).expect_err("generated code does not read it");
    assert_eq!(error.offset, Some(found.offset()), "{error}; {found}");
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

/// X.680, 52.7: what is added to an extensible CHOICE may come where it is an alternative.
#[test]
fn unknown_tags_are_of_the_inner_choice_that_is_extensible() {
    use choices::OfOpen;
    let of_open = |e: &str, b: &[u8]| again::<OfOpen>(e, b);
    agree("Choices.OfOpen", of_open, &OER, "open : ... [5] : '01FF'H", "85 85 02 01ff");
    agree("Choices.OfOpen", of_open, &["ber", "der"], "open : ... '8501FF'H", "85 01 ff");
    refused("Choices.OfOpen", of_open, &OER, "85 86 02 01ff");
    refused("Choices.Outer", |e, b| again::<choices::Outer>(e, b), &["ber"], "85 01 ff");
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

/// X.690, 8.26 and X.696, 29, by asn1tools.
#[test]
fn useful_times_have_no_separators() {
    use plain_times::Plain;
    let ty = "PlainTimes.Plain";
    let text = "{ day \"2024-02-29\", hour \"23:59:58\", moment \"2024-02-29T23:59:58\" }";
    let der =
        "30 25 1f1f08 3230323430323239 1f2006 323335393538 1f210e 3230323430323239323335393538";
    agree(ty, |e, b| again::<Plain>(e, b), &["ber", "der"], text, der);
    let oer = "0207e8021d 173b3a 0207e8021d173b3a";
    agree(ty, |e, b| again::<Plain>(e, b), &OER, text, oer);

    use times::{Days, Either, Entry};
    let text = "{ \"1900-01-01\", \"9999-12-31\" }";
    agree("Times.Days", |e, b| again::<Days>(e, b), &OER, text, "0102 02076c0101 02270f0c1f");
    let text = "moment : \"2024-02-29T23:59:58\"";
    agree("Times.Either", |e, b| again::<Either>(e, b), &OER, text, "82 0207e8021d173b3a");
    let entry = "{ day \"2024-02-29\" }";
    let der = "300a 8008 3230323430323239";
    agree("Times.Entry", |e, b| again::<Entry>(e, b), &["der"], entry, der);
    agree("Times.Entry", |e, b| again::<Entry>(e, b), &OER, entry, "00 0207e8021d");
}

#[test]
fn useful_times_are_checked() {
    use times::{Day, Hour, Moment};
    let day = |e: &str, b: &[u8]| again::<Day>(e, b);
    let hour = |e: &str, b: &[u8]| again::<Hour>(e, b);
    let moment = |e: &str, b: &[u8]| again::<Moment>(e, b);
    for wrong in ["40 08 3230323330323239", "40 0a 323032342d30322d3239", "40 06 6e6f64617465"] {
        refused("Times.Day", day, &["ber", "der"], wrong);
    }
    refused("Times.Hour", hour, &["ber", "der"], "41 06 323435393538");
    refused("Times.Moment", moment, &["ber", "der"], "42 0e 3230323430323239323335393631");
    // A day that there is not, a year that takes more octets than it needs, and one that DATE does not have.
    refused("Times.Day", day, &OER, "0207e7021d");
    refused("Times.Day", day, &["coer"], "030007e8021d");
    refused("Times.Day", day, &OER, "02062d0c1f");
    refused("Times.Hour", hour, &OER, "180001");
    for (ty, text) in [
        ("Day", "nodate"),
        ("Day", "2023-02-29"),
        ("Day", "20240229"),
        ("Hour", "24:59:58"),
        ("Moment", "2024-02-29 23:59:58"),
    ] {
        for encoding in Encoding::ALL {
            let error = encoded(&format!("Times.{ty}"), encoding.0, &format!("\"{text}\""));
            let error = error.expect_err(text).to_string();
            assert!(error.contains("such as") && error.contains(text), "{error}");
        }
    }
}

#[test]
fn times_that_are_not_canonical_are_refused() {
    use times::Stamp;
    let stamp = |e: &str, b: &[u8]| again::<Stamp>(e, b);
    let times = [
        (0, "20240229235959.50Z"),
        (0, "202402292359Z"),
        (0, "20240229235959"),
        (0, "20240229235959,5Z"),
        (0, "20240229235959+0100"),
        (1, "2402292359Z"),
        (1, "240229235959+0100"),
    ];
    for (number, time) in times {
        let len = time.len();
        let contents = format!("{len:02x}{}", hex(time.as_bytes()));
        let ber = format!("30{:02x}{:02x}{contents}", len + 2, 0x80 + number);
        refused_only_by("Times.Stamp", stamp, "der", "ber", &ber);
        let given = bytes(&ber);
        let value = ber::from_bytes::<Stamp>(&given, Rules::Ber).expect("BER");
        let error = ber::to_vec(&value, Rules::Der).expect_err("generated code does not write it");
        assert!(error.to_string().contains("not canonical"), "{error}");
        let oer = format!("{:02x}{contents}", 0x80 >> number);
        refused_only_by("Times.Stamp", stamp, "coer", "oer", &oer);
        let given = bytes(&oer);
        let value = oer::from_bytes::<Stamp>(&given, oer::Rules::Oer).expect("OER");
        let error = oer::to_canonical_vec(&value).expect_err("generated code does not write it");
        assert!(error.to_string().contains("not canonical"), "{error}");
    }
    let canonical = "3014 8012 32303234303232393233353935392e35355a";
    let text = "{ g \"20240229235959.55Z\" }";
    agree("Times.Stamp", stamp, &["ber", "der"], text, canonical);
}

#[test]
fn characters_and_times_of_notation_are_checked() {
    let file = File::parse(
        0,
        Source::new(
            "m.asn1",
            b"M DEFINITIONS ::= BEGIN G ::= GeneralizedTime U ::= UTCTime N ::= NumericString
            P ::= PrintableString V ::= VisibleString I ::= IA5String Od ::= OBJECT IDENTIFIER END",
        ),
    );
    let files = std::slice::from_ref(&file);
    for (ty, text, place) in [
        ("G", "\"hello\"", "input:1:1"),
        ("G", "\"20241329235959Z\"", "input:1:1"),
        ("U", "\"241329235959Z\"", "input:1:1"),
        ("N", "\"12a\"", "input:1:1"),
        ("P", "\"a@b\"", "input:1:1"),
        ("I", "\"\u{e9}\"", "input:1:1"),
        ("V", "\"a\tb\"", "input:1:1"),
        ("N", "'41'H", "input:1:1"),
        ("Od", "'80'H", "input:1:1"),
    ] {
        let input = notation::Text::new(1, "input", text, files, ty).expect("notation");
        let world = World::new(files.iter().chain([input.file()]));
        let mut schema = Schema::new(&world);
        let id = schema.type_named(ty).expect("a type");
        let error = notation::from_text(&mut schema, &input, id).expect_err(text).to_string();
        assert!(error.starts_with(place), "{error}");
        // Also a value that did not come from notation.
        let raw = fusewire_asn1_values::Value::Text(vec![0xff]);
        for (name, _, encoding) in Encoding::ALL {
            assert!(encoding.encode(&schema, id, &raw).is_err(), "{ty} in {name}");
        }
    }
}
