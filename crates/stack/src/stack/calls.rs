//! Calls: between the device, the machine of transactions, and the lists of connections.

use std::sync::Arc;

use fusewire_session::{Calls as Keys, Marshal};
use fusewire_transport::machine::{DropCause, Initial, PayloadPlan, TransmitKind, Verdict};
use fusewire_transport::xtp::single::{self, Message, Outcome, Request};
use fusewire_transport::xtp::{self, Header as Packet, Transmit};
use fusewire_wire::xtp::{self as wire, Body, CHECK_AT, HEADER_LEN, Options, Service};

use super::output::hand_over;
use super::*;
use crate::calls::{Asked, Beside, CallId, Incoming, Outgoing, RECORD_MAX};
use crate::machine::{as_xtp, xtp_settings};
use fusewire_device::TxFrame;

/// Packets that are handed to the device together, where a request or an answer has more than one.
const BATCH: usize = 16;

/// Where to, what, and the record that its payload is a part of.
type Leaving<'r> = (SocketAddr, Transmit, &'r [u8]);

impl Stack {
    /// Begins a call: the peer's application gets `request`, and what it answers comes by [`Stack::take_answer`]. A request
    /// that fits one packet, and such an answer, are two packets in all and one round trip. `None` when too many calls are
    /// under way or have an answer that was not taken: `Event::Answered` tells when to try again.
    ///
    /// # Errors
    /// [`Error::Misuse`] where the connection's transport is not XTP, or its cipher has no tag; [`Error::TooLong`];
    /// [`Error::Closed`], [`Error::Untrusted`].
    pub fn begin_call<M: Marshal + ?Sized>(
        &mut self,
        id: ConnectionId,
        request: &M,
    ) -> Result<Option<CallId>> {
        let now = self.clock.now();
        let cfg = self.call_settings(id)?;
        let connection = of(&mut self.connections, &self.generations, id).ok_or(Error::Closed)?;
        let (remote, path) = (connection.ends.remote, connection.machine.info());
        let beside = connection.calls_to_make()?;
        let (len, max) = (request.marshalled_len(), request_len_max(&cfg, beside));
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let patience = beside.took.patience(path.srtt, path.min_rtt);
        let Some(number) = beside.number()? else { return Ok(None) };
        let mut record = self.calls.record(beside.keys.requests.record_len(len));
        let since = beside.waits_since(number);
        if let Err(error) =
            beside.keys.requests.seal_since_into(number, since, request, &mut record)
        {
            beside.skip();
            return Err(error.into());
        }
        let message = Message {
            service: Service::Transaction,
            port: crate::PORT,
            len: record.len() as u32,
            btag: Some(u64::from(beside.keys.id) << 32 | u64::from(number)),
            proves_itself: true,
        };
        let key = self.calls.key();
        let request = Request::new(cfg, message, key, patience, now)
            .map_err(|too_long| Error::TooLong { len, max: too_long.max as usize })?
            .towards(remote);
        let call = CallId(number);
        beside.began(key);
        let (answer, due) = (Vec::new(), None);
        let (connection, begun) = (id, now);
        let outgoing = Outgoing { request, connection, call, begun, remote, record, answer, due };
        self.last_work = now;
        self.calls.eager.began(now, self.config.spin);
        self.settle_call(now, key, Box::new(outgoing), None);
        Ok(Some(call))
    }

    /// The longest request of a call, in bytes.
    ///
    /// # Errors
    /// The errors of [`Stack::begin_call`].
    pub fn call_len_max(&mut self, id: ConnectionId) -> Result<usize> {
        let cfg = self.call_settings(id)?;
        let connection = self.get_mut(id).ok_or(Error::Closed)?;
        Ok(request_len_max(&cfg, connection.calls_to_make()?))
    }

    /// The longest answer to a call, in bytes.
    ///
    /// # Errors
    /// The errors of [`Stack::begin_call`].
    pub fn answer_len_max(&mut self, id: ConnectionId) -> Result<usize> {
        self.call_settings(id)?;
        let connection = self.get_mut(id).ok_or(Error::Closed)?;
        Ok(connection.calls_to_make()?.keys.replies.body_len_max())
    }

