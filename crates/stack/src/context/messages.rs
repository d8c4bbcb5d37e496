//! What an application does with contexts that are there: messages out and in, priorities, events.

use std::io::IoSlice;
use std::net::SocketAddr;

use fusewire_transport::machine::Info;

use super::exchange::Said;
use super::*;
use crate::trace::Entry;

impl Contexts {
    /// Sends a message of these pieces, in one pass that gathers and checks them. False when there is no room:
    /// [`Event::Writable`] tells when to try again. It leaves with the next [`Contexts::poll`], or [`Contexts::flush`].
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::TooLong`] for more than [`Contexts::message_len_max`]; [`Error::Misuse`] for a message
    /// without a byte, after [`Contexts::finish`], or a second one of a context for one.
    pub fn send(&mut self, context: Context, pieces: &[IoSlice<'_>], about: About) -> Result<bool> {
        let clock = self.clock.clone();
        if let Some(association) = self.get_mut(context) {
            let is_taken = association.send(|| clock.now(), pieces, about.tag, about.sort)?;
            self.make_ready(context.index);
            return Ok(is_taken);
        }
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let said = |level, each| Said::gather(level, pieces, each);
        self.say(context, len, about, said).map(|()| true)
    }

    /// As [`Contexts::send`], of memory that is lent: it is read once, when the message leaves. The message comes back when
    /// there is no room for it.
    ///
    /// # Errors
    /// As [`Contexts::send`].
    pub fn send_lent(
        &mut self,
        context: Context,
        message: Vec<u8>,
        about: About,
    ) -> Result<std::result::Result<(), Vec<u8>>> {
        if let Some(association) = self.get_mut(context) {
            let is_taken = association.send_lent(message, about.tag, about.sort)?;
            self.make_ready(context.index);
            return Ok(is_taken);
        }
        self.say(context, message.len(), about, |_, _| Said::lent(message)).map(Ok)
    }

    /// Another priority of a context, or none.
    pub fn set_sort(&mut self, context: Context, sort: Option<u16>) {
        if let Some(association) = self.get_mut(context) {
            association.set_sort(sort);
            if association.standing.ready.is_some() {
                self.make_ready(context.index);
            }
        }
    }

    /// Another bound on what we want to be sent, in place of the control block's; the peer is told, and follows.
    ///
    /// # Errors
    /// The context is none that sends and receives a stream: what is made and not connected, and services 1 to 3, have what
    /// their control block says.
    pub fn set_in_rate(&mut self, context: Context, rate: Rate) -> Result<()> {
        let Some(association) = self.get_mut(context) else {
            return Err(Error::Misuse("rates of what is no open stream"));
        };
        association.block.in_rate = rate;
        association.machine.set_in_rate(rate);
        self.make_ready(context.index);
        Ok(())
    }

    /// Where a message lies in the context's receive buffer: in one piece, or two. Nothing, if it was placed elsewhere.
    pub fn message(&self, context: Context, message: &Message) -> [&[u8]; 2] {
        match self.place(context) {
            Some(Place::Open(association)) => association.pieces(&message.range),
            Some(Place::Single(exchange)) => exchange.message(&message.range),
            _ => [&[], &[]],
        }
    }

    /// The memory of a message may be used for others: until then the peer's window stays closed by as much.
    pub fn release(&mut self, context: Context, message: &Message) {
        let Some(association) = self.get_mut(context) else {
            return self.released(context);
        };
        association.release(message.range.clone());
        if association.machine.wants_ack() {
            self.make_ready(context.index);
        }
        self.reap(context.index);
    }

    /// The receive buffer that was lent, of a context that is over: ask with [`Event::Closed`], before the next event.
    pub fn take_back(&mut self, context: Context) -> Option<Vec<u8>> {
        let place = self.place_mut(context)?;
        if !place.standing()?.closed {
            return None;
        }
        match place {
            Place::Open(association) => Some(association.take_memory()),
            Place::Single(exchange) => Some(exchange.take_memory()),
            Place::Unopened(unopened) => Some(std::mem::take(&mut unopened.memory)),
            Place::Made(_) => None,
        }
    }

    /// Bytes of messages that were not acknowledged yet.
    pub fn unsent(&self, context: Context) -> usize {
        match self.place(context) {
            Some(Place::Open(association)) => association.unsent(),
            Some(Place::Single(exchange)) => exchange.unsent(),
            _ => 0,
        }
    }

    /// A message of some length would be taken now.
    pub fn takes_message(&self, context: Context) -> bool {
        match self.place(context) {
            Some(Place::Made(made)) => made.to.is_some(),
            Some(Place::Open(association)) => association.takes_message(),
            Some(Place::Single(exchange)) => exchange.may_answer(),
            Some(Place::Unopened(_)) | None => false,
        }
    }

    /// Data bytes of a packet now: a message of so many leaves in one.
    pub fn packet_data(&self, context: Context) -> usize {
        self.get(context).map_or(0, |association| association.machine.max_payload() as usize)
    }

    /// The peer's address.
    pub fn remote_addr(&self, context: Context) -> Option<SocketAddr> {
        match self.place(context)? {
            Place::Made(made) => made.to.map(|(remote, _)| remote),
            Place::Unopened(_) => None,
            Place::Open(association) => Some(association.standing.remote),
            Place::Single(exchange) => Some(exchange.standing.remote),
        }
    }

    /// What a stream costs: for who gives each of his users so much and no more.
    pub fn load(&self, context: Context) -> Load {
        self.get(context).map_or_else(Load::default, |association| Load {
            bytes: association.unsent() as u64 + association.unread(),
            packets: association.machine.counters().segments_sent,
        })
    }

    /// What proves the packets that a stream sends from now on: what its control block says, as far as its peer takes it.
    pub fn check(&self, context: Context) -> Option<Check> {
        Some(match self.get(context)?.machine.sends_trailers() {
            true => Check::Cxor,
            false => Check::Internet,
        })
    }

    /// Estimates and counters.
    pub fn info(&self, context: Context) -> Option<Info> {
        Some(self.get(context)?.machine.info())
    }

    // ---- events

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<(Context, Event)> {
        while let Some(&index) = self.eventful.front() {
            let id = self.id(index);
            if let Some(event) = self.standing(index).and_then(|its| its.events.pop_front()) {
                if let Event::Accepted { service } = event
                    && let Some(streams) = self.streams(service)
                {
                    streams.listener.taken();
                }
                return Some((id, event));
            }
            self.eventful.pop_front();
            if let Some(standing) = self.standing(index) {
                standing.is_eventful = false;
            }
            self.reap(index);
        }
        None
    }

    /// Forgets a context that is over, and of which its application wants nothing any more.
    pub(super) fn reap(&mut self, index: u32) {
        let Some(Some(place)) = self.places.get_mut(index as usize) else { return };
        let is_quiet = match place {
            Place::Made(_) => false,
            Place::Unopened(_) => true,
            Place::Open(association) => association.machine.state() == State::Quiescent,
            Place::Single(exchange) => exchange.is_over(),
        };
        if is_quiet && place.standing().is_some_and(|standing| standing.is_done()) {
            self.remove(index);
        }
    }

    /// After anything that may have changed a context.
    pub(super) fn settle(&mut self, index: u32) {
        let (id, now) = (self.id(index), self.watch.now);
        let Some(Some(place)) = self.places.get_mut(index as usize) else { return };
        let (lingers, is_named) = match place {
            Place::Made(_) => return,
            Place::Unopened(_) => (true, true),
            Place::Open(association) => {
                association.poll_machine(now);
                let lingers = association.machine.state() == State::Inactive;
                (lingers, association.also == association.machine.also())
            }
            Place::Single(exchange) => {
                self.counted.done += u64::from(exchange.poll_machine());
                (false, exchange.is_named())
            }
        };
        let Some(standing) = place.standing() else { return };
        let began =
            (lingers || standing.closed) && !std::mem::replace(&mut standing.is_lingering, true);
        let has_news =
            !standing.events.is_empty() && !std::mem::replace(&mut standing.is_eventful, true);
        if has_news {
            self.eventful.push_back(index);
        }
        if began {
            self.note_lingering(id);
        }
        if !is_named {
            self.name(index);
        }
    }

    /// One more may go when there is no room.
    fn note_lingering(&mut self, context: Context) {
        if self.lingering.len() > 2 * self.places.len() {
            let generations = &self.generations;
            self.lingering.retain(|c| generations.is_current(c.index, c.generation));
        }
        self.lingering.push_back(context);
    }

    /// The context may have something to send.
    pub(super) fn make_ready(&mut self, index: u32) {
        let Some(Some(place)) = self.places.get_mut(index as usize) else { return };
        let sort = place.sort();
        let Some(standing) = place.standing() else { return };
        if standing.ready == Some(sort) {
            return;
        }
        let waiter = Waiter::Context(index);
        if standing.ready.replace(sort).is_some() {
            // What waits now has another priority.
            self.ready.remove(|ready| *ready == waiter);
        }
        self.ready.push(sort, waiter);
    }

    pub(super) fn reschedule(&mut self, index: u32) {
        let at = match self.places.get(index as usize) {
            Some(Some(Place::Open(association))) => {
                let due = [association.machine.poll_timeout(), association.path.poll_timeout()];
                due.into_iter().flatten().min()
            }
            Some(Some(Place::Single(exchange))) => exchange.poll_timeout(),
            _ => None,
        };
        self.timers.set(index, at);
    }

    /// The last packets of a context either way, oldest first, in the time of [`Config::clock`]; `None` when it is gone. Of a
    /// message by itself there is what its service keeps of it, or if it is ours what all such messages together keep.
    pub fn trace(&self, context: Context) -> Option<Vec<Entry>> {
        let trace = match self.place(context)? {
            Place::Made(_) | Place::Unopened(_) => return Some(Vec::new()),
            Place::Open(association) => return Some(association.trace.iter().copied().collect()),
            Place::Single(exchange) => match exchange.role {
                Role::Asks { .. } => &self.requests,
                Role::Asked { service, .. } => match self.listening.get(&service)? {
                    Listening::Singles(singles) => &singles.trace,
                    Listening::Streams(_) => return Some(Vec::new()),
                },
            },
        };
        Some(trace.of(Some(context)).copied().collect())
    }
}
