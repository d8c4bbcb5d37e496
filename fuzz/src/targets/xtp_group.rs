//! A sender to a group and one who listens, in virtual time: what they say to each other comes or is lost, and between
//! come packets of anybody's, with keys that are right.
use core::time::Duration;

use super::xtp_single::{judge, packet};
use crate::Choices;
use fusewire_base::Instant;
use fusewire_transport::machine::Protocol as _;
use fusewire_transport::xtp::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use fusewire_transport::xtp::{Config, Header, Transmit};
use fusewire_wire::xtp::{self, Key, Service};

const BEGIN: Instant = Instant::from_ms(1000);
const STEPS_MAX: usize = 600;
/// Packets that one turn may give out.
const OUTPUT_MAX: usize = 2000;
const MEMBERS_MAX: usize = 3;
const SENDER: ([u8; 4], u16) = ([192, 0, 2, 1], 9294);
const RECEIVER: ([u8; 4], u16) = ([192, 0, 2, 2], 4000);

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let bits = choices.u8();
    let mut group = Group::new(bits);
    for _ in 0..STEPS_MAX {
        group.output();
        if choices.is_empty() || group.receiver.is_over() && group.sender.is_over() {
            break;
        }
        match choices.u8() {
            0..50 => group.forged(&mut choices),
            50..110 => group.deliver(choices.u8()),
            110..120 => {
                group.on_the_way.pop();
            }
            120..160 => group.send(choices.u16().into()),
            160..180 => group.take(),
            180..183 => group.sender.finish(),
            183 => group.receiver.leave(),
            184 => group.remove(),
            185..220 => group.now += Duration::from_millis(choices.u16().into()),
            _ => group.next(),
        }
        group.sender.handle_timeout(group.now);
        group.receiver.handle_timeout(group.now);
    }
}

/// A join, messages that come and are lost, and an end; and the examples of the document.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut honest = vec![0];
    for round in 0..12u8 {
        honest.extend([130, 5, round, 230, 60, 7, 60, 7, 115, 60, 7, 60, 7, 165]);
    }
    let mut ends = honest.clone();
    ends.push(181);
    ends.extend([230, 60, 7, 60, 7].repeat(8));
    let mut forged = honest.clone();
    for example in super::xtp_packet::seeds() {
        for key in 0..4 {
            forged.extend([1, key, 7, 1, example.len() as u8]);
            forged.extend(&example);
        }
    }
    let unreliable = honest.iter().copied().enumerate().map(|(n, b)| if n == 0 { 1 } else { b });
    vec![honest.clone(), ends, forged, unreliable.collect()]
}

struct Group {
    cfg: Config,
    now: Instant,
    sender: Sender,
    receiver: Receiver,
    /// Packets that left: true for those to the receiver.
    on_the_way: Vec<(bool, Header)>,
    committed: u64,
    asked: u64,
    /// The keys of the sender's for its members.
    ids: Vec<Key>,
    told_end: u64,
}

impl Group {
    fn new(bits: u8) -> Group {
        let key = Key::new(0x1234_5678_9abc).expect("not zero");
        let service =
            if bits & 1 == 0 { Service::Multicast } else { Service::UnacknowledgedMulticast };
        let sends = SenderConfig {
            service,
            send_buffer: if bits & 2 == 0 { 1 << 18 } else { 20_000 },
            max_packets_in_flight: if bits & 4 == 0 { 256 } else { 8 },
            members_max: MEMBERS_MAX,
            ..SenderConfig::default()
        };
        let takes = ReceiverConfig {
            recv_window: if bits & 8 == 0 { 1 << 18 } else { 20_000 },
            max_ranges: if bits & 16 == 0 { 64 } else { 2 },
            ..ReceiverConfig::default()
        };
        Group {
            cfg: Config::default(),
            now: BEGIN,
            sender: Sender::new(&sends, key, BEGIN),
            receiver: Receiver::new(&takes, BEGIN),
            on_the_way: Vec::new(),
            committed: 0,
            asked: 0,
            ids: Vec::new(),
            told_end: 0,
        }
    }

