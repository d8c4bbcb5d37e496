//! Two ends that call each other beside their connection (service 3 of XTP), and someone who can put packets on the wire
//! between them.
//!
//! Whatever he sends, a request that is handed over is one that was made, and is handed over once; an answer is that to its
//! own call. And as long as he does not know a right check, or only says again what was said, each call ends.
use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stack_frames::{PORT, SIDES};
use crate::Choices;
use crate::wire::{Frame, Mailbox, pair};
use fusewire_device::Ecn;
use fusewire_stack::{CallId, Clock, Config, ConnectionId, Event, Stack};
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::machine::Secrets;
use fusewire_wire::xtp;

const STEPS_MAX: usize = 200;
const CALLS_MAX: u32 = 24;
const REQUEST_MAX: usize = 4000;
/// Frames that somebody has seen and may say again.
const SEEN_MAX: usize = 64;
/// Nanoseconds within which a call is answered or given up.
const PATIENCE: u64 = 200_000_000_000;

fn addrs() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()]
}

struct Side {
    stack: Stack,
    id: Option<ConnectionId>,
    /// Calls without an answer yet, the oldest first.
    waiting: VecDeque<(CallId, Vec<u8>)>,
    made: HashSet<Vec<u8>>,
    heard: HashSet<Vec<u8>>,
    closed: bool,
}

struct World {
    sides: [Side; 2],
    mail: [Mailbox; 2],
    now: Arc<AtomicU64>,
    seen: VecDeque<(usize, Frame)>,
    calls: u32,
    /// Nobody has spoken in an end's name, but what that end has said before.
    is_honest: bool,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mut world = World::new();
    world.connect();
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        world.step(&mut choices);
    }
    world.settle();
}

/// Honest calls of every length, both ways, and what each kind of meddling does to them.
pub fn seeds() -> Vec<Vec<u8>> {
    let calls =
        [[0x00, 0, 9], [0x80, 4, 0], [0x00, 15, 0], [0x08, 0, 0], [0x01, 0, 0], [0x81, 0, 0]];
    let calls = calls.concat();
    let meddle = |step: u8| [step, 0, 0, 40, 3, 0x55, step | 0x80, 1, 0, 9, 2, 0x01, 0x02, 0, 200];
    (2..8)
        .map(|step| [&calls, &meddle(step)[..], &calls, &meddle(step)[..], &calls].concat())
        .collect()
}

fn request(number: u32, len: usize) -> Vec<u8> {
    let mut request = number.to_be_bytes().to_vec();
    request.resize(len.max(4), number as u8);
    request
}

/// `None`: it is refused.
fn answer_to(request: &[u8]) -> Option<Vec<u8>> {
    let number = request[3];
    let len = [1, 700, 1400, 5000, 60_000][usize::from(number) % 5];
    (number % 8 != 7).then(|| (0..len).map(|i| (i as u8) ^ number).collect())
}

impl World {
    fn new() -> World {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let config = Config {
            transport: either::Config::of_records(Protocol::Xtp),
            datagram_bytes: Some(1452),
            send_ring_bytes: 64 << 10,
            max_connections: 8,
            backlog: 8,
            clock: Clock::virtual_ns(now.clone()),
            ..Config::default()
        };
        let (devices, mail) = pair("wired", addrs(), 1452).expect("two devices");
        let mut seed = 0;
        let mut sides = devices.map(|device| {
            seed += 1;
            Side {
                stack: Stack::new(Box::new(device), config.clone(), &[seed; 32]),
                id: None,
                waiting: VecDeque::new(),
                made: HashSet::new(),
                heard: HashSet::new(),
                closed: false,
            }
        });
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        sides[1].stack.listen(PORT, SIDES.1.clone(), &secrets);
        let id = sides[0].stack.connect(addrs()[1], PORT, &SIDES.0).expect("a connection");
        sides[0].id = Some(id);
        World { sides, mail, now, seen: VecDeque::new(), calls: 0, is_honest: true }
    }

    fn connect(&mut self) {
        for _ in 0..50 {
            self.poll(0);
            self.poll(1);
            if self.sides.iter().all(|s| s.id.is_some_and(|id| s.stack.session(id).is_some())) {
                return;
            }
        }
        panic!("two honest stacks do not come together");
    }

    /// A step for one of the two: `0x80` says which.
    fn step(&mut self, choices: &mut Choices<'_>) {
        let step = choices.u8();
        let who = usize::from(step >> 7);
        match step % 8 {
            0 if step & 8 != 0 => self.cancel(who),
            0 => self.call(who, usize::from(choices.u16()) % REQUEST_MAX),
            1 => self.poll(who),
            2 => self.pass(u64::from(choices.u16()) << 16),
            3 => self.corrupted(who, choices),
            4 => self.forged(who, choices),
            5 => self.spoofed(who, choices),
            6 => self.again(choices),
            _ => self.lost(who, choices),
        }
    }

    fn call(&mut self, who: usize, len: usize) {
        let side = &mut self.sides[who];
        let Some(id) = side.id.filter(|_| self.calls < CALLS_MAX) else { return };
        let request = request(self.calls, len);
        if let Ok(Some(call)) = side.stack.begin_call(id, &request[..]) {
            self.calls += 1;
            side.made.insert(request.clone());
            side.waiting.push_back((call, request));
        }
        self.note();
    }

    fn cancel(&mut self, who: usize) {
        let side = &mut self.sides[who];
        if let Some(id) = side.id
            && let Some((call, _)) = side.waiting.pop_front()
        {
            side.stack.cancel_call(id, call);
        }
    }

