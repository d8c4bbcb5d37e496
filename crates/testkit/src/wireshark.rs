//! Wireshark as an independent reader: packets of IP written to a capture, and what tshark says of them.

use std::path::Path;
use std::process::Command;

/// IPv4 from 192.0.2.1 to 192.0.2.2 around `payload`, without a checksum.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    (packet[8], packet[9]) = (64, protocol);
    packet[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(payload);
    packet
}

/// IPv6 from 2001:db8::1 to 2001:db8::2 around `payload`.
pub fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    (packet[6], packet[7]) = (protocol, 64);
    for (at, host) in [(8, 1), (24, 2)] {
        packet[at..at + 4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        packet[at + 15] = host;
    }
    packet.extend(payload);
    packet
}

/// UDP in IPv4, without checksums.
pub fn udp(payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for field in [40_777, 51_111, (8 + payload.len()) as u16, 0] {
        datagram.extend(field.to_be_bytes());
    }
    datagram.extend(payload);
    ipv4(17, &datagram)
}

/// What tshark prints with these `arguments` of a capture of `packets`, which are IP's; `None` where there is no tshark,
/// which is said.
///
/// # Panics
/// When tshark fails.
pub fn tshark(name: &str, packets: &[Vec<u8>], arguments: &[&str]) -> Option<String> {
    let file = std::env::temp_dir().join(format!("fusewire-{name}-{}.pcap", std::process::id()));
    std::fs::write(&file, capture(packets)).expect("a file for the capture");
    let text = read(&file, arguments);
    let _ = std::fs::remove_file(&file);
    text
}

fn read(file: &Path, arguments: &[&str]) -> Option<String> {
    match Command::new("tshark").arg("-r").arg(file).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            eprintln!("skipped: tshark cannot be run: {error}");
            None
        }
    }
}

/// The values of `fields`, a row a packet. Arguments go before.
///
/// # Panics
/// When tshark fails, or gives another number of rows.
pub fn fields(
    name: &str,
    packets: &[Vec<u8>],
    arguments: &[&str],
    fields: &[&str],
) -> Option<Vec<Vec<String>>> {
    let mut all = [arguments, &["-T", "fields"]].concat();
    fields.iter().for_each(|field| all.extend(["-e", field]));
    let text = tshark(name, packets, &all)?;
    let rows: Vec<Vec<String>> =
        text.lines().map(|line| line.split('\t').map(String::from).collect()).collect();
    assert_eq!(rows.len(), packets.len(), "a row for each packet");
    Some(rows)
}

/// What tshark finds wrong in the details of each packet: lines that call something malformed, bogus, unsupported,
/// unknown to it or incorrect, with the packet's place in `packets`.
///
/// # Panics
/// When tshark fails, or shows another number of packets.
pub fn complaints(
    name: &str,
    packets: &[Vec<u8>],
    arguments: &[&str],
) -> Option<Vec<(usize, String)>> {
    const WORDS: [&str; 4] = ["alformed", "bogus", "Unsupported", "incorrect"];
    let text = tshark(name, packets, &[arguments, &["-V"]].concat())?;
    let details: Vec<&str> = text.split("\nFrame ").collect();
    assert_eq!(details.len(), packets.len(), "details of each packet");
    let mut found = Vec::new();
    for (n, details) in details.into_iter().enumerate() {
        let odd = details.lines().filter(|line| WORDS.iter().any(|word| line.contains(word)));
        found.extend(odd.map(|line| (n, line.trim().to_string())));
    }
    Some(found)
}

/// A classic capture of raw IP.
fn capture(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 101] {
        file.extend(u32::to_le_bytes(word));
    }
    for (n, packet) in packets.iter().enumerate() {
        let (s, us) = (1_700_000_000 + n as u32 / 1000, n as u32 % 1000 * 1000);
        for word in [s, us, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}
