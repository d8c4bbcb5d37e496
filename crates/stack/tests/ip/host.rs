//! Handles of a [`Host`]: who waits is woken alone, timers are served while nobody calls, and nothing of a host is left
//! when it is gone.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use fusewire_codec::pipeline::{Message, Placed};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Interface, Link};
use fusewire_kernels::stages::Swap;
use fusewire_stack::ip::{AsyncTcpStream, Framing, Host, HostConfig, UdpSocket};
use fusewire_testkit::namespace::{Need, in_namespace};

use crate::messages::Reading;
use crate::net::{addr, net_config};

const SECONDS: Duration = Duration::from_secs(20);

pub fn at(which: usize, port: u16) -> SocketAddr {
    (addr(false, which), port).into()
}

fn host(interface: Memory, which: usize) -> Host {
    let net = net_config(&interface, which);
    Host::new(Box::new(interface), net, HostConfig::default()).unwrap()
}

/// Two hosts on one wire.
pub fn hosts() -> [Host; 2] {
    let (a, b) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    [host(a, 0), host(b, 1)]
}

fn udp(host: &Host, which: usize, port: u16) -> UdpSocket {
    let socket = host.udp_bind(at(which, port)).unwrap();
    socket.set_timeout(Some(SECONDS));
    socket
}

/// Sends back what comes, until it is empty.
fn echo(socket: &UdpSocket) {
    let mut out = [0; 64];
    loop {
        let got = socket.recv_from(&mut out).unwrap();
        socket.send_to(&out[..got.len], got.from).unwrap();
        if got.len == 0 {
            return;
        }
    }
}

fn ask(socket: &UdpSocket) {
    socket.send_to(b"round trip", at(1, 7)).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 64]).unwrap().len, 10);
}

/// Threads of this process that bear a name and sleep, and how often all that bear it have slept.
fn sleeps(of: &str) -> (usize, u64) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let (mut asleep, mut count) = (0, 0);
    for task in tasks {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if !name.starts_with(of) {
            continue;
        }
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name| status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("").trim();
        count += field("voluntary_ctxt_switches:").parse().unwrap_or(0);
        asleep += usize::from(field("State:").starts_with('S'));
    }
    (asleep, count)
}

/// Waits until so many threads of a name sleep, and none of them wakes any more.
fn until_asleep(of: &str, threads: usize) {
    let (end, mut before) = (Instant::now() + SECONDS * 3, None);
    loop {
        let now = sleeps(of);
        if now.0 == threads && before == Some(now) {
            return;
        }
        assert!(Instant::now() < end, "{} of {threads} sleep", now.0);
        before = Some(now);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Who waits for something else sleeps on while others have their answers, also where 800 wait.
#[test]
fn those_who_wait_for_something_else_are_not_woken() {
    let test = "host::those_who_wait_for_something_else_are_not_woken";
    in_namespace(test, Need::Namespace, "", || {
        for idle in [0, 1, 50, 200, 800] {
            let [ours, theirs] = hosts();
            let (client, server) = (udp(&ours, 0, 0), udp(&theirs, 1, 7));
            let waiting: Vec<_> = (0..idle).map(|_| udp(&ours, 0, 0)).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| echo(&server));
                for socket in &waiting {
                    let named = std::thread::Builder::new().name("waits".into());
                    named.spawn_scoped(scope, || socket.recv_from(&mut [0; 8]).unwrap()).unwrap();
                }
                until_asleep("waits", idle);
                for _ in 0..100 {
                    ask(&client);
                }
                let before = sleeps("waits").1;
                let mut times: Vec<_> = (0..2000)
                    .map(|_| {
                        let begin = Instant::now();
                        ask(&client);
                        begin.elapsed()
                    })
                    .collect();
                let woken = sleeps("waits").1 - before;
                times.sort();
                println!("{idle:4} idle: {:?}, woken {woken} times in 2000", times[1000]);
                assert!(woken < 200, "{idle} threads that wait were woken {woken} times");
                for socket in &waiting {
                    server.send_to(b"you too", socket.local_addr().unwrap()).unwrap();
                }
                client.send_to(b"", at(1, 7)).unwrap();
            });
        }
    });
}

