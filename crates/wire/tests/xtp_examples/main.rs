//! The hex examples of `docs/xtp.md` are what the code writes and reads, and Wireshark reads the same in them.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-wire --test xtp_examples` writes them anew.

mod made;
mod wireshark;

use std::path::{Path, PathBuf};

use fusewire_wire::Error;
use fusewire_wire::xtp::{self, Body, CHECK_AT, First, Packet};

use made::{Example, examples};

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/xtp.md")
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| -> String {
        let longs = line.chunks(8).map(|long| {
            let bytes: Vec<String> = long.iter().map(|byte| format!("{byte:02x}")).collect();
            bytes.join(" ")
        });
        longs.collect::<Vec<_>>().join("  ")
    };
    bytes.chunks(16).map(|bytes| line(bytes) + "\n").collect()
}

fn mark(example: &Example) -> String {
    format!("<!-- example: {} -->\n```\n", example.name)
}

/// Where the example's lines lie in the document.
fn place(text: &str, example: &Example) -> std::ops::Range<usize> {
    let mark = mark(example);
    let begin = text.find(&mark).unwrap_or_else(|| panic!("no example {}", example.name));
    let begin = begin + mark.len();
    begin..begin + text[begin..].find("```").expect("an end of the example")
}

#[test]
fn examples_are_what_the_code_writes() {
    let text = std::fs::read_to_string(document()).unwrap();
    let mut expected = text.clone();
    for example in examples() {
        let place = place(&expected, &example);
        expected.replace_range(place, &hex(&example.bytes()));
    }
    if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
        std::fs::write(document(), &expected).unwrap();
    } else {
        assert_eq!(text, expected, "docs/xtp.md differs from the code");
    }
    assert_eq!(text.matches("<!-- example: ").count(), examples().len());
}

#[test]
fn examples_are_what_the_code_reads() {
    let text = std::fs::read_to_string(document()).unwrap();
    for example in examples() {
        let bytes: Vec<u8> = text[place(&text, &example)]
            .split_ascii_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        assert!(xtp::verifies(&bytes), "{}", example.name);
        let packet =
            Packet::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", example.name));
        let check = u16::from_be_bytes([bytes[CHECK_AT], bytes[CHECK_AT + 1]]);
        let mut header = packet.header.keep();
        assert_eq!(header.check, check);
        header.check = 0;
        assert_eq!(header, example.header, "{}", example.name);
        assert_eq!(packet.data, example.data, "{}", example.name);
        assert_eq!(packet.trailer, example.trailer(), "{}", example.name);
    }
}

/// The rows of the table that begins with `head`, cell by cell.
fn table<'a>(text: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let (_, rest) = text.split_once(head).unwrap_or_else(|| panic!("no table {head}"));
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn options_and_formats_are_those_of_the_tables() {
    let text = std::fs::read_to_string(document()).unwrap();
    let mut packet = examples()[0].bytes();
    let mut left: u32 = 0x7fff_0000;
    for row in table(&text, "| option | mask | says | on |") {
        let mask = u32::from_str_radix(row[1], 16).unwrap();
        packet[8..10].copy_from_slice(&((mask >> 16) as u16).to_be_bytes());
        let header = Packet::parse(&packet).unwrap().header;
        match row[0] {
            "BTAG" => assert!(matches!(header.body, Body::First(First { btag: Some(_), .. }))),
            name => assert_eq!(format!("{:?}", header.options), name),
        }
        left &= !mask;
    }
    assert_eq!(left, 0, "options that the table does not have");
    packet[8..10].fill(0);
    let mut known = Vec::new();
    for format in 0..32 {
        packet[11] = 0x20 | format;
        if let Err(Error::Value { field: "format", .. }) = Packet::parse(&packet) {
            continue;
        }
        known.push(format);
    }
    let rows = table(&text, "| format | body |");
    let numbers = rows.iter().map(|row| row[0].split(' ').next().unwrap().parse().unwrap());
    assert_eq!(known, numbers.collect::<Vec<u8>>());
}
