//! The keys of one direction by stream offset: epoch = offset >> exponent.

use super::RecordParams;
use crate::kernel::Transform;
use crate::keys::TrafficSecret;

/// What opens or seals the records that begin in one epoch. Dropping it wipes its keys.
pub(super) struct Epoch {
    pub(super) transform: Transform,
    iv: u128,
}

impl Epoch {
    pub(super) fn new(params: &RecordParams, secret: &TrafficSecret) -> Epoch {
        let keys = secret.epoch_key(params.cipher);
        let mut iv = [0; 16];
        iv[4..].copy_from_slice(&keys.iv);
        let kernel = params.kernel;
        let key = params.cipher.kernel_key(&keys.key);
        let transform = Transform::new(kernel.level, kernel.execution, params.element, &key);
        Epoch { transform, iv: u128::from_be_bytes(iv) }
    }

    /// IV xor offset, the offset at the right end of 12 bytes.
    #[inline]
    pub(super) fn nonce(&self, offset: u64) -> [u8; 12] {
        let bytes = (self.iv ^ u128::from(offset)).to_be_bytes();
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&bytes[4..]);
        nonce
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
