//! Builds the peers in C, where their tools are: asn1c, and libtirpc's headers.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=c");
    println!("cargo:rustc-check-cfg=cfg(asn1c)");
    println!("cargo:rustc-check-cfg=cfg(tirpc)");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    if asn1c(&out.join("asn1c")).is_some() {
        println!("cargo:rustc-cfg=asn1c");
    }
    if Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
        cc::Build::new()
            .opt_level(3)
            .file("c/tirpc.c")
            .include("/usr/include/tirpc")
            .compile("peertirpc");
        println!("cargo:rustc-link-lib=tirpc");
        println!("cargo:rustc-cfg=tirpc");
    }
}

/// The compiler's output, compiled.
fn asn1c(folder: &Path) -> Option<()> {
    std::fs::create_dir_all(folder).ok()?;
    let module = std::fs::canonicalize("c/perf.asn1").ok()?;
    let made = Command::new("asn1c")
        .arg("-fnative-types")
        .arg(module)
        .current_dir(folder)
        .output()
        .ok()?;
    if !made.status.success() {
        return None;
    }
    let mut build = cc::Build::new();
    for entry in std::fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        if path.extension().is_some_and(|e| e == "c") && !path.ends_with("converter-sample.c") {
            build.file(path);
        }
    }
    build.opt_level(3).warnings(false).include(folder).file("c/asn1c.c").compile("peerasn1c");
    Some(())
}
