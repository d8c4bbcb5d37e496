//! AES-GCM: ours where the level has AES and the execution is not sequential, otherwise the library's.
#![forbid(unsafe_code)]

use super::{Cipher, Standing, Suite};
use crate::arch::gcm::Fused;
use crate::gcm::{GcmKey, Progress};
use crate::library::LibraryLoops;
use crate::mask::Mask;
use crate::message::{Piece, Pieces};
use crate::transform::{Opened, Pipeline, Plan, Public};
use crate::{Execution, Found, Swap};
use aws_lc_rs::aead;

static AES_256_GCM: Suite = Suite {
    id: 1,
    name: "aes-256-gcm",
    key_len: 32,
    library: Some(&aead::AES_256_GCM),
    bind: |plan, key| bind(plan, &aead::AES_256_GCM, key),
    ..GCM
};

static AES_128_GCM: Suite = Suite {
    id: 2,
    name: "aes-128-gcm",
    key_len: 16,
    library: Some(&aead::AES_128_GCM),
    bind: |plan, key| bind(plan, &aead::AES_128_GCM, key),
    ..GCM
};

/// What they have in common.
const GCM: Suite = Suite {
    id: 0,
    name: "",
    parameter: None,
    key_len: 0,
    nonce_len: 12,
    tag_len: 16,
    block_len: 1,
    // RFC 9001, section 6.6, for messages up to 2^16 bytes.
    integrity_limit: 1 << 52,
    standing: Standing::Standard,
    source: "NIST SP 800-38D",
    mask: Some(Mask::aes),
    library: None,
    bind: |plan, key| bind(plan, &aead::AES_256_GCM, key),
};

impl Cipher {
    /// AES-256 in Galois/Counter Mode (NIST SP 800-38D; RFC 5116).
    pub const AES_256_GCM: Cipher = Cipher::of(&AES_256_GCM);
    /// AES-128 in Galois/Counter Mode (NIST SP 800-38D; RFC 5116).
    pub const AES_128_GCM: Cipher = Cipher::of(&AES_128_GCM);
}

fn bind(plan: Plan, library: &'static aead::Algorithm, key: &[u8]) -> Box<dyn Pipeline> {
    let ours = match plan.execution {
        Execution::Sequential => None,
        Execution::Integrated | Execution::Blocked => GcmKey::new(plan.level, key),
    };
    match ours {
        Some(key) => Box::new(Loops { plan, key, progress: Progress::default() }),
        None => Box::new(LibraryLoops::new(plan, library, key)),
    }
}

/// Ours, integrated or blocked.
struct Loops {
    plan: Plan,
    key: GcmKey,
    /// Of a message in pieces.
    progress: Progress,
}

impl Pipeline for Loops {
    fn send(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &mut [u8]) -> Found {
        let Plan { execution, swap, .. } = self.plan;
        let (nonce, aad) = (public.nonce(), public.aad);
        let tag = tag.try_into().expect("room for a tag of the suite's length");
        public.found(match execution {
            Execution::Blocked => self.key.seal_blocked(swap, nonce, aad, src, dst, tag),
            _ => self.key.seal_as(Fused::of(swap, public.check), nonce, aad, src, dst, tag),
        })
    }

    fn receive(&mut self, src: &[u8], dst: &mut [u8], public: &Public<'_>, tag: &[u8]) -> Opened {
        let Plan { execution, swap, .. } = self.plan;
        let (nonce, aad) = (public.nonce(), public.aad);
        let tag = tag.try_into().expect("a tag of the suite's length");
        let opened = match execution {
            Execution::Blocked => self.key.open_blocked(swap, nonce, aad, src, tag, dst),
            _ => self.key.open_as(Fused::of(swap, public.check), nonce, aad, src, tag, dst),
        };
        Opened { sum: opened.sum.if_asked(public.check), ..opened }
    }

    fn is_one_pass(&self) -> bool {
        self.plan.execution == Execution::Integrated
    }

    fn reserve(&mut self, _: usize) {}

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        self.progress = Progress::default();
        if self.is_one_pass() { Some(self) } else { None }
    }
}

impl Pieces for Loops {
    fn pass(&mut self, piece: &Piece<'_>, swap: Swap, src: &[u8], dst: &mut [u8]) -> Found {
        let Piece { direction, public, len } = *piece;
        let fused = Fused::of(swap, public.check);
        let mut strips = self.progress.of(public.nonce(), public.aad, len);
        let sum =
            strips.next(src.len(), |inputs| self.key.piece(direction, fused, inputs, src, dst));
        self.progress = strips.progress();
        public.found(sum)
    }

    fn finish(&mut self, piece: &Piece<'_>, tag: &mut [u8]) {
        let Piece { public, len, .. } = *piece;
        let strips = self.progress.of(public.nonce(), public.aad, len);
        tag.copy_from_slice(&self.key.tag(strips));
    }
}
