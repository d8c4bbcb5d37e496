//! Captures: whatever TPDUs pass a device, to and from whomever, the file is a sequence of whole blocks, in
//! which every TPDU stands as it was, behind headers that parse. A disk that is full ends it between blocks
//! or within one, and never the device.
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use fusewire_device::Ecn;
use fusewire_device::capture::{Direction, Writer};
use fusewire_wire::{ethernet, ipv6};

use crate::Choices;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9);
const FRAMES_MAX: usize = 64;
const TCP: u8 = 6;

/// A disk with so much room.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..len]);
        if len == 0 && !bytes.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What was written, to compare.
struct Written {
    time: Duration,
    direction: Direction,
    peer: SocketAddr,
    ecn: Ecn,
    tpdu: Vec<u8>,
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut choices = Choices::new(data);
    let room = match choices.u8() {
        255 => usize::from(choices.u16()),
        _ => usize::MAX,
    };
    let mut disk = Disk { bytes: Vec::new(), room };
    let mut written = Vec::new();
    let mut failed = true;
    if let Ok(mut writer) = Writer::new(&mut disk, "fuzz", LOCAL, 6) {
        failed = false;
        while !choices.is_empty() && written.len() < FRAMES_MAX && !failed {
            let frame = frame(&mut choices);
            let cut = usize::from(choices.u8()).min(frame.tpdu.len());
            let (header, payload) = frame.tpdu.split_at(cut);
            let (time, direction) = (frame.time, frame.direction);
            match writer.write(time, direction, frame.peer, frame.ecn, [header, payload]) {
                Ok(()) => written.push(frame),
                Err(_) => failed = true,
            }
        }
    }
    assert!(!failed || disk.bytes.len() == room, "it failed with room left");
    check(&disk.bytes, &written, failed);
}

fn frame(choices: &mut Choices<'_>) -> Written {
    let form = choices.u8();
    let port = choices.u16();
    let peer = match form & 3 {
        0 => LOCAL,
        1 => (Ipv4Addr::from(choices.u32()), port).into(),
        2 => (Ipv6Addr::from(u128::from(choices.u32()) << 96 | 1), port).into(),
        _ => (Ipv4Addr::LOCALHOST, port % 4).into(),
    };
    let seconds = if form & 4 == 0 { u64::from(choices.u16()) } else { u64::MAX };
    let direction = if form & 8 == 0 { Direction::In } else { Direction::Out };
    let len = usize::from(choices.u8());
    let mut tpdu = choices.bytes(len).to_vec();
    // Super-packets, up to jumbograms.
    if form & 0x80 != 0 {
        tpdu.resize(tpdu.len() + 4 * usize::from(choices.u16()), form);
    }
    Written {
        time: Duration::new(seconds, u32::from(form)),
        direction,
        peer,
        ecn: Ecn::from_tos(form >> 4),
        tpdu,
    }
}

