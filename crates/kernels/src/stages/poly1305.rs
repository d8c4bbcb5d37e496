//! Poly1305 (RFC 8439, section 2.5) on limbs of 64 bits, in constant time.
//!
//! The accumulator is kept *pending*: a block is added after the multiplication of the one before, so
//! `absorb` is `h = h·r + block` and the last multiplication waits for the tag. The addition then hides
//! in the shadow of the reduction, which shortens the chain from block to block.
//!
//! ```text
//! h·r with h = h0 + h1·2^64 + h2·2^128 and r = r0 + r1·2^64, modulo 2^130 - 5:
//! r is clamped, so r1 is a multiple of 4 and 2^128·r1 = 2^130·r1/4 = 5·r1/4 = s1
//! d0 = h0·r0 + h1·s1          d1 = h0·r1 + h1·r0 + h2·s1          d2 = h2·r0
//! what of d2 lies above 2^130 comes back times 5
//! ```
//! Invariants: `r0, r1 < 2^60`, so `s1 < 1.25·2^60`; `h2 <= 11` before a multiplication, so `h2·s1 < 2^64`
//! and no sum overflows; a multiplication and the block after it leave `h2 <= 6`.
#![forbid(unsafe_code)]

use zeroize::Zeroize;

/// Accumulator and key of one message.
#[derive(Clone, Default, Zeroize)]
#[repr(C)]
pub struct Poly1305 {
    /// The accumulator, not yet multiplied since the last block was added.
    pub(crate) h: [u64; 3],
    /// The clamped multiplier.
    pub(crate) r: [u64; 2],
    /// `5·r1/4`.
    pub(crate) s1: u64,
    /// What is added at the end.
    s: [u64; 2],
}

/// Bytes of a block, and of key and tag parts.
const BLOCK: usize = 16;

/// Two little-endian words.
#[inline(always)]
fn words(block: &[u8; BLOCK]) -> [u64; 2] {
    let word = u128::from_le_bytes(*block);
    [word as u64, (word >> 64) as u64]
}

/// The product modulo the prime of numbers whose highest limb is at most 11; so is that of the product, which
/// is below 2^130 + 2^66.
#[inline]
pub(crate) fn product(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    let wide = |i: usize, j: usize| u128::from(a[i]) * u128::from(b[j]);
    let low = |x: u128| u128::from(x as u64);
    let (p00, p01, p10, p11) = (wide(0, 0), wide(0, 1), wide(1, 0), wide(1, 1));
    let (p02, p20, p12, p21) = (wide(0, 2), wide(2, 0), wide(1, 2), wide(2, 1));
    let c0 = p00;
    let c1 = (c0 >> 64) + low(p01) + low(p10);
    let c2 = (c1 >> 64) + (p01 >> 64) + (p10 >> 64) + low(p11) + low(p02) + low(p20);
    let c3 = (c2 >> 64) + (p11 >> 64) + (p02 >> 64) + (p20 >> 64) + low(p12) + low(p21);
    let c4 = ((c3 >> 64) + (p12 >> 64) + (p21 >> 64)) as u64 + a[2] * b[2];
    let (c2, c3) = (c2 as u64, c3 as u64);
    // What lies above 2^130 comes back times 5.
    let above = [c2 >> 2 | c3 << 62, c3 >> 2 | c4 << 62, c4 >> 2];
    let d0 = low(c0) + 5 * u128::from(above[0]);
    let d1 = low(c1) + 5 * u128::from(above[1]) + (d0 >> 64);
    let d2 = (c2 & 3) + 5 * above[2] + (d1 >> 64) as u64;
    let d0 = low(d0) + u128::from(5 * (d2 >> 2));
    let d1 = low(d1) + (d0 >> 64);
    [d0 as u64, d1 as u64, (d2 & 3) + (d1 >> 64) as u64]
}

