//! A server's session and a client that may ask for anything, in any order, and send any contents.
//!
//! Whatever it asks, nothing outside of the served folder is read or written, no link that it makes leads out, the
//! session ends or stays within its bounds, and a folder that is not writable stays as it was.

#![allow(clippy::needless_update, reason = "a field more needs no change here")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use fusewire_base::Instant;
use fusewire_codec::types::Octets;
use fusewire_files::message::{
    self, Body, Cancel, Commit, Data, Get, Hole, Last, List, Look, Message, More, Piece, Put, Touch,
};
use fusewire_files::server::{Settings, Share};
use fusewire_files::{Channel as _, Element, Kind, Meta, Received, Scratch, Time, Version};

use crate::Choices;
use crate::channel::{Pipe, Place, SECRET, pair};

const ELEMENTS: [Element; 4] = [Element::Octets, Element::Int16, Element::Int32, Element::Int64];
const PATHS: [&[u8]; 17] = [
    b"",
    b"a",
    b"d/b",
    b"new",
    b"d/new",
    b"e/f/new",
    b"out",
    b"out/secret",
    b"in/b",
    b"../secret",
    b"/etc/passwd",
    b"d/../../secret",
    b"link",
    b".fusewire-0.part",
    b"p",
    b"p/x",
    b"p/p/x",
];
const TARGETS: [&[u8]; 8] =
    [b"", b".", b"..", b"a", b"../secret", b"../../secret", b"/etc/passwd", b"in/../.."];
const SIZES: [u64; 8] = [0, 1, 300, 50_000, (1 << 20) + 5, 5 << 20, 1 << 40, i64::MAX as u64];
const MESSAGES_MAX: usize = 64;

/// Some requests of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let script = |steps: &[&[u8]]| steps.concat();
    let create = [4, 3, 0, 0, 2, 1, 0, 2, 0, 0, 0x11];
    let link = |path, target| [4, path, 2, 0, 2, 0, 0, target, 1, 0, 0];
    vec![
        script(&[&[0], &[0, 1], &[0, 6], &[1, 0, 1, 200], &[2, 0, 9]]),
        script(&[&[1], &[3, 1, 0, 0, 0, 0, 2, 0, 0, 0], &[9, 1]]),
        script(&[&[4], &create, &[7, 0, 0, 2, 1, 44], &[5, 0], &[8, 0, 0, 1, 2]]),
        // A link to the folder that it is in, and links below it.
        script(&[&[4], &link(14, 1), &link(16, 5), &link(15, 4)]),
        script(&[&[5], &create, &create, &[6, 3, 0, 1, 0], &[9, 0], &[10, 3, 1, 2, 3]]),
    ]
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let form = choices.u8();
    let (element, writable) = (ELEMENTS[usize::from(form & 3)], form & 4 != 0);
    let place = Place::new();
    fill(&place);
    let settings = Settings { writable, open_folders_max: 4, ..Settings::default() };
    let share = Share::open(&place.inside(), settings).expect("the folder is there");
    let mut session = share.session(element);
    let [mut client, mut server] = pair(16);
    let mut scratch = Scratch::new();
    let mut asked = Asked::default();
    let mut now = Instant::from_ms(1);
    for _ in 0..MESSAGES_MAX {
        if choices.is_empty() {
            break;
        }
        let adu = asked.next(&mut choices, element);
        client.sent().adus.push_back(adu);
        for _ in 0..3 {
            now += std::time::Duration::from_millis(1);
            match session.turn(&mut server, &mut scratch, now) {
                Ok(turn) if turn.worked => take(&mut client, element, &mut asked),
                Ok(_) => break,
                Err(error) => {
                    let _ = error.to_string();
                    drop(session);
                    return check(&place, writable);
                }
            }
        }
    }
    drop(session);
    check(&place, writable);
}

fn fill(place: &Place) {
    let dir = place.inside();
    fs::create_dir(dir.join("d")).expect("a folder");
    fs::write(dir.join("a"), [7; 300]).expect("a file");
    fs::write(dir.join("d/b"), vec![0x35; 50_000]).expect("a file");
    for (target, name) in [("../secret", "link"), ("..", "out"), ("d", "in")] {
        symlink(target, dir.join(name)).expect("a link");
    }
}

fn check(place: &Place, writable: bool) {
    place.check();
    let root = place.inside().canonicalize().expect("the folder is there");
    check_links(&root, &root);
    if !writable {
        let names = fs::read_dir(place.inside()).expect("the folder").count();
        assert_eq!(names, 5, "a folder that is not writable was written");
        assert_eq!(fs::read(place.inside().join("a")).ok(), Some(vec![7; 300]));
    }
}

/// What was made beside the links that were there leads nowhere, or to what is below `root`.
fn check_links(root: &Path, folder: &Path) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
        if kind.is_dir() {
            check_links(root, &path);
        } else if kind.is_symlink() && path != root.join("link") && path != root.join("out") {
            let to = path.canonicalize().unwrap_or_else(|_| root.to_owned());
            assert!(to.starts_with(root), "{} leads to {}", path.display(), to.display());
        }
    }
}

/// Reads all answers; what they say is used for the next requests.
fn take(client: &mut Pipe, element: Element, asked: &mut Asked) {
    let mut adu = Vec::new();
    while let Ok(Received::Adu { .. }) = client.recv(&mut adu) {
        assert!(memchr::memmem::find(&adu, SECRET).is_none(), "the secret is out");
        if let Ok(Message { body: Body::Entry(entry), .. }) = message::open(&mut adu, element) {
            asked.version = Some(entry.meta.version);
        }
    }
}

