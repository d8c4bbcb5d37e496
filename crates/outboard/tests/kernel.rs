//! An outboard, applications and the kernel as their peer, each a process of its own, over veth: every byte of streams and
//! datagrams, every end of a connection, and who is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_outboard::client::{self, Client, Datagram};
use fusewire_outboard::protocol::{Family, HEADING_LEN, Handle, Kind, OptionName, SocketType};
use fusewire_outboard::server::{Processors, Server, Settings};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, Peer, in_namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a process of this test is, when it is started as another.
const ROLE: &str = "FUSEWIRE_OUTBOARD_ROLE";
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };
const DATAGRAM: SocketType = SocketType { family: Family::V4, kind: Kind::Datagram };
const BULK: usize = 64 << 20;

fn at(address: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(address), port)
}

/// Contents that are the same in every process.
fn content(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
    bytes
}

fn socket_path() -> PathBuf {
    let pid = std::env::var("FUSEWIRE_OUTBOARD_TEST").expect("who began the test says");
    std::env::temp_dir().join(format!("fusewire-outboard-{pid}.sock"))
}

// ---- what the other processes do

/// Not a test: what a process does that [`spawn`] has started.
#[test]
#[ignore = "the tests below start it as a process of its own"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<_> = role.split(' ').collect();
    match words[..] {
        ["outboard", ref threads @ ..] => outboard(threads),
        ["peer"] => peer(),
        ["idle", port] => idle(port.parse().unwrap()),
        ["heir"] => heir(),
        ["busy"] => busy(),
        _ => panic!("{role}"),
    }
}

fn outboard(threads: &[&str]) {
    let settings = on_interface::Settings {
        name: "packet:v0".parse().unwrap(),
        own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
        carrier: on_interface::Carrier::Udp,
    };
    let (stack, clock) = on_interface::stack(&settings, ip::Config::default()).unwrap();
    let mut server = Server::new(stack, clock, Settings::at(socket_path())).unwrap();
    server.confine(&[]).unwrap();
    // Whoever asks for a processor that is not there has an outboard as before.
    let nowhere = Processors { first: None, transmit: None, receive: Some(1 << 20) };
    assert!(server.stay_on(nowhere).unwrap_err().to_string().contains("processor 1048576"));
    let on = |thread| threads.contains(&thread).then_some(0);
    let (transmit, receive) = (on("sends-by-thread"), on("receives-by-thread"));
    server.stay_on(Processors { first: on("stays"), transmit, receive }).unwrap();
    println!("ready");
    server.run().unwrap();
}

/// Servers on the kernel's sockets: 7000 echoes, by TCP and UDP; 7001 takes everything, says its hash and sends as much; 7002
/// resets; 7003 says how a connection ended; 7004 does so having sent something. A line of the input is an address to
/// connect to: what it then says is echoed.
fn peer() {
    let listen = |port, serve: fn(TcpStream)| {
        let listener = TcpListener::bind(at(PEER, port)).unwrap();
        std::thread::spawn(move || {
            listener
                .incoming()
                .flatten()
                .for_each(|stream| drop(std::thread::spawn(move || serve(stream))))
        });
    };
    listen(7000, echo);
    listen(7001, bulk);
    listen(7002, |stream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        let _ = (&stream).read(&mut [0; 8]);
    });
    listen(7003, say_end);
    listen(7004, |mut stream| {
        stream.write_all(b"unread").unwrap();
        say_end(stream);
    });
    let udp = UdpSocket::bind(at(PEER, 7000)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 65_535];
        while let Ok((len, from)) = udp.recv_from(&mut bytes) {
            let _ = udp.send_to(&bytes[..len], from);
        }
    });
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let mut stream = TcpStream::connect(line).unwrap();
        std::thread::spawn(move || {
            stream.write_all(b"from the kernel").unwrap();
            echo(stream);
        });
    }
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..len]).is_err() {
            return;
        }
    }
}

fn bulk(mut stream: TcpStream) {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    stream.write_all(blake3::hash(&all).as_bytes()).unwrap();
    stream.write_all(&content(2, BULK)).unwrap();
}

fn say_end(mut stream: TcpStream) {
    let end = match stream.read(&mut [0; 8]) {
        Ok(0) => "finished".into(),
        Ok(len) => format!("{len} bytes"),
        Err(error) => format!("{:?}", error.kind()),
    };
    println!("ended {end}");
}

