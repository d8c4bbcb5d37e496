//! The transfer over real connections: UDP on loopback, encrypted, one server thread.

mod support;

use fusewire_device::udp;
use fusewire_files::client::{get, put};
use fusewire_files::driver::{Driver, Event, Server};
use fusewire_files::{Element, Machine};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Swap, Trust};
use fusewire_stack::{Config, PORT, Stack};
use fusewire_transport::tcp::Secrets;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::*;

fn identity() -> Arc<Identity> {
    let dir = tempfile::tempdir().unwrap();
    Arc::new(Identity::load_or_create(&dir.path().join("key")).unwrap())
}

fn stack(datagram_bytes: Option<usize>, seed: u8) -> Stack {
    let device = udp::Udp::bind("127.0.0.1:0".parse().unwrap(), &udp::Config::default()).unwrap();
    Stack::new(Box::new(device), Config { datagram_bytes, ..Config::default() }, &[seed; 32])
}

/// A server in a thread of its own while `client` runs.
fn serving<T>(
    dir: &Path,
    identity: &Arc<Identity>,
    datagram_bytes: Option<usize>,
    client: impl FnOnce(SocketAddr) -> T,
) -> T {
    let mut stack = stack(datagram_bytes, 7);
    stack.listen(
        PORT,
        ServerConfig::new(identity.clone()),
        &Secrets { isn: [1; 16], cookie: [2; 16] },
    );
    let address = stack.local_addr();
    let share = share(dir, true);
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut server = Server::new(stack, share);
            while !stop.load(Ordering::Relaxed) || !server.drain() {
                server.turn(Some(Duration::from_millis(5))).unwrap();
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(address)));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens `n` connections, gives each a machine and drives them until all are finished.
fn drive<M: Machine>(
    address: SocketAddr,
    config: &ClientConfig,
    datagram_bytes: Option<usize>,
    n: usize,
    mut machine: impl FnMut(Element) -> M,
) {
    let mut driver = Driver::new(stack(datagram_bytes, 9));
    for _ in 0..n {
        driver.stack().connect(address, PORT, config).unwrap();
    }
    let (mut events, mut finished, start) = (Vec::new(), 0, Instant::now());
    while finished < n {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes too long");
        driver.turn(&mut events, Some(Duration::from_millis(100))).unwrap();
        for event in events.drain(..) {
            match event {
                Event::Connected { id, trusted, .. } => {
                    assert!(trusted);
                    let machine = machine(driver.element(id));
                    driver.seat(id, machine);
                }
                Event::Closed { .. } => finished += 1,
                Event::Finished { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_tree_goes_there_and_back() {
    let (from, there, back) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(from.path());
    let identity = identity();
    for (datagram_bytes, n, element) in [
        (None, 1, Swap::None),
        (Some(1452), 1, Swap::None),
        (None, 3, Swap::Bytes32),
        (Some(1452), 2, Swap::Bytes64),
    ] {
        let mut config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
        config.element = element;
        let name = format!("{n}-{}", datagram_bytes.unwrap_or(0));
        serving(there.path(), &identity, datagram_bytes, |address| {
            let log = Arc::default();
            let options = put::Options { connections: n as u32, ..put::Options::default() };
            let plan = put::Plan::new(
                put::Source::from_path(from.path()).unwrap(),
                remote(&name),
                options,
                observer(&log),
            );
            drive(address, &config, datagram_bytes, n, |element| plan.worker(element));
            assert_eq!(log.lock().unwrap().failed, []);
            assert_eq!(tree(&there.path().join(&name)), tree(from.path()));
            let options = get::Options { connections: n as u32, ..get::Options::default() };
            let (plan, log) = get_plan(&name, &back.path().join(&name), options);
            drive(address, &config, datagram_bytes, n, |element| plan.worker(element));
            assert_eq!(log.lock().unwrap().failed, []);
            assert_eq!(tree(&back.path().join(&name)), tree(from.path()));
        });
    }
}

/// `cargo test --release -p fusewire-files --test stack -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn throughput() {
    let dir = Path::new("/dev/shm");
    let (from, to) = (tempfile::tempdir_in(dir).unwrap(), tempfile::tempdir_in(dir).unwrap());
    let contents = bytes(1 << 30, 1);
    fs::write(from.path().join("big"), &contents).unwrap();
    let identity = identity();
    let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
    for datagram_bytes in [None, Some(1452)] {
        for _ in 0..3 {
            serving(from.path(), &identity, datagram_bytes, |address| {
                let (plan, log) = get_plan("big", to.path(), get::Options::default());
                let start = Instant::now();
                drive(address, &config, datagram_bytes, 1, |element| plan.worker(element));
                let s = start.elapsed().as_secs_f64();
                assert_eq!(log.lock().unwrap().done.len(), 1);
                println!(
                    "{datagram_bytes:?}: {:.0} MB/s file to file",
                    contents.len() as f64 / s / 1e6
                );
            });
        }
    }
    assert!(fs::read(to.path().join("big")).unwrap() == contents);
}
