//! An interface of several queues: all of them in one process, and a queue each in several.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::process::{Child, ChildStdout};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use etherparse::TransportSlice;
use fusewire_device::interface::flows::{Flows, Port, Protocol};
use fusewire_device::interface::xdp::{self, Config};
use fusewire_device::interface::{Change, Interface};
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use support::process::{echo, spawn, words};
use support::{ETHERNET, VETH, slice, veth_flow, whole};

/// [`support::VETH`] of so many queues at both ends. The kernel chooses by a hash of the flow.
fn veth(queues: u32) -> String {
    let many = format!("numtxqueues {queues} numrxqueues {queues}");
    VETH.replace(
        "ip link add fwa type veth peer name fwb",
        &format!("ip link add fwa {many} type veth peer name fwb {many}"),
    )
}

fn flows(port: u16) -> Flows {
    Flows::ports([Port { addr: [10, 78, 0, 2].into(), protocol: Protocol::Udp, port }])
}

/// The port of the first of [`sockets`].
const FIRST: u16 = 8000;

/// Kernel sockets, each of a flow of its own.
fn sockets(count: u16) -> Vec<UdpSocket> {
    (0..count).map(|n| UdpSocket::bind(("10.78.0.1", FIRST + n)).unwrap()).collect()
}

/// Ports from which something came to ours.
fn came(interface: &mut dyn Interface, senders: &[UdpSocket], everything: bool) -> Vec<u16> {
    for socket in senders {
        socket.send_to(b"here", "10.78.0.2:7000").unwrap();
    }
    let mut ports = Vec::new();
    while interface.wait(Some(Duration::from_millis(200)), false).unwrap() {
        for i in 0..interface.receive().unwrap() {
            let found = slice(ETHERNET, interface.packet(i).bytes).and_then(|f| f.transport);
            match found {
                Some(TransportSlice::Udp(udp)) if udp.destination_port() == 7000 => {
                    assert_eq!(udp.payload(), b"here");
                    ports.push(udp.source_port());
                }
                // The kernel's talk of groups and neighbours.
                _ => assert!(everything, "not of our flows"),
            }
        }
    }
    ports.sort_unstable();
    ports
}

#[test]
fn packets_of_every_queue_come_to_who_has_them_all() {
    let test = "packets_of_every_queue_come_to_who_has_them_all";
    in_namespace(test, Need::Root, &veth(4), || {
        let senders = sockets(64);
        let all: Vec<u16> = (8000..8064).collect();
        for generic in [false, true] {
            for flows in [flows(7000), Flows::everything()] {
                let everything = flows.everything;
                let config = Config { flows, generic, ..Config::new("fwb") };
                let mut one = xdp::open(&config, Some(1)).unwrap();
                let part = came(&mut *one, &senders, everything);
                let count = part.len();
                assert!((1..64).contains(&count), "{count} of 64 came by the second queue of four");
                drop(one);
                let mut every = xdp::open(&config, None).unwrap();
                assert!(every.capabilities().notes[0].ends_with("queue 0 to 3"));
                assert_eq!(
                    came(&mut *every, &senders, everything),
                    all,
                    "generic {generic} {everything}"
                );
                every.steer(&Flows::ports([])).unwrap();
                assert_eq!(came(&mut *every, &senders, everything), []);
                every.steer(&config.flows).unwrap();
                assert_eq!(came(&mut *every, &senders, everything), all);
                assert_eq!(every.dropped(), 0);
            }
        }
        assert!(!sh("ip link show fwb").contains("xdp"), "the program is gone");
    });
}

#[test]
fn all_queues_send_wait_and_hear_of_changes_as_one() {
    let test = "all_queues_send_wait_and_hear_of_changes_as_one";
    in_namespace(test, Need::Root, &veth(3), || {
        let mut every = xdp::open(&Config::new("fwb"), None).unwrap();
        support::exchange::datagrams(&mut *every, veth_flow());
        // More than there are frames, so that it has to wait until some are free.
        let header = veth_flow().udp(b"x");
        let pieces = [IoSlice::new(b"x")];
        let packets = vec![whole(&header, &pieces); 1000];
        let mut left = 20_000;
        while left > 0 {
            left -= every.transmit(&packets[..left.min(1000)]).unwrap();
            assert!(every.wait(Some(Duration::from_secs(5)), true).unwrap());
        }
        let waker = every.waker();
        waker.wake();
        assert!(every.wait(None, false).unwrap());
        sh("ip link set fwb mtu 1400");
        while every.poll_change() != Some(Change::Mtu(1400)) {
            assert!(every.wait(Some(Duration::from_secs(5)), false).unwrap());
        }
        assert_eq!(every.capabilities().mtu, 1400);
        sh("ip link del fwb");
        while every.wait(Some(Duration::from_secs(5)), false).is_ok() {
            let _ = every.receive();
            if every.poll_change() == Some(Change::Gone) {
                break;
            }
        }
    });
}

