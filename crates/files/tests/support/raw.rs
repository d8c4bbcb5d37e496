//! A client that says what it likes, to a session of the server's.

use super::OCTETS;
use fusewire_base::Instant;
use fusewire_codec::types::Octets;
use fusewire_files::channel::{Channel, Received, Sent};
use fusewire_files::memory::{self, MemoryChannel, Settings};
use fusewire_files::message::{
    self, Body, Code, Data, Failed, Get, Hole, Last, Message, Piece, Put,
};
use fusewire_files::server::{self, Share};
use fusewire_files::{Error, Kind, Meta, Scratch, Time, Version};
use std::sync::Arc;

/// A client that says what it likes.
pub struct Raw {
    pub channel: MemoryChannel,
    pub server: MemoryChannel,
    pub session: server::Session,
    pub scratch: Scratch,
    pub xid: u32,
}

impl Raw {
    pub fn new(share: &Arc<Share>) -> Raw {
        let (server, channel) = memory::pair(Settings { capacity: 1000, ..Settings::default() });
        Raw { channel, server, session: share.session(OCTETS), scratch: Scratch::new(), xid: 0 }
    }

    pub fn send(&mut self, adu: &[u8]) {
        assert_eq!(self.channel.send(&adu).unwrap(), Sent::Taken);
    }

    pub fn ask(&mut self, request: Body<'static>) -> Vec<Body<'static>> {
        self.ask_at(Instant::ZERO, request)
    }

    pub fn ask_at(&mut self, now: Instant, request: Body<'static>) -> Vec<Body<'static>> {
        self.xid += 1;
        self.send(&emit(self.xid, request));
        self.replies_at(now).unwrap()
    }

    pub fn replies(&mut self) -> Result<Vec<Body<'static>>, Error> {
        self.replies_at(Instant::ZERO)
    }

    fn replies_at(&mut self, now: Instant) -> Result<Vec<Body<'static>>, Error> {
        let (mut replies, mut adu) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            self.session.turn(&mut self.server, &mut self.scratch, now)?;
            while let Received::Adu { .. } = self.channel.recv(&mut adu).unwrap() {
                for mut message in messages(&adu) {
                    match message::open(&mut message, OCTETS).unwrap().body {
                        Body::Data(_) | Body::Last(_) | Body::Hole(_) => {}
                        reply => replies.push(reply),
                    }
                }
            }
        }
        Ok(replies)
    }

    pub fn code(&mut self, request: Body<'static>) -> Code {
        match self.ask(request).as_slice() {
            [Body::Failed(Failed { code, .. })] => *code,
            other => panic!("{other:?}"),
        }
    }
}

/// The kind of an ADU that holds several messages.
const BUNDLE: [u8; 8] = [0, 0, 0, 0, 0, 0, 0, 48];

/// The messages of an ADU.
pub fn messages(adu: &[u8]) -> Vec<Vec<u8>> {
    let Some(mut rest) = adu.strip_prefix(&BUNDLE) else { return vec![adu.to_vec()] };
    let mut messages = Vec::new();
    while let Some((words, more)) = rest.split_first_chunk::<8>() {
        let len = u32::from_be_bytes([words[0], words[1], words[2], words[3]]) as usize;
        messages.push(more[..len].to_vec());
        rest = &more[len..];
    }
    messages
}

/// An ADU that holds several messages.
pub fn bundle(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut adu = BUNDLE.to_vec();
    for message in messages {
        adu.extend((message.len() as u32).to_be_bytes());
        adu.extend([0; 4]);
        adu.extend(message);
    }
    adu
}

pub fn read(path: &[u8], version: Version, len: u64) -> Body<'static> {
    Body::Get(Get {
        path: octets(path),
        version,
        piece: Piece { position: 0, length: len },
        ..Get::default()
    })
}

pub fn meta(kind: Kind, size: u64) -> Meta {
    // A folder that an ordinary user can look into: the tests do, when all is done.
    let mode = if kind == Kind::Folder { 0o755 } else { 0o644 };
    Meta {
        kind,
        mode,
        mtime: Time { s: 1, ns: 2 },
        size,
        version: Version::from(3),
        ..Meta::default()
    }
}

pub fn create(path: &[u8], kind: Kind, target: &[u8]) -> Body<'static> {
    let meta = meta(kind, 0);
    Body::Put(Put {
        path: octets(path),
        meta,
        target: octets(target),
        replace: true,
        ..Put::default()
    })
}

pub fn data(xid: u32, position: u64, contents: &[u8], hash: Option<[u8; 32]>) -> Vec<u8> {
    let data = Data { copy: 0, position, contents: contents.into() };
    emit(
        xid,
        match &hash {
            Some(hash) => Body::Last(Last { data, hash: hash.into() }),
            None => Body::Data(data),
        },
    )
}

pub fn hole(xid: u32, copy: u32, position: u64, length: u64) -> Vec<u8> {
    emit(xid, Body::Hole(Hole { copy, piece: Piece { position, length } }))
}

pub fn emit(xid: u32, body: Body<'_>) -> Vec<u8> {
    message::emit(&Message { xid, body }, OCTETS).unwrap()
}

pub fn octets(bytes: &[u8]) -> Octets<'static> {
    bytes.to_vec().into()
}
