//! What an interface hands over: the virtio header before a packet, and packets whose checksum nobody made.
//! What is said of a packet holds for its bytes, and said again to the kernel it is the same.

use std::io::IoSlice;

use fusewire_device::interface::vnet::{self, HEADER_BYTES};
use fusewire_device::interface::{Checksum, Link, RxPacket, Segmentation, TxPacket, unfinished};

/// Runs one input: a virtio header and a packet.
pub fn run(data: &[u8]) {
    let (header, bytes) = data.split_at(data.len().min(HEADER_BYTES));
    in_bounds(bytes, unfinished::checksum(bytes));
    let Some(packet) = vnet::parse(header, bytes) else { return };
    assert_eq!(header.len(), HEADER_BYTES, "no packet without a whole header");
    assert_eq!(packet.bytes, bytes);
    in_bounds(bytes, packet.checksum);
    let (Segmentation::Tcp { segment_len, .. } | Segmentation::Udp { segment_len }) =
        packet.segmentation
    else {
        return again(packet, Link::Ip, bytes.len());
    };
    assert!(segment_len > 0, "parts of no bytes never end");
    for link in [Link::Ethernet, Link::Ip] {
        for header_len in [bytes.len().min(54), bytes.len()] {
            again(packet, link, header_len);
        }
    }
}

fn in_bounds(bytes: &[u8], checksum: Checksum) {
    if let Checksum::Partial { start, offset } = checksum {
        assert!(usize::from(start) + usize::from(offset) + 2 <= bytes.len());
    }
}

/// Sent on as it came, with so many bytes of headers.
fn again(packet: RxPacket<'_>, link: Link, header_len: usize) {
    let RxPacket { bytes, checksum, segmentation } = packet;
    let (header, payload) = bytes.split_at(header_len);
    let payload = [IoSlice::new(payload)];
    let sent = TxPacket { header, payload: &payload, checksum, segmentation };
    // Neither IPv4 nor IPv6, or longer than any packet.
    let Some(emitted) = vnet::emit(&sent, link) else {
        return assert_ne!(segmentation, Segmentation::None);
    };
    let back = vnet::parse(&emitted, bytes).expect("what we emit is legal");
    assert_eq!(back.segmentation, segmentation);
    match checksum {
        // That it was verified is nothing that a sender says.
        Checksum::Verified => assert_eq!(back.checksum, Checksum::InPlace),
        _ => assert_eq!(back.checksum, checksum),
    }
}

/// Super-frames of each kind, and the two families without a virtio header's help.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut ethernet = [0; 70];
    (ethernet[12], ethernet[14], ethernet[17], ethernet[23]) = (8, 0x45, 56, 17);
    // The sum of a pseudo-header with no addresses.
    (ethernet[41], ethernet[39]) = (17 + 36, 36);
    let mut v6 = [0; 90];
    (v6[12], v6[13], v6[14], v6[19], v6[20], v6[71]) = (0x86, 0xdd, 0x60, 36, 6, 6 + 36);
    let header = |kind: u8, start: u16, offset: u16, segment_len: u16| {
        let mut header = [1, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        header[4..6].copy_from_slice(&segment_len.to_ne_bytes());
        header[6..8].copy_from_slice(&start.to_ne_bytes());
        header[8..10].copy_from_slice(&offset.to_ne_bytes());
        header
    };
    vec![
        [&[0; HEADER_BYTES][..], &ethernet].concat(),
        [&[0; HEADER_BYTES][..], &v6].concat(),
        [&header(5, 34, 6, 10)[..], &ethernet].concat(),
        [&header(4, 54, 16, 10)[..], &v6].concat(),
        [&header(0x81, 20, 16, 10)[..], &ethernet[14..]].concat(),
        [&header(0, 20, 6, 0)[..], &ethernet[14..]].concat(),
        [&[2; 1][..], &[0; 9], &ethernet].concat(),
    ]
}
