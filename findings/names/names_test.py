p='tests/crates.rs'; s=open(p).read()
s=s.replace('''/// What costs no promise is written''','''#[test]
fn names_that_would_not_compile_are_refused_with_their_place() {
    let two = |a: &str, b: &str| {
        format!("adu.{a} = {{type = \\"Mm.T\\"}}\\nadu.{b} = {{type = \\"Mm.U\\"}}\\n")
    };
    let call = |of: &str, from: [&str; 2]| {
        format!(
            "adu.X = {{type = \\"Mm.T\\"}}\\nadu.{of} = {{type = \\"Mm.U\\", reply = \\"Z\\", from = \\"{}\\"}}\\n\\
             adu.Z = {{type = \\"Mm.U\\", from = \\"{}\\"}}\\n",
            from[0], from[1]
        )
    };
    made(&two("Get", "T")).unwrap();
    made(&call("Get", ["a", "b"])).unwrap();
    for (lines, said) in [
        (two("Order", "Y"), "s.toml:5:"),
        (two("Y", "Listener"), "s.toml:6:"),
        (two("GetX", "Get_X"), "s.toml:6:"),
        (call("Move", ["a", "b"]), "s.toml:6:"),
        (call("Finish", ["a", "b"]), "s.toml:6:"),
        (call("Get", ["both", "both"]), "s.toml:6:"),
    ] {
        let error = made(&lines).expect_err(&lines).to_string();
        assert!(error.contains(said) && error.contains("cannot be generated yet"), "{lines}{error}");
    }
}

/// What costs no promise is written''')
open(p,'w').write(s)
p='src/rust/supported.rs'; s=open(p).read()
s=s.replace("lines: Vec::new() };","lines: names::wrong(checked, plan) };")
s=s.replace("use super::Error;","use super::{Error, names};")
open(p,'w').write(s)
p='src/rust/mod.rs'; s=open(p).read()
s=s.replace("mod manifest;\n","mod manifest;\nmod names;\n",1)
open(p,'w').write(s)
p='../../docs/generate.md'; s=open(p).read()
s=s.replace('''- Estimates assume one''','''- Refused with `-o`, too, are names that would be two things in the crate: of roles, types of ADU and types of ASN.1 that are alike as
  Rust writes them, or are names of the crate's own (`Order`, `Listener`); requests called like a word of Rust or an end's own call
  (`Move`, `Finish`); calls that both ends make.
- Estimates assume one''',1)
open(p,'w').write(s)
