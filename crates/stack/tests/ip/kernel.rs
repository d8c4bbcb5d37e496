//! Against the kernel, over TAP, in a network namespace.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use fusewire_codec::pipeline::{Message, Placed};
use fusewire_device::interface::Interface;
use fusewire_device::interface::packet::{self, Packet};
use fusewire_device::interface::tap::{Config as TapConfig, Tap};
use fusewire_device::interface::xdp::{self, Xdp};
use fusewire_kernels::stages::Swap;
use fusewire_stack::Cause;
use fusewire_stack::ip::net::Cidr;
use fusewire_stack::ip::net::MembershipChange::{Block, Join, JoinSource, Leave, LeaveSource};
use fusewire_stack::ip::{Bytes, Framing, Host, HostConfig, Stack};
use fusewire_testkit::namespace::{Need, in_namespace, sh};

use crate::messages::Reading;
use crate::net::pattern;

const SECONDS: Duration = Duration::from_secs(10);

/// A host on a TAP, 10.78.0.2 and fd78::2; the kernel is 10.78.0.1 and fd78::1.
fn host(offload: bool, mtu: usize, config: HostConfig) -> Host {
    let tap = TapConfig { name: "fwip%d".into(), offload, mtu: Some(mtu), ..TapConfig::default() };
    let tap = Tap::open(&tap).unwrap();
    let name = tap.name().to_string();
    sh(&format!("ip addr add 10.78.0.1/24 dev {name}; ip addr add fd78::1/64 dev {name} nodad"));
    let mut net = Stack::net_config(&tap as &dyn Interface);
    net.addresses = ["10.78.0.2/24", "fd78::2/64"].map(|a| a.parse::<Cidr>().unwrap()).to_vec();
    net.duplicate_detection = false;
    Host::new(Box::new(tap), net, config).unwrap()
}

/// For both versions of IP: our address and the kernel's.
const ENDS: [(&str, &str); 2] = [("10.78.0.2", "10.78.0.1"), ("[fd78::2]", "[fd78::1]")];

fn at(addr: &str, port: u16) -> std::net::SocketAddr {
    format!("{addr}:{port}").parse().unwrap()
}

#[test]
fn udp_both_ways() {
    in_namespace("kernel::udp_both_ways", Need::Tap, "", || {
        for offload in [true, false] {
            let host = host(offload, 1500, HostConfig::default());
            for (ours, theirs) in ENDS {
                let socket = host.udp_bind(at(ours, 7)).unwrap();
                socket.set_timeout(Some(SECONDS));
                let kernel = UdpSocket::bind(at(theirs, 0)).unwrap();
                kernel.set_read_timeout(Some(SECONDS)).unwrap();
                // Longer than a packet too: fragments, both ways.
                for len in [0, 1, 100, 1452, 1473, 5000, 60_000] {
                    let message = pattern(5, len, len);
                    kernel.send_to(&message, at(ours, 7)).unwrap();
                    let mut out = vec![0; 65_536];
                    let got = socket.recv_from(&mut out).unwrap();
                    assert_eq!((got.len, got.from), (len, kernel.local_addr().unwrap()));
                    assert!(out[..len] == message, "{len} bytes differ");
                    socket.send_to(&message, got.from).unwrap();
                    let (n, from) = kernel.recv_from(&mut out).unwrap();
                    assert_eq!((n, from), (len, at(ours, 7)));
                    assert!(out[..len] == message, "{len} bytes differ");
                }
                let messages = pattern(7, 0, 10_000);
                let to = Some(kernel.local_addr().unwrap());
                assert_eq!(socket.send_batch(&messages, 100, to).unwrap(), 100);
                for i in 0..100 {
                    let mut out = [0; 200];
                    assert_eq!(kernel.recv_from(&mut out).unwrap().0, 100);
                    assert_eq!(out[..100], messages[i * 100..][..100]);
                }
                let nobody = host.udp_bind(at(ours, 0)).unwrap();
                nobody.set_timeout(Some(SECONDS));
                nobody.connect(at(theirs, 9)).unwrap();
                nobody.send(b"anybody?").unwrap();
                let error = nobody.recv_from(&mut [0; 10]).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
                kernel.connect(at(ours, 9)).unwrap();
                kernel.send(b"anybody?").unwrap();
                let error = kernel.recv(&mut [0; 10]).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            }
        }
    });
}

