//! Every message: round trip for every element, truncation at every length, illegal fields.

#![allow(clippy::needless_update, reason = "a field more needs no change here")]

use fusewire_codec::types::Octets;
use fusewire_codec::xdr;
use fusewire_files::Element;
use fusewire_files::message::*;
use proptest::prelude::*;

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

fn meta(kind: Kind) -> Meta {
    let mtime = Time { s: -5, ns: 999_999_999 };
    let version = Version::from(u128::from_be_bytes(*b"0123456789abcdef"));
    Meta { kind, mode: 0o751, mtime, size: 1 << 40, sparse: true, version, ..Meta::default() }
}

fn bodies() -> Vec<Body<'static>> {
    let path = octets(b"a/b \xff");
    let entry = |depth, name: &[u8]| Entry {
        depth,
        name: octets(name),
        target: octets(b"t"),
        unread: true,
        meta: meta(Kind::File),
        ..Entry::default()
    };
    let piece = |position, length| Piece { position, length };
    let data = |contents: &[u8]| Data { copy: 2, position: 1 << 33, contents: octets(contents) };
    vec![
        Body::Look(Look { path: path.clone() }),
        Body::List(List { path: path.clone(), recursive: true, credit: 9 }),
        Body::More(More { of: 3, credit: 4 }),
        Body::Get(Get {
            path: path.clone(),
            version: Version::from(7),
            piece: piece(1 << 20, 1 << 33),
            copies: 3,
            reply_bytes: 1024,
            bytes_per_s: 5,
            growing: true,
            ..Get::default()
        }),
        Body::Put(Put {
            path: path.clone(),
            meta: meta(Kind::Link),
            target: octets(b"../x"),
            replace: true,
            piece: piece(0, 12),
            ..Put::default()
        }),
        Body::Commit(Commit { of: 8 }),
        Body::Touch(Touch { path, meta: meta(Kind::Folder) }),
        Body::Cancel(Cancel { of: 1 }),
        Body::Data(data(b"hello")),
        Body::Last(Last { data: data(b"hello world"), hash: octets(&[7; 32]) }),
        Body::Last(Last { data: data(b""), hash: octets(&[8; 32]) }),
        Body::Hole(Hole { copy: 1, piece: piece(1 << 41, 1 << 20) }),
        Body::Entry(entry(0, b"x")),
        Body::Entries(Entries { first: 7, entries: vec![entry(0, b"a"), entry(1, b"bcdef")] }),
        Body::Listed(Listed { count: 1 << 35 }),
        Body::Done(Done { grew: true }),
        Body::Missing(Missing {
            pieces: vec![piece(0, 5), piece(1 << 20, 1 << 30)],
            more: true,
            hashing: Some(Hashing::Nobody),
        }),
        Body::Stored(Stored { complete: true }),
        Body::Failed(Failed { code: Code::NoSpace, detail: octets(b"words") }),
        Body::Join(Join { key: 1 << 62, place: u64::MAX }),
        Body::Report(Report { of: 1, files: 2, bytes: 3, failed: 4, wanted: Some(5) }),
        Body::Epoch(Epoch { number: 1, cipher: octets(b"aes-256-gcm"), secret: octets(&[9; 32]) }),
        Body::Cast(Cast {
            first: 3,
            files: vec![CastFile { path: octets(b"a/b"), meta: meta(Kind::File) }],
        }),
        Body::Hashes(Hashes {
            blocks: vec![
                Hashed { file: 3, block: 7, hash: octets(&[5; 32]) },
                Hashed { file: 3, block: 0, hash: octets(b"") },
            ],
        }),
        Body::Over(Over { hashes: 1 << 33 }),
    ]
}

fn octets(bytes: &[u8]) -> Octets<'static> {
    bytes.to_vec().into()
}

/// In XDR, for octets.
fn emitted(xid: u32, body: Body<'_>) -> Vec<u8> {
    emit(&Message { xid, body }, Element::Octets).unwrap()
}

#[test]
fn all_round_trip_and_nothing_shorter_or_longer_is_taken() {
    for element in ELEMENTS {
        for (xid, body) in (5..).zip(bodies()) {
            let message = Message { xid, body };
            let bytes = emit(&message, element).unwrap();
            assert_eq!(bytes.len() % element.unit(), 0);
            assert_eq!(Prefix::of(*bytes.first_chunk().unwrap(), element).xid, xid);
            assert_eq!(open(&mut bytes.clone(), element).unwrap(), message);
            for len in 0..bytes.len() {
                let cut = &mut bytes[..len].to_vec();
                assert!(open(cut, element).is_err(), "{message:?} cut to {len}");
            }
            let mut long = bytes.clone();
            long.extend([0; 8]);
            assert!(open(&mut long, element).is_err(), "{message:?} with more behind it");
        }
    }
}

