//! Value notation (X.680): values as modules write them.
//!
//! What the standard has no notation for is written as octets: the encoding of an open type of which nothing is
//! known is `'…'H`. A component or alternative without a name, as modules of 1984 have them, goes by the name of
//! its type. An extension that the type does not know is `... '…'H` ([`fusewire_asn1::ast::Extension`]).

mod print;
mod read;
mod strings;

pub use print::to_text;
pub use read::{Text, from_text};
