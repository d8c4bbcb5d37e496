//! Drives machines over the connections of a [`Stack`]: one thread, any number of connections.
//!
//! ADUs are opened by the stack's one pass straight into the [`Intake`](crate::Intake) of this thread; what a
//! machine takes no more of the stack keeps, and the peer's window closes.

use crate::channel::{Channel, ChannelError, MAX_ADU_LEN, Received, Sent};
use crate::server::{Session, Share};
use crate::{Element, Error, Intake, Machine, Scratch};
use fusewire_base::Instant;
use fusewire_stack::{Adu, Application, ConnectionId, Event as StackEvent, Fingerprint, Stack};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Machines of one kind, each on a connection of a stack.
pub struct Driver<M> {
    stack: Stack,
    seats: HashMap<ConnectionId, Seat<M>>,
    /// Connections whose machines have something to do.
    ready: VecDeque<ConnectionId>,
    /// Connections whose machines wait for a time.
    waits: BTreeMap<(Instant, u64), ConnectionId>,
    /// Tells waits for one time apart.
    waited: u64,
    scratch: Scratch,
}

struct Seat<M> {
    machine: M,
    is_ready: bool,
    finished: bool,
    /// The peer has sent its last ADU.
    ended: bool,
    failed: Option<Error>,
}

/// What happened in a turn of a [`Driver`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection is open: judge its key if that is not done, and give it a machine, or abort it.
    Connected {
        /// Which.
        id: ConnectionId,
        /// The peer's key.
        peer: Fingerprint,
        /// The configuration has judged it.
        trusted: bool,
    },
    /// A machine has finished; its connection closes in order.
    Finished {
        /// Which.
        id: ConnectionId,
    },
    /// A machine has failed, or its connection broke; both are gone.
    Failed {
        /// Which.
        id: ConnectionId,
        /// Why.
        error: Error,
    },
    /// A connection is closed in order; the machine is gone.
    Closed {
        /// Which.
        id: ConnectionId,
    },
}

impl<M: Machine> Driver<M> {
    /// Drives over `stack`.
    pub fn new(stack: Stack) -> Self {
        let (seats, ready, waits) = Default::default();
        Driver { stack, seats, ready, waits, waited: 0, scratch: Scratch::new() }
    }

    /// The stack, to connect, listen and abort.
    pub fn stack(&mut self) -> &mut Stack {
        &mut self.stack
    }

    /// How the contents on an open connection are marshalled.
    pub fn element(&self, id: ConnectionId) -> Element {
        self.stack.session(id).map_or(Element::Octets, |(_, options)| options.element.into())
    }

    /// Gives an open, trusted connection its machine.
    pub fn seat(&mut self, id: ConnectionId, machine: M) {
        let seat = Seat { machine, is_ready: true, finished: false, ended: false, failed: None };
        self.seats.insert(id, seat);
        self.ready.push_back(id);
    }

    /// The machines.
    pub fn machines(&self) -> impl Iterator<Item = (ConnectionId, &M)> {
        self.seats.iter().map(|(id, seat)| (*id, &seat.machine))
    }

    /// Takes a machine off its connection.
    pub fn unseat(&mut self, id: ConnectionId) -> Option<M> {
        self.seats.remove(&id).map(|seat| seat.machine)
    }

