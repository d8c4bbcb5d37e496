//! Builds the peers in C, where their tools are: asn1c, and libtirpc's headers.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=c");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    if let Some(mut files) = asn1c(&out.join("asn1c")) {
        files.push("c/asn1c.c".into());
        program("ASN1C_PEER", &files, &out.join("asn1c"), &["-lm"], &out.join("peer-asn1c"));
    }
    let headers = Path::new("/usr/include/tirpc");
    if headers.join("rpc/rpc.h").exists() {
        program("TIRPC_PEER", &["c/tirpc.c".into()], headers, &["-ltirpc"], &out.join("peer-tirpc"));
    }
}

/// A program from C; the peer finds its path in `variable`.
fn program(variable: &str, files: &[PathBuf], headers: &Path, libraries: &[&str], to: &Path) {
    let mut build = cc::Build::new();
    build.opt_level(3).warnings(false).include(headers).include("c");
    let mut command = build.get_compiler().to_command();
    command.args(files).arg("-o").arg(to).args(libraries);
    let built = command.status().expect("a C compiler");
    assert!(built.success(), "{command:?}");
    println!("cargo:rustc-env={variable}={}", to.display());
}

/// What the compiler writes.
fn asn1c(folder: &Path) -> Option<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).ok()?;
    let module = std::fs::canonicalize("c/perf.asn1").ok()?;
    let mut command = Command::new("asn1c");
    command.arg("-fnative-types").arg(module).current_dir(folder);
    if !command.output().ok()?.status.success() {
        return None;
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        if path.extension().is_some_and(|e| e == "c") && !path.ends_with("converter-sample.c") {
            files.push(path);
        }
    }
    Some(files)
}
