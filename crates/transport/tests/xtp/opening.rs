//! Set-up: what is lost of it, who refuses it, and what it costs a listener.

use core::time::Duration;

use fusewire_base::Instant;
use fusewire_testkit::{Impairments, Random, for_each_seed};
use fusewire_transport::machine::{
    Ends, Event, Header as _, Listener as _, Protocol as _, ResetCause, Secrets, Verdict,
};
use fusewire_transport::xtp::{Config, Connection, Listener, ListenerAction, State};
use fusewire_wire::xtp::{Address, Body, Code, Diag, Key, Reason};

use crate::account::{SERVICE, Scenario, Told, World, assert_graceful};
use crate::thin::{link, sends};
use crate::two_ends::App;

fn scenario(up: u64, down: u64) -> Scenario {
    Scenario {
        client_app: sends(up),
        server_app: sends(down),
        links: [link(), link()],
        ..Scenario::default()
    }
}

/// Loses everything one way for a time.
fn blackout(world: &mut World, direction: usize, time: Duration) {
    world.links[direction].impairments_mut().loss = 1.0;
    world.run_for(time);
    world.links[direction].impairments_mut().loss = 0.0;
}

#[test]
fn a_lost_first_comes_again() {
    for up in [0, 300, 40_000] {
        let mut world = World::new(&scenario(up, 1000), &mut Random::new(1));
        blackout(&mut world, 0, Duration::from_millis(3500));
        assert!(world.server.is_none());
        world.run();
        assert_graceful(&world);
        assert!(world.client.conn.counters().timeouts >= 2);
    }
}

#[test]
fn a_lost_answer_comes_again_for_first_comes_again() {
    for up in [0, 300, 40_000] {
        let mut world = World::new(&scenario(up, 1000), &mut Random::new(2));
        blackout(&mut world, 1, Duration::from_millis(3500));
        assert_eq!(world.client.conn.state(), State::Opening);
        assert_eq!(world.server().conn.state(), State::HalfOpen);
        world.run();
        assert_graceful(&world);
    }
}

#[test]
fn nobody_there_is_found_out_after_the_opening_timeout() {
    let mut world = World::new(&scenario(100, 0), &mut Random::new(2));
    world.links[0].impairments_mut().loss = 1.0;
    let start = world.now;
    world.run();
    assert!(world.client.events.contains(&Event::TimedOut));
    let after = world.now - start;
    assert!((29..=31).contains(&after.as_secs()), "{after:?}");
}

#[test]
fn who_does_not_listen_refuses_and_a_lost_refusal_comes_again() {
    for lost_ms in [0, 2500] {
        let scenario =
            Scenario { told: Told { refuses: true, ..Told::default() }, ..scenario(100, 0) };
        let mut world = World::new(&scenario, &mut Random::new(2));
        blackout(&mut world, 1, Duration::from_millis(lost_ms));
        world.run();
        assert!(world.client.events.contains(&Event::Reset(ResetCause::Refused)));
        assert!(world.server.is_none());
    }
}

#[test]
fn a_context_whose_peer_vanishes_half_open_is_given_up_after_10_s() {
    let mut world = World::new(&scenario(100, 100), &mut Random::new(2));
    world.run_for(Duration::from_millis(15));
    world.links[0].impairments_mut().loss = 1.0;
    assert_eq!((world.server().conn.state(), world.listener.half_open()), (State::HalfOpen, 1));
    world.run_for(Duration::from_secs(9));
    assert_eq!(world.server().conn.state(), State::HalfOpen);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.server().conn.state(), State::Quiescent);
    assert!(world.server().events.contains(&Event::TimedOut));
    assert_eq!(world.listener.half_open(), 0);
}

#[test]
fn a_large_answer_waits_for_the_key_to_be_shown() {
    // The side asserts at each packet that no more leaves than came.
    let mut world = World::new(&scenario(100, 200_000), &mut Random::new(2));
    world.run_for(Duration::from_millis(15));
    assert_eq!(world.server().conn.state(), State::HalfOpen);
    assert!(world.server().counts.frames_sent <= 2);
    world.run();
    assert_graceful(&world);
}

#[test]
fn what_was_said_twice_is_answered_at_once_with_more() {
    for (first_flight_bytes, answered) in [(0, false), (2400, true)] {
        let mut scenario = scenario(300, 600);
        scenario.client.first_flight_bytes = first_flight_bytes;
        let mut world = World::new(&scenario, &mut Random::new(2));
        world.run_for(Duration::from_millis(25));
        assert_eq!(world.client.received.contiguous() == 600, answered, "{first_flight_bytes}");
        assert_eq!(world.client.account.firsts_sent, 1 + u64::from(answered));
        world.run();
        assert_graceful(&world);
        assert_eq!(world.client.conn.counters().retransmissions, 0);
    }
}