    /// Receives, turns every machine that has something to do once, sends; sleeps for `timeout` at most if
    /// there was nothing to do. What happened is added to `events`.
    ///
    /// # Errors
    /// The device is broken.
    pub fn turn(
        &mut self,
        events: &mut Vec<Event>,
        timeout: Option<Duration>,
    ) -> Result<(), fusewire_stack::Error> {
        let mut doors =
            Doors { seats: &mut self.seats, intake: &mut self.scratch.intake, current: None };
        let mut worked = self.stack.poll(&mut doors)?;
        doors.flush();
        worked |= self.take_events(events);
        let now = self.stack.now();
        while let Some(wait) = self.waits.first_entry() {
            if wait.key().0 > now {
                break;
            }
            let id = wait.remove();
            self.make_ready(id);
        }
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            worked = true;
            self.turn_one(id, now, events);
        }
        self.stack.flush();
        if worked {
            return Ok(());
        }
        let wait = self.waits.keys().next().map(|(at, _)| at.saturating_since(self.stack.now()));
        let timeout = match (timeout, wait) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.stack.wait(timeout)
    }

    fn make_ready(&mut self, id: ConnectionId) {
        if let Some(seat) = self.seats.get_mut(&id)
            && !std::mem::replace(&mut seat.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    fn take_events(&mut self, events: &mut Vec<Event>) -> bool {
        let mut any = false;
        while let Some((id, event)) = self.stack.poll_event() {
            any = true;
            match event {
                StackEvent::Connected { peer, trusted } => {
                    events.push(Event::Connected { id, peer, trusted })
                }
                StackEvent::Readable | StackEvent::Writable => self.make_ready(id),
                StackEvent::Finished => {
                    if let Some(seat) = self.seats.get_mut(&id) {
                        seat.ended = true;
                    }
                    self.make_ready(id);
                }
                StackEvent::Closed(error) => {
                    let finished = self.seats.remove(&id).is_none_or(|seat| seat.finished);
                    events.push(match error {
                        None if finished => Event::Closed { id },
                        None => Event::Failed { id, error: Error::Ended },
                        Some(error) => Event::Failed { id, error: broken(&error).into() },
                    });
                }
                _ => {}
            }
        }
        any
    }

    fn turn_one(&mut self, id: ConnectionId, now: Instant, events: &mut Vec<Event>) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        seat.is_ready = false;
        if seat.finished {
            return;
        }
        let mut channel = StackChannel { stack: &mut self.stack, id, ended: seat.ended };
        let turned = match seat.failed.take() {
            Some(error) => Err(error),
            None => seat.machine.turn(&mut channel, &mut self.scratch, now),
        };
        match turned {
            Ok(turn) => {
                if turn.finished {
                    seat.finished = true;
                    events.push(Event::Finished { id });
                } else if turn.worked {
                    self.make_ready(id);
                } else if let Some(at) = turn.wait_until {
                    self.waited += 1;
                    self.waits.insert((at, self.waited), id);
                }
            }
            Err(error) => {
                self.stack.abort(id);
                self.seats.remove(&id);
                events.push(Event::Failed { id, error });
            }
        }
    }
}

/// Where the stack puts ADUs.
struct Doors<'a, M> {
    seats: &'a mut HashMap<ConnectionId, Seat<M>>,
    intake: &'a mut Intake,
    /// Whose ADUs are in the intake.
    current: Option<ConnectionId>,
}

impl<M: Machine> Doors<'_, M> {
    fn flush(&mut self) {
        let Some(seat) = self.current.take().and_then(|id| self.seats.get_mut(&id)) else { return };
        if let Err(error) = seat.machine.flush(self.intake) {
            seat.failed.get_or_insert(error);
        }
    }
}

impl<M: Machine> Application for Doors<'_, M> {
    fn place(&mut self, from: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        if adu.len > MAX_ADU_LEN {
            return None;
        }
        if self.current != Some(from) {
            self.flush();
        }
        let seat =
            self.seats.get_mut(&from).filter(|seat| seat.failed.is_none() && !seat.finished)?;
        self.current = Some(from);
        match seat.machine.place(self.intake) {
            Ok(memory) => memory,
            Err(error) => {
                seat.failed = Some(error);
                None
            }
        }
    }

    fn delivered(&mut self, from: ConnectionId, adu: Adu) {
        let Some(seat) = self.seats.get_mut(&from) else { return };
        if let Err(error) = seat.machine.delivered(self.intake, adu.len) {
            seat.failed = Some(error);
            self.current = None;
        }
    }

    fn dropped(&mut self, from: ConnectionId, _: Adu) {
        if let Some(seat) = self.seats.get_mut(&from) {
            seat.machine.dropped(self.intake);
        }
    }
}

