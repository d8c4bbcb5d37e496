//! Modules to try the compiler on: the published ones where they are there, and a few of our own.
#![allow(dead_code, reason = "each test uses what it needs of this")]

use std::path::{Path, PathBuf};

/// The folder of published modules beside the repository, where there is one.
pub fn folder() -> Option<PathBuf> {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.find_map(|f| Some(f.join("shared/data/asn1")).filter(|f| f.is_dir()))
}

/// Names and texts of modules.
pub fn modules() -> Vec<(String, Vec<u8>)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/modules");
    let folder = folder().map_or(own, |f| f.join("modules"));
    files(&folder)
}

/// Names and texts of a folder's files, by name.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a folder").path()).collect();
    paths.sort();
    let name = |p: &PathBuf| p.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), std::fs::read(p).expect("a file"))).collect()
}

/// A number from the environment.
pub fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise)
}
