//! The kernel's TCP with each of its options off and on, and MTUs from the least to jumbo frames.

use std::io::{Read, Write};
use std::net::TcpStream;

use fusewire_lab::namespace::Namespace;
use fusewire_stack::ip::Config;

use crate::lan::{Lan, Link, PATIENCE, at, can_run, content, ours};
use crate::services::{Echo, Server};

const BYTES: usize = 1 << 20;

/// Sends the content to our echo and compares what comes back.
fn echoes(lan: &mut Lan, v6: bool) {
    let address = at(ours(v6), 7);
    let mut server = Server::new(&mut lan.stack, address, |_| Echo);
    let received = lan.against(
        "echo",
        move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut writer = stream.try_clone().unwrap();
            let write = std::thread::spawn(move || {
                writer.write_all(&content(BYTES)).unwrap();
                writer.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            write.join().unwrap();
            received
        },
        |lan| server.step(lan),
    );
    assert_eq!(received.len(), BYTES, "v6: {v6}");
    assert_eq!(blake3::hash(&received), blake3::hash(&content(BYTES)), "v6: {v6}");
}

fn with(settings: &[(&str, &str)], link: Link, config: &Config) {
    let namespace = Namespace::new().unwrap();
    for (name, value) in settings {
        namespace.sysctl(name, value).unwrap();
    }
    let mut lan = Lan::in_namespace(namespace, link, config.clone());
    let capture = (!link.offload).then(|| lan.capture());
    for v6 in [false, true].into_iter().filter(|v6| !v6 || link.mtu >= 1280) {
        echoes(&mut lan, v6);
    }
    if let Some(capture) = capture {
        capture.check(BYTES / link.mtu);
    }
}

#[test]
fn each_option_of_the_kernel_off_and_on() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    for name in ["tcp_sack", "tcp_timestamps", "tcp_window_scaling", "tcp_ecn"] {
        for value in ["0", "1"] {
            let name = format!("ipv4/{name}");
            println!("{name} {value}");
            with(&[(&name, value)], Link::default(), &Config::default());
        }
    }
    let none = ["ipv4/tcp_sack", "ipv4/tcp_timestamps", "ipv4/tcp_window_scaling", "ipv4/tcp_ecn"];
    with(&none.map(|name| (name, "0")), Link::default(), &Config::default());
}

#[test]
fn each_option_of_ours_off_and_on() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    let ordinary = Config::default();
    for which in ["sack", "timestamps", "window scaling", "ecn"] {
        for on in [false, true] {
            let mut config = ordinary.clone();
            match which {
                "sack" => config.tcp.sack = on,
                "timestamps" => config.tcp.timestamps = on,
                "window scaling" => config.tcp.window_scaling = on,
                _ => config.tcp.ecn = on,
            }
            println!("{which} {on}");
            with(&[("ipv4/tcp_ecn", "1")], Link::default(), &config);
        }
    }
}

#[test]
fn mtus_from_the_least_to_jumbo_frames() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    for mtu in [576, 1280, 1500, 9000] {
        println!("MTU {mtu}");
        with(&[], Link { mtu, offload: false }, &Config::default());
    }
}

#[test]
fn super_frames_both_ways() {
    if !can_run(&[]) {
        return;
    }
    for mtu in [576, 1500, 9000] {
        with(&[], Link { mtu, offload: true }, &Config::default());
    }
}
