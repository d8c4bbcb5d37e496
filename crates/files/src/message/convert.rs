//! Between the messages as the program has them, which own their names, and as they are generated, which borrow.

use super::{Create, List, Read, Reply, Request, wire};
use crate::meta::{Entry, Kind, Meta, Time, Version};
use fusewire_codec::types::Octets;

impl<'a> From<&'a Request> for wire::RequestBody<'a> {
    fn from(request: &'a Request) -> Self {
        match request {
            Request::Look { path } => wire::RequestBody::Look(Octets::new(path)),
            Request::List(list) => wire::RequestBody::List(wire::List {
                path: Octets::new(&list.path),
                recursive: list.recursive,
                credit: list.credit,
            }),
            Request::More { of, credit } => {
                wire::RequestBody::More(wire::More { of: *of, credit: *credit })
            }
            Request::Read(read) => wire::RequestBody::Read(wire::Read {
                path: Octets::new(&read.path),
                version: Octets::new(&read.version.0),
                position: read.position,
                length: read.len,
                copies: read.copies,
                reply_bytes: read.reply_bytes,
                bytes_per_s: read.bytes_per_s,
                growing: read.growing,
            }),
            Request::Create(create) => wire::RequestBody::Create(wire::Create {
                path: Octets::new(&create.path),
                meta: (&create.meta).into(),
                target: Octets::new(&create.target),
                replace: create.replace,
                position: create.position,
                length: create.len,
            }),
            Request::Commit { of } => wire::RequestBody::Commit(*of),
            Request::Touch { path, meta } => {
                wire::RequestBody::Touch(wire::Touch { path: Octets::new(path), meta: meta.into() })
            }
            Request::Cancel { of } => wire::RequestBody::Cancel(*of),
        }
    }
}

impl From<wire::RequestBody<'_>> for Request {
    fn from(request: wire::RequestBody<'_>) -> Self {
        match request {
            wire::RequestBody::Look(path) => Request::Look { path: path.into_vec() },
            wire::RequestBody::List(list) => Request::List(List {
                path: list.path.into_vec(),
                recursive: list.recursive,
                credit: list.credit,
            }),
            wire::RequestBody::More(more) => Request::More { of: more.of, credit: more.credit },
            wire::RequestBody::Read(read) => Request::Read(Read {
                path: read.path.into_vec(),
                version: version(&read.version),
                position: read.position,
                len: read.length,
                copies: read.copies,
                reply_bytes: read.reply_bytes,
                bytes_per_s: read.bytes_per_s,
                growing: read.growing,
            }),
            wire::RequestBody::Create(create) => Request::Create(Create {
                path: create.path.into_vec(),
                meta: create.meta.into(),
                target: create.target.into_vec(),
                replace: create.replace,
                position: create.position,
                len: create.length,
            }),
            wire::RequestBody::Commit(of) => Request::Commit { of },
            wire::RequestBody::Touch(touch) => {
                Request::Touch { path: touch.path.into_vec(), meta: touch.meta.into() }
            }
            wire::RequestBody::Cancel(of) => Request::Cancel { of },
        }
    }
}

impl<'a> From<&'a Reply> for wire::ReplyBody<'a> {
    fn from(reply: &'a Reply) -> Self {
        match reply {
            Reply::Entry(entry) => wire::ReplyBody::Entry(entry.into()),
            Reply::Entries { first, entries } => wire::ReplyBody::Entries(wire::Entries {
                first: *first,
                entries: entries.iter().map(Into::into).collect(),
            }),
            Reply::Listed { count } => wire::ReplyBody::Listed(*count),
            Reply::Done { grew } => wire::ReplyBody::Done(*grew),
            Reply::Created { missing, more } => {
                let piece = |&(position, length): &(u64, u64)| wire::Piece { position, length };
                let missing = missing.iter().map(piece).collect();
                wire::ReplyBody::Created(wire::Created { missing, more: *more })
            }
            Reply::Stored { complete } => wire::ReplyBody::Stored(*complete),
            Reply::Failed { code, detail } => {
                let detail = Octets::new(detail);
                wire::ReplyBody::Failed(wire::Failed { code: *code, detail })
            }
        }
    }
}

impl From<wire::ReplyBody<'_>> for Reply {
    fn from(reply: wire::ReplyBody<'_>) -> Self {
        match reply {
            wire::ReplyBody::Entry(entry) => Reply::Entry(entry.into()),
            wire::ReplyBody::Entries(list) => Reply::Entries {
                first: list.first,
                entries: list.entries.into_iter().map(Into::into).collect(),
            },
            wire::ReplyBody::Listed(count) => Reply::Listed { count },
            wire::ReplyBody::Done(grew) => Reply::Done { grew },
            wire::ReplyBody::Created(created) => Reply::Created {
                missing: created.missing.into_iter().map(|p| (p.position, p.length)).collect(),
                more: created.more,
            },
            wire::ReplyBody::Stored(complete) => Reply::Stored { complete },
            wire::ReplyBody::Failed(failed) => {
                Reply::Failed { code: failed.code, detail: failed.detail.into_vec() }
            }
        }
    }
}

impl<'a> From<&'a Entry> for wire::Entry<'a> {
    fn from(entry: &'a Entry) -> Self {
        wire::Entry {
            depth: entry.depth,
            name: Octets::new(&entry.name),
            target: Octets::new(&entry.target),
            unread: entry.unread,
            meta: (&entry.meta).into(),
        }
    }
}

impl From<wire::Entry<'_>> for Entry {
    fn from(entry: wire::Entry<'_>) -> Self {
        Entry {
            depth: entry.depth,
            name: entry.name.into_vec(),
            target: entry.target.into_vec(),
            unread: entry.unread,
            meta: entry.meta.into(),
        }
    }
}

impl<'a> From<&'a Meta> for wire::Meta<'a> {
    fn from(meta: &'a Meta) -> Self {
        wire::Meta {
            kind: match meta.kind {
                Kind::File => wire::Kind::File,
                Kind::Folder => wire::Kind::Folder,
                Kind::Link => wire::Kind::Link,
                Kind::Other => wire::Kind::Other,
            },
            // What is more than permission bits is refused when it is encoded.
            mode: u16::try_from(meta.mode).unwrap_or(u16::MAX),
            mtime_s: meta.mtime.s,
            mtime_ns: meta.mtime.ns,
            size: meta.size,
            sparse: meta.sparse,
            version: Octets::new(&meta.version.0),
        }
    }
}

impl From<wire::Meta<'_>> for Meta {
    fn from(meta: wire::Meta<'_>) -> Self {
        Meta {
            kind: match meta.kind {
                wire::Kind::File => Kind::File,
                wire::Kind::Folder => Kind::Folder,
                wire::Kind::Link => Kind::Link,
                wire::Kind::Other => Kind::Other,
            },
            mode: meta.mode.into(),
            mtime: Time { s: meta.mtime_s, ns: meta.mtime_ns },
            size: meta.size,
            sparse: meta.sparse,
            version: version(&meta.version),
        }
    }
}

/// The type has sixteen bytes, so nothing else is decoded.
fn version(bytes: &[u8]) -> Version {
    Version(bytes.try_into().unwrap_or_default())
}
