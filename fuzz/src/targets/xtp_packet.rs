//! XTP's packets: what parses is written again as the same bytes, and whatever it claims lies within them.
use fusewire_base::Sum;
use fusewire_wire::xtp::{self, Body, CHECK_AT, HEADER_LEN, Packet, Spans};

/// Spans that a machine keeps of a packet.
const KEPT: usize = 4;

/// Runs one input, as it is and with a dlen that is right.
pub fn run(data: &[u8]) {
    packet(data);
    if data.len() >= HEADER_LEN {
        let mut whole = data.to_vec();
        let dlen = (data.len() - HEADER_LEN) as u32;
        whole[12..16].copy_from_slice(&dlen.to_be_bytes());
        packet(&whole);
        xtp::seal(&mut whole);
        assert!(xtp::verifies(&whole));
        whole[CHECK_AT] ^= 1;
        assert!(!xtp::verifies(&whole));
    }
}

/// The examples of the document.
pub fn seeds() -> Vec<Vec<u8>> {
    let text = include_str!("../../../docs/xtp.md");
    let examples = text.split("<!-- example: ").skip(1).filter_map(|part| {
        let (_, hex) = part.split_once("```\n")?;
        let (hex, _) = hex.split_once("```")?;
        hex.split_ascii_whitespace().map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
    });
    examples.collect()
}

fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let header = packet.header;
    assert_eq!(header.packet_len(), bytes.len());
    assert_eq!(header.data_len as usize, packet.data.len());
    let mut out = vec![0xee; header.emit_len() + 1];
    let len = header.emit(&mut out);
    assert!(len == header.emit_len() && out[len] == 0xee);
    out.truncate(len);
    out.extend(packet.data);
    out.extend(packet.trailer.iter().flat_map(|cxor| cxor.to_be_bytes()));
    // Bits that have no meaning are not kept, nor the tag's of a packet that is refused.
    let idle = match header.body {
        Body::Unfit(_) => [0x80, 0x01, 0xff],
        _ => [0x80, 0, 0xff],
    };
    let mut expected = bytes.to_vec();
    expected[8..11].iter_mut().zip(idle).for_each(|(byte, idle)| *byte &= !idle);
    assert_eq!(out, expected);
    assert!(
        header.checks_all() || Sum::of(&bytes[..HEADER_LEN]).verifies() == xtp::verifies(bytes)
    );

    let kept = header.keep::<KEPT>();
    if let (Body::Ecntl(control, spans), Body::Ecntl(_, kept)) = (header.body, kept.body) {
        let mut end = control.rseq;
        for span in spans.iter() {
            assert!(end < span.left && span.left < span.right && span.right <= xtp::OFFSET_MAX);
            end = span.right;
        }
        assert!(kept.iter().len() <= KEPT && kept.iter().zip(spans.iter()).all(|(a, b)| a == b));
    }
    let mut out = vec![0; kept.emit_len()];
    kept.emit(&mut out);
}
