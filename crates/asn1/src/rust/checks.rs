//! Constraints as code: what is asked of a value before it is encoded and when it is decoded. A definition that
//! is only another name of a Rust type has no code, so its constraint is asked where it is used.

use super::limits::{Limits, Ranges};
use super::model::*;
use super::write::{Writer, type_range};

/// Where an error is raised, as an expression with `problem` in it.
pub enum Side {
    /// When decoding: at the offset that `at_` has.
    Decode,
    /// When encoding.
    Encode,
}

impl Side {
    fn error(&self) -> &'static str {
        match self {
            Side::Decode => "problem.at(at_)",
            Side::Encode => "to.error(problem)",
        }
    }
}

/// What a type is at last, through other names and structs around one value.
pub struct Leaf<'m> {
    pub kind: &'m Kind,
    /// What constraints leave of it.
    pub limits: &'m Limits,
    /// The way into the structs: `.0`, or nothing.
    pub way: String,
    /// The definition of the innermost struct, which asks for its own limits itself.
    pub newtypes: Vec<DefId>,
    pub are_named_bits: bool,
    /// The limits that the innermost struct has.
    known: Option<&'m Limits>,
}

impl Leaf<'_> {
    /// The innermost struct knows all of the limits.
    pub fn is_known(&self) -> bool {
        self.known.is_some_and(|known| known == self.limits)
    }
}

/// The bytes of a character of a string type, zero for UTF-8; none for what is no such type or has no limits
/// that could be asked for.
pub fn character_width(path: &str) -> Option<u32> {
    Some(match path {
        "types::Ia5String" | "types::VisibleString" | "types::PrintableString" => 1,
        "types::NumericString" => 1,
        "types::BmpString" => 2,
        "types::UniversalString" => 4,
        "types::Utf8String" => 0,
        _ => return None,
    })
}

impl Writer<'_> {
    /// What a type is at last.
    pub fn leaf<'m>(&'m self, ty: &'m Use) -> Leaf<'m> {
        let mut leaf = Leaf {
            kind: &ty.kind,
            limits: &ty.limits,
            way: String::new(),
            newtypes: Vec::new(),
            are_named_bits: false,
            known: None,
        };
        // A definition of itself alone was made a struct around itself.
        for _ in 0..64 {
            let Kind::Named(id) = leaf.kind else { break };
            let inner = match &self.model.defs[*id].shape {
                Shape::Alias(of) => of,
                // There is no last type to come to.
                Shape::Newtype(_) if self.model.defs[*id].is_list_of_itself => break,
                Shape::Newtype(of) => {
                    leaf.way += ".0";
                    leaf.newtypes.push(*id);
                    leaf.known = Some(&of.inner.limits);
                    leaf.are_named_bits |= of.are_bits;
                    &of.inner
                }
                _ => break,
            };
            leaf.kind = &inner.kind;
            if *leaf.limits == Limits::default() {
                leaf.limits = &inner.limits;
            }
        }
        leaf
    }

    /// Lines that ask for a type's constraints. `base` is the value's place, or a reference to it; `path` says
    /// where it is.
    pub fn checks(
        &self,
        ty: &Use,
        base: &str,
        is_ref: bool,
        side: &Side,
        path: &str,
    ) -> Vec<String> {
        let leaf = self.leaf(ty);
        let place = match is_ref && leaf.way.is_empty() {
            true => format!("*{base}"),
            false => format!("{base}{}", leaf.way),
        };
        // What a method is called on needs no asterisk.
        let base = format!("{base}{}", leaf.way);
        let error = format!(".map_err(|problem| {}{path})?;", side.error());
        let mut lines = Vec::new();
        if !leaf.is_known() {
            for check in self.leaf_checks(&leaf, &place, &base) {
                lines.push(format!("{check}{error}"));
            }
        }
        let (Kind::Vec(of) | Kind::SetOf(of)) = leaf.kind else { return lines };
        if leaf.known.is_some() {
            return lines;
        }
        let depth = path.matches("in_element").count();
        let (value, index) = (format!("value{depth}_"), format!("index{depth}_"));
        let inner = self.checks(of, &value, true, side, &format!(".in_element({index}){path}"));
        if !inner.is_empty() {
            lines.push(format!("for ({index}, {value}) in {base}.iter().enumerate() {{"));
            lines.extend(inner);
            lines.push("}".to_owned());
        }
        lines
    }

    /// Lines that ask for the constraints of what a struct around a value holds.
    pub fn own_checks(
        &self,
        of: &Newtype,
        base: &str,
        is_ref: bool,
        side: &Side,
        path: &str,
    ) -> Vec<String> {
        if !of.are_bits {
            return self.checks(&of.inner, base, is_ref, side, path);
        }
        let leaf = Leaf { are_named_bits: true, ..self.leaf(&of.inner) };
        let error = format!(".map_err(|problem| {}{path})?;", side.error());
        let checks = self.leaf_checks(&leaf, base, base);
        checks.into_iter().map(|check| format!("{check}{error}")).collect()
    }

    fn leaf_checks(&self, leaf: &Leaf<'_>, place: &str, base: &str) -> Vec<String> {
        let limits = leaf.limits;
        let mut checks = Vec::new();
        let mut size = |len: String| {
            let pattern = pattern(&limits.sizes, (0, u32::MAX.into()));
            if let Some(pattern) = pattern {
                let least = limits.sizes.low().unwrap_or(0).clamp(0, u64::MAX.into());
                let most = limits.sizes.high().unwrap_or(u64::MAX.into()).clamp(0, u64::MAX.into());
                checks.push(format!(
                    "codec::check::size(matches!({len}, {pattern}), {len}, {least}, {most})"
                ));
            }
        };
        match leaf.kind {
            Kind::Vec(_) | Kind::SetOf(_) => size(format!("{base}.len()")),
            Kind::Plain("types::BitString", _) if leaf.are_named_bits => {
                // Zeros at the end count for nothing, so there may be fewer.
                if let Some(most) = limits.sizes.high() {
                    checks.push(format!(
                        "codec::check::size({base}.trimmed().len() <= {most}, {base}.len(), 0, {most})"
                    ));
                }
            }
            Kind::Plain("types::Octets" | "types::BitString", _) => size(format!("{base}.len()")),
            Kind::Plain("types::Integer", _) => {
                if !limits.values.is_all() {
                    let value = match place.starts_with('*') {
                        true => base.to_owned(),
                        false => format!("&{base}"),
                    };
                    let ranges = limits.values.as_slice();
                    checks.push(format!("codec::check::integer({value}, &{ranges:?})"));
                }
            }
            Kind::Plain(path, _) => {
                if let Some(range) = type_range(path) {
                    if let Some(pattern) = pattern(&limits.values, range) {
                        let least = bound(limits.values.low(), "MIN");
                        let most = bound(limits.values.high(), "MAX");
                        checks.push(format!(
                            "codec::check::number(matches!({place}, {pattern}), {place}, {least}, {most})"
                        ));
                    }
                } else if let Some(width) = character_width(path) {
                    size(match width {
                        0 => format!("codec::check::utf8_len({base}.as_bytes())"),
                        1 => format!("{base}.as_bytes().len()"),
                        width => format!("{base}.as_bytes().len() / {width}"),
                    });
                    checks.extend(letters(limits, path, width, base));
                }
            }
            Kind::Named(_) => {}
        }
        checks
    }

    /// Writes the checks of a component that is `self`'s.
    pub fn encode_checks(&mut self, field: &Field) {
        let path = format!(".in_field({:?})", field.names.asn);
        let place = format!("self.{}", field.names.rust);
        if field.presence == Presence::Optional {
            let checks = self.checks(&field.ty, "value", true, &Side::Encode, &path);
            if !checks.is_empty() {
                writeln!(self, "if let Some(value) = &{place} {{");
                checks.iter().for_each(|c| writeln!(self, "{c}"));
                writeln!(self, "}}");
            }
            return;
        }
        let checks = self.checks(&field.ty, &place, false, &Side::Encode, &path);
        checks.iter().for_each(|c| writeln!(self, "{c}"));
    }

    /// Whether anything is asked of a component.
    pub fn is_checked(&self, ty: &Use) -> bool {
        !self.checks(ty, "", true, &Side::Decode, "").is_empty()
    }

    /// Writes the checks of a component that was decoded into a variable of its name.
    pub fn decode_checks(&mut self, field: &Field, is_option: bool) {
        let path = format!(".in_field({:?})", field.names.asn);
        let name = &field.names.rust;
        let (base, is_ref) = if is_option { ("value", true) } else { (name.as_str(), false) };
        let checks = self.checks(&field.ty, base, is_ref, &Side::Decode, &path);
        if checks.is_empty() {
            return;
        }
        if is_option {
            writeln!(self, "if let Some(value) = &{name} {{");
        }
        checks.iter().for_each(|c| writeln!(self, "{c}"));
        if is_option {
            writeln!(self, "}}");
        }
    }
}

