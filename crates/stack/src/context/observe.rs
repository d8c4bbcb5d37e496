//! Contexts that can be asked what they do.

use std::io;

use fusewire_device::capture::feed::{Blocks, Options};

use super::*;
use crate::asked::{Last, Visible};
use crate::generations;
use crate::observe::{Head, Numbers};

impl Contexts {
    /// From now on other processes of this user may look: `fusewire ss`, `fusewire top`, `fusewire metrics`, `fusewire
    /// capture`. They are answered by [`Contexts::poll`].
    ///
    /// # Errors
    /// The Unix socket cannot be made (`fusewire_view::place`).
    pub fn observe(&mut self) -> io::Result<()> {
        if self.asked.is_none() {
            self.asked = Some(Asked::new(self.device.waker())?);
        }
        Ok(())
    }

    /// Who takes contexts of a service: those that wait, and the half-open ones.
    fn listener(&self, (port, listening): (&u16, &Listening)) -> Numbers {
        let numbers = Numbers::new("xtp", format!("service-{port}"), self.device.local_addr());
        let port = ("port", port.to_string());
        match listening {
            Listening::Streams(streams) => Numbers {
                state: "LISTEN",
                send_queue: streams.listener.half_open() as u64,
                names: vec![port, ("service", streams.block.kind.name().into())],
                ..numbers
            },
            Listening::Singles(singles) => Numbers {
                state: "LISTEN",
                recv_queue: singles.asked.len() as u64,
                send_queue: singles.responder.half_open() as u64,
                names: vec![port, ("service", singles.block.kind.name().into())],
                drops: *singles.responder.drops(),
                ..numbers
            },
        }
    }

    fn numbers(&self, index: u32, place: &Place) -> Numbers {
        let id = self.id(index);
        let name = format!("{}.{}", id.index, id.generation);
        let numbers = Numbers::new("xtp", name, self.device.local_addr());
        match place {
            Place::Made(made) => Numbers {
                remote: made.to.map(|(remote, _)| remote),
                names: vec![("service", made.block.kind.name().into())],
                ..numbers
            },
            Place::Unopened(_) => numbers,
            Place::Open(association) => Numbers {
                remote: Some(association.standing.remote),
                state: association.machine.state_name(),
                recv_queue: association.unread(),
                send_queue: association.unsent() as u64,
                names: association.machine.names(),
                info: Some(association.machine.info()),
                ..numbers
            },
            Place::Single(exchange) => Numbers {
                remote: Some(exchange.standing.remote),
                state: exchange.state_name(),
                recv_queue: exchange.unread(),
                send_queue: exchange.unsent() as u64,
                names: exchange.shown(),
                drops: exchange.drops(),
                ..numbers
            },
        }
    }
}

impl Visible for Contexts {
    fn head(&self) -> Head {
        let caps = self.device.caps();
        Head {
            protocol: "xtp",
            device: caps.name,
            address: self.device.local_addr(),
            mtu: caps.max_datagram,
            dropped: self.drops.named().chain(self.device.drops()).collect(),
            counted: self.counted.named().collect(),
            past: self.past,
        }
    }

    fn sockets(&self, from: usize, most: usize) -> (Vec<Numbers>, Option<usize>) {
        let mut numbers = Vec::with_capacity(most);
        if from == 0 {
            numbers.extend(self.listening.iter().map(|listening| self.listener(listening)));
        }
        let places = self.places.iter().enumerate().skip(from);
        let mut taken = places.filter_map(|(index, place)| Some((index, place.as_ref()?)));
        let some = taken.by_ref().take(most);
        numbers.extend(some.map(|(index, place)| self.numbers(index as u32, place)));
        (numbers, taken.next().map(|(index, _)| index))
    }

    fn last(&self, name: &str) -> Option<Last> {
        let entries = if let Some(service) = name.strip_prefix("service-") {
            match self.listening.get(&service.parse().ok()?)? {
                Listening::Streams(_) => Vec::new(),
                Listening::Singles(singles) => singles.trace.iter().copied().collect(),
            }
        } else {
            let (index, generation) = generations::parse(name)?;
            self.trace(Context { index, generation })?
        };
        let letters = xtp::Config::default().letters();
        Some(Last { entries, letters, now: self.clock.now() })
    }

    fn begin_capture(&mut self, options: Options) -> Option<Blocks> {
        self.capture(options)
    }
}