    /// What became of a call, or of any.
    pub fn take_answer(
        &mut self,
        id: ConnectionId,
        call: Option<CallId>,
    ) -> Option<(CallId, Result<Vec<u8>>)> {
        let connection = self.get_mut(id)?;
        let beside = connection.calls.as_mut()?;
        let was_full = beside.is_full();
        let answer = beside.take_answer(call)?;
        if was_full {
            // Who waits for room has some.
            connection.events.push_back(Event::Answered);
            self.tell(id.index);
        }
        Some(answer)
    }

    /// Nobody wants to know any more what becomes of a call. True when its answer had come, and was not taken.
    pub fn cancel_call(&mut self, id: ConnectionId, call: CallId) -> bool {
        let had_come = self.take_answer(id, Some(call)).is_some_and(|(_, answer)| answer.is_ok());
        let Some(connection) = self.get_mut(id) else { return had_come };
        let Some(beside) = connection.calls.as_mut() else { return had_come };
        if let Some(key) = beside.over(call) {
            // Who waits for room has some.
            connection.events.push_back(Event::Answered);
            self.tell(id.index);
            self.forget_call(key);
        }
        had_come
    }

    fn forget_call(&mut self, key: wire::Key) {
        let now = self.clock.now();
        if let Some(mut outgoing) = self.calls.take(key) {
            outgoing.request.abort();
            self.send_requests(now, &mut outgoing);
        }
    }

    /// There is a request of the peer's for [`Stack::next_call`].
    pub fn has_call(&self, id: ConnectionId) -> bool {
        let beside = self.get(id).and_then(|connection| connection.calls.as_deref());
        beside.is_some_and(Beside::has_call)
    }

    /// The next request of the peer's: answer it, or refuse it.
    pub fn next_call(&mut self, id: ConnectionId) -> Option<(Asked, Vec<u8>)> {
        self.get_mut(id)?.calls.as_mut()?.next_call()
    }

    /// Answers a request of the peer's.
    ///
    /// # Errors
    /// [`Error::TooLong`], [`Error::Closed`], [`Error::Session`].
    pub fn answer_call<M: Marshal + ?Sized>(
        &mut self,
        id: ConnectionId,
        asked: Asked,
        answer: &M,
    ) -> Result<()> {
        let now = self.clock.now();
        let cfg = self.call_settings(id)?;
        let connection = of(&mut self.connections, &self.generations, id).ok_or(Error::Closed)?;
        let beside = connection.calls_to_make()?;
        let (len, max) = (answer.marshalled_len(), beside.keys.replies.body_len_max());
        if len > max {
            self.refuse_call(asked);
            return Err(Error::TooLong { len, max });
        }
        if !self
            .calls
            .responder
            .as_ref()
            .is_some_and(|responder| responder.waits_for_answer(asked.id))
        {
            return Ok(());
        }
        let mut record = self.calls.record(beside.keys.replies.record_len(len));
        beside.keys.replies.seal_into(asked.number, answer, &mut record)?;
        let len = record.len() as u32;
        *self.calls.incoming(asked.id) = record;
        let responder = self.calls.responder(&cfg, now);
        responder.set_tpdu_len(asked.id, cfg.send_tpdu_len);
        responder.answer(now, asked.id, len, true);
        self.send_replies(now);
        self.last_work = now;
        Ok(())
    }

    /// The application does not answer.
    pub fn refuse_call(&mut self, asked: Asked) {
        let now = self.clock.now();
        if let Some(responder) = &mut self.calls.responder {
            responder.refuse(now, asked.id);
        }
        self.send_replies(now);
    }

    /// How transactions beside a connection are made.
    fn call_settings(&mut self, id: ConnectionId) -> Result<Arc<xtp::Config>> {
        let tpdu_len = self.datagram_len();
        let connection = of(&mut self.connections, &self.generations, id).ok_or(Error::Closed)?;
        let cfg = xtp_settings(settings(&self.config))
            .ok_or(Error::Misuse("calls go over XTP: choose it as the transport"))?;
        let known = connection.machine.max_payload() as usize + HEADER_LEN;
        let made = || {
            Arc::new(xtp::Config {
                service: Service::Transaction,
                nocheck: true,
                tpdu_len,
                send_tpdu_len: known.clamp(512, tpdu_len.max(512)),
                recv_window: RECORD_MAX,
                initial_recv_window: RECORD_MAX,
                send_buffer: RECORD_MAX,
                answer_alloc: RECORD_MAX,
                ..cfg.clone()
            })
        };
        let Some(beside) = connection.calls.as_deref_mut() else { return Ok(made()) };
        let sizes = (tpdu_len, known);
        match &beside.settings {
            Some((of, settings)) if *of == sizes => Ok(settings.clone()),
            _ => Ok(beside.settings.insert((sizes, made())).1.clone()),
        }
    }

