//! Whatever carries the records: the same calls do the same.

mod support;

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use fusewire_codec::pipeline::{Message, Placed};
use fusewire_device::Device;
use fusewire_session::{ClientConfig, HeaderProtection, Identity, ServerConfig, Trust};
use fusewire_stack::single::{Opening, Single};
use fusewire_stack::{
    Adu, Application, Config, Connection, ConnectionId, Error, Keep, Link, Stack, kernel_tcp, shm,
};
use fusewire_transport::either::{self, Protocol};
use support::{content, device, identity, pair};

const SOON: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

/// What the client asks for.
type Protection = Option<HeaderProtection>;

fn client(identity: &Arc<Identity>, protection: Protection) -> ClientConfig {
    let trust = Trust::Pinned(identity.fingerprint());
    let mut config = ClientConfig::new(identity.clone(), trust);
    config.settings.protection = protection;
    config
}

fn over_kernel_tcp(protection: Protection) -> (kernel_tcp::Connection, kernel_tcp::Connection) {
    let (identity, listener) = (identity(), TcpListener::bind("127.0.0.1:0").unwrap());
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let config = client(&identity, protection);
    let connect = thread::spawn(move || kernel_tcp::Connection::connect(stream, &config).unwrap());
    let (stream, _) = listener.accept().unwrap();
    let server = kernel_tcp::Connection::accept(stream, &ServerConfig::new(identity)).unwrap();
    (connect.join().unwrap(), server)
}

fn over_shared_memory(protection: Protection) -> (shm::Connection, shm::Connection) {
    let (identity, mut shared) = (identity(), shm::Listener::bind().unwrap());
    let [here, there] = [(); 2].map(|()| support::endpoint(Config::default()));
    let mut config = ServerConfig::new(identity.clone());
    config.shared_memory = Some(shared.name().to_vec());
    let listener = there.listen(config).unwrap();
    let mut config = client(&identity, protection);
    config.shared_memory = true;
    let address = there.local_addr();
    let connect =
        thread::spawn(move || shm::go_on(here.connect(address, &config).unwrap()).unwrap());
    let server = shared.go_on(listener.accept().unwrap()).unwrap();
    (connect.join().unwrap(), server)
}

fn over_an_endpoint(protection: Protection, transport: Protocol) -> (Connection, Connection) {
    let transport = either::Config::of_records(transport);
    let pair = pair(&Config { transport, ..Config::default() });
    pair.connect_as(&client(&pair.identity, protection))
}

/// A client that drives its own stack.
fn over_a_stack(protection: Protection) -> (Single, Connection) {
    let pair = pair(&Config::default());
    let stack = Stack::new(Box::new(device()) as Box<dyn Device>, Config::default(), &[5; 32]);
    let config = client(&pair.identity, protection);
    let opening = Opening::new(stack, pair.server.local_addr(), &config).unwrap();
    let connect = thread::spawn(move || opening.connect(|_| unreachable!("it is pinned")).unwrap());
    let server = pair.listener.accept().unwrap();
    (connect.join().unwrap(), server)
}

/// A test of any two links.
trait Test {
    fn run(&self, name: &str, client: impl Link + 'static, server: impl Link + 'static);
}

fn everywhere(test: &impl Test) {
    for padding in [None, Some(1), Some(512)] {
        let protection = padding.and_then(HeaderProtection::with_padding);
        for transport in Protocol::ALL {
            let (client, server) = over_an_endpoint(protection, transport);
            assert_eq!(client.session().options.protection, protection);
            test.run(transport.name(), client, server);
        }
        let (client, server) = over_kernel_tcp(protection);
        test.run("kernel-tcp", client, server);
        let (client, server) = over_shared_memory(protection);
        test.run("shm", client, server);
        let (client, server) = over_a_stack(protection);
        test.run("single", client, server);
    }
}

/// Waits for what is not there at once.
#[track_caller]
fn soon<L: Link, T>(link: &mut L, mut attempt: impl FnMut(&mut L) -> Poll<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Poll::Ready(result) = attempt(link) {
            return result;
        }
        assert!(begun.elapsed() < LONG);
        link.wait(Some(SOON)).unwrap();
    }
}

struct Echo;

