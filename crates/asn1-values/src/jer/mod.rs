//! JSON by X.697 (JER), without encoding instructions.
//!
//! X.697 has nothing for what is not known. An open type of which only the encoding is known is here an object
//! with one member `octets`, of hexadecimal digits; so are a number with too many digits and a string that is no
//! text. What an extension marker let pass is a member `$unknown`: such digits, in a list of a SEQUENCE or SET.

mod print;
mod read;

pub use print::to_json;
pub use read::from_json;
