//! A sender, receivers, a link to and from each of them, and virtual time.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use fusewire_base::Instant;
use fusewire_testkit::{Content, Impairments, Link, Random};
use fusewire_transport::machine::{DropCause, Initial, Verdict};
use fusewire_transport::xtp::Transmit;
use fusewire_transport::xtp::group::{
    Leaving, Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent, To,
};
use fusewire_wire::xtp::{Body, Control, Key, Options, Span, SpanList};

use crate::frame::Frame;
use crate::two_ends::Frame as _;

/// What one receiver does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub config: ReceiverConfig,
    /// Sender to receiver, and back.
    pub links: [Impairments; 2],
    /// After so long it joins.
    pub joins_after: Duration,
    /// It leaves after so many messages.
    pub leaves_after: Option<usize>,
    /// It is not there any more after so long.
    pub killed_after: Option<Duration>,
    /// It does nothing from then on for so long.
    pub frozen: Option<(Duration, Duration)>,
    /// Bytes a second that its application takes; `None`: all.
    pub takes: Option<u64>,
    /// The sender does not let it in.
    pub denied: bool,
    /// What it says is not true.
    pub lies: Option<Lie>,
    /// The last packet with data never comes.
    pub misses_end: bool,
}

/// What somebody says who is a member and wants to harm the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It has everything, what was never sent to it, too.
    HasAll,
    /// It has nothing but the last byte.
    HasNothing,
    /// Every other time it is another member, and has everything.
    IsAnother,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            config: ReceiverConfig { recv_window: 1 << 20, ..ReceiverConfig::default() },
            links: [Impairments::default(), Impairments::default()],
            joins_after: Duration::ZERO,
            leaves_after: None,
            killed_after: None,
            frozen: None,
            takes: None,
            denied: false,
            lies: None,
            misses_end: false,
        }
    }
}

/// What a run is made from.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub sender: SenderConfig,
    pub plans: Vec<Plan>,
    /// Lengths of messages, and how many bytes of them all in all.
    pub message: Range<u64>,
    pub total: u64,
    /// The sender begins when so many have joined, or that time has passed.
    pub waits_for: usize,
    pub waits: Duration,
    pub limit: Duration,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            sender: SenderConfig { send_buffer: 1 << 20, ..SenderConfig::default() },
            plans: vec![Plan::default(); 2],
            message: 1..20_000,
            total: 500_000,
            waits_for: 2,
            waits: Duration::from_secs(5),
            limit: Duration::from_secs(3600),
        }
    }
}

/// A receiver, and what it was told.
pub struct Side {
    pub machine: Receiver,
    pub plan: Plan,
    pub addr: SocketAddr,
    pub key: Key,
    /// The sender's key for it, once it is a member.
    pub id: Option<Key>,
    pub begins_at: Option<u64>,
    /// When it was told so.
    pub joined_at: Option<Instant>,
    pub messages: Vec<Range<u64>>,
    pub lost: Vec<Range<u64>>,
    pub events: Vec<ReceiverEvent>,
    pub left: Option<(Leaving, Instant)>,
    pub is_done: bool,
    /// Controls that it has sent.
    pub controls: u64,
    /// Its latest sync.
    pub sync: u32,
    down: Link<Frame>,
    up: Link<Frame>,
    /// When a message was last taken, and what was told and not taken yet.
    taken_at: Instant,
    peeked: VecDeque<Range<u64>>,
    /// Where payload is written before its check is known.
    memory: Vec<u8>,
}

impl Side {
    fn write(&mut self, offset: u64, data: &[u8]) {
        let at = (offset % self.memory.len() as u64) as usize;
        let (behind, front) = data.split_at(data.len().min(self.memory.len() - at));
        self.memory[at..at + behind.len()].copy_from_slice(behind);
        self.memory[..front.len()].copy_from_slice(front);
    }

    /// The message lies there as it was sent.
    fn has_in_memory(&self, message: &Range<u64>, content: &Content) -> bool {
        let (len, size) = ((message.end - message.start) as usize, self.memory.len());
        let at = (message.start % size as u64) as usize;
        let behind = len.min(size - at);
        content.matches(message.start, &self.memory[at..at + behind])
            && content.matches(message.start + behind as u64, &self.memory[..len - behind])
    }

