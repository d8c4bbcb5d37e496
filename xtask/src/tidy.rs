//! `cargo xtask tidy`: house rules that a machine can check.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::change_table;
use crate::compliance;
use crate::house::{self, House};
use crate::shell::{Result, cargo, root};
use crate::words;

/// Licences that what we depend on may have, any one of an OR.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "CC0-1.0",
    "MIT-0",
    "Unlicense",
    "Unicode-3.0",
    "OpenSSL",
    "Apache-2.0 WITH LLVM-exception",
    "BSL-1.0",
    "NCSA",
];

/// In two pieces, so that this file keeps the rule that it checks.
const UNSAFE: &str = concat!("un", "safe");

/// A file longer than this usually holds two things.
const FILE_LINES: usize = 800;

/// Whose files are read.
const FOLDERS: [&str; 8] =
    ["crates", "examples", "fuzz", "xtask", "peers/src", "peers/codec/src", "docs", "conformance"];

/// Checks all rules and names every breach.
pub fn run() -> Result {
    let mut breaches = Vec::new();
    let metadata = metadata()?;
    let house = House::read()?;
    imports(&metadata, &house, &mut breaches);
    let rooms = Rooms::of(&house, &root(), &mut breaches);
    readme(&house, &read(&root().join("README.md"))?, &mut breaches);
    let page = read(&root().join(house::PAGE))?;
    change_table::check(&page, &mut breaches);
    words::check(&page, &mut breaches);
    licences(&metadata, &mut breaches);
    compliance::check(&mut breaches)?;
    let mut tidy = Tidy { house: &house, rooms: &rooms, breaches: &mut breaches };
    for folder in FOLDERS {
        tidy.folder(&root().join(folder))?;
    }
    for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", house::PAGE] {
        let path = root().join(page);
        tidy.citations(&path, &read(&path)?);
    }
    if breaches.is_empty() {
        println!("── tidy: ok");
        return Ok(());
    }
    for breach in &breaches {
        eprintln!("   {breach}");
    }
    Err(format!("tidy: {} breaches of the house rules", breaches.len()))
}

/// What cargo knows of the workspace.
pub fn metadata() -> Result<Value> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn ours(name: &str) -> Option<&str> {
    if name == "fusewire" { Some("cli") } else { name.strip_prefix("fusewire-") }
}

/// Imports are those that the page draws, no more and no fewer; dev-dependencies and those of build scripts are free.
fn imports(metadata: &Value, house: &House, breaches: &mut Vec<String>) {
    let mut known = Vec::new();
    for package in packages(metadata).filter(|p| p["source"].is_null()) {
        let Some(name) = package["name"].as_str().and_then(ours) else { continue };
        known.push(name);
        let Some(may) = house.imports.get(name) else {
            breaches.push(format!("crate {name} is not in the house: add it to {}", house::PAGE));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let does: Vec<&str> = dependencies
            .filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| dependency["name"].as_str().and_then(ours))
            .collect();
        for imported in does.iter().filter(|imported| !may.contains(**imported)) {
            breaches.push(format!("crate {name} must not import {imported}"));
        }
        for drawn in may.iter().filter(|drawn| !does.contains(&drawn.as_str())) {
            breaches.push(format!(
                "{} draws that {name} imports {drawn}, which it does not",
                house::PAGE
            ));
        }
    }
    for name in house.imports.keys().filter(|name| !known.contains(&name.as_str())) {
        breaches.push(format!("{} draws crate {name}, which there is not", house::PAGE));
    }
}

/// Where unsafe code may be written (Law 7): the folders and files of the rooms that the page names.
struct Rooms(Vec<PathBuf>);

impl Rooms {
    /// A room that is not there is a breach: what is written on its old place is nobody's leave.
    fn of(house: &House, root: &Path, breaches: &mut Vec<String>) -> Rooms {
        let mut rooms = Vec::new();
        for room in &house.rooms {
            let (owner, module) = room.split_once("::").unwrap_or((room, ""));
            let place = Path::new("crates").join(owner).join("src").join(module.replace("::", "/"));
            let there: Vec<PathBuf> = [place.clone(), place.with_extension("rs")]
                .into_iter()
                .filter(|place| root.join(place).exists())
                .collect();
            if there.is_empty() {
                breaches.push(format!("{}: there is no room `{room}`", house::PAGE));
            }
            rooms.extend(there);
        }
        Rooms(rooms)
    }

