//! Living on the kernel's own address beside the kernel: two hosts joined by veth, each a network namespace. Of
//! ours, chosen ports are Fusewire's and all else stays the kernel's, and nothing is left when we are killed.

mod support;

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use etherparse::TransportSlice;
use fusewire_device::interface::flows::{Flows, Port, Protocol};
use fusewire_device::interface::host::{Host, Watch};
use fusewire_device::interface::packet::{self, Packet};
use fusewire_device::interface::reserved_port::ReservedPort;
use fusewire_device::interface::tap::{self, Tap};
use fusewire_device::interface::xdp::{self, Xdp};
use fusewire_device::interface::{Change, Interface};
use fusewire_testkit::namespace::{Need, Peer, in_namespace, sh};
use support::process::{echo, spawn, words};
use support::{ETHERNET, receive_until, slice};

const OURS: [u8; 4] = [10, 79, 0, 2];

/// Our end of the pair is `fwb`, with 10.79.0.2; the other host has 10.79.0.1.
fn hosts() -> Peer {
    let peer = Peer::new();
    sh(&format!(
        "ip link add fwb type veth peer name fwa netns {}\n\
         ip addr add 10.79.0.2/24 dev fwb\nip link set fwb up",
        peer.pid()
    ));
    peer.sh("ip addr add 10.79.0.1/24 dev fwa\nip link set fwa up");
    peer
}

fn open(device: &str, ports: &[Port]) -> Box<dyn Interface> {
    let flows = Flows::ports(ports.iter().copied());
    match device {
        "xdp" => Box::new(Xdp::open(&xdp::Config { flows, ..xdp::Config::new("fwb") }).unwrap()),
        _ => {
            Box::new(Packet::open(&packet::Config { flows, ..packet::Config::new("fwb") }).unwrap())
        }
    }
}

/// What comes back when the other host sends `text` to our port; after five seconds, nothing.
fn ask(peer: &Peer, port: u16, text: &str) -> String {
    let script = format!(
        "exec 3<>/dev/udp/10.79.0.2/{port}; printf {text} >&3; timeout 5 head -c {} <&3 || true",
        text.len()
    );
    let output = peer.command("bash").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Segments with RST and ICMP errors that our kernel has sent.
fn refusals() -> (u64, u64) {
    let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let value = |table: &str, name: &str| {
        let mut lines = snmp.lines().filter(|line| line.starts_with(table));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|n| n == name).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    };
    (value("Tcp:", "OutRsts"), value("Icmp:", "OutDestUnreachs"))
}

#[test]
fn our_ports_are_ours_and_the_kernel_keeps_silent_and_the_rest() {
    let test = "our_ports_are_ours_and_the_kernel_keeps_silent_and_the_rest";
    in_namespace(test, Need::Root, "", || {
        let peer = hosts();
        for device in ["packet", "xdp"] {
            let addr = SocketAddr::from((OURS, 7000));
            let udp = ReservedPort::new(Protocol::Udp, addr).unwrap();
            let tcp = ReservedPort::new(Protocol::Tcp, addr).unwrap();
            assert_eq!(UdpSocket::bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
            assert_eq!(TcpListener::bind(addr).unwrap_err().kind(), ErrorKind::AddrInUse);
            let mut interface = open(device, &[udp.port(), tcp.port()]);
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    echo(&mut *interface, 7000);
                });
                assert_eq!(ask(&peer, 7000, "hello"), "hello");
                assert_eq!(ask(&peer, 7000, "stop"), "stop");
                thread.join().unwrap();
            });
            // A connection to our port: its SYN comes to us, and nobody refuses it.
            let mut connecting = peer.command("bash");
            connecting.args(["-c", "timeout 1 bash -c '>/dev/tcp/10.79.0.2/7000'"]);
            let mut connecting = connecting.stderr(Stdio::null()).spawn().unwrap();
            receive_until(&mut *interface, |packet| {
                let found = slice(ETHERNET, packet.bytes).and_then(|found| found.transport);
                matches!(found, Some(TransportSlice::Tcp(tcp)) if tcp.syn())
            });
            assert_eq!(connecting.wait().unwrap().code(), Some(124), "it waits to its end");
            assert_eq!(refusals(), (0, 0), "{device}");

            // The kernel's own, beside us.
            let listener = TcpListener::bind("10.79.0.2:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let script = format!("printf kernel >/dev/tcp/10.79.0.2/{port}");
            let mut sender = peer.command("bash").args(["-c", &script]).spawn().unwrap();
            let mut text = String::new();
            listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
            assert_eq!(text, "kernel");
            sender.wait().unwrap();
        }
    });
}

