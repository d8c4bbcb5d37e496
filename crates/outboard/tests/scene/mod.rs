//! An outboard in a thread, the kernel's stack as its peer over veth, and what an application of it does.

// Each test takes what it needs.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use fusewire_outboard::client::{Client, Rings, Way};
use fusewire_outboard::protocol::{Family, Handle, Kind, SocketType};
use fusewire_outboard::server::{Budget, Server, Settings, Stop};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::namespace::{Peer, sh};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::sockopt::{self, Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags};

/// What a process of this test is, when it is started as another.
pub const ROLE: &str = "FUSEWIRE_LEASES_ROLE";
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
pub const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };
pub const SETUP: &str = "ip link add v0 type veth peer name v1\nip link set v0 up";
pub const BULK: usize = 48 << 20;

pub fn at(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(PEER), port)
}

/// Contents that are the same in every process.
pub fn content(seed: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
    bytes
}

/// Servers on the kernel's sockets. 7000 echoes; 7001 takes everything, says its hash and sends as much; 7002
/// sends something and says how the connection ended; 7003 sends something and resets; both when they hear something; 7004
/// sends much at once, and what it hears; 7005 sends something, takes everything, and says how much that was and how it ended.
/// 7007 sends as much as goes and takes nothing, until it is told nothing more, and resets. Datagrams for 7000 are said, those for 7006 come back.
pub fn kernel() {
    let listen = |port, serve: fn(TcpStream)| {
        let listener = TcpListener::bind(at(port)).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                asks_whether_it_is_there(&stream);
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
    listen(7004, |mut stream| {
        stream.write_all(&content(2, BULK)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let _ = stream.write_all(&all);
    });
    listen(7005, |mut stream| {
        stream.write_all(b"unread").unwrap();
        let mut all = Vec::new();
        let ended = stream.read_to_end(&mut all).map_err(|error| error.kind());
        println!("{} then {ended:?}", all.len());
    });
    listen(7007, |mut stream| {
        stream.read_exact(&mut [0]).unwrap();
        stream.set_nonblocking(true).unwrap();
        let (all, mut sent, mut told) = (content(2, BULK), 0, 0);
        loop {
            while let Ok(len) = stream.write(&all[sent..]) {
                sent += len;
            }
            std::thread::sleep(std::time::Duration::from_millis(300));
            let before = std::mem::replace(&mut told, rustix::io::ioctl_fionread(&stream).unwrap());
            if told > 1 << 16 && before == told {
                break;
            }
        }
        rustix::net::sockopt::set_socket_linger(&stream, Some(std::time::Duration::ZERO)).unwrap();
    });
    let udp = UdpSocket::bind(at(7000)).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 65_535];
        while let Ok((len, _)) = udp.recv_from(&mut bytes) {
            println!("heard {len}");
        }
    });
    std::thread::spawn(|| {
        let (socket, mut bytes) = (UdpSocket::bind(at(7006)).unwrap(), [0; 2048]);
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..len], from);
        }
    });
    println!("ready");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A host that was killed says no more, and the next one at its address resets what it does not know when it is asked: without
/// that, connections would stay in the way of later ones from the same port.
fn asks_whether_it_is_there(stream: &TcpStream) {
    let every = std::time::Duration::from_secs(1);
    sockopt::set_socket_keepalive(stream, true).unwrap();
    sockopt::set_tcp_keepidle(stream, every).unwrap();
    sockopt::set_tcp_keepintvl(stream, every).unwrap();
}

/// Lines of another process, as they come.
fn said(out: std::process::ChildStdout) -> Receiver<String> {
    let (say, says) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        use std::io::BufRead;
        let lines = std::io::BufReader::new(out).lines();
        lines.map_while(Result::ok).try_for_each(|line| say.send(line))
    });
    says
}

