//! Sending: ADUs and what the session has to say, sealed into the ring.

use super::*;

impl Connection {
    /// Seals `body` into the ring, in one pass. False: no room now.
    pub fn send(&mut self, body: &[u8]) -> Result<bool> {
        Ok(self.send_early(body) || self.may_send()? && self.seal(RecordType::Adu, body)?)
    }

    /// As `send`, of several bodies of one length, as far as there is room for them, in a super-packet of so many bytes
    /// too; says of how many. Those that share a segment are reserved, placed and committed together.
    pub fn send_run(&mut self, bodies: &[&[u8]], super_packet: usize) -> Result<usize> {
        let mut sent = 0;
        while let [body, ..] = &bodies[sent..] {
            if self.send_early(body) {
                sent += 1;
                continue;
            }
            if !self.may_send()? {
                break;
            }
            let run = self.together(body.len(), bodies.len() - sent, super_packet).max(1);
            let seal = |sender: &mut RecordSender, nth: usize, offset, dst: &mut [u8]| {
                sender.seal(offset, RecordType::Adu, bodies[sent + nth], dst)
            };
            if run > 1 && self.seal_with(body.len(), run, seal)? {
                sent += run;
            } else if self.seal(RecordType::Adu, body)? {
                sent += 1;
            } else {
                break;
            }
            if self.fills(super_packet) {
                break;
            }
        }
        Ok(sent)
    }

    /// How many of `count` ADUs of `body_len` bytes may be sealed into one segment now.
    fn together(&self, body_len: usize, count: usize, super_packet: usize) -> usize {
        let Phase::Open(open) = &self.phase else { return 0 };
        let len = open.sender.record_len(body_len);
        if count < 2 || !self.packs || len > PACKED_RECORD_BYTES {
            return 1;
        }
        let room = match self.machine.joins_whole() {
            0 => self.machine.max_payload(),
            room => room,
        };
        let room = room.min(self.machine.send_room()) as usize;
        let left = super_packet.saturating_sub(self.unflushed as usize + HEADROOM);
        count.min(room.min(left) / len)
    }

    /// As `send`, of a body that is marshalled in that pass.
    pub fn send_message<M: Marshal + ?Sized>(&mut self, body: &M) -> Result<bool> {
        let seal = |sender: &mut RecordSender, _, offset, dst: &mut [u8]| {
            sender.seal_message(offset, body, dst)
        };
        let is_early = self.send_early_message(body);
        Ok(is_early || self.may_send()? && self.seal_with(body.marshalled_len(), 1, seal)?)
    }

    /// False: not yet.
    fn may_send(&mut self) -> Result<bool> {
        if self.closed {
            return Err(Error::Closed);
        }
        let Phase::Open(open) = &self.phase else { return Ok(self.no_room(usize::MAX)) };
        if !open.trusted {
            return Err(Error::Untrusted(open.peer));
        }
        if self.finishing {
            return Err(Error::Misuse("an ADU after the end of the stream"));
        }
        if !self.left.is_empty() {
            return Ok(self.no_room(usize::MAX));
        }
        Ok(true)
    }

    /// Bytes of records that may be sealed now.
    pub fn room(&self) -> usize {
        if self.is_sealing() { self.ring.room().min(self.machine.send_room() as usize) } else { 0 }
    }

