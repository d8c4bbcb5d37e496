//! LWS: types whose encodings all have one size (`fusewire_codec::lws::FixedSize`), so that the elements of an array
//! can be read in any order.

use super::checks::Side;
use super::lower::fitting;
use super::lws::LWS;
use super::model::*;
use super::plain::fixed;
use super::settle::{Needs, settled};
use super::write::{Writer, type_range};

impl Model {
    /// Finds the definitions whose encodings in LWS all have one size, one that a machine of 32 bits can say.
    pub(super) fn find_fixed(&mut self) {
        let writer = Writer::new(self, 0);
        let needs: Vec<Needs> = (0..self.defs.len()).map(|id| writer.fixed_needs(id)).collect();
        let mut sizes = vec![0; self.defs.len()];
        let (fixed, _) = settled(&needs, |id| {
            let parts = self.uses(id).into_iter();
            let size = parts
                .map(|part| writer.size_most(part, &sizes))
                .try_fold(0_u64, |all, of| all.checked_add(of?).filter(|&size| size <= SIZE_MAX));
            sizes[id] = size.unwrap_or(0);
            size.is_some()
        });
        self.fixed = fixed;
    }
}

/// A larger size is none: what is read by such a one is not there.
const SIZE_MAX: u64 = 1 << 30;

impl Writer<'_> {
    /// What must have one size for a definition to have one.
    fn fixed_needs(&self, id: DefId) -> Needs {
        let mut needs = Vec::new();
        let may = match &self.model.defs[id].shape {
            Shape::Struct(of) => {
                let mut is_fixed = |f: &Field| {
                    f.presence == Presence::Required
                        && f.addition.is_none()
                        && self.may_be_fixed(&f.ty, &mut needs)
                };
                of.unknown_at.is_none() && of.fields.iter().all(&mut is_fixed)
            }
            Shape::Newtype(of) => self.may_be_fixed(&of.inner, &mut needs),
            _ => false,
        };
        may.then_some(needs)
    }

    /// Whether values of a type have one size, if what is pushed has one.
    fn may_be_fixed(&self, ty: &Use, needs: &mut Vec<DefId>) -> bool {
        let leaf = self.leaf(ty);
        !ty.is_boxed
            && match leaf.kind {
                Kind::Named(id) => {
                    needs.push(*id);
                    true
                }
                Kind::Vec(of) | Kind::SetOf(of) => {
                    fixed(leaf.limits).is_some() && self.may_be_fixed(of, needs)
                }
                Kind::Plain(..) => self.fixed_size(ty).is_some(),
            }
    }

    /// The size that values of a type have with the largest words.
    fn size_most(&self, ty: &Use, sizes: &[u64]) -> Option<u64> {
        let leaf = self.leaf(ty);
        let count = || fixed(leaf.limits).map(u64::from);
        match leaf.kind {
            Kind::Named(id) => Some(sizes[*id]),
            Kind::Vec(of) | Kind::SetOf(of) => count()?.checked_mul(self.size_most(of, sizes)?),
            Kind::Plain("types::Octets", _) => Some(count()?.next_multiple_of(8)),
            Kind::Plain("types::BitString", _) => Some(count()?.div_ceil(8).next_multiple_of(8)),
            Kind::Plain(..) => Some(8),
        }
    }

    /// The size of a value that stands for itself, as an expression with `WordT`.
    fn fixed_size(&self, ty: &Use) -> Option<String> {
        if ty.is_boxed {
            return None;
        }
        let leaf = self.leaf(ty);
        let number = |path: &str| format!("<{path} as lws::FixedSize>::size::<WordT>()");
        let words = |bytes: u32| format!("{bytes}_usize.next_multiple_of(WordT::BYTES)");
        match leaf.kind {
            Kind::Plain(path @ ("f64" | "bool" | "()"), _) => Some(number(path)),
            Kind::Plain("types::Octets", _) => fixed(leaf.limits).map(words),
            Kind::Plain("types::BitString", _) => fixed(leaf.limits).map(|n| words(n.div_ceil(8))),
            Kind::Plain(path, _) if *path == "types::Integer" || type_range(path).is_some() => {
                let values = &leaf.limits.values;
                let width = match (values.low(), values.high()) {
                    (Some(low), Some(high)) => fitting(low, high)?,
                    _ if matches!(*path, "i64" | "types::Integer") => return None,
                    _ => path,
                };
                // Of 64 bits with a sign there are also those without bounds, whose size is not fixed.
                Some(if width == "i64" { "8".to_owned() } else { number(width) })
            }
            Kind::Plain(..) => None,
            Kind::Named(id) => self.model.fixed[*id]
                .then(|| format!("<{} as lws::FixedSize>::size::<WordT>()", self.path(*id))),
            Kind::Vec(of) | Kind::SetOf(of) => {
                let count = fixed(leaf.limits)?;
                let each = match self.is_special(&LWS, of) {
                    true => self.fixed_size(of)?,
                    false => {
                        format!("<{} as lws::FixedSize>::stride::<WordT>()", self.packed_as(of)?)
                    }
                };
                Some(format!("({count} * {each}).next_multiple_of(WordT::BYTES)"))
            }
        }
    }

    /// The type of elements that has a stride.
    fn packed_as(&self, ty: &Use) -> Option<String> {
        self.fixed_size(ty)?;
        Some(self.ty(ty, "'_"))
    }

    /// What a definition of one size needs.
    pub(super) fn lws_fixed(&mut self, id: DefId) {
        let model = self.model;
        if !model.fixed[id] {
            return;
        }
        let def = &model.defs[id];
        let a = self.generics(id, "'a");
        let (size, packed) = match &def.shape {
            Shape::Struct(of) => {
                let sizes = of.fields.iter().filter_map(|f| self.fixed_size(&f.ty));
                (sizes.collect::<Vec<_>>().join("\n+ "), None)
            }
            Shape::Newtype(of) => {
                let packed = self.is_packed(of).then_some(of);
                (self.fixed_size(&of.inner).unwrap_or_default(), packed)
            }
            _ => return,
        };
        let size = if size.is_empty() { "0" } else { &size };
        writeln!(self);
        writeln!(self, "impl<'a> lws::FixedSize<'a> for {}{a} {{", def.rust);
        writeln!(self, "fn size<WordT: lws::Word>() -> usize {{");
        writeln!(self, "{size}");
        writeln!(self, "}}");
        if let Some(of) = packed {
            self.packed_element(&def.rust, of);
        }
        writeln!(self, "}}");
    }

    /// A struct around a number lies in arrays as close as the number does.
    fn packed_element(&mut self, rust: &str, of: &Newtype) {
        let ty = self.ty(&of.inner, "'a");
        let checks = self.own_checks(of, "value", false, &Side::Decode, "");
        writeln!(self);
        writeln!(self, "fn stride<WordT: lws::Word>() -> usize {{");
        writeln!(self, "<{ty} as lws::FixedSize>::stride::<WordT>()");
        writeln!(self, "}}");
        writeln!(self);
        writeln!(
            self,
            "fn element<WordT: lws::Word>(bytes: &'a [u8]) -> Result<Self, codec::Error> {{"
        );
        writeln!(self, "let value = <{ty} as lws::FixedSize>::element::<WordT>(bytes)?;");
        if !checks.is_empty() {
            writeln!(self, "let at_ = 0;");
            checks.iter().for_each(|c| writeln!(self, "{c}"));
        }
        writeln!(self, "Ok({rust}(value))");
        writeln!(self, "}}");
    }
}
