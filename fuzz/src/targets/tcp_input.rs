//! The TCP machine in virtual time: forged headers against one machine, and two machines with someone
//! between them who drops, repeats, reorders and, if he likes, rewrites.
use core::ops::Range;
use core::time::Duration;

use crate::Choices;
use fusewire_base::{Instant, Seq};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{
    Cut, DropCause, Event, Initial, KeepAlive, Listener as _, Secrets, Verdict,
};
use fusewire_transport::tcp::{
    Config, Connection, Listener, ListenerAction, Ports, State, Transmit, Tuple,
};
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

const BEGIN: Instant = Instant::from_ms(1000);
const PORTS: (u16, u16) = (1000, 2000);
/// Segments that one turn may give out: more than the largest ring holds.
const OUTPUT_MAX: usize = 2000;
/// Packets in flight; what comes on top is lost.
const FLIGHT_MAX: usize = 256;
const STEPS_MAX: usize = 600;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let mode = choices.u8();
    let cfg = config(&mut choices);
    if mode & 1 == 0 {
        alone(choices, &cfg, mode & 2 == 0);
    } else {
        between(choices, &cfg, mode & 2 == 0);
    }
}

/// Both modes, each honest and not, with every second kind of step.
pub fn seeds() -> Vec<Vec<u8>> {
    let steps: Vec<u8> = (0..120u32).map(|i| (i * 0x9d + i / 7 * 0x3b) as u8).collect();
    (0..4).map(|mode| [&[mode, 0x84, 0xff, 0][..], &steps].concat()).collect()
}

fn config(choices: &mut Choices<'_>) -> Config {
    let bits = choices.u16();
    let sizes = choices.u8();
    let is = |n: u16| bits >> n & 1 == 1;
    let ms = |n: u64| Duration::from_millis(n);
    Config {
        mss: [1452, 100, 536, 65_000][usize::from(sizes & 3)],
        send_mss: [1452, 100, 536, 65_000][usize::from(sizes >> 2 & 3)],
        send_buffer: if is(0) { 1 << 20 } else { 5000 },
        max_segments_in_flight: if is(1) { 256 } else { 6 },
        recv_window: if is(2) { 1 << 20 } else { 3000 },
        initial_recv_window: if is(3) { 64 << 10 } else { 1000 },
        max_ranges: if is(4) { 16 } else { 1 },
        window_scaling: !is(5),
        timestamps: !is(6),
        sack: !is(7),
        ecn: !is(8),
        nagle: is(9),
        pacing: !is(10),
        keep_alive: is(11).then(|| KeepAlive { idle: ms(5000), interval: ms(700), probes: 3 }),
        user_timeout: is(12).then(|| ms(30_000)),
        fin_wait_2: is(13).then(|| ms(20_000)),
        reserve_within_window: is(14),
        ..Config::default()
    }
}

fn tuple(n: u8) -> Tuple {
    let local = ([192, 0, 2, 1], 7).into();
    let remote = ([198, 51, 100, n], 40_000).into();
    Tuple { local, remote, flow: Ports { local: PORTS.1, remote: PORTS.0 } }
}

fn listener(cfg: &Config) -> Listener {
    let secrets = Secrets { isn: *b"key of numbers..", cookie: *b"key of cookies.." };
    Listener::new(cfg, 4, &secrets)
}

/// One machine and what is known of it from outside.
struct End {
    tcp: Connection,
    /// The last header that it sent.
    sent: Header,
    accepted: u64,
    committed: u64,
    /// Never verified against content: somebody rewrote a header.
    forged: bool,
}

/// A segment under way. The payload is the range of its sender's offsets.
#[derive(Clone)]
struct Packet {
    header: Header,
    payload: Range<u64>,
    forged: bool,
}

impl End {
    fn new(tcp: Connection) -> End {
        End { tcp, sent: Header::default(), accepted: 0, committed: 0, forged: false }
    }

    /// All that it has to send.
    fn output(&mut self, now: Instant, out: &mut Vec<Packet>) {
        for n in 0.. {
            assert!(n < OUTPUT_MAX, "endless output");
            let Some(Transmit { header, payload, .. }) = self.tcp.poll_transmit(now) else { break };
            let mut bytes = [0; MAX_HEADER_LEN];
            let len = header.emit(&mut bytes);
            let header = Header::parse(&bytes[..len]).expect("what a machine emits is legal");
            let payload = payload.unwrap_or(0..0);
            assert!(payload.end <= self.committed, "bytes that were never committed");
            self.sent = header;
            out.push(Packet { header, payload, forged: false });
        }
        self.check();
    }

