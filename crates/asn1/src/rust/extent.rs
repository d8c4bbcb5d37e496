//! How many bytes encodings take, at least and at most, by what constraints leave of their values: for who cuts
//! messages into packets, and has memory for them.
//!
//! Bounds are safe and not tight: no value of a type, in its form of this version, is shorter than [`Extent::low`] or
//! longer than [`Extent::high`].

use super::checks::character_width;
use super::lower::{Lower, fitting};
use super::model::*;
use super::plain::fixed;
use super::settle::{Needs, settled};
use super::write::{Writer, type_range};
use super::{Encoding, Options};
use crate::names::World;
use crate::parser::File;

/// Bytes of an encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// At least.
    pub low: u64,
    /// At most; nothing where no constraint says so.
    pub high: Option<u64>,
}

/// A type, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The name of its module.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Bytes of an encoding of it alone.
    pub extent: Extent,
    /// Another type is made of it.
    pub is_part: bool,
}

/// What each definition of files takes in an encoding.
pub fn extents<'a>(
    files: impl IntoIterator<Item = &'a File>,
    encoding: Encoding,
    options: &Options,
) -> Vec<Measured> {
    let world = World::new(files);
    let mut model = Lower::run(&world, options.narrow_integers);
    model.finish(&options.messages);
    let sizes = Sizes { writer: Writer::new(&model, 0), encoding };
    let all = sizes.all();
    let mut is_part = vec![false; model.defs.len()];
    for id in 0..model.defs.len() {
        let mut held = Vec::new();
        model.uses(id).into_iter().for_each(|part| model.held(part, &mut held));
        held.into_iter().filter(|&(to, _)| to != id).for_each(|(to, _)| is_part[to] = true);
    }
    let of = |id: usize| Measured {
        module: model.modules[model.defs[id].module].asn.clone(),
        name: model.defs[id].asn.clone(),
        extent: all[id],
        is_part: is_part[id],
    };
    (0..model.defs.len()).map(of).collect()
}

/// Rounds until the least of types that contain themselves is taken as it is.
const ROUNDS: usize = 8;

impl Extent {
    fn new(low: u64, high: Option<u64>) -> Extent {
        Extent { low, high }
    }

    fn exactly(bytes: u64) -> Extent {
        Extent::new(bytes, Some(bytes))
    }

    fn and(self, other: Extent) -> Extent {
        let high = self.high.zip(other.high).map(|(a, b)| a.saturating_add(b));
        Extent::new(self.low.saturating_add(other.low), high)
    }

    fn or(self, other: Extent) -> Extent {
        let high = self.high.zip(other.high).map(|(a, b)| a.max(b));
        Extent::new(self.low.min(other.low), high)
    }

    fn times(self, count: Extent) -> Extent {
        let high = self.high.zip(count.high).map(|(a, b)| a.saturating_mul(b));
        Extent::new(self.low.saturating_mul(count.low), high)
    }

    fn rounded(self, to: u64) -> Extent {
        let up = |n: u64| n.checked_next_multiple_of(to).unwrap_or(u64::MAX);
        Extent::new(up(self.low), self.high.map(up))
    }

    /// It may be left out.
    fn optional(self) -> Extent {
        Extent { low: 0, ..self }
    }
}

struct Sizes<'m> {
    writer: Writer<'m>,
    encoding: Encoding,
}

