//! Questions about the path of a context, and answers (`docs/xtp.md`, section 14): how large its packets may be. The search
//! is that of connections ([`crate::path`]). A context does not follow a peer that moves.

use fusewire_transport::machine::{Probe as Said, Says};

use super::input::Came;
use super::*;
use crate::path::Answered;

impl Contexts {
    /// Asks the next question of size, if one is due.
    pub(super) fn ask_path(&mut self, index: u32) {
        let now = self.watch.now;
        let Some(Some(Place::Open(association))) = self.places.get_mut(index as usize) else {
            return;
        };
        let remote = association.standing.remote;
        let probe = association.path.poll_probe(now, remote, &mut self.nonces);
        let Some((probe, keys)) = probe.zip(association.path.keys()) else { return };
        let question = keys.question(probe.kind, probe.nonce, probe.to);
        let says = Said { says: Says::Question, nonce: probe.nonce };
        let Some(header) = association.machine.probe(says, 0) else { return };
        let len = probe.size.saturating_sub(header.emit_len()).max(question.len());
        let Some(header) = association.machine.probe(says, len as u32) else { return };
        let mut payload = std::mem::take(&mut self.question);
        payload.clear();
        payload.extend_from_slice(&question);
        payload.resize(len, 0);
        self.send_alone(remote, &header, &payload);
        self.question = payload;
    }

    /// A question of the peer's, or the answer to one of ours.
    pub(super) fn take_probe(&mut self, now: Instant, index: u32, said: Said, came: &Came<'_>) {
        if !came.proof().is_some_and(|proof| proof.of(self.config.level, came.data)) {
            return self.drop_frame(Cause::Checksum);
        }
        let Some(Some(Place::Open(association))) = self.places.get_mut(index as usize) else {
            return;
        };
        let (nonce, path) = (said.nonce, &mut association.path);
        let is_right = match said.says {
            Says::Question => {
                let answer = path.keys().and_then(|keys| keys.answer(nonce, came.data));
                let says = Said { says: Says::Answer, nonce };
                let header = |len| association.machine.probe(says, len);
                let said = answer.and_then(|answer| Some((answer, header(answer.len() as u32)?)));
                if let Some((answer, header)) = &said {
                    self.send_alone(came.peer, header, answer);
                }
                said.is_some()
            }
            Says::Answer => {
                let round_trip = association.machine.info().srtt;
                let from = (came.peer, association.standing.remote);
                let answered = path.handle_answer(now, from, nonce, came.data, round_trip);
                if let Some(Answered::Size { is_larger: true }) = answered {
                    association.use_path();
                }
                self.touch(index);
                answered.is_some()
            }
        };
        if !is_right {
            self.drop_frame(Cause::Stray);
        }
    }
}
