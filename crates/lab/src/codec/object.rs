//! The performance object as the paper defines it, a CHOICE of its four lists: through our encodings, compiled for the
//! type and read from the module alone; and inside an OPAQUE.
//!
//! The interpreter knows a type from its module and walks over trees of values: what a codec is before it is compiled for
//! its type. OPAQUE is no word of X.208 or X.680; it is taken here as an OCTET STRING that holds the encoding.

use std::cell::RefCell;
use std::hint::black_box;

use fusewire_asn1::names::World;
use fusewire_asn1::{File, Source};
use fusewire_asn1_values::schema::TypeId;
use fusewire_asn1_values::{Encoding, Limits, Schema};
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::types::{Octets, SetOf};
use fusewire_codec::{Error, SliceSink, lws};

use super::ours::{Of, Ours, Typed, all};
use super::p1::mpdu::PerfObject;
use super::values::wrong;
use super::{Case, Line, Plan, Values, line, schedule};
use crate::Result;

/// The module that generated code is made from too.
const MODULE: &str = include_str!("../../../../fuzz/mpdu.asn1");

/// What the interpreter is measured with: its name for it, and ours.
const INTERPRETED: [(&str, &str); 2] =
    [("ber", "BER, interpreted"), ("lws32", "LWS32, interpreted")];

/// The object with each of its lists, in each of our encodings.
///
/// # Errors
/// A codec does not read what it wrote, or two make different bytes.
pub fn run(plan: &Plan<'_>) -> Result<Vec<Line>> {
    let values = Values::made(1);
    let typed = Typed::of(&values)?;
    let objects = [
        ("ints", typed.ints.len(), PerfObject::Ints(typed.ints.clone())),
        ("reals", typed.reals.len(), PerfObject::Real(typed.reals.clone())),
        ("strings", typed.strings.len(), PerfObject::Strings(typed.strings.clone())),
        ("mpdus", typed.mpdus.len(), PerfObject::Mpdus(SetOf(typed.mpdus.clone()))),
    ];
    let file = File::parse(0, Source::new("mpdu.asn1", MODULE.as_bytes()));
    let world = World::new([&file]);
    let mut schema = Schema::new(&world);
    let ty = schema.type_named("Mpdu.PerfObject").map_err(interpreter)?;
    let _cpu = schedule::Pinned::new()?;
    let mut cases = Vec::new();
    for (name, elements, value) in &objects {
        let of = &Of { name, elements: *elements, value };
        let mut ours = Ours(&mut cases);
        all!(ours, of, PerfObject<'_>);
        opaque(&mut ours, of)?;
        for (encoding, codec) in INTERPRETED {
            let compiled = codec.split(',').next().unwrap_or_default();
            let same = |case: &&Case<'_>| case.of == *name && case.codec == compiled;
            let bytes = cases.iter().find(same).map_or(0, |case| case.bytes);
            if interpreted(&schema, ty, encoding, codec, of, &mut cases)? != bytes {
                return Err(differ(codec, "makes something else than what is compiled"));
            }
        }
    }
    let time = |case: usize, repeats: u64, cases: &mut [Case<'_>]| Ok(cases[case].time(repeats));
    let samples = schedule::run(plan, &mut cases, time)?;
    Ok(cases.iter().zip(samples).map(|(case, samples)| line(case, samples)).collect())
}

fn differ(method: &str, what: &str) -> crate::Error {
    crate::Error::Wrong { method: method.to_owned(), what: what.to_owned() }
}

fn interpreter(error: fusewire_asn1_values::Error) -> crate::Error {
    differ("interpreter", &error.to_string())
}

/// Encoded by itself, and that as an OCTET STRING; read the other way round.
fn opaque<'v>(ours: &mut Ours<'_, 'v>, of: &Of<'v, PerfObject<'v>>) -> Result<()> {
    let inner = RefCell::new(Vec::new());
    let encode = move |value: &PerfObject<'v>, room: &mut [u8]| {
        let mut inner = inner.borrow_mut();
        let bytes = ber::encode_in(value, Rules::Ber, &mut inner)?;
        let end = room.len();
        let mut outer = ber::Encoder::new(room, Rules::Ber);
        ber::Encode::encode(&Octets::new(bytes), &mut outer)?;
        Ok((outer.start(), end))
    };
    ours.both("BER, OPAQUE", of, encode, |bytes| {
        let inner: Octets<'_> = ber::from_bytes(bytes, Rules::Ber)?;
        ber::from_bytes::<PerfObject<'_>>(inner.as_bytes(), Rules::Ber).map(drop)
    })?;
    let inner = RefCell::new(vec![0; super::ours::ROOM]);
    let encode = move |value: &PerfObject<'v>, room: &mut [u8]| {
        let mut inner = inner.borrow_mut();
        let mut encoder = lws::Encoder::<_, u32>::new(SliceSink::new(&mut inner));
        lws::Encode::encode(value, &mut encoder)?;
        let len = encoder.position();
        let mut outer = lws::Encoder::<_, u32>::new(SliceSink::new(room));
        lws::Encode::encode(&Octets::new(&inner[..len]), &mut outer)?;
        Ok((0, outer.position()))
    };
    ours.both("LWS32, OPAQUE", of, encode, |bytes| {
        let inner: Octets<'_> = lws::from_bytes::<u32, _>(bytes)?;
        lws::from_bytes::<u32, PerfObject<'_>>(inner.as_bytes()).map(drop)
    })
}

