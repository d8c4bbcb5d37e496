//! Services 1 to 3, as their applications have them: messages that go, one to a context, those that came, and answers.

use fusewire_kernels::Level;
use fusewire_transport::machine::{DropCause, Initial, Verdict};
use fusewire_transport::xtp::single::{self, Message, Patience, Request};
use fusewire_wire::xtp::HEADER_LEN;

use super::exchange::Said;
use super::input::{Came, take_payload};
use super::*;
use crate::trace::Kind;

impl Contexts {
    /// The longest message that the context can send now: of a stream what its send buffer holds.
    pub fn message_len_max(&self, context: Context) -> usize {
        let longest = |block: &ControlBlock, remote| {
            let settings = self.settings(block, remote);
            single::message_len_max(&settings, block.service(), block.tags) as usize
        };
        match self.place(context) {
            Some(Place::Made(made)) => {
                made.to.map_or(0, |(remote, _)| longest(&made.block, remote))
            }
            Some(Place::Open(association)) => association.block.send_bytes as usize,
            Some(Place::Single(exchange)) if exchange.may_answer() => {
                exchange.block.send_bytes as usize
            }
            _ => 0,
        }
    }

    /// What a context for one message has to say: its message, or the answer to the one that came.
    pub(super) fn say(
        &mut self,
        context: Context,
        len: usize,
        about: About,
        said: impl FnOnce(Level, usize) -> Said,
    ) -> Result<()> {
        let may_say = match self.place_mut(context) {
            Some(Place::Made(made)) => made.to.is_some(),
            Some(Place::Single(exchange)) => {
                if !exchange.standing.closed && !exchange.may_answer() {
                    return Err(Error::Misuse("it has said its one message"));
                }
                exchange.may_answer()
            }
            _ => false,
        };
        if !may_say {
            return Err(Error::Closed);
        }
        let max = self.message_len_max(context);
        if len > max {
            return Err(Error::TooLong { len, max });
        }
        let index = context.index;
        match self.places[index as usize].take() {
            Some(Place::Made(made)) => self.ask(index, *made, len, about, said),
            Some(Place::Single(exchange)) => {
                self.answer(index, exchange, len, said);
                Ok(())
            }
            other => {
                self.places[index as usize] = other;
                Err(Error::Closed)
            }
        }
    }

    fn ask(
        &mut self,
        index: u32,
        made: Made,
        len: usize,
        about: About,
        said: impl FnOnce(Level, usize) -> Said,
    ) -> Result<()> {
        let Made { mut block, memory, to: Some((remote, port)) } = made else {
            return Err(Error::Closed);
        };
        let now = self.clock.now();
        block.sort = block.sort.and(about.sort.or(block.sort));
        let settings = self.settings(&block, remote);
        let btag = about.tag.filter(|_| block.tags);
        let service = block.service();
        let message = Message { service, port, len: len as u32, btag, proves_itself: false };
        let key = self.draw(&settings, port, now).key;
        let request = Request::new(settings, message, key, Patience::UNKNOWN, now)
            .map_err(|too_long| Error::TooLong { len, max: too_long.max as usize })?
            .towards(remote);
        let said = said(self.config.level, request.piece_len() as usize);
        self.counted.sent += 1;
        let role = Role::Asks { request: Box::new(request), said, also: None };
        let exchange = Exchange::new(remote, role, block, memory);
        self.places[index as usize] = Some(Place::Single(Box::new(exchange)));
        self.name(index);
        self.make_ready(index);
        Ok(())
    }

