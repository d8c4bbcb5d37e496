//! Two endpoints over UDP on loopback: ADUs of every size arrive whole, in order, both ways.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use fusewire_device::memory;
use fusewire_session::{ClientConfig, ServerConfig, Trust};
use fusewire_stack::congestion::{self, Acked, Controller, Factory, Instant as At, Signal};
use fusewire_stack::{
    Adu, Application, Config, Congestion, Connection, ConnectionId, Driver, Endpoint, Error,
    Listener, transport,
};
use support::{content, endpoint, identity, over, pair};

const SIZES: [usize; 14] =
    [0, 1, 2, 15, 16, 100, 1000, 1388, 1389, 1500, 5000, 16_384, 65_000, 200_000];

fn echo(config: &Config) {
    let pair = pair(config);
    let (client, server) = pair.connect();
    assert_eq!(client.peer(), pair.identity.fingerprint());
    let echoed = std::thread::spawn(move || {
        while let Some(adu) = server.recv_adu().unwrap() {
            server.send(&adu).unwrap();
            server.recycle(adu);
        }
        server.finish().unwrap();
    });
    let mut buffer = vec![0; 1 << 20];
    for (n, len) in SIZES.into_iter().enumerate() {
        let adu = content(n, len);
        client.send(&adu).unwrap();

        assert_eq!(client.recv(&mut buffer).unwrap(), Some(len));
        assert!(buffer[..len] == adu[..], "ADU of {len} bytes");
    }
    client.finish().unwrap();
    echoed.join().unwrap();
}

#[test]
fn echo_in_large_datagrams() {
    echo(&Config::default());
}

#[test]
fn echo_in_small_datagrams() {
    echo(&Config { datagram_bytes: Some(1452), ..Config::default() });
}

#[test]
fn many_adus_in_order() {
    let pair = pair(&Config { datagram_bytes: Some(1452), ..Config::default() });
    let (client, server) = pair.connect();
    const COUNT: usize = 20_000;
    let sender = std::thread::spawn(move || {
        for n in 0..COUNT {
            client.send(&content(n, 200 + n % 1188)).unwrap();
        }
        client.finish().unwrap();
    });
    for n in 0..COUNT {
        let adu = server.recv_adu().unwrap().expect("one more");
        assert!(adu == content(n, 200 + n % 1188), "ADU {n}");
        server.recycle(adu);
    }
    assert_eq!(server.recv_adu().unwrap(), None);
    server.finish().unwrap();
    sender.join().unwrap();
}

#[test]
fn a_wrong_key_is_refused_on_both_sides() {
    let pair = pair(&Config::default());
    let stranger = identity();
    let config = ClientConfig::new(pair.identity.clone(), Trust::Pinned(stranger.fingerprint()));
    let server = pair.server.local_addr();
    let result = std::thread::scope(|s| {
        s.spawn(|| {
            // Drives the server until the honest client below is there.
            pair.listener.accept().unwrap();
        });
        let untrusted = pair.client.connect(server, &config).err();
        let config =
            ClientConfig::new(stranger.clone(), Trust::Pinned(pair.identity.fingerprint()));
        let not_allowed = pair.client.connect(server, &config).err();
        let honest =
            ClientConfig::new(pair.identity.clone(), Trust::Pinned(pair.identity.fingerprint()));
        pair.client.connect(server, &honest).unwrap();
        (untrusted, not_allowed)
    });
    assert!(matches!(result.0, Some(Error::Session(_))), "{:?}", result.0);
    assert!(matches!(result.1, Some(Error::Session(_))), "{:?}", result.1);
}

#[test]
fn nobody_there_is_an_error() {
    let client = endpoint(Config {
        handshake_timeout: std::time::Duration::from_millis(300),
        ..Config::default()
    });
    let unused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let identity = identity();
    let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    let error = client.connect(unused.local_addr().unwrap(), &config).err();
    assert!(matches!(error, Some(Error::TimedOut(_))), "{error:?}");
}

/// Both ends of a connection that is used from many places.
const fn is_shared<T: Send + Sync + 'static>() {}
const fn is_send<T: Send>(_: &T) {}
const _: () = {
    is_shared::<Endpoint>();
    is_shared::<Listener>();
    is_shared::<Connection>();
    is_shared::<Config>();
    is_shared::<Error>();
};

