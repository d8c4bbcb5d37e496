//! One connection of the server.

use super::Share;
use super::list::Listing;
use super::store::Uploads;
use crate::blocks::{BlockHash, is_bordered};
use crate::cast::{Membership, Tally};
use crate::channel::Channel;
use crate::error::{Error, Violation};
use crate::folder::Last;
use crate::inbox::{Receiver, WINDOW_LEN};
use crate::machine::{Machine, Outbox, Step, Work};
use crate::message::{
    Body, Code, Done, Entry, Failed, Get, Hole, Join, Kind, Meta, Prefix, Report, Run, octets,
};
use crate::meta::Found;
use crate::rate::Rate;
use crate::source::{Job, Outgoing, Progress};
use crate::target::{Who, is_short};
use crate::{Element, RemotePath, Shown};
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

/// Files to send that wait for their turn.
const QUEUE_MAX: usize = 64;
/// Bytes of paths in them.
const QUEUE_BYTES_MAX: usize = 64 << 10;
/// Answers that wait for room in the channel.
const OUTBOX_MAX: usize = 64;
/// How often a member's session looks whether there is something to tell of what is cast.
const NEWS_EVERY: Duration = Duration::from_millis(5);
/// Most copies of a file that one request may ask for.
const COPIES_MAX: u32 = 1 << 20;

/// One connection of the server. Memory: the queue and the outbox are bounded, open folders belong to the share.
pub type Session = Machine<Serving>;

/// What it does.
#[derive(Debug)]
pub struct Serving {
    desk: Desk,
    reading: Option<Reading>,
    /// Where the last file came from.
    parent: Last,
    rate: Rate,
}

/// What requests change: everything but the file that is being sent.
#[derive(Debug)]
struct Desk {
    share: Arc<Share>,
    /// The highest number of a request so far.
    last_xid: Option<u32>,
    queue: VecDeque<(u32, Get)>,
    queue_bytes: usize,
    outbox: Outbox,
    listing: Option<Listing>,
    uploads: Uploads,
    /// A get to break off.
    cancel: Option<u32>,
    /// Its part in what is cast.
    member: Option<Membership>,
}

#[derive(Debug)]
struct Reading {
    outgoing: Outgoing,
    growing: bool,
    path: RemotePath,
}

impl Session {
    pub(super) fn serving(share: Arc<Share>, who: Who, element: Element) -> Session {
        let desk = Desk {
            share: Arc::clone(&share),
            last_xid: None,
            queue: VecDeque::new(),
            queue_bytes: 0,
            outbox: Outbox::new(element),
            listing: None,
            uploads: Uploads::new(Arc::clone(&share), who),
            cancel: None,
            member: None,
        };
        let rate = Rate::new(share.settings.bytes_per_s);
        let (reading, parent) = (None, Last::default());
        let serving = Serving { desk, reading, parent, rate };
        Machine::of(serving, element, false)
    }

    /// What it does is logged, under the target `access`, as done for `peer`.
    #[must_use]
    pub fn named(mut self, peer: impl std::fmt::Display) -> Session {
        self.work.desk.uploads.peer = peer.to_string().into();
        self
    }

    /// Tags of the connection say that what comes is what was sent: a client may do without hashes, and be a member of
    /// what is cast.
    #[must_use]
    pub fn tagged(mut self, is_tagged: bool) -> Session {
        self.work.desk.uploads.is_tagged = is_tagged;
        self
    }

    /// Nothing is asked for and not yet answered.
    pub fn is_idle(&self) -> bool {
        self.is_flushed() && self.work.is_idle()
    }

    /// Nothing is asked for, and nothing is begun that the client has to end.
    pub fn is_at_rest(&self) -> bool {
        let Desk { listing, uploads, .. } = &self.work.desk;
        self.is_idle() && listing.is_none() && !uploads.is_open()
    }
}

impl Work for Serving {
    fn receiver(&mut self) -> &mut dyn Receiver {
        &mut self.desk
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        step.turn.worked |= self.desk.work()?;
        self.desk.outbox.send(step)?;
        step.turn.worked |= self.desk.list(step.channel)?;
        step.turn.worked |= self.desk.tell(step)?;
        self.send(step)?;
        self.desk.outbox.send(step)
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        Ok(peer_finished && self.is_idle())
    }

    fn rest(&mut self) {
        self.parent.forget();
        self.desk.uploads.rest();
    }
}

impl Serving {
    fn is_idle(&self) -> bool {
        let Desk { queue, outbox, listing, uploads, member, .. } = &self.desk;
        let is_listing = listing.as_ref().is_some_and(|listing| listing.has_credit());
        let has_asked = self.reading.is_some() || !queue.is_empty() || !outbox.is_empty();
        let is_member = member.as_ref().is_some_and(Membership::goes_on);
        !has_asked && !is_listing && !is_member && uploads.is_idle()
    }

