//! Names of the XDR language as names of Rust.

use std::collections::HashSet;

use fusewire_asn1::rust::word;

/// Words that cannot even be raw names, and modules that the generated code names.
const TAKEN: &[&str] = &["self", "super", "crate", "codec", "xdr", "rpc"];

/// Types and variants that the generated code names without a path.
const TYPES: &[&str] = &[
    "Self",
    "Option",
    "Some",
    "None",
    "Result",
    "Ok",
    "Err",
    "Vec",
    "Box",
    "String",
    "Client",
    "Server",
    "Service",
    "Default",
    "Clone",
    "Copy",
    "Debug",
    "Eq",
    "PartialEq",
    "Ord",
    "PartialOrd",
    "Hash",
];

/// `NfsFh3` of `nfs_fh3`, `NfsOk` of `NFS_OK`, `LOOKUP3args` of itself.
pub fn camel(name: &str) -> String {
    let mut out = String::new();
    for part in name.split('_').filter(|p| !p.is_empty()) {
        let shouts = !part.contains(|c: char| c.is_ascii_lowercase());
        let (first, rest) = part.split_at(1);
        out += &first.to_ascii_uppercase();
        if shouts { out += &rest.to_ascii_lowercase() } else { out += rest }
    }
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert(0, 'N');
    }
    if TYPES.contains(&out.as_str()) {
        out += "_";
    }
    out
}

/// `foo_bar` of `fooBar`, `FOO_BAR` and `foo_bar`.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in name.chars() {
        let begins =
            c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
        if (begins || c == '_') && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        if c != '_' {
            out.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    word(out.trim_end_matches('_').to_owned(), TAKEN)
}

/// `FOO_BAR` of `fooBar`.
pub fn shout(name: &str) -> String {
    snake(name).trim_start_matches("r#").to_ascii_uppercase()
}

/// Names of one scope.
#[derive(Debug, Default)]
pub struct Taken(HashSet<String>);

impl Taken {
    /// Where these are taken from the beginning.
    pub fn with(names: &[&str]) -> Taken {
        Taken(names.iter().map(|&n| n.to_owned()).collect())
    }

    /// The name, or one like it that nobody has yet.
    pub fn unique(&mut self, name: String) -> String {
        if self.0.insert(name.clone()) {
            return name;
        }
        let stem = name.trim_start_matches("r#");
        let free = (2_u32..).map(|n| format!("{stem}_{n}")).find(|n| !self.0.contains(n));
        let free = free.unwrap_or_default();
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(
            [camel("nfs_fh3"), camel("NFS_OK"), camel("LOOKUP3args")],
            ["NfsFh3", "NfsOk", "LOOKUP3args"]
        );
        assert_eq!([camel("option"), camel("_"), camel("_3d")], ["Option_", "N", "N3d"]);
        assert_eq!(
            [snake("fooBar"), snake("FOO_BAR"), snake("type"), snake("self")],
            ["foo_bar", "foo_bar", "r#type", "self_"]
        );
        assert_eq!(
            [shout("maxLen"), shout("MAX_LEN"), snake("V2x_")],
            ["MAX_LEN", "MAX_LEN", "v2x"]
        );
        let mut taken = Taken::default();
        assert_eq!(
            [taken.unique("a".into()), taken.unique("a".into()), taken.unique("a".into())],
            ["a", "a_2", "a_3"]
        );
    }
}
