//! No cipher, and those without a tag: kept for the papers' comparisons, insecure.
#![forbid(unsafe_code)]

use super::{Cipher, Parameter, Standing, Suite};
use crate::stages::{PesKey, SAFER_MAX_ROUNDS, SaferKey, SaferSimplifiedKey};
use crate::tagless::{self, Plain};

static NONE: Suite = Suite {
    id: 0x80,
    name: "none",
    key_len: 0,
    block_len: 1,
    source: "",
    bind: |plan, _| tagless::bind(plan, Plain),
    ..BLOCKS
};

static PES: Suite = Suite { id: 0x81, name: "pes", source: "Abbott and Peterson", ..BLOCKS };

static SAFER_SIMPLIFIED: Suite = Suite {
    id: 0x82,
    name: "safer-simplified",
    source: "docs/safer.md",
    bind: |plan, key| tagless::bind(plan, SaferSimplifiedKey::new(exactly(key))),
    ..BLOCKS
};

static SAFER_K64: Suite = Suite {
    id: 0x83,
    name: "safer-k64",
    parameter: rounds(6),
    bind: |plan, key| tagless::bind(plan, SaferKey::k64(exactly(key), plan.parameter)),
    ..BLOCKS
};

static SAFER_SK64: Suite = Suite {
    name: "safer-sk64",
    parameter: rounds(8),
    bind: |plan, key| tagless::bind(plan, SaferKey::sk64(exactly(key), plan.parameter)),
    ..BLOCKS
};

static SAFER_SK128: Suite = Suite {
    name: "safer-sk128",
    parameter: rounds(10),
    key_len: 16,
    bind: |plan, key| tagless::bind(plan, SaferKey::sk128(exactly(key), plan.parameter)),
    ..BLOCKS
};

/// What most of them have in common.
const BLOCKS: Suite = Suite {
    id: 0,
    name: "",
    parameter: None,
    key_len: 8,
    nonce_len: 0,
    tag_len: 0,
    block_len: 8,
    integrity_limit: 1 << 52,
    standing: Standing::Insecure,
    source: "Massey",
    mask: None,
    library: None,
    bind: |plan, key| tagless::bind(plan, PesKey::new(exactly(key))),
};

/// From one round to as many as the key schedule is defined for.
const fn rounds(usual: u8) -> Option<Parameter> {
    Some(Parameter { what: "rounds", min: 1, max: SAFER_MAX_ROUNDS as u8, usual })
}

fn exactly<const N: usize>(key: &[u8]) -> [u8; N] {
    key.try_into().expect("a key of the suite's length")
}

impl Cipher {
    /// Nothing. Insecure.
    pub const NONE: Cipher = Cipher::of(&NONE);
    /// The add/xor pseudo-encryption of Abbott and Peterson. Insecure.
    pub const PES: Cipher = Cipher::of(&PES);
    /// One round of SAFER, as `docs/safer.md` has it. Insecure.
    pub const SAFER_SIMPLIFIED: Cipher = Cipher::of(&SAFER_SIMPLIFIED);
    /// SAFER K-64 with the 6 rounds that its author asks for. Insecure: 64-bit key, no tag.
    pub const SAFER_K64: Cipher = Cipher::of(&SAFER_K64);
    /// SAFER SK-64: K-64 with the strengthened key schedule. Insecure, and of the kernels alone.
    pub const SAFER_SK64: Cipher = Cipher::of(&SAFER_SK64);
    /// SAFER SK-128: two user keys, the strengthened key schedule. Insecure, and of the kernels alone.
    pub const SAFER_SK128: Cipher = Cipher::of(&SAFER_SK128);
}