    /// The one that left longest ago arrives, or the last of those.
    fn deliver(&mut self, how: u8) {
        if self.on_the_way.is_empty() {
            return;
        }
        let at = if how & 4 == 0 { self.on_the_way.len() - 1 } else { 0 };
        let (to_receiver, header) = self.on_the_way.remove(at);
        self.arrive(to_receiver, &header, how);
    }

    fn arrive(&mut self, to_receiver: bool, header: &Header, how: u8) {
        if !to_receiver {
            self.sender.handle(self.now, RECEIVER.into(), header);
            return;
        }
        let before = self.receiver.rcv_nxt();
        let initial = self.receiver.handle_initial(SENDER.into(), header, header.data_len);
        let Some(verdict) = judge(&initial, header, how) else { return };
        self.receiver.handle_final(self.now, SENDER.into(), header, &initial, verdict);
        assert!(self.receiver.rcv_nxt() >= before, "the stream went back");
    }

    fn forged(&mut self, choices: &mut Choices<'_>) {
        let which = choices.u8();
        let how = choices.u8();
        let key = match which & 3 {
            0 => Some(self.sender.key()),
            1 => self.ids.last().copied(),
            2 => Key::new(RECEIVER_KEY + self.asked),
            _ => None,
        };
        let mut bytes = packet(choices, key);
        xtp::seal(&mut bytes);
        if let Ok(header) = self.cfg.parse(&bytes) {
            self.arrive(which & 4 == 0, &header, how);
        }
    }

    fn send(&mut self, len: u32) {
        let len = len.min(self.sender.max_message());
        if let Some(reservation) = self.sender.reserve(len) {
            assert_eq!(reservation.offset(), self.committed);
            self.committed += u64::from(len);
            self.sender.commit(reservation);
        }
    }

    fn take(&mut self) {
        while let Some(message) = self.receiver.poll_message() {
            assert!(message.range.start < message.range.end);
            assert!(message.range.start >= self.told_end, "told twice");
            self.told_end = message.range.end;
            self.receiver.consumed(message.range.end);
        }
    }

    fn remove(&mut self) {
        if let Some(id) = self.ids.pop() {
            self.sender.remove(self.now, id);
        }
    }

    fn next(&mut self) {
        let due = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
        self.now = due.into_iter().flatten().min().unwrap_or(self.now).max(self.now);
    }

    /// What both have to say, and what they tell.
    fn output(&mut self) {
        for n in 0.. {
            assert!(n < OUTPUT_MAX, "endless output of the sender");
            let Some((_, transmit)) = self.sender.poll_transmit(self.now) else { break };
            let payload = transmit.payload.clone().unwrap_or(0..0);
            assert!(payload.end <= self.committed, "bytes that were never committed");
            self.carry(true, &transmit);
        }
        for n in 0.. {
            assert!(n < OUTPUT_MAX, "endless output of the receiver");
            let Some(transmit) = self.receiver.poll_transmit(self.now) else { break };
            self.carry(false, &transmit);
        }
        while let Some(event) = self.sender.poll_event() {
            if let SenderEvent::Asked { key, .. } = event {
                let id = Key::new(0x4444_0000 + self.ids.len() as u64).expect("not zero");
                if key.bits() % 5 == 4 {
                    self.sender.deny(self.now, key);
                } else if self.sender.accept(self.now, key, id).is_some() {
                    self.ids.push(id);
                }
            }
        }
        assert!(self.sender.members().count() <= MEMBERS_MAX);
        while let Some(event) = self.receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = event
                && !self.receiver.is_joining()
            {
                self.asked += 1;
                let own = Key::new(RECEIVER_KEY + self.asked).expect("not zero");
                self.receiver.join(self.now, &heard, own);
            }
        }
        self.sender.assert_invariants();
        self.receiver.assert_invariants();
    }

    fn carry(&mut self, to_receiver: bool, transmit: &Transmit) {
        let mut bytes = vec![0; transmit.header.packet_len()];
        transmit.header.emit(&mut bytes);
        let read = self.cfg.parse(&bytes).expect("what a machine emits is legal");
        self.on_the_way.push((to_receiver, read));
        // What nobody takes is lost.
        let spare = self.on_the_way.len().saturating_sub(OUTPUT_MAX);
        self.on_the_way.drain(..spare);
    }
}

/// Keys of the receiver's follow it.
const RECEIVER_KEY: u64 = 0x2222_0000;