/// One thread in `accept` and nothing to do: nobody looks in all the time.
#[test]
fn a_host_at_rest_burns_nothing() {
    in_namespace("host::a_host_at_rest_burns_nothing", Need::Namespace, "", || {
        let [ours, theirs] = hosts();
        let listener = ours.tcp_listen(at(0, 80), 8).unwrap();
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("fusewire-waits".into());
            let accepts = || [(); 2].map(|()| listener.accept().unwrap());
            let accepts = named.spawn_scoped(scope, accepts).unwrap();
            let _first = theirs.tcp_connect(at(0, 80)).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let before = sleeps("fusewire").1;
            std::thread::sleep(Duration::from_millis(500));
            let woken = sleeps("fusewire").1 - before;
            assert!(woken < 20, "{woken} times in half a second");
            theirs.tcp_connect(at(0, 80)).unwrap();
            accepts.join().unwrap();
        });
    });
}

/// Each of many threads has its messages, whoever of them drives: nobody waits for somebody else's next call, who is away
/// until all others have had theirs.
#[test]
fn everybody_is_served_whoever_drives() {
    for away in 0..6 {
        served_without(away);
    }
}

fn served_without(away: u16) {
    let [ours, theirs] = hosts();
    let servers: Vec<_> = (0..6).map(|i| udp(&theirs, 1, 100 + i)).collect();
    let clients: Vec<_> = (0..6).map(|_| udp(&ours, 0, 0)).collect();
    let (done, ends) = channel();
    std::thread::scope(|scope| {
        servers.iter().for_each(|server| {
            scope.spawn(|| echo(server));
        });
        let (lets_go, mut is_let_go) = channel();
        for (i, client) in (0..).zip(&clients) {
            let done = done.clone();
            let let_go = (i == away).then(|| std::mem::replace(&mut is_let_go, channel().1));
            scope.spawn(move || {
                let mut out = [0; 8];
                for round in 0..300 {
                    if let Some(let_go) = &let_go
                        && round == 20
                    {
                        let_go.recv().expect("the others had theirs");
                    }
                    client.send_to(&[1, 2], at(1, 100 + i)).unwrap();
                    assert_eq!(client.recv_from(&mut out).unwrap().len, 2);
                    match (round * 7 + i * 3) % 11 {
                        0 => std::thread::sleep(Duration::from_millis(3)),
                        1..=3 => std::thread::sleep(Duration::from_micros(200)),
                        _ => {}
                    }
                }
                client.send_to(&[], at(1, 100 + i)).unwrap();
                client.recv_from(&mut out).unwrap();
                done.send(i).unwrap();
            });
        }
        let first: Vec<_> = (0..5).map_while(|_| ends.recv_timeout(SECONDS).ok()).collect();
        assert!(first.len() == 5 && !first.contains(&away), "{first:?} without {away}");
        lets_go.send(()).unwrap();
    });
}

/// What is acknowledged late, or sent again, is, though nobody calls; with a thread that waits for something else and
/// without.
#[test]
fn timers_are_served_while_nobody_calls() {
    for accepting in [false, true] {
        let [ours, theirs] = hosts();
        let listener = theirs.tcp_listen(at(1, 80), 8).unwrap();
        let (bare, mut other) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
        let alone = host(bare, 0);
        let ports = [&ours, &theirs, &alone].map(|host| {
            let which = usize::from(std::ptr::eq(host, &theirs));
            host.tcp_listen(at(which, 81), 8).unwrap()
        });
        std::thread::scope(|scope| {
            for port in ports.iter().filter(|_| accepting) {
                let patience = Some(Duration::from_millis(2500));
                scope.spawn(move || port.accept_timeout(patience).map(|_| ()).unwrap_err());
            }
            let stream = ours.tcp_connect(at(1, 80)).unwrap();
            let (_peer, _) = listener.accept_timeout(Some(SECONDS)).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            stream.send(b"one small message").unwrap();
            std::thread::sleep(Duration::from_millis(300));
            let info = stream.info().unwrap();
            assert_eq!(info.counters.bytes_acked, 17, "late, and by nobody's call: {info:?}");
            assert_eq!(info.counters.timeouts, 0, "{info:?}");
            // Nobody is at the other end: SYN, and SYN again after a second.
            alone.with(|stack, now| stack.tcp_connect(now, at(1, 80))).unwrap().unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            let mut syns = 0;
            while let n @ 1.. = other.receive().unwrap() {
                syns += n;
            }
            assert_eq!(syns, 2);
        });
    }
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    ["/proc/self/fd", "/proc/self/task"].map(|at| std::fs::read_dir(at).unwrap().count()).into()
}

