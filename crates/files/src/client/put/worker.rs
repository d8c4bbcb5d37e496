//! One connection of a put.

use super::plan::{File, Job, Plan, Root};
use crate::blocks::is_bordered;
use crate::client::{Asker, LONG_UPLOADS_MAX, REQUESTS_MAX, Skip, unchanged};
use crate::error::{Error, Violation};
use crate::folder::Last;
use crate::inbox::{Receiver, WINDOW_LEN};
use crate::machine::{Machine, Step, Work};
use crate::message::{
    Body, Cancel, Code, Commit, Hashing, Kind, Look, Meta, Missing, Prefix, Put, Touch, octets,
};
use crate::rate::Rate;
use crate::server::open_file;
use crate::source;
use crate::source::{Outgoing, Progress};
use crate::{Element, RemotePath};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One connection of a put. See [`Plan`].
pub type Worker = Machine<Putter>;

/// What it does.
#[derive(Debug)]
pub struct Putter {
    desk: Desk,
    rate: Rate,
    outgoing: Option<(Outgoing, Sending)>,
    /// Where the last file came from.
    parent: Last,
    /// What it is a folder of.
    root: Option<Arc<Root>>,
}

#[derive(Debug)]
struct Desk {
    plan: Arc<Plan>,
    asker: Asker,
    pending: HashMap<u32, Pending>,
    /// What the server is ready to receive.
    ready: VecDeque<Sending>,
}

#[derive(Debug)]
enum Pending {
    Make(Arc<File>, Vec<u8>),
    Touch(RemotePath, Meta),
    Look(Arc<File>),
    Put(Arc<File>, Range<u64>),
    /// What the server misses of it is being sent or waits for that.
    Send(Arc<File>, Range<u64>),
    /// All was sent for the request `of`.
    Commit {
        of: u32,
        more: bool,
    },
    Cancel,
}

/// A range of a file on its way.
#[derive(Debug)]
struct Sending {
    xid: u32,
    file: Arc<File>,
    /// What the server still needs, next first.
    missing: VecDeque<Range<u64>>,
    /// It needs more than it could say.
    more: bool,
    /// It wants blocks to be followed by their hashes.
    hashes: bool,
}

impl Putter {
    pub(super) fn worker(plan: Arc<Plan>, element: Element) -> Worker {
        let (asker, rate) = (Asker::new(element), plan.options.bytes_per_s);
        // Who wants messages of a length is to have those.
        let bundles = plan.options.reply_bytes == 0;
        let rate = Rate::new(rate.div_ceil(u64::from(plan.options.connections.max(1))));
        let desk = Desk { plan, asker, pending: HashMap::new(), ready: VecDeque::new() };
        let (parent, root) = (Last::default(), None);
        Machine::of(Putter { desk, rate, outgoing: None, parent, root }, element, bundles)
    }

    /// Withdraws what is under way, if the plan has ended before it was done.
    fn give_up(&mut self) -> Result<bool, Error> {
        if !self.desk.plan.has_ended() {
            return Ok(false);
        }
        if let Some((_, sending)) = self.outgoing.take() {
            drop(sending);
        }
        self.desk.cancel_all()
    }

    /// Takes jobs while there is room for more.
    fn begin(&mut self) -> Result<bool, Error> {
        let mut worked = false;
        while self.desk.pending.len() < REQUESTS_MAX {
            let Some(job) = self.desk.plan.take() else { break };
            if job.is_long() && self.desk.long_uploads() >= LONG_UPLOADS_MAX {
                self.desk.plan.give_back(job);
                break;
            }
            worked = true;
            match job {
                Job::Make(file, target) => self.desk.make(file, target)?,
                Job::Look(file) => {
                    let path = octets(file.remote.as_bytes());
                    let xid = self.desk.asker.ask(Body::Look(Look { path }))?;
                    self.desk.pending.insert(xid, Pending::Look(file));
                }
                Job::Send(file, range) => self.desk.put(file, range)?,
                Job::Touch(path, meta) => {
                    let touch = Touch { path: octets(path.as_bytes()), meta };
                    let xid = self.desk.asker.ask(Body::Touch(touch))?;
                    self.desk.pending.insert(xid, Pending::Touch(path, meta));
                }
            }
        }
        Ok(worked)
    }

