//! MD5 (RFC 1321), broken as a hash, as Ahlgren names it for a function with much state: four words, and a block of
//! sixteen. By itself, and in one loop with a byte swap before it, a block at a time.

/// RFC 1321, section 3.4: the integer part of 2^32 times |sin(i + 1)|, a row for each of the four rounds.
const SINES: [[u32; 16]; 4] = [
    [
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
        0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
        0xa679438e, 0x49b40821,
    ],
    [
        0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681,
        0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
        0x676f02d9, 0x8d2a4c8a,
    ],
    [
        0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60,
        0xbebfbc70, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5,
        0x1fa27cf8, 0xc4ac5665,
    ],
    [
        0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d,
        0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235,
        0x2ad7d2bb, 0xeb86d391,
    ],
];
/// By how much the steps of each round turn.
const TURNS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// Bytes of a block.
pub const BLOCK: usize = 64;
/// Instructions on a block: three additions, a turn and an addition in each of 64 steps, three logical ones in three
/// rounds and two in the third, and four additions at the end.
pub const INSTRUCTIONS: u32 = 48 * 8 + 16 * 7 + 4;

/// The chaining variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md5([u32; 4]);

impl Default for Md5 {
    fn default() -> Self {
        Md5([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476])
    }
}

impl Md5 {
    /// Takes a block: sixteen words, little-endian in the message.
    #[inline(always)]
    pub fn block(&mut self, words: &[u32; 16]) {
        let [mut a, mut b, mut c, mut d] = self.0;
        let step = |round: usize, i: usize, f: u32, word: usize, state: [u32; 4]| {
            let [a, b, c, d] = state;
            let sum = a.wrapping_add(f).wrapping_add(words[word]).wrapping_add(SINES[round][i]);
            [d, b.wrapping_add(sum.rotate_left(TURNS[round][i % 4])), b, c]
        };
        for i in 0..16 {
            [a, b, c, d] = step(0, i, ((c ^ d) & b) ^ d, i, [a, b, c, d]);
        }
        for i in 0..16 {
            [a, b, c, d] = step(1, i, ((b ^ c) & d) ^ c, (5 * i + 1) % 16, [a, b, c, d]);
        }
        for i in 0..16 {
            [a, b, c, d] = step(2, i, b ^ c ^ d, (3 * i + 5) % 16, [a, b, c, d]);
        }
        for i in 0..16 {
            [a, b, c, d] = step(3, i, c ^ (b | !d), 7 * i % 16, [a, b, c, d]);
        }
        let before = self.0;
        self.0 = [a, b, c, d];
        self.0
            .iter_mut()
            .zip(before)
            .for_each(|(state, before)| *state = state.wrapping_add(before));
    }

    /// What it has come to, in the order of RFC 1321.
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Words of a block as they lie in memory.
#[inline(always)]
fn words(bytes: &[u8]) -> [u32; 16] {
    let mut words = [0; 16];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    }
    words
}

/// Of whole blocks.
pub fn sum(bytes: &[u8]) -> Md5 {
    let mut md5 = Md5::default();
    bytes.chunks_exact(BLOCK).for_each(|block| md5.block(&words(block)));
    md5
}

/// Swaps the bytes of each word on their way: a pass of its own.
pub fn swap(src: &[u8], dst: &mut [u8]) {
    for (from, to) in src.chunks_exact(BLOCK).zip(dst.chunks_exact_mut(BLOCK)) {
        put(&words(from).map(u32::swap_bytes), to);
    }
}

/// [`swap`], and [`sum`] of what it writes, in one loop.
pub fn swap_and_sum(src: &[u8], dst: &mut [u8]) -> Md5 {
    let mut md5 = Md5::default();
    for (from, to) in src.chunks_exact(BLOCK).zip(dst.chunks_exact_mut(BLOCK)) {
        let words = words(from).map(u32::swap_bytes);
        put(&words, to);
        md5.block(&words);
    }
    md5
}

#[inline(always)]
fn put(words: &[u32; 16], to: &mut [u8]) {
    for (word, to) in words.iter().zip(to.chunks_exact_mut(4)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, section 3: padding, and the length in bits.
    fn digest(message: &[u8]) -> [u8; 16] {
        let mut bytes = message.to_vec();
        bytes.push(0x80);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        while bytes.len() % BLOCK != 56 {
            bytes.push(0);
        }
        bytes.extend((message.len() as u64 * 8).to_le_bytes());
        sum(&bytes).bytes()
    }

    #[test]
    fn the_rfcs_vectors() {
        let hex = |bytes: [u8; 16]| bytes.map(|byte| format!("{byte:02x}")).concat();
        // RFC 1321, appendix A.5.
        for (message, expected) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            (&"1234567890".repeat(8), "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(hex(digest(message.as_bytes())), expected, "{message}");
        }
    }

    #[test]
    fn constants_are_sines() {
        for (i, sine) in SINES.as_flattened().iter().enumerate() {
            assert_eq!(*sine, (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32, "{i}");
        }
    }

    #[test]
    fn one_loop_does_what_two_do() {
        let src: Vec<u8> = (0..10 * BLOCK).map(|i| (i * 31 + (i >> 4)) as u8).collect();
        let (mut apart, mut one) = (vec![0; src.len()], vec![1; src.len()]);
        swap(&src, &mut apart);
        assert_eq!(swap_and_sum(&src, &mut one), sum(&apart));
        assert!(one == apart && one[..4] == [src[3], src[2], src[1], src[0]]);
    }
}
