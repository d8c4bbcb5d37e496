//! How long packets may be is found out where nobody knows it.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fusewire_device::impair::Rules;
use fusewire_device::udp::{self, Udp};
use fusewire_stack::context::{
    About, Check, Config, Context, Contexts, ControlBlock, Event, Kept, Secrets,
};
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::world::{World, content};

/// Before anything is known (`docs/xtp.md`, section 14).
const BASE: usize = 1200;

fn between(carries: usize) -> World {
    let rules = Rules { delay: Duration::from_millis(2), ..Rules::NONE };
    let world = World::between(rules, 3, false);
    world.ends.iter().for_each(|end| end.carries.store(carries, Ordering::Relaxed));
    world
}

/// Sends so many bytes and sees them arrive.
fn sends(world: &mut World, context: Context, seed: usize, len: usize) {
    let before = world.ends[1].messages.len();
    assert!(world.ends[0].send(context, &content(seed, len), About::default()));
    world.run(120, |world| world.ends[1].messages.len() > before);
    assert!(world.ends[1].messages[before].2 == content(seed, len));
}

/// Packets become as long as the path carries, and no packet of the stream is lost for it.
#[test]
fn packets_become_as_long_as_the_path_carries() {
    for check in [Check::Internet, Check::Cxor] {
        for carries in [1280, 1472, 8972] {
            let mut world = between(carries);
            let block = ControlBlock { check, ..ControlBlock::default() };
            let context = world.open(block.clone(), block);
            sends(&mut world, context, 1, 5000);
            let longest = |world: &World| {
                let log = world.ends[0].log.lock().unwrap();
                let data = log.iter().filter(|packet| packet[11] & 31 == 0);
                data.map(Vec::len).max().unwrap_or(0)
            };
            assert!(longest(&world) <= BASE, "nothing is known yet");
            world.run_for(Duration::from_secs(60));
            world.ends[0].log.lock().unwrap().clear();
            sends(&mut world, context, 2, 500_000);
            let found = longest(&world);
            assert!(found <= carries && found + 64 > carries, "{found} of {carries}");
            let info = world.ends[0].contexts.info(context).unwrap();
            assert_eq!(info.counters.retransmissions, 0, "questions are beside the data");
        }
    }
}

/// A path that carries less than it did swallows packets: they are cut anew, and arrive.
#[test]
fn a_path_that_shrinks_is_noticed() {
    for check in [Check::Internet, Check::Cxor] {
        let mut world = between(8972);
        let block = ControlBlock { check, ..ControlBlock::default() };
        let context = world.open(block.clone(), block);
        sends(&mut world, context, 1, 5000);
        world.run_for(Duration::from_secs(60));
        assert!(world.ends[0].contexts.packet_data(context) > 8000);
        world.ends.iter().for_each(|end| end.carries.store(1280, Ordering::Relaxed));
        sends(&mut world, context, 2, 500_000);
        assert!(world.ends[0].contexts.packet_data(context) < 1280);
    }
}

/// Who knows the path says so, and nothing is asked.
#[test]
fn a_path_that_is_known_is_not_asked() {
    let mut world = between(1400);
    let block = ControlBlock { packet_bytes: Some(1400), ..ControlBlock::default() };
    let context = world.open(block.clone(), block);
    sends(&mut world, context, 1, 50_000);
    world.run_for(Duration::from_secs(20));
    let log = world.ends.iter().flat_map(|end| end.log.lock().unwrap().clone());
    assert_eq!(log.filter(|packet| packet[11] & 31 == 16).count(), 0, "PATH");
}

/// The kernel's UDP sockets over a link whose far end drops packets above 1,280 bytes without an ICMP message. Counts no
/// retransmissions: on a loaded machine this process may be stopped for longer than the retransmission timeout. The tests
/// on a virtual clock count them.
#[test]
fn a_path_of_1280_bytes_is_found_over_udp() {
    let setup = "unshare --net sleep 600 >/dev/null 2>&1 & export PEER=$!
        while [ \"$(readlink /proc/$PEER/ns/net)\" = \"$(readlink /proc/$$/ns/net)\" ]; do sleep 0.05; done
        ip link add name near mtu 1500 type veth peer name far mtu 1280
        ip link set dev far netns $PEER
        ip addr add 192.0.2.1/24 dev near && ip link set dev near up
        nsenter -t $PEER -n ip addr add 192.0.2.2/24 dev far
        nsenter -t $PEER -n ip link set dev far up";
    in_namespace("paths::a_path_of_1280_bytes_is_found_over_udp", Need::Root, setup, || {
        let peer = std::env::var("PEER").unwrap();
        let namespace = File::open(format!("/proc/{peer}/ns/net")).unwrap();
        let bind = |address: &str| {
            let device = Udp::bind(address.parse().unwrap(), &udp::Config::default()).unwrap();
            Contexts::new(Box::new(device), Config::default(), &[address.len() as u8; 32])
        };
        let theirs = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            bind("192.0.2.2:40")
        });
        let mut server = theirs.join().unwrap();
        let mut client = bind("192.0.2.1:4000");
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        server.listen(7, ControlBlock::default(), &secrets);
        let context = client.context(ControlBlock::default()).unwrap();
        client.connect(context, server.local_addr(), 7).unwrap();
        let mut said = 0;
        let end = Instant::now() + Duration::from_secs(60);
        // A few words, until the length is known.
        while client.packet_data(context) < 1200 || said < 10 {
            assert!(Instant::now() < end, "{} bytes a packet", client.packet_data(context));
            if client.unsent(context) == 0 {
                said += 1;
                client.send(context, &[IoSlice::new(&[7; 3000])], About::default()).unwrap();
            }
            client.poll(&mut Kept).unwrap();
            server.poll(&mut Kept).unwrap();
            while let Some((context, event)) = server.poll_event() {
                if let Event::Message(message) = event {
                    assert_eq!(server.message(context, &message).concat(), [7; 3000]);
                    server.release(context, &message);
                }
            }
            while client.poll_event().is_some() {}
        }
        // 1,280 less the headers of IPv4, UDP and XTP.
        let data = client.packet_data(context);
        assert!((1220 - 31..=1220).contains(&data), "{data}");
        let killed = std::process::Command::new("kill").arg(&peer).status().unwrap();
        assert!(killed.success());
    });
}
