//! `fusewire asn1`: what a user of the program sees.

mod support;

use std::io::Write;
use std::process::Stdio;

use support::{Done, World};

/// A run with bytes on standard input.
fn run(args: &[&str], input: &[u8]) -> Done {
    let world = World::new();
    let mut command = world.command("alice", args);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Done::of(child)
}

#[test]
fn dump_shows_ber_from_standard_input_and_keeps_colours_from_pipes() {
    let done = run(&["asn1", "dump"], b"\x30\x03\x02\x01\x05");
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(done.out, "    0  2+3      SEQUENCE\n    2  2+1        INTEGER 5\n");
    let done = run(&["asn1", "dump", "--color", "always", "-"], b"\x05\0");
    assert!(done.out.contains("\x1b[36mNULL"), "{}", done.out);
    let done = run(&["asn1", "dump", "--json", "--input", "hex"], b"05 00");
    let line: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(line["type"], "NULL");
}

#[test]
fn dump_of_malformed_bytes_shows_what_was_read_and_fails() {
    let done = run(&["asn1", "dump"], b"\x30\x05\x02\x01\x05\x04\x07\x1b");
    assert_eq!(done.code, 1);
    assert!(done.out.contains("INTEGER 5"), "{}", done.out);
    assert!(done.out.ends_with("error: the length says 7 bytes, 0 left\n"), "{}", done.out);
    assert_eq!(done.err, "fusewire: no BER: the length says 7 bytes, 0 left at offset 7\n");
    let done = run(&["asn1", "dump", "--input", "pem"], b"nothing");
    assert_eq!(done.code, 1);
    assert!(done.err.contains("this is no PEM"), "{}", done.err);
}

const MODULE: &str = "M DEFINITIONS IMPLICIT TAGS ::= BEGIN
    Point ::= SEQUENCE { x INTEGER, name UTF8String OPTIONAL, tag [0] OCTET STRING OPTIONAL } END";

#[test]
fn values_are_decoded_and_encoded_by_their_module() {
    let dir = tempfile::tempdir().unwrap();
    let module = dir.path().join("m.asn1");
    std::fs::write(&module, MODULE).unwrap();
    let module = module.to_str().unwrap();
    let of = |command, more: &[&'static str], input: &[u8]| {
        let args = [&["asn1", command, "-m", module, "--type", "M.Point"], more].concat();
        run(&args, input)
    };
    let done = of("decode", &["-e", "der"], b"\x30\x06\x02\x01\x05\x0c\x01\x1b");
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(done.out, "value Point ::= {\n  x 5,\n  name {{0, 0, 0, 27}}\n}\n");
    let again = of("encode", &["-e", "der", "--hex"], done.out.as_bytes());
    assert_eq!((again.out.as_str(), again.err.as_str()), ("30060201050c011b\n", ""));
    let done = of("decode", &["--json"], b"\x30\x06\x02\x01\x05\x80\x01\xff");
    assert_eq!(done.out, "{\"x\":5,\"tag\":\"FF\"}\n");
    let again = of("encode", &["--json", "--hex"], done.out.as_bytes());
    assert_eq!(again.out, "30060201058001ff\n");
    for (encoding, bytes) in [
        ("oer", "40010501ff"),
        ("coer", "40010501ff"),
        ("xdr", "00000001050000000000000000000001 00000001ff000000"),
        ("lws16", "4000 0005 0001 ff00"),
        ("lws32", "40000000 00000005 00000001 ff000000"),
        ("lws64", "4000000000000000 0000000000000005 0000000000000001 ff00000000000000"),
    ] {
        let args: &[&'static str] = &["--json", "--hex", "-e", encoding];
        let encoded = of("encode", args, done.out.as_bytes());
        assert_eq!(encoded.out.trim(), bytes.replace(' ', ""), "{encoding}: {}", encoded.err);
        let back = of("decode", &["--json", "--input", "hex", "-e", encoding], bytes.as_bytes());
        assert_eq!(back.out, done.out, "{encoding}: {}", back.err);
    }
    let done = of("encode", &["--hex"], b"{ x 5,\n y 6 }");
    assert_eq!(done.code, 1);
    assert_eq!(done.err, "fusewire: standard input:2:2: the type has no component `y`\n");
    let done = of("decode", &[], b"\x30\x06\x02\x01\x05\x80\x07\xff");
    assert_eq!(done.err, "fusewire: truncated: 7 bytes needed, 1 left at offset 7, in tag\n");
}

#[test]
fn modules_are_checked_and_compiled() {
    let world = World::new();
    let (module, wrong) = (world.path("m.asn1"), world.path("wrong.asn1"));
    std::fs::write(
        &module,
        "M DEFINITIONS ::= BEGIN
           Block ::= OCTET STRING (SIZE (16))
           Pair ::= SEQUENCE { a Block, b Block }
         END",
    )
    .unwrap();
    std::fs::write(&wrong, "N DEFINITIONS ::= BEGIN\n  T ::= Absent\nEND").unwrap();
    let (module, wrong) = (module.to_str().unwrap(), wrong.to_str().unwrap());
    let lines = world.run("alice", &["asn1", "check", "--json", module, wrong]).failed(1, "");
    let lines = lines.lines();
    assert_eq!((&lines[0]["ok"], &lines[0]["definitions"]), (&true.into(), &2.into()));
    assert_eq!((&lines[1]["ok"], &lines[1]["diagnostics"][0]["line"]), (&false.into(), &2.into()));

    let out = world.path("rust");
    let compile = |more: &[&str]| {
        let args = [
            &["asn1", "compile", module, "-o", out.to_str().unwrap(), "--encodings", "ber,lws32"],
            more,
        ];
        world.run("alice", &args.concat())
    };
    let block =
        || std::fs::read_to_string(out.join("m.rs")).unwrap().contains("pub struct Block<'a>");
    compile(&[]).ok();
    assert!(!block(), "a name for what others are made of");
    compile(&["--message", "M.Block"]).ok();
    assert!(block(), "a message by itself");
    compile(&["--message", "M.Blok"]).failed(2, "M.Blok");
}

#[test]
fn xdr_takes_missing_names_from_another_file_and_from_definitions() {
    let world = World::new();
    let write = |name: &str, text: &str| {
        let path = world.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let common = write("common.x", "typedef opaque netobj<1024>;");
    let secinfo = write("nfs4.x", "union u switch (int f) { case RPCSEC_GSS: void; };");
    let nlm = write("nlm.x", "struct nlm_lock { netobj fh; };");
    let (out, supply) = (world.path("rust"), ["--with", &common, "-D", "RPCSEC_GSS=6"]);

    let lines = world.run("alice", &["xdr", "check", "--json", &secinfo, &nlm]).failed(1, "");
    for (line, help) in lines.lines().iter().zip(["-D NAME=NUMBER", "--with FILE"]) {
        let found = line["diagnostics"][0]["help"].as_str().unwrap_or_default();
        assert!(found.contains(help), "{line}");
    }
    let compile = ["xdr", "compile", &secinfo, &nlm, "-o", out.to_str().unwrap()];
    world.run("alice", &[&compile[..], &supply].concat()).ok();
    let text = std::fs::read_to_string(out.join("nlm.rs")).unwrap();
    assert!(text.contains("pub fh: Netobj,"), "{text}");
    world.run("alice", &["xdr", "check", &nlm, "-D", "1=2"]).failed(2, "NAME=VALUE");
}
