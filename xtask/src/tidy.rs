//! `cargo xtask tidy`: house rules that a machine can check.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::compliance;
use crate::shell::{Result, cargo, root};

/// Which of our crates each of ours may import (ARCHITECTURE.md). A crate that is not here is an error.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("advise-example", &["calibration", "kernels", "model"]),
    ("asn1", &[]),
    ("asn1-example", &["codec"]),
    ("asn1-values", &["asn1", "codec"]),
    ("base", &[]),
    ("kernels", &["base"]),
    ("wire", &["base"]),
    ("model", &[]),
    ("net", &["base", "wire"]),
    ("calibration", &["kernels", "model", "synthetic"]),
    ("codec", &["base", "kernels"]),
    ("transport", &["base", "wire"]),
    ("session", &["base", "kernels"]),
    ("device", &["base", "wire"]),
    ("view", &["device"]),
    ("stack", &["base", "kernels", "wire", "net", "transport", "session", "device", "view"]),
    ("rpc", &["codec", "stack"]),
    ("rpc-example", &["codec", "rpc"]),
    ("xdr", &["asn1"]),
    ("files", &["base", "codec", "kernels", "session", "stack", "view"]),
    (
        "lab",
        &[
            "base",
            "calibration",
            "codec",
            "device",
            "files",
            "kernels",
            "model",
            "session",
            "stack",
            "synthetic",
            "transport",
            "wire",
        ],
    ),
    (
        "cli",
        &[
            "asn1",
            "asn1-values",
            "base",
            "calibration",
            "codec",
            "device",
            "files",
            "kernels",
            "lab",
            "model",
            "session",
            "stack",
            "transport",
            "view",
            "wire",
            "xdr",
        ],
    ),
    ("capi", &["base", "device", "stack"]),
    ("packetdrill", &["base", "device", "stack", "transport", "wire"]),
    ("synthetic", &[]),
    ("testkit", &["base"]),
    (
        "fuzz",
        &[
            "asn1",
            "asn1-values",
            "base",
            "codec",
            "device",
            "files",
            "net",
            "rpc",
            "session",
            "stack",
            "transport",
            "view",
            "wire",
            "xdr",
        ],
    ),
];

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

/// The rooms where `unsafe` may be written (DESIGN: law 7); tests of those rooms too.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/kernels/src/arch",
    "crates/synthetic/src/code",
    "crates/device/src/sys",
    "crates/stack/src/shared",
    "crates/capi/src/border",
    "crates/packetdrill/src/border.rs",
];

/// In two pieces, so that this file keeps the rule that it checks.
const UNSAFE: &str = concat!("un", "safe");

/// A file longer than this usually holds two things.
const FILE_LINES: usize = 800;

/// Checks all rules and names every breach.
pub fn run() -> Result {
    let mut breaches = Vec::new();
    let metadata = metadata()?;
    imports(&metadata, &mut breaches);
    licences(&metadata, &mut breaches);
    compliance::check(&mut breaches)?;
    sources(&root().join("crates"), &mut breaches)?;
    sources(&root().join("fuzz"), &mut breaches)?;
    sources(&root().join("xtask"), &mut breaches)?;
    sources(&root().join("peers/src"), &mut breaches)?;
    sources(&root().join("peers/codec/src"), &mut breaches)?;
    if breaches.is_empty() {
        println!("── tidy: ok");
        return Ok(());
    }
    for breach in &breaches {
        eprintln!("   {breach}");
    }
    Err(format!("tidy: {} breaches of the house rules", breaches.len()))
}

fn metadata() -> Result<Value> {
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

/// Imports run one way; dev-dependencies are free.
fn imports(metadata: &Value, breaches: &mut Vec<String>) {
    let allowed: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    for package in packages(metadata).filter(|p| p["source"].is_null()) {
        let Some(name) = package["name"].as_str().and_then(ours) else { continue };
        let Some(may) = allowed.get(name) else {
            breaches.push(format!(
                "crate {name} is not in the house: add it to ARCHITECTURE.md and to tidy's table"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let imported = dependency["name"].as_str().and_then(ours);
            if let Some(imported) =
                imported.filter(|i| dependency["kind"].is_null() && !may.contains(i))
            {
                breaches.push(format!("crate {name} must not import {imported}"));
            }
        }
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

fn sources(dir: &Path, breaches: &mut Vec<String>) -> Result {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", dir.display()))?.path();
        // What our compilers are expected to write is written by nobody.
        if path.ends_with("tests/expect") {
            continue;
        }
        if path.is_dir() {
            sources(&path, breaches)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            source(&path, &text, breaches);
        }
    }
    Ok(())
}

fn source(path: &Path, text: &str, breaches: &mut Vec<String>) {
    let root = root();
    let name = path.strip_prefix(&root).unwrap_or(path).display().to_string();
    if !text.starts_with("//!") {
        breaches.push(format!("{name}: opens without `//!`"));
    }
    let lines = text.lines().count();
    if lines > FILE_LINES {
        breaches
            .push(format!("{name}: {lines} lines; more than {FILE_LINES} usually hold two things"));
    }
    let in_room =
        UNSAFE_ROOMS.iter().any(|room| name.starts_with(room)) || name.contains("/tests/");
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let is_unsafe = ["{", "fn", "impl", "extern"]
            .iter()
            .any(|what| code.contains(&format!("{UNSAFE} {what}")));
        if is_unsafe && !in_room {
            breaches.push(format!("{name}:{}: `unsafe` outside its rooms", number + 1));
        }
        let stub = ["todo!", "unimplemented!"].iter().any(|s| code.contains(&format!("{s}(")));
        if stub {
            breaches.push(format!("{name}:{}: a stub", number + 1));
        }
    }
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

    #[test]
    fn breaches_are_seen() {
        let path = root().join("crates/files/src/x.rs");
        let mut breaches = Vec::new();
        let block = format!("fn f() {{ {UNSAFE} {{ g() }} }}\n");
        source(&path, &format!("{block}// {UNSAFE} {{ in words }}\n"), &mut breaches);
        assert_eq!(breaches.len(), 2, "{breaches:?}");
        breaches.clear();
        source(
            &root().join("crates/device/src/sys/x.rs"),
            &format!("//! X\n{block}"),
            &mut breaches,
        );
        assert!(breaches.is_empty(), "{breaches:?}");
    }
}
