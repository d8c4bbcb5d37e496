//! Several processes accept on one listener that they have inherited by `fork` and `exec`, with a connection that another has
//! begun and handed on: as servers do that start workers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fusewire_outboard::client::{self, Client};
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_outboard::server::{Server, Settings};
use fusewire_stack::{ip, on_interface};
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Set for a process that is a worker.
const WORKER: &str = "FUSEWIRE_PREFORK_WORKER";
const WORKERS: u8 = 4;
const AT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);
const STREAM: SocketType = SocketType { family: Family::V4, kind: Kind::Stream };

/// Not a test: a worker, whose standard input is the listener. It serves one connection at a time: answers each byte with its
/// number, until the connection ends.
#[test]
#[ignore = "the test below starts it as a process of its own"]
fn worker() {
    let Ok(number) = std::env::var(WORKER) else { return };
    let (number, listener): (u8, _) = (number.parse().unwrap(), std::io::stdin());
    loop {
        let stream = match client::accept(listener.as_fd(), true) {
            Ok(accepted) => accepted.p,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(_) => return,
        };
        while let Ok(1) = rustix::io::read(&stream, &mut [0; 1]) {
            assert_eq!(rustix::io::write(&stream, &[number]), Ok(1));
        }
    }
}

struct Worker(Child);

impl Worker {
    fn spawn(number: u8, listener: &OwnedFd) -> Worker {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(WORKER, number.to_string()).stdin(listener.try_clone().unwrap());
        Worker(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(client: &Client) -> Result<OwnedFd, Errno> {
    let (p, handle) = client.socket(STREAM)?;
    client.connect(p.as_fd(), handle, Some(AT))?;
    client.connected(p.as_fd(), handle).map(|()| p)
}

/// Which worker answers.
fn asked(p: BorrowedFd<'_>) -> u8 {
    assert_eq!(rustix::io::write(p, b"?"), Ok(1));
    let mut fds = [PollFd::from_borrowed_fd(p, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1), "an answer within 20 s");
    let mut number = [0];
    assert_eq!(rustix::io::read(p, &mut number), Ok(1));
    number[0]
}

/// Connections at once, each served by a worker of its own.
fn all_are_served(client: &Client) {
    let streams: Vec<_> = (0..WORKERS).map(|_| connect(client).unwrap()).collect();
    let mut by: Vec<_> = streams.iter().map(|stream| asked(stream.as_fd())).collect();
    for (stream, by) in streams.iter().zip(&by) {
        assert_eq!(asked(stream.as_fd()), *by, "a connection is one worker's");
    }
    by.sort_unstable();
    assert_eq!(by, (0..WORKERS).collect::<Vec<_>>());
}

#[test]
fn workers_accept_on_a_listener_that_they_inherited() {
    in_namespace("workers_accept_on_a_listener_that_they_inherited", Need::Tap, "", || {
        let path: PathBuf =
            std::env::temp_dir().join(format!("fusewire-prefork-{}.sock", std::process::id()));
        let settings = on_interface::Settings {
            name: "tap:fwprefork".parse().unwrap(),
            own: vec![on_interface::Own { address: "10.9.0.2/24".parse().unwrap(), gateway: None }],
            carrier: on_interface::Carrier::Udp,
        };
        let config = ip::Config { loopback: true, ..ip::Config::default() };
        let (stack, clock) = on_interface::stack(&settings, config).unwrap();
        let mut server = Server::new(stack, clock, Settings::at(&path)).unwrap();
        let stop = server.stop();
        let server = std::thread::spawn(move || server.run().unwrap());

        let client = Client::new(&path).unwrap();
        let (listener, handle) = client.socket(STREAM).unwrap();
        client.bind(handle, AT).unwrap();
        client.listen(handle, 64).unwrap();
        let workers: Vec<_> = (0..WORKERS).map(|n| Worker::spawn(n, &listener)).collect();
        all_are_served(&client);
        // Who has made it may go: the listener is there as long as a worker has it.
        drop(listener);
        all_are_served(&client);
        drop(workers);
        let end = Instant::now() + Duration::from_secs(20);
        while connect(&client).err() != Some(Errno::CONNREFUSED) {
            assert!(Instant::now() < end, "nobody has the listener any more");
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.stop();
        server.join().unwrap();
    });
}
