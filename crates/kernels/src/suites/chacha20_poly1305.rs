//! ChaCha20-Poly1305: ours, and the library's where the execution is sequential.
#![forbid(unsafe_code)]

use super::{Cipher, Standing, Suite};
use crate::Execution;
use crate::library::LibraryLoops;
use crate::mask::Mask;
use crate::staged::{Pass, Staged, Tagged};
use crate::stages::ChaChaKey;
use crate::transform::{Pipeline, Plan, Public};
use aws_lc_rs::aead;
use fusewire_base::Sum;

static CHACHA20_POLY1305: Suite = Suite {
    id: 3,
    name: "chacha20-poly1305",
    parameter: None,
    key_len: 32,
    nonce_len: 12,
    tag_len: 16,
    block_len: 1,
    // RFC 9001, section 6.6, for messages up to 2^16 bytes.
    integrity_limit: 1 << 36,
    standing: Standing::Standard,
    source: "RFC 8439",
    mask: Some(Mask::chacha),
    library: Some(&aead::CHACHA20_POLY1305),
    bind,
};

impl Cipher {
    /// ChaCha20 and Poly1305 (RFC 8439).
    pub const CHACHA20_POLY1305: Cipher = Cipher::of(&CHACHA20_POLY1305);
}

fn bind(plan: Plan, key: &[u8]) -> Box<dyn Pipeline> {
    let key: &[u8; 32] = key.try_into().expect("a key of the suite's length");
    match plan.execution {
        Execution::Sequential => Box::new(LibraryLoops::new(plan, &aead::CHACHA20_POLY1305, key)),
        Execution::Integrated | Execution::Blocked => {
            Box::new(Staged::new(plan, ChaChaKey::new(key)))
        }
    }
}

impl Tagged for ChaChaKey {
    type Tag = [u8; 16];

    fn send(&mut self, public: &Public<'_>, pass: Pass<'_>) -> ([u8; 16], Sum) {
        let (level, len) = (pass.level, pass.src.len());
        level.run(pass.sending(self.seal(public.nonce(), public.aad, len)))
    }

    fn receive(&mut self, public: &Public<'_>, pass: Pass<'_>) -> (Sum, [u8; 16]) {
        let (level, len) = (pass.level, pass.src.len());
        level.run(pass.receiving(self.open(public.nonce(), public.aad, len)))
    }
}
