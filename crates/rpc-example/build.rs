//! Compiles the file in `x/`.

use fusewire_xdr::build;
use fusewire_xdr::rust::Options;

fn main() -> Result<(), build::Error> {
    let options = Options { utf8_strings: true, ..Options::default() };
    build::compile("x/ledger.x", "ledger.rs", &options)
}
