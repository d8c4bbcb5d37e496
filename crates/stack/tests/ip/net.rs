//! Two stacks and a clock.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::interface::Interface;
use fusewire_device::interface::Link;
use fusewire_device::interface::memory::{Config as Pair, pair};
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Config, Event, SocketId, Stack};

use crate::lossy::Wire;

/// Which kind of network.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub v6: bool,
    pub link: Link,
    pub checksum: bool,
    pub segmentation: bool,
}

/// All of them.
pub fn kinds() -> Vec<Kind> {
    let mut all = Vec::new();
    for v6 in [false, true] {
        for link in [Link::Ip, Link::Ethernet] {
            for (checksum, segmentation) in [(false, false), (true, false), (true, true)] {
                all.push(Kind { v6, link, checksum, segmentation });
            }
        }
    }
    all
}

/// The address of stack 0 or 1.
pub fn addr(v6: bool, which: usize) -> IpAddr {
    if v6 {
        IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, which as u16 + 1))
    } else {
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, which as u8 + 1))
    }
}

pub struct Net {
    pub stacks: [Stack; 2],
    pub now: Instant,
    pub v6: bool,
    pub events: [Vec<(SocketId, Event)>; 2],
    /// What is between them, when it is no plain pair.
    pub wire: Option<Arc<Mutex<Wire>>>,
}

pub fn net_config(interface: &dyn Interface, which: usize) -> NetConfig {
    let addresses = [(false, 24), (true, 64)]
        .map(|(v6, prefix)| Cidr::new(addr(v6, which), prefix).unwrap())
        .to_vec();
    NetConfig { addresses, duplicate_detection: false, ..Stack::net_config(interface) }
}

impl Net {
    pub fn new(kind: Kind, mtu: usize, config: Config) -> Net {
        let (a, b) = pair(Pair {
            link: kind.link,
            mtu,
            checksum: kind.checksum,
            segmentation: kind.segmentation,
            ..Pair::default()
        })
        .unwrap();
        let now = Instant::from_ms(5);
        let mut which = 0;
        let stacks = [a, b].map(|interface| {
            which += 1;
            let net = net_config(&interface, which - 1);
            Stack::new(Box::new(interface), net, config.clone(), [which as u8; 32], now)
        });
        Net { stacks, now, v6: kind.v6, events: [Vec::new(), Vec::new()], wire: None }
    }

    pub fn addr(&self, which: usize, port: u16) -> SocketAddr {
        SocketAddr::new(addr(self.v6, which), port)
    }

    /// Lets both work until nothing more happens at this time.
    pub fn settle(&mut self) {
        loop {
            let mut worked = false;
            for (stack, events) in self.stacks.iter_mut().zip(&mut self.events) {
                worked |= stack.poll(self.now).unwrap();
                while let Some(event) = stack.poll_event() {
                    events.push(event);
                }
            }
            if !worked {
                return;
            }
        }
    }

    /// Goes on to the next timer, or by `most`.
    pub fn step(&mut self, most: Duration) {
        self.settle();
        let arrival = self.wire.as_ref().and_then(|wire| wire.lock().unwrap().next_arrival());
        let due = self.stacks.iter().filter_map(Stack::poll_timeout).chain(arrival).min();
        let end = self.now + most;
        self.now = due.map_or(end, |at| at.max(self.now + Duration::from_micros(1)).min(end));
        if let Some(wire) = &self.wire {
            wire.lock().unwrap().now = self.now;
        }
        self.settle();
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(end - self.now);
        }
    }

    pub fn had(&self, which: usize, id: SocketId, event: Event) -> bool {
        self.events[which].contains(&(id, event))
    }
}

/// Bytes that tell where they belong.
pub fn pattern(seed: u64, at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|i| (i as u64 ^ (i as u64 >> 8) ^ seed) as u8).collect()
}
