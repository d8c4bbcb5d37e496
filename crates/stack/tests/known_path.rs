//! A server on every address of its host knows the paths to its clients as well as one on a single address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::udp::{self, Udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, ConnectionId, Event, Keep, Stack};
use fusewire_transport::machine::Secrets;

const PORT: u16 = 9293;

fn identity() -> Arc<Identity> {
    let name = format!("fusewire-known-path-{}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

fn stack(address: &str) -> Stack {
    let device = Udp::bind(address.parse().unwrap(), &udp::Config::default()).unwrap();
    Stack::new(Box::new(device), Config::default(), &[1; 32])
}

fn connected(stack: &mut Stack) -> Option<ConnectionId> {
    stack.poll(&mut Keep).unwrap();
    let mut connected = None;
    while let Some((id, event)) = stack.poll_event() {
        connected = matches!(event, Event::Connected { .. }).then_some(id).or(connected);
    }
    connected
}

/// The longest ADU that is one segment from the server to a client on loopback.
fn adu_of(listen: &str, identity: &Arc<Identity>) -> usize {
    let (mut server, mut client) = (stack(listen), stack("127.0.0.1:0"));
    let secrets = Secrets { isn: [3; 16], cookie: [4; 16] };
    server.listen(PORT, ServerConfig::new(identity.clone()), &secrets);
    let remote = SocketAddr::from(([127, 0, 0, 1], server.local_addr().port()));
    let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    client.connect(remote, PORT, &config).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        connected(&mut client);
        if let Some(id) = connected(&mut server) {
            return server.adu_len(id).unwrap().0;
        }
        assert!(Instant::now() < end, "no connection");
    }
}

#[test]
fn a_listener_on_every_address_sends_on_loopback_what_loopback_carries() {
    let identity = identity();
    let known = adu_of("127.0.0.1:0", &identity);
    assert!(known > 32 << 10, "{known}");
    assert_eq!(adu_of("0.0.0.0:0", &identity), known);
}
