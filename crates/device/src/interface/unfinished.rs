//! Packets of this host that reached us before anybody made their checksum, and without a word about it.
//!
//! Between veth ends, and from a guest to its host, a packet's checksum is left to the card that it never
//! meets; the field then has the sum of the pseudo-header alone. With a virtio header the kernel says so;
//! AF_XDP cannot. A field that holds exactly this sum is taken for unfinished. A finished checksum has the
//! same value for one packet in 65,536, which is then not verified: so only drivers that do this are asked.

use fusewire_base::Sum;

use super::Checksum;

/// What is known of the checksum of this Ethernet frame.
pub(crate) fn checksum(frame: &[u8]) -> Checksum {
    pseudo_header_only(frame).unwrap_or_default()
}

fn pseudo_header_only(frame: &[u8]) -> Option<Checksum> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (start, len, protocol, addrs) = match word(12)? {
        0x0800 => {
            let header_len = usize::from(frame.get(14)? & 0xf) * 4;
            let len = usize::from(word(16)?).checked_sub(header_len)?;
            // A fragment has no sum of its own.
            if word(20)? & 0x3fff != 0 {
                return None;
            }
            (14 + header_len, len, *frame.get(23)?, frame.get(26..34)?)
        }
        0x86dd => (54, usize::from(word(18)?), *frame.get(20)?, frame.get(22..54)?),
        _ => return None,
    };
    let offset = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    if len < offset + 2 || frame.len() < start + len {
        return None;
    }
    let sum = Sum::of(addrs).word(u16::from(protocol)).word(u16::try_from(len).ok()?);
    (word(start + offset)? == sum.folded())
        .then_some(Checksum::Partial { start: start as u16, offset: offset as u16 })
}
