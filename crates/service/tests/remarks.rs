//! What the network remarks about the path of an end's datagrams ends nothing: an ICMP message can be forged by whoever knows the addresses.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use fusewire_service::datagram::Event;
use fusewire_service::datagram::udp::Udp;
use fusewire_service::profile::{Adu, Machine, Profile};
use fusewire_session::keys::TrafficSecret;
use fusewire_session::record::{NumberedReceiver, NumberedSender, RecordParams};
use fusewire_session::{Cipher, DataPass, Datagrams, Swap};
use fusewire_testkit::namespace::{Need, in_namespace};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};

struct One;

impl Profile for One {
    const NAME: &'static str = "tested";
    const MACHINE: Machine = Machine::Datagram;
    const SENDS: &'static [Adu] = &[Adu::as_it_comes("plain", 200)];
    const TAKES: &'static [Adu] = Self::SENDS;
    const RATES: (u64, u64) = (8_000_000, 8_000_000);
}

/// Two ends, and where their sockets are.
fn ends() -> ([Udp<One>; 2], [SocketAddr; 2]) {
    let like = || RecordParams::new(Cipher::AES_128_GCM, Swap::None, 1 << 16, DataPass::detect());
    let secret = |byte| TrafficSecret::from_bytes([byte; 32]);
    let sockets = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let addresses = [0, 1].map(|at| sockets[at].local_addr().unwrap());
    let mut peers = addresses.iter().rev();
    let mut keys = [(1, 2), (2, 1)].into_iter();
    let ends = sockets.map(|socket| {
        let (own, peer) = keys.next().unwrap();
        let datagrams = Datagrams {
            id: 7,
            sender: NumberedSender::new(like(), secret(own)).unwrap(),
            receiver: NumberedReceiver::new(like(), secret(peer)).unwrap(),
        };
        Udp::new(socket, *peers.next().unwrap(), datagrams).unwrap()
    });
    (ends, addresses)
}

/// An ICMP message that quotes a datagram from one of these to the other.
fn icmp(kind: u8, code: u8, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 2, 0];
    bytes.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    bytes.extend([Ipv4Addr::LOCALHOST; 2].into_iter().flat_map(|ip| ip.octets()));
    bytes.extend([from, to].into_iter().flat_map(|address| address.port().to_be_bytes()));
    bytes.extend([0, 8, 0, 0]);
    let sum: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn forged_messages_end_nothing() {
    let ([mut near, mut far], [own, peer]) = ends();
    let raw: OwnedFd = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).unwrap();
    // Every reason not to arrive, needs of fragments among them; time exceeded; a bad parameter.
    let all = (0..16).map(|code| (3, code)).chain([(11, 0), (12, 0)]);
    for (n, (kind, code)) in all.enumerate() {
        let forged = icmp(kind, code, own, peer);
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Before it waits, and before it sends.
        for adus in [0, 1] {
            sendto(&raw, &forged, SendFlags::empty(), &to).unwrap();
            for _ in 0..adus {
                let now = near.now();
                near.end().push(now, 0, b"adu").unwrap();
            }
            let until = near.now() + Duration::from_millis(5);
            near.drive(until).unwrap_or_else(|error| panic!("type {kind}, code {code}: {error}"));
        }
        let mut came = 0;
        for _ in 0..1000 {
            let until = far.now() + Duration::from_millis(5);
            far.drive(until).unwrap();
            let now = far.now();
            while let Some(event) = far.end().poll_event(now) {
                assert!(
                    matches!(event, Event::Adu { number, .. } if number == n as u64),
                    "{event:?}"
                );
                came += 1;
            }
            if came > 0 {
                break;
            }
        }
        assert_eq!(came, 1, "type {kind}, code {code}");
    }
}

#[test]
fn what_icmp_says_ends_nothing() {
    in_namespace("what_icmp_says_ends_nothing", Need::Namespace, "", forged_messages_end_nothing);
}
