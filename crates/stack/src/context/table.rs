//! Which contexts there are, each in its place, and by which keys packets find it.

use std::net::SocketAddr;

use super::*;

/// A context that was made and is not open: what it will be, and the memory that was lent to it.
pub(super) struct Made {
    pub block: ControlBlock,
    pub memory: Vec<u8>,
    /// Where its one message is to go, if it has one.
    pub to: Option<(SocketAddr, u16)>,
}

/// A context that its application has ended before it was opened, until the application is notified.
pub(super) struct Unopened {
    pub standing: Standing,
    /// The memory that was lent to it.
    pub memory: Vec<u8>,
}

pub(super) enum Place {
    Made(Box<Made>),
    Unopened(Box<Unopened>),
    Open(Box<Association>),
    Single(Box<Exchange>),
}

impl Place {
    /// Ends a context that was made and is not open.
    pub(super) fn end_unopened(&mut self) {
        let Place::Made(made) = self else { return };
        let nowhere = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
        let mut standing = Standing::new(made.to.map_or(nowhere, |(remote, _)| remote));
        standing.close(Ended::Ours);
        let memory = std::mem::take(&mut made.memory);
        *self = Place::Unopened(Box::new(Unopened { standing, memory }));
    }

    /// Returns the state that a context shows once it was opened or has ended.
    pub(super) fn standing(&mut self) -> Option<&mut Standing> {
        match self {
            Place::Made(_) => None,
            Place::Unopened(unopened) => Some(&mut unopened.standing),
            Place::Open(association) => Some(&mut association.standing),
            Place::Single(exchange) => Some(&mut exchange.standing),
        }
    }

    pub(super) fn names(&self) -> Vec<Name> {
        match self {
            Place::Made(_) | Place::Unopened(_) => Vec::new(),
            Place::Open(association) => association.names().collect(),
            Place::Single(exchange) => exchange.names().collect(),
        }
    }

    /// What it is worth to the others of its host.
    pub(super) fn sort(&self) -> u16 {
        match self {
            Place::Made(_) | Place::Unopened(_) => 0,
            Place::Open(association) => association.sort(),
            Place::Single(exchange) => exchange.sort(),
        }
    }
}

impl Contexts {
    pub(super) fn insert(&mut self, place: Place) -> Result<Context> {
        if self.generations.taken() >= self.config.max_contexts && !self.forget_lingering() {
            return Err(Error::Misuse("too many contexts"));
        }
        let index = self.generations.take().unwrap_or_else(|| self.generations.add());
        let at = index as usize;
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        self.places[at] = Some(place);
        Ok(self.id(index))
    }

    /// The oldest of those that only linger makes room.
    fn forget_lingering(&mut self) -> bool {
        while let Some(context) = self.lingering.pop_front() {
            let standing = self.place_mut(context).and_then(Place::standing);
            if standing.is_some_and(|standing| standing.events.is_empty()) {
                self.remove(context.index);
                return true;
            }
        }
        false
    }

    pub(super) fn id(&self, index: u32) -> Context {
        Context { index, generation: self.generations.of(index) }
    }

    pub(super) fn place_mut(&mut self, context: Context) -> Option<&mut Place> {
        if !self.generations.is_current(context.index, context.generation) {
            return None;
        }
        self.places.get_mut(context.index as usize)?.as_mut()
    }

    pub(super) fn place(&self, context: Context) -> Option<&Place> {
        if !self.generations.is_current(context.index, context.generation) {
            return None;
        }
        self.places.get(context.index as usize)?.as_ref()
    }

    pub(super) fn get(&self, context: Context) -> Option<&Association> {
        match self.place(context) {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, context: Context) -> Option<&mut Association> {
        match self.place_mut(context) {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    pub(super) fn at(&self, index: u32) -> Option<&Association> {
        match self.places.get(index as usize)? {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut Association> {
        match self.places.get_mut(index as usize)? {
            Some(Place::Open(association)) => Some(association),
            _ => None,
        }
    }

    /// Who takes streams of a service.
    pub(super) fn streams(&mut self, service: u16) -> Option<&mut Streams> {
        match self.listening.get_mut(&service)? {
            Listening::Streams(streams) => Some(streams),
            Listening::Singles(_) => None,
        }
    }

    pub(super) fn standing(&mut self, index: u32) -> Option<&mut Standing> {
        self.places.get_mut(index as usize)?.as_mut()?.standing()
    }

    /// Lets packets find the context by all names that are known now.
    pub(super) fn name(&mut self, index: u32) {
        let Some(Some(place)) = self.places.get_mut(index as usize) else { return };
        match place {
            Place::Made(_) | Place::Unopened(_) => return,
            Place::Open(association) => association.also = association.machine.also(),
            Place::Single(exchange) => exchange.learn_name(),
        }
        let (names, remote) = (place.names(), place.standing().map(|standing| standing.remote));
        for Name { key, returned } in names {
            match remote {
                Some(remote) if !returned => drop(self.by_peer.insert((remote, key), index)),
                _ => drop(self.by_key.insert(key.bits(), index)),
            }
        }
    }

    pub(super) fn remove(&mut self, index: u32) {
        let Some(mut place) = self.places[index as usize].take() else { return };
        let names = place.names();
        if let Some(standing) = place.standing() {
            for Name { key, returned } in names {
                if returned {
                    self.by_key.remove(&key.bits());
                } else {
                    self.by_peer.remove(&(standing.remote, key));
                }
            }
            if standing.ready.is_some() {
                self.ready.remove(|waiter| *waiter == Waiter::Context(index));
            }
        }
        match &place {
            Place::Made(_) | Place::Unopened(_) => {}
            Place::Open(association) => self.past.add(association.machine.counters()),
            Place::Single(exchange) => self.forget_asked(exchange),
        }
        self.timers.cancel(index);
        self.generations.give_back(index);
    }
}
