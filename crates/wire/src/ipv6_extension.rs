//! Extension headers of IPv6 (RFC 8200, section 4), one after another.
//!
//! [`Chain`] walks them and says what each holds; what follows from it is the reader's to decide. At the
//! fragment header the walk ends: what lies behind it is no header but in the first fragment.

use crate::Error;

/// Most extension headers that are walked.
pub const MAX_EXTENSIONS: usize = 8;
/// Most options of one header that are walked: padding is the tool of who wants to keep us busy.
pub const MAX_OPTIONS: usize = 16;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_LEN: usize = 8;

/// Next header: hop-by-hop options.
pub const HOP_BY_HOP: u8 = 0;
/// Next header: routing.
pub const ROUTING: u8 = 43;
/// Next header: fragment.
pub const FRAGMENT: u8 = 44;
/// Next header: nothing follows.
pub const NO_NEXT_HEADER: u8 = 59;
/// Next header: destination options.
pub const DESTINATION_OPTIONS: u8 = 60;

const PROTOCOL: &str = "ipv6";
const PAD_1: u8 = 0;
const PAD_N: u8 = 1;
/// Router alert (RFC 2711), which the messages of multicast listeners bear.
pub const ROUTER_ALERT: u8 = 5;

/// What a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// Options for every hop.
    HopByHop,
    /// Options for the destination.
    DestinationOptions,
    /// Waypoints.
    Routing {
        /// Routing type.
        kind: u8,
        /// Waypoints still to visit.
        segments_left: u8,
    },
    /// A piece of a packet.
    Fragment(Fragment),
}

/// A fragment header (section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The first header of the fragmentable part.
    pub next_header: u8,
    /// Where the piece lies in the fragmentable part, in bytes; a multiple of eight, at most 65528.
    pub offset: u16,
    /// Not the last piece (M).
    pub more: bool,
    /// Which pieces belong together.
    pub identification: u32,
}

impl Fragment {
    /// Reads a header.
    ///
    /// # Errors
    /// `Truncated`.
    pub fn parse(bytes: &[u8]) -> Result<Fragment, Error> {
        let Some(&[next_header, _, o0, o1, i0, i1, i2, i3]) = bytes.first_chunk::<FRAGMENT_LEN>()
        else {
            return Err(truncated(FRAGMENT_LEN, bytes.len()));
        };
        let field = u16::from_be_bytes([o0, o1]);
        Ok(Fragment {
            next_header,
            offset: field & !7,
            more: field & 1 != 0,
            identification: u32::from_be_bytes([i0, i1, i2, i3]),
        })
    }

    /// Writes the header and returns its length.
    ///
    /// # Panics
    /// When `out` is shorter than [`FRAGMENT_LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        debug_assert!(self.offset.is_multiple_of(8));
        let field = (self.offset & !7) | u16::from(self.more);
        out[..2].copy_from_slice(&[self.next_header, 0]);
        out[2..4].copy_from_slice(&field.to_be_bytes());
        out[4..8].copy_from_slice(&self.identification.to_be_bytes());
        FRAGMENT_LEN
    }
}

/// Where a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// What comes next.
    pub next_header: u8,
    /// Where it begins, in bytes from the end of the fixed header.
    pub offset: usize,
    /// Where the field lies that named it, in bytes from the beginning of the fixed header.
    pub named_at: usize,
    walked: usize,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the header is.
    pub extension: Extension,
    /// Where it begins, in bytes from the end of the fixed header.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
}

impl Chain {
    /// A walk of the headers behind a fixed header that names `next_header`.
    pub const fn new(next_header: u8) -> Chain {
        Chain { next_header, offset: 0, named_at: 6, walked: 0 }
    }

    /// The next extension header in `payload`, which begins behind the fixed header; `None` at an
    /// upper layer's, and behind a fragment header.
    ///
    /// # Errors
    /// `Truncated` when one leaves the payload; `Length` when there are more than [`MAX_EXTENSIONS`].
    pub fn step(&mut self, payload: &[u8]) -> Result<Option<Step>, Error> {
        if !matches!(self.next_header, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS) {
            return Ok(None);
        }
        if self.walked == MAX_EXTENSIONS {
            let found = MAX_EXTENSIONS + 1;
            return Err(Error::Length { protocol: PROTOCOL, field: "extension headers", found });
        }
        let bytes = payload.get(self.offset..).unwrap_or_default();
        let Some(&[next, units, third, fourth, ..]) = bytes.first_chunk::<8>() else {
            return Err(truncated(self.offset + 8, payload.len()));
        };
        let len = match self.next_header {
            FRAGMENT => FRAGMENT_LEN,
            _ => 8 + 8 * usize::from(units),
        };
        if len > bytes.len() {
            return Err(truncated(self.offset + len, payload.len()));
        }
        let extension = match self.next_header {
            HOP_BY_HOP => Extension::HopByHop,
            ROUTING => Extension::Routing { kind: third, segments_left: fourth },
            FRAGMENT => Extension::Fragment(Fragment::parse(bytes)?),
            _ => Extension::DestinationOptions,
        };
        let step = Step { extension, offset: self.offset, len };
        self.named_at = crate::ipv6::HEADER_LEN + self.offset;
        self.next_header = next;
        self.offset += len;
        self.walked += 1;
        Ok(Some(step))
    }
}

/// What an option that a node does not know tells it to do (section 4.2): the highest two bits of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Pass over it.
    Skip,
    /// Drop the packet.
    Drop,
    /// Drop the packet and say so.
    Report,
    /// Drop the packet and say so, unless it was sent to a group.
    ReportUnlessMulticast,
}