    fn has(&self, name: &Path) -> bool {
        self.0.iter().any(|room| name.starts_with(room))
    }
}

/// The README names the same rooms.
fn readme(house: &House, text: &str, breaches: &mut Vec<String>) {
    let mut said = house::rooms(house::section(text, "## Safety").unwrap_or(""));
    let mut rooms = house.rooms.clone();
    said.sort();
    rooms.sort();
    if said != rooms {
        breaches.push(format!("README.md names the rooms {said:?}, {} {rooms:?}", house::PAGE));
    }
}

fn licences(metadata: &Value, breaches: &mut Vec<String>) {
    for package in packages(metadata).filter(|p| !p["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or("?");
        let licence = package["license"].as_str().unwrap_or("none");
        if !licence_is_allowed(licence) {
            breaches.push(format!("{name} has licence {licence:?}, which is not on the list"));
        }
    }
}

/// A licence expression, read as alternatives of conjunctions; parentheses only ever group an OR.
fn licence_is_allowed(expression: &str) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let allowed = |term: &str| {
        LICENCES.contains(&term.split_whitespace().collect::<Vec<_>>().join(" ").as_str())
    };
    if expression.contains('(') {
        // (A OR B) AND C: each conjunct must have an allowed alternative.
        return expression
            .replace(['(', ')'], " ")
            .split(" AND ")
            .all(|c| c.split(" OR ").any(allowed));
    }
    flat.split(" OR ").any(|alternative| alternative.split(" AND ").all(allowed))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The rules of single files.
struct Tidy<'a> {
    house: &'a House,
    rooms: &'a Rooms,
    breaches: &'a mut Vec<String>,
}

