//! How a connection comes to rest and ends: by this side, by the peer, by silence.

use super::*;

/// How long a peer that has ended and has all ADUs may be silent when it is told our end, at least.
const LAST_WORD: Duration = Duration::from_secs(3);
/// The same in round trips.
const LAST_WORD_TRIPS: u32 = 16;
/// How long our end is told when nobody waits for that any more.
const GOING_ON: Duration = Duration::from_secs(30);
/// How long reports of a closed port must go on before the peer is taken to be gone.
const CLOSED_TIME: Duration = Duration::from_secs(2);

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
    /// Nobody waits for it any more.
    is_given_up: bool,
}

impl LastWord {
    /// Nothing but this is missing: the peer has all ADUs, and has ended.
    fn is_all(&self) -> bool {
        self.is_heard && self.from.is_some_and(|from| self.acked >= from)
    }
}

impl Connection {
    /// All that leaves now has left: from now on the peer may owe nothing but its last word.
    pub fn await_last_word(&mut self, now: Instant) {
        if self.last_word.is_all() && !self.closed {
            self.last_word.since.get_or_insert(now);
        }
    }

    /// Nobody waits for anything of it: it is in TIME-WAIT, or goes on telling its end to a peer that has all and may be gone.
    pub fn is_done(&self) -> bool {
        self.machine.stage() == Stage::Lingering || self.last_word.is_given_up
    }

    /// The handshake goes on.
    pub fn is_in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
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
                self.told_until = Some(deadline);
                // What is sealed goes on without the application.
                self.closed = true;
                self.events.push_back(Event::Closed(Some(Error::Closed)));
            }
            _ => self.fail(Error::Closed),
        }
    }

    /// A timer rang: if nothing has come for a while and nothing is under way, memory goes back to the system.
    pub fn rest(&mut self, now: Instant) {
        if self.is_in_handshake() || now.saturating_since(self.now) < REST_AFTER {
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
            self.last_word.is_given_up = true;
            self.told_until = Some(now + GOING_ON);
        }
        if !self.closed
            && let Some(silence) = &mut self.silence
            && silence.is_over(now, heard_at)
        {
            let (peer, after) = (self.ends.remote, silence.after);
            self.fail(Error::Silent { peer, after });
        }
    }

    /// The peer's host reports that its port is closed. Anyone can forge one such report, so it counts only if more follow
    /// for [`CLOSED_TIME`] while nothing arrives from the peer. Returns `true` if the peer is taken to be gone.
    pub fn is_gone(&mut self, now: Instant) -> bool {
        let heard_at = self.machine.heard_at();
        let since = *self.closed_since.get_or_insert(now);
        if heard_at >= since {
            self.closed_since = Some(now);
            return false;
        }
        now >= since + CLOSED_TIME && !self.closed
    }

    /// Returns `true` once `Event::Closed` was given.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The error of a connection that the peer refused.
    pub(super) fn refused(&self) -> Error {
        let peer = self.ends.remote;
        match self.named_transport {
            Some([served, used]) => Error::OtherTransport { peer, served, used },
            None => Error::Refused(peer),
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

    /// The peer knows the connection no longer. Who has ended, and has all, may: only its last word did not come.
    pub(super) fn peer_reset(&mut self) {
        if self.last_word.is_all() {
            self.close(None);
        } else {
            self.fail(Error::Reset(self.ends.remote));
        }
    }

    /// The transport's connection is over. TCP says no more than that when a reset answers our end (RFC 9293, section 3.10.7.4,
    /// LAST-ACK), which may be all that was answered.
    pub(super) fn transport_closed(&mut self) {
        match self.last_word.from {
            Some(from) if self.last_word.acked < from => self.peer_reset(),
            _ => self.close(None),
        }
    }

    /// Both sides have everything. What waits for stray segments needs no memory.
    pub(super) fn linger(&mut self) {
        self.close(None);
        if !self.ring.memory().is_empty() {
            self.ring = SendRing::new(Region::private(0), 0, 0);
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
            if let (Phase::Handshake(handshake), Some(error)) = (&self.phase, &error)
                && handshake.side() == Side::Server
            {
                let (peer, key) = (self.ends.remote, handshake.peer());
                let key = key.map(tracing::field::display);
                tracing::info!(%peer, key, %error, "handshake failed");
            }
            self.phase = Phase::Closed;
            self.events.push_back(Event::Closed(error));
        }
    }
}
