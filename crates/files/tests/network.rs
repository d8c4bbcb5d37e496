//! Clients and servers over real devices of this host: nobody sleeps over an answer, who is gone is noticed, what
//! is blocked is gone round.

mod support;

use std::fs;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fusewire_device::udp::Udp;
use fusewire_device::{Device, RxBatch, TxFrame};
use fusewire_files::client::{get, put};
use fusewire_files::net::{Call, Client, Control, Patience, Server, TurnFn, said_first, streams};
use fusewire_files::server::Share;
use fusewire_files::{Element, Error};
use fusewire_session::{ClientConfig, Identity, ServerConfig, Trust};
use fusewire_stack::{Config, PORT, Stack};
use fusewire_transport::machine::Secrets;
use support::*;

/// The system's own device, as the program uses it.
fn stack(address: SocketAddr) -> Stack {
    let device = Udp::bind(address, &Default::default()).unwrap();
    Stack::new(Box::new(device), Config::default(), &[7; 32])
}

const SECRETS: Secrets = Secrets { isn: [3; 16], cookie: [4; 16] };

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn identity() -> Arc<Identity> {
    let dir = tempfile::tempdir().unwrap();
    Arc::new(Identity::load_or_create(&dir.path().join("key")).unwrap())
}

fn client_config(server: &Arc<Identity>) -> ClientConfig {
    let mut config = ClientConfig::new(server.clone(), Trust::Pinned(server.fingerprint()));
    config.settings.body_len_max = fusewire_files::net::BODY_LEN_MAX;
    config
}

/// A server over UDP and kernel TCP on one port, in threads of its own.
struct Serving {
    address: SocketAddr,
    identity: Arc<Identity>,
    control: Arc<Control>,
    wake: Box<dyn Fn()>,
    threads: Vec<JoinHandle<()>>,
}

impl Serving {
    fn new(share: &Arc<Share>, udp: bool) -> Serving {
        let identity = identity();
        let mut config = ServerConfig::new(identity.clone());
        config.settings.body_len_max = fusewire_files::net::BODY_LEN_MAX;
        let (mut stack, tcp) = loop {
            let stack = stack(local());
            if let Ok(tcp) = TcpListener::bind(stack.local_addr()) {
                break (stack, tcp);
            }
        };
        let (address, control) = (stack.local_addr(), Arc::new(Control::default()));
        let mut threads = Vec::new();
        let waker = stack.waker();
        {
            let (config, share, control) = (config.clone(), share.clone(), control.clone());
            threads.push(std::thread::spawn(move || {
                streams::serve(&tcp, &config, &share, &control).unwrap();
            }));
        }
        if udp {
            stack.listen(PORT, config, &SECRETS);
            let mut server = Server::new(stack, share.clone());
            let control = control.clone();
            threads.push(std::thread::spawn(move || {
                server.run(&control, Duration::ZERO).unwrap();
            }));
        } else {
            // It is bound, and what comes is swallowed.
            std::mem::forget(stack);
        }
        Serving { address, identity, control, wake: Box::new(move || waker.wake()), threads }
    }

