//! The messages of the file transfer, for every element: what is opened is emitted and opens as the same.
#![allow(clippy::needless_update, reason = "a field more needs no change here")]

use fusewire_codec::types::Octets;
use fusewire_files::message::{
    self, Body, Cancel, Code, Commit, Data, Done, Entries, Entry, Failed, Get, Hole, Kind, Last,
    List, Listed, Look, Message, Meta, Missing, More, Piece, Prefix, Put, Stored, Time, Touch,
    Version,
};
use fusewire_files::{Element, RemotePath, Shown};

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let element = ELEMENTS[usize::from(first) % ELEMENTS.len()];
    // The bytes are written in the wire's order, so that the fuzzer meets the same words everywhere.
    let mut message = data.to_vec();
    message.truncate(message.len() / element.unit() * element.unit());
    element.swap(&mut message);
    if Prefix::of(&message, element).is_ok() {
        assert!(message.len() >= 8);
    }
    let owned = message::open_owned(&mut message.clone(), element);
    let lent = message::open(&mut message, element);
    assert_eq!(lent, owned);
    if let Ok(opened) = owned {
        let mut emitted = message::emit(&opened, element).expect("what opens can be emitted");
        assert_eq!(message::open(&mut emitted, element), Ok(opened));
    }
    path(data);
}

/// Every message for octets and for the widest element.
pub fn seeds() -> Vec<Vec<u8>> {
    let octets = |bytes: &[u8]| Octets::from(bytes.to_vec());
    let path = octets(b"folder/a file");
    let version = Version::from(7);
    let mtime = Time { s: -5, ns: 999_999_999 };
    let meta = Meta {
        kind: Kind::File,
        mode: 0o751,
        mtime,
        size: 1 << 40,
        sparse: true,
        version,
        ..Meta::default()
    };
    let piece = |position, length| Piece { position, length };
    let data = Data { copy: 1, position: 4096, contents: octets(&[7; 101]) };
    let target = octets(b"../x");
    let entry = Entry {
        depth: 1,
        name: octets(b"x"),
        target: octets(b"t"),
        unread: true,
        meta,
        ..Entry::default()
    };
    let get = Get {
        path: path.clone(),
        version,
        piece: piece(1 << 20, 1 << 33),
        copies: 3,
        reply_bytes: 1024,
        bytes_per_s: 5,
        growing: true,
        ..Get::default()
    };
    let bodies = [
        Body::Look(Look { path: path.clone() }),
        Body::List(List { path: path.clone(), recursive: true, credit: 9 }),
        Body::More(More { of: 3, credit: 4 }),
        Body::Get(get),
        Body::Put(Put {
            path: path.clone(),
            meta,
            target,
            replace: true,
            piece: piece(0, 1 << 33),
            ..Put::default()
        }),
        Body::Commit(Commit { of: 8 }),
        Body::Touch(Touch { path, meta }),
        Body::Cancel(Cancel { of: 1 }),
        Body::Data(data.clone()),
        Body::Last(Last { data, hash: octets(&[9; 32]) }),
        Body::Hole(Hole { copy: 1, piece: piece(4096, 1 << 30) }),
        Body::Entry(entry.clone()),
        Body::Entries(Entries { first: 7, entries: vec![entry.clone(), entry] }),
        Body::Listed(Listed { count: 1 << 35 }),
        Body::Done(Done { grew: true }),
        Body::Missing(Missing {
            pieces: vec![piece(0, 5), piece(1 << 20, 1 << 30)],
            more: true,
            hashing: None,
        }),
        Body::Stored(Stored { complete: true }),
        Body::Failed(Failed { code: Code::NoSpace, detail: octets(b"words") }),
    ];
    let mut seeds = Vec::new();
    for first in [0, 3] {
        for body in bodies.clone() {
            // `run` swaps what it reads, so that messages stand here in the wire's order.
            let message = message::emit(&Message { xid: 5, body }, Element::Octets);
            let mut message = message.expect("a legal message");
            let unit = ELEMENTS[usize::from(first)].unit();
            message.resize(message.len().next_multiple_of(unit), 0);
            seeds.push([&[first][..], &message].concat());
        }
    }
    seeds
}

fn path(bytes: &[u8]) {
    assert!(!Shown(bytes).to_string().chars().any(char::is_control));
    for made in [RemotePath::new(bytes.to_vec()), RemotePath::from_user(bytes)] {
        let Ok(path) = made else { continue };
        let mut components = path.as_path().components();
        assert!(
            path.depth() == 0 || components.all(|c| matches!(c, std::path::Component::Normal(_))),
            "{path:?} leaves its folder"
        );
        assert_eq!(RemotePath::new(path.as_bytes().to_vec()).ok(), Some(path));
    }
}
