//! Services of ours that take messages one by one (services 1 to 3): packets that come for them, what they say, and time.

use std::net::SocketAddr;

use fusewire_transport::machine::{DropCause, Header as _, Initial, PayloadPlan, Verdict};
use fusewire_transport::xtp::single::{Arrived, Bounds, Event as Told, Id, Incoming, Responder};
use fusewire_transport::xtp::{Header, Transmit};

use super::input::{Came, take_payload};
use super::*;
use crate::trace::Kind;

impl Contexts {
    pub(super) fn singles(
        &self,
        settings: &xtp::Config,
        block: ControlBlock,
        secrets: &Secrets,
    ) -> Singles {
        let bounds = Bounds { half_open: self.config.backlog, ..Bounds::default() };
        Singles::new(Responder::new(settings, bounds, secrets, self.clock.now()), block)
    }

    /// The service of ours that a packet is for: by its number, or where it has none by the key of a message that came.
    pub(super) fn service_of(&self, peer: SocketAddr, header: &Header) -> Option<u16> {
        header.service().or_else(|| {
            let has = |listening: &Listening| match listening {
                Listening::Singles(singles) => singles.responder.has(peer, header),
                Listening::Streams(_) => false,
            };
            self.listening.iter().find(|(_, listening)| has(listening)).map(|(service, _)| *service)
        })
    }

