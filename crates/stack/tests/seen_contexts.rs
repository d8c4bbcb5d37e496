//! Contexts, and both ends of a group, as those see them who look on: in views, and in captures that Wireshark reads.

use std::io::IoSlice;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fusewire_device::pcapng::read::Splitter;
use fusewire_device::udp::{self, Udp};
use fusewire_stack::context::{
    About, Config, Context, Contexts, ControlBlock, Event, Kept, Kind, Secrets,
};
use fusewire_stack::group::{
    Receiver, ReceiverConfig, ReceiverEvent, Sender, SenderConfig, SenderEvent,
};
use fusewire_testkit::wireshark;
use fusewire_view::{Report, Socket, Stack, client, place};

/// Bytes before IP's header.
const ETHERNET: usize = 14;
const LONG: Duration = Duration::from_secs(60);

fn report() -> Report {
    client::processes().remove(0).report().unwrap()
}

fn socket<'a>(stack: &'a Stack, service: &str, state: &str) -> &'a Socket {
    let is_it = |s: &&Socket| s.names.get("service").is_some_and(|is| is == service);
    let found = stack.sockets.iter().filter(is_it).find(|s| s.state == state);
    found.unwrap_or_else(|| panic!("no {service} {state}: {:#?}", stack.sockets))
}

/// Runs `drive` over and over until `look` has seen enough from another thread.
fn looking<T: Send>(drive: impl FnMut(), look: impl FnOnce() -> T + Send) -> T {
    let mut drive = drive;
    std::thread::scope(|s| {
        let looks = s.spawn(look);
        while !looks.is_finished() {
            drive();
        }
        looks.join().unwrap()
    })
}

/// What is captured of a stack while `while_it` lasts: packets from IP's header on, and comments.
fn captured(stack: u32, while_it: impl FnOnce()) -> (Vec<Vec<u8>>, Vec<String>) {
    let mut capturing = client::processes().remove(0).capture(stack, None).unwrap();
    let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 1 << 16]);
    let len = capturing.read(&mut buffer).unwrap();
    splitter.push(&buffer[..len]);
    while_it();
    capturing.stop().unwrap();
    let mut rest = Vec::new();
    capturing.read_to_end(&mut rest).unwrap();
    splitter.push(&rest);
    let (mut packets, mut comments) = (Vec::new(), Vec::new());
    while let Some(block) = splitter.next().unwrap() {
        if let Some((bytes, comment)) = block.packet() {
            packets.push(bytes[ETHERNET..].to_vec());
            comments.extend(comment.map(str::to_string));
        }
    }
    (packets, comments)
}

/// Wireshark reads all of it, and checks it. The dissector's own faults are not of the kind that it calls malformed.
fn dissected(name: &str, packets: &[Vec<u8>]) -> Vec<String> {
    let names = ["xtp.key", "xtp.checksum.status", "_ws.malformed", "xtp.cmd.options.multi"];
    let rows = wireshark::fields(name, packets, &[], &names).unwrap_or_default();
    for (row, packet) in rows.iter().zip(packets) {
        assert!(row[0].starts_with("0x"), "{row:?}: {packet:02x?}");
        assert_eq!((row[1].as_str(), row[2].as_str()), ("1", ""), "{packet:02x?}");
    }
    rows.into_iter().map(|mut row| row.swap_remove(3)).collect()
}

struct Pair {
    server: Contexts,
    client: Contexts,
    at: SocketAddr,
    /// Streams of the server's.
    streams: Vec<Context>,
    requests: Vec<Context>,
}

