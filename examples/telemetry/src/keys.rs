//! What a plant tells each viewer within their session: the secrets of its two groups.

use fusewire_session::group::GroupKey;
use fusewire_session::{Cipher, DataPass};

/// Bytes of what is told.
pub const LEN: usize = 64;
/// The longest body that is cast.
pub const BODY_MAX: u32 = 1024;

/// The keys of alarms, and of samples.
pub struct Keys([u8; LEN]);

impl Keys {
    /// New ones.
    pub fn draw() -> Result<Keys, aws_lc_rs::error::Unspecified> {
        let mut secrets = [0; LEN];
        aws_lc_rs::rand::fill(&mut secrets)?;
        Ok(Keys(secrets))
    }

    /// As they were told.
    pub fn heard(told: &[u8]) -> Option<Keys> {
        Some(Keys(told.try_into().ok()?))
    }

    /// As they are told.
    pub fn told(&self) -> &[u8; LEN] {
        &self.0
    }

    /// For alarms.
    pub fn alarms(&self) -> GroupKey {
        self.of(0)
    }

    /// For samples.
    pub fn samples(&self) -> GroupKey {
        self.of(32)
    }

    fn of(&self, at: usize) -> GroupKey {
        let mut secret = [0; 32];
        secret.copy_from_slice(&self.0[at..at + 32]);
        GroupKey::new(1, Cipher::AES_128_GCM, secret)
    }
}

pub fn data_pass() -> DataPass {
    DataPass::detect()
}
