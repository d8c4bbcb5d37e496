//! Listing a folder: a walk that goes as far as the client has asked for and then waits.

use super::{FolderLease, Share};
use crate::Error;
use crate::message::{Body, Code, ENTRIES_MAX, Entries, Entry, Kind, List, Listed, Meta, octets};
use crate::name::{MAX_DEPTH, RemotePath, is_reserved, link_stays_inside};
use cap_std::fs::{Dir, ReadDir};
use rustix::fs::AtFlags;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// Most that a client can have asked for ahead.
const CREDIT_MAX: u32 = 4096;
/// Bytes of an entry besides its names, in XDR, with fill.
const ENTRY_LEN: usize = 80;

/// A listing that goes on.
#[derive(Debug)]
pub(crate) struct Listing {
    share: Arc<Share>,
    xid: u32,
    recursive: bool,
    credit: u32,
    /// Entries sent so far.
    count: u64,
    /// The folders that the walk is in, outermost first.
    open: Vec<Level>,
    /// Path of the innermost folder.
    path: RemotePath,
    /// An entry that did not fit into the last message.
    held: Option<Entry>,
    /// The innermost folder, once it is looked into.
    here: Option<Dir>,
    /// A folder whose entry was sent and that waits for leave to be opened.
    enter: Option<RemotePath>,
}

#[derive(Debug)]
struct Level {
    entries: Names,
    _lease: FolderLease,
}

/// What is in a folder.
#[derive(Debug)]
enum Names {
    Folder(ReadDir),
    /// Things that are served by name.
    Given(std::vec::IntoIter<RemotePath>),
}

impl Names {
    /// The next name, and what is known of it; an empty one for what is not to be seen.
    fn next(&mut self, share: &Share) -> Option<std::io::Result<(Vec<u8>, Meta)>> {
        let unseen = || Ok((Vec::new(), Meta::default()));
        Some(match self {
            Names::Given(names) => {
                let name = names.next()?;
                share
                    .roots
                    .look(&name)
                    .map_or_else(|_| unseen(), |meta| Ok((name.as_bytes().to_vec(), meta)))
            }
            Names::Folder(entries) => entries.next()?.and_then(|entry| {
                let name = entry.file_name();
                // What was removed since is not there; what has a reserved name is unfinished.
                match (is_reserved(name.as_bytes()), entry.metadata()) {
                    (false, Ok(metadata)) => Ok((name.as_bytes().to_vec(), Meta::of(&metadata))),
                    _ => unseen(),
                }
            }),
        })
    }
}

impl Listing {
    pub(crate) fn open(share: &Arc<Share>, xid: u32, list: &List) -> Result<Listing, Error> {
        let path = RemotePath::checked(&list.path)?;
        let mut listing = Listing {
            share: Arc::clone(share),
            xid,
            recursive: list.recursive,
            credit: list.credit.min(CREDIT_MAX),
            count: 0,
            open: Vec::new(),
            path: path.clone(),
            held: None,
            here: None,
            enter: None,
        };
        if share.roots.look(&path)?.kind != Kind::Folder {
            return Err(Error::local(Code::NotAFolder, path.as_bytes()));
        }
        if !listing.enter(&path)? {
            return Err(Error::local(Code::Busy, path.as_bytes()));
        }
        Ok(listing)
    }

    pub(super) fn xid(&self) -> u32 {
        self.xid
    }

    pub(super) fn has_credit(&self) -> bool {
        self.credit > 0
    }

    pub(crate) fn add_credit(&mut self, credit: u32) {
        self.credit = self.credit.saturating_add(credit).min(CREDIT_MAX);
    }

