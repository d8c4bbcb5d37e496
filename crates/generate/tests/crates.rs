//! The crates that plans become: the examples' own, which are what the workspace builds, and what differs when one is
//! changed. `FUSEWIRE_UPDATE=1` writes them anew.

mod plans;

use std::path::{Path, PathBuf};

use fusewire_asn1::Source;
use fusewire_asn1::parser::File;
use fusewire_generate::Plan;
use fusewire_generate::rust::{self, CrateFile, Drift, Fusewire, Input};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn files(plan: &Plan) -> Vec<CrateFile> {
    let folder = examples().join(&plan.name);
    let read = |(id, name): (usize, &String)| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        File::parse(id, Source::new(name.clone(), &bytes))
    };
    let modules: Vec<File> = plan.asn1.iter().enumerate().map(read).collect();
    assert!(fusewire_asn1::diagnose(&modules).iter().all(|d| !d.is_error()));
    let specification = format!("{}.toml", plan.name);
    let input = Input {
        plan,
        modules: &modules,
        specification: &specification,
        explained: "",
        fusewire: Fusewire::Workspace,
    };
    rust::files(&input).unwrap()
}

#[test]
fn the_crates_of_the_examples_are_what_their_plans_become() {
    for plan in [plans::bulk(), plans::rpc()] {
        let (files, folder) = (files(&plan), examples().join(&plan.name).join("ends"));
        assert_eq!(files, self::files(&plan), "same plan, same bytes");
        if std::env::var_os("FUSEWIRE_UPDATE").is_some() {
            rust::write(&files, &folder).unwrap();
        }
        let drift = rust::drift(&files, &folder).unwrap();
        assert_eq!(drift, [], "{} is not up to date: FUSEWIRE_UPDATE=1 writes it", plan.name);
    }
}

#[test]
fn what_was_changed_is_found_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(&plans::bulk());
    rust::write(&files, folder.path()).unwrap();
    assert_eq!(rust::drift(&files, folder.path()).unwrap(), []);
    let lib = folder.path().join("src/lib.rs");
    let text = std::fs::read_to_string(&lib).unwrap();
    std::fs::write(&lib, text.replacen("//!\n", "//! Mine.\n", 1)).unwrap();
    std::fs::remove_file(folder.path().join("Cargo.toml")).unwrap();
    std::fs::write(folder.path().join("notes"), "the user's").unwrap();
    let changed = Drift::Differs { path: "src/lib.rs".into(), line: 2 };
    let drift = rust::drift(&files, folder.path()).unwrap();
    assert_eq!(drift, [Drift::Missing("Cargo.toml".into()), changed]);
}

#[test]
fn a_type_that_no_module_has_is_named() {
    let mut plan = plans::bulk();
    plan.adus[1].asn1.1 = "Nothing".into();
    let input = Input {
        plan: &plan,
        modules: &[],
        specification: "bulk.toml",
        explained: "",
        fusewire: Fusewire::Workspace,
    };
    let error = rust::files(&input).unwrap_err().to_string();
    assert!(error.contains("no module has a type `Bulk."), "{error}");
}

/// Generated code says nothing by `unsafe`, and keeps its lines short.
#[test]
fn generated_code_is_safe_and_small() {
    for plan in [plans::bulk(), plans::rpc()] {
        let files = files(&plan);
        let text = |path: &str| &files.iter().find(|f| f.path == Path::new(path)).unwrap().text;
        let lib = text("src/lib.rs");
        assert!(lib.contains("#![forbid(unsafe_code)]") && !lib.contains("unsafe {"));
        assert!(lib.lines().count() < 220, "{}", lib.lines().count());
    }
}
