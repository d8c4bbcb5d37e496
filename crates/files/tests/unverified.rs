//! Law 3, of the transfer's messages: before a message is known to be genuine nothing is allocated for it, and all that
//! there is of it lies in the memory that was lent, where it can be wiped. Allocations are counted.

use fusewire_codec::pipeline::{Unmarshal as _, unmarshal};
use fusewire_files::Element;
use fusewire_files::message::*;
use fusewire_testkit::counting::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

/// What memory holds where nothing was written.
const BEFORE: u8 = 0xee;
/// In each field that has no fixed length.
const WORDS: &[u8] = b"a name that nobody is to see";

fn entry() -> Entry {
    let words = || WORDS.to_vec().into();
    Entry { depth: 0, name: words(), target: words(), unread: false, meta: Meta::default() }
}

/// One of each shape that has memory of its own, and contents.
fn bodies() -> Vec<Body<'static>> {
    let words = || WORDS.to_vec().into();
    let piece = |n: u64| Piece { position: n << 20, length: 1 << 19 };
    let data = || Data { copy: 0, position: 0, contents: words() };
    vec![
        Body::Look(Look { path: words() }),
        Body::Put(Put { path: words(), target: words(), ..Put::default() }),
        Body::Entry(entry()),
        Body::Entries(Entries { first: 7, entries: (0..50).map(|_| entry()).collect() }),
        Body::Missing(Missing { pieces: (0..50).map(piece).collect(), more: true, hashing: None }),
        Body::Failed(Failed { code: Code::NoSpace, detail: words() }),
        Body::Data(data()),
        Body::Last(Last { data: data(), hash: [7; 32].to_vec().into() }),
    ]
}

#[test]
fn what_is_not_verified_lies_in_lent_memory_alone_and_is_wiped() {
    for element in [Element::Octets, Element::Int16, Element::Int32, Element::Int64] {
        for body in bodies() {
            let message = Message { xid: 9, body };
            let bytes = emit(&message, element).unwrap();
            let mut room = vec![BEFORE; bytes.len() + 64];
            let mut arriving = Arriving::new(&mut room, element);
            let before = counting::of_thread();
            unmarshal(&bytes, &mut arriving);
            assert_eq!(counting::of_thread(), before, "{element:?}: allocated for {message:?}");
            arriving.wipe();
            assert!(arriving.finish().is_err(), "{element:?}: {message:?} is seen");
            assert!(
                room.iter().all(|&byte| byte == 0 || byte == BEFORE),
                "{element:?} {message:?}"
            );
            // And when it is genuine it is all there.
            let mut arriving = Arriving::new(&mut room, element);
            unmarshal(&bytes, &mut arriving);
            match arriving.finish().unwrap() {
                Came::Message(_, came) => assert_eq!(*came, message),
                Came::Contents(run, _) => assert_eq!(run.len, WORDS.len()),
            }
        }
    }
}

#[test]
fn a_message_that_the_memory_has_no_room_for_is_none() {
    let body = Body::Look(Look { path: WORDS.to_vec().into() });
    let bytes = emit(&Message { xid: 9, body }, Element::Octets).unwrap();
    let mut room = vec![BEFORE; bytes.len() - 1];
    let mut arriving = Arriving::new(&mut room, Element::Octets);
    unmarshal(&bytes, &mut arriving);
    assert!(arriving.finish().is_err());
    assert!(room.iter().all(|&byte| byte == BEFORE));
}