/// An outboard in a thread of this process, the kernel's peer, and an application.
pub struct Scene {
    pub client: Client,
    pub rings: Rings,
    pub path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<ip::Counters>>,
    /// The interface shows super-frames before they are taken.
    pub shows_super_frames: bool,
    pub kernel: Child,
    says: Mutex<Receiver<String>>,
    _host: Peer,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(Budget::default())
    }

    /// Each user has so much.
    pub fn with(budget: Budget) -> Scene {
        Scene::of(ip::Config::default(), budget)
    }

    /// The outboard's stack is so.
    pub fn of(config: ip::Config, budget: Budget) -> Scene {
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
        let says = Mutex::new(said(kernel.stdout.take().unwrap()));
        let settings = on_interface::Settings {
            name: "packet:v0".parse().unwrap(),
            own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
            carrier: on_interface::Carrier::Udp,
        };
        let (stack, clock) = on_interface::stack(&settings, config).unwrap();
        let is_so = |note: &String| note.contains("wait beside the ring");
        let shows_super_frames = stack.capabilities().notes.iter().any(is_so);
        let name = format!("fusewire-leases-{}.sock", std::process::id());
        let path: PathBuf = std::env::temp_dir().join(name);
        let settings = Settings { budget, ..Settings::at(&path) };
        let mut server = Server::new(stack, clock, settings).unwrap();
        let stop = server.stop();
        let run = move || {
            server.run().unwrap();
            server.counters()
        };
        let thread = Some(std::thread::spawn(run));
        let (client, rings) = (Client::new(&path).unwrap(), Rings::new().unwrap());
        let mut scene = Scene {
            client,
            rings,
            path,
            stop,
            thread,
            shows_super_frames,
            kernel,
            says,
            _host: host,
        };
        scene.hears("ready");
        scene
    }

    /// Waits for a line of the kernel's peer that ends with this.
    pub fn hears(&mut self, what: &str) {
        while !self.next_line().ends_with(what) {}
    }

    /// What the kernel's peer says next.
    pub fn next_line(&mut self) -> String {
        let patience = std::time::Duration::from_secs(30);
        let says = self.says.get_mut().unwrap();
        says.recv_timeout(patience).expect("a line in time").trim_end().into()
    }

    /// Ends it; what its outboard has counted.
    pub fn end(mut self) -> ip::Counters {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn socket(&self, port: u16) -> Socket<'_> {
        connected(&self.client, &self.rings, port)
    }

    /// One that has its lease.
    pub fn leased(&self, port: u16) -> Socket<'_> {
        let socket = self.socket(port);
        socket.lease();
        socket
    }
}

/// A connection of an application's to the kernel's peer.
pub fn connected<'a>(client: &'a Client, rings: &'a Rings, port: u16) -> Socket<'a> {
    let (p, handle) = client.socket(STREAM).unwrap();
    client.connect(p.as_fd(), handle, Some(at(port))).unwrap();
    client.connected(p.as_fd(), handle).unwrap();
    // A byte that never comes is an error, and no wait.
    for direction in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&p, direction, Some(std::time::Duration::from_secs(20))).unwrap();
    }
    Socket { client, rings, p, handle, way: Way::default() }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = self.kernel.kill();
        let _ = self.kernel.wait();
    }
}

pub struct Socket<'a> {
    client: &'a Client,
    rings: &'a Rings,
    pub p: OwnedFd,
    pub handle: Handle,
    pub way: Way,
}

impl Socket<'_> {
    pub fn lease(&self) {
        self.rings.lease(self.client, self.p.as_fd(), self.handle, &self.way).unwrap();
        assert!(self.way.is_leased());
    }

    pub fn send(&self, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
        let (front, rest) = bytes.split_at(bytes.len() / 3);
        let pieces = [IoSlice::new(front), IoSlice::new(rest)];
        self.rings.send(self.client, (self.p.as_fd(), self.handle, &self.way), &pieces, flags)
    }

    /// Of a file from an offset on, so many at most.
    pub fn send_file(
        &self,
        (file, begin, count): (impl AsFd, u64, usize),
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let with = (self.p.as_fd(), self.handle, &self.way);
        self.rings.send_file(self.client, with, (file.as_fd(), begin, count), flags)
    }

    pub fn recv(&self, bytes: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
        let (front, rest) = bytes.split_at_mut(bytes.len() / 3);
        let mut pieces = [IoSliceMut::new(front), IoSliceMut::new(rest)];
        self.rings.recv(self.client, (self.p.as_fd(), self.handle, &self.way), &mut pieces, flags)
    }

    pub fn send_all(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes, SendFlags::empty()).unwrap()..];
        }
    }

    pub fn recv_all(&self, bytes: &mut [u8]) {
        let mut len = 0;
        while len < bytes.len() {
            match self.recv(&mut bytes[len..], RecvFlags::empty()) {
                Ok(0) => panic!("the end after {len} of {}", bytes.len()),
                Ok(more) => len += more,
                Err(error) => assert_eq!(error, Errno::INTR),
            }
        }
    }

    pub fn recv_to_end(&self) -> Vec<u8> {
        let (mut all, mut bytes) = (Vec::new(), vec![0; 70_000]);
        loop {
            match self.recv(&mut bytes, RecvFlags::empty()).unwrap() {
                0 => return all,
                len => all.extend_from_slice(&bytes[..len]),
            }
        }
    }

    pub fn shown(&self, wanted: PollFlags, milliseconds: i64) -> PollFlags {
        let mut fds = [PollFd::new(&self.p, wanted)];
        let patience = Timespec { tv_sec: milliseconds / 1000, tv_nsec: 0 };
        poll(&mut fds, Some(&patience)).unwrap();
        fds[0].revents()
    }

    pub fn close(self) {
        self.rings.close(self.p.as_fd(), &self.way);
    }
}
