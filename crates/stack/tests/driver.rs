//! The driver: timers that ring while nobody calls, wakes for those alone whom they concern, errors for everyone,
//! and an end.

mod support;

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use fusewire_codec::pipeline::{Message, Placed};
use fusewire_device::impair::{Impair, Rules};
use fusewire_device::{Device, RxBatch, udp};
use fusewire_stack::{Config, Connection, Driver, Endpoint, Error};
use support::{Pair, content, device, endpoint, join, over, pair};

/// A link that loses every fifth frame that leaves.
fn lossy(seed: u64, config: Config) -> Endpoint {
    let begun = Instant::now();
    let clock = move || fusewire_base::Instant::from_ns(begun.elapsed().as_nanos() as u64);
    let loses = Rules { loss: 0.2, ..Rules::NONE };
    over(Impair::new(device(), loses, Rules::NONE, seed, clock), config)
}

/// Few messages over a bad link, by a thread that is in no call between them. Gives how many have come a while
/// after the last.
fn few_messages(driver: Driver, seed: u64) -> usize {
    const COUNT: usize = 12;
    let client = lossy(seed, Config { driver, ..Config::default() });
    let pair = join(client, endpoint(Config::default()));
    let (client, server) = pair.connect();
    for n in 0..COUNT {
        client.send(&content(n, 100)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut came = 0;
    while came < COUNT
        && let Ok(Some(adu)) = server.recv_adu_timeout(Duration::from_secs(3))
    {
        assert!(adu == content(came, 100), "ADU {came}");
        came += 1;
    }
    came
}

#[test]
fn what_is_lost_is_sent_again_while_nobody_calls() {
    for seed in 1..4 {
        assert_eq!(few_messages(Driver::Thread, seed), 12, "seed {seed}");
    }
}

/// The test above can fail: where only callers drive, what the last calls lost waits for the next.
#[test]
fn without_a_thread_what_is_lost_waits_for_a_call() {
    assert!((1..8).any(|seed| few_messages(Driver::Caller, seed) < 12));
}

/// Whether what is sent is acknowledged, as the sender knows it, while it does no more than look, for so long at most.
fn is_heard(driver: Driver, patience: Duration) -> bool {
    let client = endpoint(Config { driver, ..Config::default() });
    let pair = join(client, endpoint(Config::default()));
    let (client, _server) = pair.connect();
    client.send(&content(1, 100)).unwrap();
    let begun = Instant::now();
    while client.info().unwrap().unacked > 0 {
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn acknowledgements_are_heard_while_nobody_calls() {
    assert!(is_heard(Driver::Thread, Duration::from_secs(20)));
    // Where only callers drive, they wait for the next call; but for those that come while the last one ends.
    assert!((0..5).any(|_| !is_heard(Driver::Caller, Duration::from_millis(300))));
}

/// What a device holds back is no frame that ends a sleep: it says itself when to look.
#[test]
fn a_device_that_delays_is_looked_at_in_time() {
    const DELAY: Duration = Duration::from_millis(30);
    let delayed = |seed| {
        let begun = Instant::now();
        let clock = move || fusewire_base::Instant::from_ns(begun.elapsed().as_nanos() as u64);
        let rules = Rules { delay: DELAY, ..Rules::NONE };
        over(Impair::new(device(), rules, Rules::NONE, seed, clock), Config::default())
    };
    let pair = join(delayed(1), delayed(2));
    let (client, server) = pair.connect();
    std::thread::scope(|s| {
        s.spawn(|| {
            while let Some(adu) = server.recv_adu().unwrap() {
                server.send(&adu).unwrap();
            }
            server.finish().unwrap();
        });
        let trips: Vec<Duration> = (0..100)
            .map(|n| {
                // Longer than the device is looked at without sleeping.
                std::thread::sleep(Duration::from_millis(40));
                let begun = Instant::now();
                client.send(&content(n, 100)).unwrap();
                assert!(client.recv_adu().unwrap().is_some_and(|adu| adu == content(n, 100)));
                begun.elapsed()
            })
            // A busy machine may be late, and the timers of a transport are later each time: some have to be in time.
            .scan(0, |in_time, trip| {
                let more = *in_time < 4;
                *in_time += usize::from(trip < 2 * DELAY + Duration::from_millis(20));
                more.then_some(trip)
            })
            .collect();
        client.finish().unwrap();
        assert!(trips.iter().all(|trip| *trip >= 2 * DELAY), "{trips:?}");
        assert!(trips.len() < 100, "{trips:?}");
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counter(AtomicU64);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_once<F: Future>(future: F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(waker))
}

/// Whatever a `select!` does with its futures, a task is registered once, and not at all when they are dropped.
#[test]
fn wakers_do_not_pile_up() {
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    for _ in 0..10_000 {
        assert!(poll_once(client.recv_async(), &waker).is_pending());
        assert!(poll_once(client.closed_async(), &waker).is_pending());
        assert!(poll_once(pair.listener.accept_async(), &waker).is_pending());
        assert!(poll_once(pair.client.wait_idle_async(), &waker).is_pending());
    }
    assert_eq!(Arc::strong_count(&counter), 2, "dropped futures leave nothing");
    let mut received = pin!(client.recv_async());
    let mut adu = [0; 10];
    for _ in 0..10_000 {
        assert!(received.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(client.poll_recv(&mut Context::from_waker(&waker), &mut adu).is_pending());
    }
    assert_eq!(Arc::strong_count(&counter), 4, "one for the future, one for those that poll");
    // Another task takes the place of the one before.
    let other = Arc::new(Counter::default());
    let others = Waker::from(other.clone());
    assert!(client.poll_recv(&mut Context::from_waker(&others), &mut adu).is_pending());
    assert_eq!((Arc::strong_count(&counter), Arc::strong_count(&other)), (3, 3));
    server.send(b"news").unwrap();
    let begun = Instant::now();
    while (counter.0.load(Ordering::Relaxed), other.0.load(Ordering::Relaxed)) != (1, 1) {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    assert_eq!((Arc::strong_count(&counter), Arc::strong_count(&other)), (2, 2));
}

/// A device that fails when it is told to, and counts how often it is asked.
struct Fails {
    inner: udp::Udp,
    broken: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    /// In place of the device's own.
    descriptor: Option<OwnedFd>,
}

impl Device for Fails {
    fusewire_device::forward!(self => self.inner; caps local_addr transmit wait waker);

    fn receive(&mut self, batch: &mut RxBatch) -> io::Result<usize> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(19));
        }
        self.inner.receive(batch)
    }
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd).or(self.inner.as_fd())
    }
}

/// Turns that a device is given meanwhile, and the milliseconds that it was.
fn turns(asked: &AtomicU64, during: Duration) -> (u64, u64) {
    let (begun, before) = (Instant::now(), asked.load(Ordering::Relaxed));
    std::thread::sleep(during);
    let turns = asked.load(Ordering::Relaxed) - before;
    (turns, begun.elapsed().as_millis() as u64)
}

/// Its driver pauses for a millisecond after each look.
#[test]
fn a_descriptor_in_error_burns_nothing() {
    // Its other end is gone: it hangs up for ever.
    let (gone, other) = std::io::pipe().unwrap();
    drop(other);
    let asked = Arc::new(AtomicU64::new(0));
    let device = Fails {
        inner: device(),
        broken: Arc::default(),
        asked: asked.clone(),
        descriptor: Some(gone.into()),
    };
    let endpoint = over(device, Config::default());
    std::thread::sleep(Duration::from_millis(50));
    let (turns, ms) = turns(&asked, Duration::from_millis(300));
    assert!(turns <= ms + 2, "{turns} turns in {ms} ms");
    let before = asked.load(Ordering::Relaxed);
    let begun = Instant::now();
    while asked.load(Ordering::Relaxed) == before {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody looks");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(endpoint);
}

#[test]
fn a_device_that_fails_is_everyones_error_and_nobodys_busy_loop() {
    let (broken, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let fails =
        Fails { inner: device(), broken: broken.clone(), asked: asked.clone(), descriptor: None };
    let pair = join(endpoint(Config::default()), over(fails, Config::default()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (listener, server) = (Arc::new(pair.listener), pair.server.clone());
    let task = runtime.spawn({
        let listener = listener.clone();
        async move { listener.accept_async().await.err() }
    });
    let threads = [0; 3].map(|_| {
        let listener = listener.clone();
        std::thread::spawn(move || listener.accept().err())
    });
    std::thread::sleep(Duration::from_millis(50));
    broken.store(true, Ordering::Relaxed);
    // Something must end the sleep on the descriptor.
    let poke = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    poke.send_to(b"?", server.local_addr()).unwrap();
    let is_it = |error: Option<Error>| match error {
        Some(Error::Os { source, .. }) => assert_eq!(source.raw_os_error(), Some(19)),
        other => panic!("{other:?}"),
    };
    threads.into_iter().for_each(|thread| is_it(thread.join().unwrap()));
    is_it(runtime.block_on(task).unwrap());
    // A task that comes later is told too, and the driver's thread looks now and then.
    is_it(runtime.block_on(listener.accept_async()).err());
    let (turns, ms) = turns(&asked, Duration::from_millis(500));
    // Its pauses are of ten milliseconds, and longer each time.
    assert!(turns <= ms / 10 + 2, "{turns} turns in {ms} ms");
    // It may come back.
    broken.store(false, Ordering::Relaxed);
    let trust = fusewire_session::Trust::Pinned(pair.identity.fingerprint());
    let config = fusewire_session::ClientConfig::new(pair.identity.clone(), trust);
    pair.client.connect(server.local_addr(), &config).unwrap();
}

/// Connections, each with a thread that waits for what never comes.
struct Idle {
    servers: Vec<Connection>,
    threads: Vec<(i32, std::thread::JoinHandle<Connection>)>,
}

fn idle(pair: &Pair, count: usize) -> Idle {
    let (mut servers, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (client, server) = pair.connect();
        servers.push(server);
        let (sender, id) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let mut adu = [0; 16];
            assert_eq!(client.recv(&mut adu).unwrap(), Some(4));
            client
        });
        threads.push((id.recv().unwrap(), thread.unwrap()));
    }
    Idle { servers, threads }
}

impl Idle {
    /// How often its threads have given the processor up.
    fn switches(&self) -> u64 {
        let of = |&(id, _): &(i32, _)| {
            let status = std::fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap();
            let line = status.lines().find(|l| l.starts_with("voluntary_ctxt_switches")).unwrap();
            line.split_whitespace().last().unwrap().parse::<u64>().unwrap()
        };
        self.threads.iter().map(of).sum()
    }

    fn end(self) {
        self.servers.iter().for_each(|server| server.send(b"done").unwrap());
        for (_, thread) in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Round trips of one connection, in microseconds, sorted.
fn round_trips(pair: &Pair, count: usize) -> Vec<f64> {
    round_trips_of(pair.connect(), count)
}

fn round_trips_of((client, server): (Connection, Connection), count: usize) -> Vec<f64> {
    let echoes = std::thread::spawn(move || {
        let mut adu = [0; 64];
        while let Some(len) = server.recv(&mut adu).unwrap() {
            server.send(&adu[..len]).unwrap();
        }
        server.finish().unwrap();
    });
    let mut adu = [7; 64];
    let mut times: Vec<f64> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            client.send(&adu).unwrap();
            assert_eq!(client.recv(&mut adu).unwrap(), Some(64));
            begun.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    client.finish().unwrap();
    echoes.join().unwrap();
    times.sort_by(f64::total_cmp);
    times
}

/// Who waits for one connection is not woken for another: neither in `recv` nor in `accept`.
#[test]
fn a_request_wakes_nobody_else() {
    let pair = pair(&Config::default());
    let (idle_count, requests) = match std::env::var("FUSEWIRE_TEST_IDLE") {
        Ok(count) => (count.parse().unwrap(), 20_000),
        Err(_) => (40, 1000),
    };
    round_trips(&pair, requests);
    let alone = round_trips(&pair, requests);
    let middle = |times: &[f64]| (times[times.len() / 2], times[times.len() * 99 / 100]);
    let connections = pair.connect();
    let beside_accept = std::thread::scope(|s| {
        let accepts = s.spawn(|| pair.listener.accept().map(drop));
        std::thread::sleep(Duration::from_millis(20));
        let times = round_trips_of(connections, requests);
        drop(pair.client.connect(pair.server.local_addr(), &pair.config()).unwrap());
        accepts.join().unwrap().unwrap();
        times
    });
    println!("µs alone {:?}, beside accept {:?}", middle(&alone), middle(&beside_accept));
    let idle = idle(&pair, idle_count);
    std::thread::sleep(Duration::from_millis(100));
    round_trips(&pair, 100);
    let before = idle.switches();
    let times = round_trips(&pair, requests);
    let switches = idle.switches() - before;
    println!("µs alone {:?}, {idle_count} idle {:?}", middle(&alone), middle(&times));
    println!("{switches} wakes of {idle_count} threads in {requests} round trips");
    // Each may have been the leader, and be deposed, once or twice.
    assert!(switches <= 3 * idle_count as u64 + requests as u64 / 20, "{switches} wakes");
    idle.end();
}

/// Everyone at once: threads and tasks, many connections, both ways at the same time on each.
#[test]
fn nobody_is_forgotten() {
    for driver in [Driver::Thread, Driver::Caller] {
        let config = Config { driver, ..Config::default() };
        let pair = pair(&config);
        const ROUNDS: usize = 300;
        let barrier = Barrier::new(12);
        std::thread::scope(|s| {
            for n in 0..6 {
                let (client, server) = pair.connect();
                let barrier = &barrier;
                let (client, server) = (Arc::new(client), Arc::new(server));
                let sends = client.clone();
                s.spawn(move || {
                    barrier.wait();
                    for i in 0..ROUNDS {
                        sends.send(&content(i + n, 1 + i * 7 % 3000)).unwrap();
                        if i % 50 == 0 {
                            std::thread::sleep(Duration::from_millis(3));
                        }
                    }
                });
                s.spawn(move || {
                    for i in 0..ROUNDS {
                        let adu = client.recv_adu_timeout(Duration::from_secs(20)).unwrap();
                        assert!(adu.unwrap() == content(i + n, 1 + i * 7 % 3000), "{n}: {i}");
                    }
                    client.finish_sending();
                    assert!(matches!(client.recv_adu_timeout(Duration::from_secs(20)), Ok(None)));
                });
                s.spawn(move || {
                    barrier.wait();
                    while let Some(adu) = server.recv_adu_timeout(Duration::from_secs(20)).unwrap()
                    {
                        server.send(&adu).unwrap();
                    }
                    server.finish().unwrap();
                });
            }
        });
    }
}

/// What is received without a turn of the receiver's own opens the window all the same.
#[test]
fn a_window_that_was_full_opens_for_whoever_receives() {
    let pair = pair(&Config::default());
    for in_tasks in [false, true] {
        let (client, server) = pair.connect();
        const COUNT: usize = 400;
        let sends = std::thread::spawn(move || {
            for n in 0..COUNT {
                client.send(&content(n, 10_000)).unwrap();
            }
            client.finish().unwrap();
        });
        // The driver's thread fills the inbox, and sleeps deeply when the window is full.
        std::thread::sleep(Duration::from_millis(150));
        let begun = Instant::now();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for n in 0..COUNT {
            let adu = match in_tasks {
                false => server.recv_adu_timeout(Duration::from_secs(20)).unwrap(),
                true => runtime.block_on(server.recv_async()).unwrap(),
            };
            assert!(adu.unwrap() == content(n, 10_000), "ADU {n}");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        server.finish().unwrap();
        sends.join().unwrap();
    }
}

/// A task that nothing but its own waker keeps alive, with the connection that it waits for.
#[test]
fn a_waker_may_be_the_last_to_hold_a_connection() {
    struct Task(#[allow(dead_code)] std::sync::Mutex<Option<(Connection, Connection)>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let (other, others_server) = pair.connect();
    let task = Arc::new(Task(std::sync::Mutex::new(Some((other, others_server)))));
    let waker = Waker::from(task.clone());
    assert!(client.poll_recv(&mut Context::from_waker(&waker), &mut []).is_pending());
    drop((waker, task));
    // Its place is taken: it ends, and two connections with it.
    assert!(client.poll_recv(&mut Context::from_waker(Waker::noop()), &mut []).is_pending());
    server.send(b"still here").unwrap();
    assert_eq!(client.recv_adu().unwrap().unwrap(), b"still here");
}

/// One that leads and goes hands the lead on, where there is no thread that would take it.
#[test]
fn without_a_thread_the_lead_is_handed_on() {
    let pair = pair(&Config { driver: Driver::Caller, ..Config::default() });
    let connections: Vec<_> = (0..5).map(|_| pair.connect()).collect();
    std::thread::scope(|s| {
        for (client, _) in &connections {
            s.spawn(|| {
                let adu = client.recv_adu_timeout(Duration::from_secs(30)).unwrap();
                assert_eq!(adu.unwrap(), b"your turn");
            });
        }
        // One that goes because its time is up hands it on too.
        s.spawn(|| pair.listener.accept_timeout(Duration::from_millis(80)).err());
        std::thread::sleep(Duration::from_millis(150));
        for (_, server) in connections.iter().rev() {
            server.send(b"your turn").unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn values_that_are_sent_together_share_segments() {
    const MANY: usize = 2000;
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let values: Vec<Vec<f64>> = (0..MANY).map(|n| vec![n as f64; 5]).collect();
    let messages = || values.iter().map(|value| Message::xdr(value).unwrap());
    for blocks in [true, false] {
        let before = client.info().unwrap().counters.data_segments_sent;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut found = None::<Vec<f64>>;
                for value in &values {
                    let mut placed = Placed::xdr(&mut found);
                    server.recv_message(&mut placed).unwrap();
                    placed.finish().unwrap();
                    assert_eq!(found.as_ref(), Some(value));
                }
            });
            if blocks {
                client.send_messages(messages()).unwrap();
            } else {
                runtime.block_on(client.send_messages_async(messages())).unwrap();
            }
        });
        let sent = client.info().unwrap().counters.data_segments_sent - before;
        assert!(sent > 0 && sent < MANY as u64 / 5, "{sent} segments carry {MANY} values");
    }
}

#[test]
fn tasks_send_and_receive_values() {
    let pair = pair(&Config::default());
    let (client, server) = pair.connect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut found = None::<Vec<f64>>;
        for n in 0..100 {
            let sent = vec![f64::from(n); n as usize];
            client.send_message_async(&Message::xdr(&sent).unwrap()).await.unwrap();
            let mut placed = Placed::xdr(&mut found);
            let len = server.recv_message_async(&mut placed).await.unwrap();
            assert_eq!(len, Some(4 + 8 * n as usize));
            placed.finish().unwrap();
            assert_eq!(found.as_ref(), Some(&sent));
        }
        client.finish_sending();
        let mut placed = Placed::xdr(&mut found);
        assert_eq!(server.recv_message_async(&mut placed).await.unwrap(), None);
        assert!(placed.finish().is_err() && found.is_none());
    });
}