/// XDR that the kernel's sockets send is unmarshalled as it comes, and what we marshal is what they receive.
#[test]
fn values_to_and_from_the_kernels_sockets() {
    in_namespace("kernel::values_to_and_from_the_kernels_sockets", Need::Tap, "", || {
        for (offload, mtu) in [(true, 1500), (false, 1500), (false, 9000)] {
            let host = host(offload, mtu, HostConfig::default());
            for (ours, theirs) in ENDS {
                let socket = host.udp_bind(at(ours, 7)).unwrap();
                socket.set_timeout(Some(SECONDS));
                let kernel = UdpSocket::bind(at(theirs, 0)).unwrap();
                kernel.set_read_timeout(Some(SECONDS)).unwrap();
                let to = kernel.local_addr().unwrap();
                let listener = host.tcp_listen(at(ours, 80), 8).unwrap();
                let mut peer = TcpStream::connect(at(ours, 80)).unwrap();
                peer.set_read_timeout(Some(SECONDS)).unwrap();
                let (stream, _) = listener.accept_timeout(Some(SECONDS)).unwrap();
                stream.set_timeouts(Some(SECONDS), Some(SECONDS));
                // In one packet, in fragments and in many segments.
                for (seed, len) in (1..).zip([0, 40, 1000, 1400, 5000, 60_000]) {
                    let value = Reading::of(len, seed);
                    let bytes = value.bytes();
                    let mut marked = (1 << 31 | bytes.len() as u32).to_be_bytes().to_vec();
                    marked.extend(&bytes);
                    let mut found = None::<Reading>;

                    kernel.send_to(&bytes, at(ours, 7)).unwrap();
                    let mut placed = Placed::xdr(&mut found);
                    let got = socket.recv_message(&mut placed).unwrap();
                    assert_eq!((got.len, got.from), (bytes.len(), to));
                    placed.finish().unwrap();
                    assert_eq!(found.as_ref(), Some(&value), "datagram of {len}");
                    let message = Message::xdr(&value).unwrap();
                    socket.send_message(&message, Some(to)).unwrap();
                    let mut out = vec![0; 65_536];
                    let (n, from) = kernel.recv_from(&mut out).unwrap();
                    assert_eq!(from, at(ours, 7));
                    assert!(out[..n] == bytes, "datagram of {len}");

                    peer.write_all(&marked).unwrap();
                    let mut placed = Placed::xdr(&mut found);
                    let got = stream.recv_message(Framing::Marked, &mut placed).unwrap();
                    assert_eq!(got, Some(bytes.len()));
                    placed.finish().unwrap();
                    assert_eq!(found.as_ref(), Some(&value), "stream, {len}");
                    stream.send_message(Framing::Marked, &message).unwrap();
                    check(&mut peer, &marked);

                    // Through a pipeline, there and back: so many words.
                    let words = pattern(3, 0, len / 4 * 4);
                    peer.write_all(&words).unwrap();
                    let mut swapped = vec![0; words.len()];
                    let mut filled = 0;
                    while filled < words.len() {
                        let room = &mut swapped[filled..];
                        filled += stream.recv_with(&Swap::<4>, room).unwrap();
                    }
                    stream.send_with(&Swap::<4>, &swapped).unwrap();
                    check(&mut peer, &words);
                    assert!(
                        words
                            .chunks(4)
                            .zip(swapped.chunks(4))
                            .all(|(a, b)| a.iter().eq(b.iter().rev()))
                    );
                }
                drop(peer);
                let mut placed = None::<Reading>;
                let mut placed = Placed::xdr(&mut placed);
                assert_eq!(stream.recv_message(Framing::Marked, &mut placed).unwrap(), None);
            }
            let drops = host.snapshot().counters.drops;
            assert_eq!((drops.of(Cause::Checksum), drops.of(Cause::BadOffload)), (0, 0));
        }
    });
}

fn check(from: &mut impl Read, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    from.read_exact(&mut got).unwrap();
    assert!(got == bytes, "the stream differs");
}

