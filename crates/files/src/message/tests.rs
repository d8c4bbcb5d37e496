//! Every message: round trip for every element, truncation at every length, illegal fields.

use super::*;
use crate::meta::{Entry, Kind, Meta, Time, Version};
use proptest::prelude::*;

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

fn meta(kind: Kind) -> Meta {
    let mtime = Time { s: -5, ns: 999_999_999 };
    Meta {
        kind,
        mode: 0o751,
        mtime,
        size: 1 << 40,
        sparse: true,
        version: Version(*b"0123456789abcdef"),
    }
}

fn requests() -> Vec<Request> {
    let path = b"a/b \xff".to_vec();
    let version = Version([7; 16]);
    vec![
        Request::Look { path: path.clone() },
        Request::List(List { path: path.clone(), recursive: true, credit: 9 }),
        Request::More { of: 3, credit: 4 },
        Request::Read(Read {
            path: path.clone(),
            version,
            position: 1 << 20,
            len: 1 << 33,
            copies: 3,
            reply_bytes: 1024,
            bytes_per_s: 5,
            growing: true,
        }),
        Request::Create(Create {
            path: path.clone(),
            meta: meta(Kind::Link),
            target: b"../x".to_vec(),
            replace: true,
            position: 0,
            len: 12,
        }),
        Request::Commit { of: 8 },
        Request::Touch { path, meta: meta(Kind::Folder) },
        Request::Cancel { of: 1 },
    ]
}

fn replies() -> Vec<Reply> {
    let entry = |depth, name: &[u8]| Entry {
        depth,
        name: name.to_vec(),
        target: b"t".to_vec(),
        unread: true,
        meta: meta(Kind::File),
    };
    vec![
        Reply::Entry(entry(0, b"x")),
        Reply::Entries { first: 7, entries: vec![entry(0, b"a"), entry(1, b"bcdef")] },
        Reply::Listed { count: 1 << 35 },
        Reply::Done { grew: true },
        Reply::Created { missing: vec![(0, 5), (1 << 20, 1 << 30)], more: true },
        Reply::Stored { complete: true },
        Reply::Failed { code: Code::NoSpace, detail: b"words".to_vec() },
    ]
}

fn walk<B: Body + Clone + PartialEq + std::fmt::Debug>(bodies: Vec<B>) {
    for element in ELEMENTS {
        for (xid, body) in (5..).zip(&bodies) {
            let message = emit(xid, body, element).unwrap();
            assert_eq!(message.len() % element.unit(), 0);
            assert_eq!(Prefix::of(&message, element).unwrap(), Prefix { xid, kind: body.kind() });
            let mut through = message.clone();
            assert_eq!(parse::<B>(&mut through, element).unwrap(), Some((xid, body.clone())));
            for len in 0..message.len() {
                assert!(
                    parse::<B>(&mut message[..len].to_vec(), element).is_err(),
                    "{body:?} cut to {len}"
                );
            }
            let mut long = message.clone();
            long.extend([0; 8]);
            assert!(parse::<B>(&mut long, element).is_err(), "{body:?} with more behind it");
        }
    }
}

#[test]
fn requests_round_trip_and_nothing_shorter_or_longer_is_taken() {
    walk(requests());
}

#[test]
fn replies_round_trip_and_nothing_shorter_or_longer_is_taken() {
    walk(replies());
}

#[test]
fn kinds_are_disjoint() {
    for request in requests() {
        let mut message = emit(1, &request, Element::Octets).unwrap();
        assert_eq!(parse::<Reply>(&mut message, Element::Octets).unwrap(), None);
    }
    for reply in replies() {
        let mut message = emit(1, &reply, Element::Octets).unwrap();
        assert_eq!(parse::<Request>(&mut message, Element::Octets).unwrap(), None);
    }
}

#[test]
fn the_pipelines_swap_makes_it_xdr() {
    let header =
        DataHeader { xid: 1, copy: 2, position: 0x0102_0304_0506_0708, len: 3, hash: true };
    let octets = header.emit(Element::Octets);
    let expected: [u8; 32] = [
        0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0,
        0, 3,
    ];
    assert_eq!(octets, expected);
    for element in ELEMENTS {
        let mut emitted = header.emit(element);
        assert_eq!(DataHeader::parse(&emitted, element).unwrap(), Some(header));
        element.swap(&mut emitted);
        assert_eq!(emitted, octets);
        let hole = Hole { xid: 9, copy: 0, position: 1 << 41, len: u64::MAX };
        assert_eq!(Hole::parse(&hole.emit(element), element).unwrap(), hole);
        assert_eq!(DataHeader::parse(&hole.emit(element), element).unwrap(), None);
    }
    let ints: Vec<u32> = (1..=8).collect();
    let mut host: Vec<u8> = ints.iter().flat_map(|n| n.to_ne_bytes()).collect();
    Element::Int32.swap(&mut host);
    assert_eq!(host, ints.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>());
}

