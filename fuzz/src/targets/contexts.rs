//! Two ends of contexts, and someone who can put packets on the wire between them: from the device to what the application
//! hears.
//!
//! Whatever he sends without a check that is right, or from another address, the messages arrive as they were sent. With a
//! check that is right and the peer's address he is the peer: then nothing is promised but that all goes on, within bounds.
use std::collections::HashSet;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Choices;
use crate::wire::{Frame, Mailbox, pair};
use fusewire_stack::Clock;
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Event, Facts, Kept, Placement,
    Retransmission, Scatter,
};
use fusewire_transport::machine::Secrets;
use fusewire_wire::xtp;

const SERVICE: u16 = 7;
const MESSAGES_MAX: usize = 40;
const STEPS_MAX: usize = 200;
/// Nanoseconds within which an honest end has delivered everything.
const PATIENCE: u64 = 100_000_000_000;
const CONTEXTS_MAX: usize = 6;
/// Of the stream, that somebody places.
const PLACED: usize = 4096;

fn addrs() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()]
}

/// The first bytes go here, in two pieces; the others to the context's buffer.
struct Placed(Vec<u8>);

impl Placement for Placed {
    fn place<'a>(&'a mut self, _: Context, facts: &Facts, into: &mut Scatter<'a>) {
        let at = facts.offset as usize;
        if let Some(memory) = self.0.get_mut(at..at.saturating_add(facts.len)) {
            let (first, second) = memory.split_at_mut(facts.len / 2);
            into.push(first);
            into.push(second);
        }
    }
}

struct World {
    ends: [Contexts; 2],
    mail: [Mailbox; 2],
    now: Arc<AtomicU64>,
    context: Context,
    placed: Option<Placed>,
    sent: Vec<Vec<u8>>,
    heard: usize,
    /// Packets that were changed once: either check finds one bit, and not always two.
    changed: HashSet<Vec<u8>>,
    /// Nobody has spoken in the first end's name.
    is_honest: bool,
    tags: bool,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut world = World::new(&mut choices);
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        world.step(&mut choices);
    }
    world.settle();
}

/// Honest messages, by each mechanism, and what each kind of meddling does to them.
pub fn seeds() -> Vec<Vec<u8>> {
    let sends = [[0, 4, 0], [0, 0, 9], [2, 0, 0], [0, 12, 7], [1, 0, 0]].concat();
    (0..=255u8)
        .step_by(17)
        .map(|block| {
            let meddle: Vec<u8> = (3..8).flat_map(|step| [step, 0, 1, 0, 40, 3, 0x55, 2]).collect();
            [&[block, block ^ 0x5a][..], &sends, &meddle, &sends, &meddle, &sends].concat()
        })
        .collect()
}

fn message(n: usize, len: usize) -> Vec<u8> {
    (0..len.max(1)).map(|i| (i as u8).wrapping_mul(7) ^ n as u8).collect()
}

impl World {
    fn new(choices: &mut Choices<'_>) -> World {
        let bits = choices.u16();
        let is = |n: u16| bits >> n & 1 == 1;
        let block = ControlBlock {
            check: if is(0) { Check::Cxor } else { Check::Internet },
            tags: is(1),
            sort: is(2).then_some(9),
            edge: is(4),
            retransmission: if is(5) { Retransmission::GoBackN } else { Retransmission::default() },
            fastnak: !is(6),
            send_bytes: if is(7) { 20_000 } else { 1 << 20 },
            receive_bytes: if is(8) { 20_000 } else { 1 << 20 },
            packet_bytes: Some(if is(9) { 600 } else { 1400 }),
            ..ControlBlock::default()
        };
        let now = Arc::new(AtomicU64::new(1_000_000));
        let config = Config {
            max_contexts: CONTEXTS_MAX,
            backlog: 4,
            clock: Clock::virtual_ns(now.clone()),
            ..Config::default()
        };
        let (devices, mail) = pair("wired", addrs(), 1452).expect("two devices");
        let mut seed = 0;
        let mut ends = devices.map(|device| {
            seed += 1;
            Contexts::new(Box::new(device), config.clone(), &[seed; 32])
        });
        ends[1].listen(SERVICE, block.clone(), &Secrets { isn: [3; 16], cookie: [4; 16] });
        let tags = block.tags;
        let context = ends[0].context(block).expect("a context");
        ends[0].connect(context, addrs()[1], SERVICE).expect("it opens");
        let placed = is(10).then(|| Placed(vec![0; PLACED]));
        let (sent, heard, changed) = (Vec::new(), 0, HashSet::new());
        World { ends, mail, now, context, placed, sent, heard, changed, is_honest: true, tags }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.u8() % 8 {
            0 => self.send(usize::from(choices.u16()) % 9000),
            1 => self.poll(1),
            2 => self.poll(0),
            3 => self.pass(u64::from(choices.u16()) << 14),
            4 => self.corrupted(choices),
            5 => self.forged(choices),
            6 => self.spoofed(choices),
            _ => self.lost(choices),
        }
    }

