//! Keys of one direction: a traffic secret, the key and IV of an epoch, the ratchet to the next.
//!
//! A secret of 32 bytes comes from the TLS exporter (RFC 8446, section 7.5; RFC 5705). From it, with
//! HKDF-Expand and SHA-256 (RFC 5869) and an info of TLS's HkdfLabel shape (RFC 8446, section 7.1) under
//! the prefix `fusewire `:
//!
//! ```text
//! key[e]      = Expand-Label(secret[e], "key", "", key length of the cipher)
//! iv[e]       = Expand-Label(secret[e], "iv",  "", nonce length of the cipher)
//! secret[e+1] = Expand-Label(secret[e], "ku",  "", 32)
//! token       = Expand-Label(secret[0], "token", "", 32)
//! header key  = Expand-Label(secret[0], "hp", "", key length of the cipher)
//! ```
//! A secret that no traffic is keyed from makes what the session exports (`exporter`).
//! All key bytes are wiped when they are dropped.

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use fusewire_kernels::suites::{Cipher, KEY_LEN_MAX, NONCE_LEN_MAX};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Label of the TLS exporter. `EXPERIMENTAL` marks a label that IANA need not know (RFC 5705, section 4).
pub const EXPORTER_LABEL: &[u8] = b"EXPERIMENTAL fusewire records v1";

/// Prefix of every label of [`expand_label`].
pub const LABEL_PREFIX: &[u8] = b"fusewire ";

/// What a process shows that calls over a Unix socket, to be taken for the session's other end.
pub type Token = [u8; 32];

/// The secret that a direction's keys of one epoch come from.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct TrafficSecret([u8; 32]);

/// What records' nonces are made of; it lies at the end, after zeros.
pub(crate) type Iv = [u8; NONCE_LEN_MAX];

/// Key and IV of one direction and epoch. `key` is filled to the cipher's length, then zero.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct EpochKey {
    pub(crate) key: [u8; KEY_LEN_MAX],
    pub(crate) iv: Iv,
}

struct Len(usize);

impl KeyType for Len {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand with SHA-256 and a label, as in the module's text.
///
/// # Panics
/// If `out` is longer than 8160 bytes, or `label` than 246.
pub fn expand_label(secret: &[u8; 32], label: &[u8], out: &mut [u8]) {
    expand_label_with(secret, label, b"", out);
}

/// The same with a context: at most 255 bytes, a hash as a rule.
pub(crate) fn expand_label_with(secret: &[u8; 32], label: &[u8], context: &[u8], out: &mut [u8]) {
    let len = (out.len() as u16).to_be_bytes();
    let label_len = u8::try_from(LABEL_PREFIX.len() + label.len()).expect("a label is short");
    let context_len = u8::try_from(context.len()).expect("a context is a hash");
    let info = [&len[..], &[label_len], LABEL_PREFIX, label, &[context_len], context];
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    prk.expand(&info, Len(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("HKDF gives up to 255 hashes");
}

impl TrafficSecret {
    /// From 32 bytes that only the two sides know.
    pub const fn from_bytes(bytes: [u8; 32]) -> TrafficSecret {
        TrafficSecret(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The secret of the next epoch.
    #[must_use]
    pub fn next(&self) -> TrafficSecret {
        let mut next = TrafficSecret([0; 32]);
        expand_label(&self.0, b"ku", &mut next.0);
        next
    }

    /// Says nothing of the keys to whom it is shown.
    pub(crate) fn token(&self) -> Token {
        let mut token = [0; 32];
        expand_label(&self.0, b"token", &mut token);
        token
    }

    /// The key of a direction's headers, filled to the cipher's length, then zero (RFC 9001, section 5.4).
    pub(crate) fn header_key(&self, cipher: Cipher) -> Zeroizing<[u8; KEY_LEN_MAX]> {
        let mut key = Zeroizing::new([0; KEY_LEN_MAX]);
        expand_label(&self.0, b"hp", &mut key[..cipher.key_len]);
        key
    }

    pub(crate) fn epoch_key(&self, cipher: Cipher) -> EpochKey {
        let mut out = EpochKey { key: [0; KEY_LEN_MAX], iv: [0; NONCE_LEN_MAX] };
        if cipher.key_len > 0 {
            expand_label(&self.0, b"key", &mut out.key[..cipher.key_len]);
        }
        if cipher.nonce_len > 0 {
            expand_label(&self.0, b"iv", &mut out.iv[NONCE_LEN_MAX - cipher.nonce_len..]);
        }
        out
    }
}

fusewire_base::hidden!(TrafficSecret);

#[cfg(test)]
mod tests {
    use super::*;

    /// Once more, by HMAC alone: T(1) = HMAC(secret, info | 1) (RFC 5869, section 2.3).
    #[test]
    fn expand_label_is_hkdf() {
        use aws_lc_rs::hmac;
        let secret = [7; 32];
        let mut out = [0; 32];
        expand_label(&secret, b"ku", &mut out);
        let mut info = vec![0, 32, 11];
        info.extend(b"fusewire ku");
        info.extend([0, 1]);
        let expected = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), &info);
        assert_eq!(out, expected.as_ref());
    }

    #[test]
    fn secrets_are_wiped_on_drop() {
        fn wipes<T: ZeroizeOnDrop>() {}
        wipes::<TrafficSecret>();
        wipes::<EpochKey>();
        let mut secret = TrafficSecret([9; 32]);
        secret.zeroize();
        assert_eq!(secret.0, [0; 32]);
        assert_eq!(format!("{secret:?}"), "TrafficSecret(..)");
    }
}