#[test]
fn hosts_that_are_dropped_leave_nothing() {
    in_namespace("host::hosts_that_are_dropped_leave_nothing", Need::Namespace, "", || {
        let before = held();
        for _ in 0..10 {
            let [ours, theirs] = hosts();
            let listener = ours.tcp_listen(at(0, 80), 8).unwrap();
            let (one, two) = (udp(&ours, 0, 7), udp(&ours, 0, 8));
            // Async, and blocked until nothing has come.
            let mut out = [0; 8];
            let mut context = Context::from_waker(Waker::noop());
            assert!(pin!(listener.accept_async()).poll(&mut context).is_pending());
            assert!(pin!(one.recv_from_async(&mut out)).poll(&mut context).is_pending());
            two.set_timeout(Some(Duration::from_millis(10)));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| two.recv_from(&mut [0; 8]).unwrap_err());
                }
            });
            two.recv_from(&mut out).unwrap_err();
            assert!(held().1 > before.1);
            drop((listener, one, theirs, ours, two));
        }
        // A thread that has ended may be listed a moment longer.
        let end = Instant::now() + SECONDS;
        while held() != before {
            assert!(Instant::now() < end, "{:?} descriptors and threads, not {before:?}", held());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Counts how many of its kind live, and are woken.
pub struct Counting {
    alive: Arc<AtomicUsize>,
    woken: Arc<AtomicUsize>,
}

impl Counting {
    pub fn waker(alive: &Arc<AtomicUsize>, woken: &Arc<AtomicUsize>) -> Waker {
        alive.fetch_add(1, Ordering::SeqCst);
        Waker::from(Arc::new(Counting { alive: alive.clone(), woken: woken.clone() }))
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A `select!` loop polls futures that it then drops, each time with another waker: none is kept but those of who
/// still waits.
#[test]
fn wakers_of_who_waits_no_more_are_not_kept() {
    let [ours, theirs] = hosts();
    let listener = ours.tcp_listen(at(0, 80), 8).unwrap();
    let socket = udp(&ours, 0, 7);
    let [alive, woken] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let mut out = [0; 8];
    for _ in 0..100_000 {
        let waker = Counting::waker(&alive, &woken);
        let mut context = Context::from_waker(&waker);
        assert!(pin!(listener.accept_async()).poll(&mut context).is_pending());
        assert!(pin!(socket.recv_from_async(&mut out)).poll(&mut context).is_pending());
        assert!(listener.poll_accept(&mut context).is_pending());
        assert!(socket.poll_recv_from(&mut context, &mut out).is_pending());
    }
    let kept = alive.load(Ordering::SeqCst);
    assert!(kept <= 1, "{kept} wakers are kept");
    assert_eq!(woken.load(Ordering::SeqCst), 0);
    // Those that wait still are woken, each once.
    let (one, two) = (Counting::waker(&alive, &woken), Counting::waker(&alive, &woken));
    let (mut room, mut second) = ([0; 8], [0; 8]);
    let mut future = pin!(socket.recv_from_async(&mut room));
    let mut same = pin!(socket.recv_from_async(&mut second));
    for _ in 0..3 {
        assert!(future.as_mut().poll(&mut Context::from_waker(&one)).is_pending());
        assert!(same.as_mut().poll(&mut Context::from_waker(&two)).is_pending());
    }
    let from = udp(&theirs, 1, 7);
    from.send_to(b"news", at(0, 7)).unwrap();
    let end = Instant::now() + SECONDS;
    while woken.load(Ordering::SeqCst) < 3 {
        assert!(Instant::now() < end, "who waits is not woken");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(future.poll(&mut Context::from_waker(&one)), Poll::Ready(Ok(_))));
    assert!(same.poll(&mut Context::from_waker(&two)).is_pending());
    assert_eq!(woken.load(Ordering::SeqCst), 3, "the one of the last turn, and two futures");
}

/// A task may be dropped by its waker, with the sockets that it holds.
#[test]
fn a_waker_may_drop_sockets() {
    struct Holds(std::sync::Mutex<Option<UdpSocket>>);
    impl Wake for Holds {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }
    let [ours, theirs] = hosts();
    let socket = udp(&ours, 0, 7);
    let held = Arc::new(Holds(std::sync::Mutex::new(Some(udp(&ours, 0, 8)))));
    let waker = Waker::from(held.clone());
    let mut out = [0; 8];
    let mut future = pin!(socket.recv_from_async(&mut out));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    udp(&theirs, 1, 7).send_to(b"news", at(0, 7)).unwrap();
    let end = Instant::now() + SECONDS;
    while held.0.lock().unwrap().is_some() {
        assert!(Instant::now() < end, "the waker does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    ours.udp_bind(at(0, 8)).unwrap();
}

/// Datagrams as they lie in the interface's memory, and through a pipeline into the caller's: what waits already, and what
/// comes while one waits.
#[test]
fn batches_are_received_by_who_waits() {
    let [ours, theirs] = hosts();
    let (client, server) = (udp(&ours, 0, 0), udp(&theirs, 1, 7));
    let local = client.local_addr().unwrap();
    for comes_later in [false, true] {
        let sends = || {
            if comes_later {
                std::thread::sleep(Duration::from_millis(20));
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            for message in [*b"abcd", *b"efgh"] {
                assert_eq!(runtime.block_on(client.send_to_async(&message, at(1, 7))).unwrap(), 4);
            }
        };
        std::thread::scope(|scope| {
            let sending = scope.spawn(sends);
            if !comes_later {
                sending.join().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut seen = Vec::new();
            while seen.len() < 2 {
                let count = server.recv_batch(|messages| {
                    assert_eq!(messages.from, local);
                    seen.extend(messages.iter().map(<[u8]>::to_vec));
                });
                assert!(count.unwrap() > 0);
            }
            assert_eq!(seen, [b"abcd", b"efgh"]);
        });
        std::thread::scope(|scope| {
            scope.spawn(sends);
            let (mut memory, mut filled) = ([0; 8], 0);
            while filled < 8 {
                let told = |from, _| assert_eq!(from, local);
                filled += server.recv_with(&Swap::<4>, &mut memory[filled..], told).unwrap();
            }
            assert_eq!(&memory, b"dcbahgfe");
        });
    }
}

#[test]
fn tasks_send_and_receive_values() {
    let [a, b] = hosts();
    let (client, server) = (udp(&a, 0, 9), udp(&b, 1, 7));
    let listener = b.tcp_listen(at(1, 80), 1).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let stream = AsyncTcpStream::connect(&a, at(1, 80)).await.unwrap();
        let (peer, _) = listener.accept_async().await.unwrap();
        for (seed, len) in (1..).zip([0, 100, 1000, 20_000]) {
            let value = Reading::of(len, seed);
            let message = Message::xdr(&value).unwrap();
            let mut found = None::<Reading>;
            let mut placed = Placed::xdr(&mut found);
            client.send_message_async(&message, Some(at(1, 7))).await.unwrap();
            let got = server.recv_message_async(&mut placed).await.unwrap();
            assert_eq!((got.len, got.from), (message.len(), at(0, 9)));
            placed.finish().unwrap();
            assert_eq!(found.as_ref(), Some(&value));
            let framing = Framing::Each(message.len());
            stream.send_message(framing, &message).await.unwrap();
            let mut placed = Placed::xdr(&mut found);
            let got = peer.recv_message(framing, &mut placed).await.unwrap();
            assert_eq!(got, Some(message.len()));
            placed.finish().unwrap();
            assert_eq!(found.as_ref(), Some(&value));
            let bytes = value.bytes();
            stream.send_with(&Swap::<4>, &bytes).await.unwrap();
            let (mut memory, mut filled) = (vec![0; bytes.len()], 0);
            while filled < bytes.len() {
                filled += peer.recv_with(&Swap::<4>, &mut memory[filled..]).await.unwrap();
            }
            assert!(memory == bytes, "{len}");
        }
    });
}
