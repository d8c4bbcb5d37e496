//! The virtio header that the kernel puts before a packet, and takes before one: ten bytes in the
//! machine's byte order (Virtual I/O Device specification 1.2, section 5.1.6; Linux `virtio_net.h`).
//!
//! It comes from the kernel, which repeats what a peer told it: nothing in it is believed before it was
//! compared with the packet's length.

use super::{Checksum, Link, RxPacket, Segmentation, TxPacket};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Reads the header in front of `packet`. `None` when it is cut short, when it names a kind of
/// super-frame that nobody asked for, when the checksum would lie behind the packet, or when a
/// super-frame has no length for its parts.
pub fn parse<'a>(header: &[u8], packet: &'a [u8]) -> Option<RxPacket<'a>> {
    let (checksum, segmentation) = describe(header, packet.len())?;
    Some(RxPacket { bytes: packet, checksum, segmentation })
}

/// What the header says of a packet of `len` bytes; `None` as with [`parse`].
pub fn describe(header: &[u8], len: usize) -> Option<(Checksum, Segmentation)> {
    let header: &[u8; HEADER_BYTES] = header.first_chunk()?;
    let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let (flags, kind, segment_len) = (header[0], header[1], field(4));
    let checksum = if flags & NEEDS_CHECKSUM != 0 {
        let (start, offset) = (field(6), field(8));
        if usize::from(start) + usize::from(offset) + 2 > len {
            return None;
        }
        Checksum::Partial { start, offset }
    } else if flags & DATA_VALID != 0 {
        Checksum::Verified
    } else {
        Checksum::InPlace
    };
    let segmentation = match kind & !GSO_ECN {
        GSO_NONE => Segmentation::None,
        _ if segment_len == 0 => return None,
        GSO_TCP_V4 | GSO_TCP_V6 => Segmentation::Tcp { segment_len, ecn: kind & GSO_ECN != 0 },
        GSO_UDP_L4 => Segmentation::Udp { segment_len },
        _ => return None,
    };
    Some((checksum, segmentation))
}

/// The header for a packet to send. `None` when it is to be segmented and what its header says is
/// neither IPv4 nor IPv6.
pub fn emit(packet: &TxPacket<'_>, link: Link) -> Option<[u8; HEADER_BYTES]> {
    let mut header = [0; HEADER_BYTES];
    let mut put = |at: usize, value: u16| {
        header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    };
    if let Checksum::Partial { start, offset } = packet.checksum {
        put(6, start);
        put(8, offset);
    }
    let (kind, segment_len) = match packet.segmentation {
        Segmentation::None => (GSO_NONE, 0),
        Segmentation::Tcp { segment_len, ecn } => {
            let family = if is_v6(packet.header, link)? { GSO_TCP_V6 } else { GSO_TCP_V4 };
            (family | if ecn { GSO_ECN } else { 0 }, segment_len)
        }
        Segmentation::Udp { segment_len } => (GSO_UDP_L4, segment_len),
    };
    if kind != GSO_NONE {
        put(2, u16::try_from(packet.header.len()).ok()?);
        put(4, segment_len);
    }
    header[0] =
        if matches!(packet.checksum, Checksum::Partial { .. }) { NEEDS_CHECKSUM } else { 0 };
    header[1] = kind;
    Some(header)
}

/// Whether a packet's header is IPv6 (else IPv4); `None` for neither.
fn is_v6(header: &[u8], link: Link) -> Option<bool> {
    let version = match link {
        Link::Ip => header.first()? >> 4,
        Link::Ethernet => match header.get(12..14)? {
            [0x08, 0x00] => 4,
            [0x86, 0xdd] => 6,
            _ => 0,
        },
    };
    matches!(version, 4 | 6).then_some(version == 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: [Segmentation; 2] = [
        Segmentation::Tcp { segment_len: 1448, ecn: true },
        Segmentation::Tcp { segment_len: 1, ecn: false },
    ];

    fn tx(header: &[u8], checksum: Checksum, segmentation: Segmentation) -> TxPacket<'_> {
        TxPacket { header, payload: &[], checksum, segmentation }
    }

    #[test]
    fn what_is_emitted_is_parsed_again() {
        let partial = Checksum::Partial { start: 20, offset: 16 };
        for version in [0x45, 0x60] {
            let mut bytes = [0; 60];
            bytes[0] = version;
            for segmentation in [TCP[0], TCP[1], Segmentation::Udp { segment_len: 9 }] {
                let header = emit(&tx(&bytes, partial, segmentation), Link::Ip).unwrap();
                let back = parse(&header, &bytes).unwrap();
                assert_eq!((back.checksum, back.segmentation), (partial, segmentation));
                assert_eq!(header[2..4], 60u16.to_ne_bytes(), "hdr_len");
            }
        }
        let header = emit(&tx(&[9; 40], Checksum::InPlace, Segmentation::None), Link::Ip).unwrap();
        assert_eq!(header, [0; HEADER_BYTES], "a whole packet needs no IP header to be described");
    }

    #[test]
    fn the_family_is_told_to_the_kernel() {
        let kind = |bytes: &[u8], link| {
            emit(&tx(bytes, Checksum::InPlace, TCP[1]), link).map(|header| header[1])
        };
        let mut frame = [0; 54];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(kind(&frame, Link::Ethernet), Some(GSO_TCP_V6));
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        assert_eq!(kind(&frame, Link::Ethernet), Some(GSO_TCP_V4));
        frame[13] = 0x06;
        assert_eq!(kind(&frame, Link::Ethernet), None);
        assert_eq!(kind(&[0x45; 20], Link::Ip), Some(GSO_TCP_V4));
        assert_eq!(kind(&[], Link::Ip), None);
    }

    #[test]
    fn what_contradicts_the_packet_is_refused() {
        let packet = [0; 40];
        let header = |flags: u8, kind: u8, segment_len: u16, start: u16, offset: u16| {
            let mut header = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
            header[4..6].copy_from_slice(&segment_len.to_ne_bytes());
            header[6..8].copy_from_slice(&start.to_ne_bytes());
            header[8..10].copy_from_slice(&offset.to_ne_bytes());
            header
        };
        assert!(parse(&header(1, 0, 0, 22, 16), &packet).is_some());
        assert!(parse(&header(1, 0, 0, 23, 16), &packet).is_none(), "a byte behind the end");
        assert!(parse(&header(1, 0, 0, 0xffff, 0xffff), &packet).is_none());
        assert!(parse(&header(0, 0, 0, 0xffff, 0xffff), &packet).is_some(), "nothing to be summed");
        assert!(parse(&header(1, 1, 0, 20, 16), &packet).is_none(), "parts of no bytes");
        assert!(parse(&header(1, 3, 100, 20, 6), &packet).is_none(), "UFO");
        assert!(parse(&header(1, 0x7f, 100, 20, 6), &packet).is_none());
        for len in 0..HEADER_BYTES {
            assert!(parse(&[0; HEADER_BYTES][..len], &packet).is_none());
        }
        let valid = header(2, 0, 0, 0, 0);
        assert_eq!(parse(&valid, &packet).unwrap().checksum, Checksum::Verified);
    }
}
