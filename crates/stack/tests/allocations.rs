//! Law 4: after set-up nothing is allocated for what is sent and received. Two stacks over loopback in one thread, whose
//! allocations are counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Adu, Application, Config, ConnectionId, Event, Keep, Stack};
use fusewire_testkit::counting::{self, Counting};
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

fn stack(datagram_bytes: usize, seed: u8) -> Stack {
    let device = Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap();
    let config = Config { datagram_bytes: Some(datagram_bytes), ..Config::default() };
    Stack::new(Box::new(device), config, &[seed; 32])
}

/// Allocations while `count` ADUs of `len` bytes go from one to the other, when as many have gone before.
fn allocations(datagram_bytes: usize, len: usize, count: usize) -> u64 {
    let dir =
        std::env::temp_dir().join(format!("fusewire-allocations-{}-{len}", std::process::id()));
    let identity = Arc::new(Identity::load_or_create(&dir.join("key")).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    let (mut client, mut server) = (stack(datagram_bytes, 1), stack(datagram_bytes, 2));
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
    for (datagram_bytes, len, count) in
        [(1452, 1300, 8000), (1452, 64, 100_000), (65_000, 64_000, 600)]
    {
        let found = allocations(datagram_bytes, len, count);
        assert_eq!(found, 0, "of {count} ADUs of {len} bytes");
    }
}