    /// Sends about a window of what the server is ready for.
    fn send(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let mut sent = 0;
        while sent < WINDOW_LEN as u64 {
            // What the server has refused meanwhile is sent no further.
            if self
                .outgoing
                .as_ref()
                .is_some_and(|(o, _)| !self.desk.pending.contains_key(&o.xid()))
            {
                self.outgoing = None;
            }
            if self.outgoing.is_none() {
                // The server holds a file open until its commit comes, and only so many: what is asked goes before the
                // contents of the next one.
                self.desk.asker.outbox.send(step)?;
                if !self.desk.asker.outbox.is_empty() || !self.open(step.channel.max_adu())? {
                    return Ok(());
                }
            }
            let Some((outgoing, _)) = &mut self.outgoing else { continue };
            match outgoing.send_within(&mut self.rate, step, self.desk.asker.element()) {
                Ok(Progress::Full) => return Ok(()),
                Ok(Progress::More { bytes, holes }) => {
                    self.desk.plan.shared.moved(bytes, holes);
                    sent += bytes;
                }
                Ok(Progress::Done) => self.sent()?,
                Err(error) if error.is_about_one_file() => {
                    if let Some((_, sending)) = self.outgoing.take() {
                        self.desk.abandon(sending, error)?;
                    }
                }
                Err(error) => return Err(error),
            }
            step.turn.worked = true;
        }
        Ok(())
    }

    /// Opens the next piece to send, or commits what was sent; false when there is nothing to do.
    fn open(&mut self, max_adu: usize) -> Result<bool, Error> {
        while let Some(mut sending) = self.desk.ready.pop_front() {
            if sending.file.fate.has_failed() {
                let error = Error::local(Code::Cancelled, sending.file.path.as_bytes());
                self.desk.abandon(sending, error)?;
                continue;
            }
            let Some(range) = sending.missing.pop_front() else {
                self.desk.commit(&sending)?;
                return Ok(true);
            };
            let plan = &self.desk.plan;
            let file = &sending.file;
            if !self.root.as_ref().is_some_and(|root| Arc::ptr_eq(root, &file.root)) {
                self.root = Some(Arc::clone(&file.root));
                self.parent.forget();
            }
            let opened = open_file(&file.root.dir, &mut self.parent, &file.path).and_then(
                |(opened, meta)| match meta.version == file.meta.version {
                    true => Ok(opened),
                    false => Err(Error::local(Code::Changed, file.path.as_bytes())),
                },
            );
            match opened {
                Ok(opened) => {
                    let reply_bytes = plan.options.reply_bytes;
                    let Sending { xid, hashes, .. } = sending;
                    let job = source::Job { xid, copies: 1, range, reply_bytes, max_adu, hashes };
                    let outgoing = Outgoing::new(opened, file.meta, file.path.as_bytes(), job);
                    self.outgoing = Some((outgoing, sending));
                    return Ok(true);
                }
                Err(error) => self.desk.abandon(sending, error)?,
            }
        }
        Ok(false)
    }

    /// A piece was sent.
    fn sent(&mut self) -> Result<(), Error> {
        let Some((outgoing, sending)) = self.outgoing.take() else { return Ok(()) };
        let mut checked = outgoing.check(false).map(drop);
        let file = &sending.file;
        if checked.is_ok() && file.is_long() {
            checked = outgoing.check_place(&file.root.dir, &file.path);
        }
        match checked {
            Ok(()) => {
                self.desk.ready.push_front(sending);
                Ok(())
            }
            Err(error) => self.desk.abandon(sending, error),
        }
    }
}

impl Work for Putter {
    fn receiver(&mut self) -> &mut dyn Receiver {
        &mut self.desk
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        step.turn.worked |= self.give_up()?;
        step.turn.worked |= self.begin()?;
        self.desk.asker.outbox.send(step)?;
        self.send(step)?;
        self.desk.asker.outbox.send(step)
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        let Desk { plan, asker, pending, .. } = &self.desk;
        asker.ends(pending.is_empty() && plan.is_finished(), peer_finished)
    }

    fn rest(&mut self) {
        self.parent.forget();
    }
}

impl Drop for Putter {
    /// What this connection had begun is for another one, or for the next time.
    fn drop(&mut self) {
        let plan = Arc::clone(&self.desk.plan);
        for (_, pending) in self.desk.pending.drain() {
            match pending {
                Pending::Make(file, target) => plan.give_back(Job::Make(file, target)),
                Pending::Touch(path, meta) => plan.give_back(Job::Touch(path, meta)),
                Pending::Look(file) => plan.give_back(Job::Look(file)),
                Pending::Put(file, range) | Pending::Send(file, range) => {
                    plan.give_back(Job::Send(file, range));
                }
                Pending::Commit { .. } | Pending::Cancel => {}
            }
        }
    }
}