    fn connect(&self, device: &str) -> Client {
        let config = client_config(&self.identity);
        let judge = &mut |_| Ok(());
        match device {
            "udp" => Client::over_stack(stack(local()), &Call::new(self.address, &config), judge),
            _ => Client::over_kernel_tcp(
                &Call::new(self.address, &config),
                Duration::from_secs(10),
                judge,
            ),
        }
        .unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.control.drain();
        (self.wake)();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn put(link: &mut Client, from: &Path, to: &str) -> Result<bool, Error> {
    let source = put::Source::from_path(from).unwrap();
    let plan =
        put::Plan::new(source, remote(to), put::Options::default(), observer(&Arc::default()));
    let mut worker = plan.worker(Element::Octets);
    let step: TurnFn<'_> = &mut |channel, scratch, now| worker.turn(channel, scratch, now);
    let done = link.run(&AtomicBool::new(false), step)?;
    plan.take_error().map_or(Ok(done), Err)
}

fn get(link: &mut Client, from: &str, to: &Path) -> Result<bool, Error> {
    let (plan, _) = get_plan(from, to, get::Options::default());
    let mut worker = plan.worker(Element::Octets);
    let step: TurnFn<'_> = &mut |channel, scratch, now| worker.turn(channel, scratch, now);
    let done = link.run(&AtomicBool::new(false), step)?;
    plan.take_error().map_or(Ok(done), Err)
}

/// What a get says first goes ahead of everything on whatever carries it, to a server that is known and to one that is not.
#[test]
fn what_is_said_first_is_answered() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("small"), bytes(3000, 1)).unwrap();
    let serving = Serving::new(&share(from.path(), true), true);
    let known = client_config(&serving.identity);
    let unknown = ClientConfig { trust: Trust::Ask, ..known.clone() };
    for (n, config) in [&known, &unknown].into_iter().enumerate() {
        for device in ["udp", "kernel-tcp", "best"] {
            let to = to.path().join(format!("{device}{n}"));
            let (plan, _) = get_plan("small", &to, get::Options::default());
            let mut worker = plan.worker(Element::Octets);
            let step: TurnFn<'_> = &mut |channel, scratch, now| worker.turn(channel, scratch, now);
            let first = said_first(step).unwrap();
            assert_eq!(first.len(), 1, "it looks what there is");
            let call = Call { remote: serving.address, config, first: &first };
            let mut asked = 0;
            let judge = &mut |_| {
                asked += 1;
                Ok(())
            };
            let patience = Duration::from_secs(10);
            let mut link = match device {
                "udp" => Client::over_stack(stack(local()), &call, judge),
                "best" => {
                    Client::over_the_best(stack(local()), &call, Patience::new(patience), judge)
                }
                _ => Client::over_kernel_tcp(&call, patience, judge),
            }
            .unwrap();
            assert!(link.run(&AtomicBool::new(false), step).unwrap());
            assert!(plan.take_error().is_none());
            assert_eq!(fs::read(to).unwrap(), bytes(3000, 1), "{device}");
            assert_eq!(asked, n);
        }
    }
}

#[test]
fn a_small_put_never_waits_for_a_timer() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("small");
    fs::write(&path, bytes(3000, 1)).unwrap();
    let serving = Serving::new(&share(to.path(), true), true);
    for device in ["udp", "kernel-tcp"] {
        let mut slow = Vec::new();
        for n in 0..40 {
            let mut link = serving.connect(device);
            let began = Instant::now();
            assert!(put(&mut link, &path, &format!("small{n}")).unwrap());
            // A server that slept over the client's end did so for about a second, in half of the runs.
            slow.extend(Some(began.elapsed()).filter(|took| *took > Duration::from_millis(900)));
        }
        assert!(slow.len() < 15, "{device}: {slow:?}");
    }
}

/// A client whose UDP goes nowhere, and a server that listens on kernel TCP too.
#[test]
fn where_udp_is_swallowed_kernel_tcp_is_taken() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = from.path().join("small");
    fs::write(&path, bytes(3000, 1)).unwrap();
    let serving = Serving::new(&share(to.path(), true), false);
    let config = client_config(&serving.identity);
    let began = Instant::now();
    let patience = Patience::new(Duration::from_secs(10));
    let mut link = Client::over_the_best(
        stack(local()),
        &Call::new(serving.address, &config),
        patience,
        &mut |_| Ok(()),
    )
    .unwrap();
    let took = began.elapsed();
    assert_eq!(link.carrier(), "kernel-tcp");
    assert!(took >= patience.head_start && took < Duration::from_secs(30), "{took:?}");
    assert!(put(&mut link, &path, "small").unwrap());
    assert_eq!(fs::read(to.path().join("small")).unwrap(), fs::read(&path).unwrap());
}

