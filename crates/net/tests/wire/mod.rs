//! Layers on one Ethernet without loss, and a clock that stands still until it is told.

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_net::{Config, Input, Layer, Link};
use fusewire_wire::ethernet::Address;

/// A station of the tests by its number.
pub fn station(n: u8) -> Address {
    Address([2, 0, 0, 0, 0, n])
}

/// A host with these addresses, which are its own without a question.
pub fn config(n: u8, addresses: &[&str]) -> Config {
    let addresses = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    let link = Link::Ethernet(station(n));
    Config { addresses, duplicate_detection: false, ..Config::new(link) }
}

/// Stations on one wire.
pub struct Wire {
    /// The stations.
    pub layers: Vec<Layer>,
    /// The clock.
    pub now: Instant,
    /// Every frame that was on the wire, with its time and sender.
    pub log: Vec<(Instant, usize, Vec<u8>)>,
}

#[allow(dead_code, reason = "each test uses a part of it")]
impl Wire {
    /// One station for each configuration.
    pub fn new(configs: Vec<Config>) -> Wire {
        let now = Instant::from_ms(1_000_000);
        let layer = |(n, config)| Layer::new(config, &[n as u8 + 1; 32], now);
        let layers = configs.into_iter().enumerate().map(layer).collect();
        Wire { layers, now, log: Vec::new() }
    }

    /// Lets everybody say what there is to say, and returns what went up.
    pub fn settle(&mut self) -> Vec<(usize, Input)> {
        let mut up = Vec::new();
        let mut rounds = 0;
        while let Some((from, frame)) = self.next_frame() {
            for to in (0..self.layers.len()).filter(|&to| to != from) {
                match self.layers[to].handle(self.now, &frame) {
                    Input::Consumed | Input::Dropped(_) => {}
                    input => up.push((to, input)),
                }
            }
            self.log.push((self.now, from, frame));
            rounds += 1;
            assert!(rounds < 10_000, "the wire never falls silent");
        }
        up
    }

    fn next_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        (0..self.layers.len()).find_map(|from| self.transmit(from).map(|frame| (from, frame)))
    }

    /// The next frame of one station.
    pub fn transmit(&mut self, from: usize) -> Option<Vec<u8>> {
        let mut out = [0xee; 1514];
        let len = self.layers[from].poll_transmit(self.now, &mut out)?;
        Some(out[..len].to_vec())
    }

    /// Lets time pass, timer by timer.
    pub fn pass(&mut self, time: Duration) -> Vec<(usize, Input)> {
        let end = self.now + time;
        let mut up = self.settle();
        loop {
            let next = self.layers.iter().filter_map(Layer::poll_timeout).min();
            let Some(next) = next.filter(|&next| next <= end) else { break };
            assert!(next > self.now, "a timer that is not served");
            self.now = next;
            for layer in &mut self.layers {
                layer.handle_timeout(self.now);
            }
            up.extend(self.settle());
        }
        self.now = end;
        up
    }
}
