//! A thread that only sends, on a processor of its own. It copies finished packets and makes the system calls that send them.
//! It does no protocol work: the transmit processor of MacLean and Barvick (section 2.2) runs the transmitting half of the
//! protocol, this thread does not.
//!
//! ```text
//!  who drives the stack                         the relay's thread
//!  packets ──copy──▶ batch ──▶ full ──────────▶ Sender::transmit ──▶ device
//!                      ▲────── empty ◀────────────────┘
//! ```
//! The packets are copied, because what they were gathered from may be acknowledged and written anew before the device
//! has them: this is the one pass more that a second processor costs. There are so many batches and no more; when all
//! are full the interface is.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Capabilities, Checksum, Segmentation, TxPacket};

/// Batches under way or empty.
const BATCHES: usize = 8;
/// Packets of one.
const PACKETS: usize = 64;
/// Bytes at which one is full; its last packet may go beyond.
const BYTES: usize = 192 << 10;
/// How soon a device that was full is tried again.
const RETRY: Duration = Duration::from_micros(100);

/// The sending half of an interface, for another thread.
pub trait Sender: Send {
    /// As [`Interface::transmit`](super::Interface::transmit).
    ///
    /// # Errors
    /// What the operating system says when the interface is broken or gone.
    fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize>;
}

/// Where the thread runs, and how it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The processor that it stays on.
    pub cpu: Option<usize>,
    /// How long it looks for packets without sleeping after there were some.
    pub spin: Duration,
}

/// A packet as it lies in a batch.
struct Laid {
    header_len: usize,
    len: usize,
    checksum: Checksum,
    segmentation: Segmentation,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    packets: Vec<Laid>,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.packets.len() == PACKETS || self.bytes.len() >= BYTES
    }

    fn push(&mut self, packet: &TxPacket<'_>) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(packet.header);
        packet.payload.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.packets.push(Laid {
            header_len: packet.header.len(),
            len: self.bytes.len() - before,
            checksum: packet.checksum,
            segmentation: packet.segmentation,
        });
    }

    /// Gives the packets from `first` on, which begin at byte `at`, to `sender`: how many it took.
    fn give(&self, first: usize, mut at: usize, sender: &mut dyn Sender) -> io::Result<usize> {
        let packets = &self.packets[first..];
        let mut payloads = [IoSlice::new(&[]); PACKETS];
        let begin = at;
        for (payload, laid) in payloads.iter_mut().zip(packets) {
            *payload = IoSlice::new(&self.bytes[at + laid.header_len..at + laid.len]);
            at += laid.len;
        }
        let mut sent = [TxPacket::default(); PACKETS];
        at = begin;
        for ((packet, laid), payload) in sent.iter_mut().zip(packets).zip(&payloads) {
            *packet = TxPacket {
                header: &self.bytes[at..at + laid.header_len],
                payload: std::slice::from_ref(payload),
                checksum: laid.checksum,
                segmentation: laid.segmentation,
            };
            at += laid.len;
        }
        sender.transmit(&sent[..packets.len()])
    }
}

struct State {
    full: VecDeque<Batch>,
    empty: Vec<Batch>,
    error: Option<io::Error>,
    sleeps: bool,
    is_over: bool,
}

/// What the two threads share.
struct Way {
    state: Mutex<State>,
    news: Condvar,
    /// Batches that are full: looked at without the lock.
    waiting: AtomicUsize,
}

impl Way {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch to be sent; `None` when it is over.
    fn next(&self, spin: Duration) -> Option<Batch> {
        let begin = Instant::now();
        while self.waiting.load(Ordering::Acquire) == 0 && begin.elapsed() < spin {
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        loop {
            if let Some(batch) = state.full.pop_front() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                return Some(batch);
            }
            if state.is_over {
                return None;
            }
            state.sleeps = true;
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeps = false;
        }
    }
}

/// A way to a device by a thread that sends. With it the thread ends, when it has sent what it was given.
pub struct Relay {
    way: Arc<Way>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Begins to send by `sender`.
    ///
    /// # Errors
    /// There is no such processor, or no thread to be had.
    pub fn new(sender: Box<dyn Sender>, config: Config) -> io::Result<Relay> {
        let batch = || Batch {
            bytes: Vec::with_capacity(BYTES + (64 << 10)),
            packets: Vec::with_capacity(PACKETS),
        };
        let state = State {
            full: VecDeque::with_capacity(BATCHES),
            empty: std::iter::repeat_with(batch).take(BATCHES).collect(),
            error: None,
            sleeps: false,
            is_over: false,
        };
        let way = Arc::new(Way {
            state: Mutex::new(state),
            news: Condvar::new(),
            waiting: AtomicUsize::new(0),
        });
        let (shared, (tell, told)) = (way.clone(), std::sync::mpsc::sync_channel(1));
        let thread = crate::thread::spawn("transmit", move || {
            let stays = config.cpu.map_or(Ok(()), stay_on);
            let is_there = stays.is_ok();
            let _ = tell.send(stays);
            if is_there {
                carry(&shared, sender, config.spin);
            }
        })?;
        told.recv().map_err(io::Error::other)??;
        Ok(Relay { way, thread: Some(thread) })
    }

