//! What strangers may do to a server over kernel TCP: they hold little, and not for long.

mod support;

use fusewire_files::client::{get, list};
use fusewire_files::net::streams::{Limits, serve_within};
use fusewire_files::net::{Call, Client, Control};
use fusewire_files::{Element, server::Share};
use fusewire_session::{ClientConfig, Handshake, Identity, ServerConfig, Trust};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::remote;

/// A server over kernel TCP, until it is dropped.
struct Served {
    addr: SocketAddr,
    config: ClientConfig,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    dir: tempfile::TempDir,
}

impl Served {
    fn new(limits: Limits) -> Served {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), b"file").unwrap();
        let share = Share::open(dir.path(), Default::default()).unwrap();
        let identity = Arc::new(Identity::ephemeral().unwrap());
        let config = ServerConfig::new(identity.clone());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let control = Arc::new(Control::default());
        let thread = std::thread::spawn({
            let control = control.clone();
            move || serve_within(&listener, &config, &share, &control, &limits).unwrap()
        });
        let config = ClientConfig::new(identity.clone(), Trust::Pinned(identity.fingerprint()));
        Served { addr, config, control, thread: Some(thread), dir }
    }

    fn connect(&self) -> fusewire_stack::Result<Client> {
        let patience = Duration::from_secs(5);
        Client::over_kernel_tcp(&Call::new(self.addr, &self.config), patience, &mut |_| Ok(()))
    }

    /// Somebody who may is served; how long that took.
    #[track_caller]
    fn serves(&self) -> Duration {
        let began = Instant::now();
        let mut link = self.connect().unwrap();
        let mut seen = 0;
        let mut listing =
            list::List::new(remote(""), false, Element::Octets, |_, _| seen += 1).unwrap();
        link.run(&AtomicBool::new(false), &mut |c, s, now| listing.turn(c, s, now)).unwrap();
        drop(listing);
        assert_eq!(seen, 1);
        began.elapsed()
    }

    /// A connection from `source`, an address of this host, that says nothing yet.
    fn silent(&self, source: [u8; 4]) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&fd, &SocketAddr::from((source, 0))).unwrap();
        connect(&fd, &self.addr).unwrap();
        fd.into()
    }

    /// Connections, and those of them that the kernel asks after (timer 2 of `/proc/net/tcp` is keep-alive). Waits a
    /// little until they are what is `expected`.
    fn watched(&self, expected: impl Fn((usize, usize)) -> bool) -> (usize, usize) {
        let local = format!("0100007F:{:04X}", self.addr.port());
        let until = Instant::now() + Duration::from_secs(3);
        loop {
            let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
            // A table that changes while it is read can have a line twice.
            let ours: HashMap<&str, bool> = sockets
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>())
                .filter(|fields| fields[1] == local && fields[3] == "01")
                .map(|fields| (fields[2], fields[5].starts_with("02:")))
                .collect();
            let found = (ours.len(), ours.values().filter(|watched| **watched).count());
            if expected(found) || Instant::now() > until {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.control.drain();
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = &self.dir;
    }
}