/// An application that connects, listens, and does nothing until it is killed.
fn idle(port: u16) {
    let client = Client::new(&socket_path()).unwrap();
    let (p, _) = connected(&client, at(PEER, port));
    let (listener, handle) = client.socket(STREAM).unwrap();
    client.bind(handle, at(OURS, 9100)).unwrap();
    client.listen(handle, 8).unwrap();
    if port == 7004 {
        wait_for(&p, PollFlags::IN);
    }
    println!("ready");
    let _ = wait_for(&listener, PollFlags::HUP);
}

/// Opens, sends, receives and closes whatever there is, until it is killed.
fn busy() {
    let client = Client::new(&socket_path()).unwrap();
    println!("ready");
    loop {
        let (listener, of_listener) = client.socket(STREAM).unwrap();
        client.listen(of_listener, 4).unwrap();
        let begun = client.socket(STREAM).unwrap();
        client.connect(begun.0.as_fd(), begun.1, Some(at(PEER, 7009))).unwrap();
        let mut stream = UnixStream::from(connected(&client, at(PEER, 7000)).0);
        stream.write_all(&content(5, 3000)).unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        let (p, _) = client.socket(DATAGRAM).unwrap();
        let pieces = [IoSlice::new(b"one of many")];
        client::send_to(&p, &pieces, Some(at(PEER, 7000)), SendFlags::empty()).unwrap();
        drop(listener);
    }
}

/// Has a connection as its standard input, and nothing else of it.
fn heir() {
    let (p, client) = (std::io::stdin(), Client::new(&socket_path()).unwrap());
    let (handle, of) = client.attach(p.as_fd()).unwrap();
    assert_eq!((client.peer(handle), of), (Ok(at(PEER, 7000)), STREAM));
    assert_eq!(rustix::io::write(&p, b"by the heir"), Ok(11));
}

/// A process of this test's program; gone when it is dropped.
struct Process {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn spawn(mut command: Command, role: &str) -> Process {
        let path =
            std::env::var("FUSEWIRE_OUTBOARD_TEST").unwrap_or(std::process::id().to_string());
        let mut child = command
            .args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("FUSEWIRE_OUTBOARD_TEST", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process { child, out };
        process.says("ready");
        process
    }

    fn here(role: &str) -> Process {
        Process::spawn(Command::new(std::env::current_exe().unwrap()), role)
    }

    /// Waits for a line that ends with this.
    fn says(&mut self, what: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(what) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "{what:?} before its end");
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It has a thread of this name.
    fn has_thread(&self, name: &str) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let called = |thread: std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default()
        };
        threads.flatten().any(|thread| called(thread).trim_end() == name)
    }

    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// ---- what an application does

