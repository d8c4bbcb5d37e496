//! CPU levels: which instructions a kernel may use, as a token that only detection makes.
#![forbid(unsafe_code)]

use crate::arch;
use core::fmt;
use core::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Portable,
    Avx2,
    Avx512,
}

/// A set of CPU instructions that kernels are compiled for. Holding one above [`Level::PORTABLE`]
/// proves that this CPU has the instructions: only detection makes it.
///
/// | name | requires | uses besides, where the CPU has it |
/// |---|---|---|
/// | `portable` | nothing | |
/// | `avx2` | AVX2, BMI1, BMI2, SSE4.2 | VAES and VPCLMULQDQ, else AES-NI and PCLMULQDQ |
/// | `avx2-aesni` | `avx2` | AES-NI and PCLMULQDQ, never VAES (where `avx2` would use it) |
/// | `avx512` | F, BW, VL, DQ, VBMI, IFMA, VAES, VPCLMULQDQ, GFNI | |
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Level {
    pub(crate) kind: Kind,
    pub(crate) features: Features,
}

/// What a level may use beyond its base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Features {
    pub(crate) aes: bool,
    pub(crate) vaes: bool,
    /// The CPU has VAES and this level was told to leave it alone.
    pub(crate) vaes_masked: bool,
}

impl Level {
    /// No instructions beyond the target's base.
    pub const PORTABLE: Level = Level {
        kind: Kind::Portable,
        features: Features { aes: false, vaes: false, vaes_masked: false },
    };

    /// The highest level of this CPU.
    pub fn detect() -> Level {
        Level::available().last().copied().unwrap_or(Level::PORTABLE)
    }

    /// Every level of this CPU, lowest first.
    pub fn available() -> Vec<Level> {
        let mut levels = vec![Level::PORTABLE];
        let cpu = arch::detect();
        if cpu.avx2 {
            let aes = cpu.aes;
            if cpu.vaes {
                let features = Features { aes, vaes: false, vaes_masked: true };
                levels.push(Level { kind: Kind::Avx2, features });
            }
            let features = Features { aes, vaes: cpu.vaes, vaes_masked: false };
            levels.push(Level { kind: Kind::Avx2, features });
        }
        if cpu.avx512 {
            let features = Features { aes: true, vaes: true, vaes_masked: false };
            levels.push(Level { kind: Kind::Avx512, features });
        }
        levels
    }

    /// The level of that name; none when the CPU lacks it or there is no such name.
    pub fn from_name(name: &str) -> Option<Level> {
        Level::available().into_iter().find(|level| level.name() == name)
    }

    /// `portable`, `avx2-aesni`, `avx2` or `avx512`.
    pub const fn name(self) -> &'static str {
        match self.kind {
            Kind::Portable => "portable",
            Kind::Avx2 if self.features.vaes_masked => "avx2-aesni",
            Kind::Avx2 => "avx2",
            Kind::Avx512 => "avx512",
        }
    }

    /// AES and carry-less products may be used: AES-NI and PCLMULQDQ at least.
    pub const fn aes(self) -> bool {
        self.features.aes
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Level({})", self.name())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    /// As [`Level::from_name`]; the error names those that this machine has.
    fn from_str(name: &str) -> Result<Level, String> {
        Level::from_name(name).ok_or_else(|| {
            let here: Vec<_> = Level::available().into_iter().map(Level::name).collect();
            format!("this machine has {}, not {name:?}", here.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_levels() {
        let levels = Level::available();
        assert_eq!(levels[0], Level::PORTABLE);
        for level in &levels {
            assert_eq!(Level::from_name(level.name()), Some(*level));
        }
        assert_eq!(Level::from_name("avx1024"), None);
        assert_eq!(Level::detect(), *levels.last().unwrap());
        assert_ne!(Level::detect().name(), "avx2-aesni");
    }
}
