//! Published modules pass the check, but for those that are wrong; these are listed with their cause in
//! `data/wrong.txt`. Without the published modules only ours are checked.

mod data;

use std::collections::BTreeSet;
use std::path::Path;

use fusewire_asn1::{Checked, Source, check};

fn checked(files: Vec<(String, Vec<u8>)>) -> Checked {
    check(files.into_iter().map(|(name, bytes)| Source::new(name, &bytes)).collect())
}

fn wrong(checked: &Checked) -> BTreeSet<String> {
    let files = 0..checked.files.len();
    files
        .filter(|&f| !checked.is_ok(f))
        .map(|f| checked.files[f].source.name().to_owned())
        .collect()
}

#[test]
fn our_modules_are_right() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/modules");
    let checked = checked(data::files(&own));
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
}

#[test]
fn published_modules_are_right_but_for_those_listed() {
    let Some(folder) = data::folder() else { return };
    let checked = checked(data::files(&folder.join("modules")));
    let list = include_str!("data/wrong.txt");
    let listed: BTreeSet<String> = list
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| l.split('\t').next().unwrap_or_default().to_owned())
        .collect();
    let found = wrong(&checked);
    let unlisted: Vec<_> = found.difference(&listed).collect();
    let right: Vec<_> = listed.difference(&found).collect();
    assert!(unlisted.is_empty() && right.is_empty(), "not listed {unlisted:?}, right {right:?}");
    println!("{} of {} right", checked.files.len() - found.len(), checked.files.len());
}

#[test]
fn probes_are_right_but_for_the_one_about_errors() {
    let Some(folder) = data::folder() else { return };
    for (name, bytes) in
        data::files(&folder.join("probes")).into_iter().chain(data::files(&folder.join("p1")))
    {
        let checked = checked(vec![(name.clone(), bytes)]);
        assert_eq!(checked.is_ok(0), name != "t_err.asn", "{name}: {:?}", checked.diagnostics);
    }
}