impl Desk {
    fn make(&mut self, file: Arc<File>, target: Vec<u8>) -> Result<(), Error> {
        let request = Body::Put(Put {
            path: octets(file.remote.as_bytes()),
            meta: file.meta,
            target: octets(&target),
            replace: self.plan.options.replace,
            piece: (0..0).into(),
            hashing: None,
        });
        let xid = self.asker.ask(request)?;
        self.pending.insert(xid, Pending::Make(file, target));
        Ok(())
    }

    /// Uploads under way of files that are long.
    fn long_uploads(&self) -> usize {
        let is_long = |pending: &&Pending| match pending {
            Pending::Put(file, _) | Pending::Send(file, _) => file.is_long(),
            _ => false,
        };
        self.pending.values().filter(is_long).count()
    }

    fn put(&mut self, file: Arc<File>, range: Range<u64>) -> Result<(), Error> {
        if file.fate.has_failed() {
            drop(file);
            self.plan.end();
            return Ok(());
        }
        let request = Body::Put(Put {
            path: octets(file.remote.as_bytes()),
            meta: self.plan.meta_of(&file),
            target: octets(b""),
            replace: self.plan.options.replace,
            piece: range.clone().into(),
            hashing: self.plan.options.hashing.named(),
        });
        let xid = self.asker.ask(request)?;
        self.pending.insert(xid, Pending::Put(file, range));
        Ok(())
    }

    fn commit(&mut self, sending: &Sending) -> Result<(), Error> {
        let xid = self.asker.ask(Body::Commit(Commit { of: sending.xid }))?;
        self.pending.insert(xid, Pending::Commit { of: sending.xid, more: sending.more });
        Ok(())
    }

    /// Cancels every upload under way. Answers to other requests are ignored.
    fn cancel_all(&mut self) -> Result<bool, Error> {
        self.ready.clear();
        let is_open = |(_, pending): &(&u32, &Pending)| !matches!(pending, Pending::Cancel);
        let open: Vec<u32> = self.pending.iter().filter(is_open).map(|(xid, _)| *xid).collect();
        for xid in &open {
            match self.pending.remove(xid) {
                Some(Pending::Commit { .. }) | None => continue,
                Some(Pending::Put(..) | Pending::Send(..)) => {
                    let cancel = self.asker.ask(Body::Cancel(Cancel { of: *xid }))?;
                    self.pending.insert(cancel, Pending::Cancel);
                }
                Some(_) => {}
            }
            self.plan.end();
        }
        Ok(!open.is_empty())
    }

    /// Breaks off what is being sent, because of something on this side.
    fn abandon(&mut self, sending: Sending, error: Error) -> Result<(), Error> {
        let xid = self.asker.ask(Body::Cancel(Cancel { of: sending.xid }))?;
        self.pending.insert(xid, Pending::Cancel);
        self.pending.remove(&sending.xid);
        self.plan.failed(&sending.file, error);
        drop(sending);
        self.plan.end();
        Ok(())
    }

    fn missing(&mut self, xid: u32, missing: &Missing) -> Result<(), Error> {
        // What is wrong with the answer leaves the request as it is: it goes back to the plan.
        let Some(Pending::Put(file, range)) = self.pending.get(&xid) else {
            return Err(Violation::UnknownRequest { xid }.into());
        };
        let (file, range) = (file.clone(), range.clone());
        let (mut ranges, mut at, mut bytes) = (VecDeque::new(), range.start, 0);
        for piece in &missing.pieces {
            let Range { start, end } = piece.range();
            if start < at
                || piece.length == 0
                || end > range.end
                || !is_bordered(&piece.range(), file.meta.size)
            {
                return Err(Violation::DataRange { start, end }.into());
            }
            ranges.push_back(start..end);
            at = end;
            bytes += piece.length;
        }
        let more = missing.more;
        let here = if more { 0 } else { range.end - range.start - bytes };
        if here > 0 {
            self.plan.resumed(&file, here);
        }
        let agreed = missing.hashing.unwrap_or(Hashing::Both);
        if agreed.is_weaker_than(self.plan.options.hashing) {
            return Err(Violation::Hashing.into());
        }
        let hashes = agreed.is_sent();
        self.ready.push_back(Sending { xid, file: file.clone(), missing: ranges, more, hashes });
        self.pending.insert(xid, Pending::Send(file, range));
        Ok(())
    }