    /// The next message: entries, or the end; nothing when the walk has to wait for leave to open a folder.
    pub(crate) fn next(&mut self, max_adu: usize) -> Result<Option<Body<'static>>, Error> {
        let (first, mut entries, mut room) = (self.count, Vec::new(), max_adu.saturating_sub(32));
        let mut waiting = false;
        while self.credit > 0 && entries.len() < ENTRIES_MAX {
            let entry = match self.held.take() {
                Some(entry) => entry,
                None => match self.walk()? {
                    Step::Entry(entry) => entry,
                    Step::Wait => {
                        waiting = true;
                        break;
                    }
                    Step::End => break,
                },
            };
            let len = ENTRY_LEN + entry.name.len() + entry.target.len();
            if len > room && !entries.is_empty() {
                self.held = Some(entry);
                break;
            }
            room = room.saturating_sub(len);
            self.credit -= 1;
            self.count += 1;
            entries.push(entry);
        }
        Ok(match entries.is_empty() {
            true if waiting => None,
            true => Some(Body::Listed(Listed { count: self.count })),
            false => Some(Body::Entries(Entries { first, entries })),
        })
    }

    fn walk(&mut self) -> Result<Step, Error> {
        if let Some(path) = self.enter.clone() {
            if !self.enter(&path)? {
                return Ok(Step::Wait);
            }
            self.enter = None;
        }
        loop {
            let Some(level) = self.open.last_mut() else { return Ok(Step::End) };
            let (name, meta) = match level.entries.next(&self.share) {
                Some(Ok(found)) => found,
                Some(Err(error)) => return Err(Error::os("list", self.path.as_bytes(), error)),
                None => {
                    self.open.pop();
                    self.here = None;
                    if !self.open.is_empty() {
                        self.path = self.path.parent();
                    }
                    continue;
                }
            };
            if name.is_empty() {
                continue;
            }
            return Ok(Step::Entry(self.entry(&name, meta)));
        }
    }

    fn entry(&mut self, name: &[u8], meta: Meta) -> Entry {
        let meta = self.with_attributes(name, meta);
        let depth = self.open.len() - 1;
        let mut entry = Entry {
            depth: depth as u32,
            name: octets(name),
            target: octets(b""),
            unread: false,
            meta,
        };
        let path = match meta.kind {
            Kind::Link | Kind::Folder => self.path.join(name),
            Kind::File | Kind::Other | Kind::Unknown(_) => return entry,
        };
        match (meta.kind, path) {
            (Kind::Link, Ok(path)) => {
                if let Ok((dir, inside)) = self.share.roots.find(&path)
                    && let Ok(target) = dir.read_link_contents(inside.as_path())
                    && link_stays_inside(target.as_os_str().as_bytes(), depth)
                {
                    entry.target = octets(target.as_os_str().as_bytes());
                }
            }
            (Kind::Folder, Ok(path)) if self.recursive && self.open.len() < MAX_DEPTH => {
                // Opened before its entry is sent, so that the entry can say if it cannot be read.
                match self.enter(&path) {
                    Ok(true) => {}
                    Ok(false) => self.enter = Some(path),
                    Err(_) => entry.unread = true,
                }
            }
            (Kind::Folder, _) if self.recursive => entry.unread = true,
            _ => {}
        }
        entry
    }

    /// Completes what is known of `name` in the innermost folder.
    fn with_attributes(&mut self, name: &[u8], meta: Meta) -> Meta {
        if let Some(Level { entries: Names::Given(_), .. }) = self.open.last() {
            // That was done when it was looked at.
            return meta;
        }
        if self.here.is_none()
            && let Ok((dir, inside)) = self.share.roots.find(&self.path)
        {
            self.here = dir.open_dir(inside.as_path()).ok();
        }
        let mut meta = meta;
        if let Some(here) = &self.here {
            meta.read_attributes(here, OsStr::from_bytes(name));
        }
        meta
    }

    /// Opens the folder at `path` as the innermost; false when too many are open for now.
    fn enter(&mut self, path: &RemotePath) -> Result<bool, Error> {
        let Some(lease) = self.share.lease_folder() else { return Ok(false) };
        let os = |e| Error::os("list", path.as_bytes(), e);
        let names = self.share.roots.names().filter(|_| path.as_bytes().is_empty());
        let entries = match names {
            Some(names) => Names::Given(names.into_iter()),
            None => {
                let (dir, inside) = self.share.roots.find(path)?;
                let opened = dir.open_dir(inside.as_path()).map_err(os)?;
                // Without the right to search it, its names can be read but nothing in it can be looked at.
                let searched = rustix::fs::statat(&opened, ".", AtFlags::empty());
                searched.map_err(|errno| os(errno.into()))?;
                Names::Folder(opened.entries().map_err(os)?)
            }
        };
        self.open.push(Level { entries, _lease: lease });
        self.here = None;
        self.path = path.clone();
        Ok(true)
    }
}

enum Step {
    Entry(Entry),
    Wait,
    End,
}
