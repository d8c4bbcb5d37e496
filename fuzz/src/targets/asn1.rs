//! Modules of ASN.1: the tree holds all of the text, places are in it, and code comes of whatever was read.

use fusewire_asn1::rust::{Encoding, Options, generate};
use fusewire_asn1::tree::Event;
use fusewire_asn1::{Source, check};

/// Runs one input: one file, or two with a zero byte between them.
pub fn run(data: &[u8]) {
    let sources = data.splitn(2, |&b| b == 0).map(|bytes| Source::new("input", bytes)).collect();
    let checked = check(sources);
    for file in &checked.files {
        let mut whole = String::new();
        let mut depth = 0_u32;
        for event in file.tree.events() {
            match *event {
                Event::Open(_) => depth += 1,
                Event::Close => depth = depth.checked_sub(1).expect("a node that was opened"),
                Event::Token(n) => whole += file.source.slice(file.tree.tokens()[n as usize].span),
            }
        }
        assert_eq!(depth, 0, "nodes that are not closed");
        assert_eq!(whole, file.source.text(), "the tree is not the text");
    }
    for diagnostic in &checked.diagnostics {
        let source = &checked.files[diagnostic.file].source;
        assert!(diagnostic.span.end as usize <= source.text().len());
        let shown = diagnostic.display(source).to_string();
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "a control character");
    }
    let encodings = vec![Encoding::Ber, Encoding::Lws];
    let options = Options { encodings, no_std: data.len() % 2 == 1, ..Options::default() };
    generate(&checked.files, &options);
}

/// A module of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let modules = [
        "M DEFINITIONS AUTOMATIC TAGS ::= BEGIN A ::= SEQUENCE { a INTEGER (0..5), ..., [[ b B OPTIONAL ]] } \
         B ::= CHOICE { a NULL, b SET OF A } c B ::= a : NULL END",
        "M {iso 1} DEFINITIONS ::= BEGIN IMPORTS OPERATION FROM N; s OPERATION ARGUMENT SET { INTEGER } ::= 1 \
         A ::= ANY B ::= [1] [2] IMPLICIT SIGNED SEQUENCE { x [APPLICATION 1] A DEFAULT {} } END",
        "M DEFINITIONS IMPLICIT TAGS ::= BEGIN C ::= CLASS { &id INTEGER UNIQUE, &T } WITH SYNTAX { [T &T] ID &id } \
         a C ::= { T BOOLEAN ID 1 } S C ::= { a, ... } R{C:T} ::= SEQUENCE { i C.&id ({T}), v C.&T ({T}{@i}) } \
         X ::= R{{S}} END",
        "A DEFINITIONS ::= BEGIN IMPORTS B FROM B; A ::= SEQUENCE { COMPONENTS OF B, r REAL DEFAULT 1.5 } END\
         \0B DEFINITIONS ::= BEGIN IMPORTS A FROM A; B ::= SEQUENCE { a A OPTIONAL, e ENUMERATED { x, y(7) } } END",
    ];
    modules.iter().map(|m| m.as_bytes().to_vec()).collect()
}
