//! Connections that share a bottleneck, in virtual time.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::link::Counts;
use fusewire_testkit::{Impairments, Link, Packet, Random};

use crate::account::{Scenario, Tcp, World};
use crate::frame::Frame;
use crate::two_ends::Account as _;

/// A frame, and whose it is.
#[derive(Clone, Debug)]
struct Tagged(usize, Frame);

impl Packet for Tagged {
    fn len_bytes(&self) -> usize {
        self.1.len_bytes()
    }
    fn corrupt(&mut self, random: &mut Random) {
        self.1.corrupt(random);
    }
    fn mark(&mut self) -> bool {
        self.1.mark()
    }
}

/// Connections whose clients send through one link; acknowledgements have links of their own.
pub struct Shared {
    pub worlds: Vec<World>,
    link: Link<Tagged>,
    now: Instant,
}

impl Shared {
    /// The way there of every scenario is `bottleneck`, whatever it says.
    pub fn new(scenarios: &[Scenario], bottleneck: Impairments, random: &mut Random) -> Shared {
        // The same seed gives all of them one time.
        let seed = random.next_u64();
        let worlds: Vec<_> = scenarios
            .iter()
            .map(|scenario| {
                let mut scenario = scenario.clone();
                scenario.links[0] = Impairments::default();
                World::new(&scenario, &mut Random::new(seed))
            })
            .collect();
        let now = worlds[0].now;
        Shared { worlds, link: Link::new(bottleneck, random.fork()), now }
    }

    pub fn counts(&self) -> &Counts {
        self.link.counts()
    }

    /// Runs for a time; returns how many bytes of each arrived in it.
    pub fn run_for(&mut self, time: Duration) -> Vec<u64> {
        let arrived = |world: &World| world.server.as_ref().map_or(0, |s| s.received.contiguous());
        let before: Vec<_> = self.worlds.iter().map(arrived).collect();
        let end = self.now + time;
        self.step(self.now);
        loop {
            let own = self.worlds.iter().filter_map(World::next_event);
            let Some(next) = own.chain(self.link.next_arrival()).min().filter(|at| *at <= end)
            else {
                break;
            };
            self.step(next);
        }
        self.worlds.iter().zip(before).map(|(world, before)| arrived(world) - before).collect()
    }

    fn step(&mut self, now: Instant) {
        self.now = now;
        for world in &mut self.worlds {
            world.now = now;
        }
        while let Some(Tagged(flow, frame)) = self.link.poll(now) {
            Tcp::arrive_at_server(&mut self.worlds[flow], &frame);
        }
        for (flow, world) in self.worlds.iter_mut().enumerate() {
            world.step_to(now);
            while let Some(frame) = world.links[0].poll(now) {
                self.link.send(now, Tagged(flow, frame));
            }
        }
    }
}