#[test]
fn a_port_of_the_kernels_choice_is_held() {
    // Recent kernels let nobody filter a TCP socket without CAP_NET_ADMIN, which one has in a namespace of one's own.
    in_namespace("a_port_of_the_kernels_choice_is_held", Need::Namespace, "", || {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            for addr in ["127.0.0.1:0", "[::1]:0"] {
                let reserved = ReservedPort::new(protocol, addr.parse().unwrap()).unwrap();
                let port = reserved.port();
                assert!(port.port != 0 && port.protocol == protocol);
                let again = ReservedPort::new(protocol, (port.addr, port.port).into());
                assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
                drop(reserved);
                // A process that another test starts has a copy of the socket until it executes its program.
                let free = || ReservedPort::new(protocol, (port.addr, port.port).into()).is_ok();
                let start = Instant::now();
                while !free() {
                    assert!(start.elapsed() < Duration::from_secs(5), "the port is still taken");
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    });
}

#[test]
#[ignore = "the tests above start it as a process of its own"]
fn another_process() {
    let Some((device, port)) = words() else { return };
    let port = port.parse().unwrap();
    let reserved = ReservedPort::new(Protocol::Udp, (OURS, port).into()).unwrap();
    let mut interface = open(&device, &[reserved.port()]);
    echo(&mut *interface, port);
}

#[test]
fn several_processes_have_their_own_flows_of_one_interface() {
    let test = "several_processes_have_their_own_flows_of_one_interface";
    in_namespace(test, Need::Root, "", || {
        let peer = hosts();
        let ports = [("xdp", 7000), ("packet", 7100), ("packet", 7200)];
        let mut all: Vec<_> = ports.iter().map(|(device, port)| spawn(device, *port)).collect();
        for text in ["one", "two", "stop"] {
            for (_, port) in ports {
                assert_eq!(ask(&peer, port, text), text, "{port}");
            }
        }
        for (child, _out) in &mut all {
            assert!(child.wait().unwrap().success());
        }
        assert_eq!(refusals(), (0, 0));
    });
}

#[test]
fn nothing_is_left_of_us_after_sigkill() {
    in_namespace("nothing_is_left_of_us_after_sigkill", Need::Root, "", || {
        let peer = hosts();
        for device in ["xdp", "packet"] {
            let (mut child, _out) = spawn(device, 7000);
            assert_eq!(ask(&peer, 7000, "alive"), "alive");
            assert_eq!(sh("ip link show fwb").contains("xdp"), device == "xdp");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!sh("ip link show fwb").contains("xdp"), "the program hangs there");
            // The port is anybody's again, and the kernel answers on it.
            let socket = UdpSocket::bind(SocketAddr::from((OURS, 7000))).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut buffer = [0; 16];
                    let (len, from) = socket.recv_from(&mut buffer).unwrap();
                    socket.send_to(&buffer[..len], from).unwrap();
                });
                assert_eq!(ask(&peer, 7000, "kernel"), "kernel");
            });
        }
    });
}