#[test]
fn the_pipelines_swap_makes_it_xdr() {
    for body in bodies() {
        let octets = emitted(1, body.clone());
        let contents = body.contents().map_or(0, |(data, _)| data.contents.len());
        for element in ELEMENTS {
            // Contents and what is behind them are swapped by the pipeline alone.
            let mut bytes = emit(&Message { xid: 1, body: body.clone() }, element).unwrap();
            let len = if contents > 0 { HEAD_LEN } else { bytes.len() };
            element.swap(&mut bytes[..len]);
            assert_eq!(bytes[..octets.len()], octets);
        }
    }
    let ints: Vec<u32> = (1..=8).collect();
    let mut host: Vec<u8> = ints.iter().flat_map(|n| n.to_ne_bytes()).collect();
    Element::Int32.swap(&mut host);
    assert_eq!(host, ints.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>());
}

#[test]
fn fill_is_zero_and_contents_are_as_long_as_they_say() {
    let data = Data { copy: 0, position: 0, contents: octets(b"hello") };
    let bytes = emitted(1, Body::Last(Last { data, hash: octets(&[7; 32]) }));
    let refused = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x40;
        open(&mut bytes, Element::Octets).unwrap_err()
    };
    let fill = HEAD_LEN + 5;
    assert_eq!(refused(fill).offset(), fill);
    // The length, and a length beyond all memory.
    refused(HEAD_LEN - 1);
    refused(HEAD_LEN - 4);
}

#[test]
fn pieces_and_sizes_end_below_2_to_the_63() {
    let most = i64::MAX as u64;
    for (position, length) in [(most - 5, 6), (most, most), (1 << 20, most)] {
        for mut body in bodies() {
            let piece = Piece { position, length };
            match &mut body {
                Body::Get(get) => get.piece = piece,
                Body::Put(put) => put.piece = piece,
                Body::Hole(hole) => hole.piece = piece,
                Body::Missing(missing) => missing.pieces[1] = piece,
                _ => continue,
            }
            let error = open(&mut emitted(1, body), Element::Octets).unwrap_err();
            assert!(error.to_string().contains("the length of a piece"), "{error}");
        }
    }
    let touch = |size| {
        let meta = Meta { size, ..meta(Kind::File) };
        Message { xid: 1, body: Body::Touch(Touch { path: octets(b""), meta }) }
    };
    assert!(emit(&touch(1 << 63), Element::Octets).is_err());
    let mut bytes = emit(&touch(1 << 40), Element::Octets).unwrap();
    let at = bytes.windows(8).position(|w| w == (1u64 << 40).to_be_bytes()).unwrap();
    bytes[at] = 0x80;
    let error = open(&mut bytes, Element::Octets).unwrap_err();
    assert_eq!(error.offset(), at, "{error}");
    assert!(error.to_string().ends_with("touch.meta.size"), "{error}");
}

/// The bytes that peers of other builds send.
#[test]
fn the_wire_stays_as_it_is() {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let data = Data { copy: 0, position: 1 << 20, contents: octets(b"hello") };
    let expected = "00000007 00000010 00000000 0000000000100000 00000005 68656c6c 6f000000";
    assert_eq!(hex(&emitted(7, Body::Data(data))), expected.replace(' ', ""));
    let list = List { path: octets(b"a/b"), recursive: true, credit: 9 };
    let expected = "00000005 00000002 00000003 612f6200 00000001 00000009 00000000";
    assert_eq!(hex(&emitted(5, Body::List(list))), expected.replace(' ', ""));
    let failed = Failed { code: Code::NoSpace, detail: octets(b"no") };
    let expected = "00000006 00000026 0000000a 00000002 6e6f0000 00000000";
    assert_eq!(hex(&emitted(6, Body::Failed(failed))), expected.replace(' ', ""));
    let touch = Touch { path: octets(b"x"), meta: meta(Kind::Folder) };
    let expected = "00000007 00000007 00000001 78000000 00000001 000001e9 fffffffffffffffb 3b9ac9ff \
                    0000010000000000 00000001 30313233343536373839616263646566 00000000 00000000";
    assert_eq!(hex(&emitted(7, Body::Touch(touch))), expected.replace(' ', ""));
}