#[test]
fn where_udp_is_answered_it_is_taken() {
    let to = tempfile::tempdir().unwrap();
    let serving = Serving::new(&share(to.path(), true), true);
    let config = client_config(&serving.identity);
    // No head start: kernel TCP is tried as well, and whichever is there first is good.
    for (head_start, carrier) in [(10_000, Some("udp")), (0, None)] {
        let head_start = Duration::from_millis(head_start);
        let patience = Patience { head_start, kernel_tcp: Duration::from_secs(10) };
        let mut link = Client::over_the_best(
            stack(local()),
            &Call::new(serving.address, &config),
            patience,
            &mut |_| Ok(()),
        )
        .unwrap();
        assert!(carrier.is_none_or(|carrier| carrier == link.carrier()), "{}", link.carrier());
        let from = tempfile::tempdir().unwrap();
        fs::write(from.path().join("x"), b"x").unwrap();
        assert!(put(&mut link, &from.path().join("x"), "x").unwrap());
    }
}

#[test]
fn where_nothing_is_answered_the_first_way_says_why() {
    // Both are refused: the port was free a moment ago.
    let nobody = UdpSocket::bind(local()).unwrap().local_addr().unwrap();
    let config = client_config(&identity());
    let patience = Patience::new(Duration::from_secs(1));
    let error =
        Client::over_the_best(stack(local()), &Call::new(nobody, &config), patience, &mut |_| {
            Ok(())
        })
        .err()
        .unwrap();
    assert!(error.to_string().contains("nobody listens"), "{error}");
    // UDP is swallowed, and nobody listens on TCP: the stack's patience ends it.
    let swallows = UdpSocket::bind(local()).unwrap();
    let settings = Config { handshake_timeout: Duration::from_millis(400), ..Config::default() };
    let device = Udp::bind(local(), &Default::default()).unwrap();
    let quick = Stack::new(Box::new(device), settings, &[7; 32]);
    let at = swallows.local_addr().unwrap();
    let error = Client::over_the_best(quick, &Call::new(at, &config), patience, &mut |_| Ok(()))
        .err()
        .unwrap();
    assert!(error.to_string().contains("no answer"), "{error}");
}

/// A UDP device that neither hears nor says anything once it is told to.
struct Deaf {
    inner: Udp,
    is_deaf: Arc<AtomicBool>,
}

impl Device for Deaf {
    fusewire_device::forward!(self => self.inner; caps local_addr wait waker as_fd poll_event);

    fn transmit(&mut self, frames: &[TxFrame<'_>]) -> std::io::Result<usize> {
        if self.is_deaf.load(Ordering::Relaxed) {
            return Ok(frames.len());
        }
        self.inner.transmit(frames)
    }
    fn receive(&mut self, batch: &mut RxBatch) -> std::io::Result<usize> {
        let count = self.inner.receive(batch)?;
        if !self.is_deaf.load(Ordering::Relaxed) {
            return Ok(count);
        }
        batch.clear();
        Ok(0)
    }
}

/// A put or a get over UDP with a server that says nothing from the middle on: how long it takes the client to
/// notice, and its words.
fn with_a_silent_server(direction: &str) -> (Duration, String) {
    let dir = tempfile::tempdir().unwrap();
    for name in ["served", "here"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("big"), bytes(16 << 20, 1)).unwrap();
    }
    let (identity, control) = (identity(), Arc::new(Control::default()));
    let is_deaf = Arc::new(AtomicBool::new(false));
    let device =
        Deaf { inner: Udp::bind(local(), &Default::default()).unwrap(), is_deaf: is_deaf.clone() };
    let mut at_server = Stack::new(Box::new(device), Config::default(), &[7; 32]);
    let mut config = ServerConfig::new(identity.clone());
    config.settings.body_len_max = fusewire_files::net::BODY_LEN_MAX;
    at_server.listen(PORT, config, &SECRETS);
    let (address, waker) = (at_server.local_addr(), at_server.waker());
    let mut server = Server::new(at_server, share(&dir.path().join("served"), true));
    let serving = control.clone();
    let server = std::thread::spawn(move || server.run(&serving, Duration::ZERO).unwrap());

