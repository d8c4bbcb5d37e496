//! Uploads: making files, folders and links for a client.

use super::Share;
use crate::Error;
use crate::blocks::{BlockHash, is_bordered};
use crate::budget::Budget;
use crate::folder::Last;
use crate::message::{
    Body, Code, Failed, Hashing, Kind, Meta, Missing, PIECES_MAX, Piece, Put, Run, Stored, Touch,
};
use crate::name::{RemotePath, Shown, link_stays_inside};
use crate::place;
use crate::target::{Claim, RangeWriter, Storing, Target, Who};
use fusewire_session::Fingerprint;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Files that one connection may have begun to send.
const UPLOADS_MAX: usize = 256;
/// Of them, those that hold an open file: long ones, and short ones of which something has come.
const HOLDING_MAX: usize = 64;
/// Blocks of an earlier transfer that are hashed in one turn.
const CHECKED_BLOCKS: usize = 2;
/// Bytes of memory for what one connection has begun and not ended: far more than an honest client needs, whose
/// contents come nearly in order.
const MEMORY_BYTES_MAX: usize = 8 << 20;
/// Of these, what it has for itself, whatever others use.
const MEMORY_BYTES_OWN: usize = 64 << 10;

/// Failures of one connection that are logged as warnings.
const LOGGED_MAX: u32 = 100;

/// Made at once, or complete.
const STORED: Body<'_> = Body::Stored(Stored { complete: true });

/// The uploads of one connection.
#[derive(Debug)]
pub(super) struct Uploads {
    share: Arc<Share>,
    active: HashMap<u32, Upload>,
    /// Of them, those that hold an open file.
    holding: usize,
    /// Where the last file went.
    parent: Last,
    /// Whose they are.
    who: Who,
    /// Tags of the connection say that what comes is what was sent.
    pub(super) is_tagged: bool,
    /// Uploads whose leftovers are being hashed, next first.
    checking: VecDeque<u32>,
    /// Uploads that were committed or failed in a way that must be looked at.
    ripe: Vec<u32>,
    memory: Arc<Budget>,
    /// Where they come from, for the log.
    pub(super) peer: Arc<str>,
    /// Bytes hashed or cleared, beyond those that arrived.
    work: u64,
    /// Failures that were logged.
    logged: u32,
}

#[derive(Debug)]
struct Upload {
    path: RemotePath,
    target: Arc<Target>,
    range: Range<u64>,
    claim: Arc<Claim>,
    stage: Stage,
    /// It holds an open file.
    holds: bool,
}

#[derive(Debug)]
enum Stage {
    /// What an earlier transfer left is being hashed.
    Checking,
    /// Contents come; the number of the commit request, once it was made.
    Receiving { writers: Vec<RangeWriter>, commit: Option<u32> },
}

impl Uploads {
    pub(super) fn new(share: Arc<Share>, who: Who) -> Self {
        let memory = Budget::within(&share.memory, MEMORY_BYTES_MAX, MEMORY_BYTES_OWN);
        let (parent, checking, peer) = (Last::default(), VecDeque::new(), Arc::from(""));
        let (active, ripe) = (HashMap::new(), Vec::new());
        Uploads {
            share,
            active,
            holding: 0,
            parent,
            who,
            is_tagged: false,
            checking,
            ripe,
            memory,
            peer,
            work: 0,
            logged: 0,
        }
    }

    /// Whose they are, if that is known.
    pub(super) fn owner(&self) -> Option<Fingerprint> {
        self.who.owner
    }

    /// Nothing happens now: no folder is kept open.
    pub(super) fn rest(&mut self) {
        self.parent.forget();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.checking.is_empty() && self.ripe.is_empty()
    }

    /// A file is being received.
    pub(super) fn is_open(&self) -> bool {
        !self.active.is_empty()
    }

    pub(super) fn accepts(&self) -> bool {
        self.active.len() < UPLOADS_MAX && self.holding < HOLDING_MAX
    }