fn bound(number: Option<i128>, otherwise: &str) -> String {
    number.map_or_else(|| format!("i128::{otherwise}"), |n| n.to_string())
}

/// Ranges as a pattern, within what a type holds; nothing where they leave all of that, or none.
fn pattern(ranges: &Ranges, (least, most): (i128, i128)) -> Option<String> {
    if ranges.is_all() {
        return None;
    }
    let mut parts = Vec::new();
    for &(low, high) in ranges.as_slice() {
        if high < least || low > most {
            continue;
        }
        match (low <= least, high >= most) {
            (true, true) => return None,
            // A macro takes no pattern that begins with two dots.
            (true, false) if least == high => parts.push(high.to_string()),
            (true, false) => parts.push(format!("{least}..={high}")),
            (false, true) => parts.push(format!("{low}..")),
            (false, false) if low == high => parts.push(low.to_string()),
            (false, false) => parts.push(format!("{low}..={high}")),
        }
    }
    (!parts.is_empty()).then(|| parts.join(" | "))
}

fn letters(limits: &Limits, path: &str, width: u32, base: &str) -> Option<String> {
    if limits.letters.is_all() {
        return None;
    }
    if width == 1 {
        let in_alphabet =
            |c: i128| limits.letters.as_slice().iter().any(|r| (r.0..=r.1).contains(&c));
        let mask = (0..128_i128).filter(|&c| in_alphabet(c)).fold(0_u128, |all, c| all | 1 << c);
        let name = path.trim_start_matches("types::").replace("Ia5", "IA5");
        return Some(format!("codec::check::alphabet({base}.as_bytes(), {mask:#x}, {name:?})"));
    }
    let char_bound = |n: i128| n.clamp(0, u32::MAX.into());
    let ranges: Vec<_> =
        limits.letters.as_slice().iter().map(|r| (char_bound(r.0), char_bound(r.1))).collect();
    Some(format!("codec::check::characters({base}.as_bytes(), {width}, &{ranges:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert_eq!(pattern(&Ranges::from(0, 255), (0, 255)), None);
        assert_eq!(pattern(&Ranges::from(0, 150), (0, 255)), Some("0..=150".to_owned()));
        assert_eq!(pattern(&Ranges::from(1, 1), (0, 255)), Some("1".to_owned()));
        assert_eq!(pattern(&Ranges::from(5, i128::MAX), (0, 255)), Some("5..".to_owned()));
    }
}
