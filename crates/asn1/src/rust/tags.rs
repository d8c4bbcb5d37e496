//! The tags that stand on the wire: IMPLICIT replaces, EXPLICIT surrounds, and a CHOICE or an open type has
//! none that could be replaced (X.680 clause 31.2).

use super::model::WireTag;
use crate::ast::*;
use crate::check::tags::{Outer, universal_tag};
use crate::names::World;
use crate::resolve::Ty;

/// A tag as it is written, and whether it is IMPLICIT.
pub type Step = (WireTag, bool);

/// References may go through so many others.
const HOPS_MAX: usize = 64;

impl<'a> World<'a> {
    /// The tags that are written at a type itself.
    pub(super) fn written_tags(&self, ty: &Ty<'a>) -> Vec<Step> {
        let default = self.modules[ty.env.module].ast.tags != TagDefault::Explicit;
        let innermost = ty.ty.tags.len().saturating_sub(1);
        let step = |(n, tag): (usize, &'a Tag)| {
            let number = self.integer(&tag.number, &ty.env).and_then(|n| u32::try_from(n).ok());
            let tag_ = WireTag { class: tag.class, number: number.unwrap_or(0) };
            // X.680 clause 31.2.7 c.
            let default = default && !(n == innermost && ty.is_dummy_reference());
            (tag_, tag.implicit.unwrap_or(default))
        };
        ty.ty.tags.iter().enumerate().map(step).collect()
    }

    /// All tags of a type on the wire, outermost first; none for a CHOICE or an open type without any.
    pub(super) fn wire_tags(&self, ty: &Ty<'a>) -> Vec<WireTag> {
        let mut steps = Vec::new();
        let mut ty = ty.clone();
        for _ in 0..HOPS_MAX {
            steps.extend(self.written_tags(&ty));
            match self.next(&ty) {
                Some(Ok(next)) => ty = next,
                Some(Err(_)) => {
                    let is_signed =
                        matches!(&ty.ty.kind, TypeKind::Macro(m) if super::lower::is_signed(m));
                    let own = is_signed.then_some(16);
                    return applied(&steps, own.map(universal).into_iter().collect());
                }
                None => break,
            }
        }
        let own = universal_tag(&ty.ty.kind).map(universal);
        applied(&steps, own.into_iter().collect())
    }

    /// The tags that a type may begin with; none where they are not known.
    pub(super) fn begins_with(&self, ty: &Ty<'a>) -> Option<Vec<WireTag>> {
        let Outer::Tags(tags) = self.outer_tags(ty) else { return None };
        let wire = |(class, number): (TagClass, i128)| {
            Some(WireTag { class, number: u32::try_from(number).ok()? })
        };
        tags.into_iter().map(wire).collect()
    }
}

/// A tag of class UNIVERSAL.
pub fn universal(number: u32) -> WireTag {
    WireTag { class: TagClass::Universal, number }
}

/// Written tags, outermost first, in front of those that are there.
pub fn applied(steps: &[Step], mut wire: Vec<WireTag>) -> Vec<WireTag> {
    for &(tag, is_implicit) in steps.iter().rev() {
        match wire.first_mut() {
            Some(outer) if is_implicit => *outer = tag,
            _ => wire.insert(0, tag),
        }
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implicit_replaces_and_explicit_surrounds() {
        let context = |number| WireTag { class: TagClass::Context, number };
        assert_eq!(applied(&[(context(1), true)], vec![universal(2)]), [context(1)]);
        assert_eq!(applied(&[(context(1), false)], vec![universal(2)]), [context(1), universal(2)]);
        let nested = [(context(1), false), (context(2), true)];
        assert_eq!(applied(&nested, vec![universal(2)]), [context(1), context(2)]);
        assert_eq!(applied(&[(context(1), true)], Vec::new()), [context(1)]);
    }
}
