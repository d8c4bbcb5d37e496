//! The client's side: [`get`], [`put`] and [`list`].
//!
//! A plan says what is to be transferred and is shared by all connections; each connection has a worker that
//! takes jobs from it: files, and ranges of big files. A worker whose connection breaks gives its jobs back.

mod filter;
pub mod get;
mod journal;
mod ledger;
pub mod list;
mod listing;
pub mod put;
mod report;

pub use filter::{Filter, FilterError};
pub use journal::Journal;
pub use report::{Event, Ignore, Observer, Skip, Totals};

use crate::machine::Outbox;
use crate::message::{Body, Meta, Time};
use crate::{Element, Error};
use std::cmp::Ordering;

/// A job of a big file, in bytes; a multiple of the block length.
const RANGE_LEN: u64 = 64 << 20;
/// Jobs that one file makes at most, whatever size the server says that it has.
const RANGES_MAX: u64 = 1 << 14;
/// Requests that one connection has under way: enough for the server to have work while this side has some.
const REQUESTS_MAX: usize = 192;
/// Of them, uploads of files for which the server may need a partial file.
const LONG_UPLOADS_MAX: usize = 48;
/// Bytes that they ask for together, beyond which no other is made.
const REQUESTED_BYTES_MAX: u64 = 2 * RANGE_LEN;

/// Bytes of a job of a file of `size` bytes.
const fn range_len(size: u64) -> u64 {
    let times = size.div_ceil(RANGE_LEN * RANGES_MAX);
    if times > 1 { RANGE_LEN * times } else { RANGE_LEN }
}

/// Why a file that is there, of this time and size, may stay where one of `meta` would go.
pub(crate) fn unchanged((mtime, size): (Time, u64), meta: &Meta) -> Option<Skip> {
    match mtime.cmp(&meta.mtime) {
        Ordering::Greater => Some(Skip::Newer),
        Ordering::Equal if size == meta.size => Some(Skip::Same),
        _ => None,
    }
}

/// Numbers requests.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) outbox: Outbox,
    /// The number of the next request.
    next_xid: u32,
}

impl Asker {
    pub(crate) fn new(element: Element) -> Self {
        Asker { outbox: Outbox::new(element), next_xid: 1 }
    }

    pub(crate) fn element(&self) -> Element {
        self.outbox.element
    }

    pub(crate) fn ask(&mut self, body: Body<'static>) -> Result<u32, Error> {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.outbox.put(xid, body)?;
        Ok(xid)
    }

    /// Whether a machine that is `done` with what it had to do ends: so it does when all was asked.
    pub(crate) fn ends(&self, done: bool, peer_finished: bool) -> Result<bool, Error> {
        match done && self.outbox.is_empty() {
            false if peer_finished => Err(Error::Ended),
            ends => Ok(ends),
        }
    }

    /// A request of this number was made; its answers are expected or come too late.
    fn made(&self, xid: u32) -> bool {
        (1..self.next_xid).contains(&xid)
    }
}