    /// Records can be sealed, once there is room.
    fn is_sealing(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.trusted) && !self.finishing
    }

    /// Bytes of records that may be sealed now; zero if that is less than `len` and room will come.
    pub fn room_for(&mut self, len: usize) -> usize {
        let room = self.room();
        if room < len && !self.has_room(len) && self.machine.info().unacked > 0 {
            self.wants_room = Some(len);
            return 0;
        }
        room.max(len)
    }

    /// Records of `len` bytes together may be sealed now.
    pub fn has_room(&self, len: usize) -> bool {
        let fits = u32::try_from(len).is_ok_and(|len| self.machine.has_room(len));
        self.is_sealing() && fits && self.ring.has_room(len)
    }

    pub(super) fn seal(&mut self, kind: RecordType, body: &[u8]) -> Result<bool> {
        self.seal_with(body.len(), 1, |sender, _, offset, dst| sender.seal(offset, kind, body, dst))
    }

    /// Seals `count` bodies of one length by `seal`, which is told which: as neighbours in one segment, if there are
    /// several ([`Self::together`]). False: there is no room for them.
    #[inline]
    fn seal_with(
        &mut self,
        body_len: usize,
        count: usize,
        mut seal: impl FnMut(
            &mut RecordSender,
            usize,
            u64,
            &mut [u8],
        ) -> std::result::Result<Found, SessionError>,
    ) -> Result<bool> {
        let Phase::Open(open) = &mut self.phase else { return Err(Error::Closed) };
        let each = open.sender.record_len(body_len);
        let len = each * count;
        let max = body_len_max(open, &self.ring, &self.machine);
        if body_len > max.max(CLOSE_BODY_LEN) {
            return Err(Error::TooLong { len: body_len, max });
        }
        // Of several, the first may have room by itself.
        if !self.ring.has_room(len) {
            return Ok(count == 1 && self.no_room(len));
        }
        let Some(reservation) = self.machine.reserve(len as u32) else {
            return Ok(count == 1 && self.no_room(len));
        };
        let offset = reservation.offset();
        let staged = self.ring.stages(self.is_taken, open.sender.stores_once());
        let is_packed = each <= PACKED_RECORD_BYTES || len > self.machine.max_payload() as usize;
        let joins = self.packs
            && open.sender.has_sealed()
            && is_packed
            && self.machine.joins(len as u32)
            && self.ring.joins(len, staged);
        let place = Place { staged, joins };
        let check = match &self.machine {
            // Pieces of a longer record have checks of their own.
            machine if len > machine.max_payload() as usize => Check::None,
            machine if machine.sends_trailers() => Check::Cxor,
            machine if machine.checks_payload() => Check::Internet,
            _ => Check::None,
        };
        open.sender.set_check(check);
        let sealed = self.ring.push(offset, len, place, |dst| {
            let mut found = check.begin();
            for (nth, record) in dst.chunks_exact_mut(each).enumerate() {
                let at = nth * each;
                found = found.then(at, seal(&mut open.sender, nth, offset + at as u64, record)?);
            }
            Ok::<_, SessionError>(found)
        });
        // A reservation that was begun is committed, or the connection ends.
        if let Err(error) = sealed {
            self.machine.abort();
            return Err(error.into());
        }
        let reservation = reservation.of_records(each as u32);
        self.machine.commit(reservation, if joins { Cut::Joined } else { Cut::Record });
        self.unflushed += (len + if joins { 0 } else { HEADROOM }) as u32;
        self.last_record = each as u32;
        Ok(true)
    }

    /// What was sealed fills a super-packet of `bytes`: one record more, as long as the last, has no room in it.
    pub fn fills(&self, bytes: usize) -> bool {
        self.unflushed as usize + self.last_record as usize > bytes
    }

    /// All that may leave has left.
    pub fn flushed(&mut self) {
        self.unflushed = 0;
    }

    /// What asked for so many bytes hears of room: when some is acknowledged, or as soon as there is so much.
    fn no_room(&mut self, len: usize) -> bool {
        self.wants_room = Some(len);
        false
    }

    /// Ends the stream: an authenticated record, then FIN. Repeated by `flush_session` until there is room.
    pub fn finish(&mut self) {
        self.finishing = true;
        self.flush_session();
    }

    /// Moves what the session wants to send into the ring.
    pub fn flush_session(&mut self) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.write(&mut self.handshake_out);
        }
        let mut done = 0;
        while done < self.handshake_out.len() {
            let piece = &self.handshake_out[done..];
            let piece = &piece[..piece.len().min(HANDSHAKE_PIECE)];
            if !self.ring.has_room(piece.len()) {
                break;
            }
            let Some(reservation) = self.machine.reserve(piece.len() as u32) else { break };
            let pushed: std::result::Result<(), ()> =
                self.ring.push(reservation.offset(), piece.len(), Place::default(), |dst| {
                    dst.copy_from_slice(piece);
                    Ok(Sum::of(dst))
                });
            debug_assert!(pushed.is_ok());
            self.machine.commit(reservation, Cut::Record);
            done += piece.len();
        }
        self.handshake_out.drain(..done);
        if !self.handshake_out.is_empty() || !self.send_left() {
            return;
        }
        if !matches!(&self.phase, Phase::Open(o) if !o.sender.ended()) {
            return;
        }
        let sealed = match self.closing {
            Some(code) => self.seal(RecordType::Close, &code.to_be_bytes()),
            None if self.finishing => {
                let mut from = None;
                let sealed = self.seal_with(0, 1, |sender, _, offset, dst| {
                    from = Some(offset);
                    sender.seal(offset, RecordType::EndOfStream, &[], dst)
                });
                self.last_word.from = from;
                sealed
            }
            None => return,
        };
        if matches!(sealed, Ok(true)) {
            self.machine.finish();
        }
    }
}
