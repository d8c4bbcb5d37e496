//! What `ARCHITECTURE.md` says of the house, as `tidy` reads it: the arrows between crates, the rooms where unsafe code
//! lives, the laws. They stand there and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use crate::shell::{Result, root};

/// The page.
pub const PAGE: &str = "ARCHITECTURE.md";

/// Heads of the sections that are read.
const ARROWS: &str = "## Crates";
const ROOMS: &str = "## Where `unsafe` lives";
const LAWS: &str = "## Laws";

/// What the page says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct House {
    /// Which of our crates each of ours imports. A crate without an entry is not in the house.
    pub imports: BTreeMap<String, BTreeSet<String>>,
    /// Rooms, as `crate::module`.
    pub rooms: Vec<String>,
    /// Numbers of the laws.
    pub laws: BTreeSet<u32>,
}

impl House {
    /// Reads the page.
    pub fn read() -> Result<House> {
        let text =
            std::fs::read_to_string(root().join(PAGE)).map_err(|e| format!("{PAGE}: {e}"))?;
        House::parse(&text)
    }

    /// Takes the three sections out of the page's text.
    pub fn parse(text: &str) -> Result<House> {
        let part =
            |head: &str| section(text, head).ok_or(format!("{PAGE} has no section {head:?}"));
        let house = House {
            imports: arrows(part(ARROWS)?)?,
            rooms: rooms(part(ROOMS)?),
            laws: laws(part(LAWS)?)?,
        };
        match (house.imports.is_empty(), house.rooms.is_empty(), house.laws.is_empty()) {
            (true, ..) => Err(format!("{PAGE}: no arrows in {ARROWS:?}")),
            (_, true, _) => Err(format!("{PAGE}: no rooms in {ROOMS:?}")),
            (.., true) => Err(format!("{PAGE}: no laws in {LAWS:?}")),
            _ => Ok(house),
        }
    }
}

/// What is below a head, up to the next.
pub fn section<'a>(text: &'a str, head: &str) -> Option<&'a str> {
    let mut lines = text.split_inclusive('\n');
    let mut start = 0;
    for line in lines.by_ref() {
        start += line.len();
        if line.trim_end() == head {
            let len =
                lines.take_while(|line| !line.starts_with("## ")).map(str::len).sum::<usize>();
            return Some(&text[start..start + len]);
        }
    }
    None
}

/// `a, b ◀ c, d` in a block of code: c and d import a and b, and nothing more unless another line says so. `nothing`
/// stands for no crate.
fn arrows(section: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    let blocks = section.split("```").skip(1).step_by(2);
    for line in blocks.flat_map(str::lines).filter(|line| line.contains('◀')) {
        let sides: Vec<&str> = line.split('◀').collect();
        let [imported, importers] = sides[..] else {
            return Err(format!("{PAGE}: two arrows in one line: {line}"));
        };
        for importer in names(importers) {
            let all = imports.entry(importer.to_owned()).or_default();
            all.extend(names(imported).filter(|name| *name != "nothing").map(str::to_owned));
        }
    }
    for (importer, all) in &imports {
        if let Some(unknown) = all.iter().find(|name| !imports.contains_key(*name)) {
            return Err(format!(
                "{PAGE}: {importer} imports {unknown}, of which no arrow says what it imports"
            ));
        }
    }
    Ok(imports)
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Every `crate::module` between backticks.
pub fn rooms(section: &str) -> Vec<String> {
    let quoted = section.split('`').skip(1).step_by(2);
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-:".contains(c);
    quoted
        .filter(|name| name.contains("::") && name.chars().all(is_path))
        .map(str::to_owned)
        .collect()
}

/// `1. **Name.** …`, counted from 1.
fn laws(section: &str) -> Result<BTreeSet<u32>> {
    let mut laws = BTreeSet::new();
    for line in section.lines() {
        let Some((number, _)) = line.split_once(". **") else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        if number as usize != laws.len() + 1 {
            return Err(format!("{PAGE}: law {number} stands where law {} should", laws.len() + 1));
        }
        laws.insert(number);
    }
    Ok(laws)
}

/// The numbers of laws that a line cites: `Law 3`, `laws 1 and 7`.
pub fn cited(line: &str) -> Vec<u32> {
    let lower = line.to_lowercase();
    let mut cited = Vec::new();
    for (at, _) in lower.match_indices("law") {
        if lower[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let after = &lower[at + "law".len()..];
        let (several, after) = after.strip_prefix('s').map_or((false, after), |rest| (true, rest));
        let words = after.split([' ', ',', '(', ')']).filter(|word| !word.is_empty());
        if !after.starts_with(' ') {
            continue;
        }
        for word in words {
            let digits = word.trim_end_matches(['.', ';', ':', '`', '/', '"', '\'']);
            match digits.parse() {
                Ok(number) => cited.push(number),
                Err(_) if several && matches!(word, "and" | "to" | "or") => continue,
                Err(_) => break,
            }
            if !several {
                break;
            }
        }
    }
    cited
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# House\n\n## Crates\n\n| `c` | x::y |\n```\nnothing ◀ a, b\na, b    ◀ c\nc ◀ d\n```\n\n\
                        ## Where `unsafe` lives\n\n`a::arch` (see `b`), `b::sys`\n\n\
                        ## Laws\n\n1. **One.** Text\n   of it.\n2. **Two.** More.\n\n## Else\n\n3. **No law.**\n";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_page_is_read() {
        let house = House::parse(TEXT).unwrap();
        let imports =
            [("a", set(&[])), ("b", set(&[])), ("c", set(&["a", "b"])), ("d", set(&["c"]))];
        assert_eq!(house.imports, imports.map(|(name, all)| (name.to_owned(), all)).into());
        assert_eq!(house.rooms, ["a::arch", "b::sys"]);
        assert_eq!(house.laws, [1, 2].into());
        let ours = House::read().unwrap();
        assert!(
            ours.imports["stack"].contains("transport")
                && !ours.imports["kernels"].contains("wire")
        );
        assert!(ours.rooms.contains(&"kernels::arch".to_owned()));
        assert_eq!(ours.laws, (1..=10).collect());
    }

    #[test]
    fn a_page_that_says_nothing_is_refused() {
        for (found, other) in [
            ("## Laws", "## Rules"),
            ("2. **Two", "3. **Two"),
            ("1. **One.** Text\n   of it.\n2. **Two.** More.", ""),
            ("`a::arch` (see `b`), `b::sys`", "none"),
            ("c ◀ d", "c ◀ d ◀ e"),
            ("c ◀ d", "x ◀ d"),
        ] {
            assert!(TEXT.contains(found));
            assert!(House::parse(&TEXT.replace(found, other)).is_err(), "{other}");
        }
    }

    #[test]
    fn laws_are_found_where_they_are_cited() {
        // In two pieces, as no such law is there.
        let line = format!("/// before the checksum (Law 3); and {} 12.", "LAW");
        assert_eq!(cited(&line), [3, 12]);
        assert_eq!(cited("the laws 1, 2 and 7 say"), [1, 2, 7]);
        let none = "`crates/kernels/tests/law1.rs`, a law of 2 kinds, outlaw 9, Law::Cubic(law)";
        assert!(cited(none).is_empty(), "{:?}", cited(none));
    }
}
