//! Services 1 to 3: requests and a responder's table on simulated links.

mod rules;
mod tests;

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use fusewire_base::Instant;
use fusewire_testkit::{Content, Impairments, Link, Random};
use fusewire_transport::machine::{Header as _, Initial, Secrets, Verdict};
use fusewire_transport::xtp::single::{
    Bounds, Event, Id, Incoming, Message, Outcome, Patience, Request, Responder,
};
use fusewire_transport::xtp::{Config, Ends, Header, SPANS, Transmit};
use fusewire_wire::xtp::{self, Body, Key, Service};

use crate::frame::Frame;
use crate::two_ends::Frame as _;

pub const PORT: u16 = 7;

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Plan {
    pub config: Config,
    pub bounds: Bounds,
    pub links: [Impairments; 2],
    /// How long the application takes, at most.
    pub work: Duration,
    /// How long requests wait for their answers.
    pub patience: Patience,
    /// Addresses are known.
    pub proven: bool,
    /// Bytes of answers, at most.
    pub answer_max: u64,
    /// One of so many requests is not answered.
    pub refuses: Option<u64>,
}

impl Default for Plan {
    fn default() -> Self {
        let link = Impairments { delay: Duration::from_millis(10), ..Impairments::default() };
        Plan {
            config: Config { nocheck: true, ..Config::default() },
            bounds: Bounds::default(),
            links: [link.clone(), link],
            work: Duration::ZERO,
            patience: Patience::UNKNOWN,
            proven: true,
            answer_max: 1000,
            refuses: None,
        }
    }
}

/// One request, as its caller sees it.
pub struct Asked {
    pub request: Request,
    number: u64,
    len: u32,
    answer: Vec<u8>,
    pub outcome: Option<Outcome>,
}

/// One that the responder's application has.
struct Served {
    number: Option<u64>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

pub struct World {
    pub now: Instant,
    pub links: [Link<Frame>; 2],
    pub asked: Vec<Asked>,
    pub responder: Responder,
    pub plan: Plan,
    served: HashMap<Id, Served>,
    due: Vec<(Instant, Id)>,
    /// Numbers that this responder has handed over.
    pub handed: HashSet<u64>,
    pub datagrams: Vec<u64>,
    random: Random,
    seed: u64,
    /// Packets that left, up and down.
    pub packets: [u64; 2],
    /// Bytes that came to the responder and left it, until somebody showed it a key.
    bytes: [usize; 2],
    shown: bool,
    pub recorded: Vec<Vec<u8>>,
    steps: u64,
}

pub fn ends(h: &Header, from: [u8; 4]) -> Ends {
    Ends { local: ([10, 0, 0, 1], 4433).into(), remote: (from, 5544).into(), flow: h.flow() }
}

const CLIENT: [u8; 4] = [10, 0, 0, 2];

impl World {
    pub fn new(plan: &Plan, random: &mut Random) -> World {
        let now = Instant::from_ms(random.below(1 << 33));
        World {
            now,
            links: [0, 1].map(|i| Link::new(plan.links[i].clone(), random.fork())),
            asked: Vec::new(),
            responder: responder(plan, now, random),
            plan: plan.clone(),
            served: HashMap::new(),
            due: Vec::new(),
            handed: HashSet::new(),
            datagrams: Vec::new(),
            random: random.fork(),
            seed: random.next_u64(),
            packets: [0; 2],
            bytes: [0; 2],
            shown: plan.proven,
            recorded: Vec::new(),
            steps: 0,
        }
    }

    /// All contexts are gone.
    pub fn restart(&mut self) {
        self.responder = responder(&self.plan, self.now, &mut self.random);
        (self.served, self.due, self.handed) = Default::default();
    }

    fn content(&self, number: u64) -> Content {
        Content::new(self.seed ^ number)
    }

    /// Bytes of the answer to a request, which its number says.
    fn answer_len(&self, number: u64) -> usize {
        let mut random = Random::new(self.seed ^ number ^ 0x55);
        random.below(self.plan.answer_max + 1) as usize
    }

    pub fn ask(&mut self, service: Service, len: u32) {
        let number = self.asked.len() as u64;
        let proves_itself = self.random.chance(0.5);
        let message = Message { service, port: PORT, len, btag: Some(number), proves_itself };
        let key = Key::new(self.random.next_u64()).unwrap();
        let request =
            Request::new(self.plan.config.clone(), message, key, self.plan.patience, self.now)
                .unwrap();
        self.asked.push(Asked { request, number, len, answer: Vec::new(), outcome: None });
    }

    pub fn run(&mut self, each: impl FnMut(&mut World)) {
        self.run_until(each, |world| world.asked.iter().all(|asked| asked.outcome.is_some()));
    }

