//! What the machine costs for each packet when nothing goes wrong, beside TCP's in `tests/hot_path.rs`:
//!
//! `cargo test --release -p fusewire-transport --test xtp -- --ignored --nocapture nanoseconds` prints nanoseconds for each
//! packet: the sender's `reserve`, `commit`, `poll_transmit`; the receiver's two steps; the sender's part of answers.

use core::time::Duration;
use std::time::Instant as Clock;

use fusewire_base::Instant;
use fusewire_transport::machine::{
    Cut, Ends, Header as _, Initial, Listener as _, Secrets, Verdict,
};
use fusewire_transport::xtp::{Config, Connection, Header, Listener, ListenerAction};
use fusewire_wire::xtp::Key;

const ADU: u32 = 1400;

pub fn take(c: &mut Connection, now: Instant, h: &Header) {
    let initial = c.handle_initial(now, h, h.data_len);
    let verdict = match &initial {
        Initial::Payload(plan) if !plan.duplicate => Verdict::Accept { len: plan.len },
        _ => Verdict::Control,
    };
    c.handle_final(now, h, &initial, verdict, false);
}

pub fn open(cfg: &Config, now: Instant) -> (Connection, Connection) {
    let address = "127.0.0.1:1".parse().expect("address");
    let mut a = Connection::connect(cfg, Key::new(77).unwrap(), 7, now);
    let mut listener = Listener::new(cfg, 2, &Secrets { isn: [1; 16], cookie: [2; 16] });
    let first = a.poll_transmit(now).expect("FIRST").header;
    let ends = Ends { local: address, remote: address, flow: first.flow() };
    let ListenerAction::Accept(mut b) = listener.handle_stray(now, &ends, &first, 0) else {
        panic!()
    };
    take(&mut b, now, &first);
    for _ in 0..3 {
        while let Some(t) = b.poll_transmit(now) {
            take(&mut a, now, &t.header);
        }
        while let Some(t) = a.poll_transmit(now) {
            take(&mut b, now, &t.header);
        }
    }
    (a, *b)
}

#[derive(Default)]
struct Spent {
    send: Duration,
    receive: Duration,
    acknowledge: Duration,
    packets: u64,
    answers: u64,
}

/// Transfers `total` packets, `batch` at a time; the round trip takes `rtt` of virtual time.
fn transfer(total: u64, batch: usize, rtt: Duration) -> Spent {
    let cfg = Config::default();
    let mut now = Instant::from_ms(1);
    let (mut a, mut b) = open(&cfg, now);
    let (mut spent, mut queued) = (Spent::default(), 0);
    let mut headers: Vec<Header> = Vec::with_capacity(batch);
    while spent.packets < total {
        let clock = Clock::now();
        headers.clear();
        // More is queued than leaves, as in bulk.
        while queued < spent.packets + 8 * batch as u64 {
            let Some(r) = a.reserve(ADU) else { break };
            a.commit(r, Cut::Record);
            queued += 1;
        }
        while headers.len() < batch
            && let Some(t) = a.poll_transmit(now)
        {
            headers.push(t.header);
        }
        spent.send += clock.elapsed();
        now += rtt / 2;
        let clock = Clock::now();
        for h in &headers {
            take(&mut b, now, h);
        }
        b.consumed(b.rcv_nxt_offset());
        let answer = b.poll_transmit(now);
        spent.receive += clock.elapsed();
        spent.packets += headers.iter().filter(|h| h.data_len > 0).count() as u64;
        now += rtt / 2;
        if let Some(answer) = answer {
            let clock = Clock::now();
            take(&mut a, now, &answer.header);
            while a.poll_event().is_some() {}
            spent.acknowledge += clock.elapsed();
            spent.answers += 1;
        } else if headers.is_empty() {
            now = a.poll_timeout().unwrap_or(now).max(now);
            a.handle_timeout(now);
        }
    }
    assert_eq!(b.rcv_nxt_offset(), b.counters().bytes_received);
    assert_eq!(a.counters().retransmissions, 0);
    spent
}

fn print(name: &str, s: &Spent) {
    let each = |d: Duration, n: u64| d.as_nanos() as f64 / n.max(1) as f64;
    println!(
        "{name}: send {:.1} ns, receive {:.1} ns, acknowledge {:.1} ns a packet ({:.0} ns an answer), {} packets, {} answers",
        each(s.send, s.packets),
        each(s.receive, s.packets),
        each(s.acknowledge, s.packets),
        each(s.acknowledge, s.answers),
        s.packets,
        s.answers,
    );
}

#[test]
fn smoke() {
    for batch in [1, 44] {
        assert!(transfer(1000, batch, Duration::from_micros(50)).packets >= 1000);
        assert!(transfer(1000, batch, Duration::from_millis(20)).packets >= 1000);
    }
}

#[test]
#[ignore = "a benchmark: `cargo xtask soak` runs it"]
fn nanoseconds_for_each_packet() {
    println!("a header has {} bytes", size_of::<Header>());
    for _ in 0..3 {
        for (name, rtt) in
            [("loopback", Duration::from_micros(50)), ("20 ms, paced", Duration::from_millis(20))]
        {
            for batch in [1, 8, 44] {
                print(&format!("{name}, batches of {batch}"), &transfer(1_000_000, batch, rtt));
            }
        }
    }
}