    fn pending(&mut self) -> Option<Range<u64>> {
        let next = || self.machine.poll_message().map(|message| message.range);
        self.peeked.pop_front().or_else(next)
    }
}

/// Everything.
pub struct World {
    pub now: Instant,
    pub start: Instant,
    pub sender: Sender,
    pub sides: Vec<Side>,
    pub sent: Vec<Range<u64>>,
    pub data_packets: u64,
    pub packets: Vec<Frame>,
    pub keeps_packets: bool,
    /// The sender's latest sync.
    pub sync: u32,
    pub joined: usize,
    /// Packets that went to who is nobody's.
    pub to_strangers: u64,
    pub ended: bool,
    /// The longest time without progress while there was something to send to somebody, and what there was then.
    pub stall: Duration,
    progress: (u64, u64, Instant),
    begun: bool,
    total: u64,
    scenario: Scenario,
    pub content: Content,
    random: Random,
    traced: bool,
    pub steps: u64,
}

pub const SENDER: ([u8; 4], u16) = ([10, 0, 0, 1], 9294);

impl World {
    pub fn new(scenario: &Scenario, random: &mut Random) -> World {
        let start = Instant::from_ms(random.below(1 << 33));
        let key = |random: &mut Random| Key::new(random.next_u64() | 1).expect("not zero");
        let sides = scenario.plans.iter().enumerate().map(|(n, plan)| Side {
            machine: Receiver::new(&plan.config, start),
            plan: plan.clone(),
            addr: ([10, 0, 0, 2 + n as u8], 4000).into(),
            key: key(random),
            id: None,
            begins_at: None,
            joined_at: None,
            messages: Vec::new(),
            lost: Vec::new(),
            events: Vec::new(),
            left: None,
            is_done: false,
            controls: 0,
            sync: 0,
            down: Link::new(plan.links[0].clone(), random.fork()),
            up: Link::new(plan.links[1].clone(), random.fork()),
            taken_at: start,
            peeked: VecDeque::new(),
            memory: vec![0; plan.config.recv_window as usize],
        });
        let sides = sides.collect();
        World {
            now: start,
            start,
            sender: Sender::new(&scenario.sender, key(random), start),
            sides,
            sent: Vec::new(),
            data_packets: 0,
            packets: Vec::new(),
            keeps_packets: false,
            sync: 0,
            joined: 0,
            to_strangers: 0,
            ended: false,
            stall: Duration::ZERO,
            progress: (0, 0, start),
            begun: false,
            total: 0,
            scenario: scenario.clone(),
            content: Content::new(random.next_u64()),
            random: random.fork(),
            traced: std::env::var_os("FUSEWIRE_TRACE").is_some(),
            steps: 0,
        }
    }

    /// Runs until the sender has ended, and all that it has kept know it.
    pub fn run(&mut self) {
        self.run_with(|_| {});
    }

    pub fn run_with(&mut self, mut each: impl FnMut(&mut World)) {
        let end = self.now + self.scenario.limit;
        self.settle();
        while !self.is_over() {
            let next = self.next_event();
            assert!(next <= end, "has not ended:\n{}", self.describe());
            each(self);
            self.step_to(next);
        }
    }

    fn is_over(&self) -> bool {
        let waits = |side: &Side| {
            !side.machine.is_over() && side.plan.killed_after.is_none() && side.begins_at.is_some()
        };
        self.ended && !self.sides.iter().any(waits)
    }

    fn is_out(&self, side: &Side) -> bool {
        let passed = self.now - self.start;
        let frozen = side.plan.frozen.is_some_and(|(at, len)| passed >= at && passed < at + len);
        frozen || side.plan.killed_after.is_some_and(|at| passed >= at)
    }

