//! One connection of a get.

use super::plan::{File, Job, Plan};
use super::recheck::Recheck;
use crate::Element;
use crate::blocks::BlockHash;
use crate::client::listing::Listing;
use crate::client::{Asker, REQUESTED_BYTES_MAX, REQUESTS_MAX};
use crate::error::{Error, Violation};
use crate::inbox::Receiver;
use crate::machine::{Machine, Step, Work};
use crate::message::{Body, Cancel, Get, Hole, List, Look, More, Piece, Prefix, Run, octets};
use crate::target::{RangeWriter, Target};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Entries asked for at a time.
const CREDIT: u32 = 2048;
/// Blocks left by an earlier transfer that are hashed in one turn.
const CHECKED_BLOCKS: usize = 16;
/// Bytes of files that an interrupted run has completed that are hashed in one turn.
const RECHECKED_BYTES: u64 = 16 << 20;

/// One connection of a get. See [`Plan`].
pub type Worker = Machine<Getter>;

/// What it does.
#[derive(Debug)]
pub struct Getter {
    desk: Desk,
    /// A file whose leftovers are being hashed.
    checking: Option<(Arc<File>, Arc<Target>)>,
    /// A file that an interrupted run has completed, and that is being hashed.
    rechecking: Option<Recheck>,
    /// Bytes that may still be hashed for that in this turn.
    recheck_bytes: u64,
}

#[derive(Debug)]
struct Desk {
    plan: Arc<Plan>,
    asker: Asker,
    pending: HashMap<u32, Pending>,
    /// Bytes that the gets under way ask for.
    requested: u64,
    /// A file that has come, and that its outlet has not taken yet.
    draining: Option<(Arc<File>, Arc<Target>)>,
    /// Bytes hashed or cleared, beyond those that arrived.
    work: u64,
}

#[derive(Debug)]
enum Pending {
    Look,
    List(Listing),
    Get(Getting),
    /// A request whose answer says nothing.
    Cancel,
}

#[derive(Debug)]
struct Getting {
    file: Arc<File>,
    target: Arc<Target>,
    range: Range<u64>,
    /// Copies that have begun and are not complete.
    copies: BTreeMap<u32, RangeWriter>,
    /// Copies that have begun.
    begun: std::collections::BTreeSet<u32>,
    complete: u32,
    /// The server has said that all was sent, and whether the file grew.
    done: Option<bool>,
}

impl Getter {
    pub(super) fn worker(plan: Arc<Plan>, element: Element) -> Worker {
        let asker = Asker::new(element);
        // Who asks for messages of a length is to get those.
        let bundles = plan.options.reply_bytes == 0;
        let pending = HashMap::new();
        let desk = Desk { plan, asker, pending, requested: 0, draining: None, work: 0 };
        let getter = Getter { desk, checking: None, rechecking: None, recheck_bytes: 0 };
        Machine::of(getter, element, bundles)
    }

    /// Withdraws what is under way, if the plan has ended before it was done.
    fn give_up(&mut self) -> Result<bool, Error> {
        if !self.desk.plan.has_ended() {
            return Ok(false);
        }
        for (file, target) in
            [self.checking.take(), self.desk.draining.take()].into_iter().flatten()
        {
            drop((file, target));
            self.desk.plan.end();
        }
        if self.rechecking.take().is_some() {
            self.desk.plan.end();
        }
        self.desk.cancel_all()
    }

    /// Hashes some of a file that an interrupted run has completed. One that does not hold is got again.
    fn recheck(&mut self) -> Result<bool, Error> {
        let Some(mut recheck) = self.rechecking.take() else { return Ok(false) };
        match recheck.step(&mut self.recheck_bytes) {
            None => self.rechecking = Some(recheck),
            Some(true) => {
                self.desk.plan.kept(&recheck.file);
                drop(recheck);
                self.desk.plan.end();
            }
            Some(false) => self.open(recheck.file)?,
        }
        Ok(true)
    }

    /// Opens what a file is written to.
    fn open(&mut self, file: Arc<File>) -> Result<(), Error> {
        match self.desk.plan.open(&file) {
            Ok(target) => {
                self.checking = Some((file, target));
                self.check()?;
            }
            Err(error) => {
                self.desk.plan.failed(&file, error);
                drop(file);
                self.desk.plan.end();
            }
        }
        Ok(())
    }