    fn check(&mut self) {
        self.tcp.assert_invariants();
        while let Some(event) = self.tcp.poll_event() {
            if let Event::Acked { upto_offset } = event {
                assert!(upto_offset <= self.committed);
            }
        }
    }

    /// Takes a segment; `verdict` may change what an honest stack would say.
    fn take(&mut self, now: Instant, packet: &Packet, verdict: u8) {
        let len = (packet.payload.end - packet.payload.start) as u32;
        let before = self.tcp.rcv_nxt_offset();
        self.forged |= packet.forged;
        let initial = self.tcp.handle_initial(now, &packet.header, len);
        let marked = verdict & 0x80 != 0;
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) => {
                assert_eq!(plan.trim_front + plan.len + plan.trim_back, len);
                assert!(plan.len == 0 || plan.offset >= before);
                assert!(plan.len == 0 || !plan.in_order || plan.offset == before);
                if !self.forged && plan.len > 0 {
                    let begin = packet.payload.start + u64::from(plan.trim_front);
                    assert_eq!(plan.offset, begin, "misplaced");
                }
                match verdict % 8 {
                    _ if plan.duplicate => Verdict::Control,
                    0 => Verdict::Reject(DropCause::Tag),
                    1 => Verdict::Reject(DropCause::NoMemory),
                    2 => Verdict::Accept { len: plan.len / 2 },
                    _ => Verdict::Accept { len: plan.len },
                }
            }
            Initial::Control if verdict.is_multiple_of(8) => Verdict::Reject(DropCause::Checksum),
            Initial::Control => Verdict::Control,
        };
        if verdict == (Verdict::Accept { len }) {
            self.accepted += u64::from(len);
        }
        self.tcp.handle_final(now, &packet.header, &initial, verdict, marked);
        assert!(self.tcp.rcv_nxt_offset() >= before);
        self.check();
    }

    /// What an application may do.
    fn act(&mut self, choices: &mut Choices<'_>) {
        match choices.u8() % 10 {
            0..=3 => self.send(u32::from(choices.u16()), choices.u8() & 1 == 0),
            4 => self.tcp.consumed(u64::from(choices.u16())),
            5 | 6 => self.tcp.consumed(self.tcp.rcv_nxt_offset()),
            7 => match choices.u8() {
                0..32 => self.tcp.finish(),
                32..35 => self.tcp.abort(),
                35..64 => self.tcp.mark_urgent(),
                64..96 => self.tcp.path_changed(),
                _ => {}
            },
            8 => self.tcp.set_max_payload(u32::from(choices.u16())),
            _ => drop(self.tcp.info()),
        }
        self.check();
    }

    fn send(&mut self, len: u32, record: bool) {
        let room = self.tcp.send_room();
        if let Some(reservation) = self.tcp.reserve(len) {
            assert!(reservation.len() <= room);
            assert_eq!(reservation.offset(), self.committed);
            self.committed += u64::from(reservation.len());
            self.tcp.commit(reservation, if record { Cut::Record } else { Cut::Stream });
        }
    }
}

/// A number near one that counts.
fn near(choices: &mut Choices<'_>, edges: [Seq; 4]) -> Seq {
    let form = choices.u8();
    let edge = edges[usize::from(form & 3)].0;
    Seq(match form >> 2 & 7 {
        0 | 1 => edge,
        2 => edge.wrapping_add(u32::from(choices.u8())),
        3 => edge.wrapping_sub(u32::from(choices.u8())),
        4 => edge.wrapping_add(u32::from(choices.u16())),
        5 => edge.wrapping_sub(u32::from(choices.u16())),
        6 => edge.wrapping_add(1 << 31).wrapping_add_signed(i32::from(choices.u8() as i8)),
        _ => choices.u32(),
    })
}

/// Changes fields of a header, keeping those that the input does not name.
fn forge(choices: &mut Choices<'_>, header: &mut Header, edges: [Seq; 4]) {
    let fields = choices.u8();
    let is = |n: u8| fields >> n & 1 == 1;
    if is(0) {
        header.seq = near(choices, edges);
    }
    if is(1) {
        header.ack = near(choices, edges);
    }
    if is(2) {
        header.flags = Flags(choices.u8());
    }
    if is(3) {
        header.window = choices.u16();
    }
    if is(4) {
        header.urgent = choices.u16();
    }
    if is(5) {
        header.options.sack_count = choices.u8() % 5;
        for block in &mut header.options.sack[..usize::from(header.options.sack_count)] {
            *block = (near(choices, edges), near(choices, edges));
        }
    }
    if is(6) {
        header.options.timestamps = match choices.u8() % 4 {
            0 => None,
            1 => Some((choices.u32(), choices.u32())),
            n => header.options.timestamps.map(|(value, echo)| {
                let by = u32::from(choices.u8());
                if n == 2 {
                    (value.wrapping_add(by), echo.wrapping_sub(by))
                } else {
                    (value.wrapping_sub(by), echo.wrapping_add(by))
                }
            }),
        };
    }
    if is(7) {
        header.options.mss = Some(choices.u16());
        header.options.window_scale = Some(choices.u8());
        header.options.sack_permitted = fields & 1 == 0;
        header.options.user_timeout = Some(choices.u16());
    }
}