    /// The session of a connection is open: its peer may call.
    pub(super) fn may_call(&mut self, index: u32) {
        let id = self.id(index);
        if let Some(beside) =
            self.connections[index as usize].as_mut().and_then(|c| c.calls.as_deref_mut())
            && !beside.is_named
        {
            beside.is_named = *self.calls.sessions.entry(beside.keys.id).or_insert(id) == id;
        }
    }

    /// A connection is gone, and with it its calls.
    pub(super) fn forget_calls(&mut self, id: ConnectionId, beside: &Beside) {
        if self.calls.sessions.get(&beside.keys.id) == Some(&id) {
            self.calls.sessions.remove(&beside.keys.id);
        }
        for key in beside.keys_under_way() {
            self.forget_call(key);
        }
        let now = self.clock.now();
        for asked in beside.all_asked() {
            if let Some(responder) = &mut self.calls.responder {
                responder.refuse(now, asked);
            }
        }
        self.send_replies(now);
    }

    // ---- packets that come

    /// A packet that is no connection's: true if it was a call's.
    pub(super) fn take_call(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        header: &Header,
        frame: &[u8],
    ) -> bool {
        let Some(h) = as_xtp(header) else { return false };
        let from = frame.len() - (h.data_len as usize).min(frame.len());
        let payload = &frame[from..];
        if let Some(key) = self.calls.called(h) {
            self.take_answer_packet(now, (peer, key), h, (frame, payload));
            return true;
        }
        let known = self.calls.responder.as_ref().is_some_and(|r| r.has(peer, h));
        if known {
            self.take_request_packet(now, peer, None, h, (frame, payload));
            return true;
        }
        let first = match &h.body {
            Body::First(first) if first.traffic.service == Service::Transaction => Some(first),
            Body::First(_) | Body::Unfit(_) => None,
            _ => return false,
        };
        if first.is_some() && h.seq > 0 {
            // A piece whose beginning, which says what session it belongs to, has not come: it comes again.
            self.drop_frame(Cause::CallStray);
            return true;
        }
        let btag = first.and_then(|first| first.btag);
        let session = btag.and_then(|btag| self.calls.sessions.get(&((btag >> 32) as u32)));
        let Some(&id) = session else {
            // Its check covers neither address, traffic nor btag: one that may have been damaged on the way is not refused, as
            // what was sent comes again.
            let may_be_a_call = first.is_some() || !self.calls.sessions.is_empty();
            let is_dropped = may_be_a_call && !h.checks_all();
            if is_dropped {
                self.drop_frame(Cause::CallStray);
            }
            return is_dropped;
        };
        self.take_request_packet(now, peer, Some(id), h, (frame, payload));
        true
    }

    fn take_answer_packet(
        &mut self,
        now: Instant,
        (peer, key): (SocketAddr, wire::Key),
        h: &Packet,
        (frame, payload): (&[u8], &[u8]),
    ) {
        let called = self.calls.outgoing.get(&key);
        let is_peers = called.is_some_and(|outgoing| outgoing.remote == peer);
        if !is_peers || !wire::verifies(frame) {
            return self.drop_frame(Cause::CallStray);
        }
        let Some(mut outgoing) = self.calls.take(key) else { return };
        let initial = outgoing.request.handle_initial(now, h, payload.len() as u32);
        let mut opened = None;
        let verdict = match &initial {
            Initial::Drop(_) => {
                self.drop_frame(Cause::CallStray);
                return self.calls.put(key, outgoing);
            }
            Initial::Payload(plan) if plan.len > 0 && is_all(h, plan) => {
                let (id, number) = (outgoing.connection, outgoing.call.0);
                opened = self.open_call(id, |keys| keys.answers.open(number, payload));
                match opened {
                    Some(_) => Verdict::Accept { len: plan.len },
                    None => Verdict::Reject(DropCause::Tag),
                }
            }
            Initial::Payload(plan) if plan.len > 0 => store(&mut outgoing.answer, plan, payload),
            _ => Verdict::Control,
        };
        outgoing.request.handle_final(now, h, &initial, verdict);
        self.settle_call(now, key, outgoing, opened);
    }

