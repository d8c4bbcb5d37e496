//! UDP: every size that goes whole or in fragments, and a question as a resolver asks it.

use std::net::UdpSocket;

use fusewire_stack::ip::SocketId;

use crate::lan::{Lan, Link, PATIENCE, at, can_run, content, kernel, ours};

/// Sends back what comes.
fn echo(lan: &mut Lan, id: SocketId, buffer: &mut [u8]) {
    while let Some(received) = lan.stack.udp_recv(id, buffer).unwrap() {
        let now = lan.clock.now();
        let sent = lan.stack.udp_send(now, id, &buffer[..received.len], Some(received.from));
        assert!(sent.unwrap().unwrap(), "{} bytes", received.len);
    }
}

#[test]
fn datagrams_of_every_kind_of_size_come_back() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    for mtu in [1280, 1500, 9000] {
        let mut lan = Lan::new(Link { mtu, offload: false });
        let capture = lan.capture();
        for v6 in [false, true] {
            let address = at(ours(v6), 7);
            let id = lan.stack.udp_bind(address).unwrap();
            let from = at(kernel(v6), 0);
            let mut buffer = vec![0; 1 << 16];
            let sizes = [0, 1, 100, 1200, 1472, 1473, 2000, 4000, 10_000, 30_001, 65_000];
            lan.against(
                "echo of datagrams",
                move || {
                    let socket = UdpSocket::bind(from).unwrap();
                    socket.set_read_timeout(Some(PATIENCE)).unwrap();
                    socket.connect(address).unwrap();
                    let mut back = vec![0; 1 << 16];
                    for size in sizes {
                        socket.send(&content(size)).unwrap();
                        let len = socket.recv(&mut back).unwrap();
                        assert_eq!((len, &back[..len]), (size, &content(size)[..]));
                    }
                },
                |lan| echo(lan, id, &mut buffer),
            );
        }
        capture.check(22);
    }
}

/// Asks for an address as `dig` does, and is answered from a zone of one name.
#[test]
fn a_question_to_a_name_server_is_answered() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let address = at(ours(v6), 53);
        let id = lan.stack.udp_bind(address).unwrap();
        let from = at(kernel(v6), 0);
        let mut buffer = vec![0; 512];
        let answer = lan.against(
            "a question",
            move || {
                let socket = UdpSocket::bind(from).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.send_to(&question(0x4657), address).unwrap();
                let mut answer = vec![0; 512];
                let (len, who) = socket.recv_from(&mut answer).unwrap();
                assert_eq!(who, address);
                answer.truncate(len);
                answer
            },
            |lan| {
                if let Some(received) = lan.stack.udp_recv(id, &mut buffer).unwrap() {
                    let answer = answer_to(&buffer[..received.len]);
                    let now = lan.clock.now();
                    let sent = lan.stack.udp_send(now, id, &answer, Some(received.from));
                    assert!(sent.unwrap().unwrap());
                }
            },
        );
        assert_eq!(answer, answer_to(&question(0x4657)));
        assert!(answer.ends_with(&[192, 0, 2, 53]));
    }
    capture.check(2);
}

/// `fusewire.test IN A`, recursion desired (RFC 1035, section 4).
fn question(id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(b"\x08fusewire\x04test\0");
    bytes.extend([0, 1, 0, 1]);
    bytes
}

fn answer_to(question: &[u8]) -> Vec<u8> {
    let mut bytes = question.to_vec();
    // Authoritative answer; one record.
    bytes[2..4].copy_from_slice(&[0x85, 0]);
    bytes[7] = 1;
    // The name of the question, A, IN, 60 seconds, 4 bytes.
    bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 53]);
    bytes
}

/// A closed port is told: the kernel's socket has the error at once.
#[test]
fn nobodys_port_is_refused() {
    if !can_run(&["tshark", "dumpcap"]) {
        return;
    }
    let mut lan = Lan::new(Link::default());
    let capture = lan.capture();
    for v6 in [false, true] {
        let address = at(ours(v6), 9);
        let from = at(kernel(v6), 0);
        let kinds = lan.against(
            "closed ports",
            move || {
                let socket = UdpSocket::bind(from).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                socket.connect(address).unwrap();
                socket.send(b"?").unwrap();
                let udp = socket.recv(&mut [0; 8]).unwrap_err().kind();
                let tcp = std::net::TcpStream::connect(address).unwrap_err().kind();
                [udp, tcp]
            },
            |_| {},
        );
        assert_eq!(kinds, [std::io::ErrorKind::ConnectionRefused; 2], "v6: {v6}");
    }
    capture.check(4);
}