/// Time passes: a little, much, or up to the next deadline.
fn pass(choices: &mut Choices<'_>, now: Instant, next: Option<Instant>) -> Instant {
    match choices.u8() % 4 {
        0 => now + Duration::from_micros(u64::from(choices.u8())),
        1 => now + Duration::from_millis(u64::from(choices.u16())),
        _ => next.map_or(now, |at| at.max(now)),
    }
}

fn start(iss: u32) -> Start {
    Start { iss: Seq(iss), timestamp_offset: iss.rotate_left(9) }
}

/// Everything that is said to the machine is forged, by someone who sees what it sends.
fn alone(mut choices: Choices<'_>, cfg: &Config, active: bool) {
    let mut now = BEGIN;
    let mut listener = listener(cfg);
    let mut end = active
        .then(|| End::new(Connection::connect(cfg, PORTS.1, PORTS.0, start(u32::MAX - 700), now)));
    let mut out = Vec::new();
    let mut last = Header { src_port: PORTS.0, dst_port: PORTS.1, ..Header::default() };
    last.flags = Flags::SYN;
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        out.clear();
        if let Some(end) = &mut end {
            end.output(now, &mut out);
            last = Header { src_port: PORTS.0, dst_port: PORTS.1, ..end.sent };
            (last.seq, last.ack) = (end.sent.ack, end.sent.seq + 1);
            last.flags = Flags::ACK;
            if let Some((value, echo)) = end.sent.options.timestamps {
                last.options.timestamps = Some((echo.wrapping_add(1), value));
            }
        }
        let step = choices.u8();
        match step % 4 {
            0 | 1 => {
                let mut header = last;
                let edges = [last.seq, last.ack, Seq(0), last.seq + 0xffff];
                forge(&mut choices, &mut header, edges);
                let len = if step & 4 == 0 { 0 } else { u64::from(choices.u16()) };
                let packet = Packet { header, payload: 0..len, forged: true };
                match &mut end {
                    Some(end) => end.take(now, &packet, step >> 3),
                    None => {
                        let from = tuple(step >> 5);
                        match listener.handle_stray(now, &from, &packet.header, len as u32) {
                            ListenerAction::Accept(tcp) => {
                                listener.taken();
                                let mut new = End::new(*tcp);
                                new.take(now, &packet, 3);
                                end = Some(new);
                            }
                            ListenerAction::Reply(reply) if reply.flags.has(Flags::SYN) => {
                                last.flags = Flags::ACK;
                                (last.seq, last.ack) = (reply.ack, reply.seq + 1);
                                last.options.timestamps =
                                    reply.options.timestamps.map(|(v, e)| (e.wrapping_add(1), v));
                            }
                            ListenerAction::Reply(_) | ListenerAction::Drop(_) => {}
                        }
                    }
                }
            }
            2 => {
                if let Some(end) = &mut end {
                    end.act(&mut choices);
                }
            }
            _ => {
                let next = match &end {
                    Some(end) => end.tcp.poll_timeout(),
                    None => listener.poll_timeout(),
                };
                now = pass(&mut choices, now, next);
                if let Some(end) = &mut end {
                    end.tcp.handle_timeout(now);
                    end.check();
                }
                for n in 0.. {
                    assert!(n < 100, "endless output of the listener");
                    if listener.poll_reply(now).is_none() {
                        break;
                    }
                }
            }
        }
    }
}

/// Two honest machines.
struct Pair {
    now: Instant,
    ends: [Option<End>; 2],
    listener: Listener,
    /// Under way to each end.
    flight: [Vec<Packet>; 2],
}

impl Pair {
    fn output(&mut self) {
        for (from, end) in self.ends.iter_mut().enumerate() {
            let to = 1 - from;
            if let Some(end) = end {
                end.output(self.now, &mut self.flight[to]);
            }
            self.flight[to].truncate(FLIGHT_MAX);
        }
        for n in 0.. {
            assert!(n < 100, "endless output of the listener");
            let Some((_, header)) = self.listener.poll_reply(self.now) else { break };
            self.flight[0].push(Packet { header, payload: 0..0, forged: false });
        }
    }