    /// Makes what is asked for. A file is answered later, by [`Uploads::work`].
    pub(super) fn put(&mut self, xid: u32, put: &Put) -> Result<Option<Body<'static>>, Error> {
        let made = self.make(xid, put);
        made.inspect_err(|error| self.log_failure(&put.path, error))
    }

    /// Logs an upload that failed. One client fills no disk with it.
    fn log_failure(&mut self, path: &[u8], error: &Error) {
        let (peer, path) = (&self.peer, Shown(path));
        if error.code() == Code::Exists || self.logged > LOGGED_MAX {
            tracing::info!(target: "access", %peer, %path, %error, "upload failed");
            return;
        }
        tracing::warn!(target: "access", %peer, %path, %error, "upload failed");
        if self.logged == LOGGED_MAX {
            tracing::warn!(target: "access", %peer, "further failed uploads are logged at level info");
        }
        self.logged += 1;
    }

    fn make(&mut self, xid: u32, put: &Put) -> Result<Option<Body<'static>>, Error> {
        let path = self.writable(&put.path)?;
        if self.active.is_empty() {
            self.share.roots.refresh()?;
        }
        let root = &*self.share.roots.folder()?;
        match put.meta.kind {
            Kind::File => self.put_file(xid, path, put).map(|()| None),
            Kind::Folder => {
                place::make_folder(root, &path)?;
                Ok(Some(STORED))
            }
            Kind::Link => {
                if !link_stays_inside(&put.target, path.depth().saturating_sub(1)) {
                    return Err(Error::local(Code::BadPath, path.as_bytes()));
                }
                place::make_link(root, &path, &put.target, put.replace)?;
                Ok(Some(STORED))
            }
            Kind::Other | Kind::Unknown(_) => Err(Error::local(Code::BadRequest, path.as_bytes())),
        }
    }

    /// Who hashes what a request is about: who is asked for, if tags say the same as hashes, else both sides.
    pub(super) fn agreed(&self, asked: Option<Hashing>) -> Hashing {
        asked.filter(|_| self.is_tagged).unwrap_or(Hashing::Both)
    }

    fn put_file(&mut self, xid: u32, path: RemotePath, put: &Put) -> Result<(), Error> {
        let (meta, range) = (put.meta, put.piece.range());
        if !is_bordered(&range, meta.size) || self.active.contains_key(&xid) {
            return Err(Error::local(Code::BadRequest, path.as_bytes()));
        }
        let asked = self.agreed(put.hashing);
        let storing = Storing {
            replace: put.replace,
            sync: self.share.settings.sync,
            remove_when_full: true,
            hashing: asked,
        };
        let memory = &self.share.memory;
        let root = &*self.share.roots.folder()?;
        let parent = &mut self.parent;
        let open = || Target::open(parent.parent(root, &path)?, &path, meta, storing, memory);
        let claim = Claim::new(self.who, range.clone());
        let target = self.share.upload(&path, (&meta, asked), (self.who, &claim), &range, open)?;
        self.checking.push_back(xid);
        let holds = target.is_open();
        self.holding += usize::from(holds);
        let stage = Stage::Checking;
        self.active.insert(xid, Upload { path, target, range, claim, stage, holds });
        Ok(())
    }

    pub(super) fn commit(&mut self, xid: u32, of: u32) -> Result<(), Error> {
        match self.active.get_mut(&of).map(|upload| &mut upload.stage) {
            Some(Stage::Receiving { commit: commit @ None, .. }) => {
                *commit = Some(xid);
                self.ripe.push(of);
                Ok(())
            }
            _ => Err(Error::local(Code::BadRequest, b"")),
        }
    }

    pub(super) fn touch(&mut self, touch: &Touch) -> Result<Option<Body<'static>>, Error> {
        let path = self.writable(&touch.path)?;
        if path.name().is_none() {
            // The served folder is the owner's.
            return Err(Error::local(Code::BadRequest, b""));
        }
        // Nobody is to lock the server out of a folder.
        let meta = Meta { mode: touch.meta.mode | 0o700, ..touch.meta };
        let root = &*self.share.roots.folder()?;
        place::remove_spares(root, &path);
        place::touch(root, &path, &meta)?;
        Ok(Some(STORED))
    }

    pub(super) fn cancel(&mut self, of: u32) {
        self.remove(of);
    }

    fn remove(&mut self, xid: u32) -> Option<Upload> {
        let upload = self.active.remove(&xid)?;
        self.holding -= usize::from(upload.holds);
        if matches!(upload.stage, Stage::Checking) {
            self.checking.retain(|other| *other != xid);
        }
        Some(upload)
    }

    fn writable(&self, path: &[u8]) -> Result<RemotePath, Error> {
        if !self.share.settings.writable {
            return Err(Error::local(Code::ReadOnly, path));
        }
        RemotePath::checked(path)
    }

    pub(super) fn contents(
        &mut self,
        run: Run,
        bytes: &[u8],
        hash: Option<BlockHash>,
    ) -> Result<(), Error> {
        self.write(run.xid, run.position, |writer| writer.contents(run.position, bytes, hash))
    }

    /// Returns the bytes hashed or cleared since the last call, beyond those that arrived in messages.
    pub(super) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    pub(super) fn hole(&mut self, xid: u32, piece: &Piece) -> Result<(), Error> {
        self.write(xid, piece.position, |writer| writer.hole(piece.position, piece.length))
    }

    /// Data for an upload that has failed or ended is dropped: it was on the way.
    fn write(
        &mut self,
        xid: u32,
        position: u64,
        write: impl FnOnce(&mut RangeWriter) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(upload) = self.active.get_mut(&xid) else { return Ok(()) };
        self.holding += usize::from(!upload.holds);
        upload.holds = true;
        let Stage::Receiving { writers, commit } = &mut upload.stage else {
            return Err(Error::local(Code::BadRequest, upload.path.as_bytes()));
        };
        // A hash alone lies behind its block, so it may lie at the end of the range. Ranges never touch.
        let holds =
            |w: &&mut RangeWriter| w.range().contains(&position) || w.range().end == position;
        let Some(writer) = writers.iter_mut().find(holds) else {
            return Err(crate::Violation::DataRange { start: position, end: position }.into());
        };
        let held = upload.claim.hold();
        let result = match held {
            Some(_) => write(writer),
            None => Err(taken_over()),
        };
        drop(held);
        self.work += writer.take_work();
        let complete = writer.is_complete();
        match result {
            Ok(()) if complete && commit.is_some() => self.ripe.push(xid),
            Ok(()) => {}
            Err(error) => {
                upload.target.fail(&error);
                if let Some(upload) = self.remove(xid) {
                    self.log_failure(upload.path.as_bytes(), &error);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Something takes time, and goes on with the next [`Uploads::work`].
    pub(super) fn has_work(&self) -> bool {
        !self.checking.is_empty()
    }

    /// Goes on with what takes time; the answers that are due.
    pub(super) fn work(&mut self) -> Vec<(u32, Body<'static>)> {
        let mut replies = Vec::new();
        self.check(&mut replies);
        for xid in std::mem::take(&mut self.ripe) {
            let ready = match self.active.get(&xid).map(|upload| &upload.stage) {
                Some(Stage::Receiving { writers, commit: Some(commit) }) => {
                    writers.iter().all(RangeWriter::is_complete).then_some(*commit)
                }
                _ => None,
            };
            if let Some(commit) = ready
                && let Some(upload) = self.remove(xid)
            {
                replies.push((commit, self.finish(upload)));
            }
        }
        replies
    }

    /// Hashes some of what one upload's earlier transfer left, each in its turn: who asks for many does not hold up
    /// the others. Those that have nothing to be hashed are answered at once.
    fn check(&mut self, replies: &mut Vec<(u32, Body<'static>)>) {
        let (mut blocks, mut had_its_turn) = (CHECKED_BLOCKS, None);
        for _ in 0..self.checking.len() {
            let Some(xid) = self.checking.pop_front() else { break };
            let Some(upload) = self.active.get_mut(&xid) else { continue };
            let before = blocks;
            match upload.check(&mut blocks, &self.memory) {
                Ok(None) if blocks < before => had_its_turn = Some(xid),
                Ok(None) => self.checking.push_back(xid),
                Ok(Some(reply)) => replies.push((xid, reply)),
                Err(error) => {
                    replies.push((xid, failure(&error)));
                    if let Some(upload) = self.remove(xid) {
                        self.log_failure(upload.path.as_bytes(), &error);
                    }
                }
            }
        }
        // The rest of it is for later, behind the others.
        self.checking.extend(had_its_turn);
    }

    /// Drops the writers, and if the file is complete gives it its name.
    fn finish(&mut self, upload: Upload) -> Body<'static> {
        drop(upload.stage);
        let finished = match upload.claim.hold() {
            Some(_held) => upload.target.finish(),
            None => Err(taken_over()),
        };
        match finished {
            Ok(complete) => {
                if complete {
                    self.share.forget_upload(&upload.path, &upload.target);
                    let (peer, path) = (&self.peer, &upload.path);
                    let bytes = upload.target.meta().size;
                    tracing::info!(target: "access", %peer, %path, bytes, "stored");
                }
                Body::Stored(Stored { complete })
            }
            Err(error) => {
                upload.target.fail(&error);
                self.log_failure(upload.path.as_bytes(), &error);
                failure(&error)
            }
        }
    }
}

impl Upload {
    /// Hashes some of what an earlier transfer left; when that is done, says what is missing.
    fn check(
        &mut self,
        blocks: &mut usize,
        memory: &Arc<Budget>,
    ) -> Result<Option<Body<'static>>, Error> {
        match self.claim.is_revoked() {
            true => Err(taken_over()),
            false if self.target.check_some(blocks)? => self.begin(memory).map(Some),
            false => Ok(None),
        }
    }

    /// Contents may come: says which are missing.
    fn begin(&mut self, memory: &Arc<Budget>) -> Result<Body<'static>, Error> {
        let mut pieces = self.target.missing(self.range.clone());
        let more = pieces.len() > PIECES_MAX;
        pieces.truncate(PIECES_MAX);
        let missing = pieces.iter().cloned().map(Piece::from).collect();
        let writer = |piece| {
            RangeWriter::claimed(Arc::clone(&self.target), piece, Arc::clone(&self.claim), memory)
        };
        let writers = pieces.into_iter().map(writer).collect::<Result<_, _>>()?;
        self.stage = Stage::Receiving { writers, commit: None };
        Ok(Body::Missing(Missing { pieces: missing, more, hashing: self.target.hashing().named() }))
    }
}

/// A later session of the same user writes what this one has begun.
fn taken_over() -> Error {
    let detail =
        "another upload of the same file, begun later with the same key, has taken its place";
    Error::Refused { code: Code::Busy, detail: detail.into() }
}

fn failure(error: &Error) -> Body<'static> {
    Body::Failed(Failed::from(error))
}
