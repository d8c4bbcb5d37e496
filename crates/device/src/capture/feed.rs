//! A capture of a running stack, begun and ended under way: the stack puts packets in at one end, a thread
//! that may be slow takes pcapng blocks out at the other.
//!
//! The stack never waits. Blocks gather in a chunk, chunks go through a queue of fixed length, and when
//! that is full packets are counted instead of kept; the next that is kept says how many.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::time::{Duration, SystemTime};

use fusewire_base::Instant;

use super::tpdu::{Tpdu, Tpdus};
use crate::Ecn;
use crate::pcapng::{self, Direction};

/// Bytes of a chunk after which it is passed on.
const CHUNK: usize = 128 << 10;
/// Chunks that wait for the reader.
const CHUNKS: usize = 32;
/// Most bytes of one packet that are kept: the longest super-frame.
pub const SNAP_LEN: usize = 65_600;

/// What is to be captured.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of each packet, from its first header on.
    pub snap_len: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { snap_len: SNAP_LEN }
    }
}

#[derive(Debug, Default)]
struct Tally {
    seen: AtomicU64,
    missed: AtomicU64,
}

/// The stack's end.
#[derive(Debug)]
pub struct Feed {
    pub(super) blocks: Vec<u8>,
    pub(super) snap_len: usize,
    /// What to add to the stack's time for the time of day.
    pub(super) epoch: Duration,
    chunks: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    tally: Arc<Tally>,
    /// Packets that were not kept since the last that was.
    missed: u64,
    tpdus: Option<Tpdus>,
}

/// The reader's end.
#[derive(Debug)]
pub struct Blocks {
    chunks: Receiver<Vec<u8>>,
    empty: SyncSender<Vec<u8>>,
    tally: Arc<Tally>,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Whole blocks.
    Blocks(Vec<u8>),
    /// Nothing in this time.
    Nothing,
    /// The stack is gone.
    Ended,
}

/// A capture of a device with TPDUs of a `protocol`, by its number in IP, whose own address is `local`.
pub fn of_device(
    name: &str,
    local: SocketAddr,
    protocol: u8,
    options: Options,
    now: Instant,
) -> (Feed, Blocks) {
    let (mut feed, blocks) = begin(name, pcapng::LINKTYPE_ETHERNET, options, now);
    feed.tpdus = Some(Tpdus::new(&mut feed.blocks, local, protocol));
    (feed, blocks)
}

pub(super) fn begin(name: &str, link_type: u16, options: Options, now: Instant) -> (Feed, Blocks) {
    let (chunks, full) = sync_channel(CHUNKS);
    let (back, empty) = sync_channel(CHUNKS);
    let tally = Arc::new(Tally::default());
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let snap_len = options.snap_len.clamp(1, SNAP_LEN);
    let mut feed = Feed {
        blocks: Vec::with_capacity(CHUNK + SNAP_LEN + 1024),
        snap_len,
        epoch: today.saturating_sub(Duration::from_nanos(now.as_ns())),
        chunks,
        empty,
        tally: tally.clone(),
        missed: 0,
        tpdus: None,
    };
    pcapng::section(&mut feed.blocks);
    pcapng::interface(&mut feed.blocks, link_type, name, snap_len as u32);
    (feed, Blocks { chunks: full, empty: back, tally })
}

impl Feed {
    /// A TPDU of a device.
    pub fn tpdu(
        &mut self,
        at: Instant,
        direction: Direction,
        comment: [&str; 2],
        (peer, ecn): (SocketAddr, Ecn),
        parts: [&[u8]; 2],
    ) {
        let Some(comment) = self.admit(comment) else { return };
        let time = self.epoch + Duration::from_nanos(at.as_ns());
        let snap_len = self.snap_len;
        let tpdu = Tpdu { time, direction, peer, ecn, comment: &comment, snap_len };
        if let Some(tpdus) = &mut self.tpdus {
            tpdus.write(&mut self.blocks, &tpdu, parts);
        }
        self.pass_on_when_full();
    }

    /// There is a reader still.
    pub fn is_read(&mut self) -> bool {
        // Chunks that it gave back stand before the news that it has gone.
        loop {
            match self.empty.try_recv() {
                Ok(_) => {}
                Err(error) => return error == TryRecvError::Empty,
            }
        }
    }

    /// Shows the reader what there is; false when there is no reader any more.
    #[must_use = "a capture that nobody reads has ended"]
    pub fn flush(&mut self) -> bool {
        if self.blocks.is_empty() {
            return true;
        }
        let chunk = std::mem::take(&mut self.blocks);
        match self.chunks.try_send(chunk) {
            Ok(()) => {
                self.blocks = match self.empty.try_recv() {
                    Ok(empty) => empty,
                    Err(TryRecvError::Empty) => Vec::with_capacity(CHUNK),
                    Err(TryRecvError::Disconnected) => return false,
                };
                true
            }
            Err(TrySendError::Full(chunk)) => {
                self.blocks = chunk;
                true
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }

    /// The whole comment, or nothing when there is no room for the packet.
    pub(super) fn admit(&mut self, [what, why]: [&str; 2]) -> Option<String> {
        self.tally.seen.fetch_add(1, Ordering::Relaxed);
        if self.blocks.len() >= CHUNK {
            // The reader may have made room. That it has gone is told when the packets at hand are done.
            let _ = self.flush();
        }
        if self.blocks.len() >= CHUNK {
            self.missed += 1;
            self.tally.missed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let mut comment = String::new();
        for part in [what, why] {
            if !part.is_empty() && !comment.is_empty() {
                comment += ": ";
            }
            comment += part;
        }
        let missed = std::mem::take(&mut self.missed);
        if missed > 0 {
            let lost = format!("{missed} packets before this one were not captured");
            comment = if comment.is_empty() { lost } else { format!("{comment}; {lost}") };
        }
        Some(comment)
    }

    pub(super) fn pass_on_when_full(&mut self) {
        if self.blocks.len() >= CHUNK {
            // That nobody reads any more shows with the next flush.
            let _ = self.flush();
        }
    }
}

impl Blocks {
    /// Waits for blocks, for as long as `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Next {
        match self.chunks.recv_timeout(timeout) {
            Ok(chunk) => Next::Blocks(chunk),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Ended,
        }
    }

    /// What is there already.
    pub fn try_next(&mut self) -> Option<Vec<u8>> {
        self.chunks.try_recv().ok()
    }

    /// Gives memory back.
    pub fn recycle(&mut self, mut chunk: Vec<u8>) {
        chunk.clear();
        // When there is no place for it, it is freed.
        let _ = self.empty.try_send(chunk);
    }

    /// The block that ends the capture: how many packets there were, and how many are missing.
    pub fn statistics(&self) -> Vec<u8> {
        let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let mut out = Vec::new();
        pcapng::statistics(&mut out, 0, today, load(&self.tally.seen), load(&self.tally.missed));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_reads_no_more_whatever_it_gave_back() {
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let (mut feed, mut blocks) =
            of_device("x", local, 6, Options::default(), Instant::from_ms(1));
        assert!(feed.flush() && feed.is_read());
        let Next::Blocks(chunk) = blocks.next(Duration::ZERO) else { panic!("no head") };
        blocks.recycle(chunk);
        drop(blocks);
        assert!(!feed.is_read());
    }
}
