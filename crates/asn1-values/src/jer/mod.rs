//! JSON by X.697 (JER), without encoding instructions.
//!
//! X.697 has nothing for what is not known. An open type of which only the encoding is known is here an object
//! with one member `octets`, of hexadecimal digits; so are a number with too many digits and a string that is no
//! text. Extensions that the type does not know are a member `$unknown`: a list in a SEQUENCE or SET. Each is such digits,
//! or `{"number": 2, "octets": "…"}` or `{"tag": "[1]", "octets": "…"}` ([`crate::value::Unknown`]).

mod print;
mod read;

pub use print::to_json;
pub use read::from_json;
