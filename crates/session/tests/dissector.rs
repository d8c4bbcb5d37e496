//! `docs/fusewire.lua` in tshark: a session in hand-made captures, field by field.

mod common;

use common::{Direction, Link, Sides};
use fusewire_base::Sum;
use fusewire_session::{Established, Handshake, KeyLogFile, RecordType};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const UDP_SERVER: u16 = 40_777;
const UDP_CLIENT: u16 = 51_111;
const TCP_SERVER: u16 = 9293;

/// One TPDU on its way.
struct Segment {
    direction: Direction,
    bytes: Vec<u8>,
}

/// Cuts a stream of either direction into TPDUs.
struct Wire {
    seq: [u32; 2],
    client_port: u16,
    segments: Vec<Segment>,
}

impl Wire {
    fn new(client_port: u16) -> Wire {
        let mut wire = Wire { seq: [1_000_000, 0xffff_ff00], client_port, segments: vec![] };
        wire.tpdu(Direction::ToServer, 0x02, &[]);
        wire.tpdu(Direction::ToClient, 0x12, &[]);
        wire
    }

    fn tpdu(&mut self, direction: Direction, flags: u8, payload: &[u8]) {
        let (from, to) = match direction {
            Direction::ToServer => (self.client_port, TCP_SERVER),
            Direction::ToClient => (TCP_SERVER, self.client_port),
        };
        let (own, other) = (direction as usize, 1 - direction as usize);
        let ack = if flags == 0x02 { 0 } else { self.seq[other] };
        let mut bytes = Vec::new();
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
        bytes.extend(self.seq[own].to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([0x80, flags, 0x20, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
        bytes.extend(payload);
        let len = bytes.len() as u64;
        let check = (Sum::from_words(0x5b78 + len) + Sum::of(&bytes)).checksum();
        bytes[16..18].copy_from_slice(&check.to_be_bytes());
        let taken = payload.len() as u32 + u32::from(flags & 3 != 0);
        self.seq[own] = self.seq[own].wrapping_add(taken);
        self.segments.push(Segment { direction, bytes });
    }

    fn stream(&mut self, direction: Direction, bytes: &[u8], cut: usize) {
        bytes.chunks(cut).for_each(|payload| self.tpdu(direction, 0x18, payload));
    }
}

fn record(side: &mut Established, kind: RecordType, body: &[u8]) -> Vec<u8> {
    let mut record = vec![0; side.sender.record_len(body.len())];
    side.sender.seal(side.sender.next_offset(), kind, body, &mut record).unwrap();
    record
}

/// A whole session: handshake in flights of 1200 bytes; a record a segment; two in one; one in three;
/// one out of order; the ends.
fn session(key_log: &Path) -> Wire {
    let mut sides = Sides::new();
    sides.client.settings.key_log = Some(Arc::new(KeyLogFile::open(key_log).unwrap()));
    let mut flights = Vec::new();
    let (mut client, mut server) = {
        let client = Handshake::client(&sides.client).unwrap();
        let mut link = Link::new(client, Handshake::server(&sides.server).unwrap());
        link.tamper = Box::new(|direction, flight| flights.push((direction, flight.clone())));
        let (client, server) = link.run();
        (client.unwrap(), server.unwrap())
    };
    let mut wire = Wire::new(50_001);
    flights.iter().for_each(|(direction, flight)| wire.stream(*direction, flight, 1200));
    let adu = RecordType::Adu;
    let whole = record(&mut server, adu, &[1; 1000]);
    wire.stream(Direction::ToClient, &whole, 1400);
    let two =
        [record(&mut server, adu, b"two"), record(&mut server, RecordType::Padding, b"")].concat();
    wire.stream(Direction::ToClient, &two, 1400);
    let long = record(&mut server, adu, &[3; 3000]);
    wire.stream(Direction::ToClient, &long, 1400);
    let (early, late) = (record(&mut client, adu, &[4; 500]), record(&mut client, adu, &[5; 600]));
    wire.stream(Direction::ToServer, &early, 1400);
    wire.stream(Direction::ToServer, &late, 1400);
    let at = wire.segments.len();
    wire.segments.swap(at - 2, at - 1);
    for (direction, side) in
        [(Direction::ToServer, &mut client), (Direction::ToClient, &mut server)]
    {
        let end = record(side, RecordType::EndOfStream, b"");
        wire.stream(direction, &end, 1400);
        wire.tpdu(direction, 0x11, &[]);
    }
    wire
}

/// A classic capture file with packets of `link_type`.
fn write_pcap(path: &Path, link_type: u32, packets: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link_type] {
        file.extend(u32::to_le_bytes(word));
    }
    for (i, packet) in packets.iter().enumerate() {
        for word in [1_700_000_000, i as u32 * 1000, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    std::fs::write(path, file).unwrap();
}

/// An IPv4 packet with a UDP datagram (link type 101).
fn in_udp(direction: Direction, payload: &[u8]) -> Vec<u8> {
    let (from, to, ports) = match direction {
        Direction::ToServer => (1, 2, [UDP_CLIENT, UDP_SERVER]),
        Direction::ToClient => (2, 1, [UDP_SERVER, UDP_CLIENT]),
    };
    let len = payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend((len + 28).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    let check = Sum::of(&packet).checksum();
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    ports.iter().for_each(|p| packet.extend(p.to_be_bytes()));
    packet.extend((len + 8).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

/// As `--capture` writes it: Ethernet and IPv6 with the pseudo-header's addresses (link type 1).
fn in_ipv6(segment: &Segment) -> Vec<u8> {
    let address = |n: u16| {
        let mut address = [0u8; 16];
        address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        address[12..14].copy_from_slice(&n.to_be_bytes());
        address[14..].copy_from_slice(&(!n).to_be_bytes());
        address
    };
    let (from, to) = match segment.direction {
        Direction::ToServer => (0, 1),
        Direction::ToClient => (1, 0),
    };
    let mut packet = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x86, 0xdd, 0x60, 0, 0, 0];
    packet.extend((segment.bytes.len() as u16).to_be_bytes());
    packet.extend([6, 64]);
    packet.extend(address(u16::from(from)));
    packet.extend(address(u16::from(to)));
    packet.extend(&segment.bytes);
    packet
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("fusewire-dissector-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Rows of fields, or `None` where there is no tshark.
fn tshark(folder: &Folder, options: &[&str], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fusewire.lua");
    let mut command = Command::new("tshark");
    command.env("HOME", &folder.0).env("XDG_CONFIG_HOME", &folder.0);
    command.arg("-r").arg(folder.0.join("capture.pcap"));
    command.arg("-X").arg(format!("lua_script:{}", script.display()));
    command.args(["-n", "-T", "fields", "-E", "separator=|"]).args(options);
    fields.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: tshark is not installed (apt-get install tshark)");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !errors.contains("Lua") && !errors.contains(".lua"),
        "{errors}"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|l| l.split('|').map(String::from).collect()).collect())
}

const FIELDS: [&str; 6] = [
    "fusewire.record.type",
    "fusewire.record.body_len",
    "fusewire.record.index",
    "fusewire.record.tag",
    "tls.handshake.type",
    "_ws.malformed",
];

/// What both captures must show, in order of segments.
fn check_session(rows: &[Vec<String>]) {
    let records: Vec<_> = rows
        .iter()
        .filter(|r| !r[0].is_empty())
        .map(|r| [0, 1, 2].map(|i| r[i].as_str()))
        .collect();
    assert_eq!(
        records,
        [
            ["1", "1000", "0"],
            ["1,3", "3,0", "1,2"],
            ["1", "3000", "3"],
            // It overtook record 0, which Wireshark then takes for a retransmission and does not dissect.
            ["1", "600", "1"],
            ["2", "0", "2"],
            ["2", "0", "4"],
        ]
    );
    assert!(rows.iter().all(|r| r[3].split(',').all(|tag| tag.is_empty() || tag.len() == 32)));
    assert!(rows.iter().all(|r| r[5].is_empty()), "malformed: {rows:?}");
    let hellos: Vec<_> = rows.iter().filter(|r| !r[4].is_empty()).map(|r| &r[4][..1]).collect();
    assert!(hellos.starts_with(&["1", "2"]), "ClientHello, ServerHello: {hellos:?}");
}

#[test]
fn encapsulated_sessions_are_dissected() {
    let folder = Folder::new("udp");
    let wire = session(&folder.0.join("keys"));
    let mut packets: Vec<_> = wire.segments.iter().map(|s| in_udp(s.direction, &s.bytes)).collect();
    let dns =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01";
    packets.push(in_udp(Direction::ToServer, dns));
    let mut damaged = wire.segments[2].bytes.clone();
    damaged[40] ^= 1;
    packets.push(in_udp(Direction::ToServer, &damaged));
    write_pcap(&folder.0.join("capture.pcap"), 101, &packets);
    let fields = [&FIELDS[..], &["fusewire_udp.segments", "udp.port", "tcp.port"]].concat();
    let Some(rows) = tshark(&folder, &[], &fields) else { return };
    assert_eq!(rows.len(), packets.len());
    let (last, session) = rows.split_at(rows.len() - 2);
    let (session, last) = (last, session);
    check_session(session);
    assert!(session.iter().all(|r| r[6] == "1" && r[8].contains("9293")));
    assert!(
        last.iter().all(|r| r[6].is_empty()),
        "neither another protocol nor a damaged TPDU is taken"
    );

    // With the key log, TLS shows what comes before the records: Hello and Choice.
    let option = format!("tls.keylog_file:{}", folder.0.join("keys").display());
    let Some(rows) = tshark(
        &folder,
        &["-o", &option],
        &["tls.app_data_proto", "tls.handshake.type", "data.data"],
    ) else {
        return;
    };
    let types: Vec<_> =
        rows.iter().flat_map(|r| r[1].split(',')).filter(|t| !t.is_empty()).collect();
    assert!(types.contains(&"20"), "Finished was decrypted: {types:?}");
    assert!(rows.iter().any(|r| r[2].starts_with("010100")), "Hello was decrypted: {rows:?}");
}

#[test]
fn datagrams_joined_by_offload_are_taken_apart() {
    let folder = Folder::new("offload");
    let mut wire = Wire::new(50_001);
    let record_of = |index: u8, body: u8| {
        let mut record = vec![1, 0, 0, 0, 0, 0, 0, body, 0, 0, 0, 0, 0, 0, 0, index];
        record.resize(32 + usize::from(body), 0xcc);
        record
    };
    let first = wire.segments.len();
    for (index, body) in [(0, 101), (1, 101), (2, 101), (3, 20)] {
        wire.stream(Direction::ToServer, &record_of(index, body), 1400);
    }
    let joined =
        wire.segments.split_off(first).into_iter().flat_map(|s| s.bytes).collect::<Vec<_>>();
    let mut packets: Vec<_> = wire.segments.iter().map(|s| in_udp(s.direction, &s.bytes)).collect();
    packets.push(in_udp(Direction::ToServer, &joined));
    write_pcap(&folder.0.join("capture.pcap"), 101, &packets);
    let Some(rows) = tshark(&folder, &[], &["fusewire_udp.segments", "fusewire.record.body_len"])
    else {
        return;
    };
    assert_eq!(rows[2], ["4", "101,101,101,20"]);
}

#[test]
fn captures_of_our_own_are_dissected() {
    let folder = Folder::new("ipv6");
    let wire = session(&folder.0.join("keys"));
    let packets: Vec<_> = wire.segments.iter().map(in_ipv6).collect();
    write_pcap(&folder.0.join("capture.pcap"), 1, &packets);
    let options = ["-o", "tcp.check_checksum:TRUE"];
    let fields = [&FIELDS[..], &["tcp.checksum.status"]].concat();
    let Some(rows) = tshark(&folder, &options, &fields) else { return };
    check_session(&rows);
    assert!(rows.iter().all(|r| r[6] == "1"), "every checksum is good: {rows:?}");
}

#[test]
fn records_without_tag_are_a_preference() {
    let folder = Folder::new("blocks");
    let mut wire = Wire::new(50_001);
    // Bodies of 13 and 0 bytes: 16 + 16, then 16.
    let mut stream = vec![1, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0];
    stream.extend([0xcc; 16]);
    stream.extend([2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    wire.stream(Direction::ToServer, &stream, 1400);
    let packets: Vec<_> = wire.segments.iter().map(|s| in_udp(s.direction, &s.bytes)).collect();
    write_pcap(&folder.0.join("capture.pcap"), 101, &packets);
    let options = ["-o", "fusewire.cipher:PES, SAFER"];
    let Some(rows) =
        tshark(&folder, &options, &["fusewire.record.type", "fusewire.record.body_len"])
    else {
        return;
    };
    assert_eq!(rows[2], ["1,2", "13,0"]);
}