#[test]
fn illegal_data_headers_are_refused() {
    let header = DataHeader { xid: 1, copy: 0, position: 0, len: 5, hash: true };
    for at in [12, 24] {
        let mut bytes = header.emit(Element::Octets);
        bytes[at] = 1;
        let error = DataHeader::parse(&bytes, Element::Octets).unwrap_err();
        assert_eq!(error.offset(), at);
    }
    let tail = [0u8; 3 + 32];
    assert_eq!(header.tail(&tail, Element::Octets).unwrap(), Some([0; 32]));
    assert!(header.tail(&tail[1..], Element::Octets).is_err());
    let mut filled = tail;
    filled[1] = 1;
    assert!(header.tail(&filled, Element::Octets).is_err());
    let no_hash = DataHeader { hash: false, ..header };
    assert_eq!(no_hash.tail(&tail[..3], Element::Octets).unwrap(), None);
}

#[test]
fn sizes_and_ranges_stay_below_2_to_the_63() {
    let mut big = meta(Kind::File);
    let mut touch = emit(1, &Request::Touch { path: vec![], meta: big }, Element::Octets).unwrap();
    big.size = 1 << 63;
    assert!(emit(1, &Request::Touch { path: vec![], meta: big }, Element::Octets).is_err());
    let at = touch.windows(8).position(|w| w == (1u64 << 40).to_be_bytes()).unwrap();
    touch[at] = 0x80;
    let error = parse::<Request>(&mut touch, Element::Octets).unwrap_err();
    assert_eq!(error.offset(), at, "{error}");
    assert!(error.to_string().ends_with("in touch.meta.size"), "{error}");
    let Request::Create(mut create) = requests()[4].clone() else { unreachable!() };
    create.position = i64::MAX as u64 - 5;
    let mut message = emit(1, &Request::Create(create), Element::Octets).unwrap();
    let error = parse::<Request>(&mut message.clone(), Element::Octets).unwrap_err();
    assert_eq!(error.offset(), message.len() - 8, "{error}");
    let at = message.len() - 16;
    message[at] = 0x80;
    let error = parse::<Request>(&mut message, Element::Octets).unwrap_err();
    assert_eq!(error.offset(), at, "{error}");
    let Request::Read(mut read) = requests()[3].clone() else { unreachable!() };
    read.position = i64::MAX as u64 - 5;
    let mut message = emit(1, &Request::Read(read), Element::Octets).unwrap();
    let len = 1u64 << 33;
    let at = message.windows(8).position(|w| w == len.to_be_bytes()).unwrap();
    assert_eq!(parse::<Request>(&mut message, Element::Octets).unwrap_err().offset(), at);
}

/// The bytes of docs/transfer.md's structures, which peers of an earlier build send.
#[test]
fn the_wire_is_what_is_documented() {
    let List { path, recursive, credit } =
        List { path: b"a/b".to_vec(), recursive: true, credit: 9 };
    let message = emit(5, &Request::List(List { path, recursive, credit }), Element::Octets);
    let expected =
        [0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 3, b'a', b'/', b'b', 0, 0, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(message.unwrap(), expected);
    let failed = Reply::Failed { code: Code::NoSpace, detail: b"no".to_vec() };
    let expected = [0, 0, 0, 6, 0, 0, 0, 38, 0, 0, 0, 10, 0, 0, 0, 2, b'n', b'o', 0, 0];
    assert_eq!(emit(6, &failed, Element::Octets).unwrap(), expected);
    let touch = Request::Touch { path: b"x".to_vec(), meta: meta(Kind::Folder) };
    let message = emit(7, &touch, Element::Octets).unwrap();
    let mut expected = vec![0, 0, 0, 7, 0, 0, 0, 7, 0, 0, 0, 1, b'x', 0, 0, 0];
    expected.extend([0, 0, 0, 1, 0, 0, 1, 0xe9]);
    expected.extend((-5i64).to_be_bytes());
    expected.extend(999_999_999u32.to_be_bytes());
    expected.extend((1u64 << 40).to_be_bytes());
    expected.extend([0, 0, 0, 1]);
    expected.extend(*b"0123456789abcdef");
    assert_eq!(message, expected);
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
                                           kind in 0u8..40) {
        if bytes.len() > 8 {
            bytes[4..8].copy_from_slice(&[0, 0, 0, kind]);
        }
        let before = bytes.clone();
        if let Ok(Some((xid, request))) = parse::<Request>(&mut bytes.clone(), Element::Octets) {
            prop_assert_eq!(emit(xid, &request, Element::Octets).unwrap(), before.clone());
        }
        if let Ok(Some((xid, reply))) = parse::<Reply>(&mut bytes.clone(), Element::Octets) {
            prop_assert_eq!(emit(xid, &reply, Element::Octets).unwrap(), before);
        }
        let _ = Hole::parse(&bytes, Element::Octets);
        if let Some(header) = bytes.first_chunk() {
            let _ = DataHeader::parse(header, Element::Octets);
        }
    }
}
