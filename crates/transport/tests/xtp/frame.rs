//! What the simulated links carry: whole packets.

use core::fmt;

use fusewire_testkit::{Content, Packet, Random};
use fusewire_transport::xtp::{Header, SPANS, Transmit};
use fusewire_wire::xtp::{self, Options, Spans as _, TRAILER_LEN};

use crate::two_ends::{Frame as _, assert_bytes};
use fusewire_transport::machine::PayloadPlan;

/// IP, UDP: what a frame weighs beside the packet.
const OUTER_LEN: usize = 28;

#[derive(Clone, Debug)]
pub struct Frame {
    pub bytes: Vec<u8>,
}

impl Frame {
    /// A packet with any header and data, and a right check.
    pub fn forged(header: &Header, data: &[u8]) -> Frame {
        let mut bytes = vec![0; header.emit_len()];
        header.emit(&mut bytes);
        bytes.extend_from_slice(data);
        if header.trailer_len() > 0 {
            bytes.extend_from_slice(&[0; TRAILER_LEN]);
        }
        xtp::seal(&mut bytes);
        Frame { bytes }
    }

    /// The header and the data, when it can be read.
    pub fn parse(&self) -> Option<(Header, &[u8])> {
        let packet = xtp::Packet::parse(&self.bytes).ok()?;
        Some((packet.header.keep::<SPANS>(), packet.data))
    }
}

impl crate::two_ends::Frame for Frame {
    type Header = Header;

    /// Always with bytes.
    fn of(transmit: &Transmit, content: &Content, _: bool) -> Frame {
        let range = transmit.payload.clone().unwrap_or(0..0);
        let mut data = vec![0; (range.end - range.start) as usize];
        content.fill(range.start, &mut data);
        assert_eq!(transmit.header.data_len as usize, data.len());
        Frame::forged(&transmit.header, &data)
    }

    fn control(header: &Header, _: bool) -> Frame {
        Frame::forged(header, &[])
    }

    fn header(&self) -> Option<Header> {
        Some(self.parse()?.0)
    }

    fn payload_len(&self) -> u32 {
        self.parse().map_or(0, |(_, data)| data.len() as u32)
    }

    fn assert_carries(&self, plan: &PayloadPlan, len: u32, stream: &Content) {
        let (header, data) = self.parse().expect("it was read");
        assert_eq!(header.seq + u64::from(plan.trim_front), plan.offset);
        assert_bytes(data, plan, len, stream);
    }

    fn verifies(&self) -> bool {
        xtp::verifies(&self.bytes)
    }

    /// But for a change that made NOCHECK of it, which one sum in 65,535 does not show.
    fn assert_changed(&self) {
        let nocheck = self.bytes.get(8).is_some_and(|cmd| cmd & 0x40 != 0);
        assert!(nocheck || !self.verifies(), "what we sent parses");
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((h, _)) = self.parse() else { return f.write_str("unreadable") };
        let rtn = if h.returned { "RTN|" } else { "" };
        write!(f, "{:?} {rtn}{:?} {:?}", h.body.format(), h.key, h.options)?;
        write!(f, " seq {} len {} sync {:08x}", h.seq, h.data_len, h.sync)?;
        if let Some(c) = h.body.control() {
            write!(f, " rseq {} alloc {} echo {:08x}", c.rseq, c.alloc, c.echo)?;
        }
        if let xtp::Body::Ecntl(_, spans) = &h.body {
            for span in spans.iter() {
                write!(f, " {}..{}", span.left, span.right)?;
            }
        }
        f.write_str(if self.verifies() { "" } else { " corrupt" })
    }
}

impl Packet for Frame {
    fn len_bytes(&self) -> usize {
        OUTER_LEN + self.bytes.len()
    }

    fn corrupt(&mut self, random: &mut Random) {
        // Data under NOCHECK prove themselves: not here.
        let nocheck = self.parse().is_some_and(|(h, _)| h.options.has(Options::NOCHECK));
        let len = if nocheck { xtp::HEADER_LEN } else { self.bytes.len() };
        let at = random.below(len as u64) as usize;
        self.bytes[at] ^= random.range(1..256) as u8;
    }

    fn mark(&mut self) -> bool {
        false
    }
}