/// FIRST of somebody with this key, as the listener sees it.
fn first_of(
    cfg: &Config,
    n: u64,
    now: Instant,
) -> (Ends<fusewire_transport::xtp::Name>, fusewire_transport::xtp::Header) {
    let key = Key::new(0x1000 + n).unwrap();
    let mut conn = Connection::connect(cfg, key, SERVICE, now);
    let header = conn.poll_transmit(now).expect("FIRST").header;
    let remote = ([10, 1, (n >> 8) as u8, n as u8], 4000).into();
    (Ends { local: ([10, 0, 0, 1], 4433).into(), remote, flow: header.flow() }, header)
}

/// A packet without data arrives.
fn arrives(now: Instant, conn: &mut Connection, header: &fusewire_transport::xtp::Header) {
    let initial = conn.handle_initial(now, header, 0);
    conn.handle_final(now, header, &initial, Verdict::Control, false);
}

/// Whether FIRST opens a context; it was sent once, and comes again after its context has gone.
#[test]
fn a_first_that_comes_late_opens_no_second_context() {
    let (cfg, secrets) = (Config::default(), Secrets { isn: [1; 16], cookie: [2; 16] });
    for (shows_key, late_s, opens) in
        [(true, 1, false), (true, 59, false), (true, 61, true), (false, 1, true)]
    {
        let (mut listener, now) = (Listener::new(&cfg, 8, &secrets), Instant::from_ms(5000));
        let mut client = Connection::connect(&cfg, Key::new(0x1007).unwrap(), SERVICE, now);
        let first = client.poll_transmit(now).unwrap().header;
        let (ends, _) = first_of(&cfg, 7, now);
        let ListenerAction::Accept(mut server) = listener.handle_stray(now, &ends, &first, 0)
        else {
            panic!("a context");
        };
        listener.taken();
        arrives(now, &mut server, &first);
        if shows_key {
            arrives(now, &mut client, &server.poll_transmit(now).unwrap().header);
            arrives(now, &mut server, &client.poll_transmit(now).unwrap().header);
            assert_eq!(server.state(), State::Open);
        }
        server.abort();
        drop(server);
        let late = now + Duration::from_secs(late_s);
        let action = listener.handle_stray(late, &ends, &first, 0);
        assert_eq!(matches!(action, ListenerAction::Accept(_)), opens, "{shows_key} {late_s}");
        // Another's may have the same key.
        let remote = ([10, 1, 0, 8], 4000).into();
        let action = listener.handle_stray(late, &Ends { remote, ..ends }, &first, 0);
        assert!(matches!(action, ListenerAction::Accept(_)));
    }
}

#[test]
fn beyond_the_backlog_a_cookie_opens_with_all_data() {
    for_each_seed("beyond_the_backlog_a_cookie_opens_with_all_data", |_, random| {
        let lossy = Impairments { loss: 0.2, ..link() };
        let mut scenario = scenario(random.below(60_000), random.below(9000));
        scenario.backlog = 4;
        let config = crate::loss::patient(Config::default());
        (scenario.client, scenario.server) = (config.clone(), config);
        scenario.links = [lossy.clone(), lossy];
        let mut world = World::new(&scenario, random);
        let mut held = Vec::new();
        for n in 0..100 {
            let (ends, header) = first_of(&Config::default(), n, world.now);
            match world.listener.handle_stray(world.now, &ends, &header, 0) {
                ListenerAction::Accept(conn) => {
                    world.listener.taken();
                    held.push(conn);
                }
                ListenerAction::Reply(reply) => {
                    let Body::Tcntl(tcntl) = reply.body else { panic!("{reply:?}") };
                    assert_eq!((tcntl.control.alloc, tcntl.control.rseq), (0, 0));
                    assert!(reply.packet_len() <= header.packet_len(), "amplifies");
                }
                ListenerAction::Drop(cause) => panic!("{cause:?}"),
            }
        }
        assert_eq!((held.len(), world.listener.half_open()), (4, 4));
        world.run();
        assert_graceful(&world);
        assert_eq!(world.listener.cookies().1, 1);
        drop(held);
        assert_eq!(world.listener.half_open(), 0);
    });
}

#[test]
fn first_says_what_is_below_and_is_refused_where_it_lies() {
    let cfg = Config::default();
    let secrets = Secrets { isn: [1; 16], cookie: [2; 16] };
    let now = Instant::from_ms(77);
    let addr = |text: &str| text.parse::<std::net::SocketAddr>().unwrap();
    let (v4, v6) = (addr("10.0.0.1:0"), addr("[fd00::1]:0"));
    for (local, remote) in
        [(v4, "10.0.0.2:7"), (v4, "10.0.0.2:0"), (v6, "[fd00::2]:7"), (v6, "[fd00::2]:0")]
    {
        let remote = addr(remote);
        let mut listener = Listener::new(&cfg, 8, &secrets);
        let (ends, _) = first_of(&cfg, 1, now);
        // As the initiator sees it.
        let theirs = std::net::SocketAddr::new(local.ip(), remote.port());
        let theirs = Ends { local: remote, remote: theirs, ..ends };
        let mut conn = cfg.connect(&theirs, SERVICE, &[3; 16], now);
        let header = conn.poll_transmit(now).expect("FIRST").header;
        let Body::First(first) = header.body else { panic!("{header:?}") };
        assert_eq!(first.address, Address::towards(remote, SERVICE));
        let ends = Ends { local, remote, flow: header.flow() };
        let (dsthost, srchost) = ([10, 0, 0, 1].into(), [10, 0, 0, 3].into());
        let lies = Address::V4 { dsthost, srchost, dstport: SERVICE, srcport: 0 };
        let is_ipv6 = matches!(first.address, Address::V6 { .. });
        let reason = if is_ipv6 { Reason::AddressFormat } else { Reason::MalformedAddress };
        let body = Body::First(fusewire_wire::xtp::First { address: lies, ..first });
        let lying = fusewire_transport::xtp::Header { body, ..header };
        let ListenerAction::Reply(reply) = listener.handle_stray(now, &ends, &lying, 0) else {
            panic!("{remote} may be anybody");
        };
        let diag = Diag { code: Code::ContextRefused, reason };
        assert!(matches!(reply.body, Body::Diag(said) if said == diag), "{reply:?}");
        let action = listener.handle_stray(now, &ends, &header, 0);
        assert!(matches!(action, ListenerAction::Accept(_)), "{action:?}");
    }
}

