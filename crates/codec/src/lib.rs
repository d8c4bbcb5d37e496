//! Marshalling that hand-written and generated code calls: a transfer syntax over a [`Sink`] or a [`Source`].
//!
//! Slices and vectors are sinks and sources; so can a pipeline be, which is why both traits move bytes in
//! small pieces and never lend memory. A decoder is total: every input gives a value or an [`Error`] that
//! says what was wrong and at which offset, within the [`Limits`] on depth, size and count, and nothing is
//! allocated for a length before the bytes behind it are known to be there.
//!
//! So far there is one syntax, [`xdr`] (RFC 4506).
#![forbid(unsafe_code)]

mod error;
mod io;
pub mod xdr;

pub use error::{Error, Problem};
pub use io::{Sink, SliceSink, SliceSource, Source};
pub use xdr::Limits;
