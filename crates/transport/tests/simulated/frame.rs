//! What the simulated links carry: a real header, and a payload that is either bytes or, for long
//! runs, only the range of the stream that it stands for.

use core::ops::Range;

use fusewire_base::Sum;
use fusewire_testkit::{Content, Packet, Random};
use fusewire_transport::tcp::Transmit;
use fusewire_wire::tcp::{Header, MAX_HEADER_LEN};

use crate::two_ends::{Frame as _, assert_bytes};
use fusewire_transport::machine::PayloadPlan;

/// Stands for the pseudo-header.
const PSEUDO: Sum = Sum::from_folded(0x1234);
/// IP, UDP: what a frame weighs beside the TPDU.
const OUTER_LEN: usize = 28;

#[derive(Clone, Debug)]
pub enum Payload {
    Bytes(Vec<u8>),
    Range { range: Range<u64>, is_intact: bool },
}

impl Payload {
    pub fn none(with_bytes: bool) -> Payload {
        if with_bytes {
            Payload::Bytes(Vec::new())
        } else {
            Payload::Range { range: 0..0, is_intact: true }
        }
    }
}

#[derive(Clone, Debug)]
pub struct Frame {
    head: [u8; MAX_HEADER_LEN],
    head_len: usize,
    pub payload: Payload,
    pub ecn_capable: bool,
    pub marked: bool,
}

impl Frame {
    /// A frame with any header and payload, and a right checksum.
    pub fn forged(header: &Header, payload: Payload) -> Frame {
        let mut head = [0; MAX_HEADER_LEN];
        let header = Header { checksum: 0, ..*header };
        let head_len = header.emit(&mut head);
        let mut frame = Frame { head, head_len, payload, ecn_capable: false, marked: false };
        let checksum = frame.sum().checksum();
        frame.head[16..18].copy_from_slice(&checksum.to_be_bytes());
        frame
    }

    fn sum(&self) -> Sum {
        let head = PSEUDO + Sum::of(&self.head[..self.head_len]);
        match &self.payload {
            Payload::Bytes(bytes) => head.then(self.head_len, Sum::of(bytes)),
            Payload::Range { .. } => head,
        }
    }
}

impl crate::two_ends::Frame for Frame {
    type Header = Header;

    fn of(transmit: &Transmit, content: &Content, with_bytes: bool) -> Frame {
        let range = transmit.payload.clone().unwrap_or(0..0);
        let payload = if with_bytes {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            content.fill(range.start, &mut bytes);
            Payload::Bytes(bytes)
        } else {
            Payload::Range { range, is_intact: true }
        };
        let mut frame = Frame::forged(&transmit.header, payload);
        frame.ecn_capable = transmit.ecn_capable;
        frame
    }

    fn control(header: &Header, with_bytes: bool) -> Frame {
        Frame::forged(header, Payload::none(with_bytes))
    }

    /// The header, when it can be read and ends where it did when it was sent. (A data offset that
    /// was changed moves bytes between header and payload; the checksum then decides.)
    fn header(&self) -> Option<Header> {
        let header = Header::parse(&self.head[..self.head_len]).ok()?;
        (usize::from(header.header_len) == self.head_len).then_some(header)
    }

    fn payload_len(&self) -> u32 {
        match &self.payload {
            Payload::Bytes(bytes) => bytes.len() as u32,
            Payload::Range { range, .. } => (range.end - range.start) as u32,
        }
    }

    fn assert_carries(&self, plan: &PayloadPlan, len: u32, stream: &Content) {
        match &self.payload {
            Payload::Bytes(bytes) => assert_bytes(bytes, plan, len, stream),
            Payload::Range { range, .. } => {
                assert_eq!(range.start + u64::from(plan.trim_front), plan.offset, "wrong place");
            }
        }
    }

    fn verifies(&self) -> bool {
        self.sum().verifies() && !matches!(self.payload, Payload::Range { is_intact: false, .. })
    }

    fn is_marked(&self) -> bool {
        self.marked
    }
}

impl core::fmt::Display for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Some(h) = self.header() else { return f.write_str("unreadable") };
        write!(
            f,
            "{:?} seq {} len {} ack {} win {}",
            h.flags,
            h.seq,
            self.payload_len(),
            h.ack,
            h.window
        )?;
        write!(f, " ts {:?} sack {:?}", h.options.timestamps, h.options.sack_blocks())?;
        f.write_str(if self.verifies() { "" } else { " corrupt" })
    }
}

impl Packet for Frame {
    fn len_bytes(&self) -> usize {
        OUTER_LEN + self.head_len + self.payload_len() as usize
    }

    fn corrupt(&mut self, random: &mut Random) {
        let len = self.head_len + self.payload_len() as usize;
        let at = random.below(len as u64) as usize;
        let change = random.range(1..256) as u8;
        match (at.checked_sub(self.head_len), &mut self.payload) {
            (None, _) => self.head[at] ^= change,
            (Some(at), Payload::Bytes(bytes)) => bytes[at] ^= change,
            (Some(_), Payload::Range { is_intact, .. }) => *is_intact = false,
        }
    }

    fn mark(&mut self) -> bool {
        self.marked = self.ecn_capable;
        self.marked
    }
}