    /// Sends a window of the file that is being read, or begins the next one.
    fn send(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        if let Some(xid) = self.desk.cancel.take()
            && self.reading.as_ref().is_some_and(|reading| reading.outgoing.xid() == xid)
        {
            self.reading = None;
            self.desk.fail(xid, &Error::local(Code::Cancelled, b""))?;
        }
        let mut sent = 0;
        // Small files share a turn.
        while sent < WINDOW_LEN as u64 && self.desk.outbox.len() < OUTBOX_MAX {
            if self.reading.is_none() {
                let Some((xid, get)) = self.desk.next_get() else { return Ok(()) };
                step.turn.worked = true;
                match self.open(xid, &get, step.channel.max_adu()) {
                    Ok(reading) => self.reading = Some(reading),
                    Err(error) => self.desk.fail(xid, &error)?,
                }
                continue;
            }
            let Some(reading) = &mut self.reading else { continue };
            let xid = reading.outgoing.xid();
            match reading.outgoing.send_within(&mut self.rate, step, self.desk.outbox.element) {
                Ok(Progress::Full) => return Ok(()),
                Ok(Progress::More { bytes, .. }) => sent += bytes,
                Ok(Progress::Done) => {
                    let checked = self.desk.share.check(reading);
                    self.reading = None;
                    step.turn.worked = true;
                    match checked {
                        Ok(grew) => self.desk.answer(xid, Body::Done(Done { grew }))?,
                        Err(error) => self.desk.fail(xid, &error)?,
                    }
                }
                Err(error) if error.is_about_one_file() => {
                    self.reading = None;
                    self.desk.fail(xid, &error)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn open(&mut self, xid: u32, get: &Get, max_adu: usize) -> Result<Reading, Error> {
        let path = RemotePath::checked(&get.path)?;
        let (file, meta) = self.desk.share.open_file(&mut self.parent, &path)?;
        let same = match get.growing {
            false => meta.version == get.version,
            true => meta.version.file == get.version.file,
        };
        let range = get.piece.range();
        if !same || range.end > meta.size {
            return Err(Error::local(Code::Changed, path.as_bytes()));
        }
        // A file that has grown ends for this request where it ended when it was looked at.
        let cut = get.growing && !is_bordered(&range, meta.size);
        let meta = if cut { Meta { size: range.end, ..meta } } else { meta };
        if get.copies > COPIES_MAX || !is_bordered(&range, meta.size) {
            return Err(Error::local(Code::BadRequest, path.as_bytes()));
        }
        let own = self.desk.share.settings.bytes_per_s;
        let bound = if own == 0 { get.bytes_per_s } else { get.bytes_per_s.min(own) };
        let bound = if get.bytes_per_s == 0 { own } else { bound };
        self.rate.set_bytes_per_s(bound);
        if range.start == 0 {
            let peer = &self.desk.uploads.peer;
            tracing::info!(target: "access", %peer, %path, bytes = meta.size, "read");
        }
        let hashes = self.desk.uploads.agreed(get.hashing).is_sent();
        let (copies, reply_bytes) = (get.copies.max(1), get.reply_bytes);
        let job = Job { xid, copies, range, reply_bytes, max_adu, hashes };
        let outgoing = Outgoing::new(file, meta, path.as_bytes(), job);
        Ok(Reading { outgoing, growing: get.growing, path })
    }
}

impl Share {
    /// Looks whether what was sent is still what lies at its path; `true` if it is longer now, where that is allowed.
    fn check(&self, reading: &Reading) -> Result<bool, Error> {
        let Reading { outgoing, growing, path } = reading;
        let grew = outgoing.check(*growing)?;
        // A file that is read in a moment is not worth another look.
        if *growing || !is_short(outgoing.meta()) {
            let (root, inside) = self.roots.find(path)?;
            outgoing.check_place(&root, &inside)?;
        }
        Ok(grew)
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(
        &self,
        last: &mut Last,
        path: &RemotePath,
    ) -> Result<(File, Meta), Error> {
        let (root, inside) = self.roots.find(path)?;
        // What was opened last is known by a path below one root.
        let mut other = Last::default();
        let last = if self.roots.is_named() { &mut other } else { last };
        open_file(&root, last, &inside)
    }
}

/// Opens a regular file for reading, and nothing else: not a device, whose opening alone may do something,
/// and not a pipe, which would wait for a writer.
pub(crate) fn open_file(
    root: &Dir,
    last: &mut Last,
    path: &RemotePath,
) -> Result<(File, Meta), Error> {
    if let Some(found) = open_without_links(root, last, path)? {
        return Ok(found);
    }
    let os = |e| Error::os("open", path.as_bytes(), e);
    let regular = |metadata: &cap_std::fs::Metadata| match metadata.is_file() {
        true => Ok(()),
        false => Err(Error::local(Code::NotAFile, path.as_bytes())),
    };
    regular(&root.metadata(path.as_path()).map_err(os)?)?;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    let file = root.open_with(path.as_path(), &options).map_err(os)?;
    let metadata = file.metadata().map_err(os)?;
    regular(&metadata)?;
    Ok((file, Meta::of(&metadata)))
}

/// The same by its last name alone, where no name of the path is a link; nothing where one is, or where it cannot be
/// opened. What is opened may be another file than was looked at: [`Outgoing::check`] finds out.
fn open_without_links(
    root: &Dir,
    last: &mut Last,
    path: &RemotePath,
) -> Result<Option<(File, Meta)>, Error> {
    let Some(name) = path.name().map(OsStr::from_bytes) else { return Ok(None) };
    let Ok(dir) = last.parent_if_there(root, path) else { return Ok(None) };
    let Ok(there) = rustix::fs::statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(None);
    };
    let meta = Found::of_stat(&there).meta();
    match meta.kind {
        Kind::File => {}
        Kind::Link => return Ok(None),
        Kind::Folder | Kind::Other | Kind::Unknown(_) => {
            return Err(Error::local(Code::NotAFile, path.as_bytes()));
        }
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::openat(&*dir, name, flags | OFlags::CLOEXEC, Mode::empty());
    Ok(opened.ok().map(|file| (File::from_std(file.into()), meta)))
}

impl Desk {
    /// What is asked of the file system and needs no channel.
    fn work(&mut self) -> Result<bool, Error> {
        let mut worked = false;
        if self.outbox.len() < OUTBOX_MAX {
            // Hashing what is there is work, though nothing is answered yet.
            worked = self.uploads.has_work();
            for (xid, reply) in self.uploads.work() {
                worked = true;
                self.answer(xid, reply)?;
            }
        }
        Ok(worked)
    }

    fn list(&mut self, channel: &mut dyn Channel) -> Result<bool, Error> {
        let Some(listing) = &mut self.listing else { return Ok(false) };
        if !self.outbox.is_empty() || !listing.has_credit() || channel.room() == 0 {
            return Ok(false);
        }
        let xid = listing.xid();
        match listing.next(channel.max_adu()) {
            Ok(Some(reply)) => {
                if !matches!(reply, Body::Entries(_)) {
                    self.listing = None;
                }
                self.answer(xid, reply)?;
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.listing = None;
                self.fail(xid, &error)?;
                Ok(true)
            }
        }
    }

    /// Tells what there is to tell of what is cast.
    fn tell(&mut self, step: &mut Step<'_>) -> Result<bool, Error> {
        let Some(member) = &mut self.member else { return Ok(false) };
        if !self.outbox.is_empty() || step.channel.room() == 0 {
            return Ok(false);
        }
        let Some(body) = member.next(step.channel.max_adu()) else {
            // There is news when somebody else has made some.
            step.turn.wait_until = member.goes_on().then(|| step.now + NEWS_EVERY);
            return Ok(false);
        };
        let xid = member.xid();
        self.answer(xid, body)?;
        Ok(true)
    }

    fn join(&mut self, xid: u32, join: Join) -> Result<(), Error> {
        let refused = |why: &str| {
            let detail = why.as_bytes().to_vec();
            Err(Error::Refused { code: Code::BadRequest, detail })
        };
        let Some(board) = self.share.cast() else { return refused("nothing is cast here") };
        // The group's key is told to whoever is a member: not where others read it.
        if !self.uploads.is_tagged {
            return refused(
                "this session's cipher makes no tags, and the group's key is told where they are alone",
            );
        }
        let Some(who) = self.uploads.owner() else {
            return refused("nobody knows whose this session is");
        };
        if self.member.is_some() {
            return refused("this session is a member's already");
        }
        self.member = Some(board.join(xid, who, &self.uploads.peer, join));
        Ok(())
    }

    fn report(&mut self, report: &Report) -> Result<Body<'static>, Error> {
        let member = self.member.as_ref().filter(|member| member.xid() == report.of);
        let Some(member) = member else { return Err(Error::local(Code::BadRequest, b"")) };
        let Report { files, bytes, failed, wanted, .. } = *report;
        member.report(Tally { files, bytes, failed, wanted });
        Ok(Body::Done(Done { grew: false }))
    }

    fn next_get(&mut self) -> Option<(u32, Get)> {
        let (xid, get) = self.queue.pop_front()?;
        self.queue_bytes -= get.path.len();
        Some((xid, get))
    }

    fn answer(&mut self, xid: u32, body: Body<'static>) -> Result<(), Error> {
        self.outbox.put(xid, body)
    }

    fn fail(&mut self, xid: u32, error: &Error) -> Result<(), Error> {
        tracing::debug!(xid, %error, "request failed");
        self.answer(xid, Body::Failed(Failed::from(error)))
    }

    fn request(
        &mut self,
        Prefix { xid, kind }: Prefix,
        request: Body<'static>,
    ) -> Result<(), Error> {
        let result = match request {
            Body::Look(look) => self.look(&look.path).map(|entry| Some(Body::Entry(entry))),
            Body::List(list) => match self.listing {
                Some(_) => Err(Error::local(Code::Busy, &list.path)),
                None => Listing::open(&self.share, xid, &list).map(|listing| {
                    let (peer, path) = (&self.uploads.peer, Shown(&list.path));
                    tracing::info!(target: "access", %peer, %path, "listed");
                    self.listing = Some(listing);
                    None
                }),
            },
            Body::More(more) => {
                let listing = self.listing.as_mut().filter(|listing| listing.xid() == more.of);
                listing.into_iter().for_each(|listing| listing.add_credit(more.credit));
                Ok(None)
            }
            Body::Get(get) => {
                self.queue_bytes += get.path.len();
                self.queue.push_back((xid, get));
                Ok(None)
            }
            Body::Put(put) => self.uploads.put(xid, &put),
            Body::Commit(commit) => self.uploads.commit(xid, commit.of).map(|()| None),
            Body::Touch(touch) => self.uploads.touch(&touch),
            Body::Join(join) => self.join(xid, join).map(|()| None),
            Body::Report(report) => self.report(&report).map(Some),
            Body::Cancel(cancel) => {
                self.cancel(cancel.of).map(|()| Some(Body::Done(Done { grew: false })))
            }
            // A client that is newer asks for what this one has not learned.
            Body::Unknown(_) => Err(Error::local(Code::BadRequest, b"")),
            _ => return Err(Violation::Unexpected { kind }.into()),
        };
        match result {
            Ok(Some(reply)) => self.answer(xid, reply),
            Ok(None) => Ok(()),
            Err(error) => self.fail(xid, &error),
        }
    }

    /// Breaks off `of`; one that has ended already is no error.
    fn cancel(&mut self, of: u32) -> Result<(), Error> {
        if self.listing.as_ref().is_some_and(|listing| listing.xid() == of) {
            self.listing = None;
            return self.fail(of, &Error::local(Code::Cancelled, b""));
        }
        if let Some(at) = self.queue.iter().position(|(xid, _)| *xid == of) {
            let get = self.queue.remove(at);
            self.queue_bytes -= get.map_or(0, |(_, get)| get.path.len());
            return self.fail(of, &Error::local(Code::Cancelled, b""));
        }
        self.uploads.cancel(of);
        self.cancel = Some(of);
        Ok(())
    }

    fn look(&mut self, path: &[u8]) -> Result<Entry, Error> {
        let path = RemotePath::checked(path)?;
        let meta = self.share.roots.look(&path)?;
        debug_assert!(meta.kind != Kind::Link);
        let name = octets(path.name().unwrap_or_default());
        Ok(Entry { depth: 0, name, target: octets(b""), unread: false, meta })
    }
}

impl Receiver for Desk {
    fn element(&self) -> Element {
        self.outbox.element
    }

    fn contents(&mut self, run: Run, bytes: &[u8], hash: Option<BlockHash>) -> Result<(), Error> {
        self.known(run.xid)?;
        match self.uploads.contents(run, bytes, hash) {
            Err(error) if error.is_about_one_file() => self.fail(run.xid, &error),
            other => other,
        }
    }

    fn hole(&mut self, xid: u32, hole: Hole) -> Result<(), Error> {
        self.known(xid)?;
        match self.uploads.hole(xid, &hole.piece) {
            Err(error) if error.is_about_one_file() => self.fail(xid, &error),
            other => other,
        }
    }

    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error> {
        self.last_xid = self.last_xid.max(Some(prefix.xid));
        self.request(prefix, body)
    }

    fn take_work(&mut self) -> u64 {
        self.uploads.take_work()
    }

    fn accepts(&self) -> bool {
        self.outbox.len() < OUTBOX_MAX
            && self.queue.len() < QUEUE_MAX
            && self.queue_bytes < QUEUE_BYTES_MAX
            && self.uploads.accepts()
    }
}

impl Desk {
    /// Data belongs to a request that was made, even if it has failed since.
    fn known(&self, xid: u32) -> Result<(), Error> {
        if Some(xid) <= self.last_xid {
            Ok(())
        } else {
            Err(Violation::UnknownRequest { xid }.into())
        }
    }
}
