//! The TCP header (RFC 9293, section 3.1) with the options of RFC 9293, 7323, 2018 and 5482.
//!
//! Nothing here knows a connection: an option that is legal only with SYN parses everywhere.

use crate::Error;
use core::fmt;
use core::ops::{BitOr, BitOrAssign};
use fusewire_base::Seq;

/// Protocol number in an IP header.
pub const NUMBER: u8 = 6;
/// Length of a header without options, in bytes.
pub const MIN_HEADER_LEN: usize = 20;
/// Length of a header that carries timestamps and nothing else, in bytes: NOP, NOP, Timestamps.
pub const TIMESTAMP_HEADER_LEN: usize = 32;
/// Longest header: 15 words.
pub const MAX_HEADER_LEN: usize = 60;
/// SACK blocks that an option can hold without timestamps; three fit beside them.
pub const MAX_SACK_BLOCKS: usize = 4;

const PROTOCOL: &str = "tcp";
const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const USER_TIMEOUT: u8 = 28;
const NOP_NOP_TIMESTAMPS: [u8; 4] = [NOP, NOP, TIMESTAMPS, 10];

/// Control bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field counts.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer counts.
    pub const URG: Flags = Flags(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// All bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// At least one bit of `other` is set.
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bits that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        self.with(other)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        *self = self.with(other);
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
        let mut separator = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 == 1 {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        if separator.is_empty() { f.write_str("0") } else { Ok(()) }
    }
}

/// The options that Fusewire knows; others are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Timestamps: value and echo reply (RFC 7323, section 3.2).
    pub timestamps: Option<(u32, u32)>,
    /// Maximum segment size (RFC 9293, section 3.7.1).
    pub mss: Option<u16>,
    /// Window scale shift as it was on the wire; RFC 7323 reads more than 14 as 14.
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// User timeout: the 15-bit value with the granularity bit on top (RFC 5482, section 3).
    pub user_timeout: Option<u16>,
    /// SACK blocks: left edge, right edge (RFC 2018, section 3). The first `sack_count` count.
    pub sack: [(Seq, Seq); MAX_SACK_BLOCKS],
    /// How many of `sack` count.
    pub sack_count: u8,
}

impl Options {
    /// The SACK blocks.
    pub fn sack_blocks(&self) -> &[(Seq, Seq)] {
        &self.sack[..usize::from(self.sack_count).min(MAX_SACK_BLOCKS)]
    }

    /// Appends a SACK block; false when there is no room.
    pub fn push_sack(&mut self, left: Seq, right: Seq) -> bool {
        let room = if self.timestamps.is_some() { 3 } else { MAX_SACK_BLOCKS };
        let n = usize::from(self.sack_count);
        if n >= room {
            return false;
        }
        self.sack[n] = (left, right);
        self.sack_count += 1;
        true
    }

    /// Length on the wire with padding, in bytes: a multiple of four, at most 40.
    pub fn emit_len(&self) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            len += 12;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.user_timeout.is_some() {
            len += 4;
        }
        len + self.sack_emit_len(len)
    }

    /// Length of the SACK option after `before` bytes of others: blocks that do not fit are left out.
    fn sack_emit_len(&self, before: usize) -> usize {
        let room = (MAX_HEADER_LEN - MIN_HEADER_LEN - before).saturating_sub(4) / 8;
        match self.sack_blocks().len().min(room) {
            0 => 0,
            n => 4 + 8 * n,
        }
    }
}

