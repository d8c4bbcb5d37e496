//! The hex examples and the table of ciphers of `docs/records.md` are what the code makes and has.
//!
//! `FUSEWIRE_UPDATE_DOCS=1 cargo test -p fusewire-session --test specification` writes them anew.

use fusewire_session::early::Early;
use fusewire_session::hello::{Choice, Hello, VERSION};
use fusewire_session::keys::{TrafficSecret, expand_label};
use fusewire_session::record::{HEADER_LEN, RecordParams};
use fusewire_session::suites::{Parameter, Standing, Suite};
use fusewire_session::{
    Cipher, DataPass, HeaderProtection, RecordReceiver, RecordSender, RecordType, Swap,
};
use std::fmt::Write;
use std::path::Path;

const START: u64 = 1905;
const BODY: &[u8] = b"Hello, stream";

fn secret() -> [u8; 32] {
    core::array::from_fn(|i| i as u8)
}

fn hex(bytes: &[u8]) -> String {
    let lines: Vec<_> = bytes
        .chunks(32)
        .map(|line| {
            line.chunks(2)
                .map(|b| b.iter().map(|b| format!("{b:02x}")).collect())
                .collect::<Vec<String>>()
                .join(" ")
        })
        .collect();
    lines.join("\n")
}

fn params(cipher: Cipher, element: Swap) -> RecordParams {
    RecordParams::new(cipher, element, 1 << 16, DataPass::detect())
}

fn sender(cipher: Cipher, element: Swap, offset: u64) -> RecordSender {
    RecordSender::new(params(cipher, element), TrafficSecret::from_bytes(secret()), offset).unwrap()
}

/// One sealed record as text; opened again, so that no example is wrong in both directions alike.
fn record(
    sender: &mut RecordSender,
    receiver: &mut RecordReceiver,
    kind: RecordType,
    body: &[u8],
) -> String {
    let offset = sender.next_offset();
    let mut record = vec![0; sender.record_len(body.len())];
    sender.seal(offset, kind, body, &mut record).unwrap();
    let mut out = vec![0; body.len()];
    receiver.open(offset, &record, &mut out).unwrap();
    assert_eq!(out, body);
    let tag_len = sender.overhead() - HEADER_LEN;
    let (head, rest) = record.split_at(16);
    let (ciphertext, tag) = rest.split_at(rest.len() - tag_len);
    let mut text = format!("at offset {offset}\n  header     {}\n", hex(head));
    for (name, bytes) in [("ciphertext", ciphertext), ("tag       ", tag)] {
        if !bytes.is_empty() {
            writeln!(text, "  {name} {}", hex(bytes)).unwrap();
        }
    }
    text
}

fn records(cipher: Cipher, element: Swap, offset: u64, bodies: &[(RecordType, &[u8])]) -> String {
    let mut sender = sender(cipher, element, offset);
    let secret = TrafficSecret::from_bytes(secret());
    let mut receiver = RecordReceiver::new(params(cipher, element), secret, offset).unwrap();
    bodies.iter().map(|(kind, body)| record(&mut sender, &mut receiver, *kind, body)).collect()
}

/// With header protection.
fn protected() -> String {
    let kinds = [(RecordType::Adu, BODY), (RecordType::EndOfStream, &[][..])];
    let mut text = String::new();
    for cipher in [Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305, Cipher::AEGIS_128L] {
        for padding in [1, 32] {
            let protection = HeaderProtection::with_padding(padding);
            let params = RecordParams { protection, ..params(cipher, Swap::None) };
            let secret = || TrafficSecret::from_bytes(secret());
            let mut sender = RecordSender::new(params, secret(), START).unwrap();
            let mut receiver = RecordReceiver::new(params, secret(), START).unwrap();
            writeln!(text, "{cipher}, padding {padding}").unwrap();
            for (kind, body) in kinds {
                text += &record(&mut sender, &mut receiver, kind, body);
            }
        }
    }
    text
}

fn keys() -> String {
    let mut text = String::new();
    let mut secret = secret();
    for epoch in 0..2 {
        let (mut key, mut iv, mut next) = ([0; 32], [0; 12], [0; 32]);
        expand_label(&secret, b"key", &mut key);
        expand_label(&secret, b"iv", &mut iv);
        expand_label(&secret, b"ku", &mut next);
        writeln!(text, "secret[{epoch}] {}", hex(&secret)).unwrap();
        writeln!(text, "key[{epoch}]    {}", hex(&key)).unwrap();
        writeln!(text, "iv[{epoch}]     {}", hex(&iv)).unwrap();
        secret = next;
    }
    text
}

