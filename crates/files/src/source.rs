//! Sending a range of a file: read, hash, and hand to the channel, one window at a time.
//!
//! ```text
//! buffer   |contents of the window, read in one piece |
//!          ^chunk 0     ^chunk 1     ^chunk 2
//! ```
//! So the read is one `pread`, the hash runs over one long piece, and every chunk passes the loop from where it is, behind
//! a head that is encoded there ([`Leaving`]).

use crate::blocks::{BLOCK_LEN, BlockHash, BlockHasher, is_bordered};
use crate::channel::{Channel, Sent};
use crate::inbox::WINDOW_LEN;
use crate::machine::Step;
use crate::message::{
    Body, Code, Data, HEAD_LEN, Hole, Last, Leaving, Message, Meta, TAIL_LEN_MAX,
};
use crate::rate::Rate;
use crate::{Element, Error, RemotePath};
use cap_std::fs::{Dir, File};
use fusewire_codec::types::Octets;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::ops::Range;

/// Least bytes of contents in a message, whatever was asked for.
const CHUNK_LEN_MIN: usize = 128;

/// Bytes of a page.
const PAGE_LEN: usize = 4096;
/// From so many bytes on messages have whole pages.
const PAGED_LEN_MIN: usize = 8 * PAGE_LEN;

/// What a call of [`Outgoing::send`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// `bytes` of the file were handed over; there is more.
    More {
        /// How many.
        bytes: u64,
        /// Of these, those of a hole, which cost nothing to send.
        holes: u64,
    },
    /// The channel is full.
    Full,
    /// Everything was sent.
    Done,
}

/// A range of a file on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    file: File,
    /// As it was when opened.
    meta: Meta,
    path: Vec<u8>,
    xid: u32,
    copy: u32,
    copies: u32,
    range: Range<u64>,
    /// The next byte to send.
    position: u64,
    chunk_len: usize,
    /// Blocks are followed by their hashes.
    hashes: bool,
    /// Of the block that holds `position`; has taken everything before it and maybe more.
    hasher: Option<BlockHasher>,
    /// The piece between holes, or the hole, that was found last.
    extent: Extent,
    /// The hash of the block that ends at `position`, in a hole, not yet sent.
    owed: Option<BlockHash>,
    /// Blocks that were sent with their hashes, where somebody tells of them elsewhere.
    hashed: Option<Vec<(u64, BlockHash)>>,
}

#[derive(Clone, Debug)]
struct Extent {
    range: Range<u64>,
    hole: bool,
}

/// What is to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) xid: u32,
    pub(crate) copies: u32,
    pub(crate) range: Range<u64>,
    /// Most bytes of contents in a message; 0 for as many as fit.
    pub(crate) reply_bytes: u32,
    /// Bytes of the largest message.
    pub(crate) max_adu: usize,
    /// Blocks are followed by their hashes.
    pub(crate) hashes: bool,
}

impl Outgoing {
    /// Sends `job.range` of `file`, which is `meta.size` bytes long; the range begins and ends at the border
    /// of a block or at the end of the file.
    pub(crate) fn new(file: File, meta: Meta, path: &[u8], job: Job) -> Self {
        debug_assert!(is_bordered(&job.range, meta.size));
        let whole = Extent { range: 0..meta.size, hole: false };
        let unknown = Extent { range: 0..0, hole: false };
        Outgoing {
            file,
            meta,
            path: path.to_vec(),
            xid: job.xid,
            copy: 0,
            copies: job.copies,
            position: job.range.start,
            range: job.range,
            chunk_len: chunk_len(job.max_adu, job.reply_bytes),
            hashes: job.hashes,
            hasher: None,
            extent: if meta.sparse { unknown } else { whole },
            owed: None,
            hashed: None,
        }
    }

    /// Keeps the hashes of blocks for [`Outgoing::take_hashes`].
    #[must_use]
    pub(crate) fn keeping_hashes(mut self) -> Outgoing {
        self.hashed = Some(Vec::new());
        self
    }