/// One connection of a stack, as the transfer sees it.
struct StackChannel<'a> {
    stack: &'a mut Stack,
    id: ConnectionId,
    ended: bool,
}

fn broken(error: &fusewire_stack::Error) -> ChannelError {
    ChannelError { reason: error.to_string() }
}

impl Channel for StackChannel<'_> {
    fn max_adu(&self) -> usize {
        self.stack.adu_len(self.id).map_or(0, |(fitting, _)| fitting).min(MAX_ADU_LEN)
    }

    fn room(&mut self) -> usize {
        let len = self.max_adu();
        self.stack.room(self.id, len)
    }

    fn send(&mut self, adu: &[u8]) -> Result<Sent, ChannelError> {
        match self.stack.send(self.id, adu) {
            Ok(true) => Ok(Sent::Taken),
            Ok(false) => Ok(Sent::Full),
            Err(error) => Err(broken(&error)),
        }
    }

    fn recv(&mut self, into: &mut [u8]) -> Result<Received, ChannelError> {
        let Some((_, adu)) = self.stack.recv_any(self.id) else {
            return Ok(if self.ended { Received::Finished } else { Received::Nothing });
        };
        let len = adu.len();
        match into.get_mut(..len) {
            Some(into) => into.copy_from_slice(&adu),
            None => {
                return Err(ChannelError {
                    reason: format!("the peer sent an ADU of {len} bytes"),
                });
            }
        }
        self.stack.recycle(self.id, adu);
        Ok(Received::Adu { len })
    }

    fn finish(&mut self) -> Result<(), ChannelError> {
        self.stack.finish(self.id);
        Ok(())
    }
}

/// Serves a [`Share`] to every connection that a listening stack takes.
pub struct Server {
    driver: Driver<Session>,
    share: Arc<Share>,
    events: Vec<Event>,
    draining: bool,
}

impl Server {
    /// Serves `share` over `stack`, which listens. Its server configuration judges the clients' keys.
    pub fn new(stack: Stack, share: Arc<Share>) -> Self {
        Server { driver: Driver::new(stack), share, events: Vec::new(), draining: false }
    }

    /// The stack.
    pub fn stack(&mut self) -> &mut Stack {
        self.driver.stack()
    }

    /// Connections that are being served.
    pub fn connections(&self) -> usize {
        self.driver.seats.len()
    }

    /// Takes no further connections, answers what was asked, and ends each connection that has nothing more
    /// to do. True when none is left.
    pub fn drain(&mut self) -> bool {
        if !std::mem::replace(&mut self.draining, true) {
            self.driver.stack.stop_listening();
        }
        let idle = |(id, session): (ConnectionId, &Session)| session.is_idle().then_some(id);
        let ids: Vec<ConnectionId> = self.driver.machines().filter_map(idle).collect();
        for id in ids {
            self.driver.unseat(id);
            self.driver.stack.finish(id);
        }
        self.driver.seats.is_empty()
    }

    /// Does what there is to do, and sleeps for `timeout` at most if there is nothing.
    ///
    /// # Errors
    /// The device is broken.
    pub fn turn(&mut self, timeout: Option<Duration>) -> Result<(), fusewire_stack::Error> {
        self.driver.turn(&mut self.events, timeout)?;
        for event in self.events.drain(..) {
            match event {
                Event::Connected { id, trusted: true, peer } => {
                    tracing::info!(%peer, "connected");
                    let element = self.driver.element(id);
                    self.driver.seat(id, self.share.session(element));
                }
                Event::Connected { id, peer, .. } => {
                    tracing::warn!(%peer, "refused");
                    self.driver.stack.abort(id);
                }
                Event::Failed { error, .. } => tracing::warn!(%error, "connection failed"),
                Event::Finished { .. } | Event::Closed { .. } => {}
            }
        }
        Ok(())
    }
}