    fn deliver(&mut self, to: usize, packet: &Packet, verdict: u8) {
        if let Some(end) = &mut self.ends[to] {
            end.take(self.now, packet, verdict);
            return;
        }
        let len = (packet.payload.end - packet.payload.start) as u32;
        match self.listener.handle_stray(self.now, &tuple(1), &packet.header, len) {
            ListenerAction::Accept(tcp) => {
                self.listener.taken();
                let mut end = End::new(*tcp);
                end.take(self.now, packet, verdict);
                self.ends[to] = Some(end);
            }
            ListenerAction::Reply(header) => {
                self.flight[0].push(Packet { header, payload: 0..0, forged: packet.forged });
            }
            ListenerAction::Drop(_) => {}
        }
    }

    fn next(&self) -> Option<Instant> {
        let ends = self.ends.iter().flatten().filter_map(|e| e.tcp.poll_timeout());
        ends.chain(self.listener.poll_timeout()).min()
    }

    fn timeouts(&mut self) {
        for end in self.ends.iter_mut().flatten() {
            end.tcp.handle_timeout(self.now);
            end.check();
        }
    }

    /// Delivers everything, and lets time pass, until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..2000 {
            self.output();
            let arrived = self.flight.each_mut().map(std::mem::take);
            let quiet = arrived.iter().all(Vec::is_empty);
            self.now += Duration::from_millis(3);
            for (to, packets) in arrived.iter().enumerate() {
                for packet in packets {
                    self.deliver(to, packet, 3);
                    if let Some(end) = &mut self.ends[to] {
                        end.tcp.consumed(end.tcp.rcv_nxt_offset());
                    }
                }
            }
            self.timeouts();
            if quiet && self.is_done() {
                return;
            }
            if quiet && let Some(at) = self.next() {
                self.now = self.now.max(at);
                self.timeouts();
            }
        }
    }

    /// Everything that one end committed was taken by the other.
    fn is_done(&self) -> bool {
        let [Some(a), Some(b)] = &self.ends else { return false };
        a.committed == b.tcp.rcv_nxt_offset() && b.committed == a.tcp.rcv_nxt_offset()
    }
}

/// Whatever happens between two honest machines short of rewriting, what one sent the other gets.
fn between(mut choices: Choices<'_>, cfg: &Config, honest: bool) {
    let client = Connection::connect(cfg, PORTS.0, PORTS.1, start(u32::MAX - 3000), BEGIN);
    let mut pair = Pair {
        now: BEGIN,
        ends: [Some(End::new(client)), None],
        listener: listener(cfg),
        flight: [Vec::new(), Vec::new()],
    };
    let begin_of_quiet = BEGIN + Duration::from_secs(10);
    for _ in 0..STEPS_MAX {
        if choices.is_empty() {
            break;
        }
        pair.output();
        let step = choices.u8();
        let to = usize::from(step >> 7);
        let count = pair.flight[to].len();
        match step % 8 {
            0..=2 if count > 0 => {
                let packet = pair.flight[to].remove(0);
                pair.deliver(to, &packet, if honest { 3 } else { step >> 3 });
            }
            3 if count > 0 => {
                // Another than the oldest; it may be lost, or come again.
                let which = usize::from(choices.u8()) % count;
                let packet = pair.flight[to][which].clone();
                if step & 8 == 0 {
                    pair.flight[to].remove(which);
                }
                if step & 16 == 0 {
                    pair.deliver(to, &packet, 3);
                }
            }
            4 if count > 0 && !honest => {
                let mut packet = pair.flight[to][0].clone();
                let header = packet.header;
                let edges = [header.seq, header.ack, header.seq + 0xffff, Seq(0)];
                forge(&mut choices, &mut packet.header, edges);
                packet.forged = true;
                pair.deliver(to, &packet, step >> 3);
            }
            5 | 6 => {
                if let Some(end) = &mut pair.ends[to] {
                    if honest {
                        end.send(u32::from(choices.u16()), step & 8 == 0);
                    } else {
                        end.act(&mut choices);
                    }
                }
            }
            _ => {
                // Not so long that an honest connection gives up.
                let next = pair.next();
                let at = pass(&mut choices, pair.now, next);
                pair.now = if honest { at.min(begin_of_quiet.max(pair.now)) } else { at };
                pair.timeouts();
            }
        }
    }
    if honest {
        pair.settle();
        let gave_up = pair.ends.iter().flatten().any(|e| e.tcp.state() == State::Closed);
        assert!(gave_up || pair.is_done(), "{:?}", pair.ends.map(|e| e.map(|e| e.tcp)));
    }
}