#[test]
fn the_kernel_tells_what_it_knows() {
    in_namespace("the_kernel_tells_what_it_knows", Need::Namespace, "", || {
        let peer = hosts();
        sh("ip -6 addr add fd00:79::2/64 dev fwb nodad\n\
            ip route add default via 10.79.0.1 mtu 1400\n\
            ip -6 route add fd00:80::/32 via fd00:79::1 metric 7");
        let mut host = Host::open().unwrap();
        let links = host.links().unwrap();
        let link = links.iter().find(|link| link.name == "fwb").unwrap();
        assert_eq!((link.mtu, link.mac), (1500, Some(support::mac_of("fwb"))));
        assert!(link.is_running && links.iter().any(|link| link.is_loopback));
        let addrs = host.addrs().unwrap();
        let has = |text: &str, len| {
            let addr: IpAddr = text.parse().unwrap();
            addrs.iter().any(|a| a.index == link.index && a.addr == addr && a.prefix_len == len)
        };
        assert!(has("10.79.0.2", 24) && has("fd00:79::2", 64));
        let routes = host.routes().unwrap();
        let default = routes.iter().find(|r| r.destination.is_none() && !r.is_v6).unwrap();
        assert_eq!(default.gateway, Some([10, 79, 0, 1].into()));
        assert_eq!((default.mtu, default.index), (Some(1400), link.index));
        let network = routes.iter().find(|r| r.prefix_len == 24).unwrap();
        assert_eq!(network.source, Some(OURS.into()));
        let v6 = routes.iter().find(|r| r.prefix_len == 32).unwrap();
        assert_eq!((v6.gateway, v6.metric), (Some("fd00:79::1".parse().unwrap()), 7));

        let mut watch = Watch::new(link.index).unwrap();
        let gateway = [10, 79, 0, 1].into();
        host.probe(link.index, gateway).unwrap();
        let mac = until(&mut watch, |change| match change {
            Change::Neighbour(addr, Some(mac)) if addr == gateway => Some(mac),
            _ => None,
        });
        let text = mac.map(|b| format!("{b:02x}")).join(":");
        assert!(peer.sh("ip link show fwa").contains(&text));
        assert!(host.neighbours().unwrap().contains(&(link.index, gateway, mac)));
    });
}

/// What `wanted` finds in a change, within five seconds.
fn until<T>(watch: &mut Watch, mut wanted: impl FnMut(Change) -> Option<T>) -> T {
    for _ in 0..500 {
        while let Some(change) = watch.poll() {
            if let Some(found) = wanted(change) {
                return found;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the change did not come");
}

#[test]
fn changes_of_the_interface_are_told_by_the_device() {
    let test = "changes_of_the_interface_are_told_by_the_device";
    in_namespace(test, Need::Root, "", || {
        let tap = || {
            let config = tap::Config { name: "fwb".into(), ..tap::Config::default() };
            Box::new(Tap::open(&config).unwrap()) as Box<dyn Interface>
        };
        for device in ["tap", "packet", "xdp"] {
            let _peer = (device != "tap").then(hosts);
            let mut interface = if device == "tap" { tap() } else { open(device, &[]) };
            let mut expect = |wanted: Change| {
                let mut seen = Vec::new();
                for _ in 0..50 {
                    // A device that is gone fails.
                    let _ = interface.wait(Some(Duration::from_millis(100)), false);
                    while let Some(change) = interface.poll_change() {
                        if change == wanted {
                            return interface.capabilities().mtu;
                        }
                        seen.push(change);
                    }
                }
                panic!("{device}: {wanted:?} not among {seen:?}");
            };
            sh("ip link set fwb mtu 1300");
            assert_eq!(expect(Change::Mtu(1300)), 1300);
            sh("ip addr add 10.80.0.1/16 dev fwb");
            expect(Change::AddressAdded([10, 80, 0, 1].into(), 16));
            sh("ip addr del 10.80.0.1/16 dev fwb");
            expect(Change::AddressRemoved([10, 80, 0, 1].into()));
            sh("ip link set fwb down");
            expect(Change::Running(false));
            sh("ip link del fwb");
            expect(Change::Gone);
        }
    });
}

#[test]
fn a_connection_of_the_kernels_goes_on_beside_us() {
    let test = "a_connection_of_the_kernels_goes_on_beside_us";
    in_namespace(test, Need::Root, "", || {
        let peer = hosts();
        let script =
            "exec 3<>/dev/tcp/10.79.0.2/7300; while read line <&3; do echo $line >&3; done";
        let listener = TcpListener::bind("10.79.0.2:7300").unwrap();
        let mut other = peer.command("bash").args(["-c", script]).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let say = |stream: &mut TcpStream, text: &str| {
            use std::io::Write;
            writeln!(stream, "{text}").unwrap();
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            assert_eq!(line.trim(), text);
        };
        say(&mut stream, "before");
        let reserved = ReservedPort::new(Protocol::Tcp, (OURS, 0).into()).unwrap();
        let interface = open("xdp", &[reserved.port()]);
        say(&mut stream, "beside");
        drop(interface);
        say(&mut stream, "after");
        drop(stream);
        other.wait().unwrap();
    });
}
