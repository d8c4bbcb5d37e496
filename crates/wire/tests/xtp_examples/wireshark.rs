//! Wireshark's dissector on the examples, as IP's payload: the one independent reader of the format.
//!
//! Its own faults are expected here by name, so that one that is mended shows.

use fusewire_testkit::wireshark;
use fusewire_wire::xtp::{self, Address, Body, Spans};

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
    let ip = if example.name == "ipv6" { wireshark::ipv6 } else { wireshark::ipv4 };
    ip(xtp::NUMBER, &example.bytes())
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
    let Some(rows) = wireshark::fields("xtp-ip", &packets, &[], &FIELDS) else { return };
    fields_are_right(&rows);
    nothing_is_wrong("xtp-ip", &packets, &[]);
}

/// With `docs/fusewire.lua`. A capture may have several datagrams in one; what is changed is no XTP.
#[test]
fn wireshark_finds_xtp_in_udp() {
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../docs/fusewire.lua");
    let script = ["-X", script];
    let bytes: Vec<_> = examples().iter().map(Example::bytes).collect();
    let mut packets: Vec<_> = bytes.iter().map(|bytes| wireshark::udp(bytes)).collect();
    packets.push(wireshark::udp(&[&*bytes[2], &*bytes[2], &*bytes[1]].concat()));
    let mut wrong = bytes[2].clone();
    wrong[40] ^= 1;
    packets.push(wireshark::udp(&wrong));
    let Some(rows) = wireshark::fields("xtp-udp", &packets, &script, &FIELDS) else { return };
    fields_are_right(&rows);
    let key = |n: usize| expected(&examples()[n])[0].1.clone();
    assert_eq!(rows[bytes.len()][0], [key(2), key(2), key(1)].join(","));
    assert_eq!(rows[bytes.len() + 1][0], "", "its check is wrong");
    nothing_is_wrong("xtp-udp", &packets, &script);
}

/// But for what the dissector itself does not know, see [`expected`].
fn nothing_is_wrong(name: &str, packets: &[Vec<u8>], arguments: &[&str]) {
    let ipv6 = examples().iter().position(|example| example.name == "ipv6");
    let complaints = wireshark::complaints(name, packets, arguments).expect("there was a tshark");
    let (known, others): (Vec<_>, Vec<_>) =
        complaints.into_iter().partition(|(packet, _)| Some(*packet) == ipv6);
    assert!(others.is_empty(), "{others:?}");
    let known: Vec<_> = known.into_iter().map(|(_, line)| line).collect();
    assert_eq!(known.len(), 2);
    assert!(known[0].ends_with("Unsupported aformat(6)"), "{known:?}");
    assert!(known[1].ends_with("Unsupported tformat(2)"), "{known:?}");
}
