//! The messages of the file transfer, for every element: what parses is emitted and parses as the same.
use fusewire_files::message::{
    self, Body, Code, Create, DATA_HEADER_LEN, DataHeader, Hole, List, Prefix, Read, Reply, Request,
};
use fusewire_files::{Element, Entry, Kind, Meta, RemotePath, Shown, Time, Version};

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let element = ELEMENTS[usize::from(first) % ELEMENTS.len()];
    // The bytes are written in the wire's order, so that the fuzzer meets the same words everywhere.
    let mut message = data.to_vec();
    message.truncate(message.len() / element.unit() * element.unit());
    element.swap(&mut message);
    if let Ok(prefix) = Prefix::of(&message, element) {
        assert!(message.len() >= 8);
        let _ = prefix;
    }
    body::<Request>(&message, element);
    body::<Reply>(&message, element);
    data_header(&message, element);
    path(data);
}

/// Every message for octets and for the widest element.
pub fn seeds() -> Vec<Vec<u8>> {
    let path = b"folder/a file".to_vec();
    let version = Version([7; 16]);
    let mtime = Time { s: -5, ns: 999_999_999 };
    let meta = Meta { kind: Kind::File, mode: 0o751, mtime, size: 1 << 40, sparse: true, version };
    let (position, len) = (1 << 20, 1 << 33);
    let list = List { path: path.clone(), recursive: true, credit: 9 };
    let create =
        Create { path: path.clone(), meta, target: b"../x".to_vec(), replace: true, position, len };
    let read = Read {
        path: path.clone(),
        version,
        position,
        len,
        copies: 3,
        reply_bytes: 1024,
        bytes_per_s: 5,
        growing: true,
    };
    let requests = [
        Request::Look { path: path.clone() },
        Request::List(list),
        Request::More { of: 3, credit: 4 },
        Request::Read(read),
        Request::Create(create),
        Request::Commit { of: 8 },
        Request::Touch { path, meta },
        Request::Cancel { of: 1 },
    ];
    let entry = Entry { depth: 1, name: b"x".to_vec(), target: b"t".to_vec(), unread: true, meta };
    let replies = [
        Reply::Entry(entry.clone()),
        Reply::Entries { first: 7, entries: vec![entry.clone(), entry] },
        Reply::Listed { count: 1 << 35 },
        Reply::Done { grew: true },
        Reply::Created { missing: vec![(0, 5), (1 << 20, 1 << 30)], more: true },
        Reply::Stored { complete: true },
        Reply::Failed { code: Code::NoSpace, detail: b"words".to_vec() },
    ];
    let mut seeds = Vec::new();
    for first in [0, 3] {
        // `run` swaps what it reads, so that messages stand here in the wire's order.
        let emitted = |message: Result<Vec<u8>, fusewire_files::Error>, unit: usize| {
            let mut message = message.expect("a legal message");
            message.resize(message.len().next_multiple_of(unit), 0);
            [&[first][..], &message].concat()
        };
        let unit = ELEMENTS[usize::from(first)].unit();
        for request in &requests {
            seeds.push(emitted(message::emit(5, request, Element::Octets), unit));
        }
        for reply in &replies {
            seeds.push(emitted(message::emit(5, reply, Element::Octets), unit));
        }
        let data = DataHeader { xid: 5, copy: 1, position: 4096, len: 100, hash: true };
        seeds.push([&[first][..], &data.emit(Element::Octets)].concat());
        let hole = Hole { xid: 5, copy: 1, position: 4096, len: 1 << 30 };
        seeds.push([&[first][..], &hole.emit(Element::Octets)].concat());
    }
    seeds
}

fn body<B: Body + PartialEq + std::fmt::Debug>(message: &[u8], element: Element) {
    let Ok(Some((xid, body))) = fusewire_files::message::parse::<B>(&mut message.to_vec(), element)
    else {
        return;
    };
    let emitted =
        fusewire_files::message::emit(xid, &body, element).expect("what parses can be emitted");
    assert_eq!(emitted, message, "one value has one form: {body:?}");
    let again = fusewire_files::message::parse::<B>(&mut emitted.clone(), element);
    assert_eq!(again, Ok(Some((xid, body))));
}

fn data_header(message: &[u8], element: Element) {
    if let Ok(hole) = Hole::parse(message, element) {
        let again = hole.emit(element);
        assert_eq!(Hole::parse(&again, element), Ok(hole));
    }
    if let Some(head) = message.first_chunk::<DATA_HEADER_LEN>()
        && let Ok(Some(header)) = DataHeader::parse(head, element)
    {
        assert_eq!(header.emit(element), *head);
        assert!(header.message_len(element) >= DATA_HEADER_LEN as u64 + u64::from(header.len));
    }
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