    /// The blocks that were sent since the last call, and their hashes.
    pub(crate) fn take_hashes(&mut self) -> Vec<(u64, BlockHash)> {
        self.hashed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The block that ends at `end` was sent.
    fn keep_hash(&mut self, end: u64, hash: Option<BlockHash>) {
        if let (Some(hashed), Some(hash)) = (&mut self.hashed, hash) {
            hashed.push(((end - 1) / BLOCK_LEN, hash));
        }
    }

    /// The number of the request.
    pub(crate) fn xid(&self) -> u32 {
        self.xid
    }

    /// Sends up to a window, as far as `rate` allows; where it does not, the turn says until when.
    pub(crate) fn send_within(
        &mut self,
        rate: &mut Rate,
        step: &mut Step<'_>,
        element: Element,
    ) -> Result<Progress, Error> {
        let budget = match rate.poll(step.now) {
            Ok(bytes) => bytes,
            Err(at) => {
                step.turn.wait_until = Some(at);
                return Ok(Progress::Full);
            }
        };
        let progress = self.send(step.channel, &mut step.scratch.read, element, budget)?;
        if let Progress::More { bytes, holes } = progress {
            rate.spend(bytes - holes);
            step.turn.worked = true;
        }
        Ok(progress)
    }

    /// Sends up to a window, or `budget` bytes if that is less (but at least one message).
    fn send(
        &mut self,
        channel: &mut dyn Channel,
        buffer: &mut [u8],
        element: Element,
        budget: u64,
    ) -> Result<Progress, Error> {
        if self.position == self.range.end && self.owed.is_none() {
            self.copy += 1;
            self.position = self.range.start;
            self.hasher = None;
            if self.copy >= self.copies || self.range.is_empty() {
                self.copy = self.copies;
                self.position = self.range.end;
                return Ok(Progress::Done);
            }
        }
        let room = channel.room();
        if room == 0 || self.owed.is_some() && !self.send_owed(channel, element)? {
            return Ok(Progress::Full);
        }
        if self.position == self.range.end {
            return Ok(Progress::More { bytes: 0, holes: 0 });
        }
        self.find_extent()?;
        if self.extent.hole {
            return self.send_hole(channel, element);
        }
        let (block_end, extent_end) = (self.block_end(), self.extent.range.end);
        let most = (room.saturating_mul(self.chunk_len)).min(WINDOW_LEN) as u64;
        let most = most.min(budget) / self.chunk_len as u64 * self.chunk_len as u64;
        let len = (block_end.min(extent_end) - self.position).min(most.max(self.chunk_len as u64))
            as usize;
        let contents = &mut buffer[..len];
        self.read(contents)?;
        self.hash(contents);
        self.send_window(channel, contents, element)
    }

    /// The end of the block that holds `position`.
    fn block_end(&self) -> u64 {
        ((self.position / BLOCK_LEN + 1) * BLOCK_LEN).min(self.meta.size)
    }

    fn read(&self, mut into: &mut [u8]) -> Result<(), Error> {
        let mut at = self.position;
        while !into.is_empty() {
            match rustix::io::pread(&self.file, &mut *into, at) {
                Ok(0) => return Err(Error::local(Code::Shrunk, &self.path)),
                Ok(n) => {
                    at += n as u64;
                    into = &mut into[n..];
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(Error::os("read", &self.path, error)),
            }
        }
        Ok(())
    }

    /// Finds out whether there is data or a hole at `position`, and how far.
    fn find_extent(&mut self) -> Result<(), Error> {
        if self.extent.range.contains(&self.position) {
            return Ok(());
        }
        let (at, size) = (self.position, self.meta.size);
        self.extent = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) if data > at => Extent { range: at..data.min(size), hole: true },
            Ok(_) => match rustix::fs::seek(&self.file, SeekFrom::Hole(at)) {
                Ok(hole) if hole > at => Extent { range: at..hole.min(size), hole: false },
                _ => Extent { range: at..size, hole: false },
            },
            Err(Errno::NXIO) => Extent { range: at..size, hole: true },
            // The file system knows of no holes.
            Err(_) => Extent { range: at..size, hole: false },
        };
        Ok(())
    }

    /// Sends the hole at `position`: whole blocks of it without a hash, the rest hashed as zeros.
    fn send_hole(
        &mut self,
        channel: &mut dyn Channel,
        element: Element,
    ) -> Result<Progress, Error> {
        let hole_end = self.extent.range.end.min(self.range.end);
        let block_end = self.block_end();
        let whole = self.position.is_multiple_of(BLOCK_LEN) && hole_end >= block_end;
        let end = match whole {
            true if hole_end == self.meta.size => hole_end,
            true => hole_end / BLOCK_LEN * BLOCK_LEN,
            false => hole_end.min(block_end),
        };
        let position = self.position;
        let body = Body::Hole(Hole { copy: self.copy, piece: (position..end).into() });
        let message = Message { xid: self.xid, body };
        if channel.send(&Leaving::of(&message, element)?)? == Sent::Full {
            return Ok(Progress::Full);
        }
        if !whole && self.hashes {
            let index = position / BLOCK_LEN;
            let hasher = self.hasher.get_or_insert_with(|| BlockHasher::new(index));
            hasher.update_zeros(end - (index * BLOCK_LEN + hasher.count()));
            if end == block_end {
                self.owed = self.hasher.take().and_then(|hasher| hasher.hash());
            }
        }
        self.position = end;
        Ok(Progress::More { bytes: end - position, holes: end - position })
    }