impl Pair {
    fn new() -> Pair {
        let device = || {
            let any = "127.0.0.1:0".parse().unwrap();
            Box::new(Udp::bind(any, &udp::Config::default()).unwrap())
        };
        let mut server = Contexts::new(device(), Config::default(), &[1; 32]);
        let client = Contexts::new(device(), Config::default(), &[2; 32]);
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        for (service, kind) in [(7, Kind::Stream), (8, Kind::Transaction)] {
            let block = ControlBlock { kind, ..ControlBlock::default() };
            server.listen(service, block, &secrets);
        }
        let at = server.local_addr();
        Pair { server, client, at, streams: Vec::new(), requests: Vec::new() }
    }

    fn open(&mut self, service: u16, kind: Kind, message: &[u8]) {
        let block = ControlBlock { kind, ..ControlBlock::default() };
        let context = self.client.context(block).unwrap();
        self.client.connect(context, self.at, service).unwrap();
        assert!(self.client.send(context, &[IoSlice::new(message)], About::default()).unwrap());
    }

    /// Messages stay where they are.
    fn drive(&mut self) {
        self.client.poll(&mut Kept).unwrap();
        self.server.poll(&mut Kept).unwrap();
        while let Some((context, event)) = self.server.poll_event() {
            match event {
                Event::Accepted { service: 7 } => self.streams.push(context),
                Event::Accepted { .. } => self.requests.push(context),
                _ => {}
            }
        }
        while self.client.poll_event().is_some() {}
    }
}

fn contexts() {
    let mut pair = Pair::new();
    pair.server.observe().unwrap();
    pair.open(7, Kind::Stream, &[7; 50_000]);
    pair.open(8, Kind::Transaction, b"what is it?");
    let end = Instant::now() + LONG;
    while pair.streams.is_empty()
        || pair.requests.is_empty()
        || pair.client.unsent(pair.streams[0]) > 0
    {
        assert!(Instant::now() < end);
        pair.drive();
    }
    for _ in 0..100 {
        pair.drive();
    }
    let seen = looking(|| pair.drive(), report);
    let stack = &seen.stacks[0];
    assert!(stack.answered && stack.device == "udp", "{stack:?}");
    for (service, port) in [("stream", "7"), ("transaction", "8")] {
        assert_eq!(socket(stack, service, "LISTEN").names["port"], port);
    }
    let open = socket(stack, "stream", "OPEN");
    assert!(open.protocol == "xtp" && open.recv_queue == 50_000, "{open:?}");
    let keys = ["key", "peer_key"].map(|name| u64::from_str_radix(&open.names[name], 16).unwrap());
    assert!(keys[0] != keys[1] && keys.iter().all(|key| (1..1 << 63).contains(key)), "{keys:x?}");
    assert_eq!(open.transport.as_ref().unwrap().bytes_received, 50_000);
    let asked = socket(stack, "transaction", "OPEN");
    assert_eq!((asked.recv_queue, asked.remote), (11, Some(pair.client.local_addr())));
    assert!(stack.counters["xtp_bytes_received"] >= 50_000);
    assert_eq!((stack.counters["messages_received"], stack.counters["messages_answered"]), (1, 0));

    // Every packet of a message each way, and one that is nobody's.
    let is_captured = AtomicBool::new(false);
    let (packets, comments) = looking(
        || {
            pair.drive();
            if is_captured.swap(false, Ordering::Relaxed) {
                let request = pair.requests.pop().unwrap();
                let answer = [IoSlice::new(&[9; 4000])];
                assert!(pair.server.send(request, &answer, About::default()).unwrap());
                pair.open(8, Kind::Transaction, b"and this?");
                pair.open(7, Kind::Stream, &[1; 9000]);
                pair.open(99, Kind::Transaction, b"anybody?");
            }
        },
        || {
            captured(0, || {
                is_captured.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(300));
            })
        },
    );
    assert!(packets.len() >= 7, "{}", packets.len());
    assert!(comments.iter().any(|c| c.starts_with("dropped: ")), "{comments:?}");
    dissected("contexts", &packets);

    // What is refused is counted by cause: a service of another kind, and one that nobody has.
    pair.open(7, Kind::Transaction, b"a stream's service");
    let end = Instant::now() + LONG;
    let refused = loop {
        assert!(Instant::now() < end);
        let seen = looking(|| pair.drive(), report);
        if let Some(refused) = seen.stacks[0].drops.get("xtp-refused") {
            break (*refused, seen.stacks[0].drops["transport-stray"]);
        }
    };
    assert!(refused.0 >= 1 && refused.1 >= 1, "{refused:?}");
}

