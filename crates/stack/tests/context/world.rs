//! Two ends over memory, in virtual time, with whatever link a test wants between them.

use std::io;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fusewire_base::Instant;
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::memory::{Config as MemoryConfig, Memory, Network};
use fusewire_device::{Capabilities, Device, RxBatch, TxFrame, Waker};
use fusewire_stack::Clock;
use fusewire_stack::context::{
    About, Config, Context, Contexts, ControlBlock, Ended, Event, Kept, Message, Placement,
};
use fusewire_transport::machine::Secrets;

pub const SERVICE: u16 = 7;
const STEP: Duration = Duration::from_micros(250);

/// What left a device, packet by packet.
pub type Log = Arc<Mutex<Vec<Vec<u8>>>>;

/// A device that notes what leaves, and loses what it is told to.
struct Noting<D> {
    inner: D,
    log: Log,
    lose: Arc<AtomicUsize>,
    /// The longest packet that the path carries.
    carries: Arc<AtomicUsize>,
    caps: Capabilities,
}

impl<D: Device> Device for Noting<D> {
    fn caps(&self) -> &Capabilities {
        &self.caps
    }
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }
    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> io::Result<usize> {
        let mut log = self.log.lock().unwrap();
        log.extend(frames.iter().map(|frame| [frame.header, frame.payload].concat()));
        let lost = self.lose.load(Ordering::Relaxed).min(frames.len());
        self.lose.fetch_sub(lost, Ordering::Relaxed);
        let carries = self.carries.load(Ordering::Relaxed);
        for frame in &frames[lost..] {
            if frame.header.len() + frame.payload.len() <= carries {
                self.inner.transmit(&[*frame])?;
            }
        }
        Ok(frames.len())
    }
    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        self.inner.receive(batch)
    }
    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<bool> {
        self.inner.wait(timeout, want_write)
    }
    fn waker(&self) -> Waker {
        self.inner.waker()
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
    fn poll_event(&mut self) -> Option<fusewire_device::Event> {
        self.inner.poll_event()
    }
}

pub struct End {
    pub contexts: Contexts,
    pub log: Log,
    /// So many packets that leave next are lost.
    pub lose: Arc<AtomicUsize>,
    /// Packets that are longer do not arrive.
    pub carries: Arc<AtomicUsize>,
    /// What was heard, in order.
    pub heard: Vec<(Context, Event)>,
    /// Whole messages, with their tags.
    pub messages: Vec<(Context, Message, Vec<u8>)>,
    /// Messages are released when they are told.
    pub releases: bool,
}

pub struct World {
    pub ends: [End; 2],
    pub network: Network,
    now: Arc<AtomicU64>,
}

pub fn addrs() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()]
}

pub fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ seed.wrapping_mul(101) ^ (i >> 8)) as u8).collect()
}

/// A block of packets as on Ethernet.
pub fn block() -> ControlBlock {
    ControlBlock { packet_bytes: Some(1400), ..ControlBlock::default() }
}

impl World {
    pub fn new() -> World {
        World::over(Rules::NONE, 1)
    }

    /// With such a link in both directions.
    pub fn over(rules: Rules, seed: u64) -> World {
        World::between(rules, seed, true)
    }

    /// And with something in between, of which neither end knows what it carries.
    pub fn between(rules: Rules, seed: u64, is_whole_path: bool) -> World {
        let config = MemoryConfig { mailbox_bytes: 16 << 20, ..MemoryConfig::default() };
        let network = Network::new(config);
        let now = Arc::new(AtomicU64::new(1_000_000));
        let mut number = 0;
        let ends = addrs().map(|addr| {
            let clock = Clock::virtual_ns(now.clone());
            let log = Log::default();
            let inner: Memory = network.attach(addr).unwrap();
            let ticks = now.clone();
            let link = Impair::new(inner, rules, Rules::NONE, seed + number, move || {
                Instant::from_ns(ticks.load(Ordering::Relaxed))
            });
            let lose = Arc::new(AtomicUsize::new(0));
            let carries = Arc::new(AtomicUsize::new(usize::MAX));
            let caps = Capabilities { is_whole_path, ..link.caps().clone() };
            let device = Noting {
                inner: link,
                log: log.clone(),
                lose: lose.clone(),
                carries: carries.clone(),
                caps,
            };
            number += 1;
            let config = Config { clock, spin: Duration::ZERO, ..Config::default() };
            let contexts = Contexts::new(Box::new(device), config, &[number as u8; 32]);
            let (heard, messages) = (Vec::new(), Vec::new());
            End { contexts, log, lose, carries, heard, messages, releases: true }
        });
        World { ends, network, now }
    }

    /// A context of the first end's to a service of the second's.
    pub fn open(&mut self, ours: ControlBlock, theirs: ControlBlock) -> Context {
        self.listen(theirs);
        self.connect(ours)
    }

    pub fn listen(&mut self, block: ControlBlock) {
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        self.ends[1].contexts.listen(SERVICE, block, &secrets);
    }

    pub fn connect(&mut self, block: ControlBlock) -> Context {
        let contexts = &mut self.ends[0].contexts;
        let context = contexts.context(block).unwrap();
        contexts.connect(context, addrs()[1], SERVICE).unwrap();
        context
    }

    /// The context that the second end has been called with.
    pub fn called(&self) -> Context {
        let called = |(context, event): &(Context, Event)| {
            matches!(event, Event::Accepted { .. }).then_some(*context)
        };
        self.ends[1].heard.iter().find_map(called).expect("somebody has called")
    }

    pub fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// One look of both, and a moment.
    pub fn step(&mut self) {
        self.step_with(&mut Kept, &mut Kept);
    }

    pub fn step_with(&mut self, first: &mut dyn Placement, second: &mut dyn Placement) {
        self.ends[0].poll(first);
        self.ends[1].poll(second);
        self.now.fetch_add(STEP.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Goes on until `is_done`, at most so many seconds of virtual time.
    pub fn run(&mut self, seconds: u64, mut is_done: impl FnMut(&mut World) -> bool) {
        let end = self.now() + seconds * 1_000_000_000;
        while !is_done(self) {
            assert!(self.now() < end, "not done in {seconds} s: {:?}", self.ends[1].tail());
            self.step();
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now() + time.as_nanos() as u64;
        self.run(time.as_secs() + 1, |world| world.now() >= end);
    }
}

impl End {
    pub fn poll(&mut self, app: &mut dyn Placement) {
        self.contexts.poll(app).unwrap();
        while let Some((context, event)) = self.contexts.poll_event() {
            if let Event::Message(message) = &event {
                let bytes = self.contexts.message(context, message).concat();
                if self.releases {
                    self.contexts.release(context, message);
                }
                self.messages.push((context, message.clone(), bytes));
            }
            self.heard.push((context, event));
        }
    }

    pub fn send(&mut self, context: Context, message: &[u8], about: About) -> bool {
        self.contexts.send(context, &[IoSlice::new(message)], about).unwrap()
    }

    pub fn ended(&self, context: Context) -> Option<Ended> {
        self.heard.iter().find_map(|(of, event)| match event {
            Event::Closed(ended) if *of == context => Some(*ended),
            _ => None,
        })
    }

    pub fn heard(&self, wanted: &Event) -> usize {
        self.heard.iter().filter(|(_, event)| event == wanted).count()
    }

    fn tail(&self) -> &[(Context, Event)] {
        &self.heard[self.heard.len().saturating_sub(8)..]
    }
}
