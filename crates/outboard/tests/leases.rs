//! Streams by the rings of a lease, with the kernel's stack as peer over veth: every byte of them, what `poll` and `epoll`
//! show meanwhile, and leases that are taken back or given up at any moment.

mod scene;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fusewire_stack::ip;
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::{PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use scene::{BULK, ROLE, SETUP, Scene, content};

/// Not a test: the kernel's peer.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_ok() {
        scene::kernel();
    }
}

#[test]
fn a_stream_by_rings_is_what_was_sent() {
    in_namespace("a_stream_by_rings_is_what_was_sent", Need::Root, SETUP, || {
        let scene = Scene::new();
        echoes(&scene);
        bulk_goes_both_ways(&scene);
        what_poll_shows_is_true(&scene);
        who_does_not_wait_is_told(&scene);
        who_waits_for_the_last_of_much_is_told(&scene);
    });
}

fn echoes(scene: &Scene) {
    let (socket, mut random) = (scene.socket(7000), Random::new(3));
    for round in 0..400 {
        let len = 1 + random.below(if round % 8 == 0 { 40_000 } else { 300 }) as usize;
        let sent = content(round as u8, len);
        socket.send_all(&sent);
        let mut back = vec![0; len];
        if round % 5 == 0 {
            let peeked = socket.recv(&mut back, RecvFlags::PEEK).unwrap();
            assert_eq!(back[..peeked], sent[..peeked]);
        }
        socket.recv_all(&mut back);
        assert_eq!(back, sent, "round {round}");
    }
    assert!(socket.way.is_leased(), "after so many messages");
    let mut info = [0; 256];
    assert!(scene.rings.tcp_info(&socket.way, &mut info).is_some_and(|len| len > 200));
    assert_eq!(info[0], 1, "TCP_ESTABLISHED");
    what_is_told_of_a_connection_is_true(scene);
    // The ring has room, and nobody may use it.
    scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
    assert_eq!(socket.send(b"late", SendFlags::NOSIGNAL), Err(Errno::PIPE));
    assert_eq!(socket.recv(&mut [0; 9], RecvFlags::empty()), Ok(0));
    socket.close();
}

