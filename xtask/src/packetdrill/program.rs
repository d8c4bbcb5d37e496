//! Finding packetdrill, or building it from a folder that the user names.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Result, install, root, step};

/// What its build needs, and the Debian packages that have it.
const TOOLS: [(&str, &str); 4] =
    [("make", "make"), ("cc", "gcc"), ("bison", "bison"), ("flex", "flex")];

/// The program: what was named, else what the environment names, else what is on the PATH.
pub fn find(named: Option<&Path>) -> Result<Option<PathBuf>> {
    let named = named
        .map(Path::to_path_buf)
        .or_else(|| std::env::var_os("FUSEWIRE_PACKETDRILL").map(PathBuf::from));
    if let Some(path) = named {
        let full = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        return if full.is_dir() { build(&full).map(Some) } else { Ok(Some(full)) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::split_paths(&path).map(|dir| dir.join("packetdrill")).find(|p| p.is_file()))
}

/// Builds a copy of the source under `target/`, once for a folder.
fn build(folder: &Path) -> Result<PathBuf> {
    let source = [folder.to_path_buf(), folder.join("gtests/net/packetdrill")]
        .into_iter()
        .find(|dir| dir.join("so_testing.c").is_file())
        .ok_or_else(|| format!("{}: no packetdrill source (so_testing.c)", folder.display()))?;
    let copy = root().join("target/packetdrill/build");
    let (program, origin) = (copy.join("packetdrill"), copy.join(".origin"));
    let here = source.display().to_string();
    if program.is_file() && std::fs::read_to_string(&origin).is_ok_and(|from| from == here) {
        return Ok(program);
    }
    install(&TOOLS);
    let _ = std::fs::remove_dir_all(&copy);
    copy_folder(&source, &copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    step("packetdrill: configure", Command::new("./configure").current_dir(&copy))?;
    let mut make = Command::new("make");
    make.current_dir(&copy).args(["--silent", "-j2", "packetdrill"]);
    step("packetdrill: make", &mut make)?;
    std::fs::write(&origin, here).map_err(|e| format!("{}: {e}", origin.display()))?;
    Ok(program)
}

/// The files of a folder, without the objects of an earlier build; folders below are not needed.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let built = path.extension().is_some_and(|e| e == "o");
        if let (true, false, Some(name)) = (path.is_file(), built, path.file_name()) {
            std::fs::copy(&path, to.join(name))?;
        }
        if path.is_dir()
            && path.file_name().is_some_and(|name| name == "contrib" || name == "ynl-c")
        {
            copy_folder(&path, &to.join(path.file_name().unwrap_or_default()))?;
        }
    }
    Ok(())
}