impl Test for Echo {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        assert!(!client.carrier().is_empty() && client.session().remote.is_some(), "{name}");
        assert_eq!(client.session().peer, server.session().peer, "{name}: one key");
        let longest = client.adu_len_max().min(100_000);
        let echo = thread::spawn(move || {
            let (mut memory, mut n) = (vec![0; longest], 0);
            // Each way to receive in turn.
            loop {
                let adu = match n % 3 {
                    0 => server.recv(&mut memory).unwrap().map(|len| memory[..len].to_vec()),
                    1 => server.recv_adu_timeout(LONG).unwrap(),
                    _ => soon(&mut server, Link::try_recv_adu).unwrap(),
                };
                let Some(adu) = adu else { break };
                server.send(&adu).unwrap();
                server.flush().unwrap();
                server.recycle(adu);
                n += 1;
            }
            server.finish().unwrap();
            n
        });
        let mut memory = vec![0; longest];
        let lens = [0, 1, 17, 1000, 60_000, longest];
        for (n, len) in lens.into_iter().cycle().take(18).enumerate() {
            let adu = content(n, len);
            match n % 2 {
                0 => client.send(&adu).unwrap(),
                _ => soon(&mut client, |client| client.try_send(&adu)).unwrap(),
            }
            soon(&mut client, Link::try_flush).unwrap();
            let got = match n % 2 {
                0 => soon(&mut client, |client| client.try_recv(&mut memory)).unwrap(),
                _ => client.recv_timeout(&mut memory, LONG).unwrap(),
            };
            assert_eq!(got, Some(len), "{name}");
            assert!(memory[..len] == adu[..], "{name}: an ADU of {len} bytes");
        }
        client.finish().unwrap();
        assert_eq!(echo.join().unwrap(), 18, "{name}");
    }
}

#[test]
fn what_is_sent_comes_back() {
    everywhere(&Echo);
}

/// Puts ADUs one behind the other.
#[derive(Default)]
struct Row {
    bytes: Vec<u8>,
    filled: usize,
    adus: u64,
}

impl Application for Row {
    fn place(&mut self, _: ConnectionId, adu: Adu) -> Option<&mut [u8]> {
        self.bytes.resize(self.filled + adu.len, 0);
        (adu.index == self.adus).then(|| &mut self.bytes[self.filled..])
    }
    fn delivered(&mut self, _: ConnectionId, adu: Adu) {
        self.filled += adu.len;
        self.adus += 1;
    }
}

struct Bulk;

impl Test for Bulk {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        const ADUS: usize = 2000;
        let sender = thread::spawn(move || {
            let adus: Vec<_> = (0..ADUS).map(|n| content(n, 1000 + n % 99)).collect();
            client.send_batch(adus.iter().map(Vec::as_slice)).unwrap();
            // Bytes are a message that is marshalled already.
            let message = content(ADUS, 9999);
            client.send_message(&&message[..]).unwrap();
            soon(&mut client, |client| client.try_send_message(&&message[..])).unwrap();
            client.finish().unwrap();
        });
        let mut row = Row::default();
        assert!(!server.recv_with(&mut row, |_| false).unwrap(), "{name}");
        assert!(!server.recv_with(&mut row, |_| false).unwrap(), "{name}: nothing more");
        server.finish().unwrap();
        sender.join().unwrap();
        assert_eq!(row.adus as usize, ADUS + 2, "{name}");
        let mut bytes = &row.bytes[..row.filled];
        for n in 0..ADUS {
            let adu = content(n, 1000 + n % 99);
            assert!(bytes.starts_with(&adu), "{name}: ADU {n}");
            bytes = &bytes[adu.len()..];
        }
        assert!(bytes == content(ADUS, 9999).repeat(2), "{name}: messages");
    }
}

#[test]
fn batches_and_messages_arrive_in_placed_memory() {
    everywhere(&Bulk);
}

/// Values that are sent together: more than there is room for at once.
const MANY: u32 = 20_000;

struct Values;

