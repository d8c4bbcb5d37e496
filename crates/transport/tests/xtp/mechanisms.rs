//! What the application chooses: what is sent again, who is told of gaps, messages behind a gap.

use core::time::Duration;

use fusewire_testkit::{Impairments, Random, for_each_seed};
use fusewire_transport::congestion::Algorithm;
use fusewire_transport::machine::DropCause;
use fusewire_transport::xtp::{Config, Connection, Header, Retransmission, SPANS};
use fusewire_wire::xtp::{Body, Code, Diag, Options, Reason, SpanList};

use crate::account::{Scenario, Told, World, assert_graceful};
use crate::frame::Frame;
use crate::hot_path::{open, take};
use crate::loss;
use crate::rules::{BEGAN, NOW, exchange, packet};
use crate::thin::{link, sends};
use crate::two_ends::{App, any_link};

fn lossy(loss: f64) -> [Impairments; 2] {
    [Impairments { loss, ..link() }, link()]
}

fn both(config: &Config) -> (Config, Config) {
    let config = loss::patient(config.clone());
    (config.clone(), config)
}

#[test]
fn go_back_n_sends_again_what_came() {
    let modes = [Retransmission::SelectiveRepeat, Retransmission::GoBackN];
    let [selective, back] = modes.map(|retransmission| {
        let config = Config { retransmission, congestion: None, ..Config::default() };
        let (client, server) = both(&config);
        let slow = Impairments { rate: Some(100_000), loss: 0.02, ..link() };
        let scenario = Scenario {
            client,
            server,
            client_app: App { adu: 1000..1001, ..sends(100_000) },
            links: [slow, link()],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, &mut Random::new(12));
        world.run();
        assert_graceful(&world);
        (world.client.counts.retransmitted, world.links[0].counts().lost)
    });
    println!("{selective:?} sent again and lost, {back:?}");
    assert!(selective.0 <= selective.1, "{selective:?}");
    assert!(back.0 > 40, "all that was under way: {back:?}");
}

#[test]
fn fastnak_tells_of_a_gap_before_anybody_asks() {
    // A slow link and a large window: without FASTNAK nobody hears of a gap before the sender asks at the end.
    let [told, asked] = [true, false].map(|fastnak| {
        let config = Config { fastnak, tail_probe: false, congestion: None, ..Config::default() };
        let (client, server) = both(&config);
        let slow = Impairments { rate: Some(100_000), loss: 0.03, ..link() };
        let scenario = Scenario {
            client,
            server,
            client_app: App { adu: 1000..1001, ..sends(100_000) },
            links: [slow, link()],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, &mut Random::new(11));
        let start = world.now;
        let mut first = None;
        world.run_with(|world| {
            if first.is_none() && world.client.counts.retransmitted > 0 {
                first = Some(world.now - start);
            }
        });
        assert_graceful(&world);
        first.expect("something is lost")
    });
    println!("sent again after {told:?}, or {asked:?}");
    assert!(told < asked / 2, "{told:?} {asked:?}");
}

