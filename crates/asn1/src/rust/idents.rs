//! Names of ASN.1 as names of Rust.

use std::collections::HashSet;

use super::ENCODINGS;

/// Words of Rust that are no names.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Words that cannot even be raw names, and those that the generated code uses itself, with the modules of
/// [`ENCODINGS`].
const TAKEN: &[&str] =
    &["self", "super", "crate", "Self", "codec", "types", "alloc", "core", "from", "to"];

/// Types that the generated code names without a path.
const TYPES: &[&str] =
    &["Self", "Option", "Some", "None", "Result", "Ok", "Err", "Vec", "Box", "String"];

/// `FooBar` of `foo-bar`, `FOO-BAR` of `FOO-BAR` as `FooBar`.
pub fn camel(name: &str) -> String {
    let mut out = String::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|p| !p.is_empty()) {
        let shout = part.len() > 1 && !part.contains(|c: char| c.is_ascii_lowercase());
        let rest = &part[1..];
        out.push(part.as_bytes()[0].to_ascii_uppercase() as char);
        if shout && name.contains('-') { out += &rest.to_ascii_lowercase() } else { out += rest }
    }
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, 'N');
    }
    if TYPES.contains(&out.as_str()) {
        out += "Type";
    }
    out
}

/// `foo_bar` of `fooBar` and of `foo-bar`.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let chars: Vec<char> = name.chars().collect();
    for (n, &c) in chars.iter().enumerate() {
        if !c.is_ascii_alphanumeric() {
            if !out.ends_with('_') && !out.is_empty() {
                out.push('_');
            }
            continue;
        }
        let before = n.checked_sub(1).map(|n| chars[n]);
        let after = chars.get(n + 1);
        let begins = c.is_ascii_uppercase()
            && before.is_some_and(|b| {
                b.is_ascii_lowercase()
                    || b.is_ascii_digit()
                    || (b.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase))
            });
        if begins && !out.ends_with('_') {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    match ENCODINGS.iter().any(|e| e.module == out) {
        true => out + "_",
        false => word(out, TAKEN),
    }
}

/// A word in lower case as a name that Rust takes: raw where Rust has a word like it, with a `_` where
/// `taken` has, with an `n` before a digit.
pub fn word(mut word: String, taken: &[&str]) -> String {
    if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
        word.insert(0, 'n');
    }
    if KEYWORDS.contains(&word.as_str()) {
        return format!("r#{word}");
    }
    if taken.contains(&word.as_str()) {
        word.push('_');
    }
    word
}

/// `FOO_BAR` of `foo-bar`.
pub fn shout(name: &str) -> String {
    snake(name).trim_start_matches("r#").to_ascii_uppercase()
}

/// A name that is not taken yet, which then is.
pub fn unique(name: String, taken: &mut HashSet<String>) -> String {
    if taken.insert(name.clone()) {
        return name;
    }
    let stem = name.trim_start_matches("r#").to_owned();
    let free = (2_u32..).map(|n| format!("{stem}{n}")).find(|n| !taken.contains(n));
    let free = free.unwrap_or(stem);
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(camel("TBS-Certificate"), "TbsCertificate");
        assert_eq!(camel("MPDU"), "MPDU");
        assert_eq!(camel("iA5TextTeletex"), "IA5TextTeletex");
        assert_eq!(camel("id-ce"), "IdCe");
        assert_eq!(snake("mpduID"), "mpdu_id");
        assert_eq!(snake("iA5String"), "i_a5_string");
        assert_eq!(snake("type"), "r#type");
        assert_eq!(snake("self"), "self_");
        assert_eq!(shout("id-at-commonName"), "ID_AT_COMMON_NAME");
        assert_eq!(camel("Option"), "OptionType");
    }
}
