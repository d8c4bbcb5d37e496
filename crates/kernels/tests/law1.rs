//! Law 1: every execution of every pipeline gives the same bytes and sums as a slow oracle.

use fusewire_base::Sum;
use fusewire_kernels::Level;
use fusewire_kernels::execution::{Blocked, ByPointer, Integrated, Sequential};
use fusewire_kernels::stage::then;
use fusewire_kernels::stages::{InternetSum, Swap};

#[test]
fn swap_and_sum() {
    let levels = Level::available();
    for &level in &levels {
        for len in (0..600).chain([4095, 4096, 5000, 70_001]) {
            let src: Vec<u8> =
                (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let mut want = src.clone();
            want.chunks_exact_mut(4).for_each(<[u8]>::reverse);
            let sum = Sum::of(&want);
            let pipeline = then(Swap::<4>, InternetSum);
            let pointers = ByPointer(pipeline);
            let mut dst = vec![0; len];
            let mut work = vec![0; len];
            let got = level.run(Integrated { stage: &pipeline, src: &src, dst: &mut dst });
            assert_eq!((&dst, got.1), (&want, sum), "integrated {level} {len}");
            dst.fill(0);
            let got = level.run(Integrated { stage: &pointers, src: &src, dst: &mut dst });
            assert_eq!((&dst, got.1), (&want, sum), "pointers {level} {len}");
            dst.fill(0);
            let got = level.run(Blocked { stage: &pipeline, src: &src, dst: &mut dst });
            assert_eq!((&dst, got.1), (&want, sum), "blocked {level} {len}");
            dst.fill(0);
            let got = level.run(Sequential {
                stage: &pipeline,
                src: &src,
                work: &mut work,
                dst: &mut dst,
            });
            assert_eq!((&dst, got.1), (&want, sum), "sequential {level} {len}");
        }
    }
}
