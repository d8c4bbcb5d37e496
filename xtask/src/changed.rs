//! `cargo xtask test --changed`: which of our crates a change reaches.
//!
//! A crate is reached when one of its files has changed, or when it depends, for building or for its tests, on one
//! that is. What lies in no crate's folder and is no page reaches everything. What is reached is tested; what says
//! nothing of a crate whose own files are as they were is left out for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::shell::{Result, root};

/// What a change reaches.
#[derive(Debug, PartialEq, Eq)]
pub enum Reach {
    /// Everything: this has changed.
    All(String),
    /// Packages with a file that has changed, and these with all that depend on them.
    Packages { changed: BTreeSet<String>, reached: BTreeSet<String> },
}

/// What has changed since `commit`, committed or not, and what that reaches.
///
/// # Errors
/// git fails, or the commit is not there.
pub fn since(commit: &str, metadata: &Value) -> Result<Reach> {
    let differing = git(&["diff", "--name-only", "-z", commit])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let files: Vec<&str> = differing
        .split('\0')
        .chain(untracked.split('\0'))
        .filter(|name| !name.is_empty())
        .collect();
    Ok(reach(&files, &Packages::of(metadata)))
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .current_dir(root())
        .args(args)
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", args.join(" "), said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Our packages: where each lies, and which of ours it depends on in any way.
struct Packages(BTreeMap<String, (String, BTreeSet<String>)>);

impl Packages {
    fn of(metadata: &Value) -> Packages {
        let all = metadata["packages"].as_array().into_iter().flatten();
        let ours = all.filter(|package| package["source"].is_null()).filter_map(|package| {
            let manifest = Path::new(package["manifest_path"].as_str()?);
            let folder = manifest.parent()?.strip_prefix(root()).ok()?;
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let names = dependencies
                .filter(|dependency| dependency["source"].is_null())
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned));
            let folder = folder.to_str()?.to_owned();
            Some((package["name"].as_str()?.to_owned(), (folder, names.collect())))
        });
        Packages(ours.collect())
    }

    fn owner(&self, file: &str) -> Option<&String> {
        let holds = |folder: &str| Path::new(file).starts_with(folder);
        self.0.iter().find(|(_, (folder, _))| holds(folder)).map(|(name, _)| name)
    }
}

/// Pages, which only house rules and the tests of the program read.
fn is_page(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| end == "md")
}

/// Whose tests read the pages.
const READS_PAGES: &str = "fusewire";

fn reach(files: &[&str], packages: &Packages) -> Reach {
    let mut changed = BTreeSet::new();
    for file in files {
        match packages.owner(file) {
            Some(name) => changed.insert(name.clone()),
            None if is_page(file) => changed.insert(READS_PAGES.into()),
            None => return Reach::All((*file).into()),
        };
    }
    let mut reached = changed.clone();
    loop {
        let before = reached.len();
        for (name, (_, dependencies)) in &packages.0 {
            if !dependencies.is_disjoint(&reached) {
                reached.insert(name.clone());
            }
        }
        if reached.len() == before {
            return Reach::Packages { changed, reached };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::metadata;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_change_reaches_what_depends_on_it() {
        let package = |folder: &str, on: &[&str]| (folder.to_owned(), set(on));
        let packages = Packages(BTreeMap::from([
            ("a".into(), package("crates/a", &[])),
            ("ab".into(), package("crates/ab", &["a"])),
            ("c".into(), package("crates/c", &["ab"])),
            (READS_PAGES.into(), package("crates/cli", &[])),
        ]));
        for (files, changed, reached) in [
            (&["crates/ab/src/lib.rs"][..], &["ab"][..], &["ab", "c"][..]),
            (&["crates/a/README.md"], &["a"], &["a", "ab", "c"]),
            (&["docs/x.md"], &[READS_PAGES], &[READS_PAGES]),
            (&[], &[], &[]),
        ] {
            let expected = Reach::Packages { changed: set(changed), reached: set(reached) };
            assert_eq!(reach(files, &packages), expected);
        }
        let all = reach(&["crates/c/x", "Cargo.lock"], &packages);
        assert_eq!(all, Reach::All("Cargo.lock".into()));
    }

    #[test]
    fn ours_are_known_with_their_tests() {
        let metadata = match metadata() {
            Ok(metadata) => metadata,
            // Without rights root's cargo cannot be run.
            Err(e) if !crate::shell::is_root() => return eprintln!("skipped: {e}"),
            Err(e) => panic!("{e}"),
        };
        let packages = Packages::of(&metadata);
        assert_eq!(packages.owner("crates/base/src/sum.rs").unwrap(), "fusewire-base");
        let Reach::Packages { reached, .. } = reach(&["crates/testkit/src/lib.rs"], &packages)
        else {
            panic!("a crate's file reaches packages")
        };
        // Its tests alone use it.
        assert!(reached.contains("fusewire-transport") && !reached.contains("fusewire-base"));
        assert!(since("no-such-commit", &metadata).is_err());
    }
}
