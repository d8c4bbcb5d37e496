//! What is generated from published modules compiles without a warning, in every encoding: those of PKIX, CMS,
//! LDAP, the directory, message handling and biometrics, and P1 of 1984. `FUSEWIRE_WORLD=x420` takes that set of modules
//! only.

mod data;

use std::path::Path;
use std::process::Command;

use fusewire_asn1::rust::{Encoding, Generated, Options, generate};
use fusewire_asn1::{File, Source, check};

/// Beginnings of the names of files that are compiled together.
const WORLDS: [(&str, &[&str]); 5] = [
    ("ietf", &["ietf_"]),
    ("x420", &["itu-t_x_x419_1999", "itu-t_x_x420_1999"]),
    ("x894", &["itu-t_x_x894"]),
    ("x984", &["oasis_X9.84"]),
    (
        "x500",
        &[
            "itu-t_x_x509_2008_PKIX1Implicit93",
            "itu-t_x_x509_2012_PKIX1Implicit93",
            "itu-t_x_x509_2008_MTSAbstractService",
            "itu-t_x_x501_2019_LdapSystemSchema",
        ],
    ),
];

/// Writes a crate and lets the compiler look at it; what it says against it.
fn compiled(name: &str, modules: &[Generated]) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = folder.join("src");
    let _ = std::fs::remove_dir_all(&source);
    std::fs::create_dir_all(&source).expect("a folder");
    let codec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codec");
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\nfusewire-codec = {{ path = {codec:?} }}\n"
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    std::fs::copy(lock, folder.join("Cargo.lock")).expect("the lock file");
    let mut root = String::from("#![deny(warnings)]\n");
    for module in modules {
        root += &format!("pub mod {};\n", module.name);
        let file = module.name.trim_start_matches("r#");
        std::fs::write(source.join(format!("{file}.rs")), &module.text).expect("a file");
    }
    std::fs::write(source.join("lib.rs"), root).expect("a file");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["check", "--quiet", "--offline"])
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn options() -> Options {
    Options { encodings: Encoding::all(), ..Options::default() }
}

/// Compiles the modules of files that are right.
fn compile(name: &str, files: Vec<(String, Vec<u8>)>) {
    let checked = check(files.into_iter().map(|(n, bytes)| Source::new(n, &bytes)).collect());
    let right: Vec<&File> =
        (0..checked.files.len()).filter(|&f| checked.is_ok(f)).map(|f| &checked.files[f]).collect();
    let modules = generate(right, &options());
    let lines = modules.iter().map(|m| m.text.lines().count()).sum::<usize>();
    assert!(!modules.is_empty(), "no modules");
    let result = compiled(name, &modules);
    let names: Vec<_> = modules.iter().map(|m| m.name.as_str()).collect();
    println!("{name}: {} modules, {lines} lines of Rust: {}", modules.len(), names.join(" "));
    if let Err(told) = result {
        let end = told.char_indices().nth(6000).map_or(told.len(), |c| c.0);
        panic!("{name}: {} errors\n{}", told.matches("\nerror").count(), &told[..end]);
    }
}

#[test]
fn modules_of_pkix_ldap_cms_and_message_handling() {
    let Some(folder) = data::folder() else { return println!("no published modules: skipped") };
    let only = std::env::var("FUSEWIRE_WORLD").unwrap_or_else(|_| "all".to_owned());
    let files = data::files(&folder.join("modules"));
    for (world, beginnings) in WORLDS {
        if only != "all" && !only.split(' ').any(|o| o == world) {
            continue;
        }
        let is_of = |f: &&(String, _)| beginnings.iter().any(|b| f.0.starts_with(b));
        compile(world, files.iter().filter(is_of).cloned().collect());
    }
}

#[test]
fn every_spelling_of_p1() {
    let Some(folder) = data::folder() else { return println!("no published modules: skipped") };
    let mut files = data::files(&folder.join("p1"));
    files.extend(data::files(&folder.join("perf")).into_iter().filter(|f| f.0.ends_with("asn")));
    for (n, file) in files.into_iter().enumerate() {
        compile(&format!("p1-{n}"), vec![file]);
    }
}
