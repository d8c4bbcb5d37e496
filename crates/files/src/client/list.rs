//! Showing what is in a folder.

use super::Asker;
use super::listing::Listing;
use crate::error::{Error, Violation};
use crate::inbox::Receiver;
use crate::machine::{Machine, Step, Work};
use crate::message::{Body, Code, Entry, Kind, List as Ask, Look, More, Prefix, octets};
use crate::name::{MAX_DEPTH, PathError};
use crate::{Element, RemotePath};

/// Entries asked for at a time.
const CREDIT: u32 = 1024;

/// A listing: a machine that hands on each entry as it comes, in the server's order, and keeps none.
pub type List<F> = Machine<Lister<F>>;

/// What it does.
#[derive(Debug)]
pub struct Lister<F> {
    asker: Asker,
    path: RemotePath,
    recursive: bool,
    show: F,
    stage: Stage,
    folders: Vec<RemotePath>,
}

#[derive(Debug)]
enum Stage {
    Looking { xid: u32 },
    Listing { xid: u32, listing: Listing },
    Done,
}

impl<F: FnMut(&RemotePath, &Entry)> List<F> {
    /// Lists the folder at `path`, or shows the file that is there. `show` is given each entry with its path
    /// below `path`.
    ///
    /// # Errors
    /// None in fact: the path is checked already.
    pub fn new(
        path: RemotePath,
        recursive: bool,
        element: Element,
        show: F,
    ) -> Result<Self, Error> {
        let mut asker = Asker::new(element);
        let xid = asker.ask(Body::Look(Look { path: octets(path.as_bytes()) }))?;
        let stage = Stage::Looking { xid };
        let lister = Lister { asker, path, recursive, show, stage, folders: Vec::new() };
        Ok(Machine::of(lister, element, false))
    }
}

impl<F: FnMut(&RemotePath, &Entry)> Work for Lister<F> {
    fn receiver(&mut self) -> &mut dyn Receiver {
        self
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        self.asker.outbox.send(step)
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        self.asker.ends(matches!(self.stage, Stage::Done), peer_finished)
    }
}

impl<F: FnMut(&RemotePath, &Entry)> Lister<F> {
    fn reply(&mut self, xid: u32, reply: Body<'static>) -> Result<(), Error> {
        if let Body::Failed(failed) = reply {
            return Err(failed.into());
        }
        match (&mut self.stage, reply) {
            (Stage::Looking { xid: asked }, Body::Entry(entry)) if *asked == xid => {
                if entry.meta.kind == Kind::Folder {
                    let (path, recursive) = (octets(self.path.as_bytes()), self.recursive);
                    let list = Ask { path, recursive, credit: CREDIT };
                    let xid = self.asker.ask(Body::List(list))?;
                    self.stage = Stage::Listing { xid, listing: Listing::new(CREDIT) };
                    self.folders = vec![RemotePath::default()];
                } else {
                    (self.show)(&RemotePath::default(), &entry);
                    self.stage = Stage::Done;
                }
                return Ok(());
            }
            (Stage::Listing { xid: asked, listing }, Body::Entries(entries)) if *asked == xid => {
                let (folders, show) = (&mut self.folders, &mut self.show);
                listing.entries(entries, |entry| {
                    folders.truncate(entry.depth as usize + 1);
                    let path = below(folders, &entry)?;
                    show(&path, &entry);
                    folders.push(path);
                    Ok(())
                })?;
                if listing.credit_left() < u64::from(CREDIT / 2) {
                    listing.add_credit(CREDIT / 2);
                    let more = More { of: *asked, credit: CREDIT / 2 };
                    self.asker.ask(Body::More(more))?;
                }
            }
            (Stage::Listing { xid: asked, listing }, Body::Listed(listed)) if *asked == xid => {
                listing.end(listed.count)?;
            }
            _ => return Err(Violation::UnknownRequest { xid }.into()),
        }
        if matches!(&self.stage, Stage::Listing { listing, .. } if listing.is_complete()) {
            self.stage = Stage::Done;
        }
        Ok(())
    }
}

/// Returns why the server did not list the folder at `path` below `root`, whose entry says that it is unread.
pub fn unread(root: &RemotePath, path: &RemotePath) -> Error {
    // A server opens no folder deeper than this, and otherwise those that it may read.
    if root.depth() + path.depth() >= MAX_DEPTH {
        return Error::path(path.as_bytes(), PathError::TooDeep);
    }
    Error::Refused { code: Code::Denied, detail: Vec::new() }
}

/// The path of an entry that lies in the last of `folders`.
pub(crate) fn below(folders: &[RemotePath], entry: &Entry) -> Result<RemotePath, Error> {
    let folder = folders.last().cloned().unwrap_or_default();
    folder
        .join(&entry.name)
        .map_err(|problem| Violation::Name { name: entry.name.to_vec(), problem }.into())
}

impl<F: FnMut(&RemotePath, &Entry)> Receiver for Lister<F> {
    fn element(&self) -> Element {
        self.asker.element()
    }

    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error> {
        self.reply(prefix.xid, body)
    }

    fn accepts(&self) -> bool {
        !matches!(self.stage, Stage::Done)
    }
}
