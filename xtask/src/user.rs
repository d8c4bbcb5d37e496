//! The tests as a user without rights: what is built as root is run as `nobody`, which gives up the rights of root, and
//! root's places.

use std::collections::BTreeSet;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::only;
use crate::programs::{self, Program};
use crate::shell::{Result, root};

/// Debian's `nobody` and `nogroup`, as everywhere else.
const NOBODY: u32 = 65_534;

/// Crates whose tests are left out: they do no I/O (ARCHITECTURE.md), only write files or only measure loops, so no right makes a difference,
/// and they take longest. Those of `asn1` and `asn1-values` also compile what they generate, in the target folder, which is root's.
const LEFT_OUT: [&str; 17] = [
    "fusewire-advise-example",
    "fusewire-asn1",
    "fusewire-asn1-example",
    "fusewire-asn1-values",
    "fusewire-base",
    "fusewire-calibration",
    "fusewire-codec",
    "fusewire-fuzz",
    "fusewire-generate",
    "fusewire-kernels",
    "fusewire-model",
    "fusewire-net",
    "fusewire-service",
    "fusewire-synthetic",
    "fusewire-transport",
    "fusewire-wire",
    "fusewire-xdr",
];

/// Where programs are looked for: root's own folders, which the user may not look into, would end the search.
const PATH: &str = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin";

/// Root's places and names, which a program of the user's must not be sent to.
const ROOTS: [&str; 8] = [
    "LOGNAME",
    "MAIL",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// A folder that is the user's own, and is removed.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("fusewire-user-{}", std::process::id()));
        let failed = |e| format!("{}: {e}", path.display());
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        chown(&path, Some(NOBODY), Some(NOBODY)).map_err(failed)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir_all(&self.0) {
            eprintln!("xtask: cannot remove {}: {e}", self.0.display());
        }
    }
}

/// Lets a program run as that user: no groups, no capabilities, a home and a place for scratch files in `folder`.
fn give_up<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    // Leaving the user 0 clears all capabilities; the groups go with it.
    command.uid(NOBODY).gid(NOBODY).env("HOME", folder).env("TMPDIR", folder).env("PATH", PATH);
    for name in ROOTS {
        command.env_remove(name);
    }
    command
}

fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    give_up(&mut command, folder);
    command
}

/// Runs these test programs as the user, but for those of packages that have no use for it, and those that measure. Only for root.
/// Returns those, by their paths, that ran and left out nothing: of more rights, they would make nothing.
///
/// Where the user cannot read the tree at all, as below `/root`, it says so, and what to do.
pub fn all(programs: &[Program]) -> Result<BTreeSet<PathBuf>> {
    let is_run = |program: &&Program| {
        let package = program.package.as_str();
        !LEFT_OUT.contains(&package) && !only::measures(package, program.name())
    };
    let programs: Vec<Program> = programs.iter().filter(is_run).cloned().collect();
    let Some(first) = programs.first() else { return Ok(BTreeSet::new()) };
    let folder = Folder::new()?;
    let readable = command("/bin/sh", &folder.0)
        .args(["-c", "test -r \"$0/Cargo.toml\" && test -x \"$1\""])
        .args([&root(), &first.path])
        .stdin(Stdio::null())
        .status();
    if !readable.is_ok_and(|status| status.success()) {
        println!(
            "── tests without rights: skipped, nobody but root can read {} (`cargo xtask ci` takes a clone that all can)",
            root().display()
        );
        return Ok(BTreeSet::new());
    }
    let ran = programs::run("tests without rights", &programs, |program| {
        let mut command = Command::new(&program.path);
        give_up(program.prepare(&mut command), &folder.0);
        command
    })?;
    println!("   without rights: {}", ran.tests);
    let paths = programs.into_iter().map(|program| program.path);
    Ok(paths.filter(|path| !ran.skipping.contains(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::is_root;

    #[test]
    fn a_program_has_no_rights_and_places_of_its_own() {
        if !is_root() {
            return eprintln!("skipped: needs root");
        }
        let folder = Folder::new().unwrap();
        let path = folder.0.clone();
        let script = "id -u; id -G; grep CapEff /proc/self/status | cut -f2; echo $HOME $USER; touch $TMPDIR/x; \
                      cat /etc/shadow >/dev/null 2>&1 || echo refused";
        let output = command("/bin/sh", &path).args(["-c", script]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let expected = [
            NOBODY.to_string(),
            NOBODY.to_string(),
            "0000000000000000".into(),
            path.display().to_string(),
            "refused".into(),
        ];
        assert_eq!(text.lines().map(str::trim).collect::<Vec<_>>(), expected);
        assert!(path.join("x").is_file());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn only_crates_that_there_are_are_left_out() {
        for name in LEFT_OUT {
            let folder = name.strip_prefix("fusewire-").unwrap();
            let is_there = ["crates", "."]
                .iter()
                .any(|above| root().join(above).join(folder).join("Cargo.toml").is_file());
            assert!(is_there, "{name}");
        }
    }
}