impl Poly1305 {
    /// From the one-time key: 16 bytes that are clamped to the multiplier, and 16 that are added.
    pub fn new(key: &[u8; 32]) -> Self {
        let ([low, high], _) = key.as_chunks::<BLOCK>() else { unreachable!("two halves") };
        let [r0, r1] = words(low);
        let r = [r0 & 0x0fff_fffc_0fff_ffff, r1 & 0x0fff_fffc_0fff_fffc];
        Poly1305 { h: [0; 3], r, s1: r[1] + (r[1] >> 2), s: words(high) }
    }

    /// Multiplies by the key and adds `add` and `2^128·high`.
    #[inline(always)]
    pub(super) fn step(&mut self, add: [u64; 2], high: u64) {
        let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let ([h0, h1, h2], [r0, r1], s1) = (self.h, self.r, self.s1);
        let d0 = wide(h0, r0) + wide(h1, s1);
        let d1 = wide(h0, r1) + wide(h1, r0) + u128::from(h2.wrapping_mul(s1)) + (d0 >> 64);
        let d2 = h2.wrapping_mul(r0).wrapping_add((d1 >> 64) as u64);
        // Below 2^130 stays, with the block added; above comes back times 5.
        let low = u128::from(d0 as u64) + u128::from(add[0]);
        let middle = u128::from(d1 as u64) + u128::from(add[1]) + (low >> 64);
        let top = (d2 & 3) + high + (middle >> 64) as u64;
        let low = u128::from(low as u64) + u128::from(5 * (d2 >> 2));
        let middle = u128::from(middle as u64) + (low >> 64);
        self.h = [low as u64, middle as u64, top + (middle >> 64) as u64];
        debug_assert!(self.h[2] <= 6);
    }

    /// A number times the multiplier; its highest limb may be 11 at most.
    #[inline(always)]
    pub(crate) fn times(&self, h: [u64; 3]) -> [u64; 3] {
        let mut product = Poly1305 { h, r: self.r, s1: self.s1, s: [0; 2] };
        product.step([0; 2], 0);
        product.h
    }

    /// Absorbs one whole block.
    #[inline(always)]
    pub fn absorb(&mut self, block: &[u8; BLOCK]) {
        self.step(words(block), 1);
    }