    /// Sends the hash of a block that ended in a hole; false when the channel is full.
    fn send_owed(&mut self, channel: &mut dyn Channel, element: Element) -> Result<bool, Error> {
        let Some(hash) = self.owed else { return Ok(true) };
        let message = self.message(&[], Some(&hash));
        let taken = channel.send(&Leaving::of(&message, element)?)? == Sent::Taken;
        if taken {
            self.owed = None;
            self.keep_hash(self.position, Some(hash));
        }
        Ok(taken)
    }

    /// Looks whether the file is still what it was when it was opened; true when it is longer, where that is
    /// allowed.
    pub(crate) fn check(&self, growing: bool) -> Result<bool, Error> {
        let metadata = self.file.metadata().map_err(|e| Error::os("read", &self.path, e))?;
        let now = Meta::of(&metadata);
        if now.version == self.meta.version {
            return Ok(false);
        }
        match now.size {
            size if size < self.meta.size => Err(Error::local(Code::Shrunk, &self.path)),
            size if growing && now.version.file == self.meta.version.file => {
                Ok(size > self.meta.size)
            }
            _ => Err(Error::local(Code::Changed, &self.path)),
        }
    }

    /// Looks whether the file is still the one at `path` below `root`. One that replaced it, or its folder, changes
    /// nothing about the file that is open.
    pub(crate) fn check_place(&self, root: &Dir, path: &RemotePath) -> Result<(), Error> {
        let there = root.metadata(path.as_path()).map(|there| Meta::of(&there).version.file);
        match there {
            Ok(file) if file == self.meta.version.file => Ok(()),
            _ => Err(Error::local(Code::Changed, &self.path)),
        }
    }

    /// As it was when it was opened.
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The message of `contents`, which begin at `position`; they end a block if a hash of it follows.
    #[inline]
    fn message<'m>(&self, contents: &'m [u8], hash: Option<&'m BlockHash>) -> Message<'m> {
        let (copy, position) = (self.copy, self.position);
        let data = Data { copy, position, contents: Octets::new(contents) };
        let body = match hash {
            Some(hash) => Body::Last(Last { data, hash: Octets::new(hash) }),
            None => Body::Data(data),
        };
        Message { xid: self.xid, body }
    }

    /// Hashes `contents`, which begin at `position`, but for what was hashed before.
    fn hash(&mut self, contents: &[u8]) {
        if !self.hashes {
            return;
        }
        let index = self.position / BLOCK_LEN;
        let hasher = self.hasher.get_or_insert_with(|| BlockHasher::new(index));
        let hashed = (index * BLOCK_LEN + hasher.count() - self.position) as usize;
        hasher.update(contents.get(hashed..).unwrap_or_default());
    }

    /// Sends the contents of a window, message by message, until the channel is full.
    fn send_window(
        &mut self,
        channel: &mut dyn Channel,
        contents: &[u8],
        element: Element,
    ) -> Result<Progress, Error> {
        let (block_end, len) = (self.block_end(), contents.len());
        let mut at = 0;
        while at < len {
            let rest = (block_end - self.position) as usize;
            let last = rest <= self.chunk_len.saturating_sub(TAIL_LEN_MAX) && rest == len - at;
            let mut n = self.chunk_len.min(len - at);
            if self.hashes && !last && n == rest {
                // The contents would fit but not the hash behind them: two messages, the first about half.
                n = rest / 2 / 16 * 16;
            }
            let hash = self.hasher.as_ref().filter(|_| last).and_then(BlockHasher::hash);
            let message = self.message(&contents[at..at + n], hash.as_ref());
            match channel.send(&Leaving::of(&message, element)?)? {
                Sent::Full if at == 0 => return Ok(Progress::Full),
                Sent::Full => break,
                Sent::Taken => {}
            }
            at += n;
            self.position += n as u64;
            if last {
                self.hasher = None;
                self.keep_hash(block_end, hash);
            }
        }
        Ok(Progress::More { bytes: at as u64, holes: 0 })
    }
}

/// Bytes of contents in a message: as many as fit and were asked for, a multiple of 16. Long ones are whole pages: so are
/// reads and writes then, and few chunks of BLAKE3 (1024 bytes) are cut, which it hashes one by one. Short ones are evened
/// out over a block, so that all messages of it are about equally long.
fn chunk_len(max_adu: usize, reply_bytes: u32) -> usize {
    let mut most = max_adu.min(crate::channel::MAX_ADU_LEN).saturating_sub(HEAD_LEN);
    if reply_bytes != 0 {
        most = most.min(reply_bytes as usize);
    }
    let most = (most.max(CHUNK_LEN_MIN)) / 16 * 16;
    if most >= PAGED_LEN_MIN {
        return most / PAGE_LEN * PAGE_LEN;
    }
    let block = BLOCK_LEN as usize + TAIL_LEN_MAX;
    let messages = block.div_ceil(most);
    block.div_ceil(messages).next_multiple_of(16)
}
