//! Against the kernel, over TAP, in a network namespace.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use fusewire_device::interface::Interface;
use fusewire_device::interface::tap::{Config as TapConfig, Tap};
use fusewire_stack::ip::net::Cidr;
use fusewire_stack::ip::{Host, HostConfig, Stack};
use fusewire_testkit::namespace::{Need, in_namespace, sh};

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
    in_namespace("kernel::udp_both_ways", Need::Namespace, "", || {
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

fn check(from: &mut impl Read, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    from.read_exact(&mut got).unwrap();
    assert!(got == bytes, "the stream differs");
}

#[test]
fn tcp_both_ways() {
    in_namespace("kernel::tcp_both_ways", Need::Namespace, "", || {
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
            assert_eq!(snapshot.counters.checksum, 0, "{snapshot:?}");
            assert_eq!(snapshot.counters.bad_offload, 0, "{snapshot:?}");
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
