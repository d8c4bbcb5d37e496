//! Any header, at any time, with any verdict: no panic, and the inequalities hold.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Random, for_each_seed};
use fusewire_transport::machine::{
    Cut, DropCause, Ends, Header as _, Initial, Listener as _, Protocol as _, Secrets, Verdict,
};
use fusewire_transport::xtp::{Config, Connection, Header, Listener, ListenerAction, State};
use fusewire_wire::xtp::{
    Address, Body, Code, Control, Diag, First, Key, Limits, OFFSET_MAX, Options, Reason, Service,
    Span, SpanList, Traffic, TrafficControl,
};

use crate::loss;

/// A context that has been spoken to by nobody honest.
struct Subject {
    conn: Connection,
    now: Instant,
    committed: u64,
    rcv_nxt: u64,
    /// Sync, seq, rseq and alloc of what it sent.
    sync: u32,
    seq: u64,
    rseq: u64,
    alloc: u64,
}

fn near(random: &mut Random, of: u64) -> u64 {
    let bits = random.below(40);
    let away = random.below(1 << bits);
    let at = if random.chance(0.6) { of.saturating_add(away) } else { of.saturating_sub(away) };
    at.min(OFFSET_MAX - (1 << 20))
}

fn key(random: &mut Random, subject: &Subject) -> Key {
    match random.below(8) {
        0 => Key::new(random.next_u64() | 1).unwrap(),
        1 => Key::new(0x7777).unwrap(),
        _ => subject.conn.key(),
    }
}

fn traffic(random: &mut Random) -> Traffic {
    let word = |random: &mut Random| random.next_u64() as u32 >> random.below(32);
    let limits = Limits {
        maxdata: word(random).max(512),
        inrate: word(random),
        inburst: word(random),
        outrate: word(random),
        outburst: word(random),
    };
    let limits = random.chance(0.8).then_some(limits);
    Traffic { service: Service::Stream, limits }
}

/// A header whose every field may be anything, often something near to what counts.
fn header(random: &mut Random, subject: &Subject) -> Header {
    let rseq = near(random, subject.seq);
    let control = Control {
        rseq,
        alloc: near(random, rseq).max(rseq),
        echo: subject.sync.wrapping_sub(random.below(3) as u32),
    };
    let mut spans = SpanList::new(rseq);
    let mut at = rseq;
    for _ in 0..random.below(20) {
        let left = at + 1 + random.below(3000);
        at = left + 1 + random.below(3000);
        spans.push(Span { left, right: at });
    }
    let xkey = key(random, subject);
    let tcntl = TrafficControl { control, delay_us: 0, xkey, traffic: traffic(random) };
    let btag = random.chance(0.2).then(|| random.next_u64());
    let first =
        First { address: Address::in_udp(7), traffic: traffic(random), xkey: Some(xkey), btag };
    let diag = Diag {
        code: Code::from_number(random.below(9) as u32),
        reason: Reason::from_number(random.below(14) as u32),
    };
    let data = Body::Data { btag };
    let body = match random.below(12) {
        0..=4 => data,
        5 | 6 => Body::Cntl(control),
        7 => Body::Ecntl(control, spans),
        8 => Body::Tcntl(tcntl),
        9 => Body::First(first),
        10 if random.chance(0.1) => Body::Diag(diag),
        _ => Body::Cntl(Control { rseq: subject.seq, alloc: subject.seq + 90_000, ..control }),
    };
    let mut options = Options::NONE;
    for (option, chance) in [
        (Options::SREQ, 0.5),
        (Options::DREQ, 0.2),
        (Options::EDGE, 0.3),
        (Options::FASTNAK, 0.5),
        (Options::NOERR, 0.1),
        (Options::NOFLOW, 0.1),
        (Options::EOM, 0.3),
        (Options::WCLOSE, 0.02),
        (Options::RCLOSE, 0.02),
        (Options::END, 0.01),
    ] {
        if random.chance(chance) {
            options |= option;
        }
    }
    let around = if random.chance(0.5) { subject.rseq } else { subject.alloc };
    let seq = near(random, around);
    Header {
        key: key(random, subject),
        returned: random.chance(0.9),
        options,
        check: 0,
        sort: 0,
        sync: random.below(1 << 17) as u32,
        seq,
        data_len: 0,
        body,
    }
}

