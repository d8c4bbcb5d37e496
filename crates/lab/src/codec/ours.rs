//! Our encodings of each type: one closure a direction.

use super::Case;
use super::p1::mpdu::MPDU;
use super::values::{Values, wrong};
use crate::Result;
use fusewire_codec::ber::{self, Rules};
use fusewire_codec::lws::{self, Word};
use fusewire_codec::types::PrintableString;
use fusewire_codec::{Error, SliceSink, oer, xdr};
use std::hint::black_box;

/// Bytes that each encoding has room for.
pub(super) const ROOM: usize = 1 << 17;

/// What is measured of one value: its name, how many elements it has, and itself.
pub(super) struct Of<'v, T> {
    pub(super) name: &'static str,
    pub(super) elements: usize,
    pub(super) value: &'v T,
}

/// What decodes and lets the value go again.
pub(super) type Decode = fn(&[u8]) -> std::result::Result<(), Error>;

/// Our cases, as they come.
pub(super) struct Ours<'c, 'v>(pub(super) &'c mut Vec<Case<'v>>);

impl<'v> Ours<'_, 'v> {
    /// The case of one codec and type, in both directions. `encode` gives where in the room the encoding is.
    pub(super) fn both<T>(
        &mut self,
        codec: &str,
        of: &Of<'v, T>,
        encode: impl Fn(&T, &mut [u8]) -> std::result::Result<(usize, usize), Error> + 'v,
        decode: Decode,
    ) -> Result<()> {
        let mut room = vec![0; ROOM];
        let (start, end) = encode(of.value, &mut room).map_err(|e| wrong(codec, &e))?;
        let bytes = room[start..end].to_vec();
        decode(&bytes).map_err(|e| wrong(codec, &e))?;
        let value = of.value;
        let len = bytes.len();
        let mut add = |direction, round| {
            self.0.push(Case {
                codec: codec.into(),
                of: of.name.into(),
                direction,
                elements: of.elements,
                bytes: len,
                round,
            });
        };
        add(
            "encode",
            Box::new(move || {
                let _ = black_box(encode(black_box(value), black_box(&mut room)));
            }),
        );
        add(
            "decode",
            Box::new(move || {
                let _ = black_box(decode(black_box(&bytes)));
            }),
        );
        Ok(())
    }

    pub(super) fn ber<T: ber::Encode>(
        &mut self,
        rules: Rules,
        of: &Of<'v, T>,
        decode: Decode,
    ) -> Result<()> {
        let codec = if rules == Rules::Ber { "BER" } else { "DER" };
        let encode = move |value: &T, room: &mut [u8]| {
            let end = room.len();
            let mut encoder = ber::Encoder::new(room, rules);
            value.encode(&mut encoder)?;
            Ok((encoder.start(), end))
        };
        self.both(codec, of, encode, decode)
    }

    /// BER with what is constructed in the indefinite form.
    fn indefinite<T: ber::Encode>(&mut self, of: &Of<'v, T>, decode: Decode) -> Result<()> {
        let encode = move |value: &T, room: &mut [u8]| {
            let end = room.len();
            let mut encoder = ber::Encoder::new(room, Rules::Ber).indefinite();
            value.encode(&mut encoder)?;
            Ok((encoder.start(), end))
        };
        self.both("BER indefinite", of, encode, decode)
    }

    pub(super) fn lws<W: Word, T: lws::Encode>(
        &mut self,
        of: &Of<'v, T>,
        decode: Decode,
    ) -> Result<()> {
        let encode = |value: &T, room: &mut [u8]| {
            let mut encoder = lws::Encoder::<_, W>::new(SliceSink::new(room));
            value.encode(&mut encoder)?;
            Ok((0, encoder.position()))
        };
        self.both(&format!("LWS{}", 8 * W::BYTES), of, encode, decode)
    }

    fn oer<T: oer::Encode>(&mut self, of: &Of<'v, T>, decode: Decode) -> Result<()> {
        let encode = |value: &T, room: &mut [u8]| {
            let mut encoder = oer::Encoder::new(SliceSink::new(room));
            value.encode(&mut encoder)?;
            Ok((0, encoder.position()))
        };
        self.both("OER", of, encode, decode)
    }

    fn xdr<T>(
        &mut self,
        of: &Of<'v, Vec<T>>,
        write: fn(&mut xdr::Encoder<SliceSink<'_>>, &[T]) -> std::result::Result<(), Error>,
        decode: Decode,
    ) -> Result<()> {
        let encode = move |value: &Vec<T>, room: &mut [u8]| {
            let mut encoder = xdr::Encoder::new(SliceSink::new(room));
            write(&mut encoder, value)?;
            Ok((0, encoder.position()))
        };
        self.both("XDR", of, encode, decode)
    }
}

/// Every encoding of one type: what borrows is named anew in each.
macro_rules! all {
    ($ours:expr, $of:expr, $type:ty) => {{
        $ours.ber(Rules::Ber, $of, |b| ber::from_bytes::<$type>(b, Rules::Ber).map(drop))?;
        $ours.ber(Rules::Der, $of, |b| ber::from_bytes::<$type>(b, Rules::Der).map(drop))?;
        $ours.lws::<u16, _>($of, |b| lws::from_bytes::<u16, $type>(b).map(drop))?;
        $ours.lws::<u32, _>($of, |b| lws::from_bytes::<u32, $type>(b).map(drop))?;
        $ours.lws::<u64, _>($of, |b| lws::from_bytes::<u64, $type>(b).map(drop))?;
    }};
}