#[test]
fn messages_overtake_each_other_when_they_may() {
    let mut overtaken = 0;
    for_each_seed("messages_overtake_each_other_when_they_may", |_, random| {
        let config = Config { messages: true, btag: true, ..Config::default() };
        let (client, server) = both(&config);
        let app = App { adu: 1..6000, ..sends(150_000) };
        let scenario = Scenario {
            client,
            server,
            client_app: app.clone(),
            server_app: app,
            links: [any_link(random), any_link(random)],
            told: Told { overtaking: true, ..Told::default() },
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
        assert_graceful(&world);
        let server = world.server();
        for (sender, receiver) in [(&world.client, server), (server, &world.client)] {
            let mut told: Vec<_> =
                receiver.account.messages.iter().map(|m| m.range.clone()).collect();
            overtaken += told.windows(2).filter(|w| w[0].start > w[1].start).count();
            told.sort_by_key(|range| range.start);
            assert_eq!(told, sender.account.sent_messages);
            for message in &receiver.account.messages {
                assert_eq!(message.tag, Some(message.range.start ^ 0x5555), "{message:?}");
            }
        }
    });
    assert!(overtaken > 0, "none has overtaken another");
}

#[test]
fn more_messages_than_are_remembered_come_again() {
    let config = Config { messages: true, max_packets_in_flight: 20_000, ..Config::default() };
    let (client, server) = both(&config);
    let scenario = Scenario {
        client,
        server,
        client_app: App { adu: 1..4, ..sends(20_000) },
        server_app: App { stall: Duration::from_secs(5), stall_chance: 1.0, ..sends(0) },
        links: [link(), link()],
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, &mut Random::new(5));
    world.run();
    assert_graceful(&world);
    let server = world.server();
    let told: Vec<_> = server.account.messages.iter().map(|m| m.range.clone()).collect();
    assert_eq!(told, world.client.account.sent_messages);
    let refused = server.conn.counters().dropped(DropCause::NoMemory);
    assert!(refused > 0, "{}", world.describe());
}

/// What begins with a tag is remembered as what ends is, and no more of it: here each byte that comes, the last first.
#[test]
fn more_tags_than_are_remembered_are_not_taken() {
    let cfg = Config { messages: true, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    for seq in (2..20_000).rev() {
        let data = packet(&b, sync, seq, 1, Body::Data { btag: Some(seq) });
        take(&mut b, NOW, &data);
    }
    assert!(b.counters().dropped(DropCause::NoMemory) > 0);
}

/// A lost message that many others have overtaken is taken when it comes, however many they were.
#[test]
fn what_fills_a_gap_is_taken_whatever_is_remembered() {
    let cfg = Config { messages: true, ..Config::default() };
    let (mut a, mut b) = open(&cfg, BEGAN);
    let (sync, _) = exchange(&mut a, &mut b);
    let message = |b: &Connection, seq| {
        let data = packet(b, sync, seq, 1, Body::Data { btag: None });
        Header { options: Options::EOM, ..data }
    };
    for seq in 2..10_000 {
        let data = message(&b, seq);
        take(&mut b, NOW, &data);
    }
    assert!(b.counters().dropped(DropCause::NoMemory) > 0);
    let lost = message(&b, 1);
    take(&mut b, NOW, &lost);
    assert!(b.rcv_nxt_offset() > 1000, "{}", b.rcv_nxt_offset());
}

#[test]
fn noerr_sends_nothing_again_and_gaps_are_told() {
    let (mut runs, mut asked) = (0, 0);
    for_each_seed("noerr_sends_nothing_again_and_gaps_are_told", |_, random| {
        let config = Config { noerr: true, passes_gaps: true, fastnak: false, ..Config::default() };
        let (client, server) = both(&config);
        let scenario = Scenario {
            client,
            server,
            client_app: sends(300_000),
            links: lossy(0.05),
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, random);
        world.run();
        assert_eq!(world.client.acked, 300_000, "{}", world.describe());
        // FIRST alone goes again, for there is nobody yet who could pass over it.
        assert!(world.client.counts.retransmitted <= 12, "{}", world.describe());
        let server = world.server();
        assert_eq!(server.peer_finished, Some(300_000));
        let missing: u64 = server.account.missing.iter().map(|r| r.end - r.start).sum();
        let came: u64 = server.received.iter().map(|r| r.end - r.start).sum();
        assert_eq!(missing + came, 300_000, "{}", world.describe());
        assert!(world.client.is_closed && server.is_closed);
        let counters = world.client.conn.counters();
        (runs, asked) = (runs + 1, asked + counters.timeouts + counters.tail_loss_probes);
    });
    // What came behind a gap passed over it: nobody had to ask, but where the last was lost.
    assert!(4 * asked <= runs.max(4), "{asked} questions in {runs} runs");
}

#[test]
fn the_path_becomes_narrower_under_way() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr] {
        let config = Config { congestion: Some(algorithm), ..Config::default() };
        let (client, server) = both(&config);
        let scenario = Scenario {
            client,
            server,
            client_app: App { adu: 1..5000, ..sends(1_000_000) },
            links: [link(), link()],
            ..Scenario::default()
        };
        let mut world = World::new(&scenario, &mut Random::new(3));
        world.run_for(Duration::from_millis(55));
        world.links[0].impairments_mut().mtu_bytes = 1000;
        world.run_for(Duration::from_millis(25));
        world.client.conn.set_tpdu_len(900);
        world.client.conn.resend_all(world.now);
        world.run();
        assert_graceful(&world);
    }
}

/// A packet without data, or with some, for the other end: the key is right.
fn for_server(world: &World, data_len: usize, body: Body<SpanList<SPANS>>) -> Frame {
    let header = Header {
        key: world.server().conn.key(),
        returned: true,
        options: Options::NONE,
        check: 0,
        sort: 0,
        sync: world.client.account.last_sync,
        seq: world.server().conn.rcv_nxt_offset(),
        data_len: data_len as u32,
        body,
    };
    Frame::forged(&header, &vec![0; data_len])
}

#[test]
fn packets_become_smaller_when_they_are_too_large() {
    let config = Config { tpdu_len: 600, send_tpdu_len: 1472, ..Config::default() };
    let idle = App { finishes: false, ..sends(100) };
    let scenario = Scenario {
        client: config.clone(),
        server: config,
        client_app: idle.clone(),
        server_app: idle,
        links: [link(), link()],
        ..Scenario::default()
    };
    let mut world = World::new(&scenario, &mut Random::new(3));
    world.run();
    assert_eq!(world.server().conn.info().max_payload, 568);
    // What is larger is not taken, and said to be so; the other end has heard it already.
    let large = for_server(&world, 569, Body::Data { btag: None });
    let diags = |world: &World| {
        let sent = world.recorded.iter().flatten();
        sent.filter(|f| matches!(f.parse().unwrap().0.body, Body::Diag(_))).count()
    };
    world.recorded = Some(Vec::new());
    let now = world.now;
    world.server.as_mut().unwrap().receive(&large, now);
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.server().conn.rcv_nxt_offset(), 100);
    assert_eq!((diags(&world), world.client.conn.info().max_payload), (1, 568));
    // Smaller it becomes, larger it does not.
    for (said, now_is) in [(569, 568), (511, 568), (520, 520), (560, 520), (512, 512)] {
        let reason = Reason::from_number(said);
        let diag = Body::Diag(Diag { code: Code::MaximumPacketSize, reason });
        let (frame, now) = (for_server(&world, 0, diag), world.now);
        world.server.as_mut().unwrap().receive(&frame, now);
        assert_eq!(world.server().conn.info().max_payload, now_is, "{said}");
    }
}
