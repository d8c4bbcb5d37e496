//! What the machine costs for each segment when nothing goes wrong: a benchmark with a smoke size.
//!
//! `cargo test --release -p fusewire-transport --test hot_path -- --ignored --nocapture` prints nanoseconds
//! for each segment: the sender's `reserve`, `commit`, `poll_transmit`; the receiver's two steps; the
//! sender's part of one acknowledgement.

use core::time::Duration;
use fusewire_base::{Instant, Seq};
use fusewire_transport::isn::Start;
use fusewire_transport::machine::{Cut, Initial, Listener as _, Secrets, Verdict};
use fusewire_transport::tcp::{Config, Connection, Listener, ListenerAction, Ports, Tuple};
use fusewire_wire::tcp::Header;
use std::time::Instant as Clock;

const ADU: u32 = 1400;

fn control(c: &mut Connection, now: Instant, h: &Header) {
    let initial = c.handle_initial(now, h, 0);
    c.handle_final(now, h, &initial, Verdict::Control, false);
}

fn open(cfg: &Config, now: Instant) -> (Connection, Connection) {
    let address = "127.0.0.1:1".parse().expect("address");
    let tuple = Tuple { local: address, remote: address, flow: Ports { local: 2, remote: 1 } };
    let mut a = Connection::connect(cfg, 1, 2, Start { iss: Seq(9), timestamp_offset: 7 }, now);
    let mut listener = Listener::new(cfg, 1, &Secrets { isn: [1; 16], cookie: [2; 16] });
    let syn = a.poll_transmit(now).expect("SYN").header;
    let ListenerAction::Reply(syn_ack) = listener.handle_stray(now, &tuple, &syn, 0) else {
        panic!()
    };
    control(&mut a, now, &syn_ack);
    let ack = a.poll_transmit(now).expect("ACK").header;
    let ListenerAction::Accept(mut b) = listener.handle_stray(now, &tuple, &ack, 0) else {
        panic!()
    };
    control(&mut b, now, &ack);
    (a, *b)
}

#[derive(Default)]
struct Spent {
    send: Duration,
    receive: Duration,
    acknowledge: Duration,
    segments: u64,
    acks: u64,
}

/// Transfers `total` segments, `batch` at a time; the round trip takes `rtt` of virtual time.
fn transfer(total: u64, batch: usize, rtt: Duration) -> Spent {
    let cfg = Config::default();
    let mut now = Instant::from_ms(1);
    let (mut a, mut b) = open(&cfg, now);
    let mut spent = Spent::default();
    let mut headers: Vec<(Header, u32)> = Vec::with_capacity(batch);
    while spent.segments < total {
        let clock = Clock::now();
        headers.clear();
        for _ in 0..batch {
            let Some(r) = a.reserve(ADU) else { break };
            a.commit(r, Cut::Record);
        }
        while headers.len() < batch
            && let Some(t) = a.poll_transmit(now)
        {
            let len = t.payload.map_or(0, |p| (p.end - p.start) as u32);
            headers.push((t.header, len));
        }
        spent.send += clock.elapsed();
        now += rtt / 2;
        let clock = Clock::now();
        for (h, len) in &headers {
            let initial = b.handle_initial(now, h, *len);
            let verdict = match &initial {
                Initial::Payload(plan) if !plan.duplicate => Verdict::Accept { len: plan.len },
                _ => Verdict::Control,
            };
            b.handle_final(now, h, &initial, verdict, false);
        }
        b.consumed(b.rcv_nxt_offset());
        let ack = b.poll_transmit(now);
        spent.receive += clock.elapsed();
        spent.segments += headers.len() as u64;
        now += rtt / 2;
        match ack {
            Some(ack) => {
                let clock = Clock::now();
                control(&mut a, now, &ack.header);
                while a.poll_event().is_some() {}
                spent.acknowledge += clock.elapsed();
                spent.acks += 1;
            }
            None => {
                now += Duration::from_millis(30);
                b.handle_timeout(now);
                a.handle_timeout(now);
            }
        }
    }
    assert_eq!(b.rcv_nxt_offset(), b.counters().bytes_received);
    assert_eq!(a.counters().retransmissions, 0);
    spent
}

fn print(name: &str, s: &Spent) {
    let each = |d: Duration, n: u64| d.as_nanos() as f64 / n as f64;
    println!(
        "{name}: send {:.1} ns, receive {:.1} ns, acknowledge {:.1} ns a segment ({:.0} ns an ACK), {} segments",
        each(s.send, s.segments),
        each(s.receive, s.segments),
        each(s.acknowledge, s.segments),
        each(s.acknowledge, s.acks),
        s.segments
    );
}

#[test]
fn smoke() {
    for batch in [1, 44] {
        assert!(transfer(1000, batch, Duration::from_micros(50)).segments >= 1000);
        assert!(transfer(1000, batch, Duration::from_millis(20)).segments >= 1000);
    }
}

#[test]
#[ignore = "a benchmark: `cargo xtask soak` runs it"]
fn nanoseconds_for_each_segment() {
    for _ in 0..3 {
        for (name, rtt) in
            [("loopback", Duration::from_micros(50)), ("20 ms, paced", Duration::from_millis(20))]
        {
            for batch in [1, 8, 44] {
                print(&format!("{name}, batches of {batch}"), &transfer(3_000_000, batch, rtt));
            }
        }
    }
}