impl Test for Values {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        let value = |n: u32| (0..3 * n).map(|i| f64::from(i) / 7.0).collect::<Vec<_>>();
        let sender = thread::spawn(move || {
            for n in 0..50 {
                client.send_message(&Message::xdr(&value(n)).unwrap()).unwrap();
                client.flush().unwrap();
            }
            // It came before somebody asked.
            client.send_message(&Message::xdr(&value(7)).unwrap()).unwrap();
            client.send(b"no such value").unwrap();
            let many: Vec<_> = (0..MANY).map(|n| value(n % 50)).collect();
            client.send_messages(many.iter().map(|value| Message::xdr(value).unwrap())).unwrap();
            client.finish().unwrap();
        });
        let mut found = None::<Vec<f64>>;
        for n in 0..51 {
            if n == 50 {
                thread::sleep(SOON);
                server.wait(Some(SOON)).unwrap();
            }
            let n = if n == 50 { 7 } else { n };
            let mut placed = Placed::xdr(&mut found);
            let len = match n % 3 {
                0 => server.recv_message(&mut placed).unwrap(),
                1 => server.recv_message_timeout(&mut placed, LONG).unwrap(),
                _ => soon(&mut server, |server| server.try_recv_message(&mut placed)).unwrap(),
            };
            assert_eq!(len, Some(4 + 24 * n as usize), "{name}");
            placed.finish().unwrap();
            assert_eq!(found, Some(value(n)), "{name}");
        }
        let mut placed = Placed::xdr(&mut found);
        assert_eq!(server.recv_message(&mut placed).unwrap(), Some(13), "{name}");
        assert!(placed.finish().is_err() && found.is_none(), "{name}");
        for n in 0..MANY {
            let mut placed = Placed::xdr(&mut found);
            server.recv_message(&mut placed).unwrap();
            placed.finish().unwrap();
            assert_eq!(found, Some(value(n % 50)), "{name}: {n} of many together");
        }
        let mut placed = Placed::xdr(&mut found);
        assert_eq!(server.recv_message(&mut placed).unwrap(), None, "{name}: the end");
        server.finish().unwrap();
        sender.join().unwrap();
    }
}

#[test]
fn values_are_marshalled_and_unmarshalled_in_the_pass() {
    everywhere(&Values);
}

struct Bounds;

impl Test for Bounds {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        let too_long = vec![0; client.adu_len_max() + 1];
        assert!(matches!(client.send(&too_long), Err(Error::TooLong { .. })), "{name}");
        let mut memory = [0; 10];
        assert!(server.try_recv(&mut memory).is_pending(), "{name}");
        assert!(server.try_recv_adu().is_pending(), "{name}");
        let waited = server.recv_timeout(&mut memory, SOON);
        assert!(matches!(waited, Err(Error::Elapsed)), "{name}");
        client.send(&[1; 11]).unwrap();
        client.send(&[2; 10]).unwrap();
        client.send(&[3; 10]).unwrap();
        soon(&mut client, Link::try_flush).unwrap();
        let short = server.recv(&mut memory);
        assert!(matches!(short, Err(Error::NoRoom { len: 11, room: 10 })), "{name}");
        // Nobody places it: it is lost.
        assert!(
            soon(&mut server, |server| server.try_recv_with(&mut Once(false))).unwrap(),
            "{name}"
        );
        assert_eq!(server.recv(&mut memory).unwrap(), Some(10), "{name}");
        assert_eq!(memory, [3; 10], "{name}");
        let ended = thread::spawn(move || client.finish().unwrap());
        assert_eq!(soon(&mut server, |server| server.try_recv(&mut memory)).unwrap(), None);
        assert!(!soon(&mut server, |server| server.try_recv_with(&mut Keep)).unwrap(), "{name}");
        assert_eq!(server.recv_adu().unwrap(), None, "{name}");
        server.finish().unwrap();
        ended.join().unwrap();
    }
}

/// Refuses one ADU, and wants no more.
struct Once(bool);

impl Application for Once {
    fn place(&mut self, _: ConnectionId, _: Adu) -> Option<&mut [u8]> {
        self.0 = true;
        None
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
    fn wants_more(&self) -> bool {
        !self.0
    }
}

#[test]
fn bounds_are_told_and_the_end_is_seen_by_every_call() {
    everywhere(&Bounds);
}

struct Close;

impl Test for Close {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        server.send(b"before").unwrap();
        server.close(404);
        server.flush().unwrap();
        assert!(matches!(server.send(b"after"), Err(Error::Closed)), "{name}");
        assert!(matches!(server.recv_adu(), Err(Error::Closed)), "{name}");
        // An endpoint's goes on by itself, while it lives.
        let mut memory = [0; 10];
        assert_eq!(client.recv(&mut memory).unwrap(), Some(6), "{name}");
        for _ in 0..2 {
            let error = client.recv_timeout(&mut memory, LONG).unwrap_err();
            assert!(
                matches!(error, Error::PeerClosed { code: 404, .. } | Error::Closed),
                "{name}: {error}"
            );
            if matches!(error, Error::Closed) {
                break;
            }
        }
    }
}