/// A row a suite.
fn ciphers() -> String {
    let mut text = String::from(
        "| code | name | key | nonce | tag | block | limit | |\n|---|---|---|---|---|---|---|---|\n",
    );
    for cipher in Cipher::ALL {
        let Suite { id, name, key_len, nonce_len, tag_len, block_len, source, .. } = cipher.suite();
        let (code, name) = match cipher.parameter {
            None => (format!("{id:02x} 00"), name.to_string()),
            Some(Parameter { what, min, max, .. }) => {
                let short = &what[..1];
                let code = format!("{id:02x} {short}{short}");
                (code, format!("{name}:{short}{short}, {short}{short} = {min} to {max} {what}"))
            }
        };
        let limit = match cipher.tag_len {
            0 => String::new(),
            _ => format!("2^{}", cipher.integrity_limit.ilog2()),
        };
        let note = match cipher.standing {
            Standing::Standard => source.to_string(),
            Standing::Draft => format!("draft: {source}"),
            Standing::Insecure => "insecure".to_string(),
        };
        let row = format!(
            "| {code} | {name} | {key_len} | {nonce_len} | {tag_len} | {block_len} | {limit} | {note} |"
        );
        writeln!(text, "{}", row.replace("|  |", "| |")).unwrap();
    }
    text
}

fn hello() -> String {
    let mut out = Vec::new();
    let ciphers = vec![Cipher::AES_256_GCM, Cipher::CHACHA20_POLY1305];
    let hello = Hello {
        version: VERSION,
        allow_insecure: false,
        element: Swap::None,
        body_len_max: 1 << 20,
        ciphers,
        shared_memory: false,
        idle_timeout: None,
        protection: None,
        early: 0,
        terms: fusewire_session::Terms::default(),
    };
    hello.emit(&mut out);
    assert_eq!(Hello::parse(&out).unwrap(), hello);
    hex(&out) + "\n"
}

fn choice() -> String {
    let mut out = Vec::new();
    let cipher = Cipher::AES_256_GCM;
    Choice {
        version: VERSION,
        cipher,
        element: Swap::None,
        body_len_max: 1 << 16,
        shared_memory: None,
        idle_timeout: None,
        protection: None,
        terms: false,
    }
    .emit(&mut out);
    hex(&out) + "\n"
}

fn early() -> String {
    let mut text = String::new();
    for (body, element, padding) in
        [(&b"first"[..], Swap::None, None), (b"\x04\x03\x02\x01\x05", Swap::Bytes32, Some(8))]
    {
        let mut early = Early::default();
        // The example is that of a little-endian machine's memory.
        assert!(early.push(body, element, padding.and_then(HeaderProtection::with_padding)));
        early.messages().for_each(|message| text += &(hex(message) + "\n"));
    }
    text
}

fn examples() -> Vec<(&'static str, String)> {
    let adu = RecordType::Adu;
    let end = RecordType::EndOfStream;
    let boundary = 1 << 36;
    let others = [
        Cipher::CHACHA20_POLY1305,
        Cipher::AES_128_GCM,
        Cipher::AEGIS_128L,
        Cipher::AEGIS_256,
        Cipher::AEGIS_128X2,
        Cipher::NONE,
        Cipher::PES,
        Cipher::SAFER_SIMPLIFIED,
        Cipher::SAFER_K64,
    ];
    let others = others.map(|c| format!("{c}, {}", records(c, Swap::None, START, &[(adu, BODY)])));
    vec![
        ("hello", hello()),
        ("choice", choice()),
        ("early", early()),
        ("keys", keys()),
        (
            "aes-256-gcm",
            records(Cipher::AES_256_GCM, Swap::None, START, &[(adu, BODY), (adu, b""), (end, b"")]),
        ),
        ("element", records(Cipher::AES_256_GCM, Swap::Bytes32, START, &[(adu, BODY)])),
        (
            "epoch",
            records(
                Cipher::AES_256_GCM,
                Swap::None,
                boundary - 8,
                &[(adu, BODY), (adu, BODY), (adu, BODY)],
            ),
        ),
        ("others", others.concat()),
        ("protection", protected()),
    ]
}

#[test]
fn examples_are_what_the_code_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut expected = text.clone();
    for (name, content) in examples() {
        let mark = format!("<!-- example: {name} -->\n```\n");
        let begin =
            expected.find(&mark).unwrap_or_else(|| panic!("no example {name}")) + mark.len();
        let end = begin + expected[begin..].find("```").unwrap();
        expected.replace_range(begin..end, &content);
    }
    let mark = "<!-- table: ciphers -->\n";
    let begin = expected.find(mark).expect("a table of ciphers") + mark.len();
    let end = begin + expected[begin..].find("\n\n").unwrap() + 1;
    expected.replace_range(begin..end, &ciphers());
    if std::env::var_os("FUSEWIRE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert_eq!(text, expected, "docs/records.md differs from the code");
    }
    assert_eq!(text.matches("<!-- example: ").count(), examples().len());
}