/// A TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number of the first payload byte, or of SYN.
    pub seq: Seq,
    /// Next sequence number that the sender of this header expects.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// Length of this header on the wire in bytes, a multiple of four; set by `parse` and ignored by `emit`.
    pub header_len: u8,
    /// Receive window, not yet scaled.
    pub window: u16,
    /// Checksum field.
    pub checksum: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Reads the header that `bytes` begin with; the payload starts at `header_len`.
    ///
    /// # Errors
    /// [`Error::Truncated`] when `bytes` end before the header does, [`Error::Length`] for a data offset
    /// under five words, [`Error::OptionLength`] for an option that leaves the header or whose length
    /// does not fit its kind.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let Some((fixed, rest)) = bytes.split_first_chunk::<MIN_HEADER_LEN>() else {
            return Err(Error::Truncated {
                protocol: PROTOCOL,
                needed: MIN_HEADER_LEN,
                found: bytes.len(),
            });
        };
        let header_len = usize::from(fixed[12] >> 4) * 4;
        let mut header = Header {
            src_port: u16::from_be_bytes([fixed[0], fixed[1]]),
            dst_port: u16::from_be_bytes([fixed[2], fixed[3]]),
            seq: Seq(u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]])),
            ack: Seq(u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]])),
            flags: Flags(fixed[13]),
            header_len: header_len as u8,
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            checksum: u16::from_be_bytes([fixed[16], fixed[17]]),
            urgent: u16::from_be_bytes([fixed[18], fixed[19]]),
            options: Options::default(),
        };
        if header_len < MIN_HEADER_LEN {
            return Err(Error::Length {
                protocol: PROTOCOL,
                field: "data offset",
                found: header_len / 4,
            });
        }
        let Some(options) = rest.get(..header_len - MIN_HEADER_LEN) else {
            return Err(Error::Truncated {
                protocol: PROTOCOL,
                needed: header_len,
                found: bytes.len(),
            });
        };
        if let Ok(option) = <&[u8; 12]>::try_from(options)
            && option.starts_with(&NOP_NOP_TIMESTAMPS)
        {
            header.options.timestamps = Some((word(&option[4..]), word(&option[8..])));
        } else if !options.is_empty() {
            parse_options(options, &mut header.options)?;
        }
        Ok(header)
    }

    /// Length of the header that `emit` writes, in bytes.
    pub fn emit_len(&self) -> usize {
        MIN_HEADER_LEN + self.options.emit_len()
    }

    /// Writes the header and returns its length. The checksum field is written as it stands.
    ///
    /// # Panics
    /// When `out` is shorter than [`Header::emit_len`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let len = self.emit_len();
        let out = &mut out[..len];
        out[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        out[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        out[12] = (len as u8 / 4) << 4;
        out[13] = self.flags.0;
        out[14..16].copy_from_slice(&self.window.to_be_bytes());
        out[16..18].copy_from_slice(&self.checksum.to_be_bytes());
        out[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        if len > MIN_HEADER_LEN {
            emit_options(&self.options, &mut out[MIN_HEADER_LEN..]);
        }
        len
    }
}

fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[inline(never)]
fn parse_options(bytes: &[u8], options: &mut Options) -> Result<(), Error> {
    let mut at = 0;
    while let Some(&kind) = bytes.get(at) {
        match kind {
            END => break,
            NOP => {
                at += 1;
                continue;
            }
            _ => {}
        }
        let len = bytes.get(at + 1).copied().unwrap_or(0);
        let illegal =
            Error::OptionLength { protocol: PROTOCOL, kind, at: MIN_HEADER_LEN + at, found: len };
        if len < 2 {
            return Err(illegal);
        }
        let body = bytes.get(at + 2..at + usize::from(len)).ok_or(illegal)?;
        match (kind, body) {
            (MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
            (WINDOW_SCALE, &[shift]) => options.window_scale = Some(shift),
            (SACK_PERMITTED, &[]) => options.sack_permitted = true,
            (TIMESTAMPS, body) if body.len() == 8 => {
                options.timestamps = Some((word(body), word(&body[4..])))
            }
            (USER_TIMEOUT, &[a, b]) => options.user_timeout = Some(u16::from_be_bytes([a, b])),
            (SACK, body) if !body.is_empty() && body.len() % 8 == 0 => {
                // Of several such options the last counts, and nothing stays of the others.
                (options.sack, options.sack_count) = Default::default();
                for (block, slot) in body.chunks_exact(8).zip(&mut options.sack) {
                    *slot = (Seq(word(block)), Seq(word(&block[4..])));
                    options.sack_count += 1;
                }
            }
            (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | USER_TIMEOUT | SACK, _) => {
                return Err(illegal);
            }
            _ => {}
        }
        at += usize::from(len);
    }
    Ok(())
}

/// Writes the options over all of `out`, which is `options.emit_len()` bytes long.
#[inline]
fn emit_options(options: &Options, out: &mut [u8]) {
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    if let Some(mss) = options.mss {
        let [a, b] = mss.to_be_bytes();
        put(&[MSS, 4, a, b]);
    }
    if let Some((value, echo)) = options.timestamps {
        put(if options.sack_permitted {
            &[SACK_PERMITTED, 2, TIMESTAMPS, 10]
        } else {
            &NOP_NOP_TIMESTAMPS
        });
        put(&value.to_be_bytes());
        put(&echo.to_be_bytes());
    } else if options.sack_permitted {
        put(&[NOP, NOP, SACK_PERMITTED, 2]);
    }
    if let Some(shift) = options.window_scale {
        put(&[NOP, WINDOW_SCALE, 3, shift]);
    }
    if let Some(timeout) = options.user_timeout {
        let [a, b] = timeout.to_be_bytes();
        put(&[USER_TIMEOUT, 4, a, b]);
    }
    let blocks = out.len().saturating_sub(at + 4) / 8;
    if blocks > 0 {
        out[at..at + 4].copy_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks as u8]);
        at += 4;
        for (left, right) in options.sack_blocks().iter().take(blocks) {
            out[at..at + 4].copy_from_slice(&left.0.to_be_bytes());
            out[at + 4..at + 8].copy_from_slice(&right.0.to_be_bytes());
            at += 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Header {
        Header {
            src_port: 4242,
            dst_port: 7,
            seq: Seq(0xfedc_ba98),
            ack: Seq(0x0123_4567),
            flags: Flags::ACK | Flags::PSH,
            header_len: 20,
            window: 0xabcd,
            checksum: 0x1122,
            urgent: 0x3344,
            options: Options::default(),
        }
    }

    fn samples() -> Vec<Header> {
        let mut samples = Vec::new();
        for bits in 0..32u32 {
            for blocks in 0..=4u32 {
                let mut h = plain();
                let o = &mut h.options;
                o.mss = (bits & 1 != 0).then_some(1448);
                o.window_scale = (bits & 2 != 0).then_some(7);
                o.sack_permitted = bits & 4 != 0;
                o.timestamps = (bits & 8 != 0).then_some((0xdead_beef, 0x0bad_cafe));
                o.user_timeout = (bits & 16 != 0).then_some(0x8005);
                for b in 0..blocks {
                    o.push_sack(Seq(b * 1000 + 7), Seq(b * 1000 + 507));
                }
                samples.push(h);
            }
        }
        samples
    }

    #[test]
    fn what_is_emitted_parses_back() {
        for mut h in samples() {
            let mut out = [0xee; MAX_HEADER_LEN + 1];
            let len = h.emit(&mut out);
            assert_eq!(len, h.emit_len());
            assert!(len <= MAX_HEADER_LEN && len % 4 == 0);
            assert_eq!(out[len], 0xee, "wrote past its length");
            h.header_len = len as u8;
            let parsed = Header::parse(&out).expect("what we emit is legal");
            if parsed.options.sack_count == h.options.sack_count {
                assert_eq!(Header { options: h.options, ..parsed }, h);
                assert_eq!(parsed.options.sack_blocks(), h.options.sack_blocks());
            } else {
                // Blocks that did not fit were left out, and there was no room for one more.
                assert!(parsed.options.sack_count < h.options.sack_count);
                assert!(len + 8 > MAX_HEADER_LEN - 4);
            }
            assert_eq!(parsed.options.timestamps, h.options.timestamps);
            assert_eq!(parsed.options.mss, h.options.mss);
            assert_eq!(parsed.options.window_scale, h.options.window_scale);
            assert_eq!(parsed.options.sack_permitted, h.options.sack_permitted);
            assert_eq!(parsed.options.user_timeout, h.options.user_timeout);
        }
    }

    #[test]
    fn fields_lie_where_the_rfc_draws_them() {
        // RFC 9293, figure 1, with the options NOP, NOP, Timestamps (RFC 7323, appendix A).
        let mut h = plain();
        h.options.timestamps = Some((1, 2));
        let mut out = [0; TIMESTAMP_HEADER_LEN];
        assert_eq!(h.emit(&mut out), TIMESTAMP_HEADER_LEN);
        let expected = [
            0x10, 0x92, 0x00, 0x07, 0xfe, 0xdc, 0xba, 0x98, 0x01, 0x23, 0x45, 0x67, 0x80, 0x18,
            0xab, 0xcd, 0x11, 0x22, 0x33, 0x44, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn truncated_at_every_length() {
        for h in samples() {
            let mut out = [0; MAX_HEADER_LEN];
            let len = h.emit(&mut out);
            for cut in 0..len {
                let err = Header::parse(&out[..cut]).expect_err("cut short");
                assert!(matches!(err, Error::Truncated { found, .. } if found == cut), "{err}");
            }
        }
    }

    #[test]
    fn every_data_offset() {
        let mut out = [0; MAX_HEADER_LEN];
        plain().emit(&mut out);
        for words in 0..16u8 {
            out[12] = words << 4;
            let parsed = Header::parse(&out);
            if words < 5 {
                assert_eq!(
                    parsed,
                    Err(Error::Length {
                        protocol: "tcp",
                        field: "data offset",
                        found: usize::from(words)
                    })
                );
            } else {
                assert_eq!(parsed.map(|h| h.header_len), Ok(words * 4));
            }
        }
    }

    #[test]
    fn every_option_length() {
        let legal = |kind: u8, len: u8| match kind {
            MSS | USER_TIMEOUT => len == 4,
            WINDOW_SCALE => len == 3,
            SACK_PERMITTED => len == 2,
            SACK => matches!(len, 10 | 18 | 26 | 34),
            TIMESTAMPS => len == 10,
            _ => (2..=40).contains(&len),
        };
        for kind in 2..=255u8 {
            for len in 0..=255u8 {
                let mut out = [0; MAX_HEADER_LEN];
                plain().emit(&mut out);
                out[12] = 15 << 4;
                out[20] = kind;
                out[21] = len;
                assert_eq!(
                    Header::parse(&out).is_ok(),
                    legal(kind, len),
                    "kind {kind}, length {len}"
                );
            }
        }
        // An option that begins in the last byte has no length at all.
        let mut out = [NOP; 24];
        plain().emit(&mut out);
        out[12] = 6 << 4;
        out[23] = MSS;
        assert!(matches!(
            Header::parse(&out),
            Err(Error::OptionLength { kind: MSS, at: 23, found: 0, .. })
        ));
    }

    #[test]
    fn timestamps_are_read_wherever_they_stand() {
        let mut out = [0; 32];
        let mut h = plain();
        h.options.timestamps = Some((7, 9));
        h.emit(&mut out);
        // The same option first and the padding behind it: the slow path.
        out[20..32].copy_from_slice(&[8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 1, 0]);
        assert_eq!(Header::parse(&out).map(|h| h.options.timestamps), Ok(Some((7, 9))));
    }

    #[test]
    fn of_two_sack_options_only_the_last_is_left() {
        let mut out = [0; MAX_HEADER_LEN];
        plain().emit(&mut out);
        out[12] = 15 << 4;
        out[20..22].copy_from_slice(&[SACK, 18]);
        out[22..38].fill(0xaa);
        out[38..40].copy_from_slice(&[SACK, 10]);
        out[40..48].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 9]);
        let parsed = Header::parse(&out).expect("both are legal");
        let mut expected = Options::default();
        expected.push_sack(Seq(1), Seq(9));
        assert_eq!(parsed.options, expected);
    }

    #[test]
    fn flags_show_their_names() {
        assert_eq!(format!("{:?} {:?}", Flags::SYN | Flags::ACK, Flags::default()), "SYN|ACK 0");
        assert!(
            (Flags::SYN | Flags::ACK).has(Flags::SYN) && !Flags::SYN.has(Flags::SYN | Flags::ACK)
        );
        assert_eq!((Flags::SYN | Flags::ACK).without(Flags::SYN), Flags::ACK);
    }

    #[test]
    fn a_header_stays_small() {
        assert!(size_of::<Header>() <= 88, "{}", size_of::<Header>());
    }
}
