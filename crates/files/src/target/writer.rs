//! Writing one range of a target: chunks in any order, hashed in the order of the file.

use super::{Claim, Place, Target, Who, whole};
use crate::blocks::{BLOCK_LEN, BlockHash, BlockHasher, block_count, is_bordered};
use crate::budget::{Account, Budget, RUN_BYTES};
use crate::error::{Error, Violation};
use crate::message::Code;
use crate::ranges::Ranges;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks that may be begun and not finished.
const OPEN_BLOCKS_MAX: usize = 256;
/// The same where each is kept in memory until it is verified: more than any receive window holds.
const KEPT_BLOCKS_MAX: usize = 32;
/// Pieces out of order that are kept track of in a block: more than the smallest messages can make of one.
const PIECES_MAX: usize = 8192;
/// Bytes out of order that are kept in memory where nothing is stored: more than any receive window.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Memory of a block that is open, in bytes, beside its pieces.
const OPEN_BLOCK_BYTES: usize = size_of::<OpenBlock>();

/// Takes the contents of one range of a [`Target`]. Each byte comes once.
#[derive(Debug)]
pub(crate) struct RangeWriter {
    target: Arc<Target>,
    /// By whose leave it writes.
    claim: Arc<Claim>,
    range: Range<u64>,
    /// Blocks that have begun, most recently used last.
    open: Vec<OpenBlock>,
    /// Blocks that are finished.
    finished: Ranges,
    /// Pieces out of order of all open blocks.
    pieces: usize,
    /// Bytes that the open blocks keep in memory.
    kept_bytes: usize,
    /// For all of that.
    account: Account,
    /// Bytes of the range that have not come.
    left: u64,
    /// Blocks of which all bytes have come but not the hash, or the other way round.
    blocks_left: u64,
    /// Bytes hashed or cleared since [`RangeWriter::take_work`], beyond those that arrived.
    work: u64,
}

/// A block of which something has come.
///
/// `hashed <= every piece's start`; pieces do not touch `hashed` or one another.
#[derive(Debug)]
struct OpenBlock {
    index: u64,
    range: Range<u64>,
    hasher: BlockHasher,
    /// What has come beyond what is hashed.
    pieces: Ranges,
    /// Their bytes, where nothing is stored; zeros are not kept.
    kept: BTreeMap<u64, Vec<u8>>,
    /// All of the block, where it is for an outlet.
    contents: Vec<u8>,
    hash: Option<BlockHash>,
}

