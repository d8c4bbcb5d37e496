//! The answers to a list request, put in order.

use crate::error::{Error, Violation};
use crate::message::{Entries, Entry};
use crate::name::check_name;
use std::collections::BTreeMap;

/// Collects entries that may come in any order, at most as many ahead as were asked for.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Number of the next entry to hand on.
    next: u64,
    /// Entries asked for so far.
    credit: u64,
    /// What came ahead, by the number of its first entry.
    ahead: BTreeMap<u64, Vec<Entry>>,
    /// How many there are, once the end has come.
    count: Option<u64>,
    /// Depth that the next entry may have at most.
    depth_max: u32,
}

impl Listing {
    pub(super) fn new(credit: u32) -> Self {
        Listing { credit: credit.into(), ..Listing::default() }
    }

    /// Entries that may still come before more are asked for.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit - self.next
    }

    pub(super) fn add_credit(&mut self, credit: u32) {
        self.credit += u64::from(credit);
    }

    /// All entries were handed on.
    pub(super) fn is_complete(&self) -> bool {
        self.count == Some(self.next)
    }

    /// The end has come: there are `count` entries.
    pub(super) fn end(&mut self, count: u64) -> Result<(), Error> {
        if self.count.replace(count).is_some() || count < self.next || count > self.credit {
            return Err(Violation::Listing { index: count }.into());
        }
        Ok(())
    }

    /// Entries have come; hands on those whose turn it is.
    pub(super) fn entries(
        &mut self,
        Entries { first, entries }: Entries,
        mut hand_on: impl FnMut(Entry) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bad = || Error::from(Violation::Listing { index: first });
        let end = first.checked_add(entries.len() as u64).ok_or_else(bad)?;
        let bound = self.count.unwrap_or(self.credit);
        if entries.is_empty() || first < self.next || end > bound || self.ahead.contains_key(&first)
        {
            return Err(bad());
        }
        self.ahead.insert(first, entries);
        while let Some(entries) = self.ahead.remove(&self.next) {
            for entry in entries {
                self.check(&entry)?;
                self.next += 1;
                hand_on(entry)?;
            }
        }
        Ok(())
    }

    fn check(&mut self, entry: &Entry) -> Result<(), Error> {
        if entry.depth > self.depth_max {
            return Err(Violation::Listing { index: self.next }.into());
        }
        if let Err(problem) = check_name(&entry.name) {
            return Err(Violation::Name { name: entry.name.to_vec(), problem }.into());
        }
        let folder = entry.meta.kind == crate::Kind::Folder;
        self.depth_max = if folder { entry.depth + 1 } else { entry.depth };
        Ok(())
    }
}
