//! Getting a file or a folder.

mod destination;
mod folders;
mod plan;
mod recheck;
mod worker;

pub use crate::target::Outlet;
pub use destination::Destination;
pub use plan::Plan;
pub use worker::Worker;

use super::{Filter, Journal};
use crate::RemotePath;
use crate::message::{Hashing, Meta};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What to do where a file is already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Replace it, once the new one is complete.
    #[default]
    Replace,
    /// Replace it unless it has the same size and time, or is newer.
    KeepSame,
    /// Never replace anything.
    Refuse,
}

/// What has come of a folder another way before it is got, by paths below it.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Files that are whole and hold: they are not got again.
    pub whole: HashSet<RemotePath>,
    /// Bytes of files, whole or not, that were here before anything came; of others none were. They were told of.
    pub before: HashMap<RemotePath, u64>,
    /// Files that there are to be. One that is not whole, and of which the folder has nothing, has failed.
    pub told: BTreeMap<RemotePath, Meta>,
}

/// How to get.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which files of a folder.
    pub filter: Filter,
    /// What to do where a file is already.
    pub existing: Existing,
    /// Files are on the disk before they have their name.
    pub sync: bool,
    /// How many times the contents are sent (the paper's request field); all but one are only checked.
    pub copies: u32,
    /// Most bytes of contents in one reply (the paper's request field); 0 for as many as fit.
    pub reply_bytes: u32,
    /// Most bytes a second over all connections; 0 for no bound.
    pub bytes_per_s: u64,
    /// How many connections share the plan.
    pub connections: u32,
    /// Take files that grow while they are read, as they were at first.
    pub growing: bool,
    /// Begin anew, whatever an earlier transfer has left.
    pub anew: bool,
    /// Where complete files of a folder are recorded; those that it names are not got again if they still hold.
    pub journal: Option<Arc<Journal>>,
    /// What has come another way.
    pub here: Option<Arc<Here>>,
    /// Contents are checked and forgotten; nothing is made at the destination.
    pub forget: bool,
    /// Who hashes contents. Without the sender's hash, tags alone say that what came is what was sent: for connections
    /// whose cipher has them.
    pub hashing: Hashing,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            filter: Filter::default(),
            existing: Existing::Replace,
            sync: false,
            copies: 1,
            reply_bytes: 0,
            bytes_per_s: 0,
            connections: 1,
            growing: false,
            anew: false,
            journal: None,
            here: None,
            forget: false,
            hashing: Hashing::Both,
        }
    }
}
