//! Any header, at any time, with any verdict: no panic, and the inequalities hold.

use core::time::Duration;

use fusewire_base::{Instant, Seq};
use fusewire_testkit::{Random, for_each_seed};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{
    Cut, DropCause, Initial, KeepAlive, Listener as _, Secrets, Verdict,
};
use fusewire_transport::tcp::{Config, Connection, Listener, ListenerAction, Ports, State, Tuple};
use fusewire_wire::tcp::{Flags, Header};

/// A connection that has been spoken to by nobody honest.
struct Subject {
    conn: Connection,
    now: Instant,
    committed: u64,
    rcv_nxt: u64,
    edge: Option<(Seq, Seq)>,
}

fn config(random: &mut Random) -> Config {
    let some = |random: &mut Random| Duration::from_millis(random.range(1..100_000));
    Config {
        mss: random.range(100..65_535) as u16,
        send_mss: random.range(100..65_535) as u16,
        send_buffer: 1 << random.range(10..24),
        max_segments_in_flight: random.range(4..300) as usize,
        recv_window: 1 << random.range(4..30),
        initial_recv_window: 1 << random.range(4..20),
        max_ranges: random.range(1..20) as usize,
        timestamps: random.chance(0.5),
        sack: random.chance(0.7),
        ecn: random.chance(0.5),
        nagle: random.chance(0.3),
        keep_alive: random.chance(0.3).then(|| KeepAlive {
            idle: some(random),
            interval: some(random),
            probes: 3,
        }),
        user_timeout: random.chance(0.3).then(|| some(random)),
        max_retransmissions: random.range(1..20) as u8,
        ..Config::default()
    }
}

/// A header whose every field may be anything, often something near to what counts.
fn header(random: &mut Random, subject: &Subject) -> Header {
    let mut bytes = [0u8; 60];
    random.fill(&mut bytes);
    bytes[12] = (random.range(5..16) as u8) << 4;
    if random.chance(0.6) {
        // Timestamps, and NOPs behind them.
        bytes[20..60].fill(1);
        bytes[20..24].copy_from_slice(&[1, 1, 8, 10]);
    }
    let mut header = Header::parse(&bytes).unwrap_or_default();
    let (seq, ack) = subject.edge.unwrap_or_default();
    let near = |random: &mut Random, seq: Seq| {
        let bits = random.below(32);
        let away = random.below(1 << bits) as u32;
        Seq(if random.chance(0.5) { seq.0.wrapping_add(away) } else { seq.0.wrapping_sub(away) })
    };
    if random.chance(0.9) {
        header.seq = near(random, seq);
    }
    if random.chance(0.9) {
        header.ack = near(random, ack);
    }
    if random.chance(0.7) {
        header.flags = Flags::ACK;
    }
    if random.chance(0.7) {
        header.options.sack_count = random.below(5) as u8;
        for block in &mut header.options.sack {
            let left = near(random, ack);
            *block = (left, near(random, left));
        }
    }
    if let Some((value, echo)) = &mut header.options.timestamps
        && random.chance(0.8)
    {
        *value = random.below(1000) as u32;
        *echo = random.next_u32();
    }
    header
}

impl Subject {
    fn speak(&mut self, random: &mut Random) {
        let header = header(random, self);
        let len = if random.chance(0.5) { 0 } else { random.below(1 << 16) as u32 };
        let initial = self.conn.handle_initial(self.now, &header, len);
        let verdict = match &initial {
            Initial::Drop(_) => return,
            Initial::Payload(plan) => {
                assert_eq!(plan.trim_front + plan.len + plan.trim_back, len);
                assert!(plan.len == 0 || plan.offset >= self.rcv_nxt);
                match random.below(4) {
                    0 => Verdict::Reject(*random.pick(&[
                        DropCause::Checksum,
                        DropCause::Tag,
                        DropCause::NoMemory,
                    ])),
                    1 => Verdict::Accept { len: random.below(u64::from(plan.len) + 1) as u32 },
                    _ if plan.len > 0 => Verdict::Accept { len: plan.len },
                    _ => Verdict::Control,
                }
            }
            Initial::Control if random.chance(0.1) => Verdict::Reject(DropCause::Checksum),
            Initial::Control => Verdict::Control,
        };
        let marked = random.chance(0.1);
        self.conn.handle_final(self.now, &header, &initial, verdict, marked);
    }

