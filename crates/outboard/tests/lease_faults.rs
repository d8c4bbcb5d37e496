//! Leases of who means harm, of who is killed, and of an outboard that is killed: each breaks itself alone, and nothing is
//! left of it.

mod nonsense;
mod scene;

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_device::Shared;
use fusewire_outboard::client::{Client, Rings, Way};
use fusewire_outboard::protocol::{Family, HEADING_LEN, Handle, Kind, Reply, Request, SocketType};
use fusewire_outboard::region::{
    BLOCKS_LEN, RINGS_LEN, SLOTS, Slot, WIDE_FROM, Way as Direction, places,
};
use fusewire_outboard::ring::{self, WIDE_BYTES};
use fusewire_outboard::server::{Budget, Server, Settings};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags, send};

use nonsense::{WORDS_AT, WORDS_LEN, ask, nonsense, region};
use scene::{ROLE, SETUP, Scene, connected, content};

/// Where a process that was started finds the outboard.
const PLACE: &str = "FUSEWIRE_LEASES_PLACE";

/// Not a test: what a process does that a test has started.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    let place = || PathBuf::from(std::env::var_os(PLACE).unwrap());
    match std::env::var(ROLE).as_deref() {
        Ok("kernel") => scene::kernel(),
        Ok("busy") => busy(&place()),
        Ok("outboard") => outboard(&place()),
        _ => {}
    }
}

/// Sends, receives, opens and closes by leases until it is killed.
fn busy(place: &Path) {
    let (client, rings) = (Client::new(place).unwrap(), Rings::new().unwrap());
    let (sent, mut back) = (content(6, 200_000), vec![0; 200_000]);
    println!("ready");
    for round in 0.. {
        datagrams(&client, &rings, round);
        let socket = connected(&client, &rings, 7000);
        socket.lease();
        socket.send_all(&sent[..1 + round % 5_000]);
        socket.recv_all(&mut back[..1 + round % 5_000]);
        // More than the rings hold, of which nothing is read at first.
        socket.send_all(&sent);
        if round % 3 == 0 {
            rings.give_up(socket.p.as_fd(), &socket.way);
        }
        socket.recv_all(&mut back);
        assert_eq!(back, sent);
        if round % 2 == 0 {
            socket.close();
        }
    }
}