/// Never called: that it compiles is the test.
#[allow(dead_code)]
fn futures_may_move_between_threads(e: &Endpoint, l: &Listener, c: &Connection, k: &ClientConfig) {
    let at = e.local_addr();
    let message = fusewire_kernels_message();
    is_send(&e.connect_async(at, k));
    is_send(&e.connect_with_async(at, k, async |_| Ok(())));
    is_send(&e.wait_idle_async());
    is_send(&l.accept_async());
    is_send(&c.send_async(&[]));
    is_send(&c.send_batch_async([&[][..]]));
    is_send(&c.send_message_async(message));
    is_send(&c.recv_async());
    is_send(&c.recv_into_async(&mut []));
    is_send(&c.recv_any_async());
    is_send(&c.recv_with_async(&mut fusewire_stack::Keep, |_| true));
    is_send(&c.finish_async());
    is_send(&c.closed_async());
}

fn fusewire_kernels_message() -> &'static (dyn fusewire_session::Marshal + Sync) {
    unreachable!("never called")
}

/// Lines that the stack logs in this process.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps events of level `info` and above in [`LOG`].
struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl tracing::field::Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(format!("{} ", event.metadata().level()));
        event.record(&mut line);
        LOG.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_server_logs_refused_and_failed_handshakes_with_address_key_and_reason() {
    static SET: Once = Once::new();
    SET.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
    let pair = pair(&Config::default());
    let (server, stranger) = (pair.server.local_addr(), identity());
    let logged = |client: &Endpoint, config: &ClientConfig, words: &[&str]| {
        client.connect(server, config).err().expect("it is refused");
        let peer = format!("peer={} ", client.local_addr());
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let log = LOG.lock().unwrap().clone();
            if let Some(line) = log.iter().find(|line| line.contains(&peer)) {
                assert!(line.starts_with("INFO "), "{line}");
                assert!(words.iter().all(|word| line.contains(word)), "{line}");
                return;
            }
            assert!(Instant::now() < end, "{log:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // The server does not allow the client, and the client does not trust the server.
    let trust = Trust::Pinned(pair.identity.fingerprint());
    let key = stranger.fingerprint().to_string();
    let refused = ClientConfig::new(stranger.clone(), trust);
    logged(&support::endpoint(Config::default()), &refused, &[&key, "is not allowed"]);
    let distrusts = ClientConfig::new(pair.identity.clone(), Trust::Pinned(stranger.fingerprint()));
    logged(&support::endpoint(Config::default()), &distrusts, &["handshake failed", "error="]);
}

#[test]
fn closing_ends_waiting_accepts_in_threads_and_tasks() {
    for driver in [Driver::Thread, Driver::Caller] {
        for closes_endpoint in [false, true] {
            let pair = pair(&Config { driver, ..Config::default() });
            let (client, server) = pair.connect();
            let config = pair.config();
            let listener = Arc::new(pair.listener);
            let (tell, ended) = std::sync::mpsc::channel();
            for _ in 0..3 {
                let (listener, tell) = (listener.clone(), tell.clone());
                std::thread::spawn(move || tell.send(listener.accept().err()));
            }
            let task = listener.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                tell.send(runtime.block_on(task.accept_async()).err())
            });
            // Some of them wait already, and the others find it closed.
            std::thread::sleep(Duration::from_millis(50));
            if closes_endpoint {
                pair.server.close(7);
            } else {
                listener.close();
            }
            for _ in 0..4 {
                let ended = ended.recv_timeout(Duration::from_secs(20)).expect("an accept ends");
                assert!(matches!(ended, Some(Error::Closed)), "{driver:?} {ended:?}");
            }
            assert!(matches!(listener.accept().err(), Some(Error::Closed)));
            let again = pair.server.listen(ServerConfig::new(pair.identity.clone()));
            if closes_endpoint {
                assert!(matches!(again.err(), Some(Error::Closed)));
                let refused = pair.server.connect(pair.client.local_addr(), &config);
                assert!(matches!(refused.err(), Some(Error::Closed)));
                let told = client.recv_adu_timeout(Duration::from_secs(20)).err();
                assert!(matches!(told, Some(Error::PeerClosed { code: 7, .. })), "{told:?}");
            } else {
                // The closed listener neither takes the connections of the next one nor ends it.
                let next = again.unwrap();
                drop(listener);
                std::thread::scope(|scope| {
                    let accepted = scope.spawn(|| next.accept_timeout(Duration::from_secs(20)));
                    let _third = pair.client.connect(pair.server.local_addr(), &config).unwrap();
                    accepted.join().unwrap().unwrap();
                });
                client.send(b"it goes on").unwrap();
                assert_eq!(server.recv_adu().unwrap().unwrap(), b"it goes on");
            }
        }
    }
}