#[test]
fn tcp_both_ways() {
    in_namespace("kernel::tcp_both_ways", Need::Tap, "", || {
        for (offload, mtu) in [(true, 1500), (false, 1500), (true, 9000), (true, 1280)] {
            let host = host(offload, mtu, HostConfig::default());
            for (ours, theirs) in ENDS {
                let bytes = pattern(11, 0, 8 << 20);
                let listener = host.tcp_listen(at(ours, 80), 8).unwrap();
                let kernel = TcpStream::connect(at(ours, 80)).unwrap();
                let (stream, from) = listener.accept_timeout(Some(SECONDS)).unwrap();
                assert_eq!(from, kernel.local_addr().unwrap());
                both(&stream, &kernel, &bytes);

                let listener = TcpListener::bind(at(theirs, 81)).unwrap();
                let stream = host.tcp_connect(at(theirs, 81)).unwrap();
                let (kernel, from) = listener.accept().unwrap();
                assert_eq!(from, stream.local_addr().unwrap());
                both(&stream, &kernel, &bytes);
                // Half close: our end first.
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!((&kernel).read(&mut [0]).unwrap(), 0);
                (&kernel).write_all(b"late").unwrap();
                check(&mut &stream, b"late");
                drop(kernel);
                assert_eq!(stream.recv(&mut [0]).unwrap(), 0);

                let refused = host.tcp_connect(at(theirs, 9)).err().unwrap();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
                let refused = TcpStream::connect(at(ours, 9)).unwrap_err();
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            }
            let snapshot = host.snapshot();
            assert_eq!(snapshot.counters.drops.of(Cause::Checksum), 0, "{snapshot:?}");
            assert_eq!(snapshot.counters.drops.of(Cause::BadOffload), 0, "{snapshot:?}");
        }
        let host = host(true, 1500, HostConfig::default());
        sh("ping -c 1 -W 5 10.78.0.2; ping -c 1 -W 5 -s 4000 fd78::2");
        drop(host);
    });
}

fn both(ours: &fusewire_stack::ip::TcpStream, kernel: &TcpStream, bytes: &[u8]) {
    ours.set_timeouts(Some(SECONDS), Some(SECONDS));
    kernel.set_read_timeout(Some(SECONDS)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| (&mut &*ours).write_all(bytes).unwrap());
        scope.spawn(|| (&mut &*kernel).write_all(bytes).unwrap());
        scope.spawn(|| check(&mut &*ours, bytes));
        scope.spawn(|| check(&mut &*kernel, bytes));
    });
    // On a busy machine the kernel's queues overflow now and then.
    let info = ours.info().unwrap();
    assert!(info.counters.timeouts < 5, "{info:?}");
}

/// Behind the kernel a network takes smaller packets, and the kernel as its router says so.
#[test]
fn a_router_says_what_is_too_big() {
    in_namespace("kernel::a_router_says_what_is_too_big", Need::Root, "", || {
        let host = host(true, 1500, HostConfig::default());
        let name = format!("fwip{}", std::process::id());
        // The far network: a namespace of its own, which goes with the last process in it.
        let far = std::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; read end; exec sh -c \"$end\""])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut far) = far else { return eprintln!("skipped: unshare cannot be run") };
        let mut out = std::io::BufReader::new(far.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let pid = far.id();
        sh(&format!(
            "ip link add {name}a mtu 1300 type veth peer name {name}b mtu 1500
             ip link set {name}b netns {pid}
             ip addr add 10.80.0.1/24 dev {name}a; ip addr add fd80::1/64 dev {name}a nodad
             ip link set {name}a up
             sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
             nsenter --net=/proc/{pid}/ns/net sh -ec '
                 ip link set lo up; ip link set {name}b up
                 ip addr add 10.80.0.2/24 dev {name}b; ip addr add fd80::2/64 dev {name}b nodad
                 ip route add default via 10.80.0.1 mtu 1300 advmss 1460
                 ip -6 route add default via fd80::1 mtu 1300 advmss 1440'"
        ));
        for (gateway, theirs) in [("10.78.0.1", "10.80.0.2"), ("fd78::1", "[fd80::2]")] {
            let any = if theirs.starts_with('[') { "::/0" } else { "0.0.0.0/0" };
            let route = fusewire_stack::ip::net::Route {
                destination: any.parse().unwrap(),
                gateway: Some(gateway.parse().unwrap()),
            };
            assert!(host.with(|stack, _| stack.add_route(route)).unwrap());
            let far = std::thread::scope(|scope| {
                let addr = at(theirs, 81);
                let listening = scope.spawn(move || {
                    let ns = std::fs::File::open(format!("/proc/{pid}/ns/net")).unwrap();
                    rustix::thread::move_into_link_name_space(
                        std::os::fd::AsFd::as_fd(&ns),
                        Some(rustix::thread::LinkNameSpaceType::Network),
                    )
                    .unwrap();
                    TcpListener::bind(addr).unwrap()
                });
                listening.join().unwrap()
            });
            let bytes = pattern(13, 0, 4 << 20);
            let stream = host.tcp_connect(at(theirs, 81)).unwrap();
            let (kernel, _) = far.accept().unwrap();
            both(&stream, &kernel, &bytes);
            let info = stream.info().unwrap();
            assert!(info.max_payload <= 1300 - 40, "{info:?}");
            // Told, not found out: that takes four timeouts.
            assert!(info.counters.timeouts < 3, "{info:?}");
        }
        // It ends when its input does.
        drop(far.stdin.take());
        far.wait().unwrap();
    });
}