pub(super) use all;

macro_rules! oer {
    ($ours:expr, $of:expr, $type:ty) => {
        $ours.oer($of, |b| oer::from_bytes::<$type>(b, oer::Rules::Oer).map(drop))?
    };
}

/// The values in the types of the program.
pub(super) struct Typed<'v> {
    pub(super) ints: &'v Vec<i64>,
    pub(super) narrow: Vec<i32>,
    pub(super) reals: &'v Vec<f64>,
    pub(super) strings: Vec<PrintableString<'v>>,
    pub(super) mpdus: Vec<MPDU<'v>>,
}

impl<'v> Typed<'v> {
    pub(super) fn of(values: &'v Values) -> Result<Typed<'v>> {
        let strings = ber::from_bytes(&values.strings, Rules::Ber);
        let mpdus = ber::from_bytes(&values.mpdus, Rules::Ber);
        Ok(Typed {
            ints: &values.ints,
            narrow: values.ints.iter().map(|int| *int as i32).collect(),
            reals: &values.reals,
            strings: strings.map_err(|e| wrong("strings", &e))?,
            mpdus: mpdus.map_err(|e| wrong("mpdus", &e))?,
        })
    }

    /// The strings, a line each.
    pub(super) fn lines(&self) -> String {
        self.strings.iter().filter_map(|s| s.as_str()).map(|s| format!("{s}\n")).collect()
    }

    /// All our cases.
    pub(super) fn cases<'c>(&'c self, cases: &mut Vec<Case<'c>>) -> Result<()> {
        let mut ours = Ours(cases);
        let of = &Of { name: "ints", elements: self.ints.len(), value: self.ints };
        all!(ours, of, Vec<i64>);
        oer!(ours, of, Vec<i64>);
        let narrow = &Of { name: "ints32", elements: self.narrow.len(), value: &self.narrow };
        all!(ours, narrow, Vec<i32>);
        ours.xdr(
            narrow,
            |to, ints| to.array(ints, u32::MAX),
            |b| xdr::from_bytes::<Ints>(b).map(drop),
        )?;
        let of = &Of { name: "reals", elements: self.reals.len(), value: self.reals };
        all!(ours, of, Vec<f64>);
        oer!(ours, of, Vec<f64>);
        ours.xdr(
            of,
            |to, reals| to.array(reals, u32::MAX),
            |b| xdr::from_bytes::<Reals>(b).map(drop),
        )?;
        let of = &Of { name: "strings", elements: self.strings.len(), value: &self.strings };
        all!(ours, of, Vec<PrintableString<'_>>);
        oer!(ours, of, Vec<PrintableString<'_>>);
        ours.xdr(
            of,
            |to, strings| {
                to.array_of(strings, u32::MAX, |to, string| to.opaque(string.as_bytes(), u32::MAX))
            },
            |b| xdr::from_bytes::<Strings<'_>>(b).map(drop),
        )?;
        let of = &Of { name: "mpdus", elements: self.mpdus.len(), value: &self.mpdus };
        all!(ours, of, Vec<MPDU<'_>>);
        oer!(ours, of, Vec<MPDU<'_>>);
        ours.xdr(
            of,
            |to, mpdus| to.array(mpdus, u32::MAX),
            |b| xdr::from_bytes::<Vec<MPDU<'_>>>(b).map(drop),
        )?;
        ours.indefinite(of, |b| ber::from_bytes::<Vec<MPDU<'_>>>(b, Rules::Ber).map(drop))?;
        Ok(())
    }
}

/// The types of `perf.x`.
struct Ints(#[expect(dead_code, reason = "decoded, and let go")] Vec<i32>);
struct Reals(#[expect(dead_code, reason = "decoded, and let go")] Vec<f64>);
struct Strings<'a>(
    #[expect(dead_code, reason = "decoded, and let go")] Vec<fusewire_codec::types::Octets<'a>>,
);

impl<'a> xdr::Decode<'a> for Ints {
    fn decode<S: fusewire_codec::Source<'a>>(
        from: &mut xdr::Decoder<S>,
    ) -> std::result::Result<Self, Error> {
        from.array(u32::MAX).map(Ints)
    }
}

impl<'a> xdr::Decode<'a> for Reals {
    fn decode<S: fusewire_codec::Source<'a>>(
        from: &mut xdr::Decoder<S>,
    ) -> std::result::Result<Self, Error> {
        from.array(u32::MAX).map(Reals)
    }
}

impl<'a> xdr::Decode<'a> for Strings<'a> {
    fn decode<S: fusewire_codec::Source<'a>>(
        from: &mut xdr::Decoder<S>,
    ) -> std::result::Result<Self, Error> {
        from.array_of(u32::MAX, |from| from.octets(u32::MAX)).map(Strings)
    }
}