    fn send(&mut self, len: usize) {
        let message = message(self.sent.len(), len);
        let about = About { tag: self.tags.then_some(self.sent.len() as u64), sort: None };
        let pieces = message.chunks(701).map(IoSlice::new).collect::<Vec<_>>();
        if self.sent.len() < MESSAGES_MAX
            && matches!(self.ends[0].send(self.context, &pieces, about), Ok(true))
        {
            self.sent.push(message);
        }
        self.ends[0].flush();
    }

    fn poll(&mut self, who: usize) {
        let app: &mut dyn Placement = match &mut self.placed {
            Some(placed) if who == 1 => placed,
            _ => &mut Kept,
        };
        self.ends[who].poll(app).expect("the device is well");
        while let Some((context, event)) = self.ends[who].poll_event() {
            if let Event::Message(told) = event {
                if self.is_honest {
                    self.hear(context, &told);
                }
                self.ends[who].release(context, &told);
            }
        }
        assert!(self.ends[who].count() <= CONTEXTS_MAX);
    }

    fn hear(&mut self, context: Context, told: &fusewire_stack::context::Message) {
        assert!(told.is_whole);
        assert_eq!(told.tag, self.tags.then_some(self.heard as u64));
        let expected = &self.sent[self.heard];
        let (from, to) = (told.range.start as usize, told.range.end as usize);
        assert_eq!(told.len(), expected.len());
        let pieces = self.ends[1].message(context, told);
        match &self.placed {
            Some(Placed(memory)) if to <= memory.len() => {
                assert_eq!(memory[from..to], expected[..]);
            }
            // Where a message lies partly here and partly there is the placement's own affair.
            Some(Placed(memory)) if from < memory.len() => {}
            _ => assert!(pieces.concat() == *expected, "a message that was never sent"),
        }
        self.heard += 1;
    }

    fn pick(&self, to: usize, choices: &mut Choices<'_>) -> Option<(usize, Frame)> {
        let frames = self.mail[to].frames();
        let at = usize::from(choices.u8()) % frames.len().max(1);
        Some((at, frames.get(at)?.clone()))
    }

    /// A copy of a packet that is under way, changed, with its old check.
    fn corrupted(&mut self, choices: &mut Choices<'_>) {
        let to = usize::from(choices.u8() & 1);
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        let Some(place) = usize::from(choices.u16()).checked_rem(frame.bytes.len()) else { return };
        let bit = choices.u8() & 7;
        if self.changed.contains(&frame.bytes) {
            return;
        }
        // One bit alone is found by either check, but what says which check there is.
        frame.bytes[place] ^= 1 << bit;
        self.changed.insert(frame.bytes.clone());
        self.mail[to].frames().insert(at, frame);
    }

    /// A packet of his own, in the peer's name.
    fn forged(&mut self, choices: &mut Choices<'_>) {
        let to = usize::from(choices.u8() & 1);
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        for _ in 0..=choices.u8() % 4 {
            let place = 8 + usize::from(choices.u16()) % 80;
            if let Some(byte) = frame.bytes.get_mut(place) {
                *byte = choices.u8();
            }
        }
        xtp::seal(&mut frame.bytes);
        self.is_honest = false;
        self.mail[to].frames().insert(at, frame);
    }

    /// A packet that is right, or not, from another address.
    fn spoofed(&mut self, choices: &mut Choices<'_>) {
        let to = usize::from(choices.u8() & 1);
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        frame.from = ([203, 0, 113, choices.u8() & 3], 9).into();
        if to == 1 && frame.bytes.get(11).is_some_and(|cmd| cmd & 31 == 2) {
            // He opens a context of his own.
            self.is_honest = false;
        }
        self.mail[to].frames().insert(at, frame);
    }

    /// A packet is lost, or comes twice.
    fn lost(&mut self, choices: &mut Choices<'_>) {
        let to = usize::from(choices.u8() & 1);
        let Some((at, frame)) = self.pick(to, choices) else { return };
        let mut frames = self.mail[to].frames();
        if choices.u8() & 1 == 0 {
            frames.remove(at);
        } else {
            frames.push_back(frame);
        }
    }

    /// Time passes up to the next timer, but no more than `most` nanoseconds.
    fn pass(&mut self, most: u64) {
        let next = self.ends.iter().filter_map(Contexts::next_timeout).min();
        let next = next.map_or(1_000_000, |next| next.as_nanos() as u64);
        self.now.fetch_add(next.min(most).max(1000), Ordering::Relaxed);
    }

    /// Until everything that was sent has arrived.
    fn settle(&mut self) {
        let end = self.now.load(Ordering::Relaxed) + PATIENCE;
        while self.now.load(Ordering::Relaxed) < end {
            self.poll(0);
            self.poll(1);
            if !self.is_honest || self.heard == self.sent.len() {
                return;
            }
            if self.mail.iter().all(|mail| mail.frames().is_empty()) {
                self.pass(PATIENCE);
            }
        }
        panic!("{} of {} messages arrive", self.heard, self.sent.len());
    }
}