#[test]
fn an_endpoint_takes_longer_adus_by_one_setting_and_the_error_names_it() {
    let short = pair(&Config::default());
    let (client, _server) = short.connect();
    assert_eq!(client.adu_len_max(), Config::MAX_ADU_DEFAULT as usize);
    let long = content(1, client.adu_len_max() + 1);
    let error = client.send(&long).unwrap_err();
    assert!(error.to_string().contains("max_adu"), "{error}");
    let at = "127.0.0.1:0".parse().unwrap();
    let config = || Config { max_adu: Some(Config::MAX_ADU_CEILING), ..Config::default() };
    let ends = [config(), config()].map(|config| Endpoint::udp_with(at, config).unwrap());
    let [client, server] = ends;
    let both = support::join(client, server);
    let (client, server) = both.connect();
    client.send(&long).unwrap();
    assert!(server.recv_adu_timeout(Duration::from_secs(60)).unwrap().unwrap() == long);
}

/// A window that stays, and a count of the acknowledgements.
#[derive(Debug)]
struct Fixed;

static ACKED: AtomicUsize = AtomicUsize::new(0);

impl Factory for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }
    fn start(&self, _: &congestion::Config) -> Box<dyn Controller + Send + Sync> {
        Box::new(Window)
    }
}

struct Window;

impl Controller for Window {
    fn window(&self) -> u64 {
        256 << 10
    }
    fn on_acked(&mut self, _: &Acked) {
        ACKED.fetch_add(1, Ordering::Relaxed);
    }
    fn on_congestion(&mut self, _: At, _: Signal, _in_flight: u64) {}
    fn set_mss(&mut self, _: u32) {}
}

#[test]
fn a_controller_of_the_applications_own_controls_its_connections() {
    for protocol in [transport::Protocol::Tcp, transport::Protocol::Xtp] {
        let mut transport = transport::Config::of_records(protocol);
        transport.set_congestion(Congestion::Own(&Fixed));
        let pair = pair(&Config { transport, ..Config::default() });
        let (client, server) = pair.connect();
        let before = ACKED.load(Ordering::Relaxed);
        let receives = std::thread::spawn(move || {
            for n in 0..40 {
                let adu = server.recv_adu_timeout(Duration::from_secs(20)).unwrap().unwrap();
                assert!(adu == content(n, 100_000));
            }
            server.finish().unwrap();
        });
        for n in 0..40 {
            client.send(&content(n, 100_000)).unwrap();
        }
        let info = client.info().expect("it is open");
        assert_eq!((info.congestion.name(), info.cwnd), ("fixed", 256 << 10), "{protocol}");
        client.finish().unwrap();
        receives.join().unwrap();
        assert!(ACKED.load(Ordering::Relaxed) > before + 5, "{protocol}");
    }
}

