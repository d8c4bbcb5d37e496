//! `ss --trace` on contexts of XTP and on both ends of a group, while they work.

mod support;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fusewire_device::impair::{Impair, Rules};
use fusewire_device::udp::{self, Udp};
use fusewire_stack::context::{
    About, Config, Context, Contexts, ControlBlock, Event, Kept, Kind, Secrets,
};
use fusewire_stack::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use serde_json::Value;
use support::{Done, World};

const LONG: Duration = Duration::from_secs(50);
/// Of a stream: one packet each.
const MESSAGES: usize = 40;

/// What `ss --trace` says of this process, while `drive` is called over and over.
fn seen(world: &World, mut drive: impl FnMut()) -> Vec<Value> {
    let args = ["ss", "--json", "--trace", "--protocol", "xtp", &std::process::id().to_string()];
    let mut command = world.command("alice", &args);
    let child = command.env("XDG_RUNTIME_DIR", world.path("run")).spawn().unwrap();
    let done = std::thread::scope(|s| {
        let waits = s.spawn(|| Done::of(child));
        while !waits.is_finished() {
            drive();
        }
        waits.join().unwrap()
    });
    assert_eq!(done.code, 0, "{}", done.err);
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find<'a>(sockets: &'a [Value], service: &str, state: &str) -> &'a Value {
    let is_it = |s: &&Value| s["names"]["service"] == service && s["state"] == state;
    sockets.iter().find(is_it).unwrap_or_else(|| panic!("no {service} {state}: {sockets:#?}"))
}

/// The lines of its trace that have these words, and a flag.
fn count(socket: &Value, what: &str, flag: &str) -> usize {
    let trace = socket["trace"].as_array().unwrap();
    let has = |s: &&Value| s["what"].as_str().unwrap().starts_with(what);
    trace.iter().filter(has).filter(|s| s["flags"].as_str().unwrap().contains(flag)).count()
}

/// Contexts over a link that loses, repeats and spoils packets.
fn over_udp(seed: u8) -> Contexts {
    let device = Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap();
    let config = Config::default();
    let clock = config.clock.clone();
    let rules = Rules { loss: 0.2, duplicate: 0.2, corrupt: 0.2, ..Rules::NONE };
    let link = Impair::new(device, rules, Rules::NONE, seed.into(), move || clock.now());
    let mut contexts = Contexts::new(Box::new(link), config, &[seed; 32]);
    contexts.observe().unwrap();
    contexts
}

fn open(from: &mut Contexts, at: SocketAddr, service: u16, kind: Kind, message: &[u8]) -> Context {
    let context = from.context(ControlBlock { kind, ..ControlBlock::default() }).unwrap();
    from.connect(context, at, service).unwrap();
    assert!(from.send(context, &[IoSlice::new(message)], About::default()).unwrap());
    context
}

fn contexts(world: &World) {
    let (mut server, mut client) = (over_udp(1), over_udp(2));
    let at = server.local_addr();
    let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
    for (service, kind) in [(7, Kind::Stream), (8, Kind::Transaction)] {
        let block = ControlBlock { kind, ..ControlBlock::default() };
        server.listen(service, block, &secrets);
    }
    let stream = open(&mut client, at, 7, Kind::Stream, &[7; 1000]);
    for _ in 1..MESSAGES {
        assert!(client.send(stream, &[IoSlice::new(&[7; 1000])], About::default()).unwrap());
    }
    open(&mut client, at, 8, Kind::Transaction, b"what is it?");
    open(&mut client, at, 8, Kind::Transaction, b"and this?");
    let (mut asked, mut answered) = (0, 0);
    let mut drive = || {
        client.poll(&mut Kept).unwrap();
        server.poll(&mut Kept).unwrap();
        while let Some((context, event)) = server.poll_event() {
            if !matches!(event, Event::Accepted { service: 8 }) {
                continue;
            }
            asked += 1;
            // One is answered, the other waits.
            if asked == 1 {
                assert!(server.send(context, &[IoSlice::new(b"this")], About::default()).unwrap());
            }
        }
        while let Some((_, event)) = client.poll_event() {
            answered += usize::from(matches!(event, Event::Message(_)));
        }
        client.unsent(stream) == 0 && asked == 2 && answered == 1
    };
    let end = Instant::now() + LONG;
    while !drive() {
        assert!(Instant::now() < end);
    }
    let sockets = seen(world, || _ = drive());
    let streams: Vec<_> = sockets.iter().filter(|s| s["names"]["service"] == "stream").collect();
    let (from, to): (Vec<&Value>, Vec<&Value>) =
        streams.iter().filter(|s| s["state"] == "OPEN").partition(|s| s["recv_queue"] == 0);
    let (from, to) = (from[0], to[0]);
    assert!(count(from, "sent", "M") > 0 && count(from, "retransmission (", "") > 0, "{from:#}");
    assert!(count(from, "received", "") > 0, "{from:#}");
    assert_eq!(to["recv_queue"], 1000 * MESSAGES, "{to:#}");
    assert!(count(to, "received", "") > 5 && count(to, "sent", "") > 0, "{to:#}");
    assert!(count(to, "received before", "") + count(to, "out of order, held", "") > 0, "{to:#}");
    assert!(count(to, "dropped: checksum", "") > 0, "{to:#}");

    // A service shows all of what came and was answered; a request, and who asks, their own.
    let service = find(&sockets, "transaction", "LISTEN");
    assert!(count(service, "received", "D") >= 2 && count(service, "sent", "") >= 1, "{service:#}");
    let open = sockets.iter().filter(|s| s["names"]["service"] == "transaction");
    let open: Vec<_> = open.filter(|s| s["state"] == "OPEN" || s["state"] == "OPENING").collect();
    let asked = open.iter().find(|s| s["recv_queue"].as_u64() > Some(5)).unwrap();
    assert!(count(asked, "received", "D") >= 1 && count(asked, "sent", "") == 0, "{asked:#}");
    assert!(asked["trace"].as_array().unwrap().len() < service["trace"].as_array().unwrap().len());
    let asks = open.iter().find(|s| s["recv_queue"] == 0).unwrap();
    assert!(count(asks, "sent", "D") >= 1, "{asks:#}");
}

