//! The messages of the file transfer, for every element: what parses is emitted and parses as the same.
#![no_main]

use fusewire_files::message::{Body, DATA_HEADER_LEN, DataHeader, Hole, Prefix, Reply, Request};
use fusewire_files::{Element, RemotePath, Shown};
use libfuzzer_sys::fuzz_target;

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

fuzz_target!(|data: &[u8]| {
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
});

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
