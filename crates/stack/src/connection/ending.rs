//! How a connection comes to rest and ends: by this side, by the peer, by silence.

use super::*;

/// How long a peer that has ended and has all ADUs may be silent when it is told our end, at least.
const LAST_WORD: Duration = Duration::from_secs(3);
/// The same in round trips.
const LAST_WORD_TRIPS: u32 = 16;
/// How long our end is told when nobody waits for that any more.
const GOING_ON: Duration = Duration::from_secs(30);

/// The last thing that the peer has to say: that it has heard our end. Who has said that once is gone, and where it is lost
/// nobody says it again.
#[derive(Default)]
pub(super) struct LastWord {
    /// Where the record of our end begins: below are all ADUs.
    pub from: Option<u64>,
    /// What the peer has, up to this place.
    pub acked: u64,
    /// The peer has ended, in order.
    is_heard: bool,
    /// Since when nothing else is missing.
    since: Option<Instant>,
}

impl Connection {
    /// All that leaves now has left: from now on the peer may owe nothing but its last word.
    pub fn await_last_word(&mut self, now: Instant) {
        let word = &mut self.last_word;
        let has_all = word.from.is_some_and(|from| word.acked >= from);
        if word.is_heard && has_all && !self.closed {
            word.since.get_or_insert(now);
        }
    }

    /// Until when that is waited for.
    pub fn last_word_due(&self) -> Option<Instant> {
        let since = self.last_word.since.filter(|_| !self.closed)?;
        let patience = LAST_WORD.max(LAST_WORD_TRIPS * self.machine.info().srtt);
        Some(since.max(self.machine.heard_at()) + patience)
    }

    /// Ends the connection, and tells the peer's application `code` after all that was sent before; it is given
    /// up when the peer has not taken it until `deadline`. What can be told nothing any more is reset.
    pub fn close_with(&mut self, code: u64, deadline: Instant) {
        match &self.phase {
            _ if self.closed => {}
            Phase::Open(open) if open.trusted && !open.sender.ended() => {
                self.closing = Some(code);
                self.flush_session();
                self.handshake_deadline = Some(deadline);
                // What is sealed goes on without the application.
                self.closed = true;
                self.events.push_back(Event::Closed(Some(Error::Closed)));
            }
            _ => self.fail(Error::Closed),
        }
    }

    /// A timer rang: if nothing has come for a while and nothing is under way, memory goes back to the system.
    pub fn rest(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Handshake(_)) || now.saturating_since(self.now) < REST_AFTER
        {
            return;
        }
        self.ring.rest();
        self.inbox.rest();
        if self.assembly.is_empty() {
            self.assembly.release();
            self.joined = Vec::new();
        }
    }

    /// A timer rang: a peer that was silent for too long is given up. One that has ended and has all ADUs needs to say no
    /// more; it is still told our end for a while, as it may have gone or be out of reach.
    pub fn listen_for_peer(&mut self, now: Instant) {
        let heard_at = self.machine.heard_at();
        let is_silent = |silence: &mut Silence| silence.is_over(now, heard_at);
        if let Some(due) = self.last_word_due()
            && (due <= now || self.silence.as_mut().is_some_and(is_silent))
        {
            self.close(None);
            self.handshake_deadline = Some(now + GOING_ON);
        }
        if !self.closed
            && let Some(silence) = &mut self.silence
            && silence.is_over(now, heard_at)
        {
            let (peer, after) = (self.ends.remote, silence.after);
            self.fail(Error::Silent { peer, after });
        }
    }

    pub(super) fn peer_finished(&mut self, offset: u64) {
        let is_whole = self.next == offset;
        match (&self.phase, self.peer_code) {
            _ if self.closed => {}
            (Phase::Open(_), _) if self.is_held => self.ends_at = Some(offset),
            (Phase::Open(_), Some(code)) if is_whole => {
                self.fail(Error::PeerClosed { peer: self.ends.remote, code })
            }
            (Phase::Open(_), _) if self.peer_ended && is_whole => {
                self.last_word.is_heard = true;
                self.events.push_back(Event::Finished)
            }
            (Phase::Open(_), _) => self.fail(SessionError::Truncated { at: offset }.into()),
            (Phase::Handshake(_), _) => {
                let what = "closed the connection during the handshake";
                self.fail(Error::Protocol { peer: self.ends.remote, what });
            }
            (Phase::Closed, _) => {}
        }
    }

    /// The connection ends with an error; the peer gets a reset.
    pub fn fail(&mut self, error: Error) {
        if !self.closed {
            self.machine.abort();
            self.close(Some(error));
        }
    }

    pub(super) fn close(&mut self, error: Option<Error>) {
        if !self.closed {
            self.closed = true;
            self.phase = Phase::Closed;
            self.events.push_back(Event::Closed(error));
        }
    }
}