#[test]
fn an_endpoint_has_one_listener_and_a_dropped_one_listens_no_more() {
    let pair = pair(&Config::default());
    let again = pair.server.listen(ServerConfig::new(pair.identity.clone()));
    assert!(matches!(again, Err(Error::Misuse(_))), "a second listener");
    let (client, server) = pair.connect();
    // One that nobody has accepted is reset, and one that was goes on.
    let waiting = pair.client.connect(pair.server.local_addr(), &pair.config()).unwrap();
    drop(pair.listener);
    let config =
        ClientConfig::new(pair.identity.clone(), Trust::Pinned(pair.identity.fingerprint()));
    let refused = pair.client.connect(pair.server.local_addr(), &config).err();
    assert!(matches!(refused, Some(Error::Refused(_))), "{refused:?}");
    let reset = waiting.recv_adu_timeout(Duration::from_secs(10)).err();
    assert!(matches!(reset, Some(Error::Reset(_))), "{reset:?}");
    client.send(b"it goes on").unwrap();
    assert_eq!(server.recv_adu().unwrap().unwrap(), b"it goes on");
    // And another may listen now.
    let listener = pair.server.listen(ServerConfig::new(pair.identity.clone())).unwrap();
    let _third = pair.client.connect(pair.server.local_addr(), &config).unwrap();
    listener.accept().unwrap();
}

#[test]
fn a_code_closes_a_connection_after_what_was_sent() {
    let pair = pair(&Config::default());
    for (close_client, unread) in [(true, 0), (false, 3)] {
        let (client, server) = pair.connect();
        let (closes, learns) = if close_client { (client, server) } else { (server, client) };
        // What the closing side has not read is thrown away, and in nobody's way.
        for n in 0..unread {
            learns.send(&content(n, 50_000)).unwrap();
        }
        for n in 0..20 {
            closes.send(&content(n, 9000)).unwrap();
        }
        closes.close(0xdead_beef_0000_0007);
        assert!(matches!(closes.send(b"more"), Err(Error::Closed)));
        assert!(matches!(closes.closed(), Err(Error::Closed)));
        for n in 0..20 {
            assert!(learns.recv_adu().unwrap().unwrap() == content(n, 9000), "ADU {n}");
        }
        // Everyone who asks is told, as often as he asks.
        for _ in 0..3 {
            for error in [
                learns.recv_adu().err(),
                learns.send(b"an answer").err(),
                learns.closed().err(),
                learns.finish().err(),
            ] {
                let Some(Error::PeerClosed { peer, code }) = error else { panic!("{error:?}") };
                assert_eq!(code, 0xdead_beef_0000_0007);
                assert_eq!(peer.ip(), pair.server.local_addr().ip());
            }
        }
    }
    pair.client.wait_idle().unwrap();
    pair.server.wait_idle().unwrap();
    assert_eq!(pair.server.with_stack(|s| s.active()), 0);
}

/// A program that closes and ends: what it said is heard, if it waits for it.
#[test]
fn idle_is_when_everything_was_told() {
    let pair = pair(&Config::default());
    pair.client.wait_idle().unwrap();
    let (client, server) = pair.connect();
    for n in 0..20 {
        client.send(&content(n, 5000)).unwrap();
    }
    client.close(1);
    drop(client);
    pair.client.wait_idle().unwrap();
    drop(pair.client);
    let closed = loop {
        match server.recv_adu() {
            Ok(adu) => assert!(adu.is_some(), "a code is no end in order"),
            Err(error) => break error,
        }
    };
    assert!(matches!(closed, Error::PeerClosed { code: 1, .. }), "{closed:?}");
}

#[test]
fn what_came_before_the_end_can_be_received_after_it() {
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    for n in 0..3 {
        client.send(&content(n, 1000)).unwrap();
    }
    client.finish_sending();
    // Until the peer's end is here too, and both sides are over.
    std::thread::sleep(Duration::from_millis(100));
    server.finish_sending();
    client.closed().unwrap();
    server.closed().unwrap();
    for n in 0..3 {
        assert!(server.recv_adu().unwrap().unwrap() == content(n, 1000), "ADU {n}");
    }
    assert_eq!(server.recv_adu().unwrap(), None);
    server.finish().unwrap();
}