#[test]
fn a_forged_cookie_opens_nothing() {
    let cfg = Config::default();
    let secrets = Secrets { isn: [1; 16], cookie: [2; 16] };
    let mut listener = Listener::new(&cfg, 1, &secrets);
    let now = Instant::from_ms(77);
    let mut held = None;
    let mut cookie = None;
    for n in 0..2 {
        let (ends, header) = first_of(&cfg, n, now);
        match listener.handle_stray(now, &ends, &header, 0) {
            ListenerAction::Accept(conn) => held = Some(conn),
            ListenerAction::Reply(reply) => cookie = Some((ends, header, reply)),
            ListenerAction::Drop(cause) => panic!("{cause:?}"),
        }
        listener.taken();
    }
    let (ends, header, reply) = cookie.expect("the second got one");
    let Body::Tcntl(tcntl) = reply.body else { panic!() };
    let Body::First(first) = header.body else { panic!() };
    let own = header.key;
    let again = |key: Key, xkey: Key| {
        let body = Body::First(fusewire_wire::xtp::First { xkey: Some(xkey), ..first });
        fusewire_transport::xtp::Header { key, returned: true, body, ..header }
    };
    let other = Key::new(own.bits() ^ 1).unwrap();
    let opens = |listener: &mut Listener, ends: &Ends<_>, h: &_| {
        matches!(listener.handle_stray(now, ends, h, 0), ListenerAction::Accept(_))
    };
    for bit in 0..63 {
        let key = Key::new(tcntl.xkey.bits() ^ 1 << bit).unwrap();
        assert!(!opens(&mut listener, &ends, &again(key, own)), "bit {bit}");
    }
    assert!(!opens(&mut listener, &ends, &again(tcntl.xkey, other)), "another's key");
    let elsewhere = Ends { remote: ([10, 9, 9, 9], 1).into(), ..ends };
    assert!(!opens(&mut listener, &elsewhere, &again(tcntl.xkey, own)), "another's address");
    assert!(opens(&mut listener, &ends, &again(tcntl.xkey, own)));
    listener.taken();
    assert!(!opens(&mut listener, &ends, &again(tcntl.xkey, own)), "a second time");
    drop(held);
}

#[test]
fn a_flood_of_firsts_keeps_no_more_than_the_backlog() {
    let cfg = Config::default();
    let secrets = Secrets { isn: [1; 16], cookie: [2; 16] };
    let mut listener = Listener::new(&cfg, 16, &secrets);
    let mut held = Vec::new();
    for n in 0..10_000 {
        let now = Instant::from_us(n);
        let (ends, header) = first_of(&cfg, n, now);
        if let ListenerAction::Accept(conn) = listener.handle_stray(now, &ends, &header, 0) {
            listener.taken();
            held.push(conn);
        }
        assert!(listener.half_open() <= 16);
    }
    assert_eq!((held.len(), listener.cookies_given()), (16, 10_000 - 16));
}

#[test]
fn keys_differ_and_a_name_is_returned() {
    let cfg = Config::default();
    let names: std::collections::HashSet<_> =
        (0..1000).map(|n| cfg.flow_to(7, n, &[3; 16], Instant::from_ms(5))).collect();
    assert_eq!(names.len(), 1000);
    assert!(names.iter().all(|name| name.returned));
}

#[test]
fn an_application_that_says_nothing_still_opens() {
    let idle = App { finishes: false, ..sends(0) };
    let mut scenario = scenario(0, 0);
    (scenario.client_app, scenario.server_app) = (idle.clone(), idle);
    let mut world = World::new(&scenario, &mut Random::new(2));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server().conn.state(), State::Open, "{}", world.describe());
    assert_eq!(world.client.conn.state(), State::Open);
    // Both ask when nothing comes for long, and go on.
    world.run_for(Duration::from_secs(600));
    assert_eq!(world.client.conn.state(), State::Open, "{}", world.describe());
    world.links[1].impairments_mut().loss = 1.0;
    world.run_for(Duration::from_secs(300));
    assert!(world.client.events.contains(&Event::TimedOut), "{}", world.describe());
}