/// The other end has closed it.
fn is_gone(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut byte = [0; 512];
    loop {
        match (&*stream).read(&mut byte) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

/// How many are left after the server had time to look.
fn left(streams: &[TcpStream], expected: usize) -> usize {
    let until = Instant::now() + Duration::from_secs(3);
    loop {
        let left = streams.iter().filter(|stream| !is_gone(stream)).count();
        if left == expected || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_slow_handshake_ends_at_its_deadline_and_others_are_served_meanwhile() {
    const TIME: Duration = Duration::from_millis(2_000);
    let served = Served::new(Limits { handshake_time: TIME, ..Limits::default() });
    let mut hello = Vec::new();
    Handshake::client(&served.config).unwrap().write(&mut hello);
    let (began, step) = (Instant::now(), Duration::from_millis(500));
    assert!(step * hello.len() as u32 > TIME * 10, "a hello of {} bytes", hello.len());
    let mut slow: Vec<TcpStream> = (0..5).map(|_| served.silent([127, 0, 0, 1])).collect();
    let mut bytes = hello.iter();
    let mut next = began;
    while slow.iter().any(|stream| !is_gone(stream)) {
        if Instant::now() >= next {
            let byte = [*bytes.next().unwrap()];
            slow.iter_mut().for_each(|stream| drop(stream.write_all(&byte)));
            next += step;
        }
        assert!(began.elapsed() < TIME * 3, "still there after {:?}", began.elapsed());
        let took = served.serves();
        assert!(took < TIME, "others wait for {took:?}");
        if began.elapsed() < TIME * 3 / 4 {
            assert!(slow.iter().all(|stream| !is_gone(stream)), "{:?}", began.elapsed());
        }
    }
    assert!(began.elapsed() >= TIME, "gone after {:?}", began.elapsed());
    served.serves();
}

#[test]
fn strangers_make_room_for_who_comes() {
    let limits = Limits { handshakes_max: 10, handshakes_per_source_max: 4, ..Limits::default() };
    let served = Served::new(limits);
    let of = |source: u8, n: usize| -> Vec<TcpStream> {
        (0..n).map(|_| served.silent([127, 0, 0, source])).collect()
    };
    // One source's own make room.
    let first = of(2, 20);
    assert_eq!(left(&first, 4), 4);
    assert!(first[..16].iter().all(is_gone), "the oldest go first");
    let second = of(3, 6);
    assert_eq!((left(&second, 4), left(&first, 4)), (4, 4));
    // Of all of them, the oldest.
    let third = of(4, 4);
    assert_eq!((left(&third, 4), left(&second, 4), left(&first, 2)), (4, 4, 2));
    for _ in 0..20 {
        served.serves();
    }
    assert_eq!(left(&third, 4), 4, "who is through makes room again");
}

#[test]
fn who_is_known_is_counted_apart_and_looked_after() {
    let served = Served::new(Limits { connections_max: 2, ..Limits::default() });
    let strangers: Vec<TcpStream> = (0..40).map(|_| served.silent([127, 0, 0, 1])).collect();
    let links = [served.connect().unwrap(), served.connect().unwrap()];
    assert_eq!(left(&strangers, 40), 40);
    assert_eq!(served.watched(|found| found == (42, 2)), (42, 2));
    // The third has no place, until one is free.
    let mut third = served.connect().unwrap();
    let mut listing = list::List::new(remote(""), false, Element::Octets, |_, _| {}).unwrap();
    third.run(&AtomicBool::new(false), &mut |c, s, now| listing.turn(c, s, now)).unwrap_err();
    drop(links);
    assert_eq!(served.watched(|found| found == (40, 0)), (40, 0));
    std::thread::sleep(Duration::from_millis(300));
    served.serves();
}

/// Clients of whom nothing is heard but that they are there do not keep others out; those who work stay.
#[test]
fn idle_connections_make_room_for_who_comes_and_those_at_work_stay() {
    let idle_min = Duration::from_millis(300);
    let served = Served::new(Limits { connections_max: 4, idle_min, ..Limits::default() });
    let contents = support::bytes(2 << 20, 3);
    std::fs::write(served.dir.path().join("f"), &contents).unwrap();
    let to = tempfile::tempdir().unwrap();
    let options = get::Options { bytes_per_s: 512 << 10, ..get::Options::default() };
    let (plan, _) = support::get_plan("f", to.path(), options);
    std::thread::scope(|scope| {
        let mut link = served.connect().unwrap();
        let mut worker = plan.worker(Element::Octets);
        let getting = scope.spawn(move || {
            link.run(&AtomicBool::new(false), &mut |c, s, now| worker.turn(c, s, now)).unwrap()
        });
        let idle: Vec<Client> = (0..3).map(|_| served.connect().unwrap()).collect();
        let begun = Instant::now();
        assert_eq!(served.watched(|(all, _)| all == 4).0, 4);
        std::thread::sleep(idle_min + Duration::from_millis(300));
        for _ in 0..3 {
            served.serves();
        }
        assert!(!getting.is_finished(), "too late after {:?}", begun.elapsed());
        // Who has to go is told when its thread looks; what it asks until then is answered.
        std::thread::sleep(Duration::from_secs(1));
        let lost = idle.into_iter().map(|mut link| {
            let mut listing =
                list::List::new(remote(""), false, Element::Octets, |_, _| {}).unwrap();
            link.run(&AtomicBool::new(false), &mut |c, s, now| listing.turn(c, s, now)).is_err()
        });
        assert!(lost.filter(|lost| *lost).count() >= 1, "nobody made room");
        assert!(getting.join().unwrap());
    });
    assert!(std::fs::read(to.path().join("f")).unwrap() == contents);
}