fn both_ends_of_a_group() {
    let pid = std::process::id();
    let group: SocketAddr = ([239, 254, (pid >> 8) as u8, pid as u8], 20_100).into();
    let interface = Some("lo".to_string());
    let config = ReceiverConfig { interface: interface.clone(), ..ReceiverConfig::new(group) };
    let mut receiver = Receiver::open(&config).unwrap();
    let local = ([127, 0, 0, 1], 0).into();
    let config = SenderConfig { interface, local, ..SenderConfig::new(group) };
    let mut sender = Sender::open(&config).unwrap();
    sender.observe().unwrap();
    receiver.observe().unwrap();
    let (key, mut sent, mut taken) = (sender.key(), 0u32, 0);
    let mut drive = || {
        sender.drive(Some(Duration::from_millis(1))).unwrap();
        while let Some(event) = sender.poll_event() {
            if let SenderEvent::Asked { ask, .. } = event {
                sender.accept(ask).unwrap().unwrap();
            }
        }
        if sender.members().any(|member| member.is_confirmed)
            && sender.send(5000, |_, bytes| bytes.fill(5)).unwrap().is_some()
        {
            sent += 1;
        }
        receiver.drive(Some(Duration::from_millis(1))).unwrap();
        while let Some(event) = receiver.poll_event() {
            if let ReceiverEvent::Heard(heard) = &event {
                receiver.join(heard, 77).unwrap();
            }
        }
        while receiver.recv(|_, bytes| assert_eq!(bytes, [5; 5000])).is_some() {
            taken += 1;
        }
        taken
    };
    let end = Instant::now() + LONG;
    while drive() < 20 {
        assert!(Instant::now() < end);
    }
    let seen = looking(|| _ = drive(), report);
    assert_eq!(seen.stacks.len(), 2);
    let [of_sender, of_receiver] = [&seen.stacks[0], &seen.stacks[1]];
    let stream = socket(of_sender, "multicast", "OPEN");
    assert_eq!((stream.remote, &stream.names["key"]), (Some(group), &format!("{key:016x}")));
    assert_eq!(stream.names["members"], "1");
    let member = of_sender.sockets.iter().find(|s| s.names.contains_key("peer_key")).unwrap();
    assert_eq!(
        (member.state.as_str(), &member.names["peer_key"]),
        ("OPEN", &format!("{:016x}", 77))
    );
    assert!(member.transport.as_ref().unwrap().bytes_acked > 50_000, "{member:?}");
    assert!(of_sender.counters["xtp_segments_sent"] > 60, "{:?}", of_sender.counters);
    let read = socket(of_receiver, "multicast", "OPEN");
    assert!(read.remote.is_some() && read.transport.as_ref().unwrap().bytes_received > 90_000);

    for stack in [0, 1] {
        let id = seen.stacks[stack].id;
        let look = || captured(id, || std::thread::sleep(Duration::from_millis(200)));
        let (packets, _) = looking(|| _ = drive(), look);
        assert!(packets.len() > 20, "{}", packets.len());
        let multi = dissected("groups", &packets);
        assert!(multi.iter().all(|set| set == "1" || set == "True"), "{multi:?}");
    }
}

#[test]
fn contexts_and_groups_are_seen() {
    let folder = std::env::temp_dir().join(format!("fusewire-contexts-{}", std::process::id()));
    place::choose(folder.clone());
    contexts();
    both_ends_of_a_group();
    let _ = std::fs::remove_dir_all(folder);
}
