//! A client and a server stack, and someone who can put frames on the wire between them.
//!
//! Whatever he sends, an ADU that is delivered is the one that was sent. And what he sends without knowing
//! a right checksum, from another address, without the numbers, or with nothing changed but the body of a
//! record, the connection survives: all ADUs arrive, and no mark of his slows the sender.
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::Choices;
use crate::wire::{Frame, Mailbox, pair};
use fusewire_base::{Seq, Sum};
use fusewire_device::Ecn;
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_session::record::HEADER_LEN;
use fusewire_session::{Allow, ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Clock, Config, ConnectionId, Event, Keep, Stack};
use fusewire_transport::machine::Secrets;
use fusewire_transport::{either, tcp};
use fusewire_wire::tcp::{Flags, Header, MAX_HEADER_LEN};

pub(super) const PORT: u16 = 4242;
const ADU_LEN_MAX: usize = 3000;
const ADUS_MAX: u64 = 64;
/// An honest connection has delivered everything by then.
const PATIENCE: Duration = Duration::from_secs(60);
/// Offset of a TPDU's checksum.
const CHECKSUM: usize = 16;

pub(super) static SIDES: LazyLock<(ClientConfig, ServerConfig)> = LazyLock::new(|| {
    let client = Arc::new(Identity::ephemeral().expect("a key"));
    let server = Arc::new(Identity::ephemeral().expect("a key"));
    let trust = Trust::Pinned(server.fingerprint());
    let list = [client.fingerprint()].into_iter().collect();
    let mut server = ServerConfig::new(server);
    server.allow = Allow::List(Arc::new(list));
    (ClientConfig::new(client, trust), server)
});

fn addrs() -> [SocketAddr; 2] {
    [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into()]
}

struct Side {
    stack: Stack,
    id: Option<ConnectionId>,
    sent: u64,
    received: u64,
    closed: bool,
}

struct World {
    sides: [Side; 2],
    mail: [Mailbox; 2],
    /// Nanoseconds that both clocks show.
    now: Arc<AtomicU64>,
    /// Nothing was done that may end the connection.
    must_live: bool,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let early = choices.u8();
    let mut world = World::new(if early & 2 == 0 { "wired" } else { "udp" });
    if early & 1 == 1 {
        // Someone is there before the handshake: no promise but that nothing false is delivered.
        world.must_live = false;
    } else {
        world.connect();
    }
    for _ in 0..200 {
        if choices.is_empty() {
            break;
        }
        world.step(&mut choices);
    }
    world.settle();
}

/// Honest ADUs, and what each kind of meddling does to them.
pub fn seeds() -> Vec<Vec<u8>> {
    let sends = [[0x80, 4, 0], [0x00, 9, 1], [0x80, 0, 77], [0x81, 11, 0]].concat();
    let mut seeds = (0..4).map(|early| [&[early][..], &sends].concat()).collect::<Vec<_>>();
    for step in (2..8u8).chain([0x46]) {
        let meddle = [step, 0, 1, 0, 40, 3, 0x55, 0x82, 0x02];
        for early in [0, 2] {
            seeds.push([&[early][..], &sends, &meddle, &sends, &meddle].concat());
        }
    }
    seeds
}

/// Frames of an honest transfer, one of them lost, as they were on the wire.
pub(super) fn traffic() -> Vec<Vec<u8>> {
    let mut world = World::new("wired");
    let mut seen = Vec::new();
    for turn in 0..12 {
        world.poll(0);
        world.poll(1);
        if turn >= 5 {
            world.send(0, 700);
            world.send(0, 2000);
        }
        for mail in &world.mail {
            seen.extend(mail.frames().iter().map(|frame| frame.bytes.clone()));
        }
        if turn == 7 {
            world.mail[1].frames().pop_front();
        }
    }
    world.settle();
    seen
}

fn content(from: usize, index: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(7) ^ (index as u8) ^ (from as u8) << 7).collect()
}

/// The length is in the content, as the index is in the record.
fn adu(from: usize, index: u64, len: usize) -> Vec<u8> {
    let len = len.max(2);
    let mut adu = content(from, index, len);
    adu[..2].copy_from_slice(&(len as u16).to_be_bytes());
    adu
}

impl World {
    fn new(device: &'static str) -> World {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let config = Config {
            transport: either::Config::Tcp(tcp::Config {
                pacing: false,
                recv_window: 64 << 10,
                initial_recv_window: 64 << 10,
                max_segments_in_flight: 64,
                max_ranges: 16,
                ..tcp::Config::default()
            }),
            send_ring_bytes: 64 << 10,
            max_connections: 8,
            backlog: 8,
            clock: Clock::virtual_ns(now.clone()),
            ..Config::default()
        };
        let (devices, mail) = pair(device, addrs(), 1452).expect("two devices");
        let stack = |device, seed| Stack::new(Box::new(device), config.clone(), &[seed; 32]);
        let [client, server] = devices;
        let mut stacks = [stack(client, 1), stack(server, 2)];
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        stacks[1].listen(PORT, SIDES.1.clone(), &secrets);
        let id = stacks[0].connect(addrs()[1], PORT, &SIDES.0).expect("a connection");
        let side = |stack, id| Side { stack, id, sent: 0, received: 0, closed: false };
        let [client, server] = stacks;
        World { sides: [side(client, Some(id)), side(server, None)], mail, now, must_live: true }
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

