//! AES-GCM against aws-lc-rs.
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fusewire_base::Sum;
use fusewire_kernels::{Level, gcm::GcmKey};

fn noise(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i + seed).wrapping_mul(2_654_435_761) >> 21) as u8).collect()
}

#[test]
fn every_length_equals_aws_lc() {
    for level in Level::available() {
        for bytes in [16, 32] {
            let secret = noise(bytes, 77);
            let Some(key) = GcmKey::new(level, &secret) else { continue };
            eprintln!("{level} {bytes}");
            let theirs = LessSafeKey::new(
                UnboundKey::new(if bytes == 16 { &AES_128_GCM } else { &AES_256_GCM }, &secret)
                    .unwrap(),
            );
            for len in (0..1100).chain([4095, 4096, 4097, 5000, 16384, 70_001]) {
                let element = [1, 2, 4, 8][len % 4];
                let aad = noise([16, 16, 0, 1, 15, 17, 40][len % 7], 3);
                let nonce: [u8; 12] = noise(12, len as u32).try_into().unwrap();
                let src = noise(len, 9);
                let mut want = src.clone();
                want.chunks_exact_mut(element).for_each(<[u8]>::reverse);
                let tag = theirs
                    .seal_in_place_separate_tag(
                        Nonce::assume_unique_for_key(nonce),
                        Aad::from(&aad),
                        &mut want,
                    )
                    .unwrap();
                let mut dst = vec![0; len];
                let mut got = [0; 16];
                let sum = key.seal(element, &nonce, &aad, &src, &mut dst, &mut got);
                assert_eq!(dst, want, "seal {level} {len}");
                assert_eq!(got, tag.as_ref(), "tag {level} {len}");
                assert_eq!(sum, Sum::of(&want), "sum {level} {len}");
                let mut back = vec![0; len];
                let (sum, ok) = key.open(element, &nonce, &aad, &want, &got, &mut back);
                assert!(ok, "open {level} {len}");
                assert_eq!(back, src, "open {level} {len}");
                assert_eq!(sum, Sum::of(&want), "sum {level} {len}");
            }
        }
    }
}
