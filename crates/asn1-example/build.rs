//! Compiles the modules in `asn1/`, and for `tests/protocols.rs` those of protocols that others speak.

use fusewire_asn1::build;
use fusewire_asn1::rust::{Encoding, Options};

fn main() -> Result<(), build::Error> {
    let options = Options { encodings: Encoding::all(), ..Options::default() };
    build::compile(
        &[
            "asn1/Telemetry.asn1",
            "asn1/Geography.asn1",
            "asn1/Mapping.asn1",
            "asn1/Vectors.asn1",
            "asn1/Envelope.asn1",
        ],
        "asn1.rs",
        &options,
    )?;
    let protocols =
        ["snmp", "kerberos", "ldap", "cms"].map(|p| format!("tests/protocols/{p}.asn1"));
    build::compile(&protocols, "protocols.rs", &Options::default())
}