    /// Hashes some of what an earlier transfer left.
    fn check(&mut self) -> Result<bool, Error> {
        let Some((file, target)) = self.checking.take() else { return Ok(false) };
        let mut blocks = CHECKED_BLOCKS;
        match target.check_some(&mut blocks) {
            Ok(false) => self.checking = Some((file, target)),
            Ok(true) => match self.desk.plan.split(&file, &target) {
                Some(Job::Range { file, target, range }) => self.desk.get(file, target, range)?,
                _ => self.desk.complete(file, target),
            },
            Err(error) => {
                self.desk.plan.failed(&file, error);
                self.desk.plan.end();
            }
        }
        Ok(true)
    }

    /// Takes jobs while there is room for more.
    fn begin(&mut self) -> Result<bool, Error> {
        let mut worked = false;
        while self.checking.is_none()
            && self.rechecking.is_none()
            && self.recheck_bytes > 0
            && self.desk.pending.len() < REQUESTS_MAX
            && self.desk.requested < REQUESTED_BYTES_MAX
        {
            let Some(job) = self.desk.plan.take() else { break };
            worked = true;
            match job {
                Job::Look => self.desk.look()?,
                Job::List => self.desk.list()?,
                Job::Range { file, target, range } => self.desk.get(file, target, range)?,
                Job::File(file) => match self.desk.plan.recheck(&file) {
                    Some(recheck) => {
                        self.rechecking = Some(recheck);
                        self.recheck()?;
                    }
                    None => self.open(file)?,
                },
            }
        }
        Ok(worked)
    }
}

impl Work for Getter {
    fn receiver(&mut self) -> &mut dyn Receiver {
        &mut self.desk
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        step.turn.worked |= self.give_up()?;
        self.recheck_bytes = RECHECKED_BYTES;
        step.turn.worked |= self.recheck()?;
        step.turn.worked |= self.check()?;
        step.turn.worked |= self.desk.drain();
        step.turn.worked |= self.begin()?;
        step.turn.worked |= self.desk.ask_for_entries()?;
        self.desk.asker.outbox.send(step)
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        let desk = &self.desk;
        let is_checking = self.checking.is_some() || self.rechecking.is_some();
        let is_idle = desk.pending.is_empty() && !is_checking && desk.draining.is_none();
        desk.asker.ends(is_idle && desk.plan.is_finished(), peer_finished)
    }

    fn rest(&mut self) {
        self.desk.plan.rest();
    }
}

impl Drop for Getter {
    /// What this connection had begun is for another one, or for the next time.
    fn drop(&mut self) {
        let plan = Arc::clone(&self.desk.plan);
        let unfinished = [self.checking.take(), self.desk.draining.take()];
        let unfinished = unfinished.into_iter().flatten().map(|(file, _)| file);
        for file in unfinished.chain(self.rechecking.take().map(|recheck| recheck.file)) {
            plan.give_back(Job::File(file));
        }
        for (_, pending) in self.desk.pending.drain() {
            match pending {
                Pending::Look => plan.give_back(Job::Look),
                Pending::List(_) => plan.give_back(Job::List),
                Pending::Cancel => {}
                Pending::Get(getting) => {
                    let Getting { file, target, range, copies, .. } = getting;
                    drop(copies);
                    let mut missing = target.missing(range).into_iter();
                    match missing.next() {
                        Some(range) => plan.give_back(Job::Range {
                            file: file.clone(),
                            target: target.clone(),
                            range,
                        }),
                        None => plan.end(),
                    }
                    for range in missing {
                        plan.add_range(&file, &target, range);
                    }
                }
            }
        }
    }
}

impl Desk {
    fn look(&mut self) -> Result<(), Error> {
        let path = octets(self.plan.remote.as_bytes());
        let xid = self.asker.ask(Body::Look(Look { path }))?;
        self.pending.insert(xid, Pending::Look);
        Ok(())
    }

    fn list(&mut self) -> Result<(), Error> {
        let path = octets(self.plan.remote.as_bytes());
        let list = List { path, recursive: true, credit: CREDIT };
        let xid = self.asker.ask(Body::List(list))?;
        self.pending.insert(xid, Pending::List(Listing::new(CREDIT)));
        Ok(())
    }

