//! The tags of a type in BER: IMPLICIT replaces, EXPLICIT surrounds, and a CHOICE or an open type has none that
//! could be replaced (X.680, 31.2.7).

use fusewire_asn1::ast::{TagClass, TagDefault, TypeKind};
use fusewire_asn1::names::World;
use fusewire_asn1::resolve::Ty;
use fusewire_codec::ber::{MAX_NUMBER, Tag};

/// A tag as it is written, and whether it is IMPLICIT.
pub type Step = (Tag, bool);

/// The tags that are written in front of a type; nothing where one cannot be known.
pub fn written<'a>(world: &World<'a>, ty: &Ty<'a>) -> Option<Vec<Step>> {
    let default = world.modules[ty.env.module].ast.tags != TagDefault::Explicit;
    let innermost = ty.ty.tags.len().saturating_sub(1);
    ty.ty
        .tags
        .iter()
        .enumerate()
        .map(|(n, tag)| {
            // X.680, 31.2.7 c.
            let default = default && !(n == innermost && ty.is_dummy_reference());
            let number = world.integer(&tag.number, &ty.env)?;
            let written = of(tag.class, u32::try_from(number).ok()?)?;
            Some((written, tag.implicit.unwrap_or(default)))
        })
        .collect()
}

/// A tag; `None` if its number is larger than [`MAX_NUMBER`].
pub fn of(class: TagClass, number: u32) -> Option<Tag> {
    let make = match class {
        TagClass::Universal => Tag::universal,
        TagClass::Application => Tag::application,
        TagClass::Context => Tag::context,
        TagClass::Private => Tag::private,
    };
    Some(number).filter(|n| *n <= MAX_NUMBER).map(make)
}

/// A tag from text as its `Display` writes it: `[2]`, `[APPLICATION 2]`.
pub fn parse(text: &str) -> Option<Tag> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (class, number) = match inner.split_once(' ') {
        None => (TagClass::Context, inner),
        Some(("UNIVERSAL", number)) => (TagClass::Universal, number),
        Some(("APPLICATION", number)) => (TagClass::Application, number),
        Some(("PRIVATE", number)) => (TagClass::Private, number),
        Some(_) => return None,
    };
    of(class, number.parse().ok()?)
}

/// The tag that AUTOMATIC TAGS gives a type: EXPLICIT if that is an untagged DummyReference (X.680, 31.2.7 c).
pub fn automatic(number: u32, ty: &Ty<'_>) -> Step {
    (Tag::context(number), !ty.ty.tags.is_empty() || !ty.is_dummy_reference())
}

/// What stands on the wire, outermost first.
pub fn applied(steps: &[Step], own: Option<u32>) -> Vec<Tag> {
    let mut tags: Vec<Tag> = own.map(Tag::universal).into_iter().collect();
    for &(tag, is_implicit) in steps.iter().rev() {
        match tags.first_mut() {
            Some(outer) if is_implicit => *outer = tag,
            _ => tags.insert(0, tag),
        }
    }
    tags
}

/// The number of a type's own tag.
pub fn own(kind: &TypeKind) -> Option<u32> {
    Some(match kind {
        TypeKind::Simple(simple) => simple.tag(),
        TypeKind::Integer(_) => 2,
        TypeKind::BitString(_) => 3,
        TypeKind::Enumerated(_) => 10,
        TypeKind::Sequence(_) | TypeKind::SequenceOf(..) => 16,
        TypeKind::Set(_) | TypeKind::SetOf(..) => 17,
        _ => return None,
    })
}