impl RangeWriter {
    /// For the bytes `range`, which begin and end with blocks, and which nobody else asks for.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(
        target: Arc<Target>,
        range: Range<u64>,
        memory: &Arc<Budget>,
    ) -> Result<Self, Error> {
        let claim = Claim::new(Who { owner: None, session: 0 }, range.clone());
        RangeWriter::claimed(target, range, claim, memory)
    }

    /// As [`RangeWriter::new`], for a part of what was claimed.
    ///
    /// # Errors
    /// The errors of [`RangeWriter::new`].
    pub(crate) fn claimed(
        target: Arc<Target>,
        range: Range<u64>,
        claim: Arc<Claim>,
        memory: &Arc<Budget>,
    ) -> Result<Self, Error> {
        claim.count_writer(&target, true);
        let blocks_left = block_count(range.end) - range.start / BLOCK_LEN;
        let left = range.end - range.start;
        let blocks_left = if left == 0 { 0 } else { blocks_left };
        let mut writer = RangeWriter {
            target,
            claim,
            range,
            open: Vec::new(),
            finished: Ranges::default(),
            pieces: 0,
            kept_bytes: 0,
            account: memory.account(),
            left,
            blocks_left,
            work: 0,
        };
        writer.charge(0)?;
        Ok(writer)
    }

    /// Accounts for the memory that is used, and for `more` bytes that are about to be.
    fn charge(&mut self, more: usize) -> Result<(), Error> {
        let runs = self.pieces + self.finished.runs();
        let contents: usize = self.open.iter().map(|block| block.contents.len()).sum();
        let blocks = self.open.len() * OPEN_BLOCK_BYTES + contents;
        let bytes = size_of::<RangeWriter>() + blocks + runs * RUN_BYTES + self.kept_bytes + more;
        self.account.set(bytes)
    }

    /// The bytes that it takes.
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the bytes hashed or cleared since the last call, beyond those that arrived in messages.
    pub(crate) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }

    /// Everything has come and is verified.
    pub(crate) fn is_complete(&self) -> bool {
        self.left == 0 && self.blocks_left == 0
    }

    /// Contents from `position` on, within one block, and the hash of the block if they end it.
    pub(crate) fn contents(
        &mut self,
        position: u64,
        bytes: &[u8],
        hash: Option<BlockHash>,
    ) -> Result<(), Error> {
        let end = position.checked_add(bytes.len() as u64);
        let outside = || Violation::DataRange { start: position, end: end.unwrap_or(u64::MAX) };
        let end = end.ok_or_else(outside)?;
        if position < self.range.start || end > self.range.end || end == self.range.start {
            return Err(outside().into());
        }
        let index = (end - 1) / BLOCK_LEN;
        let block = self.target.block_range(index);
        let needs_hash = self.target.hashing().is_sent();
        if position < block.start && !needs_hash {
            // Nothing lies between blocks without hashes.
            let (before, rest) = bytes.split_at((block.start - position) as usize);
            self.contents(position, before, None)?;
            return self.contents(block.start, rest, hash);
        }
        if position < block.start {
            return Err(outside().into());
        }
        if hash.is_some() && end != block.end || hash.is_none() && bytes.is_empty() {
            return Err(Violation::Hash { at: end }.into());
        }
        if bytes.is_empty() && !needs_hash {
            // The block does not wait for it, and may have ended.
            return Ok(());
        }
        if (hash.is_some() || !needs_hash) && self.whole(position..end, bytes, hash)? {
            return Ok(());
        }
        let at = self.open_block(index, position..end)?;
        if let Some(hash) = hash {
            let previous = self.open[at].hash.replace(hash);
            if previous.is_some() {
                return Err(Violation::Hash { at: end }.into());
            }
        }
        if !bytes.is_empty() {
            self.take(at, position..end, Some(bytes))?;
        }
        self.verify(at)
    }

    /// Takes all of a short file, if that is what these are; false if they go the way of all others.
    fn whole(
        &mut self,
        range: Range<u64>,
        bytes: &[u8],
        hash: Option<BlockHash>,
    ) -> Result<bool, Error> {
        let is_all = range == self.range && self.left == range.end && self.open.is_empty();
        let is_file = range == (0..self.target.meta.size) && !range.is_empty();
        if !is_all || !is_file || range.end > whole::LEN_MAX {
            return Ok(false);
        }
        let mut hasher = self.target.hasher(0);
        hasher.update(bytes);
        self.target.compare(range, &hasher, hash)?;
        if !self.target.take_whole(bytes)? {
            return Ok(false);
        }
        self.finished.insert(0..1);
        (self.left, self.blocks_left) = (0, 0);
        self.target.block_done(0, &hasher, Vec::new())?;
        Ok(true)
    }

    /// `len` zeros from `position` on: whole blocks, or a part of one.
    pub(crate) fn hole(&mut self, position: u64, len: u64) -> Result<(), Error> {
        let end = position.checked_add(len);
        let outside = || Violation::DataRange { start: position, end: end.unwrap_or(u64::MAX) };
        let end = end.ok_or_else(outside)?;
        if position < self.range.start || end > self.range.end || len == 0 {
            return Err(outside().into());
        }
        // Nothing is cleared before it is known that all of it is still missing.
        if is_bordered(&(position..end), self.target.meta.size) {
            let blocks = position / BLOCK_LEN..block_count(end);
            let begun = self.open.iter().any(|block| blocks.contains(&block.index));
            if begun || !self.finished.insert(blocks.clone()) {
                return Err(Violation::DataTwice { start: position, end }.into());
            }
            self.clear(position..end)?;
            self.left -= len;
            self.blocks_left -= blocks.end - blocks.start;
            self.charge(0)?;
            return self.target.blocks_skipped(blocks);
        }
        let index = position / BLOCK_LEN;
        if end > self.target.block_range(index).end {
            return Err(outside().into());
        }
        let at = self.open_block(index, position..end)?;
        self.take(at, position..end, None)?;
        self.verify(at)
    }

    /// Where block `index` is in `open`; begins it if need be. `what` is for the error.
    fn open_block(&mut self, index: u64, what: Range<u64>) -> Result<usize, Error> {
        if let Some(at) = self.open.iter().rposition(|block| block.index == index) {
            return Ok(at);
        }
        if self.finished.missing(index..index + 1).is_empty() {
            return Err(Violation::DataTwice { start: what.start, end: what.end }.into());
        }
        let is_kept = self.target.outlet.is_some();
        if self.open.len() >= if is_kept { KEPT_BLOCKS_MAX } else { OPEN_BLOCKS_MAX } {
            return Err(Violation::DataScattered.into());
        }
        let range = self.target.block_range(index);
        let kept_len = if is_kept { (range.end - range.start) as usize } else { 0 };
        self.charge(OPEN_BLOCK_BYTES + kept_len)?;
        let contents = vec![0; kept_len];
        let (hasher, pieces, kept) =
            (self.target.hasher(index), Ranges::default(), BTreeMap::new());
        self.open.push(OpenBlock { index, range, hasher, pieces, kept, contents, hash: None });
        Ok(self.open.len() - 1)
    }

    /// Writes and hashes bytes of block `at`; none for zeros.
    fn take(&mut self, at: usize, range: Range<u64>, bytes: Option<&[u8]>) -> Result<(), Error> {
        let block = &mut self.open[at];
        let hashed = block.range.start + block.hasher.count();
        let twice = Violation::DataTwice { start: range.start, end: range.end };
        if range.start < hashed || block.pieces.missing(range.clone()) != [range.clone()] {
            return Err(twice.into());
        }
        match bytes {
            Some(bytes) => self.target.write(range.start, bytes)?,
            None => self.clear(range.clone())?,
        }
        let block = &mut self.open[at];
        self.left -= range.end - range.start;
        let is_kept = !block.contents.is_empty();
        if let (Some(bytes), true) = (bytes, is_kept) {
            let start = (range.start - block.range.start) as usize;
            block.contents[start..start + bytes.len()].copy_from_slice(bytes);
        }
        if range.start > hashed {
            if let (Some(bytes), None, false) = (bytes, &self.target.spot, is_kept) {
                block.kept.insert(range.start, bytes.to_vec());
                self.kept_bytes += bytes.len();
            }
            let runs = block.pieces.runs();
            block.pieces.insert(range);
            self.pieces = self.pieces + block.pieces.runs() - runs;
            if block.pieces.runs() > PIECES_MAX || self.kept_bytes > KEPT_BYTES_MAX {
                return Err(Violation::DataScattered.into());
            }
            return self.charge(0);
        }
        match bytes {
            Some(bytes) => block.hasher.update(bytes),
            None => {
                block.hasher.update_zeros(range.end - range.start);
                self.work += range.end - range.start;
            }
        }
        if let Some(end) = block.pieces.remove_run(range.end) {
            self.pieces -= 1;
            self.work += end - range.end;
            if self.target.is_stored() {
                self.target.hash_file(range.end..end, &mut block.hasher)?;
            } else if is_kept {
                let start = block.range.start;
                let bytes = (range.end - start) as usize..(end - start) as usize;
                block.hasher.update(&block.contents[bytes]);
            } else {
                self.kept_bytes -= block.hash_kept(end);
            }
        }
        Ok(())
    }

    /// If all of block `at` and its hash have come, compares and finishes it.
    fn verify(&mut self, at: usize) -> Result<(), Error> {
        let block = &self.open[at];
        if block.hash.is_none() && self.target.hashing().is_sent() {
            return Ok(());
        }
        if block.range.start + block.hasher.count() != block.range.end {
            return Ok(());
        }
        let block = self.open.remove(at);
        self.target.compare(block.range, &block.hasher, block.hash)?;
        self.finished.insert(block.index..block.index + 1);
        self.charge(0)?;
        self.blocks_left -= 1;
        self.target.block_done(block.index, &block.hasher, block.contents)
    }

    /// Makes sure that `range` of the partial file is zero.
    fn clear(&mut self, range: Range<u64>) -> Result<(), Error> {
        let fresh = self.target.fresh.load(Ordering::Relaxed);
        let Some(Place { file, .. }) = self.target.place.get().filter(|_| !fresh) else {
            return Ok(());
        };
        let (start, len) = (range.start, range.end - range.start);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, start, len) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => {}
            Err(error) => return Err(Error::os("write", &self.target.path, error)),
        }
        self.work += len;
        let zeros = [0; 32 << 10];
        let mut at = start;
        while at < range.end {
            let n = (range.end - at).min(zeros.len() as u64) as usize;
            self.target.write(at, &zeros[..n])?;
            at += n as u64;
        }
        Ok(())
    }
}

