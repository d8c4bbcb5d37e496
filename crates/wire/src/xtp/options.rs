//! Formats, and the options of `cmd` (`docs/xtp.md`, sections 1 and 2).

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

use super::{Error, value};

/// A packet's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Part of a stream.
    Data = 0,
    /// What was received, and what may be sent.
    Cntl = 1,
    /// Part of a stream, and what opens a context.
    First = 2,
    /// What was received, gaps included.
    Ecntl = 3,
    /// What was received, traffic, and a key to return.
    Tcntl = 5,
    /// Joining a group.
    Jcntl = 7,
    /// What is wrong.
    Diag = 8,
    /// A question or answer about the path, of ours.
    Path = 16,
}

impl Format {
    pub(super) const fn parse(bits: u8) -> Result<Format, Error> {
        Ok(match bits {
            0 => Format::Data,
            1 => Format::Cntl,
            2 => Format::First,
            3 => Format::Ecntl,
            5 => Format::Tcntl,
            7 => Format::Jcntl,
            8 => Format::Diag,
            16 => Format::Path,
            _ => return Err(value("format", bits as u32)),
        })
    }
}

macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident = $mask:literal,)*) => {
        /// Options of a packet. BTAG is not among them: a body has its tag, or none.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct Options(u32);

        impl Options {
            $($(#[doc = $doc])+ pub const $name: Options = Options($mask);)*

            const NAMES: &[(u32, &str)] = &[$(($mask, stringify!($name))),*];
            const ALL: u32 = $($mask |)* 0;
        }
    };
}

options! {
    /// The check covers the header alone.
    NOCHECK = 0x4000_0000,
    /// Asks when it changes.
    EDGE = 0x2000_0000,
    /// What is lost is not sent again.
    NOERR = 0x1000_0000,
    /// Multicast.
    MULTI = 0x0800_0000,
    /// CXOR is offered, agreed on, or behind the data: what 4.0 keeps in reserve.
    RES = 0x0400_0000,
    /// The sort field counts.
    SORT = 0x0200_0000,
    /// Its sender heeds no `alloc`.
    NOFLOW = 0x0100_0000,
    /// Tell of gaps unasked.
    FASTNAK = 0x0080_0000,
    /// Answer now.
    SREQ = 0x0040_0000,
    /// Answer when what came is delivered.
    DREQ = 0x0020_0000,
    /// Its sender reads no more.
    RCLOSE = 0x0010_0000,
    /// Its sender's stream ends where this packet ends.
    WCLOSE = 0x0008_0000,
    /// A message ends with the last data byte.
    EOM = 0x0004_0000,
    /// Its sender's context is gone.
    END = 0x0002_0000,
}

/// BTAG: eight bytes of the user's before the data.
pub(super) const BTAG: u32 = 0x0001_0000;

impl Options {
    /// None.
    pub const NONE: Options = Options(0);

    /// Those of `cmd` that have a meaning.
    pub(super) const fn of_cmd(cmd: u32) -> Options {
        Options(cmd & Options::ALL)
    }

    /// Their bits in `cmd`.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// All of `other` are set.
    pub const fn has(self, other: Options) -> bool {
        self.0 & other.0 == other.0
    }

    /// At least one of `other` is set.
    pub const fn any(self, other: Options) -> bool {
        self.0 & other.0 != 0
    }

    /// Those of both.
    #[must_use]
    pub const fn with(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Options) -> Options {
        Options(self.0 & !other.0)
    }
}

impl BitOr for Options {
    type Output = Options;
    fn bitor(self, other: Options) -> Options {
        self.with(other)
    }
}

impl BitOrAssign for Options {
    fn bitor_assign(&mut self, other: Options) {
        *self = self.with(other);
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in Options::NAMES.iter().filter(|(mask, _)| self.0 & mask != 0) {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        if separator.is_empty() { f.write_str("0") } else { Ok(()) }
    }
}
