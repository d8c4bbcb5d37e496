//! What both applications must have alike before they talk: a row of texts, of which each side says digests in its part of
//! the handshake, so that two programs of different makes refuse each other and each knows the first that differs.
//! `docs/records.md`, section 3, extension 5.

use aws_lc_rs::digest;
use std::sync::Arc;

/// The most terms.
pub const TERMS_MAX: usize = 128;
/// Bytes of a term's digest. It tells programs of different makes apart, whose keys are known; it is no proof.
pub const DIGEST_LEN: usize = 4;

/// Digests of terms, in their order; none where nothing is asked of the peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms(Arc<[[u8; DIGEST_LEN]]>);

impl Terms {
    /// Of texts. Those behind the 127th share the last digest.
    pub fn of(texts: &[&str]) -> Terms {
        let (each, rest) = texts.split_at(texts.len().min(TERMS_MAX - 1));
        let mut digests: Vec<_> = each.iter().map(|text| digest_of(&[text])).collect();
        if !rest.is_empty() {
            digests.push(digest_of(rest));
        }
        Terms(digests.into())
    }

    /// Nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the first one stands that is not the same here and there.
    pub fn difference(&self, other: &Terms) -> Option<u8> {
        let same = self.0.iter().zip(other.0.iter()).take_while(|(a, b)| a == b).count();
        let all = same == self.0.len() && same == other.0.len();
        // There are no more than fit.
        (!all).then_some(same as u8)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    /// From an extension's value; `None` for what is none.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Terms> {
        let (digests, rest) = bytes.as_chunks::<DIGEST_LEN>();
        let fits = rest.is_empty() && (1..=TERMS_MAX).contains(&digests.len());
        fits.then(|| Terms(digests.into()))
    }
}

/// Of texts one behind the other, each with its length in front.
fn digest_of(texts: &[&str]) -> [u8; DIGEST_LEN] {
    let mut hash = digest::Context::new(&digest::SHA256);
    for text in texts {
        hash.update(&(text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    let mut first = [0; DIGEST_LEN];
    first.copy_from_slice(&hash.finish().as_ref()[..DIGEST_LEN]);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_wherever_it_is() {
        let texts: Vec<String> = (0..200).map(|n| format!("term {n}")).collect();
        for len in [0, 1, 2, 127, 128, 129, 200] {
            let all: Vec<&str> = texts[..len].iter().map(String::as_str).collect();
            let terms = Terms::of(&all);
            assert!(terms.0.len() <= TERMS_MAX);
            assert_eq!(terms.difference(&Terms::of(&all)), None);
            assert_eq!(Terms::from_bytes(terms.bytes()), (len > 0).then(|| terms.clone()));
            for at in 0..len {
                let mut other = all.clone();
                other[at] = "another";
                let place = at.min(TERMS_MAX - 1) as u8;
                assert_eq!(terms.difference(&Terms::of(&other)), Some(place), "{at} of {len}");
                other.truncate(at);
                assert_eq!(terms.difference(&Terms::of(&other)), Some(place), "{at} of {len}");
                assert_eq!(Terms::of(&other).difference(&terms), Some(place), "{at} of {len}");
            }
        }
        for wrong in [&[][..], &[1; 3], &[1; 5], &[1; 4 * (TERMS_MAX + 1)]] {
            assert_eq!(Terms::from_bytes(wrong), None);
        }
    }
}
