//! Wireshark's dissector on the examples, as IP's payload: the one independent reader of the format.
//!
//! Its own faults are expected here by name, so that one that is mended shows.

use std::path::Path;
use std::process::Command;

use fusewire_wire::xtp::{Address, Body, Spans};
use fusewire_wire::{ipv4, ipv6, udp, xtp};

use crate::made::{Example, Header, examples};

/// What one packet has in each of [`FIELDS`].
type Row = Vec<String>;

const FIELDS: [&str; 30] = [
    "xtp.key",
    "xtp.cmd",
    "xtp.dlen",
    "xtp.sort",
    "xtp.sync",
    "xtp.seq",
    "xtp.checksum.status",
    "_ws.malformed",
    "_ws.expert.message",
    "xtp.data",
    "xtp.data.btag",
    "xtp.cntl.rseq",
    "xtp.cntl.alloc",
    "xtp.cntl.echo",
    "xtp.ecntl.nspan",
    "xtp.ecntl.span_le",
    "xtp.ecntl.span_re",
    "xtp.tcntl.rseq",
    "xtp.tcntl.alloc",
    "xtp.tcntl.echo",
    "xtp.tcntl.rsvd",
    "xtp.tcntl.xkey",
    "xtp.diag.code",
    "xtp.diag.val",
    "xtp.aseg.dsthost",
    "xtp.aseg.dstport",
    "xtp.tspec.service",
    "xtp.tspec.maxdata",
    "xtp.tspec.inrate",
    "xtp.tspec.outburst",
];

/// An IP packet around an example's.
fn in_ip(example: &Example) -> Vec<u8> {
    let payload = example.bytes();
    let mut packet;
    if example.name == "ipv6" {
        packet = vec![0; ipv6::HEADER_LEN];
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        (packet[6], packet[7], packet[23], packet[39]) = (xtp::NUMBER, 64, 1, 2);
    } else {
        packet = vec![0; ipv4::MIN_HEADER_LEN];
        packet[0] = 0x45;
        packet[3] = (packet.len() + payload.len()) as u8;
        (packet[8], packet[9]) = (64, xtp::NUMBER);
        packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    }
    packet.extend(payload);
    packet
}

/// IPv4 and UDP around `payload`, without checksums.
fn in_udp(payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::MIN_HEADER_LEN + udp::HEADER_LEN];
    let whole = packet.len() + payload.len();
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
    (packet[8], packet[9]) = (64, udp::NUMBER);
    packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    let len = (udp::HEADER_LEN + payload.len()) as u16;
    let header = udp::Header { src_port: 40_777, dst_port: 51_111, len, checksum: 0 };
    header.emit(&mut packet[ipv4::MIN_HEADER_LEN..]);
    packet.extend(payload);
    packet
}

