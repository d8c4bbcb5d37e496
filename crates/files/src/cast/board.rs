//! What the sender's sessions tell members: who may be one, the group's key, the files, and hashes as they are made.

use crate::blocks::BlockHash;
use crate::cast::Tally;
use crate::error::Error;
use crate::message::{
    Body, Cast, CastFile, Code, ENTRIES_MAX, Epoch, Failed, Hashed, Hashes, Join, Kind, List,
    Listed, Meta, Over, octets,
};
use crate::name::RemotePath;
use crate::server::{Listing, Share};
use fusewire_session::group::GroupKey;
use fusewire_session::{Cipher, Fingerprint};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a hash in a message, with all that stands around it.
const HASHED_LEN: usize = 48;
/// Sessions that are remembered when they have ended, beside those that go on.
const KEPT_MAX: usize = 8192;
/// Bytes of a file besides its path, in XDR, with fill.
const FILE_LEN: usize = 72;

/// Tells one member from another, also one with the same key that came later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(u64);

/// How it stands with a member.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Who it is.
    pub key: Fingerprint,
    /// Where it is.
    pub peer: Arc<str>,
    /// Under which the group's packets know it.
    pub group_key: u64,
    /// The same whenever its things go to the same folder there.
    pub place: u64,
    /// It was told which files there are.
    pub is_told: bool,
    /// What it says that it has.
    pub tally: Option<Tally>,
    /// It is no member any more; its session has ended, or its key is not admitted.
    pub is_gone: bool,
    /// Its key is not admitted any more.
    pub is_removed: bool,
    /// It came again: the same key and place at the same host have a later session.
    pub is_replaced: bool,
}

impl Standing {
    /// It is a member: its session goes on, and it has no later one.
    pub fn has_part(&self) -> bool {
        !self.is_gone && !self.is_replaced
    }

    /// Whether another session is the same receiver's.
    fn is_same(&self, other: &Standing) -> bool {
        let host =
            |peer: &str| peer.parse::<SocketAddr>().map_or(peer.into(), |a| a.ip().to_string());
        (self.key, self.place) == (other.key, other.place) && host(&self.peer) == host(&other.peer)
    }
}

/// What a cast is, shared by its sessions and by who sends to the group.
#[derive(Debug)]
pub struct Board {
    /// By their numbers.
    pub(super) files: Vec<(RemotePath, Meta)>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    key: GroupKey,
    /// In the order of their making.
    hashes: Vec<Note>,
    /// Nothing more goes to the group.
    is_over: bool,
    members: BTreeMap<u64, Standing>,
    next_member: u64,
}

/// A hash of a block, or that a file was sent whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) file: u32,
    pub(super) block: u32,
    pub(super) hash: Option<BlockHash>,
}

impl From<Note> for Hashed {
    fn from(Note { file, block, hash }: Note) -> Hashed {
        Hashed { file, block, hash: octets(hash.as_ref().map_or(&[][..], |hash| &hash[..])) }
    }
}