/// What the build script makes of the module with something behind each `...`.
#[allow(dead_code, reason = "of what it has, only what is new is looked at")]
mod later {
    include!(concat!(env!("OUT_DIR"), "/later.rs"));
    pub use messages::*;
}

/// Where the fields are that a later version of the message has.
fn later_fields<'m>(body: &'m mut later::Body<'_>) -> Vec<&'m mut Option<u32>> {
    match body {
        later::Body::Look(m) => vec![&mut m.later],
        later::Body::List(m) => vec![&mut m.later],
        later::Body::More(m) => vec![&mut m.later],
        later::Body::Get(m) => vec![&mut m.later],
        later::Body::Put(m) => vec![&mut m.later, &mut m.meta.later],
        later::Body::Commit(m) => vec![&mut m.later],
        later::Body::Touch(m) => vec![&mut m.later, &mut m.meta.later],
        later::Body::Cancel(m) => vec![&mut m.later],
        later::Body::Entry(m) => vec![&mut m.later, &mut m.meta.later],
        later::Body::Entries(m) => {
            let entries = m.entries.iter_mut().flat_map(|e| [&mut e.later, &mut e.meta.later]);
            entries.chain([&mut m.later]).collect()
        }
        later::Body::Listed(m) => vec![&mut m.later],
        later::Body::Done(m) => vec![&mut m.later],
        later::Body::Missing(m) => vec![&mut m.later],
        later::Body::Stored(m) => vec![&mut m.later],
        later::Body::Failed(m) => vec![&mut m.later],
        later::Body::Join(m) => vec![&mut m.later],
        later::Body::Report(m) => vec![&mut m.later],
        later::Body::Epoch(m) => vec![&mut m.later],
        later::Body::Cast(m) => {
            let files = m.files.iter_mut().map(|file| &mut file.meta.later);
            files.chain([&mut m.later]).collect()
        }
        later::Body::Hashes(m) => vec![&mut m.later],
        later::Body::Over(m) => vec![&mut m.later],
        // Contents have a fixed shape.
        later::Body::Data(_) | later::Body::Last(_) | later::Body::Hole(_) => vec![],
        later::Body::Later(_) | later::Body::Unknown(_) => panic!("{body:?}"),
    }
}

#[test]
fn who_is_older_passes_over_fields_and_who_is_newer_does_without() {
    for body in bodies() {
        let older = emitted(3, body);
        let mut newer: later::Message<'_> = xdr::from_bytes(&older).unwrap();
        let fields = later_fields(&mut newer.body);
        let count = fields.len();
        for field in fields {
            assert_eq!(field.replace(7), None);
        }
        let mut bytes = xdr::to_vec(&newer).unwrap();
        // How long it is, that it is there, and itself, behind what this version may have added already.
        assert!(bytes.len() >= older.len() + 12 * count);
        assert_eq!(xdr::from_bytes::<later::Message<'_>>(&bytes).unwrap(), newer);
        let opened = open(&mut bytes, Element::Octets).unwrap();
        assert_eq!(emit(&opened, Element::Octets).unwrap(), older);
    }
}

#[test]
fn who_is_older_keeps_messages_and_items_as_they_came() {
    let (path, later) = (octets(b"x"), Some(5));
    let body = later::Body::Later(later::Look { path, later });
    let bytes = xdr::to_vec(&later::Message { xid: 3, body }).unwrap();
    let opened = open(&mut bytes.clone(), Element::Octets).unwrap();
    assert!(matches!(opened.body, Body::Unknown(_)), "{opened:?}");
    assert_eq!(emit(&opened, Element::Octets).unwrap(), bytes);
    let (code, detail) = (later::Code::Later, octets(b""));
    let body = later::Body::Failed(later::Failed { code, detail, later });
    let mut bytes = xdr::to_vec(&later::Message { xid: 3, body }).unwrap();
    let opened = open(&mut bytes, Element::Octets).unwrap();
    let Body::Failed(failed) = opened.body else { panic!("{opened:?}") };
    assert_eq!(failed.code, Code::Unknown(99));
    assert_eq!(failed.code.to_string(), "failed for reason 99, which is not known here");
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
                                           kind in 0u8..40) {
        if bytes.len() > 8 {
            bytes[4..8].copy_from_slice(&[0, 0, 0, kind]);
        }
        let _ = open(&mut bytes, Element::Octets);
    }
}
