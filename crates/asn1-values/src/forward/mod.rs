//! OER and COER (X.696), LWS (`docs/lws.md`) and XDR (RFC 4506): what is written forwards, and mostly without tags.
//!
//! The three have one shape: components in order behind what says which are there, counted additions, counted
//! lists. [`Syntax`] says which is meant; the few places where they differ ask it.

mod layout;
mod read;
mod write;

pub use read::decode;
pub use write::encode;

/// A transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// OER; what is written is COER.
    Oer,
    /// COER: one encoding for each value, and nothing else is read.
    Coer,
    /// LWS of words of so many bytes: 2, 4 or 8.
    Lws(usize),
    /// XDR.
    Xdr,
}

impl Syntax {
    fn is_oer(self) -> bool {
        matches!(self, Syntax::Oer | Syntax::Coer)
    }

    /// Everything takes a multiple of so many bytes.
    fn unit(self) -> usize {
        match self {
            Syntax::Oer | Syntax::Coer => 1,
            Syntax::Lws(word) => word,
            Syntax::Xdr => 4,
        }
    }

    /// Zeros behind so many bytes.
    fn fill(self, len: usize) -> usize {
        len.wrapping_neg() % self.unit()
    }
}