    fn act(&mut self, random: &mut Random) {
        match random.below(12) {
            0 | 1 => {
                let room = self.conn.send_room();
                if let Some(reservation) = self.conn.reserve(random.below(1 << 16) as u32) {
                    assert!(reservation.len() <= room);
                    self.committed += u64::from(reservation.len());
                    self.conn.commit(reservation, *random.pick(&[Cut::Record, Cut::Stream]));
                }
            }
            2 => self.conn.consumed(random.below(self.conn.rcv_nxt_offset() + 1)),
            3 => self.conn.consumed(self.conn.rcv_nxt_offset()),
            4 if random.chance(0.02) => self.conn.finish(),
            5 if random.chance(0.002) => self.conn.abort(),
            6 if random.chance(0.1) => self.conn.set_max_payload(random.below(70_000) as u32),
            7 if random.chance(0.1) => self.conn.mark_urgent(),
            8 => {
                let bits = random.below(36);
                self.now += Duration::from_nanos(random.below(1 << bits));
            }
            9 => {
                if let Some(at) = self.conn.poll_timeout() {
                    self.now = self.now.max(at);
                }
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
            if !transmit.header.flags.has(Flags::RST) {
                self.edge = Some((transmit.header.ack, transmit.header.seq));
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
        assert!(self.conn.state() == State::Closed || info.in_flight <= info.unacked, "{info:?}");
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
        if subject.conn.state() == State::Closed {
            break;
        }
    }
}

fn secrets(random: &mut Random) -> Secrets {
    let mut keys = [[0; 16]; 2];
    keys.iter_mut().for_each(|key| random.fill(key));
    Secrets { isn: keys[0], cookie: keys[1] }
}

#[test]
fn any_header_on_a_connection_that_opens_and_is_open() {
    for_each_seed("any_header_on_a_connection_that_opens_and_is_open", |_, random| {
        let now = Instant::from_ms(random.below(1 << 33));
        let iss = Seq(random.next_u32());
        let config = config(random);
        let start = Start { iss, timestamp_offset: random.next_u32() };
        let conn = Connection::connect(&config, 1, 2, start, now);
        let mut subject = Subject { conn, now, committed: 0, rcv_nxt: 0, edge: None };
        subject.drain();
        if random.chance(0.8) {
            let syn_ack =
                Header { flags: Flags::SYN | Flags::ACK, ack: iss + 1, ..header(random, &subject) };
            let initial = subject.conn.handle_initial(now, &syn_ack, 0);
            subject.conn.handle_final(now, &syn_ack, &initial, Verdict::Control, false);
            assert_eq!(subject.conn.state(), State::Established);
        }
        run(subject, random);
    });
}

#[test]
fn any_header_on_a_listener() {
    for_each_seed("any_header_on_a_listener", |_, random| {
        let config = config(random);
        let backlog = random.range(1..20) as usize;
        let mut listener = Listener::new(&config, backlog, &secrets(random));
        let mut now = Instant::from_ms(random.below(1 << 33));
        let mut edge = None;
        for _ in 0..300 {
            let tuple = Tuple {
                local: ([10, 0, 0, 1], 4433).into(),
                remote: ([10, 0, 0, 2], random.below(8) as u16).into(),
                flow: Ports { local: 7, remote: random.below(4) as u16 },
            };
            let start = Start { iss: Seq(0), timestamp_offset: 0 };
            let conn = Connection::connect(&config, 1, 2, start, now);
            let subject = Subject { conn, now, committed: 0, rcv_nxt: 0, edge };
            let mut header = header(random, &subject);
            if random.chance(0.5) {
                header.flags = *random.pick(&[
                    Flags::SYN,
                    Flags::ACK,
                    Flags::RST,
                    Flags::SYN | Flags::ECE | Flags::CWR,
                ]);
            }
            match listener.handle_stray(now, &tuple, &header, random.below(1000) as u32) {
                ListenerAction::Reply(syn_ack) if syn_ack.flags.has(Flags::SYN) => {
                    edge = Some((syn_ack.ack, syn_ack.seq + 1))
                }
                ListenerAction::Accept(conn) => {
                    let subject = Subject { conn: *conn, now, committed: 0, rcv_nxt: 0, edge };
                    run(subject, random);
                    listener.taken();
                }
                ListenerAction::Reply(_) | ListenerAction::Drop(_) => {}
            }
            while listener.poll_reply(now).is_some() {}
            assert!(listener.half_open() <= backlog);
            now += random.duration_below(Duration::from_secs(3));
        }
    });
}
