//! Captures: tshark reads them as TCP without a wrong checksum, and a full disk ends the capture alone.

use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fusewire_base::{Seq, Sum};
use fusewire_device::capture::Capture;
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_device::memory::{Config, Network};
use fusewire_device::{Device, Ecn, RxBatch, TxFrame};
use fusewire_wire::tcp::{Flags, Header, Options};

fn tpdu(src_port: u16, dst_port: u16, seq: u32, payload_len: usize) -> Vec<u8> {
    let header = Header {
        src_port,
        dst_port,
        seq: Seq(seq),
        ack: Seq(1),
        flags: Flags::ACK | Flags::PSH,
        header_len: 0,
        window: 1000,
        checksum: 0,
        urgent: 0,
        options: Options { timestamps: Some((7, 8)), ..Options::default() },
    };
    let mut bytes = vec![0; header.emit_len()];
    header.emit(&mut bytes);
    bytes.extend((0..payload_len).map(|i| (i * 7 + seq as usize) as u8));
    let sum = pseudo_header_sum(6, bytes.len()) + Sum::of(&bytes);
    bytes[16..18].copy_from_slice(&sum.checksum().to_be_bytes());
    bytes
}

/// Runs tshark, or says why not.
fn tshark(file: &Path, fields: &[&str]) -> Option<String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.check_checksum:TRUE", "-T", "fields", "-r"]).arg(file);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    match command.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(e) => {
            eprintln!("skipped: tshark cannot be run: {e}");
            None
        }
    }
}

#[test]
fn tshark_reads_tcp_with_right_checksums() {
    let file = std::env::temp_dir().join(format!("fusewire-capture-{}.pcapng", std::process::id()));
    let network = Network::new(Config { max_datagram: 200_000, ..Config::default() });
    let mut a = network.attach("127.0.0.1:4433".parse().unwrap()).unwrap();
    let mut peers = ["127.0.0.1:50001", "[2001:db8:9::1]:50001"]
        .map(|addr| network.attach(addr.parse().unwrap()).unwrap());
    let mut capture =
        Capture::to_file(network.attach("10.0.0.9:9".parse().unwrap()).unwrap(), &file, 6).unwrap();
    let mut batch = RxBatch::with_slot_bytes(8, 200_000);
    let sizes = [0, 1, 2, 3, 1420, 8968, 65_475, 65_503, 65_504, 100_001];
    let mut frames = 0;
    for (i, &size) in sizes.iter().enumerate() {
        let out = tpdu(1, 50_001, i as u32 * 100_000, size);
        for peer in &peers {
            let (header, payload) = out.split_at(32);
            let frame = TxFrame { peer: peer.local_addr(), header, payload, ecn: Ecn::Ect0 };
            assert_eq!(capture.transmit(&[frame]).unwrap(), 1);
        }
        let back = tpdu(50_001, 1, i as u32 * 100_000 + 5, size);
        let frame =
            TxFrame { peer: capture.local_addr(), header: &back, payload: &[], ecn: Ecn::NotEct };
        for peer in peers.iter_mut().chain([&mut a]) {
            assert_eq!(peer.transmit(&[frame]).unwrap(), 1);
        }
        assert!(capture.receive(&mut batch).unwrap() > 0);
        frames += 5;
    }
    drop(capture);
    let fields =
        ["tcp.checksum.status", "ip.version", "ipv6.src", "ipv6.dst", "tcp.len", "ipv6.tclass.ecn"];
    let Some(text) = tshark(&file, &fields) else { return };
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), frames, "{text}");
    let mut lens: Vec<usize> = Vec::new();
    for line in &lines {
        assert_eq!(line[0], "1", "checksum status is not 'good': {line:?}");
        lens.push(line[4].parse().unwrap());
    }
    lens.sort_unstable();
    let mut expected: Vec<usize> = sizes.iter().flat_map(|&n| [n; 5]).collect();
    expected.sort_unstable();
    assert_eq!(lens, expected);
    assert_eq!(lines[0][2..4], ["2001:db8::ffff", "2001:db8::1:fffe"]);
    assert_eq!(lines[1][2..4], ["2001:db8::ffff", "2001:db8::2:fffd"]);
    // Broken on purpose: the test must be able to see a wrong checksum.
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(16).rposition(|w| w == &tpdu(1, 50_001, 0, 0)[..16]).unwrap();
    bytes[at + 5] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let text = tshark(&file, &["tcp.checksum.status"]).unwrap();
    assert_eq!(text.lines().filter(|&line| line == "0").count(), 1);
    std::fs::remove_file(&file).unwrap();
}

/// A disk with little room.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_capture_that_cannot_be_written_ends_and_the_device_goes_on() {
    let network = Network::new(Config::default());
    let a = network.attach("10.0.0.1:1".parse().unwrap()).unwrap();
    let mut b = network.attach("10.0.0.2:2".parse().unwrap()).unwrap();
    let mut a = Capture::new(a, Full(1500), 6, || Duration::from_secs(1)).unwrap();
    let bytes = tpdu(1, 2, 3, 300);
    let frame = TxFrame { peer: b.local_addr(), header: &bytes, payload: &[], ecn: Ecn::NotEct };
    for _ in 0..10 {
        assert_eq!(a.transmit(&[frame]).unwrap(), 1);
    }
    assert!(a.ended().unwrap().starts_with("capture ended: "));
    assert_eq!(a.caps().notes.len(), 1);
    let mut batch = RxBatch::new(1);
    b.receive(&mut batch).unwrap();
    assert_eq!(batch.iter().next().unwrap().frames().count(), 10);
}