fn wait_for(p: &OwnedFd, flags: PollFlags) -> PollFlags {
    let mut fds = [PollFd::new(p, flags)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_ne!(poll(&mut fds, Some(&patience)), Ok(0), "{flags:?} within 20 s");
    fds[0].revents()
}

fn connected(client: &Client, to: SocketAddr) -> (OwnedFd, Handle) {
    let (p, handle) = client.socket(STREAM).unwrap();
    client.connect(p.as_fd(), handle, Some(to)).unwrap();
    client.connected(p.as_fd(), handle).unwrap();
    (p, handle)
}

/// The outboard, the kernel's peer, and a way to the former.
struct Scene {
    outboard: Process,
    peer: Process,
    client: Client,
    _host: Peer,
}

fn scene() -> Scene {
    scene_of("outboard")
}

fn scene_of(outboard: &str) -> Scene {
    let host = Peer::new();
    let pid = host.pid();
    fusewire_testkit::namespace::sh(&format!("ip link set v1 netns {pid}"));
    host.sh("ip addr add 10.9.0.1/24 dev v1 && ip link set v1 up");
    let outboard = Process::here(outboard);
    let peer =
        Process::spawn(host.command(std::env::current_exe().unwrap().to_str().unwrap()), "peer");
    let client = Client::new(&socket_path()).unwrap();
    Scene { outboard, peer, client, _host: host }
}

const SETUP: &str = "ip link add v0 type veth peer name v1\nip link set v0 up\n\
                     export FUSEWIRE_OUTBOARD_TEST=$$";

#[test]
fn streams_and_datagrams_are_what_was_sent() {
    in_namespace("streams_and_datagrams_are_what_was_sent", Need::Root, SETUP, || {
        everything_works(scene());
    });
}

#[test]
fn they_are_where_a_thread_of_its_own_sends() {
    in_namespace("they_are_where_a_thread_of_its_own_sends", Need::Root, SETUP, || {
        everything_works(scene_of("outboard stays sends-by-thread"));
    });
}

#[test]
fn they_are_where_a_thread_of_its_own_receives() {
    in_namespace("they_are_where_a_thread_of_its_own_receives", Need::Root, SETUP, || {
        let scene = scene_of("outboard receives-by-thread");
        assert!(scene.outboard.has_thread("receive") && !scene.outboard.has_thread("transmit"));
        everything_works(scene);
    });
}

#[test]
fn they_are_where_each_way_has_a_thread_of_its_own() {
    in_namespace("they_are_where_each_way_has_a_thread_of_its_own", Need::Root, SETUP, || {
        let scene = scene_of("outboard stays sends-by-thread receives-by-thread");
        assert!(scene.outboard.has_thread("receive") && scene.outboard.has_thread("transmit"));
        everything_works(scene);
    });
}

fn everything_works(scene: Scene) {
    let Scene { client, outboard: _outboard, peer: mut kernel, _host } = scene;
    let welcome = client.welcome().unwrap();
    assert_eq!(welcome.addresses(), [(IpAddr::V4(OURS), 24)]);
    echoes(&client);
    bulk_goes_both_ways(&client);
    datagrams(&client);
    accepts(&client, &mut kernel);
    an_heir_goes_on(&client);
}

fn echoes(client: &Client) {
    let (p, handle) = connected(client, at(PEER, 7000));
    assert_eq!(client.peer(handle), Ok(at(PEER, 7000)));
    assert_eq!(client.local(handle).unwrap().ip(), IpAddr::V4(OURS));
    let instance = client.welcome().unwrap().instance;
    assert_eq!(fusewire_outboard::placeholder::identity(p.as_fd()).unwrap().0, instance);
    // By what every program has: a descriptor to read and to write.
    let mut stream = UnixStream::from(p);
    for len in [1, 100, 4096] {
        let sent = content(9, len);
        stream.write_all(&sent).unwrap();
        let mut back = vec![0; len];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, sent);
    }
    let mut info = [0; 256];
    let name = OptionName { level: libc::IPPROTO_TCP, name: libc::TCP_INFO };
    assert!(client.option(handle, name, &mut info).unwrap() > 200);
    assert_eq!(info[0], 1, "TCP_ESTABLISHED");
    // Another process may have it: it shows the placeholder, and nothing else will do.
    assert_eq!(client.attach(stream.as_fd()), Ok((handle, STREAM)));
    let forged = Handle { token: [0; 16], ..handle };
    assert_eq!(client.local(forged), Err(Errno::BADF));
    let (other, _end) = UnixStream::pair().unwrap();
    assert_eq!(client.attach(other.as_fd()), Err(Errno::NOTSOCK));
}

fn bulk_goes_both_ways(client: &Client) {
    let (p, _) = connected(client, at(PEER, 7001));
    let mut stream = UnixStream::from(p);
    let sent = content(1, BULK);
    stream.write_all(&sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut hash = [0; 32];
    stream.read_exact(&mut hash).unwrap();
    assert_eq!(hash, *blake3::hash(&sent).as_bytes());
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == content(2, BULK), "{} bytes of other contents", back.len());
}

fn datagrams(client: &Client) {
    let (p, handle) = client.socket(DATAGRAM).unwrap();
    for len in [0, 1, 1400, 9000] {
        let sent = content(3, len);
        let pieces = [IoSlice::new(&sent)];
        let to = Some(at(PEER, 7000));
        assert_eq!(client::send_to(&p, &pieces, to, SendFlags::empty()), Ok(len));
        wait_for(&p, PollFlags::IN);
        let mut back = vec![0; 65_535];
        let received = receive(client, (&p, handle), &mut back);
        assert_eq!((received.len, received.from, received.is_cut), (len, at(PEER, 7000), false));
        assert_eq!(&back[..len], sent);
    }
    client.connect(p.as_fd(), handle, Some(at(PEER, 7000))).unwrap();
    assert_eq!(client.peer(handle), Ok(at(PEER, 7000)));
    let pieces = [IoSlice::new(b"connected")];
    client::send_to(&p, &pieces, None, SendFlags::empty()).unwrap();
    wait_for(&p, PollFlags::IN);
    let received = receive(client, (&p, handle), &mut [0; 4]);
    assert_eq!((received.len, received.is_cut), (9, true));
}

