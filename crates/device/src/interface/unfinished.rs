//! Packets of this host that reached us before anybody made their checksum, and without a word about it.
//!
//! Between veth ends, and from a guest to its host, a packet's checksum is left to the card that it never
//! meets; the field then has the sum of the pseudo-header alone. With a virtio header the kernel says so;
//! AF_XDP cannot. A field that holds exactly this sum is taken for unfinished. A finished checksum has the
//! same value for one packet in 65,536, which is then not verified: so only drivers that do this are asked.

use fusewire_base::Sum;

use super::Checksum;

/// What is known of the checksum of this Ethernet frame.
pub fn checksum(frame: &[u8]) -> Checksum {
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

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    fn packets() -> Vec<(Vec<u8>, u16, u16)> {
        let macs = || PacketBuilder::ethernet2([2; 6], [4; 6]);
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let (a6, b6) = ([0xfd; 16], [0xfe; 16]);
        let mut all = Vec::new();
        for len in [0, 1, 100, 1000] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
            let mut add = |start, offset, write: &dyn Fn(&mut Vec<u8>)| {
                let mut packet = Vec::new();
                write(&mut packet);
                // What Ethernet fills up to its shortest frame.
                packet.resize(packet.len().max(60), 0);
                all.push((packet, start, offset));
            };
            add(34, 6, &|p| macs().ipv4(a, b, 64).udp(1, 2).write(p, &payload).unwrap());
            add(34, 16, &|p| macs().ipv4(a, b, 64).tcp(1, 2, 3, 4).write(p, &payload).unwrap());
            add(54, 6, &|p| macs().ipv6(a6, b6, 64).udp(1, 2).write(p, &payload).unwrap());
            add(54, 16, &|p| macs().ipv6(a6, b6, 64).tcp(1, 2, 3, 4).write(p, &payload).unwrap());
        }
        all
    }

    /// Puts the sum of the pseudo-header into the field, by the definition of the checksum: what is there,
    /// complemented, is that sum and the sum of the rest.
    fn undo(packet: &mut [u8], start: u16, offset: u16) {
        let (start, at) = (usize::from(start), usize::from(start + offset));
        let word = |at: usize, p: &[u8]| u16::from_be_bytes([p[at], p[at + 1]]);
        let is_v4 = start == 34;
        let len = usize::from(if is_v4 { word(16, packet) - 20 } else { word(18, packet) });
        let whole = Sum::from_words(u64::from(!word(at, packet)));
        packet[at..at + 2].fill(0);
        let rest = Sum::of(&packet[start..start + len]);
        let pseudo = whole.word(!rest.folded());
        packet[at..at + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
    }

    #[test]
    fn a_sum_of_the_pseudo_header_alone_is_recognised() {
        for (mut packet, start, offset) in packets() {
            assert_eq!(checksum(&packet), Checksum::InPlace, "a finished one is none of these");
            undo(&mut packet, start, offset);
            assert_eq!(checksum(&packet), Checksum::Partial { start, offset });
            packet[usize::from(start + offset)] ^= 1;
            assert_eq!(checksum(&packet), Checksum::InPlace);
        }
    }

    #[test]
    fn fragments_and_what_is_cut_short_are_left_alone() {
        for (mut packet, start, offset) in packets() {
            undo(&mut packet, start, offset);
            let shortest = (0..=packet.len())
                .find(|len| checksum(&packet[..*len]) != Checksum::InPlace)
                .expect("the whole packet");
            assert!(shortest >= usize::from(start + offset) + 2);
            if start == 34 {
                packet[20] = 0x20;
                assert_eq!(checksum(&packet), Checksum::InPlace, "a fragment");
            }
        }
    }
}