    /// Absorbs bytes, the last block filled up with zeros as the AEAD has it (section 2.8).
    #[inline(always)]
    pub fn absorb_padded(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.absorb(block);
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.absorb(&block);
        }
    }

    /// Appends blocks that were absorbed to `g` from an accumulator of zero; `jump` is as high a power of the
    /// multiplier as there were blocks.
    #[inline]
    pub(crate) fn join(&mut self, g: [u64; 3], jump: [u64; 3]) {
        let h = product(self.h, jump);
        let low = u128::from(h[0]) + u128::from(g[0]);
        let middle = u128::from(h[1]) + u128::from(g[1]) + (low >> 64);
        self.h = [low as u64, middle as u64, h[2] + g[2] + (middle >> 64) as u64];
    }

    /// The AEAD's tag (section 2.8): the lengths of additional data and ciphertext as the last block.
    pub fn tag(mut self, aad_len: usize, len: usize) -> [u8; BLOCK] {
        self.step([aad_len as u64, len as u64], 1);
        self.end()
    }

    /// The last multiplication, the reduction to less than the prime, and the addition of `s`.
    fn end(mut self) -> [u8; BLOCK] {
        self.step([0; 2], 0);
        // Twice, as the first may carry past 2^130 again.
        for _ in 0..2 {
            let [h0, h1, h2] = self.h;
            let low = u128::from(h0) + u128::from(5 * (h2 >> 2));
            let middle = u128::from(h1) + (low >> 64);
            self.h = [low as u64, middle as u64, (h2 & 3) + (middle >> 64) as u64];
        }
        // h < 2^130 now, and h >= 2^130 - 5 exactly if h + 5 reaches 2^130.
        let [h0, h1, h2] = self.h;
        let low = u128::from(h0) + 5;
        let middle = u128::from(h1) + (low >> 64);
        let over = (h2 + (middle >> 64) as u64) >> 2;
        let mask = u128::from(over).wrapping_neg();
        let reduced = u128::from(middle as u64) << 64 | u128::from(low as u64);
        let plain = u128::from(h1) << 64 | u128::from(h0);
        let h = (reduced & mask) | (plain & !mask);
        let s = u128::from(self.s[1]) << 64 | u128::from(self.s[0]);
        self.zeroize();
        h.wrapping_add(s).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::arch::LoopBody;
    use crate::arch::chacha::{ChaChaLanes, Last, Work};

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
        digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
    }

    /// The tag of a plain message whose last block may be incomplete: it is marked by a one after its
    /// last byte (section 2.5).
    fn mac(key: &[u8; 32], message: &[u8]) -> [u8; BLOCK] {
        let mut poly = Poly1305::new(key);
        let (blocks, rest) = message.as_chunks::<BLOCK>();
        for block in blocks {
            poly.absorb(block);
        }
        if !rest.is_empty() {
            let mut block = [0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            block[rest.len()] = 1;
            poly.step(words(&block), 0);
        }
        poly.end()
    }

    /// RFC 8439, section 2.5.2 and appendix A.3.
    #[test]
    fn rfc_8439() {
        let key = "85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b";
        let message = b"Cryptographic Forum Research Group";
        let tag = mac(&unhex(key).try_into().unwrap(), message);
        assert_eq!(tag.to_vec(), unhex("a8061dc1305136c6c22b8baf0c0127a9"));
        let z = "00000000000000000000000000000000";
        let two = "02000000000000000000000000000000";
        let one = "01000000000000000000000000000000";
        let ff = "ffffffffffffffffffffffffffffffff";
        let long = format!(
            "{}{}{}{}",
            "e33594d7505e43b90000000000000000", "3394d7505e4379cd0100000000000000", z, one
        );
        let cases = [
            // Vectors 7 to 11.
            (two, z, ff.to_string(), "03000000000000000000000000000000"),
            (two, ff, two.to_string(), "03000000000000000000000000000000"),
            (
                one,
                z,
                format!("{ff}f0ffffffffffffffffffffffffffffff11000000000000000000000000000000"),
                "05000000000000000000000000000000",
            ),
            (
                one,
                z,
                format!("{ff}fbfefefefefefefefefefefefefefefe01010101010101010101010101010101"),
                z,
            ),
            (two, z, "fdffffffffffffffffffffffffffffff".into(), "faffffffffffffffffffffffffffffff"),
            (
                "01000000000000000400000000000000",
                z,
                long.clone(),
                "14000000000000005500000000000000",
            ),
            (
                "01000000000000000400000000000000",
                z,
                long[..96].to_string(),
                "13000000000000000000000000000000",
            ),
        ];
        for (i, (r, s, message, want)) in cases.iter().enumerate() {
            let key: [u8; 32] = unhex(&format!("{r}{s}")).try_into().unwrap();
            assert_eq!(mac(&key, &unhex(message)).to_vec(), unhex(want), "case {}", i + 7);
        }
    }

    /// Schoolbook arithmetic in base 256 on the definition of section 2.5.1.
    fn oracle(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
        let mut r = key[..16].to_vec();
        for i in [3, 7, 11, 15] {
            r[i] &= 15;
        }
        for i in [4, 8, 12] {
            r[i] &= 252;
        }
        let mut a = vec![0u32; 17];
        for chunk in message.chunks(16) {
            for (i, byte) in chunk.iter().chain(&[1]).enumerate() {
                a[i] += u32::from(*byte);
            }
            let mut wide = vec![0u32; 34];
            for i in 0..17 {
                for j in 0..16 {
                    wide[i + j] += a[i] * u32::from(r[j]);
                }
                carry(&mut wide);
            }
            a = reduce(wide);
        }
        // Subtract the prime if it fits.
        let mut minus = a.clone();
        minus[0] += 5;
        carry(&mut minus);
        if minus[16] >= 4 {
            minus[16] -= 4;
            a = minus;
        }
        for i in 0..16 {
            a[i] += u32::from(key[16 + i]);
        }
        carry(&mut a);
        core::array::from_fn(|i| a[i] as u8)
    }

    fn carry(limbs: &mut [u32]) {
        for i in 0..limbs.len() - 1 {
            limbs[i + 1] += limbs[i] >> 8;
            limbs[i] &= 255;
        }
    }

    fn reduce(mut wide: Vec<u32>) -> Vec<u32> {
        for _ in 0..3 {
            carry(&mut wide);
            // 2^130 = 5: limbs above bit 130, shifted down by two bits, times 5.
            let mut high = vec![0u32; wide.len()];
            for i in 16..wide.len() {
                let above = wide.get(i + 1).copied().unwrap_or(0);
                high[i - 16] = ((wide[i] >> 2) | (above << 6) & 255) * 5;
            }
            wide[16] &= 3;
            wide[17..].fill(0);
            for (w, h) in wide.iter_mut().zip(&high) {
                *w += h;
            }
            carry(&mut wide);
        }
        wide.truncate(17);
        wide
    }

    #[test]
    fn two_chains_join_and_lanes_agree() {
        let mut word = 7u64;
        for round in 0..1000 {
            let mut byte = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                if round % 3 == 0 { 0xff } else { (word >> 40) as u8 }
            };
            let key: [u8; 32] = core::array::from_fn(|_| byte());
            let message: Vec<u8> = (0..1040).map(|_| byte()).collect();
            let mut poly = Poly1305::new(&key);
            let jump = (0..5).fold([poly.r[0], poly.r[1], 0], |x, _| product(x, x));
            let mut other = poly.clone();
            poly.absorb_padded(&message[..528]);
            other.absorb_padded(&message[528..]);
            poly.join(other.h, jump);
            let mut whole = message.clone();
            whole.extend_from_slice(&16u64.to_le_bytes());
            whole.extend_from_slice(&1024u64.to_le_bytes());
            let want = oracle(&key, &whole);
            assert_eq!(poly.tag(16, 1024), want, "round {round}");
            for level in Level::available() {
                let mut poly = Poly1305::new(&key);
                poly.absorb_padded(&message[..16]);
                level.run(Wide { poly: &mut poly, bytes: &message[16..] });
                assert_eq!(poly.tag(16, 1024), want, "round {round}, {level}");
            }
        }
    }

    /// What is absorbed after the last batch, as a kernel.
    struct Wide<'a> {
        poly: &'a mut Poly1305,
        bytes: &'a [u8],
    }
    impl<L: ChaChaLanes> LoopBody<L> for Wide<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self, lanes: L) {
            let mut work = Work::new(&[0; 32]);
            work.poly = self.poly.clone();
            lanes.powers(&mut work, usize::MAX);
            let len = self.bytes.len();
            work.sealed[1].0[..len].copy_from_slice(self.bytes);
            lanes.absorb(&mut work, Last { at: 1, len }, 0);
            *self.poly = work.poly.clone();
        }
    }

    #[test]
    fn edges_against_the_oracle() {
        let edges = [0u8, 1, 2, 3, 4, 5, 0x7f, 0x80, 0xfb, 0xfc, 0xfe, 0xff];
        let mut word = 1u64;
        for round in 0..4000 {
            let mut byte = || {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                let x = (word >> 33) as usize;
                match round % 4 {
                    0 => 0xff,
                    1 => edges[x % edges.len()],
                    2 if x.is_multiple_of(5) => edges[x % edges.len()],
                    2 => 0xff,
                    _ => x as u8,
                }
            };
            let mut key: [u8; 32] = core::array::from_fn(|_| byte());
            if round % 8 == 4 {
                key[..16].fill(0xff);
            }
            let message: Vec<u8> = (0..round % 100).map(|_| byte()).collect();
            assert_eq!(mac(&key, &message), oracle(&key, &message), "round {round}");
        }
    }
}