/// Sends datagrams by a lease, to who sends them back, and takes what has come.
fn datagrams(client: &Client, rings: &Rings, round: usize) {
    let ((p, handle, way), sent) = (for_datagrams(client, rings), content(7, 1 + round % 2_000));
    let with = (p.as_fd(), handle, &way);
    for _ in 0..200 {
        let pieces = [IoSlice::new(&sent)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let _ = rings.send_to(client, with, &pieces, (Some(scene::at(7006)), true), flags);
        let (mut address, mut back) = ([0; HEADING_LEN], [0; 2048]);
        let mut pieces = [IoSliceMut::new(&mut address), IoSliceMut::new(&mut back)];
        if let Ok(Some(came)) = rings.recv_from(client, with, &mut pieces, RecvFlags::DONTWAIT) {
            assert_eq!(back[..came.len], sent);
        }
    }
    match round % 3 {
        0 => rings.give_up(p.as_fd(), &way),
        _ => rings.close(p.as_fd(), &way),
    }
}

/// A socket for datagrams that has its lease.
fn for_datagrams(client: &Client, rings: &Rings) -> (OwnedFd, Handle, Way) {
    let of = SocketType { family: Family::V4, kind: Kind::Datagram };
    let ((p, handle), way) = (client.socket(of).unwrap(), Way::default());
    client.bind(handle, ([0, 0, 0, 0], 0).into()).unwrap();
    rings.lease(client, p.as_fd(), handle, &way).unwrap();
    (p, handle, way)
}

fn outboard(place: &Path) {
    let settings = on_interface::Settings {
        name: "packet:v0".parse().unwrap(),
        own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
        carrier: on_interface::Carrier::Udp,
    };
    let (stack, clock) = on_interface::stack(&settings, ip::Config::default()).unwrap();
    let mut server = Server::new(stack, clock, Settings::at(place)).unwrap();
    println!("ready");
    server.run().unwrap();
}

/// This program as another process; killed with this.
struct Process(Child);

impl Process {
    fn start(mut command: Command, role: &str, place: &Path) -> Process {
        let mut child = command
            .args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = child.stdout.take().unwrap();
        let process = Process(child);
        let is_ready = BufReader::new(out).lines().any(|line| line.unwrap().ends_with("ready"));
        assert!(is_ready, "{role} has ended");
        process
    }

    fn here(role: &str, place: &Path) -> Process {
        Process::start(Command::new(std::env::current_exe().unwrap()), role, place)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rounds(few: usize) -> usize {
    std::env::var("FUSEWIRE_ROUNDS").map_or(few, |n| n.parse().unwrap())
}

/// Descriptors, and files of shared memory that are mapped.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("memfd:fusewire")).count();
    (std::fs::read_dir("/proc/self/fd").unwrap().count(), mapped)
}

#[test]
fn applications_killed_within_their_rings_leave_nothing() {
    let name = "applications_killed_within_their_rings_leave_nothing";
    in_namespace(name, Need::Root, SETUP, || {
        let (scene, mut random) = (Scene::new(), Random::new(5));
        let honest = scene.leased(7000);
        let before = held();
        for round in 0..rounds(15) {
            let mut both = [(); 2].map(|()| Process::here("busy", &scene.path));
            std::thread::sleep(random.duration_below(Duration::from_millis(60)));
            both.iter_mut().for_each(|one| one.0.kill().unwrap());
            honest.send_all(b"alive");
            let mut back = [0; 5];
            honest.recv_all(&mut back);
            assert_eq!(&back, b"alive", "round {round}");
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while held() > before {
            assert!(Instant::now() < deadline, "{:?} for {before:?}", held());
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn an_outboard_killed_within_its_rings_hangs_nobody() {
    in_namespace("an_outboard_killed_within_its_rings_hangs_nobody", Need::Root, SETUP, || {
        let host = Peer::new();
        sh(&format!("ip link set v1 netns {}", host.pid()));
        host.sh("ip addr add 10.9.0.1/24 dev v1 && ip link set v1 up");
        let place = std::env::temp_dir().join(format!("fw-killed-{}.sock", std::process::id()));
        let exe = std::env::current_exe().unwrap();
        let _kernel = Process::start(host.command(exe.to_str().unwrap()), "kernel", &place);
        let (client, mut random) = (Client::new(&place).unwrap(), Random::new(6));
        for round in 0..rounds(6) {
            let rings = Rings::new().unwrap();
            let mut outboard = Process::here("outboard", &place);
            // Two that sleep, look and write, one that never waits, and one that waits for what never comes.
            let sockets = [(); 4].map(|()| connected(&client, &rings, 7000));
            for socket in &sockets {
                socket.lease();
            }
            rustix::io::ioctl_fionbio(&sockets[2].p, true).unwrap();
            let datagrams = [(); 2].map(|()| for_datagrams(&client, &rings));
            std::thread::scope(|scope| {
                for (index, socket) in sockets.iter().enumerate() {
                    scope.spawn(move || until_it_ends(socket, index < 3));
                }
                for (waits, socket) in [true, false].into_iter().zip(&datagrams) {
                    let (client, rings) = (&client, &rings);
                    scope.spawn(move || datagrams_until_it_ends(client, rings, socket, waits));
                }
                std::thread::sleep(random.duration_below(Duration::from_millis(30)));
                outboard.0.kill().unwrap();
                outboard.0.wait().unwrap();
            });
            assert_eq!(client.error(sockets[0].handle), Err(Errno::NETDOWN), "round {round}");
            sockets.into_iter().for_each(scene::Socket::close);
        }
    });
}

/// One that waits for what never comes, or one that sends.
fn datagrams_until_it_ends(
    client: &Client,
    rings: &Rings,
    (p, handle, way): &(OwnedFd, Handle, Way),
    waits: bool,
) {
    let with = (p.as_fd(), *handle, way);
    if waits {
        let (mut address, mut back) = ([0; HEADING_LEN], [0; 64]);
        let mut pieces = [IoSliceMut::new(&mut address), IoSliceMut::new(&mut back)];
        let came = rings.recv_from(client, with, &mut pieces, RecvFlags::empty());
        assert!(matches!(came, Ok(None) | Err(Errno::CONNRESET)), "{came:?}");
    } else {
        let (sent, to) = ([7; 1000], (Some(scene::at(7005)), true));
        while rings.send_to(client, with, &[IoSlice::new(&sent)], to, SendFlags::NOSIGNAL).is_ok() {
        }
    }
    rings.close(p.as_fd(), way);
}

fn until_it_ends(socket: &scene::Socket<'_>, writes: bool) {
    let (bytes, mut back) = ([7; 3000], [0; 3000]);
    let is_over = |done: Result<usize, Errno>| match done {
        Ok(0) => true,
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => false,
        Err(_) => true,
    };
    loop {
        if writes && is_over(socket.send(&bytes, SendFlags::NOSIGNAL))
            || is_over(socket.recv(&mut back, RecvFlags::empty()))
        {
            return;
        }
    }
}

/// By hand, so that the outboard sees both at once: in one turn of the socket, or with sockets of two applications in two
/// turns of one round.
#[test]
fn what_is_followed_by_more_holds_back_nothing_before_it() {
    let name = "what_is_followed_by_more_holds_back_nothing_before_it";
    in_namespace(name, Need::Root, SETUP, || {
        // What is held back is so for long.
        let mut config = ip::Config::default();
        config.tcp.rto_min = Duration::from_secs(8);
        let scene = Scene::of(config, Budget::default());
        let (control, key, files) = region(&scene.path);
        let rings = &Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
        let blocks = &Shared::adopt(files[1].as_fd(), BLOCKS_LEN, false).unwrap();
        let tell = |slot: &Slot<'_>| {
            if slot.tell() {
                send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
            }
        };
        for _ in 0..5 {
            let sockets = [(); 3].map(|()| scene.socket(7000));
            let slots = sockets.each_ref().map(|socket| {
                let Reply::Leased(slot) = ask(&control, &Request::Lease(socket.handle, key)) else {
                    panic!("no lease");
                };
                Slot { rings, blocks, index: slot as usize }
            });
            for slot in &slots {
                let [(at, len), _] = places(slot.index, Direction::Out, 0, 4);
                rings.write(at, &b"ABcd"[..len]);
                slot.set_pushed(2);
                ring::commit(slot, 0, 4).unwrap();
            }
            let begun = Instant::now();
            slots.iter().for_each(tell);
            for slot in &slots {
                while ring::unread(slot).unwrap().1 < 2 {
                    assert!(begun.elapsed() < Duration::from_secs(4), "held back");
                    std::thread::yield_now();
                }
            }
        }
    });
}

/// Of how many streams that move much the rings are wide, one after the other, in regions of one process.
fn wide(scene: &Scene, streams: usize) -> Vec<(scene::Socket<'_>, bool)> {
    let (control, key, _files) = region(&scene.path);
    let mut all = Vec::new();
    for _ in 0..streams {
        let socket = scene.socket(7000);
        // By the placeholder, so that nobody asks but for this test.
        let (sent, mut at) = (vec![7; 70_000], 0);
        rustix::io::write(&socket.p, &sent).unwrap();
        while at < sent.len() {
            at += rustix::io::read(&socket.p, &mut vec![0; sent.len() - at]).unwrap();
        }
        let Reply::Leased(slot) = ask(&control, &Request::Lease(socket.handle, key)) else {
            panic!("no lease");
        };
        all.push((socket, slot as usize >= WIDE_FROM));
    }
    // Whoever has moved little has none of them.
    let little = scene.socket(7000);
    let leased = ask(&control, &Request::Lease(little.handle, key));
    assert!(matches!(leased, Reply::Leased(slot) if (slot as usize) < WIDE_FROM), "{leased:?}");
    all
}

fn are_wide(all: &[(scene::Socket<'_>, bool)]) -> usize {
    all.iter().filter(|(_, is_wide)| *is_wide).count()
}

#[test]
fn wide_rings_are_few() {
    in_namespace("wide_rings_are_few", Need::Root, SETUP, || {
        let few = SLOTS - WIDE_FROM;
        assert_eq!(are_wide(&wide(&Scene::new(), few + 2)), few);
    });
}

#[test]
fn wide_rings_are_their_users_expense() {
    in_namespace("wide_rings_are_their_users_expense", Need::Root, SETUP, || {
        // Half of it is enough for two.
        let scene = Scene::with(Budget { bytes: 10 * WIDE_BYTES, ..Budget::default() });
        let all = wide(&scene, 4);
        assert_eq!(are_wide(&all), 2);
        drop(all);
        let end = Instant::now() + Duration::from_secs(10);
        while are_wide(&wide(&scene, 4)) != 2 {
            assert!(Instant::now() < end, "what has ended is somebody's expense");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn who_writes_nonsense_into_shared_memory_breaks_himself_alone() {
    let name = "who_writes_nonsense_into_shared_memory_breaks_himself_alone";
    in_namespace(name, Need::Root, SETUP, || {
        let (scene, mut random) = (Scene::new(), Random::new(7));
        let honest = scene.leased(7000);
        for round in 0..40 {
            let (control, key, files) = region(&scene.path);
            let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
            // What the outboard decides by is not his to write.
            assert!(Shared::adopt(files[1].as_fd(), BLOCKS_LEN, true).is_err());
            let sockets = [(); 4].map(|()| scene.socket(7000));
            for socket in &sockets {
                let lease = Request::Lease(socket.handle, key);
                assert!(matches!(ask(&control, &lease), Reply::Leased(_)));
            }
            for _ in 0..300 {
                nonsense(&rings, &mut random);
                if random.below(20) == 0 {
                    let _ = send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL);
                }
            }
            if round % 2 == 0 {
                let _ = scene.client.attach(sockets[0].p.as_fd());
            }
            let sent = content(round, 5000);
            honest.send_all(&sent);
            let mut back = vec![0; 5000];
            honest.recv_all(&mut back);
            assert_eq!(back, sent, "round {round}");
        }
        // A key that is not his, and none.
        let socket = scene.socket(7000);
        let (control, mut key, _files) = region(&scene.path);
        key[3] ^= 1;
        let refused = Reply::Failed(Errno::NOENT.raw_os_error() as u32);
        assert_eq!(ask(&control, &Request::Lease(socket.handle, key)), refused);
        // A violation ends its socket: how far it has written, and who waits for it and others.
        for (word, value) in [(0, 1 << 40), (72, 17), (72, u64::MAX)] {
            let socket = scene.socket(7004);
            let (control, key, files) = region(&scene.path);
            let rings = Shared::adopt(files[0].as_fd(), RINGS_LEN, true).unwrap();
            let Reply::Leased(slot) = ask(&control, &Request::Lease(socket.handle, key)) else {
                panic!("no lease");
            };
            rings.store(WORDS_AT + slot as usize * WORDS_LEN + word, value);
            rings.store(0, 1 << slot);
            send(&control, &Request::Wake.emit(), SendFlags::NOSIGNAL).unwrap();
            let hangup = rustix::event::PollFlags::HUP;
            assert!(socket.shown(rustix::event::PollFlags::empty(), 5000).contains(hangup));
            assert_eq!(scene.client.error(socket.handle), Ok(Some(Errno::PROTO)), "{word}");
        }
    });
}
