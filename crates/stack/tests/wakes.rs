//! Nobody sleeps over news: what a call took from the device for somebody else is told before the next sleep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::memory::{self, Network};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, ConnectionId, Event, Keep, Stack};
use fusewire_transport::either;
use fusewire_transport::machine::Secrets;

const PORT: u16 = 9293;
const SERVER: &str = "192.0.2.9:9";
/// A sleep that nothing ends.
const LONG: Duration = Duration::from_secs(5);

fn identity() -> Arc<Identity> {
    let thread = std::thread::current().id();
    let name = format!("fusewire-wakes-{}-{thread:?}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

fn stack(network: &Network, address: &str, delayed_ack: Duration) -> Stack {
    let device = network.attach(address.parse().unwrap()).unwrap();
    // Who looks once more before sleeping would hide what is proven here.
    let mut config = Config { spin: Duration::ZERO, ..Config::default() };
    if let either::Config::Tcp(tcp) = &mut config.transport {
        tcp.delayed_ack = delayed_ack;
    }
    Stack::new(Box::new(device), config, &[1; 32])
}

/// A server, and two clients whose connections it has.
struct World {
    server: Stack,
    clients: Vec<(Stack, ConnectionId)>,
    served: Vec<ConnectionId>,
}

impl World {
    fn new() -> World {
        let network = Network::new(memory::Config::default());
        let identity = identity();
        let mut server = stack(&network, SERVER, 4 * LONG);
        let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
        server.listen(PORT, ServerConfig::new(identity.clone()), &secrets);
        let mut world = World { server, clients: Vec::new(), served: Vec::new() };
        for address in ["192.0.2.1:1", "192.0.2.2:2"] {
            let mut client = stack(&network, address, Duration::ZERO);
            let trust = Trust::Pinned(identity.fingerprint());
            let config = ClientConfig::new(identity.clone(), trust);
            let id = client.connect(SERVER.parse().unwrap(), PORT, &config).unwrap();
            world.clients.push((client, id));
            while world.served.len() < world.clients.len() {
                world.drive();
            }
        }
        // No timer ends the server's sleep before its time.
        while world.server.next_timeout().is_some_and(|timeout| timeout < LONG) {
            world.drive();
            std::thread::sleep(Duration::from_millis(5));
        }
        world
    }

    /// Until nobody has anything to do.
    fn drive(&mut self) {
        let mut worked = true;
        while worked {
            worked = self.server.poll(&mut Keep).unwrap();
            for (client, _) in &mut self.clients {
                worked |= client.poll(&mut Keep).unwrap();
                while client.poll_event().is_some() {}
            }
            while let Some((id, event)) = self.server.poll_event() {
                if matches!(event, Event::Connected { .. }) {
                    self.served.push(id);
                }
            }
        }
    }

    /// How long the server sleeps once it has nothing to do.
    fn server_sleeps(&mut self) -> Duration {
        while self.server.poll(&mut Keep).unwrap() {}
        let began = Instant::now();
        self.server.wait(Some(LONG)).unwrap();
        began.elapsed()
    }
}

#[test]
fn the_peers_end_that_a_receive_found_is_told_before_the_next_sleep() {
    let mut world = World::new();
    let (client, id) = &mut world.clients[0];
    client.finish(*id);
    client.flush();
    let at = world.served[0];
    assert_eq!(world.server.recv_into(at, &mut [0; 2048]).unwrap(), None);
    let slept = world.server_sleeps();
    assert!(slept < LONG / 2, "{slept:?}");
    assert!(matches!(world.server.poll_event(), Some((id, Event::Finished)) if id == at));
}

#[test]
fn an_adu_that_a_receive_found_for_another_is_told_before_the_next_sleep() {
    let mut world = World::new();
    let (client, id) = &mut world.clients[1];
    assert!(client.send(*id, b"for the second").unwrap());
    client.flush();
    let (first, second) = (world.served[0], world.served[1]);
    assert_eq!(world.server.recv_into(first, &mut [0; 2048]).unwrap(), None);
    let slept = world.server_sleeps();
    assert!(slept < LONG / 2, "{slept:?}");
    assert!(matches!(world.server.poll_event(), Some((id, Event::Readable)) if id == second));
    assert_eq!(world.server.recv(second).unwrap().1, b"for the second");
}

#[test]
fn who_has_taken_all_news_sleeps() {
    let mut world = World::new();
    let began = Instant::now();
    world.server.wait(Some(Duration::from_millis(30))).unwrap();
    assert!(began.elapsed() >= Duration::from_millis(25));
}