/// The block at the front of `bytes`: kind, body, and what follows; `None` where it is cut short.
fn block(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (kind, len) = (word(bytes, 0)?, word(bytes, 4)? as usize);
    assert!(len >= 12 && len.is_multiple_of(4), "a block of {len} bytes");
    let (block, rest) = (bytes.get(..len)?, &bytes[len..]);
    assert_eq!(word(block, len - 4), Some(len as u32), "the length behind a block");
    Some((kind, &block[8..len - 4], rest))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let (word, _) = bytes.get(at..)?.split_first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

/// Reads it all back.
fn check(file: &[u8], written: &[Written], failed: bool) {
    let (mut rest, mut frames) = (file, written.iter());
    let mut names: HashMap<[u8; 16], String> = HashMap::new();
    let mut blocks = 0;
    while let Some((kind, body, after)) = block(rest) {
        match (blocks, kind) {
            (0, 0x0a0d_0d0a) => assert_eq!(word(body, 0), Some(0x1a2b_3c4d)),
            (1, 1) => assert_eq!(word(body, 0), Some(1), "Ethernet"),
            (2.., 4) => {
                let (address, name) = name(body);
                assert!(names.insert(address, name).is_none(), "two names for one");
            }
            (2.., 6) => match frames.next() {
                Some(frame) => packet(body, frame, &names),
                // A failed write may have written all but the end of what it tells.
                None => assert!(failed, "a frame that was not written"),
            },
            _ => panic!("a block of kind {kind:#x} at place {blocks}"),
        }
        (rest, blocks) = (after, blocks + 1);
    }
    assert!(frames.next().is_none(), "a frame is missing");
    assert!(failed || rest.is_empty() && blocks >= 3, "{} bytes behind all blocks", rest.len());
}

/// The one name in a name resolution block.
fn name(body: &[u8]) -> ([u8; 16], String) {
    let [kind, len] = [0, 2].map(|at| usize::from(body[at]) | usize::from(body[at + 1]) << 8);
    assert_eq!(kind, 2, "a name of an IPv6 address");
    let (address, name) = body[4..4 + len].split_first_chunk().expect("an address");
    let (nul, name) = name.split_last().expect("its end");
    let end = 4 + len.next_multiple_of(4);
    assert!(*nul == 0 && body[end..] == [0; 4], "what ends a name");
    (*address, String::from_utf8(name.to_vec()).expect("an address in letters"))
}

fn packet(body: &[u8], frame: &Written, names: &HashMap<[u8; 16], String>) {
    let words: Vec<_> = (0..5).map(|i| word(body, 4 * i).expect("a header")).collect();
    let nanos = u64::try_from(frame.time.as_nanos()).unwrap_or(u64::MAX);
    assert_eq!(u64::from(words[1]) << 32 | u64::from(words[2]), nanos);
    assert!(words[0] == 0 && words[3] == words[4]);
    let len = words[3] as usize;
    let (bytes, options) = (&body[20..20 + len], &body[20 + len.next_multiple_of(4)..]);
    assert_eq!(options[..4], [2, 0, 4, 0]);
    assert_eq!(word(options, 4), Some(frame.direction as u32));
    assert_eq!(options[8..], [0; 4]);
    let ethernet = ethernet::Header::parse(bytes).expect("an Ethernet header");
    assert_eq!(ethernet.ethertype, ethernet::EtherType::IPV6);
    let datagram = &bytes[usize::from(ethernet.header_len)..];
    let header = ipv6::Header::parse(datagram).expect("an IPv6 header");
    let upper = ipv6::upper_layer(header.next_header, &datagram[ipv6::HEADER_LEN..]);
    let upper = upper.expect("it ends in TCP");
    assert_eq!((upper.protocol, header.traffic_class & 3), (TCP, frame.ecn as u8));
    assert_eq!(datagram[ipv6::HEADER_LEN + upper.offset..], frame.tpdu);
    let (own, other) = match frame.direction {
        Direction::In => (header.destination, header.source),
        Direction::Out => (header.source, header.destination),
    };
    assert_eq!(names.get(&own.octets()), Some(&LOCAL.to_string()));
    if frame.peer != LOCAL {
        assert_eq!(names.get(&other.octets()), Some(&frame.peer.to_string()));
    }
}

/// Frames both ways, of both IP versions, a jumbogram, and a disk that is full at several places.
pub fn seeds() -> Vec<Vec<u8>> {
    let to_v4 = [&[0x29, 1, 187, 10, 0, 0, 1, 0, 5, 30][..], &[7; 30], &[20]].concat();
    let from_v6 = [&[0x02, 1, 187, 32, 1, 13, 184, 0, 5, 3, 1, 2, 3, 0][..]].concat();
    let itself = vec![0x1c, 0, 9, 0, 0];
    let jumbo = vec![0xf9, 0, 80, 10, 0, 0, 2, 0, 9, 1, 9, 255, 255, 32];
    let all = [&to_v4[..], &from_v6, &to_v4, &itself, &jumbo].concat();
    let mut seeds = vec![[&[0][..], &all].concat()];
    for room in [0u16, 40, 120, 200, 300, 400, 1000] {
        seeds.push([&[255][..], &room.to_be_bytes(), &all].concat());
    }
    seeds
}
