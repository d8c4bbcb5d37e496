//! XTP as those see it who look on: a capture that Wireshark reads, the names and counters of a view.

use std::time::Duration;

use fusewire_device::capture::feed::{Next, Options};
use fusewire_device::impair::Rules;
use fusewire_device::pcapng::read::Splitter;
use fusewire_stack::Config;
use fusewire_testkit::wireshark;
use fusewire_transport::either::{self, Protocol};
use fusewire_view::{client, place};

use crate::world::{World, close, small, transfer};

/// Bytes before IP's header.
const ETHERNET: usize = 14;

fn lossy(seed: u64) -> World {
    let rules = Rules { loss: 0.1, delay: Duration::from_millis(2), ..Rules::default() };
    let transport = either::Config::of_records(Protocol::Xtp);
    World::new(rules, seed, &Config { transport, ..small() })
}

#[test]
fn wireshark_finds_nothing_malformed_in_a_capture_of_a_transfer() {
    let mut world = lossy(3);
    let mut blocks = world.server.capture(Options::default()).unwrap();
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        loop {
            match blocks.next(Duration::from_secs(10)) {
                Next::Blocks(bytes) => all.extend(bytes),
                Next::Nothing => {}
                Next::Ended => return all,
            }
        }
    });
    world.connect();
    transfer(&mut world, 300);
    close(&mut world);
    drop(world);
    let mut splitter = Splitter::default();
    splitter.push(&reader.join().unwrap());
    let (mut packets, mut comments) = (Vec::new(), Vec::new());
    while let Some(block) = splitter.next().unwrap() {
        if let Some((bytes, comment)) = block.packet() {
            packets.push(bytes[ETHERNET..].to_vec());
            comments.extend(comment.map(str::to_string));
        }
    }
    assert!(packets.len() > 300, "{}", packets.len());
    assert!(comments.iter().any(|c| c == "out of order, held"), "{comments:?}");
    assert!(!comments.iter().any(|c| c.contains("tcp")), "{comments:?}");
    // What the dissector gets wrong, it does not call malformed: it reads spans in the other byte order, and shows the
    // bytes of echo 4 too low.
    let names = ["xtp.key", "xtp.checksum.status", "_ws.malformed"];
    let Some(rows) = wireshark::fields("xtp-stack", &packets, &[], &names) else { return };
    for (row, packet) in rows.iter().zip(&packets) {
        assert!(row[0].starts_with("0x"), "{row:?}: {packet:02x?}");
        assert_eq!((row[1].as_str(), row[2].as_str()), ("1", ""), "{packet:02x?}");
    }
    println!("{} packets", rows.len());
}

#[test]
fn a_view_tells_keys_and_service_and_who_asked() {
    let folder = std::env::temp_dir().join(format!("fusewire-seen-{}", std::process::id()));
    place::choose(folder.clone());
    let mut world = lossy(4);
    world.server.observe().unwrap();
    world.connect();
    transfer(&mut world, 300);
    let report = std::thread::scope(|s| {
        let asked = s.spawn(|| client::processes().remove(0).report().unwrap());
        while !asked.is_finished() {
            world.step();
        }
        asked.join().unwrap()
    });
    let stack = &report.stacks[0];
    let open = stack.sockets.iter().find(|s| s.state == "OPEN").expect("a context");
    assert_eq!((open.protocol.as_str(), open.names["service"].as_str()), ("xtp", "stream"));
    let keys = ["key", "peer_key"].map(|name| u64::from_str_radix(&open.names[name], 16).unwrap());
    assert!(keys[0] != keys[1] && keys.iter().all(|key| (1..1 << 63).contains(key)), "{keys:x?}");
    let transport = open.transport.as_ref().unwrap();
    assert!(transport.asks_received > 10 && transport.asks_sent > 0, "{transport:?}");
    let names: Vec<_> = stack.counters.keys().chain(stack.drops.keys()).collect();
    assert!(stack.counters["xtp_asks_received"] >= transport.asks_received);
    assert!(!names.iter().any(|name| name.starts_with("tcp")), "{names:?}");
    let _ = std::fs::remove_dir_all(folder);
}