    pub fn run_until(&mut self, mut each: impl FnMut(&mut World), done: impl Fn(&World) -> bool) {
        self.settle();
        while !done(self) {
            let next = self.next_event().expect("nothing will happen");
            self.step_to(next);
            each(self);
            self.settle();
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        while let Some(next) = self.next_event().filter(|at| *at <= end) {
            self.step_to(next);
            self.settle();
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<Instant> {
        let links = self.links.iter().filter_map(Link::next_arrival);
        let requests = self.asked.iter().filter_map(|asked| asked.request.poll_timeout());
        let others = self.due.iter().map(|due| due.0).chain(self.responder.poll_timeout());
        links.chain(requests).chain(others).min().map(|at| at.max(self.now))
    }

    fn step_to(&mut self, next: Instant) {
        self.now = next;
        self.steps += 1;
        assert!(self.steps < 1_000_000, "goes on and on");
        while let Some(frame) = self.links[0].poll(next) {
            self.arrive_at_responder(&frame, CLIENT);
        }
        while let Some(frame) = self.links[1].poll(next) {
            self.arrive_at_caller(&frame);
        }
        for asked in &mut self.asked {
            asked.request.handle_timeout(next);
        }
        self.responder.handle_timeout(next);
    }

    fn settle(&mut self) {
        let now = self.now;
        for index in 0..self.asked.len() {
            let content = self.content(self.asked[index].number);
            while let Some(transmit) = self.asked[index].request.poll_transmit(now) {
                let frame = Frame::of(&transmit, &content, true);
                self.leave(0, frame);
            }
            let asked = &mut self.asked[index];
            asked.request.assert_invariants();
            if let Some(outcome) = asked.request.poll_event() {
                assert_eq!(asked.outcome.replace(outcome), None, "told twice");
                self.check(index, outcome);
            }
        }
        while let Some((id, event)) = self.responder.poll_event() {
            self.take_event(id, event);
        }
        let due: Vec<_> = self.due.extract_if(.., |due| due.0 <= now).collect();
        for (_, id) in due {
            self.answer(id);
        }
        while let Some((id, _, transmit)) = self.responder.poll_transmit(now) {
            let frame = self.frame_of(id, &transmit);
            self.leave(1, frame);
        }
        self.responder.assert_invariants();
    }

    fn frame_of(&self, id: Id, transmit: &Transmit) -> Frame {
        let range = transmit.payload.clone().unwrap_or(0..0);
        let data = match self.served.get(&id) {
            Some(served) => &served.answer[range.start as usize..range.end as usize],
            None => &[][range.start as usize..range.end as usize],
        };
        Frame::forged(&transmit.header, data)
    }

    fn leave(&mut self, way: usize, frame: Frame) {
        if std::env::var_os("FUSEWIRE_TRACE").is_some() {
            eprintln!("{} {} {frame}", self.now, ["up", "down"][way]);
        }
        self.packets[way] += 1;
        if way == 1 {
            self.bytes[1] += frame.bytes.len();
            let bounded = self.shown || self.bytes[1] <= self.bytes[0];
            assert!(bounded, "{:?} bytes to who has proven nothing", self.bytes);
        }
        self.recorded.push(frame.bytes.clone());
        self.links[way].send(self.now, frame);
    }

    /// What a caller was told is true.
    fn check(&self, index: usize, outcome: Outcome) {
        let asked = &self.asked[index];
        match outcome {
            Outcome::Answered { len } => {
                assert_eq!(len as usize, self.answer_len(asked.number));
                let right = self.content(!asked.number).matches(0, &asked.answer[..len as usize]);
                assert!(right, "the answer to another request");
            }
            Outcome::Delivered => assert!(self.handed.contains(&asked.number)),
            _ => {}
        }
    }

    fn take_event(&mut self, id: Id, event: Event) {
        let Event::Arrived(arrived) = event else {
            self.served.remove(&id);
            return;
        };
        let number = arrived.btag.expect("each has a number");
        assert!(self.handed.insert(number), "{number} handed over twice");
        let served = self.served.get_mut(&id).expect("its bytes came");
        served.number = Some(number);
        served.request.truncate(arrived.len as usize);
        assert_eq!(served.request.len(), self.asked[number as usize].len as usize);
        let request = std::mem::take(&mut served.request);
        assert!(self.content(number).matches(0, &request), "another request");
        if arrived.service == Service::AcknowledgedDatagram {
            return self.responder.delivered(self.now, id);
        }
        let work = self.random.duration_below(self.plan.work + Duration::from_nanos(1));
        self.due.push((self.now + work, id));
    }

    fn answer(&mut self, id: Id) {
        let Some(number) = self.served.get(&id).and_then(|served| served.number) else { return };
        if self.plan.refuses.is_some_and(|one_of| number % one_of == 0) {
            return self.responder.refuse(self.now, id);
        }
        let mut answer = vec![0; self.answer_len(number)];
        self.content(!number).fill(0, &mut answer);
        self.served.get_mut(&id).expect("looked up").answer = answer;
        let len = self.answer_len(number) as u32;
        let proves_itself = self.asked[number as usize].request.message().proves_itself;
        self.responder.answer(self.now, id, len, proves_itself);
    }

    fn arrive_at_caller(&mut self, frame: &Frame) {
        let Some((h, data)) = frame.parse() else { return frame.assert_changed() };
        let name = h.flow();
        let found = self.asked.iter_mut().find(|asked| {
            let over = asked.request.is_over();
            !over && (asked.request.name() == name || asked.request.also() == Some(name))
        });
        let Some(asked) = found else {
            let diag = frame.verifies().then(|| h.refusal(data.len() as u32)).flatten();
            if let Some(diag) = diag {
                self.leave(0, Frame::forged(&diag, &[]));
            }
            return;
        };
        let initial = asked.request.handle_initial(self.now, &h, data.len() as u32);
        let verdict = store(&initial, frame, data, &mut asked.answer);
        if !matches!(initial, Initial::Drop(_)) {
            asked.request.handle_final(self.now, &h, &initial, verdict);
        }
    }

    pub fn arrive_at_responder(&mut self, frame: &Frame, from: [u8; 4]) {
        let Some((h, data)) = frame.parse() else { return frame.assert_changed() };
        let ends = ends(&h, from);
        if frame.verifies() {
            self.bytes[0] += frame.bytes.len();
            self.shown |= h.returned;
        }
        let len = data.len() as u32;
        if !self.responder.knows(ends.remote, &h) {
            let diag = frame.verifies().then(|| h.refusal(len)).flatten();
            if let Some(diag) = diag {
                self.leave(1, Frame::forged(&diag, &[]));
            }
            return;
        }
        let proven = self.plan.proven;
        match self.responder.handle_initial(self.now, &ends, proven, &h, len) {
            Incoming::Drop(_) => {}
            Incoming::Reply(reply) if frame.verifies() => self.leave(1, Frame::forged(&reply, &[])),
            Incoming::Datagram(_) if frame.verifies() => {
                let Body::First(first) = h.body else { unreachable!() };
                self.datagrams.push(first.btag.unwrap());
                assert!(self.content(first.btag.unwrap()).matches(0, data));
            }
            Incoming::Reply(_) | Incoming::Datagram(_) => {}
            Incoming::Take(initial) => {
                let mut piece = Vec::new();
                let verdict = store(&initial, frame, data, &mut piece);
                let told = (&initial, len);
                let id = self.responder.handle_final(self.now, &ends, proven, &h, told, verdict);
                if let (Some(id), Initial::Payload(plan)) = (id, initial)
                    && plan.len > 0
                {
                    let empty = || Served { number: None, request: vec![], answer: vec![] };
                    let served = self.served.entry(id).or_insert_with(empty);
                    let (from, to) = (plan.offset as usize, piece.len());
                    served.request.resize(served.request.len().max(to), 0);
                    served.request[from..to].copy_from_slice(&piece[from..]);
                } else if let Some(id) = id {
                    let empty = || Served { number: None, request: vec![], answer: vec![] };
                    self.served.entry(id).or_insert_with(empty);
                }
            }
        }
    }
}

fn responder(plan: &Plan, now: Instant, random: &mut Random) -> Responder {
    let mut keys = [[0; 16]; 2];
    keys.iter_mut().for_each(|key| random.fill(key));
    let secrets = Secrets { isn: keys[0], cookie: keys[1] };
    Responder::new(&plan.config, plan.bounds, &secrets, now)
}

/// The integrated step.
fn store(initial: &Initial, frame: &Frame, data: &[u8], to: &mut Vec<u8>) -> Verdict {
    use fusewire_transport::machine::DropCause;
    if !frame.verifies() {
        return Verdict::Reject(DropCause::Checksum);
    }
    let Initial::Payload(plan) = initial else { return Verdict::Control };
    if plan.len == 0 {
        return Verdict::Control;
    }
    let end = plan.offset as usize + plan.len as usize;
    to.resize(to.len().max(end), 0);
    let from = plan.trim_front as usize;
    to[plan.offset as usize..end].copy_from_slice(&data[from..from + plan.len as usize]);
    Verdict::Accept { len: plan.len }
}

/// The bytes of a packet, parsed.
pub fn parse(bytes: &[u8]) -> Header {
    xtp::Packet::parse(bytes).unwrap().header.keep::<SPANS>()
}
