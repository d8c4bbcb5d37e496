//! `docs/compliance.md` says which test shows what: each script, file, test and item that it names is there.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::shell::{Result, root};

const PAGE: &str = "docs/compliance.md";

/// What the page's names are looked up in.
struct Tree {
    /// Scripts below `conformance/`, without their ending.
    scripts: HashSet<String>,
    /// Rust files below `crates/`, with their text.
    files: BTreeMap<String, String>,
}

/// Names what the page names and the tree has not.
pub fn check(breaches: &mut Vec<String>) -> Result {
    let root = root();
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
    let mut tree = Tree { scripts: HashSet::new(), files: BTreeMap::new() };
    tree.read(&root.join("conformance"), &root.join("conformance"))?;
    tree.read(&root.join("crates"), &root.join("crates"))?;
    breaches.extend(tree.missing(&page).into_iter().map(|what| format!("{PAGE}:{what}")));
    Ok(())
}

impl Tree {
    fn read(&mut self, base: &Path, dir: &Path) -> Result {
        let told = |e: std::io::Error| format!("{}: {e}", dir.display());
        for entry in std::fs::read_dir(dir).map_err(told)? {
            let path = entry.map_err(told)?.path();
            let name = path.strip_prefix(base).unwrap_or(&path).display().to_string();
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => self.read(base, &path)?,
                Some("pkt") => {
                    self.scripts.insert(name.trim_end_matches(".pkt").to_string());
                }
                Some("rs") => {
                    let text = std::fs::read_to_string(&path).map_err(told)?;
                    self.files.insert(name, text);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What a page names and we have not, with the line.
    fn missing(&self, page: &str) -> Vec<String> {
        let mut missing = Vec::new();
        let words: HashSet<&str> = self
            .files
            .values()
            .flat_map(|text| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
            .collect();
        for (at, line) in page.lines().enumerate() {
            let mut tell = |what: String| missing.push(format!("{}: {what}", at + 1));
            if let Some((_, rest)) = line.split_once("there are ")
                && let Some(count) =
                    rest.split([',', ' ']).next().and_then(|n| n.parse::<usize>().ok())
                && count != self.scripts.len()
            {
                tell(format!("{count} scripts are said, and {} there", self.scripts.len()));
            }
            if !line.starts_with('|') {
                continue;
            }
            let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            let files: Vec<&str> = names.iter().copied().filter(|n| is_source(n)).collect();
            for name in names {
                if name.starts_with("rfc") && name.contains('/') {
                    if !self.scripts.contains(name) {
                        tell(format!("no script `{name}`"));
                    }
                } else if is_source(name) {
                    if !self.files.contains_key(name) {
                        tell(format!("no file `{name}`"));
                    }
                } else if is_function(name) {
                    if !self.has_function(name, &files) {
                        tell(format!("no function `{name}` where it is said to be"));
                    }
                } else if let Some((_, item)) = name.rsplit_once("::") {
                    let item = item.split(|c: char| !c.is_alphanumeric() && c != '_').next();
                    if item.is_some_and(|item| !words.contains(item)) {
                        tell(format!("nothing is called `{name}`"));
                    }
                }
            }
            if line.contains("| met |") && !shows(line) {
                tell("met, but no test or code is named".to_string());
            }
        }
        missing
    }

    /// In one of these files of a row, or, where it names none, in any.
    fn has_function(&self, name: &str, files: &[&str]) -> bool {
        let begin = format!("fn {name}");
        let has = |text: &String| {
            text.match_indices(&begin).any(|(at, _)| {
                let next = text[at + begin.len()..].chars().next();
                next.is_some_and(|c| c == '(' || c == '<')
            })
        };
        match files {
            [] => self.files.values().any(has),
            _ => files.iter().filter_map(|f| self.files.get(*f)).any(has),
        }
    }
}

/// A row that says "met" names what shows it, or is shown by the one above it.
fn shows(line: &str) -> bool {
    line.contains('`') || line.contains("as above")
}

/// As `net/tests/fragments.rs`.
fn is_source(name: &str) -> bool {
    name.ends_with(".rs") && name.contains('/')
}

/// As `a_router_goes`: two underscores at least, so that a field is none.
fn is_function(name: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(lower) && name.matches('_').count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_named() {
        let tree = Tree {
            scripts: ["rfc1/a-b".to_string()].into(),
            files: [("net/tests/x.rs".to_string(), "fn it_is_so() { Cause::Tiny }".to_string())]
                .into(),
        };
        let good = "there are 1, all ours\n| M | x | met | `rfc1/a-b`, `net/tests/x.rs` (`it_is_so`), `Cause::Tiny` |";
        assert_eq!(tree.missing(good), Vec::<String>::new());
        for (bad, what) in [
            ("there are 2, all ours", "1 there"),
            ("| M | x | met | `rfc1/a-c` |", "no script"),
            ("| M | x | no | `net/tests/y.rs` |", "no file"),
            ("| M | x | met | `net/tests/x.rs` (`it_is_not_so`) |", "no function"),
            ("| M | x | met | `it_is_s` |", "no function"),
            ("| M | x | met | `is_it_so` |", "no function"),
            ("| M | x | met | `Cause::Large` |", "nothing is called"),
            ("| M | x | met | it is so |", "met, but"),
        ] {
            let missing = tree.missing(bad);
            assert!(missing.len() == 1 && missing[0].contains(what), "{bad}: {missing:?}");
        }
    }
}