impl Subject {
    fn new(conn: Connection, now: Instant) -> Subject {
        Subject { conn, now, committed: 0, rcv_nxt: 0, sync: 0, seq: 0, rseq: 0, alloc: 0 }
    }

    fn speak(&mut self, random: &mut Random) {
        let mut header = header(random, self);
        let len = if random.chance(0.5) { 0 } else { random.below(1 << 14) as u32 };
        header.data_len = len;
        let initial = self.conn.handle_initial(self.now, &header, len);
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) => {
                assert_eq!(plan.trim_front + plan.len + plan.trim_back, len);
                assert!(plan.len == 0 || plan.offset >= self.rcv_nxt);
                match random.below(4) {
                    0 => Verdict::Reject(*random.pick(&[DropCause::Checksum, DropCause::Tag])),
                    1 => Verdict::Accept { len: random.below(u64::from(plan.len) + 1) as u32 },
                    _ if plan.len > 0 => Verdict::Accept { len: plan.len },
                    _ => Verdict::Control,
                }
            }
            Initial::Control if random.chance(0.1) => Verdict::Reject(DropCause::Checksum),
            Initial::Control => Verdict::Control,
        };
        self.conn.handle_final(self.now, &header, &initial, verdict, false);
    }

    fn act(&mut self, random: &mut Random) {
        match random.below(14) {
            0 | 1 => {
                let room = self.conn.send_room();
                if let Some(reservation) = self.conn.reserve(random.below(1 << 14) as u32) {
                    assert!(reservation.len() <= room);
                    self.committed += u64::from(reservation.len());
                    self.conn.commit(reservation, *random.pick(&[Cut::Record, Cut::Stream]));
                }
            }
            2 => self.conn.consumed(random.below(self.conn.rcv_nxt_offset() + 1)),
            3 => self.conn.consumed(self.conn.rcv_nxt_offset()),
            4 if random.chance(0.02) => self.conn.finish(),
            5 if random.chance(0.002) => self.conn.abort(),
            6 if random.chance(0.1) => self.conn.set_tpdu_len(random.below(70_000) as usize),
            7 if random.chance(0.1) => self.conn.resend_all(self.now),
            8 => {
                let bits = random.below(36);
                self.now += Duration::from_nanos(random.below(1 << bits));
            }
            9 => {
                if let Some(at) = self.conn.poll_timeout() {
                    self.now = self.now.max(at);
                }
            }
            10 => {
                self.conn.poll_message(random.chance(0.5));
                self.conn.poll_gap();
            }
            _ => {}
        }
        if self.conn.poll_timeout().is_some_and(|at| at <= self.now) {
            self.conn.handle_timeout(self.now);
        }
    }

    fn drain(&mut self) {
        let mut count = 0;
        while let Some(transmit) = self.conn.poll_transmit(self.now) {
            count += 1;
            assert!(count < 100_000, "does not stop sending");
            if let Some(range) = &transmit.payload {
                assert!(range.start < range.end && range.end <= self.committed);
                assert!(range.start >= self.conn.snd_una_offset());
            }
            let header = &transmit.header;
            self.sync = header.sync;
            self.seq = header.seq.max(self.seq);
            if let Some(control) = header.body.control() {
                (self.rseq, self.alloc) = (control.rseq, control.alloc);
            }
        }
        while self.conn.poll_event().is_some() {
            count += 1;
            assert!(count < 200_000, "does not stop telling");
        }
    }

    fn check(&mut self) {
        self.conn.assert_invariants();
        let info = self.conn.info();
        assert!(info.cwnd >= u64::from(info.max_payload), "{info:?}");
        assert!(
            self.conn.state() == State::Quiescent || info.in_flight <= info.unacked,
            "{info:?}"
        );
        assert!(self.conn.snd_una_offset() <= self.committed);
        let rcv_nxt = self.conn.rcv_nxt_offset();
        assert!(rcv_nxt >= self.rcv_nxt, "the stream went back");
        self.rcv_nxt = rcv_nxt;
    }
}

