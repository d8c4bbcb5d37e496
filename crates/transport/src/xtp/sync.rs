//! Asking and answering: the counter `sync`, its echo, and what an echo tells of the round trip (`docs/xtp.md`,
//! section 8).

use core::time::Duration;
use fusewire_base::Instant;

/// Questions whose times are remembered; older ones are answered without a sample.
const ASKED: usize = 16;
/// A sync that is further ahead than this is nobody's.
const AHEAD_MAX: u32 = 1 << 16;

/// A packet with SREQ that left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    sync: u32,
    /// When.
    pub at: Instant,
    /// What had been sent by then.
    pub nxt: u64,
}

/// Both counters.
#[derive(Clone, Debug)]
pub(super) struct Sync {
    /// The latest that we raised.
    pub latest: u32,
    /// The latest of ours that was echoed.
    pub answered: u32,
    /// The latest of ours when we knew no key to return yet: an echo beyond is of a packet that had it.
    pub opened: u32,
    asked: [Asked; ASKED],
    /// The latest of the peer's.
    pub peer: Option<u32>,
    /// Bytes sent since we asked.
    pub bytes: u64,
    /// Packets sent since we asked.
    pub packets: u32,
    /// WTIMER has ended so often since an answer: the synchronising handshake is under way.
    pub retries: u8,
    /// The first question of that handshake.
    shakes_from: u32,
    /// The EDGE bit of what we send, and of the packet of the peer's that lies furthest ahead.
    pub edge: bool,
    pub peer_edge: bool,
    /// Where the data of that one begin.
    pub peer_edge_at: u64,
}

/// `a` lies behind `b` by so much, if it does so by less than half a turn.
pub(super) fn behind(a: u32, b: u32) -> Option<u32> {
    let distance = b.wrapping_sub(a);
    (distance < 1 << 31).then_some(distance)
}

impl Sync {
    /// A counter that begins at `start`.
    pub fn new(start: u32) -> Sync {
        Sync {
            latest: start,
            answered: start,
            opened: start,
            asked: [Asked::default(); ASKED],
            peer: None,
            bytes: 0,
            packets: 0,
            retries: 0,
            shakes_from: start,
            edge: false,
            peer_edge: false,
            peer_edge_at: 0,
        }
    }

    /// A packet with SREQ leaves.
    pub fn raise(&mut self, at: Instant, nxt: u64) {
        self.latest = self.latest.wrapping_add(1);
        self.asked[self.latest as usize % ASKED] = Asked { sync: self.latest, at, nxt };
        (self.bytes, self.packets) = (0, 0);
    }

    /// When the latest question left.
    pub fn asked_at(&self) -> Instant {
        self.asked[self.latest as usize % ASKED].at
    }

    /// The latest question is not answered.
    pub fn waits(&self) -> bool {
        self.latest != self.answered
    }

    /// Data wait for the answer of the synchronising handshake.
    pub fn is_shaking_hands(&self) -> bool {
        self.retries > 0
    }

    /// WTIMER has ended: the next question is one of a handshake, and all that follow until one is answered.
    pub fn shake_hands(&mut self) {
        if self.retries == 0 {
            self.shakes_from = self.latest.wrapping_add(1);
        }
        self.retries = self.retries.saturating_add(1);
    }

    /// Whether a control may carry this echo: not ahead of our latest, and not 2^16 behind it.
    pub fn may_be_echoed(&self, echo: u32) -> bool {
        behind(echo, self.latest).is_some_and(|by| by < AHEAD_MAX)
    }

    /// Takes an echo; gives the question if this is its first answer and its time is known.
    pub fn take_echo(&mut self, echo: u32) -> Option<Asked> {
        if behind(self.answered, echo).is_none_or(|by| by == 0) {
            return None;
        }
        self.answered = echo;
        // While hands are shaken no data leave: the answer to any question of that time knows of all that was sent.
        if echo == self.latest || behind(self.shakes_from, echo).is_some() {
            self.retries = 0;
        }
        self.asked_as(echo)
    }

    /// The packet that asked with this sync, if it is one of the last.
    pub fn asked_as(&self, sync: u32) -> Option<Asked> {
        let asked = self.asked[sync as usize % ASKED];
        (asked.sync == sync).then_some(asked)
    }

    /// Whether the peer may send this sync: less than 2^16 ahead of the latest, less than 2^31 behind.
    pub fn is_acceptable(&self, sync: u32) -> bool {
        self.peer.is_none_or(|latest| {
            behind(sync, latest).is_some() || sync.wrapping_sub(latest) < AHEAD_MAX
        })
    }

    /// An accepted packet carried this sync.
    pub fn note_peer(&mut self, sync: u32) {
        if self.peer.is_none_or(|latest| behind(latest, sync).is_some()) {
            self.peer = Some(sync);
        }
    }

    /// An accepted packet with data at `seq` carried this EDGE bit: true if it asks.
    pub fn note_edge(&mut self, seq: u64, edge: bool) -> bool {
        if seq < self.peer_edge_at {
            return false;
        }
        self.peer_edge_at = seq + 1;
        core::mem::replace(&mut self.peer_edge, edge) != edge
    }
}

/// How long WTIMER waits before the first answer.
pub(super) const WTIMER_INITIAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_counts_once_and_across_the_wrap() {
        let mut sync = Sync::new(u32::MAX - 1);
        for i in 0..4 {
            sync.raise(Instant::from_ms(i), 10 * i);
        }
        assert_eq!(sync.latest, 2);
        assert!(!sync.may_be_echoed(3) && sync.may_be_echoed(u32::MAX) && sync.waits());
        let asked = sync.take_echo(0).unwrap();
        assert_eq!((asked.at, asked.nxt), (Instant::from_ms(1), 10));
        assert!(sync.take_echo(0).is_none() && sync.take_echo(u32::MAX).is_none());
        assert!(sync.waits());
        assert_eq!(sync.take_echo(2).unwrap().nxt, 30);
        assert!(!sync.waits());
    }

    #[test]
    fn a_sync_of_long_ago_gives_no_sample() {
        let mut sync = Sync::new(7);
        for i in 0..40 {
            sync.raise(Instant::from_ms(i), i);
        }
        assert!(sync.take_echo(8).is_none());
        assert_eq!(sync.take_echo(47).unwrap().nxt, 39);
    }

    #[test]
    fn the_peers_sync_moves_forward_by_less_than_2_to_the_16() {
        let mut sync = Sync::new(0);
        assert!(sync.is_acceptable(0x8000_0000));
        sync.note_peer(u32::MAX);
        assert!(sync.is_acceptable(65_534) && !sync.is_acceptable(65_536));
        assert!(sync.is_acceptable(0x8000_0001) && !sync.is_acceptable(0x7fff_ffff));
        sync.note_peer(3);
        sync.note_peer(u32::MAX - 7);
        assert_eq!(sync.peer, Some(3));
    }

    #[test]
    fn an_edge_asks_when_it_changes_further_ahead() {
        let mut sync = Sync::new(0);
        assert!(!sync.note_edge(0, false) && sync.note_edge(100, true));
        assert!(!sync.note_edge(200, true) && !sync.note_edge(150, false));
        assert!(sync.note_edge(300, false));
    }
}