impl Sizes<'_> {
    fn all(&self) -> Vec<Extent> {
        let model = self.writer.model;
        let mut all = vec![Extent::default(); model.defs.len()];
        for _ in 0..ROUNDS {
            let next: Vec<_> = (0..all.len()).map(|id| self.definition(id, &all).low).collect();
            all.iter_mut().zip(next).for_each(|(of, low)| of.low = low);
        }
        let needs: Vec<Needs> = (0..all.len())
            .map(|id| {
                let mut held = Vec::new();
                model.uses(id).into_iter().for_each(|part| model.held(part, &mut held));
                Some(held.into_iter().map(|(to, _)| to).collect())
            })
            .collect();
        settled(&needs, |id| {
            all[id].high = self.definition(id, &all).high;
            true
        });
        all
    }

    fn is_tagged(&self) -> bool {
        matches!(self.encoding, Encoding::Ber | Encoding::Der)
    }

    /// Bytes that say how many others follow.
    fn length(&self, of: Extent) -> Extent {
        let bytes = |n: u64| if n < 128 { 1 } else { 2 + u64::from(n.max(1).ilog2()) / 8 };
        match self.encoding {
            Encoding::Lws | Encoding::Xdr => Extent::new(4, Some(12)),
            _ => Extent::new(1, of.high.map(bytes)),
        }
    }

    /// With what says how long it is.
    fn counted(&self, of: Extent) -> Extent {
        let most = of.high.is_some_and(|most| most < u64::from(u32::MAX));
        match self.encoding {
            Encoding::Lws | Encoding::Xdr if most => Extent::exactly(4).and(of),
            _ => self.length(of).and(of),
        }
    }

    /// With a tag, where there is one.
    fn tagged(&self, of: Extent) -> Extent {
        match self.is_tagged() {
            true => Extent::new(1, Some(5)).and(self.counted(of)),
            false => of,
        }
    }

    fn definition(&self, id: DefId, all: &[Extent]) -> Extent {
        match &self.writer.model.defs[id].shape {
            Shape::Pending => Extent::default(),
            Shape::Struct(of) => self.structure(of, all),
            Shape::Choice(of) => self.choice(of, all),
            Shape::Enumerated(..) => match self.encoding {
                Encoding::Lws => Extent::new(4, Some(16)),
                Encoding::Xdr => Extent::exactly(4),
                Encoding::Oer => Extent::new(1, Some(9)),
                _ => Extent::new(3, Some(11)),
            },
            Shape::Newtype(of) if of.is_implicit => self.used(&of.inner, all),
            Shape::Newtype(of) => self.tagged(self.used(&of.inner, all)),
            Shape::Alias(of) => self.used(of, all),
        }
    }

    fn structure(&self, of: &Struct, all: &[Extent]) -> Extent {
        let (mut bits, mut added) = (0_u64, 0_u64);
        let mut sum = Extent::exactly(0);
        for field in &of.fields {
            let size = self.used(&field.ty, all);
            let is_required = field.presence == Presence::Required;
            let size = match (field.addition, is_required) {
                (Some(_), _) => {
                    added += 1;
                    // In additions everything may be missing, and has its length and a bit in front.
                    Extent::new(0, Some(24)).and(size.optional())
                }
                (None, true) => size,
                (None, false) => {
                    bits += 1;
                    let always = self.encoding == Encoding::Xdr
                        && matches!(field.presence, Presence::Default(_));
                    if always { size } else { size.optional() }
                }
            };
            sum = sum.and(size);
        }
        let extensible = u64::from(of.unknown_at.is_some() || added > 0);
        let front = match self.encoding {
            Encoding::Lws => Extent::new(
                (bits + extensible).div_ceil(32) * 4,
                Some((bits + extensible).div_ceil(32) * 4 + extensible * 12),
            ),
            Encoding::Xdr => Extent::new(0, Some(4 * bits + 4 * extensible)),
            Encoding::Oer => {
                let bytes = (bits + extensible).div_ceil(8);
                Extent::new(bytes, Some(bytes + extensible * (4 + added)))
            }
            _ => Extent::exactly(0),
        };
        self.tagged(front.and(sum))
    }

    fn choice(&self, of: &Choice, all: &[Extent]) -> Extent {
        let alternatives = of.alternatives.iter().map(|f| {
            let size = self.used(&f.ty, all);
            if f.addition.is_some() { Extent::new(0, Some(12)).and(size) } else { size }
        });
        let of = alternatives.reduce(Extent::or).unwrap_or_default();
        match self.encoding {
            Encoding::Lws => Extent::new(4, Some(4)).and(of),
            Encoding::Xdr => Extent::exactly(4).and(of),
            Encoding::Oer => Extent::new(1, Some(5)).and(of),
            _ => of,
        }
    }

    fn used(&self, ty: &Use, all: &[Extent]) -> Extent {
        let leaf = self.writer.leaf(ty);
        let sizes = &leaf.limits.sizes;
        let bytes = |n: i128| u64::try_from(n).unwrap_or(0);
        let count = Extent::new(sizes.low().map_or(0, bytes), sizes.high().map(bytes));
        let is_fixed = fixed(leaf.limits).is_some() && !self.is_tagged();
        let of = match leaf.kind {
            Kind::Named(id) => all[*id],
            Kind::Vec(of) | Kind::SetOf(of) => {
                let each = self.element(of, all);
                let elements = each.times(count);
                let elements = if self.is_forward() { elements.rounded(4) } else { elements };
                let lws_widths = if self.encoding == Encoding::Lws { 12 } else { 0 };
                let elements = Extent::new(0, Some(lws_widths)).and(elements);
                if is_fixed { elements } else { self.listed(elements) }
            }
            Kind::Plain("types::Octets", _) => self.string(count, is_fixed),
            Kind::Plain("types::BitString", _) => {
                let bytes = Extent::new(count.low / 8, count.high.map(|n| n.div_ceil(8)));
                let unused = if is_fixed { 0 } else { 4 };
                Extent::new(0, Some(unused)).and(self.string(bytes, is_fixed))
            }
            Kind::Plain(path, _) => match character_width(path) {
                Some(0) => self.string(Extent::new(1, Some(4)).times(count), false),
                Some(width) => self.string(Extent::exactly(width.into()).times(count), false),
                None => self.scalar(path, leaf.limits),
            },
        };
        match ty.tagging {
            Tagging::Explicit(_) => self.tagged(of),
            _ => of,
        }
    }

    fn is_forward(&self) -> bool {
        matches!(self.encoding, Encoding::Lws | Encoding::Xdr)
    }

    /// An element of a list: LWS has numbers as close as their size allows.
    fn element(&self, ty: &Use, all: &[Extent]) -> Extent {
        let leaf = self.writer.leaf(ty);
        let bounds = leaf.limits.values.low().zip(leaf.limits.values.high());
        let width = bounds.and_then(|(low, high)| width(fitting(low, high)?));
        match (self.encoding, leaf.kind, width) {
            (Encoding::Lws, Kind::Plain(path, _), Some(width)) if type_range(path).is_some() => {
                Extent::exactly(width)
            }
            _ => self.used(ty, all),
        }
    }

    /// A list with its count.
    fn listed(&self, of: Extent) -> Extent {
        match self.encoding {
            Encoding::Oer => Extent::new(2, Some(9)).and(of),
            Encoding::Ber | Encoding::Der => self.tagged(of),
            _ => self.counted(of),
        }
    }

    fn string(&self, bytes: Extent, is_fixed: bool) -> Extent {
        let bytes = if self.is_forward() { bytes.rounded(4) } else { bytes };
        match (self.is_tagged(), is_fixed) {
            (true, _) => self.tagged(bytes),
            (false, true) => bytes,
            (false, false) => self.counted(bytes),
        }
    }

    fn scalar(&self, path: &str, limits: &super::limits::Limits) -> Extent {
        let by = |lws: Extent, xdr: Extent, oer: Extent, ber: Extent| match self.encoding {
            Encoding::Lws => lws,
            Encoding::Xdr => xdr,
            Encoding::Oer => oer,
            _ => ber,
        };
        let range = |low, high| Extent::new(low, Some(high));
        match path {
            "bool" => by(range(4, 4), range(4, 4), range(1, 1), range(3, 3)),
            "()" => by(range(0, 0), range(0, 0), range(0, 0), range(2, 2)),
            "f64" => by(range(8, 8), range(4, 8), range(1, 16), range(2, 16)),
            "types::Date" => by(range(16, 16), range(16, 16), range(5, 5), range(11, 11)),
            "types::TimeOfDay" => by(range(12, 12), range(12, 12), range(3, 3), range(9, 9)),
            "types::DateTime" => by(range(24, 24), range(24, 24), range(8, 8), range(17, 17)),
            _ => match width(path) {
                Some(width) => {
                    let bounds = limits.values.low().zip(limits.values.high());
                    let is_bounded = bounds.is_some();
                    let lws =
                        if is_bounded { range(4.max(width), 4.max(width)) } else { range(4, 16) };
                    let xdr = range(4, 4.max(width));
                    by(lws, xdr, range(1, width + 2), range(3, width + 3))
                }
                None => {
                    let least = if self.is_forward() { 4 } else { 1 };
                    Extent::new(least, None)
                }
            },
        }
    }
}

/// Bytes of one of Rust's integers.
fn width(path: &str) -> Option<u64> {
    Some(match path {
        "u8" | "i8" => 1,
        "u16" | "i16" => 2,
        "u32" | "i32" => 4,
        "u64" | "i64" => 8,
        _ => return None,
    })
}
