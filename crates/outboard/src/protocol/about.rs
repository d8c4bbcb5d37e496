//! What is said of an ADU that goes through the placeholder of a context of XTP, and the options of such a socket.
//!
//! ```text
//!    0  2  flags     1: the tag counts; 2: the priority counts; 4: some of the ADU's bytes were lost (NOERR)
//!    2  2  priority  SORT
//!    4  4  zero
//!    8  8  tag       BTAG
//! ```

use super::{Result, malformed};

/// Bytes of an [`About`].
pub const ABOUT_LEN: usize = 16;
/// Bytes of the longest ADU that goes through a placeholder.
pub const ADU_MAX: usize = 128 << 10;

/// The level of XTP's options: its number in IP. Each has a value of four bytes (`int`), and is set before the socket
/// connects or listens; those of a listener are those of its connections.
pub const SOL_XTP: i32 = fusewire_stack::context::NUMBER as i32;
/// What proves packets: 0 the Internet checksum over all, 1 with a trailer behind the data, CXOR, where the peer takes it.
/// Of a socket that is connected it is what is sent.
pub const XTP_CHECK: i32 = 1;
/// Not 0: ADUs have tags (BTAG).
pub const XTP_TAGS: i32 = 2;
/// The priority of what the socket sends, from 0 to 65,535, or -1 for none (SORT). It may change at any time.
pub const XTP_SORT: i32 = 3;
/// Not 0: nothing is sent again (NOERR).
pub const XTP_NOERR: i32 = 4;
/// Not 0: ADUs are told when they are whole, also behind a gap.
pub const XTP_OVERTAKING: i32 = 5;

const HAS_TAG: u16 = 1;
const HAS_SORT: u16 = 2;
const IS_BROKEN: u16 = 4;

/// What is said of an ADU besides its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// 8 bytes of the application's, where [`XTP_TAGS`] is set.
    pub tag: Option<u64>,
    /// Its priority, on its way out, where [`XTP_SORT`] is set.
    pub sort: Option<u16>,
    /// Of one that came: some of its bytes were lost, and are what they are.
    pub is_broken: bool,
}

impl About {
    /// Reads it.
    ///
    /// # Errors
    /// A flag that is none, bytes that belong to nothing.
    pub fn parse(bytes: &[u8; ABOUT_LEN]) -> Result<About> {
        let [f0, f1, s0, s1, zero @ .., t0, t1, t2, t3, t4, t5, t6, t7] = *bytes;
        let (flags, zero) = (u16::from_le_bytes([f0, f1]), u32::from_le_bytes(zero));
        let sort = u16::from_le_bytes([s0, s1]);
        let tag = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
        let has = |flag| flags & flag != 0;
        if flags & !(HAS_TAG | HAS_SORT | IS_BROKEN) != 0 {
            return malformed("flags of an ADU", "1, 2 and 4", flags);
        }
        if zero != 0 || !has(HAS_TAG) && tag != 0 || !has(HAS_SORT) && sort != 0 {
            return malformed("bytes before an ADU", "zero where nothing is said", u64::from(zero));
        }
        Ok(About {
            tag: has(HAS_TAG).then_some(tag),
            sort: has(HAS_SORT).then_some(sort),
            is_broken: has(IS_BROKEN),
        })
    }

    /// Lays it down.
    pub fn emit(&self) -> [u8; ABOUT_LEN] {
        let mut bytes = [0; ABOUT_LEN];
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.tag.is_some(), HAS_TAG)
            | flag(self.sort.is_some(), HAS_SORT)
            | flag(self.is_broken, IS_BROKEN);
        bytes[..2].copy_from_slice(&flags.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.sort.unwrap_or(0).to_le_bytes());
        bytes[8..].copy_from_slice(&self.tag.unwrap_or(0).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_an_adu_comes_back_and_nothing_else_is_taken() {
        let tags = [None, Some(0), Some(u64::MAX)];
        for (tag, sort) in tags.into_iter().zip([Some(7), None, Some(0)]) {
            for is_broken in [false, true] {
                let about = About { tag, sort, is_broken };
                assert_eq!(About::parse(&about.emit()), Ok(about));
            }
        }
        for (at, byte) in [(0, 8), (1, 1), (2, 1), (4, 1), (7, 1), (8, 1), (15, 1)] {
            let mut bytes = About::default().emit();
            bytes[at] = byte;
            assert!(About::parse(&bytes).is_err(), "{at}");
        }
    }
}
