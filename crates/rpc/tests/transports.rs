//! The same calls over everything that carries them: Fusewire's own transport over UDP and kernel TCP, its IP
//! stack's TCP and UDP, sockets of the kernel.

mod support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::interface::memory::{Config as PairConfig, pair};
use fusewire_device::udp::{Config as UdpConfig, Udp};
use fusewire_rpc::{
    Adus, Arrival, Config, Datagrams, Error, OpenedByCall, Records, Server, Transactions, Transport,
};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{self, Host, HostConfig};
use fusewire_stack::transport::{Config as Carried, Protocol};
use fusewire_stack::{Config as StackConfig, Endpoint, kernel_tcp};
use support::kinds::kinds_prog::kinds_second::Client;
use support::{content, everything, services};

fn identity() -> Arc<Identity> {
    let folder = tempfile::tempdir().unwrap();
    Arc::new(Identity::load_or_create(&folder.path().join("key")).unwrap())
}

/// Calls of every size, several under way, and one that nobody answers in time.
fn calls<T: Transport>(transport: T, large: u32) {
    let mut client = Client::new(transport);
    client.null().unwrap();
    let sent = everything();
    let (first, second) =
        (client.begin_kinds_echo(&sent).unwrap(), client.begin_kinds_large(large).unwrap());
    assert!(client.wait(second).unwrap() == content(large));
    assert_eq!(client.wait(first).unwrap(), sent);
    client.kinds_take(&content(large)).unwrap();
    assert!(matches!(client.kinds_fail(), Err(Error::SystemError)));
}

/// A server that answers all but for a while, and a client that does not wait as long.
fn late<T: Transport>(mut server: impl Transport, transport: T) {
    let timeout = Duration::from_millis(200);
    let mut client = Client::with(transport, Config { timeout, ..Config::default() });
    let begun = Instant::now();
    assert!(matches!(client.null(), Err(Error::TimedOut(_))));
    assert!(begun.elapsed() >= timeout && begun.elapsed() < Duration::from_secs(20));
    let mut message = Vec::new();
    assert_eq!(server.receive(&mut message, None).unwrap(), Arrival::Message);
}

#[test]
fn an_endpoint_carries_calls_as_adus() {
    let key = identity();
    let server = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = server.listen(ServerConfig::new(key.clone())).unwrap();
    let addr = server.local_addr();
    let accept = std::thread::spawn(move || {
        let first = Adus(listener.accept().unwrap());
        std::thread::spawn(move || Server::new(first).run(&services()));
        let second = Adus(listener.accept().unwrap());
        std::thread::spawn(move || Server::new(second).run(&services()));
        Adus(listener.accept().unwrap())
    });
    let config = ClientConfig::new(key.clone(), Trust::Pinned(key.fingerprint()));
    let client = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let connect = || Adus(client.connect(addr, &config).unwrap());
    calls(connect(), 60_000);
    let mut stub = Client::new(connect());
    stub.null().unwrap();
    // What is longer than an ADU is said, here and there.
    let longest = stub.0.transport().message_len_max() as u32;
    assert!(matches!(stub.kinds_large(longest), Err(Error::SystemError)), "{longest}");
    let too_long = vec![0; longest as usize];
    assert!(matches!(stub.kinds_take(&too_long), Err(Error::TooLong { .. })));
    let third = connect();
    late(accept.join().unwrap(), third);
}