    /// As [`Interface::transmit`](super::Interface::transmit), for a device with these capabilities. What the device says
    /// of packets comes with those behind them.
    ///
    /// # Errors
    /// What the device said of packets before these; `InvalidInput` for what it does not offer.
    pub fn transmit(
        &mut self,
        packets: &[TxPacket<'_>],
        capabilities: &Capabilities,
    ) -> io::Result<usize> {
        let mut taken = 0;
        while taken < packets.len() {
            let mut batch = {
                let mut state = self.way.lock();
                if let Some(error) = state.error.take() {
                    return Err(error);
                }
                let Some(batch) = state.empty.pop() else { break };
                batch
            };
            let mut refused = None;
            while let Some(packet) = packets.get(taken).filter(|_| !batch.is_full()) {
                if let Err(error) = packet.admit(capabilities) {
                    refused = Some(error);
                    break;
                }
                batch.push(packet);
                taken += 1;
            }
            let mut state = self.way.lock();
            if batch.packets.is_empty() {
                state.empty.push(batch);
            } else {
                state.full.push_back(batch);
                self.way.waiting.fetch_add(1, Ordering::Release);
                if state.sleeps {
                    self.way.news.notify_one();
                }
            }
            match refused {
                Some(error) if taken == 0 => return Err(error),
                Some(_) => break,
                None => {}
            }
        }
        Ok(taken)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.way.lock().is_over = true;
        self.way.news.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps the calling thread on a processor.
///
/// # Errors
/// There is none of this number, or it is not to be had.
pub fn stay_on(cpu: usize) -> io::Result<()> {
    let what = |error: io::Error| io::Error::new(error.kind(), format!("processor {cpu}: {error}"));
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(what(io::ErrorKind::InvalidInput.into()));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| what(error.into()))
}

/// The thread.
fn carry(way: &Way, mut sender: Box<dyn Sender>, spin: Duration) {
    while let Some(mut batch) = way.next(spin) {
        let (mut done, mut at) = (0, 0);
        while done < batch.packets.len() {
            match batch.give(done, at, &mut *sender) {
                // Full: one that is over does not wait for room.
                Ok(0) if way.lock().is_over => break,
                Ok(0) => std::thread::sleep(RETRY),
                Ok(count) => {
                    at += batch.packets[done..done + count].iter().map(|p| p.len).sum::<usize>();
                    done += count;
                }
                Err(error) => {
                    way.lock().error = Some(error);
                    break;
                }
            }
        }
        batch.bytes.clear();
        batch.packets.clear();
        way.lock().empty.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Interface, Link, memory};
    use super::*;

    /// Gives what it is given to the other end of a memory interface, a few at a time.
    struct Slow(memory::Memory, usize);

    impl Sender for Slow {
        fn transmit(&mut self, packets: &[TxPacket<'_>]) -> io::Result<usize> {
            self.1 += 1;
            match self.1 % 3 {
                0 => Ok(0),
                n => self.0.transmit(&packets[..packets.len().min(n)]),
            }
        }
    }

    fn config() -> Config {
        Config { cpu: None, spin: Duration::from_micros(20) }
    }

    #[test]
    fn packets_leave_whole_and_in_order_however_slow_the_device_is() {
        let all = memory::Config { link: Link::Ip, ..memory::Config::default() };
        let (ours, mut theirs) = memory::pair(all).unwrap();
        let capabilities = ours.capabilities().clone();
        let mut relay = Relay::new(Box::new(Slow(ours, 0)), config()).unwrap();
        let contents = |n: usize| vec![n as u8; 20 + n % 1400];
        let (mut given, mut seen) = (0, 0);
        while seen < 2000 {
            let next: Vec<_> = (given..(given + 7).min(2000)).map(contents).collect();
            let halves: Vec<_> = next
                .iter()
                .map(|bytes| {
                    let (header, rest) = bytes.split_at(20);
                    (
                        header,
                        [
                            IoSlice::new(&rest[..rest.len() / 2]),
                            IoSlice::new(&rest[rest.len() / 2..]),
                        ],
                    )
                })
                .collect();
            let packets: Vec<_> = halves
                .iter()
                .map(|(header, payload)| TxPacket { header, payload, ..TxPacket::default() })
                .collect();
            given += relay.transmit(&packets, &capabilities).unwrap();
            let count = theirs.receive().unwrap();
            for packet in 0..count {
                assert_eq!(theirs.packet(packet).bytes, contents(seen), "packet {seen}");
                seen += 1;
            }
        }
        assert_eq!(given, 2000);
    }

    /// A device that is gone.
    struct Gone;

    impl Sender for Gone {
        fn transmit(&mut self, _: &[TxPacket<'_>]) -> io::Result<usize> {
            Err(io::ErrorKind::NotConnected.into())
        }
    }

    #[test]
    fn what_the_device_says_is_told_and_what_it_cannot_do_is_refused_at_once() {
        let (ours, _theirs) = memory::pair(memory::Config::default()).unwrap();
        let capabilities = ours.capabilities().clone();
        let mut relay = Relay::new(Box::new(Gone), config()).unwrap();
        let packet = TxPacket { header: &[1; 60], ..TxPacket::default() };
        assert!(relay.transmit(&[TxPacket::default()], &capabilities).is_err(), "without a byte");
        let end = Instant::now() + Duration::from_secs(10);
        let error = loop {
            match relay.transmit(&[packet], &capabilities) {
                Err(error) => break error,
                Ok(_) => assert!(Instant::now() < end, "never told"),
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn a_processor_that_is_not_there_is_said_to_be() {
        let nowhere = Config { cpu: Some(1 << 20), ..config() };
        let error = Relay::new(Box::new(Gone), nowhere).err().unwrap();
        assert!(error.to_string().contains("processor 1048576"), "{error}");
    }
}
