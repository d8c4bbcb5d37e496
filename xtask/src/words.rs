//! "Words" in `ARCHITECTURE.md`: one meaning each, and where its type is. `tidy` sees that no word stands there twice, and
//! that the types and modules are there.

use std::path::{Path, PathBuf};

use crate::house::{self, PAGE};
use crate::shell::root;

const HEAD: &str = "## Words";

/// What can be defined, as source has it before a name.
const KINDS: [&str; 6] = ["struct", "enum", "trait", "type", "mod", "fn"];

/// Names every word that stands twice, has no meaning, or is said to be a type that is not there.
pub fn check(page: &str, breaches: &mut Vec<String>) {
    let Some(section) = house::section(page, HEAD) else {
        return breaches.push(format!("{PAGE} has no section {HEAD:?}"));
    };
    let mut known = Vec::new();
    for (words, meaning, types) in section.lines().filter_map(row).skip(1) {
        for word in words.split(',').map(str::trim) {
            if known.contains(&word) {
                breaches.push(format!("{PAGE}: {word:?} has two meanings"));
            }
            known.push(word);
        }
        if meaning.is_empty() {
            breaches.push(format!("{PAGE}: {words:?} means nothing"));
        }
        for path in types.split('`').skip(1).step_by(2).filter(|path| !is_defined(path)) {
            breaches.push(format!("{PAGE}: {words:?}: there is no `{path}`"));
        }
    }
    if known.is_empty() {
        breaches.push(format!("{PAGE}: no words in {HEAD:?}"));
    }
}

/// `| word | meaning | its type |`; not the line below the head of the table.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
    let row = (cells.next()?, cells.next()?, cells.next()?);
    (!row.0.starts_with("---")).then_some(row)
}

/// `crate::module::Name` is defined in a file below the module, or is one: a crate may give a name of an inner module's.
fn is_defined(path: &str) -> bool {
    let mut names: Vec<&str> = path.split("::").collect();
    let (Some(name), false) = (names.pop(), names.is_empty()) else { return false };
    let owner = names.remove(0);
    let place =
        names.iter().fold(root().join("crates").join(owner).join("src"), |at, n| at.join(n));
    [place.clone(), place.with_extension("rs")].iter().any(|place| defines(place, name))
}

/// A file, or one below a folder, has a definition of `name`.
fn defines(place: &Path, name: &str) -> bool {
    if place.is_dir() {
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        let inside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        return inside.iter().any(|path| defines(path, name));
    }
    let is_definition = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        line.starts_with("pub ")
            && words.any(|word| KINDS.contains(&word))
            && words.next() == Some(name)
    };
    place.extension().is_some_and(|e| e == "rs")
        && std::fs::read_to_string(place).is_ok_and(|text| text.lines().any(is_definition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let seen = |rows: &str| {
            let mut breaches = Vec::new();
            let page = format!(
                "{HEAD}\n\n| word | meaning | its type |\n|---|---|---|\n{rows}\n## Else\n"
            );
            check(&page, &mut breaches);
            breaches.len()
        };
        assert_eq!(seen("| sum | a sum | `base::Sum` |"), 0);
        assert_eq!(
            seen(
                "| LWS, XDR | words | `codec::lws` and `codec::xdr::Encoder` |\n| way | a way | |"
            ),
            0
        );
        assert_eq!(seen("| sum | a sum | `base::Sun` |"), 1);
        assert_eq!(seen("| sum | a sum | `nowhere::Sum` |\n| way | | |"), 2);
        assert_eq!(seen("| sum, way | a sum | |\n| way | a way | |"), 1);
        assert_eq!(seen(""), 1);
    }
}
