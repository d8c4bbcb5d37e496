//! What the contents are marshalled as.

/// How contents are marshalled: as octets, or as an array of integers whose bytes the pipeline swaps.
///
/// The pipeline swaps whole ADUs, headers too. So what is not contents is written in XDR and then swapped
/// once more ([`Element::swap`]): the two cancel out, and on the wire everything is XDR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Element {
    /// Opaque octets: nothing is swapped.
    #[default]
    Octets,
    /// 16-bit integers of the host's order.
    Int16,
    /// 32-bit integers of the host's order.
    Int32,
    /// 64-bit integers of the host's order.
    Int64,
}

impl Element {
    /// Bytes of one element.
    pub const fn width(self) -> usize {
        match self {
            Element::Octets => 1,
            Element::Int16 => 2,
            Element::Int32 => 4,
            Element::Int64 => 8,
        }
    }

    /// Every ADU is a multiple of this many bytes: XDR's four, or the element's width if that is more.
    pub const fn unit(self) -> usize {
        if self.width() > 4 { self.width() } else { 4 }
    }

    /// Zero bytes that follow `len` bytes of contents.
    pub const fn fill_len(self, len: usize) -> usize {
        len.wrapping_neg() % self.unit()
    }

    /// Swaps the bytes of each element; its own inverse. A rest shorter than an element stays.
    pub fn swap(self, bytes: &mut [u8]) {
        if self != Element::Octets && cfg!(target_endian = "little") {
            bytes.chunks_exact_mut(self.width()).for_each(<[u8]>::reverse);
        }
    }
}