    fn stored(&mut self, xid: u32, complete: bool) -> Result<(), Error> {
        if let Some(Pending::Put(..) | Pending::Send(..) | Pending::Look(_) | Pending::Cancel) =
            self.pending.get(&xid)
        {
            return Err(Violation::UnknownRequest { xid }.into());
        }
        match self.pending.remove(&xid) {
            Some(Pending::Make(file, _)) => self.end_file(file),
            Some(Pending::Touch(..)) => self.plan.end(),
            Some(Pending::Commit { of, more }) => {
                let Some(Pending::Send(file, range)) = self.pending.remove(&of) else {
                    return Err(Violation::UnknownRequest { xid: of }.into());
                };
                if more && !complete {
                    return self.put(file, range);
                }
                if complete {
                    self.plan.done(&file);
                }
                if file.ranges.fetch_sub(1, Ordering::AcqRel) == 1 && !file.fate.is_done() {
                    let error = Error::Refused {
                        code: Code::Io,
                        detail: b"the file is not complete".to_vec(),
                    };
                    self.plan.failed(&file, error);
                }
                self.end_file(file);
            }
            _ => return Err(Violation::UnknownRequest { xid }.into()),
        }
        Ok(())
    }

    /// The last to drop a file has its folder's time set; that comes before the end of the job.
    fn end_file(&mut self, file: Arc<File>) {
        drop(file);
        self.plan.end();
    }

    /// What is there under the name of a file.
    fn found(&mut self, xid: u32, there: &Meta) -> Result<(), Error> {
        let Some(Pending::Look(file)) = self.pending.remove(&xid) else {
            return Err(Violation::UnknownRequest { xid }.into());
        };
        let found = (there.kind == Kind::File).then_some((there.mtime, there.size));
        let why = found.and_then(|found| unchanged(found, &file.meta));
        match why {
            Some(Skip::Same) if file.is_recorded => self.plan.kept(&file),
            Some(why) if self.plan.options.keep_same => self.plan.leave(&file, why),
            _ => self.plan.send(&file),
        }
        self.end_file(file);
        Ok(())
    }

    fn refused(&mut self, xid: u32, error: Error) -> Result<(), Error> {
        let (of, file) = match self.pending.remove(&xid) {
            Some(Pending::Make(file, _) | Pending::Put(file, _) | Pending::Send(file, _)) => {
                (xid, file)
            }
            Some(Pending::Look(file)) => {
                // Nothing is there, or it cannot be seen: who makes the file finds out.
                self.plan.send(&file);
                self.end_file(file);
                return Ok(());
            }
            Some(Pending::Touch(path, _)) => {
                self.plan.failed_at(&path, error);
                self.plan.end();
                return Ok(());
            }
            Some(Pending::Commit { of, .. }) => match self.pending.remove(&of) {
                Some(Pending::Send(file, _)) => (of, file),
                // It had failed before, and that was told already.
                _ => return Ok(()),
            },
            Some(Pending::Cancel) => return Ok(()),
            None => return Err(Violation::UnknownRequest { xid }.into()),
        };
        self.plan.failed(&file, error);
        self.ready.retain(|sending| sending.xid != of);
        // The commit that overtook the last contents is not answered any more.
        self.pending
            .retain(|_, p| !matches!(p, Pending::Commit { of: failed, .. } if *failed == of));
        self.end_file(file);
        Ok(())
    }

    fn reply(&mut self, xid: u32, reply: Body<'static>) -> Result<(), Error> {
        if !self.pending.contains_key(&xid) && self.asker.made(xid) {
            return Ok(());
        }
        match reply {
            Body::Entry(entry) if matches!(self.pending.get(&xid), Some(Pending::Look(_))) => {
                self.found(xid, &entry.meta)
            }
            Body::Missing(missing) => self.missing(xid, &missing),
            Body::Stored(stored) => self.stored(xid, stored.complete),
            Body::Failed(failed) => self.refused(xid, failed.into()),
            Body::Done(_) if matches!(self.pending.get(&xid), Some(Pending::Cancel)) => {
                self.pending.remove(&xid);
                Ok(())
            }
            _ => Err(Violation::UnknownRequest { xid }.into()),
        }
    }
}

impl Receiver for Desk {
    fn element(&self) -> Element {
        self.asker.element()
    }

    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error> {
        self.reply(prefix.xid, body)
    }
}
