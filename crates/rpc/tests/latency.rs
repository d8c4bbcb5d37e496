//! How long a call takes over each transport on loopback, one after the other: the smoke size runs with the tests,
//! `FUSEWIRE_CALLS=20000 cargo test --release -p fusewire-rpc --test latency -- --nocapture` says more.

mod support;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use fusewire_device::udp::{Config as UdpConfig, Udp};
use fusewire_rpc::{Adus, Datagrams, Records, Server, Transactions, Transport};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::transport::{Config as Carried, Protocol};
use fusewire_stack::{Config, Connection, Endpoint};
use support::kinds::Pair;
use support::kinds::kinds_prog::kinds_first::Client;
use support::services;

type Boxed = Box<dyn Transport>;

fn endpoint(protocol: Protocol) -> Endpoint {
    let device = Udp::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
    let config = Config { transport: Carried::of_records(protocol), ..Config::default() };
    Endpoint::new(Box::new(device), config).unwrap()
}

/// Both ends of a connection between two endpoints.
fn connection(key: &Arc<Identity>, protocol: Protocol) -> (Connection, Connection) {
    let (client, server) = (endpoint(protocol), endpoint(protocol));
    let listener = server.listen(ServerConfig::new(key.clone())).unwrap();
    let config = ClientConfig::new(key.clone(), Trust::Pinned(key.fingerprint()));
    std::thread::scope(|s| {
        let accepted = s.spawn(|| listener.accept().unwrap());
        let ours = client.connect(server.local_addr(), &config).unwrap();
        (ours, accepted.join().unwrap())
    })
}

fn serve(transport: impl Transport + Send + 'static) {
    std::thread::spawn(move || Server::new(transport).run(&services()));
}

fn transports() -> Vec<(&'static str, Boxed)> {
    let folder = tempfile::tempdir().unwrap();
    let key = Arc::new(Identity::load_or_create(&folder.path().join("key")).unwrap());
    let mut all: Vec<(&'static str, Boxed)> = Vec::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    serve(Records::new(listener.accept().unwrap().0));
    all.push(("kernel TCP", Box::new(Records::new(ours))));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    serve(Datagrams::server(socket));
    all.push(("kernel UDP", Box::new(Datagrams::connect(addr).unwrap())));
    for (name, protocol) in [("ADUs over TCP", Protocol::Tcp), ("ADUs over XTP", Protocol::Xtp)] {
        let (ours, theirs) = connection(&key, protocol);
        serve(Adus(theirs));
        all.push((name, Box::new(Adus(ours))));
    }
    let (ours, theirs) = connection(&key, Protocol::Xtp);
    serve(Transactions::server(theirs).unwrap());
    all.push(("transactions", Box::new(Transactions::client(ours).unwrap())));
    all
}

#[test]
fn calls_take_so_long() {
    let calls = std::env::var("FUSEWIRE_CALLS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let rounds = 5;
    let mut clients: Vec<_> = transports()
        .into_iter()
        .map(|(name, transport)| (name, Client::new(transport), Vec::new()))
        .collect();
    for _ in 0..rounds {
        for (_, client, times) in &mut clients {
            for n in 0..calls / rounds {
                let begun = Instant::now();
                let sum = client.kinds_sum(&Pair { a: n, b: 1 }).unwrap();
                times.push(begun.elapsed());
                assert_eq!(sum, n + 1);
            }
        }
    }
    for (name, _, times) in &mut clients {
        times.sort();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
        let (half, most) = (at(50), at(99));
        println!(
            "{name:14} {half:7.1} µs, half within {:.1} … {:.1}, p99 {most:.1}",
            at(25),
            at(75)
        );
    }
}
