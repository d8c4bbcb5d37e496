//! The keys of one direction by stream offset: epoch = offset >> exponent.

use super::RecordParams;
use crate::keys::{Iv, TrafficSecret};
use fusewire_kernels::Transform;

/// What opens or seals the records that begin in one epoch. Dropping it wipes its keys.
pub(super) struct Epoch {
    pub(super) transform: Transform,
    iv: Iv,
}

/// A record's nonce.
pub(super) struct Nonce {
    /// It is what is at the end.
    bytes: Iv,
    from: usize,
}

impl Nonce {
    /// As many bytes as the cipher wants.
    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl Epoch {
    pub(super) fn new(params: &RecordParams, secret: &TrafficSecret) -> Epoch {
        let (data_pass, cipher) = (params.data_pass, params.cipher);
        let keys = secret.epoch_key(cipher);
        let key = &keys.key[..cipher.key_len];
        let transform =
            Transform::new(data_pass.level, data_pass.execution, params.element, cipher, key);
        Epoch { transform, iv: keys.iv }
    }

    /// IV xor offset, the offset at the right end.
    #[inline]
    pub(super) fn nonce(&self, offset: u64) -> Nonce {
        let mut bytes = self.iv;
        let end = bytes.last_chunk_mut().expect("an IV has more than 8 bytes");
        *end = (u64::from_be_bytes(*end) ^ offset).to_be_bytes();
        Nonce { from: bytes.len() - self.transform.nonce_len(), bytes }
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.iv);
    }
}

/// Turns the ratchet from epoch 0 to `epoch`. Gives that epoch's keys and the next one's secret.
pub(super) fn at(
    params: &RecordParams,
    secret: TrafficSecret,
    epoch: u64,
) -> (Epoch, TrafficSecret) {
    let mut secret = secret;
    for _ in 0..epoch {
        secret = secret.next();
    }
    (Epoch::new(params, &secret), secret.next())
}