    fn poll(&mut self, who: usize) {
        let side = &mut self.sides[who];
        side.stack.poll(&mut Keep).expect("the device is well");
        while let Some((id, event)) = side.stack.poll_event() {
            match event {
                Event::Connected { peer, .. } => {
                    let expected =
                        [&SIDES.1.settings.identity, &SIDES.0.settings.identity][who].fingerprint();
                    assert_eq!(peer, expected, "somebody else got in");
                    side.id = Some(id);
                }
                Event::Closed(_) if side.id == Some(id) => side.closed = true,
                _ => {}
            }
        }
        let Some(id) = side.id else { return };
        while let Some((index, got)) = side.stack.recv(id) {
            assert_eq!(index, side.received, "in order, each once");
            side.received += 1;
            let len = got.first_chunk().map_or(0, |l| usize::from(u16::from_be_bytes(*l)));
            assert!(got == adu(1 - who, index, len), "an ADU that was never sent");
            side.stack.recycle(id, got);
        }
        assert!(self.sides[who].received <= self.sides[1 - who].sent);
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        let step = choices.u8();
        let to = usize::from(step >> 7);
        let from = 1 - to;
        match step % 8 {
            0 | 1 => self.send(from, usize::from(choices.u16()) % ADU_LEN_MAX),
            2 if step & 0x78 == 0x78 => self.pass(u64::from(choices.u16()) << 16),
            2 => self.poll(to),
            3 => self.stranger(to, choices),
            4 => self.corrupted(to, choices),
            5 => self.forged_body(to, choices),
            6 if step & 0x40 != 0 => self.blind(to, choices),
            6 => self.spoofed(to, choices),
            _ => self.again(to, choices),
        }
    }

    fn send(&mut self, from: usize, len: usize) {
        let side = &mut self.sides[from];
        let Some(id) = side.id else { return };
        if side.sent < ADUS_MAX
            && matches!(side.stack.send(id, &adu(from, side.sent, len)), Ok(true))
        {
            side.sent += 1;
        }
        side.stack.flush();
    }

    /// A frame from an address that takes part in nothing.
    fn stranger(&mut self, to: usize, choices: &mut Choices<'_>) {
        let from = ([203, 0, 113, choices.u8()], 9).into();
        let len = usize::from(choices.u8());
        let mut bytes = choices.bytes(len).to_vec();
        if bytes.len() >= 4 {
            bytes[2..4].copy_from_slice(&PORT.to_be_bytes());
        }
        seal(&mut bytes);
        self.mail[to].frames().push_back(Frame { from, ecn: Ecn::NotEct, bytes });
    }

    /// A copy of a frame that is under way, changed, with its old checksum.
    fn corrupted(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        mutate(&mut frame.bytes, choices);
        let untouched = self.mail[to].frames()[at].bytes == frame.bytes;
        if (pseudo_header_sum(6, frame.bytes.len()) + Sum::of(&frame.bytes)).verifies()
            && !untouched
        {
            // By luck it is right.
            self.must_live = false;
        }
        self.mail[to].frames().insert(at, frame);
    }

    /// A copy with another body behind the record's header, and a right checksum.
    fn forged_body(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        let Some(&word) = frame.bytes.get(12) else { return };
        let body = usize::from(word >> 4) * 4 + HEADER_LEN;
        if frame.bytes.len() <= body {
            return;
        }
        // A piece of a longer record is only known to be false when all of it is there.
        let header = &frame.bytes[body - HEADER_LEN..body];
        let len = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let is_whole = header[..4] == [1, 0, 0, 0] && len + 16 == frame.bytes.len() - body;
        let at_byte = body + usize::from(choices.u16()) % (frame.bytes.len() - body);
        frame.bytes[at_byte] ^= choices.u8();
        seal(&mut frame.bytes);
        self.must_live &= is_whole;
        self.mail[to].frames().insert(at, frame);
    }