    fn poll(&mut self, who: usize) {
        let [first, second] = &mut self.sides;
        let (side, made) = if who == 0 { (first, &second.made) } else { (second, &first.made) };
        side.stack.poll(&mut fusewire_stack::Keep).expect("the device is well");
        while let Some((id, event)) = side.stack.poll_event() {
            match event {
                Event::Connected { .. } => side.id = Some(id),
                Event::Closed(_) if side.id == Some(id) => side.closed = true,
                _ => {}
            }
        }
        let Some(id) = side.id else { return };
        while let Some((asked, request)) = side.stack.next_call(id) {
            assert!(made.contains(&request), "a request that was never made");
            assert!(side.heard.insert(request.clone()), "handed over twice");
            match answer_to(&request) {
                Some(answer) => side.stack.answer_call(id, asked, &answer[..]).expect("it fits"),
                None => side.stack.refuse_call(asked),
            }
        }
        while let Some((call, answer)) = side.stack.take_answer(id, None) {
            let at = side.waiting.iter().position(|(waits, _)| *waits == call);
            let request = at.and_then(|at| side.waiting.remove(at)).expect("a call that waits").1;
            if let Ok(answer) = answer {
                assert!(Some(answer) == answer_to(&request), "another's answer");
            }
        }
        self.note();
    }

    /// What is under way is seen.
    fn note(&mut self) {
        for (to, mail) in self.mail.iter().enumerate() {
            let Some(frame) = mail.frames().back().cloned() else { continue };
            if self.seen.len() == SEEN_MAX {
                self.seen.pop_front();
            }
            self.seen.push_back((to, frame));
        }
    }

    fn pick(&self, to: usize, choices: &mut Choices<'_>) -> Option<(usize, Frame)> {
        let frames = self.mail[to].frames();
        let at = usize::from(choices.u8()) % frames.len().max(1);
        Some((at, frames.get(at)?.clone()))
    }

    /// A copy of a packet that is under way, changed, with its old check.
    fn corrupted(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        let Some(place) = usize::from(choices.u16()).checked_rem(frame.bytes.len()) else { return };
        frame.bytes[place] ^= 1 << (choices.u8() & 7);
        // By luck it is right; or the check does not cover it, and the tag does.
        self.is_honest &= !xtp::verifies(&frame.bytes);
        self.mail[to].frames().insert(at, frame);
    }

    /// A packet of his own in the peer's name, made of one that is under way or was.
    fn forged(&mut self, to: usize, choices: &mut Choices<'_>) {
        let picked = self.pick(to, choices);
        let Some(mut frame) = picked.map(|p| p.1).or_else(|| self.seen.back().map(|s| s.1.clone()))
        else {
            return;
        };
        for _ in 0..=choices.u8() % 4 {
            let place = usize::from(choices.u16()) % 120;
            if let Some(byte) = frame.bytes.get_mut(place) {
                *byte = choices.u8();
            }
        }
        seal(&mut frame.bytes);
        self.is_honest = false;
        self.mail[to].frames().push_front(Frame { from: addrs()[1 - to], ..frame });
    }

    /// A packet that is right, from another address; or any bytes.
    fn spoofed(&mut self, to: usize, choices: &mut Choices<'_>) {
        let from = ([203, 0, 113, choices.u8() & 3], 9).into();
        let frame = match self.pick(to, choices) {
            Some((_, frame)) => Frame { from, ..frame },
            None => {
                let len = usize::from(choices.u8());
                let mut bytes = choices.bytes(len).to_vec();
                seal(&mut bytes);
                Frame { from, ecn: Ecn::NotEct, bytes }
            }
        };
        self.mail[to].frames().push_back(frame);
    }

    /// What was seen comes again, as it was or under another key.
    fn again(&mut self, choices: &mut Choices<'_>) {
        let (at, key) = (usize::from(choices.u8()), choices.u8());
        let Some((to, mut frame)) = self.seen.get(at % self.seen.len().max(1)).cloned() else {
            return;
        };
        if key & 0x80 != 0 && !frame.bytes.is_empty() {
            frame.bytes[0] ^= key & 0x7f;
            seal(&mut frame.bytes);
            self.is_honest = false;
        }
        self.mail[to].frames().push_back(frame);
    }

    /// A packet is lost, or the next.
    fn lost(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, frame)) = self.pick(to, choices) else { return };
        let mut frames = self.mail[to].frames();
        frames.remove(at);
        if choices.u8() & 1 == 0 {
            frames.push_back(frame);
        }
    }

    /// Time passes up to the next timer, but no more than `most` nanoseconds.
    fn pass(&mut self, most: u64) {
        let next = self.sides.iter().filter_map(|side| side.stack.next_timeout()).min();
        let next = next.map_or(1_000_000, |next| next.as_nanos() as u64);
        self.now.fetch_add(next.min(most).max(1000), Ordering::Relaxed);
    }

    /// Until every call has its answer, or is given up.
    fn settle(&mut self) {
        let end = self.now.load(Ordering::Relaxed) + PATIENCE;
        loop {
            self.poll(0);
            self.poll(1);
            let idle = self.mail.iter().all(|mail| mail.frames().is_empty());
            if idle && self.sides.iter().all(|side| side.waiting.is_empty()) {
                break;
            }
            let now = self.now.load(Ordering::Relaxed);
            if !self.is_honest && (now >= end || idle) {
                break;
            }
            assert!(now < end, "a call does not end");
            if idle {
                self.pass(PATIENCE);
            }
        }
        let ended = self.sides.iter().any(|side| side.closed);
        assert!(!self.is_honest || !ended, "what proves nothing has ended a connection");
        assert!(self.sides.iter().all(|side| side.stack.connections() <= 8));
    }
}

/// Makes the check right.
fn seal(bytes: &mut [u8]) {
    if bytes.len() >= xtp::HEADER_LEN {
        xtp::seal(bytes);
    }
}