#[test]
fn waits_end_in_time_and_lose_nothing() {
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let mut adu = [0; 100];
    let begun = Instant::now();
    let nothing = client.recv_timeout(&mut adu, Duration::from_millis(60));
    assert!(matches!(nothing, Err(Error::Elapsed)), "{nothing:?}");
    let nothing = client.recv_adu_timeout(Duration::from_millis(60));
    assert!(matches!(nothing, Err(Error::Elapsed)), "{nothing:?}");
    let nobody = pair.listener.accept_timeout(Duration::from_millis(60)).err();
    assert!(matches!(nobody, Some(Error::Elapsed)), "{nobody:?}");
    assert!(begun.elapsed() >= Duration::from_millis(180));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(client.try_recv(&mut adu).is_pending());
    server.send(b"late").unwrap();
    let got = client.recv_timeout(&mut adu, Duration::from_secs(10)).unwrap();
    assert_eq!(got, Some(4));
    server.send(b"later").unwrap();
    let begun = Instant::now();
    let got = loop {
        if let std::task::Poll::Ready(got) = client.try_recv(&mut adu) {
            break got.unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
    };
    assert_eq!(got, Some(5));
}

/// One number sizes windows and memory of both sides, whatever their devices hold at once.
#[test]
fn the_longest_adu_is_one_setting() {
    const LONGEST: usize = 6 << 20;
    let network = memory::Network::new(memory::Config {
        mailbox_bytes: 208 << 10,
        ..memory::Config::default()
    });
    let at = |addr: &str, max_adu| {
        let device = network.attach(addr.parse().unwrap()).unwrap();
        Endpoint::new(Box::new(device), Config { max_adu, ..Config::default() })
    };
    let refused = at("192.0.2.9:9", Some((16 << 20) + 1)).err();
    assert!(matches!(refused, Some(Error::MaxAdu { max: 16_777_216, .. })), "{refused:?}");
    assert!(at("192.0.2.9:9", Some(16 << 20)).is_ok());

    let both = support::join(
        at("192.0.2.1:1", Some(LONGEST as u32)).unwrap(),
        at("192.0.2.2:2", Some(LONGEST as u32)).unwrap(),
    );
    let (client, server) = both.connect();
    assert_eq!((client.adu_len_max(), server.adu_len_max()), (LONGEST, LONGEST));
    let echoed = std::thread::spawn(move || {
        let adu = server.recv_adu_timeout(Duration::from_secs(60));
        let adu = adu.unwrap_or_else(|e| panic!("{e}: {:?}", server.info())).unwrap();
        server.send(&adu).unwrap();
        server.finish().unwrap();
    });
    let adu = content(1, LONGEST);
    assert!(matches!(client.send(&[&adu[..], &[0]].concat()), Err(Error::TooLong { .. })));
    client.send(&adu).unwrap();
    let echo = client.recv_adu_timeout(Duration::from_secs(60));
    let echo = echo.unwrap_or_else(|e| panic!("{e}: {:?}", client.info())).unwrap();
    assert!(echo == adu);
    client.finish().unwrap();
    echoed.join().unwrap();

    // A peer that takes more than our memory holds: said, and not waited for.
    let small = at("192.0.2.3:3", None).unwrap();
    let config = both.config();
    let client = small.connect(both.server.local_addr(), &config).unwrap();
    let longest = client.adu_len_max();
    assert!((1 << 20..LONGEST).contains(&longest), "{longest}");
    let too_long = client.send(&adu);
    assert!(matches!(too_long, Err(Error::TooLong { max, .. }) if max == longest), "{too_long:?}");
}

/// What is said to be the longest is none too long, whatever the window's unit.
#[test]
fn an_adu_as_long_as_is_said_arrives() {
    for datagram_bytes in [None, Some(1452), Some(1453)] {
        let pair = pair(&Config { datagram_bytes, ..Config::default() });
        let (client, server) = pair.connect();
        // The stream begins anywhere in a unit.
        for n in 0..20 {
            let adu = content(n, client.adu_len_max());
            client.send(&content(n, n * 7)).unwrap();
            client.send(&adu).unwrap();
            let short = server.recv_adu_timeout(Duration::from_secs(20)).unwrap().unwrap();
            assert_eq!(short.len(), n * 7);
            let long = server.recv_adu_timeout(Duration::from_secs(20));
            let long = long.unwrap_or_else(|e| panic!("{n}: {e}: {:?}", server.info()));
            assert!(long.unwrap() == adu);
        }
    }
}

/// An application that fails while it is asked where an ADU goes.
struct Fails;

impl Application for Fails {
    fn place(&mut self, _: ConnectionId, _: Adu) -> Option<&mut [u8]> {
        panic!("the application's own")
    }
    fn delivered(&mut self, _: ConnectionId, _: Adu) {}
}

#[test]
fn a_panic_of_the_application_leaves_the_others_alone() {
    for driver in [Driver::Thread, Driver::Caller] {
        let pair = pair(&Config { driver, ..Config::default() });
        let (client, server) = pair.connect();
        let (other, others_server) = pair.connect();
        let failing = std::thread::spawn(move || {
            let failed = catch_unwind(AssertUnwindSafe(|| client.recv_with(&mut Fails, |_| false)));
            assert!(failed.is_err());
            client
        });
        std::thread::sleep(Duration::from_millis(20));
        // Follows the one that will fail, and has to go on without it.
        let following = std::thread::spawn(move || {
            let adu = other.recv_adu_timeout(Duration::from_secs(20)).unwrap();
            (other, adu)
        });
        std::thread::sleep(Duration::from_millis(20));
        server.send(b"the last straw").unwrap();
        let client = failing.join().unwrap();
        others_server.send(b"for the other").unwrap();
        assert_eq!(following.join().unwrap().1.unwrap(), b"for the other");
        // The one that it failed over comes again, unless the application had it already.
        server.send(b"and on").unwrap();
        let next = || client.recv_adu_timeout(Duration::from_secs(20)).unwrap().unwrap();
        let adu = next();
        assert!(adu == b"and on" || adu == b"the last straw" && next() == b"and on", "{driver:?}");
    }
}

#[test]
fn errors_speak_of_no_program() {
    let peer = "192.0.2.1:9300".parse().unwrap();
    let after = Duration::from_secs(30);
    for error in [
        Error::TimedOut(peer),
        Error::Unreachable(peer),
        Error::Refused(peer),
        Error::Reset(peer),
        Error::Silent { peer, after },
        Error::PeerClosed { peer, code: 7 },
        Error::Elapsed,
    ] {
        assert!(!error.to_string().contains("fusewire"), "{error}");
    }
    let silent = Error::Silent { peer, after: Duration::from_millis(1500) };
    assert_eq!(silent.to_string(), "nothing was heard of 192.0.2.1:9300 for 1.5 s");
}

/// Whose process is gone is given up, whether somebody waits for it or not.
#[test]
fn a_peer_that_died_ends_all_waits() {
    let server = endpoint(Config { driver: Driver::Caller, ..Config::default() });
    let pair = support::join(endpoint(Config::default()), server);
    let mut config = pair.config();
    config.settings.idle_timeout = Some(Duration::from_millis(400));
    let (client, server) = pair.connect_as(&config);
    assert_eq!(client.options().idle_timeout, Some(Duration::from_millis(400)));
    // Nobody drives the server any more: it is as dead as a process can be. The port stays.
    let begun = Instant::now();
    let (client, second) = (Arc::new(client), Arc::new(server));
    let waits = client.clone();
    let received = std::thread::spawn(move || waits.recv_adu());
    let closed = client.closed().err();
    let received = received.join().unwrap().err();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(matches!(closed, Some(Error::Silent { .. })), "{closed:?}");
    assert!(matches!(received, Some(Error::Silent { .. })), "{received:?}");
    let _ = (over(support::device(), Config::default()), second);
}

#[test]
fn tasks_end_a_connection_in_order() {
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        client.send_async(b"the last").await.unwrap();
        assert_eq!(server.recv_async().await.unwrap().unwrap(), b"the last");
        let ends = tokio::join!(client.finish_async(), server.finish_async());
        ends.0.and(ends.1).unwrap();
    });
}

#[test]
fn tasks_that_poll_accept_and_send() {
    use std::future::poll_fn;
    let pair = pair(&Config::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let config = pair.config();
        let connecting = pair.client.connect_async(pair.server.local_addr(), &config);
        let (client, server) =
            tokio::join!(connecting, poll_fn(|cx| pair.listener.poll_accept(cx)));
        let (client, server) = (client.unwrap(), server.unwrap());
        poll_fn(|cx| client.poll_send(cx, b"polled")).await.unwrap();
        assert_eq!(server.recv_async().await.unwrap().unwrap(), b"polled");
    });
}
