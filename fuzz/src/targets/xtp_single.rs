//! Services 1 to 3 of XTP in virtual time: packets of anybody's, with keys that are right, against a responder's table and
//! against a request that waits.
use core::time::Duration;
use std::collections::HashSet;

use crate::Choices;
use fusewire_base::Instant;
use fusewire_transport::machine::{
    DropCause, Ends, Header as _, Initial, PayloadPlan, Protocol as _, Secrets, Verdict,
};
use fusewire_transport::xtp::single::{
    Bounds, Event, Id, Incoming, Message, Outcome, Patience, Request, Responder,
};
use fusewire_transport::xtp::{Config, Header};
use fusewire_wire::xtp::{self, Body, HEADER_LEN, Key, Service};

const BEGIN: Instant = Instant::from_ms(1000);
const STEPS_MAX: usize = 600;
/// Packets that one turn may give out.
const OUTPUT_MAX: usize = 2000;
const BOUNDS: Bounds = Bounds { contexts: 6, half_open: 4, answer_bytes: 3000 };

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let bits = choices.u8();
    let cfg = Config {
        nocheck: bits & 1 == 0,
        send_tpdu_len: if bits & 2 == 0 { 1472 } else { 300 },
        recv_window: 1 << 17,
        ..Config::default()
    };
    let secrets = Secrets { isn: [1; 16], cookie: [2; 16] };
    let mut now = BEGIN;
    let mut table = Table::new(Responder::new(&cfg, BOUNDS, &secrets, now));
    let service = if bits & 4 == 0 { Service::Transaction } else { Service::AcknowledgedDatagram };
    let message =
        Message { service, port: 7, len: choices.u8().into(), btag: None, proves_itself: false };
    let own = Key::new(0x1234_5678_9abc).expect("not zero");
    let [probe, wtimer, rtt_min] = [100, 300, 20].map(Duration::from_millis);
    let patience = Patience { probe: Some(probe), wtimer, rtt_min };
    let mut request = Request::new(cfg.clone(), message, own, patience, now).expect("it is short");
    let mut told = false;
    for _ in 0..STEPS_MAX {
        table.output(&cfg, now);
        told |= ask(&mut request, now, told);
        if choices.is_empty() {
            break;
        }
        match choices.u8() {
            0..140 => {
                let own =
                    if choices.u8() & 1 == 0 { Some(own) } else { table.keys.last().copied() };
                let mut bytes = packet(&mut choices, own);
                xtp::seal(&mut bytes);
                let Ok(header) = cfg.parse(&bytes) else { continue };
                let verdict = choices.u8();
                table.input(now, &header, verdict);
                let initial = request.handle_initial(now, &header, header.data_len);
                if let Some(verdict) = judge(&initial, &header, verdict) {
                    request.handle_final(now, &header, &initial, verdict);
                }
            }
            140..180 => table.answer(now, choices.u16().into()),
            180..190 => table.refuse(now),
            190..230 => now += Duration::from_millis(choices.u16().into()),
            _ => {
                let due = [table.responder.poll_timeout(), request.poll_timeout()];
                now = due.into_iter().flatten().min().unwrap_or(now).max(now);
            }
        }
        table.responder.handle_timeout(now);
        request.handle_timeout(now);
    }
}

/// The examples of the document, one behind the other, with what an application does between them.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = |bits: u8| {
        let mut all = vec![bits, 9];
        for example in super::xtp_packet::seeds() {
            for own in [0, 1] {
                all.extend([1, own, 3, example.len() as u8]);
                all.extend(&example);
                all.extend([2, 150, 0, 30, 240]);
            }
        }
        all
    };
    vec![all(0), all(6)]
}

/// What leaves a request, and what it tells: once.
fn ask(request: &mut Request, now: Instant, told: bool) -> bool {
    for n in 0.. {
        assert!(n < OUTPUT_MAX, "endless output");
        let Some(transmit) = request.poll_transmit(now) else { break };
        let payload = transmit.payload.unwrap_or(0..0);
        assert!(payload.end <= u64::from(request.message().len));
        assert_eq!(u64::from(transmit.header.data_len), payload.end - payload.start);
    }
    let outcome = request.poll_event();
    assert!(outcome.is_none() || !told, "told twice");
    if let Some(Outcome::Answered { len }) = outcome {
        assert!(len <= 1 << 17, "longer than there is memory");
    }
    request.assert_invariants();
    outcome.is_some()
}