    /// In the peer's name, marked, by somebody who does not know what is under way: numbers outside of the
    /// window, with any timestamp, acknowledgements of nothing, resets and SYNs, probes and answers.
    fn blind(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, mut frame)) = self.pick(to, choices) else { return };
        let Ok(mut header) = Header::parse(&frame.bytes) else { return };
        if header.flags.any(Flags::SYN | Flags::RST) || !header.flags.has(Flags::ACK) {
            return;
        }
        let (head_len, word) = (usize::from(header.header_len), u32::from(choices.u16()));
        // Windows and all that may be under way are smaller than these distances.
        let (before, beyond) = (Seq(header.seq.0.wrapping_sub(1 << 17)), header.seq + (1 << 17));
        let any = Seq(word << 16 | word);
        match choices.u8() % 7 {
            0 => header.seq = beyond + (word << 12),
            1 => header.seq = Seq(before.0.wrapping_sub(word)),
            2 => header.ack = header.ack + (1 << 20) + (word << 12),
            3 => (header.flags, header.seq) = (Flags::RST | Flags::ACK, beyond + (word << 12)),
            4 => (header.flags, header.seq, header.ack) = (Flags(0), any, header.ack),
            5 => (header.flags, header.seq, header.ack) = (Flags::PSH, any, header.ack),
            _ => (header.flags, header.seq) = (Flags::SYN, any),
        }
        header.options.timestamps =
            header.options.timestamps.map(|(v, e)| (v.wrapping_add(word << 10), e));
        let payload = frame.bytes.split_off(head_len);
        let mut head = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut head);
        frame.bytes = [&head[..len], &payload[..]].concat();
        frame.ecn = Ecn::Ce;
        seal(&mut frame.bytes);
        self.mail[to].frames().insert(at, frame);
    }

    /// Anything, in the peer's name.
    fn spoofed(&mut self, to: usize, choices: &mut Choices<'_>) {
        let (at, mut frame) = self.pick(to, choices).unwrap_or_else(|| {
            let from = addrs()[1 - to];
            let len = usize::from(choices.u8());
            (0, Frame { from, ecn: Ecn::NotEct, bytes: choices.bytes(len).to_vec() })
        });
        mutate(&mut frame.bytes, choices);
        seal(&mut frame.bytes);
        self.must_live = false;
        self.mail[to].frames().insert(at, frame);
    }

    /// What is under way once more, or in another order.
    fn again(&mut self, to: usize, choices: &mut Choices<'_>) {
        let Some((at, frame)) = self.pick(to, choices) else { return };
        let mut frames = self.mail[to].frames();
        if choices.u8() & 1 == 0 {
            frames.remove(at);
        }
        frames.push_back(frame);
    }

    fn pick(&self, to: usize, choices: &mut Choices<'_>) -> Option<(usize, Frame)> {
        let frames = self.mail[to].frames();
        let at = usize::from(choices.u8()) % frames.len().max(1);
        Some((at, frames.get(at)?.clone()))
    }

    /// Time passes up to the next timer, but no more than `most` nanoseconds.
    fn pass(&mut self, most: u64) {
        let next = self.sides.iter().filter_map(|side| side.stack.next_timeout()).min();
        let next = next.map_or(1_000_000, |next| next.as_nanos() as u64);
        // A timer that is due runs when the clock has moved on a little.
        self.now.fetch_add(next.min(most).max(1000), Ordering::Relaxed);
    }

    /// Until everything that was sent has arrived.
    fn settle(&mut self) {
        let until = self.now.load(Ordering::Relaxed) + PATIENCE.as_nanos() as u64;
        loop {
            self.poll(0);
            self.poll(1);
            let [a, b] = &self.sides;
            let arrived = a.received == b.sent && b.received == a.sent;
            let idle = self.mail.iter().all(|m| m.frames().is_empty());
            if arrived || (!self.must_live && idle) {
                break;
            }
            let now = self.now.load(Ordering::Relaxed);
            assert!(now < until || !self.must_live, "an ADU does not arrive");
            assert!(!self.must_live || !(a.closed || b.closed), "a forged frame ended it");
            if idle {
                self.pass(u64::MAX);
            }
        }
        for side in self.sides.iter().filter(|_| self.must_live) {
            let marks = side.id.and_then(|id| side.stack.info(id)).map(|i| i.counters.ecn_marks);
            assert!(marks.unwrap_or(0) == 0, "a forged frame's mark counts");
        }
        let ended = self.sides.iter().any(|s| s.closed);
        assert!(!(self.must_live && ended), "a forged frame ended it");
        assert!(self.sides.iter().all(|s| s.stack.connections() <= 8));
    }
}

fn mutate(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    for _ in 0..=choices.u8() % 4 {
        let at = usize::from(choices.u16()) % bytes.len().max(1);
        match choices.u8() % 4 {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(choices.bytes(16)),
            _ if bytes.is_empty() => {}
            2 => bytes[at] = choices.u8(),
            _ => bytes[at] ^= 1 << (choices.u8() & 7),
        }
    }
    bytes.truncate(1452);
}

/// Makes the checksum right.
fn seal(bytes: &mut [u8]) {
    if bytes.len() < CHECKSUM + 2 {
        return;
    }
    bytes[CHECKSUM..CHECKSUM + 2].fill(0);
    let sum = (pseudo_header_sum(6, bytes.len()) + Sum::of(bytes)).checksum();
    bytes[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
}
