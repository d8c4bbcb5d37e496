//! Ends that use different transports.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fusewire_device::memory::{self, Network};
use fusewire_session::{ClientConfig, ServerConfig, Trust};
use fusewire_stack::{Clock, Config, Error, Event, Stack};
use fusewire_transport::either::{self, Protocol};
use fusewire_transport::machine::Secrets;

use crate::world::{A, B, PORT, World, identity};

#[test]
fn a_client_learns_within_a_second_that_the_server_uses_the_other_transport() {
    for [used, served] in [[Protocol::Tcp, Protocol::Xtp], [Protocol::Xtp, Protocol::Tcp]] {
        let network = Network::new(memory::Config::default());
        let ns = Arc::new(AtomicU64::new(1));
        let [mut client, mut server] = [(A, used), (B, served)].map(|(at, protocol)| {
            let device = Box::new(network.attach(at.parse().unwrap()).unwrap());
            let transport = either::Config::of_records(protocol);
            let clock = Clock::virtual_ns(ns.clone());
            Stack::new(device, Config { transport, clock, ..Config::default() }, &[1; 32])
        });
        let identity = identity();
        let serving = ServerConfig::new(identity.clone());
        server.listen(PORT, serving, &Secrets { isn: [3; 16], cookie: [4; 16] });
        let trust = Trust::Pinned(identity.fingerprint());
        let calls = ClientConfig::new(identity, trust);
        let id = client.connect(B.parse().unwrap(), PORT, &calls).unwrap();
        let (client_events, server_events) = (vec![], vec![]);
        let mut w = World { ns, client, server, id, served: None, client_events, server_events };
        w.run(1.0, "the refusal", |w| !w.client_events.is_empty());
        let [Event::Closed(Some(error @ Error::OtherTransport { .. }))] = &w.client_events[..]
        else {
            panic!("{:?}", w.client_events);
        };
        let said = error.to_string();
        let names = format!("uses the transport {served}, and this side {used}");
        assert!(said.contains(&names), "{said}");
        // No server listens at another port, over either transport.
        w.client_events.clear();
        w.client.connect(B.parse().unwrap(), PORT + 1, &calls).unwrap();
        for _ in 0..100 {
            w.step();
        }
        assert!(w.client_events.is_empty(), "{:?}", w.client_events);
    }
}