impl OpenBlock {
    /// Hashes what is kept in memory up to `end`, and zeros where nothing is; how many bytes were kept.
    fn hash_kept(&mut self, end: u64) -> usize {
        let mut freed = 0;
        while let Some(first) = self.kept.first_entry().filter(|e| *e.key() < end) {
            let (at, bytes) = first.remove_entry();
            self.hasher.update_zeros(at - (self.range.start + self.hasher.count()));
            self.hasher.update(&bytes);
            freed += bytes.len();
        }
        self.hasher.update_zeros(end - (self.range.start + self.hasher.count()));
        freed
    }
}

impl Drop for RangeWriter {
    fn drop(&mut self) {
        self.claim.count_writer(&self.target, false);
    }
}

impl Target {
    /// Compares the hash of the block `range` with the one that came, where there are both.
    fn compare(
        &self,
        range: Range<u64>,
        hasher: &BlockHasher,
        came: Option<BlockHash>,
    ) -> Result<(), Error> {
        match (hasher.hash(), came) {
            (Some(own), Some(came)) if own != came => {
                let (path, Range { start, end }) = (self.path.clone(), range);
                Err(Error::WrongHash { path, start, end })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, mut at: u64, mut bytes: &[u8]) -> Result<(), Error> {
        let Some(Place { file, .. }) = self.place()? else { return Ok(()) };
        while !bytes.is_empty() {
            match rustix::io::pwrite(file, bytes, at) {
                Ok(0) => return Err(Error::local(Code::NoSpace, &self.path)),
                Ok(n) => {
                    at += n as u64;
                    bytes = &bytes[n..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("write", &self.path, error)),
            }
        }
        Ok(())
    }
}
