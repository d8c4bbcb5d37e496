//! A member's session with the sender: it asks to be one, and hears what the sender tells over it.

use crate::client::{Asker, Totals};
use crate::error::{Error, Violation};
use crate::inbox::Receiver;
use crate::machine::{Machine, Step, Work};
use crate::message::{Body, Cast, Epoch, Hashed, Join, Meta, Prefix, Report};
use crate::{Element, RemotePath};
use fusewire_session::Cipher;
use fusewire_session::group::GroupKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files of a cast, at most: what they are is kept in memory.
const FILES_MAX: u64 = 1 << 24;

/// What a member has of a cast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files that are whole and hold.
    pub files: u64,
    /// Bytes of their contents.
    pub bytes: u64,
    /// Files that have failed.
    pub failed: u64,
    /// Files of the cast that it wanted; nothing where it did not say, as one that wanted all.
    pub wanted: Option<u64>,
}

/// What has come over the session, for who catches what the group is sent, and what is to be told over it.
#[derive(Debug, Default)]
pub struct Mail(Mutex<Letters>);

#[derive(Debug, Default)]
struct Letters {
    keys: BTreeMap<u32, GroupKey>,
    files: BTreeMap<u32, (RemotePath, Meta)>,
    /// How many there are.
    files_told: Option<u64>,
    hashes: Vec<Hashed>,
    /// How many have come.
    hashes_come: u64,
    /// How many there are, when there are no more.
    hashes_told: Option<u64>,
    /// This is no member: why.
    refused: Option<Error>,
    tally: Option<Tally>,
    is_closed: bool,
}

impl Mail {
    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn take_keys(&self) -> impl Iterator<Item = GroupKey> + use<> {
        std::mem::take(&mut self.lock().keys).into_values()
    }

    pub(super) fn take_hashes(&self) -> Vec<Hashed> {
        std::mem::take(&mut self.lock().hashes)
    }

    /// The files by their numbers, once all were told.
    pub(super) fn files(&self) -> Option<Vec<(RemotePath, Meta)>> {
        let letters = self.lock();
        let all = letters.files_told == Some(letters.files.len() as u64);
        all.then(|| letters.files.values().cloned().collect())
    }

    /// Which files there are is known: the group may be joined.
    pub fn is_told(&self) -> bool {
        let letters = self.lock();
        letters.files_told == Some(letters.files.len() as u64) && letters.epoch_known()
    }

    /// The sender has nothing more to say of what it sends to the group.
    pub fn is_over(&self) -> bool {
        let letters = self.lock();
        letters.hashes_told.is_some_and(|told| told == letters.hashes_come)
    }

    /// Why this is no member, if it is none.
    pub fn refusal(&self) -> Option<String> {
        self.lock().refused.as_ref().map(Error::to_string)
    }

    /// The session has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// What there is, as far as it was told.
    pub fn totals(&self) -> Totals {
        let letters = self.lock();
        let files = letters.files.len() as u64;
        let bytes =
            letters.files.values().fold(0u64, |sum, (_, meta)| sum.saturating_add(meta.size));
        Totals { files, bytes, ..Totals::default() }
    }

    /// Has the sender told what there is, and the session ended.
    pub fn report(&self, tally: Tally) {
        self.lock().tally = Some(tally);
    }

    /// The session has ended.
    fn close(&self) {
        self.lock().is_closed = true;
    }
}

impl Letters {
    fn epoch_known(&self) -> bool {
        !self.keys.is_empty()
    }

    fn bad(what: &'static str) -> Error {
        Violation::Group { what }.into()
    }

    fn epoch(&mut self, epoch: &Epoch) -> Result<(), Error> {
        let cipher = std::str::from_utf8(&epoch.cipher).ok();
        let cipher = cipher.and_then(|name| name.parse::<Cipher>().ok());
        let cipher = cipher.filter(|cipher| !cipher.is_insecure());
        match (cipher, epoch.secret.first_chunk::<32>()) {
            (Some(cipher), Some(secret)) => {
                self.keys.insert(epoch.number, GroupKey::new(epoch.number, cipher, *secret));
                Ok(())
            }
            _ => Err(Letters::bad("a cipher that is not known here, or has no tags")),
        }
    }

    fn cast(&mut self, Cast { first, files }: Cast) -> Result<(), Error> {
        for (number, file) in (u64::from(first)..).zip(files) {
            let path = RemotePath::checked(&file.path)?;
            if number >= FILES_MAX || path.name().is_none() {
                return Err(Letters::bad("more files than there may be, or one without a name"));
            }
            self.files.insert(number as u32, (path, file.meta));
        }
        Ok(())
    }
}

/// The session of a member, while it is one: a machine that is finished when the sender knows what the member has.
pub type Joiner = Machine<Joining>;

/// What it does.
#[derive(Debug)]
pub struct Joining {
    asker: Asker,
    mail: Arc<Mail>,
    join: u32,
    report: Option<u32>,
    is_done: bool,
}

impl Joiner {
    /// For a receiver that the group's packets know by `group_key`, and the sender by `place` when it comes again. What
    /// comes goes to `mail`.
    ///
    /// # Errors
    /// None in fact: what is asked is short.
    pub fn new(
        mail: &Arc<Mail>,
        (group_key, place): (u64, u64),
        element: Element,
    ) -> Result<Joiner, Error> {
        let mut asker = Asker::new(element);
        let join = asker.ask(Body::Join(Join { key: group_key, place }))?;
        let mail = Arc::clone(mail);
        let joining = Joining { asker, mail, join, report: None, is_done: false };
        Ok(Machine::of(joining, element, false))
    }
}

impl Work for Joining {
    fn receiver(&mut self) -> &mut dyn Receiver {
        self
    }

    fn work(&mut self, step: &mut Step<'_>) -> Result<(), Error> {
        let tally = self.mail.lock().tally;
        if let (Some(Tally { files, bytes, failed, wanted }), None) = (tally, self.report) {
            let report = Body::Report(Report { of: self.join, files, bytes, failed, wanted });
            self.report = Some(self.asker.ask(report)?);
        }
        self.asker.outbox.send(step)
    }

    fn ends(&self, peer_finished: bool) -> Result<bool, Error> {
        self.asker.ends(self.is_done, peer_finished)
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        self.mail.close();
    }
}

impl Receiver for Joining {
    fn element(&self) -> Element {
        self.asker.element()
    }

    fn message(&mut self, prefix: Prefix, body: Body<'static>) -> Result<(), Error> {
        let xid = prefix.xid;
        if Some(xid) == self.report {
            // Whatever it says to that, it was told.
            self.is_done = true;
            return Ok(());
        }
        if xid != self.join {
            return Err(Violation::UnknownRequest { xid }.into());
        }
        let mut letters = self.mail.lock();
        match body {
            Body::Epoch(epoch) => letters.epoch(&epoch)?,
            Body::Cast(cast) => letters.cast(cast)?,
            Body::Listed(listed) => letters.files_told = Some(listed.count),
            Body::Hashes(hashes) => {
                letters.hashes_come += hashes.blocks.len() as u64;
                letters.hashes.extend(hashes.blocks);
            }
            Body::Over(over) => letters.hashes_told = Some(over.hashes),
            Body::Failed(failed) => {
                letters.refused = Some(failed.into());
                self.is_done = true;
            }
            _ => return Err(Violation::Unexpected { kind: prefix.kind }.into()),
        }
        Ok(())
    }
}
