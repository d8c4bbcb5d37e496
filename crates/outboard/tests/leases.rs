//! Streams by the rings of a lease, with the kernel's stack as peer over veth: every byte of them, what `poll` and `epoll`
//! show meanwhile, and leases that are taken back or given up at any moment.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;

use fusewire_outboard::client::{Client, Rings, Way};
use fusewire_outboard::protocol::{Family, Handle, Kind, SocketType};
use fusewire_outboard::server::{Server, Settings, Stop};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// What a process of this test is, when it is started as another.
const ROLE: &str = "FUSEWIRE_LEASES_ROLE";
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };
const SETUP: &str = "ip link add v0 type veth peer name v1\nip link set v0 up";
const BULK: usize = 48 << 20;

fn at(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(PEER), port)
}

/// Contents that are the same in every process.
fn content(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
    bytes
}

/// Not a test: servers on the kernel's sockets. 7000 echoes; 7001 takes everything, says its hash and sends as much; 7002
/// sends something and says how the connection ended; 7003 sends something and resets; both when they hear something.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let listen = |port, serve: fn(TcpStream)| {
        let listener = TcpListener::bind(at(port)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        })
    };
    listen(7000, |mut stream| {
        let mut bytes = [0; 65_536];
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..len]).is_err() {
                return;
            }
        }
    });
    listen(7001, |mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(blake3::hash(&all).as_bytes()).unwrap();
        let _ = stream.write_all(&content(2, BULK));
    });
    listen(7002, |mut stream| {
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(b"unread").unwrap();
        let mut all = Vec::new();
        match stream.read_to_end(&mut all) {
            Ok(_) => println!("finished {}", all.len()),
            Err(error) => println!("{:?}", error.kind()),
        }
    });
    listen(7003, |mut stream| {
        let _ = stream.read(&mut [0; 1]);
        stream.write_all(b"before").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
    });
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// An outboard in a thread of this process, the kernel's peer, and an application.
struct Scene {
    client: Client,
    rings: Rings,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    kernel: Child,
    says: std::io::BufReader<std::process::ChildStdout>,
    _host: Peer,
}

impl Scene {
    fn new() -> Scene {
        let host = Peer::new();
        sh(&format!("ip link set v1 netns {}", host.pid()));
        host.sh("ip addr add 10.9.0.1/24 dev v1 && ip link set v1 up");
        let mut kernel = host
            .command(std::env::current_exe().unwrap().to_str().unwrap())
            .args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, "kernel")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let says = std::io::BufReader::new(kernel.stdout.take().unwrap());
        let settings = on_interface::Settings {
            name: "packet:v0".parse().unwrap(),
            own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
            carrier: on_interface::Carrier::Udp,
        };
        let (stack, clock) = on_interface::stack(&settings, ip::Config::default()).unwrap();
        let name = format!("fusewire-leases-{}.sock", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        let mut server = Server::new(stack, clock, Settings::at(&path)).unwrap();
        let stop = server.stop();
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        let (client, rings) = (Client::new(&path).unwrap(), Rings::new().unwrap());
        let mut scene = Scene { client, rings, stop, thread, kernel, says, _host: host };
        scene.hears("ready");
        scene
    }

    /// Waits for a line of the kernel's peer that ends with this.
    fn hears(&mut self, what: &str) {
        use std::io::BufRead;
        let mut line = String::new();
        while !line.trim_end().ends_with(what) {
            line.clear();
            assert_ne!(self.says.read_line(&mut line).unwrap(), 0, "{what:?} before its end");
        }
    }

    fn socket(&self, port: u16) -> Socket<'_> {
        let (p, handle) = self.client.socket(STREAM).unwrap();
        self.client.connect(p.as_fd(), handle, Some(at(port))).unwrap();
        self.client.connected(p.as_fd(), handle).unwrap();
        Socket { scene: self, p, handle, way: Way::default() }
    }

    /// One that has its lease.
    fn leased(&self, port: u16) -> Socket<'_> {
        let socket = self.socket(port);
        socket.lease();
        socket
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().unwrap().join();
        let _ = self.kernel.kill();
        let _ = self.kernel.wait();
    }
}

struct Socket<'a> {
    scene: &'a Scene,
    p: OwnedFd,
    handle: Handle,
    way: Way,
}

impl Socket<'_> {
    fn lease(&self) {
        let Scene { client, rings, .. } = self.scene;
        rings.lease(client, self.p.as_fd(), self.handle, &self.way).unwrap();
        assert!(self.way.is_leased());
    }

    fn send(&self, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        let Scene { client, rings, .. } = self.scene;
        let (front, rest) = bytes.split_at(bytes.len() / 3);
        let pieces = [IoSlice::new(front), IoSlice::new(rest)];
        rings.send(client, (self.p.as_fd(), self.handle, &self.way), &pieces, flags)
    }

    fn recv(&self, bytes: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        let Scene { client, rings, .. } = self.scene;
        let (front, rest) = bytes.split_at_mut(bytes.len() / 3);
        let mut pieces = [IoSliceMut::new(front), IoSliceMut::new(rest)];
        rings.recv(client, (self.p.as_fd(), self.handle, &self.way), &mut pieces, flags)
    }

    fn send_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes, SendFlags::empty()).unwrap()..];
        }
    }

    fn recv_all(&self, bytes: &mut [u8]) {
        let mut len = 0;
        while len < bytes.len() {
            match self.recv(&mut bytes[len..], RecvFlags::empty()) {
                Ok(0) => panic!("the end after {len} of {}", bytes.len()),
                Ok(more) => len += more,
                Err(error) => assert_eq!(error, Errno::INTR),
            }
        }
    }

    fn recv_to_end(&self) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), vec![0; 70_000]);
        loop {
            match self.recv(&mut bytes, RecvFlags::empty()).unwrap() {
                0 => return all,
                len => all.extend_from_slice(&bytes[..len]),
            }
        }
    }

    fn shown(&self, wanted: PollFlags, milliseconds: i64) -> PollFlags {
        let mut fds = [PollFd::new(&self.p, wanted)];
        let patience = Timespec { tv_sec: milliseconds / 1000, tv_nsec: 0 };
        poll(&mut fds, Some(&patience)).unwrap();
        fds[0].revents()
    }

    fn close(self) {
        self.scene.rings.close(self.p.as_fd(), &self.way);
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
    socket.close();
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

fn what_poll_shows_is_true(scene: &Scene) {
    let socket = scene.leased(7000);
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
    assert!(socket.shown(PollFlags::empty(), 5000).contains(PollFlags::HUP));
    let mut before = [0; 6];
    socket.recv_all(&mut before);
    assert_eq!(&before, b"before");
    let end = socket.recv(&mut before, RecvFlags::empty());
    assert!(matches!(end, Ok(0) | Err(Errno::CONNRESET)), "{end:?}");
    assert_eq!(scene.client.error(socket.handle), Ok(Some(Errno::CONNRESET)));
    assert!(socket.send(b"x", SendFlags::NOSIGNAL).is_err());
    socket.close();
}
