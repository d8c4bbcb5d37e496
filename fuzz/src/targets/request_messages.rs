//! The messages of the file transfer, for every element: what is opened is emitted and opens as the same.
#![allow(clippy::needless_update, reason = "a field more needs no change here")]

use fusewire_codec::types::Octets;
use fusewire_files::channel::MAX_ADU_LEN;
use fusewire_files::message::{
    self, Arriving, Body, Came, Cancel, Code, Commit, Data, Done, Entries, Entry, Failed, Get,
    Hole, Kind, Last, List, Listed, Look, Message, Meta, Missing, More, Piece, Put, Stored, Time,
    Touch, Version,
};
use fusewire_files::{Element, RemotePath, Shown};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::RecordParams;
use fusewire_session::{Cipher, DataPass, Execution, Found, Level, RecordReceiver, RecordSender};

/// What memory holds where nothing was written.
const BEFORE: u8 = 0xa5;
const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let element = ELEMENTS[usize::from(first) % ELEMENTS.len()];
    // The bytes are written in the wire's order, so that the fuzzer meets the same words everywhere.
    let mut message = data.to_vec();
    message.truncate(message.len() / element.unit() * element.unit());
    element.swap(&mut message);
    let plain = message.clone();
    let came = message::open(&mut message, element);
    through_records(first, &plain, element, came.as_ref().ok());
    if let Ok(opened) = came {
        let mut emitted = message::emit(&opened, element).expect("what opens can be emitted");
        assert_eq!(message::open(&mut emitted, element), Ok(opened));
    }
    path(data);
}

/// The message from a record, by the loop that opens it: the same as when it was opened before, and nothing of it when
/// somebody has changed the record.
fn through_records(
    first: u8,
    plain: &Vec<u8>,
    element: Element,
    wanted: Option<&Message<'static>>,
) {
    if plain.len() > MAX_ADU_LEN {
        return;
    }
    let choice = usize::from(first / 4);
    let (cipher, levels) = (Cipher::ALL[choice % Cipher::ALL.len()], Level::available());
    let execution = [Execution::Integrated, Execution::Sequential][choice & 1];
    let data_pass = DataPass { level: levels[choice % levels.len()], execution };
    let params = RecordParams::new(cipher, element.swap_of(), MAX_ADU_LEN as u32, data_pass);
    let secret = || TrafficSecret::from_bytes([0x5a; 32]);
    let mut sender = RecordSender::new(params, secret(), 0).expect("an epoch holds a record");
    let mut record = vec![0; sender.record_len(plain.len())];
    let sum = sender.seal_message(0, plain, &mut record).expect("bytes are a message");
    let opened = |record: &[u8], sum: Found| {
        let mut receiver = RecordReceiver::new(params, secret(), 0).expect("as the sender");
        let mut room = vec![BEFORE; plain.len() + 8];
        let mut arriving = Arriving::new(&mut room, element);
        let genuine = receiver.open_message(0, record, &mut arriving, |found| found == sum).is_ok();
        (genuine, arriving.finish().ok(), room)
    };
    let (genuine, came, room) = opened(&record, sum);
    assert!(genuine, "what was sealed opens");
    match (came, wanted) {
        (None, None) => assert!(room.iter().all(|&byte| byte == 0 || byte == BEFORE)),
        (Some(Came::Message(_, message)), Some(wanted)) => assert_eq!(*message, *wanted),
        (Some(Came::Contents(run, hash)), Some(wanted)) => {
            let (data, wanted_hash) = wanted.body.contents().expect("contents");
            assert_eq!((run.xid, run.copy, run.position), (wanted.xid, data.copy, data.position));
            assert_eq!((&room[..run.len], hash), (&data.contents[..], wanted_hash));
        }
        other => panic!("{other:?}"),
    }
    // The tag tells, or where there is none, the sum.
    let at = (usize::from(first) * 37) % record.len();
    record[at] ^= 1 << (first % 8);
    let (genuine, came, room) = opened(&record, sum);
    assert!(!genuine && came.is_none(), "a forged record shows {came:?}");
    assert!(
        room.iter().all(|&byte| byte == 0 || byte == BEFORE),
        "a forged record leaves contents"
    );
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
