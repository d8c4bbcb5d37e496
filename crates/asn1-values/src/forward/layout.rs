//! What a type's constraints make of its encoding.

use fusewire_asn1::ast::Simple;
use fusewire_codec::ber::Tag;

use super::Syntax;
use crate::schema::{Choice, Integer, Kind, Member, Schema, Structure, TypeId};
use crate::value::{Unknown, Value};

/// How an INTEGER is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In so many bytes (1, 2, 4, 8); whether with a sign.
    Fixed(usize, bool),
    /// Behind its length, without a sign (X.696, 10.3).
    Natural,
    /// Of any width, with a sign.
    Any,
}

/// The form of an INTEGER: the fewest of 1, 2, 4 or 8 bytes that hold all that its bounds leave.
pub fn integer(of: &Integer, syntax: Syntax) -> Form {
    let (Some(low), Some(high)) = of.bounds else {
        return match of.bounds.0 {
            Some(low) if low >= 0 && syntax.is_oer() => Form::Natural,
            // With names a program's number is enough.
            _ if syntax == Syntax::Xdr && of.bounds == (None, None) && !of.names.is_empty() => {
                Form::Fixed(8, true)
            }
            _ => Form::Any,
        };
    };
    for bytes in [1_u32, 2, 4, 8] {
        if low >= 0 && high < 1 << (8 * bytes) {
            return Form::Fixed(bytes as usize, false);
        }
        let half = 1_i128 << (8 * bytes - 1);
        if low < 0 && low >= -half && high < half {
            return Form::Fixed(bytes as usize, true);
        }
    }
    if low >= 0 && syntax.is_oer() { Form::Natural } else { Form::Any }
}

/// Bytes of a character, where all have as many (X.696, 27.2).
pub fn character_bytes(simple: Simple) -> Option<usize> {
    Some(match simple {
        Simple::Ia5String
        | Simple::VisibleString
        | Simple::PrintableString
        | Simple::NumericString => 1,
        Simple::BmpString => 2,
        Simple::UniversalString => 4,
        _ => return None,
    })
}

/// The components in front of and behind the extension marker, in the order in which they are written: in OER
/// those of a SET in the order of their tags.
pub fn root(schema: &Schema<'_, '_>, of: &Structure, syntax: Syntax) -> Vec<usize> {
    let mut root: Vec<usize> =
        (0..of.members.len()).filter(|n| of.members[*n].addition.is_none()).collect();
    if of.is_set && syntax.is_oer() {
        root.sort_by_key(|n| least_tag(schema, of.members[*n].ty, 0));
    }
    root
}

/// The tag that a type may begin with, of an untagged CHOICE the least (X.680, 8.6).
fn least_tag(schema: &Schema<'_, '_>, ty: TypeId, depth: u32) -> Option<Tag> {
    let of = schema.get(ty);
    match (of.tags.first(), &of.kind) {
        (Some(tag), _) => Some(*tag),
        (None, Kind::Choice(choice)) if depth < 32 => {
            let root = choice.alternatives.iter().filter(|a| a.addition.is_none());
            root.filter_map(|a| least_tag(schema, a.ty, depth + 1)).min()
        }
        _ => None,
    }
}

/// Returns the outermost tag of a value of a type; of an untagged CHOICE that is the tag of the selected alternative
/// (X.696, 20.1).
pub fn outermost_tag(schema: &Schema<'_, '_>, ty: TypeId, value: &Value) -> Option<Tag> {
    let of = schema.get(ty);
    match (of.tags.first(), &of.kind, value) {
        (Some(tag), ..) => Some(*tag),
        (None, Kind::Choice(kind), Value::Choice(index, inner)) => {
            outermost_tag(schema, kind.alternatives.get(*index)?.ty, inner)
        }
        (None, Kind::Choice(_), Value::UnknownChoice(Unknown::Tagged(tag, _))) => Some(*tag),
        _ => None,
    }
}

/// The extension additions, each with its components.
pub fn additions(of: &Structure) -> Vec<Vec<usize>> {
    let mut additions: Vec<Vec<usize>> = Vec::new();
    for (n, member) in of.members.iter().enumerate() {
        if let Some(addition) = member.addition {
            if addition >= additions.len() {
                additions.resize(addition + 1, Vec::new());
            }
            additions[addition].push(n);
        }
    }
    additions
}

/// Whether a component of an addition has a bit that says if it is there. In LWS each has, for a NULL takes no
/// bytes; in OER those of a group that need not be there (X.696, 16.5).
pub fn has_bit(member: &Member, syntax: Syntax) -> bool {
    matches!(syntax, Syntax::Lws(_)) || (member.in_group && !member.is_needed)
}

/// The discriminants of a union in XDR: the tags' numbers where all tags are of the context and distinct,
/// otherwise places from zero.
pub fn discriminants(schema: &Schema<'_, '_>, of: &Choice) -> Vec<u32> {
    let number =
        |a: &Member| schema.get(a.ty).tags.first().filter(|t| t.class() == 2).map(|t| t.number());
    let tags: Option<Vec<u32>> = of.alternatives.iter().map(number).collect();
    let distinct = |tags: &Vec<u32>| {
        let mut sorted = tags.clone();
        sorted.sort_unstable();
        sorted.dedup();
        sorted.len() == tags.len()
    };
    tags.filter(distinct).unwrap_or_else(|| (0..of.alternatives.len() as u32).collect())
}