    fn get(
        &mut self,
        file: Arc<File>,
        target: Arc<Target>,
        range: Range<u64>,
    ) -> Result<(), Error> {
        if file.fate.has_failed() {
            self.plan.end();
            return Ok(());
        }
        let options = &self.plan.options;
        let request = Body::Get(Get {
            path: octets(file.remote.as_bytes()),
            version: file.meta.version,
            piece: range.clone().into(),
            copies: options.copies.max(1),
            reply_bytes: options.reply_bytes,
            bytes_per_s: self.plan.bytes_per_s(),
            growing: options.growing,
            hashing: options.hashing.named(),
        });
        let xid = self.asker.ask(request)?;
        self.requested += range.end - range.start;
        let (copies, begun) = Default::default();
        let getting = Getting { file, target, range, copies, begun, complete: 0, done: None };
        self.pending.insert(xid, Pending::Get(getting));
        Ok(())
    }

    fn ask_for_entries(&mut self) -> Result<bool, Error> {
        for (&xid, pending) in &mut self.pending {
            let Pending::List(listing) = pending else { continue };
            if listing.credit_left() < u64::from(CREDIT / 2) && self.plan.wants_entries() {
                listing.add_credit(CREDIT / 2);
                let more = self.asker.ask(Body::More(More { of: xid, credit: CREDIT / 2 }))?;
                debug_assert!(more > xid);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everything of a file, or of a range of it, has come.
    fn complete(&mut self, file: Arc<File>, target: Arc<Target>) {
        if !file.fate.has_failed() {
            match target.finish() {
                Ok(true) => self.plan.done(&file, &target),
                Ok(false) if target.is_draining() => {
                    self.draining = Some((file, target));
                    return;
                }
                Ok(false) => {}
                Err(error) => self.plan.failed(&file, error),
            }
        }
        // The last to drop the file sets its folder's time, and that belongs to the job.
        drop(target);
        drop(file);
        self.plan.end();
    }

    /// Cancels every request under way. What is still on its way for them is dropped when it arrives.
    fn cancel_all(&mut self) -> Result<bool, Error> {
        let is_open = |(_, pending): &(&u32, &Pending)| !matches!(pending, Pending::Cancel);
        let mut open: Vec<u32> = self.pending.iter().filter(is_open).map(|(xid, _)| *xid).collect();
        // The server sends the oldest now, and remembers the last one that is to be broken off.
        open.sort_unstable_by(|a, b| b.cmp(a));
        for xid in &open {
            match self.pending.remove(xid) {
                Some(Pending::Get(getting)) => {
                    self.requested -= getting.range.end - getting.range.start;
                    drop(getting);
                }
                Some(_) => self.plan.listed(false),
                None => {}
            }
            self.plan.end();
            let cancel = self.asker.ask(Body::Cancel(Cancel { of: *xid }))?;
            self.pending.insert(cancel, Pending::Cancel);
        }
        Ok(!open.is_empty())
    }

    /// Looks whether an outlet has taken everything; true when there is no more to wait for.
    fn drain(&mut self) -> bool {
        let Some((file, target)) = self.draining.take() else { return false };
        self.complete(file, target);
        self.draining.is_none()
    }

    /// The get `xid` is over, for better or worse.
    fn close(&mut self, xid: u32) -> Option<Getting> {
        match self.pending.remove(&xid) {
            Some(Pending::Get(getting)) => {
                self.requested -= getting.range.end - getting.range.start;
                Some(getting)
            }
            _ => None,
        }
    }

    fn fail_get(&mut self, xid: u32, error: Error) {
        let Some(getting) = self.close(xid) else { return };
        let Getting { file, target, copies, .. } = getting;
        target.fail(&error);
        self.plan.failed(&file, error);
        drop((copies, target));
        drop(file);
        self.plan.end();
    }

    /// If a get has all it was to have, ends it.
    fn settle(&mut self, xid: u32) {
        let copies = self.plan.options.copies.max(1);
        let ready = match self.pending.get(&xid) {
            Some(Pending::Get(getting)) => getting.complete == copies && getting.done.is_some(),
            _ => false,
        };
        if !ready {
            return;
        }
        if let Some(Getting { file, target, done, .. }) = self.close(xid) {
            if done == Some(true) {
                self.plan.grew(&file);
            }
            self.complete(file, target);
        }
    }

    /// Data for the get `xid`: `bytes` of it, for `copy`.
    fn data(
        &mut self,
        xid: u32,
        copy: u32,
        bytes: u64,
        write: impl FnOnce(&mut RangeWriter) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let copies = self.plan.options.copies.max(1);
        let getting = match self.pending.get_mut(&xid) {
            Some(Pending::Get(getting)) => getting,
            // It has failed here, and what was on the way still comes.
            None if self.asker.made(xid) => return Ok(()),
            _ => return Err(Violation::UnknownRequest { xid }.into()),
        };
        if copy >= copies {
            return Err(Violation::Copy { copy, copies }.into());
        }
        let mut begun = Ok(());
        if getting.begun.insert(copy) {
            let (target, range) = (getting.target.clone(), getting.range.clone());
            begun = RangeWriter::new(target, range, &self.plan.memory)
                .map(|writer| drop(getting.copies.insert(copy, writer)));
        }
        let written = begun.and_then(|()| match getting.copies.get_mut(&copy) {
            Some(writer) => {
                let written = write(writer);
                self.work += writer.take_work();
                written.map(|()| writer.is_complete())
            }
            None => {
                let (start, end) = (getting.range.start, getting.range.end);
                Err(Violation::DataTwice { start, end }.into())
            }
        });
        let complete = match written {
            Ok(complete) => complete,
            Err(error) if error.is_about_one_file() => {
                let cancel = self.asker.ask(Body::Cancel(Cancel { of: xid }))?;
                self.pending.insert(cancel, Pending::Cancel);
                self.fail_get(xid, error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.plan.shared.moved(bytes, 0);
        if complete {
            getting.copies.remove(&copy);
            getting.complete += 1;
            self.settle(xid);
        }
        Ok(())
    }

    fn reply(&mut self, xid: u32, reply: Body<'static>) -> Result<(), Error> {
        let unknown = || Err(Violation::UnknownRequest { xid }.into());
        match (self.pending.get_mut(&xid), reply) {
            (None, _) if self.asker.made(xid) => Ok(()),
            (None, _) => unknown(),
            (Some(Pending::Cancel), Body::Done(_) | Body::Failed(_)) => {
                self.pending.remove(&xid);
                Ok(())
            }
            (Some(Pending::Look), Body::Entry(entry)) => {
                self.pending.remove(&xid);
                if let Err(error) = self.plan.found(&entry) {
                    self.plan.failed_whole(error);
                    self.plan.listed(false);
                }
                self.plan.end();
                Ok(())
            }
            (Some(Pending::Look | Pending::List(_)), Body::Failed(failed)) => {
                self.pending.remove(&xid);
                self.plan.failed_whole(failed.into());
                self.plan.listed(false);
                self.plan.end();
                Ok(())
            }
            (Some(Pending::List(listing)), Body::Entries(entries)) => {
                let plan = &self.plan;
                listing.entries(entries, |entry| plan.entry(&entry))?;
                self.listed(xid);
                Ok(())
            }
            (Some(Pending::List(listing)), Body::Listed(listed)) => {
                listing.end(listed.count)?;
                self.listed(xid);
                Ok(())
            }
            (Some(Pending::Get(getting)), Body::Done(done)) => {
                if getting.done.replace(done.grew).is_some() {
                    return Err(Violation::Done { xid }.into());
                }
                self.settle(xid);
                Ok(())
            }
            (Some(Pending::Get(_)), Body::Failed(failed)) => {
                self.fail_get(xid, failed.into());
                Ok(())
            }
            _ => unknown(),
        }
    }

    fn listed(&mut self, xid: u32) {
        if matches!(self.pending.get(&xid), Some(Pending::List(listing)) if listing.is_complete()) {
            self.pending.remove(&xid);
            self.plan.listed(true);
            self.plan.end();
        }
    }
}

impl Receiver for Desk {
    fn element(&self) -> Element {
        self.asker.element()
    }

    fn contents(&mut self, run: Run, bytes: &[u8], hash: Option<BlockHash>) -> Result<(), Error> {
        self.data(run.xid, run.copy, bytes.len() as u64, |writer| {
            writer.contents(run.position, bytes, hash)
        })
    }

    fn hole(&mut self, xid: u32, Hole { copy, piece }: Hole) -> Result<(), Error> {
        let Piece { position, length } = piece;
        self.data(xid, copy, length, |writer| writer.hole(position, length))?;
        self.plan.shared.moved(0, length);
        Ok(())
    }

    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error> {
        self.reply(prefix.xid, body)
    }

    fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    fn accepts(&self) -> bool {
        self.plan.wants_contents()
    }
}