/// The first call goes with the handshake, over an endpoint and over kernel TCP, also where it is too long for that; what
/// fails says so then and ever after.
#[test]
fn the_first_call_opens_the_connection() {
    let key = identity();
    let server = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let (addr, listener) = (server.local_addr(), server.listen(ServerConfig::new(key.clone())));
    let listener = listener.unwrap();
    std::thread::spawn(move || {
        while let Ok(connection) = listener.accept() {
            std::thread::spawn(move || Server::new(Adus(connection)).run(&services()));
        }
    });
    let config = ClientConfig::new(key.clone(), Trust::Pinned(key.fingerprint()));
    let endpoint = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let opened = || OpenedByCall::new(|first| endpoint.connect_sending(addr, &config, first));
    assert!(opened().link().is_none());
    calls(opened(), 60_000);
    let mut stub = Client::new(opened());
    stub.kinds_take(&content(40_000)).unwrap();
    assert_eq!(stub.0.transport().peer(), Some(addr));

    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, accepts) = (tcp.local_addr().unwrap(), ServerConfig::new(key.clone()));
    std::thread::spawn(move || {
        let (stream, _) = tcp.accept().unwrap();
        let connection = kernel_tcp::Connection::accept(stream, &accepts).unwrap();
        Server::new(Adus(connection)).run(&services())
    });
    let connect = |first: &[&[u8]]| {
        kernel_tcp::Connection::connect_sending(TcpStream::connect(addr).unwrap(), &config, first)
    };
    calls(OpenedByCall::new(connect), 60_000);

    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let connect = |first: &[&[u8]]| endpoint.connect_sending(nobody, &config, first);
    let mut stub = Client::new(OpenedByCall::new(connect));
    for why in ["nobody listens", "failed"] {
        let error = stub.null().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn an_endpoint_over_xtp_carries_calls_as_transactions() {
    let key = identity();
    let endpoint = || {
        let device = Udp::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
        let transport = Carried::of_records(Protocol::Xtp);
        Endpoint::new(Box::new(device), StackConfig { transport, ..StackConfig::default() })
            .unwrap()
    };
    let server = endpoint();
    let listener = server.listen(ServerConfig::new(key.clone())).unwrap();
    let addr = server.local_addr();
    let accept = std::thread::spawn(move || {
        let connection = || Transactions::server(listener.accept().unwrap()).unwrap();
        for _ in 0..3 {
            let transactions = connection();
            std::thread::spawn(move || Server::new(transactions).run(&services()));
        }
        connection()
    });
    let config = ClientConfig::new(key.clone(), Trust::Pinned(key.fingerprint()));
    let client = endpoint();
    let connect = || Transactions::client(client.connect(addr, &config).unwrap()).unwrap();
    calls(connect(), 12_000);
    let mut stub = Client::new(connect());
    // A reply may be longer than a call.
    assert!(stub.kinds_large(200_000).unwrap() == content(200_000));
    assert!(matches!(stub.kinds_large(300_000), Err(Error::SystemError)));
    let longest = stub.0.transport().message_len_max();
    assert!(longest < 1 << 14);
    assert!(matches!(stub.kinds_take(&vec![0; longest]), Err(Error::TooLong { .. })));
    // More at once than calls may be begun.
    let mut many = Client::with(connect(), Config { calls_max: 600, ..Config::default() });
    let begun = (0..600).map(|n| many.begin_kinds_large(n).unwrap()).collect::<Vec<_>>();
    for (n, pending) in (0..).zip(begun) {
        assert!(many.wait(pending).unwrap() == content(n), "{n}");
    }
    let third = connect();
    late(accept.join().unwrap(), third);

    let tcp = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = tcp.listen(ServerConfig::new(key.clone())).unwrap();
    let accepted = std::thread::spawn(move || listener.accept().unwrap());
    let other = Endpoint::udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let connection = other.connect(tcp.local_addr(), &config).unwrap();
    assert!(Transactions::client(connection).is_err(), "over TCP there are none");
    drop(accepted.join().unwrap());
}

#[test]
fn a_session_over_kernel_tcp_carries_calls_as_adus() {
    let key = identity();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let config = ServerConfig::new(key.clone());
    let accept = std::thread::spawn(move || {
        let connection = || {
            let (stream, _) = listener.accept().unwrap();
            Adus(kernel_tcp::Connection::accept(stream, &config).unwrap())
        };
        let first = connection();
        std::thread::spawn(move || Server::new(first).run(&services()));
        connection()
    });
    let config = ClientConfig::new(key.clone(), Trust::Pinned(key.fingerprint()));
    let connect = || {
        let stream = TcpStream::connect(addr).unwrap();
        Adus(kernel_tcp::Connection::connect(stream, &config).unwrap())
    };
    calls(connect(), 60_000);
    let second = connect();
    late(accept.join().unwrap(), second);
}

#[test]
fn sockets_of_the_kernel() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    std::thread::spawn(move || Server::new(Records::new(theirs)).run(&services()));
    calls(Records::new(ours), 600_000);
    let (ours, theirs) = UnixStream::pair().unwrap();
    late(Records::new(theirs), Records::new(ours));
}

/// Two hosts of the user-level stack on one wire.
fn hosts() -> [Host; 2] {
    let (a, b) = pair(PairConfig::default()).unwrap();
    let mut last = 0;
    [a, b].map(|interface| {
        last += 1;
        let addresses = vec![Cidr::new(addr(last), 24).unwrap()];
        let net = NetConfig {
            addresses,
            duplicate_detection: false,
            ..ip::Stack::net_config(&interface)
        };
        Host::new(Box::new(interface), net, HostConfig::default()).unwrap()
    })
}

fn addr(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

#[test]
fn the_ip_stacks_tcp_and_udp() {
    let [client, server] = hosts();
    let at = SocketAddr::new(addr(2), 2049);
    let listener = server.tcp_listen(at, 4).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        Server::new(Records::new(stream)).run(&services())
    });
    let socket = server.udp_bind(at).unwrap();
    std::thread::spawn(move || Server::new(Datagrams::server(socket)).run(&services()));
    calls(Records::new(client.tcp_connect(at).unwrap()), 600_000);
    let socket = client.udp_bind(SocketAddr::new(addr(1), 0)).unwrap();
    calls(Datagrams::client(socket, at).unwrap(), 30_000);
}
