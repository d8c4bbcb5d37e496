//! XDR in the receive loop: arrays of numbers in the application's memory, and nothing before it is verified.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

use fusewire_base::{Instant, Sum};
use fusewire_device::interface::memory::{Config as Pair, Memory, pair};
use fusewire_device::interface::{Checksum, Interface, Link, Segmentation, TxPacket};
use fusewire_stack::Cause;
use fusewire_stack::ip::net::{Cidr, Config as NetConfig};
use fusewire_stack::ip::{Array, Config, SocketId, Stack};
use fusewire_wire::{ipv4, udp};

use crate::net::{Net, kinds};

const OURS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const VARIABLE: Array = Array::Variable { max: 1000 };

fn doubles(numbers: &[f64]) -> Vec<u8> {
    let count = (numbers.len() as u32).to_be_bytes();
    count.into_iter().chain(numbers.iter().flat_map(|n| n.to_be_bytes())).collect()
}

#[test]
fn arrays_of_all_kinds_arrive_as_numbers() {
    for kind in kinds() {
        let mut net = Net::new(kind, 1500, Config::default());
        let (from, to) = (net.addr(0, 7), net.addr(1, 9));
        let a = net.stacks[0].udp_bind(from).unwrap();
        let b = net.stacks[1].udp_bind(to).unwrap();
        for len in [0usize, 1, 2, 7, 63, 181] {
            let numbers: Vec<f64> = (0..len).map(|i| i as f64 * -0.37).collect();
            let words: Vec<i32> = (0..len as i32).map(|i| i * -77_777).collect();
            net.stacks[0].udp_send(net.now, a, &doubles(&numbers), Some(to)).unwrap().unwrap();
            let mut got = Vec::new();
            let mut memory = [0.0; 200];
            // The neighbour may have to be asked first.
            for _ in 0..10 {
                let told = |who, range: Option<Range<usize>>| got.push((who, range.unwrap()));
                let stack = &mut net.stacks[1];
                stack.udp_recv_numbers(net.now, b, VARIABLE, &mut memory, told).unwrap().unwrap();
                if !got.is_empty() {
                    break;
                }
                net.settle();
            }
            assert_eq!((got, &memory[..len]), (vec![(from, 0..len)], &numbers[..]));
            if len == 0 {
                continue;
            }
            // Fixed arrays, two messages of one call, through the queue.
            let bytes: Vec<u8> = words.iter().chain(&words).flat_map(|n| n.to_be_bytes()).collect();
            let stack = &mut net.stacks[0];
            stack.udp_send_batch(net.now, a, &bytes, len * 4, Some(to)).unwrap().unwrap();
            net.settle();
            let mut memory = vec![0i32; len + len / 2];
            for _ in 0..2 {
                let mut got = Vec::new();
                let told = |who, range: Option<Range<usize>>| got.push((who, range.unwrap()));
                let stack = &mut net.stacks[1];
                let filled = stack.udp_recv_numbers(net.now, b, Array::Fixed, &mut memory, told);
                assert_eq!(filled.unwrap().unwrap(), len, "there is room for one");
                assert_eq!((got, &memory[..len]), (vec![(from, 0..len)], &words[..]));
            }
        }
    }
}

/// A stack, its socket, and the other end of its cable.
fn alone() -> (Stack, SocketId, Memory) {
    let (ours, theirs) = pair(Pair { link: Link::Ip, ..Pair::default() }).unwrap();
    let addresses = vec![Cidr::new(IpAddr::V4(OURS), 24).unwrap()];
    let net = NetConfig { addresses, duplicate_detection: false, ..Stack::net_config(&ours) };
    let mut stack =
        Stack::new(Box::new(ours), net, Config::default(), [1; 32], Instant::from_ms(1));
    let id = stack.udp_bind(SocketAddr::new(IpAddr::V4(OURS), 9)).unwrap();
    (stack, id, theirs)
}

/// A packet whose checksum is to be verified; `off` makes it wrong.
fn deliver(cable: &mut Memory, message: &[u8], off: u16) {
    let len = udp::HEADER_LEN + message.len();
    let mut bytes = vec![0; ipv4::MIN_HEADER_LEN + len];
    let ip = ipv4::Header {
        tos: 0,
        total_len: bytes.len() as u16,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 9,
        protocol: udp::NUMBER,
        source: THEIRS,
        destination: OURS,
        header_len: 0,
    };
    let at = ip.emit(&mut bytes);
    bytes[at + udp::HEADER_LEN..].copy_from_slice(message);
    let mut header = udp::Header { src_port: 7, dst_port: 9, len: len as u16, checksum: 0 };
    header.emit(&mut bytes[at..]);
    let pseudo = ipv4::pseudo_header_sum(THEIRS, OURS, udp::NUMBER, len as u16);
    header.checksum = (pseudo + Sum::of(&bytes[at..])).checksum() ^ off;
    header.emit(&mut bytes[at..]);
    let packet = TxPacket {
        header: &bytes,
        payload: &[],
        checksum: Checksum::InPlace,
        segmentation: Segmentation::None,
    };
    assert_eq!(cable.transmit(&[packet]).unwrap(), 1);
}

#[test]
fn nothing_is_shown_before_the_checksum_holds() {
    let (mut stack, id, mut cable) = alone();
    let now = Instant::from_ms(2);
    let numbers = [1.5, -2.25, 1e300];
    let mut memory = [0.0; 8];
    for off in [1, 0x8000] {
        deliver(&mut cable, &doubles(&numbers), off);
        let told = |_, _| panic!("it was told of what is wrong");
        let filled = stack.udp_recv_numbers(now, id, VARIABLE, &mut memory, told);
        assert_eq!((filled.unwrap().unwrap(), memory), (0, [0.0; 8]));
    }
    assert_eq!(stack.counters().drops.of(Cause::Checksum), 2);
    deliver(&mut cable, &doubles(&numbers), 0);
    let mut told = Vec::new();
    let filled = stack.udp_recv_numbers(now, id, VARIABLE, &mut memory, |_, r| told.push(r));
    assert_eq!((filled.unwrap().unwrap(), told), (3, vec![Some(0..3)]));
    assert_eq!(memory[..3], numbers);
}

#[test]
fn what_is_no_such_array_is_told_and_not_stored() {
    let (mut stack, id, mut cable) = alone();
    let now = Instant::from_ms(2);
    let nine = doubles(&[1.0; 9]);
    let mut lies = doubles(&[1.0; 2]);
    lies[3] = 3;
    let mut huge = doubles(&[1.0; 2]);
    huge[..4].fill(0xff);
    let cases: [&[u8]; 6] = [&[], &[0, 0, 0], &[0, 0, 0, 1], &lies, &huge, &nine];
    for message in cases {
        deliver(&mut cable, message, 0);
        let mut memory = [0.0; 8];
        let mut told = Vec::new();
        let array = Array::Variable { max: u32::MAX };
        let filled = stack.udp_recv_numbers(now, id, array, &mut memory, |_, r| told.push(r));
        assert_eq!((filled.unwrap().unwrap(), told), (0, vec![None]), "{message:?}");
        assert_eq!(memory, [0.0; 8]);
    }
    deliver(&mut cable, &doubles(&[1.0; 3]), 0);
    let mut told = Vec::new();
    let array = Array::Variable { max: 2 };
    let filled = stack.udp_recv_numbers(now, id, array, &mut [0.0; 8], |_, r| told.push(r));
    assert_eq!((filled.unwrap().unwrap(), told), (0, vec![None]), "more than the type allows");
}