    /// Opens with the keys of a connection; what is not genuine was never there.
    fn open_call<T>(
        &mut self,
        id: ConnectionId,
        open: impl FnOnce(&mut Keys) -> std::result::Result<T, fusewire_session::Error>,
    ) -> Option<T> {
        let opened = open(&mut self.get_mut(id)?.calls.as_mut()?.keys).ok();
        if opened.is_none() {
            self.drop_frame(Cause::CallTag);
        }
        opened
    }

    /// What was opened once, and is forgotten, comes again.
    fn was_opened(&self, id: ConnectionId, h: &Packet) -> bool {
        let Body::First(wire::First { btag: Some(btag), .. }) = h.body else { return false };
        let beside = self.get(id).and_then(|connection| connection.calls.as_deref());
        beside.is_some_and(|beside| !beside.keys.asked.is_new(btag as u32))
    }

    fn take_request_packet(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        session: Option<ConnectionId>,
        h: &Packet,
        (frame, payload): (&[u8], &[u8]),
    ) {
        if !wire::verifies(frame) {
            return self.drop_frame(Cause::Checksum);
        }
        if session.is_some_and(|id| self.was_opened(id, h)) {
            return self.drop_frame(Cause::CallStray);
        }
        let flow = xtp::Name { key: h.key, returned: h.returned };
        let ends = xtp::Ends { local: self.device.local_addr(), remote: peer, flow };
        // Who has a session here has shown a key there.
        let is_proven =
            session.is_some_and(|id| self.get(id).is_some_and(|c| c.ends.remote == peer));
        let cfg = match session.map(|id| self.call_settings(id)) {
            Some(Ok(cfg)) => Some(cfg),
            Some(Err(_)) => return self.drop_frame(Cause::CallStray),
            None => None,
        };
        let calls = &mut self.calls;
        if let Some(cfg) = &cfg {
            calls.responder(cfg, now);
        }
        let Some(responder) = calls.responder.as_mut() else { return };
        let len = payload.len() as u32;
        let initial = match responder.handle_initial(now, &ends, is_proven, h, len) {
            single::Incoming::Take(initial) => initial,
            single::Incoming::Reply(reply) => {
                let is_refusal = matches!(reply.body, Body::Diag(_));
                if is_refusal && !h.checks_all() {
                    // Its address may have been damaged ([`Stack::take_call`]).
                    return self.drop_frame(Cause::CallStray);
                }
                if is_refusal && !self.config.refusals.allows(now) {
                    return self.drop_frame(Cause::Refusal);
                }
                return self.send_packet(now, peer, reply, "call");
            }
            single::Incoming::Drop(_) | single::Incoming::Datagram(_) => {
                return self.drop_frame(Cause::CallStray);
            }
        };
        let (mut opened, mut piece) = (None, Vec::new());
        let verdict = match (&initial, session) {
            (Initial::Payload(plan), Some(id)) if plan.len > 0 && is_all(h, plan) => {
                let Body::First(wire::First { btag: Some(btag), .. }) = h.body else { return };
                opened = self.open_call(id, |keys| keys.asked.open_since(btag as u32, payload));
                match opened {
                    Some(_) => Verdict::Accept { len: plan.len },
                    None => Verdict::Reject(DropCause::Tag),
                }
            }
            (Initial::Payload(plan), _) if plan.len > 0 => store(&mut piece, plan, payload),
            _ => Verdict::Control,
        };
        let Some(responder) = self.calls.responder.as_mut() else { return };
        let told = (&initial, len);
        let taken = responder.handle_final(now, &ends, is_proven, h, told, verdict);
        if let (Some(id), Initial::Payload(plan)) = (taken, &initial)
            && !piece.is_empty()
        {
            let from = plan.offset as usize;
            let bytes = self.calls.incoming(id);
            bytes.resize(bytes.len().max(piece.len()), 0);
            bytes[from..piece.len()].copy_from_slice(&piece[from..]);
        }
        self.take_call_events(now, opened);
        self.send_replies(now);
    }

