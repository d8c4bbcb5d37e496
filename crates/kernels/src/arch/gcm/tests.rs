//! The loop at every width against an oracle that shares nothing with it, also at widths that this CPU
//! lacks: [`Twofold`] makes a vector of twice the blocks from any other.

use super::*;
use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

/// Two vectors as one.
#[derive(Clone, Copy)]
struct Twofold<V>(V, V);

/// Methods of two vectors, one of each.
macro_rules! of_two {
    ($($name:ident)*) => {$(
        #[inline(always)]
        unsafe fn $name(a: Self, b: Self) -> Self {
            // SAFETY: what the caller vouches for is what `V` asks for, twice.
            unsafe { Twofold(V::$name(a.0, b.0), V::$name(a.1, b.1)) }
        }
    )*};
}

// SAFETY of all blocks: as for those of the macro.
impl<V: Vector> Vector for Twofold<V> {
    const BLOCKS: usize = 2 * V::BLOCKS;
    of_two!(xor and add64 sub64 shuffle aes_round aes_last mul_low mul_high unpack_low unpack_high);
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::zero(), V::zero()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::load(from), V::load(from.add(V::BYTES))) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u8, v: Self) {
        // SAFETY: as above.
        unsafe {
            V::store(to, v.0);
            V::store(to.add(V::BYTES), v.1);
        }
    }
    #[inline(always)]
    unsafe fn broadcast(block: __m128i) -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::broadcast(block), V::broadcast(block)) }
    }
    #[inline(always)]
    unsafe fn first(block: __m128i) -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::first(block), V::zero()) }
    }
    #[inline(always)]
    unsafe fn second(block: __m128i) -> Self {
        // SAFETY: as above.
        unsafe {
            if V::BLOCKS == 1 {
                Twofold(V::zero(), V::first(block))
            } else {
                Twofold(V::second(block), V::zero())
            }
        }
    }
    #[inline(always)]
    unsafe fn shl64<const BITS: u32>(a: Self) -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::shl64::<BITS>(a.0), V::shl64::<BITS>(a.1)) }
    }
    #[inline(always)]
    unsafe fn shr64<const BITS: u32>(a: Self) -> Self {
        // SAFETY: as above.
        unsafe { Twofold(V::shr64::<BITS>(a.0), V::shr64::<BITS>(a.1)) }
    }
    #[inline(always)]
    unsafe fn sum64(a: Self) -> u64 {
        // SAFETY: as above.
        unsafe { V::sum64(a.0).wrapping_add(V::sum64(a.1)) }
    }
    #[inline(always)]
    unsafe fn fold(a: Self) -> __m128i {
        // SAFETY: as above.
        unsafe { V::fold(V::xor(a.0, a.1)) }
    }
    #[inline(always)]
    unsafe fn pin(v: &mut Self) {
        // SAFETY: as above.
        unsafe {
            V::pin(&mut v.0);
            V::pin(&mut v.1);
        }
    }
}

/// Runs one message, swapped by 32 bits and summed, with four blocks as two and two.
struct TwoAndTwo<'a, const SEAL: bool> {
    key: &'a [u8],
    inputs: Inputs<'a>,
    src: &'a [u8],
    dst: &'a mut [u8],
}

impl<const SEAL: bool> TwoAndTwo<'_, SEAL> {
    /// # Safety
    /// The CPU has the instructions of `V`, and those of `Context::expand`.
    #[inline(always)]
    unsafe fn go<V: Vector>(self) -> Found {
        assert_eq!(self.src.len(), self.dst.len());
        let (src, dst) = (self.src.as_ptr(), self.dst.as_mut_ptr());
        let message = self.inputs.message(4, src, dst, self.src.len());
        let mut context = Box::new(Context::empty());
        // SAFETY: as the caller vouches; the slices have one length.
        unsafe {
            context.expand(self.key, V::BLOCKS);
            Job::<SEAL, true> { context: &context, message }.run::<V>()
        }
    }
}

/// Each level has the widest vector that it can stand for, four blocks at most.
impl<const SEAL: bool> AesLoopBody for TwoAndTwo<'_, SEAL> {
    type Output = Found;
    #[inline(always)]
    unsafe fn run<V: Vector>(self) -> Found {
        // SAFETY: as the caller vouches: who has the wider instructions has the narrower.
        unsafe {
            if V::BLOCKS == 1 {
                self.go::<Twofold<__m128i>>()
            } else {
                self.go::<Twofold<__m256i>>()
            }
        }
    }
}

/// AES-CTR by the library and GHASH bit by bit (NIST SP 800-38D, algorithms 1 to 4).
struct Oracle {
    key: Vec<u8>,
}

impl Oracle {
    /// The cipher's blocks for counters from `counter` on, modulo 2^32.
    fn stream(&self, nonce: &[u8; 12], counter: u32, len: usize) -> Vec<u8> {
        let algorithm = if self.key.len() == 16 { &AES_128 } else { &AES_256 };
        let mut stream = vec![0; len];
        // The library counts on beyond 32 bits, so the wrap begins a new piece.
        let before = (u64::from(u32::MAX - counter) + 1) * 16;
        let split = len.min(usize::try_from(before).unwrap_or(usize::MAX));
        let (head, tail) = stream.split_at_mut(split);
        for (piece, counter) in [(head, counter), (tail, 0)] {
            let mut block = [0; 16];
            block[..12].copy_from_slice(nonce);
            block[12..].copy_from_slice(&counter.to_be_bytes());
            let key = UnboundCipherKey::new(algorithm, &self.key).unwrap();
            let key = EncryptingKey::ctr(key).unwrap();
            let context = EncryptionContext::Iv128(FixedLength::from(block));
            if !piece.is_empty() {
                key.less_safe_encrypt(piece, context).unwrap();
            }
        }
        stream
    }

