//! Reports of arrivals, as congestion control of media wants them: the report block of RFC 8888, section 3.1, for one flow
//! whose packets have numbers of 32 bits, without RTCP's header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------------------------------------------------------+
//! | begin: number of the first packet that is told of             |
//! +---------------------------------------------------------------+
//! | report timestamp (RTS), units of 1/65,536 s                   |
//! +-------------------------------+-+---+-------------------------+
//! | count of packet metric blocks |R|ECN| arrival offset (ATO)    |
//! +-------------------------------+-+---+-------------------------+
//! | …                                                             |
//! +---------------------------------------------------------------+
//! ```
//! RTS is the receiver's clock, whose origin is its own. ATO says how long before RTS the packet came, in units of 1/1,024 s.

use crate::Error;

const PROTOCOL: &str = "feedback";
/// Bytes before the packet metric blocks.
pub const HEADER_LEN: usize = 10;
/// Packet metric blocks of one report at most (RFC 8888, section 3.1).
pub const METRICS_MAX: usize = 16384;
/// The largest offset that is told (0x1FFD).
const OFFSET_MAX: u64 = 0x1FFD;
/// It came longer ago.
const OVER_RANGE: u16 = 0x1FFE;
/// It is not known when it came.
const UNKNOWN: u16 = 0x1FFF;
const RECEIVED: u16 = 0x8000;

/// What a report says of one packet (the packet metric block).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// R = 0: it has not come yet.
    Missing,
    /// R = 1.
    Received {
        /// The two bits of ECN as they came.
        ecn: u8,
        /// How long before the report's timestamp it came, in 1/1,024 s; `None`: longer ago than can be said, or not known.
        before: Option<u16>,
    },
}

impl Metric {
    /// A packet that came `units` of 1/1,024 s before the report.
    pub const fn received(ecn: u8, units: u64) -> Metric {
        let before = if units <= OFFSET_MAX { Some(units as u16) } else { None };
        Metric::Received { ecn: ecn & 3, before }
    }

    /// The 16 bits of it.
    pub const fn to_bits(self) -> u16 {
        match self {
            Metric::Missing => 0,
            Metric::Received { ecn, before } => {
                let offset = match before {
                    Some(units) if units as u64 <= OFFSET_MAX => units,
                    _ => OVER_RANGE,
                };
                RECEIVED | ((ecn & 3) as u16) << 13 | offset
            }
        }
    }

    /// Of 16 bits; what a missing packet's others say is ignored, as the RFC has it.
    pub const fn from_bits(bits: u16) -> Metric {
        if bits & RECEIVED == 0 {
            return Metric::Missing;
        }
        let offset = bits & UNKNOWN;
        let before = if offset as u64 <= OFFSET_MAX { Some(offset) } else { None };
        Metric::Received { ecn: (bits >> 13 & 3) as u8, before }
    }
}

/// A report as it lies in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// Number of the first packet, modulo 2^32.
    pub begin: u32,
    /// RTS, in 1/65,536 s of the receiver's clock.
    pub timestamp: u32,
    metrics: &'a [[u8; 2]],
}

impl<'a> Report<'a> {
    /// All of `bytes`.
    ///
    /// # Errors
    /// [`Error`]: it is cut short, has bytes too many, or more metrics than [`METRICS_MAX`].
    pub fn parse(bytes: &'a [u8]) -> Result<Report<'a>, Error> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Error::Truncated {
                protocol: PROTOCOL,
                needed: HEADER_LEN,
                found: bytes.len(),
            });
        };
        let [a, b, c, d, e, f, g, h, count @ ..] = *header;
        let count = usize::from(u16::from_be_bytes(count));
        let (metrics, odd) = rest.as_chunks::<2>();
        if count > METRICS_MAX || metrics.len() > count || !odd.is_empty() {
            return Err(Error::Length { protocol: PROTOCOL, field: "num_reports", found: count });
        }
        if metrics.len() < count {
            let needed = HEADER_LEN + 2 * count;
            return Err(Error::Truncated { protocol: PROTOCOL, needed, found: bytes.len() });
        }
        let (begin, timestamp) = ([a, b, c, d], [e, f, g, h]);
        let (begin, timestamp) = (u32::from_be_bytes(begin), u32::from_be_bytes(timestamp));
        Ok(Report { begin, timestamp, metrics })
    }

    /// Of each packet from `begin` on what is said.
    pub fn metrics(&self) -> impl ExactSizeIterator<Item = Metric> + use<'a> {
        self.metrics.iter().map(|bytes| Metric::from_bits(u16::from_be_bytes(*bytes)))
    }

    /// How many packets it tells of.
    pub const fn count(&self) -> usize {
        self.metrics.len()
    }
}

/// Packets that a report of `len` bytes has room for.
pub const fn fitting(len: usize) -> usize {
    let count = len.saturating_sub(HEADER_LEN) / 2;
    if count < METRICS_MAX { count } else { METRICS_MAX }
}

/// Writes a report and says how long it is; of the metrics as many as there is room for.
///
/// # Panics
/// If `bytes` is shorter than [`HEADER_LEN`].
pub fn emit(
    begin: u32,
    timestamp: u32,
    metrics: impl IntoIterator<Item = Metric>,
    bytes: &mut [u8],
) -> usize {
    let (header, rest) = bytes.split_at_mut(HEADER_LEN);
    let mut count = 0;
    for (place, metric) in rest.as_chunks_mut::<2>().0.iter_mut().zip(metrics).take(METRICS_MAX) {
        *place = metric.to_bits().to_be_bytes();
        count += 1;
    }
    header[..4].copy_from_slice(&begin.to_be_bytes());
    header[4..8].copy_from_slice(&timestamp.to_be_bytes());
    header[8..].copy_from_slice(&(count as u16).to_be_bytes());
    HEADER_LEN + 2 * count
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [Metric; 5] = [
        Metric::received(3, 0),
        Metric::Missing,
        Metric::received(0, 0x1FFD),
        Metric::received(2, 0x1FFE),
        Metric::received(1, 512),
    ];

    #[test]
    fn what_is_emitted_is_parsed() {
        let mut bytes = [0; 64];
        let len = emit(7, 0x1_8000, METRICS, &mut bytes);
        assert_eq!(len, 20);
        let report = Report::parse(&bytes[..len]).unwrap();
        assert_eq!((report.begin, report.timestamp, report.count()), (7, 0x1_8000, 5));
        assert!(report.metrics().eq(METRICS));
        // 0x1FFE: over range (RFC 8888, section 3.1).
        assert_eq!(METRICS[3].to_bits(), 0x8000 | 2 << 13 | 0x1FFE);
        assert_eq!(Metric::from_bits(0xFFFF), Metric::Received { ecn: 3, before: None });
        assert_eq!(Metric::from_bits(0x7FFF), Metric::Missing);
        // No more than there is room for.
        assert_eq!(emit(7, 0, METRICS, &mut bytes[..15]), 14);
        assert_eq!((fitting(15), fitting(9), fitting(1 << 20)), (2, 0, METRICS_MAX));
    }

    #[test]
    fn every_other_length_is_refused() {
        let mut bytes = [0; 64];
        let len = emit(7, 9, METRICS, &mut bytes);
        for n in (0..64).filter(|n| *n != len) {
            assert!(Report::parse(&bytes[..n]).is_err(), "{n} bytes");
        }
        let mut long = vec![0; HEADER_LEN + 2 * (METRICS_MAX + 1)];
        long[8..10].copy_from_slice(&(METRICS_MAX as u16 + 1).to_be_bytes());
        assert!(Report::parse(&long).is_err());
    }
}
