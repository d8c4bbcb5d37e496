//! Two endpoints over UDP on loopback: ADUs of every size arrive whole, in order, both ways.

use std::sync::Arc;

use fusewire_device::{Device, udp};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, Connection, Endpoint, Error, Listener};

fn identity() -> Arc<Identity> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("fusewire-stack-{}-{n}", std::process::id()));
    let identity = Identity::load_or_create(&dir.join("key")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    Arc::new(identity)
}

fn endpoint(config: Config) -> Endpoint {
    let device = udp::Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap();
    Endpoint::new(Box::new(device) as Box<dyn Device>, config).unwrap()
}

struct Pair {
    client: Endpoint,
    listener: Listener,
    server: Endpoint,
    identity: Arc<Identity>,
}

fn pair(config: &Config) -> Pair {
    let identity = identity();
    let server = endpoint(config.clone());
    let listener = server.listen(ServerConfig::new(identity.clone())).unwrap();
    Pair { client: endpoint(config.clone()), listener, server, identity }
}

impl Pair {
    fn connect(&self) -> (Connection, Connection) {
        let trust = Trust::Pinned(self.identity.fingerprint());
        let config = ClientConfig::new(self.identity.clone(), trust);
        std::thread::scope(|s| {
            let accepted = s.spawn(|| self.listener.accept().unwrap());
            let connected = self.client.connect(self.server.local_addr(), &config).unwrap();
            (connected, accepted.join().unwrap())
        })
    }
}

fn content(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(31) ^ seed.wrapping_mul(101) ^ (i >> 8)) as u8).collect()
}

const SIZES: [usize; 14] =
    [0, 1, 2, 15, 16, 100, 1000, 1388, 1389, 1500, 5000, 16_384, 65_000, 200_000];

fn echo(config: &Config) {
    let pair = pair(config);
    let (mut client, mut server) = pair.connect();
    assert_eq!(client.peer(), Some(pair.identity.fingerprint()));
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
    let (mut client, mut server) = pair.connect();
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
