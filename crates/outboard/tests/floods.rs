//! A flood of SYNs from everywhere and of packets that make no sense, at an outboard: whoever is connected goes on, whoever
//! comes is let in, and the outboard keeps nothing for the rest.

mod tap;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use fusewire_base::Sum;
use fusewire_device::interface::flows::Flows;
use fusewire_device::interface::packet::{Config, Packet};
use fusewire_device::interface::{Interface, TxPacket};
use fusewire_outboard::client::{self, Client};
use fusewire_outboard::protocol::{Family, Kind, SocketType};
use fusewire_outboard::server::Processors;
use fusewire_testkit::Random;
use fusewire_testkit::namespace::{Need, in_namespace, sh};
use tap::{Setup, with_outboard};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const PORT: u16 = 9000;
/// Packets of the flood, and between two looks at who is connected.
const PACKETS: usize = 40_000;
const LOOK: usize = 1000;
const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;

/// A SYN from a stranger of this network; of four one is spoilt somewhere behind the Ethernet header.
fn flood(random: &mut Random, to: [u8; 6]) -> Vec<u8> {
    let mut frame = vec![0; ETHERNET + IP + TCP];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let source = Ipv4Addr::new(10, 9, 0, 16 + random.below(200) as u8);
    let (ip, tcp) = frame[ETHERNET..].split_at_mut(IP);
    ip[..10].copy_from_slice(&[0x45, 0, 0, (IP + TCP) as u8, 0, 0, 0, 0, 64, 6]);
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&OURS.octets());
    let sum = Sum::of(ip).checksum().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    tcp[..2].copy_from_slice(&(random.next_u64() as u16).to_be_bytes());
    tcp[2..4].copy_from_slice(&PORT.to_be_bytes());
    tcp[4..8].copy_from_slice(&(random.next_u64() as u32).to_be_bytes());
    tcp[12..16].copy_from_slice(&[0x50, 2, 0xff, 0xff]);
    let pseudo = [&ip[12..20], &[0, 6, 0, TCP as u8], &tcp[..]].concat();
    let sum = Sum::of(&pseudo).checksum().to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    if random.below(4) == 0 {
        for _ in 0..1 + random.below(8) {
            let at = ETHERNET + random.below((IP + TCP) as u64) as usize;
            frame[at] = random.next_u64() as u8;
        }
        frame.truncate(ETHERNET + 1 + random.below((IP + TCP) as u64) as usize);
    }
    frame
}

fn echoes(near: &mut UnixStream, far: &mut TcpStream) {
    let mut bytes = [0; 9];
    far.write_all(b"is heard").unwrap();
    near.read_exact(&mut bytes[..8]).unwrap();
    near.write_all(b"is echoed").unwrap();
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"is echoed");
}

#[test]
fn who_is_connected_goes_on_in_a_flood_and_who_comes_is_let_in() {
    let name = "who_is_connected_goes_on_in_a_flood_and_who_comes_is_let_in";
    goes_on(name, Setup::default());
}

#[test]
fn so_they_are_where_a_thread_of_its_own_receives() {
    let name = "so_they_are_where_a_thread_of_its_own_receives";
    let processors = Processors { receive: Some(0), ..Processors::default() };
    goes_on(name, Setup { processors, ..Setup::default() });
}

fn goes_on(test: &str, setup: Setup) {
    in_namespace(test, Need::Tap, "", || {
        with_outboard(setup, |path| {
            let client = Client::new(path).unwrap();
            let (listener, handle) =
                client.socket(SocketType { family: Family::V4, kind: Kind::Stream }).unwrap();
            client.bind(handle, (OURS, PORT).into()).unwrap();
            client.listen(handle, 16).unwrap();
            let connected = || {
                let far = TcpStream::connect((OURS, PORT)).unwrap();
                (UnixStream::from(client::accept(listener.as_fd(), true).unwrap().p), far)
            };
            let (mut near, mut far) = connected();
            echoes(&mut near, &mut far);
            // The kernel knows by now where the outboard is.
            let neighbour = sh("ip neigh show 10.9.0.2 dev fw0");
            let mac = neighbour.split_whitespace().find(|word| word.len() == 17).unwrap();
            let mac: Vec<u8> =
                mac.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            let mac = mac.try_into().unwrap();
            let config = Config {
                flows: Flows::default(),
                ring_bytes: 1 << 16,
                super_frames: false,
                ..Config::new("fw0")
            };
            let (mut stranger, mut random) = (Packet::open(&config).unwrap(), Random::new(7));
            let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            let before = descriptors();
            let mut sent = 0;
            while sent < PACKETS {
                let frames: Vec<_> = (0..50).map(|_| flood(&mut random, mac)).collect();
                let packets: Vec<_> = frames
                    .iter()
                    .map(|frame| TxPacket { header: frame, ..TxPacket::default() })
                    .collect();
                stranger.transmit(&packets).unwrap();
                sent += packets.len();
                if sent.is_multiple_of(LOOK) {
                    echoes(&mut near, &mut far);
                }
            }
            // Half-open ones have no placeholder, and no descriptor.
            assert_eq!(descriptors(), before);
            for _ in 0..20 {
                let (mut near, mut far) = connected();
                echoes(&mut near, &mut far);
            }
            echoes(&mut near, &mut far);
        });
    });
}