impl Tidy<'_> {
    fn folder(&mut self, dir: &Path) -> Result {
        let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
            // What our compilers are expected to write is written by nobody.
            if path.ends_with("tests/expect") {
                continue;
            }
            match path.extension().and_then(|e| e.to_str()) {
                _ if path.is_dir() => self.folder(&path)?,
                Some("rs") => self.source(&path, &read(&path)?),
                Some("md") => self.citations(&path, &read(&path)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Each law that is cited is there.
    fn citations(&mut self, path: &Path, text: &str) {
        for (number, line) in text.lines().enumerate() {
            for law in house::cited(line).into_iter().filter(|law| !self.house.laws.contains(law)) {
                let (name, page) = (name(path), house::PAGE);
                self.breaches.push(format!("{name}:{}: {page} has no law {law}", number + 1));
            }
        }
    }

    fn source(&mut self, path: &Path, text: &str) {
        self.citations(path, text);
        let name = name(path);
        if !text.starts_with("//!") {
            self.breaches.push(format!("{name}: opens without `//!`"));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES {
            self.breaches.push(format!(
                "{name}: {lines} lines; more than {FILE_LINES} usually hold two things"
            ));
        }
        let in_room = self.rooms.has(Path::new(&name)) || name.contains("/tests/");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let is_unsafe = ["{", "fn", "impl", "extern"]
                .iter()
                .any(|what| code.contains(&format!("{UNSAFE} {what}")));
            if is_unsafe && !in_room {
                self.breaches.push(format!("{name}:{}: `unsafe` outside its rooms", number + 1));
            }
            let stub = ["todo!", "unimplemented!"].iter().any(|s| code.contains(&format!("{s}(")));
            if stub {
                self.breaches.push(format!("{name}:{}: a stub", number + 1));
            }
            if line.trim_start().starts_with("/// As there") {
                let what = "says nothing: name the errors, or \"The errors of [`…`].\"";
                self.breaches.push(format!("{name}:{}: {what}", number + 1));
            }
        }
    }
}

/// A path from the root of the repository.
fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions() {
        assert!(licence_is_allowed("MIT OR Apache-2.0"));
        assert!(licence_is_allowed("GPL-3.0 OR MIT"));
        assert!(licence_is_allowed("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT"));
        assert!(licence_is_allowed("ISC AND (Apache-2.0 OR ISC)"));
        assert!(licence_is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(licence_is_allowed("MIT/Apache-2.0"));
        assert!(!licence_is_allowed("GPL-3.0"));
        assert!(!licence_is_allowed("MIT AND GPL-3.0"));
        assert!(!licence_is_allowed("none"));
    }

    fn house() -> House {
        House {
            imports: [("a", vec![]), ("b", vec!["a"])]
                .map(|(name, all)| (name.into(), all.into_iter().map(str::to_owned).collect()))
                .into(),
            rooms: vec!["device::sys".into(), "packetdrill::border".into()],
            laws: [1, 2, 3].into(),
        }
    }

    #[test]
    fn breaches_are_seen() {
        let (house, mut breaches) = (house(), Vec::new());
        let rooms = Rooms::of(&house, &root(), &mut breaches);
        assert!(breaches.is_empty(), "{breaches:?}");
        let seen = |name: &str, text: &str| {
            let mut breaches = Vec::new();
            let mut tidy = Tidy { house: &house, rooms: &rooms, breaches: &mut breaches };
            tidy.source(&root().join(name), text);
            breaches.len()
        };
        let block = format!("fn f() {{ {UNSAFE} {{ g() }} }}\n");
        let text = format!("{block}// {UNSAFE} {{ in words }}\n");
        assert_eq!(seen("crates/files/src/x.rs", &text), 2);
        assert_eq!(seen("crates/device/src/sys/x.rs", &format!("//! X\n{block}")), 0);
        assert_eq!(seen("crates/device/src/system.rs", &format!("//! X\n{block}")), 1);
        assert_eq!(seen("crates/packetdrill/src/border.rs", &format!("//! X\n{block}")), 0);
        let cites = |law: u32| format!("//! As {} {law} has it.\n", "Law");
        assert_eq!(seen("crates/files/src/x.rs", &cites(3)), 0);
        assert_eq!(seen("crates/files/src/x.rs", &cites(4)), 1);
        assert_eq!(seen("crates/files/src/x.rs", "//! X\n/// As there; late.\nfn f() {}\n"), 1);
    }

    #[test]
    fn rooms_that_are_not_there_are_seen() {
        let mut house = house();
        house.rooms.push("stack::nowhere".into());
        let mut breaches = Vec::new();
        Rooms::of(&house, &root(), &mut breaches);
        assert!(breaches.len() == 1 && breaches[0].contains("stack::nowhere"), "{breaches:?}");
        breaches.clear();
        let text = "## Safety\n\n`packetdrill::border`, `device::sys` and `stack::nowhere`.\n";
        readme(&house, text, &mut breaches);
        assert!(breaches.is_empty(), "{breaches:?}");
        readme(&house, &text.replace("device::sys", "device"), &mut breaches);
        assert_eq!(breaches.len(), 1);
    }

    #[test]
    fn arrows_are_those_that_are_drawn() {
        let seen = |a: &[&str], b: &[&str]| {
            let package = |name: &str, imports: &[&str]| {
                let all: Vec<Value> = imports
                    .iter()
                    .map(|i| serde_json::json!({ "name": format!("fusewire-{i}"), "kind": null }))
                    .collect();
                serde_json::json!({ "name": name, "source": null, "dependencies": all })
            };
            let packages = [package("fusewire-a", a), package("fusewire-b", b)];
            let mut breaches = Vec::new();
            imports(&serde_json::json!({ "packages": packages }), &house(), &mut breaches);
            breaches
        };
        assert!(seen(&[], &["a"]).is_empty(), "{:?}", seen(&[], &["a"]));
        assert_eq!(seen(&["b"], &["a"]).len(), 1, "upward");
        assert_eq!(seen(&[], &[]).len(), 1, "drawn only");
        let mut breaches = Vec::new();
        let lonely =
            serde_json::json!({ "name": "fusewire-c", "source": null, "dependencies": [] });
        imports(&serde_json::json!({ "packages": [lonely] }), &house(), &mut breaches);
        assert_eq!(
            breaches.len(),
            3,
            "a crate that is not drawn, and two that are not there: {breaches:?}"
        );
    }
}