#[test]
#[ignore = "the test below starts it as a process of its own"]
fn another_process() {
    let Some((queue, port)) = words() else { return };
    let port = port.parse().unwrap();
    let config = Config { flows: flows(port), ..Config::new("fwb") };
    let mut interface = xdp::open(&config, Some(queue.parse().unwrap())).unwrap();
    echo(&mut *interface, port);
}

/// Another process, which has a queue and a port.
struct Other {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Other {
    fn new(queue: u32, port: u16) -> Other {
        let (child, out) = spawn(queue, port);
        Other { child, out, port }
    }

    /// The sockets that it hears: those whose flows come by its queue. What comes by one comes in order, so it has heard
    /// everybody once it has heard something of what is sent behind.
    fn hears(&mut self, senders: &[UdpSocket], text: &str) -> Vec<usize> {
        static ROUNDS: AtomicU32 = AtomicU32::new(0);
        let end = format!("end-{}", ROUNDS.fetch_add(1, Ordering::Relaxed));
        say(senders, self.port, text);
        say(senders, self.port, &end);
        let mut heard = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "{}: ended", self.port);
            let words: Vec<_> = line.split_whitespace().collect();
            match words[..] {
                ["heard", _, said] if said == end => break,
                ["heard", from, said] if said == text => {
                    heard.push(usize::from(from.parse::<u16>().unwrap() - FIRST));
                }
                _ => {}
            }
        }
        heard.sort_unstable();
        for from in &heard {
            self.answers(&senders[*from], text);
            self.answers(&senders[*from], &end);
        }
        heard
    }

    fn answers(&self, socket: &UdpSocket, text: &str) {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = [0; 64];
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from.port()), (text.as_bytes(), self.port));
    }

    fn ends(mut self, socket: &UdpSocket) {
        say(std::slice::from_ref(socket), self.port, "stop");
        self.answers(socket, "stop");
        assert!(self.child.wait().unwrap().success());
    }
}

fn say(senders: &[UdpSocket], port: u16, text: &str) {
    for socket in senders {
        socket.send_to(text.as_bytes(), ("10.78.0.2", port)).unwrap();
    }
}

#[test]
fn several_processes_have_a_queue_each_with_their_own_flows() {
    let test = "several_processes_have_a_queue_each_with_their_own_flows";
    in_namespace(test, Need::Root, &veth(2), || {
        let senders = sockets(24);
        let (mut first, mut second) = (Other::new(0, 7000), Other::new(1, 7100));
        let (mine, other) = (first.hears(&senders, "hello"), second.hears(&senders, "hello"));
        assert!((1..24).contains(&mine.len()), "{mine:?}");
        assert!((1..24).contains(&other.len()), "{other:?}");
        // A queue that is taken, and all of them.
        for queue in [Some(1), None] {
            let config = Config { flows: flows(7200), ..Config::new("fwb") };
            let error = xdp::open(&config, queue).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
            assert!(error.to_string().contains("QUEUE"), "{error}");
        }
        // The one that hung the program there is killed: the other goes on, and the next one takes its place.
        first.child.kill().unwrap();
        first.child.wait().unwrap();
        say(&senders, 7000, "killed");
        assert_eq!(second.hears(&senders, "go-on"), other);
        let mut third = Other::new(0, 7200);
        // Its flows went with it: who hears of another port than its own does not answer, and fails.
        say(&senders, 7000, "killed");
        assert_eq!(second.hears(&senders, "go-on"), other);
        let next = third.hears(&senders, "hello");
        assert!((1..24).contains(&next.len()), "{next:?}");
        second.ends(&senders[other[0]]);
        third.ends(&senders[next[0]]);
        assert!(!sh("ip link show fwb").contains("xdp"), "the program is gone");
    });
}
