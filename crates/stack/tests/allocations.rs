//! Law 4: after set-up nothing is allocated for what is sent and received. Two stacks over loopback in one thread, whose
//! allocations are counted, by either protocol; and two ends of contexts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::context::{self, About, Contexts, ControlBlock, Kept};
use fusewire_stack::{Adu, Application, Config, ConnectionId, Event, Keep, Stack};
use fusewire_testkit::counting::{self, Counting};
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::machine::Secrets;

#[global_allocator]
static COUNTING: Counting = Counting;

const PORT: u16 = 9293;

/// Memory of the application's, and how many ADUs have come to lie there.
struct Drain {
    memory: Vec<u8>,
    delivered: usize,
}

impl Application for Drain {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.memory.get_mut(..adu.len)
    }

    fn delivered(&mut self, _: ConnectionId, _: Adu) {
        self.delivered += 1;
    }
}

fn device() -> Box<Udp> {
    Box::new(Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap())
}

fn stack(protocol: Protocol, datagram_bytes: usize, seed: u8) -> Stack {
    let transport = either::Config::of_records(protocol);
    let config = Config { datagram_bytes: Some(datagram_bytes), transport, ..Config::default() };
    Stack::new(device(), config, &[seed; 32])
}

/// Allocations while `count` ADUs of `len` bytes go from one to the other, when as many have gone before.
fn allocations(protocol: Protocol, datagram_bytes: usize, len: usize, count: usize) -> u64 {
    let name = format!("fusewire-allocations-{}-{protocol}-{len}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let identity = Arc::new(Identity::load_or_create(&dir.join("key")).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    let (mut client, mut server) =
        (stack(protocol, datagram_bytes, 1), stack(protocol, datagram_bytes, 2));
    let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
    server.listen(PORT, ServerConfig::new(identity.clone()), &secrets);
    let trust = Trust::Pinned(identity.fingerprint());
    let to = server.local_addr();
    let id = client.connect(to, PORT, &ClientConfig::new(identity, trust)).unwrap();
    let body = vec![7; len];
    let mut drain = Drain { memory: vec![0; len], delivered: 0 };
    let end = Instant::now() + Duration::from_secs(60);
    let (mut connected, mut sent, mut before) = (false, 0, 0);
    while drain.delivered < 2 * count {
        assert!(Instant::now() < end, "{} of {} ADUs came", drain.delivered, 2 * count);
        while let Some((_, event)) = client.poll_event() {
            connected |= matches!(event, Event::Connected { .. });
        }
        while server.poll_event().is_some() {}
        // All of the first half is there before anything is counted.
        let goal = if drain.delivered < count { count } else { 2 * count };
        if sent == count && goal == 2 * count {
            before = counting::of_thread();
        }
        while connected && sent < goal && client.send(id, &body).unwrap() {
            sent += 1;
        }
        client.flush();
        client.poll(&mut Keep).unwrap();
        server.poll(&mut drain).unwrap();
    }
    counting::of_thread() - before
}

#[test]
fn small_adus_and_large_ones_allocate_nothing() {
    let before = counting::of_thread();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(counting::of_thread(), before + 1, "allocations are counted");
    for protocol in Protocol::ALL {
        for (datagram_bytes, len, count) in
            [(1452, 1300, 8000), (1452, 64, 100_000), (65_000, 64_000, 600)]
        {
            let found = allocations(protocol, datagram_bytes, len, count);
            assert_eq!(found, 0, "of {count} ADUs of {len} bytes over {protocol}");
        }
    }
}

/// The same of messages of a context, which lie in its receive buffer until they are released.
#[test]
fn messages_of_contexts_allocate_nothing() {
    const SERVICE: u16 = 9;
    for (len, count) in [(1300, 8000), (64, 50_000), (30_000, 600)] {
        let [mut client, mut server] =
            [1, 2].map(|seed| Contexts::new(device(), context::Config::default(), &[seed; 32]));
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        server.listen(SERVICE, ControlBlock::default(), &secrets);
        let ours = client.context(ControlBlock::default()).unwrap();
        client.connect(ours, server.local_addr(), SERVICE).unwrap();
        let body = vec![7; len];
        let end = Instant::now() + Duration::from_secs(60);
        let (mut sent, mut came, mut before) = (0, 0, 0);
        while came < 2 * count {
            assert!(Instant::now() < end, "{came} of {} messages came", 2 * count);
            let goal = if came < count { count } else { 2 * count };
            if sent == count && goal == 2 * count {
                before = counting::of_thread();
            }
            let piece = [std::io::IoSlice::new(&body)];
            while sent < goal && client.send(ours, &piece, About::default()).unwrap() {
                sent += 1;
            }
            client.flush();
            client.poll(&mut Kept).unwrap();
            while client.poll_event().is_some() {}
            server.poll(&mut Kept).unwrap();
            while let Some((context, event)) = server.poll_event() {
                if let context::Event::Message(message) = event {
                    server.release(context, &message);
                    came += 1;
                }
            }
        }
        assert_eq!(counting::of_thread() - before, 0, "of {count} messages of {len} bytes");
    }
}