impl Board {
    /// Casts the files of `share`, whose sessions take members from now on. `secret` is drawn at random.
    ///
    /// # Errors
    /// A folder cannot be listed; the share is cast already.
    pub fn new(share: &Arc<Share>, cipher: Cipher, secret: [u8; 32]) -> Result<Arc<Board>, Error> {
        let state = State {
            key: GroupKey::new(1, cipher, secret),
            hashes: Vec::new(),
            is_over: false,
            members: BTreeMap::new(),
            next_member: 0,
        };
        let board = Arc::new(Board { files: files(share)?, state: Mutex::new(state) });
        match share.set_cast(&board) {
            true => Ok(board),
            false => Err(Error::local(Code::Busy, b"")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files, and bytes of their contents.
    pub fn totals(&self) -> (u64, u64) {
        (self.files.len() as u64, self.files.iter().map(|(_, meta)| meta.size).sum())
    }

    /// The key of the group's messages now.
    pub fn key(&self) -> GroupKey {
        self.lock().key.clone()
    }

    /// The epoch of that key.
    pub(super) fn epoch(&self) -> u32 {
        self.lock().key.epoch
    }

    /// Whether a receiver with this key in the group has a session: only then it may join.
    pub fn admits(&self, group_key: u64) -> bool {
        self.lock().members.values().any(|m| m.group_key == group_key && m.has_part())
    }

    /// Everybody who is a member, or was one.
    pub fn members(&self) -> Vec<(MemberId, Standing)> {
        self.lock().members.iter().map(|(id, member)| (MemberId(*id), member.clone())).collect()
    }

    /// Members whose keys `admits` does not admit are members no more. What is cast from now on is sealed with `secret`,
    /// which they are not told. True if there were some.
    pub fn readmit(&self, admits: &dyn Fn(Fingerprint) -> bool, secret: [u8; 32]) -> bool {
        let mut state = self.lock();
        let mut some = false;
        for member in state.members.values_mut().filter(|member| !admits(member.key)) {
            (member.is_gone, member.is_removed) = (true, true);
            some = true;
        }
        if some {
            let (epoch, cipher) = (state.key.epoch + 1, state.key.cipher);
            state.key = GroupKey::new(epoch, cipher, secret);
        }
        some
    }

    pub(super) fn note(&self, note: Note) {
        self.lock().hashes.push(note);
    }

    /// Nothing more goes to the group: members get the rest, if something is missing.
    pub fn end(&self) {
        self.lock().is_over = true;
    }

    /// A session asks to be a member's.
    pub(crate) fn join(
        self: &Arc<Self>,
        xid: u32,
        key: Fingerprint,
        peer: &Arc<str>,
        Join { key: group_key, place }: Join,
    ) -> Membership {
        let mut state = self.lock();
        let id = state.next_member;
        state.next_member += 1;
        let member = Standing {
            key,
            peer: Arc::clone(peer),
            group_key,
            place,
            is_told: false,
            tally: None,
            is_gone: false,
            is_removed: false,
            is_replaced: false,
        };
        for earlier in state.members.values_mut().filter(|earlier| earlier.is_same(&member)) {
            earlier.is_replaced = true;
        }
        // Of who comes again and again the last is kept, and of all that are gone so many.
        state.members.retain(|_, m| !(m.is_gone && m.is_replaced));
        if state.members.len() >= KEPT_MAX
            && let Some((&first, _)) = state.members.iter().find(|(_, m)| m.is_gone)
        {
            state.members.remove(&first);
        }
        state.members.insert(id, member);
        let told = Told { epoch: 0, files: 0, has_listed: false, hashes: 0, is_over: false };
        Membership { board: Arc::clone(self), id, xid, told }
    }
}

/// Every file of the share, in the order in which it is listed.
fn files(share: &Arc<Share>) -> Result<Vec<(RemotePath, Meta)>, Error> {
    let credit = ENTRIES_MAX as u32;
    let list = List { path: octets(b""), recursive: true, credit };
    let mut listing = Listing::open(share, 0, &list)?;
    let (mut files, mut folders) = (Vec::new(), vec![RemotePath::default()]);
    loop {
        let entries = match listing.next(usize::MAX)? {
            Some(Body::Entries(entries)) => entries.entries,
            Some(_) => return Ok(files),
            None => return Err(Error::local(Code::Busy, b"")),
        };
        for entry in entries {
            folders.truncate(entry.depth as usize + 1);
            let path = crate::client::list::below(&folders, &entry)?;
            if entry.meta.kind == Kind::File {
                files.push((path.clone(), entry.meta));
            }
            folders.push(path);
        }
        listing.add_credit(credit);
    }
}

/// A session's part in a cast. While there is one its peer is a member.
#[derive(Debug)]
pub(crate) struct Membership {
    board: Arc<Board>,
    id: u64,
    xid: u32,
    told: Told,
}

#[derive(Debug)]
struct Told {
    epoch: u32,
    files: usize,
    has_listed: bool,
    hashes: usize,
    is_over: bool,
}

impl Membership {
    /// The request that all is told to.
    pub(crate) fn xid(&self) -> u32 {
        self.xid
    }

    /// There may be more to tell, at any time.
    pub(crate) fn goes_on(&self) -> bool {
        !self.told.is_over
    }

    /// What is to be told next, in about `max_adu` bytes; nothing for now where there is nothing.
    pub(crate) fn next(&mut self, max_adu: usize) -> Option<Body<'static>> {
        let (told, board) = (&mut self.told, &self.board);
        let mut state = board.lock();
        let member = state.members.get(&self.id)?;
        if told.is_over {
            return None;
        }
        if member.is_gone {
            told.is_over = true;
            let detail = octets(b"not a member any more");
            return Some(Body::Failed(Failed { code: Code::Denied, detail }));
        }
        if told.epoch < state.key.epoch {
            told.epoch = state.key.epoch;
            let GroupKey { epoch, cipher, .. } = state.key;
            return Some(Body::Epoch(Epoch {
                number: epoch,
                cipher: octets(cipher.to_string().as_bytes()),
                secret: octets(state.key.secret()),
            }));
        }
        if told.files < board.files.len() {
            let (first, mut room) = (told.files as u32, max_adu.saturating_sub(32));
            let mut files = Vec::new();
            for (path, meta) in board.files[told.files..].iter().take(ENTRIES_MAX) {
                let len = FILE_LEN + path.as_bytes().len();
                if len > room && !files.is_empty() {
                    break;
                }
                room = room.saturating_sub(len);
                files.push(CastFile { path: octets(path.as_bytes()), meta: *meta });
            }
            told.files += files.len();
            return Some(Body::Cast(Cast { first, files }));
        }
        if !told.has_listed {
            told.has_listed = true;
            let count = told.files as u64;
            if let Some(member) = state.members.get_mut(&self.id) {
                member.is_told = true;
            }
            return Some(Body::Listed(Listed { count }));
        }
        let most = (max_adu.saturating_sub(32) / HASHED_LEN).clamp(1, ENTRIES_MAX);
        let blocks: Vec<Hashed> =
            state.hashes[told.hashes..].iter().take(most).map(|note| (*note).into()).collect();
        told.hashes += blocks.len();
        if !blocks.is_empty() {
            return Some(Body::Hashes(Hashes { blocks }));
        }
        told.is_over = state.is_over;
        told.is_over.then_some(Body::Over(Over { hashes: told.hashes as u64 }))
    }

    /// The member says what it has.
    pub(crate) fn report(&self, tally: Tally) {
        if let Some(member) = self.board.lock().members.get_mut(&self.id) {
            member.tally = Some(tally);
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if let Some(member) = self.board.lock().members.get_mut(&self.id) {
            member.is_gone = true;
        }
    }
}
