//! A segment that came, and whether it is as it was sent.

use fusewire_base::Sum;
use fusewire_kernels::{Check, Cxor, Found, Level};
use fusewire_transport::machine::Header as _;

use crate::machine::Header;

/// What a segment brings besides its payload.
pub(crate) struct Segment<'a> {
    pub header: &'a Header,
    /// Sum over the pseudo-header, and what of the header the checksum covers.
    pub header_sum: Sum,
    pub payload: &'a [u8],
    /// Behind the payload, if it proves it.
    pub trailer: &'a [u8],
    pub marked: bool,
    /// It is the one that came last, of which the application did not want all.
    pub again: bool,
}

impl Segment<'_> {
    /// What was found of the payload is as the segment says, and the checksum right.
    #[inline]
    pub(super) fn verifies_with(&self, found: Found) -> bool {
        match self.check() {
            Check::Internet => found.sum().is_some_and(|sum| (self.header_sum + sum).verifies()),
            Check::Cxor => {
                let is_right = |cxor: Cxor| cxor.bits().to_be_bytes() == *self.trailer;
                self.header_sum.verifies() && found.cxor().is_some_and(is_right)
            }
            Check::None => self.header_sum.verifies(),
        }
    }

    /// The same, as a pass of its own finds.
    pub fn verifies(&self, level: Level) -> bool {
        self.verifies_with(self.check().of(level, self.payload))
    }

    /// What has to be found of the payload, besides the tags of records that come alone.
    #[inline]
    pub(super) fn check(&self) -> Check {
        match self.header.sums_payload() {
            true => Check::Internet,
            false if !self.trailer.is_empty() => Check::Cxor,
            false => Check::None,
        }
    }
}
