//! Calls over XTP's transactions that nobody takes an answer of: what is kept of them has a bound, and beginning one an end.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fusewire_device::udp::{Config as UdpConfig, Udp};
use fusewire_rpc::{Arrival, Config, Error, Server, Transactions, Transport};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::transport::{Config as Carried, Protocol};
use fusewire_stack::{Config as StackConfig, Connection, Endpoint};
use support::kinds::kinds_prog::kinds_second::Client;
use support::{content, services};

/// As many calls as a connection has under way, or with an answer that was not taken.
const AT_ONCE: u32 = 256;

fn endpoint() -> Endpoint {
    let device = Udp::bind("127.0.0.1:0".parse().unwrap(), &UdpConfig::default()).unwrap();
    let transport = Carried::of_records(Protocol::Xtp);
    Endpoint::new(Box::new(device), StackConfig { transport, ..StackConfig::default() }).unwrap()
}

/// A client's end and a server's, with the endpoints that they live by.
fn connected() -> (Transactions, Connection, [Endpoint; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let key = Arc::new(Identity::load_or_create(&folder.path().join("key")).unwrap());
    let (server, client) = (endpoint(), endpoint());
    let listener = server.listen(ServerConfig::new(key.clone())).unwrap();
    let (addr, pinned) = (server.local_addr(), key.fingerprint());
    let config = ClientConfig::new(key, Trust::Pinned(pinned));
    let accept = std::thread::spawn(move || listener.accept().unwrap());
    let connection = client.connect(addr, &config).unwrap();
    (Transactions::client(connection).unwrap(), accept.join().unwrap(), [client, server])
}

fn serve(connection: Connection) {
    let transactions = Transactions::server(connection).unwrap();
    std::thread::spawn(move || Server::new(transactions).run(&services()));
}

#[test]
fn a_cancelled_call_leaves_nothing_behind() {
    let (transport, theirs, _endpoints) = connected();
    serve(theirs);
    let mut client = Client::with(transport, Config { calls_max: 400, ..Config::default() });
    for round in 1..=3 {
        // So many that answers are taken to make room for the last of them.
        let mut begun = (0..300).map(|n| client.begin_kinds_large(n).unwrap()).collect::<Vec<_>>();
        let waiting = client.0.transport().waiting();
        assert!(waiting >= 300 - AT_ONCE as usize, "{waiting}");
        let last = begun.pop().unwrap();
        for call in begun {
            client.0.cancel(call);
        }
        // That of the last may be there, and is the last's.
        assert!(client.0.transport().waiting() <= 1);
        assert!(client.wait(last).unwrap() == content(299));
        assert_eq!((client.0.transport().waiting(), client.0.in_flight()), (0, 0));
        assert!(client.0.strays() >= round * (waiting as u64 - 1), "{}", client.0.strays());
    }
    assert_eq!(client.0.transport().unwanted(), 0);
    // Also what lies in the connection yet has come, and is a stray then.
    let (before, deadline) = (client.0.strays(), Instant::now() + Duration::from_secs(60));
    while client.0.strays() == before && Instant::now() < deadline {
        let call = client.begin_kinds_large(1).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        client.0.cancel(call);
    }
    assert!(client.0.strays() > before, "{}", client.0.strays());
}

#[test]
fn a_call_that_finds_no_room_ends_in_its_time() {
    // Nobody takes what is asked.
    let (transport, _theirs, _endpoints) = connected();
    let timeout = Duration::from_millis(300);
    let mut client =
        Client::with(transport, Config { calls_max: 400, timeout, ..Config::default() });
    let mut begun = Vec::new();
    let error = loop {
        match client.begin_null() {
            Ok(call) => begun.push(call),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::TimedOut(of) if of == timeout), "{error}");
    assert_eq!(begun.len() as u32, AT_ONCE);
    // Who does not wait any more makes room.
    let first = begun.remove(0);
    assert!(matches!(client.wait(first), Err(Error::TimedOut(_))));
    begun.push(client.begin_null().unwrap());
    assert_eq!(client.0.in_flight() as u32, AT_ONCE);
}

#[test]
fn answers_that_nobody_receives_have_a_bound() {
    let (mut transport, theirs, _endpoints) = connected();
    std::thread::spawn(move || {
        while let Ok(Some(call)) = theirs.next_call() {
            call.answer(b"an answer").unwrap();
        }
    });
    // One that was begun beside it is nobody's here.
    transport.connection().begin_call(b"another's".as_slice()).unwrap();
    let mut begun = 0_u32;
    let error = loop {
        match transport.send(&begun.to_be_bytes()) {
            Ok(()) => begun += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
    assert_eq!((transport.waiting(), transport.unwanted()), (4096, 1));
    transport.cancel(7);
    assert!(!transport.cancel(7), "it is forgotten");
    let (mut message, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(60));
    let mut received = 0;
    while received < begun - 1 && Instant::now() < deadline {
        let arrival = transport.receive(&mut message, Some(Duration::from_secs(1))).unwrap();
        received += u32::from(arrival == Arrival::Message);
    }
    assert_eq!((received, transport.waiting()), (begun - 1, 0));
    transport.send(b"once more").unwrap();
}

#[test]
fn so_have_their_bytes() {
    const LEN: usize = 128 << 10;
    let (mut transport, theirs, _endpoints) = connected();
    std::thread::spawn(move || {
        let answer = vec![7; LEN];
        while let Ok(Some(call)) = theirs.next_call() {
            call.answer(&answer[..]).unwrap();
        }
    });
    let mut begun = 0_u32;
    let error = loop {
        match transport.send(&begun.to_be_bytes()) {
            Ok(()) => begun += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
    assert_eq!(transport.waiting(), (16 << 20) / LEN);
    // Who receives one, or cancels one, has room again; those under way make it, too.
    let (mut message, mut at) = (Vec::new(), 0);
    while transport.waiting() > 0 {
        if at % 2 == 0 {
            transport.receive(&mut message, None).unwrap();
            assert_eq!(message.len(), LEN);
        } else {
            transport.cancel(at);
        }
        at += 1;
    }
    transport.send(b"once more").unwrap();
}