/// A verdict on what is planned.
pub(super) fn judge(initial: &Initial, header: &Header, how: u8) -> Option<Verdict> {
    match initial {
        Initial::Drop(_) => None,
        _ if how & 7 == 0 => Some(Verdict::Reject(DropCause::Tag)),
        Initial::Payload(PayloadPlan { trim_front, len, trim_back, .. }) => {
            assert_eq!(trim_front + len + trim_back, header.data_len);
            Some(if *len > 0 { Verdict::Accept { len: *len } } else { Verdict::Control })
        }
        Initial::Control => Some(Verdict::Control),
    }
}

/// A responder, and what is known of it from outside.
struct Table {
    responder: Responder,
    handed: HashSet<Id>,
    waiting: Vec<Id>,
    /// Keys that came, and those that were told.
    keys: Vec<Key>,
    /// Bytes that came and left, until a key was shown.
    came: u64,
    left: u64,
    shown: bool,
}

impl Table {
    fn new(responder: Responder) -> Table {
        let (handed, waiting, keys) = (HashSet::new(), Vec::new(), Vec::new());
        Table { responder, handed, waiting, keys, came: 0, left: 0, shown: false }
    }

    fn input(&mut self, now: Instant, header: &Header, how: u8) {
        let at = ([192, 0, 2, 1], 7).into();
        let ends = Ends { local: at, remote: at, flow: header.flow() };
        if !self.responder.knows(at, header) {
            return;
        }
        self.came += header.packet_len() as u64;
        let len = header.data_len;
        match self.responder.handle_initial(now, &ends, false, header, len) {
            Incoming::Drop(_) | Incoming::Datagram(_) => {}
            Incoming::Reply(reply) => self.sent(&reply),
            Incoming::Take(initial) => {
                self.shown |= header.returned;
                let Some(verdict) = judge(&initial, header, how) else { return };
                let told = (&initial, len);
                self.responder.handle_final(now, &ends, false, header, told, verdict);
            }
        }
    }

    fn sent(&mut self, header: &Header) {
        self.left += header.packet_len() as u64;
        assert!(self.shown || self.left <= self.came, "more than came, to who has proven nothing");
        self.keys.push(header.key);
        if let Body::Tcntl(tcntl) = &header.body {
            self.keys.push(tcntl.xkey);
        }
    }

    fn answer(&mut self, now: Instant, len: u32) {
        if let Some(id) = self.waiting.pop() {
            self.responder.answer(now, id, len, len & 1 == 0);
            self.responder.delivered(now, id);
        }
    }

    fn refuse(&mut self, now: Instant) {
        if let Some(id) = self.waiting.pop() {
            self.responder.refuse(now, id);
        }
    }

    fn output(&mut self, cfg: &Config, now: Instant) {
        while let Some((id, event)) = self.responder.poll_event() {
            match event {
                Event::Arrived(arrived) => {
                    assert!(self.handed.insert(id), "handed over twice");
                    assert!(arrived.len <= 16_384);
                    self.waiting.push(id);
                }
                Event::Gone => self.waiting.retain(|waiting| *waiting != id),
            }
        }
        for n in 0.. {
            assert!(n < OUTPUT_MAX, "endless output");
            let Some((_, _, transmit)) = self.responder.poll_transmit(now) else { break };
            let mut bytes = vec![0; transmit.header.packet_len()];
            transmit.header.emit(&mut bytes);
            cfg.parse(&bytes).expect("what a machine emits is legal");
            self.sent(&transmit.header);
        }
        assert!(self.responder.answer_bytes() <= BOUNDS.answer_bytes.max(1 << 16));
        self.responder.assert_invariants();
    }
}

/// A packet as it comes, with a length and if so chosen a key and numbers that are right.
pub(super) fn packet(choices: &mut Choices<'_>, own: Option<Key>) -> Vec<u8> {
    let how = choices.u8();
    let len = usize::from(choices.u8());
    let mut bytes = choices.bytes(len).to_vec();
    bytes.resize(len.max(HEADER_LEN), 0);
    let dlen = (bytes.len() - HEADER_LEN) as u32;
    bytes[12..16].copy_from_slice(&dlen.to_be_bytes());
    if how & 1 == 0
        && let Some(own) = own
    {
        bytes[..8].copy_from_slice(&(own.bits() | 1 << 63).to_be_bytes());
    }
    if how & 2 == 0 {
        bytes[11] = bytes[11] & 31 | 1 << 5;
    }
    if how & 4 == 0 {
        // Seq is a small number.
        bytes[24..30].fill(0);
    }
    bytes
}