    let mut config = client_config(&identity);
    config.settings.idle_timeout = Some(Duration::from_millis(1200));
    let mut link =
        Client::over_stack(stack(local()), &Call::new(address, &config), &mut |_| Ok(())).unwrap();
    let options = put::Options { bytes_per_s: 8 << 20, ..put::Options::default() };
    let source = put::Source::from_path(&dir.path().join("here/big")).unwrap();
    let put_plan = put::Plan::new(source, remote("put"), options, observer(&Arc::default()));
    let options = get::Options { bytes_per_s: 8 << 20, ..get::Options::default() };
    let (get_plan, _) = get_plan("big", &dir.path().join("here/got"), options);
    let mut putting = put_plan.worker(Element::Octets);
    let mut getting = get_plan.worker(Element::Octets);
    let (began, mut since) = (Instant::now(), None);
    let step: TurnFn<'_> = &mut |channel, scratch, now| {
        if since.is_none() && began.elapsed() > Duration::from_millis(200) {
            since = Some(Instant::now());
            is_deaf.store(true, Ordering::Relaxed);
        }
        match direction {
            "put" => putting.turn(channel, scratch, now),
            _ => getting.turn(channel, scratch, now),
        }
    };
    let error = link.run(&AtomicBool::new(false), step).unwrap_err().to_string();
    let took = since.unwrap().elapsed();
    control.drain();
    waker.wake();
    server.join().unwrap();
    (took, error)
}

#[test]
fn a_server_that_falls_silent_is_noticed_by_get_and_put() {
    for direction in ["get", "put"] {
        let (took, error) = with_a_silent_server(direction);
        assert!(error.contains("nothing was heard of 127.0.0.1"), "{direction}: {error}");
        assert!(error.contains("the network between is down"), "{direction}: {error}");
        assert!(took < Duration::from_secs(30), "{direction}: {took:?}");
    }
}

#[test]
fn a_server_whose_process_ends_is_noticed_over_kernel_tcp() {
    for unread in [false, true] {
        let identity = identity();
        let listener = TcpListener::bind(local()).unwrap();
        let address = listener.local_addr().unwrap();
        let config = ServerConfig::new(identity.clone());
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let accepted = fusewire_stack::kernel_tcp::Connection::accept(stream, &config).unwrap();
            // What a process that ends has not read becomes a reset, and otherwise an end.
            if unread {
                std::thread::sleep(Duration::from_millis(300));
            }
            drop(accepted);
        });
        let config = client_config(&identity);
        let patience = Duration::from_secs(10);
        let mut link =
            Client::over_kernel_tcp(&Call::new(address, &config), patience, &mut |_| Ok(()))
                .unwrap();
        let to = tempfile::tempdir().unwrap();
        if !unread {
            server.join().unwrap();
        }
        let began = Instant::now();
        let error = get(&mut link, "big", &to.path().join("x")).unwrap_err().to_string();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert!(error.contains("it was stopped or restarted"), "{error}");
    }
}

#[test]
fn who_is_not_served_any_more_is_closed() {
    for device in ["udp", "kernel-tcp"] {
        let served = tempfile::tempdir().unwrap();
        fs::write(served.path().join("big"), bytes(64 << 20, 1)).unwrap();
        let serving = Serving::new(&share(served.path(), false), true);
        let (stays, to) = (serving.connect(device), tempfile::tempdir().unwrap());
        let mut goes = serving.connect(device);
        let options = get::Options { bytes_per_s: 8 << 20, ..get::Options::default() };
        let (plan, _) = get_plan("big", &to.path().join("x"), options);
        let mut worker = plan.worker(Element::Octets);
        let (began, mut since) = (Instant::now(), None);
        let step: TurnFn<'_> = &mut |channel, scratch, now| {
            if since.is_none() && began.elapsed() > Duration::from_millis(100) {
                since = Some(Instant::now());
                serving.control.readmit(|_| false);
                (serving.wake)();
            }
            worker.turn(channel, scratch, now)
        };
        let error = goes.run(&AtomicBool::new(false), step).unwrap_err().to_string();
        assert!(error.contains("does not serve this client") || error.contains("ended"), "{error}");
        assert!(since.unwrap().elapsed() < Duration::from_secs(30));
        drop(stays);
        // Whom the judge admits stays, also after another change.
        serving.control.readmit(|_| true);
        (serving.wake)();
        let mut link = serving.connect(device);
        let small = served.path().join("small");
        fs::write(&small, b"small").unwrap();
        assert!(get(&mut link, "small", &to.path().join("small")).unwrap());
    }
}