/// Messages that are sent one by one leave together, and the last does not stay behind.
#[test]
fn messages_are_gathered_and_none_is_left() {
    let test = "kernel::messages_are_gathered_and_none_is_left";
    in_namespace(test, Need::Tap, "", || {
        // So long that also a slow sender is back in time.
        let config =
            HostConfig { udp_gather: Some(Duration::from_millis(20)), ..HostConfig::default() };
        let host = host(true, 1500, config);
        // One socket for both versions of IP.
        let socket = host.udp_bind(at("[::]", 7)).unwrap();
        for (_, theirs) in ENDS {
            let kernel = UdpSocket::bind(at(theirs, 0)).unwrap();
            kernel.set_read_timeout(Some(SECONDS)).unwrap();
            let to = kernel.local_addr().unwrap();
            socket.send_to(b"find the way", to).unwrap();
            kernel.recv_from(&mut [0; 100]).unwrap();
            let before = host.counters().sent;
            for round in 0..20u8 {
                for i in 0..100u8 {
                    socket.send_to(&[round, i], to).unwrap();
                }
                for i in 0..100 {
                    let mut out = [0; 100];
                    assert_eq!(kernel.recv_from(&mut out).unwrap().0, 2);
                    assert_eq!(out[..2], [round, i]);
                }
            }
            let sent = host.counters().sent - before;
            assert!(sent < 500, "{sent} packets for 2000 messages");
        }
    });
}

/// Bytes that stay with the application leave by every kind of interface, blocking and async, and come back to it.
#[test]
fn shared_bytes_leave_by_every_interface() {
    let setup = "ip link add fwa type veth peer name fwb; ip link set fwa up; ip link set fwb up; \
                 ip addr add 10.78.0.1/24 dev fwa";
    in_namespace("kernel::shared_bytes_leave_by_every_interface", Need::Root, setup, || {
        lends(&host_over(Packet::open(&packet::Config::new("fwb")).unwrap()));
        lends(&host_over(Xdp::open(&xdp::Config::new("fwb")).unwrap()));
        sh("ip link del fwa");
        for offload in [true, false] {
            lends(&host(offload, 1500, HostConfig::default()));
        }
    });
}

fn host_over(interface: impl Interface + 'static) -> Host {
    let addresses = vec!["10.78.0.2/24".parse::<Cidr>().unwrap()];
    let net = Stack::net_config(&interface);
    let net = fusewire_stack::ip::net::Config { addresses, duplicate_detection: false, ..net };
    Host::new(Box::new(interface), net, HostConfig::default()).unwrap()
}

