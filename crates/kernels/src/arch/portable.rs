//! Vectors of four 32-bit words in plain Rust, for every CPU.

use super::{Entry, Lanes, LoopBody};

/// The token of the portable level.
#[derive(Clone, Copy, Debug)]
pub struct Portable(());

/// Compiles a whole kernel for the level.
#[inline(never)]
pub(super) fn shell<K: LoopBody<Portable>>(body: K) -> K::Output {
    body.run(Portable(()))
}

/// Compiles a bound loop for the level.
pub(super) fn entry<E: Entry<Portable>>(
    context: &mut E::Context,
    src: &[u8],
    dst: &mut [u8],
) -> E::Output {
    E::run(Portable(()), context, src, dst)
}

type V = [u32; 4];

/// `CRC32C[n][b]`: the CRC of byte `b` followed by `n` zero bytes.
static CRC32C: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            let before: u32 = tables[n - 1][i];
            tables[n][i] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        n += 1;
    }
    tables
};

#[inline(always)]
fn to_bytes(x: V) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(x) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[inline(always)]
fn from_bytes(bytes: [u8; 16]) -> V {
    let mut x = [0; 4];
    for (word, from) in x.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([from[0], from[1], from[2], from[3]]);
    }
    x
}

#[inline(always)]
fn to64(x: V) -> [u64; 2] {
    [u64::from(x[0]) | u64::from(x[1]) << 32, u64::from(x[2]) | u64::from(x[3]) << 32]
}

#[inline(always)]
fn from64(x: [u64; 2]) -> V {
    [x[0] as u32, (x[0] >> 32) as u32, x[1] as u32, (x[1] >> 32) as u32]
}

/// Adds bytes inside a word; `high` has the top bit of each.
#[inline(always)]
fn add_within(a: u32, b: u32, high: u32) -> u32 {
    (a & !high).wrapping_add(b & !high) ^ ((a ^ b) & high)
}

/// Subtracts bytes inside a word; `high` has the top bit of each.
#[inline(always)]
fn sub_within(a: u32, b: u32, high: u32) -> u32 {
    (a | high).wrapping_sub(b & !high) ^ ((a ^ !b) & high)
}

macro_rules! each {
    ($f:expr, $a:ident) => {
        [$f($a[0]), $f($a[1]), $f($a[2]), $f($a[3])]
    };
    ($f:expr, $a:ident, $b:ident) => {
        [$f($a[0], $b[0]), $f($a[1], $b[1]), $f($a[2], $b[2]), $f($a[3], $b[3])]
    };
}

impl Lanes for Portable {
    type V = V;
    const WIDTH: usize = 16;
    const SHUFFLES: bool = false;
    const MOST_VECTORS: usize = 1;
    const AVERAGES: bool = false;

