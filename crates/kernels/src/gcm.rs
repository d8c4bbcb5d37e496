//! AES-128-GCM and AES-256-GCM (NIST SP 800-38D) fused with byte swap and Internet sum.
#![forbid(unsafe_code)]

use crate::Level;
use crate::arch::gcm::{Around, Call, Direction, Key};
use fusewire_base::Sum;

/// key
pub struct GcmKey {
    key: Key,
}

impl GcmKey {
    /// new
    pub fn new(level: Level, key: &[u8]) -> Option<GcmKey> {
        Some(GcmKey { key: Key::new(level, key)? })
    }
    /// seal
    #[inline(never)]
    pub fn seal(
        &self,
        element: usize,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        dst: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Sum {
        let call = Call { nonce, aad, src, counter: 2 };
        let d = self.key.run(Direction::Seal, Around { element, sum: true }, call, dst);
        *tag = d.tag;
        d.sum
    }
    /// open
    #[inline(never)]
    pub fn open(
        &self,
        element: usize,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> (Sum, bool) {
        let call = Call { nonce, aad, src, counter: 2 };
        let d = self.key.run(Direction::Open, Around { element, sum: true }, call, dst);
        let ok = aws_lc_rs::constant_time::verify_slices_are_equal(&d.tag, tag).is_ok();
        if !ok {
            dst.fill(0)
        }
        (d.sum, ok)
    }
}
