//! The library's AEADs (aws-lc-rs): the reference, the sequential execution's cipher, and what levels
//! without a fused cipher use.
#![forbid(unsafe_code)]

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};

/// An AEAD key of the library.
pub(crate) struct Library(LessSafeKey);

impl Library {
    fn new(algorithm: &'static Algorithm, key: &[u8]) -> Library {
        let key = UnboundKey::new(algorithm, key).expect("the key's length is the algorithm's");
        Library(LessSafeKey::new(key))
    }

    pub(crate) fn aes_256_gcm(key: &[u8; 32]) -> Library {
        Library::new(&AES_256_GCM, key)
    }

    pub(crate) fn aes_128_gcm(key: &[u8; 16]) -> Library {
        Library::new(&AES_128_GCM, key)
    }

    pub(crate) fn chacha20_poly1305(key: &[u8; 32]) -> Library {
        Library::new(&CHACHA20_POLY1305, key)
    }

    /// Seals in place and gives the tag.
    pub(crate) fn seal(&self, nonce: &[u8; 12], aad: &[u8], bytes: &mut [u8]) -> [u8; 16] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let sealed = self.0.seal_in_place_separate_tag(nonce, Aad::from(aad), bytes);
        let sealed = sealed.expect("a message is shorter than the algorithm's limit");
        let mut tag = [0; 16];
        tag.copy_from_slice(sealed.as_ref());
        tag
    }

    /// Opens from `src` into `dst`, of the same length, and says whether the tag was right. When it
    /// was not, `dst` holds zeros.
    pub(crate) fn open(
        &self,
        nonce: &[u8; 12],
        aad: &[u8],
        src: &[u8],
        tag: &[u8; 16],
        dst: &mut [u8],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_separate_gather(nonce, Aad::from(aad), src, tag, dst);
        if opened.is_err() {
            dst.fill(0);
        }
        opened.is_ok()
    }
}