    fn tag(&self, nonce: &[u8; 12], aad: &[u8], sealed: &[u8]) -> [u8; 16] {
        let h = u128::from_be_bytes(self.stream(&[0; 12], 0, 16).try_into().unwrap());
        let mut hash = 0u128;
        let lengths = ((aad.len() as u128 * 8) << 64) | (sealed.len() as u128 * 8);
        let blocks = aad.chunks(16).chain(sealed.chunks(16)).map(|bytes| {
            let mut block = [0; 16];
            block[..bytes.len()].copy_from_slice(bytes);
            u128::from_be_bytes(block)
        });
        for block in blocks.chain([lengths]) {
            hash = multiply_bits(hash ^ block, h);
        }
        let mask = u128::from_be_bytes(self.stream(nonce, 1, 16).try_into().unwrap());
        (hash ^ mask).to_be_bytes()
    }
}

fn multiply_bits(x: u128, y: u128) -> u128 {
    let (mut z, mut v) = (0, y);
    for i in (0..128).rev() {
        if (x >> i) & 1 == 1 {
            z ^= v;
        }
        v = if v & 1 == 1 { (v >> 1) ^ (0xe1 << 120) } else { v >> 1 };
    }
    z
}

fn noise(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

/// Seals and opens with `run` and compares with the oracle.
fn check(name: &str, run: impl Fn(Direction, &[u8], Inputs<'_>, &[u8], &mut [u8]) -> Found) {
    println!("vectors: {name}");
    let counters = [FIRST, 3, 127, 240, 255, 256, 0xffff_feff, u32::MAX - 9, u32::MAX];
    let lengths = (0..40).chain((40..1200).step_by(37)).chain([1024, 1088, 4096, 9001, 20_000]);
    for len in lengths {
        for (i, counter) in counters.into_iter().enumerate() {
            let key = noise(if (len + i) % 2 == 0 { 16 } else { 32 }, 3);
            let oracle = Oracle { key: key.clone() };
            let nonce: [u8; 12] = noise(12, len as u32).try_into().unwrap();
            let aad = noise([16, 0, 7, 33][(len + i) % 4], 4);
            let (src, mut dst) = (noise(len, 5), vec![0; len]);
            let mut want = src.clone();
            want.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            for (byte, key) in want.iter_mut().zip(oracle.stream(&nonce, counter, len)) {
                *byte ^= key;
            }
            let lengths = Some([aad.len(), len]);
            let inputs = Inputs { nonce: &nonce, start: HashStart::Aad(&aad), lengths, counter };
            let found = Found { tag: oracle.tag(&nonce, &aad, &want), sum: Sum::of(&want) };
            let got = run(Direction::Seal, &key, inputs, &src, &mut dst);
            assert!(dst == want, "{name} seals {len} bytes from counter {counter:#x}");
            assert_eq!(got, found, "{name} seals {len} bytes from counter {counter:#x}");
            let got = run(Direction::Open, &key, inputs, &want, &mut dst);
            assert!(dst == src, "{name} opens {len} bytes from counter {counter:#x}");
            assert_eq!(got, found, "{name} opens {len} bytes from counter {counter:#x}");
        }
    }
}

#[test]
fn every_width_equals_the_oracle() {
    for level in Level::available() {
        if !level.aes() {
            continue;
        }
        check(level.name(), |direction, key, inputs, src, dst| {
            let key = Key::new(level, key).expect("the level has AES");
            key.run(direction, Fused::SwapAndSum(4), inputs, src, dst)
        });
        check(&format!("{level} twofold"), |direction, key, inputs, src, dst| {
            let found = match direction {
                Direction::Seal => level.run_aes(TwoAndTwo::<true> { key, inputs, src, dst }).ok(),
                Direction::Open => level.run_aes(TwoAndTwo::<false> { key, inputs, src, dst }).ok(),
            };
            found.expect("the level has AES")
        });
    }
}

#[test]
fn pieces_join() {
    let (nonce, aad) = ([1; 12], noise(20, 1));
    for level in Level::available() {
        let Some(key) = Key::new(level, &[7; 32]) else { continue };
        for len in [16, 48, 1024, 1040, 2000] {
            let src = noise(len, 2);
            let fused = Fused::Nothing;
            let lengths = Some([aad.len(), len]);
            let inputs =
                Inputs { nonce: &nonce, start: HashStart::Aad(&aad), lengths, counter: FIRST };
            let mut want = vec![0; len];
            let found = key.run(Direction::Seal, fused, inputs, &src, &mut want);
            for cut in (16..len).step_by(16) {
                let mut got = src.clone();
                let (head, tail) = got.split_at_mut(cut);
                let first = key.seal_in_place(Inputs { lengths: None, ..inputs }, head);
                let counter = FIRST + cut as u32 / 16;
                let rest = Inputs { start: HashStart::Hash(&first.tag), counter, ..inputs };
                assert_eq!(key.seal_in_place(rest, tail), found, "{level} {len} {cut}");
                assert!(got == want, "{level} {len} {cut}");
            }
        }
    }
}