/// What the client has asked for so far.
#[derive(Default)]
struct Asked {
    xid: u32,
    version: Option<Version>,
}

impl Asked {
    fn next(&mut self, choices: &mut Choices<'_>, element: Element) -> Vec<u8> {
        let step = choices.u8();
        let request = match step % 12 {
            0 => Body::Look(Look { path: path(choices) }),
            1 => Body::List(List {
                path: path(choices),
                recursive: choices.u8() & 1 == 1,
                credit: u32::from(choices.u8()),
            }),
            2 => Body::More(More {
                of: self.earlier(choices),
                credit: u32::from(choices.u8()) << 24,
            }),
            3 => self.get(choices),
            4 => self.put(choices),
            5 => Body::Commit(Commit { of: self.earlier(choices) }),
            6 => Body::Touch(Touch { path: path(choices), meta: self.meta(choices) }),
            7 => return self.contents(choices, element),
            8 => {
                let (position, length) = (SIZES[usize::from(choices.u8() & 7)], size(choices));
                let body = Body::Hole(Hole { copy: 0, piece: Piece { position, length } });
                return emitted(self.earlier(choices), body, element);
            }
            9 => Body::Cancel(Cancel { of: self.earlier(choices) }),
            _ => {
                let len = usize::from(choices.u8());
                return choices.bytes(len).to_vec();
            }
        };
        // Numbers rise, or are as bad as they can be.
        self.xid = if step >= 250 { u32::MAX } else { self.xid.wrapping_add(1) };
        emitted(self.xid, request, element)
    }

    fn earlier(&self, choices: &mut Choices<'_>) -> u32 {
        self.xid.wrapping_sub(u32::from(choices.u8() & 7))
    }

    fn version(&self, choices: &mut Choices<'_>) -> Version {
        let any = choices.u8() & 1 == 1;
        match self.version {
            Some(version) if !any => version,
            _ => Version::from(u128::from(choices.u8())),
        }
    }

    fn meta(&self, choices: &mut Choices<'_>) -> Meta {
        let bits = choices.u8();
        let kind = [Kind::File, Kind::Folder, Kind::Link, Kind::Other][usize::from(bits & 3)];
        let mtime = Time { s: i64::from(choices.u8() as i8) << 56, ns: 999_999_999 };
        let mode = u16::from(choices.u8()) << 1;
        let size = size(choices);
        Meta {
            kind,
            mode,
            mtime,
            size,
            sparse: bits & 4 != 0,
            version: self.version(choices),
            ..Meta::default()
        }
    }

    fn get(&self, choices: &mut Choices<'_>) -> Body<'static> {
        Body::Get(Get {
            path: path(choices),
            version: self.version(choices),
            piece: Piece { position: u64::from(choices.u8() & 3) << 20, length: size(choices) },
            copies: u32::from(choices.u8()) + 1,
            reply_bytes: u32::from(choices.u16()),
            bytes_per_s: u64::from(choices.u8()) << 56,
            growing: choices.u8() & 1 == 1,
            ..Get::default()
        })
    }

    fn put(&self, choices: &mut Choices<'_>) -> Body<'static> {
        Body::Put(Put {
            path: path(choices),
            meta: self.meta(choices),
            target: TARGETS[usize::from(choices.u8()) % TARGETS.len()].into(),
            replace: choices.u8() & 1 == 1,
            piece: Piece { position: u64::from(choices.u8() & 3) << 20, length: size(choices) },
            ..Put::default()
        })
    }

    /// Contents with the right hash of a small file, or without.
    fn contents(&self, choices: &mut Choices<'_>, element: Element) -> Vec<u8> {
        let (position, bits) = (u64::from(choices.u16()) << 6, choices.u8());
        let len = if bits & 2 == 0 { size(choices).min(1 << 11) } else { u64::from(choices.u8()) };
        let (xid, hash) = (self.earlier(choices), bits & 1 == 1);
        let contents = vec![choices.u8(); len as usize];
        let data = Data { copy: 0, position, contents: Octets::new(&contents) };
        if !hash {
            return emitted(xid, Body::Data(data), element);
        }
        use blake3::hazmat::HasherExt as _;
        let mut hasher = blake3::Hasher::new();
        // There is no hash of nothing.
        let hashed = if contents.is_empty() { b"-" } else { &contents[..] };
        let hash = hasher.update(hashed).finalize_non_root();
        emitted(xid, Body::Last(Last { data, hash: Octets::new(&hash) }), element)
    }
}

/// A message, or nothing where a field is out of bounds.
fn emitted(xid: u32, body: Body<'_>, element: Element) -> Vec<u8> {
    message::emit(&Message { xid, body }, element).unwrap_or_default()
}

fn path(choices: &mut Choices<'_>) -> Octets<'static> {
    let path = match PATHS.get(usize::from(choices.u8()) % (PATHS.len() + 2)) {
        Some(path) => path.to_vec(),
        None => {
            let len = usize::from(choices.u8() & 31);
            choices.bytes(len).to_vec()
        }
    };
    path.into()
}

fn size(choices: &mut Choices<'_>) -> u64 {
    let form = choices.u8();
    SIZES[usize::from(form & 7)].wrapping_add_signed(i64::from(form as i8 >> 3))
}