    /// What the responder tells; `opened` is the request that came as one packet, and since when its caller waits.
    fn take_call_events(&mut self, now: Instant, mut opened: Option<(u32, Vec<u8>)>) {
        while let Some((id, event)) =
            self.calls.responder.as_mut().and_then(|responder| responder.poll_event())
        {
            let single::Event::Arrived(arrived) = event else {
                self.calls.gone(id);
                continue;
            };
            let btag = arrived.btag.unwrap_or(0);
            let (session, number) = ((btag >> 32) as u32, btag as u32);
            let connection = self.calls.sessions.get(&session).copied();
            let pieces = std::mem::take(self.calls.incoming(id));
            let request = match (opened.take(), connection) {
                (Some(request), _) => Some(request),
                (None, Some(connection)) => {
                    self.open_call(connection, |keys| keys.asked.open_since(number, &pieces))
                }
                (None, None) => None,
            };
            let asked = Asked { number, id };
            let handed = request.zip(connection).is_some_and(|((since, request), connection)| {
                self.forget_asked(connection, since, asked.number, id);
                let connection = self.get_mut(connection);
                connection.is_some_and(|connection| connection.called(asked, request))
            });
            match (handed, connection) {
                (true, Some(connection)) => self.tell(connection.index),
                _ => {
                    if let Some(responder) = &mut self.calls.responder {
                        responder.refuse(now, id);
                    }
                }
            }
        }
    }

    /// A request has come whose caller waits for nothing before `since`: answers to that are kept no longer.
    fn forget_asked(&mut self, connection: ConnectionId, since: u32, number: u32, id: single::Id) {
        let Some(responder) = self.calls.responder.as_mut() else { return };
        let connection = of(&mut self.connections, &self.generations, connection);
        let Some(beside) = connection.and_then(|c| c.calls.as_deref_mut()) else { return };
        beside.remember(number, id);
        while let Some(id) = beside.take_done(since) {
            responder.forget(id);
        }
    }

    // ---- packets that leave

    /// A call may have something to say, or be over.
    fn settle_call(
        &mut self,
        now: Instant,
        key: wire::Key,
        mut outgoing: Box<Outgoing>,
        opened: Option<Vec<u8>>,
    ) {
        self.send_requests(now, &mut outgoing);
        let Some(outcome) = outgoing.request.poll_event() else {
            return self.calls.put(key, outgoing);
        };
        let (id, call, peer) = (outgoing.connection, outgoing.call, outgoing.remote);
        let (took, is_last) =
            (now.saturating_since(outgoing.begun), self.calls.outgoing.is_empty());
        self.calls.eager.answered(took, self.config.spin, is_last);
        let answer = match (outcome, opened) {
            (Outcome::Answered { .. }, Some(answer)) => Ok(answer),
            (Outcome::Answered { len }, None) => {
                let record = outgoing.answer.get(..len as usize).unwrap_or(&[]);
                self.open_call(id, |keys| keys.answers.open(call.0, record))
                    .ok_or(Error::Protocol { peer, what: "an answer that is not genuine" })
            }
            (Outcome::Refused(_), _) => Err(Error::Refused(peer)),
            (Outcome::TimedOut, _) => Err(Error::TimedOut(peer)),
            (Outcome::Sent | Outcome::Delivered | Outcome::Reset, _) => Err(Error::Reset(peer)),
        };
        self.calls.recycle(std::mem::take(&mut outgoing.record));
        if let Some(connection) = self.get_mut(id) {
            if let (Some(took), Some(beside)) = (outgoing.request.took(), &mut connection.calls)
                && connection.ends.remote == peer
            {
                beside.took.came(took, now);
            }
            connection.answered(call, answer);
            self.tell(id.index);
        }
    }

    fn send_requests(&mut self, now: Instant, outgoing: &mut Outgoing) {
        let (to, record) = (outgoing.remote, &outgoing.record[..]);
        self.send_packets(now, "call", || Some((to, outgoing.request.poll_transmit(now)?, record)));
    }

    /// What responders have to say.
    fn send_replies(&mut self, now: Instant) {
        self.take_call_events(now, None);
        let Some(mut responder) = self.calls.responder.take() else { return };
        let incoming = std::mem::take(&mut self.calls.incoming);
        self.send_packets(now, "answer to a call", || {
            let (id, to, transmit) = responder.poll_transmit(now)?;
            Some((to, transmit, Incoming::of(&incoming, id)))
        });
        (self.calls.responder, self.calls.incoming) = (Some(responder), incoming);
    }