/// Also after the last write, of which nothing but its acknowledgement is heard.
fn what_is_told_of_a_connection_is_true(scene: &Scene) {
    let (socket, mut info) = (scene.leased(7001), [0; 256]);
    let mut told = || {
        // Before the first turn there is nothing.
        scene.rings.tcp_info(&socket.way, &mut info)?;
        // `tcpi_unacked`, `tcpi_bytes_acked`
        let unacked = u32::from_ne_bytes(info[24..28].try_into().unwrap());
        Some((unacked, u64::from_ne_bytes(info[120..128].try_into().unwrap())))
    };
    let mut before = 0;
    for n in 0..10 {
        socket.send_all(&[7; 1000]);
        let end = Instant::now() + Duration::from_secs(5);
        before = loop {
            match told() {
                Some((0, acked)) if acked >= before + 1000 => break acked,
                found => assert!(Instant::now() < end, "{found:?}, {n}, after {before}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
    }
}

fn bulk_goes_both_ways(scene: &Scene) {
    let socket = scene.leased(7001);
    let sent = content(1, BULK);
    socket.send_all(&sent);
    scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
    assert_eq!(socket.send(b"late", SendFlags::NOSIGNAL), Err(Errno::PIPE));
    let mut hash = [0; 32];
    socket.recv_all(&mut hash);
    assert_eq!(hash, *blake3::hash(&sent).as_bytes());
    let back = socket.recv_to_end();
    assert!(back == content(2, BULK), "{} bytes of other contents", back.len());
    assert!(socket.way.is_leased());
    socket.close();
}

#[test]
fn a_file_is_sent_as_it_is() {
    in_namespace("a_file_is_sent_as_it_is", Need::Root, SETUP, || {
        let scene = Scene::new();
        let (all, file) = (content(9, BULK), tempfile());
        rustix::io::pwrite(&file, &all, 0).unwrap();
        // The lease begins between.
        sends_a_file(scene.socket(7001), &file, &all);
        sends_a_file(scene.leased(7001), &file, &all);
        sends_a_file_without_waiting(&scene, &file, &all);
        // What cannot be read ends nothing.
        for socket in [scene.leased(7000), scene.socket(7000)] {
            let unread = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
            assert_eq!(socket.send_file((&unread, 0, 9), SendFlags::empty()), Err(Errno::BADF));
            assert_eq!(socket.send_file((&file, BULK as u64, 9), SendFlags::empty()), Ok(0));
            assert_eq!(socket.send_file((&file, 3, 0), SendFlags::empty()), Ok(0));
            assert_eq!(socket.send_file((&file, 3, 5), SendFlags::empty()), Ok(5));
            let mut back = [0; 5];
            socket.recv_all(&mut back);
            assert_eq!(back, all[3..8]);
            socket.close();
        }
    });
}

/// Nobody else's.
fn tempfile() -> std::os::fd::OwnedFd {
    rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

/// Behind something else, and to its end, which is before as much was sent as was asked for.
fn sends_a_file(socket: scene::Socket<'_>, file: impl AsFd, all: &[u8]) {
    socket.send_all(b"before");
    let sent = socket.send_file((file, 77, BULK), SendFlags::empty()).unwrap();
    assert_eq!(sent, BULK - 77, "who waits sends all of it");
    assert!(socket.way.is_leased());
    rustix::net::shutdown(&socket.p, Shutdown::Write).unwrap();
    let mut hash = [0; 32];
    socket.recv_all(&mut hash);
    let mut expected = blake3::Hasher::new();
    expected.update(b"before").update(&all[77..]);
    assert_eq!(hash, *expected.finalize().as_bytes());
    assert!(socket.recv_to_end() == content(2, BULK));
    socket.close();
}

/// To a peer that does not read yet: as much as there is room for, and `poll` shows when there is more.
fn sends_a_file_without_waiting(scene: &Scene, file: impl AsFd, all: &[u8]) {
    let socket = scene.leased(7004);
    let (mut at, mut has_waited, mut reads) = (0, false, false);
    let mut back = vec![0; BULK];
    let mut read = 0;
    while at < BULK {
        match socket.send_file((&file, at as u64, BULK - at), SendFlags::DONTWAIT) {
            Ok(len) => at += len,
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                has_waited = true;
                // The peer hears nothing before it has said all.
                reads |= socket.shown(PollFlags::OUT, 100).is_empty();
                while reads && read < BULK {
                    read += socket.recv(&mut back[read..], RecvFlags::empty()).unwrap();
                }
                let shown = socket.shown(PollFlags::OUT, 60_000);
                assert!(!reads || shown == PollFlags::OUT, "at {at}");
            }
        }
    }
    assert!(has_waited, "rings and windows are shorter");
    scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
    while read < BULK {
        read += socket.recv(&mut back[read..], RecvFlags::empty()).unwrap();
    }
    assert!(back == content(2, BULK));
    assert!(socket.recv_to_end() == all);
    socket.close();
}

/// Streams that have leases, at once.
const MANY: usize = 6;

/// Each comes into its own ring, also where that ends between, whoever's super-frames come between.
#[test]
fn many_streams_at_once_come_where_they_belong() {
    in_namespace("many_streams_at_once_come_where_they_belong", Need::Root, SETUP, || {
        let scene = Scene::new();
        let all = content(2, BULK);
        std::thread::scope(|threads| {
            for n in 0..MANY {
                let (socket, all) = (scene.leased(7004), &all);
                threads.spawn(move || {
                    // No multiple of them is the ring.
                    let mut bytes = vec![0; 100_003 + 7 * n];
                    let mut at = 0;
                    while at < BULK {
                        let room = bytes.len().min(BULK - at);
                        let len = socket.recv(&mut bytes[..room], RecvFlags::empty()).unwrap();
                        assert!(len > 0 && bytes[..len] == all[at..at + len], "{n}: at {at}");
                        at += len;
                    }
                    assert!(socket.way.is_leased());
                    socket.close();
                });
            }
        });
        let shows = scene.shows_super_frames;
        let ip::Counters { received, placed, .. } = scene.end();
        match shows {
            // Those are copied that come while a reader has not made room: on a busy machine most.
            true => assert!(placed * 100 > received, "{placed} of {received}"),
            false => eprintln!("skipped: how many were placed of {received}"),
        }
    });
}

#[test]
fn a_lease_begins_while_bytes_flow() {
    in_namespace("a_lease_begins_while_bytes_flow", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        receives_much_at_once(&scene);
        sends_much_at_once(&scene);
        sends_behind_what_waits(&scene);
        leaves_unread_what_came_before(&mut scene);
    });
}

/// Reads of a stream before it has its lease.
const BEFORE: usize = 8;

fn receives_much_at_once(scene: &Scene) {
    let (socket, all) = (scene.socket(7004), content(2, BULK));
    // More lies in the placeholder than these take.
    until_readable(&socket, 20_000);
    let mut back = vec![0; BULK];
    let mut at = 0;
    for read in 0..BEFORE {
        assert!(!socket.way.is_leased(), "after {read} reads");
        at += socket.recv(&mut back[at..at + 1000], RecvFlags::empty()).unwrap();
    }
    assert!(socket.way.is_leased(), "a stream that flows is refused its lease");
    // What is left there, and what is in the ring, in this order; what is shown is true meanwhile.
    while at < BULK {
        assert_eq!(socket.shown(PollFlags::IN, 5000), PollFlags::IN, "at {at}");
        assert_ne!(scene.rings.unread(socket.p.as_fd(), &socket.way), Ok(0), "at {at}");
        let mut peeked = [0; 9];
        let len = socket.recv(&mut peeked, RecvFlags::PEEK).unwrap();
        assert_eq!(peeked[..len], all[at..at + len], "at {at}");
        let end = BULK.min(at + if at < 200_000 { 3333 } else { 200_000 });
        at += socket.recv(&mut back[at..end], RecvFlags::empty()).unwrap();
    }
    assert!(back == all);
    assert_eq!(socket.recv(&mut [0; 9], RecvFlags::DONTWAIT), Err(Errno::AGAIN));
    socket.send_all(b"heard");
    scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
    assert_eq!(socket.recv_to_end(), b"heard");
    socket.close();
}

fn sends_much_at_once(scene: &Scene) {
    let socket = scene.socket(7001);
    let sent = content(1, BULK);
    for (count, part) in sent.chunks(60_000).enumerate() {
        socket.send_all(part);
        assert!(socket.way.is_leased() || count < 2 * BEFORE, "after {count} writes");
    }
    scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
    let mut hash = [0; 32];
    socket.recv_all(&mut hash);
    assert_eq!(hash, *blake3::hash(&sent).as_bytes());
    let back = socket.recv_to_end();
    assert!(back == content(2, BULK), "{} bytes of other contents", back.len());
    socket.close();
}

/// Of a peer that does not read yet: the placeholder is full when the lease begins.
fn sends_behind_what_waits(scene: &Scene) {
    let (socket, sent) = (scene.socket(7004), content(5, 24 << 20));
    let (mut at, mut idle) = (0, 0);
    while idle < 5 {
        match rustix::net::send(&socket.p, &sent[at..], SendFlags::DONTWAIT) {
            Ok(len) => (at, idle) = (at + len, 0),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                std::thread::sleep(std::time::Duration::from_millis(10));
                idle += 1;
            }
        }
    }
    assert!(at < sent.len());
    socket.lease();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            socket.send_all(&sent[at..]);
            scene.rings.shutdown(socket.p.as_fd(), &socket.way, Shutdown::Write).unwrap();
        });
        let mut back = vec![0; BULK];
        socket.recv_all(&mut back);
        assert!(back == content(2, BULK));
        assert!(socket.recv_to_end() == sent, "what waited comes first");
    });
    socket.close();
}