    fn next_event(&self) -> Instant {
        let mut next = self.sender.poll_timeout();
        let mut add = |at: Option<Instant>| {
            if let Some(at) = at {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        };
        for side in &self.sides {
            add(side.down.next_arrival());
            add(side.up.next_arrival());
            let passed = self.now - self.start;
            if let Some((at, len)) = side.plan.frozen {
                add((passed < at + len).then(|| self.start + at + len));
            }
            if side.begins_at.is_none() {
                add((passed < side.plan.joins_after).then(|| self.start + side.plan.joins_after));
            }
            if !self.is_out(side) {
                add(side.machine.poll_timeout());
                if side.plan.takes.is_some() && side.begins_at.is_some() && !side.machine.is_over()
                {
                    add(Some(self.now + Duration::from_millis(20)));
                }
            }
        }
        if !self.begun {
            add(Some(self.now + Duration::from_millis(100)));
        }
        next.expect("a sender announces").max(self.now)
    }

    fn step_to(&mut self, next: Instant) {
        self.now = next;
        self.steps += 1;
        assert!(self.steps < 4_000_000, "goes on and on:\n{}", self.describe());
        for n in 0..self.sides.len() {
            while let Some(frame) = self.sides[n].down.poll(next) {
                if !self.is_out(&self.sides[n]) {
                    self.arrive_at(n, &frame);
                }
            }
            while let Some(frame) = self.sides[n].up.poll(next) {
                let from = self.sides[n].addr;
                self.arrive_at_sender(from, &frame);
            }
        }
        self.settle();
    }

    pub fn arrive_at_sender(&mut self, from: SocketAddr, frame: &Frame) {
        let Some((header, _)) = frame.parse() else { return frame.assert_changed() };
        if frame.verifies() {
            self.sender.handle(self.now, from, &header);
            self.sender.assert_invariants();
        }
    }

    fn arrive_at(&mut self, n: usize, frame: &Frame) {
        self.arrive_at_from(n, SENDER.into(), frame);
    }

    pub fn arrive_at_from(&mut self, n: usize, from: SocketAddr, frame: &Frame) {
        let side = &mut self.sides[n];
        let Some((header, data)) = frame.parse() else { return frame.assert_changed() };
        let initial = side.machine.handle_initial(from, &header, data.len() as u32);
        if let Initial::Payload(plan) = &initial {
            let written = &data[plan.trim_front as usize..][..plan.len as usize];
            side.write(plan.offset, written);
        }
        let verdict = match &initial {
            Initial::Drop(_) => return,
            _ if !frame.verifies() => Verdict::Reject(DropCause::Checksum),
            Initial::Control => Verdict::Control,
            Initial::Payload(plan) if plan.len == 0 => Verdict::Control,
            Initial::Payload(plan) => {
                let taken = &data[plan.trim_front as usize..][..plan.len as usize];
                assert!(self.content.matches(plan.offset, taken), "other bytes than were sent");
                Verdict::Accept { len: plan.len }
            }
        };
        side.machine.handle_final(self.now, from, &header, &initial, verdict);
        side.machine.assert_invariants();
    }

    fn settle(&mut self) {
        self.act();
        let now = self.now;
        self.sender.handle_timeout(now);
        let mut count = 0;
        while let Some((to, transmit)) = self.sender.poll_transmit(now) {
            count += 1;
            assert!(count < 100_000, "does not stop sending:\n{}", self.describe());
            self.carry(to, &transmit);
            self.sender.assert_invariants();
        }
        self.sender.assert_waits();
        for n in 0..self.sides.len() {
            if self.is_out(&self.sides[n]) {
                continue;
            }
            self.sides[n].machine.handle_timeout(now);
            self.collect(n);
            while let Some(transmit) = self.sides[n].machine.poll_transmit(now) {
                let frame = self.lie(n, Frame::of(&transmit, &self.content, true));
                let side = &mut self.sides[n];
                if self.traced {
                    eprintln!("{now} {n} says {frame}");
                }
                if self.keeps_packets {
                    self.packets.push(frame.clone());
                }
                side.controls += 1;
                side.sync = transmit.header.sync;
                side.up.send(now, frame);
                side.machine.assert_invariants();
            }
        }
        self.hear();
        self.note_progress();
    }

    /// What a liar says instead.
    fn lie(&self, n: usize, frame: Frame) -> Frame {
        let Some(lie) = self.sides[n].plan.lies else { return frame };
        let Some((mut header, _)) = frame.parse() else { return frame };
        let sent = self.sender.sent();
        let (Body::Cntl(control) | Body::Ecntl(control, _)) = header.body else { return frame };
        let is_true = lie == Lie::IsAnother && self.sides[n].controls.is_multiple_of(2);
        if header.options.has(Options::RCLOSE) || sent == 0 || is_true {
            return frame;
        }
        let all = Control { rseq: sent, alloc: control.alloc.max(sent + (1 << 20)), ..control };
        header.body = match lie {
            Lie::HasAll | Lie::IsAnother => Body::Cntl(all),
            Lie::HasNothing => {
                let nothing = Control { rseq: self.sides[n].begins_at.unwrap_or(0), ..control };
                let mut spans = SpanList::new(nothing.rseq);
                spans.push(Span { left: sent - 1, right: sent });
                Body::Ecntl(nothing, spans)
            }
        };
        if let (Lie::IsAnother, Some(other)) = (lie, self.sides[n + 1].id) {
            header.key = other;
        }
        Frame::forged(&header, &[])
    }

    fn carry(&mut self, to: To, transmit: &Transmit) {
        let frame = Frame::of(transmit, &self.content, true);
        if self.traced {
            eprintln!("{} to {to:?} {frame}", self.now);
        }
        self.data_packets += u64::from(transmit.payload.is_some());
        if self.keeps_packets {
            self.packets.push(frame.clone());
        }
        if !matches!(transmit.header.body, Body::Diag(_)) {
            self.sync = transmit.header.sync;
        }
        let is_known = |addr| self.sides.iter().any(|side| To::One(side.addr) == addr);
        self.to_strangers += u64::from(to != To::Group && !is_known(to));
        let is_last = transmit.payload.is_some() && transmit.header.options.has(Options::WCLOSE);
        for side in &mut self.sides {
            if is_last && side.plan.misses_end {
                continue;
            }
            if to == To::Group || to == To::One(side.addr) {
                side.down.send(self.now, frame.clone());
            }
        }
    }

    /// The sender's application.
    fn act(&mut self) {
        let passed = self.now - self.start;
        self.begun |= self.joined >= self.scenario.waits_for || passed >= self.scenario.waits;
        if !self.begun {
            return;
        }
        let nobody = self.sender.is_reliable() && self.sender.members().next().is_none();
        if nobody && passed >= self.scenario.waits {
            // Nobody is there any more.
            return self.sender.finish();
        }
        while self.total < self.scenario.total {
            let len = self.random.range(self.scenario.message.clone());
            let len =
                len.min(self.sender.max_message().into()).min(self.scenario.total - self.total);
            let Some(reservation) = self.sender.reserve(len as u32) else { return };
            let start = reservation.offset();
            self.sender.commit(reservation);
            self.sent.push(start..start + len);
            self.total += len;
        }
        self.sender.finish();
    }

    /// What the sender tells.
    fn hear(&mut self) {
        while let Some(event) = self.sender.poll_event() {
            if self.traced {
                eprintln!("{} sender: {event:?}", self.now);
            }
            match event {
                SenderEvent::Asked { key, .. } => {
                    let Some(side) = self.sides.iter_mut().find(|s| s.key == key) else {
                        self.sender.deny(self.now, key);
                        continue;
                    };
                    if side.plan.denied {
                        self.sender.deny(self.now, key);
                        continue;
                    }
                    let id = Key::new(self.random.next_u64() | 1).expect("not zero");
                    if self.sender.accept(self.now, key, id).is_some() {
                        side.id = Some(id);
                    }
                }
                SenderEvent::Joined { .. } => self.joined += 1,
                SenderEvent::Left { id, why } => {
                    let side = self.sides.iter_mut().find(|s| s.id == Some(id)).expect("ours");
                    side.left = Some((why, self.now));
                }
                SenderEvent::Done { id } => {
                    let side = self.sides.iter_mut().find(|s| s.id == Some(id)).expect("ours");
                    side.is_done = true;
                }
                SenderEvent::Ended => self.ended = true,
                SenderEvent::Acked { .. } => {}
            }
        }
        self.sender.assert_invariants();
    }

    /// A receiver's application.
    fn collect(&mut self, n: usize) {
        let now = self.now;
        let side = &mut self.sides[n];
        while let Some(event) = side.machine.poll_event() {
            if self.traced {
                eprintln!("{now} {n}: {event:?}");
            }
            match &event {
                ReceiverEvent::Joined { begins_at } => {
                    (side.begins_at, side.joined_at) = (Some(*begins_at), Some(now));
                }
                ReceiverEvent::Lost(range) => side.lost.push(range.clone()),
                _ => {}
            }
            side.events.push(event);
        }
        let heard = side.events.iter().find_map(|event| match event {
            ReceiverEvent::Heard(heard) => Some(*heard),
            _ => None,
        });
        if let Some(heard) = heard
            && side.begins_at.is_none()
            && !side.machine.is_joining()
            && !side.machine.is_over()
            && now - self.start >= side.plan.joins_after
        {
            side.machine.join(now, &heard, side.key);
        }
        let mut credit = match side.plan.takes {
            Some(rate) => rate * (now - side.taken_at).as_millis() as u64 / 1000,
            None => u64::MAX,
        };
        while credit > 0 {
            let Some(message) = side.pending() else { break };
            let len = message.end - message.start;
            if side.plan.takes.is_some() && len > credit {
                side.peeked.push_front(message);
                break;
            }
            credit -= len.min(credit);
            side.taken_at = now;
            assert!(side.has_in_memory(&message, &self.content), "{message:?} was written over");
            side.machine.consumed(message.end);
            side.messages.push(message);
            if side.plan.leaves_after == Some(side.messages.len()) {
                side.machine.leave();
                break;
            }
        }
    }

    fn note_progress(&mut self) {
        let (una, queued) = (self.sender.acked(), self.sender.queued());
        let waits = una < queued && self.sender.members().next().is_some();
        let members = self.sender.members().count() as u64;
        if !waits || una != self.progress.0 || members > self.progress.1 {
            self.progress = (una, members, self.now);
        }
        self.progress.1 = members;
        self.stall = self.stall.max(self.now - self.progress.2);
    }

    /// Who was let in and stayed has every message from its beginning on, in order.
    pub fn assert_all_have_all(&self) {
        for (n, side) in self.sides.iter().enumerate() {
            let Some(begins_at) = side.begins_at.filter(|_| side.plan.lies.is_none()) else {
                continue;
            };
            let first = self.sent.partition_point(|range| range.start < begins_at);
            let is_start = self.sent.get(first).is_none_or(|range| range.start == begins_at);
            assert!(is_start, "{n} begins within a message\n{}", self.describe());
            let expected = &self.sent[first..];
            let got = side.messages.len();
            assert!(got <= expected.len(), "{n} has more than was sent\n{}", self.describe());
            assert_eq!(side.messages, expected[..got], "{n}\n{}", self.describe());
            if side.left.is_none() && side.plan.leaves_after.is_none() {
                assert_eq!(got, expected.len(), "{n} stayed\n{}", self.describe());
                assert!(side.machine.has_finished(), "{n}\n{}", self.describe());
                let ended = side.events.contains(&ReceiverEvent::Ended);
                assert!(ended, "{n}\n{}", self.describe());
                assert!(side.is_done, "{n}\n{}", self.describe());
            }
        }
    }

    pub fn describe(&self) -> String {
        let mut text = format!(
            "at {} after {:?}: una {} nxt {} queued {} of {} stall {:?} {:?}\n",
            self.now,
            self.now - self.start,
            self.sender.acked(),
            self.sender.sent(),
            self.sender.queued(),
            self.scenario.total,
            self.stall,
            self.sender.counters(),
        );
        for member in self.sender.members() {
            text += &format!("member {member:?}\n");
        }
        for (n, side) in self.sides.iter().enumerate() {
            text += &format!(
                "{n}: begins {:?} nxt {} messages {} left {:?} controls {} events {:?} down {:?} up {:?}\n",
                side.begins_at,
                side.machine.rcv_nxt(),
                side.messages.len(),
                side.left,
                side.controls,
                side.events,
                side.down.counts(),
                side.up.counts(),
            );
        }
        text
    }
}
