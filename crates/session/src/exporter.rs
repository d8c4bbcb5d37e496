//! Keys for what belongs to a session and lies outside of its records: an exporter of its own, as TLS has one
//! (RFC 8446, section 7.5; RFC 5705), and tags under such keys. `docs/records.md`, section 4.

use crate::keys::{expand_label, expand_label_with};
use aws_lc_rs::{digest, hmac};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a [`MacKey`]'s tag.
pub const TAG_LEN: usize = 16;

/// Makes keys that both ends of one session have, and nobody else.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Exporter([u8; 32]);

impl Exporter {
    pub(crate) const fn new(secret: [u8; 32]) -> Exporter {
        Exporter(secret)
    }

    /// Fills `out`, at most 8160 bytes. Another label, context or length gives bytes that have nothing to do
    /// with these. `label` says whose they are and has at most 246 bytes.
    ///
    /// # Panics
    /// When one of these is longer.
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) {
        let mut secret = [0; 32];
        let hash = |bytes: &[u8]| digest::digest(&digest::SHA256, bytes);
        expand_label_with(&self.0, label, hash(b"").as_ref(), &mut secret);
        expand_label_with(&secret, b"exporter", hash(context).as_ref(), out);
        secret.zeroize();
    }

    /// A key for tags: what [`export`](Self::export) gives for 32 bytes.
    pub fn mac_key(&self, label: &[u8], context: &[u8]) -> MacKey {
        let mut key = [0; 32];
        self.export(label, context, &mut key);
        let mac = MacKey::new(&key);
        key.zeroize();
        mac
    }
}

/// Tags messages: the first 16 bytes of HMAC-SHA-256 (test vectors: RFC 4231).
pub struct MacKey(hmac::Key);

impl MacKey {
    /// From 32 bytes that only those know who make and check tags.
    pub fn new(key: &[u8; 32]) -> MacKey {
        MacKey(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The tag of `message`.
    pub fn tag(&self, message: &[u8]) -> [u8; TAG_LEN] {
        let whole = hmac::sign(&self.0, message);
        let mut tag = [0; TAG_LEN];
        tag.copy_from_slice(&whole.as_ref()[..TAG_LEN]);
        tag
    }

    /// Whether `tag` is that of `message`, in a time that does not depend on where it differs.
    pub fn verify(&self, message: &[u8], tag: &[u8; TAG_LEN]) -> bool {
        let expected = self.tag(message);
        aws_lc_rs::constant_time::verify_slices_are_equal(&expected, tag).is_ok()
    }
}

/// Numbers that one derivation gives.
const DRAWN: usize = 16;
const NUMBER_LEN: usize = 8;
const SECRET_LEN: usize = 32;

/// Numbers that nobody foretells, also who has seen all that came before: each is drawn from a secret that
/// is replaced by one that nothing leads back from. Several are drawn at once, and each is forgotten when it is given.
pub struct Draws {
    secret: [u8; SECRET_LEN],
    /// What is not given yet is in front.
    drawn: [u8; DRAWN * NUMBER_LEN],
    left: usize,
}

impl Draws {
    /// From secret random bytes; `label` keeps apart what is drawn from the same seed for other ends.
    pub fn new(seed: &[u8; SECRET_LEN], label: &[u8]) -> Draws {
        let mut secret = [0; SECRET_LEN];
        expand_label(seed, label, &mut secret);
        Draws { secret, drawn: [0; DRAWN * NUMBER_LEN], left: 0 }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        if self.left == 0 {
            let mut bytes = [0; SECRET_LEN + DRAWN * NUMBER_LEN];
            expand_label(&self.secret, b"draw", &mut bytes);
            let (next, drawn) = bytes.split_at(SECRET_LEN);
            self.secret.copy_from_slice(next);
            self.drawn.copy_from_slice(drawn);
            bytes.zeroize();
            self.left = DRAWN;
        }
        self.left -= 1;
        let mut number = [0; NUMBER_LEN];
        let drawn = &mut self.drawn[self.left * NUMBER_LEN..][..NUMBER_LEN];
        number.copy_from_slice(drawn);
        drawn.zeroize();
        u64::from_be_bytes(number)
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.drawn.zeroize();
    }
}

fusewire_base::hidden!(Exporter, MacKey, Draws);

#[cfg(test)]
mod tests {
    use super::*;

    /// Once more, by HMAC and digests alone (RFC 8446, sections 7.1 and 7.5; RFC 5869, section 2.3).
    #[test]
    fn an_export_is_that_of_tls_under_our_prefix() {
        let expand = |secret: &[u8], label: &[u8], context: &[u8], len: u8| {
            let hash = digest::digest(&digest::SHA256, context);
            let mut info = vec![0, len, 9 + label.len() as u8];
            info.extend(b"fusewire ");
            info.extend(label);
            info.push(32);
            info.extend(hash.as_ref());
            info.push(1);
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            hmac::sign(&key, &info).as_ref()[..usize::from(len)].to_vec()
        };
        let mut out = [0; 20];
        Exporter::new([7; 32]).export(b"what it is for", b"context", &mut out);
        let derived = expand(&[7; 32], b"what it is for", b"", 32);
        assert_eq!(out[..], expand(&derived, b"exporter", b"context", 20));
        let mut whole = [0; 32];
        Exporter::new([7; 32]).export(b"what it is for", b"context", &mut whole);
        assert_ne!(out, whole[..20], "another length is another key");
    }

    #[test]
    fn tags_are_of_one_key_and_message() {
        let key = |label: &[u8]| Exporter::new([7; 32]).mac_key(label, b"");
        let tag = key(b"a").tag(b"message");
        assert!(key(b"a").verify(b"message", &tag));
        assert!(!key(b"b").verify(b"message", &tag) && !key(b"a").verify(b"messagf", &tag));
        for bit in 0..8 * TAG_LEN {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key(b"a").verify(b"message", &other), "bit {bit}");
        }
        assert_eq!(
            format!("{:?}{:?}", key(b"a"), Exporter::new([7; 32])),
            "MacKey(..)Exporter(..)"
        );
    }

    #[test]
    fn what_is_drawn_is_new_and_of_its_seed_and_label() {
        let draws = |seed: u8, label: &[u8]| {
            let mut draws = Draws::new(&[seed; 32], label);
            (0..1000).map(|_| draws.draw()).collect::<Vec<_>>()
        };
        let all = [draws(1, b"a"), draws(1, b"b"), draws(2, b"a")].concat();
        let apart: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(apart.len(), 3000);
        assert_eq!(draws(1, b"a"), draws(1, b"a"));
    }
}
