//! Where UDP is blocked: what is tried, what is taken, and what is said.

mod support;

use std::fs;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use support::World;

/// A place that swallows UDP, and from which TCP leads to `server`; its address.
fn swallow(server: &str) -> (UdpSocket, String) {
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()) {
            break (udp, tcp);
        }
    };
    let (address, server) = (udp.local_addr().unwrap().to_string(), server.to_string());
    std::thread::spawn(move || {
        for near in tcp.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(&server) else { break };
            for (mut from, mut to) in
                [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    (udp, address)
}

#[test]
fn unless_udp_is_asked_for_kernel_tcp_does_and_it_is_said() {
    for device in [&[][..], &["--device", "auto"]] {
        goes_on_over_kernel_tcp(device);
    }
}

fn goes_on_over_kernel_tcp(device: &[&str]) {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&[]);
    let (_udp, address) = swallow(&server.address);
    let url = format!("fusewire://{address}/a");
    let began = Instant::now();
    // More than one connection: what was found out once is not tried again.
    let args = [&["get", "-v", "-j", "3", &url, "-o", "b"], device].concat();
    let done = world.run("alice", &args).ok();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}: {done:?}", began.elapsed());
    assert_eq!(done.err.matches("over UDP; going on over kernel TCP").count(), 1, "{done:?}");
    assert!(done.err.contains("over kernel-tcp: there was no answer over UDP"), "{done:?}");
    assert_eq!(fs::read_to_string(world.here("b")).unwrap(), "content");
}

#[test]
fn quiet_prints_nothing_but_errors() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    let server = world.serve(&[]);
    let (_udp, address) = swallow(&server.address);
    let done = world.run("alice", &["get", "-q", &format!("fusewire://{address}/a")]).ok();
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
}

#[test]
fn a_transport_that_the_server_does_not_use_is_reported_within_a_second() {
    let world = World::new();
    fs::write(world.served("a"), "content").unwrap();
    for (served, asked) in [("tcp", "xtp"), ("xtp", "tcp")] {
        let server = world.serve(&["--transport", served]);
        let url = server.url("a");
        let [serves, asks] = [served, asked].map(str::to_uppercase);
        let done = world.run("alice", &["get", "--transport", asked, &url, "-o", asked]).ok();
        let said =
            format!("uses {serves} over UDP, and not {asks} (--transport {served}); going on");
        assert!(done.err.contains(&said), "{done:?}");
        let began = Instant::now();
        let args = ["get", "--transport", asked, "--device", "udp", &url, "-o", "no"];
        let said = format!("uses the transport {served}, and this side {asked}");
        let done = world.run("alice", &args).failed(4, &said);
        assert!(done.err.contains(&format!("(--transport {served})")), "{done:?}");
        // An unanswered handshake takes ten seconds.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}: {done:?}", began.elapsed());
        assert_eq!(fs::read_to_string(world.here(asked)).unwrap(), "content");
    }
}

#[test]
fn udp_alone_names_the_others() {
    let world = World::new();
    let server = world.serve(&[]);
    let (_udp, address) = swallow(&server.address);
    let url = format!("fusewire://{address}/a");
    let done = world.run("alice", &["get", "--connect-timeout", "1", "--device", "udp", &url]);
    done.failed(4, "--device kernel-tcp");
}