/// Both directions; gives the bytes of the encoding.
fn interpreted<'c>(
    schema: &'c Schema<'_, '_>,
    ty: TypeId,
    encoding: &str,
    codec: &str,
    of: &Of<'_, PerfObject<'_>>,
    cases: &mut Vec<Case<'c>>,
) -> Result<usize> {
    let by = Encoding::from_name(encoding).ok_or_else(|| differ(codec, "is not known"))?;
    let mut room = Vec::new();
    // The tree is made of what the compiled codec wrote, and is what it reads.
    let ber = ber::encode_in(of.value, Rules::Ber, &mut room).map_err(|e| wrong(codec, &e))?;
    let tagged = Encoding::Tagged(Rules::Ber);
    let value = tagged.decode(schema, ty, ber, Limits::default()).map_err(interpreter)?;
    let bytes = by.encode(schema, ty, &value).map_err(interpreter)?;
    let read: std::result::Result<PerfObject<'_>, Error> = match by {
        Encoding::Tagged(rules) => ber::from_bytes(&bytes, rules),
        Encoding::Forward(_) => lws::from_bytes::<u32, _>(&bytes),
    };
    if read.map_err(|e| wrong(codec, &e))? != *of.value {
        return Err(differ(codec, "is read as another value"));
    }
    let len = bytes.len();
    let mut add = |direction, round| {
        let (codec, name) = (codec.into(), of.name.into());
        let elements = of.elements;
        cases.push(Case { codec, of: name, direction, elements, bytes: len, round });
    };
    add(
        "encode",
        Box::new(move || {
            let _ = black_box(by.encode(schema, ty, black_box(&value)));
        }),
    );
    add(
        "decode",
        Box::new(move || {
            let bytes = black_box(&bytes[..]);
            let _ = black_box(by.decode(schema, ty, bytes, Limits::default()));
        }),
    );
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_codec_has_every_list_both_ways() {
        let level = fusewire_kernels::Level::detect();
        let plan = Plan { values: None, peers: None, rounds: 1, round: Duration::ZERO, level };
        let lines = run(&plan).unwrap();
        for codec in ["BER", "LWS32", "BER, OPAQUE", "LWS32, OPAQUE", "BER, interpreted"] {
            for of in ["ints", "reals", "strings", "mpdus"] {
                let found: Vec<_> =
                    lines.iter().filter(|line| line.codec == codec && line.of == of).collect();
                let directions: Vec<_> = found.iter().map(|line| line.direction).collect();
                assert_eq!(directions, ["encode", "decode"], "{codec}, {of}");
                assert!(found.iter().all(|line| line.ns_per_element > 0.0 && line.bytes > 0));
            }
        }
        let bytes = |codec: &str, of: &str| {
            lines.iter().find(|line| line.codec == codec && line.of == of).unwrap().bytes
        };
        // A tag and a length around it; a count.
        assert_eq!(bytes("BER, OPAQUE", "mpdus"), bytes("BER", "mpdus") + 4);
        assert_eq!(bytes("LWS32, OPAQUE", "ints"), bytes("LWS32", "ints") + 4);
    }
}
