//! How a connection comes to rest and ends: by this side, by the peer, by silence.

use super::*;

impl Connection {
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

    /// A timer rang: a peer that was silent for too long is given up.
    pub fn listen_for_peer(&mut self, now: Instant) {
        let heard_at = self.machine.heard_at();
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