/// An option: not padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption {
    /// Type.
    pub kind: u8,
    /// Where it begins, in bytes from the beginning of its header.
    pub offset: usize,
}

impl HeaderOption {
    /// What to do with it by who does not know it.
    pub const fn unknown(self) -> Unknown {
        match self.kind >> 6 {
            0 => Unknown::Skip,
            1 => Unknown::Drop,
            2 => Unknown::Report,
            _ => Unknown::ReportUnlessMulticast,
        }
    }
}

/// The options of the hop-by-hop or destination options header that `header` is, in full.
pub fn options(header: &[u8]) -> Options<'_> {
    Options { header, at: 2, walked: 0 }
}

/// See [`options`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
    walked: usize,
}

impl Iterator for Options<'_> {
    type Item = Result<HeaderOption, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(&kind) = self.header.get(self.at) {
            let at = self.at;
            self.walked += 1;
            if self.walked > MAX_OPTIONS {
                self.at = self.header.len();
                let found = MAX_OPTIONS + 1;
                return Some(Err(Error::Length { protocol: PROTOCOL, field: "options", found }));
            }
            if kind == PAD_1 {
                self.at += 1;
                continue;
            }
            let found = self.header.get(at + 1).copied();
            let end = at + 2 + usize::from(found.unwrap_or(0));
            if found.is_none() || end > self.header.len() {
                self.at = self.header.len();
                let found = found.unwrap_or(0);
                return Some(Err(Error::OptionLength { protocol: PROTOCOL, kind, at, found }));
            }
            self.at = end;
            if kind != PAD_N {
                return Some(Ok(HeaderOption { kind, offset: at }));
            }
        }
        None
    }
}

const fn truncated(needed: usize, found: usize) -> Error {
    Error::Truncated { protocol: PROTOCOL, needed, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENT_HEADER: Fragment =
        Fragment { next_header: 17, offset: 1448, more: true, identification: 0xdead_beef };

    #[test]
    fn fragment_round_trip_and_truncation() {
        let mut bytes = [0xee; FRAGMENT_LEN];
        assert_eq!(FRAGMENT_HEADER.emit(&mut bytes), FRAGMENT_LEN);
        assert_eq!(bytes, [17, 0, 0x05, 0xa9, 0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(Fragment::parse(&bytes), Ok(FRAGMENT_HEADER));
        for len in 0..FRAGMENT_LEN {
            assert_eq!(Fragment::parse(&bytes[..len]), Err(truncated(FRAGMENT_LEN, len)));
        }
    }

    fn chain() -> Vec<u8> {
        let mut payload = vec![0u8; 40];
        payload[..4].copy_from_slice(&[ROUTING, 0, PAD_N, 4]);
        payload[8..12].copy_from_slice(&[DESTINATION_OPTIONS, 1, 4, 2]);
        payload[24..28].copy_from_slice(&[FRAGMENT, 0, PAD_N, 4]);
        FRAGMENT_HEADER.emit(&mut payload[32..]);
        payload
    }

    #[test]
    fn a_chain_is_walked_and_every_cut_is_told() {
        let payload = chain();
        let walk = |payload: &[u8]| {
            let mut chain = Chain::new(HOP_BY_HOP);
            let mut steps = vec![];
            while let Some(step) = chain.step(payload)? {
                steps.push((step.extension, step.offset, step.len));
                if matches!(step.extension, Extension::Fragment(_)) {
                    break;
                }
            }
            Ok((steps, chain.next_header, chain.offset, chain.named_at))
        };
        let steps = vec![
            (Extension::HopByHop, 0, 8),
            (Extension::Routing { kind: 4, segments_left: 2 }, 8, 16),
            (Extension::DestinationOptions, 24, 8),
            (Extension::Fragment(FRAGMENT_HEADER), 32, 8),
        ];
        assert_eq!(walk(&payload), Ok((steps, 17, 40, 72)));
        for len in 0..payload.len() {
            assert!(matches!(walk(&payload[..len]), Err(Error::Truncated { .. })), "{len}");
        }
        assert_eq!(Chain::new(6).step(&[]), Ok(None));
        let mut chain = Chain::new(HOP_BY_HOP);
        let long = [0; 800];
        let error = (0..20).find_map(|_| chain.step(&long).err());
        assert!(matches!(error, Some(Error::Length { found: 9, .. })));
    }

    #[test]
    fn options_are_found_among_padding() {
        let header = [6, 1, PAD_1, PAD_N, 1, 0, ROUTER_ALERT, 2, 0, 0, 0xc2, 1, 9, PAD_N, 1, 0];
        let found: Result<Vec<_>, _> = options(&header).collect();
        let expected = vec![
            HeaderOption { kind: ROUTER_ALERT, offset: 6 },
            HeaderOption { kind: 0xc2, offset: 10 },
        ];
        assert_eq!(found, Ok(expected));
        for len in [7, 9, 11, 12, 14, 15] {
            assert!(options(&header[..len]).any(|o| o.is_err()), "cut at {len}");
        }
        assert!(options(&[0; 20]).any(|o| matches!(o, Err(Error::Length { .. }))));
        let acts = [0x3e, 0x40, 0x80, 0xc0].map(|kind| HeaderOption { kind, offset: 0 }.unknown());
        let expected =
            [Unknown::Skip, Unknown::Drop, Unknown::Report, Unknown::ReportUnlessMulticast];
        assert_eq!(acts, expected);
    }
}
