//! "Where to change what" in `ARCHITECTURE.md`: a house in which a change touches few files. The page names them, and
//! `tidy` sees that they are there and no more than they may be.

use crate::house::{self, PAGE};
use crate::shell::root;

const HEAD: &str = "## Where to change what";

/// Changes, as the table calls them, and how many files each may touch.
const CHANGES: [(&str, usize); 10] = [
    ("a congestion controller", 2),
    ("an AEAD", 4),
    ("a device", 3),
    ("an encoding", 4),
    ("an experiment", 3),
    ("how groups are joined", 6),
    ("a field of the transfer", 3),
    ("the default of an option", 1),
    ("a counter", 1),
    ("a transport", 12),
];

/// Names every row that is missing, too long, or names a file that is not there.
pub fn check(page: &str, breaches: &mut Vec<String>) {
    let Some(section) = house::section(page, HEAD) else {
        return breaches.push(format!("{PAGE} has no section {HEAD:?}"));
    };
    let rows: Vec<(&str, &str)> = section.lines().filter_map(row).collect();
    for (change, most) in CHANGES {
        let Some((_, files)) = rows.iter().find(|(name, _)| *name == change) else {
            breaches.push(format!("{PAGE}: {HEAD:?} has no row {change:?}"));
            continue;
        };
        let files: Vec<&str> = files.split('`').skip(1).step_by(2).collect();
        if files.is_empty() || files.len() > most {
            let found = files.len();
            breaches.push(format!("{PAGE}: {change} touches {found} files, 1 to {most} wanted"));
        }
        for file in files.into_iter().filter(|file| !is_new(file) && !root().join(file).is_file()) {
            breaches.push(format!("{PAGE}: {change}: there is no file {file:?}"));
        }
    }
}

/// `| change | files |`
fn row(line: &str) -> Option<(&str, &str)> {
    let (change, files) = line.strip_prefix('|')?.split_once('|')?;
    Some((change.trim(), files))
}

/// The file is the change's own: `…/NAME.rs`.
fn is_new(file: &str) -> bool {
    file.contains("NAME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let mut breaches = Vec::new();
        check("# House\n", &mut breaches);
        assert_eq!(breaches.len(), 1);
        let table = |files: &str| {
            let rows = CHANGES.map(|(change, _)| format!("| {change} | {files} |\n"));
            format!("{HEAD}\n\n| change | files |\n|---|---|\n{}\n## Else\n", rows.concat())
        };
        let seen = |page: &str| {
            let mut breaches = Vec::new();
            check(page, &mut breaches);
            breaches.len()
        };
        assert_eq!(seen(&table("`crates/base/src/NAME.rs`")), 0);
        assert_eq!(seen(&table("`Cargo.toml`")), 0);
        assert_eq!(seen(&table("`Cargo.tom`")), CHANGES.len());
        assert_eq!(seen(&table("")), CHANGES.len());
        let one_file = CHANGES.iter().filter(|(_, most)| *most == 1).count();
        assert_eq!(seen(&table("`Cargo.toml` and `Cargo.lock`")), one_file);
        let without = table("`Cargo.toml`").replace("| an encoding |", "| encodings |");
        assert_eq!(seen(&without), 1);
    }
}