#[test]
fn who_gives_a_connection_up_says_why() {
    everywhere(&Close);
}

struct Full;

impl Test for Full {
    fn run(&self, name: &str, mut client: impl Link + 'static, mut server: impl Link + 'static) {
        let adu = content(1, 30_000);
        let mut sent = 0u64;
        let begun = Instant::now();
        while client.try_send(&adu).map(Result::unwrap).is_ready() {
            sent += 1;
            assert!(begun.elapsed() < LONG && sent < 100_000, "{name}: it takes all");
        }
        client.close(7);
        let closed = thread::spawn(move || client.flush().map(|()| client));
        let mut memory = vec![0; 30_000];
        for n in 0..sent {
            assert_eq!(server.recv(&mut memory).unwrap(), Some(30_000), "{name}: {n} of {sent}");
        }
        let error = server.recv_timeout(&mut memory, LONG).unwrap_err();
        assert!(matches!(error, Error::PeerClosed { code: 7, .. }), "{name}: {error}");
        closed.join().unwrap().unwrap();
    }
}

#[test]
fn a_reason_is_told_when_there_is_room_for_it() {
    let (client, server) = over_kernel_tcp(None);
    Full.run("kernel-tcp", client, server);
    let (client, server) = over_shared_memory(None);
    Full.run("shm", client, server);
}

/// In order, and each once: what goes with the handshake, and what has no room in it.
#[test]
fn what_is_sent_first_comes_first() {
    let adus: Vec<Vec<u8>> =
        [10, 0, 3000, 100_000, 20].iter().zip(0..).map(|(len, n)| content(n, *len)).collect();
    let first: Vec<&[u8]> = adus.iter().map(Vec::as_slice).collect();
    for transport in Protocol::ALL {
        let transport = either::Config::of_records(transport);
        let pair = pair(&Config { transport, ..Config::default() });
        thread::scope(|s| {
            s.spawn(|| came(pair.listener.accept().unwrap(), &adus));
            let address = pair.server.local_addr();
            finish(pair.client.connect_sending(address, &pair.config(), &first).unwrap());
        });
    }
    for takes in [true, false] {
        let (identity, listener) = (identity(), TcpListener::bind("127.0.0.1:0").unwrap());
        let mut serving = ServerConfig::new(identity.clone());
        serving.settings.early = takes;
        thread::scope(|s| {
            s.spawn(|| {
                let stream = listener.accept().unwrap().0;
                came(kernel_tcp::Connection::accept(stream, &serving).unwrap(), &adus);
            });
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let config = client(&identity, None);
            finish(kernel_tcp::Connection::connect_sending(stream, &config, &first).unwrap());
        });
    }
    let pair = pair(&Config::default());
    let stack = Stack::new(Box::new(device()) as Box<dyn Device>, Config::default(), &[5; 32]);
    let mut opening = Opening::new(stack, pair.server.local_addr(), &pair.config()).unwrap();
    let early = first.iter().take_while(|adu| opening.send(adu).unwrap()).count();
    assert_eq!(early, 3);
    thread::scope(|s| {
        s.spawn(|| came(pair.listener.accept().unwrap(), &adus));
        let mut client = opening.connect(|_| unreachable!("it is pinned")).unwrap();
        first[early..].iter().for_each(|adu| client.send(adu).unwrap());
        finish(client);
    });
}

fn came(mut server: impl Link, adus: &[Vec<u8>]) {
    for adu in adus {
        let got = soon(&mut server, |link| link.try_recv_adu()).unwrap();
        assert!(got.as_ref() == Some(adu), "{}: one of {} bytes", server.carrier(), adu.len());
    }
    assert_eq!(soon(&mut server, |link| link.try_recv_adu()).unwrap(), None);
    soon(&mut server, |link| link.try_finish()).unwrap();
}

fn finish(mut client: impl Link) {
    soon(&mut client, |link| link.try_finish()).unwrap();
    assert_eq!(soon(&mut client, |link| link.try_recv_adu()).unwrap(), None);
}