fn both_ends_of_a_group(world: &World) {
    let pid = std::process::id();
    let group: SocketAddr = ([239, 253, (pid >> 8) as u8, pid as u8], 20_200).into();
    let interface = Some("lo".to_string());
    let config = ReceiverConfig { interface: interface.clone(), ..ReceiverConfig::new(group) };
    let mut receiver = Receiver::open(&config).unwrap();
    let local = ([127, 0, 0, 1], 0).into();
    let config = SenderConfig { interface, local, ..SenderConfig::new(group) };
    let mut sender = Sender::open(&config).unwrap();
    sender.observe().unwrap();
    receiver.observe().unwrap();
    let mut taken = 0;
    let mut drive = || {
        sender.drive(Some(Duration::from_millis(1))).unwrap();
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Asked { ask, .. } = event {
                sender.accept(ask).unwrap().unwrap();
            }
        }
        if taken < 20 && sender.members().any(|member| member.is_confirmed) {
            sender.send(5000, |_, bytes| bytes.fill(5)).unwrap();
        }
        receiver.drive(Some(Duration::from_millis(1))).unwrap();
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = &event {
                receiver.join(heard, 77).unwrap();
            }
        }
        while receiver.recv(|_, _| ()).is_some() {
            taken += 1;
        }
        taken
    };
    let end = Instant::now() + LONG;
    while drive() < 20 {
        assert!(Instant::now() < end);
    }
    let sockets = seen(world, || _ = drive());
    let ends: Vec<_> = sockets.iter().filter(|s| s["id"] == "group").collect();
    let (sender, receiver): (Vec<&Value>, Vec<&Value>) =
        ends.iter().partition(|s| s["remote"] == group.to_string());
    let (sender, receiver) = (sender[0], receiver[0]);
    assert!(count(sender, "sent", "M") > 5 && count(sender, "received", "") > 0, "{sender:#}");
    // All of it was acknowledged: nothing waits.
    assert!(sender["transport"]["bytes_acked"].as_u64() >= Some(100_000), "{sender:#}");
    assert_eq!(sender["send_queue"], 0, "{sender:#}");
    // What governs it is told as it is, of who only receives nothing.
    assert_eq!(sender["transport"]["congestion_control"], "bbr", "{sender:#}");
    assert!(sender["transport"]["rtt_us"].as_u64() > Some(0), "{sender:#}");
    assert_eq!(receiver["transport"]["congestion_control"], "", "{receiver:#}");
    assert!(
        count(receiver, "received", "M") > 5 && count(receiver, "sent", "") > 0,
        "{receiver:#}"
    );
}

#[test]
fn contexts_and_groups_show_what_they_did_last() {
    let world = World::new();
    let run = world.path("run");
    std::fs::create_dir(&run).unwrap();
    fusewire_view::place::choose(run.join("fusewire"));
    contexts(&world);
    both_ends_of_a_group(&world);
}