fn run(mut subject: Subject, random: &mut Random) {
    subject.drain();
    for _ in 0..300 {
        subject.speak(random);
        subject.act(random);
        subject.drain();
        subject.check();
        if subject.conn.state() == State::Quiescent {
            break;
        }
    }
}

fn config(random: &mut Random) -> Config {
    Config {
        messages: random.chance(0.5),
        noerr: random.chance(0.1),
        passes_gaps: random.chance(0.5),
        ctimeout: Duration::from_secs(random.range(1..1000)),
        ..loss::config(random)
    }
}

#[test]
fn any_header_on_a_context_that_opens_and_is_open() {
    for_each_seed("any_header_on_a_context_that_opens_and_is_open", |_, random| {
        let now = Instant::from_ms(random.below(1 << 33));
        let config = config(random);
        let own = Key::new(random.next_u64() | 1).unwrap();
        let conn = Connection::connect(&config, own, 7, now);
        let mut subject = Subject::new(conn, now);
        subject.drain();
        if random.chance(0.8) {
            let control = Control { rseq: 0, alloc: 20_000, echo: subject.sync };
            let tcntl = TrafficControl {
                control,
                delay_us: 0,
                xkey: Key::new(0x7777).unwrap(),
                traffic: traffic(random),
            };
            let base = header(random, &subject);
            let answer = Header {
                key: own,
                returned: true,
                options: Options::NONE,
                seq: 0,
                data_len: 0,
                body: Body::Tcntl(tcntl),
                ..base
            };
            let initial = subject.conn.handle_initial(now, &answer, 0);
            subject.conn.handle_final(now, &answer, &initial, Verdict::Control, false);
            assert_eq!(subject.conn.state(), State::Open);
        }
        run(subject, random);
    });
}

#[test]
fn any_header_on_a_listener() {
    for_each_seed("any_header_on_a_listener", |_, random| {
        let config = config(random);
        let backlog = random.range(1..20) as usize;
        let mut keys = [[0; 16]; 2];
        keys.iter_mut().for_each(|key| random.fill(key));
        let secrets = Secrets { isn: keys[0], cookie: keys[1] };
        let mut listener = Listener::new(&config, backlog, &secrets);
        let mut now = Instant::from_ms(random.below(1 << 33));
        for _ in 0..200 {
            let own = Key::new(random.next_u64() | 1).unwrap();
            let subject = Subject::new(Connection::connect(&config, own, 7, now), now);
            let mut header = header(random, &subject);
            if random.chance(0.6) {
                let address = Address::in_udp(7);
                let first = First { address, traffic: traffic(random), xkey: None, btag: None };
                (header.body, header.returned) = (Body::First(first), false);
            }
            let ends = Ends {
                local: ([10, 0, 0, 1], 4433).into(),
                remote: ([10, 0, 0, 2], random.below(8) as u16).into(),
                flow: header.flow(),
            };
            match listener.handle_stray(now, &ends, &header, 0) {
                ListenerAction::Accept(conn) => {
                    run(Subject::new(*conn, now), random);
                    listener.taken();
                }
                ListenerAction::Reply(_) | ListenerAction::Drop(_) => {}
            }
            assert!(listener.half_open() <= backlog);
            assert!(config.name() == "xtp");
            now += random.duration_below(Duration::from_secs(3));
        }
    });
}