fn leaves_unread_what_came_before(scene: &mut Scene) {
    let socket = scene.socket(7002);
    socket.send_all(b"x");
    assert_eq!(until_readable(&socket, 6), 6);
    socket.lease();
    // It lies in the placeholder, and is unread all the same.
    let mut first = [0; 2];
    socket.recv_all(&mut first);
    assert_eq!(&first, b"un");
    socket.close();
    scene.hears("ConnectionReset");
    // The same of who is gone without having given it up.
    let socket = scene.socket(7002);
    socket.send_all(b"x");
    assert_eq!(until_readable(&socket, 6), 6);
    socket.lease();
    drop(socket);
    scene.hears("ConnectionReset");
}

/// Waits until so many bytes are there.
fn until_readable(socket: &scene::Socket<'_>, wanted: u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let now = rustix::io::ioctl_fionread(&socket.p).unwrap();
        if now >= wanted {
            return now;
        }
        assert!(Instant::now() < end, "{now} bytes, not {wanted}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn what_poll_shows_is_true(scene: &Scene) {
    let socket = scene.leased(7000);
    // Of what a reader has found by looking, too, who does not take all.
    for _ in 0..20 {
        socket.send_all(b"something");
        socket.recv_all(&mut [0; 4]);
        assert_eq!(socket.shown(PollFlags::IN, 5000), PollFlags::IN, "some is left");
        socket.recv_all(&mut [0; 5]);
    }
    for round in 0..50 {
        assert_eq!(socket.shown(PollFlags::IN, 0), PollFlags::empty(), "round {round}");
        socket.send_all(b"something");
        assert_eq!(socket.shown(PollFlags::IN, 5000), PollFlags::IN);
        assert_eq!(scene.rings.unread(socket.p.as_fd(), &socket.way), Ok(9));
        let mut part = [0; 4];
        socket.recv_all(&mut part);
        assert_eq!(socket.shown(PollFlags::IN, 0), PollFlags::IN, "some is left");
        let mut rest = [0; 5];
        socket.recv_all(&mut rest);
        assert_eq!((&part, &rest), (b"some", b"thing"));
        if round % 2 == 0 {
            assert_eq!(socket.recv(&mut rest, RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        }
        assert_eq!(scene.rings.unread(socket.p.as_fd(), &socket.way), Ok(0));
    }
    socket.close();
}

/// The bell waits while more comes, and not longer.
fn who_waits_for_the_last_of_much_is_told(scene: &Scene) {
    let (socket, mut random) = (scene.socket(7000), Random::new(7));
    let mut back = vec![0; 400_000];
    for round in 0..300 {
        let len = 60_000 + random.below(200_000) as usize;
        let sent = content(round as u8, len);
        let mut at = 0;
        for part in sent.chunks(50_000) {
            socket.send_all(part);
        }
        while at < len {
            assert_eq!(
                socket.shown(PollFlags::IN, 20_000),
                PollFlags::IN,
                "{round}, {at} of {len}"
            );
            at += socket.recv(&mut back[at..], RecvFlags::DONTWAIT).unwrap();
        }
        assert!(back[..at] == sent, "round {round}");
    }
    assert!(socket.way.is_leased());
    socket.close();
}

/// Both directions at once, by `epoll`'s edges.
fn who_does_not_wait_is_told(scene: &Scene) {
    let socket = scene.leased(7000);
    rustix::io::ioctl_fionbio(&socket.p, true).unwrap();
    let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let all = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
    epoll::add(&events, &socket.p, epoll::EventData::new_u64(0), all).unwrap();
    let sent = content(4, 8 << 20);
    let (mut at, mut back, mut bytes) = (0, Vec::new(), vec![0; 50_000]);
    while back.len() < sent.len() {
        loop {
            let next = &sent[at..sent.len().min(at + 60_000)];
            match socket.send(next, SendFlags::empty()) {
                Ok(len) if len > 0 => at += len,
                Err(Errno::AGAIN) => break,
                Ok(_) => break,
                Err(error) => panic!("{error}"),
            }
        }
        loop {
            match socket.recv(&mut bytes, RecvFlags::empty()) {
                Ok(len) => back.extend_from_slice(&bytes[..len]),
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if back.len() < sent.len() {
            let mut found = Vec::with_capacity(4);
            let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
            let room = rustix::buffer::spare_capacity(&mut found);
            let count = epoll::wait(&events, room, Some(&patience)).unwrap();
            assert_ne!(count, 0, "{at} sent and {} back: no edge came", back.len());
        }
    }
    assert!(back == sent);
    assert!(socket.way.is_leased());
    socket.close();
}

#[test]
fn a_lease_that_is_taken_back_loses_no_byte() {
    in_namespace("a_lease_that_is_taken_back_loses_no_byte", Need::Root, SETUP, || {
        let mut scene = Scene::new();
        for round in 0..24 {
            taken_back(&scene, round);
        }
        ends(&mut scene);
        a_reset_is_told_to_who_writes(&scene);
    });
}

/// While bytes go both ways somebody attaches, or the lease is given up.
fn taken_back(scene: &Scene, round: u64) {
    let socket = scene.leased(7000);
    let sent = content(round as u8, 3 << 20);
    let when = Random::new(round).below(3 << 20) as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            socket.send_all(&sent[..when]);
            match round % 2 {
                0 => drop(scene.client.attach(socket.p.as_fd()).unwrap()),
                _ => scene.rings.give_up(socket.p.as_fd(), &socket.way),
            }
            socket.send_all(&sent[when..]);
        });
        let mut back = vec![0; sent.len()];
        socket.recv_all(&mut back);
        assert!(back == sent, "round {round}");
    });
    assert!(!socket.way.is_leased());
    // By what every program has.
    let mut stream = UnixStream::from(socket.p.try_clone().unwrap());
    stream.write_all(b"plain").unwrap();
    let mut plain = [0; 5];
    stream.read_exact(&mut plain).unwrap();
    assert_eq!(&plain, b"plain");
    socket.close();
}

/// Who waits for room hears of a reset though there is much that he has not read, which he may read then.
fn a_reset_is_told_to_who_writes(scene: &Scene) {
    for waits in [true, false] {
        is_told_to_who_writes(scene, waits);
    }
}

/// Where he waits for room, or where his ring has some.
fn is_told_to_who_writes(scene: &Scene, waits: bool) {
    let socket = scene.leased(7007);
    socket.send_all(b"x");
    if waits {
        let error = loop {
            if let Err(error) = socket.send(&[9; 65_536], SendFlags::NOSIGNAL) {
                break error;
            }
        };
        assert!(matches!(error, Errno::CONNRESET | Errno::PIPE), "{error:?}");
        assert!(socket.shown(PollFlags::OUT, 5000).contains(PollFlags::OUT));
        assert_eq!(scene.client.error(socket.handle), Ok(Some(Errno::CONNRESET)));
    } else {
        (0..100).for_each(|_| socket.send_all(&[9; 1000]));
        let end = Instant::now() + Duration::from_secs(20);
        while scene.client.error(socket.handle) != Ok(Some(Errno::CONNRESET)) {
            assert!(Instant::now() < end, "it is not reset");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(socket.send(b"x", SendFlags::NOSIGNAL).is_err(), "{waits}");
    let (all, mut bytes, mut at) = (content(2, BULK), vec![0; 70_000], 0);
    while let Ok(len @ 1..) = socket.recv(&mut bytes, RecvFlags::empty()) {
        assert!(bytes[..len] == all[at..at + len], "at {at}");
        at += len;
    }
    assert!(at > 150_000, "{at}: what the ring had no room for, too");
    assert_eq!(scene.client.error(socket.handle), Ok(None), "it was told");
    assert!(socket.send(b"x", SendFlags::NOSIGNAL).is_err());
    socket.close();
}

fn ends(scene: &mut Scene) {
    // What is unread at the last close resets, as in the kernel.
    let socket = scene.leased(7002);
    socket.send_all(b"x");
    assert_eq!(socket.shown(PollFlags::IN, 5000), PollFlags::IN);
    socket.close();
    scene.hears("ConnectionReset");
    let socket = scene.leased(7002);
    socket.send_all(b"x");
    socket.recv_all(&mut [0; 6]);
    socket.send_all(&[7; 100_000]);
    socket.close();
    scene.hears("finished 100000");
    // What came before a reset may be read.
    let socket = scene.leased(7003);
    socket.send_all(b"x");
    let end = Instant::now() + Duration::from_secs(20);
    while socket.send(b"y", SendFlags::NOSIGNAL).is_ok() {
        assert!(Instant::now() < end, "it is not reset");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut before = [0; 6];
    socket.recv_all(&mut before);
    assert_eq!(&before, b"before");
    let end = socket.recv(&mut before, RecvFlags::empty());
    assert!(matches!(end, Ok(0) | Err(Errno::CONNRESET)), "{end:?}");
    assert_eq!(scene.client.error(socket.handle), Ok(Some(Errno::CONNRESET)));
    assert!(socket.send(b"x", SendFlags::NOSIGNAL).is_err());
    socket.close();
}