    /// A packet of a message to a service of ours. Its head and the memory for its data are looked at, then one pass goes
    /// over the data; a context is there before, in case they are to be placed, and goes again if they were false.
    pub(super) fn take_single(
        &mut self,
        now: Instant,
        service: u16,
        came: &Came<'_>,
        app: &mut dyn Placement,
    ) {
        let (header, level) = (&came.header, self.config.level);
        let ends = Ends { local: self.device.local_addr(), remote: came.peer, flow: header.flow() };
        let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else { return };
        let len = header.data_len;
        let (initial, is_alone) =
            match singles.responder.handle_initial(now, &ends, false, header, len) {
                Incoming::Drop(cause) => {
                    singles.trace.segment_of(None, Kind::Dropped(cause), now, header, len);
                    return self.refused(cause);
                }
                Incoming::Reply(reply) => {
                    if !came.proof().is_some_and(|proof| proof.of(level, came.data)) {
                        return self.drop_single(now, service, came, DropCause::Checksum);
                    }
                    singles.trace.segment_of(None, Kind::Received, now, header, len);
                    return self.reply(now, came.peer, &reply);
                }
                Incoming::Datagram(initial) => (initial, true),
                Incoming::Take(initial) => (initial, false),
            };
        let known = singles.responder.id_of(came.peer, header).filter(|_| !is_alone);
        let known = known.and_then(|id| singles.asked.get(&id)).copied();
        let Some(proof) = came.proof() else {
            return self.drop_single(now, service, came, DropCause::Checksum);
        };
        let mut index = known;
        let verdict = match &initial {
            Initial::Payload(plan) if !plan.duplicate => {
                let end = plan.offset + u64::from(plan.len);
                let Some(at) = self.memory_for(service, came.peer, known, end) else {
                    return self.drop_single(now, service, came, DropCause::Backlog);
                };
                index = Some(at);
                self.place_single(at, came, (plan, &proof), app)
            }
            _ if proof.of(level, came.data) => Verdict::Control,
            _ => Verdict::Reject(DropCause::Checksum),
        };
        let new = index.filter(|_| known.is_none());
        if let Verdict::Reject(cause) | Verdict::Part { rest: cause, .. } = verdict {
            new.into_iter().for_each(|index| self.remove(index));
            return self.drop_single(now, service, came, cause);
        }
        let (of, kind) = (index.map(|index| self.id(index)), Kind::of(&initial, &verdict));
        if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) {
            singles.trace.segment_of(of, kind, now, header, len);
        }
        self.watch.became(kind);
        if is_alone {
            let btag = output::tag(header);
            return self.hand_over(service, new, None, (len, btag, came.peer));
        }
        let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else { return };
        let told = (&initial, len);
        let id = singles.responder.handle_final(now, &ends, false, header, told, verdict);
        match (id, new) {
            (Some(id), Some(index)) => drop(singles.asked.insert(id, index)),
            (None, Some(index)) => self.remove(index),
            _ => {}
        }
        self.hear_service(service);
    }

    /// A packet of a message to a service of ours is dropped after its head was found right.
    fn drop_single(&mut self, now: Instant, service: u16, came: &Came<'_>, why: DropCause) {
        match why {
            DropCause::Checksum => self.drop_frame(Cause::Checksum),
            DropCause::Backlog => self.drop_frame(Cause::TooManyConnections),
            _ => self.refused(why),
        }
        if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) {
            let (kind, header) = (Kind::Dropped(why), &came.header);
            singles.trace.segment_of(None, kind, now, header, header.data_len);
        }
    }

    /// The context of a message that is to have memory up to `end`, if there is room for it.
    fn memory_for(
        &mut self,
        service: u16,
        peer: SocketAddr,
        known: Option<u32>,
        end: u64,
    ) -> Option<u32> {
        let had = match known.map(|index| self.places[index as usize].as_ref()) {
            Some(Some(Place::Single(exchange))) => exchange.held(),
            _ => 0,
        };
        let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else {
            return None;
        };
        if !singles.has_room(had, end) {
            return None;
        }
        if known.is_some() {
            return known;
        }
        let role = Role::Asked { service, id: None };
        let exchange = Exchange::new(peer, role, singles.block.clone(), Vec::new());
        self.insert(Place::Single(Box::new(exchange))).ok().map(|context| context.index)
    }

    /// The pass over the data of a packet to a service of ours.
    fn place_single(
        &mut self,
        index: u32,
        came: &Came<'_>,
        (plan, proof): (&PayloadPlan, &place::Proof),
        app: &mut dyn Placement,
    ) -> Verdict {
        let (id, level) = (self.id(index), self.config.level);
        let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) else {
            return Verdict::Reject(DropCause::NoMemory);
        };
        let had = exchange.held();
        let verdict = take_payload(id, &mut **exchange, came, plan, proof, level, app);
        let more = exchange.held() - had;
        if let Role::Asked { service, .. } = exchange.role
            && let Some(Listening::Singles(singles)) = self.listening.get_mut(&service)
        {
            singles.held += more;
        }
        verdict
    }

    /// The application is told of a message that is whole. One without a byte has had no context yet.
    fn hand_over(
        &mut self,
        service: u16,
        index: Option<u32>,
        id: Option<Id>,
        (len, btag, from): (u32, Option<u64>, SocketAddr),
    ) {
        let Some(index) = index.or_else(|| self.memory_for(service, from, None, 0)) else {
            return self.drop_frame(Cause::TooManyConnections);
        };
        if let (Some(Listening::Singles(singles)), Some(id)) =
            (self.listening.get_mut(&service), id)
        {
            singles.asked.insert(id, index);
        }
        if let Some(Some(Place::Single(exchange))) = self.places.get_mut(index as usize) {
            exchange.arrived(id, len, btag);
            self.counted.received += 1;
        }
        self.settle(index);
    }

    /// What a service's machine tells; it may have something to say then.
    pub(super) fn hear_service(&mut self, service: u16) {
        while let Some(Listening::Singles(singles)) = self.listening.get_mut(&service)
            && let Some((id, event)) = singles.responder.poll_event()
        {
            let index = singles.asked.get(&id).copied();
            match event {
                Told::Arrived(Arrived { len, btag, from, .. }) => {
                    self.hand_over(service, index, Some(id), (len, btag, from));
                }
                Told::Gone => {
                    singles.answers.remove(&id);
                    singles.asked.remove(&id);
                    index.into_iter().for_each(|index| self.lose(index));
                }
            }
        }
        if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service)
            && !std::mem::replace(&mut singles.is_ready, true)
        {
            self.ready.push(singles.block.sort.unwrap_or(0), Waiter::Service(service));
        }
    }

    // ---- packets that leave, and time

    /// The next packet of what a service says, and the bytes that it is of.
    pub(super) fn poll_service(
        &mut self,
        now: Instant,
        service: u16,
    ) -> Option<(Id, SocketAddr, Transmit)> {
        let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) else {
            return None;
        };
        singles.responder.poll_transmit(now)
    }

    /// A service has nothing more to say now.
    pub(super) fn rest_service(&mut self, service: u16) {
        if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) {
            singles.is_ready = false;
        }
    }

    /// When a service's machine is to be looked at.
    pub(super) fn services_due(&self) -> Option<Instant> {
        let due = self.listening.values().filter_map(|listening| match listening {
            Listening::Singles(singles) => singles.responder.poll_timeout(),
            Listening::Streams(_) => None,
        });
        due.min()
    }

    pub(super) fn run_service_timers(&mut self, now: Instant) -> bool {
        if self.services_due().is_none_or(|at| at > now) {
            return false;
        }
        let services: Vec<u16> = self.listening.keys().copied().collect();
        for service in services {
            if let Some(Listening::Singles(singles)) = self.listening.get_mut(&service) {
                singles.responder.handle_timeout(now);
                self.hear_service(service);
            }
        }
        true
    }
}