fn receive(client: &Client, (p, handle): (&OwnedFd, Handle), into: &mut [u8]) -> Datagram {
    let mut address = [0; HEADING_LEN];
    let mut pieces = [IoSliceMut::new(&mut address), IoSliceMut::new(into)];
    client.recv_from((p.as_fd(), handle), &mut pieces, RecvFlags::empty()).unwrap().unwrap()
}

fn accepts(client: &Client, kernel: &mut Process) {
    let (listener, handle) = client.socket(STREAM).unwrap();
    client.bind(handle, at(OURS, 9000)).unwrap();
    client.listen(handle, 64).unwrap();
    let (_p, other) = client.socket(STREAM).unwrap();
    assert_eq!(client.bind(other, at(OURS, 9000)), Err(Errno::ADDRINUSE));
    let mut input = kernel.child.stdin.take().unwrap();
    let mut streams = Vec::new();
    // More than are offered at a time.
    for _ in 0..40 {
        writeln!(input, "10.9.0.2:9000").unwrap();
    }
    for _ in 0..40 {
        wait_for(&listener, PollFlags::IN);
        let accepted = client::accept(listener.as_fd(), true).unwrap();
        assert_eq!((accepted.peer.ip(), accepted.local), (IpAddr::V4(PEER), at(OURS, 9000)));
        assert_eq!(client.peer(accepted.handle), Ok(accepted.peer));
        streams.push(UnixStream::from(accepted.p));
    }
    for stream in &mut streams {
        let mut hello = [0; 15];
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"from the kernel");
        stream.write_all(&hello).unwrap();
        stream.read_exact(&mut hello).unwrap();
        assert_eq!(&hello, b"from the kernel");
    }
    // No number is left: the connection is lost, and offered again.
    let limit = getrlimit(Resource::Nofile);
    writeln!(input, "10.9.0.2:9000").unwrap();
    wait_for(&listener, PollFlags::IN);
    let next = listener.try_clone().unwrap().as_raw_fd() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(next), ..limit }).unwrap();
    let none = client::accept(listener.as_fd(), true);
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(none.err(), Some(Errno::MFILE));
    wait_for(&listener, PollFlags::IN);
    let mut stream = UnixStream::from(client::accept(listener.as_fd(), true).unwrap().p);
    let mut hello = [0; 15];
    stream.read_exact(&mut hello).unwrap();
    assert_eq!(&hello, b"from the kernel");
    kernel.child.stdin = Some(input);
}

/// Another program, by `fork` and `exec`, has the connection and is told what it is.
fn an_heir_goes_on(client: &Client) {
    let (p, _) = connected(client, at(PEER, 7000));
    let mut heir = Command::new(std::env::current_exe().unwrap());
    heir.args(["--exact", "role", "--ignored", "--nocapture", "--test-threads=1"]);
    heir.env(ROLE, "heir").stdin(p.try_clone().unwrap());
    let done = heir.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut back = [0; 11];
    UnixStream::from(p).read_exact(&mut back).unwrap();
    assert_eq!(&back, b"by the heir");
}

#[test]
fn every_end_of_a_connection_is_told_to_both_sides() {
    in_namespace("every_end_of_a_connection_is_told_to_both_sides", Need::Root, SETUP, || {
        let Scene { client, outboard, peer: mut kernel, _host } = scene();
        connected(&client, at(PEER, 7000));
        let before = at_rest(&outboard);
        refused_and_reset(&client);
        // Closed in order, and with something unread.
        drop(connected(&client, at(PEER, 7003)));
        kernel.says("ended finished");
        let (p, _) = connected(&client, at(PEER, 7004));
        wait_for(&p, PollFlags::IN);
        drop(p);
        kernel.says("ended ConnectionReset");
        // Its writing alone.
        let (p, _) = connected(&client, at(PEER, 7003));
        rustix::net::shutdown(&p, Shutdown::Write).unwrap();
        kernel.says("ended finished");
        assert!(wait_for(&p, PollFlags::RDHUP).contains(PollFlags::RDHUP));
        drop(p);
        // The application is killed.
        for (port, end) in [(7003, "ended finished"), (7004, "ended ConnectionReset")] {
            let mut application = Process::here(&format!("idle {port}"));
            application.kill();
            kernel.says(end);
        }
        comes_back(&outboard, before);
    });
}