    #[inline(always)]
    fn load(self, from: &[u8]) -> V {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&from[..16]);
        from_bytes(bytes)
    }
    #[inline(always)]
    fn store(self, to: &mut [u8], x: V) {
        to[..16].copy_from_slice(&to_bytes(x));
    }
    #[inline(always)]
    fn load_partial(self, from: &[u8]) -> V {
        let mut bytes = [0; 16];
        bytes[..from.len()].copy_from_slice(from);
        from_bytes(bytes)
    }
    #[inline(always)]
    fn store_partial(self, to: &mut [u8], x: V) {
        let len = to.len();
        to.copy_from_slice(&to_bytes(x)[..len]);
    }
    #[inline(always)]
    fn keep(self, x: V, valid: usize) -> V {
        let bits = 8 * valid as u32;
        let mask = |i: u32| {
            let bits = bits.saturating_sub(32 * i).min(32);
            ((1u64 << bits) - 1) as u32
        };
        [x[0] & mask(0), x[1] & mask(1), x[2] & mask(2), x[3] & mask(3)]
    }
    #[inline(always)]
    fn zero(self) -> V {
        [0; 4]
    }
    #[inline(always)]
    fn splat16(self, x: u16) -> V {
        [u32::from(x) * 0x0001_0001; 4]
    }
    #[inline(always)]
    fn splat32(self, x: u32) -> V {
        [x; 4]
    }
    #[inline(always)]
    fn splat64(self, x: u64) -> V {
        from64([x; 2])
    }
    #[inline(always)]
    fn splat128(self, x: [u8; 16]) -> V {
        from_bytes(x)
    }
    #[inline(always)]
    fn xor(self, a: V, b: V) -> V {
        each!(|a, b| a ^ b, a, b)
    }
    #[inline(always)]
    fn and(self, a: V, b: V) -> V {
        each!(|a, b| a & b, a, b)
    }
    #[inline(always)]
    fn or(self, a: V, b: V) -> V {
        each!(|a, b| a | b, a, b)
    }
    #[inline(always)]
    fn add8(self, a: V, b: V) -> V {
        each!(|a, b| add_within(a, b, 0x8080_8080), a, b)
    }
    #[inline(always)]
    fn sub8(self, a: V, b: V) -> V {
        each!(|a, b| sub_within(a, b, 0x8080_8080), a, b)
    }
    #[inline(always)]
    fn average16(self, a: V, b: V) -> V {
        each!(|a: u32, b: u32| (a | b) - (((a ^ b) & 0xfffe_fffe) >> 1), a, b)
    }
    #[inline(always)]
    fn add32(self, a: V, b: V) -> V {
        each!(u32::wrapping_add, a, b)
    }
    #[inline(always)]
    fn sub32(self, a: V, b: V) -> V {
        each!(u32::wrapping_sub, a, b)
    }
    #[inline(always)]
    fn add64(self, a: V, b: V) -> V {
        let (a, b) = (to64(a), to64(b));
        from64([a[0].wrapping_add(b[0]), a[1].wrapping_add(b[1])])
    }
    #[inline(always)]
    fn sub64(self, a: V, b: V) -> V {
        let (a, b) = (to64(a), to64(b));
        from64([a[0].wrapping_sub(b[0]), a[1].wrapping_sub(b[1])])
    }
    #[inline(always)]
    fn rotl32<const BITS: u32>(self, x: V) -> V {
        each!(|x: u32| x.rotate_left(BITS), x)
    }
    #[inline(always)]
    fn shl64<const BITS: u32>(self, x: V) -> V {
        let x = to64(x);
        from64([x[0] << BITS, x[1] << BITS])
    }
    #[inline(always)]
    fn shr64<const BITS: u32>(self, x: V) -> V {
        let x = to64(x);
        from64([x[0] >> BITS, x[1] >> BITS])
    }
    #[inline(always)]
    fn mul32(self, a: V, b: V) -> V {
        from64([u64::from(a[0]) * u64::from(b[0]), u64::from(a[2]) * u64::from(b[2])])
    }
    #[inline(always)]
    fn swap<const BYTES: usize>(self, x: V) -> V {
        match BYTES {
            2 => each!(|x: u32| (x & 0x00ff_00ff) << 8 | (x >> 8 & 0x00ff_00ff), x),
            4 => each!(u32::swap_bytes, x),
            _ => [x[1].swap_bytes(), x[0].swap_bytes(), x[3].swap_bytes(), x[2].swap_bytes()],
        }
    }
    #[inline(always)]
    fn shuffle(self, x: V, control: [u8; 16]) -> V {
        let from = to_bytes(x);
        from_bytes(core::array::from_fn(|i| from[usize::from(control[i] % 16)]))
    }
    #[inline(always)]
    fn shuffle_by(self, x: V, control: V) -> V {
        self.shuffle(x, to_bytes(control))
    }
    #[inline(always)]
    fn sum_bytes(self, x: V) -> V {
        let sum = |x: u32| {
            let pairs = (x & 0x00ff_00ff) + (x >> 8 & 0x00ff_00ff);
            (pairs & 0xffff) + (pairs >> 16)
        };
        [sum(x[0]) + sum(x[1]), 0, sum(x[2]) + sum(x[3]), 0]
    }
    #[inline(always)]
    fn dot_bytes(self, x: V, weights: V) -> V {
        let byte = |x: u32, i: u32| x >> (8 * i) & 0xff;
        let dot = |x, w| (0..4).map(|i| byte(x, i) * byte(w, i)).sum();
        each!(dot, x, weights)
    }
    #[inline(always)]
    fn crc32c(self, crc: u32, bytes: u64) -> u32 {
        let bytes = (bytes ^ u64::from(crc)).to_le_bytes();
        let mut crc = 0;
        for (table, byte) in CRC32C.iter().rev().zip(bytes) {
            crc ^= table[usize::from(byte)];
        }
        crc
    }
    #[inline(always)]
    fn turn16<const FIRST: usize>(self, x: V) -> V {
        let mut turned = x;
        for (i, x) in turned.iter_mut().enumerate() {
            let low = (*x as u16).rotate_left((2 * i + FIRST) as u32);
            let high = ((*x >> 16) as u16).rotate_left((2 * i + 1 + FIRST) as u32);
            *x = u32::from(low) | u32::from(high) << 16;
        }
        turned
    }
    #[inline(always)]
    fn xor64(self, [a, b, c, d]: V) -> u64 {
        u64::from(a ^ c) | u64::from(b ^ d) << 32
    }
    #[inline(always)]
    fn sum64(self, x: V) -> u64 {
        let x = to64(x);
        x[0].wrapping_add(x[1])
    }
    #[inline(always)]
    fn pin(self, x: V) -> V {
        core::hint::black_box(x)
    }
    #[inline(always)]
    fn keep_load(self, x: V) {
        for x in to64(x) {
            super::made(x);
        }
    }
    #[inline(always)]
    fn call<K: LoopBody<Self>>(self, body: K) -> K::Output {
        let shell: fn(K) -> K::Output = core::hint::black_box(shell::<K>);
        shell(body)
    }
}
