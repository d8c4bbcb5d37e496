//! AES-256-GCM in one loop against aws-lc-rs with the best passes around it, alternating.
//!
//! `cargo run --release -p fusewire-kernels --example gcm [LEVEL [SIZE…]]` prints, for each direction and size,
//! the medians of both in GB/s, and their ratio with its quartiles. Buffers are reused.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fusewire_base::Sum;
use fusewire_kernels::execution::{Integrated, Scan};
use fusewire_kernels::gcm::GcmKey;
use fusewire_kernels::stages::{InternetSum, Swap as SwapStage};
use fusewire_kernels::{Level, Swap};
use std::hint::black_box;
use std::time::Instant;

const NONCE: [u8; 12] = [7; 12];
const AAD: [u8; 16] = [1; 16];

struct Bench {
    level: Level,
    ours: GcmKey,
    theirs: LessSafeKey,
    src: Vec<u8>,
    sealed: Vec<u8>,
    work: Vec<u8>,
    dst: Vec<u8>,
    tag: [u8; 16],
}

impl Bench {
    fn new(level: Level, len: usize) -> Bench {
        let secret = [42; 32];
        let ours = GcmKey::new(level, &secret).expect("a level with AES");
        let theirs = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &secret).expect("a key"));
        let src = (0..len).map(|i| (i * 31 + 7) as u8).collect();
        let (sealed, work, dst) = (vec![0; len], vec![0; len + 16], vec![0; len]);
        Bench { level, ours, theirs, src, sealed, work, dst, tag: [0; 16] }
    }

    fn seal(&mut self) -> Sum {
        self.ours.seal(Swap::Bytes32, &NONCE, &AAD, &self.src, &mut self.dst, &mut self.tag)
    }

    fn open(&mut self) -> Sum {
        let opened =
            self.ours.open(Swap::Bytes32, &NONCE, &AAD, &self.sealed, &self.tag, &mut self.dst);
        assert!(opened.authentic);
        opened.sum
    }

    fn seal_reference(&mut self) -> Sum {
        let len = self.src.len();
        let work = &mut self.work[..len];
        self.level.run(Integrated { stage: &SwapStage::<4>, src: &self.src, dst: work });
        let nonce = Nonce::assume_unique_for_key(NONCE);
        let tag =
            self.theirs.seal_in_place_separate_tag(nonce, Aad::from(AAD), work).expect("sealed");
        self.tag = tag.as_ref().try_into().expect("sixteen bytes");
        let sum = self.level.run(Scan { stage: &InternetSum, src: work });
        self.dst.copy_from_slice(work);
        sum
    }

    fn open_reference(&mut self) -> Sum {
        let len = self.src.len();
        self.work[..len].copy_from_slice(&self.sealed);
        self.work[len..].copy_from_slice(&self.tag);
        let sum = self.level.run(Scan { stage: &InternetSum, src: &self.work[..len] });
        let nonce = Nonce::assume_unique_for_key(NONCE);
        let plain =
            self.theirs.open_in_place(nonce, Aad::from(AAD), &mut self.work).expect("authentic");
        self.level.run(Integrated { stage: &SwapStage::<4>, src: plain, dst: &mut self.dst });
        sum
    }
}

fn seconds(bench: &mut Bench, f: fn(&mut Bench) -> Sum, times: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..times {
        black_box(f(black_box(bench)));
    }
    begin.elapsed().as_secs_f64() / times as f64
}

fn quartiles(mut x: Vec<f64>) -> [f64; 3] {
    x.sort_by(f64::total_cmp);
    [x[x.len() / 4], x[x.len() / 2], x[x.len() * 3 / 4]]
}

fn main() {
    let level = std::env::args()
        .nth(1)
        .map_or_else(Level::detect, |name| Level::from_name(&name).expect("a level of this CPU"));
    println!("level {level}");
    println!(
        "{:8} {:>8} {:>10} {:>10} {:>7}  (quartiles)",
        "", "bytes", "one loop", "reference", "ratio"
    );
    let mut sizes: Vec<usize> =
        std::env::args().skip(2).map(|size| size.parse().expect("bytes")).collect();
    if sizes.is_empty() {
        sizes = vec![64, 256, 512, 1024, 1388, 4096, 16384, 65536, 1 << 20, 64 << 20];
    }
    for (name, ours, reference) in [
        (
            "send",
            Bench::seal as fn(&mut Bench) -> Sum,
            Bench::seal_reference as fn(&mut Bench) -> Sum,
        ),
        ("receive", Bench::open, Bench::open_reference),
    ] {
        for &len in &sizes {
            let mut bench = Bench::new(level, len);
            let expected = bench.seal_reference();
            let want = bench.dst.clone();
            let tag = bench.tag;
            assert_eq!(bench.seal(), expected);
            assert!(bench.dst == want && bench.tag == tag);
            bench.sealed.copy_from_slice(&want);
            assert!(ours(&mut bench) == reference(&mut bench));
            let times = (400_000 / (len + 200)).max(1);
            let rounds = if len > 4 << 20 { 7 } else { 301 };
            let (mut a, mut b, mut ratios) = (vec![], vec![], vec![]);
            for _ in 0..rounds {
                let (x, y) =
                    (seconds(&mut bench, ours, times), seconds(&mut bench, reference, times));
                a.push(len as f64 / x / 1e9);
                b.push(len as f64 / y / 1e9);
                ratios.push(y / x);
            }
            let [low, ratio, high] = quartiles(ratios);
            let (a, b) = (quartiles(a)[1], quartiles(b)[1]);
            println!("{name:8} {len:8} {a:10.2} {b:10.2} {ratio:7.2}  ({low:.2}..{high:.2})");
        }
    }
}