    /// The application has answered: with that its context is over, but for what is said again.
    fn answer(
        &mut self,
        index: u32,
        exchange: Box<Exchange>,
        len: usize,
        said: impl FnOnce(Level, usize) -> Said,
    ) {
        let now = self.clock.now();
        let Role::Asked { service, id: Some(id) } = exchange.role else { return };
        let remote = exchange.standing.remote;
        let is_whole = self.is_whole_path(remote);
        let packet = exchange.block.packet(&self.config, self.device.caps(), is_whole);
        self.places[index as usize] = Some(Place::Single(exchange));
        if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) {
            singles.asked.remove(&id);
            singles.answers.insert(id, said(self.config.level, packet - HEADER_LEN));
            singles.responder.set_tpdu_len(id, packet);
            singles.responder.answer(now, id, len as u32, false);
            self.counted.answered += 1;
        }
        self.remove(index);
        self.hear_service(service);
    }

    /// The application has let go of the message that came: where no answer is owed, that is all.
    pub(super) fn released(&mut self, context: Context) {
        let index = context.index;
        let Some(Place::Single(exchange)) = self.place_mut(context) else { return };
        exchange.standing.outstanding = 0;
        if exchange.may_answer() {
            return;
        }
        let Role::Asked { service, id } = exchange.role else { return self.reap(index) };
        let now = self.clock.now();
        if let (Some(Listening::Singles(singles)), Some(id)) =
            (self.listening.get_mut(&service), id)
        {
            singles.asked.remove(&id);
            singles.responder.delivered(now, id);
        }
        self.remove(index);
        self.hear_service(service);
    }

    /// The application does not want to know any more.
    pub(super) fn give_up(&mut self, index: u32) {
        let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) else {
            return;
        };
        exchange.standing.outstanding = 0;
        match &mut exchange.role {
            Role::Asks { request, .. } => {
                request.abort();
                exchange.standing.close(Ended::Ours);
                self.make_ready(index);
            }
            Role::Asked { service, .. } => {
                let service = *service;
                self.remove(index);
                self.hear_service(service);
            }
        }
    }

    /// The network says that nobody is there: of a message that nobody has answered. Anyone can forge it, but it saves a
    /// long wait.
    pub(super) fn unreachable(&mut self, index: u32) {
        let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) else {
            return;
        };
        if let Role::Asks { request, .. } = &mut exchange.role
            && !exchange.standing.closed
            && request.is_asking()
        {
            request.abort();
            exchange.standing.close(Ended::Unreachable);
            self.settle(index);
            self.make_ready(index);
        }
    }

    /// A message that came is not wanted any more by who sent it, or by its service.
    pub(super) fn lose(&mut self, index: u32) {
        let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) else {
            return;
        };
        let Role::Asked { id, .. } = &mut exchange.role else { return };
        *id = None;
        if !exchange.is_told() {
            return self.remove(index);
        }
        exchange.standing.close(Ended::Aborted);
        self.settle(index);
    }

    /// A context goes; what came for it is answered no more.
    pub(super) fn forget_asked(&mut self, exchange: &Exchange) {
        let Role::Asked { service, id } = exchange.role else { return };
        let now = self.clock.now();
        let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else { return };
        singles.held = singles.held.saturating_sub(exchange.held());
        if let Some(id) = id
            && singles.asked.remove(&id).is_some()
        {
            singles.responder.refuse(now, id);
        }
    }

    /// A packet that answers our message.
    pub(super) fn take_answer(
        &mut self,
        now: Instant,
        index: u32,
        came: &Came<'_>,
        app: &mut dyn Placement,
    ) {
        let (id, level) = (self.id(index), self.config.level);
        let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) else {
            return;
        };
        let Role::Asks { request, .. } = &mut exchange.role else { return };
        let (header, len) = (&came.header, came.header.data_len);
        let initial = request.handle_initial(now, header, len);
        let taken = match (&initial, came.proof()) {
            (Initial::Drop(cause), _) => {
                self.requests.segment_of(Some(id), Kind::Dropped(*cause), now, header, len);
                return self.watch.dropped(cause.name());
            }
            (_, None) => Verdict::Reject(DropCause::Checksum),
            (Initial::Payload(plan), Some(proof)) if !plan.duplicate => {
                take_payload(id, &mut **exchange, came, plan, &proof, level, app)
            }
            (_, Some(proof)) if proof.of(level, came.data) => Verdict::Control,
            _ => Verdict::Reject(DropCause::Checksum),
        };
        if let Verdict::Accept { len } | Verdict::Part { len, .. } = taken {
            exchange.took(len as usize, output::tag(&came.header));
        }
        if let Role::Asks { request, .. } = &mut exchange.role {
            request.handle_final(now, header, &initial, taken);
        }
        let kind = Kind::of(&initial, &taken);
        self.requests.segment_of(Some(id), kind, now, header, len);
        self.watch.became(kind);
        self.touch(index);
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use fusewire_device::memory::{self, Network};

    use super::*;

    const SERVICE: u16 = 7;

    /// What was answered is kept for who asks again, and no longer; of what was given up, or lost its asker, nothing is.
    #[test]
    fn a_service_keeps_nothing_for_ever() {
        let network = Network::new(memory::Config::default());
        let now = Arc::new(AtomicU64::new(1_000_000));
        let addrs: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()];
        let [mut asks, mut answers] = addrs.map(|addr| {
            let clock = Clock::virtual_ns(now.clone());
            let config = Config { clock, spin: Duration::ZERO, ..Config::default() };
            Contexts::new(Box::new(network.attach(addr).unwrap()), config, &[addr.port() as u8; 32])
        });
        let block = ControlBlock { kind: block::Kind::Transaction, ..ControlBlock::default() };
        answers.listen(SERVICE, block.clone(), &Secrets { isn: [3; 16], cookie: [4; 16] });
        let mut told = 0;
        for n in 0..30 {
            let context = asks.context(block.clone()).unwrap();
            asks.connect(context, addrs[1], SERVICE).unwrap();
            assert!(asks.send(context, &[IoSlice::new(&[n; 900])], About::default()).unwrap());
            for _ in 0..3 {
                asks.poll(&mut Kept).unwrap();
                answers.poll(&mut Kept).unwrap();
                while let Some((theirs, event)) = answers.poll_event() {
                    let Event::Message(message) = event else { continue };
                    told += 1;
                    answers.release(theirs, &message);
                    if n % 3 == 0 {
                        answers.abort(theirs);
                        continue;
                    }
                    if n % 3 == 1 {
                        asks.abort(context);
                    }
                    let answer = [n; 500];
                    let pieces = [IoSlice::new(&answer)];
                    assert!(answers.send(theirs, &pieces, About::default()).unwrap());
                }
                while asks.poll_event().is_some() {}
            }
        }
        assert_eq!(told, 30);
        let kept = |answers: &Contexts| match &answers.listening[&SERVICE] {
            Listening::Singles(s) => (s.asked.len(), s.answers.len(), s.held),
            Listening::Streams(_) => unreachable!(),
        };
        assert!(kept(&answers).1 >= 10, "answers, for who asks again");
        for _ in 0..300 {
            now.fetch_add(1_000_000_000, Ordering::Relaxed);
            asks.poll(&mut Kept).unwrap();
            answers.poll(&mut Kept).unwrap();
            while answers.poll_event().is_some() {}
        }
        assert_eq!(kept(&answers), (0, 0, 0));
    }
}
