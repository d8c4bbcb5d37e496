//! ADUs that go with the handshake (`docs/records.md`, section 3.1).

use fusewire_session::{EARLY_LEN_MAX, marshal};

use super::*;

impl Connection {
    /// Has the handshake take an ADU along. False: the usual way.
    pub(super) fn send_early(&mut self, body: &[u8]) -> bool {
        match &mut self.phase {
            Phase::Handshake(handshake) if !self.closed && !self.finishing => {
                handshake.send_early(body)
            }
            _ => false,
        }
    }

    /// As `send_early`, of a value.
    pub(super) fn send_early_message<M: Marshal + ?Sized>(&mut self, body: &M) -> bool {
        let len = body.marshalled_len();
        if !matches!(self.phase, Phase::Handshake(_)) || len > EARLY_LEN_MAX {
            return false;
        }
        let mut bytes = vec![0; len];
        marshal(body, &mut bytes) && self.send_early(&bytes)
    }

    /// Seals what the handshake did not take along. False: some of it has no room yet.
    pub(super) fn send_left(&mut self) -> bool {
        while let Some(body) = self.left.pop_front() {
            match self.seal(RecordType::Adu, &body) {
                Ok(true) => {}
                Ok(false) => {
                    self.left.push_front(body);
                    return false;
                }
                Err(error) => {
                    self.left.clear();
                    self.fail(error);
                    return false;
                }
            }
        }
        true
    }

    /// ADUs have come with the handshake: the first of the stream.
    pub(super) fn take_early(
        &mut self,
        id: ConnectionId,
        bodies: Vec<Vec<u8>>,
        app: &mut dyn Application,
    ) {
        let Phase::Open(open) = &self.phase else { return };
        for (index, body) in (0..).zip(bodies) {
            let opened = self.inbox.take(id, index, &body, app);
            // Its bytes were counted with the handshake's.
            if opened == Opened::Waits {
                self.counted += open.receiver.params().record_len(body.len()) as u64;
            }
            self.news = true;
        }
    }
}