/// A classic capture of raw IP.
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 101] {
        file.extend(u32::to_le_bytes(word));
    }
    for (i, packet) in packets.iter().enumerate() {
        for word in [1_700_000_000, i as u32 * 1000, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

/// What tshark says; `None` where there is none.
fn tshark(file: &Path, arguments: &[&str]) -> Option<String> {
    match Command::new("tshark").arg("-r").arg(file).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            eprintln!("skipped: tshark cannot be run: {error}");
            None
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the fields should have, by name; those that are not named should have nothing.
fn expected(example: &Example) -> Vec<(&'static str, String)> {
    let Header { sort, sync, seq, body, .. } = example.header;
    let bytes = example.bytes();
    let number = |number: u64| number.to_string();
    let mut fields = vec![
        ("xtp.key", format!("0x{}", hex(&bytes[..8]))),
        ("xtp.cmd", format!("0x{}", hex(&bytes[8..12]))),
        ("xtp.dlen", number(bytes.len() as u64 - 32)),
        ("xtp.sort", number(sort.into())),
        ("xtp.sync", number(sync.into())),
        ("xtp.seq", number(seq)),
        // Good.
        ("xtp.checksum.status", "1".into()),
    ];
    match body {
        Body::Data { btag } => {
            let at = 32 + if btag.is_some() { 8 } else { 0 };
            fields.push(("xtp.data", hex(&bytes[at..])));
            fields.extend(btag.map(|btag| ("xtp.data.btag", format!("0x{btag:016x}"))));
        }
        Body::Cntl(c) => {
            let echo = ("xtp.cntl.echo", number(c.echo.into()));
            fields.extend([
                ("xtp.cntl.rseq", number(c.rseq)),
                ("xtp.cntl.alloc", number(c.alloc)),
                echo,
            ]);
        }
        Body::Ecntl(_, spans) => {
            // Spans are read with their bytes the other way round.
            let list = |end: fn(xtp::Span) -> u64| -> String {
                let ends: Vec<_> = spans.iter().map(|s| end(s).swap_bytes().to_string()).collect();
                ends.join(",")
            };
            fields.push(("xtp.ecntl.nspan", number(spans.iter().len() as u64)));
            fields.push(("xtp.ecntl.span_le", list(|span| span.left)));
            fields.push(("xtp.ecntl.span_re", list(|span| span.right)));
        }
        Body::Tcntl(t) | Body::Jcntl(xtp::JoinControl { traffic: t, .. }) => {
            fields.extend([
                ("xtp.tcntl.rseq", number(t.control.rseq)),
                ("xtp.tcntl.alloc", number(t.control.alloc)),
                ("xtp.tcntl.echo", number(t.control.echo.into())),
                ("xtp.tcntl.rsvd", number(t.delay_us.into())),
                ("xtp.tcntl.xkey", format!("0x{:016x}", t.xkey.bits())),
            ]);
        }
        Body::Diag(d) => {
            fields.push(("xtp.diag.code", number(d.code.number().into())));
            fields.push(("xtp.diag.val", number(d.reason.number().into())));
        }
        Body::First(_) | Body::Path | Body::Unfit(_) => {}
    }
    let (address, traffic) = match body {
        Body::First(first) => (Some(first.address), Some(first.traffic)),
        Body::Tcntl(t) => (None, Some(t.traffic)),
        Body::Jcntl(j) => (Some(j.address), Some(j.traffic.traffic)),
        _ => (None, None),
    };
    match address {
        Some(Address::V4 { dsthost, dstport, .. }) => {
            fields.push(("xtp.aseg.dsthost", dsthost.to_string()));
            fields.push(("xtp.aseg.dstport", number(dstport.into())));
        }
        // Format 6 is not known there, and what lies 16 bytes on is taken for a traffic segment.
        Some(Address::V6 { .. }) => {
            fields.push(("xtp.tspec.service", "0".into()));
            return fields;
        }
        Some(Address::Null) | None => {}
    }
    if let Some(traffic) = traffic {
        fields.push(("xtp.tspec.service", number(traffic.service as u64)));
        if let Some(limits) = traffic.limits {
            fields.push(("xtp.tspec.maxdata", number(limits.maxdata.into())));
            fields.push(("xtp.tspec.inrate", number(limits.inrate.into())));
            fields.push(("xtp.tspec.outburst", number(limits.outburst.into())));
        }
    }
    fields
}

/// What tshark finds in `packets`: a row of [`FIELDS`] a packet, and all as text.
fn read(name: &str, packets: &[Vec<u8>], options: &[&str]) -> Option<(Vec<Row>, String)> {
    let file = std::env::temp_dir().join(format!("fusewire-{name}-{}.pcap", std::process::id()));
    std::fs::write(&file, capture(packets)).unwrap();
    let mut arguments = [options, &["-T", "fields"]].concat();
    FIELDS.iter().for_each(|field| arguments.extend(["-e", field]));
    let fields = tshark(&file, &arguments);
    let whole = tshark(&file, &[options, &["-V"]].concat());
    let _ = std::fs::remove_file(&file);
    let fields = fields?;
    let rows: Vec<Row> =
        fields.lines().map(|line| line.split('\t').map(String::from).collect()).collect();
    assert_eq!(rows.len(), packets.len());
    Some((rows, whole?))
}

fn fields_are_right(rows: &[Row]) {
    for (example, row) in examples().iter().zip(rows) {
        let expected = expected(example);
        for (field, found) in FIELDS.iter().zip(row) {
            let expected = expected.iter().find(|(name, _)| name == field);
            let expected = expected.map_or("", |(_, text)| text);
            assert_eq!(found, expected, "{field} of {}", example.name);
        }
    }
}

#[test]
fn wireshark_reads_the_same() {
    let packets: Vec<_> = examples().iter().map(in_ip).collect();
    let Some((rows, whole)) = read("xtp-ip", &packets, &[]) else { return };
    fields_are_right(&rows);
    nothing_is_bogus(&whole);
}

/// With `docs/fusewire.lua`. A capture may have several datagrams in one; what is changed is no XTP.
#[test]
fn wireshark_finds_xtp_in_udp() {
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../docs/fusewire.lua");
    let bytes: Vec<_> = examples().iter().map(Example::bytes).collect();
    let mut packets: Vec<_> = bytes.iter().map(|bytes| in_udp(bytes)).collect();
    packets.push(in_udp(&[&*bytes[2], &*bytes[2], &*bytes[1]].concat()));
    let mut wrong = bytes[2].clone();
    wrong[40] ^= 1;
    packets.push(in_udp(&wrong));
    let Some((rows, whole)) = read("xtp-udp", &packets, &["-X", script]) else { return };
    fields_are_right(&rows);
    let key = |n: usize| expected(&examples()[n])[0].1.clone();
    assert_eq!(rows[bytes.len()][0], [key(2), key(2), key(1)].join(","));
    assert_eq!(rows[bytes.len() + 1][0], "", "its check is wrong");
    assert!(!whole.contains("Malformed"));
}

/// Packets as text: what is said of lengths and formats.
fn nothing_is_bogus(whole: &str) {
    let packets = whole.split("\nFrame ");
    for (example, text) in examples().iter().zip(packets) {
        // See [`expected`].
        let faults: &[&str] = match example.name {
            "ipv6" => &["Unsupported aformat(6)", "Unsupported tformat(2)"],
            _ => &[],
        };
        let odd: Vec<&str> = text
            .lines()
            .filter(|line| {
                ["bogus", "Unsupported", "Malformed", "incorrect"]
                    .iter()
                    .any(|word| line.contains(word))
            })
            .filter(|line| !faults.iter().any(|fault| line.contains(fault)))
            .collect();
        assert!(odd.is_empty(), "{}: {odd:?}", example.name);
    }
}
