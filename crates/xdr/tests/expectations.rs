//! `expect/NAME.x` gives `NAME.diag` and, where nothing is wrong, `NAME.rs`, and its programs `NAME.programs.rs`. With
//! `FUSEWIRE_UPDATE=1` they are written anew, for a look at what changed.

use std::path::Path;

use fusewire_testkit::expect;
use fusewire_xdr::rust::{Options, generate};
use fusewire_xdr::{Checked, Source, check, check_after, definition};

#[test]
fn files_give_what_is_expected_of_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expect");
    expect::each_file(&folder, "x", |name, bytes, expect| {
        let checked = check(Source::new(name.to_owned(), bytes));
        let said = checked.diagnostics.iter().map(|d| checked.display(d).to_string());
        expect("diag", &said.collect::<String>());
        if let Some(text) = generate(&checked, &Options::default()) {
            let programs = text.find("\n/// The program ").unwrap_or(text.len());
            expect("rs", &text[..programs]);
            expect("programs.rs", &text[programs..]);
        }
    });
}

/// Excerpts of the files that the NFSv4 and NLM specifications publish; other files declare the names that
/// they use.
const SECINFO: &str = "typedef unsigned int uint32_t;
%#include <rpc/auth.h>
struct rpcsec_gss_info { opaque oid<>; uint32_t qop; };
union secinfo4 switch (uint32_t flavor) {
case RPCSEC_GSS: rpcsec_gss_info flavor_info;
default: void;
};
";
const NLM: &str = "struct nlm_lock { string caller_name<1024>; netobj fh; };\n";

fn source(name: &str, text: &str) -> Source {
    Source::new(name, text.as_bytes())
}

fn errors(checked: &Checked) -> Vec<String> {
    let errors = checked.diagnostics.iter().filter(|d| d.is_error());
    errors.map(|d| checked.display(d).to_string()).collect()
}

#[test]
fn a_second_file_supplies_types_and_constants() {
    let common = "const RPCSEC_GSS = 6;\ntypedef opaque netobj<1024>;";
    for (text, wanted) in [(SECINFO, "RpcsecGss(RpcsecGssInfo)"), (NLM, "pub fh: Netobj,")] {
        assert!(!check(source("a.x", text)).is_ok(), "a name is missing");
        let checked = check_after(vec![source("common.x", common)], source("a.x", text));
        assert_eq!(errors(&checked), [""; 0]);
        let rust = generate(&checked, &Options::default()).unwrap_or_default();
        assert!(rust.contains(wanted) && rust.contains("pub type Netobj = Vec<u8>;"), "{rust}");
    }
}

#[test]
fn a_definition_supplies_a_constant() {
    let gss = definition("RPCSEC_GSS=0x6").expect("a definition");
    let checked = check_after(vec![gss], source("nfs4.x", SECINFO));
    assert_eq!(errors(&checked), [""; 0]);
    let rust = generate(&checked, &Options::default()).unwrap_or_default();
    assert!(rust.contains("pub const RPCSEC_GSS: u32 = 6;"), "{rust}");
    let only_name = vec![definition("EXTRA").expect("a name")];
    let text = "#ifdef EXTRA\nconst A = 1;\n#endif\nconst B = A;";
    assert!(check_after(only_name, source("a.x", text)).is_ok());
    for wrong in ["", "=6", "A=", "A=-", "6=A", "A=1;const B=2", "A B=1", "A=1\nB"] {
        assert!(definition(wrong).is_none(), "{wrong:?}");
    }
}

#[test]
fn diagnostics_name_the_file_that_they_are_in() {
    let before = vec![source("one.x", "const A = B;\n"), source("two.x", "typedef int t")];
    let found = errors(&check_after(before, source("three.x", "\n  typedef u v;")));
    let places: Vec<&str> = found.iter().filter_map(|d| d.split(": error").next()).collect();
    assert_eq!(places, ["one.x:1:11", "two.x:1:13", "three.x:2:11"], "{found:?}");
}