/// How many descriptors the outboard has, once they are the same for a while.
fn at_rest(outboard: &Process) -> usize {
    let deadline = Instant::now() + Duration::from_secs(20);
    let (mut last, mut same) = (0, 0);
    while same < 20 {
        let now = outboard.descriptors();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        assert!(Instant::now() < deadline, "{now} descriptors, and others each time");
        std::thread::sleep(Duration::from_millis(20));
    }
    last
}

/// The outboard has as many descriptors as before, soon.
fn comes_back(outboard: &Process, before: usize) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while outboard.descriptors() > before {
        assert!(Instant::now() < deadline, "{} for {before}", outboard.descriptors());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `FUSEWIRE_ROUNDS` says how many are killed.
#[test]
fn applications_killed_at_any_moment_leave_nothing() {
    let name = "applications_killed_at_any_moment_leave_nothing";
    in_namespace(name, Need::Root, SETUP, || {
        let Scene { client, outboard, peer: _kernel, _host } = scene();
        drop(connected(&client, at(PEER, 7000)));
        let (before, mut random) = (at_rest(&outboard), Random::new(18));
        let rounds = std::env::var("FUSEWIRE_ROUNDS").map_or(15, |n| n.parse().unwrap());
        for _ in 0..rounds {
            let mut some: Vec<_> = (0..2).map(|_| Process::here("busy")).collect();
            std::thread::sleep(random.duration_below(Duration::from_millis(40)));
            some.iter_mut().for_each(Process::kill);
        }
        comes_back(&outboard, before);
        let mut stream = UnixStream::from(connected(&client, at(PEER, 7000)).0);
        stream.write_all(b"alive").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    });
}

fn refused_and_reset(client: &Client) {
    let (p, handle) = client.socket(STREAM).unwrap();
    client.connect(p.as_fd(), handle, Some(at(PEER, 7009))).unwrap();
    assert_eq!(client.connected(p.as_fd(), handle), Err(Errno::CONNREFUSED));
    assert_eq!(rustix::net::sockopt::socket_error(&p).unwrap(), Err(Errno::CONNRESET));
    assert_eq!(client.error(handle), Ok(None), "it was told");
    assert_eq!(client.local(handle).unwrap().ip(), IpAddr::V4(OURS), "it had an address");
    let (p, handle) = connected(client, at(PEER, 7002));
    rustix::net::send(&p, b"now", SendFlags::empty()).unwrap();
    assert!(wait_for(&p, PollFlags::IN).contains(PollFlags::HUP));
    assert_eq!(client.error(handle), Ok(Some(Errno::CONNRESET)));
}

#[test]
fn a_killed_outboard_hangs_nobody_and_another_serves_who_lives() {
    let name = "a_killed_outboard_hangs_nobody_and_another_serves_who_lives";
    in_namespace(name, Need::Root, SETUP, || {
        let Scene { client, mut outboard, peer: _kernel, _host } = scene();
        let (p, handle) = connected(&client, at(PEER, 7000));
        let (listener, of_listener) = client.socket(STREAM).unwrap();
        client.bind(of_listener, at(OURS, 9000)).unwrap();
        client.listen(of_listener, 8).unwrap();
        outboard.kill();
        assert!(wait_for(&p, PollFlags::IN).contains(PollFlags::HUP));
        assert_eq!(client.error(handle), Err(Errno::NETDOWN));
        assert_eq!(client.socket(STREAM).err(), Some(Errno::NETDOWN));
        assert_eq!(client::accept(listener.as_fd(), true).err(), Some(Errno::NETDOWN));
        let _again = Process::here("outboard");
        assert_eq!(client.local(handle), Err(Errno::BADF), "what was is no more");
        let mut stream = UnixStream::from(connected(&client, at(PEER, 7000)).0);
        stream.write_all(b"again").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
    });
}
