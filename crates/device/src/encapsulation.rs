//! How a TPDU lies in a datagram, and what its checksum covers (`docs/encapsulation.md`).
//!
//! A datagram's payload is one TPDU: header, options, payload, nothing before and nothing after. The checksum covers
//! TPDU and a pseudo-header (RFC 8200, section 8.1) whose addresses are constant, so that address translation on the
//! way does not break it.

use fusewire_base::Sum;

/// Words of the prefix of every pseudo-header address: 2001:db8::/32 (RFC 3849).
const PREFIX: [u16; 2] = [0x2001, 0x0db8];

/// The pseudo-header address of endpoint `n`: `2001:db8::n:!n`. As `n` and its complement add up to
/// zero, all endpoints give the same sum, in both directions; a capture numbers the peers it meets.
pub const fn address(n: u16) -> [u8; 16] {
    let (p, q) = (PREFIX[0].to_be_bytes(), PREFIX[1].to_be_bytes());
    let (n, m) = (n.to_be_bytes(), (!n).to_be_bytes());
    [p[0], p[1], q[0], q[1], 0, 0, 0, 0, 0, 0, 0, 0, n[0], n[1], m[0], m[1]]
}

/// The sum of the pseudo-header of a TPDU of the `protocol` with that number, of `tpdu_len` bytes, header and options
/// included.
pub const fn pseudo_header_sum(protocol: u8, tpdu_len: usize) -> Sum {
    let addresses = 2 * (PREFIX[0] as u64 + PREFIX[1] as u64);
    let len = tpdu_len as u64;
    Sum::from_words(addresses + protocol as u64 + (len >> 16) + (len & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_endpoints_has_the_constant_sum() {
        for (a, b) in [(0, 1), (1, 2), (2, 1), (0xffff, 0x1234), (77, 77)] {
            for len in [20usize, 32, 1452, 65_535, 65_536, 1 << 20] {
                let mut pseudo = Vec::from(address(a));
                pseudo.extend(address(b));
                pseudo.extend((len as u32).to_be_bytes());
                pseudo.extend([0, 0, 0, 36]);
                assert_eq!(Sum::of(&pseudo), pseudo_header_sum(36, len), "{a} {b} {len}");
            }
        }
    }
}
