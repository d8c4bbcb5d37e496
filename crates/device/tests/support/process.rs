//! Another process with an interface of its own: the test's own program, started for one test that is ignored
//! otherwise.

use std::io::{BufRead, BufReader, IoSlice, Read};
use std::net::SocketAddrV4;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use etherparse::{NetSlice, TransportSlice};
use fusewire_device::interface::Interface;

use super::{ETHERNET, Flow, slice, whole};

const WHAT: &str = "FUSEWIRE_TEST_PROCESS";

/// Starts the test `another_process` in a process of its own, with two words, and waits until it is ready. Its
/// harness fails when nobody reads what it prints to the end.
pub fn spawn(first: impl ToString, second: impl ToString) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process", "--ignored", "--nocapture"])
        .env(WHAT, format!("{} {}", first.to_string(), second.to_string()))
        .env_remove("FUSEWIRE_TEST_NAMESPACE")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert!(out.by_ref().lines().any(|line| line.is_ok_and(|line| line.ends_with("ready"))));
    (child, out)
}

/// The two words, where this process was started so.
pub fn words() -> Option<(String, String)> {
    let what = std::env::var(WHAT).ok()?;
    what.split_once(' ').map(|(first, second)| (first.to_string(), second.to_string()))
}

/// Says that it is ready, and what it hears of which port; sends datagrams to `port` back until one says "stop".
pub fn echo(interface: &mut dyn Interface, port: u16) {
    println!("ready");
    let mut heard_at = Instant::now();
    loop {
        let count = interface.receive().unwrap();
        let all: Vec<_> =
            (0..count).filter_map(|i| answer(interface.packet(i).bytes, port)).collect();
        for (flow, payload) in all {
            println!("heard {} {}", flow.to.port(), String::from_utf8_lossy(&payload));
            let (header, pieces) = (flow.udp(&payload), [IoSlice::new(&payload)]);
            assert_eq!(interface.transmit(&[whole(&header, &pieces)]).unwrap(), 1);
            if payload == b"stop" {
                return;
            }
            heard_at = Instant::now();
        }
        if count == 0 {
            assert!(heard_at.elapsed() < Duration::from_secs(30), "nothing comes");
            interface.wait(Some(Duration::from_millis(100)), false).unwrap();
        }
    }
}

/// The way back of a datagram to `port`, and its bytes; nothing else of UDP comes.
fn answer(packet: &[u8], port: u16) -> Option<(Flow, Vec<u8>)> {
    let found = slice(ETHERNET, packet)?;
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Udp(udp))) = (found.net, found.transport)
    else {
        return None;
    };
    assert_eq!(udp.destination_port(), port, "nothing but our flows");
    let ip = ip.header();
    let macs = packet[..12].as_chunks::<6>().0;
    let flow = Flow {
        from: SocketAddrV4::new(ip.destination_addr(), port),
        to: SocketAddrV4::new(ip.source_addr(), udp.source_port()),
        macs: Some((macs[0], macs[1])),
    };
    Some((flow, udp.payload().to_vec()))
}
