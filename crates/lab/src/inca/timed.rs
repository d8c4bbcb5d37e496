//! An interface whose own time is measured: of one call in so many, so that the clock costs next to nothing.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::Waker;
use fusewire_device::interface::flows::Flows;
use fusewire_device::interface::{Capabilities, Change, Interface, RxPacket, Split, TxPacket};

/// Of so many calls that moved something one is measured, and stands for all.
const EVERY: u32 = 8;

/// Time inside an interface, in ns.
#[derive(Clone, Default)]
pub struct Spent(Arc<AtomicU64>);

impl Spent {
    /// So far.
    pub fn so_far(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// An interface, and the time inside its `receive` and `transmit`.
pub struct Timed<I> {
    interface: I,
    spent: Spent,
    receives: Sample,
    transmits: Sample,
}

/// When to measure.
#[derive(Default)]
struct Sample {
    /// Calls that pass first.
    pass: u32,
}

impl Sample {
    fn begin(&self) -> Option<Instant> {
        (self.pass == 0).then(Instant::now)
    }

    /// A call that moved something has ended.
    fn end(&mut self, begun: Option<Instant>, spent: &Spent) {
        match begun {
            Some(at) => {
                let ns = at.elapsed().as_nanos() as u64 * u64::from(EVERY);
                spent.0.fetch_add(ns, Ordering::Relaxed);
                self.pass = EVERY - 1;
            }
            None => self.pass -= 1,
        }
    }
}

impl<I: Interface> Timed<I> {
    /// `spent` hears of it.
    pub fn new(interface: I, spent: Spent) -> Self {
        Timed { interface, spent, receives: Sample::default(), transmits: Sample::default() }
    }
}

impl<I: Interface> Interface for Timed<I> {
    fn capabilities(&self) -> &Capabilities {
        self.interface.capabilities()
    }
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
        let begun = self.transmits.begin();
        let taken = self.interface.transmit(packets)?;
        if taken > 0 {
            self.transmits.end(begun, &self.spent);
        }
        Ok(taken)
    }
    fn receive(&mut self) -> io::Result<usize> {
        let begun = self.receives.begin();
        let count = self.interface.receive()?;
        if count > 0 {
            self.receives.end(begun, &self.spent);
        }
        Ok(count)
    }
    fn packet(&self, index: usize) -> RxPacket<'_> {
        self.interface.packet(index)
    }
    fn receive_split(&mut self, head_len: usize, memory: [&mut [u8]; 2]) -> io::Result<Split> {
        let begun = self.receives.begin();
        let split = self.interface.receive_split(head_len, memory)?;
        if matches!(split, Split::Packet { .. }) {
            self.receives.end(begun, &self.spent);
        }
        Ok(split)
    }
    fn rejoin(&mut self, memory: [&[u8]; 2]) {
        self.interface.rejoin(memory);
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.interface.wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.interface.waker()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interface.as_fd()
    }
    fn steer(&mut self, flows: &Flows) -> io::Result<()> {
        self.interface.steer(flows)
    }
    fn poll_change(&mut self) -> Option<Change> {
        self.interface.poll_change()
    }
    fn dropped(&self) -> u64 {
        self.interface.dropped()
    }
    fn queue_packets(&self) -> usize {
        self.interface.queue_packets()
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use fusewire_device::interface::memory::{Config, pair};
    use fusewire_device::interface::{Checksum, Segmentation};

    use super::*;

    #[test]
    fn one_call_in_so_many_stands_for_all() {
        let (a, b) = pair(Config::default()).unwrap();
        let spent = [Spent::default(), Spent::default()];
        let (mut a, mut b) = (Timed::new(a, spent[0].clone()), Timed::new(b, spent[1].clone()));
        let payload = [IoSlice::new(&[7; 1000])];
        let packet = TxPacket {
            header: &[1; 34],
            payload: &payload,
            checksum: Checksum::InPlace,
            segmentation: Segmentation::None,
        };
        let mut seen = [Duration::ZERO; 2];
        for turn in 0..4 * EVERY {
            assert_eq!(b.receive().unwrap(), 0, "nothing is there, and nothing is counted");
            assert_eq!(a.transmit(&[packet]).unwrap(), 1);
            assert_eq!(b.receive().unwrap(), 1);
            assert_eq!(b.packet(0).bytes.len(), 1034);
            for (spent, seen) in spent.iter().zip(&mut seen) {
                let grew = spent.so_far() > *seen;
                assert_eq!(grew, turn % EVERY == 0, "turn {turn}");
                *seen = spent.so_far();
            }
        }
    }
}
