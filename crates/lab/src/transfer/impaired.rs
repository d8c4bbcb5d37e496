//! A path that loses and delays, between both processes: each end impairs what it sends.

use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::Device;
use fusewire_device::impair::{Impair, Rules};
use serde::{Deserialize, Serialize};

/// Bytes that wait before the rate limit, in round trips of it.
const QUEUE_ROUND_TRIPS: f64 = 1.0;
/// And at least so many.
const QUEUE_BYTES_MIN: f64 = 256e3;

/// What lies between both ends of a transfer of ours, each way alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Impairment {
    /// Datagrams that are lost, of one.
    pub loss: f64,
    /// Time there and back.
    pub round_trip: Duration,
    /// Bytes a second that go through.
    pub rate: Option<u64>,
}

impl Impairment {
    /// It does nothing to what passes.
    pub fn is_clear(&self) -> bool {
        *self == Impairment::default()
    }

    fn rules(&self) -> Rules {
        let queue = self.rate.map_or(0.0, |rate| rate as f64 * self.round_trip.as_secs_f64());
        Rules {
            loss: self.loss,
            delay: self.round_trip / 2,
            rate: self.rate,
            queue_bytes: (queue * QUEUE_ROUND_TRIPS).max(QUEUE_BYTES_MIN) as usize,
            ..Rules::NONE
        }
    }

    /// The device with this before what it sends; the same seed, the same losses.
    pub fn before(&self, device: Box<dyn Device>, seed: u64) -> Box<dyn Device> {
        if self.is_clear() {
            return device;
        }
        let began = std::time::Instant::now();
        let clock = move || Instant::from_ns(began.elapsed().as_nanos() as u64);
        Box::new(Impair::new(device, self.rules(), Rules::NONE, seed, clock).delivering())
    }
}
