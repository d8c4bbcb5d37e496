//! How much a writer may queue: a bound on what is kept for retransmission, a bound on what was not sent yet,
//! and the pieces in which room is given.
//!
//! The pieces follow what user programs know of other stacks: a write is taken a piece at a time, a piece being
//! as many full segments as half of the peer's largest window holds; a piece is begun when the bounds allow one
//! byte, and then taken whole. So `SO_SNDBUF` and `TCP_NOTSENT_LOWAT` mean what they mean elsewhere.

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_transport::tcp::Connection;

/// A socket may write so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimit {
    /// Bytes kept for retransmission, with their book-keeping.
    pub bytes: u64,
    /// `bytes` grows with the congestion window up to this.
    pub most: u64,
    /// Bytes that were not sent yet (`TCP_NOTSENT_LOWAT`).
    pub unsent: Option<u64>,
}

/// Largest piece, in bytes.
const PIECE_MAX: u64 = 65_000;
/// Book-keeping of a queue, and of a segment in it.
const QUEUE_COST: u64 = 2048;
const SEGMENT_COST: u64 = 256;

/// The state of it.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    limit: Option<SendLimit>,
    /// Where the last piece begins.
    piece: u64,
    /// Nothing is added to the last piece.
    closed: bool,
    /// A write found no room.
    wants_room: bool,
    starves_since: Option<Instant>,
    starved: Duration,
}

impl Backlog {
    /// What was grown stays, when the limit may still grow.
    pub fn set_limit(&mut self, mut limit: SendLimit) {
        if let Some(old) = self.limit.filter(|_| limit.most > limit.bytes) {
            limit.bytes = limit.bytes.max(old.bytes.min(limit.most));
        }
        self.limit = Some(limit);
    }

    /// Bytes of `len` that a write may take now, `end` being one past what was written. Less than `len` and
    /// not 0: ask again.
    pub fn room(&mut self, tcp: &Connection, end: u64, len: usize) -> usize {
        let Some(limit) = self.limit else { return len };
        let (sent, piece_len) = (tcp.snd_nxt_offset(), piece_len(tcp));
        let start = self.piece.max(sent);
        let left = match start < end && !self.closed {
            true => (start + piece_len).saturating_sub(end),
            false => 0,
        };
        let room = if left > 0 {
            left
        } else if weight(end - tcp.snd_una_offset()) < limit.bytes
            && limit.unsent.is_none_or(|unsent| end - sent < unsent)
        {
            (self.piece, self.closed) = (end, false);
            piece_len
        } else {
            0
        };
        self.wants_room = room == 0;
        len.min(room as usize)
    }

    /// What was written ends a message: nothing joins it.
    pub fn close_piece(&mut self) {
        self.closed = true;
    }

    /// There is enough room to wake a writer: a third of the bound, and half of what may wait unsent.
    pub fn is_writable(&self, tcp: &Connection, end: u64) -> bool {
        self.limit.is_none_or(|limit| {
            weight(end - tcp.snd_una_offset()) <= limit.bytes / 3 * 2
                && limit.unsent.is_none_or(|unsent| (end - tcp.snd_nxt_offset()) * 2 < unsent)
        })
    }

    /// Something was sent or acknowledged. When a writer waits and the congestion window would let more out,
    /// the bound grows to two windows.
    pub fn settle(&mut self, now: Instant, tcp: &Connection, end: u64) {
        let starves = self.wants_room && end > tcp.snd_una_offset() && end == tcp.snd_nxt_offset();
        match (starves, self.starves_since) {
            (true, None) => self.starves_since = Some(now),
            (false, Some(since)) => {
                self.starved += now - since;
                self.starves_since = None;
            }
            _ => {}
        }
        let Some(limit) = self.limit.as_mut() else { return };
        let (window, in_flight, mss) = tcp.congestion_window();
        if self.wants_room && limit.bytes < limit.most && in_flight + mss <= window {
            let segment = (mss + 600).next_power_of_two() + SEGMENT_COST;
            limit.bytes = limit.bytes.max((window / mss * segment * 2).min(limit.most));
        }
        // The writer is woken now: nothing grows for it before it has written again.
        self.wants_room &= !self.is_writable(tcp, end);
    }

    /// For how long the writer's bound alone kept the connection from sending.
    pub fn starved(&self, now: Instant) -> Duration {
        self.starved + self.starves_since.map_or(Duration::ZERO, |since| now - since)
    }
}

/// Queued bytes with their book-keeping.
fn weight(queued: u64) -> u64 {
    if queued == 0 { 0 } else { queued + queued / 16 + QUEUE_COST }
}

/// Full segments that fit into half of the largest window; one at least.
fn piece_len(tcp: &Connection) -> u64 {
    let mss = u64::from(tcp.max_payload());
    (PIECE_MAX.min(u64::from(tcp.send_window_max() / 2)) / mss).max(1) * mss
}