    /// A packet of a call's that has nothing of a record.
    fn send_packet(&mut self, now: Instant, to: SocketAddr, header: Packet, word: &'static str) {
        let kind = TransmitKind::Ack;
        let transmit =
            Transmit { header, payload: None, retransmission: false, kind, ecn_capable: false };
        let mut transmit = Some(transmit);
        self.send_packets(now, word, || Some((to, transmit.take()?, &[][..])));
    }

    /// Packets of calls while there are any, each with the record that its payload is a part of, a batch at a time.
    fn send_packets<'r>(
        &mut self,
        now: Instant,
        word: &'static str,
        mut next: impl FnMut() -> Option<Leaving<'r>>,
    ) {
        while let Some(packet) = next() {
            match next() {
                // Most that are said are one.
                None => self.send_batch::<1>(now, word, [packet].into_iter()),
                Some(second) => {
                    let rest = core::iter::from_fn(&mut next);
                    let packets = [packet, second].into_iter().chain(rest).take(BATCH);
                    self.send_batch::<BATCH>(now, word, packets);
                }
            }
        }
    }

    /// At most `N` packets.
    fn send_batch<'r, const N: usize>(
        &mut self,
        now: Instant,
        word: &'static str,
        packets: impl Iterator<Item = Leaving<'r>>,
    ) {
        let nobody = SocketAddr::from(([0; 4], 0));
        let nothing = TxFrame { peer: nobody, header: &[], payload: &[], ecn: Ecn::NotEct };
        let (mut frames, mut count) = ([nothing; N], 0);
        for ((peer, transmit, record), buffer) in packets.zip(&mut self.headers[..N]) {
            let (h, range) = (transmit.header, transmit.payload.unwrap_or(0..0));
            let payload = record.get(range.start as usize..range.end as usize).unwrap_or(&[]);
            if payload.len() != h.data_len as usize {
                continue;
            }
            let len = h.emit(buffer);
            let covered = if h.checks_all() { len } else { HEADER_LEN };
            let mut sum = fusewire_kernels::sum(self.config.level, &buffer[..covered]);
            if h.checks_all() {
                sum += fusewire_kernels::sum(self.config.level, payload);
            }
            buffer[CHECK_AT..][..2].copy_from_slice(&sum.checksum().to_be_bytes());
            frames[count] = TxFrame { peer, header: &buffer[..len], payload, ..nothing };
            count += 1;
        }
        let frames = &frames[..count];
        self.watch.sent_tpdus(frames, |_| [word, ""]);
        if frames.iter().any(|frame| !frame.payload.is_empty()) {
            // It is no stream that comes: who waits for an answer looks for it all the time.
            (self.streamed, self.napped_at) = (0, 0);
            self.last_work = now;
        }
        hand_over(&mut *self.device, None, frames);
    }

    // ---- time

    /// Calls whose time has come. True if there were any.
    pub(super) fn run_call_timers(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((key, mut outgoing)) = self.calls.take_due(now) {
            any = true;
            outgoing.request.handle_timeout(now);
            self.settle_call(now, key, outgoing, None);
        }
        let responder = self.calls.responder.as_mut();
        if let Some(responder) = responder.filter(|r| r.poll_timeout().is_some_and(|at| at <= now))
        {
            any = true;
            responder.handle_timeout(now);
            self.send_replies(now);
        }
        any
    }
}

/// The longest request of a connection's, in bytes.
fn request_len_max(cfg: &xtp::Config, beside: &Beside) -> usize {
    let room = single::message_len_max(cfg, Service::Transaction, true) as usize;
    beside.keys.requests.body_len_fitting(room).unwrap_or(0)
}

/// A packet that has all of a message, of which all is new.
fn is_all(h: &Packet, plan: &PayloadPlan) -> bool {
    plan.is_whole() && plan.offset == 0 && h.options.has(Options::WCLOSE | Options::EOM)
}

/// Stores what is new of a payload.
fn store(bytes: &mut Vec<u8>, plan: &PayloadPlan, payload: &[u8]) -> Verdict {
    let (start, from) = (plan.offset as usize, plan.trim_front as usize);
    let end = start + plan.len as usize;
    bytes.resize(bytes.len().max(end), 0);
    bytes[start..end].copy_from_slice(&payload[from..from + plan.len as usize]);
    Verdict::Accept { len: plan.len }
}