fn lends(host: &Host) {
    let listener = TcpListener::bind(at("10.78.0.1", 0)).unwrap();
    let stream = host.tcp_connect(listener.local_addr().unwrap()).unwrap();
    stream.set_timeouts(Some(SECONDS), Some(SECONDS));
    let task = stream.into_async();
    let mut stream = task.as_ref();
    let (mut kernel, _) = listener.accept().unwrap();
    kernel.set_read_timeout(Some(SECONDS)).unwrap();
    let bytes = pattern(13, 0, 4 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    std::thread::scope(|scope| {
        let checked = scope.spawn(|| check(&mut kernel, &bytes));
        let lent = Bytes::from(bytes.clone());
        let (mut at, mut turn) = (0, 0);
        while at < lent.len() {
            turn += 1;
            let end = lent.len().min(at + turn * 7919 % 300_000);
            match turn % 3 {
                0 => stream.write_all(&bytes[at..end]).unwrap(),
                1 => stream.send_shared(lent.slice(at..end)).unwrap(),
                _ => runtime.block_on(task.send_shared(lent.slice(at..end))).unwrap(),
            }
            at = end;
        }
        checked.join().unwrap();
        let end = std::time::Instant::now() + SECONDS;
        while !lent.is_unique() {
            assert!(std::time::Instant::now() < end, "the bytes are never given back");
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    assert_eq!(host.counters().drops.of(Cause::Checksum), 0);
}

/// What the bridge knows of a group, when `is_so` of it, which must come to be.
fn snooped(group: &str, is_so: impl Fn(&str) -> bool) {
    let mut all = String::new();
    for _ in 0..100 {
        all = sh("bridge -d mdb show dev fwbr");
        let of = |line: &&str| line.contains(&format!("grp {group} ")) && !line.contains(" src ");
        if is_so(all.lines().find(of).unwrap_or_default()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{group}: {all}");
}

#[test]
fn a_bridge_that_snoops_learns_which_sources_are_wanted() {
    in_namespace(
        "kernel::a_bridge_that_snoops_learns_which_sources_are_wanted",
        Need::Tap,
        "",
        || {
            // A querier of the kernel's, of IGMPv3 and MLDv2, that asks at once about what is left.
            sh("ip link add fwbr type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version 3 \
            mcast_mld_version 2 mcast_last_member_interval 20
            ip link set fwbr up
            ip addr add 10.78.0.1/24 dev fwbr; ip addr add 10.78.0.3/24 dev fwbr
            ip addr add fd78::1/64 dev fwbr nodad; ip addr add fd78::3/64 dev fwbr nodad
            ip route add 232.0.0.0/8 dev fwbr");
            let tap = TapConfig { name: "fwip%d".into(), ..TapConfig::default() };
            let tap = Tap::open(&tap).unwrap();
            sh(&format!("ip link set {} master fwbr", tap.name()));
            let mut net = Stack::net_config(&tap as &dyn Interface);
            net.addresses =
                ["10.78.0.2/24", "fd78::2/64", "fe80::2/64"].map(|a| a.parse().unwrap()).into();
            net.duplicate_detection = false;
            let host = Host::new(Box::new(tap), net, HostConfig::default()).unwrap();
            for (group, one, other) in
                [("232.1.2.3", "10.78.0.1", "10.78.0.3"), ("ff35::77", "fd78::1", "fd78::3")]
            {
                let [to, from, not_from] =
                    [group, one, other].map(|a| a.parse::<IpAddr>().unwrap());
                let sockets = [(); 2].map(|()| host.udp_bind((to, 7).into()).unwrap());
                let [first, second] = &sockets;
                let names = |line: &str, one: &str| line.contains(&format!("{one}/"));
                first.change_membership(to, JoinSource(from)).unwrap();
                first.change_membership(to, JoinSource(not_from)).unwrap();
                let include = |line: &str| line.contains("filter_mode include");
                snooped(group, |line| include(line) && names(line, one) && names(line, other));
                // The bridge asks whether the other is wanted still, which nobody says.
                first.change_membership(to, LeaveSource(not_from)).unwrap();
                snooped(group, |line| include(line) && names(line, one) && !names(line, other));
                second.change_membership(to, Join).unwrap();
                second.change_membership(to, Block(from)).unwrap();
                snooped(group, |line| line.contains("filter_mode exclude") && !names(line, other));
                // The interface wants both; each socket hears its own.
                for socket in &sockets {
                    socket.set_timeout(Some(SECONDS));
                }
                for source in [other, one, other] {
                    let kernel = UdpSocket::bind((source.parse::<IpAddr>().unwrap(), 0)).unwrap();
                    kernel.send_to(source.as_bytes(), (to, 7)).unwrap();
                }
                let mut out = [0; 64];
                assert_eq!(first.recv_from(&mut out).unwrap().from.ip(), from);
                for _ in 0..2 {
                    assert_eq!(second.recv_from(&mut out).unwrap().from.ip(), not_from);
                }
                first.set_timeout(Some(Duration::from_millis(10)));
                assert!(first.recv_from(&mut out).is_err(), "what else?");
                first.change_membership(to, Leave).unwrap();
                snooped(group, |line| line.contains("filter_mode exclude") && names(line, one));
                drop(sockets);
                snooped(group, str::is_empty);
            }
        },
    );
}
