//! The tutorial's crate by itself: its manifest is one that Cargo takes, offline, and its library and tests compile, against what this
//! workspace has built of Fusewire's crates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use fusewire_generate::make;

/// What was built of a library, newest first: several builds may have left theirs.
fn built(folder: &Path, library: &str) -> Vec<PathBuf> {
    let is_its = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&format!("lib{library}-")) && name.ends_with(".rlib")
    };
    let mut all: Vec<_> = folder
        .read_dir()
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_its)
        .collect();
    all.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|of| of.modified()).ok()));
    all
}

/// One of the tools that built this, or of the PATH; `None`: that of who built this is not everybody's.
fn tool(name: &str) -> Option<OsString> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Some(name.into()) };
    let beside = Path::new(&cargo).with_file_name(name);
    beside.is_file().then(|| beside.into_os_string())
}

#[test]
fn the_tutorials_crate_is_one_by_itself() {
    let (Some(cargo), Some(rustc)) = (tool("cargo"), tool("rustc")) else {
        return eprintln!("skipped: the tools that built this cannot be run");
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    make::write(&Path::new(env!("OUT_DIR")).join("weather.toml"), folder.path(), None).unwrap();
    std::fs::copy(root.join("Cargo.lock"), folder.path().join("Cargo.lock")).unwrap();
    let resolved = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr));
    let found = String::from_utf8_lossy(&resolved.stdout);
    assert!(found.contains("\"fusewire_service\"") && found.contains("\"weather\""));

    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let compiled = |file: &str, kind: &[&str], externs: &[(&str, &Path)]| {
        let mut rustc = Command::new(&rustc);
        rustc.args(["--edition", "2024", "--emit", "metadata", "-D", "warnings"]).args(kind);
        rustc
            .arg("--out-dir")
            .arg(folder.path())
            .arg("-L")
            .arg(&deps)
            .arg(folder.path().join(file));
        for (name, path) in externs {
            rustc.arg("--extern").arg(format!("{name}={}", path.display()));
        }
        let done = rustc.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() { Ok(()) } else { Err(said) }
    };
    let mut failed = "nothing is built".to_owned();
    for service in built(&deps, "fusewire_service") {
        for codec in built(&deps, "fusewire_codec") {
            let ours = [("fusewire_service", &*service), ("fusewire_codec", &*codec)];
            let library = ["--crate-type", "lib", "--crate-name", "weather"];
            let weather = folder.path().join("libweather.rmeta");
            let all = [&ours[..], &[("weather", &*weather)]].concat();
            let done = compiled("src/lib.rs", &library, &ours)
                .and_then(|()| compiled("tests/contract.rs", &["--test"], &all));
            match done {
                Ok(()) => return,
                Err(said) => failed = said,
            }
        }
    }
    panic!("{failed}");
}
