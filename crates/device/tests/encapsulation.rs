//! The example in `docs/encapsulation.md` is what the code does.

use fusewire_base::{Seq, Sum};
use fusewire_device::encapsulation::pseudo_header_sum;
use fusewire_wire::tcp::{Flags, Header};

#[test]
fn the_example_in_the_specification_verifies() {
    let text = include_str!("../../../docs/encapsulation.md");
    let (_, rest) = text.split_once("```hex\n").unwrap();
    let (hex, _) = rest.split_once("```").unwrap();
    let bytes: Vec<u8> =
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    assert_eq!(bytes.len(), 40);
    assert_eq!(pseudo_header_sum(6, 40), Sum::from_folded(0x5ba0));
    assert!((pseudo_header_sum(6, 40) + Sum::of(&bytes)).verifies());
    let header = Header::parse(&bytes).unwrap();
    assert_eq!((header.src_port, header.dst_port, header.seq), (50_001, 1, Seq(0x0102_0304)));
    assert_eq!(header.flags, Flags::ACK | Flags::PSH);
    assert_eq!((header.checksum, header.options.timestamps), (0x798b, Some((100, 50))));
    assert_eq!(&bytes[usize::from(header.header_len)..], b"Fusewire");
}
